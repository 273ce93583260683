/* How the object begins in a process: it finds its folder, maps the counts, and takes itself out of the
 * environment, so that the program sees what it would see without it. */
#include "object.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

struct header *shared;
char object[4096];
size_t object_len;
bool filtered;
bool has_forked;
__thread int in_vfork __attribute__((tls_model("initial-exec")));

extern struct next __start_nexts[] __attribute__((visibility("hidden")));
extern struct next __stop_nexts[] __attribute__((visibility("hidden")));

/* A page that the kernel wipes in every child of fork, however that is made. */
static struct {
    uint32_t process; /* its number and 1 */
} *own;

/* What `own` held last: for a child that may not ask for its number. */
static uint32_t last_process;

void resolve(void **slot, const char *name)
{
    *slot = dlsym(RTLD_NEXT, name);
}

unsigned this_process(void)
{
    uint32_t known = __atomic_load_n(&own->process, __ATOMIC_RELAXED);
    if (__builtin_expect(known != 0, 1))
        return known - 1;
    if (filtered)
        return last_process - 1;
    uint64_t number = add(&shared->processes, 1);
    if (number >= PROCESSES)
        number = 0; /* all that find no room */
    else {
        all_processes[number].pid = (uint64_t)BARE(getpid, 0, 0, 0, 0);
        BARE(prctl, PR_GET_NAME, all_processes[number].name, 0, 0);
    }
    has_forked = has_forked || last_process != 0;
    last_process = (uint32_t)number + 1;
    __atomic_store_n(&own->process, last_process, __ATOMIC_RELAXED);
    return (unsigned)number;
}

/* Copies a path; the length without its end, 0 where it is too long. */
static size_t copied(char *to, const char *from, size_t room)
{
    size_t len = 0;
    while (from[len] && len < room) {
        to[len] = from[len];
        len++;
    }
    if (len == room)
        return 0;
    to[len] = 0;
    return len;
}

static void *mapped(const char *path)
{
    long fd = BARE(openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0)
        return NULL;
    long at = bare(SYS_mmap, 0, ALL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    BARE(close, fd, 0, 0, 0);
    return at < 0 && at > -4096 ? NULL : (void *)at;
}

/* Removes the object from the end of LD_PRELOAD; the variable too where there was none before. */
static void undress(char **environment)
{
    static const char variable[] = "LD_PRELOAD=";
    for (char **entry = environment; entry && *entry; entry++) {
        size_t len = 0, same = 0;
        while (variable[same] && (*entry)[same] == variable[same])
            same++;
        while ((*entry)[len])
            len++;
        if (variable[same] || len < same + object_len)
            continue;
        char *tail = *entry + len - object_len;
        size_t equal = 0;
        while (equal < object_len && tail[equal] == object[equal])
            equal++;
        if (equal < object_len)
            continue;
        if (tail[-1] == ':')
            tail[-1] = 0;
        else if (tail == *entry + same) {
            for (char **later = entry; *later; later++)
                later[0] = later[1];
            entry--;
        }
    }
}

__attribute__((constructor)) static void start(void)
{
    for (struct next *next = __start_nexts; next < __stop_nexts; next++)
        if (!*next->slot)
            resolve(next->slot, next->name);
    Dl_info info;
    if (!dladdr((void *)this_process, &info) || !info.dli_fname)
        return;
    object_len = copied(object, info.dli_fname, sizeof object);
    size_t folder = object_len;
    while (folder && object[folder - 1] != '/')
        folder--;
    char counts[sizeof object + 8];
    if (!folder || !copied(counts, object, sizeof counts) || !copied(counts + folder, "counts", 8))
        return;
    undress(environ);
    long page = bare(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct header *found = mapped(counts);
    if ((page < 0 && page > -4096) || !found || found->magic != MAGIC)
        return;
    BARE(madvise, page, 4096, MADV_WIPEONFORK, 0);
    own = (void *)page;
    add(&found->started, 1);
    shared = found;
    this_process();
}

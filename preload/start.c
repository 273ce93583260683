/* How the object begins in a process: it finds its folder, maps the counts, and takes itself out of the
 * environment, so that the program sees what it would see without it. */
#include "object.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

union hot_page hot_page __attribute__((aligned(4096)));
char object[4096];
size_t object_len;

extern struct next __start_nexts[] __attribute__((visibility("hidden")));
extern struct next __stop_nexts[] __attribute__((visibility("hidden")));

/* What is kept of it where nothing is wiped. */
static struct state kept;

/* A search for a name among what is loaded behind the object. */
struct search {
    const char *name;
    bool is_behind, is_found;
};

/* An address of a dynamic section: the loader has added the place of most libraries to it, not of all. */
static const void *address_in(const struct dl_phdr_info *info, uint64_t value)
{
    return (const void *)(value < info->dlpi_addr ? value + info->dlpi_addr : value);
}

/* Whether a library's table of names (DT_GNU_HASH) holds one; libraries without such a table may hold any. */
static bool may_export(const struct dl_phdr_info *info, const char *name)
{
    const ElfW(Dyn) *entry = NULL;
    const uint32_t *table = NULL;
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            entry = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_GNU_HASH)
            table = address_in(info, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_SYMTAB)
            symbols = address_in(info, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_STRTAB)
            names = address_in(info, entry->d_un.d_ptr);
    }
    if (!table || !symbols || !names)
        return true;
    uint32_t hash = 5381;
    for (const char *at = name; *at; at++)
        hash = hash * 33 + (unsigned char)*at;
    uint32_t buckets = table[0], first = table[1], blooms = table[2];
    if (!buckets)
        return false;
    const uint32_t *bucket = table + 4 + blooms * 2; /* of 64 bits each */
    const uint32_t *chain = bucket + buckets;
    for (uint32_t at = bucket[hash % buckets]; at >= first; at++) {
        const char *other = names + symbols[at].st_name, *own = name;
        while (*own && *own == *other)
            own++, other++;
        if (*own == *other && symbols[at].st_shndx != SHN_UNDEF)
            return true;
        if (chain[at - first] & 1)
            break;
    }
    return false;
}

static int look_in(struct dl_phdr_info *info, size_t size, void *arguments)
{
    (void)size;
    struct search *search = arguments;
    const char *own = (const char *)&kept;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uint64_t from = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && (uint64_t)own >= from && (uint64_t)own - from < part->p_memsz) {
            search->is_behind = true;
            return 0;
        }
    }
    search->is_found = search->is_behind && may_export(info, search->name);
    return search->is_found;
}

/* A name that nobody has is not asked for: the loader would keep its complaint in memory of the program's heap, which
 * then has other addresses than without the object. */
void resolve(void **slot, const char *name)
{
    struct search search = {name, false, false};
    dl_iterate_phdr(look_in, &search);
    *slot = search.is_found ? dlsym(RTLD_NEXT, name) : NULL;
}

uint32_t reserve_number(void)
{
    uint64_t number = add(&kept.memory->processes, 1);
    return number < PROCESSES ? (uint32_t)number : 0;
}

/* Gives this process a number of its own, the one that was reserved for it or another. */
static uint32_t entered(uint32_t number)
{
    if (!number && !(number = reserve_number()))
        return 0;
    struct process *process = (struct process *)((char *)kept.memory + PROCESSES_AT) + number;
    process->pid = (uint64_t)BARE(getpid, 0, 0, 0, 0);
    BARE(prctl, PR_GET_NAME, process->name, 0, 0);
    return number;
}

bool begin_in_child(uint32_t number)
{
    if (!kept.memory)
        return false;
    if (shared)
        return true;
    kept.has_forked = true;
    if (!kept.filtered)
        kept.process = entered(number);
    hot.copies_above = kept.copies_above;
    hot.copies_below = kept.copies_below;
    hot.process = kept.process;
    hot.filtered = kept.filtered;
    hot.has_forked = true;
    hot.shares_rows = kept.shares_rows;
    unlock_all();
    __atomic_store_n(&shared, kept.memory, __ATOMIC_RELEASE);
    return true;
}

void note_filter(void)
{
    if (is_watched()) {
        all_processes[hot.process].filtered = 1;
        kept.filtered = hot.filtered = true;
        /* from here on children keep the number, since taking another needs system calls */
        kept.shares_rows = hot.shares_rows = true;
    }
}

void note_beyond(enum beyond which)
{
    if (is_watched())
        __atomic_fetch_or(&shared->beyond, 1u << which, __ATOMIC_RELAXED);
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

/* The file of a program or library, of which fsprobe looks at the code. */
static int note_module(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    char own[1024];
    const char *name = info->dlpi_name ? info->dlpi_name : "";
    long len = 0;
    while (name[len])
        len++;
    if (!len && !hot.filtered) {
        /* the program itself */
        len = BARE(readlink, "/proc/self/exe", own, sizeof own, 0);
        name = own;
    }
    if (len <= 0 || name[0] != '/')
        return 0; /* no file: what the kernel lends */
    uint64_t key = 1;
    for (long i = 0; i < len; i++)
        key = (key ^ (unsigned char)name[i]) * 0x9e3779b97f4a7c15;
    key |= 1;
    for (unsigned probe = 0; probe < 16; probe++) {
        struct module *module = &all_modules[((key >> 40) + probe) & (MODULES - 1)];
        uint64_t found = 0;
        if (__atomic_compare_exchange_n(&module->key, &found, key, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            module->name_at = keep_name(name, (size_t)len);
            module->name_len = (uint64_t)len;
            __atomic_store_n(&module->ready, 1, __ATOMIC_RELEASE);
            return 0;
        }
        if (found == key)
            return 0;
    }
    add(&shared->lost_modules, 1);
    return 0;
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
void undress(char **environment)
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
        if (tail[-1] == ':') {
            tail[-1] = 0;
            entry--; /* a program started while popen had it there has it twice */
        } else if (tail == *entry + same) {
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
    if (!dladdr((void *)begin_in_child, &info) || !info.dli_fname)
        return;
    object_len = copied(object, info.dli_fname, sizeof object);
    size_t folder = object_len;
    while (folder && object[folder - 1] != '/')
        folder--;
    char counts[sizeof object + 8];
    if (!folder || !copied(counts, object, sizeof counts) || !copied(counts + folder, "counts", 8))
        return;
    look_at_realloc();
    undress(environ);
    struct header *found = mapped(counts);
    if (!found || found->magic != MAGIC)
        return;
    /* Where nothing is wiped (before Linux 4.14), children may go on with this process's number. */
    kept.shares_rows = BARE(madvise, &hot_page, sizeof hot_page, MADV_WIPEONFORK, 0) < 0;
    add(&found->started, 1);
    kept.memory = found;
    kept.copies_above = found->memcpy_above;
    kept.copies_below = found->memcpy_below;
    kept.process = entered(0);
    hot = kept;
    dl_iterate_phdr(note_module, NULL);
}

/* The number behind a word at the start of a line. */
static uint64_t number_behind(const char *text, const char *word)
{
    for (const char *line = text; *line; line++) {
        size_t same = 0;
        while (word[same] && line[same] == word[same])
            same++;
        if (!word[same]) {
            uint64_t number = 0;
            for (line += same; *line >= '0' && *line <= '9'; line++)
                number = number * 10 + (uint64_t)(*line - '0');
            return number;
        }
        while (*line && *line != '\n')
            line++;
        if (!*line)
            break;
    }
    return 0;
}

static uint64_t nanoseconds(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_usec * 1000;
}

/* What the kernel counted for the process and those that it waited for: nobody else may ask once it has ended. */
void note_end(void)
{
    if (!is_watched() || hot.filtered || hot.vforks || !hot.process)
        return;
    char text[256];
    long fd = BARE(openat, AT_FDCWD, "/proc/self/io", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return;
    long len = BARE(read, fd, text, sizeof text - 1, 0);
    BARE(close, fd, 0, 0, 0);
    if (len <= 0)
        return;
    text[len] = 0;
    struct process *process = &all_processes[hot.process];
    process->read = number_behind(text, "rchar: ");
    process->written = number_behind(text, "wchar: ");
    struct rusage usage;
    if (BARE(getrusage, RUSAGE_SELF, &usage, 0, 0) == 0) {
        process->user_ns = nanoseconds(usage.ru_utime);
        process->system_ns = nanoseconds(usage.ru_stime);
    }
    __atomic_store_n(&process->has_ended, 1, __ATOMIC_RELEASE);
}

/* Libraries may have been loaded since. */
__attribute__((destructor)) static void end(void)
{
    if (!is_watched())
        return;
    dl_iterate_phdr(note_module, NULL);
    note_end();
}

/* Both end without the destructors. */
EXPORT void _exit(int status)
{
    note_end();
    for (;;)
        BARE(exit_group, status, 0, 0, 0);
}
EXPORT void _Exit(int status)
{
    _exit(status);
}

/* What descriptors lead to, looked up once and remembered until they are closed or put in another's place.
 *
 * Whatever in the C library closes a descriptor that a program has used is here or in filter.c. As a check
 * on what goes past it (system calls of a program's own), some uses are looked up again. */
#include "object.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* A file's word: flags, its number at FILE_SHIFT, and half a hash of what fstat says at 32. */
struct remembered remembered[REMEMBERED];

static uint64_t mixed(uint64_t hash, uint64_t with)
{
    hash = (hash ^ with) * 0x9e3779b97f4a7c15;
    return hash ^ hash >> 29;
}

static uint64_t identity(const struct stat *stat)
{
    return mixed(mixed(mixed(1, stat->st_dev), stat->st_ino), stat->st_mode & S_IFMT);
}

/* What /proc says the descriptor's name is; without one where it has none. */
static size_t name_of(int fd, char *name, size_t room)
{
    char link[32] = "/proc/self/fd/";
    size_t end = 14, digits = 1;
    for (int rest = fd; rest > 9; rest /= 10)
        digits++;
    for (size_t i = digits; i-- > 0; fd /= 10)
        link[end + i] = (char)('0' + fd % 10);
    long len = BARE(readlink, link, name, room, 0);
    return len > 0 && name[0] == '/' ? (size_t)len : 0;
}

/* Room for one long name at a time: signal handlers may have next to no stack. Who finds it taken cuts names. */
static char long_name[4096];
static char is_taken;

static unsigned entry_of(int fd, const struct stat *stat, int flags, char *name, size_t room);

/* The number of a file's entry. */
static unsigned number_for(int fd, const struct stat *stat, int flags)
{
    char short_name[256];
    if (__atomic_test_and_set(&is_taken, __ATOMIC_ACQUIRE))
        return entry_of(fd, stat, flags, short_name, sizeof short_name);
    unsigned number = entry_of(fd, stat, flags, long_name, sizeof long_name);
    __atomic_clear(&is_taken, __ATOMIC_RELEASE);
    return number;
}

/* The same, made where there is none; `name` is room. */
static unsigned entry_of(int fd, const struct stat *stat, int flags, char *name, size_t room)
{
    size_t len = 0;
    bool is_regular = S_ISREG(stat->st_mode);
    bool is_direct = flags & O_DIRECT && (is_regular || S_ISBLK(stat->st_mode));
    uint64_t key = mixed(2, stat->st_mode & S_IFMT);
    if (!S_ISFIFO(stat->st_mode) && !S_ISSOCK(stat->st_mode)) {
        len = name_of(fd, name, room);
        key = mixed(mixed(identity(stat), is_direct), len);
        for (size_t i = 0; i < len; i++)
            key = mixed(key, (unsigned char)name[i]);
    }
    key |= 1;
    for (unsigned probe = 0; probe < 64; probe++) {
        unsigned number = (unsigned)((key >> 20) + probe) & (FILES - 1);
        if (number < FIRST_FILE)
            continue;
        struct file *file = &all_files[number];
        uint64_t found = 0;
        if (__atomic_compare_exchange_n(&file->key, &found, key, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            struct statfs system = {0};
            if (is_regular)
                BARE(fstatfs, fd, &system, 0, 0);
            file->mode = stat->st_mode;
            file->system = (uint64_t)system.f_type;
            file->direct = is_direct;
            file->name_at = keep_name(name, len);
            file->name_len = len;
            __atomic_store_n(&file->ready, 1, __ATOMIC_RELEASE);
            return number;
        }
        if (found == key)
            return number;
    }
    add(&shared->lost_files, 1);
    return NO_ROOM;
}

static uint64_t looked_up(int fd)
{
    struct stat stat;
    if (BARE(fstat, fd, &stat, 0, 0) < 0)
        return KNOWN | NO_ROOM << FILE_SHIFT;
    long flags = BARE(fcntl, fd, F_GETFL, 0, 0);
    flags = flags < 0 ? 0 : flags;
    uint64_t word = KNOWN | (uint64_t)number_for(fd, &stat, (int)flags) << FILE_SHIFT;
    if (S_ISREG(stat.st_mode) || S_ISBLK(stat.st_mode))
        word |= REGULAR;
    if (flags & O_APPEND)
        word |= APPENDS;
    return word | identity(&stat) >> 32 << 32;
}

static bool is_still(int fd, uint64_t word)
{
    struct stat stat;
    return BARE(fstat, fd, &stat, 0, 0) < 0 || identity(&stat) >> 32 == word >> 32;
}

uint64_t file_at_length(int fd)
{
    bool may_remember = fd >= 0 && fd < REMEMBERED && !hot.vforks;
    uint64_t word = may_remember ? __atomic_load_n(&remembered[fd].word, __ATOMIC_RELAXED) : 0;
    if (hot.filtered)
        return word ? word : KNOWN | NO_ROOM << FILE_SHIFT;
    if (word && is_still(fd, word))
        return word;
    if (word)
        add(&shared->stale, 1);
    if (fd < 0)
        return KNOWN | NO_ROOM << FILE_SHIFT;
    word = looked_up(fd);
    if (may_remember && number_of(word) != NO_ROOM)
        __atomic_store_n(&remembered[fd].word, word, __ATOMIC_RELAXED);
    return word;
}

void forget(int fd)
{
    if (fd >= 0 && fd < REMEMBERED)
        __atomic_store_n(&remembered[fd].word, 0, __ATOMIC_RELAXED);
}

void forget_range(unsigned first, unsigned last)
{
    for (unsigned fd = first; fd <= last && fd < REMEMBERED; fd++)
        forget((int)fd);
}

/* ---- what ends a descriptor or turns it to another file: forgotten before, since whoever uses one while it
 * is being closed is lost anyway, and whoever gets its number afterwards is not. ---- */

NEXT(close);
NEXT(dup2);
NEXT(dup3);
NEXT(fclose);
NEXT(fcloseall);
NEXT(closedir);
NEXT(freopen);
NEXT(freopen64);
NEXT_AS(close_range, int(unsigned, unsigned, int));
NEXT_AS(closefrom, void(int));
NEXT(fcntl);
NEXT(fcntl64);

EXPORT int close(int fd)
{
    forget(fd);
    return CALL(close)(fd);
}
ALSO(int, __close, close, int);

EXPORT int dup2(int from, int to)
{
    if (from != to)
        forget(to);
    return CALL(dup2)(from, to);
}

EXPORT int __dup2(int, int);
int __dup2(int from, int to)
{
    return dup2(from, to);
}

EXPORT int dup3(int from, int to, int flags)
{
    forget(to);
    return CALL(dup3)(from, to, flags);
}

EXPORT int fclose(FILE *stream)
{
    forget(stream->_fileno);
    return CALL(fclose)(stream);
}

EXPORT int fcloseall(void)
{
    forget_range(0, REMEMBERED);
    return CALL(fcloseall)();
}

/* Under a name of its own here, since the header promises what the C library does not ask for: no null. */
EXPORT int close_folder(DIR *) __asm__("closedir");
int close_folder(DIR *folder)
{
    if (folder)
        forget(dirfd(folder));
    return CALL(closedir)(folder);
}

EXPORT FILE *freopen(const char *path, const char *mode, FILE *stream)
{
    forget(stream->_fileno);
    FILE *result = CALL(freopen)(path, mode, stream);
    if (result)
        forget(result->_fileno);
    return result;
}

EXPORT FILE *freopen64(const char *path, const char *mode, FILE *stream)
{
    forget(stream->_fileno);
    FILE *result = CALL(freopen64)(path, mode, stream);
    if (result)
        forget(result->_fileno);
    return result;
}

/* Missing before glibc 2.34. */
EXPORT int close_range(unsigned first, unsigned last, int flags)
{
    forget_range(first, last);
    if (CALL(close_range))
        return next_close_range(first, last, flags);
    long result = BARE(close_range, first, last, flags, 0);
    if (result < 0)
        errno = (int)-result;
    return result < 0 ? -1 : 0;
}

EXPORT void closefrom(int first)
{
    forget_range(first < 0 ? 0 : (unsigned)first, REMEMBERED);
    if (CALL(closefrom)) {
        next_closefrom(first);
        return;
    }
    if (BARE(close_range, first < 0 ? 0 : first, ~0u, 0, 0) < 0)
        for (int fd = first < 0 ? 0 : first; fd < 65536; fd++)
            BARE(close, fd, 0, 0, 0);
}

/* F_SETFL may turn O_DIRECT or O_APPEND on. */
#define CONTROL(name) \
    EXPORT int name(int fd, int command, ...) \
    { \
        va_list rest; \
        va_start(rest, command); \
        void *argument = va_arg(rest, void *); \
        va_end(rest); \
        if (command == F_SETFL) \
            forget(fd); \
        return CALL(name)(fd, command, argument); \
    }
CONTROL(fcntl)
CONTROL(fcntl64)
ALSO(int, __fcntl, fcntl, int, int, ...);

/* What the object's files share. Everything here may run in a signal handler and between vfork and exec:
 * no lock, no allocation, errno untouched (system calls of its own are made bare). */
#ifndef PRELOAD_OBJECT_H
#define PRELOAD_OBJECT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "shared.h"
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>

#define EXPORT __attribute__((visibility("default")))
/* The same function under a further name of the C library's. */
#define ALSO(type, name, of, ...) EXPORT type name(__VA_ARGS__) __attribute__((alias(#of)))

/* The next definition of a function: resolved by the constructor, or by a call that comes before it. */
struct next {
    void **slot;
    const char *name;
};
void resolve(void **slot, const char *name);
#define NEXT_AS(name, type) \
    static __typeof__(type) *next_##name; \
    static struct next entry_##name __attribute__((section("nexts"), used)) = {(void **)&next_##name, #name}
#define NEXT(name) NEXT_AS(name, __typeof__(name))
#define CALL(name) (next_##name ? next_##name : (resolve((void **)&next_##name, #name), next_##name))

/* What nearly every call looks at, on a page that the kernel wipes in every child, however that is made. */
struct state {
    struct header *memory; /* null until the process has begun, and where there is no memory to share */
    uint64_t copies_above, copies_below;
    uint32_t process; /* its number */
    int vforks;       /* vfork children that use this memory: their descriptors are their own */
    bool filtered;    /* the program has put a filter before its system calls: none may be added from here on */
    bool has_forked;  /* other processes may share this one's open files */
    bool shares_rows; /* other processes may count in this one's rows */
};
extern union hot_page {
    struct state state;
    char page[4096];
} hot_page;
#define hot (hot_page.state)
#define shared (hot.memory)

/* start.c: a number for a process, 0 where all are taken. */
uint32_t reserve_number(void);
/* Begins again in a child, with a number that was reserved or 0; false where there is nothing to begin with. */
bool begin_in_child(uint32_t number);
/* The process ends now. */
void note_end(void);
/* From here on no system call may be added to the program's own. */
void note_filter(void);
/* A call was made that may copy and is not counted. */
void note_beyond(enum beyond which);

#define LIKELY(condition) __builtin_expect(!!(condition), 1)

/* Whether calls are to be counted: the first thing that each asks. */
static inline bool is_watched(void)
{
    return LIKELY(shared) || begin_in_child(0);
}

#define all_processes ((struct process *)((char *)shared + PROCESSES_AT))
#define all_files ((struct file *)((char *)shared + FILES_AT))
#define all_strangers ((struct stranger *)((char *)shared + STRANGERS_AT))
#define all_modules ((struct module *)((char *)shared + MODULES_AT))
#define all_names ((char *)shared + NAMES_AT)
#define all_rows ((struct row *)((char *)shared + ROWS_AT))

/* The object's own path. */
extern char object[4096];
extern size_t object_len;

/* A bare system call; errors as negative numbers. */
static inline long bare(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#define BARE(name, a, b, c, d) bare(SYS_##name, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

/* Whether the process has but one thread, as far as the C library knows. */
extern char __libc_single_threaded __attribute__((weak));
static inline bool alone(void)
{
    return &__libc_single_threaded && __libc_single_threaded;
}

/* Adds for all processes at once. */
static inline uint64_t add(uint64_t *to, uint64_t n)
{
    return __atomic_fetch_add(to, n, __ATOMIC_SEQ_CST);
}

/* count.c */
void count_copy(enum call call, unsigned file, unsigned distance, const void *buffer, size_t len, bool first);
void count_end(enum call call, unsigned file, enum kind kind);
uint64_t keep_name(const char *name, size_t len);

/* memory.c: whether realloc is the C library's own. */
void look_at_realloc(void);

/* spawn.c: in a child, nobody holds a lock of another thread's. */
void unlock_all(void);
/* start.c: removes the object from LD_PRELOAD. */
void undress(char **environment);

/* files.c: what a descriptor leads to, as one word. */
#define KNOWN 1u
#define REGULAR 2u  /* a file or block device, which has a position */
#define APPENDS 4u
#define FILE_SHIFT 8

/* Descriptors that are remembered; those above are looked up each time. */
#define REMEMBERED 16384
/* How often a remembered one is looked up all the same. */
#define LOOK_AGAIN 256
struct remembered {
    uint64_t word; /* 0: not known */
    uint64_t uses;
};
extern struct remembered remembered[REMEMBERED];
uint64_t file_at_length(int fd);

static inline uint64_t file_of(int fd)
{
    if (LIKELY((unsigned)fd < REMEMBERED && !hot.vforks)) {
        struct remembered *known = &remembered[fd];
        uint64_t word = __atomic_load_n(&known->word, __ATOMIC_RELAXED);
        if (LIKELY(word && ++known->uses % LOOK_AGAIN))
            return word;
    }
    return file_at_length(fd);
}

void forget(int fd);
void forget_range(unsigned first, unsigned last);
static inline unsigned number_of(uint64_t file)
{
    return (file >> FILE_SHIFT) & (FILES - 1);
}

/* Where a call reads or writes. */
struct place {
    uint64_t file;
    int64_t position; /* in the file; negative where it is not known or there is none */
    bool is_own;      /* the descriptor's own position, which moves */
};
static inline int64_t position_of(int fd)
{
    return hot.filtered ? -1 : BARE(lseek, fd, 0, 1 /* SEEK_CUR */, 0);
}

/* `offset` negative: the descriptor's own position. */
static inline struct place place_of(int fd, int64_t offset)
{
    struct place place = {file_of(fd), -1, offset < 0};
    if (place.file & REGULAR)
        place.position = offset < 0 ? position_of(fd) : offset;
    return place;
}

/* The distance of a copy between a buffer and the position in a file. */
static inline unsigned distance_of(bool from_file, const void *buffer, int64_t position)
{
    if (position < 0)
        return NO_DISTANCE;
    uint64_t ahead = (uint64_t)(uintptr_t)buffer - (uint64_t)position;
    return (from_file ? ahead : -ahead) & 4095;
}

/* exec.c: whether a program can be started with the object, and why not. */
enum why watchable(const char *path);
enum why watchable_by_name(const char *name);
/* Adds the object to an environment; `room` has slots for it and `text` bytes. */
size_t slots_for(char *const *environment);
size_t text_for(char *const *environment);
char **dressed(char *const *environment, char **room, char *text);
/* A program is about to be started with the object: false where it must be without. */
bool begin(enum why why, const char *name);
void begin_failed(void);

#endif

/*
 * The yardstick: what a bare loop measures, without anything of fsprobe.
 *
 * Copies 64 KiB from a page-cached file, or from other memory, into memory at every page offset 0..4096, in randomised
 * blocks, each on another page of the memory and of the file, pinned to one CPU. Prints the
 * samples as CSV (dst,src,len,ns0,...), which `fsprobe sweep --simulate FILE.csv` replays; the last
 * line is a comment that tells what the loop itself cost.
 *
 * Usage: offsets pread|read|rep-movsb FILE CPU ROUNDS SEED
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    LEN = 64 << 10,
    OFFSETS = PAGE + 1,
    START_PAGES = 64,
    /* the last start page at the last offset, and the copy behind it */
    POOL = (START_PAGES - 1) * PAGE + PAGE + LEN,
    MOST_CPUS = 8192,
    MOST_ROUNDS = 4096,
};

/* One way to read: into `to` from `position` of `file`; stores the nanoseconds it took. */
typedef uint64_t copy_path(int file, char *to, off_t position);

static void fail(const char *what)
{
    fprintf(stderr, "offsets: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void refuse(const char *why)
{
    fprintf(stderr, "offsets: %s\n", why);
    exit(2);
}

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Sebastiano Vigna's splitmix64: enough for shuffles. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Whether a call has to be repeated; ends the program where it failed or the file ended. */
static int again(const char *call, ssize_t got)
{
    if (got > 0)
        return 0;
    if (got == 0)
        refuse("the file became shorter");
    if (errno != EINTR)
        fail(call);
    return 1;
}

static uint64_t by_pread(int file, char *to, off_t position)
{
    uint64_t before = now_ns();
    for (size_t done = 0; done < LEN;) {
        ssize_t got = pread(file, to + done, LEN - done, position + (off_t)done);
        if (!again("pread", got))
            done += (size_t)got;
    }
    return now_ns() - before;
}

/* The seek stays outside of the sample. */
static uint64_t by_read(int file, char *to, off_t position)
{
    if (lseek(file, position, SEEK_SET) < 0)
        fail("lseek");
    uint64_t before = now_ns();
    for (size_t done = 0; done < LEN;) {
        ssize_t got = read(file, to + done, LEN - done);
        if (!again("read", got))
            done += (size_t)got;
    }
    return now_ns() - before;
}

/* What rep-movsb copies from, in place of the file. */
static char *own_source;

static uint64_t by_rep_movsb(int file, char *to, off_t position)
{
    const char *from = own_source + position;
    size_t left = LEN;
    (void)file;
    uint64_t before = now_ns();
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(left) : : "memory");
    return now_ns() - before;
}

static uint64_t number(const char *text, uint64_t least, uint64_t most, const char *name)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-' || value < least || value > most) {
        fprintf(stderr, "offsets: %s '%s' is not a number from %" PRIu64 " to %" PRIu64 "\n", name,
                text, least, most);
        exit(2);
    }
    return value;
}

static void pin(size_t cpu)
{
    cpu_set_t *set = CPU_ALLOC(MOST_CPUS);
    size_t size = CPU_ALLOC_SIZE(MOST_CPUS);
    if (!set)
        fail("CPU_ALLOC");
    CPU_ZERO_S(size, set);
    CPU_SET_S(cpu, size, set);
    if (sched_setaffinity(0, size, set))
        fail("cannot pin to that CPU");
    CPU_FREE(set);
}

/* Memory on pages of 4 KiB, faulted in. */
static char *make_pool(void)
{
    char *pool = mmap(NULL, POOL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pool == MAP_FAILED)
        fail("mmap");
    /* refused by kernels without transparent huge pages, which is just as well */
    (void)madvise(pool, POOL, MADV_NOHUGEPAGE);
    memset(pool, 0xa5, POOL);
    return pool;
}

/* Opens the file, reads it into the page cache, and tells how many pages a copy can start on. */
static int open_source(const char *name, char *scratch, uint64_t *start_pages)
{
    struct stat meta;
    int file = open(name, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        fail(name);
    if (fstat(file, &meta))
        fail(name);
    if (!S_ISREG(meta.st_mode) || meta.st_size < LEN)
        refuse("the source is no regular file of at least 64 KiB");
    *start_pages = (uint64_t)(meta.st_size - LEN) / PAGE + 1;
    for (off_t position = 0; position + LEN <= meta.st_size; position += LEN)
        by_pread(file, scratch, position);
    return file;
}

/* One visit to every offset in a fresh order; `ns` has room for one sample an offset. */
static void block(copy_path *copy, int file, char *start, off_t position, uint16_t *order,
                  uint64_t *ns, uint64_t *random)
{
    for (size_t i = OFFSETS - 1; i > 0; i--) {
        size_t j = next_random(random) % (i + 1);
        uint16_t held = order[i];
        order[i] = order[j];
        order[j] = held;
    }
    for (size_t i = 0; i < OFFSETS; i++)
        ns[order[i]] = copy(file, start + order[i], position);
}

static void print(const uint64_t *samples, size_t rounds)
{
    printf("dst,src,len");
    for (size_t round = 0; round < rounds; round++)
        printf(",ns%zu", round);
    for (size_t dst = 0; dst < OFFSETS; dst++) {
        printf("\n%zu,0,%d", dst, LEN);
        for (size_t round = 0; round < rounds; round++)
            printf(",%" PRIu64, samples[round * OFFSETS + dst]);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    static uint16_t order[OFFSETS];
    if (argc != 6)
        refuse("usage: offsets pread|read|rep-movsb FILE CPU ROUNDS SEED");
    copy_path *copy = !strcmp(argv[1], "pread")       ? by_pread
                      : !strcmp(argv[1], "read")      ? by_read
                      : !strcmp(argv[1], "rep-movsb") ? by_rep_movsb
                                                      : NULL;
    if (!copy)
        refuse("the copy path is pread, read or rep-movsb");
    pin(number(argv[3], 0, MOST_CPUS - 1, "CPU"));
    size_t rounds = number(argv[4], 1, MOST_ROUNDS, "ROUNDS");
    uint64_t random = number(argv[5], 0, UINT64_MAX, "SEED");

    uint64_t start_pages;
    char *pool = make_pool();
    int file = open_source(argv[2], pool, &start_pages);
    if (copy == by_rep_movsb) {
        own_source = make_pool();
        start_pages = START_PAGES;
    }
    /* one row more than is printed: the first round warms up and is thrown away */
    uint64_t *samples = calloc((rounds + 1) * OFFSETS, sizeof *samples);
    if (!samples)
        fail("calloc");
    for (size_t i = 0; i < OFFSETS; i++)
        order[i] = (uint16_t)i;

    uint64_t began = 0, copied = 0;
    for (size_t round = 0; round <= rounds; round++) {
        if (round == 1)
            began = now_ns();
        char *start = pool + next_random(&random) % START_PAGES * PAGE;
        off_t position = (off_t)(next_random(&random) % start_pages * PAGE);
        block(copy, file, start, position, order, samples + round * OFFSETS, &random);
    }
    uint64_t wall = now_ns() - began;

    for (size_t i = OFFSETS; i < (rounds + 1) * OFFSETS; i++)
        copied += samples[i];
    print(samples + OFFSETS, rounds);
    printf("# copied_ns=%" PRIu64 " wall_ns=%" PRIu64 "\n", copied, wall);
    if (fflush(stdout) || ferror(stdout))
        fail("cannot write");
    free(samples);
    munmap(pool, POOL);
    close(file);
    return 0;
}

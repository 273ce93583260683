/*
 * The yardstick of `fsprobe pipe`: bare loops for three of its rungs, without anything of fsprobe.
 *
 * Forks a writer and a reader, pins each, lets them meet in shared memory, sends BYTES through a pipe, and prints the
 * nanoseconds from the first start to the last byte's arrival. Buffers and pipe are as in fsprobe: the writer of
 * write-read has one buffer, that of vmsplice so many that no page is sent again while the pipe may hold it.
 *
 * Usage: pipe write-read|vmsplice-splice|vmsplice-splice-busy BUFFER PIPE BYTES WRITER_CPU READER_CPU
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What the two processes share, each number on cache lines of its own. */
struct shared {
    _Alignas(128) _Atomic uint64_t at[2];
    _Alignas(128) uint64_t began[2];
    _Alignas(128) uint64_t ended;
};

static const char *rung;
static size_t buffer, capacity;
static uint64_t total;
static int cpus[2];
static int is_splice, is_busy;

static void fail(const char *what)
{
    fprintf(stderr, "pipe: %s: %s\n", what, strerror(errno));
    exit(2);
}

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        fail("sched_setaffinity");
}

static char *memory(size_t len)
{
    char *start = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        fail("mmap");
    madvise(start, len, MADV_NOHUGEPAGE);
    memset(start, 'X', len);
    return start;
}

static void never_wait(int fd)
{
    if (is_busy && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
        fail("fcntl");
}

static uint64_t meet(struct shared *shared, int own)
{
    atomic_store(&shared->at[own], 1);
    while (!atomic_load(&shared->at[!own]))
        if (cpus[0] == cpus[1])
            sched_yield();
    return shared->began[own] = now_ns();
}

/* Whether a call has to be repeated; ends the process where it failed for good. */
static int again(ssize_t moved, const char *call)
{
    if (moved > 0)
        return 0;
    if (moved == 0 || (errno != EAGAIN && errno != EINTR))
        fail(call);
    if (is_busy && cpus[0] == cpus[1])
        sched_yield();
    return 1;
}

static void writer(struct shared *shared, int pipe)
{
    size_t count = is_splice ? (capacity + buffer - 1) / buffer + 1 : 1, turn = 0;
    char *start = memory(count * buffer);
    pin(cpus[0]);
    never_wait(pipe);
    meet(shared, 0);
    for (uint64_t sent = 0; sent < total;) {
        struct iovec part = { start + turn * buffer, total - sent < buffer ? total - sent : buffer };
        turn = (turn + 1) % count;
        sent += part.iov_len;
        while (part.iov_len > 0) {
            ssize_t moved = is_splice ? vmsplice(pipe, &part, 1, is_busy ? SPLICE_F_NONBLOCK : 0)
                                      : write(pipe, part.iov_base, part.iov_len);
            if (again(moved, is_splice ? "vmsplice" : "write"))
                continue;
            part.iov_base = (char *)part.iov_base + moved;
            part.iov_len -= (size_t)moved;
        }
    }
}

static void reader(struct shared *shared, int pipe)
{
    char *start = memory(buffer);
    int null = open("/dev/null", O_WRONLY);
    if (null < 0)
        fail("/dev/null");
    pin(cpus[1]);
    never_wait(pipe);
    meet(shared, 1);
    for (uint64_t taken = 0; taken < total;) {
        size_t len = total - taken < buffer ? total - taken : buffer;
        ssize_t moved = is_splice ? splice(pipe, NULL, null, NULL, len, is_busy ? SPLICE_F_NONBLOCK : 0)
                                  : read(pipe, start, len);
        if (!again(moved, is_splice ? "splice" : "read"))
            taken += (uint64_t)moved;
    }
    shared->ended = now_ns();
}

static pid_t start(void (*side)(struct shared *, int), struct shared *shared, int own, int other)
{
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0) {
        close(other);
        side(shared, own);
        _exit(0);
    }
    return child;
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: pipe write-read|vmsplice-splice|vmsplice-splice-busy BUFFER PIPE BYTES CPU CPU\n");
        return 2;
    }
    rung = argv[1];
    buffer = strtoull(argv[2], NULL, 0);
    capacity = strtoull(argv[3], NULL, 0);
    total = strtoull(argv[4], NULL, 0);
    cpus[0] = atoi(argv[5]);
    cpus[1] = atoi(argv[6]);
    is_busy = strcmp(rung, "vmsplice-splice-busy") == 0;
    is_splice = is_busy || strcmp(rung, "vmsplice-splice") == 0;

    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ends[2];
    if (shared == MAP_FAILED || pipe2(ends, O_CLOEXEC))
        fail("pipe");
    if (fcntl(ends[1], F_SETPIPE_SZ, (int)capacity) < 0)
        fail("F_SETPIPE_SZ");
    start(writer, shared, ends[1], ends[0]);
    start(reader, shared, ends[0], ends[1]);
    close(ends[0]);
    close(ends[1]);
    for (int child = 0; child < 2; child++) {
        int status;
        if (wait(&status) < 0 || status != 0)
            return 2;
    }
    uint64_t began = shared->began[0] < shared->began[1] ? shared->began[0] : shared->began[1];
    printf("%" PRIu64 "\n", shared->ended - began);
    return 0;
}

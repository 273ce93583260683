/* Copies at known offsets, in the ways that tests/trace_ptrace.rs names: copies WAY FILE. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static char memory[1 << 20] __attribute__((aligned(4096)));
static const char *own, *name;

#define AT(offset) (memory + 4096 + (offset))

/* Ends with a message unless what it says is so. */
#define IS(what)                                                  \
    do {                                                          \
        if (!(what)) {                                            \
            fprintf(stderr, "%d: %s (%m)\n", __LINE__, #what);    \
            _exit(99);                                            \
        }                                                         \
    } while (0)

static int opened(int flags)
{
    int fd = open(name, flags | O_CREAT, 0600);
    IS(fd >= 0);
    return fd;
}

static void some_preads(int count)
{
    int fd = opened(O_RDONLY);
    for (int i = 0; i < count; i++)
        IS(pread(fd, AT(8), 4096, 4096 * (i % 4)) == 4096);
    close(fd);
}

static void reads(void)
{
    int fd = opened(O_RDONLY);
    IS(lseek(fd, 100, SEEK_SET) == 100);
    IS(read(fd, AT(0x10), 5000) == 5000);
    IS(read(fd, AT(0x10), 5000) == 5000);
    struct iovec parts[3] = {{AT(1), 100}, {AT(2), 0}, {AT(3), 5000}};
    IS(readv(fd, parts, 3) == 5100);            /* from 10100 */
    IS(preadv(fd, parts, 3, 65536 - 200) == 200); /* the end of the file comes first */
    IS(preadv2(fd, parts, 1, 7, 0) == 100);
    IS(preadv2(fd, parts, 1, -1, 0) == 100); /* from 15200 */
    IS(pread(fd, AT(8), 4096, 4096) == 4096);
    IS(read(-1, AT(0), 1) == -1 && errno == EBADF);
    IS(pread(fd, AT(8), 10, 1 << 20) == 0);
    close(fd);
}

static void writes(void)
{
    int fd = opened(O_WRONLY | O_TRUNC);
    struct iovec parts[2] = {{AT(5), 1000}, {AT(6), 2000}};
    IS(write(fd, AT(0x10), 4000) == 4000);
    IS(writev(fd, parts, 2) == 3000); /* from 4000 */
    IS(pwrite(fd, AT(0x20), 100, 50) == 100);
    IS(pwritev(fd, parts, 2, 0x1003) == 3000);
    IS(pwritev2(fd, parts, 1, -1, 0) == 1000);           /* from 7000 */
    IS(pwritev2(fd, parts, 1, 3, RWF_APPEND) == 1000); /* from 8000, whatever it says */
    close(fd);
    fd = opened(O_WRONLY | O_APPEND); /* 9000 bytes long */
    IS(write(fd, AT(0), 300) == 300);
    IS(write(fd, AT(0), 300) == 300);
    IS(pwrite(fd, AT(0), 300, 0) == 300); /* from 9600, too */
    close(fd);
}

static void messages(void)
{
    int ends[2];
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    struct iovec parts[2] = {{AT(7), 100}, {AT(9), 900}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    IS(send(ends[0], AT(0x30), 500, 0) == 500);
    IS(recv(ends[1], AT(0x40), 4096, 0) == 500);
    IS(sendmsg(ends[0], &message, 0) == 1000);
    IS(recvmsg(ends[1], &message, 0) == 1000);
    IS(recv(ends[1], AT(0x40), 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    IS(pipe2(ends, O_NONBLOCK) == 0);
    IS(read(ends[0], AT(0), 1) == -1 && errno == EAGAIN);
    IS(write(ends[1], AT(0x50), 64) == 64 && read(ends[0], AT(0x60), 4096) == 64);
}

static int shared;

static void *of_a_thread(void *number)
{
    size_t offset = 0x100 * (size_t)number;
    int fd = opened(O_RDONLY);
    for (int i = 0; i < 100; i++)
        IS(pread(fd, AT(4096 * (size_t)number + offset), 100, 0) == 100);
    /* Eight threads on one position, in whatever order. */
    for (int i = 0; i < 100; i++)
        IS(read(shared, AT(4096 * (size_t)number), 70) == 70);
    close(fd);
    return NULL;
}

static void *once(void *nothing)
{
    int fd = opened(O_RDONLY);
    IS(pread(fd, AT(8), 4096, 0) == 4096);
    close(fd);
    return nothing;
}

static void threads(int count, void *(*run)(void *))
{
    pthread_t threads[200];
    shared = opened(O_RDONLY);
    for (size_t i = 0; i < (size_t)count; i++)
        IS(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
    for (int i = 0; i < count; i++)
        IS(pthread_join(threads[i], NULL) == 0);
}

static void forks(int count)
{
    int fd = opened(O_RDONLY);
    for (int i = 0; i < count; i++) {
        pid_t child = fork();
        IS(child >= 0);
        if (child == 0) {
            IS(pread(fd, AT(8), 4096, 4096) == 4096);
            IS(read(fd, AT(0), 10) == 10); /* on from where all stand */
            _exit(0);
        }
    }
    for (int i = 0; i < count; i++)
        IS(wait(NULL) > 0);
}

static void execs(int by_vfork)
{
    char *words[] = {(char *)own, "pread", (char *)name, NULL}, *nothing[] = {NULL};
    some_preads(3);
    pid_t child = by_vfork ? vfork() : fork();
    if (child == 0) {
        execve(own, words, nothing);
        _exit(98);
    }
    int status;
    IS(waitpid(child, &status, 0) == child && status == 0);
}

static int pipe_ends[2];

static void handler(int signal)
{
    /* For the read that begins again; the other gets EINTR and nothing. */
    if (signal == SIGUSR1)
        IS(write(pipe_ends[1], AT(0), 5) == 5);
}

static void interrupted(void)
{
    struct sigaction again = {.sa_handler = handler, .sa_flags = SA_RESTART}, fails = {.sa_handler = handler};
    IS(pipe(pipe_ends) == 0 && !sigaction(SIGUSR1, &again, NULL) && !sigaction(SIGUSR2, &fails, NULL));
    pid_t reader = getpid();
    for (int i = 0; i < 4; i++) {
        int number = i % 2 ? SIGUSR2 : SIGUSR1;
        pid_t child = fork();
        if (child == 0) {
            usleep(100000);
            kill(reader, SIGWINCH); /* ignored: the read goes on */
            kill(reader, number);
            _exit(0);
        }
        ssize_t result = read(pipe_ends[0], AT(8), 100);
        IS(number == SIGUSR1 ? result == 5 : result == -1 && errno == EINTR);
        waitpid(child, NULL, 0);
    }
}

static void descriptors(void)
{
    char other[4096];
    snprintf(other, sizeof other, "%s.other", name);
    int fd = opened(O_RDONLY), another = open(other, O_RDWR | O_CREAT | O_TRUNC, 0600);
    IS(another >= 0 && ftruncate(another, 65536) == 0);
    IS(read(fd, AT(0), 10) == 10);
    IS(dup2(another, fd) == fd);
    IS(read(fd, AT(0), 20) == 20);
    int duplicate = dup(fd);
    IS(read(another, AT(0), 20) == 20 && read(duplicate, AT(0), 20) == 20); /* from 20 and 40 */
    close(duplicate);
    close(another);
    close(fd);
    /* The second has the first one's descriptor, and mostly also its inode. */
    for (int i = 1; i <= 2; i++) {
        snprintf(other, sizeof other, "%s.%d", name, i);
        IS((fd = open(other, O_RDWR | O_CREAT | O_TRUNC, 0600)) >= 0);
        IS(write(fd, AT(0), 100 * i) == 100 * i);
        close(fd);
        IS(unlink(other) == 0);
    }
}

/* Bytes into a file without a buffer, and into a pipe. */
static void between(void)
{
    char other[4096];
    snprintf(other, sizeof other, "%s.other", name);
    int ends[2], in = opened(O_RDONLY), out = open(other, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    IS(out >= 0 && pipe(ends) == 0);
    IS(sendfile(out, in, NULL, 1000) == 1000);
    IS(splice(in, NULL, ends[1], NULL, 2000, 0) == 2000 && splice(ends[0], NULL, out, NULL, 2000, 0) == 2000);
    IS(copy_file_range(in, NULL, out, NULL, 3000, 0) == 3000);
}

static void *execs_on(void *left)
{
    char *words[] = {(char *)own, "exec-in-a-read", (char *)name, NULL};
    usleep(3000);
    setenv("LEFT", left, 1);
    execv(own, words);
    _exit(96);
}

/* Again and again a thread runs exec while the first one reads a file; a child reads on at the same position. */
static void exec_in_a_read(void)
{
    const char *given = getenv("LEFT");
    int left = given ? atoi(given) : 20, status;
    char next[16], other[4096];
    pthread_t thread;
    snprintf(other, sizeof other, "%s.%d", name, left);
    int fd = open(other, O_RDWR | O_CREAT, 0600);
    IS(fd >= 0 && ftruncate(fd, 65536) == 0);
    if (left == 0) {
        while (wait(&status) > 0)
            IS(status == 0);
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 300; i++)
            IS(read(fd, AT(0), 100) >= 0);
        _exit(0);
    }
    snprintf(next, sizeof next, "%d", left - 1);
    IS(pthread_create(&thread, NULL, execs_on, next) == 0);
    for (;;)
        IS(read(fd, AT(0), 1) >= 0);
}

static void direct(void)
{
    int fd = open(name, O_RDONLY | O_DIRECT);
    if (fd < 0 || pread(fd, AT(0), 4096, 0) != 4096)
        _exit(77);
    int flags = fcntl(fd, F_GETFL);
    IS(fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0);
    IS(pread(fd, AT(8), 100, 0) == 100);
}

static void own_filter(void)
{
    struct sock_filter words[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {4, words};
    IS(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    IS(syscall(SYS_getppid) == -1 && errno == ENOTTY);
}

int main(int count, char **words)
{
    IS(count == 3);
    own = words[0], name = words[2];
    const char *way = words[1];
#define WAY(text, does) if (!strcmp(way, text)) { does; return 0; }
    WAY("pread", some_preads(10))
    WAY("many", some_preads(200000))
    WAY("reads", reads())
    WAY("writes", writes())
    WAY("messages", messages())
    WAY("threads", threads(8, of_a_thread))
    WAY("threads-200", threads(200, once))
    WAY("forks", forks(20))
    WAY("forks-500", forks(500))
    WAY("exec", execs(0))
    WAY("vfork", execs(1))
    WAY("interrupted", interrupted())
    WAY("descriptors", descriptors())
    WAY("direct", direct())
    WAY("between", between())
    WAY("exec-in-a-read", exec_in_a_read())
    WAY("own-filter", own_filter(); some_preads(10))
    WAY("not-dumpable", prctl(PR_SET_DUMPABLE, 0); some_preads(10))
    WAY("closes-all", for (int fd = 0; fd < 1024; fd++) close(fd); some_preads(10))
#ifndef STATIC
    WAY("dlopen", IS(dlopen("libm.so.6", RTLD_NOW)); some_preads(10))
#endif
    WAY("dies", some_preads(10); raise(SIGSEGV); pause())
    WAY("stops", some_preads(10); raise(SIGSTOP); some_preads(10))
    WAY("waits", some_preads(10); for (;;) { some_preads(1); usleep(1000); })
    return 97;
}

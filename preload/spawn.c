/* Starting programs: each call of the C library that does is passed on with the object in the new environment.
 *
 * Between vfork and exec the memory is the parent's, so everything new lies on the stack. */
#include "object.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

NEXT(execve);
NEXT(execvpe);
NEXT(fexecve);
NEXT_AS(execveat, int(int, const char *, char *const *, char *const *, int));
NEXT(posix_spawn);
NEXT(posix_spawnp);
typedef int spawn_by_descriptor(int *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                                char *const *, char *const *);
NEXT_AS(pidfd_spawn, spawn_by_descriptor);
NEXT_AS(pidfd_spawnp, spawn_by_descriptor);
NEXT(system);
NEXT(popen);
NEXT(pclose);

/* Room on this function's stack for `environment` with the object added. */
#define ROOM(environment) \
    char *slots[slots_for(environment)]; \
    char text[text_for(environment)]

/* An exec: `call_on` of the environment that fits; it returns only where that failed. */
#define STARTED(why, name, environment, call_on) \
    if (!is_watched() || !begin(why, name)) { \
        char *const *with = environment; \
        return call_on; \
    } \
    ROOM(environment); \
    char *const *with = dressed(environment, slots, text); \
    int result = call_on; \
    begin_failed(); \
    return result

EXPORT int execve(const char *path, char *const arguments[], char *const environment[])
{
    STARTED(watchable(path), path, environment, CALL(execve)(path, arguments, with));
}

EXPORT int execvpe(const char *name, char *const arguments[], char *const environment[])
{
    STARTED(watchable_by_name(name), name, environment, CALL(execvpe)(name, arguments, with));
}

EXPORT int execv(const char *path, char *const arguments[])
{
    return execve(path, arguments, environ);
}

EXPORT int execvp(const char *name, char *const arguments[])
{
    return execvpe(name, arguments, environ);
}

/* "/proc/self/fd/N" */
static const char *path_of(int fd, char link[32])
{
    int end = 14, digits = 1;
    for (int i = 0; i < end; i++)
        link[i] = "/proc/self/fd/"[i];
    for (int rest = fd; rest > 9; rest /= 10)
        digits++;
    link[end + digits] = 0;
    for (int i = digits; i-- > 0; fd /= 10)
        link[end + i] = (char)('0' + fd % 10);
    return link;
}

EXPORT int fexecve(int fd, char *const arguments[], char *const environment[])
{
    char link[32];
    STARTED(watchable(path_of(fd, link)), link, environment, CALL(fexecve)(fd, arguments, with));
}

/* Missing before glibc 2.34. */
EXPORT int execveat(int fd, const char *path, char *const arguments[], char *const environment[], int flags)
{
    char link[32];
    if (!CALL(execveat)) {
        errno = ENOSYS;
        return -1;
    }
    bool is_fd = !*path && flags & AT_EMPTY_PATH && fd >= 0;
    const char *name = is_fd ? path_of(fd, link) : path;
    STARTED(watchable(name), name, environment, next_execveat(fd, path, arguments, with, flags));
}

/* The arguments of execl, whose number is found first. */
#define LISTED(first) \
    va_list rest; \
    size_t count = 1; \
    va_start(rest, first); \
    while (va_arg(rest, char *)) \
        count++; \
    va_end(rest); \
    char *arguments[count + 1]; \
    va_start(rest, first); \
    arguments[0] = (char *)first; \
    for (size_t i = 1; i <= count; i++) \
        arguments[i] = va_arg(rest, char *)

EXPORT int execl(const char *path, const char *first, ...)
{
    LISTED(first);
    va_end(rest);
    return execve(path, arguments, environ);
}

EXPORT int execlp(const char *name, const char *first, ...)
{
    LISTED(first);
    va_end(rest);
    return execvpe(name, arguments, environ);
}

EXPORT int execle(const char *path, const char *first, ...)
{
    LISTED(first);
    char *const *environment = va_arg(rest, char *const *);
    va_end(rest);
    return execve(path, arguments, environment);
}

/* posix_spawn's answer is an error number. */
#define SPAWNED(why, name, call_on) \
    if (!is_watched() || !begin(why, name)) { \
        char *const *with = environment; \
        return call_on; \
    } \
    ROOM(environment); \
    char *const *with = dressed(environment, slots, text); \
    int result = call_on; \
    if (result) \
        begin_failed(); \
    return result

EXPORT int posix_spawn(pid_t *child, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    SPAWNED(watchable(path), path, CALL(posix_spawn)(child, path, actions, attributes, arguments, with));
}

EXPORT int posix_spawnp(pid_t *child, const char *name, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    SPAWNED(watchable_by_name(name), name, CALL(posix_spawnp)(child, name, actions, attributes, arguments, with));
}

/* Missing before glibc 2.39. */
#define SPAWNED_BY_DESCRIPTOR(name, why) \
    EXPORT int name(int *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, \
                    char *const[], char *const[]); \
    int name(int *child, const char *path, const posix_spawn_file_actions_t *actions, \
             const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]) \
    { \
        if (!CALL(name)) \
            return ENOSYS; \
        SPAWNED(why, path, next_##name(child, path, actions, attributes, arguments, with)); \
    }
SPAWNED_BY_DESCRIPTOR(pidfd_spawn, watchable(path))
SPAWNED_BY_DESCRIPTOR(pidfd_spawnp, watchable_by_name(path))

/* ---- the shell, which the C library starts by itself with the environment as it is ---- */

static int shells;
static char shells_lock;
static struct sigaction former_int, former_quit;

/* SIGINT and SIGQUIT are for the commands while any thread waits for one. */
static void leave_signals(int more)
{
    struct sigaction ignored = {.sa_handler = SIG_IGN};
    while (__atomic_test_and_set(&shells_lock, __ATOMIC_ACQUIRE))
        ;
    shells += more;
    if (more > 0 && shells == 1) {
        sigaction(SIGINT, &ignored, &former_int);
        sigaction(SIGQUIT, &ignored, &former_quit);
    } else if (more < 0 && shells == 0) {
        sigaction(SIGINT, &former_int, NULL);
        sigaction(SIGQUIT, &former_quit, NULL);
    }
    __atomic_clear(&shells_lock, __ATOMIC_RELEASE);
}

/* As POSIX describes it, with posix_spawn. */
EXPORT int system(const char *line)
{
    if (!line || !is_watched())
        return CALL(system)(line);
    sigset_t child_ended, mask, defaults;
    sigemptyset(&child_ended);
    sigaddset(&child_ended, SIGCHLD);
    leave_signals(1);
    sigprocmask(SIG_BLOCK, &child_ended, &mask);
    sigemptyset(&defaults);
    if (former_int.sa_handler != SIG_IGN)
        sigaddset(&defaults, SIGINT);
    if (former_quit.sa_handler != SIG_IGN)
        sigaddset(&defaults, SIGQUIT);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &mask);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    char *arguments[] = {"sh", "-c", (char *)line, NULL};
    pid_t child;
    int status = 127 << 8;
    int error = posix_spawn(&child, "/bin/sh", NULL, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    if (!error) {
        long ended;
        do
            ended = BARE(wait4, child, &status, 0, NULL);
        while (ended == -EINTR);
        if (ended < 0) {
            error = (int)-ended;
            status = -1;
        }
    }
    leave_signals(-1);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    if (error)
        errno = error;
    return status;
}

/* The environment of shells that popen starts: memory that is kept, since any thread may be looking at it, and taken
 * anew only where twice as much is needed. */
static struct {
    char lock;
    void *room;
    size_t size;
} of_shells;

static void *room_for_shells(size_t needed)
{
    if (needed > of_shells.size) {
        size_t size = (2 * needed + 4095) & ~(size_t)4095;
        long at = bare(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at < 0 && at > -4096)
            return NULL;
        of_shells.room = (void *)at;
        of_shells.size = size;
    }
    return of_shells.room;
}

/* The C library's own keeps what pclose needs, so for this moment the environment is another: for one thread at a
 * time. Where the program changes it meanwhile, the change stays. */
EXPORT FILE *popen(const char *line, const char *mode)
{
    if (!is_watched() || !begin(watchable("/bin/sh"), "/bin/sh"))
        return CALL(popen)(line, mode);
    while (__atomic_test_and_set(&of_shells.lock, __ATOMIC_ACQUIRE))
        BARE(sched_yield, 0, 0, 0, 0);
    char **before = environ;
    size_t slots = slots_for(before) * sizeof *before;
    char **room = room_for_shells(slots + text_for(before));
    char **with = room ? dressed(before, room, (char *)room + slots) : before;
    environ = with;
    FILE *stream = CALL(popen)(line, mode);
    int error = errno;
    if (environ == with)
        environ = before;
    else
        undress(environ);
    __atomic_clear(&of_shells.lock, __ATOMIC_RELEASE);
    if (!stream || !room)
        begin_failed();
    errno = error;
    return stream;
}

void unlock_all(void)
{
    __atomic_clear(&of_shells.lock, __ATOMIC_RELEASE);
}

EXPORT int pclose(FILE *stream)
{
    forget(stream->_fileno);
    return CALL(pclose)(stream);
}

/* The child has its number from its parent, so that fsprobe knows of it however soon the parent ends. */
NEXT(fork);
EXPORT pid_t fork(void)
{
    uint32_t number = is_watched() && !hot.filtered ? reserve_number() : 0;
    pid_t child = CALL(fork)();
    if (child == 0)
        begin_in_child(number);
    else if (child > 0 && is_watched()) {
        hot.has_forked = true; /* both have the same files open */
        if (number)
            all_processes[number].pid = (uint64_t)child;
    }
    return child;
}

/* vfork returns twice on one stack, so it cannot be called on: it is made here. While the child uses this
 * memory, descriptors are not remembered, since they may be the child's. */
_Static_assert(offsetof(struct state, vforks) == 28, "the place in the instructions below");
__asm__(".text\n"
        ".globl vfork\n"
        ".type vfork, @function\n"
        "vfork:\n"
        "    endbr64\n"
        "    pop %rdi\n"
        "    lea hot_page + 28(%rip), %rsi\n"
        "    lock incl (%rsi)\n"
        "    mov $58, %eax\n"
        "    syscall\n"
        "    push %rdi\n"
        "    test %rax, %rax\n"
        "    je 1f\n"
        "    lock decl (%rsi)\n"
        "    test %rax, %rax\n"
        "    js 2f\n"
        "1:  ret\n"
        "2:  mov %rax, %rdi\n"
        "    jmp vfork_failed\n"
        ".size vfork, . - vfork\n"
        ".globl __vfork\n"
        ".set __vfork, vfork\n");

__attribute__((used)) pid_t vfork_failed(long error);
pid_t vfork_failed(long error)
{
    errno = (int)-error;
    return -1;
}

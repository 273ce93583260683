/* System calls that programs make by number, as far as they matter to what the object remembers; and the
 * moment from which a program's own filter may end it for a call that it did not make itself. */
#include "object.h"
#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <unistd.h>

NEXT(prctl);
NEXT(syscall);

EXPORT int prctl(int option, ...)
{
    va_list rest;
    va_start(rest, option);
    unsigned long a = va_arg(rest, unsigned long), b = va_arg(rest, unsigned long);
    unsigned long c = va_arg(rest, unsigned long), d = va_arg(rest, unsigned long);
    va_end(rest);
    if (option == PR_SET_SECCOMP)
        note_filter();
    return CALL(prctl)(option, a, b, c, d);
}

/* Declared with its six arguments, which leaves a tail call: a child that shares this stack may return too. */
EXPORT long numbered(long, long, long, long, long, long, long) __asm__("syscall");
long numbered(long number, long a, long b, long c, long d, long e, long f)
{
    switch (number) {
    case SYS_seccomp:
        if (a == SECCOMP_SET_MODE_STRICT || a == SECCOMP_SET_MODE_FILTER)
            note_filter();
        break;
    case SYS_prctl:
        if (a == PR_SET_SECCOMP)
            note_filter();
        break;
    case SYS_close:
        forget((int)a);
        break;
    case SYS_dup2:
    case SYS_dup3:
        forget((int)b);
        break;
    case SYS_close_range:
        forget_range((unsigned)a, (unsigned)b);
        break;
    case SYS_recvmmsg:
    case SYS_sendmmsg:
        note_beyond(SEVERAL_MESSAGES);
        break;
    case SYS_process_vm_readv:
    case SYS_process_vm_writev:
        note_beyond(OTHERS_MEMORY);
        break;
    case SYS_io_uring_setup:
        note_beyond(IO_URING);
        break;
    case SYS_io_setup:
        note_beyond(AIO);
        break;
    }
    return ((long (*)(long, long, long, long, long, long, long))CALL(syscall))(number, a, b, c, d, e, f);
}

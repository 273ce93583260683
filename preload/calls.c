/* read, write and their relatives: each passed on, and what it moved counted by its result.
 *
 * For calls without an offset of their own, the position is asked before. Where somebody else may move it at
 * the same time (threads, or processes that share the open file), it is asked again: if it has not moved by
 * just the result, nobody can tell from where the bytes came. */
#include "object.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

/* Standard streams are inherited, and so shared with whoever started the process. */
static bool may_be_moved_by_others(int fd)
{
    return fd <= 2 || hot.has_forked || hot.vforks || !alone();
}

/* The position at which the bytes of a call that moved some really were. */
static int64_t settled(int fd, struct place place, bool from_file, ssize_t moved)
{
    bool appends = !from_file && place.file & APPENDS;
    if (place.position < 0 || (appends && !place.is_own))
        return -1;
    if (appends) {
        int64_t after = position_of(fd);
        return after < moved ? -1 : after - moved;
    }
    if (place.is_own && may_be_moved_by_others(fd) && position_of(fd) != place.position + moved)
        return -1;
    return place.position;
}

/* Counts a call with one buffer. */
static inline void counted(enum call call, bool from_file, int fd, struct place place, const void *buffer, size_t len,
                           ssize_t moved)
{
    unsigned file = number_of(place.file);
    if (moved <= 0 || len == 0) {
        count_end(call, file, moved < 0 ? FAILED : EMPTY);
        return;
    }
    bool is_simple = !place.is_own && (from_file || !(place.file & APPENDS));
    int64_t position = is_simple ? place.position : settled(fd, place, from_file, moved);
    /* A datagram's result may be its whole length. */
    size_t landed = (size_t)moved < len ? (size_t)moved : len;
    count_copy(call, file, distance_of(from_file, buffer, position), buffer, landed, true);
}

/* Counts a call with several. */
static void counted_parts(enum call call, bool from_file, int fd, struct place place, const struct iovec *parts,
                          size_t count, ssize_t moved)
{
    unsigned file = number_of(place.file);
    int64_t position = moved > 0 ? settled(fd, place, from_file, moved) : -1;
    size_t left = moved > 0 ? (size_t)moved : 0;
    bool first = true;
    for (size_t i = 0; i < count && left; i++) {
        size_t len = parts[i].iov_len < left ? parts[i].iov_len : left;
        if (!len)
            continue;
        count_copy(call, file, distance_of(from_file, parts[i].iov_base, position), parts[i].iov_base, len, first);
        first = false;
        left -= len;
        position += position < 0 ? 0 : (int64_t)len;
    }
    if (first)
        count_end(call, file, moved < 0 ? FAILED : EMPTY);
}

/* Counts a call with a message, which may be no memory at all where the kernel moved nothing. */
static void counted_message(enum call call, bool from_file, int fd, struct place place, const struct msghdr *message,
                            ssize_t moved)
{
    const struct iovec *parts = moved > 0 ? message->msg_iov : NULL;
    counted_parts(call, from_file, fd, place, parts, moved > 0 ? message->msg_iovlen : 0, moved);
}

/* A function of the family: what it is told as, its direction, its offset (-1: none) and its memory. */
#define COUNTED(told, from_file, fd, offset, buffer, len, call_on) \
    if (!is_watched()) \
        return call_on; \
    struct place place = place_of(fd, offset); \
    ssize_t moved = call_on; \
    counted(CALL_##told, from_file, fd, place, buffer, len, moved); \
    return moved
#define COUNTED_PARTS(told, from_file, fd, offset, parts, count, call_on) \
    if (!is_watched()) \
        return call_on; \
    struct place place = place_of(fd, offset); \
    ssize_t moved = call_on; \
    counted_parts(CALL_##told, from_file, fd, place, parts, (size_t)(count), moved); \
    return moved
#define COUNTED_MESSAGE(told, from_file, fd, message, call_on) \
    if (!is_watched()) \
        return call_on; \
    struct place place = place_of(fd, -1); \
    ssize_t moved = call_on; \
    counted_message(CALL_##told, from_file, fd, place, message, moved); \
    return moved
/* An offset that the kernel refuses is no wish for the position. */
#define OFFSET(offset) ((offset) < 0 ? 0 : (offset))

NEXT(read);
NEXT(pread);
NEXT(pread64);
NEXT(readv);
NEXT(preadv);
NEXT(preadv64);
NEXT(recv);
NEXT(recvfrom);
NEXT(recvmsg);
NEXT(write);
NEXT(pwrite);
NEXT(pwrite64);
NEXT(writev);
NEXT(pwritev);
NEXT(pwritev64);
NEXT(send);
NEXT(sendto);
NEXT(sendmsg);

EXPORT ssize_t read(int fd, void *to, size_t len)
{
    COUNTED(read, true, fd, -1, to, len, CALL(read)(fd, to, len));
}
ALSO(ssize_t, __read, read, int, void *, size_t);

EXPORT ssize_t pread(int fd, void *to, size_t len, off_t offset)
{
    COUNTED(pread64, true, fd, OFFSET(offset), to, len, CALL(pread)(fd, to, len, offset));
}

EXPORT ssize_t pread64(int fd, void *to, size_t len, off64_t offset)
{
    COUNTED(pread64, true, fd, OFFSET(offset), to, len, CALL(pread64)(fd, to, len, offset));
}
ALSO(ssize_t, __pread64, pread64, int, void *, size_t, off64_t);

EXPORT ssize_t readv(int fd, const struct iovec *parts, int count)
{
    COUNTED_PARTS(readv, true, fd, -1, parts, count, CALL(readv)(fd, parts, count));
}

EXPORT ssize_t preadv(int fd, const struct iovec *parts, int count, off_t offset)
{
    COUNTED_PARTS(preadv, true, fd, OFFSET(offset), parts, count, CALL(preadv)(fd, parts, count, offset));
}

EXPORT ssize_t preadv64(int fd, const struct iovec *parts, int count, off64_t offset)
{
    COUNTED_PARTS(preadv, true, fd, OFFSET(offset), parts, count, CALL(preadv64)(fd, parts, count, offset));
}

EXPORT ssize_t recv(int fd, void *to, size_t len, int flags)
{
    COUNTED(recv, true, fd, -1, to, to ? len : 0, CALL(recv)(fd, to, len, flags));
}

EXPORT ssize_t recvfrom(int fd, void *to, size_t len, int flags, __SOCKADDR_ARG who, socklen_t *who_len)
{
    COUNTED(recvfrom, true, fd, -1, to, to ? len : 0, CALL(recvfrom)(fd, to, len, flags, who, who_len));
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    COUNTED_MESSAGE(recvmsg, true, fd, message, CALL(recvmsg)(fd, message, flags));
}

EXPORT ssize_t write(int fd, const void *from, size_t len)
{
    COUNTED(write, false, fd, -1, from, len, CALL(write)(fd, from, len));
}
ALSO(ssize_t, __write, write, int, const void *, size_t);

EXPORT ssize_t pwrite(int fd, const void *from, size_t len, off_t offset)
{
    COUNTED(pwrite64, false, fd, OFFSET(offset), from, len, CALL(pwrite)(fd, from, len, offset));
}

EXPORT ssize_t pwrite64(int fd, const void *from, size_t len, off64_t offset)
{
    COUNTED(pwrite64, false, fd, OFFSET(offset), from, len, CALL(pwrite64)(fd, from, len, offset));
}
ALSO(ssize_t, __pwrite64, pwrite64, int, const void *, size_t, off64_t);

EXPORT ssize_t writev(int fd, const struct iovec *parts, int count)
{
    COUNTED_PARTS(writev, false, fd, -1, parts, count, CALL(writev)(fd, parts, count));
}

EXPORT ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    COUNTED_PARTS(pwritev, false, fd, OFFSET(offset), parts, count, CALL(pwritev)(fd, parts, count, offset));
}

EXPORT ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset)
{
    COUNTED_PARTS(pwritev, false, fd, OFFSET(offset), parts, count, CALL(pwritev64)(fd, parts, count, offset));
}

EXPORT ssize_t send(int fd, const void *from, size_t len, int flags)
{
    COUNTED(send, false, fd, -1, from, len, CALL(send)(fd, from, len, flags));
}
ALSO(ssize_t, __send, send, int, const void *, size_t, int);

EXPORT ssize_t sendto(int fd, const void *from, size_t len, int flags, __CONST_SOCKADDR_ARG who, socklen_t who_len)
{
    COUNTED(sendto, false, fd, -1, from, len, CALL(sendto)(fd, from, len, flags, who, who_len));
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    COUNTED_MESSAGE(sendmsg, false, fd, message, CALL(sendmsg)(fd, message, flags));
}

/* preadv2 and its relatives: offset -1 means the position; missing before glibc 2.26. */
#define POSITIONED(name, told, from_file, offset_type) \
    NEXT(name); \
    EXPORT ssize_t name(int fd, const struct iovec *parts, int count, offset_type offset, int flags) \
    { \
        if (!CALL(name)) { \
            errno = ENOSYS; \
            return -1; \
        } \
        COUNTED_PARTS(told, from_file, fd, offset < -1 ? 0 : offset, parts, count, \
                next_##name(fd, parts, count, offset, flags)); \
    }
POSITIONED(preadv2, preadv2, true, off_t)
POSITIONED(preadv64v2, preadv2, true, off64_t)
POSITIONED(pwritev2, pwritev2, false, off_t)
POSITIONED(pwritev64v2, pwritev2, false, off64_t)

/* ---- what programs built with _FORTIFY_SOURCE call ---- */

EXPORT ssize_t __read_chk(int, void *, size_t, size_t);
EXPORT ssize_t __pread_chk(int, void *, size_t, off_t, size_t);
EXPORT ssize_t __pread64_chk(int, void *, size_t, off64_t, size_t);
EXPORT ssize_t __recv_chk(int, void *, size_t, size_t, int);
EXPORT ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, __SOCKADDR_ARG, socklen_t *);
NEXT(__read_chk);
NEXT(__pread_chk);
NEXT(__pread64_chk);
NEXT(__recv_chk);
NEXT(__recvfrom_chk);

ssize_t __read_chk(int fd, void *to, size_t len, size_t room)
{
    COUNTED(read, true, fd, -1, to, len, CALL(__read_chk)(fd, to, len, room));
}

ssize_t __pread_chk(int fd, void *to, size_t len, off_t offset, size_t room)
{
    COUNTED(pread64, true, fd, OFFSET(offset), to, len, CALL(__pread_chk)(fd, to, len, offset, room));
}

ssize_t __pread64_chk(int fd, void *to, size_t len, off64_t offset, size_t room)
{
    COUNTED(pread64, true, fd, OFFSET(offset), to, len,
            CALL(__pread64_chk)(fd, to, len, offset, room));
}

ssize_t __recv_chk(int fd, void *to, size_t len, size_t room, int flags)
{
    COUNTED(recv, true, fd, -1, to, to ? len : 0, CALL(__recv_chk)(fd, to, len, room, flags));
}

ssize_t __recvfrom_chk(int fd, void *to, size_t len, size_t room, int flags, __SOCKADDR_ARG who, socklen_t *who_len)
{
    COUNTED(recvfrom, true, fd, -1, to, to ? len : 0,
            CALL(__recvfrom_chk)(fd, to, len, room, flags, who, who_len));
}

/* ---- without a buffer: a pipe or socket takes the pages themselves, into a file the kernel may copy ---- */

NEXT(sendfile);
NEXT(sendfile64);
NEXT(splice);
NEXT_AS(copy_file_range, ssize_t(int, off64_t *, int, off64_t *, size_t, unsigned));

/* `is_counted` where /proc/PID/io counts them as read and written. */
static ssize_t moved(int out, bool is_counted, ssize_t bytes)
{
    if (!is_watched() || bytes <= 0)
        return bytes;
    if (is_counted)
        add(&shared->moved_bytes, (uint64_t)bytes);
    uint64_t file = file_of(out);
    if (file & REGULAR || number_of(file) == NO_ROOM)
        add(&shared->between_files, (uint64_t)bytes);
    return bytes;
}

EXPORT ssize_t sendfile(int out, int in, off_t *offset, size_t len)
{
    return moved(out, true, CALL(sendfile)(out, in, offset, len));
}

EXPORT ssize_t sendfile64(int out, int in, off64_t *offset, size_t len)
{
    return moved(out, true, CALL(sendfile64)(out, in, offset, len));
}

EXPORT ssize_t splice(int in, off64_t *in_at, int out, off64_t *out_at, size_t len, unsigned flags)
{
    return moved(out, false, CALL(splice)(in, in_at, out, out_at, len, flags));
}

/* Missing before glibc 2.27. */
EXPORT ssize_t copy_file_range(int in, off64_t *in_at, int out, off64_t *out_at, size_t len, unsigned flags)
{
    if (!CALL(copy_file_range)) {
        errno = ENOSYS;
        return -1;
    }
    return moved(out, true, next_copy_file_range(in, in_at, out, out_at, len, flags));
}

/* ---- what may copy and is not counted: only noted ---- */

NEXT(recvmmsg);
NEXT(sendmmsg);
NEXT(process_vm_readv);
NEXT(process_vm_writev);

EXPORT int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *until)
{
    note_beyond(SEVERAL_MESSAGES);
    return CALL(recvmmsg)(fd, messages, count, flags, until);
}

EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    note_beyond(SEVERAL_MESSAGES);
    return CALL(sendmmsg)(fd, messages, count, flags);
}

EXPORT ssize_t process_vm_readv(pid_t pid, const struct iovec *own, unsigned long own_count, const struct iovec *other,
                                unsigned long count, unsigned long flags)
{
    note_beyond(OTHERS_MEMORY);
    return CALL(process_vm_readv)(pid, own, own_count, other, count, flags);
}

EXPORT ssize_t process_vm_writev(pid_t pid, const struct iovec *own, unsigned long own_count, const struct iovec *other,
                                 unsigned long count, unsigned long flags)
{
    note_beyond(OTHERS_MEMORY);
    return CALL(process_vm_writev)(pid, own, own_count, other, count, flags);
}

/* Standard I/O: the C library's streams read and write by calls of their own, which nobody can interpose.
 *
 * What glibc does is known, though. fread takes what its buffer holds; of the rest it reads all whole
 * blocks (a block: the size of the buffer) straight from the file into the caller's memory, and what is left
 * of that through its buffer. fwrite fills the buffer, flushes it, writes whole blocks straight from the
 * caller's memory, and keeps the rest. So a straight part's place in the file is known, and with it its
 * distance; parts that go through the buffer have none. What was expected is checked against how far the
 * file's position moved, and where that does not agree, no distance is told. */
#include "object.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#undef fread_unlocked
#undef fwrite_unlocked

/* struct _IO_FILE's flags of glibc, the same since its first release. */
#define HAS_ERROR 0x20
#define IN_BACKUP 0x100
#define LINE_BUFFERED 0x200
#define WRITING 0x800

/* A call's bytes: `before` through the stream's buffer, `straight` at a place in the file, the rest through it. */
struct parts {
    size_t before, straight;
    int64_t position;
};

static void counted(enum call call, bool from_file, uint64_t file, const char *memory, size_t total, struct parts parts)
{
    unsigned number = number_of(file);
    size_t after = total - parts.before - parts.straight;
    if (parts.before)
        count_copy(call, number, NO_DISTANCE, memory, parts.before, true);
    if (parts.straight) {
        const char *at = memory + parts.before;
        count_copy(call, number, distance_of(from_file, at, parts.position), at, parts.straight, !parts.before);
    }
    if (after)
        count_copy(call, number, NO_DISTANCE, memory + total - after, after, !parts.before && !parts.straight);
}

/* A call that moved nothing: an error or an end. */
static void counted_nothing(enum call call, uint64_t file, FILE *stream)
{
    count_end(call, number_of(file), stream->_flags & HAS_ERROR ? FAILED : EMPTY);
}

/* Whole blocks of so many bytes. */
static size_t blocks(FILE *stream, size_t bytes)
{
    size_t block = (size_t)(stream->_IO_buf_end - stream->_IO_buf_base);
    return block >= 128 ? bytes - bytes % block : bytes;
}

static size_t smaller(size_t one, size_t other)
{
    return one < other ? one : other;
}

/* Not in every C library's main part before glibc 2.34: only threads need them, and those bring them along. */
#pragma weak __pthread_register_cancel
#pragma weak __pthread_unregister_cancel
#pragma weak __pthread_unwind_next

static void unlock(void *stream)
{
    funlockfile(stream);
}

/* Does something with the stream locked, where other threads may use it too; unlocked again also where the thread is
 * cancelled meanwhile. */
#define WITH_LOCK(stream, locks, work) \
    do { \
        if (!(locks) || alone()) { \
            work; \
        } else { \
            flockfile(stream); \
            pthread_cleanup_push(unlock, stream); \
            work; \
            pthread_cleanup_pop(1); \
        } \
    } while (0)

/* ---- reading whole items ---- */

struct reading {
    uint64_t file;
    size_t buffered;
    int64_t position;
};

static struct reading reading(FILE *stream, size_t wanted)
{
    struct reading reading = {file_of(stream->_fileno), 0, -1};
    if (stream->_flags & (IN_BACKUP | WRITING))
        return reading;
    reading.buffered = (size_t)(stream->_IO_read_end - stream->_IO_read_ptr);
    if (wanted > reading.buffered && reading.file & REGULAR)
        reading.position = position_of(stream->_fileno);
    return reading;
}

static void has_read(FILE *stream, struct reading before, const void *memory, size_t wanted, size_t total)
{
    if (!total) {
        if (wanted)
            counted_nothing(CALL_fread, before.file, stream);
        return;
    }
    struct parts parts = {smaller(before.buffered, total), 0, before.position};
    if (before.position >= 0 && total > before.buffered) {
        size_t straight = smaller(blocks(stream, wanted - before.buffered), total - before.buffered);
        int64_t moved = position_of(stream->_fileno) - before.position;
        int64_t block = stream->_IO_buf_end - stream->_IO_buf_base;
        if (moved >= (int64_t)straight && moved <= (int64_t)straight + block)
            parts.straight = straight;
    }
    counted(CALL_fread, true, before.file, memory, total, parts);
}

#define READ_ITEMS(stream, locks, to, wanted, size, call_on) \
    if (!is_watched()) \
        return call_on; \
    size_t items; \
    WITH_LOCK(stream, locks, { \
        struct reading before = reading(stream, wanted); \
        items = call_on; \
        has_read(stream, before, to, wanted, items * (size)); \
    }); \
    return items

EXPORT size_t __fread_chk(void *, size_t, size_t, size_t, FILE *);
EXPORT size_t __fread_unlocked_chk(void *, size_t, size_t, size_t, FILE *);
NEXT(fread);
NEXT(fread_unlocked);
NEXT(__fread_chk);
NEXT(__fread_unlocked_chk);

EXPORT size_t fread(void *to, size_t size, size_t count, FILE *stream)
{
    READ_ITEMS(stream, true, to, size * count, size, CALL(fread)(to, size, count, stream));
}

EXPORT size_t fread_unlocked(void *to, size_t size, size_t count, FILE *stream)
{
    READ_ITEMS(stream, false, to, size * count, size, CALL(fread_unlocked)(to, size, count, stream));
}

size_t __fread_chk(void *to, size_t room, size_t size, size_t count, FILE *stream)
{
    READ_ITEMS(stream, true, to, size * count, size, CALL(__fread_chk)(to, room, size, count, stream));
}

size_t __fread_unlocked_chk(void *to, size_t room, size_t size, size_t count, FILE *stream)
{
    READ_ITEMS(stream, false, to, size * count, size, CALL(__fread_unlocked_chk)(to, room, size, count, stream));
}

/* ---- reading lines: always through the buffer ---- */

static void has_line(enum call call, uint64_t file, FILE *stream, const char *line, ssize_t len)
{
    if (len > 0)
        counted(call, true, file, line, (size_t)len, (struct parts){0, 0, -1});
    else
        counted_nothing(call, file, stream);
}

#define READ_STRING(stream, call_on) \
    if (!is_watched()) \
        return call_on; \
    uint64_t file = file_of((stream)->_fileno); \
    char *line = call_on; \
    has_line(CALL_fgets, file, stream, line, line ? (ssize_t)strlen(line) : -1); \
    return line

EXPORT char *__fgets_chk(char *, size_t, int, FILE *);
EXPORT char *__fgets_unlocked_chk(char *, size_t, int, FILE *);
NEXT(fgets);
NEXT(fgets_unlocked);
NEXT(__fgets_chk);
NEXT(__fgets_unlocked_chk);

EXPORT char *fgets(char *to, int room, FILE *stream)
{
    READ_STRING(stream, CALL(fgets)(to, room, stream));
}

EXPORT char *fgets_unlocked(char *to, int room, FILE *stream)
{
    READ_STRING(stream, CALL(fgets_unlocked)(to, room, stream));
}

char *__fgets_chk(char *to, size_t size, int room, FILE *stream)
{
    READ_STRING(stream, CALL(__fgets_chk)(to, size, room, stream));
}

char *__fgets_unlocked_chk(char *to, size_t size, int room, FILE *stream)
{
    READ_STRING(stream, CALL(__fgets_unlocked_chk)(to, size, room, stream));
}

/* The headers make __getdelim of getline, so the delimiter tells which it was. */
#define READ_LINE(told, line, stream, call_on) \
    if (!is_watched()) \
        return call_on; \
    uint64_t file = file_of((stream)->_fileno); \
    ssize_t len = call_on; \
    has_line(told, file, stream, *line, len); \
    return len

EXPORT ssize_t __getdelim(char **, size_t *, int, FILE *);
NEXT(getline);
NEXT(getdelim);
NEXT(__getdelim);

EXPORT ssize_t getline(char **line, size_t *room, FILE *stream)
{
    READ_LINE(CALL_getline, line, stream, CALL(getline)(line, room, stream));
}

EXPORT ssize_t getdelim(char **line, size_t *room, int end, FILE *stream)
{
    READ_LINE(CALL_getdelim, line, stream, CALL(getdelim)(line, room, end, stream));
}

ssize_t __getdelim(char **line, size_t *room, int end, FILE *stream)
{
    READ_LINE(end == '\n' ? CALL_getline : CALL_getdelim, line, stream, CALL(__getdelim)(line, room, end, stream));
}

/* ---- writing ---- */

struct writing {
    uint64_t file;
    size_t pending, fits;
    int64_t position;
};

static struct writing writing(FILE *stream, size_t len)
{
    struct writing writing = {file_of(stream->_fileno), 0, 0, -1};
    bool is_plain = stream->_IO_read_end == stream->_IO_write_base && !(stream->_flags & LINE_BUFFERED);
    if (!is_plain || !(writing.file & REGULAR) || writing.file & APPENDS)
        return writing;
    writing.pending = (size_t)(stream->_IO_write_ptr - stream->_IO_write_base);
    if (stream->_IO_write_end > stream->_IO_write_ptr)
        writing.fits = (size_t)(stream->_IO_write_end - stream->_IO_write_ptr);
    if (len > writing.fits)
        writing.position = position_of(stream->_fileno);
    return writing;
}

/* `len` bytes of memory were offered, `total` went into the stream. */
static void has_written(enum call call, FILE *stream, struct writing before, const void *memory, size_t len, size_t total)
{
    if (!total) {
        if (len)
            count_end(call, number_of(before.file), FAILED);
        return;
    }
    struct parts parts = {0, 0, -1};
    if (before.position >= 0 && total >= len) {
        size_t straight = blocks(stream, len - before.fits);
        int64_t start = before.position + (int64_t)(before.pending + before.fits);
        if (position_of(stream->_fileno) == start + (int64_t)straight)
            parts = (struct parts){before.fits, straight, start};
    }
    counted(call, false, before.file, memory, total, parts);
}

NEXT(fwrite);
NEXT(fwrite_unlocked);
NEXT(fputs);
NEXT(fputs_unlocked);
NEXT(puts);

#define WRITE_ITEMS(locks, call_on) \
    if (!is_watched()) \
        return call_on; \
    size_t items; \
    WITH_LOCK(stream, locks, { \
        struct writing before = writing(stream, size * count); \
        items = call_on; \
        has_written(CALL_fwrite, stream, before, from, size * count, items * size); \
    }); \
    return items

EXPORT size_t fwrite(const void *from, size_t size, size_t count, FILE *stream)
{
    WRITE_ITEMS(true, CALL(fwrite)(from, size, count, stream));
}

EXPORT size_t fwrite_unlocked(const void *from, size_t size, size_t count, FILE *stream)
{
    WRITE_ITEMS(false, CALL(fwrite_unlocked)(from, size, count, stream));
}

#define WRITE_STRING(told, stream, locks, more, call_on) \
    if (!is_watched()) \
        return call_on; \
    int result; \
    WITH_LOCK(stream, locks, { \
        size_t len = strlen(from); \
        struct writing before = writing(stream, len); \
        result = call_on; \
        has_written(told, stream, before, from, len + (more), result < 0 ? 0 : len + (more)); \
    }); \
    return result

EXPORT int fputs(const char *from, FILE *stream)
{
    WRITE_STRING(CALL_fputs, stream, true, 0, CALL(fputs)(from, stream));
}

EXPORT int fputs_unlocked(const char *from, FILE *stream)
{
    WRITE_STRING(CALL_fputs, stream, false, 0, CALL(fputs_unlocked)(from, stream));
}

/* The end of the line is counted with it. */
EXPORT int puts(const char *from)
{
    WRITE_STRING(CALL_puts, stdout, true, 1, CALL(puts)(from));
}

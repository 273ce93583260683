/* memcpy and its relatives, where the C library copies with `rep movsb`: above a threshold, below another
 * (both its own, asked by fsprobe), and not where a later part of the source would be overwritten first. */
#include "object.h"
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

NEXT(memmove);
NEXT_AS(__memcpy_chk, void *(void *, const void *, size_t, size_t));
NEXT_AS(__memmove_chk, void *(void *, const void *, size_t, size_t));
NEXT_AS(__mempcpy_chk, void *(void *, const void *, size_t, size_t));

static void counted(enum call call, void *to, const void *from, size_t len)
{
    size_t ahead = (uintptr_t)to - (uintptr_t)from;
    if (is_watched() && len > hot.copies_above && len < hot.copies_below && ahead >= len)
        count_copy(call, IN_MEMORY, ahead & 4095, to, len, true);
}

/* Below this nothing can be counted: no threshold is lower. */
#define SHORT 128
#define COUNTED(call, to, from, len) \
    if (__builtin_expect(len > SHORT, 0)) \
    counted(CALL_##call, to, from, len)

/* Before the constructor has run, when looking a function up may be what copies. */
static void *plain(void *to, const void *from, size_t len)
{
    char *out = to;
    const char *in = from;
    if ((uintptr_t)to - (uintptr_t)from >= len)
        __asm__ volatile("rep movsb" : "+D"(out), "+S"(in), "+c"(len) : : "memory");
    else
        while (len--)
            *(volatile char *)(out + len) = in[len];
    return to;
}

/* Programs linked before glibc 2.14 were promised that memcpy moves; on x86-64 it is one routine anyway. */
static inline void *on(void *to, const void *from, size_t len)
{
    return next_memmove ? next_memmove(to, from, len) : plain(to, from, len);
}

EXPORT void *memcpy(void *restrict to, const void *restrict from, size_t len)
{
    COUNTED(memcpy, to, from, len);
    return on(to, from, len);
}

EXPORT void *memmove(void *to, const void *from, size_t len)
{
    COUNTED(memmove, to, from, len);
    return on(to, from, len);
}

EXPORT void *mempcpy(void *restrict to, const void *restrict from, size_t len)
{
    COUNTED(mempcpy, to, from, len);
    return (char *)on(to, from, len) + len;
}
ALSO(void *, __mempcpy, mempcpy, void *restrict, const void *restrict, size_t);

#define CHECKED(name, told) \
    EXPORT void *name(void *, const void *, size_t, size_t); \
    void *name(void *to, const void *from, size_t len, size_t room) \
    { \
        if (len <= room) \
            COUNTED(told, to, from, len); \
        return CALL(name)(to, from, len, room); \
    }
CHECKED(__memcpy_chk, memcpy)
CHECKED(__memmove_chk, memmove)
CHECKED(__mempcpy_chk, mempcpy)

/* By other names and in other units. */
EXPORT void bcopy(const void *from, void *to, size_t len)
{
    COUNTED(memmove, to, from, len);
    on(to, from, len);
}

EXPORT wchar_t *wmemcpy(wchar_t *restrict to, const wchar_t *restrict from, size_t count)
{
    COUNTED(memcpy, to, from, count * sizeof *to);
    return on(to, from, count * sizeof *to);
}

EXPORT wchar_t *wmemmove(wchar_t *to, const wchar_t *from, size_t count)
{
    COUNTED(memmove, to, from, count * sizeof *to);
    return on(to, from, count * sizeof *to);
}

EXPORT wchar_t *wmempcpy(wchar_t *restrict to, const wchar_t *restrict from, size_t count)
{
    COUNTED(mempcpy, to, from, count * sizeof *to);
    return (wchar_t *)on(to, from, count * sizeof *to) + count;
}

/* ---- what grows at another place is copied there, inside the C library ---- */

NEXT(realloc);
NEXT(malloc_usable_size);

/* Whether realloc is the C library's, which marks blocks of mmap and moves those by mremap: they are not copied. */
static bool is_librarys;

void look_at_realloc(void)
{
    Dl_info of_realloc, of_library;
    is_librarys = next_realloc && next_memmove && dladdr((void *)next_realloc, &of_realloc)
        && dladdr((void *)next_memmove, &of_library) && of_realloc.dli_fbase == of_library.dli_fbase;
}

static bool is_mapped(const void *block)
{
    return is_librarys && ((const size_t *)block)[-1] & 2; /* IS_MMAPPED of glibc's malloc.c */
}

EXPORT void *realloc(void *block, size_t size)
{
    size_t held = 0;
    if (block && size > SHORT && next_malloc_usable_size && is_watched() && size > hot.copies_above && !is_mapped(block))
        held = next_malloc_usable_size(block);
    uintptr_t from = (uintptr_t)block;
    void *now = CALL(realloc)(block, size);
    if (held && now && (uintptr_t)now != from)
        counted(CALL_realloc, now, (const void *)from, held < size ? held : size);
    return now;
}

EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
    size_t all;
    if (__builtin_mul_overflow(count, size, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(block, all);
}

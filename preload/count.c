/* The counts: rows in an open-addressing table that all processes fill, found by their keys. */
#include "object.h"

/* Slots looked at before a row counts as having no room. */
#define PROBES 128

#define KEY_SHIFT (KIND_BITS + CLASS_BITS + VALUE_BITS)

/* The bits that all rows of one process, call and file share. */
static inline uint64_t key_of(enum call call, unsigned file)
{
    uint64_t key = (uint64_t)1 << (USED_BIT - KEY_SHIFT - FILE_BITS - CALL_BITS) | hot.process;
    key = key << CALL_BITS | call;
    return (key << FILE_BITS | file) << KEY_SHIFT;
}

static inline uint64_t with(uint64_t key, enum kind kind, unsigned class, unsigned value)
{
    return key | (uint64_t)kind << (CLASS_BITS + VALUE_BITS) | (uint64_t)class << VALUE_BITS | value;
}

static struct row *next_row_of(uint64_t key, uint64_t slot);

static inline struct row *row_of(uint64_t key)
{
    uint64_t slot = key * 0x9e3779b97f4a7c15 >> 46; /* 18 bits: ROWS */
    struct row *row = &all_rows[slot];
    return LIKELY(__atomic_load_n(&row->key, __ATOMIC_RELAXED) == key) ? row : next_row_of(key, slot);
}

static struct row *next_row_of(uint64_t key, uint64_t slot)
{
    for (unsigned probe = 0; probe < PROBES; probe++) {
        struct row *row = &all_rows[(slot + probe) & (ROWS - 1)];
        uint64_t found = __atomic_load_n(&row->key, __ATOMIC_RELAXED);
        if (found == key)
            return row;
        if (found == 0) {
            if (__atomic_compare_exchange_n(&row->key, &found, key, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
                || found == key)
                return row;
        }
    }
    return NULL;
}

/* One instruction, so that a signal handler's own count is not lost; locked only among threads, where
 * no other process has the same rows. */
static inline void grow(uint64_t *to, uint64_t n, bool is_alone)
{
    if (is_alone)
        __asm__ volatile("addq %1, %0" : "+m"(*to) : "er"(n) : "cc");
    else
        __asm__ volatile("lock addq %1, %0" : "+m"(*to) : "er"(n) : "cc");
}

void count_copy(enum call call, unsigned file, unsigned distance, const void *buffer, size_t len, bool first)
{
    unsigned class = 63 - (unsigned)__builtin_clzl(len);
    uint64_t key = key_of(call, file);
    struct row *landing = row_of(with(key, LANDING, class, distance));
    struct row *offset = row_of(with(key, BUFFER, 0, (uintptr_t)buffer & 4095));
    if (!landing || !offset) {
        add(&shared->lost_copies, 1);
        add(&shared->lost_bytes, len);
    }
    /* All that found no room among the processes share rows. */
    bool is_alone = alone() && hot.process != 0 && !hot.shares_rows;
    if (landing) {
        grow(&landing->copies, 1, is_alone);
        grow(&landing->bytes, len, is_alone);
        if (!first)
            grow(&landing->extra, 1, is_alone);
    }
    if (offset) {
        grow(&offset->copies, 1, is_alone);
        grow(&offset->bytes, len, is_alone);
    }
}

void count_end(enum call call, unsigned file, enum kind kind)
{
    struct row *row = row_of(with(key_of(call, file), kind, 0, 0));
    if (row)
        grow(&row->copies, 1, false);
    else
        add(&shared->lost_copies, 1);
}

/* Keeps a name for fsprobe; its place and 1, or 0 where there is no room. */
uint64_t keep_name(const char *name, size_t len)
{
    if (!len || __atomic_load_n(&shared->name_bytes, __ATOMIC_RELAXED) + len > NAME_BYTES)
        return 0;
    uint64_t at = add(&shared->name_bytes, len);
    if (at + len > NAME_BYTES)
        return 0;
    for (size_t i = 0; i < len; i++)
        all_names[at + i] = name[i];
    return at + 1;
}

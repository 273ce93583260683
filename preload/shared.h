/* The memory that the object shares with fsprobe: a file in a private folder, mapped by every watched process.
 *
 * src/trace/preload/counts.rs reads the same layout; a test there compares the numbers and names below with
 * its own. Everything is 64-bit words that only grow or are set once, so that a process may be killed anywhere. */
#ifndef PRELOAD_SHARED_H
#define PRELOAD_SHARED_H

#include <stdint.h>

#define MAGIC 0x316f6c6572707366

#define PROCESSES 16384
#define FILES 8192
#define STRANGERS 256
#define MODULES 1024
#define NAME_BYTES 1048576
#define ROWS 262144

#define HEADER_BYTES 4096
#define PROCESSES_AT HEADER_BYTES
#define FILES_AT (PROCESSES_AT + PROCESSES * 72)
#define STRANGERS_AT (FILES_AT + FILES * 64)
#define MODULES_AT (STRANGERS_AT + STRANGERS * 32)
#define NAMES_AT (MODULES_AT + MODULES * 32)
#define ROWS_AT (NAMES_AT + NAME_BYTES)
#define ALL_BYTES (ROWS_AT + ROWS * 32)

struct header {
    uint64_t magic;
    uint64_t memcpy_above; /* copies in memory of more bytes than this … */
    uint64_t memcpy_below; /* … and of fewer than this are counted */
    uint64_t loader_device, loader_inode; /* the loader whose programs can be watched */
    uint64_t closed; /* nothing is to be started with the object any more: its file goes */
    uint64_t begun, started; /* programs started with the object, and those that have it */
    uint64_t processes, strangers, name_bytes; /* used so far; each may pass its limit */
    uint64_t lost_copies, lost_bytes; /* for want of room among the rows */
    uint64_t stale; /* descriptors that led elsewhere than was remembered */
    uint64_t moved_bytes; /* by sendfile and copy_file_range: those that /proc/PID/io counts */
    uint64_t between_files; /* bytes that sendfile, splice and copy_file_range put into files, maybe by copying */
    uint64_t beyond; /* one bit an `enum beyond` that was called */
    uint64_t lost_files; /* look-ups of a descriptor that found no room among the files */
    uint64_t lost_modules; /* programs and libraries that found none among the modules */
};

struct process {
    uint64_t pid;
    char name[16];
    uint64_t filtered; /* it has put a filter before its system calls: descriptors are not looked up any more */
    uint64_t has_ended, read, written; /* at its end: bytes of its calls, and of all that it waited for */
    uint64_t user_ns, system_ns; /* its own CPU time then: nobody may have waited for it */
};

struct file {
    uint64_t key;
    uint64_t mode;   /* st_mode */
    uint64_t system; /* statfs f_type of regular files */
    uint64_t direct; /* O_DIRECT */
    uint64_t name_at, name_len;
    uint64_t ready;
    uint64_t unused;
};

/* A program that was started without the object. */
struct stranger {
    uint64_t pid; /* of the process that started it */
    uint64_t why;
    uint64_t name_at, name_len;
};

/* The file of a program or library that a watched process has loaded. */
struct module {
    uint64_t key;
    uint64_t name_at, name_len;
    uint64_t ready;
};

struct row {
    uint64_t key;
    uint64_t copies, bytes;
    uint64_t extra; /* copies that are not their call's first */
};

/* A row's key, from the lowest bit: */
#define VALUE_BITS 13 /* a distance, NO_DISTANCE or a page offset */
#define CLASS_BITS 6
#define KIND_BITS 2
#define FILE_BITS 13
#define CALL_BITS 6
#define PROCESS_BITS 14
#define USED_BIT 63 /* so that no key is zero */

#define NO_DISTANCE 4096

enum kind { LANDING, BUFFER, FAILED, EMPTY };

/* File numbers that are no entry of the table. */
enum { IN_MEMORY, NO_ROOM, FIRST_FILE };

enum why { WATCHED, STATIC, PRIVILEGED, OTHER_LOADER, OTHER_MACHINE, OUT_OF_REACH, FILTERED, SANITISED };

/* Calls that may copy and are not counted. */
enum beyond { SEVERAL_MESSAGES, OTHERS_MEMORY, IO_URING, AIO };

/* Calls by the names that are told; those of one system call share one. */
#define CALLS(X) \
    X(read) X(pread64) X(readv) X(preadv) X(preadv2) X(recv) X(recvfrom) X(recvmsg) \
    X(fread) X(fgets) X(getline) X(getdelim) \
    X(write) X(pwrite64) X(writev) X(pwritev) X(pwritev2) X(send) X(sendto) X(sendmsg) \
    X(fwrite) X(fputs) X(puts) \
    X(memcpy) X(memmove) X(mempcpy) X(realloc)

#define AS_NUMBER(name) CALL_##name,
enum call { CALLS(AS_NUMBER) };

#endif

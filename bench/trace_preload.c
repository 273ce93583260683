/* Nanoseconds of CPU time of 200,000 preads of 4 KiB; with a second argument, of as many reads.
 * Usage: preads FILE [read] */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CALLS = 200000, LEN = 4096, PLACES = 256 };

static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1000000000 + time.tv_nsec;
}

int main(int count, char **words)
{
    int fd = count > 1 ? open(words[1], O_RDONLY) : -1;
    char *memory = aligned_alloc(LEN, 4 * LEN);
    if (fd < 0 || !memory)
        return 2;
    memset(memory, 1, 4 * LEN);
    long began = now();
    for (int i = 0; i < CALLS; i++) {
        if (count > 2 && i % PLACES == 0)
            lseek(fd, 0, SEEK_SET);
        ssize_t got = count > 2 ? read(fd, memory + 64, LEN) : pread(fd, memory + 64, LEN, (off_t)(i % PLACES) * LEN);
        if (got != LEN)
            return 1;
    }
    fprintf(stderr, "%ld\n", now() - began);
    return 0;
}

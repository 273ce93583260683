/* So many preads of 4 KiB of a file in the page cache, and the nanoseconds that they took: preads FILE COUNT RESULT. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static char memory[16384] __attribute__((aligned(4096)));

int main(int words, char **word)
{
    int file = words == 4 ? open(word[1], O_RDONLY) : -1;
    long count = file < 0 ? 0 : atol(word[2]);
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (long i = 0; i < count; i++)
        if (pread(file, memory + 8, 4096, 4096 * (i % 16)) != 4096)
            return 1;
    clock_gettime(CLOCK_MONOTONIC, &to);
    FILE *result = words == 4 ? fopen(word[3], "w") : NULL;
    if (file < 0 || !result)
        return 2;
    fprintf(result, "%.0f\n", (to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec));
    return fclose(result) != 0;
}

/* Reads 4 KiB of a file in memory so many times, and prints the nanoseconds that took: trace_sample READS DISTANCE */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    long reads = atol(argv[1]), distance = atol(argv[2]);
    int file = memfd_create("trace_sample", 0);
    char *memory = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (file < 0 || memory == MAP_FAILED || write(file, memory, 4096) != 4096) return 3;
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (long i = 0; i < reads; i++)
        if (pread(file, memory + distance, 4096, 0) != 4096) return 4;
    clock_gettime(CLOCK_MONOTONIC, &to);
    printf("%lld\n", (to.tv_sec - from.tv_sec) * 1000000000LL + to.tv_nsec - from.tv_nsec);
    return 0;
}

/* Made by fsprobe: times @what@ at two page offsets.
 * cc -O2 -o repro repro.c && ./repro       (pinned: taskset -c 1 ./repro) */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { LEN = @len@, REPEAT = @repeat@, ROUNDS = 51, PAGE = 4096, PLACES = 64 };

/* page offsets, @first@ then @second@: of the buffer (@side@), of the other */
static const long mine[] = { @mine@ }, others[] = { @others@ };
static const char *names[] = { "@first@", "@second@" };
static double ns[2][ROUNDS];
@state@

static void copy(char *buffer, long at) {
@copy@
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

static int order(const void *a, const void *b) {
  return (*(double *)a > *(double *)b) - (*(double *)a < *(double *)b);
}

int main(void) {
  size_t size = (size_t)LEN + (PLACES + 2) * PAGE;
  int how = MAP_PRIVATE | MAP_ANONYMOUS;
  char *pool = mmap(NULL, size, PROT_READ | PROT_WRITE, how, -1, 0), *used[2];
  if (pool == MAP_FAILED) return perror("mmap"), 1;
  memset(pool, 1, size);
@prepare@
  for (int i = 0; i < 2 * ROUNDS; i++) { /* in turns, moving over the pages */
    int which = i % 2, round = i / 2;
    long at = round * 11 % PLACES * PAGE + others[which];
    used[which] = pool + round * 7 % PLACES * PAGE + mine[which];
    copy(used[which], at); /* touches the pages, not timed */
    double start = now();
    for (int n = 0; n < REPEAT; n++) copy(used[which], at);
    ns[which][round] = (now() - start) / REPEAT;
  }
  for (int i = 0; i < 2; i++) {
    qsort(ns[i], ROUNDS, sizeof(double), order);
    double t = ns[i][ROUNDS / 2];
    printf("%s: buffer at 0x%03lx, other side at 0x%03lx: %.0f ns, %.2f GB/s\n",
           names[i], (long)used[i] % PAGE, others[i], t, LEN / t);
  }
  printf("ratio: %.2f\n", ns[0][ROUNDS / 2] / ns[1][ROUNDS / 2]);
  return 0;
}

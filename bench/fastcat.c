/*
 * The yardstick of bench/cat.sh: files to stdout by splice(2) of 16 KiB, in a bare loop.
 *
 *   fastcat through FILE...  file -> a pipe of its own -> stdout, as the program of endler.dev/2018/fastcat does
 *   fastcat direct FILE...   file -> stdout, which has to be a pipe: half as many calls
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 16 << 10 };

static int fail(const char *what)
{
    fprintf(stderr, "fastcat: %s: %s\n", what, strerror(errno));
    return 1;
}

/* Everything from one descriptor to the other; -1 where a call fails. */
static int direct(int from, int to)
{
    ssize_t count;
    while ((count = splice(from, NULL, to, NULL, PIECE, 0)) > 0)
        ;
    return (int)count;
}

/* The same through a pipe, which is empty before each turn, so that a piece always fits. */
static int through(int from, int to, const int own[2])
{
    ssize_t count;
    while ((count = splice(from, NULL, own[1], NULL, PIECE, 0)) > 0) {
        while (count > 0) {
            ssize_t out = splice(own[0], NULL, to, NULL, (size_t)count, 0);
            if (out <= 0)
                return -1;
            count -= out;
        }
    }
    return (int)count;
}

int main(int argc, char **argv)
{
    int own[2];
    int is_direct = argc > 1 && strcmp(argv[1], "direct") == 0;
    if (argc < 3 || (!is_direct && strcmp(argv[1], "through") != 0)) {
        fputs("usage: fastcat direct|through FILE...\n", stderr);
        return 2;
    }
    if (pipe(own) != 0)
        return fail("pipe");
    for (int i = 2; i < argc; i++) {
        int file = open(argv[i], O_RDONLY);
        if (file < 0)
            return fail(argv[i]);
        if ((is_direct ? direct(file, 1) : through(file, 1, own)) < 0)
            return fail(argv[i]);
        close(file);
    }
    return 0;
}

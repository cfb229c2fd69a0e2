/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target as an ordinary test: every file of the directories named on the command line,
 * every short prefix of it and a spread of longer ones, and the empty input.
 *
 * Inputs are copied to the heap at their exact size, so that a sanitizer sees the first byte read
 * past the end. A directory that does not exist holds nothing; a target with no input at all
 * still gets the empty one. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

enum {
    INPUT_BYTES = 16 << 20,
    EVERY_PREFIX = 256,  /* inputs up to this size are cut at each byte */
    MAX_PREFIXES = 1024, /* larger ones at this many places             */
};

static void feed(const uint8_t *p, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy)
        abort();
    if (n)
        memcpy(copy, p, n);
    (void)LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static void feed_with_prefixes(const uint8_t *p, size_t n)
{
    size_t step = n <= EVERY_PREFIX ? 1 : n / MAX_PREFIXES + 1;
    for (size_t cut = 0; cut < n; cut += step)
        feed(p, cut);
    feed(p, n);
}

static int replay_file(int dir_fd, const char *name, struct sg_err *err)
{
    sg_auto_fd fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return sg_fail_sys(err, "open %s", name);
    struct stat st;
    if (fstat(fd, &st) < 0)
        return sg_fail_sys(err, "stat %s", name);
    if (!S_ISREG(st.st_mode))
        return 0;
    sg_auto_buf bytes;
    sg_buf_init(&bytes, INPUT_BYTES);
    if (sg_buf_read_fd(&bytes, fd, name, err) < 0)
        return -1;
    feed_with_prefixes(bytes.p, bytes.n);
    return 1;
}

static int replay_dir(const char *path, struct sg_err *err)
{
    sg_auto_dir dir = opendir(path);
    if (!dir)
        return errno == ENOENT ? 0 : sg_fail_sys(err, "open %s", path);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        int n = replay_file(dirfd(dir), entry->d_name, err);
        if (n < 0)
            return -1;
        count += n;
    }
    return count;
}

int main(int argc, char **argv)
{
    int total = 0;
    feed(NULL, 0);
    for (int i = 1; i < argc; i++) {
        struct sg_err err;
        int n = replay_dir(argv[i], &err);
        if (n < 0) {
            (void)fprintf(stderr, "replay: %s\n", err.msg);
            return 1;
        }
        total += n;
    }
    (void)printf("%d inputs and their prefixes replayed\n", total);
    return 0;
}

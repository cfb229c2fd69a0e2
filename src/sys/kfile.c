/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/kfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/parse.h"
#include "base/banned.h"

int sg_file_read(int dir_fd, const char *path, char *ret, size_t cap, struct sg_err *err)
{
    sg_auto_fd fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return sg_fail_sys(err, "open %s", sg_quote(path).s);
    size_t n = 0;
    while (n < cap) {
        ssize_t got = read(fd, ret + n, cap - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return sg_fail_sys(err, "read %s", sg_quote(path).s);
        if (got == 0)
            break;
        n += (size_t)got;
    }
    if (n == cap)
        return sg_fail(err, SG_EXHAUSTED, "%s is over %zu bytes", sg_quote(path).s, cap - 1);
    ret[n] = '\0';
    return 0;
}

int sg_file_write(int dir_fd, const char *path, const char *text, struct sg_err *err)
{
    sg_auto_fd fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return sg_fail_sys(err, "open %s", sg_quote(path).s);
    size_t n = strlen(text);
    if (write(fd, text, n) != (ssize_t)n)
        return sg_fail_sys(err, "write '%s' to %s", text, sg_quote(path).s);
    return 0;
}

int sg_file_read_u64(int dir_fd, const char *path, uint64_t *ret, struct sg_err *err)
{
    char text[64];
    sg_auto_fd fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t got = -1;
    do /* the kernel hands out a number whole */
        got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    while (got < 0 && fd >= 0 && errno == EINTR);
    if (got < 0)
        return sg_fail_sys(err, "read %s", sg_quote(path).s);
    text[got] = '\0';
    size_t n = strcspn(text, "\n");
    if (n == 3 && memcmp(text, "max", 3) == 0) {
        *ret = UINT64_MAX;
        return 0;
    }
    return sg_parse_u64((struct sg_str) { text, n }, 0, UINT64_MAX, ret, err);
}

int sg_file_read_key(int dir_fd, const char *path, const char *key, uint64_t *ret,
                     struct sg_err *err)
{
    char text[8192];
    if (sg_file_read(dir_fd, path, text, sizeof text, err) < 0)
        return -1;
    size_t key_n = strlen(key);
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        if (n > key_n && memcmp(line, key, key_n) == 0 && line[key_n] == ' ')
            return sg_parse_u64((struct sg_str) { line + key_n + 1, n - key_n - 1 }, 0, UINT64_MAX,
                                ret, err);
        line += n + (line[n] == '\n');
    }
    return sg_fail(err, SG_NOT_FOUND, "%s has no line '%s'", sg_quote(path).s, key);
}

int sg_mkdir_all(const char *path, unsigned mode, struct sg_err *err)
{
    sg_auto_free char *copy = sg_strdup(path);
    for (char *p = copy + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(copy, 0755) < 0 && errno != EEXIST)
            return sg_fail_sys(err, "make directory %s", sg_quote(copy).s);
        *p = '/';
    }
    if (mkdir(copy, mode) < 0 && errno != EEXIST)
        return sg_fail_sys(err, "make directory %s", sg_quote(copy).s);
    return 0;
}

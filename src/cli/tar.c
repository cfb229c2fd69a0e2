/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "init/tar.h"
#include "sys/beneath.h"
#include "base/banned.h"

static bool is_step(const char *p, size_t n)
{
    return (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.');
}

/* "./a//b/" becomes "a/b", in place. False: it is absolute, or has "." or ".." in it. */
static bool tidy(char *name)
{
    if (name[0] == '/')
        return false;
    char *out = name;
    for (const char *p = name; *p;) {
        size_t n = strcspn(p, "/");
        const bool is_lead = out == name && n == 1 && p[0] == '.';
        if (n && !is_lead) {
            if (is_step(p, n))
                return false;
            if (out != name)
                *out++ = '/';
            memmove(out, p, n);
            out += n;
        }
        p += n + (p[n] == '/');
    }
    *out = '\0';
    return true;
}

/* The directories on the way to `name`. What is there already and no directory fails the next open.
 */
static void make_parents(int dir_fd, const char *name)
{
    sg_auto_free char *path = sg_strdup(name);
    for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        sg_auto_fd parent = -1;
        char *last = strrchr(path, '/');
        if (last) {
            *last = '\0';
            parent = sg_open_plain(dir_fd, path, O_PATH | O_DIRECTORY, 0);
            *last = '/';
        }
        if (!last || parent >= 0)
            (void)mkdirat(last ? parent : dir_fd, last ? last + 1 : path, 0755);
        *slash = '/';
    }
}

static int fail_to_make(const char *name, struct sg_err *err)
{
    if (errno == ELOOP || errno == EXDEV)
        return sg_fail(err, SG_DENIED, "a link or a mount is on the way to %s", sg_quote(name).s);
    return sg_fail_sys(err, "write %s", sg_quote(name).s);
}

static int make_directory(int dir_fd, const char *name, uint32_t mode, struct sg_err *err)
{
    sg_auto_free char *inside = sg_printf("%s/", name);
    make_parents(dir_fd, inside);
    sg_auto_fd fd = sg_open_plain(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fail_to_make(name, err);
    (void)fchmod(fd, (mode & 0777) | 0700);
    return 0;
}

static int make_file(struct sg_tar_reader *t, int dir_fd, const struct sg_tar_entry *e,
                     struct sg_tar_count *count, struct sg_err *err)
{
    make_parents(dir_fd, e->name);
    sg_auto_fd fd = sg_open_plain(dir_fd, e->name, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK, 0600);
    if (fd < 0)
        return fail_to_make(e->name, err);
    const uint8_t *p;
    ssize_t n;
    while ((n = sg_tar_data(t, &p, err)) > 0)
        for (size_t at = 0; at < (size_t)n;) {
            ssize_t put = write(fd, p + at, (size_t)n - at);
            if (put < 0)
                return sg_fail_sys(err, "write %s", sg_quote(e->name).s);
            at += (size_t)put;
        }
    if (n < 0)
        return -1;
    (void)fchmod(fd, e->mode & 0777);
    count->files++;
    count->bytes += e->bytes;
    return 0;
}

static int extract(struct sg_tar_reader *t, int dir_fd, struct sg_tar_entry *e,
                   struct sg_tar_count *count, struct sg_err *err)
{
    int r;
    while ((r = sg_tar_next(t, e, err)) > 0) {
        if (!tidy(e->name))
            return sg_fail(err, SG_DENIED, "the archive has an entry that leads out: %s",
                           sg_quote(e->name).s);
        if (!e->name[0]) /* the directory itself: ours */
            continue;
        if (e->kind == SG_TAR_DIR)
            r = make_directory(dir_fd, e->name, e->mode, err);
        else if (e->kind == SG_TAR_FILE)
            r = make_file(t, dir_fd, e, count, err);
        else
            count->skipped++;
        if (r < 0)
            return -1;
    }
    return r;
}

int sg_tar_extract(int dir_fd, ssize_t (*pull)(void *arg, void *p, size_t n), void *arg,
                   struct sg_tar_count *count, struct sg_err *err)
{
    sg_auto_free struct sg_tar_reader *t = sg_new(struct sg_tar_reader);
    sg_auto_free struct sg_tar_entry *e = sg_new(struct sg_tar_entry);
    sg_tar_reader_init(t, pull, arg);
    const int r = extract(t, dir_fd, e, count, err);
    if (r == 0)
        sg_tar_drain(t);
    sg_tar_reader_done(t);
    return r;
}

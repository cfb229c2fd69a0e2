/* SPDX-License-Identifier: Apache-2.0 */
/* Every file is written beside its place first, then all are moved there: an error on the way (a
 * full disk) leaves what was there. The certificate is moved last, after its key: a service that
 * starts in between finds none, or an old one, and the operator who replaces them knows. */
#include "tls/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "base/banned.h"

struct file {
    const char *name, *fresh;
    mode_t mode;
    const char *text;
};

static int open_dir(const char *dir, struct sg_err *err)
{
    if (mkdir(dir, 0755) < 0 && errno != EEXIST)
        return sg_fail_sys(err, "make the directory %s", sg_quote(dir).s);
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 ? fd : sg_fail_sys(err, "open the directory %s", sg_quote(dir).s);
}

static int write_all(int fd, const char *p, size_t n)
{
    while (n) {
        const ssize_t done = write(fd, p, n);
        if (done < 0 && errno != EINTR)
            return -1;
        if (done > 0) {
            p += done;
            n -= (size_t)done;
        }
    }
    return 0;
}

static int write_fresh(int dir_fd, const struct file *f, struct sg_err *err)
{
    (void)unlinkat(dir_fd, f->fresh, 0); /* of an attempt that was cut off */
    sg_auto_fd fd =
        openat(dir_fd, f->fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, f->mode);
    if (fd < 0 || fchmod(fd, f->mode) < 0 || write_all(fd, f->text, strlen(f->text)) < 0 ||
        fsync(fd) < 0)
        return sg_fail_sys(err, "write %s", f->fresh);
    return 0;
}

static int move_in(int dir_fd, const struct file *f, bool replaces, struct sg_err *err)
{
    if (renameat2(dir_fd, f->fresh, dir_fd, f->name, replaces ? 0 : RENAME_NOREPLACE) == 0)
        return 0;
    return sg_fail_sys(err, "write %s", f->name);
}

int sg_tls_write(const char *dir, const struct sg_tls_made *m, bool replaces, struct sg_err *err)
{
    const struct file files[] = {
        { "ca.key", "ca.key.new", 0600, m->ca_key },
        { "ca.pem", "ca.pem.new", 0644, m->ca_cert },
        { "key.pem", "key.pem.new", 0600, m->key },
        { "cert.pem", "cert.pem.new", 0644, m->cert },
    };
    sg_auto_fd fd = open_dir(dir, err);
    if (fd < 0)
        return -1;
    for (size_t i = 0; i < SG_COUNT(files); i++)
        if (!replaces && faccessat(fd, files[i].name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return sg_fail(err, SG_CONFLICT, "%s/%s is there already; --force replaces it", dir,
                           files[i].name);
    int r = 0;
    for (size_t i = 0; i < SG_COUNT(files) && r == 0; i++)
        r = write_fresh(fd, &files[i], err);
    for (size_t i = 0; i < SG_COUNT(files) && r == 0; i++)
        r = move_in(fd, &files[i], replaces, err);
    for (size_t i = 0; i < SG_COUNT(files) && r < 0; i++)
        (void)unlinkat(fd, files[i].fresh, 0);
    if (r == 0)
        (void)fsync(fd);
    return r;
}

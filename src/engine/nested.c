/* SPDX-License-Identifier: Apache-2.0 */
/* Around the root of a nested cell: a small tmpfs with what a runtime needs to run.
 *
 *     /rootfs     the root that it makes a sandbox of
 *     /runtime    itself; /usr and the links to it: its libraries, to read only
 *     /bundle     what it is told
 *     /run        what it remembers
 *     /dev /proc /tmp   as in any cell */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "engine/root_internal.h"
#include "sys/mnt.h"
#include "base/banned.h"

enum { TOP_BYTES = 16 << 20, TOP_INODES = 1024 };
static const uint64_t LENT = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_RDONLY;

static const char *const dirs[] = { SG_NESTED_ROOT, "usr",    "bundle",        "bundle/guest",
                                    "run",          "dev",    "proc",          "tmp",
                                    "sys",          "sys/fs", "sys/fs/cgroup", "etc" };

static int write_file(int top, const struct sg_nested_file *f, struct sg_err *err)
{
    sg_auto_fd fd = openat(top, f->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, f->p, f->n) != (ssize_t)f->n || fchmod(fd, f->mode) < 0)
        return sg_fail_sys(err, "write %s", f->path);
    return 0;
}

/* Where the host has a link to /usr, so has it. */
static int copy_links(int top, struct sg_err *err)
{
    static const char *const names[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };
    for (size_t i = 0; i < SG_COUNT(names); i++) {
        char host[16], target[64];
        (void)snprintf(host, sizeof host, "/%s", names[i]);
        const ssize_t n = readlink(host, target, sizeof target - 1);
        if (n <= 0)
            continue;
        target[n] = '\0';
        if (symlinkat(target, top, names[i]) < 0)
            return sg_fail_sys(err, "link %s", host);
    }
    return 0;
}

static int lend(struct sg_root *r, const char *path, int *ret, struct sg_err *err)
{
    int fd = sg_mnt_clone(AT_FDCWD, path, false, err);
    if (fd < 0)
        return sg_wrap(err, "lend %s", sg_quote(path).s);
    *ret = sg_root_keep(r, fd);
    return sg_mnt_attr(fd, LENT, 0, err);
}

static int fill(int top, const struct sg_nested *n, uint32_t owner, struct sg_err *err)
{
    for (size_t i = 0; i < SG_COUNT(dirs); i++)
        if (mkdirat(top, dirs[i], 0755) < 0)
            return sg_fail_sys(err, "make /%s", dirs[i]);
    if (mknodat(top, "runtime", S_IFREG | 0555, 0) < 0 || fchownat(top, "run", owner, owner, 0) < 0)
        return sg_fail_sys(err, "prepare what is around the root");
    for (size_t i = 0; i < n->file_count; i++)
        if (write_file(top, &n->files[i], err) < 0)
            return -1;
    return copy_links(top, err);
}

int sg_nested_make(struct sg_root *r, const struct sg_nested *n, uint32_t owner, struct sg_err *err)
{
    int top = sg_mnt_tmpfs(TOP_BYTES, TOP_INODES, 0, err);
    if (top < 0)
        return sg_wrap(err, "make what is around the root");
    r->top_fd = sg_root_keep(r, top);
    const mode_t mask = umask(0);
    const int ret = fill(top, n, owner, err);
    umask(mask);
    return ret < 0 || lend(r, "/usr", &r->usr_fd, err) < 0 ||
                   lend(r, n->runtime, &r->runtime_fd, err) < 0
               ? -1
               : 0;
}

void sg_nested_add(struct sg_root *r, struct sg_plan *plan)
{
    const struct {
        int fd;
        const char *path;
    } rows[] = { { r->root_fd, SG_NESTED_ROOT },
                 { r->usr_fd, "usr" },
                 { r->runtime_fd, "runtime" } };
    for (size_t i = 0; i < SG_COUNT(rows); i++)
        sg_plan_add(plan, (struct sg_step) { STEP_ATTACH, .fd = rows[i].fd, .to_fd = r->top_fd,
                                             .path = rows[i].path });
}

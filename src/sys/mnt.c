/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/mnt.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/banned.h"

int sg_mnt_clone(int dir_fd, const char *path, bool is_recursive, struct sg_err *err)
{
    unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (is_recursive ? AT_RECURSIVE : 0u) |
                     (*path ? 0u : AT_EMPTY_PATH);
    int fd = open_tree(dir_fd, path, flags);
    if (fd < 0)
        return sg_fail_sys(err, "take a mount of %s", sg_quote(path).s);
    return fd;
}

int sg_mnt_attr(int mnt_fd, uint64_t set, uint64_t clear, struct sg_err *err)
{
    struct mount_attr a = { .attr_set = set, .attr_clr = clear };
    if (mount_setattr(mnt_fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof a) < 0)
        return sg_fail_sys(err, "set mount flags");
    return 0;
}

int sg_mnt_idmap(int mnt_fd, int userns_fd, struct sg_err *err)
{
    struct mount_attr a = { .attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (unsigned)userns_fd };
    if (mount_setattr(mnt_fd, "", AT_EMPTY_PATH, &a, sizeof a) == 0)
        return 0;
    if (errno == EINVAL)
        return sg_fail(err, SG_UNSUPPORTED,
                       "the filesystem of the template cannot shift ids (idmapped mount): keep "
                       "state_dir on ext4, xfs or btrfs");
    return sg_fail_sys(err, "shift the ids of a mount");
}

/* The filesystem context explains itself when read: "e overlay: ..." lines. */
static int fail_fs(int fs_fd, const char *what, struct sg_err *err)
{
    int sys = errno;
    char text[160];
    ssize_t n = read(fs_fd, text, sizeof text - 1);
    errno = sys;
    if (n <= 2)
        return sg_fail_sys(err, "%s", what);
    text[n] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return sg_fail_sys(err, "%s: %s", what, text + 2);
}

static int finish(int fs_fd, uint64_t attrs, const char *what, struct sg_err *err)
{
    if (fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return fail_fs(fs_fd, what, err);
    int fd = fsmount(fs_fd, FSMOUNT_CLOEXEC, (unsigned)attrs);
    return fd < 0 ? fail_fs(fs_fd, what, err) : fd;
}

static int tmpfs_limits(int fs, uint64_t bytes, uint64_t inodes)
{
    char size[24], count[24];
    (void)snprintf(size, sizeof size, "%" PRIu64, bytes);
    (void)snprintf(count, sizeof count, "%" PRIu64, inodes);
    if (fsconfig(fs, FSCONFIG_SET_STRING, "size", size, 0) < 0)
        return -1;
    return fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", count, 0);
}

int sg_mnt_tmpfs(uint64_t bytes, uint64_t inodes, uint64_t attrs, struct sg_err *err)
{
    sg_auto_fd fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (fs < 0)
        return sg_fail_sys(err, "open a tmpfs");
    if (tmpfs_limits(fs, bytes, inodes) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0)
        return fail_fs(fs, "configure a tmpfs", err);
    return finish(fs, attrs, "make a tmpfs", err);
}

int sg_mnt_tmpfs_resize(int mnt_fd, uint64_t bytes, uint64_t inodes, struct sg_err *err)
{
    sg_auto_fd fs = fspick(mnt_fd, "", FSPICK_EMPTY_PATH | FSPICK_CLOEXEC);
    if (fs < 0)
        return sg_fail_sys(err, "take hold of a tmpfs");
    if (tmpfs_limits(fs, bytes, inodes) < 0)
        return fail_fs(fs, "configure a tmpfs", err);
    if (fsconfig(fs, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) == 0)
        return 0;
    if (errno == EINVAL)
        return sg_fail(err, SG_CONFLICT, "more is stored than that");
    return fail_fs(fs, "resize a tmpfs", err);
}

static int upper_by_fd(int fs, int upper_fd, int work_fd)
{
    if (fsconfig(fs, FSCONFIG_SET_FD, "upperdir", NULL, upper_fd) < 0)
        return -1;
    return fsconfig(fs, FSCONFIG_SET_FD, "workdir", NULL, work_fd);
}

int sg_overlay_begin(struct sg_overlay *o, int upper_fd, int work_fd, bool force_path,
                     struct sg_err *err)
{
    o->fs_fd = fsopen("overlay", FSOPEN_CLOEXEC);
    if (o->fs_fd < 0)
        return sg_fail_sys(err, "open an overlay");
    o->by_path = force_path;
    if (force_path || upper_by_fd(o->fs_fd, upper_fd, work_fd) == 0)
        return 0;
    /* EINVAL: no such option. EOPNOTSUPP: overlay does not know the new mount API at all (6.1). */
    if (errno != EINVAL && errno != EOPNOTSUPP)
        return fail_fs(o->fs_fd, "name the upper layer of an overlay", err);
    sg_drop_fd(&o->fs_fd); /* start over: the refused option must not linger */
    return sg_overlay_begin(o, upper_fd, work_fd, true, err);
}

static int lower_by_fd(int fs, const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fsconfig(fs, FSCONFIG_SET_FD, "lowerdir+", NULL, fds[i]) < 0)
            return -1;
    return 0;
}

/* The layers' mounts are attached in our namespace by now, so /proc/self/fd leads to them. */
static int layers_by_path(int fs, const int *fds, size_t count, int upper_fd, int work_fd)
{
    sg_auto_buf lower;
    sg_buf_init(&lower, 4096);
    for (size_t i = 0; i < count; i++)
        sg_buf_addf(&lower, "%s/proc/self/fd/%d", i ? ":" : "", fds[i]);
    char upper[40], work[40];
    (void)snprintf(upper, sizeof upper, "/proc/self/fd/%d", upper_fd);
    (void)snprintf(work, sizeof work, "/proc/self/fd/%d", work_fd);
    if (fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir", sg_buf_cstr(&lower), 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "upperdir", upper, 0) < 0)
        return -1;
    return fsconfig(fs, FSCONFIG_SET_STRING, "workdir", work, 0);
}

int sg_overlay_finish(struct sg_overlay *o, const int *lower_fds, size_t lower_count, int upper_fd,
                      int work_fd, unsigned flags, uint64_t attrs, struct sg_err *err)
{
    const int fs = o->fs_fd;
    if (((flags & SG_OVERLAY_USERXATTR) &&
         fsconfig(fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0) < 0) ||
        ((flags & SG_OVERLAY_VOLATILE) && fsconfig(fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0) < 0))
        return fail_fs(fs, "configure an overlay", err);
    int ret = o->by_path ? layers_by_path(fs, lower_fds, lower_count, upper_fd, work_fd)
                         : lower_by_fd(fs, lower_fds, lower_count);
    if (ret < 0)
        return fail_fs(fs, "name the layers of an overlay", err);
    return finish(fs, attrs, "make an overlay", err);
}

void sg_overlay_done(struct sg_overlay *o)
{
    sg_drop_fd(&o->fs_fd);
}

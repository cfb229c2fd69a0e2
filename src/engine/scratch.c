/* SPDX-License-Identifier: Apache-2.0 */
/* The scratch: one tmpfs with all that a cell may write, its /dev, and the covers for what it may
 * not see (R1 in root.h).
 *
 *     up wk       upper and work directory of the overlay
 *     tmp shm     /tmp and /dev/shm
 *     work        the work directory of a cell whose root is read-only
 *     dev         /dev, seen read-only
 *     none        an empty directory, to cover others with
 *     boot-id, machine-id   seen in place of the host's own, and of what a template brought along:
 *                 no two cells are the same machine, nor the same boot of it */
#include "engine/root_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/auto.h"
#include "sys/mnt.h"
#include "base/banned.h"

/* Of the disk limit: a million tiny files end where a full disk would. */
enum { BYTES_PER_INODE = 4096, SPARE_INODES = 256, SHM_OF_MEMORY = 2 };

static const uint64_t INERT = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

const struct sg_part sg_parts[SG_PART_COUNT] = {
    { "dev", "dev", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY, false },
    { "shm", "dev/shm", INERT | MOUNT_ATTR_NOEXEC, false },
    { "tmp", "tmp", INERT, true },
};

static const struct {
    const char *name;
    mode_t mode;
    bool is_owned; /* by root inside; the others by nobody who could change them */
} dirs[] = {
    { "up", 0755, true },   { "wk", 0755, false },  { "tmp", 01777, true },  { "shm", 01777, true },
    { "work", 0755, true }, { "dev", 0755, false }, { "none", 0555, false },
};

static const struct node {
    const char *host, *inside; /* inside: from the cell's root; its last part starts at +4 */
    unsigned major, minor;
} nodes[] = {
    { "/dev/null", "dev/null", 1, 3 },       { "/dev/zero", "dev/zero", 1, 5 },
    { "/dev/full", "dev/full", 1, 7 },       { "/dev/random", "dev/random", 1, 8 },
    { "/dev/urandom", "dev/urandom", 1, 9 }, { "/dev/tty", "dev/tty", 5, 0 },
};

static const struct {
    const char *name, *target;
} links[] = {
    { "fd", "/proc/self/fd" },       { "stdin", "/proc/self/fd/0" },
    { "stdout", "/proc/self/fd/1" }, { "stderr", "/proc/self/fd/2" },
    { "ptmx", "pts/ptmx" },
};

/* A runtime's, not the sandbox's: that has a /dev of its own. */
static int add_kvm(int dev, uint32_t owner, struct sg_err *err)
{
    enum { MISC = 10, KVM = 232 };
    if (mknodat(dev, "kvm", S_IFCHR | 0600, makedev(MISC, KVM)) < 0 ||
        fchownat(dev, "kvm", owner, owner, 0) < 0)
        return sg_fail_sys(err, "make /dev/kvm");
    return 0;
}

static int fill_dev(int dev, bool has_nodes, struct sg_err *err)
{
    if (mkdirat(dev, "pts", 0755) < 0 || mkdirat(dev, "shm", 0755) < 0)
        return sg_fail_sys(err, "prepare /dev");
    for (size_t i = 0; i < SG_COUNT(links); i++)
        if (symlinkat(links[i].target, dev, links[i].name) < 0)
            return sg_fail_sys(err, "prepare /dev/%s", links[i].name);
    for (size_t i = 0; i < SG_COUNT(nodes); i++) {
        /* Without nodes, an empty file: the host's device is bound onto it. */
        const mode_t mode = has_nodes ? S_IFCHR | 0666 : S_IFREG | 0444;
        const dev_t id = has_nodes ? makedev(nodes[i].major, nodes[i].minor) : 0;
        if (mknodat(dev, nodes[i].inside + 4, mode, id) < 0)
            return sg_fail_sys(err, "make %s", nodes[i].host);
    }
    return 0;
}

/* Names of this cell: random (RFC 9562, version 4), the second without dashes, as systemd has it.
 */
static int write_names(int fd)
{
    uint8_t r[2][16];
    char text[2][40];
    if (getrandom(r, sizeof r, 0) != (ssize_t)sizeof r)
        return -1;
    for (size_t k = 0; k < SG_COUNT(r); k++) {
        int n = 0;
        r[k][6] = (uint8_t)((r[k][6] & 0x0f) | 0x40);
        r[k][8] = (uint8_t)((r[k][8] & 0x3f) | 0x80);
        for (size_t i = 0; i < 16; i++)
            n += snprintf(text[k] + n, sizeof text[k] - (size_t)n, "%s%02x",
                          k == 0 && (i == 4 || i == 6 || i == 8 || i == 10) ? "-" : "", r[k][i]);
        (void)snprintf(text[k] + n, sizeof text[k] - (size_t)n, "\n");
        sg_auto_fd file =
            openat(fd, k ? "machine-id" : "boot-id", O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
        if (file < 0 || write(file, text[k], strlen(text[k])) < 0)
            return -1;
    }
    return 0;
}

static uint64_t inodes_of(uint64_t bytes)
{
    return bytes / BYTES_PER_INODE + SPARE_INODES;
}

int sg_scratch_resize(int part_fd, uint64_t bytes, struct sg_err *err)
{
    return sg_mnt_tmpfs_resize(part_fd, bytes, inodes_of(bytes), err);
}

int sg_scratch_make(struct sg_root *r, const struct sg_cell_spec *spec, uint32_t owner,
                    struct sg_err *err)
{
    /* With a disk it holds /dev/shm, which is memory in any case, and of no other use. */
    const uint64_t bytes =
        spec->limits.is_pooled ? spec->limits.mem_bytes / SHM_OF_MEMORY : spec->limits.disk_bytes;
    int fd = sg_mnt_tmpfs(bytes, inodes_of(bytes), 0, err);
    if (fd < 0)
        return sg_wrap(err, "make the writable layer");
    r->scratch_fd = sg_root_keep(r, fd);
    const mode_t mask = umask(0);
    int ret = 0;
    for (size_t i = 0; ret == 0 && i < SG_COUNT(dirs); i++) {
        ret = mkdirat(fd, dirs[i].name, dirs[i].mode);
        if (ret == 0 && dirs[i].is_owned)
            ret = fchownat(fd, dirs[i].name, owner, owner, 0);
    }
    if (ret == 0)
        ret = write_names(fd);
    sg_auto_fd dev = ret < 0 ? -1 : openat(fd, "dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dev < 0)
        ret = sg_fail_sys(err, "prepare the writable layer");
    else
        ret = fill_dev(dev, !spec->is_rootless, err);
    if (ret == 0 && spec->nested && spec->nested->has_kvm)
        ret = add_kvm(dev, owner, err);
    umask(mask);
    return ret;
}

int sg_scratch_bind_nodes(struct sg_root *r, struct sg_plan *plan, struct sg_err *err)
{
    for (size_t i = 0; i < SG_COUNT(nodes); i++) {
        const struct node *n = &nodes[i];
        int fd = sg_mnt_clone(AT_FDCWD, n->host, false, err);
        if (fd < 0)
            return -1;
        sg_root_keep(r, fd);
        struct stat st;
        if (fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode) || st.st_rdev != makedev(n->major, n->minor))
            return sg_fail(err, SG_UNSUPPORTED, "the host's %s is not the device it should be",
                           n->host);
        sg_plan_add(plan, (struct sg_step) { STEP_ATTACH, .fd = fd, .to_fd = r->root_fd,
                                             .path = n->inside });
    }
    return 0;
}

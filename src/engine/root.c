/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/root.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "engine/switches.h"
#include "sys/mnt.h"
#include "sys/path.h"
#include "base/banned.h"

enum {
    BYTES_PER_INODE =
        4096,    /* of the disk limit: a million tiny files end where a full disk would */
    TTY_GID = 5, /* Debian's "tty" */
};
static const uint64_t INERT = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

/* What the scratch holds, and where parts of it appear in the cell. */
static const struct part {
    const char *name, *target;
    mode_t mode;
    uint64_t set, clear;
} parts[] = {
    { "dev", "dev", 0755, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, MOUNT_ATTR_NODEV },
    { "shm", "dev/shm", 01777, INERT | MOUNT_ATTR_NOEXEC, MOUNT_ATTR_RDONLY },
    { "tmp", "tmp", 01777, INERT, MOUNT_ATTR_RDONLY },
};

/* Hidden from the cell's own proc: what tells of the host or has been a way out of containers. */
static const char *const proc_masks[] = {
    "acpi",        "asound",        "bus",        "driver",        "fs",
    "irq",         "kcore",         "keys",       "key-users",     "kmsg",
    "kpagecgroup", "kpagecount",    "kpageflags", "latency_stats", "sched_debug",
    "scsi",        "sysrq-trigger", "timer_list", "timer_stats",
};

static const struct node {
    const char *name;
    unsigned major, minor;
} nodes[] = {
    { "null", 1, 3 },   { "zero", 1, 5 },    { "full", 1, 7 },
    { "random", 1, 8 }, { "urandom", 1, 9 }, { "tty", 5, 0 },
};

static const struct {
    const char *name, *target;
} dev_links[] = {
    { "fd", "/proc/self/fd" },       { "stdin", "/proc/self/fd/0" },
    { "stdout", "/proc/self/fd/1" }, { "stderr", "/proc/self/fd/2" },
    { "ptmx", "pts/ptmx" },          { "core", "/proc/kcore" },
};

void sg_root_init(struct sg_root *r)
{
    r->fd_count = 0;
    r->root_fd = r->scratch_fd = -1;
}

void sg_root_done(struct sg_root *r)
{
    for (unsigned i = 0; i < r->fd_count; i++)
        sg_drop_fd(&r->fds[i]);
    sg_root_init(r);
}

static int keep(struct sg_root *r, int fd)
{
    assert(r->fd_count < SG_COUNT(r->fds));
    r->fds[r->fd_count++] = fd;
    return fd;
}

/* ---- scratch ---- */

/* A device file of the host, bound onto an empty file: for those who may not make device nodes. */
static int bind_node(struct sg_root *r, const struct node *n, int dev_fd, struct sg_plan *plan,
                     struct sg_err *err)
{
    static const char *const paths[SG_COUNT(nodes)] = { "dev/null",   "dev/zero",    "dev/full",
                                                        "dev/random", "dev/urandom", "dev/tty" };
    const char *path = paths[n - nodes];
    char host[24];
    (void)snprintf(host, sizeof host, "/%s", path);
    int fd = sg_mnt_clone(AT_FDCWD, host, false, err);
    if (fd < 0)
        return -1;
    keep(r, fd);
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode) || st.st_rdev != makedev(n->major, n->minor))
        return sg_fail(err, SG_UNSUPPORTED, "the host's %s is not the device it should be", host);
    sg_auto_fd target = openat(dev_fd, n->name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
    if (target < 0)
        return sg_fail_sys(err, "make %s", host);
    sg_plan_add(plan,
                (struct sg_step) { STEP_ATTACH, .fd = fd, .to_fd = r->root_fd, .path = path });
    return 0;
}

static int fill_dev(int scratch, const struct sg_cell_spec *spec, uint32_t owner,
                    struct sg_err *err)
{
    sg_auto_fd dev = openat(scratch, "dev", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dev < 0 || mkdirat(dev, "pts", 0755) < 0 || mkdirat(dev, "shm", 0755) < 0)
        return sg_fail_sys(err, "prepare /dev");
    for (size_t i = 0; i < SG_COUNT(dev_links); i++)
        if (symlinkat(dev_links[i].target, dev, dev_links[i].name) < 0)
            return sg_fail_sys(err, "prepare /dev/%s", dev_links[i].name);
    for (size_t i = 0; !spec->is_rootless && i < SG_COUNT(nodes); i++)
        if (mknodat(dev, nodes[i].name, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor)) <
                0 ||
            fchmodat(dev, nodes[i].name, 0666, 0) < 0 ||
            fchownat(dev, nodes[i].name, owner, owner, 0) < 0)
            return sg_fail_sys(err, "make /dev/%s", nodes[i].name);
    return 0;
}

static int make_scratch(struct sg_root *r, const struct sg_cell_spec *spec, uint32_t owner,
                        struct sg_err *err)
{
    const uint64_t bytes = spec->limits.disk_bytes;
    int fd = sg_mnt_tmpfs(bytes, bytes / BYTES_PER_INODE + 256, 0, err);
    if (fd < 0)
        return sg_wrap(err, "make the writable layer");
    r->scratch_fd = keep(r, fd);
    static const struct {
        const char *name;
        mode_t mode;
    } dirs[] = { { "up", 0755 },  { "wk", 0755 },   { "none", 0555 }, { "work", 0755 },
                 { "dev", 0755 }, { "shm", 01777 }, { "tmp", 01777 } };
    for (size_t i = 0; i < SG_COUNT(dirs); i++)
        if (mkdirat(fd, dirs[i].name, 0755) < 0 ||
            fchmodat(fd, dirs[i].name, dirs[i].mode, 0) < 0 ||
            fchownat(fd, dirs[i].name, owner, owner, 0) < 0)
            return sg_fail_sys(err, "prepare the writable layer");
    sg_auto_fd empty = openat(fd, "void", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0);
    if (empty < 0)
        return sg_fail_sys(err, "prepare the writable layer");
    return fill_dev(fd, spec, owner, err);
}

/* ---- overlay ---- */

static int open_layers(struct sg_root *r, const struct sg_cell_spec *spec, int userns_fd,
                       int *ret_fds, struct sg_err *err)
{
    for (size_t i = 0; i < spec->layer_count; i++) {
        int fd = sg_mnt_clone(AT_FDCWD, spec->layers[i], false, err);
        if (fd < 0)
            return sg_wrap(err, "open layer %s", sg_quote(spec->layers[i]).s);
        ret_fds[i] = keep(r, fd);
        if (sg_mnt_attr(fd, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, 0, err) < 0 ||
            (spec->is_idmapped && sg_mnt_idmap(fd, userns_fd, err) < 0))
            return sg_wrap(err, "layer %s", sg_quote(spec->layers[i]).s);
    }
    return 0;
}

/* Older kernels look layers up by path, in our own mount namespace: attach the scratch over "/"
 * of a private one and the layers below it, for as long as it takes. */
static int attach_for_paths(struct sg_root *r, const int *lower, size_t count, struct sg_err *err)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return sg_fail_sys(err, "make a private mount namespace");
    if (move_mount(r->scratch_fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return sg_fail_sys(err, "attach the writable layer");
    for (size_t i = 0; i < count; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "l%u", (unsigned)i);
        if (mkdirat(r->scratch_fd, name, 0755) < 0 ||
            move_mount(lower[i], "", r->scratch_fd, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
            return sg_fail_sys(err, "attach a layer");
    }
    return 0;
}

/* Back to a detached scratch, which the child can attach; ours goes with its layers. */
static int detach_again(struct sg_root *r, struct sg_err *err)
{
    int copy = sg_mnt_clone(r->scratch_fd, "", false, err);
    if (copy < 0)
        return -1;
    char path[40];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", r->scratch_fd);
    if (umount2(path, MNT_DETACH) < 0) {
        sg_fail_sys(err, "detach the layers");
        sg_drop_fd(&copy);
        return -1;
    }
    r->scratch_fd = keep(r, copy);
    return 0;
}

static int make_overlay(struct sg_root *r, const struct sg_cell_spec *spec, int userns_fd,
                        struct sg_err *err)
{
    int lower[SG_CELL_MAX_LAYERS];
    if (open_layers(r, spec, userns_fd, lower, err) < 0)
        return -1;
    const bool by_path = sg_switch_is_on(SG_SWITCH_OVERLAY_BY_PATH) || !sg_mnt_overlay_takes_fds();
    if (by_path && attach_for_paths(r, lower, spec->layer_count, err) < 0)
        return -1;
    sg_auto_fd upper = openat(r->scratch_fd, "up", O_PATH | O_DIRECTORY | O_CLOEXEC);
    sg_auto_fd work = openat(r->scratch_fd, "wk", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const struct sg_overlay o = { .lower_fds = lower,
                                  .lower_count = spec->layer_count,
                                  .upper_fd = upper,
                                  .work_fd = work,
                                  .uses_userxattr = spec->is_rootless,
                                  .by_path = by_path };
    const uint64_t attrs = MOUNT_ATTR_NODEV | (spec->grants_sudo ? 0 : MOUNT_ATTR_NOSUID);
    int fd = sg_mnt_overlay(&o, attrs, err);
    if (fd < 0)
        return sg_wrap(err, "make the root filesystem");
    r->root_fd = keep(r, fd);
    struct statvfs fs; /* an overlay that cannot make its work directory mounts itself read-only */
    if (fstatvfs(fd, &fs) < 0 || fs.f_flag & ST_RDONLY)
        return sg_fail(err, SG_INTERNAL, "the root filesystem came out read-only");
    return by_path ? detach_again(r, err) : 0;
}

/* ---- what appears where ---- */

static bool is_below(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    return strncmp(path, dir, n) == 0 && path[n] == '/';
}

/* Sees to it that a bind's target exists. Below another bind it must exist already. */
static int make_target(struct sg_root *r, const struct sg_cell_spec *spec, size_t index,
                       bool is_dir, uint32_t owner, struct sg_err *err)
{
    const char *target = spec->binds[index].target + 1;
    for (size_t i = 0; i < index; i++)
        if (is_below(target, spec->binds[i].target + 1))
            return 0;
    int base = r->root_fd;
    sg_auto_fd part = -1;
    for (size_t i = 0; i < SG_COUNT(parts); i++)
        if (is_below(target, parts[i].target)) {
            part = openat(r->scratch_fd, parts[i].name, O_PATH | O_DIRECTORY | O_CLOEXEC);
            base = part;
            target = spec->binds[index].target + 1 + strlen(parts[i].target) + 1;
        }
    sg_auto_fd made = is_dir ? sg_make_dir_in(base, target, owner, err)
                             : sg_make_file_in(base, target, owner, err);
    return made < 0 ? -1 : 0;
}

static int add_bind(struct sg_root *r, const struct sg_cell_spec *spec, size_t index, int userns_fd,
                    uint32_t owner, struct sg_plan *plan, struct sg_err *err)
{
    const struct sg_bind *b = &spec->binds[index];
    int fd = sg_mnt_clone(AT_FDCWD, b->source, true, err);
    if (fd < 0)
        return sg_wrap(err, "bind %s", sg_quote(b->source).s);
    keep(r, fd);
    struct stat st;
    if (fstat(fd, &st) < 0)
        return sg_fail_sys(err, "bind %s", sg_quote(b->source).s);
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return sg_fail(err, SG_INVALID, "bind %s: only files and directories can be bound",
                       sg_quote(b->source).s);
    bool is_ro = (b->flags & SG_BIND_READ_ONLY) || spec->is_read_only;
    if (sg_mnt_attr(fd, INERT | (is_ro ? MOUNT_ATTR_RDONLY : 0), 0, err) < 0 ||
        ((b->flags & SG_BIND_IDMAP) && !spec->is_rootless &&
         sg_mnt_idmap(fd, userns_fd, err) < 0) ||
        make_target(r, spec, index, S_ISDIR(st.st_mode), owner, err) < 0)
        return sg_wrap(err, "bind %s to %s", sg_quote(b->source).s, sg_quote(b->target).s);
    sg_plan_add(plan, (struct sg_step) { STEP_ATTACH, .fd = fd, .to_fd = r->root_fd,
                                         .path = b->target + 1 });
    return 0;
}

static void add_part(struct sg_root *r, const char *name, const char *target, uint64_t set,
                     uint64_t clear, struct sg_plan *plan)
{
    sg_plan_add(plan, (struct sg_step) { STEP_ATTACH_PART, .fd = r->scratch_fd, .text = name,
                                         .value = set, .clear = clear, .to_fd = r->root_fd,
                                         .path = target });
}

/* The work directory: in the root when that is writable, else a part of the scratch. */
static int add_workdir(struct sg_root *r, const struct sg_cell_spec *spec, uint32_t owner,
                       struct sg_plan *plan, struct sg_err *err)
{
    for (size_t i = 0; i < spec->bind_count; i++)
        if (strcmp(spec->workdir, spec->binds[i].target) == 0 ||
            is_below(spec->workdir, spec->binds[i].target))
            return 0;
    if (is_below(spec->workdir, "/tmp") || strcmp(spec->workdir, "/tmp") == 0 ||
        strcmp(spec->workdir, "/") == 0)
        return 0;
    sg_auto_fd dir = sg_make_dir_in(r->root_fd, spec->workdir, owner, err);
    if (dir < 0)
        return sg_wrap(err, "work directory %s", sg_quote(spec->workdir).s);
    if (!spec->is_read_only)
        return 0;
    if (fchownat(r->scratch_fd, "work", owner, owner, 0) < 0)
        return sg_fail_sys(err, "work directory %s", sg_quote(spec->workdir).s);
    add_part(r, "work", spec->workdir + 1, INERT, MOUNT_ATTR_RDONLY, plan);
    return 0;
}

static int add_mounts(struct sg_root *r, const struct sg_cell_spec *spec, const struct sg_ids *ids,
                      struct sg_plan *plan, struct sg_err *err)
{
    static const char *const points[] = { "dev", "proc", "sys", "tmp" };
    for (size_t i = 0; i < SG_COUNT(points); i++) {
        sg_auto_fd fd = sg_make_dir_in(r->root_fd, points[i], ids->first, err);
        if (fd < 0)
            return -1;
    }
    sg_plan_add(plan, (struct sg_step) { STEP_ATTACH, .fd = r->scratch_fd, .to_fd = AT_FDCWD,
                                         .path = "/" });
    sg_plan_add(plan,
                (struct sg_step) { STEP_ATTACH, .fd = r->root_fd, .to_fd = AT_FDCWD, .path = "/" });
    for (size_t i = 0; i < SG_COUNT(parts); i++)
        add_part(r, parts[i].name, parts[i].target, parts[i].set, parts[i].clear, plan);
    sg_auto_fd dev = openat(r->scratch_fd, "dev", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; spec->is_rootless && i < SG_COUNT(nodes); i++)
        if (bind_node(r, &nodes[i], dev, plan, err) < 0)
            return -1;
    sg_plan_add(plan, (struct sg_step) { STEP_MOUNT_DEVPTS, .to_fd = r->root_fd, .path = "dev/pts",
                                         .is_optional = spec->is_rootless,
                                         .value = ids->first + TTY_GID });
    sg_plan_add(plan, (struct sg_step) { STEP_MOUNT_PROC, .to_fd = r->root_fd, .path = "proc" });
    for (size_t i = 0; i < SG_COUNT(proc_masks); i++)
        sg_plan_add(
            plan, (struct sg_step) { STEP_MASK_PROC, .fd = r->scratch_fd, .path = proc_masks[i] });
    sg_plan_add(plan, (struct sg_step) { .op = STEP_LOCK_PROC_SYS });
    return 0;
}

int sg_root_build(struct sg_root *r, const struct sg_cell_spec *spec, const struct sg_ids *ids,
                  int userns_fd, struct sg_plan *plan, struct sg_err *err)
{
    const uint32_t first = spec->is_rootless ? 0 : ids->first;
    const uint32_t owner = spec->is_rootless ? 0 : ids->first + spec->owner_id;
    if (make_scratch(r, spec, first, err) < 0 || make_overlay(r, spec, userns_fd, err) < 0 ||
        add_mounts(r, spec, ids, plan, err) < 0)
        return -1;
    for (size_t i = 0; i < spec->bind_count; i++)
        if (add_bind(r, spec, i, userns_fd, owner, plan, err) < 0)
            return -1;
    for (size_t i = 0; i < spec->hide_count; i++) {
        add_part(r, "none", spec->hide[i] + 1, INERT | MOUNT_ATTR_RDONLY, 0, plan);
        plan->steps[plan->added - 1].is_optional = true;
    }
    if (add_workdir(r, spec, owner, plan, err) < 0)
        return -1;
    const uint64_t inert = INERT | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY;
    if (sg_mnt_attr(r->scratch_fd, inert & ~(uint64_t)(MOUNT_ATTR_NOEXEC | MOUNT_ATTR_NODEV), 0,
                    err) < 0 ||
        (spec->is_read_only && sg_mnt_attr(r->root_fd, MOUNT_ATTR_RDONLY, 0, err) < 0))
        return -1;
    sg_plan_add(plan, (struct sg_step) { STEP_PIVOT, .fd = r->root_fd });
    return 0;
}

int sg_root_space(const struct sg_root *r, uint64_t *ret_total, uint64_t *ret_free)
{
    struct statfs fs;
    if (r->scratch_fd < 0 || fstatfs(r->scratch_fd, &fs) < 0)
        return -1;
    *ret_total = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
    *ret_free = (uint64_t)fs.f_bfree * (uint64_t)fs.f_bsize;
    return 0;
}

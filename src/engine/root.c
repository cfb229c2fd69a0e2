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
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "engine/root_internal.h"
#include "engine/switches.h"
#include "engine/userns.h"
#include "sys/mnt.h"
#include "sys/path.h"
#include "base/banned.h"

enum { TTY_GID = 5, HOSTS_MAX = 16 << 10 }; /* Debian's "tty" */
#define OWN_ADDRESS "127.0.1.1"

static const uint64_t INERT = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
/* All cells together share what kernel.pty.max leaves, 3,072 by default: none may take them all. */
static const char MAX_TERMINALS[] = "64";

void sg_root_init(struct sg_root *r)
{
    r->fd_count = 0;
    r->top_fd = r->root_fd = r->scratch_fd = r->disk_fd = r->layers_fd = r->upper_fd = r->work_fd =
        -1;
    r->overlay = (struct sg_overlay) { .fs_fd = -1 };
}

static int detach_layers(struct sg_root *r, struct sg_err *err)
{
    char path[40];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", r->layers_fd);
    if (umount2(path, MNT_DETACH) < 0)
        return sg_fail_sys(err, "detach the layers");
    r->layers_fd = -1;
    return 0;
}

void sg_root_done(struct sg_root *r)
{
    if (r->layers_fd >= 0)
        (void)detach_layers(r, NULL);
    for (unsigned i = 0; i < r->fd_count; i++)
        sg_drop_fd(&r->fds[i]);
    sg_overlay_done(&r->overlay);
    sg_root_init(r);
}

int sg_root_keep(struct sg_root *r, int fd)
{
    assert(r->fd_count < SG_COUNT(r->fds));
    r->fds[r->fd_count++] = fd;
    return fd;
}

/* ---- overlay ---- */

static int open_layers(struct sg_root *r, const struct sg_cell_spec *spec, int userns_fd,
                       int *ret_fds, struct sg_err *err)
{
    for (size_t i = 0; i < spec->layer_count; i++) {
        int fd = sg_mnt_clone(AT_FDCWD, spec->layers[i], false, err);
        if (fd < 0)
            return sg_wrap(err, "open layer %s", sg_quote(spec->layers[i]).s);
        ret_fds[i] = sg_root_keep(r, fd);
        if (sg_mnt_attr(fd, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, 0, err) < 0 ||
            (spec->is_idmapped && sg_mnt_idmap(fd, userns_fd, err) < 0))
            return sg_wrap(err, "layer %s", sg_quote(spec->layers[i]).s);
    }
    return 0;
}

/* Older kernels look layers up by path, in our own mount namespace: the scratch is attached over
 * /sys of a private one, for as long as it takes, and the child gets a copy of it. (Over "/" we
 * would count as chrooted, and could not make a user namespace any more.) */
static int attach_for_paths(struct sg_root *r, struct sg_err *err)
{
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return sg_fail_sys(err, "make a private mount namespace");
    if (move_mount(r->scratch_fd, "", AT_FDCWD, "/sys", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return sg_fail_sys(err, "attach the writable layer");
    r->layers_fd = r->scratch_fd;
    if (r->disk_fd != r->scratch_fd &&
        (mkdirat(r->layers_fd, "disk", 0700) < 0 ||
         move_mount(r->disk_fd, "", r->layers_fd, "disk", MOVE_MOUNT_F_EMPTY_PATH) < 0))
        return sg_fail_sys(err, "attach the disk");
    int copy = sg_mnt_clone(r->scratch_fd, "", false, err);
    if (copy < 0)
        return -1;
    r->scratch_fd = sg_root_keep(r, copy);
    return 0;
}

static int attach_layers(struct sg_root *r, const int *lower, size_t count, struct sg_err *err)
{
    for (size_t i = 0; i < count; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "l%u", (unsigned)i);
        if (mkdirat(r->layers_fd, name, 0755) < 0 ||
            move_mount(lower[i], "", r->layers_fd, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
            return sg_fail_sys(err, "attach a layer");
    }
    return 0;
}

/* A copy of the pool's mount that shows one layer of it, with the cell's ids. */
static int open_disk(struct sg_root *r, const struct sg_cell_spec *spec, int userns_fd,
                     struct sg_err *err)
{
    r->disk_fd = r->scratch_fd;
    if (!spec->limits.is_pooled)
        return 0;
    int fd = sg_mnt_clone(spec->disk_fd, "", false, err);
    if (fd < 0)
        return sg_wrap(err, "open the writable layer");
    r->disk_fd = sg_root_keep(r, fd);
    if (sg_mnt_attr(fd, INERT, 0, err) < 0 || sg_mnt_idmap(fd, userns_fd, err) < 0)
        return sg_wrap(err, "writable layer");
    return 0;
}

static int begin_overlay(struct sg_root *r, struct sg_err *err)
{
    const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    const int fd = r->disk_fd;
    r->upper_fd = sg_root_keep(r, openat(fd, "up", flags));
    r->work_fd = sg_root_keep(r, openat(fd, "wk", flags));
    if (r->upper_fd < 0 || r->work_fd < 0)
        return sg_fail_sys(err, "open the writable layer");
    if (sg_overlay_begin(&r->overlay, r->upper_fd, r->work_fd,
                         sg_switch_is_on(SG_SWITCH_OVERLAY_BY_PATH), err) < 0)
        return -1;
    return r->overlay.by_path ? attach_for_paths(r, err) : 0;
}

static int make_overlay(struct sg_root *r, const struct sg_cell_spec *spec, int userns_fd,
                        struct sg_plan *plan, struct sg_err *err)
{
    int lower[SG_CELL_MAX_LAYERS];
    const bool by_path = r->overlay.by_path;
    if (open_layers(r, spec, userns_fd, lower, err) < 0 ||
        (by_path && attach_layers(r, lower, spec->layer_count, err) < 0))
        return -1;
    const uint64_t attrs =
        (sg_switch_is_on(SG_SWITCH_NO_NODEV) ? 0u : MOUNT_ATTR_NODEV) |
        (spec->grants_sudo || sg_switch_is_on(SG_SWITCH_NO_NOSUID) ? 0u : MOUNT_ATTR_NOSUID);
    /* A cell's layer on the pool ends with the cell; what is kept of it is a snapshot, which sees
     * to the disk itself. Without this every end of a cell would wait for all that others wrote. */
    const unsigned flags = (spec->is_rootless ? SG_OVERLAY_USERXATTR : 0u) |
                           (spec->limits.is_pooled ? SG_OVERLAY_VOLATILE : 0u);
    int fd = sg_overlay_finish(&r->overlay, lower, spec->layer_count, r->upper_fd, r->work_fd,
                               flags, attrs, err);
    if (fd < 0)
        return sg_wrap(err, "make the root filesystem");
    r->top_fd = r->root_fd = sg_root_keep(r, fd);
    struct statvfs fs; /* an overlay that cannot make its work directory mounts itself read-only */
    if (fstatvfs(fd, &fs) < 0)
        return sg_fail_sys(err, "look at the root filesystem");
    if (fs.f_flag & ST_RDONLY)
        return sg_fail(err, SG_INTERNAL, "the root filesystem came out read-only");
    if (by_path)
        return detach_layers(r, err);
    /* The overlay has its own hold on the layers. Closing a mount that was never attached waits for
     * all processors; so these go the way of the host's root, which waits anyway. */
    for (size_t i = 0; i < spec->layer_count; i++)
        sg_plan_add(plan, (struct sg_step) { STEP_ATTACH, .fd = lower[i], .to_fd = AT_FDCWD,
                                             .path = "/sys" });
    return 0;
}

/* With a disk /tmp is what the template has, open to everybody. */
static int open_tmp(const struct sg_root *r, const struct sg_cell_spec *spec,
                    const struct sg_ids *ids, struct sg_err *err)
{
    if (!spec->limits.is_pooled && !spec->nested)
        return 0;
    sg_auto_fd tmp = sg_make_dir_in(r->root_fd, "tmp", ids->first, err);
    sg_auto_fd dir = tmp < 0 ? -1 : openat(tmp, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    if (dir < 0 || fstat(dir, &st) < 0)
        return sg_fail_sys(err, "open /tmp");
    if ((st.st_mode & 07777) == 01777) /* no copy of it is made then */
        return 0;
    return fchmod(dir, 01777) < 0 ? sg_fail_sys(err, "open /tmp to everybody") : 0;
}

/* ---- what appears where ---- */

static bool is_below(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    return strncmp(path, dir, n) == 0 && path[n] == '/';
}

/* With a disk, /tmp is in the overlay. */
static bool has_part(const struct sg_cell_spec *spec, size_t i)
{
    return !sg_parts[i].is_on_disk || !spec->limits.is_pooled;
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
    for (size_t i = 0; i < SG_PART_COUNT; i++)
        if (has_part(spec, i) && is_below(target, sg_parts[i].target)) {
            part = openat(r->scratch_fd, sg_parts[i].name, O_PATH | O_DIRECTORY | O_CLOEXEC);
            base = part;
            target = spec->binds[index].target + 1 + strlen(sg_parts[i].target) + 1;
        }
    sg_auto_fd made = is_dir ? sg_make_dir_in(base, target, owner, err)
                             : sg_make_file_in(base, target, owner, err);
    return made < 0 ? -1 : 0;
}

/* A directory of somebody's own is, inside, the user's own: what is made there belongs to its owner
 * outside. Not so for root's: a file made there, set-user-id and all, would be root's. A filesystem
 * that cannot shift ids is bound as it is: less is possible then, not more. */
static int lend(int mnt_fd, const struct stat *st, uint32_t owner, struct sg_err *err)
{
    struct sg_userns *u = sg_new(struct sg_userns);
    const struct sg_idmap map = { st->st_uid, owner, 1, st->st_gid, false };
    int ret = sg_userns_init(u, &map, err);
    if (ret == 0)
        ret = sg_mnt_idmap(mnt_fd, u->fd, err);
    sg_userns_done(u);
    free(u);
    return ret;
}

static int add_bind(struct sg_root *r, const struct sg_cell_spec *spec, size_t index, int userns_fd,
                    uint32_t owner, struct sg_plan *plan, struct sg_err *err)
{
    const struct sg_bind *b = &spec->binds[index];
    int fd = sg_mnt_clone(AT_FDCWD, b->source, true, err);
    if (fd < 0)
        return sg_wrap(err, "bind %s", sg_quote(b->source).s);
    sg_root_keep(r, fd);
    struct stat st;
    if (fstat(fd, &st) < 0)
        return sg_fail_sys(err, "bind %s", sg_quote(b->source).s);
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return sg_fail(err, SG_INVALID, "bind %s: only files and directories can be bound",
                       sg_quote(b->source).s);
    bool is_ro = ((b->flags & SG_BIND_READ_ONLY) || spec->is_read_only) &&
                 !sg_switch_is_on(SG_SWITCH_NO_READ_ONLY);
    const bool is_lent = !is_ro && !(b->flags & SG_BIND_IDMAP) && !spec->is_rootless &&
                         st.st_uid != 0 && st.st_gid != 0;
    if (sg_mnt_attr(fd, INERT | (is_ro ? MOUNT_ATTR_RDONLY : 0), 0, err) < 0 ||
        ((b->flags & SG_BIND_IDMAP) && !spec->is_rootless &&
         sg_mnt_idmap(fd, userns_fd, err) < 0) ||
        (is_lent && lend(fd, &st, owner, err) < 0 && err->kind != SG_UNSUPPORTED) ||
        make_target(r, spec, index, S_ISDIR(st.st_mode), owner, err) < 0)
        return sg_wrap(err, "bind %s to %s", sg_quote(b->source).s, sg_quote(b->target).s);
    sg_plan_add(plan, (struct sg_step) { STEP_ATTACH, .fd = fd, .to_fd = r->root_fd,
                                         .path = b->target + 1 });
    return 0;
}

static void add_part(struct sg_root *r, const char *name, const char *target, uint64_t attrs,
                     struct sg_plan *plan)
{
    sg_plan_add(plan, (struct sg_step) { STEP_ATTACH_PART, .fd = r->scratch_fd, .text = name,
                                         .value = attrs, .to_fd = r->root_fd, .path = target });
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
    add_part(r, "work", spec->workdir + 1, INERT, plan);
    return 0;
}

/* Whatever a template has there in place of a file is left as it is; so is what an ordinary user
 * may not change in a directory of somebody else's. */
static int add_names(struct sg_root *r, const struct sg_cell_spec *spec, const struct sg_ids *ids,
                     struct sg_plan *plan, struct sg_err *err)
{
    struct sg_err why = { 0 };
    const uint64_t attrs = INERT | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY;
    if (!spec->nested) { /* what is nested boots a kernel of its own */
        add_part(r, "boot-id", "proc/sys/kernel/random/boot_id", attrs, plan);
        plan->steps[plan->added - 1].is_optional = true;
    }
    sg_auto_fd file = sg_make_file_in(r->root_fd, "etc/machine-id", ids->first, &why);
    if (file < 0 && (why.kind == SG_INVALID || spec->is_rootless))
        return 0;
    if (file < 0) {
        *err = why;
        return -1;
    }
    add_part(r, "machine-id", "etc/machine-id", attrs, plan);
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
    sg_plan_add(plan,
                (struct sg_step) { STEP_ATTACH, .fd = r->top_fd, .to_fd = AT_FDCWD, .path = "/" });
    if (spec->nested)
        sg_nested_add(r, plan);
    for (size_t i = 0; i < SG_PART_COUNT; i++)
        if (has_part(spec, i) || spec->nested)
            sg_plan_add(plan,
                        (struct sg_step) { STEP_ATTACH_PART, .fd = r->scratch_fd,
                                           .text = sg_parts[i].name, .value = sg_parts[i].attrs,
                                           .to_fd = r->top_fd, .path = sg_parts[i].target });
    if (spec->is_rootless && sg_scratch_bind_nodes(r, plan, err) < 0)
        return -1;
    const bool has_limit = !sg_switch_is_on(SG_SWITCH_NO_TERMINAL_LIMIT);
    sg_plan_add(plan, (struct sg_step) { STEP_MOUNT_DEVPTS, .to_fd = r->top_fd, .path = "dev/pts",
                                         .is_optional = spec->is_rootless,
                                         .text = has_limit ? MAX_TERMINALS : "1000",
                                         .value = ids->first + TTY_GID });
    sg_plan_add(plan, (struct sg_step) { STEP_MOVE_PROC, .to_fd = r->top_fd, .path = "proc" });
    return add_names(r, spec, ids, plan, err);
}

/* One that was made of another has the other's line: what we wrote once is written over, so that
 * generations do not pile up. A file that is too large, or none, is nothing of ours. */
static void add_to_hosts(int fd, const char *name)
{
    static const char own[] = "\n" OWN_ADDRESS "\t" SG_CELL_HOSTNAME "-";
    char text[HOSTS_MAX + 1];
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > HOSTS_MAX)
        return;
    const ssize_t n = pread(fd, text, HOSTS_MAX, 0);
    if (n < 0)
        return;
    text[n] = '\0';
    const char *line = strstr(text, own);
    const char *rest = line ? strchr(line + 1, '\n') : NULL;
    const size_t kept = line ? (size_t)(line + 1 - text) : strlen(text);
    if (lseek(fd, (off_t)kept, SEEK_SET) < 0 || ftruncate(fd, (off_t)kept) < 0)
        return;
    const bool is_open = kept > 0 && text[kept - 1] != '\n';
    (void)!dprintf(fd, "%s" OWN_ADDRESS "\t%s\n%s", is_open ? "\n" : "", name,
                   rest ? rest + 1 : "");
}

/* A name of its own is known inside, too: sudo, for one, asks. What the template's files cannot
 * take is left: the name itself is set all the same. */
static void add_host_name(const struct sg_root *r, const char *name)
{
    sg_auto_fd hosts = sg_open_beneath(r->root_fd, "etc/hosts", O_RDWR | O_NONBLOCK, 0, NULL);
    if (hosts >= 0)
        add_to_hosts(hosts, name);
    sg_auto_fd own =
        sg_open_beneath(r->root_fd, "etc/hostname", O_WRONLY | O_TRUNC | O_NONBLOCK, 0, NULL);
    if (own >= 0)
        (void)!dprintf(own, "%s\n", name);
}

static bool has_text(int dir_fd, const char *name, const char *text, uint32_t owner)
{
    char found[256];
    struct stat st;
    sg_auto_fd fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != owner ||
        (st.st_mode & 07777) != 0644)
        return false;
    const ssize_t n = read(fd, found, sizeof found);
    return n >= 0 && (size_t)n == strlen(text) && memcmp(found, text, (size_t)n) == 0;
}

/* In place of whatever the template has there, a link perhaps. What cannot be written is left:
 * names are not found then, and nothing else is different. */
static void set_resolv_conf(const struct sg_root *r, const char *text, uint32_t owner)
{
    sg_auto_fd etc = sg_open_beneath(r->root_fd, "etc", O_RDONLY | O_DIRECTORY, 0, NULL);
    if (etc < 0 || has_text(etc, "resolv.conf", text, owner))
        return;
    (void)unlinkat(etc, "resolv.conf", 0);
    sg_auto_fd fd =
        openat(etc, "resolv.conf", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0 || fchown(fd, owner, owner) < 0 || fchmod(fd, 0644) < 0)
        return;
    (void)!write(fd, text, strlen(text));
}

int sg_root_build(struct sg_root *r, const struct sg_cell_spec *spec, const struct sg_ids *ids,
                  int userns_fd, int disk_userns_fd, struct sg_plan *plan, struct sg_err *err)
{
    const uint32_t owner = spec->is_rootless ? 0 : ids->first + spec->owner_id;
    if (sg_scratch_make(r, spec, spec->is_rootless ? 0 : ids->first, err) < 0 ||
        open_disk(r, spec, disk_userns_fd, err) < 0 || begin_overlay(r, err) < 0 ||
        make_overlay(r, spec, userns_fd, plan, err) < 0 || open_tmp(r, spec, ids, err) < 0)
        return -1;
    /* As with the layers: what was never attached is slow to close. */
    if (r->disk_fd != r->scratch_fd && !r->overlay.by_path)
        sg_plan_add(plan, (struct sg_step) { STEP_ATTACH, .fd = r->disk_fd, .to_fd = AT_FDCWD,
                                             .path = "/sys" });
    sg_plan_add(plan, (struct sg_step) { STEP_ATTACH, .fd = r->scratch_fd, .to_fd = AT_FDCWD,
                                         .path = "/sys" });
    if ((spec->nested && sg_nested_make(r, spec->nested, ids->first, err) < 0) ||
        add_mounts(r, spec, ids, plan, err) < 0)
        return -1;
    for (size_t i = 0; i < spec->bind_count; i++)
        if (add_bind(r, spec, i, userns_fd, owner, plan, err) < 0)
            return -1;
    for (size_t i = 0; i < spec->hide_count; i++) {
        add_part(r, "none", spec->hide[i] + 1, INERT | MOUNT_ATTR_RDONLY, plan);
        plan->steps[plan->added - 1].is_optional = true;
    }
    if (add_workdir(r, spec, owner, plan, err) < 0)
        return -1;
    if (strcmp(spec->hostname, SG_CELL_HOSTNAME) != 0)
        add_host_name(r, spec->hostname);
    if (spec->resolv_conf)
        set_resolv_conf(r, spec->resolv_conf, spec->is_rootless ? 0 : ids->first);
    if (spec->is_read_only && sg_mnt_attr(r->root_fd, MOUNT_ATTR_RDONLY, 0, err) < 0)
        return -1;
    sg_plan_add(plan, (struct sg_step) { STEP_PIVOT, .fd = r->top_fd,
                                         .value = !sg_switch_is_on(SG_SWITCH_KEEP_OLD_ROOT) });
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

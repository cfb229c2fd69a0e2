/* SPDX-License-Identifier: Apache-2.0 */
/* A list of steps, in the order in which each still has what it needs: mounts need the namespace,
 * the bounding set and the id need capabilities, and the filter forbids all of them. */
#include "sys/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/parse.h"
#include "base/str.h"
#include "sys/kfile.h"
#include "sys/mnt.h"
#include "base/banned.h"

#define FLAGS (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

struct confine {
    const struct sg_confine *o;
    uint32_t uid, gid; /* what we end up as */
    bool has_own_id;
    int root_fd; /* the tmpfs; owned */
};

/* The next number of a line of a map file, and on. */
static bool next_number(const char **at, uint64_t *ret)
{
    *at += strspn(*at, " \t");
    const struct sg_str word = { *at, strspn(*at, "0123456789") };
    *at += word.n;
    return sg_parse_u64(word, 0, UINT32_MAX, ret, NULL) == 0;
}

/* Lines are "inside outside count". */
static bool is_mapped(const char *file, uint32_t id)
{
    char text[4096];
    if (sg_file_read(AT_FDCWD, file, text, sizeof text, NULL) < 0)
        return false;
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *at = line;
        uint64_t inside, outside, count;
        if (next_number(&at, &inside) && next_number(&at, &outside) && next_number(&at, &count) &&
            id >= inside && id - inside < count)
            return true;
    }
    return false;
}

static int choose_id(struct confine *c, struct sg_err *err)
{
    (void)err;
    c->has_own_id = geteuid() == 0 && is_mapped("/proc/self/uid_map", c->o->id) &&
                    is_mapped("/proc/self/gid_map", c->o->id);
    c->uid = c->has_own_id ? c->o->id : geteuid();
    c->gid = c->has_own_id ? c->o->id : getegid();
    return 0;
}

static int give_state(struct confine *c, struct sg_err *err)
{
    const char *dir = c->o->state_dir;
    if (!dir)
        return 0;
    if (sg_mkdir_all(dir, 0700, err) < 0)
        return -1;
    sg_auto_fd fd = open(dir, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchown(fd, c->uid, c->gid) < 0 || fchmod(fd, 0700) < 0)
        return sg_fail_sys(err, "%s", sg_quote(dir).s);
    return 0;
}

static int set_limits(struct confine *c, struct sg_err *err)
{
    (void)c;
    struct rlimit files;
    const struct rlimit none = { 0, 0 };
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return sg_fail_sys(err, "read");
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0 || setrlimit(RLIMIT_CORE, &none) < 0)
        return sg_fail_sys(err, "write");
    return 0;
}

/* The same number inside as outside, so that uids of clients on the unix socket mean the same. */
static int enter_userns(struct confine *c, struct sg_err *err)
{
    if (c->has_own_id)
        return 0;
    char uid_map[40], gid_map[40];
    (void)snprintf(uid_map, sizeof uid_map, "%" PRIu32 " %" PRIu32 " 1", c->uid, c->uid);
    (void)snprintf(gid_map, sizeof gid_map, "%" PRIu32 " %" PRIu32 " 1", c->gid, c->gid);
    if (unshare(CLONE_NEWUSER) < 0)
        return sg_fail_sys(err, "unshare (see 'sandglass doctor')");
    if (sg_file_write(AT_FDCWD, "/proc/self/setgroups", "deny", err) < 0 ||
        sg_file_write(AT_FDCWD, "/proc/self/uid_map", uid_map, err) < 0 ||
        sg_file_write(AT_FDCWD, "/proc/self/gid_map", gid_map, err) < 0)
        return -1;
    return 0;
}

static int enter_namespaces(struct confine *c, struct sg_err *err)
{
    const int net = c->o->keeps_net ? 0 : CLONE_NEWNET;
    if (unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | net) < 0)
        return sg_fail_sys(err, "unshare");
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return sg_fail_sys(err, "make mounts private");
    return 0;
}

/* The tmpfs covers the old root first: only what is attached can be attached to. */
static int build_root(struct confine *c, struct sg_err *err)
{
    enum { BYTES = 4096, INODES = 4 };
    const char *dir = c->o->state_dir, *seen = c->o->view_dir;
    sg_auto_fd view = seen ? sg_mnt_clone(AT_FDCWD, seen, false, err) : -1;
    if (seen && (view < 0 || sg_mnt_attr(view, FLAGS | MOUNT_ATTR_RDONLY, 0, err) < 0))
        return -1;
    sg_auto_fd state = dir ? sg_mnt_clone(AT_FDCWD, dir, false, err) : -1;
    if (dir && (state < 0 || sg_mnt_attr(state, FLAGS, 0, err) < 0))
        return -1;
    c->root_fd = sg_mnt_tmpfs(BYTES, INODES, FLAGS, err);
    if (c->root_fd < 0)
        return -1;
    if (dir && mkdirat(c->root_fd, "state", 0755) < 0)
        return sg_fail_sys(err, "make /state");
    if (seen && mkdirat(c->root_fd, "view", 0755) < 0)
        return sg_fail_sys(err, "make /view");
    if (sg_mnt_attr(c->root_fd, MOUNT_ATTR_RDONLY, 0, err) < 0)
        return -1;
    if (move_mount(c->root_fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return sg_fail_sys(err, "attach the new root");
    if (dir && move_mount(state, "", c->root_fd, "state", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return sg_fail_sys(err, "attach /state");
    if (seen && move_mount(view, "", c->root_fd, "view", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return sg_fail_sys(err, "attach /view");
    return 0;
}

static int change_root(struct confine *c, struct sg_err *err)
{
    if (fchdir(c->root_fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
        return sg_fail_sys(err, "pivot");
    if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return sg_fail_sys(err, "leave the old root");
    sg_drop_fd(&c->root_fd);
    return 0;
}

static int bound_capabilities(struct confine *c, struct sg_err *err)
{
    for (unsigned cap = 0; cap < 64; cap++)
        if (!(cap < 32 && c->o->keeps_caps & 1u << cap) &&
            prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
            if (errno == EINVAL && cap > 0) /* past the last one that this kernel knows */
                break;
            return sg_fail_sys(err, "capability %u", cap);
        }
    const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED |
                               SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                               SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED |
                               (c->o->keeps_caps ? SECBIT_KEEP_CAPS : 0);
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0)
        return sg_fail_sys(err, "lock");
    return 0;
}

static int change_id(struct confine *c, struct sg_err *err)
{
    if (!c->has_own_id)
        return 0;
    if (setgroups(0, NULL) < 0 || setresgid(c->gid, c->gid, c->gid) < 0 ||
        setresuid(c->uid, c->uid, c->uid) < 0)
        return sg_fail_sys(err, "%" PRIu32, c->uid);
    return 0;
}

static int drop_capabilities(struct confine *c, struct sg_err *err)
{
    const uint32_t kept = c->o->keeps_caps;
    struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
    const struct __user_cap_data_struct left[2] = { { .effective = kept, .permitted = kept } };
    if (syscall(SYS_capset, &head, left) < 0)
        return sg_fail_sys(err, "capset");
    return 0;
}

static int stay_low(struct confine *c, struct sg_err *err)
{
    (void)c;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return sg_fail_sys(err, "prctl");
    return 0;
}

static int install_filter(struct confine *c, struct sg_err *err)
{
    const struct sock_fprog program = {
        .len = c->o->filter_len,
        .filter = (struct sock_filter *)c->o->filter, /* the kernel only reads it */
    };
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
        return sg_fail_sys(err, "seccomp");
    return 0;
}

static const struct {
    const char *name;
    int (*run)(struct confine *c, struct sg_err *err);
} steps[] = {
    { "choose an id", choose_id },
    { "give the state directory to our id", give_state },
    { "set limits", set_limits },
    { "enter a user namespace", enter_userns },
    { "enter namespaces", enter_namespaces },
    { "build an empty root", build_root },
    { "change the root", change_root },
    { "bound capabilities", bound_capabilities },
    { "change to our id", change_id },
    { "drop capabilities", drop_capabilities },
    { "set no_new_privs", stay_low },
    { "install the system call filter", install_filter },
};

int sg_confine(const struct sg_confine *o, struct sg_confined *ret, struct sg_err *err)
{
    struct confine c = { .o = o, .root_fd = -1 };
    for (size_t i = 0; i < SG_COUNT(steps); i++)
        if (steps[i].run(&c, err) < 0) {
            sg_drop_fd(&c.root_fd);
            return sg_wrap(err, "confine the %s: %s", o->name, steps[i].name);
        }
    *ret = (struct sg_confined) { .uid = c.uid, .has_own_id = c.has_own_id };
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The child's side of a plan: shares its parent's memory until exec, so it uses raw system calls
 * only, allocates nothing, locks nothing, prints nothing (P2 in plan.h). */
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <linux/stat.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "engine/net.h"
#include "engine/plan.h"
#include "sys/raw.h"
#include "base/banned.h"

enum {
    CONTROL_FD = 3,
    SIG_KILL = 9,
    AT_NO_FOLLOW = 0x100,     /* AT_SYMLINK_NOFOLLOW */
    AT_EMPTY = 0x1000,        /* AT_EMPTY_PATH */
    MS_PRIVATE_ALL = 0x44000, /* MS_PRIVATE | MS_REC */
    DETACH = 2,               /* MNT_DETACH */
    MODE_TYPE = 0170000,
    MODE_DIR = 0040000,
    MODE_FILE = 0100000,
    E_NOENT = 2,
    E_SRCH = 3,
    E_XDEV = 18,
    E_INVAL = 22,
};

static size_t length(const char *s)
{
    size_t n = 0;
    while (s[n])
        n++;
    return n;
}

static long move_mount_to(long from, long to_fd, const char *path)
{
    unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | (*path ? 0u : MOVE_MOUNT_T_EMPTY_PATH);
    return sg_raw(SYS_move_mount, from, "", to_fd, path, flags);
}

/* Attaches below a root that may be hostile: the target is opened first, inside that root and
 * through no link, and mounted on by descriptor. Without a root (AT_FDCWD): plainly. */
static long attach_below(long from, int root_fd, const char *path)
{
    if (root_fd == AT_FDCWD)
        return move_mount_to(from, AT_FDCWD, path);
    const struct open_how how = { .flags = O_PATH | O_CLOEXEC,
                                  .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS };
    long target = sg_raw(SYS_openat2, root_fd, path, &how, sizeof how);
    if (target < 0)
        return target;
    long ret = move_mount_to(from, target, "");
    (void)sg_raw(SYS_close, target);
    return ret;
}

static long die_with_parent(struct sg_plan *p, const struct sg_step *s)
{
    (void)p;
    long ret = sg_raw(SYS_prctl, PR_SET_PDEATHSIG, SIG_KILL, 0, 0, 0);
    struct pollfd parent = { .fd = s->fd, .events = POLLIN };
    if (ret >= 0)
        ret = sg_raw(SYS_poll, &parent, 1, 0);
    return ret > 0 ? -E_SRCH : ret; /* it died before it could take us along */
}

static long outlive_parent(struct sg_plan *p, const struct sg_step *s)
{
    (void)p, (void)s;
    return sg_raw(SYS_prctl, PR_SET_PDEATHSIG, 0, 0, 0, 0);
}

/* A thread that moves *itself* through "tasks" takes no global lock: about 40 us at any time, where
 * moving another process through cgroup.procs waits for an RCU grace period (10 ms) after a pause.
 */
static long join_cgroup(struct sg_plan *p, const struct sg_step *s)
{
    (void)p;
    return sg_raw(SYS_write, s->fd, "0", 1);
}

static long unshare_(struct sg_plan *p, const struct sg_step *s)
{
    (void)p;
    return sg_raw(SYS_unshare, s->value);
}

static long make_net(struct sg_plan *p, const struct sg_step *s)
{
    (void)p, (void)s;
    return sg_net_make_raw();
}

static long open_ports(struct sg_plan *p, const struct sg_step *s)
{
    (void)s;
    sg_net_open_ports_raw(p->proc_fd, "sys/net/ipv4/ip_unprivileged_port_start");
    return 0;
}

static long join_net(struct sg_plan *p, const struct sg_step *s)
{
    (void)p;
    long ret = sg_net_await_raw(s->word);
    if (ret < 0)
        return ret;
    long fd = sg_raw(SYS_openat, s->fd, "net", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    ret = sg_raw(SYS_setns, fd, CLONE_NEWNET);
    (void)sg_raw(SYS_close, fd);
    return ret;
}

static long private_mounts(struct sg_plan *p, const struct sg_step *s)
{
    (void)p, (void)s;
    return sg_raw(SYS_mount, 0, "/", 0, MS_PRIVATE_ALL, 0);
}

static long attach(struct sg_plan *p, const struct sg_step *s)
{
    (void)p;
    return attach_below(s->fd, s->to_fd, s->path);
}

static long attach_part(struct sg_plan *p, const struct sg_step *s)
{
    (void)p;
    long part = sg_raw(SYS_open_tree, s->fd, s->text, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (part < 0)
        return part;
    struct mount_attr a = { .attr_set = s->value };
    long ret = sg_raw(SYS_mount_setattr, part, "", AT_EMPTY, &a, sizeof a);
    if (ret >= 0)
        ret = attach_below(part, s->to_fd, s->path);
    (void)sg_raw(SYS_close, part);
    return ret == -E_NOENT && s->is_optional ? 0 : ret;
}

static long mount_fs(const char *type, const char *const *options, unsigned attrs)
{
    long fs = sg_raw(SYS_fsopen, type, FSOPEN_CLOEXEC);
    if (fs < 0)
        return fs;
    long ret = 0;
    for (unsigned i = 0; ret >= 0 && options[i]; i += 2)
        ret = sg_raw(SYS_fsconfig, fs, FSCONFIG_SET_STRING, options[i], options[i + 1], 0);
    if (ret >= 0)
        ret = sg_raw(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, 0, 0, 0);
    if (ret >= 0)
        ret = sg_raw(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attrs);
    (void)sg_raw(SYS_close, fs);
    return ret;
}

static long mount_proc(struct sg_plan *p, const struct sg_step *s)
{
    const char *const none[] = { NULL };
    long mnt = mount_fs("proc", none, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (mnt < 0)
        return mnt;
    p->proc_fd = (int)mnt; /* the masks go on top */
    return attach_below(mnt, s->to_fd, s->path);
}

static long move_proc(struct sg_plan *p, const struct sg_step *s)
{
    return attach_below(p->proc_fd, s->to_fd, s->path);
}

/* Masks are parts of a mount that nobody inside can reach or supply; a file is covered by an empty
 * file, a directory by an empty directory. */
static long make_covers(struct sg_plan *p, const struct sg_step *s)
{
    const char *const small[] = { "size", "4k", "mode", "0555", NULL };
    long mnt = mount_fs("tmpfs", small, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (mnt < 0)
        return mnt;
    p->covers_fd = (int)mnt;
    long ret = sg_raw(SYS_mkdirat, mnt, "none", 0555);
    if (ret >= 0)
        ret = sg_raw(SYS_mknodat, mnt, "void", MODE_FILE, 0);
    return ret < 0 ? ret : attach_below(mnt, s->to_fd, s->path);
}

static long mask_proc(struct sg_plan *p, const struct sg_step *s)
{
    struct statx st;
    long ret = sg_raw(SYS_statx, p->proc_fd, s->path, AT_NO_FOLLOW, STATX_TYPE, &st);
    if (ret < 0)
        return ret == -E_NOENT ? 0 : ret;
    const char *cover = (st.stx_mode & MODE_TYPE) == MODE_DIR ? "none" : "void";
    long part = sg_raw(SYS_open_tree, p->covers_fd, cover, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (part < 0)
        return part;
    struct mount_attr a = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID |
                                        MOUNT_ATTR_NOEXEC };
    ret = sg_raw(SYS_mount_setattr, part, "", AT_EMPTY, &a, sizeof a);
    if (ret >= 0)
        ret = move_mount_to(part, p->proc_fd, s->path);
    (void)sg_raw(SYS_close, part);
    return ret;
}

static long lock_proc_sys(struct sg_plan *p, const struct sg_step *s)
{
    (void)s;
    long part = sg_raw(SYS_open_tree, p->proc_fd, "sys", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (part < 0)
        return part;
    struct mount_attr a = { .attr_set = MOUNT_ATTR_RDONLY };
    long ret = sg_raw(SYS_mount_setattr, part, "", AT_EMPTY, &a, sizeof a);
    if (ret >= 0)
        ret = move_mount_to(part, p->proc_fd, "sys");
    (void)sg_raw(SYS_close, part);
    return ret;
}

static void format_u64(uint64_t v, char *end)
{
    *end = '\0';
    do
        *--end = (char)('0' + v % 10);
    while (v /= 10);
}

static long mount_devpts(struct sg_plan *p, const struct sg_step *s)
{
    (void)p;
    char gid[24];
    format_u64(s->value, gid + sizeof gid - 1);
    const char *text = gid + sizeof gid - 1;
    while (text > gid && text[-1] >= '0' && text[-1] <= '9')
        text--;
    const char *const with_gid[] = { "ptmxmode", "0666", "mode", "0620", "max",
                                     s->text,    "gid",  text,   NULL };
    const char *const plain[] = { "ptmxmode", "0666", "mode", "0600", "max", s->text, NULL };
    long mnt = mount_fs("devpts", s->is_optional ? plain : with_gid,
                        MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    if (mnt < 0)
        return mnt;
    long ret = attach_below(mnt, s->to_fd, s->path);
    (void)sg_raw(SYS_close, mnt);
    return ret;
}

static bool is_same_place(long a, long b)
{
    struct statx x, y;
    const unsigned mask = STATX_INO | STATX_MNT_ID;
    if (sg_raw(SYS_statx, a, "", AT_EMPTY, mask, &x) < 0 ||
        sg_raw(SYS_statx, b, "", AT_EMPTY, mask, &y) < 0)
        return false;
    return x.stx_ino == y.stx_ino && x.stx_mnt_id == y.stx_mnt_id &&
           x.stx_dev_major == y.stx_dev_major && x.stx_dev_minor == y.stx_dev_minor;
}

/* pivot_root, not a move of the mount onto "/": the latter can be undone from inside. Afterwards
 * the host's root lies on ours and the scratch on that: both go, topmost first, and then the way up
 * must end here. */
static long pivot(struct sg_plan *p, const struct sg_step *s)
{
    (void)p;
    long ret = sg_raw(SYS_fchdir, s->fd);
    if (ret >= 0)
        ret = sg_raw(SYS_pivot_root, ".", ".");
    if (ret >= 0 && s->value)
        ret = sg_raw(SYS_umount2, ".", DETACH);
    if (ret >= 0)
        ret = sg_raw(SYS_chdir, "/");
    if (ret < 0 || !s->value)
        return ret;
    long up = sg_raw(SYS_openat, AT_FDCWD, "/..", O_PATH | O_CLOEXEC, 0);
    if (up < 0)
        return up;
    ret = is_same_place(up, s->fd) ? 0 : -E_XDEV;
    (void)sg_raw(SYS_close, up);
    return ret;
}

static long hostname(struct sg_plan *p, const struct sg_step *s)
{
    (void)p;
    return sg_raw(SYS_sethostname, s->text, length(s->text));
}

static long rlimit(struct sg_plan *p, const struct sg_step *s)
{
    (void)p;
    struct rlimit64 {
        uint64_t soft, hard;
    } l = { s->limit, s->limit };
    return sg_raw(SYS_prlimit64, 0, s->value, &l, 0);
}

static long enter_userns(struct sg_plan *p, const struct sg_step *s)
{
    (void)p;
    long ret = sg_raw(SYS_setns, s->fd, CLONE_NEWUSER);
    if (ret >= 0)
        ret = sg_raw(SYS_setresgid, s->value, s->value, s->value);
    if (ret >= 0)
        ret = sg_raw(SYS_setresuid, s->value, s->value, s->value);
    return ret;
}

static long drop_groups(struct sg_plan *p, const struct sg_step *s)
{
    (void)p, (void)s;
    return sg_raw(SYS_setgroups, 0, 0);
}

static long bound_caps(struct sg_plan *p, const struct sg_step *s)
{
    (void)p;
    for (unsigned cap = 0; cap < 64; cap++) {
        if (s->value >> cap & 1)
            continue;
        long ret = sg_raw(SYS_prctl, PR_CAPBSET_DROP, cap, 0, 0, 0);
        if (ret == -E_INVAL)
            break; /* past the last capability that this kernel knows */
        if (ret < 0)
            return ret;
    }
    struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
    const uint32_t low = (uint32_t)s->value, high = (uint32_t)(s->value >> 32);
    struct __user_cap_data_struct data[2] = { { low, low, 0 }, { high, high, 0 } };
    return sg_raw(SYS_capset, &head, data);
}

static long no_new_privs(struct sg_plan *p, const struct sg_step *s)
{
    (void)p, (void)s;
    return sg_raw(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static long seccomp(struct sg_plan *p, const struct sg_step *s)
{
    (void)p;
    return sg_raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, s->filter);
}

/* Our descriptor table is still the parent's: take a copy, in which all but the kept ones close at
 * exec. The parent's own descriptors are not touched. */
static long stdio(struct sg_plan *p, const struct sg_step *s)
{
    (void)p;
    long ret =
        sg_raw(SYS_close_range, s->value ? 3 : ~0U, ~0U, CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC);
    if (ret < 0)
        return ret;
    /* Takes the lowest number, 0: any other may be over the limit by now, when we have many open.
     */
    (void)sg_raw(SYS_close, 0);
    ret = sg_raw(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0);
    for (int fd = 1; ret >= 0 && fd < 3; fd++)
        ret = sg_raw(SYS_dup3, 0, fd, 0);
    if (ret >= 0 && s->fd != CONTROL_FD)
        ret = sg_raw(SYS_dup3, s->fd, CONTROL_FD, 0);
    else if (ret >= 0)
        ret = sg_raw(SYS_fcntl, CONTROL_FD, F_SETFD, 0);
    return ret;
}

/* After stdio: the table is our own. The numbers are all below those of the descriptors themselves
 * (sg_cell_build() sees to that), so none is closed by another. */
static long pass(struct sg_plan *p, const struct sg_step *s)
{
    (void)p;
    return sg_raw(SYS_dup3, s->fd, s->value, 0);
}

static long exec(struct sg_plan *p, const struct sg_step *s)
{
    (void)p;
    const uint64_t unblocked = 0;
    long ret = sg_raw(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, &unblocked, 0, sizeof unblocked);
    if (ret < 0)
        return ret;
    const char *const argv[] = { s->text, NULL };
    const char *const envp[] = { NULL };
    return sg_raw(SYS_execveat, s->fd, "", argv, envp, AT_EMPTY);
}

static long (*const ops[STEP_OP_COUNT])(struct sg_plan *, const struct sg_step *) = {
    [STEP_DIE_WITH_PARENT] = die_with_parent,
    [STEP_OUTLIVE_PARENT] = outlive_parent,
    [STEP_JOIN_CGROUP] = join_cgroup,
    [STEP_UNSHARE] = unshare_,
    [STEP_MAKE_NET] = make_net,
    [STEP_OPEN_PORTS] = open_ports,
    [STEP_JOIN_NET] = join_net,
    [STEP_PRIVATE_MOUNTS] = private_mounts,
    [STEP_ATTACH] = attach,
    [STEP_ATTACH_PART] = attach_part,
    [STEP_MOUNT_PROC] = mount_proc,
    [STEP_MAKE_COVERS] = make_covers,
    [STEP_MASK_PROC] = mask_proc,
    [STEP_MOVE_PROC] = move_proc,
    [STEP_LOCK_PROC_SYS] = lock_proc_sys,
    [STEP_MOUNT_DEVPTS] = mount_devpts,
    [STEP_PIVOT] = pivot,
    [STEP_HOSTNAME] = hostname,
    [STEP_RLIMIT] = rlimit,
    [STEP_ENTER_USERNS] = enter_userns,
    [STEP_DROP_GROUPS] = drop_groups,
    [STEP_BOUND_CAPS] = bound_caps,
    [STEP_NO_NEW_PRIVS] = no_new_privs,
    [STEP_SECCOMP] = seccomp,
    [STEP_STDIO] = stdio,
    [STEP_PASS] = pass,
    [STEP_EXEC] = exec,
};

/* Waits until more than `done` steps are published; gives up when the parent takes too long, or has
 * given up. */
static void await_more(struct sg_plan *p, uint32_t done)
{
    const struct timespec patience = { .tv_sec = SG_PLAN_PATIENCE_S };
    uint32_t published;
    while ((published = __atomic_load_n(&p->published, __ATOMIC_ACQUIRE)) == done) {
        long ret = sg_raw(SYS_futex, &p->published, FUTEX_WAIT_PRIVATE, done, &patience, 0, 0);
        if (ret == -110 /* ETIMEDOUT */)
            sg_raw_exit(125);
    }
    if (published & SG_PLAN_CANCELLED)
        sg_raw_exit(125);
}

void sg_plan_walk(void *plan)
{
    struct sg_plan *p = plan;
    for (uint32_t i = 0; i < SG_PLAN_MAX_STEPS; i++) {
        await_more(p, i);
        const struct sg_step *s = &p->steps[i];
        long ret = ops[s->op](p, s);
        if (ret < 0) {
            p->failed_sys = (int32_t)-ret;
            __atomic_store_n(&p->failed_at, i + 1, __ATOMIC_RELEASE);
            break;
        }
    }
    sg_raw_exit(125);
}

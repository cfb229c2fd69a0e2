/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/cell.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "ctl/chan.h"
#include "engine/init_image.h"
#include "engine/plan.h"
#include "engine/root.h"
#include "engine/seccomp_data.h"
#include "engine/sweeper.h"
#include "engine/switches.h"
#include "engine/userns.h"
#include "sys/raw.h"
#include "base/banned.h"

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif

enum { SETTLE_MS = 15000, TEARDOWN_MS = 5000, MIN_DISK_OF_MEMORY = 4 };

/* What root inside keeps: enough to be root over its own files and processes (apt, su, sudo), in a
 * user namespace that owns no other namespace. */
#define CAP(x) (1ULL << CAP_##x)
static const uint64_t CELL_CAPS = CAP(CHOWN) | CAP(DAC_OVERRIDE) | CAP(FOWNER) | CAP(FSETID) |
                                  CAP(KILL) | CAP(SETGID) | CAP(SETUID) | CAP(SETPCAP) |
                                  CAP(NET_BIND_SERVICE) | CAP(SYS_CHROOT) | CAP(SETFCAP) |
                                  CAP(AUDIT_WRITE);

struct sg_cell {
    struct sg_ids ids;
    struct sg_cgroup cgroup;
    struct sg_sweeper sweeper;
    struct sg_root root;
    struct sg_plan plan;
    struct sock_fprog filter;
    char *stack;
    struct sg_userns userns;
    struct sg_userns disk_userns; /* shifts the ids of the disk, where there is one */
    int init_fd, pidfd, ctl_fd, far_fd, listen_fd;
    pid_t pid;
    bool has_cgroups, has_sweeper, makes_net, is_swap_counted, is_kept, is_rootless, is_nested;
    struct sg_limits limits; /* of a kept one */
    int space_fd;            /* the scratch, for its free space */
    int self_fd;             /* ourselves, for the child to see whether we live */
};

/* `value`, but 0 while the test switch is on. */
static uint64_t unless(enum sg_switch s, uint64_t value)
{
    return sg_switch_is_on(s) ? 0 : value;
}

/* ---- the child's steps ---- */

/* Hidden from the cell's own proc: what anybody could read there and tells of the host. Files that
 * only the host's root may open (kcore, kmsg, sysrq-trigger ...) need no cover: root inside is
 * nobody to them. */
static const char *const proc_masks[] = {
    "acpi",      "asound",        "bus",  "driver",        "fs",          "irq", "keys",
    "key-users", "latency_stats", "scsi", "sysrq-trigger", "timer_stats",
};

/* What needs nothing of ours: done on one core while we work on the other. The cell's proc waits
 * over the host's, in the child's own mount namespace, until there is a root to move it to. */
static void plan_start(struct sg_plan *p, int self_fd, bool makes_net, bool has_masks)
{
    sg_plan_add(p, (struct sg_step) { STEP_DIE_WITH_PARENT, .fd = self_fd });
    if (makes_net)
        sg_plan_add(p, (struct sg_step) { .op = STEP_MAKE_NET });
    sg_plan_add(p, (struct sg_step) { .op = STEP_PRIVATE_MOUNTS });
    sg_plan_add(p, (struct sg_step) { STEP_MOUNT_PROC, .to_fd = AT_FDCWD, .path = "/proc" });
    if (makes_net)
        sg_plan_add(p, (struct sg_step) { .op = STEP_OPEN_PORTS });
    if (has_masks && !sg_switch_is_on(SG_SWITCH_NO_MASKS)) {
        sg_plan_add(p, (struct sg_step) { STEP_MAKE_COVERS, .to_fd = AT_FDCWD, .path = "/sys" });
        for (size_t i = 0; i < SG_COUNT(proc_masks); i++)
            sg_plan_add(p, (struct sg_step) { STEP_MASK_PROC, .path = proc_masks[i] });
        sg_plan_add(p, (struct sg_step) { .op = STEP_LOCK_PROC_SYS });
    }
    sg_plan_publish(p);
}

/* The cgroup namespace starts at the cgroup that was joined. */
static void plan_cgroups(struct sg_cell *c)
{
    for (unsigned i = 0; i < SG_GROUP_COUNT; i++)
        if (c->cgroup.join_fds[i] >= 0)
            sg_plan_add(&c->plan, (struct sg_step) { STEP_JOIN_CGROUP, .fd = c->cgroup.join_fds[i],
                                                     .text = sg_controller_name(i) });
    sg_plan_add(&c->plan,
                (struct sg_step) { .op = STEP_UNSHARE,
                                   .value = unless(SG_SWITCH_NO_CGROUPNS, CLONE_NEWCGROUP) });
    sg_plan_publish(&c->plan);
}

static void plan_rlimits(struct sg_cell *c, const struct sg_cell_spec *spec)
{
    const struct {
        unsigned which;
        uint64_t limit;
        bool is_on;
    } limits[] = {
        { RLIMIT_NOFILE, spec->limits.open_files, !c->is_nested },
        { RLIMIT_CORE, 0, true },
        { RLIMIT_MEMLOCK, 8u << 20, true },
        { RLIMIT_SIGPENDING, 4096, true },
        { RLIMIT_MSGQUEUE, 819200, true }, /* the kernel's own default */
        /* Where the cgroup is not to be had, the next best thing; the report names it. */
        { RLIMIT_DATA, spec->limits.mem_bytes, c->cgroup.missing & 1u << SG_CTRL_MEMORY },
        { RLIMIT_NPROC, spec->limits.pids, c->cgroup.missing & 1u << SG_CTRL_PIDS },
    };
    for (size_t i = 0; i < SG_COUNT(limits); i++) {
        if (!limits[i].is_on || sg_switch_is_on(SG_SWITCH_NO_RLIMITS))
            continue;
        struct rlimit own; /* lower than asked is fine, and all that we can give */
        uint64_t limit = limits[i].limit;
        if (getrlimit(limits[i].which, &own) == 0 && own.rlim_max < limit)
            limit = own.rlim_max;
        sg_plan_add(&c->plan,
                    (struct sg_step) { STEP_RLIMIT, .value = limits[i].which, .limit = limit });
    }
}

static void plan_end(struct sg_cell *c, const struct sg_cell_spec *spec)
{
    struct sg_plan *p = &c->plan;
    const uint32_t id = spec->is_rootless ? spec->owner_id : 0;
    sg_plan_add(p, (struct sg_step) { STEP_HOSTNAME, .text = spec->hostname });
    if (c->sweeper.makes_net)
        sg_plan_add(
            p, (struct sg_step) { STEP_JOIN_NET, .fd = c->sweeper.ns_fd, .word = &c->sweeper.net });
    plan_rlimits(c, spec); /* from here on a descriptor may be one too many */
    if (!spec->is_rootless)
        sg_plan_add(p, (struct sg_step) { .op = STEP_DROP_GROUPS });
    if (!sg_switch_is_on(SG_SWITCH_NO_USERNS))
        sg_plan_add(p, (struct sg_step) { STEP_ENTER_USERNS, .fd = c->userns.fd, .value = id });
    sg_plan_add(p, (struct sg_step) { STEP_STDIO, .fd = c->far_fd,
                                      .value = unless(SG_SWITCH_KEEP_DESCRIPTORS, true) });
    if (!c->is_nested && !spec->grants_sudo && !sg_switch_is_on(SG_SWITCH_NO_NO_NEW_PRIVS))
        sg_plan_add(p, (struct sg_step) { .op = STEP_NO_NEW_PRIVS });
    /* Before the capabilities go: without no_new_privs the filter needs CAP_SYS_ADMIN. */
    if (!c->is_nested && !sg_switch_is_on(SG_SWITCH_NO_SECCOMP))
        sg_plan_add(p, (struct sg_step) { .op = STEP_SECCOMP, .filter = &c->filter });
    if (!c->is_nested && !sg_switch_is_on(SG_SWITCH_NO_CAP_BOUND))
        sg_plan_add(p, (struct sg_step) { .op = STEP_BOUND_CAPS, .value = CELL_CAPS });
    if (c->is_kept) {
        sg_plan_add(p,
                    (struct sg_step) { STEP_PASS, .fd = c->listen_fd, .value = SG_INIT_LISTEN_FD });
        sg_plan_add(p,
                    (struct sg_step) { STEP_PASS, .fd = c->ids.lock_fd, .value = SG_INIT_LOCK_FD });
        sg_plan_add(p, (struct sg_step) { .op = STEP_OUTLIVE_PARENT });
    } else { /* once more: a change of ids forgets it. If we are dead, the control socket tells */
        sg_plan_add(p, (struct sg_step) { STEP_DIE_WITH_PARENT, .fd = -1 });
    }
    const char *program = spec->nested ? spec->nested->program : "sandglass-init";
    sg_plan_add(p, (struct sg_step) { STEP_EXEC, .fd = c->init_fd, .text = program });
    sg_plan_publish(p);
}

/* ---- making ---- */

/* The scheduler puts a new process behind us on our own processor when the other one is busy for a
 * moment, and there it waits until we sleep: long after the other one is idle again. So it is moved
 * once, and is then as free as we are. */
static int move_away(pid_t pid, struct sg_err *err)
{
    const int here = sched_getcpu();
    cpu_set_t own;
    if (here < 0 || sched_getaffinity(0, sizeof own, &own) < 0)
        return 0;
    cpu_set_t others = own;
    CPU_CLR((size_t)here, &others);
    if (sched_setaffinity(pid, sizeof others, &others) < 0)
        return 0; /* there is no other one */
    if (sched_setaffinity(pid, sizeof own, &own) < 0)
        return sg_fail_sys(err, "let a process of the sandbox use every processor again");
    return 0;
}

static int start_child(struct sg_cell *c, struct sg_err *err)
{
    c->stack = mmap(NULL, SG_PLAN_STACK_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (c->stack == MAP_FAILED) {
        c->stack = NULL;
        return sg_fail_sys(err, "make a stack for the sandbox's first process");
    }
    c->self_fd = (int)sg_raw(SYS_pidfd_open, getpid(), 0);
    if (c->self_fd < 0) {
        errno = -c->self_fd;
        return sg_fail_sys(err, "take a descriptor of our own process");
    }
    c->plan.child_tid = 1;
    /* A runtime mounts a proc of its own, which the kernel permits beside a whole one only. */
    plan_start(&c->plan, c->self_fd, c->makes_net,
               !c->is_nested); /* or it would wait for a parent that died */
    const int birth = sg_cgroup_birth_fd(&c->cgroup);
    struct clone_args args = {
        .flags = CLONE_VM | CLONE_FILES | CLONE_PIDFD | CLONE_CHILD_CLEARTID | CLONE_NEWNS |
                 CLONE_NEWUTS | unless(SG_SWITCH_NO_PIDNS, CLONE_NEWPID) |
                 unless(SG_SWITCH_NO_IPCNS, CLONE_NEWIPC) | (birth >= 0 ? CLONE_INTO_CGROUP : 0),
        .pidfd = (uintptr_t)&c->pidfd,
        .child_tid = (uintptr_t)&c->plan.child_tid,
        .stack = (uintptr_t)c->stack,
        .stack_size = SG_PLAN_STACK_BYTES,
        .cgroup = birth >= 0 ? (unsigned)birth : 0u,
    };
    long pid = sg_raw_clone3(&args, sg_plan_walk, &c->plan);
    if (pid < 0) {
        errno = (int)-pid;
        return sg_fail_sys(err, "make the namespaces");
    }
    c->pid = (pid_t)pid;
    return c->has_sweeper ? move_away(c->pid, err) : 0;
}

/* Files in the writable layer are memory, too: leave room for processes, so that a full disk is a
 * full disk and not an end by lack of memory. */
uint64_t sg_limits_disk_bytes(const struct sg_limits *l)
{
    uint64_t most = l->mem_bytes - l->mem_bytes / MIN_DISK_OF_MEMORY;
    if (sg_switch_is_on(SG_SWITCH_NO_DISK_LIMIT))
        return 1ULL << 40;
    if (l->is_pooled)
        return l->disk_bytes;
    return l->disk_bytes < most ? l->disk_bytes : most;
}

uint64_t sg_limits_nested_pids(uint64_t pids)
{
    enum { OF_ITS_OWN = 192, EACH = 2 };
    return pids * EACH + OF_ITS_OWN;
}

static void lift_switched_limits(struct sg_limits *l)
{
    if (sg_switch_is_on(SG_SWITCH_NO_PIDS_LIMIT))
        l->pids = 30000;
    if (sg_switch_is_on(SG_SWITCH_NO_MEMORY_LIMIT))
        l->mem_bytes = 1ULL << 33;
    if (sg_switch_is_on(SG_SWITCH_NO_CPU_LIMIT))
        l->cpu_milli = 1000000;
}

static int make_cgroups(struct sg_cell *c, struct sg_err *err)
{
    if (!c->is_kept) { /* else they were found with the place */
        sg_cgroup_init(&c->cgroup, &c->ids);
        sg_sweeper_aim(&c->sweeper, &c->cgroup);
    }
    c->has_cgroups = true;
    return sg_cgroup_make(&c->cgroup, err);
}

/* The long ways first: the network namespace, then the other ones. v2: the child is born in its
 * cgroup, which must exist. v1: it joins by itself, at the end. */
static int start(struct sg_cell *c, bool is_rootless, unsigned flags, struct sg_err *err)
{
    const bool has_net = !sg_switch_is_on(SG_SWITCH_NO_NETNS);
    int pair[2];
    if ((c->ids.lock_fd < 0 && sg_ids_claim(!is_rootless, &c->ids, err) < 0) ||
        sg_chan_pair(pair, err) < 0)
        return -1;
    c->ctl_fd = pair[0];
    c->far_fd = pair[1];
    if (flags & SG_CELL_SWEPT) {
        c->has_sweeper = true;
        if (sg_sweeper_start(&c->sweeper, &c->ids, c->ctl_fd, has_net, err) < 0 ||
            move_away(c->sweeper.pid, err) < 0)
            return -1;
    }
    c->makes_net = has_net && !c->has_sweeper;
    if (sg_cgroup_is_v2() && make_cgroups(c, err) < 0)
        return -1;
    return start_child(c, err);
}

static struct sg_cell *new_cell(bool is_rootless)
{
    struct sg_cell *c = sg_new(struct sg_cell);
    c->ids.lock_fd = c->userns.fd = c->disk_userns.fd = c->init_fd = c->pidfd = c->ctl_fd =
        c->far_fd = -1;
    c->space_fd = c->sweeper.keep_fd = c->plan.proc_fd = c->self_fd = -1;
    c->plan.covers_fd = -1;
    for (unsigned i = 0; i < SG_GROUP_COUNT; i++)
        c->cgroup.dir_fds[i] = c->cgroup.join_fds[i] = -1;
    c->listen_fd = -1;
    c->is_rootless = is_rootless;
    sg_root_init(&c->root);
    c->filter = (struct sock_fprog) { .len = sg_seccomp_cell_len,
                                      .filter = (struct sock_filter *)sg_seccomp_cell };
    return c;
}

struct sg_cell *sg_cell_start(bool is_rootless, unsigned flags, struct sg_err *err)
{
    struct sg_cell *c = new_cell(is_rootless);
    c->is_nested = flags & SG_CELL_NESTED;
    if (start(c, is_rootless, flags, err) == 0)
        return c;
    sg_cell_free(c);
    return NULL;
}

struct sg_cell *sg_cell_start_kept(bool is_rootless, struct sg_kept_place *place,
                                   struct sg_err *err)
{
    struct sg_cell *c = new_cell(is_rootless);
    c->is_kept = true;
    c->ids = place->ids;
    c->cgroup = place->cgroup;
    c->is_nested = place->is_nested;
    place->ids.lock_fd = -1;
    if (start(c, is_rootless, 0, err) == 0)
        return c;
    sg_cell_free(c);
    return NULL;
}

/* Above the numbers that they will have in pid 1 (STEP_PASS). */
static int raise_fd(int *fd, struct sg_err *err)
{
    if (*fd > SG_INIT_LOCK_FD)
        return 0;
    int high = fcntl(*fd, F_DUPFD_CLOEXEC, SG_INIT_LOCK_FD + 1);
    if (high < 0)
        return sg_fail_sys(err, "move a descriptor");
    sg_drop_fd(fd);
    *fd = high;
    return 0;
}

static int pass_descriptors(struct sg_cell *c, int listen_fd, struct sg_err *err)
{
    c->listen_fd = fcntl(listen_fd, F_DUPFD_CLOEXEC, SG_INIT_LOCK_FD + 1);
    if (c->listen_fd < 0)
        return sg_fail_sys(err, "keep the sandbox's listening socket");
    return raise_fd(&c->far_fd, err) < 0 || raise_fd(&c->ids.lock_fd, err) < 0 ? -1 : 0;
}

static int build(struct sg_cell *c, struct sg_cell_spec *spec, struct sg_err *err)
{
    lift_switched_limits(&spec->limits);
    const struct sg_idmap map =
        spec->is_rootless ? (struct sg_idmap) { spec->owner_id, 0, 1, spec->owner_id, false }
                          : (struct sg_idmap) { 0, c->ids.first, SG_CELL_IDS, 0, false };
    c->limits = spec->limits;
    if (c->is_nested)
        spec->limits.pids = sg_limits_nested_pids(spec->limits.pids);
    spec->limits.disk_bytes = sg_limits_disk_bytes(&spec->limits);
    /* An overlay makes files of its own as the host's root, who must be somebody there. */
    struct sg_idmap disk_map = map;
    disk_map.has_host_root = true;
    if (sg_userns_init(&c->userns, &map, err) < 0 ||
        (spec->limits.is_pooled && sg_userns_init(&c->disk_userns, &disk_map, err) < 0) ||
        sg_root_build(&c->root, spec, &c->ids, c->userns.fd, c->disk_userns.fd, &c->plan, err) < 0)
        return -1;
    sg_plan_publish(&c->plan); /* the child is busy with its root while we go on */
    if ((!c->has_cgroups && make_cgroups(c, err) < 0) ||
        sg_cgroup_limit(&c->cgroup, &spec->limits, err) < 0)
        return -1;
    c->is_swap_counted = sg_cgroup_counts_swap(&c->cgroup);
    plan_cgroups(c);
    c->space_fd = fcntl(c->root.scratch_fd, F_DUPFD_CLOEXEC, 3);
    if (c->space_fd < 0)
        return sg_fail_sys(err, "keep the writable layer's descriptor");
    const bool is_given = spec->nested || spec->has_init;
    const int given = spec->nested ? spec->nested->program_fd : spec->init_fd;
    c->init_fd = is_given ? fcntl(given, F_DUPFD_CLOEXEC, 3) : sg_init_image_open(err);
    if (c->init_fd < 0)
        return is_given ? sg_fail_sys(err, "keep the program of the sandbox") : -1;
    if (c->is_kept && pass_descriptors(c, spec->listen_fd, err) < 0)
        return -1;
    plan_end(c, spec);
    return 0;
}

int sg_cell_build(struct sg_cell *c, const struct sg_cell_spec *spec, struct sg_err *err)
{
    struct sg_cell_spec own = *spec;
    if (build(c, &own, err) == 0)
        return 0;
    /* A step of the child may have failed first, and be the reason that ours did. */
    (void)sg_plan_explain(&c->plan, err);
    return -1;
}

/* The child has its own descriptors and memory now. */
static void drop_setup(struct sg_cell *c)
{
    sg_root_done(&c->root);
    sg_userns_done(&c->userns);
    sg_userns_done(&c->disk_userns);
    sg_drop_fd(&c->init_fd);
    sg_drop_fd(&c->far_fd);
    sg_drop_fd(&c->plan.proc_fd);
    sg_drop_fd(&c->plan.covers_fd);
    sg_drop_fd(&c->self_fd);
    sg_drop_fd(&c->listen_fd);
    for (unsigned i = 0; i < SG_GROUP_COUNT; i++)
        sg_drop_fd(&c->cgroup.join_fds[i]);
}

bool sg_cell_is_settled(const struct sg_cell *c)
{
    return __atomic_load_n(&c->plan.child_tid, __ATOMIC_ACQUIRE) == 0;
}

int sg_cell_settle(struct sg_cell *c, struct sg_err *err)
{
    if (!sg_plan_wait(&c->plan, SETTLE_MS))
        return sg_fail(err, SG_TIMEOUT, "the sandbox was not ready after %d s", SETTLE_MS / 1000);
    drop_setup(c);
    if (sg_plan_explain(&c->plan, err) < 0)
        return sg_wrap(err, "start the sandbox");
    return 0;
}

/* ---- use and end ---- */

void sg_cell_keep(struct sg_cell *c, struct sg_kept *ret, int *ret_ctl_fd)
{
    struct sg_kept k = { .pidfd = sg_take_fd(&c->pidfd),
                         .pid = c->pid,
                         .ids = c->ids,
                         .limits = c->limits,
                         .is_rootless = c->is_rootless,
                         .is_nested = c->is_nested,
                         .is_child = true };
    c->ids.lock_fd = -1;                                       /* K2 */
    (void)sg_process_start_ticks(k.pid, &k.start_ticks, NULL); /* our child: it cannot be missing */
    sg_cgroup_done(&c->cgroup);
    k.cgroup = c->cgroup;
    *ret = k;
    *ret_ctl_fd = sg_take_fd(&c->ctl_fd);
    c->pid = 0; /* nothing of it is ended any more */
    c->has_cgroups = false;
    sg_cell_free(c);
}

int sg_cell_ctl(const struct sg_cell *c)
{
    return c->ctl_fd;
}

int sg_cell_pidfd(const struct sg_cell *c)
{
    return c->pidfd;
}

int sg_cell_report(const struct sg_cell *c, struct sg_cell_report *ret, struct sg_err *err)
{
    struct sg_cell_report r = { .missing = c->cgroup.missing,
                                .is_swap_counted = c->is_swap_counted };
    const struct sg_root space = { .scratch_fd = c->space_fd };
    uint64_t unused = 0;
    if (sg_cgroup_usage(&c->cgroup, &r.usage, err) < 0)
        return -1;
    if (sg_root_space(&space, &r.disk_bytes, &unused) < 0)
        return sg_fail_sys(err, "ask for the space of the writable layer");
    r.disk_used_bytes = r.disk_bytes - unused;
    *ret = r;
    return 0;
}

void sg_cell_kill(struct sg_cell *c)
{
    if (c->pidfd >= 0)
        (void)sg_raw(SYS_pidfd_send_signal, c->pidfd, SIGKILL, 0, 0);
}

void sg_cell_free(struct sg_cell *c)
{
    if (!c)
        return;
    if (c->pid > 0 && c->plan.child_tid) {
        sg_plan_cancel(&c->plan);
        (void)sg_plan_wait(&c->plan, TEARDOWN_MS);
    }
    sg_cell_kill(c);
    if (c->pid > 0 && c->has_cgroups && waitpid(c->pid, NULL, __WALL | WNOHANG) == 0)
        sg_cgroup_unthrottle(&c->cgroup); /* it is not gone yet, and may be many */
    if (c->pid > 0)
        while (waitpid(c->pid, NULL, __WALL) < 0 && errno == EINTR)
            ;
    drop_setup(c);
    sg_drop_fd(&c->ctl_fd);
    sg_drop_fd(&c->pidfd);
    sg_drop_fd(&c->space_fd);
    sg_cgroup_done(&c->cgroup);
    if (c->has_cgroups)
        (void)sg_cgroup_remove(&c->cgroup, TEARDOWN_MS, NULL);
    if (c->stack) /* not sooner: unmapping shared memory interrupts the other processor */
        (void)munmap(c->stack, SG_PLAN_STACK_BYTES);
    sg_ids_release(&c->ids);
    if (c->has_sweeper)
        sg_sweeper_stop(&c->sweeper);
    free(c);
}

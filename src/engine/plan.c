/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/plan.h"

#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/banned.h"

static const char *const names[STEP_OP_COUNT] = {
    [STEP_DIE_WITH_PARENT] = "arrange to end with the parent",
    [STEP_OUTLIVE_PARENT] = "arrange to outlive the parent",
    [STEP_JOIN_CGROUP] = "join the cgroup",
    [STEP_UNSHARE] = "make a namespace",
    [STEP_MAKE_NET] = "make the network namespace",
    [STEP_OPEN_PORTS] = "open the low ports",
    [STEP_JOIN_NET] = "join the network namespace",
    [STEP_PRIVATE_MOUNTS] = "make mounts private",
    [STEP_ATTACH] = "attach",
    [STEP_ATTACH_PART] = "attach",
    [STEP_MOUNT_PROC] = "mount /proc",
    [STEP_MAKE_COVERS] = "make the covers of /proc",
    [STEP_MASK_PROC] = "mask a part of /proc",
    [STEP_MOVE_PROC] = "attach /proc",
    [STEP_LOCK_PROC_SYS] = "make /proc/sys read-only",
    [STEP_MOUNT_DEVPTS] = "mount /dev/pts",
    [STEP_PIVOT] = "switch to the new root",
    [STEP_HOSTNAME] = "set the host name",
    [STEP_RLIMIT] = "set a resource limit",
    [STEP_ENTER_USERNS] = "enter the user namespace",
    [STEP_DROP_GROUPS] = "drop supplementary groups",
    [STEP_BOUND_CAPS] = "drop capabilities",
    [STEP_NO_NEW_PRIVS] = "set no_new_privs",
    [STEP_SECCOMP] = "install the seccomp filter",
    [STEP_STDIO] = "arrange descriptors",
    [STEP_PASS] = "pass on a descriptor",
    [STEP_EXEC] = "exec",
};

void sg_plan_add(struct sg_plan *p, struct sg_step step)
{
    assert(p->added < SG_PLAN_MAX_STEPS); /* bounded by the limits in spec.h */
    p->steps[p->added++] = step;
}

static long futex(uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
    return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

void sg_plan_publish(struct sg_plan *p)
{
    __atomic_store_n(&p->published, p->added, __ATOMIC_RELEASE);
    (void)futex(&p->published, FUTEX_WAKE_PRIVATE, 1, NULL);
}

void sg_plan_cancel(struct sg_plan *p)
{
    (void)__atomic_or_fetch(&p->published, SG_PLAN_CANCELLED, __ATOMIC_RELEASE);
    (void)futex(&p->published, FUTEX_WAKE_PRIVATE, 1, NULL);
}

bool sg_plan_wait(struct sg_plan *p, unsigned timeout_ms)
{
    const uint64_t deadline = sg_now_ns() + (uint64_t)timeout_ms * 1000000u;
    for (;;) {
        uint32_t tid = __atomic_load_n(&p->child_tid, __ATOMIC_ACQUIRE);
        if (tid == 0)
            return true;
        uint64_t now = sg_now_ns();
        if (now >= deadline)
            return false;
        const struct timespec left = { .tv_sec = (time_t)((deadline - now) / 1000000000u),
                                       .tv_nsec = (long)((deadline - now) % 1000000000u) };
        /* Not FUTEX_PRIVATE: the kernel wakes the cleared word through the shared key. */
        (void)futex(&p->child_tid, FUTEX_WAIT, tid, &left);
    }
}

int sg_plan_explain(const struct sg_plan *p, struct sg_err *err)
{
    if (!p->failed_at)
        return 0;
    const struct sg_step *s = &p->steps[p->failed_at - 1];
    const char *object = s->path ? s->path : s->text;
    errno = p->failed_sys;
    if (object)
        return sg_fail_sys(err, "%s %s", names[s->op], sg_quote(object).s);
    return sg_fail_sys(err, "%s", names[s->op]);
}

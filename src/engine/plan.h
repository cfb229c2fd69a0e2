/* SPDX-License-Identifier: Apache-2.0 */
/* The plan: what a new cell's first process does between clone and exec, as data.
 *
 * P1. The child shares our memory (CLONE_VM) and our descriptor table (CLONE_FILES) until it execs,
 *     so nothing is copied and descriptors that we open after the clone are its own, too.
 * P2. Therefore the child runs plan_child.c only: raw system calls, its own stack, no libc at all
 *     (its errno is ours). tools/child-symbols holds it to that.
 * P3. The child walks while we still write: a step is visible once sg_plan_publish() has counted
 *     it. The network namespace and the cgroups are made on one core while we build the root
 *     filesystem on the other.
 * P4. A step that fails ends the child; its index and errno stay in the plan, and sg_plan_explain()
 *     turns them into words. If we fail first, sg_plan_cancel() lets it finish the step that it is
 *     in, which closes its descriptors: they are ours, too. If we die first, the child's
 * parent-death signal or its patience ends it; it never runs on alone. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum sg_step_op {
    STEP_DIE_WITH_PARENT, /* fd: pidfd of the parent, or -1                           */
    STEP_OUTLIVE_PARENT,  /* no longer, for a cell that is kept                       */
    STEP_JOIN_CGROUP,     /* fd: v1 "tasks" file                                      */
    STEP_UNSHARE,         /* value: CLONE_NEW* flags                                  */
    STEP_MAKE_NET,        /* a network namespace of its own                           */
    STEP_OPEN_PORTS,      /* of it, through the new proc, to everybody                 */
    STEP_JOIN_NET,        /* fd: the ns directory of who makes it; word: its answer    */
    STEP_PRIVATE_MOUNTS,
    STEP_ATTACH,        /* fd: detached mount; to_fd + path: where, see below        */
    STEP_ATTACH_PART,   /* fd + text: part of an attached mount; value: attributes; to_fd + path:
                           where; is_optional: target may be missing */
    STEP_MOUNT_PROC,    /* to_fd + path: where                                      */
    STEP_MAKE_COVERS,   /* to_fd + path: where they may be                           */
    STEP_MASK_PROC,     /* path: below /proc                                        */
    STEP_MOVE_PROC,     /* to_fd + path: where it belongs                            */
    STEP_LOCK_PROC_SYS, /* /proc/sys read-only                                      */
    STEP_MOUNT_DEVPTS,  /* to_fd + path: where; value: gid of the terminals, is_optional: none;
                           text: how many there may be */
    STEP_PIVOT,         /* fd: new root; value: the old one goes                    */
    STEP_HOSTNAME,      /* text                                                     */
    STEP_RLIMIT,        /* value: which; limit                                      */
    STEP_ENTER_USERNS,  /* fd; value: id to become                                  */
    STEP_DROP_GROUPS,
    STEP_BOUND_CAPS, /* value: mask that stays                                   */
    STEP_NO_NEW_PRIVS,
    STEP_SECCOMP, /* filter                                                   */
    STEP_STDIO,   /* fd: control socket; becomes 3, with /dev/null on 0, 1, 2;
                     value: all others close at exec */
    STEP_PASS,    /* fd: one more that stays open at exec; value: its number  */
    STEP_EXEC,    /* fd: program; text: its name                              */
    STEP_OP_COUNT,
};

struct sg_step {
    enum sg_step_op op;
    int fd, to_fd;
    bool is_optional;
    const char *path, *text;
    uint64_t value, limit;
    const struct sock_fprog *filter;
    uint32_t *word;
};

enum { SG_PLAN_MAX_STEPS = 224, SG_PLAN_STACK_BYTES = 32768, SG_PLAN_PATIENCE_S = 20 };
#define SG_PLAN_CANCELLED 0x80000000u

struct sg_plan {
    struct sg_step steps[SG_PLAN_MAX_STEPS];
    uint32_t added;     /* ours */
    uint32_t published; /* shared: futex word; SG_PLAN_CANCELLED: no more steps */
    uint32_t child_tid; /* shared: cleared by the kernel when the child execs or ends */
    uint32_t failed_at; /* 1 + index of the step that failed */
    int32_t failed_sys;
    int proc_fd;   /* the child's: the proc mount between two of its steps; ours to close */
    int covers_fd; /* the same for what covers parts of it */
};

/* "Where" is a path below the root to_fd, resolved inside it and through no link, or a plain path
 * when to_fd is AT_FDCWD. Appends one step; the child sees it after the next publish. */
void sg_plan_add(struct sg_plan *p, struct sg_step step);
void sg_plan_publish(struct sg_plan *p);
void sg_plan_cancel(struct sg_plan *p); /* the child ends after the step that it is in */

/* Waits until the child has exec'd or ended; false when `timeout_ms` passed first. */
bool sg_plan_wait(struct sg_plan *p, unsigned timeout_ms);

/* Did a step fail? Then its error, in words. */
int sg_plan_explain(const struct sg_plan *p, struct sg_err *err);

/* The child's side (plan_child.c). Never returns. */
void sg_plan_walk(void *plan);

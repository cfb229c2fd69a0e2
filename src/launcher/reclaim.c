/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/reclaim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "engine/reclaim.h"
#include "launcher/launcher.h"
#include "base/banned.h"

enum { KEPT_FD = 3, NICENESS = 10 };

static void begin_next(struct sg_launcher *l);

void sg_reclaimer_init(struct sg_reclaimer *r)
{
    *r = (struct sg_reclaimer) { .gone = { .fd = -1 } };
    r->end = &r->first;
}

/* ---- the helper's side ---- */

/* Our signals stay blocked: it ends by itself, by SIGKILL, or with us. */
static _Noreturn void be_a_helper(int dir_fd, pid_t launcher)
{
    (void)prctl(PR_SET_NAME, "sandglass-recl");
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setpriority(PRIO_PROCESS, 0, NICENESS);
    if (getppid() != launcher || (dir_fd != KEPT_FD && dup2(dir_fd, KEPT_FD) < 0) ||
        syscall(SYS_close_range, KEPT_FD + 1, ~0U, 0) < 0)
        _exit(1);
    sg_reclaim_run(KEPT_FD);
    _exit(0);
}

/* ---- ours ---- */

static void send_news(struct sg_launcher *l, const struct sg_box *b, uint64_t bytes)
{
    struct sg_msg m = { .type = SG_MSG_L_RECLAIMED };
    m.l_reclaimed.sandbox = sg_text_of(b->record.sandbox);
    m.l_reclaimed.bytes = bytes;
    sg_conn_send(l, &m, -1);
}

/* Nothing in the box ran meanwhile: what it has less, it was relieved of. */
static void tell(struct sg_launcher *l)
{
    struct sg_reclaimer *r = &l->reclaimer;
    if (!r->box || r->is_told)
        return;
    r->is_told = true;
    const uint64_t now = sg_cgroup_memory(&r->box->kept.cgroup); /* SG_UNKNOWN is the most */
    send_news(l, r->box, now < r->before_bytes ? r->before_bytes - now : 0);
}

static void on_gone(struct sg_io *io, uint32_t events)
{
    (void)events;
    struct sg_launcher *l = SG_OWNER(io, struct sg_launcher, reclaimer.gone);
    struct sg_reclaimer *r = &l->reclaimer;
    sg_io_drop(l->loop, io);
    while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    r->pid = 0;
    tell(l);
    struct sg_box *b = sg_take_ptr(&r->box);
    if (b && b->state == SG_BOX_ENDING)
        sg_box_look_again(b);
    begin_next(l);
}

static int start(struct sg_launcher *l, struct sg_box *b, struct sg_err *err)
{
    struct sg_reclaimer *r = &l->reclaimer;
    sg_auto_fd dir = sg_kept_reclaim(&b->kept, err);
    if (dir < 0)
        return -1;
    r->before_bytes = sg_cgroup_memory(&b->kept.cgroup);
    const pid_t own = getpid(), pid = fork();
    if (pid < 0)
        return sg_fail_sys(err, "start a helper");
    if (pid == 0)
        be_a_helper(dir, own);
    r->pid = pid;
    r->box = b;
    r->is_told = false;
    r->gone = (struct sg_io) { .fd = (int)syscall(SYS_pidfd_open, pid, 0), .ready = on_gone };
    if (r->gone.fd >= 0 && sg_io_want(l->loop, &r->gone, EPOLLIN, err) == 0)
        return 0;
    sg_reclaimer_done(l);
    return sg_fail_sys(err, "watch a helper");
}

static void leave_line(struct sg_reclaimer *r, struct sg_box *b)
{
    struct sg_box **at = &r->first;
    if (!b->reclaim.is_waiting)
        return;
    while (*at != b)
        at = &(*at)->reclaim.next;
    *at = b->reclaim.next;
    if (!*at)
        r->end = at;
    b->reclaim = (struct sg_reclaim_place) { .is_waiting = false };
}

/* A box that cannot be helped is told of, too: nothing of it went. */
static void begin_next(struct sg_launcher *l)
{
    struct sg_reclaimer *r = &l->reclaimer;
    while (!r->pid && r->first) {
        struct sg_box *b = r->first;
        struct sg_err err = { 0 };
        leave_line(r, b);
        if (start(l, b, &err) == 0)
            return;
        sg_log(SG_LOG_WARN, "memory of a paused sandbox stays where it is",
               SG_KV("sandbox", b->record.sandbox), SG_KV("error", err.msg));
        send_news(l, b, 0);
    }
}

int sg_reclaim_box(struct sg_box *b, struct sg_err *err)
{
    struct sg_reclaimer *r = &b->launcher->reclaimer;
    if (b->reclaim.is_waiting || (r->box == b && !r->is_told))
        return 0;
    sg_auto_fd may_be = sg_kept_reclaim(&b->kept, err);
    if (may_be < 0)
        return -1;
    b->reclaim = (struct sg_reclaim_place) { .is_waiting = true };
    *r->end = b;
    r->end = &b->reclaim.next;
    begin_next(b->launcher);
    return 0;
}

void sg_reclaim_stop(struct sg_box *b)
{
    struct sg_reclaimer *r = &b->launcher->reclaimer;
    leave_line(r, b);
    if (r->box != b || r->is_told)
        return;
    (void)kill(r->pid, SIGKILL);
    tell(b->launcher);
}

bool sg_reclaim_is_at(const struct sg_box *b)
{
    return b->launcher->reclaimer.box == b;
}

void sg_reclaim_forget(struct sg_box *b)
{
    struct sg_reclaimer *r = &b->launcher->reclaimer;
    leave_line(r, b);
    if (r->box != b)
        return;
    (void)kill(r->pid, SIGKILL);
    r->box = NULL;
}

void sg_reclaimer_done(struct sg_launcher *l)
{
    struct sg_reclaimer *r = &l->reclaimer;
    if (r->pid > 0) {
        (void)kill(r->pid, SIGKILL);
        while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    r->pid = 0;
    r->box = NULL;
    sg_io_drop(l->loop, &r->gone);
}

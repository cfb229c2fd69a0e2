/* SPDX-License-Identifier: Apache-2.0 */
#include "init/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/banned.h"

enum { WORK_FD = 3, REPORT_FD = WORK_FD + SG_WORKER_FDS, EXIT_REPORTED = 255 };

struct report { /* less than a pipe takes at once */
    uint32_t kind, sys;
    char text[sizeof((struct sg_err *)0)->msg];
};

static struct sg_worker *find_worker(struct sg_init *in, int pid)
{
    for (unsigned i = 0; i < SG_INIT_MAX_WORKERS; i++)
        if (in->workers[i].pid == pid)
            return &in->workers[i];
    return NULL;
}

/* ---- in the worker ---- */

/* Keeps these and closes everything else: the worker must not hold on to the control socket and to
 * other people's streams. */
static int keep_only(const int *fds, unsigned fd_count, int report_fd)
{
    int high[SG_WORKER_FDS], high_report = fcntl(report_fd, F_DUPFD, REPORT_FD + 1);
    for (unsigned i = 0; i < fd_count; i++) {
        high[i] = fcntl(fds[i], F_DUPFD, REPORT_FD + 1);
        if (high[i] < 0)
            return -1;
    }
    for (int fd = WORK_FD; fd < REPORT_FD; fd++) {
        unsigned i = (unsigned)(fd - WORK_FD);
        if (i >= fd_count)
            (void)close(fd);
        else if (dup2(high[i], fd) < 0)
            return -1;
    }
    if (high_report < 0 || dup2(high_report, REPORT_FD) < 0)
        return -1;
    return (int)syscall(SYS_close_range, REPORT_FD + 1u, INT_MAX, 0u);
}

/* First in line when memory ends. The file is init's own, not the user's. */
static void volunteer(void)
{
    if (syscall(SYS_setresuid, -1, getuid(), -1) < 0)
        return;
    sg_auto_fd fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        (void)!write(fd, "1000", 4);
}

static _Noreturn void be_worker(const struct sg_call *c, const char *name, sg_work *work,
                                const int *fds, unsigned fd_count, int report_fd, const void *arg)
{
    (void)prctl(PR_SET_NAME, name);
    if (keep_only(fds, fd_count, report_fd) < 0)
        _exit(errno);
    volunteer();
    sg_user_stay(&c->user);
    struct sg_err err = { 0 };
    if (work(WORK_FD, arg, &err) == 0)
        _exit(0);
    struct report r = { (uint32_t)err.kind, (uint32_t)err.sys, "" };
    memcpy(r.text, err.msg, sizeof r.text);
    (void)!write(REPORT_FD, &r, sizeof r);
    _exit(EXIT_REPORTED);
}

/* ---- in init ---- */

int sg_worker_start(struct sg_init *in, const struct sg_call *c, const char *name, sg_work *work,
                    int fd, const void *arg, struct sg_err *err)
{
    return sg_worker_start_with(in, c, name, work, &fd, 1, arg, err);
}

int sg_worker_start_with(struct sg_init *in, const struct sg_call *c, const char *name,
                         sg_work *work, const int *fds, unsigned fd_count, const void *arg,
                         struct sg_err *err)
{
    struct sg_worker *w = find_worker(in, 0);
    int report[2];
    if (!w)
        return sg_fail(err, SG_EXHAUSTED, "%d workers are busy", SG_INIT_MAX_WORKERS);
    if (pipe2(report, O_CLOEXEC | O_NONBLOCK) < 0)
        return sg_fail_sys(err, "make a pipe for a worker");
    int pid = fork();
    if (pid == 0)
        be_worker(c, name, work, fds, fd_count, report[1], arg);
    (void)close(report[1]);
    if (pid < 0) {
        sg_fail_sys(err, "start a worker");
        (void)close(report[0]);
        return -1;
    }
    *w = (struct sg_worker) { .pid = pid, .report_fd = report[0], .id = c->m->id };
    return SG_LATER;
}

/* What the worker left. It ran as the user, who could have been at its memory: nothing of it is
 * believed further than an error text can be. */
static void explain(int report_fd, int status, struct sg_err *err)
{
    struct report r;
    ssize_t n = read(report_fd, &r, sizeof r);
    if (n == (ssize_t)sizeof r && r.kind > SG_OK && r.kind < SG_KIND_COUNT) {
        r.text[sizeof r.text - 1] = '\0';
        *err = (struct sg_err) { .kind = (enum sg_kind)r.kind, .sys = (int)(r.sys & 0xfff) };
        memcpy(err->msg, r.text, sizeof r.text);
    } else if (WIFEXITED(status)) {
        errno = WEXITSTATUS(status);
        (void)sg_fail_sys(err, "start the work");
    } else if (WTERMSIG(status) == SIGKILL) {
        (void)sg_fail(err, SG_EXHAUSTED,
                      "the worker was killed: the sandbox is out of memory, or "
                      "its processes were ended");
    } else {
        (void)sg_fail(err, SG_UNAVAILABLE, "the worker was killed");
    }
}

void sg_worker_exited(struct sg_init *in, int pid, int status)
{
    struct sg_worker *w = find_worker(in, pid);
    if (!w)
        return;
    struct sg_worker gone = *w;
    *w = (struct sg_worker) { 0 };
    struct sg_msg ok = { .type = SG_MSG_OK, .id = gone.id };
    struct sg_err err = { 0 };
    if (gone.is_orphan) {
        (void)close(gone.report_fd);
        return;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        sg_outbox_send(in, &ok, -1);
    } else {
        explain(gone.report_fd, status, &err);
        sg_outbox_send_error(in, gone.id, &err);
    }
    (void)close(gone.report_fd);
}

void sg_worker_end_all(struct sg_init *in)
{
    for (unsigned i = 0; i < SG_INIT_MAX_WORKERS; i++)
        if (in->workers[i].pid) {
            in->workers[i].is_orphan = true;
            (void)kill(in->workers[i].pid, SIGKILL); /* not waited for yet, so it is nobody else */
        }
}

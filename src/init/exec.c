/* SPDX-License-Identifier: Apache-2.0 */
/* Execs: the processes that the host started, from SPAWN to EXITED.
 *
 * A pid in the table has not been waited for until its process has ended there, so while RUNNING it
 * names that process and no other. EXITED comes after SPAWNED, because the loop looks for ends only
 * between requests; and after the last byte of a terminal. */
#include "init/exec.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "init/pty.h"
#include "init/spawn.h"
#include "base/banned.h"

static struct sg_exec *find_exec(struct sg_init *in, uint32_t pid)
{
    for (unsigned i = 0; i < in->exec_count; i++)
        if (in->execs[i]->pid == pid && in->execs[i]->state == SG_EXEC_RUNNING)
            return in->execs[i];
    return NULL;
}

static struct sg_exec *demand_exec(struct sg_init *in, uint32_t pid, struct sg_err *err)
{
    struct sg_exec *e = find_exec(in, pid);
    if (!e)
        sg_fail(err, SG_NOT_FOUND, "process %u was not started by the host", (unsigned)pid);
    return e;
}

bool sg_exec_knows(const struct sg_init *in, uint32_t pid)
{
    for (unsigned i = 0; i < in->exec_count; i++)
        if (in->execs[i]->pid == pid)
            return true;
    return false;
}

void sg_exec_forget(struct sg_init *in, struct sg_exec *e)
{
    unsigned i = 0;
    while (in->execs[i] != e)
        i++;
    in->execs[i] = in->execs[--in->exec_count];
    sg_keep_drop(e);
    free(e);
}

/* ---- start ---- */

/* Numbers are given out from below, so the highest tells how many are in use. A host that left us
 * without any could not even come back. */
static int check_room(const struct sg_init *in, const struct sg_packet *p, struct sg_err *err)
{
    for (unsigned i = 0; i < p->fd_count; i++)
        if (p->fds[i] >= in->stream_ceiling)
            return sg_fail(err, SG_EXHAUSTED, "no room for more streams: init has %d open files",
                           p->fds[i]);
    return 0;
}

/* Hands out the packet's descriptors in the order of the flags' bits. */
static int assign_streams(const struct sg_call *c, int fds[3], struct sg_err *err)
{
    unsigned flags = c->m->spawn.flags, next = 0;
    unsigned expected = sg_keep_expected_fds(&c->m->spawn);
    if (expected != c->packet->fd_count)
        return sg_fail(err, SG_INVALID, "%u streams were named and %u came", expected,
                       c->packet->fd_count);
    for (unsigned i = 0; i < 3; i++)
        fds[i] = flags & 1u << i ? c->packet->fds[next++] : -1;
    if (flags & SG_SPAWN_PTY && flags & SG_SPAWN_STDERR)
        return sg_fail(err, SG_INVALID, "a terminal has no separate stderr");
    if (!(flags & SG_SPAWN_STDERR))
        fds[2] = fds[1];
    return 0;
}

static int open_pty(struct sg_init *in, struct sg_call *c, int fds[3], struct sg_pty **ret,
                    struct sg_err *err)
{
    const struct sg_msg_spawn *m = &c->m->spawn;
    bool has_in = m->flags & SG_SPAWN_STDIN, has_out = m->flags & SG_SPAWN_STDOUT;
    int in_fd = has_in ? sg_packet_take_fd(c->packet, 0) : -1;
    int out_fd = has_out ? sg_packet_take_fd(c->packet, has_in) : -1;
    int slave;
    struct sg_pty *p = sg_pty_new(in, m->rows, m->cols, &c->user, in_fd, out_fd, &slave, err);
    if (!p)
        return -1;
    fds[0] = fds[1] = fds[2] = slave;
    *ret = p;
    return 0;
}

static void add_exec(struct sg_init *in, struct sg_call *c, int pid, struct sg_pty *pty)
{
    struct sg_exec *e = sg_new(struct sg_exec);
    e->pid = (uint32_t)pid;
    e->has_pty = pty;
    e->pty = pty;
    e->is_kept = in->keeps;
    memcpy(e->tag, c->m->spawn.tag.p, c->m->spawn.tag.n); /* its row has the same ceiling */
    sg_keep_take(e, c);
    in->execs[in->exec_count++] = e;
    in->running_count++;
}

static int start(struct sg_init *in, struct sg_call *c, struct sg_spawn *s, struct sg_err *err)
{
    if (sg_spawn_prepare(s, &c->m->spawn, &c->user, err) < 0 || assign_streams(c, s->fds, err) < 0)
        return -1;
    struct sg_pty *pty = NULL;
    s->has_terminal = c->m->spawn.flags & SG_SPAWN_PTY;
    s->drops_caps = in->drops_caps;
    if (s->has_terminal && open_pty(in, c, s->fds, &pty, err) < 0)
        return -1;
    int pid = sg_spawn_start(s, err);
    if (pid < 0)
        sg_pty_free(in, pty);
    else
        add_exec(in, c, pid, pty);
    return pid;
}

int sg_handle_spawn(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    if (in->exec_count == SG_INIT_MAX_EXECS)
        return sg_fail(err, SG_EXHAUSTED, "%d processes were started and have not ended%s",
                       SG_INIT_MAX_EXECS, in->keeps ? " or not been released" : "");
    if (in->shutdown_ns)
        return sg_fail(err, SG_CONFLICT, "the sandbox is shutting down");
    if (check_room(in, c->packet, err) < 0 || sg_keep_check(in, &c->m->spawn, err) < 0)
        return -1;
    struct sg_spawn s;
    int pid = start(in, c, &s, err);
    sg_spawn_done(&s);
    if (pid < 0)
        return -1;
    c->reply.type = SG_MSG_SPAWNED;
    c->reply.spawned.pid = (uint32_t)pid;
    return 0;
}

/* ---- while it lives ---- */

int sg_handle_resize(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    const struct sg_msg_resize *m = &c->m->resize;
    struct sg_exec *e = demand_exec(in, m->pid, err);
    if (!e)
        return -1;
    if (!e->pty)
        return sg_fail(err, SG_CONFLICT, "process %u has no terminal", (unsigned)m->pid);
    return sg_pty_resize(e->pty, m->rows, m->cols, err);
}

int sg_handle_close_stdin(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    struct sg_exec *e = demand_exec(in, c->m->close_stdin.pid, err);
    if (!e)
        return -1;
    /* With the end that we kept, and the host's own, the pipe ends behind what is still in it. */
    bool was_kept = e->near_fds[0] >= 0;
    sg_drop_fd(&e->near_fds[0]);
    if (e->pty && !was_kept)
        sg_pty_end_input(in, e->pty);
    return 0;
}

/* ---- end ---- */

static void finish(struct sg_init *in, void *owner)
{
    struct sg_exec *e = owner;
    struct sg_msg m = { .type = SG_MSG_EXITED, .exited = e->end };
    sg_pty_free(in, e->pty);
    e->pty = NULL;
    e->state = SG_EXEC_ENDED;
    in->running_count--;
    sg_outbox_send(in, &m, -1);
    if (!e->is_kept)
        sg_exec_forget(in, e);
}

static uint64_t ns_of(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

bool sg_exec_exited(struct sg_init *in, int pid, int status, const struct rusage *use)
{
    struct sg_exec *e = find_exec(in, (uint32_t)pid);
    if (!e)
        return false;
    e->state = SG_EXEC_DRAINING;
    e->end = (struct sg_msg_exited) {
        .pid = e->pid,
        .code = WIFEXITED(status) ? (uint32_t)WEXITSTATUS(status) : 0,
        .signal = WIFSIGNALED(status) ? (uint32_t)WTERMSIG(status) : 0,
        .cpu_ns = ns_of(use->ru_utime) + ns_of(use->ru_stime),
        .max_rss_bytes = (uint64_t)use->ru_maxrss * 1024,
        .tag = sg_text_of(e->tag),
    };
    if (e->pty)
        sg_pty_finish(in, e->pty, finish, e);
    else
        finish(in, e);
    return true;
}

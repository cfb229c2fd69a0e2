/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: received one at a time, looked up in a table, answered with the same id.
 *
 * A row says which field names the user, and whether the handler runs with that user's ids. So no
 * file handler changes ids by itself, and none can forget to. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "init/init.h"
#include "init/path.h"
#include "base/banned.h"

static const uint64_t TERM_GRACE_NS = 1000000000;

static int handle_hello(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    const struct sg_msg_hello *m = &c->m->hello;
    if (m->version != SG_CTL_VERSION)
        return sg_fail(err, SG_UNSUPPORTED, "control version %u is not %d", (unsigned)m->version,
                       SG_CTL_VERSION);
    in->has_hello = true;
    in->is_one_user = m->flags & SG_HELLO_ONE_USER;
    in->keeps = m->flags & SG_HELLO_KEEP;
    sg_path_confine(m->flags & SG_HELLO_VIEW ? SG_CTL_VIEW : NULL);
    in->epoch = m->epoch;
    return 0;
}

/* Only pid 1 may say "all": in any other process that would mean the machine it runs on. */
int sg_serve_kill_all(int signal, struct sg_err *err)
{
    if (getpid() != 1)
        return sg_fail(err, SG_UNSUPPORTED, "init is not pid 1");
    if (kill(-1, signal) < 0 && errno != ESRCH)
        return sg_fail_sys(err, "signal all processes");
    return 0;
}

static int handle_signal(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    const struct sg_msg_signal *m = &c->m->signal;
    if (m->scope == SG_SIGNAL_ALL)
        return sg_serve_kill_all((int)m->signal, err);
    if (m->pid <= 1)
        return sg_fail(err, SG_INVALID, "process %u cannot be signalled", (unsigned)m->pid);
    int pid = (int)m->pid;
    if (m->scope == SG_SIGNAL_SESSION) {
        if (!sg_exec_knows(in, m->pid))
            return sg_fail(err, SG_NOT_FOUND, "process %d was not started by the host", pid);
        return sg_session_signal(pid, (int)m->signal, err);
    }
    if (kill(m->scope == SG_SIGNAL_GROUP ? -pid : pid, (int)m->signal) < 0)
        return sg_fail_sys(err, "signal process %d", pid);
    return 0;
}

static uint32_t count_processes(const struct sg_init *in)
{
    sg_auto_dir proc = opendir("/proc");
    if (!proc)
        return in->exec_count;
    uint32_t count = 0;
    for (struct dirent *e; (e = readdir(proc));)
        count += e->d_name[0] >= '1' && e->d_name[0] <= '9';
    return count;
}

static int handle_info(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    (void)err;
    c->reply.type = SG_MSG_INFOED;
    c->reply.infoed = (struct sg_msg_infoed) { SG_CTL_VERSION, count_processes(in),
                                               sg_now_ns() - in->started_ns };
    return 0;
}

static int handle_shutdown(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    (void)c;
    if (!in->shutdown_ns) {
        if (sg_serve_kill_all(SIGTERM, err) < 0)
            return -1;
        in->shutdown_ns = sg_now_ns() + TERM_GRACE_NS;
    }
    return 0;
}

static const struct {
    sg_handler *handle;
    uint16_t user_at; /* offset of the user's name in struct sg_msg; 0: has none */
    bool acts;        /* runs with that user's ids */
} rows[SG_MSG_TYPE_COUNT] = {
#define USER(m) offsetof(struct sg_msg, m.user)
    [SG_MSG_HELLO] = { handle_hello, 0, false },
    [SG_MSG_SPAWN] = { sg_handle_spawn, USER(spawn), false }, /* the child becomes the user */
    [SG_MSG_SIGNAL] = { handle_signal, 0, false },
    [SG_MSG_RESIZE] = { sg_handle_resize, 0, false },
    [SG_MSG_CLOSE_STDIN] = { sg_handle_close_stdin, 0, false },
    [SG_MSG_OPEN] = { sg_handle_open, USER(open), true },
    [SG_MSG_STAT] = { sg_handle_stat, USER(stat), true },
    [SG_MSG_LIST] = { sg_handle_list, USER(list), true },
    [SG_MSG_MAKE] = { sg_handle_make, USER(make), true },
    [SG_MSG_MOVE] = { sg_handle_move, USER(move), true },
    [SG_MSG_REMOVE] = { sg_handle_remove, USER(remove), true },
    [SG_MSG_SETATTR] = { sg_handle_setattr, USER(setattr), true },
    [SG_MSG_WATCH] = { sg_handle_watch, USER(watch), true },
    [SG_MSG_UNWATCH] = { sg_handle_unwatch, 0, false },
    [SG_MSG_DIAL] = { sg_handle_dial, USER(dial), true },
    [SG_MSG_INFO] = { handle_info, 0, false },
    [SG_MSG_SHUTDOWN] = { handle_shutdown, 0, false },
    [SG_MSG_RECLAIM] = { sg_handle_reclaim, 0, false },
    [SG_MSG_RELEASE] = { sg_handle_release, 0, false },
    [SG_MSG_TAR_IN] = { sg_handle_tar_in, USER(tar), true },
    [SG_MSG_TAR_OUT] = { sg_handle_tar_out, USER(tar), true },
    [SG_MSG_FIND] = { sg_handle_find, USER(find), true },
    [SG_MSG_WRITE] = { sg_handle_write, USER(write), true },
    [SG_MSG_PUT] = { sg_handle_put, USER(put), true },
#undef USER
};

static int run(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    const struct sg_msg *m = c->m;
    if (!in->has_hello && m->type != SG_MSG_HELLO)
        return sg_fail(err, SG_CONFLICT, "%s before hello", sg_msg_table[m->type].name);
    if (!rows[m->type].handle)
        return sg_fail(err, SG_UNSUPPORTED, "this init does not know %s",
                       sg_msg_table[m->type].name);
    if (!rows[m->type].user_at)
        return rows[m->type].handle(in, c, err);

    const struct sg_text *who = (const void *)((const char *)m + rows[m->type].user_at);
    if (sg_users_find(&in->users, who->p, in->is_one_user, &c->user, err) < 0)
        return -1;
    if (!rows[m->type].acts)
        return rows[m->type].handle(in, c, err);
    if (sg_user_enter(&c->user, err) < 0)
        return -1;
    int result = rows[m->type].handle(in, c, err);
    sg_user_leave(&c->user);
    return result;
}

static void answer(struct sg_init *in)
{
    struct sg_call c = { .m = &in->packet.msg, .packet = &in->packet, .reply_fd = -1 };
    c.reply.type = SG_MSG_OK;
    c.reply.id = c.m->id;
    sg_buf_init(&c.store, SG_CTL_MAX_BYTES);
    struct sg_err err = { 0 };
    int result = run(in, &c, &err);
    if (result < 0)
        sg_outbox_send_error(in, c.m->id, &err);
    else if (result == 0)
        sg_outbox_send(in, &c.reply, c.reply_fd);
    sg_buf_done(&c.store);
    sg_packet_clear(&in->packet); /* or the far ends of streams would stay open in here */
}

void sg_serve_ready(struct sg_init *in, struct sg_source *s, uint32_t events)
{
    if (!sg_outbox_is_empty(in) || in->is_reclaiming) {
        if (events & (EPOLLHUP | EPOLLERR))
            in->has_hung_up = true;
        else
            sg_outbox_flush(in);
        return;
    }
    struct sg_err err = { 0 };
    enum sg_recv got = sg_chan_recv(s->fd, 1u << SG_ROLE_REQUEST, false, &in->packet, &err);
    switch (got) {
    case SG_RECV_MESSAGE:
        answer(in);
        return;
    case SG_RECV_ERROR:
        if (err.sys)
            in->has_hung_up = true;
        else
            sg_outbox_send_error(in, in->packet.msg.id, &err);
        return;
    case SG_RECV_CLOSED:
        in->has_hung_up = true;
        return;
    case SG_RECV_AGAIN:
        return;
    }
}

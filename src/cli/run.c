/* SPDX-License-Identifier: Apache-2.0 */
/* One command in one fresh cell.
 *
 * The fast path has no round trip: the request to spawn waits in the control socket before pid 1
 * even runs. One loop then moves bytes, forwards signals, and keeps the deadlines. Whatever ends
 * the command, its last output is drained first and the usage is read before anything is torn
 * down. */
#include "cli/run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "cli/client.h"
#include "cli/copy.h"
#include "cli/pump.h"
#include "cli/term.h"
#include "engine/userns.h"
#include "base/banned.h"

enum {
    GRACE_MS = 2000,      /* between TERM and KILL */
    PATIENCE_SIGNALS = 3, /* so many INT or TERM from outside end a command that ignores them */
    PIPE_BYTES = 1 << 18,
    MESSAGES_A_TURN = 64,
};
enum { PUMP_IN, PUMP_OUT, PUMP_ERR, PUMP_COUNT };

struct running {
    const struct sg_run_spec *spec;
    struct sg_cell *cell, *own_cell;
    struct sg_client client;
    struct sg_pump pumps[PUMP_COUNT];
    struct sg_packet packet;
    struct sg_term term;
    int signal_fd;
    sigset_t signals; /* those that we forward */
    int64_t spawn_id;
    uint32_t pid; /* 0: not known yet */
    bool has_ended, is_told_to_end;
    unsigned signals_seen;
    uint64_t early_signals;           /* 1 << number */
    uint64_t started_ns, deadline_ns; /* deadline 0: none */
    struct sg_run_result result;
    struct sg_err failure; /* kind SG_OK: none */
};

/* ---- starting ---- */

static int make_pipe(int ret_ends[2], struct sg_err *err)
{
    if (pipe2(ret_ends, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make a pipe");
    (void)fcntl(ret_ends[1], F_SETPIPE_SZ, PIPE_BYTES); /* fewer wake-ups; a refusal is fine */
    return 0;
}

static int set_nonblocking(int fd, struct sg_err *err)
{
    if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        return sg_fail_sys(err, "prepare a pipe");
    return 0;
}

/* Makes the pipes of one stream; our end goes to the pump, the far end to `ret_far`. */
static int open_stream(struct running *r, unsigned which, int *ret_far, struct sg_err *err)
{
    int ends[2];
    if (make_pipe(ends, err) < 0)
        return -1;
    const struct sg_run_spec *s = r->spec;
    struct sg_pump *p = &r->pumps[which];
    /* Static: what is never written to costs nothing, and most runs say little. */
    static uint8_t chunks[PUMP_COUNT][SG_PUMP_CHUNK];
    const int near = which == PUMP_IN ? ends[1] : ends[0];
    *ret_far = which == PUMP_IN ? ends[0] : ends[1];
    if (which == PUMP_IN) {
        sg_pump_init(p, s->in_fd, near, chunks[which]);
        p->owns_to = true;
    } else {
        sg_pump_init(p, near, which == PUMP_OUT ? s->out_fd : s->err_fd, chunks[which]);
        p->capture = which == PUMP_OUT ? s->out_capture : s->err_capture;
        p->owns_from = true;
    }
    return set_nonblocking(near, err);
}

static int spawn(struct running *r, struct sg_err *err)
{
    const struct sg_run_spec *s = r->spec;
    sg_auto_buf argv, env;
    sg_buf_init(&argv, SG_CTL_MAX_BYTES);
    sg_buf_init(&env, SG_CTL_MAX_BYTES);
    struct sg_msg m = { .type = SG_MSG_SPAWN };
    m.spawn.user = sg_text_of(s->cell.is_rootless ? "" : s->user);
    m.spawn.cwd = sg_text_of(s->workdir);
    if (sg_texts_pack(s->argv, &argv, &m.spawn.argv, err) < 0 ||
        sg_texts_pack(s->env, &env, &m.spawn.env, err) < 0)
        return sg_wrap(err, "command and environment");

    int far[PUMP_COUNT] = { -1, -1, -1 };
    unsigned count = 0;
    static const unsigned bits[PUMP_COUNT] = { SG_SPAWN_STDIN, SG_SPAWN_STDOUT, SG_SPAWN_STDERR };
    int ret = 0;
    for (unsigned i = 0; ret == 0 && i < PUMP_COUNT; i++) {
        if ((i == PUMP_IN && s->in_fd < 0) || (i == PUMP_ERR && s->has_tty))
            continue;
        ret = open_stream(r, i, &far[count], err);
        m.spawn.flags |= bits[i];
        count++;
    }
    if (s->has_tty) {
        m.spawn.flags |= SG_SPAWN_PTY;
        sg_term_size(s->out_fd, &m.spawn.rows, &m.spawn.cols);
    }
    if (ret == 0) {
        r->spawn_id = sg_client_send(&r->client, &m, far, count, err);
        ret = r->spawn_id < 0 ? -1 : 0;
    }
    for (unsigned i = 0; i < count; i++)
        sg_drop_fd(&far[i]);
    return ret;
}

static int start(struct running *r, struct sg_err *err)
{
    const struct sg_run_spec *s = r->spec;
    const bool has_copies = s->copy_in && s->copy_in->n > 0;
    if (!r->cell)
        r->cell = r->own_cell = sg_run_begin(s->cell.is_rootless, err);
    if (!r->cell || sg_cell_build(r->cell, &s->cell, err) < 0)
        return -1;
    sg_client_init(&r->client, sg_cell_ctl(r->cell));
    struct sg_msg hello = { .type = SG_MSG_HELLO };
    hello.hello = (struct sg_msg_hello) { .version = SG_CTL_VERSION,
                                          .flags = s->cell.is_rootless ? SG_HELLO_ONE_USER : 0,
                                          .epoch = r->client.epoch };
    if (sg_client_send(&r->client, &hello, NULL, 0, err) < 0)
        return -1;
    if (!has_copies && spawn(r, err) < 0)
        return -1;
    if (sg_cell_settle(r->cell, err) < 0)
        return -1;
    if (!has_copies)
        return 0;
    const char *user = s->cell.is_rootless ? "" : s->user;
    if (sg_copy_in_all(&r->client, user, s->workdir, s->copy_in, &r->result.copies_skipped, err) <
        0)
        return -1;
    r->started_ns = sg_now_ns(); /* the command's own time starts with it */
    return spawn(r, err);
}

/* ---- the loop ---- */

/* One that comes before the command's pid is known waits for it: the command may well have written
 * its first line by then. */
static void send_signal(struct running *r, uint32_t number, uint32_t scope)
{
    if (!r->pid) {
        r->early_signals |= 1ULL << number;
        return;
    }
    struct sg_msg m = { .type = SG_MSG_SIGNAL };
    m.signal = (struct sg_msg_signal) { .pid = r->pid, .signal = number, .scope = scope };
    (void)sg_client_send(&r->client, &m, NULL, 0, NULL);
}

static void on_spawned(struct running *r, uint32_t pid)
{
    r->pid = pid;
    for (uint32_t number = 1; number < 64; number++)
        if (r->early_signals >> number & 1)
            send_signal(r, number, number == SIGKILL ? SG_SIGNAL_ALL : SG_SIGNAL_GROUP);
    r->early_signals = 0;
}

/* TERM now, KILL after a moment; the ending is settled already. */
static void tell_to_end(struct running *r, enum sg_ending why, uint32_t number, uint64_t now)
{
    r->is_told_to_end = true;
    r->result.ending = why;
    send_signal(r, number, number == SIGKILL ? SG_SIGNAL_ALL : SG_SIGNAL_GROUP);
    r->deadline_ns = now + (uint64_t)GRACE_MS * 1000000u;
}

static void on_deadline(struct running *r, uint64_t now)
{
    if (!r->is_told_to_end)
        tell_to_end(r, SG_END_TIMEOUT, SIGTERM, now);
    else { /* it had its time */
        r->has_ended = true;
        r->result.signal = SIGKILL;
    }
}

static void on_signals(struct running *r)
{
    struct signalfd_siginfo info;
    while (read(r->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGWINCH) {
            struct sg_msg m = { .type = SG_MSG_RESIZE };
            m.resize.pid = r->pid;
            sg_term_size(r->spec->out_fd, &m.resize.rows, &m.resize.cols);
            if (r->pid && r->spec->has_tty)
                (void)sg_client_send(&r->client, &m, NULL, 0, NULL);
            continue;
        }
        if (++r->signals_seen >= PATIENCE_SIGNALS)
            tell_to_end(r, SG_END_SIGNAL, SIGKILL, sg_now_ns());
        else
            send_signal(r, info.ssi_signo, SG_SIGNAL_GROUP);
    }
}

static void on_message(struct running *r)
{
    const struct sg_msg *m = &r->packet.msg;
    if (m->type == SG_MSG_SPAWNED && m->id == r->spawn_id) {
        on_spawned(r, m->spawned.pid);
    } else if (m->type == SG_MSG_ERROR && m->id == r->spawn_id) {
        sg_client_error(&m->error, &r->failure);
        r->has_ended = true;
    } else if (m->type == SG_MSG_EXITED && r->pid && m->exited.pid == r->pid) {
        r->has_ended = true;
        r->result.code = m->exited.code;
        r->result.signal = m->exited.signal;
        r->result.cpu_ns = m->exited.cpu_ns;
        if (!r->is_told_to_end)
            r->result.ending = m->exited.signal ? SG_END_SIGNAL : SG_END_EXIT;
    }
}

static void on_control(struct running *r)
{
    /* Bounded: a flood from inside must not keep us from our deadlines. */
    for (unsigned i = 0; i < MESSAGES_A_TURN && !r->has_ended; i++) {
        struct sg_err err = { 0 };
        switch (sg_chan_recv(r->client.fd, 1u << SG_ROLE_REPLY | 1u << SG_ROLE_EVENT, false,
                             &r->packet, &err)) {
        case SG_RECV_MESSAGE:
            on_message(r);
            break;
        case SG_RECV_AGAIN:
            return;
        case SG_RECV_ERROR: /* hostile or broken: end it */
        case SG_RECV_CLOSED:
            r->has_ended = true;
            r->result.signal = SIGKILL;
            if (!r->is_told_to_end)
                r->result.ending = SG_END_LOST;
            return;
        }
    }
}

static uint64_t output_moved(const struct running *r)
{
    return r->pumps[PUMP_OUT].moved + r->pumps[PUMP_ERR].moved;
}

static uint64_t output_left(const struct running *r)
{
    const uint64_t limit = r->spec->output_bytes, moved = output_moved(r);
    return !limit ? UINT64_MAX : moved < limit ? limit - moved : 0;
}

static void move_bytes(struct running *r)
{
    sg_pump_run(&r->pumps[PUMP_IN], UINT64_MAX);
    for (unsigned i = PUMP_OUT; i <= PUMP_ERR; i++) {
        struct sg_pump *p = &r->pumps[i];
        sg_pump_run(p, output_left(r));
        struct pollfd more = { .fd = p->from_fd, .events = POLLIN };
        /* One byte past the limit ends the run: exactly at it is fine. */
        if (output_left(r) == 0 && p->from_fd >= 0 && poll(&more, 1, 0) > 0 &&
            more.revents & POLLIN) {
            r->result.is_output_cut = true;
            if (!r->is_told_to_end)
                tell_to_end(r, SG_END_OUTPUT, SIGKILL, sg_now_ns());
            sg_pump_stop(p); /* the command's next write finds no reader */
        }
    }
}

static int poll_timeout_ms(const struct running *r, uint64_t now)
{
    if (!r->deadline_ns)
        return -1;
    return now >= r->deadline_ns ? 0 : (int)((r->deadline_ns - now) / 1000000u) + 1;
}

static void loop(struct running *r)
{
    while (!r->has_ended) {
        struct pollfd fds[2 + 2 * PUMP_COUNT];
        unsigned n = 0;
        fds[n++] = (struct pollfd) { .fd = r->client.fd, .events = POLLIN };
        fds[n++] = (struct pollfd) { .fd = r->signal_fd, .events = POLLIN };
        for (unsigned i = 0; i < PUMP_COUNT; i++)
            n += sg_pump_poll(&r->pumps[i], &fds[n]);
        if (poll(fds, n, poll_timeout_ms(r, sg_now_ns())) < 0 && errno != EINTR)
            return;
        const uint64_t now = sg_now_ns();
        if (fds[1].revents)
            on_signals(r);
        move_bytes(r);
        if (fds[0].revents)
            on_control(r);
        if (r->deadline_ns && now >= r->deadline_ns && !r->has_ended)
            on_deadline(r, now);
    }
}

static bool is_told_to_stop(struct running *r)
{
    struct signalfd_siginfo info;
    bool is_told = false;
    while (read(r->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
        is_told = is_told || info.ssi_signo != SIGWINCH;
    return is_told;
}

/* What the command wrote before it ended is in the pipes; what others still write is not waited
 * for. Our own reader may take its time, unless the run is over by force or by a signal. */
static void drain_output(struct running *r)
{
    const uint64_t until = sg_now_ns() + (uint64_t)GRACE_MS * 1000000u;
    for (;;) {
        const uint64_t before = output_moved(r);
        move_bytes(r);
        const bool is_pending = r->pumps[PUMP_OUT].n > 0 || r->pumps[PUMP_ERR].n > 0;
        if ((!is_pending && output_moved(r) == before) ||
            (r->is_told_to_end && sg_now_ns() > until))
            return;
        if (!is_pending)
            continue;
        struct pollfd fds[5] = { { .fd = r->signal_fd, .events = POLLIN } };
        unsigned n = 1;
        n += sg_pump_poll(&r->pumps[PUMP_OUT], fds + n);
        n += sg_pump_poll(&r->pumps[PUMP_ERR], fds + n);
        if (poll(fds, n, GRACE_MS) > 0 && fds[0].revents && is_told_to_stop(r))
            return;
    }
}

/* ---- ending ---- */

static void settle_result(struct running *r)
{
    struct sg_run_result *res = &r->result;
    res->wall_ns = sg_now_ns() - r->started_ns;
    res->output_bytes = output_moved(r);
    res->output_lost_sys =
        r->pumps[PUMP_OUT].lost_sys ? r->pumps[PUMP_OUT].lost_sys : r->pumps[PUMP_ERR].lost_sys;
    if (sg_cell_report(r->cell, &res->report, NULL) < 0)
        return;
    const struct sg_usage *u = &res->report.usage;
    if (u->cpu_ns != SG_UNKNOWN)
        res->cpu_ns = u->cpu_ns;
    const bool was_killed = res->signal == SIGKILL || res->code == 128 + SIGKILL;
    if (u->oom_kills > 0 && was_killed && !r->is_told_to_end)
        res->ending = SG_END_MEMORY;
    const uint64_t slack = res->report.disk_bytes / 256;
    res->is_disk_full = res->report.disk_used_bytes + slack >= res->report.disk_bytes;
}

static int open_signals(sigset_t *ret_set, struct sg_err *err)
{
    static const int forwarded[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH };
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < SG_COUNT(forwarded); i++)
        sigaddset(&set, forwarded[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    *ret_set = set;
    struct sigaction ignore = { .sa_handler = SIG_IGN };
    (void)sigaction(SIGPIPE, &ignore, NULL);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return sg_fail_sys(err, "watch for signals");
    return fd;
}

static int finish(struct running *r, bool *ret_is_command, struct sg_err *err)
{
    drain_output(r);
    sg_term_restore(&r->term);
    settle_result(r);
    const struct sg_run_spec *s = r->spec;
    if (r->failure.kind != SG_OK) {
        *err = r->failure;
        *ret_is_command =
            err->sys == ENOEXEC || (err->kind != SG_INVALID && /* that is the work directory's */
                                    (err->sys == ENOENT || err->sys == EACCES));
        return -1;
    }
    if (s->copy_out && s->copy_out->n > 0) {    /* the command's own result is told all the same */
        send_signal(r, SIGKILL, SG_SIGNAL_ALL); /* nobody changes the files while we copy */
        (void)sigprocmask(SIG_UNBLOCK, &r->signals, NULL); /* Ctrl-C ends a long copy, and us */
        (void)sg_copy_out_all(&r->client, s->cell.is_rootless ? "" : s->user, s->workdir,
                              s->copy_out, r->result.report.disk_bytes, &r->result.copies_skipped,
                              &r->result.copy_failure);
    }
    return 0;
}

int sg_run(struct sg_cell *cell, const struct sg_run_spec *spec, struct sg_run_result *ret,
           bool *ret_is_command, struct sg_err *err)
{
    struct running r = { .spec = spec, .cell = cell, .signal_fd = -1, .started_ns = sg_now_ns() };
    *ret_is_command = false;
    for (unsigned i = 0; i < PUMP_COUNT; i++)
        sg_pump_init(&r.pumps[i], -1, -1, NULL);
    sg_packet_init(&r.packet);
    r.signal_fd = open_signals(&r.signals, err);
    int result = r.signal_fd < 0 ? -1 : start(&r, err);
    if (result == 0) {
        if (spec->timeout_ms)
            r.deadline_ns = r.started_ns + spec->timeout_ms * 1000000u;
        if (spec->has_tty)
            sg_term_raw(&r.term, spec->in_fd);
        loop(&r);
        result = finish(&r, ret_is_command, err);
    }
    for (unsigned i = 0; i < PUMP_COUNT; i++)
        sg_pump_done(&r.pumps[i]);
    sg_packet_done(&r.packet);
    sg_drop_fd(&r.signal_fd);
    if (result == 0)
        *ret = r.result;
    /* A cell that was begun for us is not freed: that process is about to end, and the sweeper
     * removes what is left behind its back, so that nobody waits for it. */
    sg_cell_free(r.own_cell);
    return result;
}

/* ---- what others ask ---- */

const char *sg_ending_name(enum sg_ending e)
{
    static const char *const names[] = {
        [SG_END_EXIT] = "exit",     [SG_END_SIGNAL] = "signal", [SG_END_TIMEOUT] = "timeout",
        [SG_END_MEMORY] = "memory", [SG_END_OUTPUT] = "output", [SG_END_LOST] = "lost",
    };
    return names[e];
}

int sg_run_exit_code(const struct sg_run_result *r)
{
    if (r->ending == SG_END_TIMEOUT)
        return 124;
    if (r->ending == SG_END_MEMORY || r->ending == SG_END_OUTPUT || r->ending == SG_END_LOST)
        return 128 + SIGKILL;
    return r->signal ? 128 + (int)r->signal : (int)r->code;
}

void sg_run_use_template(struct sg_cell_spec *cell, const struct sg_template *t)
{
    cell->layers[0] = t->layer;
    cell->layer_count = 1;
    for (size_t i = 0; i < t->bind_count; i++)
        cell->binds[cell->bind_count++] =
            (struct sg_bind) { t->binds[i].source, t->binds[i].target, SG_BIND_READ_ONLY };
    for (size_t i = 0; i < t->hide_count; i++)
        cell->hide[cell->hide_count++] = t->hide[i];
    cell->grants_sudo = t->grants_sudo;
    cell->is_idmapped = t->is_idmapped && !cell->is_rootless;
}

int sg_run_prepare(bool *ret_is_rootless, struct sg_err *err)
{
    static bool is_rootless;
    if (!is_rootless && geteuid() != 0) {
        if (sg_userns_become_root(err) < 0)
            return -1;
        is_rootless = true;
    }
    *ret_is_rootless = is_rootless;
    return 0;
}

struct sg_cell *sg_run_begin(bool is_rootless, struct sg_err *err)
{
    return sg_cell_start(is_rootless, SG_CELL_SWEPT, err);
}

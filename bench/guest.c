/* SPDX-License-Identifier: Apache-2.0 */
#include "guest.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/banned.h"

/* Builds it and leaves HELLO in the socket; pid 1 is on its way. With a sweeper, as `run` has it.
 */
static int begin(struct sg_guest *g, const struct sg_cell_spec *spec, struct sg_err *err)
{
    *g = (struct sg_guest) { .cell = sg_cell_start(false, SG_CELL_SWEPT, err) };
    sg_packet_init(&g->packet);
    if (!g->cell || sg_cell_build(g->cell, spec, err) < 0)
        return -1;
    sg_client_init(&g->client, sg_cell_ctl(g->cell));
    struct sg_msg m = { .type = SG_MSG_HELLO };
    m.hello = (struct sg_msg_hello) { .version = SG_CTL_VERSION, .epoch = g->client.epoch };
    return sg_client_send(&g->client, &m, NULL, 0, err) < 0 ? -1 : 0;
}

int sg_guest_open(struct sg_guest *g, const struct sg_cell_spec *spec, struct sg_err *err)
{
    return begin(g, spec, err) < 0 ? -1 : sg_cell_settle(g->cell, err);
}

void sg_guest_close(struct sg_guest *g)
{
    sg_packet_done(&g->packet);
    sg_cell_free(g->cell);
    g->cell = NULL;
}

/* `ret_out` reads what the program writes. */
static int send_spawn(struct sg_guest *g, const struct sg_guest_job *j, int *ret_out,
                      struct sg_err *err)
{
    sg_auto_buf argv, env;
    sg_buf_init(&argv, SG_CTL_MAX_BYTES);
    sg_buf_init(&env, SG_CTL_MAX_BYTES);
    struct sg_msg m = { .type = SG_MSG_SPAWN };
    m.spawn.flags = SG_SPAWN_STDOUT;
    m.spawn.user = sg_text_of(j->user);
    m.spawn.cwd = sg_text_of(j->workdir);
    if (sg_texts_pack(j->argv, &argv, &m.spawn.argv, err) < 0 ||
        sg_texts_pack(j->env, &env, &m.spawn.env, err) < 0)
        return -1;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make a pipe");
    sg_auto_fd near = ends[0], far = ends[1];
    if (sg_client_send(&g->client, &m, &far, 1, err) < 0)
        return -1;
    *ret_out = sg_take_fd(&near);
    return 0;
}

static int read_output(int fd, struct sg_buf *output, struct sg_err *err)
{
    char scrap[4096];
    if (output)
        return sg_buf_read_fd(output, fd, "the output", err);
    ssize_t n;
    while ((n = read(fd, scrap, sizeof scrap)) > 0)
        ;
    return n < 0 ? sg_fail_sys(err, "read the output") : 0;
}

/* There is one program at a time, so the next exit is its own. */
static int await_exit(struct sg_guest *g, struct sg_err *err)
{
    for (;;) {
        const enum sg_recv got = sg_chan_recv(
            g->client.fd, 1u << SG_ROLE_REPLY | 1u << SG_ROLE_EVENT, true, &g->packet, err);
        const struct sg_msg *m = &g->packet.msg;
        if (got == SG_RECV_CLOSED)
            return sg_fail(err, SG_UNAVAILABLE, "the sandbox is gone");
        if (got != SG_RECV_MESSAGE)
            return -1;
        if (m->type == SG_MSG_ERROR)
            return sg_client_error(&m->error, err);
        if (m->type != SG_MSG_EXITED)
            continue;
        if (m->exited.code || m->exited.signal)
            return sg_fail(err, SG_INTERNAL, "ended with exit code %u, signal %u", m->exited.code,
                           m->exited.signal);
        return 0;
    }
}

static int finish(struct sg_guest *g, const struct sg_guest_job *j, int out_fd, struct sg_err *err)
{
    return read_output(out_fd, j->output, err) < 0 ? -1 : await_exit(g, err);
}

int sg_guest_run_live(void *job, uint64_t *ret_ns, struct sg_err *err)
{
    const struct sg_guest_job *j = job;
    sg_auto_fd out = -1;
    const uint64_t start_ns = sg_now_ns();
    if (send_spawn(j->guest, j, &out, err) < 0 || finish(j->guest, j, out, err) < 0)
        return -1;
    *ret_ns = sg_now_ns() - start_ns;
    return 0;
}

int sg_guest_run_new(void *job, uint64_t *ret_ns, struct sg_err *err)
{
    const struct sg_guest_job *j = job;
    struct sg_guest g;
    sg_auto_fd out = -1;
    const uint64_t start_ns = sg_now_ns();
    int result = -1;
    if (begin(&g, j->spec, err) == 0 && send_spawn(&g, j, &out, err) == 0 &&
        sg_cell_settle(g.cell, err) == 0 && finish(&g, j, out, err) == 0)
        result = 0;
    *ret_ns = sg_now_ns() - start_ns;
    sg_guest_close(&g);
    return result;
}

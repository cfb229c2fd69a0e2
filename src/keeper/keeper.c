/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's words are obeyed as far as the table goes; a packet that is none ends us, and we
 * are started anew. */
#include "keeper/keeper.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/auto.h"
#include "base/log.h"
#include "keeper/docker.h"
#include "base/banned.h"

#define MS UINT64_C(1000000)

enum { MESSAGES_A_TURN = 32, PING_MS = 10000, ARENA_BYTES = 256 << 10 };
static const uint64_t LOOK_NS = 1000 * MS;

static void fail(struct sg_keeper *k, const struct sg_err *err)
{
    k->failure = *err;
    sg_io_drop(k->loop, &k->io);
    sg_loop_stop(k->loop);
}

/* The launcher reads: one that does not is about to end, and we with it. */
void sg_keeper_send(struct sg_keeper *k, const struct sg_msg *m)
{
    struct sg_err err = { 0 };
    if (k->io.fd >= 0 && sg_chan_send(k->io.fd, m, NULL, 0, true, &err) < 0)
        fail(k, &err);
}

void sg_keeper_fail(struct sg_keeper *k, uint32_t id, const struct sg_err *err)
{
    struct sg_msg m = { .type = SG_MSG_K_FAILED, .id = id };
    m.error = (struct sg_msg_error) { .kind = err->kind,
                                      .sys = (uint32_t)err->sys,
                                      .text = sg_text_of(err->msg) };
    sg_keeper_send(k, &m);
}

/* ---- is the Engine there? ---- */

static void tell(struct sg_keeper *k, bool is_up, const char *version, const char *why)
{
    if (k->has_told && k->is_up == is_up)
        return;
    k->has_told = true;
    k->is_up = is_up;
    struct sg_msg m = { .type = SG_MSG_K_STATE };
    m.k_state = (struct sg_msg_k_state) { is_up, sg_text_of(version), sg_text_of(why) };
    sg_log(is_up ? SG_LOG_INFO : SG_LOG_WARN,
           is_up ? "the Docker Engine is there" : "the Docker Engine is not there",
           SG_KV("socket", k->o.shown), SG_KV(is_up ? "version" : "why", is_up ? version : why));
    sg_keeper_send(k, &m);
}

void sg_keeper_lost_engine(struct sg_keeper *k, const struct sg_err *err)
{
    tell(k, false, "", err->msg);
}

static void on_version(void *arg, unsigned status, struct sg_str body, const struct sg_err *err)
{
    struct sg_keeper *k = arg;
    sg_auto_arena a;
    const char *version;
    struct sg_err own = { 0 };
    sg_arena_init(&a, ARENA_BYTES);
    if (err)
        tell(k, false, "", err->msg);
    else if (status != 200)
        tell(k, false, "", "it does not say its version: is it a Docker Engine?");
    else if (sg_docker_read_version(body, &a, &version, &k->is_podman, &own) < 0)
        tell(k, false, "", own.msg);
    else
        tell(k, true, version, "");
    sg_timer_set(k->loop, &k->timer, sg_loop_now(k->loop) + LOOK_NS);
}

static void look(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_keeper *k = SG_OWNER(t, struct sg_keeper, timer);
    (void)now_ns;
    sg_http_call(k->http, "GET", "/version", (struct sg_str) { "", 0 }, PING_MS, on_version, k);
}

/* ---- the launcher ---- */

static void on_launcher(struct sg_io *io, uint32_t events)
{
    struct sg_keeper *k = SG_OWNER(io, struct sg_keeper, io);
    (void)events;
    for (unsigned i = 0; i < MESSAGES_A_TURN && io->fd >= 0; i++) {
        struct sg_err err = { 0 };
        switch (sg_chan_recv(io->fd, 1u << SG_ROLE_KEEPER_ASK, false, &k->packet, &err)) {
        case SG_RECV_AGAIN:
            return;
        case SG_RECV_MESSAGE:
            sg_keeper_work(k, &k->packet.msg);
            break;
        case SG_RECV_CLOSED:
            sg_loop_stop(k->loop);
            return;
        case SG_RECV_ERROR:
            fail(k, &err);
            return;
        }
    }
}

struct sg_keeper *sg_keeper_new(struct sg_loop *l, const struct sg_keeper_options *o,
                                struct sg_err *err)
{
    struct sg_keeper *k = sg_new(struct sg_keeper);
    k->loop = l;
    k->o = *o;
    k->timer.fire = look;
    k->io = (struct sg_io) { .fd = o->launcher_fd, .ready = on_launcher };
    sg_packet_init(&k->packet);
    k->http = sg_http_new(l, o->socket_path, o->shown, err);
    if (!k->http || sg_io_want(l, &k->io, EPOLLIN, err) < 0) {
        sg_keeper_free(k);
        return NULL;
    }
    sg_timer_set(l, &k->timer, sg_loop_now(l));
    return k;
}

void sg_keeper_free(struct sg_keeper *k)
{
    if (!k)
        return;
    sg_http_free(k->http);
    sg_keeper_drop_jobs(k);
    sg_timer_stop(k->loop, &k->timer);
    sg_io_drop(k->loop, &k->io);
    sg_packet_done(&k->packet);
    free(k);
}

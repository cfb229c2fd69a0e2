/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "manager/trace_internal.h"
#include "tier/peer.h"
#include "base/banned.h"

#define SECOND_NS UINT64_C(1000000000)
static const uint64_t GATHER_NS = SECOND_NS; /* what comes together goes together */
static const uint64_t FIRST_PAUSE_NS = SECOND_NS, LONGEST_PAUSE_NS = 60 * SECOND_NS;

static void pump(struct sg_traces *t);

/* ---- the exporter's answers ---- */

static void pause_then_pump(struct sg_traces *t, uint64_t asked_ns)
{
    t->pause_ns = t->pause_ns ? t->pause_ns * 2 : FIRST_PAUSE_NS;
    if (t->pause_ns > LONGEST_PAUSE_NS)
        t->pause_ns = LONGEST_PAUSE_NS;
    const uint64_t wait = asked_ns > t->pause_ns ? asked_ns : t->pause_ns;
    sg_timer_set(t->m->loop, &t->timer, sg_loop_now(t->m->loop) + wait);
}

/* The same trouble is told once. */
static void complain(struct sg_traces *t, const char *what, const char *why)
{
    if (strncmp(t->last_why, why, sizeof t->last_why - 1) == 0)
        return;
    (void)snprintf(t->last_why, sizeof t->last_why, "%s", why);
    sg_log(SG_LOG_WARN, what, SG_KV("why", why));
}

static void posted(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_traces *t = arg;

    t->is_sending = false;
    if (t->m->is_ending)
        return;
    if (err || !p) { /* the exporter is gone; the next one comes by itself */
        pause_then_pump(t, 0);
        return;
    }
    const struct sg_msg_x_posted *x = &p->msg.x_posted;
    if (x->verdict == SG_X_LATER) {
        complain(t, "traces wait: the endpoint cannot be reached", x->why.p);
        pause_then_pump(t, (uint64_t)x->wait_ms * 1000000);
        return;
    }
    t->counts.sent_files += x->verdict == SG_X_TAKEN;
    t->counts.refused_files += x->verdict == SG_X_REFUSED;
    if (x->verdict == SG_X_REFUSED)
        complain(t, "traces are lost: the endpoint does not take them", x->why.p);
    else
        t->last_why[0] = '\0';
    t->pause_ns = 0;
    sg_spool_remove(t->spool, t->sending);
    pump(t);
}

static void pump(struct sg_traces *t)
{
    struct sg_msg m = { .type = SG_MSG_X_POST };
    struct sg_err err = { 0 };

    if (!t->peer || t->is_sending || sg_timer_is_set(&t->timer))
        return;
    sg_auto_fd fd = sg_spool_first(t->spool, &t->sending);
    if (fd < 0)
        return;
    if (sg_peer_ask(t->peer, &m, &fd, 1, posted, t, &err) < 0)
        pause_then_pump(t, 0);
    else
        t->is_sending = true;
}

static void on_timer(struct sg_timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    pump(SG_OWNER(timer, struct sg_traces, timer));
}

/* ---- spans ---- */

void sg_traces_add(struct sg_manager *m, const struct sg_buf *line)
{
    struct sg_traces *t = m->traces;
    struct sg_err err = { 0 };

    if (line->has_overflowed ||
        sg_spool_add(t->spool, (struct sg_str) { (const char *)line->p, line->n }, &err) < 0) {
        t->counts.dropped++;
        complain(t, "a span is lost", err.msg[0] ? err.msg : "it is too long");
        return;
    }
    t->counts.spans++;
    if (!t->is_sending && !sg_timer_is_set(&t->timer))
        sg_timer_set(m->loop, &t->timer, sg_loop_now(m->loop) + GATHER_NS);
}

bool sg_traces_want_content(const struct sg_manager *m)
{
    return m->traces && m->traces->has_content;
}

struct sg_trace_counts sg_traces_counts(const struct sg_manager *m)
{
    struct sg_trace_counts c = m->traces ? m->traces->counts : (struct sg_trace_counts) { 0 };
    if (m->traces) {
        c.dropped += sg_spool_dropped(m->traces->spool);
        c.spooled_bytes = sg_spool_bytes(m->traces->spool);
    }
    return c;
}

/* ---- life ---- */

static void lost(void *arg, const struct sg_err *err)
{
    struct sg_traces *t = arg;
    (void)err;
    sg_peer_free(sg_take_ptr(&t->peer));
}

void sg_traces_link(void *manager, int fd)
{
    static const struct sg_peer_ops ops = {
        .answer_role = SG_ROLE_EXPORT_ANSWER,
        .news_role = SG_ROLE_NONE, /* it says nothing unasked */
        .lost = lost,
    };
    struct sg_manager *m = manager;
    struct sg_traces *t = m->traces;
    struct sg_err err = { 0 };

    if (!t || m->is_ending) {
        (void)close(fd);
        return;
    }
    sg_peer_free(sg_take_ptr(&t->peer));
    t->is_sending = false;
    t->peer = sg_peer_new(m->loop, fd, m->epoch, &ops, t, &err);
    if (!t->peer)
        sg_log(SG_LOG_ERROR, "no connection to the exporter", SG_KV("error", err.msg));
    else
        pump(t);
}

int sg_traces_start(struct sg_manager *m, const struct sg_trace_options *o, struct sg_err *err)
{
    struct sg_spool *spool = sg_spool_open(o->dir_fd, o->max_bytes, err);
    if (!spool)
        return -1;
    m->traces = sg_new(struct sg_traces);
    *m->traces = (struct sg_traces) { .m = m,
                                      .spool = spool,
                                      .environment = sg_strdup(o->environment),
                                      .version = sg_strdup(o->version),
                                      .has_content = o->has_content,
                                      .timer = { .fire = on_timer } };
    return 0;
}

void sg_traces_free(struct sg_manager *m)
{
    struct sg_traces *t = sg_take_ptr(&m->traces);
    if (!t)
        return;
    sg_timer_stop(m->loop, &t->timer);
    sg_peer_free(t->peer);
    sg_spool_free(t->spool);
    free(t->environment);
    free(t->version);
    free(t);
}

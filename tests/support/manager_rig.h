/* SPDX-License-Identifier: Apache-2.0 */
/* A manager with an in-memory store and a launcher that the test plays itself, on one loop.
 *
 * The launcher here keeps "cells": an id, its limits, whether it is frozen, and the far end of a
 * control connection on which it plays init (HELLO, INFO, RECLAIM). It can be told to fail, to
 * hold back its answers, and to let cells die. It looks into the store when it is asked for
 * something, so that tests can see what was written before the effect. The execs' half of the
 * manager is that of fake_execs.h. */
#pragma once

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "check.h"
#include "ctl/chan.h"
#include "fake_execs.h"
#include "manager/life.h"
#include "manager/manager.h"
#include "still_clock.h"
#include "store/store.h"
#include "tier/peer.h"
#include "tier/tier.h"

/* Patience: a busy machine gives a turn of the store seldom, and some tests take thousands. */
enum { RIG_PATIENCE_MS = 30000, RIG_PAGE = 7 };

struct rig;

struct cell {
    struct cell *next;
    struct rig *rig;
    char id[SG_CTL_MAX_TAG + 1], template[64];
    struct sg_io init; /* the far end, read as init would */
    struct sg_tier_limits limits;
    bool is_frozen, is_mute; /* mute: it is alive, and answers nothing */
    uint32_t epoch;
};

struct held { /* a question whose answer is held back */
    struct held *next;
    uint32_t id;
    char sandbox[SG_CTL_MAX_TAG + 1];
    struct sg_msg_l_create create; /* without its texts */
    char template[64];
};

struct rig {
    struct sg_loop *loop;
    struct sg_store *store;
    struct sg_manager *m;
    struct sg_manager_options o;
    struct sg_who who;
    bool is_ready;
    struct sg_err ready_err;

    struct sg_io launcher;
    struct cell *cells;
    unsigned cell_count, cell_most;
    unsigned asked[SG_MSG_TYPE_COUNT], fails[SG_MSG_TYPE_COUNT]; /* so many of the next fail */
    enum sg_kind fail_kind;
    char row_seen[SG_MSG_TYPE_COUNT][16]; /* state of the row when it was asked */
    bool holds_creates, hangs_up_on_hello, looks_into_store, has_pool, holds_snapshots;
    unsigned snapshots, held_snapshot; /* how many there are; the question of one, or 0 */
    uint32_t more_flags;               /* SG_L_... */
    struct held *held;
    uint64_t cpu_ns, mem_bytes, oom_kills;
    const char *cpu_gauge; /* NULL: it tells nothing */
    int handed_fd;         /* what init answers OPEN with; 0: nothing */
};

/* ---- the store, looked at from outside ---- */

struct row_find {
    const char *id;
    char state[16], cause[200];
    unsigned count;
};

static inline bool row_match(void *arg, const struct sg_sandbox_row *r)
{
    struct row_find *f = arg;

    f->count++;
    if (f->id && strcmp(r->id, f->id) == 0) {
        (void)snprintf(f->state, sizeof f->state, "%s", r->state);
        (void)snprintf(f->cause, sizeof f->cause, "%s", r->cause);
    }
    return true;
}

/* "" where there is no row. */
static inline struct row_find rig_row(struct rig *r, const char *id)
{
    struct row_find f = { .id = id };
    struct sg_err err;
    assert_ok(sg_store_each_sandbox(r->store, row_match, &f, &err), err);
    return f;
}

/* ---- the launcher ---- */

static inline void rig_reply(struct rig *r, struct sg_msg *m, uint32_t id, const int *fds,
                             unsigned n)
{
    struct sg_err err;
    m->id = id;
    assert_ok(sg_chan_send(r->launcher.fd, m, fds, n, false, &err), err);
}

static inline struct cell *rig_cell(struct rig *r, const char *id)
{
    for (struct cell *c = r->cells; c; c = c->next) {
        if (strcmp(c->id, id) == 0)
            return c;
    }
    return NULL;
}

static inline void cell_hang_up(struct cell *c)
{
    if (c->init.fd >= 0)
        sg_io_drop(c->rig->loop, &c->init);
}

static inline void rig_remove_cell(struct rig *r, struct cell *c)
{
    struct cell **link = &r->cells;

    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    r->cell_count--;
    cell_hang_up(c);
    free(c);
}

/* Plays init. */
static inline void cell_ready(struct sg_io *io, uint32_t events)
{
    struct cell *c = SG_OWNER(io, struct cell, init);
    sg_auto_packet p;
    struct sg_err err;

    (void)events;
    sg_packet_init(&p);
    if (sg_chan_recv(io->fd, 1u << SG_ROLE_REQUEST, false, &p, &err) != SG_RECV_MESSAGE) {
        cell_hang_up(c);
        return;
    }
    struct sg_msg m = { .type = SG_MSG_OK, .id = p.msg.id };
    if (p.msg.type == SG_MSG_HELLO) {
        assert_true(p.msg.hello.flags & SG_HELLO_KEEP);
        c->epoch = p.msg.hello.epoch;
        if (c->rig->hangs_up_on_hello) {
            cell_hang_up(c);
            return;
        }
    } else if (p.msg.type == SG_MSG_INFO) {
        m.type = SG_MSG_INFOED;
        m.infoed.processes = 1;
    }
    unsigned fd_count = 0;
    if (p.msg.type == SG_MSG_OPEN && c->rig->handed_fd) {
        m.type = SG_MSG_FD;
        fd_count = 1;
    }
    m.epoch = c->epoch;
    assert_ok(sg_chan_send(io->fd, &m, &c->rig->handed_fd, fd_count, false, &err), err);
}

/* A new connection to the cell; its far end is ours. */
static inline int cell_connect(struct cell *c)
{
    int fds[2];
    struct sg_err err;

    cell_hang_up(c);
    assert_ok(sg_chan_pair(fds, &err), err);
    c->init = (struct sg_io) { .fd = fds[1], .ready = cell_ready };
    if (!c->is_frozen && !c->is_mute)
        assert_ok(sg_io_want(c->rig->loop, &c->init, EPOLLIN, &err), err);
    return fds[0];
}

static inline void cell_freeze(struct cell *c, bool is_frozen)
{
    struct sg_err err;
    c->is_frozen = is_frozen;
    if (c->init.fd >= 0 && !c->is_mute)
        assert_ok(sg_io_want(c->rig->loop, &c->init, is_frozen ? 0 : EPOLLIN, &err), err);
}

static inline void reply_cell(struct rig *r, struct cell *c, uint32_t id)
{
    sg_auto_fd fd = cell_connect(c);
    struct sg_msg m = { .type = SG_MSG_L_CELL };

    m.l_cell = (struct sg_msg_l_cell) {
        .flags = SG_L_PARKED | (r->has_pool ? SG_L_POOL : 0u),
        .pid = 4242,
        .template = sg_text_of(c->template),
        .user = sg_text_of("user"),
        .home = sg_text_of("/home/user"),
        .workdir = sg_text_of("/workspace"),
        .path = sg_text_of("/bin"),
    };
    rig_reply(r, &m, id, &fd, 1);
}

/* As a v2 host has them where `cpu` is lines, as a v1 host where it is a number. */
static inline void reply_gauges(struct rig *r, uint32_t id)
{
    char mem[24];
    (void)snprintf(mem, sizeof mem, "%llu\n", (unsigned long long)r->mem_bytes);
    const char *const texts[SG_L_GAUGE_COUNT] = { r->cpu_gauge ? r->cpu_gauge : "", mem, mem };
    int fds[SG_L_GAUGE_COUNT];
    struct sg_msg m = { .type = SG_MSG_L_GAUGED };

    for (unsigned i = 0; i < SG_L_GAUGE_COUNT; i++) {
        fds[i] = memfd_create("gauge", MFD_CLOEXEC);
        assert_int_equal(write(fds[i], texts[i], strlen(texts[i])), strlen(texts[i]));
    }
    rig_reply(r, &m, id, fds, SG_L_GAUGE_COUNT);
    for (unsigned i = 0; i < SG_L_GAUGE_COUNT; i++)
        (void)close(fds[i]);
}

static inline void make_cell(struct rig *r, const char *sandbox, const char *template,
                             const struct sg_msg_l_create *l, uint32_t id)
{
    struct cell *c = sg_new(struct cell);

    assert_null(rig_cell(r, sandbox));
    *c = (struct cell) { .next = r->cells, .rig = r, .init = { .fd = -1 } };
    (void)snprintf(c->id, sizeof c->id, "%s", sandbox);
    (void)snprintf(c->template, sizeof c->template, "%s", template);
    c->limits = (struct sg_tier_limits) { l->mem_bytes, l->cpu_milli, l->pids, l->disk_bytes };
    r->cells = c;
    if (++r->cell_count > r->cell_most)
        r->cell_most = r->cell_count;
    reply_cell(r, c, id);
}

static inline void hold(struct rig *r, const struct sg_msg *m)
{
    struct held *h = sg_new(struct held), **tail = &r->held;

    *h = (struct held) { .id = m->id, .create = m->l_create };
    (void)snprintf(h->sandbox, sizeof h->sandbox, "%s", m->l_create.sandbox.p);
    (void)snprintf(h->template, sizeof h->template, "%s", m->l_create.template.p);
    while (*tail)
        tail = &(*tail)->next;
    *tail = h;
}

static inline void rig_release(struct rig *r)
{
    r->holds_creates = false;
    while (r->held) {
        struct held *h = r->held;
        r->held = h->next;
        make_cell(r, h->sandbox, h->template, &h->create, h->id);
        free(h);
    }
}

/* Ids in pages of RIG_PAGE; the cursor is the number of those that were told. */
static inline void reply_list(struct rig *r, uint64_t cursor, uint32_t id)
{
    char *names[RIG_PAGE + 1] = { 0 };
    sg_auto_buf store;
    struct sg_msg m = { .type = SG_MSG_L_LISTED };
    struct sg_err err;
    uint64_t i = 0;

    for (struct cell *c = r->cells; c; c = c->next, i++) {
        if (i >= cursor && i < cursor + RIG_PAGE)
            names[i - cursor] = c->id;
    }
    sg_buf_init(&store, SG_CTL_MAX_BYTES);
    assert_ok(sg_texts_pack(names, &store, &m.l_listed.names, &err), err);
    m.l_listed.next = i > cursor + RIG_PAGE ? cursor + RIG_PAGE : 0;
    rig_reply(r, &m, id, NULL, 0);
}

static inline void reply_names(struct rig *r, const char *name, uint32_t id)
{
    char *names[] = { (char *)(uintptr_t)name, NULL };
    sg_auto_buf store;
    struct sg_msg m = { .type = SG_MSG_L_LISTED };
    struct sg_err err;

    sg_buf_init(&store, SG_CTL_MAX_BYTES);
    assert_ok(sg_texts_pack(names, &store, &m.l_listed.names, &err), err);
    rig_reply(r, &m, id, NULL, 0);
}

static inline void reply_failed(struct rig *r, enum sg_kind kind, const char *text, uint32_t id)
{
    struct sg_msg m = { .type = SG_MSG_L_FAILED };
    m.error = (struct sg_msg_error) { .kind = kind, .text = sg_text_of(text) };
    rig_reply(r, &m, id, NULL, 0);
}

static inline void launcher_answer(struct rig *r, const struct sg_msg *q, struct cell *c)
{
    struct sg_msg m = { .type = SG_MSG_L_DONE };

    switch ((unsigned)q->type) {
    case SG_MSG_L_HELLO:
        m.type = SG_MSG_L_WELCOME;
        m.l_welcome.version = SG_CTL_VERSION;
        m.l_welcome.flags = SG_L_FREEZER | r->more_flags | (r->has_pool ? SG_L_POOL : 0u);
        break;
    case SG_MSG_L_CREATE:
        if (r->holds_creates)
            hold(r, q);
        else
            make_cell(r, q->l_create.sandbox.p, q->l_create.template.p, &q->l_create, q->id);
        return;
    case SG_MSG_L_ADOPT:
        reply_cell(r, c, q->id);
        return;
    case SG_MSG_L_DESTROY:
        rig_remove_cell(r, c);
        break;
    case SG_MSG_L_FREEZE:
    case SG_MSG_L_THAW:
        cell_freeze(c, q->type == SG_MSG_L_FREEZE);
        break;
    case SG_MSG_L_LIMIT:
        c->limits = (struct sg_tier_limits) { q->l_create.mem_bytes, q->l_create.cpu_milli,
                                              q->l_create.pids, q->l_create.disk_bytes };
        break;
    case SG_MSG_L_STATS:
        m.type = SG_MSG_L_STATED;
        m.l_stated = (struct sg_msg_l_stated) {
            .mem_bytes = r->mem_bytes, .cpu_ns = r->cpu_ns, .pids = 3, .oom_kills = r->oom_kills
        };
        break;
    case SG_MSG_L_GAUGE:
        reply_gauges(r, q->id);
        return;
    case SG_MSG_L_LIST:
        reply_list(r, q->l_list.cursor, q->id);
        return;
    case SG_MSG_L_POOL:
        reply_names(r, "base 2 4", q->id);
        return;
    case SG_MSG_L_SNAPSHOTS:
        m.type = SG_MSG_L_LISTED;
        break;
    case SG_MSG_L_SNAPSHOT:
        assert_true(c->is_frozen && q->l_snapshot.flags == SG_L_STAY_FROZEN);
        m.type = SG_MSG_L_SNAPPED;
        if (r->holds_snapshots && (r->held_snapshot = q->id))
            return;
        r->snapshots++;
        break;
    case SG_MSG_L_FORGET:
        r->snapshots--;
        break;
    case SG_MSG_L_STORAGE:
        m.type = SG_MSG_L_STORED;
        break;
    case SG_MSG_L_RECLAIM:
    case SG_MSG_L_VOLUME_MAKE:
    case SG_MSG_L_VOLUME_LIMIT:
    case SG_MSG_L_VOLUME_REMOVE:
    case SG_MSG_L_MOUNT:
    case SG_MSG_L_SYNC:
    case SG_MSG_L_NET:
        break;
    case SG_MSG_L_TEMPLATES:
        reply_names(r, "base", q->id);
        return;
    default:
        fail_msg("the launcher was asked %s", sg_msg_table[q->type].name);
    }
    rig_reply(r, &m, q->id, NULL, 0);
}

static inline void launcher_take(struct rig *r, const struct sg_msg *q)
{
    bool has_name = q->type != SG_MSG_L_HELLO && q->type != SG_MSG_L_LIST &&
                    q->type != SG_MSG_L_SNAPSHOTS && q->type != SG_MSG_L_POOL &&
                    q->type != SG_MSG_L_TEMPLATES && q->type != SG_MSG_L_FORGET &&
                    q->type != SG_MSG_L_STORAGE &&
                    !(q->type >= SG_MSG_L_VOLUME_MAKE && q->type <= SG_MSG_L_SYNC &&
                      q->type != SG_MSG_L_MOUNT) &&
                    q->type != SG_MSG_L_VOLUME_LIMIT;
    const char *id = has_name ? q->l_name.sandbox.p : ""; /* L_CREATE begins with it, too */
    struct cell *c = rig_cell(r, id);

    r->asked[q->type]++;
    if (has_name && r->looks_into_store) {
        struct row_find f = rig_row(r, id);
        memcpy(r->row_seen[q->type], f.state, sizeof f.state);
    }
    if (r->fails[q->type]) {
        r->fails[q->type]--;
        reply_failed(r, r->fail_kind, "the test wants it so", q->id);
    } else if (has_name && !c && q->type != SG_MSG_L_CREATE) {
        reply_failed(r, SG_NOT_FOUND, "no such cell", q->id);
    } else {
        launcher_answer(r, q, c);
    }
}

static inline void launcher_ready(struct sg_io *io, uint32_t events)
{
    struct rig *r = SG_OWNER(io, struct rig, launcher);
    sg_auto_packet p;
    struct sg_err err;

    (void)events;
    sg_packet_init(&p);
    if (sg_chan_recv(io->fd, 1u << SG_ROLE_ASK, false, &p, &err) == SG_RECV_MESSAGE)
        launcher_take(r, &p.msg);
    else
        sg_io_drop(r->loop, io);
}

/* The cell's pid 1 ends: the connection goes, and the launcher tells. */
static inline void rig_kill_cell(struct rig *r, const char *id, uint32_t cause, bool tells)
{
    struct cell *c = rig_cell(r, id);
    struct sg_msg m = { .type = SG_MSG_L_ENDED };

    assert_non_null(c);
    m.l_ended = (struct sg_msg_l_ended) { .sandbox = sg_text_of(id), .cause = cause };
    cell_hang_up(c);
    if (tells)
        rig_reply(r, &m, 0, NULL, 0);
}

/* ---- the rig ---- */

static inline void rig_turn(struct rig *r)
{
    struct sg_err err;
    assert_ok(sg_loop_turn(r->loop, 1, &err), err);
}

/* Runs the loop until it is so; fails the test where it never is. No time passes meanwhile: what is
 * waited for is done by somebody. */
#define rig_until(r, condition) rig_until_after(r, condition, 0)
/* The same for what time brings: a millisecond passes with every turn. */
#define rig_in_time(r, condition) rig_until_after(r, condition, 1000000)
#define rig_until_after(r, condition, ns)                                                          \
    do {                                                                                           \
        uint64_t end_ = clock_real_ns() + (uint64_t)RIG_PATIENCE_MS * 1000000u;                    \
        while (!(condition)) {                                                                     \
            if (clock_real_ns() > end_)                                                            \
                fail_msg("waited in vain for: %s", #condition);                                    \
            clock_pass(ns);                                                                        \
            rig_turn(r);                                                                           \
        }                                                                                          \
    } while (0)

static inline void rig_run_ms(struct rig *r, uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i++) {
        clock_pass(1000000);
        rig_turn(r);
    }
}

static inline void rig_is_ready(void *arg, const struct sg_err *err)
{
    struct rig *r = arg;
    r->is_ready = true;
    if (err)
        r->ready_err = *err;
}

static inline void rig_start_manager(struct rig *r)
{
    int fds[2];
    struct sg_err err = { 0 };

    assert_ok(sg_chan_pair(fds, &err), err);
    r->launcher = (struct sg_io) { .fd = fds[1], .ready = launcher_ready };
    assert_ok(sg_io_want(r->loop, &r->launcher, EPOLLIN, &err), err);
    r->is_ready = false;
    r->m = sg_manager_new(r->loop, r->store, NULL, fds[0], &r->o, rig_is_ready, r, &err);
    if (!r->m)
        fail_msg("manager: %s", err.msg);
    rig_in_time(r, r->is_ready);
    if (r->ready_err.kind != SG_OK)
        fail_msg("manager: %s", r->ready_err.msg);
    sg_tenant_local(r->m, &r->who);
}

static inline void rig_flush(struct rig *r)
{
    rig_until(r, sg_store_stats(r->store).queued == 0);
}

/* As kill -9 of the daemon: the cells and the store stay. */
static inline void rig_stop_manager(struct rig *r)
{
    sg_manager_free(r->m);
    r->m = NULL;
    if (r->launcher.fd >= 0)
        sg_io_drop(r->loop, &r->launcher);
    for (struct cell *c = r->cells; c; c = c->next)
        cell_hang_up(c);
    rig_flush(r);
}

static inline void rig_init(struct rig *r)
{
    struct sg_err err;
    struct sg_store_report report;

    memset(&hooks, 0, sizeof hooks);
    *r = (struct rig) { .looks_into_store = true, .fail_kind = SG_UNAVAILABLE };
    r->o = (struct sg_manager_options) {
        .defaults = { .mem_bytes = 64 << 20, .cpu_milli = 500, .pids = 64, .disk_bytes = 1 << 20 },
        .most = { .mem_bytes = 1 << 30, .cpu_milli = 4000, .pids = 512, .disk_bytes = 1 << 30 },
        .default_timeout_ms = 600000,
        .default_template = "base",
        .journal_bytes = 1 << 20,
        .journal_dir_fd = -1,
        .upload_dir_fd = -1,
    };
    r->loop = sg_loop_new(&err);
    assert_non_null(r->loop);
    r->store = sg_store_open(r->loop, ":memory:", &report, &err);
    assert_non_null(r->store);
}

static inline void rig_done(struct rig *r)
{
    if (r->m)
        rig_stop_manager(r);
    sg_store_close(r->store);
    while (r->cells)
        rig_remove_cell(r, r->cells);
    while (r->held) {
        struct held *h = r->held;
        r->held = h->next;
        free(h);
    }
    sg_loop_free(r->loop);
}

/* ---- callbacks that count ---- */

struct told {
    unsigned calls, well;
    struct sg_sandbox *s; /* the last */
    char id[SG_ID_LEN + 1];
    struct sg_err err;
};

static inline void tell(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct told *t = arg;

    t->calls++;
    t->well += !err;
    t->s = s;
    if (s)
        memcpy(t->id, s->id.s, sizeof t->id);
    if (err)
        t->err = *err;
}

static inline struct sg_sandbox *rig_create(struct rig *r, const struct sg_create *c)
{
    struct sg_create usual = { .timeout_ms = UINT64_MAX };
    struct told t = { 0 };
    struct sg_err err;

    assert_ok(sg_manager_create(r->m, &r->who, c ? c : &usual, tell, &t, &err), err);
    assert_int_equal(t.calls, 0);
    rig_until_after(r, t.calls, c && c->retries ? 1000000 : 0); /* a pause lies between tries */
    if (!t.well)
        fail_msg("create: %s", t.err.msg);
    return t.s;
}

typedef int rig_change(struct sg_sandbox *s, const struct sg_who *who, sg_sandbox_cb *cb, void *arg,
                       struct sg_err *err);

static inline struct told rig_do(struct rig *r, rig_change *change, struct sg_sandbox *s)
{
    struct told t = { 0 };
    struct sg_err err;

    assert_ok(change(s, &r->who, tell, &t, &err), err);
    assert_int_equal(t.calls, 0); /* never from inside the call */
    rig_until(r, t.calls);
    assert_int_equal(t.calls, 1);
    return t;
}

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

static inline int rig_setup(void **state)
{
    struct rig *r = sg_new(struct rig);
    rig_init(r);
    rig_start_manager(r);
    *state = r;
    return 0;
}

static inline int rig_teardown(void **state)
{
    rig_done(*state);
    free(*state);
    return 0;
}

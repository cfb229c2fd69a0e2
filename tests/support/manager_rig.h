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

#include "rig_launcher.h"

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

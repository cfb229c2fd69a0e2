/* SPDX-License-Identifier: Apache-2.0 */
/* The execs' half of the manager, replaced by counters: a test of the life of sandboxes that
 * includes this links none of the real one. */
#pragma once

#include <stdlib.h>

#include "base/auto.h"
#include "check.h"
#include "manager/exec.h"
#include "manager/files_internal.h"
#include "manager/life.h"
#include "tier/peer.h"

/* What the execs' half was told. */
static struct {
    unsigned ended, forgotten, kept, recovered, killed, news;
    unsigned stale;
    bool kill_fails;
} hooks;

/* ---- the execs' half ---- */

void sg_exec_news(struct sg_sandbox *s, struct sg_packet *p)
{
    (void)s;
    (void)p;
    hooks.news++;
}

void sg_exec_sandbox_ended(struct sg_sandbox *s)
{
    hooks.ended++;
    if (s->peer)
        assert_int_equal(sg_peer_open_questions(s->peer), 0);
}

void sg_exec_forget(struct sg_sandbox *s, bool is_manager_ending)
{
    free(s->exec_impl); /* a question that a frozen init never answered */
    *(is_manager_ending ? &hooks.kept : &hooks.forgotten) += 1;
}

#ifndef RIG_HAS_FILES /* of a test that is about them */
void sg_files_news(struct sg_sandbox *s, struct sg_packet *p)
{
    (void)s;
    (void)p;
    hooks.news++;
}

void sg_files_sandbox_ended(struct sg_sandbox *s)
{
    (void)s;
}

void sg_files_forget(struct sg_sandbox *s, bool is_manager_ending)
{
    (void)s;
    (void)is_manager_ending;
}
#endif

struct reclaim {
    struct sg_sandbox *s;
    void (*done)(struct sg_sandbox *s, void *arg);
    void *arg;
};

static void reclaimed(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct reclaim *r = arg;
    (void)p;
    (void)err;
    r->s->exec_impl = NULL;
    r->done(r->s, r->arg);
    free(r);
}

void sg_exec_recover(struct sg_sandbox *s, void (*done)(struct sg_sandbox *s, void *arg), void *arg)
{
    struct sg_msg m = { .type = SG_MSG_RECLAIM };
    struct sg_err err;

    hooks.recovered++;
    if (!s->peer) {
        done(s, arg);
        return;
    }
    struct reclaim *r = sg_new(struct reclaim);
    *r = (struct reclaim) { s, done, arg };
    s->exec_impl = r;
    assert_ok(sg_peer_ask(s->peer, &m, NULL, 0, reclaimed, r, &err), err);
}

void sg_exec_kill_all(struct sg_sandbox *s,
                      void (*done)(struct sg_sandbox *s, void *arg, const struct sg_err *err),
                      void *arg)
{
    struct sg_err err = { 0 };

    hooks.killed++;
    if (hooks.kill_fails)
        (void)sg_fail(&err, SG_TIMEOUT, "they do not die");
    done(s, arg, hooks.kill_fails ? &err : NULL);
}

unsigned sg_journal_sweep(struct sg_manager *m)
{
    (void)m;
    unsigned n = hooks.stale;
    hooks.stale = 0;
    return n;
}

/* ---- what builds and start commands call ---- */

#ifndef RIG_HAS_EXECS /* of a test that plays them */
int sg_exec_start(struct sg_sandbox *s, const struct sg_who *who, const struct sg_exec_spec *spec,
                  sg_exec_cb *cb, void *arg, struct sg_err *err)
{
    (void)s;
    (void)who;
    (void)spec;
    (void)cb;
    (void)arg;
    return sg_fail(err, SG_UNSUPPORTED, "nothing is run here");
}

void sg_reader_open(struct sg_reader *r, struct sg_exec *x, uint64_t at)
{
    (void)x;
    (void)at;
    r->exec = NULL;
}

void sg_reader_close(struct sg_reader *r)
{
    (void)r;
}

ssize_t sg_reader_read(struct sg_reader *r, enum sg_stream *ret_stream, void *to, size_t cap,
                       uint64_t *ret_lost, struct sg_err *err)
{
    (void)r;
    (void)ret_stream;
    (void)to;
    (void)cap;
    (void)ret_lost;
    (void)err;
    return 0;
}
#endif

#ifndef RIG_HAS_FILES
int sg_files_ask(struct sg_sandbox *s, const struct sg_who *who, struct sg_msg *m, const int *fds,
                 unsigned fd_count, sg_files_cb *cb, void *arg, struct sg_err *err)
{
    (void)s;
    (void)who;
    (void)m;
    (void)fds;
    (void)fd_count;
    (void)cb;
    (void)arg;
    return sg_fail(err, SG_UNSUPPORTED, "there are no files here");
}

int sg_files_send(struct sg_sandbox *s, struct sg_msg *m, const int *fds, unsigned fd_count,
                  sg_files_cb *cb, void *arg, struct sg_err *err)
{
    (void)s;
    (void)m;
    (void)fds;
    (void)fd_count;
    (void)cb;
    (void)arg;
    return sg_fail(err, SG_UNSUPPORTED, "nobody dials here");
}

int sg_files_copy(struct sg_sandbox *from, const char *path, struct sg_sandbox *to,
                  const char *to_path, const struct sg_who *who, sg_files_done_cb *cb, void *arg,
                  struct sg_err *err)
{
    (void)from;
    (void)path;
    (void)to;
    (void)to_path;
    (void)who;
    (void)cb;
    (void)arg;
    return sg_fail(err, SG_UNSUPPORTED, "there are no files here");
}
#endif

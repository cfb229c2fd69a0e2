/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes as files: out as they are packed, in as they come. */
#include "api/rest/rest.h"
#include "base/auto.h"
#include "manager/move.h"
#include "base/banned.h"

/* ---- out ---- */

static bool give(void *arg, const void *p, size_t n)
{
    struct sg_call *c = arg;
    if (!c->has_started)
        return sg_reply_start_with(c, 200, "application/octet-stream", p, n);
    return sg_reply_add(c, p, n);
}

static void given(void *arg, const struct sg_err *err)
{
    struct sg_call *c = arg;
    c->on_gone = NULL;
    c->on_drain = NULL;
    if (err && c->has_started)
        sg_reply_abort(c);
    else if (err)
        sg_reply_error(c, err);
    else
        sg_reply_end(c);
}

static void out_drained(struct sg_call *c)
{
    sg_move_out_go_on(c->state);
}

static void out_gone(struct sg_call *c)
{
    sg_move_out_drop(c->state);
    sg_reply_end(c);
}

static const struct sg_move_out_ops out_ops = { give, given };

static int follow(struct sg_call *c, struct sg_move_out *o)
{
    if (!o)
        return -1;
    c->state = o;
    c->on_drain = out_drained;
    c->on_gone = out_gone;
    return 0;
}

static int read_whole(struct sg_call *c, bool *ret, struct sg_err *err)
{
    static const char *const known[] = { "whole", NULL };
    uint64_t whole = 0;
    if (sg_call_query_only(c, known, err) < 0 ||
        sg_call_query_u64(c, "whole", 0, 1, &whole, err) < 0)
        return -1;
    *ret = whole;
    return 0;
}

int sg_rest_sandbox_export(struct sg_call *c, struct sg_err *err)
{
    bool is_whole;
    struct sg_sandbox *s = read_whole(c, &is_whole, err) < 0 ? NULL : sg_rest_sandbox(c, err);
    return s ? follow(c, sg_move_out_sandbox(s, &c->who, is_whole, &out_ops, c, err)) : -1;
}

int sg_rest_snapshot_export(struct sg_call *c, struct sg_err *err)
{
    bool is_whole;
    const struct sg_snapshot *t =
        read_whole(c, &is_whole, err) < 0
            ? NULL
            : sg_snapshot_find(c->manager, &c->who, sg_call_param(c, "snapshot"), err);
    return t ? follow(c, sg_move_out_snapshot(c->manager, &c->who, t, is_whole, &out_ops, c, err))
             : -1;
}

/* ---- in ---- */

static void take_piece(struct sg_call *c, const void *p, size_t n, bool is_last)
{
    sg_call_pause_body(c, true);
    sg_move_in_add(c->state, p, n, is_last);
}

static void next_piece(void *arg)
{
    sg_call_pause_body(arg, false);
}

static void in_gone(struct sg_call *c)
{
    sg_move_in_drop(c->state);
    sg_reply_end(c);
}

static void taken(void *arg, struct sg_sandbox *s, struct sg_snapshot *t, const struct sg_err *err)
{
    struct sg_call *c = arg;
    c->on_gone = NULL;
    c->on_body = NULL;
    if (t)
        sg_rest_reply_snapshot(c, t);
    else
        sg_rest_reply_imported(c, s, sg_move_in_notices(c->state), err);
}

static int take(struct sg_call *c, const struct sg_move_in_spec *spec, struct sg_err *err)
{
    static const struct sg_move_in_ops ops = { next_piece, taken };
    c->state = sg_move_in_begin(c->manager, &c->who, spec, &ops, c, err);
    if (!c->state)
        return -1;
    c->on_body = take_piece;
    c->on_gone = in_gone;
    return 0;
}

int sg_rest_sandbox_import(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "template", "keepNetwork", NULL };
    uint64_t keeps = 0;
    if (sg_call_query_only(c, known, err) < 0 ||
        sg_call_query_u64(c, "keepNetwork", 0, 1, &keeps, err) < 0)
        return -1;
    const struct sg_move_in_spec spec = { .template = sg_call_query(c, "template"),
                                          .keeps_network = keeps };
    return take(c, &spec, err);
}

int sg_rest_snapshot_import(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "template", "name", "tag", NULL };
    const struct sg_move_in_spec spec = { .is_snapshot = true,
                                          .template = sg_call_query(c, "template"),
                                          .name = sg_call_query(c, "name"),
                                          .tag = sg_call_query(c, "tag") };
    return sg_call_query_only(c, known, err) < 0 ? -1 : take(c, &spec, err);
}

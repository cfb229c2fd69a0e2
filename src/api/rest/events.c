/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events: what happens to sandboxes, and to files below a directory. A comment every
 * fifteen seconds keeps what stands between from taking the silence for an end. */
#include <inttypes.h>
#include <string.h>

#include "api/rest/rest.h"
#include "base/auto.h"
#include "base/parse.h"
#include "manager/events.h"
#include "manager/files.h"
#include "ctl/msg.h"
#include "base/banned.h"

static const uint64_t BEAT_NS = 15000000000;
enum { WATCH_BACKLOG = 1 << 20 };

/* ---- sandbox events ---- */

struct stream {
    struct sg_call *call;
    struct sg_loop *loop;
    struct sg_listener listener;
    struct sg_timer beat;
    bool is_full;
};

static void put_event(struct sg_buf *out, const struct sg_event *e)
{
    sg_buf_addf(out, "id: %" PRIu64 "\nevent: %s\ndata: ", e->seq, e->type);
    struct sg_json j;
    sg_json_init(&j, out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "seq");
    sg_json_u64(&j, e->seq);
    sg_rest_put_time(&j, "at", e->at_ms);
    sg_json_key(&j, "org");
    sg_json_str(&j, e->org);
    sg_json_key(&j, "sandbox");
    sg_json_str(&j, e->sandbox);
    sg_json_key(&j, "type");
    sg_json_str(&j, e->type);
    sg_json_key(&j, "data");
    sg_buf_add_str(out, e->data ? e->data : "{}"); /* is JSON already */
    j.needs_comma = true;
    sg_json_close(&j, '}');
    sg_buf_add_str(out, "\n\n");
}

static void pump(struct stream *s)
{
    const struct sg_event *e;
    while (!s->is_full && (e = sg_events_next(s->call->manager, &s->listener))) {
        sg_auto_buf out;
        sg_buf_init(&out, SG_REST_MAX_REPLY);
        put_event(&out, e);
        s->is_full = !sg_reply_add(s->call, out.p, out.n);
    }
}

static void wake(struct sg_listener *l)
{
    pump(SG_OWNER(l, struct stream, listener));
}

static void drained(struct sg_call *c)
{
    struct stream *s = c->state;
    s->is_full = false;
    pump(s);
}

static void beat(struct sg_timer *t, uint64_t now_ns)
{
    struct stream *s = SG_OWNER(t, struct stream, beat);
    if (!s->is_full)
        s->is_full = !sg_reply_add(s->call, ":\n\n", 3);
    sg_timer_set(s->loop, t, now_ns + BEAT_NS);
}

static void gone(struct sg_call *c)
{
    struct stream *s = c->state;
    sg_events_leave(&s->listener);
    sg_timer_stop(s->loop, &s->beat);
    sg_reply_end(c);
}

int sg_rest_events(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "sandbox", "after", NULL };
    const char *sandbox = sg_call_query(c, "sandbox");
    const char *last = sg_call_header(c, "last-event-id");
    uint64_t after = UINT64_MAX;
    if (sg_call_query_only(c, known, err) < 0 ||
        (last && sg_parse_u64(sg_str_of(last), 0, UINT64_MAX - 1, &after, err) < 0) ||
        sg_call_query_u64(c, "after", 0, UINT64_MAX - 1, &after, err) < 0 ||
        (sandbox && !sg_manager_find(c->manager, &c->who, sandbox, err)))
        return -1;
    struct stream *s = sg_arena_alloc(&c->arena, sizeof *s);
    if (!s)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    *s = (struct stream) { .call = c, .loop = sg_manager_loop(c->manager), .beat.fire = beat };
    s->listener.who = c->who;
    s->listener.wake = wake;
    if (sandbox)
        memcpy(s->listener.sandbox, sandbox, SG_ID_LEN); /* found, so it is as long as an id */
    c->state = s;
    c->on_drain = drained;
    c->on_gone = gone;
    /* the client knows that it is heard */
    (void)sg_reply_start_with(c, 200, "text/event-stream", ":\n\n", 3);
    sg_events_listen(c->manager, &s->listener, after);
    sg_timer_set(s->loop, &s->beat, sg_loop_now(s->loop) + BEAT_NS);
    pump(s);
    return 0;
}

/* ---- file changes ---- */

struct watching {
    struct sg_call *call;
    struct sg_watch_sub *sub; /* NULL: not there yet, or over */
    bool is_over;             /* the call has to end as soon as it may */
    bool is_open;             /* the watch is being set up */
    bool is_full, has_lost;
};

static const struct {
    uint32_t bit;
    const char *name;
} changes[] = {
    { SG_CHANGED_CREATE, "create" }, { SG_CHANGED_WRITE, "write" },
    { SG_CHANGED_REMOVE, "remove" }, { SG_CHANGED_RENAME, "rename" },
    { SG_CHANGED_CHMOD, "chmod" },   { SG_CHANGED_OVERFLOW, "overflow" },
};

static void put_change(struct sg_buf *out, const char *path, uint32_t what)
{
    sg_buf_add_str(out, "event: change\ndata: ");
    struct sg_json j;
    sg_json_init(&j, out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "path");
    sg_json_str(&j, path);
    sg_json_key(&j, "what");
    sg_json_open(&j, '[');
    for (size_t i = 0; i < SG_COUNT(changes); i++)
        if (what & changes[i].bit)
            sg_json_str(&j, changes[i].name);
    sg_json_close(&j, ']');
    sg_json_key(&j, "isDir");
    sg_json_bool(&j, what & SG_CHANGED_IS_DIR);
    sg_json_close(&j, '}');
    sg_buf_add_str(out, "\n\n");
}

/* A client that does not read loses changes, and is told so. */
static void file_changed(void *arg, const char *path, uint32_t what)
{
    struct watching *w = arg;
    if (!path) {
        w->sub = NULL;
        sg_reply_end(w->call);
        return;
    }
    if (w->is_full) {
        w->has_lost = true;
        return;
    }
    sg_auto_buf out;
    sg_buf_init(&out, WATCH_BACKLOG);
    put_change(&out, path, what);
    w->is_full = !sg_reply_add(w->call, out.p, out.n);
}

static void watcher_drained(struct sg_call *c)
{
    struct watching *w = c->state;
    w->is_full = false;
    if (w->has_lost) {
        w->has_lost = false;
        file_changed(w, "", SG_CHANGED_OVERFLOW);
    }
}

static void watcher_gone(struct sg_call *c)
{
    struct watching *w = c->state;
    if (w->is_open) {
        w->is_over = true; /* its answer is still to come */
        return;
    }
    if (w->sub)
        sg_files_unwatch(w->sub);
    sg_reply_end(c);
}

static void watch_set(void *arg, struct sg_watch_sub *sub, const struct sg_err *err)
{
    struct watching *w = arg;
    struct sg_call *c = w->call;
    w->is_open = false;
    if (!sub) {
        sg_reply_error(c, err);
        return;
    }
    w->sub = sub;
    if (w->is_over) {
        sg_files_unwatch(sub);
        sg_reply_end(c);
        return;
    }
    (void)sg_reply_start_with(c, 200, "text/event-stream", "event: ready\ndata: {}\n\n", 23);
}

int sg_rest_file_watch(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "path", "user", "recursive", NULL };
    bool is_recursive = false;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    const char *path = s ? sg_rest_path(c, err) : NULL;
    if (!path || sg_call_query_only(c, known, err) < 0 ||
        sg_call_query_bool(c, "recursive", &is_recursive, err) < 0)
        return -1;
    const char *user = sg_call_query(c, "user");
    struct watching *w = sg_arena_alloc(&c->arena, sizeof *w);
    if (!w)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    *w = (struct watching) { .call = c, .is_open = true };
    c->state = w;
    c->on_drain = watcher_drained;
    c->on_gone = watcher_gone;
    return sg_files_watch(s, &c->who, user ? user : "", path, is_recursive, file_changed, watch_set,
                          w, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Changes below a directory: as a stream (WatchDir), or gathered until somebody asks (CreateWatcher
 * and its like, for clients that cannot wait on two things at once).
 *
 * B1. A watch lives by itself, not in a call's arena: it lasts, and so does each question about a
 *     changed file that is still open when it ends. The last of them frees it.
 * B2. Watches that gather end with their sandbox, or when they are removed; those that nobody asks
 *     any more cost a bounded list. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "api/e2b/e2b.h"
#include "api/e2b/entry.h"
#include "base/auto.h"
#include "base/parse.h"
#include "manager/files.h"
#include "wire/connect.h"
#include "base/banned.h"

enum { MAX_GATHERED = 1 << 20, MAX_WATCHERS = 128, KEEPALIVE_S = 90, EVENT_MAX = 64 << 10 };
#define NS_PER_S  1000000000u
#define NS_PER_MS 1000000u

struct watch {
    struct sg_manager *manager;
    struct sg_who who;
    char sandbox[SG_ID_LEN + 1];
    char *user, *path; /* owned */
    struct sg_watch_sub *sub;
    struct sg_call *call;   /* that hears of it; NULL: gathers */
    struct sg_call *opener; /* until it is set up */
    bool with_entry, is_over;
    unsigned open; /* questions about files */
    /* the stream */
    struct sg_timer beat, deadline;
    uint64_t beat_ns, quiet_since_ns;
    bool is_full;
    /* the gatherer */
    struct sg_id id;
    struct sg_buf gathered; /* events, with commas between them */
    struct watch *next, **link;
};

static struct watch *gatherers; /* all of them; the loop's thread alone comes here */

static const struct {
    uint32_t bit;
    const char *name;
    bool has_entry; /* there is something left to look at */
} types[] = {
    { SG_CHANGED_CREATE, "EVENT_TYPE_CREATE", true },
    { SG_CHANGED_RENAME, "EVENT_TYPE_RENAME", false },
    { SG_CHANGED_CHMOD, "EVENT_TYPE_CHMOD", true },
    { SG_CHANGED_WRITE, "EVENT_TYPE_WRITE", true },
    { SG_CHANGED_REMOVE, "EVENT_TYPE_REMOVE", false },
};

/* ---- its life ---- */

static void unref(struct watch *w)
{
    if (!w->is_over || w->open)
        return;
    sg_buf_done(&w->gathered);
    free(w->user);
    free(w->path);
    free(w);
}

static struct watch *new_watch(struct sg_call *c, const char *path)
{
    const struct sg_e2b_visit *v = sg_e2b_visit(c);
    struct watch *w = sg_new(struct watch);
    w->manager = c->manager;
    w->who = c->who;
    memcpy(w->sandbox, v->sandbox, sizeof w->sandbox);
    w->user = sg_strdup(v->user);
    w->path = sg_strdup(path);
    w->with_entry = sg_e2b_bool(v->body, "includeEntry", false);
    sg_buf_init(&w->gathered, MAX_GATHERED);
    return w;
}

/* Out of the list, off the clock; what is open still comes. */
static void end_watch(struct watch *w)
{
    struct sg_loop *l = sg_manager_loop(w->manager);
    if (w->is_over)
        return;
    w->is_over = true;
    sg_timer_stop(l, &w->beat);
    sg_timer_stop(l, &w->deadline);
    if (w->link) {
        *w->link = w->next;
        if (w->next)
            w->next->link = w->link;
        w->link = NULL;
    }
    struct sg_watch_sub *sub = sg_take_ptr(&w->sub);
    if (sub)
        sg_files_unwatch(sub);
    unref(w);
}

/* ---- events ---- */

static void put_event(struct sg_call *c, struct sg_buf *out, const char *name, const char *type,
                      const struct sg_e2b_entry *e)
{
    struct sg_json j;
    sg_json_init(&j, out);
    sg_json_open(&j, '{');
    sg_json_put_str(&j, "name", name);
    sg_json_put_str(&j, "type", type);
    if (e) {
        sg_json_key(&j, "entry");
        sg_e2b_put_entry(c, &j, e);
    }
    sg_json_close(&j, '}');
}

static void send(struct watch *w, struct sg_buf *out)
{
    w->quiet_since_ns = sg_loop_now(sg_manager_loop(w->manager));
    if (!sg_reply_start_with(w->call, 200, "application/connect+json", out->p, out->n))
        w->is_full = true;
}

/* A client that does not read loses events, and a gatherer that nobody asks stops at its limit. */
static void tell(struct watch *w, const char *name, const char *type, const struct sg_e2b_entry *e)
{
    sg_auto_buf out = { 0 };
    if (w->is_over || w->is_full)
        return;
    sg_buf_init(&out, EVENT_MAX);
    if (!w->call) {
        put_event(NULL, &out, name, type, e);
        if (w->gathered.n + out.n + 1 > MAX_GATHERED)
            return;
        if (w->gathered.n)
            sg_buf_add_str(&w->gathered, ",");
        sg_buf_add(&w->gathered, out.p, out.n);
        return;
    }
    size_t mark = sg_connect_open(&out);
    sg_buf_add_str(&out, "{\"filesystem\":");
    put_event(w->call, &out, name, type, e);
    sg_buf_add_str(&out, "}");
    sg_connect_close(&out, mark, 0);
    if (!out.has_overflowed)
        send(w, &out);
}

struct question {
    struct watch *watch;
    uint32_t what;
    char *path; /* owned */
    size_t name_at;
};

static void tell_all(struct watch *w, const char *name, uint32_t what, const struct sg_e2b_entry *e)
{
    for (size_t i = 0; i < SG_COUNT(types); i++)
        if (what & types[i].bit)
            tell(w, name, types[i].name, types[i].has_entry ? e : NULL);
}

static void stated(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct question *q = arg;
    struct watch *w = q->watch;
    const char *name = q->path + q->name_at;
    (void)err;
    if (p && p->msg.type == SG_MSG_STATED) {
        const struct sg_msg_stated *m = &p->msg.stated;
        char uid[16], gid[16];
        (void)snprintf(uid, sizeof uid, "%u", (unsigned)m->uid);
        (void)snprintf(gid, sizeof gid, "%u", (unsigned)m->gid);
        const struct sg_e2b_entry e = { .path = q->path,
                                        .mode = m->mode,
                                        .bytes = m->bytes,
                                        .mtime_ns = m->mtime_ns,
                                        .owner = m->owner.n ? m->owner.p : uid,
                                        .group = m->group.n ? m->group.p : gid,
                                        .target = m->target.n ? m->target.p : NULL,
                                        .labels = m->labels };
        tell_all(w, name, q->what, &e);
    } else {
        tell_all(w, name, q->what, NULL);
    }
    w->open--;
    free(q->path);
    free(q);
    unref(w);
}

static bool ask(struct watch *w, const char *name, uint32_t what)
{
    const struct sg_who anybody = { .is_operator = true };
    struct sg_err err;
    struct sg_sandbox *s = sg_manager_find(w->manager, &anybody, w->sandbox, &err);
    struct question *q = sg_new(struct question);
    *q = (struct question) { .watch = w, .what = what };
    q->path = sg_printf("%s/%s", strcmp(w->path, "/") == 0 ? "" : w->path, name);
    q->name_at = strlen(q->path) - strlen(name);
    struct sg_msg m = { .type = SG_MSG_STAT };
    m.stat = (struct sg_msg_path) { sg_text_of(w->user), sg_text_of(q->path),
                                    SG_STAT_NOFOLLOW | SG_STAT_LABELS };
    if (s && sg_files_ask(s, &w->who, &m, NULL, 0, stated, q, &err) == 0) {
        w->open++;
        return true;
    }
    free(q->path);
    free(q);
    return false;
}

static void changed(void *arg, const char *path, uint32_t what)
{
    struct watch *w = arg;
    if (!path) { /* with its sandbox */
        struct sg_call *c = w->call;
        w->sub = NULL;
        end_watch(w);
        if (c)
            sg_reply_abort(c);
        return;
    }
    const bool is_there = what & (SG_CHANGED_CREATE | SG_CHANGED_WRITE | SG_CHANGED_CHMOD);
    if (!w->with_entry || !is_there || !ask(w, path, what))
        tell_all(w, path, what, NULL);
}

/* ---- the stream ---- */

static void send_text(struct watch *w, const char *text)
{
    sg_auto_buf out;
    sg_buf_init(&out, 256);
    size_t mark = sg_connect_open(&out);
    sg_buf_add_str(&out, text);
    sg_connect_close(&out, mark, 0);
    send(w, &out);
}

static void beat(struct sg_timer *t, uint64_t now_ns)
{
    struct watch *w = SG_OWNER(t, struct watch, beat);
    uint64_t due = w->quiet_since_ns + w->beat_ns;
    if (now_ns >= due && !w->is_full)
        send_text(w, "{\"keepalive\":{}}");
    sg_timer_set(sg_manager_loop(w->manager), t, now_ns >= due ? now_ns + w->beat_ns : due);
}

static void too_late(struct sg_timer *t, uint64_t now_ns)
{
    struct watch *w = SG_OWNER(t, struct watch, deadline);
    struct sg_call *c = w->call;
    sg_auto_buf out;
    (void)now_ns;
    sg_buf_init(&out, 1024);
    sg_e2b_put_end(&out, "deadline_exceeded", "context deadline exceeded");
    send(w, &out);
    end_watch(w);
    sg_reply_end(c);
}

static void drained(struct sg_call *c)
{
    struct watch *w = sg_e2b_visit(c)->own;
    w->is_full = false;
}

static void gone(struct sg_call *c)
{
    end_watch(sg_e2b_visit(c)->own);
    sg_reply_end(c);
}

static void open_stream(struct watch *w)
{
    struct sg_call *c = w->call;
    struct sg_loop *l = sg_manager_loop(w->manager);
    const char *interval = sg_call_header(c, "Keepalive-Ping-Interval");
    const char *timeout = sg_call_header(c, "Connect-Timeout-Ms");
    uint64_t seconds = KEEPALIVE_S, ms = 0;
    if (interval)
        (void)sg_parse_u64(sg_str_of(interval), 1, 86400, &seconds, NULL);
    if (timeout)
        (void)sg_parse_u64(sg_str_of(timeout), 0, 9999999999, &ms, NULL);
    w->beat_ns = seconds * NS_PER_S;
    w->beat.fire = beat;
    w->deadline.fire = too_late;
    c->on_gone = gone;
    c->on_drain = drained;
    send_text(w, "{\"start\":{}}");
    sg_timer_set(l, &w->beat, w->quiet_since_ns + w->beat_ns);
    if (ms)
        sg_timer_set(l, &w->deadline, w->quiet_since_ns + ms * NS_PER_MS);
}

/* ---- both ---- */

static void reply_id(struct sg_call *c, const struct watch *w)
{
    char text[64];
    (void)snprintf(text, sizeof text, "{\"watcherId\":\"%s\"}", w->id.s);
    sg_reply_text(c, 200, "application/json", text);
}

static void watched(void *arg, struct sg_watch_sub *sub, const struct sg_err *err)
{
    struct watch *w = arg;
    struct sg_call *c = sg_take_ptr(&w->opener);
    w->sub = sub;
    if (!sub) {
        end_watch(w);
        sg_reply_error(c, err);
    } else if (c->is_gone) {
        end_watch(w);
        sg_reply_end(c);
    } else if (w->call) {
        open_stream(w);
    } else {
        w->next = gatherers;
        w->link = &gatherers;
        if (w->next)
            w->next->link = &w->next;
        gatherers = w;
        reply_id(c, w);
    }
}

static int watch(struct sg_call *c, struct sg_sandbox *s, bool is_stream, struct sg_err *err)
{
    struct sg_e2b_visit *v = sg_e2b_visit(c);
    const char *path = sg_e2b_path(c, sg_e2b_text(v->body, "path"), err);
    if (!path)
        return -1;
    struct watch *w = new_watch(c, path);
    w->opener = c;
    w->call = is_stream ? c : NULL;
    w->id = sg_id_new('w');
    v->own = w;
    if (sg_files_watch(s, &c->who, v->user, path, sg_e2b_bool(v->body, "recursive", false), changed,
                       watched, w, err) == 0)
        return 0;
    w->opener = NULL;
    end_watch(w);
    return -1;
}

int sg_envd_watch_dir(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    return watch(c, s, true, err);
}

int sg_envd_create_watcher(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    unsigned n = 0;
    for (const struct watch *w = gatherers; w; w = w->next)
        n += strcmp(w->sandbox, s->id.s) == 0;
    if (n >= MAX_WATCHERS)
        return sg_fail(err, SG_EXHAUSTED, "this sandbox has %d watchers already", MAX_WATCHERS);
    return watch(c, s, false, err);
}

static struct watch *find_watcher(struct sg_call *c, const struct sg_sandbox *s, struct sg_err *err)
{
    const char *id = sg_e2b_text(sg_e2b_visit(c)->body, "watcherId");
    for (struct watch *w = gatherers; id && w; w = w->next)
        if (strcmp(w->id.s, id) == 0 && strcmp(w->sandbox, s->id.s) == 0)
            return w;
    (void)sg_fail(err, SG_NOT_FOUND, "watcher with id %s not found", sg_quote(id ? id : "").s);
    return NULL;
}

int sg_envd_watcher_events(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    struct watch *w = find_watcher(c, s, err);
    sg_auto_buf out = { 0 };
    if (!w)
        return -1;
    sg_buf_init(&out, MAX_GATHERED + 64);
    sg_buf_add_str(&out, "{\"events\":[");
    sg_buf_add(&out, w->gathered.p, w->gathered.n);
    sg_buf_add_str(&out, "]}");
    sg_buf_clear(&w->gathered);
    sg_reply_json(c, 200, &out);
    return 0;
}

int sg_envd_remove_watcher(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    struct watch *w = find_watcher(c, s, err);
    if (!w)
        return -1;
    end_watch(w);
    sg_envd_reply_nothing(c);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* filesystem.Filesystem/ListDir: a tree down to some depth, as one sorted list. Directories are
 * asked for one after the other, links and what has labels are looked at once more, and then all
 * is sorted: by name, each directory before what is in it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/e2b/e2b.h"
#include "api/e2b/entry.h"
#include "api/e2b/root.h"
#include "base/auto.h"
#include "ctl/entry.h"
#include "manager/files.h"
#include "base/banned.h"

enum { MAX_ENTRIES = 100000, MAX_DEPTH = 64 };

struct found {
    struct found *next;
    struct sg_e2b_entry entry;
    uint32_t uid, gid;
    unsigned depth; /* of the directory that holds it: 1 for the asked one */
    bool has_labels;
};

struct listing {
    struct sg_call *call;
    struct sg_e2b_accounts accounts;
    struct found *first, **tail;
    struct found *dir;  /* whose entries are asked for; NULL: the root's */
    struct found *link; /* or file with labels, that is looked at */
    const char *path;   /* of the directory under way */
    const char *root;
    uint64_t cursor, depth;
    size_t count;
};

static void go_on(struct listing *l);

static void fail(struct listing *l, const struct sg_err *err)
{
    struct sg_err own = *err;
    if (sg_e2b_again_as_root(l->call, err))
        return;
    if (err->sys == ENOENT)
        (void)sg_fail(&own, SG_NOT_FOUND, "path %s does not exist", sg_quote(l->root).s);
    else if (err->sys == ENOTDIR)
        (void)sg_fail(&own, SG_INVALID, "path %s is not a directory", sg_quote(l->root).s);
    sg_reply_error(l->call, &own);
}

/* ---- the reply ---- */

/* '/' before every other character: what is in a directory comes right after it. */
static int by_path(const void *a, const void *b)
{
    const unsigned char *p = (const unsigned char *)(*(struct found *const *)a)->entry.path;
    const unsigned char *q = (const unsigned char *)(*(struct found *const *)b)->entry.path;
    while (*p && *p == *q) {
        p++;
        q++;
    }
    int x = *p == '/' ? 1 : *p ? *p + 1 : 0, y = *q == '/' ? 1 : *q ? *q + 1 : 0;
    return x - y;
}

static void reply(struct listing *l)
{
    struct sg_call *c = l->call;
    struct sg_err err;
    struct found **sorted = sg_arena_alloc(&c->arena, (l->count + 1) * sizeof(struct found *));
    size_t n = 0;
    if (!sorted) {
        (void)sg_fail(&err, SG_EXHAUSTED, "no room for the list");
        sg_reply_error(c, &err);
        return;
    }
    for (struct found *f = l->first; f; f = f->next)
        sorted[n++] = f;
    qsort(sorted, n, sizeof(struct found *), by_path);
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "entries");
    sg_json_open(&j, '[');
    for (size_t i = 0; i < n; i++) {
        sorted[i]->entry.owner = sg_e2b_name_of(c, l->accounts.passwd, sorted[i]->uid);
        sorted[i]->entry.group = sg_e2b_name_of(c, l->accounts.group, sorted[i]->gid);
        sg_e2b_put_entry(c, &j, &sorted[i]->entry);
    }
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
}

/* ---- gathering ---- */

static int take_page(struct listing *l, const struct sg_msg_listed *m, struct sg_err *err)
{
    struct sg_arena *a = &l->call->arena;
    struct sg_bytes rest = m->entries;
    struct sg_entry e;
    bool is_bad = false;
    while (sg_entry_next(&rest, &e, &is_bad)) {
        struct found *f = sg_arena_alloc(a, sizeof *f);
        const char *path = sg_arena_printf(a, "%s/%.*s", strcmp(l->path, "/") == 0 ? "" : l->path,
                                           (int)e.name.n, e.name.p);
        if (!f || !path || ++l->count > MAX_ENTRIES)
            return sg_fail(err, SG_EXHAUSTED, "more than %d entries", MAX_ENTRIES);
        *f = (struct found) {
            .entry = { .path = path, .mode = e.mode, .bytes = e.bytes, .mtime_ns = e.mtime_ns },
            .uid = e.uid,
            .gid = e.gid,
            .depth = l->dir ? l->dir->depth + 1 : 1,
            .has_labels = e.flags & SG_ENTRY_LABELLED,
        };
        *l->tail = f;
        l->tail = &f->next;
    }
    return is_bad ? sg_fail(err, SG_UNAVAILABLE, "the sandbox's answer makes no sense") : 0;
}

static void listed(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct listing *l = arg;
    struct sg_err own = { 0 };
    if (!p && l->dir && err->kind != SG_UNAVAILABLE) { /* gone meanwhile, or not for this user */
        l->cursor = 0;
        go_on(l);
        return;
    }
    if (p && p->msg.type != SG_MSG_LISTED)
        err = (sg_fail(&own, SG_UNAVAILABLE, "the sandbox gave no answer"), &own), p = NULL;
    if (!p || take_page(l, &p->msg.listed, &own) < 0) {
        fail(l, p ? &own : err);
        return;
    }
    l->cursor = p->msg.listed.next;
    go_on(l);
}

static int ask(struct listing *l, struct sg_err *err)
{
    struct sg_call *c = l->call;
    struct sg_sandbox *s = sg_e2b_visited(c, err);
    struct sg_msg m = { .type = SG_MSG_LIST };
    m.list =
        (struct sg_msg_list) { sg_text_of(sg_e2b_visit(c)->user), sg_text_of(l->path), l->cursor };
    return s ? sg_files_ask(s, &c->who, &m, NULL, 0, listed, l, err) : -1;
}

/* What a link is, and leads to. One that vanished meanwhile stays as it was listed. */
static void linked(struct sg_call *c, void *arg, const struct sg_e2b_entry *e,
                   const struct sg_err *err)
{
    struct listing *l = arg;
    (void)c;
    (void)err;
    if (e) {
        l->link->entry.target = e->target;
        l->link->entry.target_mode = e->target_mode;
        l->link->entry.labels = e->labels;
    }
    go_on(l);
}

static struct found *next_link(struct listing *l)
{
    struct found *f = l->link ? l->link->next : l->first;
    while (f && !S_ISLNK(f->entry.mode) && !f->has_labels)
        f = f->next;
    return f;
}

/* The next directory that is to be opened, after the one under way. */
static struct found *next_dir(struct listing *l)
{
    struct found *f = l->dir ? l->dir->next : l->first;
    while (f && !(S_ISDIR(f->entry.mode) && f->depth < l->depth))
        f = f->next;
    return f;
}

static void go_on(struct listing *l)
{
    struct sg_err err = { 0 };
    struct found *f;
    int result = 0;
    if (!l->link && l->cursor) {
        result = ask(l, &err);
    } else if (!l->link && (f = next_dir(l))) {
        l->dir = f;
        l->path = f->entry.path;
        result = ask(l, &err);
    } else if ((f = next_link(l))) {
        struct sg_sandbox *s = sg_e2b_visited(l->call, &err);
        l->link = f;
        result = s ? sg_e2b_look(l->call, s, f->entry.path, linked, l, &err) : -1;
    } else {
        reply(l);
    }
    if (result < 0)
        sg_reply_error(l->call, &err);
}

/* ---- the request ---- */

static int accounts_read(struct sg_call *c, const struct sg_e2b_accounts *a, struct sg_err *err)
{
    struct listing *l = sg_e2b_visit(c)->own;
    l->accounts = *a;
    return ask(l, err);
}

int sg_envd_list_dir(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    struct sg_e2b_visit *v = sg_e2b_visit(c);
    struct listing *l = sg_arena_alloc(&c->arena, sizeof *l);
    uint64_t depth = sg_e2b_u64(v->body, "depth", 1);
    if (!l)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    *l = (struct listing) { .call = c, .depth = depth ? depth : 1 };
    l->tail = &l->first;
    if (l->depth > MAX_DEPTH)
        l->depth = MAX_DEPTH;
    l->root = l->path = sg_e2b_path(c, sg_e2b_text(v->body, "path"), err);
    if (!l->path)
        return -1;
    v->own = l;
    return sg_e2b_read_accounts(c, s, accounts_read, err);
}

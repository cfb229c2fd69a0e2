/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a volume, without a sandbox of the caller's: by the volume's token, through a sandbox of
 * ours that shows nothing else (manager/volume.h). What changed something is on the disk before it
 * is answered. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "api/body_file.h"
#include "api/e2b/e2b.h"
#include "base/auto.h"
#include "ctl/entry.h"
#include "manager/files.h"
#include "manager/volume.h"
#include "base/banned.h"

/* Files belong to the first ordinary user, as who runs commands in a sandbox does. */
enum { USUAL_ID = 1000, MODE_FILE = 0644, MODE_DIR = 0755, DEPTH_MAX = 64, ENTRIES_MAX = 200000 };
static const uint64_t NO_ID = UINT64_MAX;

struct visit {
    struct sg_call *call;
    char volume[SG_ID_LEN + 1], sandbox[SG_ID_LEN + 1];
    const char *path;
    uint64_t uid, gid, mode; /* NO_ID: not asked for */
    bool force;
    int status;         /* of the reply */
    struct sg_buf *out; /* to be released, or NULL */
    int (*go)(struct visit *v, struct sg_sandbox *s, struct sg_err *err);
    struct sg_body_file upload;
};

static const struct sg_msg_stated *stated_of(const struct sg_packet *p)
{
    return p && p->msg.type == SG_MSG_STATED ? &p->msg.stated : NULL;
}

/* ---- coming in ---- */

static void fail(struct visit *v, const struct sg_err *err)
{
    if (v->out)
        sg_buf_done(v->out);
    sg_reply_error(v->call, err);
}

static void arrived(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct visit *v = arg;
    struct sg_err own;
    if (!err) {
        memcpy(v->sandbox, s->id.s, sizeof v->sandbox);
        if (v->go(v, s, &own) == 0)
            return;
        err = &own;
    }
    fail(v, err);
}

/* Whatever else is asked comes through here: the sandbox may have ended in between, and is then
 * made anew. */
static int again(struct visit *v,
                 int (*go)(struct visit *v, struct sg_sandbox *s, struct sg_err *err),
                 struct sg_err *err)
{
    struct sg_call *c = v->call;
    struct sg_volume *volume = sg_volume_find(c->manager, &c->who, v->volume, err);
    v->go = go;
    return volume ? sg_volume_visit(c->manager, volume, arrived, v, err) : -1;
}

static void go_on(struct visit *v,
                  int (*go)(struct visit *v, struct sg_sandbox *s, struct sg_err *err))
{
    struct sg_err err;
    if (again(v, go, &err) < 0)
        fail(v, &err);
}

static const struct sg_volume *by_token(struct sg_call *c)
{
    static const char bearer[] = "Bearer ";
    const char *text = sg_call_header(c, "Authorization");
    if (!text || strncasecmp(text, bearer, sizeof bearer - 1) != 0)
        return NULL;
    const struct sg_volume *v = sg_volume_by_token(c->manager, text + sizeof bearer - 1);
    return v && strcmp(v->id.s, sg_call_param(c, "id")) == 0 ? v : NULL;
}

static struct visit *enter(struct sg_call *c, struct sg_err *err)
{
    const struct sg_volume *volume = by_token(c);
    const char *path = sg_call_query(c, "path");
    struct visit *v = sg_arena_alloc(&c->arena, sizeof *v);
    if (!volume) {
        (void)sg_fail(err, SG_DENIED, "the token is not this volume's");
        return NULL;
    }
    c->who.org = volume->org;
    c->who.scopes = SG_SCOPE_READ | SG_SCOPE_EXEC;
    if (!v || !path || !path[0]) {
        (void)sg_fail(err, SG_INVALID, "the query has no path");
        return NULL;
    }
    *v = (struct visit) { .call = c, .path = path, .uid = NO_ID, .gid = NO_ID, .mode = NO_ID };
    memcpy(v->volume, volume->id.s, sizeof v->volume);
    if (sg_call_query_u64(c, "uid", 0, UINT16_MAX, &v->uid, err) < 0 ||
        sg_call_query_u64(c, "gid", 0, UINT16_MAX, &v->gid, err) < 0 ||
        sg_call_query_u64(c, "mode", 0, 07777, &v->mode, err) < 0 ||
        sg_call_query_bool(c, "force", &v->force, err) < 0)
        return NULL;
    return v;
}

static int ask(struct visit *v, struct sg_sandbox *s, struct sg_msg *m, sg_files_cb *cb,
               struct sg_err *err)
{
    return sg_files_ask(s, &v->call->who, m, NULL, 0, cb, v, err);
}

/* ---- what a file is ---- */

static const char *type_of(uint32_t mode)
{
    return S_ISREG(mode)   ? "file"
           : S_ISDIR(mode) ? "directory"
           : S_ISLNK(mode) ? "symlink"
                           : "unknown";
}

static void put_stat(struct sg_json *j, const char *path, uint32_t mode, uint64_t bytes,
                     uint32_t uid, uint32_t gid, uint64_t mtime_ns, struct sg_text target)
{
    sg_json_open(j, '{');
    sg_json_put_str(j, "name", sg_e2b_basename(path));
    sg_json_put_str(j, "type", type_of(mode));
    sg_json_put_str(j, "path", path);
    sg_json_put_u64(j, "size", bytes);
    sg_json_put_u64(j, "mode", mode & 07777u);
    sg_json_put_u64(j, "uid", uid);
    sg_json_put_u64(j, "gid", gid);
    sg_e2b_put_time_ns(j, "atime", mtime_ns);
    sg_e2b_put_time_ns(j, "mtime", mtime_ns);
    sg_e2b_put_time_ns(j, "ctime", mtime_ns);
    if (target.n) {
        sg_json_key(j, "target");
        sg_json_text(j, (struct sg_str) { target.p, target.n });
    }
    sg_json_close(j, '}');
}

static const char *absolute(struct visit *v)
{
    if (v->path[0] == '/')
        return v->path;
    const size_t n = strlen(v->path);
    char *path = sg_arena_alloc(&v->call->arena, n + 2);
    if (path)
        (void)snprintf(path, n + 2, "/%s", v->path);
    return path ? path : v->path;
}

static void told(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct visit *v = arg;
    const struct sg_msg_stated *m = stated_of(p);
    struct sg_err own;
    if (!m) {
        if (!err)
            (void)sg_fail(&own, SG_UNAVAILABLE, "the volume gave no answer");
        fail(v, err ? err : &own);
        return;
    }
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, 64 << 10);
    sg_json_init(&j, &out);
    put_stat(&j, absolute(v), m->mode, m->bytes, m->uid, m->gid, m->mtime_ns, m->target);
    sg_reply_json(v->call, v->status, &out);
}

static int tell(struct visit *v, struct sg_sandbox *s, struct sg_err *err)
{
    struct sg_msg m = { .type = SG_MSG_STAT };
    m.stat = (struct sg_msg_path) { sg_text_of("root"), sg_text_of(v->path), SG_STAT_NOFOLLOW };
    return ask(v, s, &m, told, err);
}

int sg_e2b_volume_stat(struct sg_call *c, struct sg_err *err)
{
    struct visit *v = enter(c, err);
    if (!v)
        return -1;
    v->status = 200;
    return again(v, tell, err);
}

/* ---- the end of every change: to the disk, then the answer ---- */

static void synced(void *arg, const struct sg_err *err)
{
    struct visit *v = arg;
    if (err)
        fail(v, err);
    else if (v->status == 204)
        sg_reply_empty(v->call, 204);
    else
        go_on(v, tell);
}

static void changed(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct visit *v = arg;
    struct sg_err own;
    (void)p;
    if (err)
        fail(v, err);
    else if (sg_volume_sync(v->call->manager, synced, v, &own) < 0)
        fail(v, &own);
}

/* Owner and mode: those that were asked for. */
static int set_attributes(struct visit *v, struct sg_sandbox *s, struct sg_err *err)
{
    char owner[48];
    struct sg_msg m = { .type = SG_MSG_SETATTR };
    const bool has_owner = v->uid != NO_ID && v->gid != NO_ID;
    (void)snprintf(owner, sizeof owner, "%llu:%llu", (unsigned long long)v->uid,
                   (unsigned long long)v->gid);
    m.setattr = (struct sg_msg_setattr) {
        .user = sg_text_of("root"),
        .path = sg_text_of(v->path),
        .owner = sg_text_of(has_owner ? owner : ""),
        .what = (has_owner ? SG_SETATTR_OWNER : 0u) | (v->mode != NO_ID ? SG_SETATTR_MODE : 0u),
        .mode = v->mode != NO_ID ? (uint32_t)v->mode : 0u,
    };
    if (!m.setattr.what)
        return sg_fail(err, SG_INVALID, "nothing is to be changed: uid, gid or mode");
    return ask(v, s, &m, changed, err);
}

static void usual_owner(struct visit *v)
{
    v->uid = v->uid == NO_ID ? USUAL_ID : v->uid;
    v->gid = v->gid == NO_ID ? USUAL_ID : v->gid;
}

/* ---- PATCH: what is not asked for stays ---- */

static void looked(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct visit *v = arg;
    const struct sg_msg_stated *m = stated_of(p);
    struct sg_err own;
    if (!m) {
        if (!err)
            (void)sg_fail(&own, SG_UNAVAILABLE, "the volume gave no answer");
        fail(v, err ? err : &own);
        return;
    }
    if (v->uid != NO_ID || v->gid != NO_ID) {
        v->uid = v->uid == NO_ID ? m->uid : v->uid;
        v->gid = v->gid == NO_ID ? m->gid : v->gid;
    }
    go_on(v, set_attributes);
}

static int look(struct visit *v, struct sg_sandbox *s, struct sg_err *err)
{
    struct sg_msg m = { .type = SG_MSG_STAT };
    m.stat = (struct sg_msg_path) { sg_text_of("root"), sg_text_of(v->path), 0 };
    return ask(v, s, &m, looked, err);
}

int sg_e2b_volume_change(struct sg_call *c, struct sg_err *err)
{
    const struct sg_jval *body;
    struct visit *v = enter(c, err);
    if (!v || sg_call_json(c, &body, err) < 0)
        return -1;
    v->uid = sg_e2b_u64(body, "uid", NO_ID);
    v->gid = sg_e2b_u64(body, "gid", NO_ID);
    v->mode = sg_e2b_u64(body, "mode", NO_ID);
    if ((v->uid != NO_ID && v->uid > UINT16_MAX) || (v->gid != NO_ID && v->gid > UINT16_MAX) ||
        (v->mode != NO_ID && v->mode > 07777))
        return sg_fail(err, SG_INVALID, "ids are 0 to 65535, a mode is 0 to 4095");
    v->status = 200;
    return again(v, look, err);
}

/* ---- directories ---- */

static int take_away(struct visit *v, struct sg_sandbox *s, struct sg_err *err)
{
    struct sg_msg m = { .type = SG_MSG_REMOVE };
    m.remove =
        (struct sg_msg_path) { sg_text_of("root"), sg_text_of(v->path), SG_REMOVE_RECURSIVE };
    return ask(v, s, &m, changed, err);
}

int sg_e2b_volume_remove_path(struct sg_call *c, struct sg_err *err)
{
    struct visit *v = enter(c, err);
    if (!v)
        return -1;
    v->status = 204;
    return again(v, take_away, err);
}

static void dir_made(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct visit *v = arg;
    (void)p;
    if (err)
        fail(v, err);
    else
        go_on(v, set_attributes);
}

static int make_dir(struct visit *v, struct sg_sandbox *s, struct sg_err *err)
{
    struct sg_msg m = { .type = SG_MSG_MAKE };
    m.make = (struct sg_msg_make) { sg_text_of("root"), sg_text_of(v->path),
                                    v->force ? SG_MAKE_PARENTS : 0u, (uint32_t)v->mode };
    return ask(v, s, &m, dir_made, err);
}

int sg_e2b_volume_make_dir(struct sg_call *c, struct sg_err *err)
{
    struct visit *v = enter(c, err);
    if (!v)
        return -1;
    v->status = 201;
    v->mode = v->mode == NO_ID ? MODE_DIR : v->mode;
    usual_owner(v);
    return again(v, make_dir, err);
}

/* ---- list ---- */

struct todo {
    const char *path;
    unsigned depth;
    struct todo *next;
};

struct listing {
    struct visit *visit;
    struct todo *first, **last;
    uint64_t cursor, depth;
    unsigned entries;
    struct sg_buf out;
    struct sg_json j;
};

static int next_page(struct visit *v, struct sg_sandbox *s, struct sg_err *err);

static int put_todo(struct listing *l, const char *dir, struct sg_text name, unsigned depth)
{
    struct sg_arena *a = &l->visit->call->arena;
    const size_t n = strlen(dir);
    const bool has_slash = n && dir[n - 1] == '/';
    struct todo *t = sg_arena_alloc(a, sizeof *t);
    char *path = sg_arena_alloc(a, n + name.n + 2);
    if (!t || !path)
        return -1;
    (void)snprintf(path, n + name.n + 2, "%s%s%.*s", dir, has_slash || !name.n ? "" : "/",
                   (int)name.n, name.p);
    *t = (struct todo) { .path = path, .depth = depth };
    *l->last = t;
    l->last = &t->next;
    return 0;
}

static int put_page(struct listing *l, const struct sg_msg_listed *m, struct sg_err *err)
{
    struct sg_bytes rest = m->entries;
    struct sg_entry e;
    bool is_bad = false;
    const struct todo *dir = l->first;
    while (sg_entry_next(&rest, &e, &is_bad)) {
        struct todo **mark = l->last;
        if (++l->entries > ENTRIES_MAX || put_todo(l, dir->path, e.name, dir->depth + 1) < 0)
            return sg_fail(err, SG_EXHAUSTED, "the list is too long");
        put_stat(&l->j, (*mark)->path, e.mode, e.bytes, e.uid, e.gid, e.mtime_ns,
                 (struct sg_text) { "", 0 });
        if (!S_ISDIR(e.mode) || dir->depth + 1 >= l->depth) { /* nothing to go into */
            *mark = NULL;
            l->last = mark;
        }
    }
    if (is_bad)
        return sg_fail(err, SG_UNAVAILABLE, "the volume's answer makes no sense");
    return sg_buf_check(&l->out, "the list", err);
}

static void listed(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct visit *v = arg;
    struct listing *l = v->call->state;
    struct sg_err own;
    if (!err && p->msg.type != SG_MSG_LISTED)
        err = (sg_fail(&own, SG_UNAVAILABLE, "the volume gave no answer"), &own);
    if (!err && put_page(l, &p->msg.listed, &own) < 0)
        err = &own;
    if (!err) {
        l->cursor = p->msg.listed.next;
        if (!l->cursor)
            l->first = l->first->next;
        if (l->first) { /* who fails from here on answers himself */
            go_on(v, next_page);
            return;
        }
    }
    if (err) {
        fail(v, err);
    } else {
        sg_json_close(&l->j, ']');
        sg_reply_json(v->call, 200, &l->out);
        sg_buf_done(&l->out);
    }
}

static int next_page(struct visit *v, struct sg_sandbox *s, struct sg_err *err)
{
    const struct listing *l = v->call->state;
    struct sg_msg m = { .type = SG_MSG_LIST };
    m.list = (struct sg_msg_list) { sg_text_of("root"), sg_text_of(l->first->path), l->cursor };
    return ask(v, s, &m, listed, err);
}

int sg_e2b_volume_list_dir(struct sg_call *c, struct sg_err *err)
{
    struct visit *v = enter(c, err);
    struct listing *l = v ? sg_arena_alloc(&c->arena, sizeof *l) : NULL;
    uint64_t depth = 1;
    if (!v || sg_call_query_u64(c, "depth", 1, DEPTH_MAX, &depth, err) < 0)
        return -1;
    if (!l)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    *l = (struct listing) { .visit = v, .depth = depth };
    l->last = &l->first;
    if (put_todo(l, absolute(v), (struct sg_text) { "", 0 }, 0) < 0)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    sg_buf_init(&l->out, SG_E2B_MAX_REPLY);
    sg_json_init(&l->j, &l->out);
    sg_json_open(&l->j, '[');
    c->state = l;
    v->out = &l->out;
    if (again(v, next_page, err) == 0)
        return 0;
    sg_buf_done(&l->out);
    return -1;
}

/* ---- read ---- */

static void opened(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct visit *v = arg;
    struct sg_err own;
    struct stat st;
    if (err) {
        fail(v, err);
        return;
    }
    sg_auto_fd fd = sg_packet_take_fd(p, 0);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        (void)sg_fail(&own, SG_INVALID, "the path is no regular file");
        fail(v, &own);
        return;
    }
    sg_reply_file(v->call, 200, "application/octet-stream", sg_take_fd(&fd), 0,
                  (uint64_t)st.st_size);
}

static int open_file(struct visit *v, struct sg_sandbox *s, struct sg_err *err)
{
    struct sg_msg m = { .type = SG_MSG_OPEN };
    m.open = (struct sg_msg_open) { sg_text_of("root"), sg_text_of(v->path), O_RDONLY, 0 };
    return ask(v, s, &m, opened, err);
}

int sg_e2b_volume_read(struct sg_call *c, struct sg_err *err)
{
    struct visit *v = enter(c, err);
    return v ? again(v, open_file, err) : -1;
}

/* ---- write ---- */

static void written(struct sg_body_file *f, const struct sg_err *err)
{
    struct visit *v = SG_OWNER(f, struct visit, upload);
    if (err)
        fail(v, err);
    else
        go_on(v, set_attributes);
}

/* Our sandbox does not end while something comes. */
static void stay(struct sg_body_file *f)
{
    struct visit *v = SG_OWNER(f, struct visit, upload);
    struct sg_call *c = v->call;
    struct sg_volume *volume = sg_volume_find(c->manager, &c->who, v->volume, NULL);
    if (volume)
        sg_volume_touch(c->manager, volume);
}

static int open_write(struct visit *v, struct sg_sandbox *s, struct sg_err *err)
{
    const struct sg_file_spec f = { .user = "root",
                                    .path = v->path,
                                    .flags = v->force ? SG_WRITE_PARENTS : 0u,
                                    .mode = (uint32_t)v->mode };
    v->upload = (struct sg_body_file) { .call = v->call, .moved = stay, .done = written };
    return sg_body_file_begin(&v->upload, s, &f, err);
}

int sg_e2b_volume_write(struct sg_call *c, struct sg_err *err)
{
    struct visit *v = enter(c, err);
    if (!v)
        return -1;
    v->status = 201;
    v->mode = v->mode == NO_ID ? MODE_FILE : v->mode;
    usual_owner(v);
    sg_call_pause_body(c, true); /* until the volume can be reached */
    return again(v, open_write, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Files: one question to init each. Bytes that stream are in transfer.c and tar.c. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "api/rest/rest.h"
#include "base/auto.h"
#include "ctl/entry.h"
#include "manager/files.h"
#include "base/banned.h"

enum { MODE_DIR = 0755, LIST_MAX = 32 << 20, PAGES_MAX = 10000 };

static const char *type_name(uint32_t mode)
{
    static const struct {
        mode_t type;
        const char *name;
    } types[] = { { S_IFREG, "file" },  { S_IFDIR, "directory" }, { S_IFLNK, "symlink" },
                  { S_IFIFO, "fifo" },  { S_IFSOCK, "socket" },   { S_IFCHR, "device" },
                  { S_IFBLK, "device" } };
    for (size_t i = 0; i < SG_COUNT(types); i++)
        if ((mode & S_IFMT) == types[i].type)
            return types[i].name;
    return "unknown";
}

static void put_common(struct sg_json *j, uint32_t mode, uint64_t bytes, uint64_t mtime_ns,
                       uint32_t uid, uint32_t gid)
{
    char octal[8];
    (void)snprintf(octal, sizeof octal, "%04o", mode & 07777u);
    sg_json_key(j, "type");
    sg_json_str(j, type_name(mode));
    sg_json_key(j, "mode");
    sg_json_str(j, octal);
    sg_json_key(j, "bytes");
    sg_json_u64(j, bytes);
    sg_json_key(j, "uid");
    sg_json_u64(j, uid);
    sg_json_key(j, "gid");
    sg_json_u64(j, gid);
    sg_rest_put_time(j, "modifiedAt", (int64_t)(mtime_ns / 1000000));
}

/* The user of the query, or the sandbox's own. */
static struct sg_text user_of(struct sg_call *c)
{
    const char *user = sg_call_query(c, "user");
    return sg_text_of(user ? user : "");
}

/* ---- stat ---- */

static void stated(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_call *c = arg;
    struct sg_err own;
    if (p && p->msg.type != SG_MSG_STATED)
        err = (sg_fail(&own, SG_UNAVAILABLE, "the sandbox gave no answer"), &own), p = NULL;
    if (!p) {
        sg_reply_error(c, err);
        return;
    }
    const struct sg_msg_stated *m = &p->msg.stated;
    sg_auto_buf out;
    sg_buf_init(&out, 64 << 10);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    put_common(&j, m->mode, m->bytes, m->mtime_ns, m->uid, m->gid);
    sg_json_key(&j, "owner");
    sg_json_str(&j, m->owner.p);
    sg_json_key(&j, "group");
    sg_json_str(&j, m->group.p);
    sg_json_key(&j, "links");
    sg_json_u64(&j, m->nlink);
    if (m->target.n) {
        sg_json_key(&j, "target");
        sg_json_text(&j, (struct sg_str) { m->target.p, m->target.n });
    }
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
}

int sg_rest_file_stat(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "path", "user", "follow", NULL };
    bool follows = true;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    const char *path = s ? sg_rest_path(c, err) : NULL;
    if (!path || sg_call_query_only(c, known, err) < 0 ||
        sg_call_query_bool(c, "follow", &follows, err) < 0)
        return -1;
    struct sg_msg m = { .type = SG_MSG_STAT };
    m.stat = (struct sg_msg_path) { user_of(c), sg_text_of(path), follows ? 0 : SG_STAT_NOFOLLOW };
    return sg_files_ask(s, &c->who, &m, NULL, 0, stated, c, err);
}

/* ---- list: page after page into one reply ---- */

struct listing {
    struct sg_call *call;
    const char *path;
    struct sg_buf out;
    struct sg_json j;
    uint64_t cursor;
    unsigned pages;
};

static int next_page(struct listing *l, struct sg_err *err);

static void fail_listing(struct listing *l, const struct sg_err *err)
{
    struct sg_call *c = l->call;
    sg_buf_done(&l->out);
    sg_reply_error(c, err);
}

static int put_page(struct listing *l, const struct sg_msg_listed *m, struct sg_err *err)
{
    struct sg_bytes rest = m->entries;
    struct sg_entry e;
    bool is_bad = false;
    while (sg_entry_next(&rest, &e, &is_bad)) {
        sg_json_open(&l->j, '{');
        sg_json_key(&l->j, "name");
        sg_json_text(&l->j, (struct sg_str) { e.name.p, e.name.n });
        put_common(&l->j, e.mode, e.bytes, e.mtime_ns, e.uid, e.gid);
        sg_json_close(&l->j, '}');
    }
    if (is_bad)
        return sg_fail(err, SG_UNAVAILABLE, "the sandbox's answer makes no sense");
    return sg_buf_check(&l->out, "the list", err);
}

static void listed(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct listing *l = arg;
    struct sg_err own;
    if (!p) {
        fail_listing(l, err);
        return;
    }
    if (p->msg.type != SG_MSG_LISTED || put_page(l, &p->msg.listed, &own) < 0) {
        if (p->msg.type != SG_MSG_LISTED)
            (void)sg_fail(&own, SG_UNAVAILABLE, "the sandbox gave no answer");
        fail_listing(l, &own);
        return;
    }
    l->cursor = p->msg.listed.next;
    if (l->cursor) {
        if (next_page(l, &own) < 0)
            fail_listing(l, &own);
        return;
    }
    sg_json_close(&l->j, ']');
    sg_json_close(&l->j, '}');
    sg_reply_json(l->call, 200, &l->out);
    sg_buf_done(&l->out);
}

/* The sandbox is looked up for each page: it may have ended in between. */
static int next_page(struct listing *l, struct sg_err *err)
{
    struct sg_call *c = l->call;
    if (++l->pages > PAGES_MAX)
        return sg_fail(err, SG_EXHAUSTED, "the list has more than %d pages", PAGES_MAX);
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    if (!s)
        return -1;
    struct sg_msg m = { .type = SG_MSG_LIST };
    m.list = (struct sg_msg_list) { user_of(c), sg_text_of(l->path), l->cursor };
    return sg_files_ask(s, &c->who, &m, NULL, 0, listed, l, err);
}

int sg_rest_file_list(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "path", "user", NULL };
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    const char *path = s ? sg_rest_path(c, err) : NULL;
    struct listing *l = sg_arena_alloc(&c->arena, sizeof *l);
    if (!path || sg_call_query_only(c, known, err) < 0)
        return -1;
    if (!l)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    *l = (struct listing) { .call = c, .path = path };
    sg_buf_init(&l->out, LIST_MAX);
    sg_json_init(&l->j, &l->out);
    sg_json_open(&l->j, '{');
    sg_json_key(&l->j, "entries");
    sg_json_open(&l->j, '[');
    if (next_page(l, err) < 0) {
        sg_buf_done(&l->out);
        return -1;
    }
    return 0;
}

/* ---- changes ---- */

static void settled(struct sg_call *c, const struct sg_err *err)
{
    sg_rest_reply_done(c, err);
}

static void changed(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    if (p)
        sg_rest_settle(arg, settled);
    else
        sg_reply_error(arg, err);
}

static int ask(struct sg_call *c, struct sg_sandbox *s, struct sg_msg *m, struct sg_err *err)
{
    return sg_files_ask(s, &c->who, m, NULL, 0, changed, c, err);
}

struct path_body {
    const char *path, *from, *to, *mode, *owner, *user, *to_sandbox, *to_path;
    bool parents, replace;
};
#define FIELD(key, type, member, required)                                                         \
    {                                                                                              \
        key, type, offsetof(struct path_body, member), 0, 0, required                              \
    }
static const struct sg_jfield mkdir_fields[] = {
    FIELD("path", SG_JT_STRING, path, true),
    FIELD("parents", SG_JT_BOOL, parents, false),
    FIELD("mode", SG_JT_STRING, mode, false),
    FIELD("user", SG_JT_STRING, user, false),
};
static const struct sg_jfield move_fields[] = {
    FIELD("from", SG_JT_STRING, from, true),
    FIELD("to", SG_JT_STRING, to, true),
    FIELD("replace", SG_JT_BOOL, replace, false),
    FIELD("user", SG_JT_STRING, user, false),
};
static const struct sg_jfield chmod_fields[] = {
    FIELD("path", SG_JT_STRING, path, true),
    FIELD("mode", SG_JT_STRING, mode, false),
    FIELD("owner", SG_JT_STRING, owner, false),
    FIELD("user", SG_JT_STRING, user, false),
};
static const struct sg_jfield copy_fields[] = {
    FIELD("path", SG_JT_STRING, path, true),
    FIELD("toSandbox", SG_JT_STRING, to_sandbox, true),
    FIELD("toPath", SG_JT_STRING, to_path, true),
};

static int read_body(struct sg_call *c, const struct sg_jfield *fields, size_t n,
                     struct path_body *b, struct sg_err *err)
{
    const struct sg_jval *body;
    *b = (struct path_body) { .replace = true };
    if (sg_call_json(c, &body, err) < 0)
        return -1;
    return sg_json_read(body, fields, n, b, err);
}

static struct sg_text text_or_empty(const char *s)
{
    return sg_text_of(s ? s : "");
}

int sg_rest_file_mkdir(struct sg_call *c, struct sg_err *err)
{
    struct path_body b;
    uint32_t mode = MODE_DIR;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    if (!s || read_body(c, mkdir_fields, SG_COUNT(mkdir_fields), &b, err) < 0 ||
        (b.mode && sg_rest_mode(b.mode, &mode, err) < 0))
        return -1;
    struct sg_msg m = { .type = SG_MSG_MAKE };
    m.make = (struct sg_msg_make) { text_or_empty(b.user), sg_text_of(b.path),
                                    b.parents ? SG_MAKE_PARENTS : 0, mode };
    return ask(c, s, &m, err);
}

int sg_rest_file_move(struct sg_call *c, struct sg_err *err)
{
    struct path_body b;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    if (!s || read_body(c, move_fields, SG_COUNT(move_fields), &b, err) < 0)
        return -1;
    struct sg_msg m = { .type = SG_MSG_MOVE };
    m.move = (struct sg_msg_move) { text_or_empty(b.user), sg_text_of(b.from), sg_text_of(b.to),
                                    b.replace ? 0 : SG_MOVE_NOREPLACE };
    return ask(c, s, &m, err);
}

int sg_rest_file_chmod(struct sg_call *c, struct sg_err *err)
{
    struct path_body b;
    uint32_t mode = 0;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    if (!s || read_body(c, chmod_fields, SG_COUNT(chmod_fields), &b, err) < 0 ||
        (b.mode && sg_rest_mode(b.mode, &mode, err) < 0))
        return -1;
    if (!b.mode && !b.owner)
        return sg_fail(err, SG_INVALID, "mode or owner is needed");
    struct sg_msg m = { .type = SG_MSG_SETATTR };
    m.setattr = (struct sg_msg_setattr) { .user = text_or_empty(b.user),
                                          .path = sg_text_of(b.path),
                                          .owner = text_or_empty(b.owner),
                                          .what = (b.mode ? SG_SETATTR_MODE : 0u) |
                                                  (b.owner ? SG_SETATTR_OWNER : 0u),
                                          .mode = mode };
    return ask(c, s, &m, err);
}

int sg_rest_file_copy(struct sg_call *c, struct sg_err *err)
{
    struct path_body b;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    if (!s || read_body(c, copy_fields, SG_COUNT(copy_fields), &b, err) < 0)
        return -1;
    struct sg_sandbox *to = sg_manager_find(c->manager, &c->who, b.to_sandbox, err);
    if (!to)
        return -1;
    return sg_files_copy(s, b.path, to, b.to_path, &c->who, sg_rest_reply_done, c, err);
}

int sg_rest_file_delete(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "path", "user", "recursive", NULL };
    bool is_recursive = false;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    const char *path = s ? sg_rest_path(c, err) : NULL;
    if (!path || sg_call_query_only(c, known, err) < 0 ||
        sg_call_query_bool(c, "recursive", &is_recursive, err) < 0)
        return -1;
    struct sg_msg m = { .type = SG_MSG_REMOVE };
    m.remove = (struct sg_msg_path) { user_of(c), sg_text_of(path),
                                      is_recursive ? SG_REMOVE_RECURSIVE : 0 };
    return ask(c, s, &m, err);
}

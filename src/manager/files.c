/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about files: the rules, the default user, and what becomes of the answers. */
#include "manager/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/auto.h"
#include "base/json.h"
#include "manager/files_internal.h"
#include "tier/peer.h"
#include "base/banned.h"

struct sg_files_ask {
    struct sg_files_ask *next, **link;
    struct sg_sandbox *s;
    enum sg_msg_type type;
    sg_files_cb *cb;
    void *arg;
};

struct sg_files_set *sg_files_set(struct sg_sandbox *s)
{
    if (!s->files_impl)
        s->files_impl = sg_new(struct sg_files_set);
    return s->files_impl;
}

/* ---- what comes out ---- */

/* File systems that answer when somebody else does: a read there would hold up the loop. Nothing
 * inside can mount one, but a descriptor can come from anywhere. */
static bool can_wait(int fd)
{
    static const uint32_t magics[] = { 0x65735546 /* fuse */, 0x6969 /* nfs */,
                                       0x517b /* smb */,      0xff534d42 /* cifs */,
                                       0xfe534d42 /* smb2 */, 0x01021997 /* 9p */ };
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0)
        return true;
    for (size_t i = 0; i < SG_COUNT(magics); i++)
        if ((uint32_t)fs.f_type == magics[i])
            return true;
    return false;
}

/* A directory passes, since a path may turn out to be one: the asker's business. */
/* A copy that nobody changes any more: what comes over a channel (mux/mux.h). */
static bool is_sealed(int fd)
{
    const int wanted = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
    const int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & wanted) == wanted;
}

static bool is_readable_file(int fd)
{
    struct stat st;
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || flags & O_PATH || fstat(fd, &st) < 0 ||
        ((flags & O_ACCMODE) != O_RDONLY && !is_sealed(fd)))
        return false;
    return S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && !can_wait(fd));
}

static bool is_socket(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* ---- what may be asked ---- */

/* In a volume: as who runs commands in a sandbox does. */
#define USUAL_OF_VOLUMES "1000:1000"
enum { DETAIL_MAX = 16 << 10, SHOWN_BYTES = 512 }; /* a byte may become six in JSON */
enum { READING = O_RDONLY | O_DIRECTORY | O_NOFOLLOW };

/* A row a request: where its texts are, what it needs, what the audit calls it (NULL: it changes
 * nothing and is not recorded). */
static const struct rule {
    unsigned scope;
    const char *action;
    uint16_t user_at, path_at, to_at;
    bool (*is_wanted)(int fd); /* the descriptor in the answer; NULL: none is expected */
} rules[SG_MSG_TYPE_COUNT] = {
#define AT(f) offsetof(struct sg_msg, f)
    [SG_MSG_OPEN] = { SG_SCOPE_READ, NULL, AT(open.user), AT(open.path), 0, is_readable_file },
    [SG_MSG_STAT] = { SG_SCOPE_READ, NULL, AT(stat.user), AT(stat.path), 0, NULL },
    [SG_MSG_LIST] = { SG_SCOPE_READ, NULL, AT(list.user), AT(list.path), 0, NULL },
    [SG_MSG_FIND] = { SG_SCOPE_READ, NULL, AT(find.user), AT(find.path), 0, NULL },
    [SG_MSG_TAR_OUT] = { SG_SCOPE_READ, NULL, AT(tar.user), AT(tar.path), 0, NULL },
    [SG_MSG_WRITE] = { 0, NULL, AT(write.user), AT(write.path), 0, NULL }, /* files_write.c */
    [SG_MSG_TAR_IN] = { SG_SCOPE_EXEC, "file.unpack", AT(tar.user), AT(tar.path), 0, NULL },
    [SG_MSG_PUT] = { SG_SCOPE_EXEC, "file.unpack", AT(put.user), AT(put.path), 0, NULL },
    [SG_MSG_MAKE] = { SG_SCOPE_EXEC, "file.make", AT(make.user), AT(make.path), 0, NULL },
    [SG_MSG_MOVE] = { SG_SCOPE_EXEC, "file.move", AT(move.user), AT(move.from), AT(move.to), NULL },
    [SG_MSG_REMOVE] = { SG_SCOPE_EXEC, "file.remove", AT(remove.user), AT(remove.path), 0, NULL },
    [SG_MSG_SETATTR] = { SG_SCOPE_EXEC, "file.chmod", AT(setattr.user), AT(setattr.path), 0, NULL },
    [SG_MSG_WATCH] = { SG_SCOPE_READ, NULL, AT(watch.user), AT(watch.path), 0, NULL },
    [SG_MSG_DIAL] = { SG_SCOPE_EXEC, "port.dial", AT(dial.user), AT(dial.path), 0, is_socket },
#undef AT
};

static struct sg_text *text_at(struct sg_msg *m, uint16_t offset)
{
    return (struct sg_text *)(void *)((char *)m + offset);
}

/* The record is for ever: what a caller may choose freely is cut, and its length told. */
static void put_shown(struct sg_json *j, const char *key, const char *path)
{
    const size_t n = strlen(path);
    sg_json_key(j, key);
    sg_json_text(j, (struct sg_str) { path, n < SHOWN_BYTES ? n : SHOWN_BYTES });
    if (n <= SHOWN_BYTES)
        return;
    char length[16];
    (void)snprintf(length, sizeof length, "%sBytes", key);
    sg_json_key(j, length);
    sg_json_u64(j, n);
}

static void audit(struct sg_sandbox *s, const struct sg_who *who, const char *action,
                  const char *path, const char *to)
{
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, DETAIL_MAX);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    put_shown(&j, "path", path);
    if (to)
        put_shown(&j, "to", to);
    sg_json_close(&j, '}');
    sg_manager_audit(s->manager, who, action, s, sg_buf_cstr(&out));
}

int sg_files_permit(struct sg_sandbox *s, const struct sg_who *who, unsigned scope,
                    const char *action, const char *path, const char *to, struct sg_err *err)
{
    if (sg_tenant_demand(who, scope, err) < 0)
        return sg_manager_denied(s->manager, who, action ? action : "file.read", s, err);
    if (sg_sandbox_demand_running(s, err) < 0)
        return -1;
    sg_sandbox_touch(s);
    if (action)
        audit(s, who, action, path, to);
    return 0;
}

static const char *user_of(const struct sg_sandbox *s, bool is_reading)
{
    if (!s->is_internal)
        return s->user;
    return is_reading ? "root" : USUAL_OF_VOLUMES;
}

/* ---- the question ---- */

static int check_answer(const struct sg_files_ask *a, const struct sg_packet *p, struct sg_err *err)
{
    bool (*const is_wanted)(int fd) = rules[a->type].is_wanted;
    if (p->msg.type == SG_MSG_LISTED && p->msg.listed.next && !p->msg.listed.entries.n)
        return sg_fail(err, SG_UNAVAILABLE, "init sent a page of a list with nothing in it");
    if (is_wanted && (!p->fd_count || !is_wanted(p->fds[0])))
        return sg_fail(err, SG_UNAVAILABLE, "init sent something else than was asked for");
    return 0;
}

static void unlink_ask(struct sg_files_ask *a)
{
    *a->link = a->next;
    if (a->next)
        a->next->link = a->link;
}

/* It is out of the list. */
static void close_ask(struct sg_files_ask *a, struct sg_packet *p, const struct sg_err *err)
{
    sg_sandbox_work_end(a->s);
    a->cb(a->arg, p, err);
    free(a);
}

static void answered(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_files_ask *a = arg;
    struct sg_err own;
    unlink_ask(a);
    if (p && check_answer(a, p, &own) < 0)
        close_ask(a, NULL, &own);
    else
        close_ask(a, p, err);
}

int sg_files_send(struct sg_sandbox *s, struct sg_msg *m, const int *fds, unsigned fd_count,
                  sg_files_cb *cb, void *arg, struct sg_err *err)
{
    struct sg_text *user = text_at(m, rules[m->type].user_at);
    const char *usual = user_of(s, rules[m->type].scope == SG_SCOPE_READ);
    if (!user->n && usual)
        *user = sg_text_of(usual);
    if (sg_sandbox_demand_running(s, err) < 0)
        return -1;
    struct sg_files_set *set = sg_files_set(s);
    struct sg_files_ask *a = sg_new(struct sg_files_ask);
    *a = (struct sg_files_ask) { .s = s, .type = m->type, .cb = cb, .arg = arg };
    if (sg_peer_ask(s->peer, m, fds, fd_count, answered, a, err) < 0) {
        free(a);
        return -1;
    }
    a->next = set->asks;
    a->link = &set->asks;
    if (a->next)
        a->next->link = &a->next;
    set->asks = a;
    sg_sandbox_work_begin(s);
    return 0;
}

int sg_files_ask(struct sg_sandbox *s, const struct sg_who *who, struct sg_msg *m, const int *fds,
                 unsigned fd_count, sg_files_cb *cb, void *arg, struct sg_err *err)
{
    const struct rule *r = &rules[m->type];
    if (!r->scope)
        return sg_fail(err, SG_INTERNAL, "%s is no question about files",
                       sg_msg_table[m->type].name);
    if (m->type == SG_MSG_OPEN && m->open.flags & ~(uint32_t)READING)
        return sg_fail(err, SG_INTERNAL, "files are opened for reading only");
    if (sg_files_permit(s, who, r->scope, r->action, text_at(m, r->path_at)->p,
                        r->to_at ? text_at(m, r->to_at)->p : NULL, err) < 0)
        return -1;
    return sg_files_send(s, m, fds, fd_count, cb, arg, err);
}

/* ---- small things ---- */

#define BESIDE ".sandglass-"

char *sg_files_beside(const char *path)
{
    struct sg_id id = sg_id_new('f');
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    while (n && path[n - 1] != '/')
        n--;
    return sg_printf("%.*s" BESIDE "%s", (int)n, path, id.s);
}

struct sg_err sg_files_renamed(const struct sg_err *err, const char *path)
{
    struct sg_err ret = *err;
    if (err->sys && strstr(err->msg, BESIDE)) {
        errno = err->sys;
        (void)sg_fail_sys(&ret, "write %s", sg_quote(path).s);
        ret.kind = err->kind;
    }
    return ret;
}

void sg_files_tidy(struct sg_sandbox *s, const char *user, const char *path)
{
    const char *usual = user_of(s, false);
    struct sg_msg m = { .type = SG_MSG_REMOVE,
                        .remove = { sg_text_of(*user || !usual ? user : usual), sg_text_of(path),
                                    SG_REMOVE_RECURSIVE } };
    struct sg_err err;
    if (s->peer)
        (void)sg_peer_ask(s->peer, &m, NULL, 0, NULL, NULL, &err);
}

/* ---- hooks ---- */

void sg_files_sandbox_ended(struct sg_sandbox *s)
{
    sg_watches_end(s);
}

void sg_files_forget(struct sg_sandbox *s, bool is_manager_ending)
{
    struct sg_files_set *set = s->files_impl;
    struct sg_err err;
    if (!set)
        return;
    (void)sg_fail(&err, SG_UNAVAILABLE, "%s",
                  is_manager_ending ? "the service is stopping" : "the sandbox is gone");
    for (struct sg_files_ask *a; (a = set->asks);) {
        set->asks = a->next;
        if (a->next)
            a->next->link = &set->asks;
        close_ask(a, NULL, &err);
    }
    sg_watches_end(s);
    free(set);
    s->files_impl = NULL;
}

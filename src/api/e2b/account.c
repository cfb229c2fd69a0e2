/* SPDX-License-Identifier: Apache-2.0 */
/* Users and groups of a sandbox, from its own /etc/passwd and /etc/group. Both are the sandbox's
 * to write, so they decide nothing: they give names to numbers and homes to names. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "api/e2b/e2b.h"
#include "base/auto.h"
#include "base/parse.h"
#include "manager/files.h"
#include "base/banned.h"

enum { FILE_MAX = 256 << 10 };

struct reading {
    struct sg_call *call;
    sg_e2b_accounts_cb *go;
    struct sg_e2b_accounts accounts;
    bool has_passwd;
};

static int ask(struct reading *r, struct sg_sandbox *s, struct sg_err *err);

/* What cannot be read is empty. */
static struct sg_str content(struct sg_call *c, struct sg_packet *p)
{
    sg_auto_fd fd = p ? sg_packet_take_fd(p, 0) : -1;
    char *to = fd >= 0 ? sg_arena_alloc(&c->arena, FILE_MAX) : NULL;
    ssize_t n = to ? pread(fd, to, FILE_MAX, 0) : 0;
    return (struct sg_str) { to ? to : "", n > 0 ? (size_t)n : 0 };
}

static void opened(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct reading *r = arg;
    struct sg_call *c = r->call;
    struct sg_err own = { 0 };
    if (!p && err->kind == SG_UNAVAILABLE) {
        sg_reply_error(c, err);
        return;
    }
    *(r->has_passwd ? &r->accounts.group : &r->accounts.passwd) = content(c, p);
    int result;
    if (r->has_passwd) {
        result = r->go(c, &r->accounts, &own);
    } else {
        r->has_passwd = true;
        struct sg_sandbox *s = sg_e2b_visited(c, &own);
        result = s ? ask(r, s, &own) : -1;
    }
    if (result < 0)
        sg_reply_error(c, &own);
}

static int ask(struct reading *r, struct sg_sandbox *s, struct sg_err *err)
{
    struct sg_msg m = { .type = SG_MSG_OPEN };
    m.open = (struct sg_msg_open) { sg_text_of(""),
                                    sg_text_of(r->has_passwd ? "/etc/group" : "/etc/passwd"),
                                    O_RDONLY, 0 };
    return sg_files_ask(s, &r->call->who, &m, NULL, 0, opened, r, err);
}

int sg_e2b_read_accounts(struct sg_call *c, struct sg_sandbox *s, sg_e2b_accounts_cb *go,
                         struct sg_err *err)
{
    struct reading *r = sg_arena_alloc(&c->arena, sizeof *r);
    if (!r)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    *r = (struct reading) { .call = c, .go = go };
    return ask(r, s, err);
}

/* ---- looking things up: name:x:id:...:home:shell ---- */

enum { FIELDS = 7, NAME = 0, ID = 2, HOME = 5 };

static bool next_line(struct sg_str *file, struct sg_str f[FIELDS])
{
    if (!file->n)
        return false;
    const char *end = memchr(file->p, '\n', file->n);
    struct sg_str line = { file->p, end ? (size_t)(end - file->p) : file->n };
    size_t taken = line.n + (end ? 1 : 0);
    file->p += taken;
    file->n -= taken;
    for (unsigned i = 0; i < FIELDS; i++) {
        const char *colon = line.n ? memchr(line.p, ':', line.n) : NULL;
        f[i] = (struct sg_str) { line.p, colon ? (size_t)(colon - line.p) : line.n };
        line.p += f[i].n + (colon ? 1 : 0);
        line.n -= f[i].n + (colon ? 1 : 0);
    }
    return true;
}

const char *sg_e2b_home_of(struct sg_call *c, const struct sg_e2b_accounts *a, const char *user)
{
    struct sg_str file = a->passwd, f[FIELDS];
    while (next_line(&file, f))
        if (sg_str_is(f[NAME], user))
            return sg_arena_copy(&c->arena, f[HOME].p, f[HOME].n);
    return strcmp(user, "root") == 0 ? "/root" : NULL; /* who is there without an account, too */
}

const char *sg_e2b_name_of(struct sg_call *c, struct sg_str file, uint32_t id)
{
    struct sg_str f[FIELDS];
    uint64_t number;
    while (next_line(&file, f))
        if (f[NAME].n && sg_parse_u64(f[ID], 0, UINT32_MAX, &number, NULL) == 0 && number == id)
            return sg_arena_copy(&c->arena, f[NAME].p, f[NAME].n);
    return sg_arena_printf(&c->arena, "%u", (unsigned)id);
}

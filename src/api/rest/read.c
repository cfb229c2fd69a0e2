/* SPDX-License-Identifier: Apache-2.0 */
/* What requests have in common: names, pairs, limits, times. */
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "api/rest/rest.h"
#include "base/auto.h"
#include "base/parse.h"
#include "manager/volume.h"
#include "base/banned.h"

struct sg_sandbox *sg_rest_sandbox(struct sg_call *c, struct sg_err *err)
{
    const char *volume = sg_call_param(c, "volume");
    if (*volume)
        return sg_volume_visitor(c->manager, &c->who, volume, err);
    return sg_manager_find(c->manager, &c->who, sg_call_param(c, "id"), err);
}

struct sg_exec *sg_rest_exec(struct sg_call *c, struct sg_err *err)
{
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    return s ? sg_exec_find(s, sg_call_param(c, "exec"), err) : NULL;
}

int sg_rest_limits(const struct sg_jval *v, struct sg_sandbox_limits *ret, struct sg_err *err)
{
#define AT(f) offsetof(struct sg_sandbox_limits, f)
    static const struct sg_jfield fields[] = {
        { "memoryBytes", SG_JT_U64, AT(mem_bytes), 1, UINT64_MAX, false },
        { "cpus", SG_JT_MILLI, AT(cpu_milli), 1, UINT64_MAX, false },
        { "pids", SG_JT_U64, AT(pids), 1, UINT64_MAX, false },
        { "diskBytes", SG_JT_U64, AT(disk_bytes), 1, UINT64_MAX, false },
    };
#undef AT
    if (v && sg_json_read(v, fields, SG_COUNT(fields), ret, err) < 0)
        return sg_wrap(err, "limits");
    return 0;
}

int sg_rest_strings(struct sg_call *c, const struct sg_jval *v, const char *what, const char ***ret,
                    struct sg_err *err)
{
    if (!v)
        return 0;
    const char **list = sg_arena_alloc(&c->arena, (v->list.n + 1) * sizeof *list);
    if (!list)
        return sg_fail(err, SG_EXHAUSTED, "%s has too many entries", what);
    size_t n = 0;
    for (const struct sg_jval *m = v->list.first; m; m = m->next) {
        if (m->kind != SG_J_STRING || memchr(m->s.p, 0, m->s.n))
            return sg_fail(err, SG_INVALID, "%s must be strings without NUL", what);
        list[n++] = m->s.p;
    }
    *ret = list;
    return 0;
}

int sg_rest_mode(const char *text, uint32_t *ret, struct sg_err *err)
{
    uint32_t mode = 0;
    const size_t n = strlen(text);
    bool is_good = n >= 1 && n <= 5;
    for (const char *p = text; *p && is_good; p++) {
        is_good = *p >= '0' && *p <= '7';
        mode = mode * 8 + (uint32_t)(*p - '0');
    }
    if (!is_good || mode > 0777)
        return sg_fail(err, SG_INVALID, "mode must be octal, 0 to 0777, not %s", sg_quote(text).s);
    *ret = mode;
    return 0;
}

const char *sg_rest_path(struct sg_call *c, struct sg_err *err)
{
    const char *path = sg_call_query(c, "path");
    if (!path || !*path) {
        (void)sg_fail(err, SG_INVALID, "the query needs path=, a file inside the sandbox");
        return NULL;
    }
    return path;
}

int sg_rest_signal(const char *name, int *ret, struct sg_err *err)
{
    static const struct {
        const char *name;
        int number;
    } known[] = {
        { "HUP", SIGHUP },   { "INT", SIGINT },   { "QUIT", SIGQUIT },   { "KILL", SIGKILL },
        { "USR1", SIGUSR1 }, { "USR2", SIGUSR2 }, { "TERM", SIGTERM },   { "CONT", SIGCONT },
        { "STOP", SIGSTOP }, { "TSTP", SIGTSTP }, { "ABRT", SIGABRT },   { "ALRM", SIGALRM },
        { "PIPE", SIGPIPE }, { "CHLD", SIGCHLD }, { "WINCH", SIGWINCH },
    };
    uint64_t number;
    if (sg_parse_u64(sg_str_of(name), 1, 64, &number, NULL) == 0) {
        *ret = (int)number;
        return 0;
    }
    const char *bare = sg_starts_with(name, "SIG") ? name + 3 : name;
    for (size_t i = 0; i < SG_COUNT(known); i++)
        if (strcmp(bare, known[i].name) == 0) {
            *ret = known[i].number;
            return 0;
        }
    return sg_fail(err, SG_INVALID, "no such signal: %s; names as TERM, or 1 to 64",
                   sg_quote(name).s);
}

int sg_rest_time(const char *text, int64_t *ret_ms, struct sg_err *err)
{
    struct tm tm = { 0 };
    const char *p = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    int64_t milli = 0;
    if (p && *p == '.') {
        int64_t weight = 100;
        for (p++; *p >= '0' && *p <= '9'; p++, weight /= 10)
            milli += weight * (*p - '0');
    }
    if (!p || strcmp(p, "Z") != 0)
        return sg_fail(err, SG_INVALID, "a time looks like 2030-01-31T12:00:00Z, not %s",
                       sg_quote(text).s);
    *ret_ms = (int64_t)timegm(&tm) * 1000 + milli;
    return 0;
}

/* ---- replies ---- */

/* `notices` to NULL, or NULL: behind what is told of every sandbox. */
static void reply_sandbox(struct sg_call *c, int status, struct sg_sandbox *s,
                          const char *const *notices, const struct sg_err *err)
{
    if (!s) {
        sg_reply_error(c, err);
        return;
    }
    sg_auto_buf out;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_rest_put_sandbox(&j, s);
    if (notices && notices[0] && !out.has_overflowed) {
        out.n--; /* its bracket */
        sg_json_put_strs(&j, "notices", notices);
        sg_json_close(&j, '}');
    }
    sg_reply_json(c, status, &out);
}

void sg_rest_reply_sandbox(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    reply_sandbox(arg, 200, s, NULL, err);
}

void sg_rest_reply_created(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    reply_sandbox(arg, 201, s, NULL, err);
}

void sg_rest_reply_imported(struct sg_call *c, struct sg_sandbox *s, const char *const *notices,
                            const struct sg_err *err)
{
    reply_sandbox(c, 201, s, notices, err);
}

void sg_rest_reply_done(void *arg, const struct sg_err *err)
{
    if (err)
        sg_reply_error(arg, err);
    else
        sg_reply_empty(arg, 204);
}

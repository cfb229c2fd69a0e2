/* SPDX-License-Identifier: Apache-2.0 */
/* A task whose rule wants an approval: asked for, or named by a caller that asked before and lost
 * its connection; waited for, used once. What is approved is the whole of the task: a hash over
 * everything that decides what will be done. */
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/str.h"
#include "manager/life.h"
#include "manager/task_internal.h"

#include "base/banned.h"

enum { SUBJECT_MAX = 8 << 20 };

/* ---- what it is about ---- */

static void put(struct sg_json *j, const char *text)
{
    if (text)
        sg_json_str(j, text);
    else
        sg_json_null(j);
}

static int put_bytes(struct sg_json *j, struct sg_str bytes, struct sg_err *err)
{
    char hash[SG_SUBJECT_LEN + 1];

    if (sg_key_hash(bytes.n ? bytes.p : "", bytes.n, hash, err) < 0)
        return -1;
    sg_json_str(j, hash);
    return 0;
}

static void put_list(struct sg_json *j, const char *const *v)
{
    sg_json_open(j, '[');
    for (; v && *v; v++)
        sg_json_str(j, *v);
    sg_json_close(j, ']');
}

static int put_files(struct sg_json *j, const struct sg_task_spec *s, struct sg_err *err)
{
    sg_json_open(j, '[');
    for (size_t i = 0; i < s->file_count; i++) {
        put(j, s->files[i].path);
        if (put_bytes(j, s->files[i].bytes, err) < 0)
            return -1;
    }
    sg_json_close(j, ']');
    return 0;
}

static int find_subject(const struct sg_task_spec *s, char ret[SG_SUBJECT_LEN + 1],
                        struct sg_err *err)
{
    sg_auto_buf text;
    struct sg_json j;

    sg_buf_init(&text, SUBJECT_MAX);
    sg_json_init(&j, &text);
    sg_json_open(&j, '[');
    put(&j, "task");
    put(&j, s->ask.operation);
    put(&j, s->name);
    put(&j, s->ask.agent);
    put(&j, s->template);
    put(&j, s->cwd);
    put(&j, s->user);
    sg_json_i64(&j, s->ask.trust);
    sg_json_i64(&j, s->ask.wish);
    sg_json_u64(&j, s->ask.network);
    put_list(&j, s->argv);
    put_list(&j, s->collect);
    sg_json_open(&j, '[');
    for (size_t i = 0; i < s->env_n; i++) {
        put(&j, s->env[i].name);
        put(&j, s->env[i].value);
    }
    for (size_t i = 0; i < s->mounts_n; i++) {
        put(&j, s->mounts[i].volume);
        put(&j, s->mounts[i].path);
        sg_json_bool(&j, s->mounts[i].is_read_only);
    }
    sg_json_close(&j, ']');
    if (put_bytes(&j, s->input, err) < 0 || put_files(&j, s, err) < 0)
        return -1;
    sg_json_close(&j, ']');
    if (sg_buf_check(&text, "the task", err) < 0)
        return -1;
    return sg_key_hash((const char *)text.p, text.n, ret, err);
}

/* ---- from the question to the answer ---- */

static void used(void *arg, struct sg_approval *a, const struct sg_err *err)
{
    struct sg_task *t = arg;

    t->approval = NULL;
    if (!a)
        sg_task_end(t, SG_TASK_UNAVAILABLE, err);
    else if (!t->spec)
        sg_task_end(t, SG_TASK_LOST, NULL);
    else
        sg_task_permitted(t);
}

static void decided(void *arg, struct sg_approval *a)
{
    struct sg_task *t = arg;
    struct sg_err err = { 0 };
    enum sg_task_ending ending = SG_TASK_REFUSED;

    t->r.times.approval += sg_task_lap(t);
    if (a->state == SG_APPROVAL_APPROVED && sg_approval_use(a, t->subject, used, t, &err) == 0)
        return;
    if (a->state == SG_APPROVAL_DENIED) {
        ending = SG_TASK_DENIED;
        (void)sg_fail(&err, SG_DENIED, "approval %s was denied%s%s", a->id.s, a->reason ? ": " : "",
                      a->reason ? a->reason : "");
    } else if (a->state != SG_APPROVAL_APPROVED) {
        ending = SG_TASK_EXPIRED;
        (void)sg_fail(&err, SG_TIMEOUT, "approval %s was given by nobody in time", a->id.s);
    }
    t->approval = NULL;
    sg_task_end(t, ending, &err);
}

static void wait_for(struct sg_task *t, struct sg_approval *a)
{
    t->approval = a;
    memcpy(t->r.approval, a->id.s, sizeof t->r.approval);
    if (sg_approval_is_open(a))
        sg_approval_wait_for(a, &t->waits, decided, t);
    else
        decided(t, a);
}

static void asked(void *arg, struct sg_approval *a, const struct sg_err *err)
{
    struct sg_task *t = arg;

    if (!a) {
        sg_task_end(t, SG_TASK_UNAVAILABLE, err);
    } else if (!t->spec) { /* its caller went meanwhile */
        sg_approval_withdraw(a);
        sg_task_end(t, SG_TASK_LOST, NULL);
    } else {
        wait_for(t, a);
    }
}

static int ask(struct sg_task *t, struct sg_err *err)
{
    const struct sg_task_spec *s = t->spec;
    const char *what = s->argv ? s->argv[0] : "";
    sg_auto_free char *summary =
        sg_printf("%s%s%.200s", s->name ? s->name : s->ask.operation, *what ? ": " : "", what);
    const struct sg_approval_spec spec = { s->ask.operation, summary, t->subject, s->approval_ms };

    return sg_approval_ask(t->m, &t->who, &spec, asked, t, err);
}

void sg_task_ask(struct sg_task *t)
{
    struct sg_err err = { 0 };
    struct sg_approval *a = NULL;
    const char *named = t->spec->approval;

    int got = find_subject(t->spec, t->subject, &err);
    if (got == 0 && named)
        got = (a = sg_approval_find(t->m, &t->who, named, &err)) ? 0 : -1;
    if (got == 0 && a && strcmp(a->subject, t->subject) != 0)
        got = sg_fail(&err, SG_DENIED, "approval %s is for something else", a->id.s);
    if (got == 0 && !a)
        got = ask(t, &err);
    if (got < 0)
        sg_task_end(t, SG_TASK_REFUSED, &err);
    else if (a)
        wait_for(t, a);
}

bool sg_task_leave(struct sg_task *t)
{
    if (!t->waits.of)
        return false;
    sg_approval_leave(&t->waits);
    sg_approval_withdraw(t->approval);
    t->approval = NULL;
    return true;
}

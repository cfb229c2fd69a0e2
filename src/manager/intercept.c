/* SPDX-License-Identifier: Apache-2.0 */
/* One tool call: the rule, somebody's approval, the session's sandbox, the answer. */
#include "manager/intercept.h"

#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"
#include "manager/life.h"

#include "base/banned.h"

enum { SUBJECT_MAX = 32 << 20, SUMMARY_BYTES = 300 };

struct intercept {
    struct sg_manager *m;
    struct sg_who who;
    const struct sg_intercept_spec *spec;
    struct sg_interception d; /* borrows from the rules: used only before the loop runs on */
    struct sg_intercept_result r;
    char rule[128], reason[600];
    char subject[SG_SUBJECT_LEN + 1], root[SG_INTERCEPT_PATH_MAX];
    sg_intercept_cb *cb;
    void *arg;
};

/* ---- the end ---- */

static void tell(struct intercept *i)
{
    sg_auto_buf data;
    struct sg_json j;

    sg_buf_init(&data, 8192);
    sg_json_init(&j, &data);
    sg_json_open(&j, '{');
    sg_json_key(&j, "tool");
    sg_json_str(&j, i->spec->tool);
    sg_json_key(&j, "action");
    sg_json_str(&j, sg_intercept_action_names[i->r.action]);
    sg_json_key(&j, "rule");
    sg_json_str(&j, i->rule);
    sg_json_key(&j, "session");
    sg_json_str(&j, i->spec->session);
    sg_json_close(&j, '}');
    sg_events_add(i->m, i->who.org, i->r.sandbox ? i->r.sandbox->id.s : NULL, "intercept.decided",
                  sg_buf_cstr(&data));
    if (i->r.action == SG_INTERCEPT_BLOCK)
        sg_manager_audit(i->m, &i->who, "intercept.blocked", NULL, sg_buf_cstr(&data));
}

static void answer(struct intercept *i, const struct sg_err *err)
{
    i->r.rule = i->rule;
    i->r.reason = i->reason;
    i->r.rules = i->m->intercept;
    if (!err)
        tell(i);
    i->cb(i->arg, err ? NULL : &i->r, err);
    free(i);
}

/* ---- the sandbox ---- */

static void have_sandbox(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct intercept *i = arg;
    struct sg_err own = { 0 };

    if (!s) {
        answer(i, err);
        return;
    }
    const char *root = sg_pair_value(&s->metadata, SG_ROOT_KEY);
    const char *workspace = i->m->intercept->sandbox.workspace;
    char host_cwd[SG_INTERCEPT_PATH_MAX];
    i->r.sandbox = s;
    i->r.root = root ? root : i->root;
    i->r.copies = root && i->m->intercept->sandbox.copies;
    if (sg_path_plain("/", i->spec->cwd, host_cwd, &own) < 0 ||
        sg_path_inside(i->r.root, workspace, host_cwd, i->r.cwd, &own) < 0 ||
        (*i->d.host_path &&
         sg_path_inside(i->r.root, workspace, i->d.host_path, i->r.path, &own) < 0)) {
        answer(i, &own);
        return;
    }
    answer(i, NULL);
}

static void act(struct intercept *i, enum sg_intercept_action action)
{
    struct sg_err err = { 0 };

    i->r.action = action;
    if (action != SG_INTERCEPT_SANDBOX)
        answer(i, NULL);
    else if (sg_session_sandbox(i->m, &i->who, i->spec->session, i->root, have_sandbox, i, &err) <
             0)
        answer(i, &err);
}

/* ---- an approval ---- */

static int find_subject(struct intercept *i, struct sg_err *err)
{
    sg_auto_buf text;
    struct sg_json j;

    sg_buf_init(&text, SUBJECT_MAX);
    sg_json_init(&j, &text);
    sg_json_open(&j, '[');
    sg_json_str(&j, "tool call");
    sg_json_str(&j, i->spec->session);
    sg_json_str(&j, i->spec->tool);
    sg_json_str(&j, i->spec->cwd);
    if (i->spec->input)
        sg_json_put(&j, i->spec->input);
    sg_json_close(&j, ']');
    if (sg_buf_check(&text, "the tool call", err) < 0)
        return -1;
    return sg_key_hash((const char *)text.p, text.n, i->subject, err);
}

static void used(void *arg, struct sg_approval *a, const struct sg_err *err)
{
    struct intercept *i = arg;

    if (!a) {
        answer(i, err);
        return;
    }
    i->r.approval = a;
    act(i, i->d.then);
}

static void asked(void *arg, struct sg_approval *a, const struct sg_err *err)
{
    struct intercept *i = arg;

    i->r.approval = a;
    answer(i, err);
}

/* What is shown to who decides: the tool, and what it would do. */
static int ask(struct intercept *i, struct sg_err *err)
{
    const struct sg_jval *what = i->d.command ? i->d.command : i->d.path;
    sg_auto_buf input;
    struct sg_json j;

    sg_buf_init(&input, SUBJECT_MAX);
    sg_json_init(&j, &input);
    if (!what && i->spec->input)
        sg_json_put(&j, i->spec->input);
    const char *text = what ? what->s.p : sg_buf_cstr(&input);
    sg_auto_free char *summary =
        sg_printf("%.64s%s%.*s", i->spec->tool, *text ? ": " : "", SUMMARY_BYTES, text);
    const struct sg_approval_spec spec = { "tool_call", summary, i->subject,
                                           i->m->intercept->sandbox.approval_ms };
    return sg_approval_ask(i->m, &i->who, &spec, asked, i, err);
}

static void answer_with(struct intercept *i, const struct sg_approval *a)
{
    i->r.approval = a;
    if (!sg_approval_is_open(a)) {
        i->r.action = SG_INTERCEPT_BLOCK;
        (void)snprintf(i->reason, sizeof i->reason, "approval %s was denied%s%.400s", a->id.s,
                       a->reason ? ": " : "", a->reason ? a->reason : "");
    }
    answer(i, NULL);
}

static void approve(struct intercept *i)
{
    struct sg_err err = { 0 };
    struct sg_approval *a = NULL;

    i->r.action = SG_INTERCEPT_APPROVE;
    int got = find_subject(i, &err);
    if (got == 0)
        a = sg_approval_about(i->m, &i->who, i->subject);
    if (got == 0 && !a)
        got = ask(i, &err);
    else if (a && !sg_approval_is_open(a) && a->state == SG_APPROVAL_APPROVED)
        got = sg_approval_use(a, i->subject, used, i, &err);
    else if (a)
        answer_with(i, a);
    if (got < 0)
        answer(i, &err);
}

/* ---- the beginning ---- */

static int check(const struct sg_intercept_spec *spec, struct sg_err *err)
{
    static const char some[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-";
    const size_t n = strlen(spec->session);

    if (!n || n > SG_SESSION_MAX || strspn(spec->session, some) != n || spec->session[0] == '.')
        return sg_fail(err, SG_INVALID,
                       "%s is no session: 1 to %d letters, digits, '.', '_', ':' and '-'",
                       sg_quote(spec->session).s, SG_SESSION_MAX);
    if (!*spec->tool || strlen(spec->tool) > 256)
        return sg_fail(err, SG_INVALID, "a tool has a name of 1 to 256 bytes");
    return 0;
}

int sg_intercept_ask(struct sg_manager *m, const struct sg_who *who,
                     const struct sg_intercept_spec *spec, sg_intercept_cb *cb, void *arg,
                     struct sg_err *err)
{
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(m, who, "intercept", NULL, err);
    if (check(spec, err) < 0)
        return -1;
    struct intercept *i = sg_new(struct intercept);
    *i = (struct intercept) { .m = m, .who = *who, .spec = spec, .cb = cb, .arg = arg };
    const struct sg_tool_call call = { spec->tool, who->org->id.s, spec->cwd, spec->input,
                                       spec->resolved };
    if (sg_intercept_decide(m->intercept, &call, &i->d, err) < 0 ||
        sg_path_plain("/", spec->cwd, i->root, err) < 0) {
        free(i);
        return -1;
    }
    (void)snprintf(i->rule, sizeof i->rule, "%.127s", i->d.rule ? i->d.rule->name : "");
    (void)snprintf(i->reason, sizeof i->reason, "%s", i->d.reason);
    i->r.command = i->d.command;
    i->r.input_path = i->d.path;
    if (i->d.action == SG_INTERCEPT_APPROVE)
        approve(i);
    else
        act(i, i->d.action);
    return 0;
}

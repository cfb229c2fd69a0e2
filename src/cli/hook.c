/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/hook.h"

#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "base/banned.h"

/* ---- in ---- */

static int text_of(const struct sg_jval *v, const char *key, const char **ret, struct sg_err *err)
{
    const struct sg_jval *m = sg_json_get(v, key);
    if (!m || m->kind != SG_J_STRING || !m->s.n || memchr(m->s.p, '\0', m->s.n))
        return sg_fail(err, SG_INVALID, "%s is missing, or no text", key);
    *ret = m->s.p;
    return 0;
}

static enum sg_hook_event event_of(const char *name)
{
    static const struct {
        const char *name;
        enum sg_hook_event event;
    } events[] = {
        { "PreToolUse", SG_HOOK_BEFORE },
        { "PostToolUse", SG_HOOK_AFTER },
        { "PostToolUseFailure", SG_HOOK_AFTER },
        { "SessionEnd", SG_HOOK_END },
    };
    for (size_t i = 0; i < SG_COUNT(events); i++)
        if (strcmp(events[i].name, name) == 0)
            return events[i].event;
    return SG_HOOK_OTHER;
}

/* It names a directory of ours. */
static int check_session(const char *session, struct sg_err *err)
{
    static const char some[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-";
    const size_t n = strlen(session);
    if (n > SG_HOOK_SESSION_MAX || strspn(session, some) != n || session[0] == '.')
        return sg_fail(err, SG_INVALID, "session_id %s is no session", sg_quote(session).s);
    return 0;
}

int sg_hook_read(struct sg_str text, struct sg_arena *a, struct sg_hook_call *ret,
                 struct sg_err *err)
{
    const struct sg_jval *v, *named;
    struct sg_hook_call c = { .event = SG_HOOK_BEFORE };
    if (sg_json_parse(text, a, &v, err) < 0)
        return sg_wrap(err, "the tool call");
    if (v->kind != SG_J_OBJECT)
        return sg_fail(err, SG_INVALID, "a tool call is an object");
    named = sg_json_get(v, "hook_event_name"); /* older agents have PreToolUse only, and no name */
    if (named && named->kind == SG_J_STRING)
        c.event = event_of(named->s.p);
    if (c.event == SG_HOOK_OTHER) {
        *ret = c;
        return 0;
    }
    if (text_of(v, "session_id", &c.session, err) < 0 || check_session(c.session, err) < 0 ||
        text_of(v, "cwd", &c.cwd, err) < 0 ||
        (c.event != SG_HOOK_END && text_of(v, "tool_name", &c.tool, err) < 0))
        return -1;
    if (c.cwd[0] != '/')
        return sg_fail(err, SG_INVALID, "cwd %s is not an absolute path", sg_quote(c.cwd).s);
    c.input = sg_json_get(v, "tool_input");
    if (c.input && c.input->kind == SG_J_NULL)
        c.input = NULL;
    if (c.input && c.input->kind != SG_J_OBJECT)
        return sg_fail(err, SG_INVALID, "tool_input is not an object");
    *ret = c;
    return 0;
}

/* ---- out ---- */

static void put_input(struct sg_json *j, const struct sg_hook_call *call,
                      const struct sg_hook_answer *answer)
{
    sg_json_key(j, "updatedInput");
    sg_json_open(j, '{');
    for (const struct sg_jval *v = call->input->list.first; v; v = v->next) {
        sg_json_key(j, v->key.p);
        if (sg_str_is(v->key, answer->argument))
            sg_json_str(j, answer->value);
        else
            sg_json_put(j, v);
    }
    sg_json_close(j, '}');
}

void sg_hook_write(struct sg_buf *out, const struct sg_hook_call *call,
                   const struct sg_hook_answer *answer)
{
    struct sg_json j;
    sg_json_init(&j, out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "hookSpecificOutput");
    sg_json_open(&j, '{');
    sg_json_key(&j, "hookEventName");
    sg_json_str(&j, "PreToolUse");
    sg_json_key(&j, "permissionDecision");
    sg_json_str(&j, answer->word == SG_HOOK_ALLOW ? "allow" : "deny");
    sg_json_key(&j, "permissionDecisionReason");
    sg_json_str(&j, answer->reason);
    if (answer->argument && call->input)
        put_input(&j, call, answer);
    sg_json_close(&j, '}');
    sg_json_close(&j, '}');
    sg_buf_add_str(out, "\n");
}

void sg_hook_quote(struct sg_buf *out, const char *text)
{
    sg_buf_add_str(out, "'");
    for (size_t n; *text; text += n) {
        n = strcspn(text, "'");
        sg_buf_add(out, text, n);
        if (text[n] == '\'') {
            sg_buf_add_str(out, "'\\''");
            n++;
        }
    }
    sg_buf_add_str(out, "'");
}

void sg_hook_replace(struct sg_buf *out, struct sg_str text, const char *from, const char *to)
{
    const size_t n = strlen(from);
    while (text.n) {
        const char *at = memmem(text.p, text.n, from, n);
        const size_t before = at ? (size_t)(at - text.p) : text.n;
        sg_buf_add(out, text.p, before);
        if (at)
            sg_buf_add_str(out, to);
        text.p += before + (at ? n : 0);
        text.n -= before + (at ? n : 0);
    }
}

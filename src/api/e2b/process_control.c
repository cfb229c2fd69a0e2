/* SPDX-License-Identifier: Apache-2.0 */
/* process.Process, the small calls: list, signals, size. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "api/e2b/e2b.h"
#include "api/e2b/process.h"
#include "base/auto.h"
#include "base/banned.h"

/* ---- List ---- */

static void put_process(struct sg_json *j, const struct sg_exec *x)
{
    sg_json_open(j, '{');
    sg_json_key(j, "config");
    sg_json_open(j, '{');
    sg_json_put_str(j, "cmd", x->argv[0]);
    sg_json_key(j, "args");
    sg_json_open(j, '[');
    for (char **a = x->argv + 1; *a; a++)
        sg_json_str(j, *a);
    sg_json_close(j, ']');
    sg_json_key(j, "envs");
    sg_json_open(j, '{');
    sg_json_close(j, '}');
    if (x->cwd && x->cwd[0])
        sg_json_put_str(j, "cwd", x->cwd);
    sg_json_close(j, '}');
    sg_json_put_u64(j, "pid", x->pid);
    if (x->tag)
        sg_json_put_str(j, "tag", x->tag);
    sg_json_close(j, '}');
}

int sg_envd_list(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    (void)err;
    size_t cursor = 0;
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "processes");
    sg_json_open(&j, '[');
    for (struct sg_exec *x; (x = sg_exec_next(s, &cursor));)
        if (x->ending == SG_EXEC_RUNNING && x->argv[0] && !x->is_kernel)
            put_process(&j, x);
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}

/* ---- control ---- */

int sg_envd_close_stdin(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    struct sg_exec *x = sg_envd_selected(c, s, false, err);
    if (!x)
        return -1;
    if (x->has_tty)
        sg_e2b_visit(c)->code = "unknown";
    if (x->has_tty)
        return sg_fail(err, SG_CONFLICT, "a terminal's input cannot be closed");
    if (x->has_stdin && sg_exec_close_stdin(x, err) < 0 && err->kind != SG_CONFLICT)
        return -1;
    sg_envd_reply_nothing(c);
    return 0;
}

int sg_envd_send_signal(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    static const struct {
        const char *name;
        int number;
    } known[] = { { "SIGNAL_SIGKILL", SIGKILL }, { "SIGNAL_SIGTERM", SIGTERM } };
    const struct sg_jval *body = sg_e2b_visit(c)->body;
    const char *name = sg_e2b_text(body, "signal");
    const uint64_t number = sg_e2b_u64(body, "signal", 0);
    struct sg_exec *x = sg_envd_selected(c, s, false, err);
    if (!x)
        return -1;
    for (size_t i = 0; i < SG_COUNT(known); i++) {
        if (!(name && strcmp(name, known[i].name) == 0) && number != (uint64_t)known[i].number)
            continue;
        if (sg_exec_signal(x, &c->who, known[i].number, err) < 0)
            return -1;
        sg_envd_reply_nothing(c);
        return 0;
    }
    return sg_fail(err, SG_UNSUPPORTED, "only SIGKILL and SIGTERM can be sent");
}

int sg_envd_update(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    const struct sg_jval *size = sg_e2b_get(sg_e2b_get(sg_e2b_visit(c)->body, "pty"), "size");
    const uint64_t rows = sg_e2b_u64(size, "rows", 0), cols = sg_e2b_u64(size, "cols", 0);
    struct sg_exec *x = sg_envd_selected(c, s, false, err);
    if (!x)
        return -1;
    if (size && (rows > UINT16_MAX || cols > UINT16_MAX))
        return sg_fail(err, SG_INVALID, "a terminal has 1 to 65535 rows and columns");
    if (size && sg_exec_resize(x, (uint32_t)rows, (uint32_t)cols, err) < 0)
        return -1;
    sg_envd_reply_nothing(c);
    return 0;
}

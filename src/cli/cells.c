/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cells.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/lines.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "base/banned.h"

enum {
    LINE_MAX_BYTES = 17 << 20, /* of an event */
    BODY_MAX = 64 << 20,
    IDLE_MS = 60000, /* of a sandbox of our own, should we be killed */
};
static const char TEMPLATE[] = "code-interpreter-v1";

/* ---- signals: one that ends us must not leave a sandbox behind ---- */

static int interrupt_context(struct sg_cells *c)
{
    sg_auto_api other;
    sg_auto_buf target;
    struct sg_err err;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_api_path(&target, "sandboxes", c->sandbox, "contexts", c->context, "interrupt");
    sg_api_open(&other, c->cli);
    return sg_api_call(&other, "POST", sg_buf_cstr(&target), NULL, NULL, &err);
}

static int wait_here(void *arg, int fd, struct sg_err *err)
{
    struct sg_cells *c = arg;
    for (;;) {
        struct pollfd p[] = { { fd, POLLIN, 0 }, { c->signals_fd, POLLIN, 0 } };
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return sg_fail_sys(err, "wait for the service");
        struct signalfd_siginfo info;
        if (p[1].revents && read(c->signals_fd, &info, sizeof info) == sizeof info) {
            if (info.ssi_signo == SIGINT && c->interrupts && interrupt_context(c) == 0)
                continue;
            c->got_signal = (int)info.ssi_signo;
            return sg_fail(err, SG_CONFLICT, "interrupted");
        }
        if (p[0].revents)
            return 0;
    }
}

static void catch_signals(struct sg_cells *c)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    c->signals_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (c->signals_fd < 0)
        return;
    c->api.http.wait = wait_here;
    c->api.http.wait_arg = c;
}

/* ---- the sandbox and the context ---- */

static void put_text(struct sg_json *j, const char *key, const char *value)
{
    sg_json_key(j, key);
    sg_json_str(j, value);
}

static int make_sandbox(struct sg_cells *c, struct sg_err *err)
{
    const struct sg_config *config = &c->cli->config;
    const struct sg_jval *made;
    sg_auto_buf body;
    struct sg_json j;
    sg_buf_init(&body, BODY_MAX);
    sg_json_init(&j, &body);
    sg_json_open(&j, '{');
    put_text(&j, "template", sg_cli_has_flag(c->cli, "template") ? config->template : TEMPLATE);
    put_text(&j, "onExpiry", "kill");
    sg_json_key(&j, "idleTimeoutMs");
    sg_json_u64(&j, c->interrupts ? 60 * IDLE_MS : IDLE_MS);
    sg_json_close(&j, '}');
    if (sg_api_call(&c->api, "POST", "/v1/sandboxes", &body, &made, err) < 0)
        return err->kind == SG_NOT_FOUND
                   ? sg_wrap(err, "'sandglass template build %s' makes it", TEMPLATE)
                   : -1;
    (void)snprintf(c->sandbox, sizeof c->sandbox, "%s", sg_api_text(made, "id"));
    c->is_ours = true;
    return 0;
}

static int make_context(struct sg_cells *c, struct sg_err *err)
{
    const struct sg_jval *made;
    sg_auto_buf target, body;
    struct sg_json j;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_buf_init(&body, BODY_MAX);
    sg_json_init(&j, &body);
    sg_json_open(&j, '{');
    if (c->cli->config.lang[0])
        put_text(&j, "language", c->cli->config.lang);
    if (sg_cli_has_flag(c->cli, "env"))
        sg_put_env(&j, &c->cli->config.env);
    sg_json_close(&j, '}');
    sg_api_path(&target, "sandboxes", c->sandbox, "contexts");
    if (sg_api_call(&c->api, "POST", sg_buf_cstr(&target), &body, &made, err) < 0)
        return -1;
    (void)snprintf(c->context, sizeof c->context, "%s", sg_api_text(made, "id"));
    return 0;
}

int sg_cells_open(struct sg_cells *c, const struct sg_cli *cli, bool with_context,
                  struct sg_err *err)
{
    *c = (struct sg_cells) { .cli = cli, .signals_fd = -1, .interrupts = with_context };
    sg_api_open(&c->api, cli);
    catch_signals(c);
    (void)snprintf(c->sandbox, sizeof c->sandbox, "%s", cli->config.sandbox);
    if (!c->sandbox[0] && make_sandbox(c, err) < 0)
        return -1;
    return with_context ? make_context(c, err) : 0;
}

static void remove_at(struct sg_cells *c, const char *target)
{
    sg_auto_api other; /* the first may be in the middle of a reply */
    struct sg_err err;
    sg_api_open(&other, c->cli);
    if (sg_api_call(&other, "DELETE", target, NULL, NULL, &err) < 0 && err.kind != SG_NOT_FOUND)
        sg_cli_note(c->cli, "%s", err.msg);
}

void sg_cells_close(struct sg_cells *c)
{
    sg_auto_buf target;
    sg_buf_init(&target, SG_API_MAX_PATH);
    if (c->is_ours) {
        sg_api_path(&target, "sandboxes", c->sandbox);
        remove_at(c, sg_buf_cstr(&target));
    } else if (c->context[0]) {
        sg_api_path(&target, "sandboxes", c->sandbox, "contexts", c->context);
        remove_at(c, sg_buf_cstr(&target));
    }
    sg_api_done(&c->api);
    sg_drop_fd(&c->signals_fd);
}

int sg_cells_restart(struct sg_cells *c, struct sg_err *err)
{
    sg_auto_buf target;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_api_path(&target, "sandboxes", c->sandbox, "contexts", c->context, "restart");
    return sg_api_call(&c->api, "POST", sg_buf_cstr(&target), NULL, NULL, err);
}

/* ---- a cell ---- */

static void write_body(const struct sg_cells *c, struct sg_str code, struct sg_buf *out)
{
    const struct sg_cli *cli = c->cli;
    struct sg_json j;
    sg_json_init(&j, out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "code");
    sg_json_text(&j, code);
    if (c->context[0])
        put_text(&j, "context", c->context);
    else if (cli->config.lang[0])
        put_text(&j, "language", cli->config.lang);
    if (!c->context[0] && sg_cli_has_flag(cli, "env"))
        sg_put_env(&j, &cli->config.env);
    if (sg_cli_has_flag(cli, "timeout")) {
        sg_json_key(&j, "timeoutMs");
        sg_json_u64(&j, cli->config.timeout_ms);
    }
    sg_json_close(&j, '}');
}

static int take_event(struct sg_cells *c, struct sg_str line, struct sg_err *err)
{
    const struct sg_jval *v;
    sg_arena_clear(&c->api.arena);
    if (sg_json_parse(line, &c->api.arena, &v, err) < 0)
        return -1;
    c->has_failed |= sg_str_is(sg_str_of(sg_api_text(v, "type")), "error");
    if (!c->cli->config.json)
        return sg_cells_show(c, v, err);
    return sg_out_write(STDOUT_FILENO, line.p, line.n, err) < 0
               ? -1
               : sg_out_write(STDOUT_FILENO, "\n", 1, err);
}

int sg_cells_run(struct sg_cells *c, struct sg_str code, struct sg_err *err)
{
    sg_auto_buf target, body;
    sg_auto_lines lines;
    struct sg_str line;
    int r;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_buf_init(&body, BODY_MAX);
    sg_api_path(&target, "sandboxes", c->sandbox, "code");
    sg_api_query(&target, "stream", "1");
    write_body(c, code, &body);
    c->has_failed = false;
    sg_lines_init(&lines, &c->api.http);
    sg_lines_allow(&lines, LINE_MAX_BYTES);
    const struct sg_str text = { (const char *)body.p, body.n };
    if (sg_buf_check(&body, "the code", err) < 0 ||
        sg_http_send(&c->api.http, "POST", sg_buf_cstr(&target), NULL, &text, err) < 0 ||
        sg_http_receive(&c->api.http, err) < 0 || sg_api_check(&c->api, err) < 0)
        return -1;
    while ((r = sg_lines_next(&lines, &line, err)) > 0)
        if (take_event(c, line, err) < 0)
            return -1;
    return r;
}

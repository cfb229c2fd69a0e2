/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass task run`: one operation in a sandbox of the service that is gone afterwards. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/ask.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "config/mapping.h"
#include "wire/base64.h"
#include "base/banned.h"

enum { MAX_FILE_BYTES = 6 << 20 }; /* as base64 it fits into a request */

static int read_file(const char *path, struct sg_buf *out, struct sg_err *err)
{
    sg_auto_fd fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return sg_fail_sys(err, "open %s", sg_quote(path).s);
    return sg_buf_read_fd(out, fd, path, err);
}

/* ---- the request ---- */

static int put_files(struct sg_json *j, const struct sg_strlist *list, struct sg_err *err)
{
    if (!list->n)
        return 0;
    sg_json_key(j, "files");
    sg_json_open(j, '[');
    for (size_t i = 0; i < list->n; i++) {
        struct sg_mapping m;
        sg_auto_buf bytes;
        sg_buf_init(&bytes, MAX_FILE_BYTES);
        if (sg_mapping_parse_copy(list->v[i], &m, err) < 0)
            return -1;
        sg_auto_free char *source = sg_printf("%.*s", (int)m.source.n, m.source.p);
        if (read_file(source, &bytes, err) < 0)
            return -1;
        sg_json_open(j, '{');
        sg_json_key(j, "path");
        sg_json_text(j, m.target);
        sg_json_key(j, "base64");
        sg_buf_add_str(j->out, "\"");
        sg_base64_encode(j->out, bytes.p, bytes.n);
        sg_buf_add_str(j->out, "\"");
        j->needs_comma = true;
        sg_json_close(j, '}');
    }
    sg_json_close(j, ']');
    return 0;
}

static void put_list(struct sg_json *j, const char *key, char *const *v)
{
    if (!v || !*v)
        return;
    sg_json_key(j, key);
    sg_json_open(j, '[');
    for (; *v; v++)
        sg_json_str(j, *v);
    sg_json_close(j, ']');
}

static void put_text(struct sg_json *j, const struct sg_cli *cli, const char *flag, const char *key,
                     const char *value)
{
    if (!sg_cli_has_flag(cli, flag))
        return;
    sg_json_key(j, key);
    sg_json_str(j, value);
}

static void put_number(struct sg_json *j, const struct sg_cli *cli, const char *flag,
                       const char *key, uint64_t value)
{
    if (!sg_cli_has_flag(cli, flag))
        return;
    sg_json_key(j, key);
    sg_json_u64(j, value);
}

static int put_code(struct sg_json *j, const struct sg_cli *cli, struct sg_err *err)
{
    sg_auto_buf code;
    sg_buf_init(&code, MAX_FILE_BYTES);
    if (read_file(cli->config.code, &code, err) < 0)
        return -1;
    sg_json_key(j, "code");
    sg_json_text(j, (struct sg_str) { (const char *)code.p, code.n });
    return 0;
}

static int write_body(const struct sg_cli *cli, struct sg_buf *body, struct sg_err *err)
{
    const struct sg_config *c = &cli->config;
    char *const *argv = cli->args[0] && strcmp(cli->args[0], "--") == 0 ? cli->args + 1 : cli->args;
    struct sg_json j;
    sg_json_init(&j, body);
    sg_json_open(&j, '{');
    sg_put_ask(&j, cli);
    put_text(&j, cli, "template", "template", c->template);
    put_text(&j, cli, "language", "language", c->language);
    put_text(&j, cli, "workdir", "cwd", c->workdir);
    put_text(&j, cli, "user", "user", c->user);
    put_number(&j, cli, "timeout", "timeoutMs", c->timeout_ms);
    put_number(&j, cli, "retries", "retries", c->retries);
    sg_json_key(&j, "limits");
    sg_json_open(&j, '{');
    put_number(&j, cli, "memory", "memoryBytes", c->memory_bytes);
    put_number(&j, cli, "pids", "pids", c->pids);
    put_number(&j, cli, "disk", "diskBytes", c->disk_bytes);
    if (sg_cli_has_flag(cli, "cpus")) {
        sg_json_key(&j, "cpus");
        sg_json_milli(&j, c->cpu_milli);
    }
    sg_json_close(&j, '}');
    if (sg_cli_has_flag(cli, "env"))
        sg_put_env(&j, &c->env);
    put_list(&j, "argv", argv);
    put_list(&j, "collect", c->collect.v);
    if (put_files(&j, &c->task_files, err) < 0 || (*c->code && put_code(&j, cli, err) < 0))
        return -1;
    sg_json_close(&j, '}');
    return sg_buf_check(body, "the task", err);
}

/* ---- the result ---- */

/* A text, or the bytes of its base64. */
static int take_bytes(const struct sg_jval *v, const char *key, const char *key64,
                      struct sg_buf *out, struct sg_err *err)
{
    const struct sg_jval *text = sg_json_get(v, key), *coded = sg_json_get(v, key64);
    if (text && text->kind == SG_J_STRING)
        sg_buf_add(out, text->s.p, text->s.n);
    else if (coded && coded->kind == SG_J_STRING)
        return sg_base64_decode(out, coded->s, err);
    return 0;
}

static int print_stream(const struct sg_jval *v, const char *key, const char *key64, int fd,
                        struct sg_err *err)
{
    sg_auto_buf bytes;
    sg_buf_init(&bytes, SG_API_MAX_REPLY);
    if (take_bytes(v, key, key64, &bytes, err) < 0)
        return -1;
    return sg_out_write(fd, bytes.p, bytes.n, err);
}

/* Into the directory under its last name: what a sandbox calls a file decides no path of ours. */
static int save_file(const struct sg_cli *cli, const struct sg_jval *f, struct sg_err *err)
{
    const struct sg_str name = sg_last_part(sg_api_text(f, "path"));
    sg_auto_buf bytes;
    sg_buf_init(&bytes, SG_API_MAX_REPLY);
    if (!name.n || sg_str_is(name, ".") || sg_str_is(name, ".."))
        return sg_fail(err, SG_INVALID, "%s is no name of a file", sg_quote_str(name).s);
    if (take_bytes(f, "text", "base64", &bytes, err) < 0)
        return -1;
    sg_auto_free char *path = sg_printf("%s/%.*s", cli->config.into, (int)name.n, name.p);
    sg_auto_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return sg_fail_sys(err, "write %s", sg_quote(path).s);
    if (sg_api_u64(f, "truncatedBytes"))
        sg_cli_note(cli, "%s was cut: it is too large", sg_quote(path).s);
    return sg_out_write(fd, bytes.p, bytes.n, err);
}

static int exit_code(const struct sg_cli *cli, const struct sg_jval *v)
{
    const char *ending = sg_api_text(v, "ending");
    if (strcmp(ending, "exit") == 0 || strcmp(ending, "permitted") == 0)
        return (int)sg_api_u64(v, "exitCode");
    sg_cli_note(cli, "%s", sg_api_text(sg_json_get(v, "error"), "message"));
    if (strcmp(ending, "timeout") == 0)
        return SG_EXIT_TIMEOUT;
    if (strcmp(ending, "oom") == 0)
        return SG_EXIT_SIGNAL + 9;
    if (strcmp(ending, "crash") == 0)
        return SG_EXIT_SIGNAL + (int)sg_api_u64(v, "signal");
    return SG_EXIT_NOT_STARTED;
}

static int show(struct sg_cli *cli, struct sg_api *api, const struct sg_jval *v)
{
    struct sg_err err;
    for (const struct sg_jval *f = sg_api_first(v, "files"); f; f = f->next)
        if (sg_cli_has_flag(cli, "into") && save_file(cli, f, &err) < 0)
            return sg_cli_fail_run(cli, &err);
    if (cli->config.json)
        (void)sg_api_print(&api->reply);
    else if (print_stream(v, "stdout", "stdoutBase64", STDOUT_FILENO, &err) < 0 ||
             print_stream(v, "stderr", "stderrBase64", STDERR_FILENO, &err) < 0)
        return sg_cli_fail_run(cli, &err);
    return exit_code(cli, v);
}

int sg_cmd_task_run(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf body;
    struct sg_err err;
    const struct sg_jval *v;
    sg_buf_init(&body, SG_API_MAX_REPLY);
    if (write_body(cli, &body, &err) < 0)
        return sg_cli_fail_run(cli, &err);
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "POST", "/v1/run", &body, &v, &err) < 0)
        return sg_cli_fail_run(cli, &err);
    return show(cli, &api, v);
}

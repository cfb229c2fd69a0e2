/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass swarm FILE`: tasks of a file, side by side in sandboxes of the service. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/hint.h"
#include "base/parse.h"
#include "cli/lines.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "config/toml.h"
#include "wire/base64.h"
#include "base/banned.h"

enum { MAX_FILE_BYTES = 6 << 20 };
#define YEAR_MS 31536000000u

/* ---- from TOML to JSON: a row a key ---- */

struct reader {
    const char *file;
    struct sg_json *j;
    struct sg_err *err;
};

static int bad(const struct reader *x, const struct sg_toml *t, const char *what)
{
    (void)sg_fail(x->err, SG_INVALID, "%s", what);
    return sg_wrap(x->err, "%s:%" PRIu32 ":%" PRIu32, x->file, t->line, t->column);
}

static int put_text(const struct reader *x, const struct sg_toml *t)
{
    if (t->type != SG_TOML_STRING)
        return bad(x, t, "a string is wanted here");
    sg_json_text(x->j, t->text);
    return 0;
}

static int put_texts(const struct reader *x, const struct sg_toml *t)
{
    if (t->type != SG_TOML_ARRAY)
        return bad(x, t, "an array of strings is wanted here");
    sg_json_open(x->j, '[');
    for (const struct sg_toml *v = t->first; v; v = v->next)
        if (put_text(x, v) < 0)
            return -1;
    sg_json_close(x->j, ']');
    return 0;
}

static int put_number(const struct reader *x, const struct sg_toml *t)
{
    if (t->type != SG_TOML_INTEGER || t->integer < 0)
        return bad(x, t, "a whole number is wanted here");
    sg_json_u64(x->j, (uint64_t)t->integer);
    return 0;
}

static int put_bool(const struct reader *x, const struct sg_toml *t)
{
    if (t->type != SG_TOML_BOOL)
        return bad(x, t, "true or false is wanted here");
    sg_json_bool(x->j, sg_str_is(t->text, "true"));
    return 0;
}

static int put_time(const struct reader *x, const struct sg_toml *t)
{
    uint64_t ms;
    if (t->type != SG_TOML_STRING || sg_parse_duration_ms(t->text, 1, YEAR_MS, &ms, x->err) < 0)
        return bad(x, t, "a time as \"30s\" is wanted here");
    sg_json_u64(x->j, ms);
    return 0;
}

static int put_pairs(const struct reader *x, const struct sg_toml *t)
{
    if (t->type != SG_TOML_TABLE)
        return bad(x, t, "a table of strings is wanted here");
    sg_json_open(x->j, '{');
    for (const struct sg_toml *v = t->first; v; v = v->next) {
        sg_auto_free char *name = sg_printf("%.*s", (int)v->key.n, v->key.p);
        sg_json_key(x->j, name);
        if (put_text(x, v) < 0)
            return -1;
    }
    sg_json_close(x->j, '}');
    return 0;
}

/* memory = "256m", cpus, pids */
static int put_limits(const struct reader *x, const struct sg_toml *t)
{
    uint64_t bytes;
    if (t->type != SG_TOML_STRING || sg_parse_bytes(t->text, 1, INT64_MAX, &bytes, x->err) < 0)
        return bad(x, t, "a size as \"256m\" is wanted here");
    sg_json_open(x->j, '{');
    sg_json_key(x->j, "memoryBytes");
    sg_json_u64(x->j, bytes);
    sg_json_close(x->j, '}');
    return 0;
}

/* { "path inside" = "volume" } */
static int put_mounts(const struct reader *x, const struct sg_toml *t)
{
    if (t->type != SG_TOML_TABLE)
        return bad(x, t, "a table of \"path inside\" = \"volume\" is wanted here");
    sg_json_open(x->j, '[');
    for (const struct sg_toml *v = t->first; v; v = v->next) {
        sg_json_open(x->j, '{');
        sg_json_key(x->j, "path");
        sg_json_text(x->j, v->key);
        sg_json_key(x->j, "volume");
        if (put_text(x, v) < 0)
            return -1;
        sg_json_close(x->j, '}');
    }
    sg_json_close(x->j, ']');
    return 0;
}

/* "/where it appears" */
static int put_shared(const struct reader *x, const struct sg_toml *t)
{
    sg_json_open(x->j, '{');
    sg_json_key(x->j, "path");
    if (put_text(x, t) < 0)
        return -1;
    sg_json_close(x->j, '}');
    return 0;
}

/* { "name inside" = "file here" } */
static int put_files(const struct reader *x, const struct sg_toml *t)
{
    if (t->type != SG_TOML_TABLE)
        return bad(x, t, "a table of \"path inside\" = \"file here\" is wanted here");
    sg_json_open(x->j, '[');
    for (const struct sg_toml *v = t->first; v; v = v->next) {
        sg_auto_buf bytes;
        sg_buf_init(&bytes, MAX_FILE_BYTES);
        if (v->type != SG_TOML_STRING)
            return bad(x, v, "the name of a file is wanted here");
        sg_auto_free char *path = sg_printf("%.*s", (int)v->text.n, v->text.p);
        sg_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            (void)sg_fail_sys(x->err, "open %s", sg_quote(path).s);
        if (fd < 0 || sg_buf_read_fd(&bytes, fd, path, x->err) < 0)
            return sg_wrap(x->err, "%s:%" PRIu32, x->file, v->line);
        sg_json_open(x->j, '{');
        sg_json_key(x->j, "path");
        sg_json_text(x->j, v->key);
        sg_json_key(x->j, "base64");
        sg_buf_add_str(x->j->out, "\"");
        sg_base64_encode(x->j->out, bytes.p, bytes.n);
        sg_buf_add_str(x->j->out, "\"");
        x->j->needs_comma = true;
        sg_json_close(x->j, '}');
    }
    sg_json_close(x->j, ']');
    return 0;
}

struct key {
    const char *toml, *json;
    int (*put)(const struct reader *x, const struct sg_toml *t);
};
static const struct key task_keys[] = {
    { "name", "name", put_text },         { "operation", "operation", put_text },
    { "trust", "trust", put_text },       { "agent", "agent", put_text },
    { "tier", "tier", put_text },         { "template", "template", put_text },
    { "cmd", "cmd", put_text },           { "argv", "argv", put_texts },
    { "code", "code", put_text },         { "language", "language", put_text },
    { "stdin", "stdin", put_text },       { "cwd", "cwd", put_text },
    { "user", "user", put_text },         { "env", "env", put_pairs },
    { "files", "files", put_files },      { "collect", "collect", put_texts },
    { "timeout", "timeoutMs", put_time }, { "memory", "limits", put_limits },
    { "retries", "retries", put_number }, { "after", "after", put_texts },
    { "always", "always", put_bool },     { "mounts", "mounts", put_mounts },
};

static int put_tasks(const struct reader *x, const struct sg_toml *t);
static const struct key file_keys[] = {
    { "concurrency", "concurrency", put_number },
    { "stop_on_failure", "stopOnFailure", put_bool },
    { "shared", "shared", put_shared },
    { "task", "tasks", put_tasks },
};

static int put_table(const struct reader *x, const struct sg_toml *t, const struct key *keys,
                     size_t n)
{
    if (t->type != SG_TOML_TABLE)
        return bad(x, t, "a table is wanted here");
    sg_json_open(x->j, '{');
    for (const struct sg_toml *v = t->first; v; v = v->next) {
        struct sg_hint hint = { .word = v->key };
        size_t i = 0;
        for (; i < n && !sg_str_is(v->key, keys[i].toml); i++)
            sg_hint_try(&hint, keys[i].toml);
        if (i == n) {
            (void)sg_fail(x->err, SG_INVALID, "unknown key %s%s", sg_quote_str(v->key).s,
                          sg_hint_text(&hint, "").s);
            return sg_wrap(x->err, "%s:%" PRIu32 ":%" PRIu32, x->file, v->line, v->column);
        }
        sg_json_key(x->j, keys[i].json);
        if (keys[i].put(x, v) < 0)
            return -1;
    }
    sg_json_close(x->j, '}');
    return 0;
}

static int put_tasks(const struct reader *x, const struct sg_toml *t)
{
    if (t->type != SG_TOML_ARRAY)
        return bad(x, t, "tasks are written as [[task]]");
    sg_json_open(x->j, '[');
    for (const struct sg_toml *v = t->first; v; v = v->next)
        if (put_table(x, v, task_keys, SG_COUNT(task_keys)) < 0)
            return -1;
    sg_json_close(x->j, ']');
    return 0;
}

static int write_body(const char *file, struct sg_buf *body, struct sg_err *err)
{
    sg_auto_fd fd = strcmp(file, "-") == 0 ? dup(STDIN_FILENO) : open(file, O_RDONLY | O_CLOEXEC);
    sg_auto_buf text;
    struct sg_json j;
    sg_buf_init(&text, SG_TOML_MAX_BYTES);
    if (fd < 0)
        return sg_fail_sys(err, "open %s", sg_quote(file).s);
    if (sg_buf_read_fd(&text, fd, file, err) < 0)
        return -1;
    sg_auto_toml doc = sg_toml_parse((struct sg_str) { (const char *)text.p, text.n }, err);
    if (!doc)
        return sg_wrap(err, "%s", file);
    sg_json_init(&j, body);
    const struct reader x = { file, &j, err };
    return put_table(&x, sg_toml_root(doc), file_keys, SG_COUNT(file_keys)) < 0
               ? -1
               : sg_buf_check(body, file, err);
}

/* ---- progress and report ---- */

struct show {
    struct sg_cli *cli;
    struct sg_table table;
    struct sg_buf all; /* with --json: every line, as an array */
    bool has_failed, has_report;
};

static void note_end(struct show *s, const struct sg_jval *v)
{
    const char *name = sg_api_text(v, "name"), *ending = sg_api_text(v, "ending");
    const uint64_t code = sg_api_u64(v, "exitCode");
    sg_table_add(&s->table, name);
    if (strcmp(ending, "exit") == 0)
        sg_table_addf(&s->table, "exit %" PRIu64, code);
    else
        sg_table_add(&s->table, ending);
    sg_table_add(&s->table, sg_api_text(v, "tier"));
    sg_table_addf(&s->table, "%" PRIu64, sg_api_u64(v, "attempts"));
    sg_table_addf(&s->table, "%" PRIu64, sg_api_u64(sg_json_get(v, "timings"), "totalMs"));
    sg_table_addf(&s->table, "%" PRIu64, sg_api_u64(sg_json_get(v, "usage"), "cpuMs"));
    const struct sg_jval *error = sg_json_get(v, "error");
    sg_cli_note(s->cli, "%s: %s%s%s", sg_quote(name).s, sg_quote(ending).s, error ? ": " : "",
                error ? sg_quote(sg_api_text(error, "message")).s : "");
}

static void note_skip(struct show *s, const struct sg_jval *v)
{
    sg_table_add(&s->table, sg_api_text(v, "name"));
    sg_table_add(&s->table, "skipped");
    for (unsigned i = 2; i < s->table.columns; i++)
        sg_table_add(&s->table, "-");
    sg_cli_note(s->cli, "%s: skipped: %s", sg_quote(sg_api_text(v, "name")).s,
                sg_api_text(v, "why"));
}

static int take_line(struct show *s, struct sg_str line, struct sg_err *err)
{
    sg_auto_arena arena;
    const struct sg_jval *v;
    sg_arena_init(&arena, (size_t)4 * SG_API_MAX_REPLY);
    if (sg_json_parse(line, &arena, &v, err) < 0)
        return sg_wrap(err, "the service's answer");
    const struct sg_jval *ended = sg_json_get(v, "ended"), *skipped = sg_json_get(v, "skipped"),
                         *started = sg_json_get(v, "started"), *report = sg_json_get(v, "report");
    if (ended)
        note_end(s, ended);
    if (skipped)
        note_skip(s, skipped);
    if (started)
        sg_cli_note(s->cli, "%s: started", sg_quote(sg_api_text(started, "name")).s);
    if (report) {
        sg_cli_note(s->cli,
                    "%" PRIu64 " tasks: %" PRIu64 " succeeded, %" PRIu64 " failed, %" PRIu64
                    " skipped; %" PRIu64 " ms, at most %" PRIu64 " at a time",
                    sg_api_u64(report, "tasks"), sg_api_u64(report, "succeeded"),
                    sg_api_u64(report, "failed"), sg_api_u64(report, "skipped"),
                    sg_api_u64(report, "wallMs"), sg_api_u64(report, "mostAtATime"));
        s->has_report = true;
        s->has_failed = sg_api_u64(report, "failed") || sg_api_u64(report, "skipped");
    }
    if (s->cli->config.json && !started) {
        sg_buf_add_str(&s->all, s->all.n ? ",\n" : "[");
        sg_buf_add(&s->all, line.p, line.n);
    }
    return 0;
}

static int follow(struct show *s, struct sg_api *api, struct sg_err *err)
{
    sg_auto_lines lines;
    struct sg_str line;
    int got;
    sg_lines_init(&lines, &api->http);
    sg_lines_allow(&lines, SG_API_MAX_REPLY);
    while ((got = sg_lines_next(&lines, &line, err)) > 0)
        if (line.n && take_line(s, line, err) < 0)
            return -1;
    if (got == 0 && !s->has_report)
        return sg_fail(err, SG_UNAVAILABLE, "the service ended before the tasks did");
    return got;
}

int sg_cmd_swarm(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf body, out;
    struct sg_err err;
    struct show s = { .cli = cli };
    sg_buf_init(&body, SG_API_MAX_REPLY);
    sg_buf_init(&out, SG_API_MAX_REPLY);
    sg_api_open(&api, cli);
    if (write_body(cli->args[0], &body, &err) < 0)
        return sg_cli_fail(cli, &err);
    sg_buf_init(&s.all, SG_API_MAX_REPLY);
    sg_table_init(&s.table, "TASK", "ENDING", "TIER", "ATTEMPTS", "MS", "CPU MS");
    const struct sg_str text = { (const char *)body.p, body.n };
    int got = -1;
    if (sg_http_send(&api.http, "POST", "/v1/batch", NULL, &text, &err) == 0 &&
        sg_http_receive(&api.http, &err) == 0 && sg_api_check(&api, &err) == 0)
        got = follow(&s, &api, &err);
    if (got == 0 && cli->config.json) {
        sg_buf_add_str(&s.all, "]\n");
        (void)sg_cli_print(&s.all);
    } else if (got == 0) {
        sg_table_print(&s.table, &out);
        (void)sg_cli_print(&out);
    }
    sg_buf_done(&s.all);
    sg_table_done(&s.table);
    return got < 0 ? sg_cli_fail(cli, &err) : s.has_failed ? SG_EXIT_FAILED : SG_EXIT_OK;
}

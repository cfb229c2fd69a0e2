/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass template build -f Dockerfile NAME [CONTEXT]`: the file is read here, and becomes steps
 * for the service; of the context only what a COPY means is sent. Ctrl-C cancels the build.
 *
 * A Dockerfile starts as root in "/", as it does elsewhere. What it does not say at its end (a
 * user, a directory) is as the template below has it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/cmd_template.h"
#include "cli/docker_context.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "image/dockerfile.h"
#include "base/banned.h"

enum { BODY_BYTES = 7 << 20, WAIT_MS = 10000 };
static const char ADDED[] = "/.sandglass-add";

struct job {
    struct sg_cli *cli;
    struct sg_api api;
    struct sg_dockerfile file;
    struct sg_context context;
    struct sg_json j;
    int signal_fd;
    char build[64];
    /* Which line each step is of, as the service counts them. */
    struct {
        unsigned stage, step, line;
    } lines[2 * SG_DOCKER_MAX_STEPS];
    size_t line_n;
    unsigned stage, step, line; /* under way */
};

/* ---- the context ---- */

struct sending {
    const struct sg_context *context;
    const struct sg_picked *picked;
};

static int put_chunk(void *arg, const void *p, size_t n, struct sg_err *err)
{
    return sg_http_put(arg, p, n, err);
}

static int write_files(void *arg, struct sg_http *h, struct sg_err *err)
{
    const struct sending *s = arg;
    struct sg_tar_count count = { 0 };
    return sg_tar_pack_items(s->context->fd, s->picked->items, s->picked->n, put_chunk, h, &count,
                             err);
}

/* The service's name for them, in `ret`. */
static int send_files(struct job *j, const struct sg_picked *picked, char ret[65],
                      struct sg_err *err)
{
    struct sending s = { &j->context, picked };
    sg_auto_buf reply;
    sg_auto_arena arena;
    const struct sg_jval *v;
    sg_buf_init(&reply, 4096);
    sg_arena_init(&arena, 64 << 10);
    if (sg_http_send_with(&j->api.http, "PUT", "/v1/builds/files", write_files, &s, err) < 0 ||
        sg_api_check(&j->api, err) < 0 || sg_http_read_all(&j->api.http, &reply, err) < 0 ||
        sg_json_parse((struct sg_str) { (const char *)reply.p, reply.n }, &arena, &v, err) < 0)
        return -1;
    (void)snprintf(ret, 65, "%s", sg_api_text(v, "files"));
    return 0;
}

/* ---- steps ---- */

static void put_text(struct sg_json *j, const char *key, const char *value)
{
    if (!value || !*value)
        return;
    sg_json_key(j, key);
    sg_json_str(j, value);
}

static void open_step(struct job *job, const char *type)
{
    struct sg_json *j = &job->j;
    job->step++;
    if (job->line_n < SG_COUNT(job->lines)) {
        job->lines[job->line_n].stage = job->stage;
        job->lines[job->line_n].step = job->step;
        job->lines[job->line_n++].line = job->line;
    }
    sg_json_open(j, '{');
    put_text(j, "type", type);
    sg_json_key(j, "args");
    sg_json_open(j, '[');
}

static void put_step(struct job *job, const char *type, const char *arg)
{
    struct sg_json *j = &job->j;
    open_step(job, type);
    sg_json_str(j, arg);
    sg_json_close(j, ']');
    sg_json_close(j, '}');
}

/* What the command is an argument of: env with the ARGs, then the shell, or the other words. */
static void put_run(struct job *job, const struct sg_docker_step *s)
{
    struct sg_json *j = &job->j;
    const size_t last = s->n - 1;
    open_step(job, "RUN");
    sg_json_str(j, s->words[last]);
    sg_json_close(j, ']');
    sg_json_key(j, "shell");
    sg_json_open(j, '[');
    if (s->args[0] || (s->is_exec && last == 0))
        sg_json_str(j, "/usr/bin/env");
    for (size_t i = 0; s->args[i]; i++)
        sg_json_str(j, s->args[i]);
    for (size_t i = 0; s->is_exec && i < last; i++)
        sg_json_str(j, s->words[i]);
    for (size_t i = 0; !s->is_exec && s->shell[i]; i++)
        sg_json_str(j, s->shell[i]);
    sg_json_close(j, ']');
    sg_json_close(j, '}');
}

static void put_env(struct job *job, const struct sg_docker_step *s)
{
    struct sg_json *j = &job->j;
    open_step(job, "ENV");
    for (size_t i = 0; i < s->n; i++)
        sg_json_str(j, s->words[i]);
    sg_json_close(j, ']');
    sg_json_close(j, '}');
}

static void put_copy(struct job *job, const char *source, const char *to,
                     const struct sg_docker_step *s, const char *files)
{
    struct sg_json *j = &job->j;
    open_step(job, "COPY");
    sg_json_str(j, source);
    sg_json_str(j, to);
    sg_json_close(j, ']');
    put_text(j, "user", s->chown);
    put_text(j, "mode", s->chmod);
    put_text(j, "files", files);
    if (s->stage) {
        sg_json_key(j, "stage");
        sg_json_u64(j, s->stage);
    }
    sg_json_close(j, '}');
}

/* An archive that is ADDed is unpacked by the template's own tar. */
static void put_unpack(struct job *job, const char *to)
{
    struct sg_json *j = &job->j;
    sg_auto_buf line;
    sg_buf_init(&line, 16 << 10);
    sg_buf_add_str(&line, "mkdir -p \"$0\" && tar -xf ");
    sg_buf_addf(&line, "%s -C \"$0\" && rm %s", ADDED, ADDED);
    open_step(job, "RUN");
    sg_json_str(j, to);
    sg_json_close(j, ']');
    put_text(j, "user", "root");
    sg_json_key(j, "shell");
    sg_json_open(j, '[');
    sg_json_str(j, "/bin/sh");
    sg_json_str(j, "-c");
    sg_json_str(j, sg_buf_cstr(&line));
    sg_json_close(j, ']');
    sg_json_close(j, '}');
}

static int fail_at(const struct sg_docker_step *s, struct sg_err *err)
{
    return sg_wrap(err, "line %u", s->line);
}

static int put_files(struct job *j, const struct sg_docker_step *s, const char *const *sources,
                     size_t n, bool unpacks, struct sg_err *err)
{
    sg_auto_picked picked = { 0 };
    char files[65];
    const char *to = s->words[s->n - 1];
    if (sg_context_pick(&j->context, sources, n, &picked, err) < 0)
        return fail_at(s, err);
    if (picked.hits > 1 && n == 1 && strpbrk(sources[0], "*?[") && to[strlen(to) - 1] != '/') {
        (void)sg_fail(err, SG_INVALID, "%s is more than one file: %s must end with '/'",
                      sg_quote(sources[0]).s, sg_quote(to).s);
        return fail_at(s, err);
    }
    if (send_files(j, &picked, files, err) < 0)
        return fail_at(s, err);
    if (unpacks && picked.is_file && sg_context_is_archive(&j->context, picked.items[0].file)) {
        const struct sg_docker_step plain = { .line = s->line };
        put_copy(j, picked.items[0].name, ADDED, &plain, files);
        put_unpack(j, to);
    } else {
        put_copy(j, picked.is_file ? picked.items[0].name : "", to, s, files);
    }
    return 0;
}

static int put_sources(struct job *j, const struct sg_docker_step *s, struct sg_err *err)
{
    for (size_t i = 0; s->stage && i + 1 < s->n; i++)
        put_copy(j, s->words[i], s->words[s->n - 1], s, NULL);
    if (s->stage)
        return 0;
    if (s->op == SG_DOCKER_COPY)
        return put_files(j, s, s->words, s->n - 1, false, err);
    for (size_t i = 0; i + 1 < s->n; i++)
        if (put_files(j, s, &s->words[i], 1, true, err) < 0)
            return -1;
    return 0;
}

static int put_one(struct job *j, const struct sg_docker_step *s, struct sg_err *err)
{
    if (s->op == SG_DOCKER_RUN)
        put_run(j, s);
    else if (s->op == SG_DOCKER_ENV)
        put_env(j, s);
    else if (s->op == SG_DOCKER_COPY || s->op == SG_DOCKER_ADD)
        return put_sources(j, s, err);
    else
        put_step(j, sg_docker_names[s->op], s->words[0]);
    return 0;
}

/* ---- stages ---- */

static bool says(const struct sg_dockerfile *d, const struct sg_docker_stage *s,
                 enum sg_docker_op op)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->steps[i].op == op)
            return true;
    return !s->image && says(d, &d->stages[s->stage - 1], op);
}

static int put_stage(struct job *j, const struct sg_docker_stage *s, struct sg_err *err)
{
    const bool is_last = s == &j->file.stages[j->file.n - 1];
    j->stage++;
    j->step = j->line = 0;
    sg_json_open(&j->j, '{');
    put_text(&j->j, "image", s->image);
    if (!s->image) {
        sg_json_key(&j->j, "stage");
        sg_json_u64(&j->j, s->stage);
    }
    sg_json_key(&j->j, "steps");
    sg_json_open(&j->j, '[');
    if (s->image) {
        put_step(j, "USER", "root");
        put_step(j, "WORKDIR", "/");
    }
    for (size_t i = 0; i < s->n; i++) {
        j->line = s->steps[i].line;
        if (put_one(j, &s->steps[i], err) < 0)
            return -1;
    }
    if (is_last && !says(&j->file, s, SG_DOCKER_USER))
        put_step(j, "USER", "");
    if (is_last && !says(&j->file, s, SG_DOCKER_WORKDIR))
        put_step(j, "WORKDIR", "");
    sg_json_close(&j->j, ']');
    sg_json_close(&j->j, '}');
    return 0;
}

static int write_body(struct job *j, struct sg_buf *out, struct sg_err *err)
{
    const struct sg_config *c = &j->cli->config;
    sg_json_init(&j->j, out);
    sg_json_open(&j->j, '{');
    put_text(&j->j, "name", j->cli->args[0]);
    if (*c->tag) {
        sg_json_key(&j->j, "tags");
        sg_json_open(&j->j, '[');
        sg_json_str(&j->j, c->tag);
        sg_json_close(&j->j, ']');
    }
    put_text(&j->j, "start", j->file.stages[j->file.n - 1].start);
    put_text(&j->j, "ready", c->ready);
    if (sg_cli_has_flag(j->cli, "net")) {
        sg_json_key(&j->j, "network");
        sg_put_network(&j->j, j->cli, NULL);
    }
    sg_json_key(&j->j, "force");
    sg_json_bool(&j->j, c->force);
    sg_json_key(&j->j, "asDockerfile");
    sg_json_bool(&j->j, true);
    sg_json_key(&j->j, "stages");
    sg_json_open(&j->j, '[');
    for (size_t i = 0; i < j->file.n; i++)
        if (put_stage(j, &j->file.stages[i], err) < 0)
            return -1;
    sg_json_close(&j->j, ']');
    sg_json_close(&j->j, '}');
    return sg_buf_check(out, "the Dockerfile, as steps,", err);
}

/* ---- the build ---- */

/* Until the service has something to say, or somebody has had enough. */
static int wait_for(void *arg, int fd, struct sg_err *err)
{
    const struct job *j = arg;
    struct pollfd fds[] = { { .fd = fd, .events = POLLIN },
                            { .fd = j->signal_fd, .events = POLLIN } };
    while (poll(fds, SG_COUNT(fds), -1) < 0)
        if (errno != EINTR)
            return sg_fail_sys(err, "wait for the service");
    return fds[1].revents ? sg_fail(err, SG_DENIED, "interrupted") : 0;
}

static void cancel(struct job *j)
{
    sg_auto_api api;
    sg_auto_buf target;
    struct sg_err ignored;
    sg_api_open(&api, j->cli);
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_api_path(&target, "builds", j->build);
    (void)sg_api_call(&api, "DELETE", sg_buf_cstr(&target), NULL, NULL, &ignored);
}

static void show(struct job *j, const struct sg_jval *v)
{
    for (const struct sg_jval *line = sg_api_first(v, "log"); line; line = line->next) {
        sg_auto_buf text;
        sg_buf_init(&text, 64 << 10);
        sg_add_clean(&text, sg_api_text(line, "text"));
        sg_cli_note(j->cli, "%s", sg_buf_cstr(&text));
    }
}

/* The service counts steps; people count lines. */
static int fail_build(const struct job *j, const struct sg_jval *v, struct sg_err *err)
{
    const char *where = sg_api_text(v, "failedStep");
    for (size_t i = 0; i < j->line_n; i++) {
        char name[32];
        if (j->file.n > 1)
            (void)snprintf(name, sizeof name, "%u.%u", j->lines[i].stage, j->lines[i].step);
        else
            (void)snprintf(name, sizeof name, "%u", j->lines[i].step);
        if (strcmp(name, where) == 0 && j->lines[i].line)
            return sg_fail(err, SG_DENIED, "line %u: %s", j->lines[i].line,
                           sg_api_text(v, "error"));
    }
    return sg_fail(err, SG_DENIED, "%s", sg_api_text(v, "error"));
}

static int follow(struct job *j, struct sg_err *err)
{
    uint64_t offset = 0;
    for (;;) {
        sg_auto_buf target;
        const struct sg_jval *v;
        char number[24], wait[24];
        sg_buf_init(&target, SG_API_MAX_PATH);
        (void)snprintf(number, sizeof number, "%llu", (unsigned long long)offset);
        (void)snprintf(wait, sizeof wait, "%d", WAIT_MS);
        sg_api_path(&target, "builds", j->build);
        sg_api_query(&target, "offset", number);
        sg_api_query(&target, "waitMs", wait);
        if (sg_api_call(&j->api, "GET", sg_buf_cstr(&target), NULL, &v, err) < 0) {
            if (err->kind == SG_DENIED && strcmp(err->msg, "interrupted") == 0)
                cancel(j);
            return -1;
        }
        const char *state = sg_api_text(v, "state");
        const bool is_over = strcmp(state, "ready") == 0 || strcmp(state, "error") == 0;
        const uint64_t next = sg_api_u64(v, "nextOffset");
        show(j, v);
        if (is_over && next == offset)
            return strcmp(state, "ready") == 0 ? 0 : fail_build(j, v, err);
        offset = next;
    }
}

static int read_file(struct job *j, struct sg_err *err)
{
    const struct sg_config *c = &j->cli->config;
    const bool is_stdin = strcmp(c->dockerfile, "-") == 0;
    sg_auto_fd fd = is_stdin ? dup(STDIN_FILENO) : open(c->dockerfile, O_RDONLY | O_CLOEXEC);
    sg_auto_buf text;
    sg_buf_init(&text, SG_DOCKER_MAX_BYTES);
    if (fd < 0)
        return sg_fail_sys(err, "open %s", sg_quote(c->dockerfile).s);
    if (sg_buf_read_fd(&text, fd, c->dockerfile, err) < 0)
        return -1;
    const struct sg_str all = { text.n ? (const char *)text.p : "", text.n };
    if (sg_dockerfile_parse(&j->file, all, (const char *const *)c->build_args.v, err) < 0)
        return sg_wrap(err, "%s", c->dockerfile);
    for (unsigned op = 0; op < SG_DOCKER_OP_COUNT; op++)
        if (j->file.noted[op])
            sg_cli_note(j->cli, "%s: line %u: %s has no effect on a template", c->dockerfile,
                        j->file.noted[op], sg_docker_names[op]);
    return 0;
}

/* FROM names an image of a registry where it could not be a template's name. */
static bool is_of_registry(const char *image)
{
    const char *colon = strrchr(image, ':');
    return !sg_starts_with(image, "e2bdev/") && !sg_starts_with(image, "docker.io/e2bdev/") &&
           (strchr(image, '/') || strchr(image, '@') || (colon && strcmp(colon, ":latest") != 0));
}

/* Images become templates of this machine first, and then are what the build stands on. */
static int pull_images(struct job *j, struct sg_err *err)
{
    for (size_t i = 0; i < j->file.n; i++) {
        struct sg_docker_stage *s = &j->file.stages[i];
        if (!s->image || !is_of_registry(s->image))
            continue;
        sg_auto_free char *name = sg_template_pull_missing(j->cli, s->image, err);
        if (!name)
            return -1;
        sg_cli_note(j->cli, "FROM %s: template %s", s->image, name);
        s->image = sg_arena_copy(&j->file.arena, name, strlen(name));
        if (!s->image)
            return sg_fail(err, SG_EXHAUSTED, "the Dockerfile is too large");
    }
    return 0;
}

static int build(struct job *j, struct sg_err *err)
{
    const char *dir = j->cli->arg_count > 1 ? j->cli->args[1] : ".";
    sg_auto_buf body;
    const struct sg_jval *v;
    sg_buf_init(&body, BODY_BYTES);
    if (sg_context_open(&j->context, dir, err) < 0 || write_body(j, &body, err) < 0 ||
        sg_api_call(&j->api, "POST", "/v1/builds", &body, &v, err) < 0)
        return -1;
    (void)snprintf(j->build, sizeof j->build, "%s", sg_api_text(v, "id"));
    j->api.http.wait = wait_for;
    j->api.http.wait_arg = j;
    return follow(j, err);
}

int sg_template_dockerfile(struct sg_cli *cli)
{
    struct job j = { .cli = cli, .context.fd = -1, .signal_fd = -1 };
    struct sg_err err = { 0 };
    sigset_t ends;
    int got = read_file(&j, &err);
    if (got == 0 && cli->config.pull)
        got = pull_images(&j, &err); /* while an interrupt still ends us */
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGINT);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &ends, NULL);
    j.signal_fd = signalfd(-1, &ends, SFD_CLOEXEC);
    sg_api_open(&j.api, cli);
    got = got == 0 ? build(&j, &err) : -1;
    if (got == 0 && cli->config.json) {
        (void)sg_api_print(&j.api.reply);
    } else if (got == 0) {
        sg_auto_buf out;
        sg_buf_init(&out, 4096);
        sg_buf_addf(&out, "%s\n", cli->args[0]);
        (void)sg_cli_print(&out);
    }
    sg_api_done(&j.api);
    sg_context_done(&j.context);
    sg_dockerfile_done(&j.file);
    sg_close_p(&j.signal_fd);
    if (got == 0)
        return SG_EXIT_OK;
    (void)sg_wrap(&err, "build template '%s'", cli->args[0]);
    return sg_cli_fail(cli, &err);
}

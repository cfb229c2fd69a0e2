/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass hook`: a hook for coding agents. A tool call comes in on stdin; the service's rules on
 * tool calls decide, and what belongs into the sandbox of the session goes there: a command becomes
 * `sandglass exec`, a file becomes a copy of the sandbox's (stage.h).
 *
 * Before a call it answers with the decision. After it, what an agent wrote is put inside. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "cli/hook.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "cli/stage.h"
#include "base/banned.h"

enum { MAX_ANSWER = 64 << 20, MAX_TREE_BYTES = 512 << 20 };
#define NS_PER_MS 1000000u
/* Names of files in the tools that agents have; the rules say what is one, this is for resolving.
 */
static const char *const path_names[] = { "file_path", "notebook_path", "path", NULL };

struct hook {
    struct sg_cli *cli;
    struct sg_api api;
    struct sg_arena arena;
    struct sg_hook_call call;
    struct sg_stage stage;
    uint64_t deadline_ns; /* of the approval */
};

static const struct sg_jval *first_of(const struct sg_hook_call *c, const char *const *names)
{
    for (; *names; names++) {
        const struct sg_jval *v = sg_json_get(c->input, *names);
        if (v && v->kind == SG_J_STRING)
            return v;
    }
    return NULL;
}

/* ---- the question ---- */

/* The path as this machine resolves it, as far as it is there. Returns owned. */
static char *resolve(const char *cwd, const char *path)
{
    sg_auto_free char *whole = path[0] == '/' ? sg_strdup(path) : sg_printf("%s/%s", cwd, path);
    for (size_t n = strlen(whole); n; n--) {
        if (whole[n] != '/' && whole[n])
            continue;
        char found[PATH_MAX];
        sg_auto_free char *front = sg_printf("%.*s", (int)n, whole);
        if (realpath(front, found))
            return sg_printf("%s%s", strcmp(found, "/") == 0 ? "" : found, whole + n);
    }
    return sg_strdup(whole);
}

/* An agent repeats what it was shown, and so names the copies. */
static void put_input(struct sg_json *j, const struct hook *h)
{
    sg_json_open(j, '{');
    for (const struct sg_jval *v = h->call.input->list.first; v; v = v->next) {
        sg_json_key(j, v->key.p);
        if (v->kind != SG_J_STRING) {
            sg_json_put(j, v);
            continue;
        }
        sg_auto_buf text;
        sg_buf_init(&text, SG_HOOK_MAX_BYTES);
        sg_hook_replace(&text, v->s, h->stage.files, "");
        sg_json_text(j, (struct sg_str) { text.n ? (const char *)text.p : "", text.n });
    }
    sg_json_close(j, '}');
}

static int ask(struct hook *h, const struct sg_jval **ret, struct sg_err *err)
{
    const struct sg_jval *path = first_of(&h->call, path_names);
    sg_auto_buf body;
    struct sg_json j;
    sg_buf_init(&body, MAX_ANSWER);
    sg_json_init(&j, &body);
    sg_json_open(&j, '{');
    sg_json_key(&j, "tool");
    sg_json_str(&j, h->call.tool);
    sg_json_key(&j, "session");
    sg_json_str(&j, h->call.session);
    sg_json_key(&j, "cwd");
    sg_json_str(&j, h->call.cwd);
    if (h->call.input) {
        sg_json_key(&j, "input");
        put_input(&j, h);
    }
    if (path && path->s.n && !memchr(path->s.p, '\0', path->s.n) &&
        !sg_starts_with(path->s.p, h->stage.files)) {
        sg_auto_free char *resolved = resolve(h->call.cwd, path->s.p);
        sg_json_key(&j, "resolvedPath");
        sg_json_str(&j, resolved);
    }
    sg_json_close(&j, '}');
    if (sg_buf_check(&body, "the tool call", err) < 0)
        return -1;
    return sg_api_call(&h->api, "POST", "/v1/intercept", &body, ret, err);
}

/* ---- somebody's approval ---- */

static int wait_readable(void *arg, int fd, struct sg_err *err)
{
    const struct hook *h = arg;
    for (;;) {
        const uint64_t now_ns = sg_now_ns();
        const uint64_t left_ns = now_ns < h->deadline_ns ? h->deadline_ns - now_ns : 0;
        struct pollfd p = { .fd = fd, .events = POLLIN };
        const int got = poll(&p, 1, (int)(left_ns / NS_PER_MS));
        if (got > 0)
            return 0;
        if (got == 0)
            return sg_fail(err, SG_TIMEOUT, "nobody has decided yet");
        if (errno != EINTR)
            return sg_fail_sys(err, "wait for the service");
    }
}

/* 0: decided, one way or the other. */
static int wait_for(struct hook *h, const char *approval, struct sg_err *err)
{
    sg_auto_api api;
    sg_auto_buf target;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_api_path(&target, "approvals", approval);
    sg_api_query(&target, "wait", "1");
    sg_api_open(&api, h->cli);
    h->deadline_ns = sg_now_ns() + h->cli->config.hook_wait_ms * NS_PER_MS;
    api.http.wait = wait_readable;
    api.http.wait_arg = h;
    if (sg_api_call(&api, "GET", sg_buf_cstr(&target), NULL, NULL, err) == 0)
        return 0;
    if (err->kind != SG_TIMEOUT)
        return -1;
    return sg_fail(err, SG_TIMEOUT,
                   "approval %s is pending: somebody must run 'sandglass approve %s'; then try the "
                   "same call again",
                   approval, approval);
}

/* ---- into the sandbox ---- */

/* What of the answer outlives the next call to the service. */
struct place {
    char *sandbox, *root, *workspace, *cwd, *path, *argument; /* owned */
    bool copies;
};

static void place_done(struct place *p)
{
    free(p->sandbox);
    free(p->root);
    free(p->workspace);
    free(p->cwd);
    free(p->path);
    free(p->argument);
}

static struct place place_of(const struct sg_jval *v)
{
    const struct sg_jval *copy = sg_json_get(v, "copy");
    return (struct place) {
        .sandbox = sg_strdup(sg_api_text(v, "sandbox")),
        .root = sg_strdup(sg_api_text(v, "root")),
        .workspace = sg_strdup(sg_api_text(v, "workspace")),
        .cwd = sg_strdup(sg_api_text(v, "cwd")),
        .path = sg_strdup(sg_api_text(v, "path")),
        .argument = sg_strdup(sg_api_text(v, "argument")),
        .copies = copy && copy->kind == SG_J_BOOL && copy->b,
    };
}

static int fill(struct hook *h, const struct place *p, struct sg_err *err)
{
    struct sg_tar_count count = { 0 };
    const struct sg_remote r = { .api = &h->api,
                                 .kind = "sandboxes",
                                 .owner = p->sandbox,
                                 .count = &count,
                                 .most_bytes = MAX_TREE_BYTES };
    if (!p->copies || sg_stage_is_filled(&h->stage, p->sandbox))
        return 0;
    const int fd = open(p->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return sg_fail_sys(err, "open the directory %s", sg_quote(p->root).s);
    if (sg_remote_put_tree(&r, fd, p->workspace, err) < 0)
        return sg_wrap(err, "copy %s into the sandbox", sg_quote(p->root).s);
    return sg_stage_set_filled(&h->stage, p->sandbox, err);
}

static void add_flag(struct sg_buf *out, const struct sg_cli *cli, const char *flag,
                     const char *value)
{
    if (!sg_cli_has_flag(cli, flag))
        return;
    sg_buf_addf(out, " --%s ", flag);
    sg_hook_quote(out, value);
}

/* `argv` is the shell's, as the service made it. */
static int write_command(const struct hook *h, const char *sandbox, const char *cwd,
                         const struct sg_jval *argv, struct sg_buf *out, struct sg_err *err)
{
    char program[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0)
        return sg_fail_sys(err, "find this program");
    program[n] = '\0';
    sg_hook_quote(out, program);
    sg_buf_add_str(out, " exec --tty=off");
    add_flag(out, h->cli, "url", h->cli->config.url);
    add_flag(out, h->cli, "config", h->cli->config.config_file);
    sg_buf_add_str(out, " --workdir ");
    sg_hook_quote(out, cwd);
    sg_buf_addf(out, " %s --", sandbox);
    for (const struct sg_jval *v = argv; v; v = v->next) {
        if (v->kind != SG_J_STRING || memchr(v->s.p, '\0', v->s.n))
            return sg_fail(err, SG_INVALID, "a command cannot hold a NUL");
        sg_buf_add_str(out, " ");
        sg_hook_quote(out, v->s.p);
    }
    return sg_buf_check(out, "the command", err);
}

static int move_inside(struct hook *h, const struct sg_jval *v, struct sg_hook_answer *answer,
                       struct sg_buf *value, struct sg_err *err)
{
    __attribute__((cleanup(place_done))) struct place p = place_of(v);
    const struct sg_jval *argv = sg_api_first(v, "argv"),
                         *moved = sg_json_get(h->call.input, p.argument);
    struct sg_tar_count count = { 0 };
    const struct sg_remote r = {
        .api = &h->api, .kind = "sandboxes", .owner = p.sandbox, .count = &count
    };
    sg_auto_free char *place = NULL;
    if (!moved || (!argv && p.path[0] != '/'))
        return sg_fail(err, SG_INVALID, "nothing of this call can be moved into the sandbox");
    if (argv && write_command(h, p.sandbox, p.cwd, argv, value, err) < 0)
        return -1;
    if (sg_stage_lock(&h->stage, err) < 0 || fill(h, &p, err) < 0 ||
        sg_stage_put(&h->stage, &h->api, p.sandbox, err) < 0)
        return -1;
    if (!argv && (sg_stage_get(&h->stage, &r, p.path, &place, err) < 0 ||
                  sg_stage_expect(&h->stage, p.sandbox, p.path, err) < 0))
        return -1;
    if (place)
        sg_buf_add_str(value, place);
    answer->argument = moved->key.p;
    answer->value = sg_buf_cstr(value);
    return 0;
}

/* ---- before a call ---- */

static int decide(struct hook *h, struct sg_hook_answer *answer, struct sg_buf *value,
                  struct sg_buf *reason, struct sg_err *err)
{
    const struct sg_jval *v;
    if (ask(h, &v, err) < 0)
        return -1;
    if (strcmp(sg_api_text(v, "action"), "approve") == 0) {
        sg_auto_free char *id = sg_strdup(sg_api_text(v, "approval"));
        if (wait_for(h, id, err) < 0 || ask(h, &v, err) < 0)
            return -1;
    }
    /* The answer's texts end with the next call. */
    const bool goes_inside = strcmp(sg_api_text(v, "action"), "sandbox") == 0;
    const bool is_fine = goes_inside || strcmp(sg_api_text(v, "action"), "allow") == 0;
    sg_buf_addf(reason, "sandglass: %s%s%s%s", sg_api_text(v, "reason"),
                *sg_api_text(v, "rule") ? " (rule " : "", sg_api_text(v, "rule"),
                *sg_api_text(v, "rule") ? ")" : "");
    answer->reason = sg_buf_cstr(reason);
    if (goes_inside && move_inside(h, v, answer, value, err) < 0)
        return -1;
    answer->word = is_fine ? SG_HOOK_ALLOW : SG_HOOK_DENY;
    return 0;
}

static int before(struct hook *h)
{
    struct sg_hook_answer answer = { .word = SG_HOOK_DENY };
    sg_auto_buf out, value, reason;
    struct sg_err err = { 0 };
    sg_buf_init(&out, MAX_ANSWER);
    sg_buf_init(&value, MAX_ANSWER);
    sg_buf_init(&reason, 64 << 10);
    if (decide(h, &answer, &value, &reason, &err) < 0) {
        sg_buf_clear(&reason);
        sg_buf_addf(&reason, "sandglass: %s", err.msg);
        answer = (struct sg_hook_answer) { SG_HOOK_DENY, sg_buf_cstr(&reason), NULL, NULL };
    }
    sg_hook_write(&out, &h->call, &answer);
    if (sg_buf_check(&out, "the answer", &err) < 0) {
        (void)sg_cli_fail(h->cli, &err);
        return SG_EXIT_USAGE;
    }
    return sg_cli_print(&out) == SG_EXIT_OK ? SG_EXIT_OK : SG_EXIT_USAGE;
}

/* ---- after it ---- */

static int after(struct hook *h, struct sg_err *err)
{
    if (sg_stage_lock(&h->stage, err) < 0 || sg_stage_put(&h->stage, &h->api, NULL, err) < 0)
        return -1;
    return h->call.event == SG_HOOK_END ? sg_stage_remove(&h->stage, err) : 0;
}

static int run(struct hook *h, struct sg_err *err)
{
    sg_auto_buf text;
    sg_buf_init(&text, SG_HOOK_MAX_BYTES);
    if (sg_buf_read_fd(&text, STDIN_FILENO, "stdin", err) < 0 ||
        sg_hook_read((struct sg_str) { text.n ? (const char *)text.p : "", text.n }, &h->arena,
                     &h->call, err) < 0)
        return -1;
    if (h->call.event == SG_HOOK_OTHER)
        return SG_EXIT_OK;
    if (sg_stage_open(&h->stage, h->call.session, err) < 0)
        return -1;
    return h->call.event == SG_HOOK_BEFORE ? before(h) : after(h, err);
}

int sg_cmd_hook(struct sg_cli *cli)
{
    struct hook h = { .cli = cli, .stage = { .fd = -1, .lock_fd = -1 } };
    struct sg_err err = { 0 };
    sg_arena_init(&h.arena, (size_t)8 * SG_HOOK_MAX_BYTES);
    sg_api_open(&h.api, cli);
    int code = run(&h, &err);
    if (code < 0) {
        (void)sg_cli_fail(cli, &err);
        code = SG_EXIT_USAGE; /* the only code that an agent takes for a no */
    }
    sg_stage_close(&h.stage);
    sg_api_done(&h.api);
    sg_arena_done(&h.arena);
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass exec ID -- command` and `sandglass shell ID`.
 *
 * With a terminal: over a WebSocket (session.c). Without: the exec is started, then its output is
 * followed; our input goes in on a second connection, by a child of ours, so that neither waits for
 * the other however much there is of both. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/exec.h"
#include "cli/out.h"
#include "cli/output.h"
#include "cli/sandbox.h"
#include "cli/session.h"
#include "cli/table.h"
#include "cli/term.h"
#include "base/banned.h"

enum { MAX_BODY = 1 << 20, CAPTURE_BYTES = 64 << 20, EXEC_ID = 64 };

struct job {
    struct sg_cli *cli;
    const char *sandbox;
    char exec[EXEC_ID];
};

/* ---- the request ---- */

static void put_text(struct sg_json *j, const struct sg_cli *cli, const char *flag, const char *key,
                     const char *value)
{
    if (!sg_cli_has_flag(cli, flag))
        return;
    sg_json_key(j, key);
    sg_json_str(j, value);
}

static void put_bool(struct sg_json *j, const char *key)
{
    sg_json_key(j, key);
    sg_json_bool(j, true);
}

static void put_tty(struct sg_json *j)
{
    uint32_t rows, cols;
    sg_term_size(STDOUT_FILENO, &rows, &cols);
    sg_json_key(j, "tty");
    sg_json_open(j, '{');
    sg_json_key(j, "rows");
    sg_json_u64(j, rows);
    sg_json_key(j, "cols");
    sg_json_u64(j, cols);
    sg_json_close(j, '}');
}

enum how { WITH_TTY, WITH_INPUT, WITHOUT_INPUT };

static void write_body(struct sg_buf *out, const struct sg_cli *cli, char *const *argv,
                       enum how how)
{
    const struct sg_config *c = &cli->config;
    static char term[] = "TERM";
    char *names[] = { term };
    struct sg_strlist only_term = { names, 1 };
    struct sg_json j;
    sg_json_init(&j, out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "argv");
    sg_json_open(&j, '[');
    for (; *argv; argv++)
        sg_json_str(&j, *argv);
    sg_json_close(&j, ']');
    if (sg_cli_has_flag(cli, "env"))
        sg_put_env(&j, &c->env);
    else if (how == WITH_TTY)
        sg_put_env(&j, &only_term);
    put_text(&j, cli, "workdir", "cwd", c->workdir);
    put_text(&j, cli, "user", "user", c->user);
    if (sg_cli_has_flag(cli, "timeout")) {
        sg_json_key(&j, "timeoutMs");
        sg_json_u64(&j, c->timeout_ms);
    }
    if (how == WITH_TTY)
        put_tty(&j);
    else
        put_bool(&j, "background");
    if (how != WITHOUT_INPUT)
        put_bool(&j, "stdin");
    sg_json_close(&j, '}');
}

/* ---- failures ---- */

/* "Not found" is of the sandbox or of the program in it: the sandbox tells which. */
static int fail_start(struct sg_api *a, const struct job *j, const struct sg_err *err)
{
    const bool is_missing = err->kind == SG_NOT_FOUND, is_denied = err->kind == SG_DENIED;
    int code = sg_cli_fail_run(j->cli, err);
    if (err->kind == SG_INVALID && !err->sys)
        return SG_EXIT_USAGE;
    if (err->sys == ENOENT)
        return SG_EXIT_NOT_FOUND;
    if (err->sys == EACCES || err->sys == ENOEXEC || err->sys == EISDIR || err->sys == ENOTDIR)
        return SG_EXIT_NOT_RUNNABLE;
    sg_auto_buf target;
    struct sg_err ignored;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_api_path(&target, "sandboxes", j->sandbox);
    if (is_missing && sg_api_call(a, "GET", sg_buf_cstr(&target), NULL, NULL, &ignored) == 0)
        return SG_EXIT_NOT_FOUND;
    if (is_denied && strstr(err->msg, strerror(EACCES)))
        return SG_EXIT_NOT_RUNNABLE;
    return code;
}

/* ---- input, by a child ---- */

static bool has_input(void)
{
    struct stat st;
    if (fstat(STDIN_FILENO, &st) < 0)
        return false;
    return !S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, 3); /* /dev/null */
}

/* Returns the child's pid, or -1. It ends with its input, with the exec's, or when we kill it. */
static pid_t start_input(const struct job *j, struct sg_err *err)
{
    const pid_t pid = fork();
    if (pid < 0)
        return sg_fail_sys(err, "start a process for the input");
    if (pid > 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    sg_auto_api api;
    sg_auto_buf target;
    struct sg_err ignored;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_api_path(&target, "sandboxes", j->sandbox, "execs", j->exec, "stdin");
    sg_api_query(&target, "close", "1");
    sg_api_open(&api, j->cli);
    (void)sg_http_send_fd(&api.http, "POST", sg_buf_cstr(&target), STDIN_FILENO, UINT64_MAX,
                          &ignored);
    _exit(0);
}

static void end_input(pid_t pid)
{
    if (pid <= 0)
        return;
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* ---- signals ---- */

/* Whoever interrupts us means the command: it gets the signal, and its end is ours. */
static void pass_on(void *arg, int fd)
{
    const struct job *j = arg;
    struct signalfd_siginfo info;
    sg_auto_api api;
    sg_auto_buf target, body;
    struct sg_err ignored;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_buf_init(&body, 64);
    sg_api_open(&api, j->cli);
    if (read(fd, &info, sizeof info) != sizeof info)
        return;
    sg_api_path(&target, "sandboxes", j->sandbox, "execs", j->exec, "signal");
    sg_buf_addf(&body, "{\"signal\":\"%s\"}", info.ssi_signo == SIGINT ? "INT" : "TERM");
    (void)sg_api_call(&api, "POST", sg_buf_cstr(&target), &body, NULL, &ignored);
}

static int open_signals(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

/* ---- without a terminal ---- */

static int start(struct sg_api *a, struct job *j, char *const *argv, enum how how,
                 struct sg_err *err)
{
    sg_auto_buf target, body;
    const struct sg_jval *v;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_buf_init(&body, MAX_BODY);
    write_body(&body, j->cli, argv, how);
    sg_api_path(&target, "sandboxes", j->sandbox, "exec");
    if (sg_api_call(a, "POST", sg_buf_cstr(&target), &body, &v, err) < 0)
        return -1;
    (void)snprintf(j->exec, sizeof j->exec, "%s", sg_api_text(v, "id"));
    return 0;
}

static int follow(struct sg_api *a, struct job *j, struct sg_output *o, struct sg_err *err)
{
    sg_auto_buf target;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_api_path(&target, "sandboxes", j->sandbox, "execs", j->exec, "output");
    sg_api_query(&target, "follow", "1");
    if (sg_http_send(&a->http, "GET", sg_buf_cstr(&target), NULL, NULL, err) < 0 ||
        sg_http_receive(&a->http, err) < 0 || sg_api_check(a, err) < 0)
        return -1;
    return sg_output_run(o, a, err);
}

static void put_captured(struct sg_json *j, const char *key, const struct sg_buf *text)
{
    sg_json_key(j, key);
    sg_json_text(j, (struct sg_str) { (const char *)text->p, text->n });
}

static int print_json(const struct sg_output *o, const struct sg_jval *exec)
{
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, 8ul * CAPTURE_BYTES);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    for (const struct sg_jval *m = exec->list.first; m; m = m->next) {
        sg_json_key(&j, m->key.p);
        sg_json_put(&j, m);
    }
    put_captured(&j, "stdout", o->out);
    put_captured(&j, "stderr", o->err);
    if (o->truncated) {
        sg_json_key(&j, "truncatedBytes");
        sg_json_u64(&j, o->truncated);
    }
    sg_json_close(&j, '}');
    sg_buf_add_str(&out, "\n");
    return sg_cli_print(&out);
}

static int finish(struct sg_api *a, const struct job *j, const struct sg_output *o)
{
    struct sg_err err = { 0 };
    const struct sg_jval *exec = NULL;
    struct sg_str text = { (const char *)o->end.p, o->end.n };
    if (!o->has_ended || sg_json_parse(text, &a->arena, &exec, &err) < 0 ||
        exec->kind != SG_J_OBJECT) {
        (void)sg_fail(&err, SG_UNAVAILABLE, "the sandbox ended");
        return sg_cli_fail_run(j->cli, &err);
    }
    const int code = sg_exec_exit_code(exec);
    const char *ending = sg_api_text(exec, "ending");
    if (j->cli->config.json)
        return print_json(o, exec) == SG_EXIT_OK ? code : SG_EXIT_FAILED;
    if (strcmp(ending, "oom") == 0)
        sg_cli_note(j->cli, "the command was ended: out of memory");
    else if (strcmp(ending, "timeout") == 0)
        sg_cli_note(j->cli, "the command was ended: its time was over");
    else if (strcmp(ending, "lost") == 0)
        sg_cli_note(j->cli, "the command was lost: the sandbox ended");
    if (o->truncated)
        sg_cli_note(j->cli, "%llu bytes of output were lost: they came faster than they were read",
                    (unsigned long long)o->truncated);
    return code;
}

static int run_plain(struct sg_api *a, struct job *j, char *const *argv)
{
    struct sg_err err = { 0 };
    sg_auto_buf out, errors;
    sg_auto_output o;
    const bool takes_input = has_input();
    sg_buf_init(&out, CAPTURE_BYTES);
    sg_buf_init(&errors, CAPTURE_BYTES);
    sg_output_init(&o);
    if (j->cli->config.json) {
        o.out = &out;
        o.err = &errors;
    }
    sg_auto_fd signal_fd = open_signals();
    o.watch_fd = signal_fd;
    o.ready = pass_on;
    o.arg = j;
    if (start(a, j, argv, takes_input ? WITH_INPUT : WITHOUT_INPUT, &err) < 0)
        return fail_start(a, j, &err);
    const pid_t pid = takes_input ? start_input(j, &err) : 0;
    const int r = pid < 0 ? -1 : follow(a, j, &o, &err);
    end_input(pid);
    return r < 0 ? sg_cli_fail_run(j->cli, &err) : finish(a, j, &o);
}

static int run_detached(struct sg_api *a, struct job *j, char *const *argv)
{
    struct sg_err err;
    sg_auto_buf out;
    sg_buf_init(&out, 128);
    if (start(a, j, argv, WITHOUT_INPUT, &err) < 0)
        return fail_start(a, j, &err);
    if (j->cli->config.json)
        return sg_api_print(&a->reply);
    sg_add_clean(&out, j->exec);
    sg_buf_add_str(&out, "\n");
    return sg_cli_print(&out);
}

/* ---- with one ---- */

static int run_tty(struct sg_api *a, struct job *j, char *const *argv)
{
    struct sg_err err = { 0 };
    sg_auto_buf body;
    sg_buf_init(&body, MAX_BODY);
    write_body(&body, j->cli, argv, WITH_TTY);
    if (sg_buf_check(&body, "the command", &err) < 0)
        return sg_cli_fail_run(j->cli, &err);
    const int code = sg_session_run(a, j->sandbox, &body, &err);
    return code < 0 ? fail_start(a, j, &err) : code;
}

int sg_exec_in(struct sg_cli *cli, const char *sandbox, char *const *argv)
{
    const struct sg_config *c = &cli->config;
    struct job j = { .cli = cli, .sandbox = sandbox };
    sg_auto_api api;
    sg_api_open(&api, cli);
    const bool is_terminal = sg_term_is_tty(STDIN_FILENO) && sg_term_is_tty(STDOUT_FILENO);
    if (c->detach)
        return run_detached(&api, &j, argv);
    if (!c->json && (c->tty == SG_TTY_ON || (c->tty == SG_TTY_AUTO && is_terminal)))
        return run_tty(&api, &j, argv);
    return run_plain(&api, &j, argv);
}

int sg_cmd_exec(struct sg_cli *cli)
{
    char **argv = cli->args + 1;
    struct sg_err err;
    if (strcmp(*argv, "--") == 0)
        argv++;
    if (!*argv) {
        (void)sg_fail(&err, SG_INVALID, "'exec' needs a command: sandglass exec %s",
                      cli->command->tail);
        return sg_cli_fail(cli, &err);
    }
    return sg_exec_in(cli, cli->args[0], argv);
}

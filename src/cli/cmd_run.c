/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass run` and `sandglass shell`: settings in, one cell, the command's own exit code out. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/parse.h"
#include "cli/out.h"
#include "cli/run.h"
#include "cli/term.h"
#include "config/mapping.h"
#include "base/banned.h"

extern char **environ;

enum { MAX_ENV = 1024, CAPTURE_BYTES = 256 << 20 };

/* Everything that must live as long as the run. */
struct job {
    struct sg_cli *cli;
    struct sg_template template;
    struct sg_run_spec run;
    char *env[MAX_ENV + 1];
    size_t env_count;
    char *owned[2 * SG_CELL_MAX_BINDS];
    size_t owned_count;
    struct sg_buf out, err;
};

/* ---- settings to spec ---- */

/* The last of a name wins, as it does for people who write them from left to right. */
static int put_env(struct job *j, char *pair, struct sg_err *err)
{
    size_t n = strcspn(pair, "=");
    for (size_t i = 0; i < j->env_count; i++)
        if (strncmp(j->env[i], pair, n + 1) == 0) {
            j->env[i] = pair;
            return 0;
        }
    if (j->env_count == MAX_ENV)
        return sg_fail(err, SG_EXHAUSTED, "over %d environment variables", MAX_ENV);
    j->env[j->env_count++] = pair;
    return 0;
}

static char *own_variable(const char *name)
{
    size_t n = strlen(name);
    for (char **e = environ; *e; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
            return *e;
    return NULL;
}

static int collect_env(struct job *j, struct sg_err *err)
{
    const struct sg_config *cfg = &j->cli->config;
    static char term[] = "TERM";
    char *own_term = own_variable(term);
    char *path = sg_printf("PATH=%s", j->template.path);
    j->owned[j->owned_count++] = path;
    if (put_env(j, path, err) < 0)
        return -1;
    for (size_t i = 0; i < j->template.env_count; i++)
        if (put_env(j, j->template.env[i], err) < 0)
            return -1;
    if (j->run.has_tty && own_term && put_env(j, own_term, err) < 0)
        return -1;
    for (size_t i = 0; i < cfg->env.n; i++) {
        char *pair = strchr(cfg->env.v[i], '=') ? cfg->env.v[i] : own_variable(cfg->env.v[i]);
        if (pair && put_env(j, pair, err) < 0)
            return -1;
    }
    return 0;
}

static int collect_binds(struct job *j, struct sg_err *err)
{
    const struct sg_strlist *list = &j->cli->config.bind;
    struct sg_cell_spec *cell = &j->run.cell;
    for (size_t i = 0; i < list->n; i++) {
        struct sg_mapping m;
        if (sg_mapping_parse_bind(list->v[i], &m, err) < 0)
            return -1;
        if (cell->bind_count == SG_CELL_MAX_BINDS || j->owned_count + 2 > SG_COUNT(j->owned))
            return sg_fail(err, SG_EXHAUSTED, "over %d bind mounts", SG_CELL_MAX_BINDS);
        char *source = sg_printf("%.*s", (int)m.source.n, m.source.p);
        char *target = sg_printf("%.*s", (int)m.target.n, m.target.p);
        j->owned[j->owned_count++] = source;
        j->owned[j->owned_count++] = target;
        if (strcmp(target, "/") == 0)
            return sg_fail(err, SG_INVALID, "--bind cannot replace the root: use --template DIR");
        cell->binds[cell->bind_count++] =
            (struct sg_bind) { source, target, m.is_read_only ? SG_BIND_READ_ONLY : 0 };
    }
    return 0;
}

/* Without root exactly one id exists inside: root's or an ordinary one. */
static int one_id(const char *user, uint32_t *ret, struct sg_err *err)
{
    uint64_t id = 1000;
    if (strcmp(user, "root") == 0)
        id = 0;
    else if (*user && strcmp(user, "user") != 0 &&
             sg_parse_u64(sg_str_of(user), 0, SG_CELL_IDS - 1, &id, NULL) < 0)
        return sg_fail(err, SG_UNSUPPORTED,
                       "user %s: without root, only 'root', 'user' or a number can be asked for",
                       sg_quote(user).s);
    *ret = (uint32_t)id;
    return 0;
}

static int check_net(enum sg_net net, struct sg_err *err)
{
    if (net == SG_NET_NONE)
        return 0;
    return sg_fail(err, SG_UNSUPPORTED,
                   "--net %s needs the egress gate, which this version does not have; only "
                   "--net none is offered, so that no sandbox has an unfiltered network",
                   net == SG_NET_OPEN ? "open" : "filtered");
}

/* The namespaces are begun first and the template is found meanwhile. Without root it is the other
 * way round: once we are root of an own user namespace, the template's owner would be another. */
static int begin(struct job *j, struct sg_cell **ret, struct sg_err *err)
{
    const struct sg_config *cfg = &j->cli->config;
    const bool is_root = geteuid() == 0;
    if (check_net(cfg->net, err) < 0 || (is_root && !(*ret = sg_run_begin(false, err))) ||
        sg_template_open(cfg->state_dir, cfg->template, &j->template, err) < 0)
        return -1;
    if (is_root)
        return 0;
    if (sg_run_prepare(&j->run.cell.is_rootless, err) < 0 || !(*ret = sg_run_begin(true, err)))
        return -1;
    return 0;
}

static int prepare(struct job *j, bool wants_tty, struct sg_err *err)
{
    const struct sg_config *cfg = &j->cli->config;
    struct sg_run_spec *r = &j->run;
    struct sg_cell_spec *cell = &r->cell;
    sg_run_use_template(cell, &j->template);
    if (collect_binds(j, err) < 0)
        return -1;
    cell->hostname = cfg->hostname;
    cell->is_read_only = cfg->read_only;
    cell->workdir = r->workdir = cfg->workdir;
    cell->limits = (struct sg_limits) { .mem_bytes = cfg->memory_bytes,
                                        .cpu_milli = cfg->cpu_milli,
                                        .pids = cfg->pids,
                                        .disk_bytes = cfg->disk_bytes,
                                        .open_files = cfg->open_files };
    r->user = *cfg->user ? cfg->user : j->template.user;
    if (one_id(r->user, &cell->owner_id, err) < 0 && cell->is_rootless)
        return -1;
    r->timeout_ms = cfg->timeout_ms;
    r->output_bytes = cfg->output_bytes;
    r->copy_in = &cfg->copy_in;
    r->copy_out = &cfg->copy_out;
    r->in_fd = STDIN_FILENO;
    r->out_fd = STDOUT_FILENO;
    r->err_fd = STDERR_FILENO;
    const bool is_terminal = sg_term_is_tty(STDIN_FILENO) && sg_term_is_tty(STDOUT_FILENO);
    r->has_tty = cfg->tty == SG_TTY_ON || (cfg->tty == SG_TTY_AUTO && (is_terminal || wants_tty));
    if (r->has_tty)
        r->output_bytes = 0; /* a person reads along, and ends it when it is enough */
    if (cfg->json) {
        r->has_tty = false;
        r->out_capture = &j->out;
        r->err_capture = &j->err;
        if (!r->output_bytes || r->output_bytes > CAPTURE_BYTES)
            r->output_bytes = CAPTURE_BYTES;
    }
    return collect_env(j, err);
}

/* ---- result to words ---- */

static void put_or_null(struct sg_json *out, const char *key, uint64_t value, uint64_t divisor)
{
    sg_json_key(out, key);
    if (value == SG_UNKNOWN)
        sg_json_null(out);
    else
        sg_json_u64(out, value / divisor);
}

static void put_notes(struct sg_json *out, const struct job *j, const struct sg_run_result *res)
{
    static const char *const instead[SG_CTRL_COUNT] = {
        "memory: no cgroup to be had here; RLIMIT_DATA per process instead",
        "cpu: no cgroup to be had here; not limited",
        "pids: no cgroup to be had here; RLIMIT_NPROC instead",
    };
    sg_json_key(out, "not_enforced");
    sg_json_open(out, '[');
    for (unsigned i = 0; i < SG_CTRL_COUNT; i++)
        if (res->report.missing & 1u << i)
            sg_json_str(out, instead[i]);
    if (res->report.disk_bytes < j->cli->config.disk_bytes)
        sg_json_str(out, "disk: the writable layer lives in memory; at most three quarters of it");
    if (!(res->report.missing & 1u << SG_CTRL_MEMORY) && !res->report.is_swap_counted)
        sg_json_str(out, "swap: this kernel does not account for it");
    if (j->run.cell.is_rootless)
        sg_json_str(out, "ids: one id inside, no change of user (rootless)");
    sg_json_close(out, ']');
}

static const char *limit_of(const struct sg_run_result *res)
{
    switch (res->ending) {
    case SG_END_TIMEOUT:
        return "timeout";
    case SG_END_MEMORY:
        return "memory";
    case SG_END_OUTPUT:
        return "output";
    case SG_END_EXIT:
    case SG_END_SIGNAL:
    case SG_END_LOST:
        break;
    }
    return NULL;
}

static int print_json(struct job *j, const struct sg_run_result *res)
{
    const struct sg_usage *u = &res->report.usage;
    sg_auto_buf text;
    sg_buf_init(&text, 4 * (size_t)CAPTURE_BYTES);
    struct sg_json o;
    sg_json_init(&o, &text);
    sg_json_open(&o, '{');
    sg_json_key(&o, "exit_code");
    sg_json_i64(&o, sg_run_exit_code(res));
    sg_json_key(&o, "ended_by");
    sg_json_str(&o, sg_ending_name(res->ending));
    sg_json_key(&o, "limit");
    sg_json_str(&o, limit_of(res));
    put_or_null(&o, "signal", res->signal ? res->signal : SG_UNKNOWN, 1);
    put_or_null(&o, "wall_ms", res->wall_ns, 1000000);
    put_or_null(&o, "cpu_ms", res->cpu_ns, 1000000);
    put_or_null(&o, "memory_peak_bytes", u->mem_peak_bytes, 1);
    put_or_null(&o, "pids_peak", u->pids_peak, 1);
    put_or_null(&o, "disk_used_bytes", res->report.disk_used_bytes, 1);
    put_or_null(&o, "disk_limit_bytes", res->report.disk_bytes, 1);
    put_or_null(&o, "output_bytes", res->output_bytes, 1);
    put_or_null(&o, "oom_kills", u->oom_kills, 1);
    put_or_null(&o, "pids_refused", u->pids_refused, 1);
    sg_json_key(&o, "disk_full");
    sg_json_bool(&o, res->is_disk_full);
    sg_json_key(&o, "output_truncated");
    sg_json_bool(&o, res->is_output_cut);
    sg_json_key(&o, "copy_out_error");
    sg_json_str(&o, res->copy_failure.kind == SG_OK ? NULL : res->copy_failure.msg);
    put_notes(&o, j, res);
    sg_json_key(&o, "stdout");
    sg_json_text(&o, (struct sg_str) { (const char *)j->out.p, j->out.n });
    sg_json_key(&o, "stderr");
    sg_json_text(&o, (struct sg_str) { (const char *)j->err.p, j->err.n });
    sg_json_close(&o, '}');
    sg_buf_add_str(&text, "\n");
    return sg_cli_print(&text);
}

static void tell(struct job *j, const struct sg_run_result *res)
{
    const struct sg_config *cfg = &j->cli->config;
    const uint64_t mib = 1 << 20;
    if (res->ending == SG_END_TIMEOUT)
        sg_cli_note(j->cli, "ended at its deadline of %" PRIu64 " ms; --timeout sets it",
                    cfg->timeout_ms);
    if (res->ending == SG_END_MEMORY)
        sg_cli_note(j->cli, "out of memory at %" PRIu64 " MiB; --memory sets the limit",
                    cfg->memory_bytes / mib);
    if (res->ending == SG_END_OUTPUT)
        sg_cli_note(j->cli, "ended after %" PRIu64 " bytes of output; --output-limit sets it",
                    cfg->output_bytes);
    if (res->ending == SG_END_LOST)
        sg_cli_note(j->cli, "the sandbox ended unexpectedly");
    if (res->is_disk_full)
        sg_cli_note(j->cli,
                    "the disk of the sandbox is full (%" PRIu64 " MiB); --disk sets it, up "
                    "to three quarters of --memory",
                    res->report.disk_bytes / mib);
    if (res->report.usage.pids_refused)
        sg_cli_note(j->cli, "%" PRIu64 " times no new process was allowed; --pids sets the limit",
                    res->report.usage.pids_refused);
}

/* A failure takes its time and leaves nothing, whatever became of the sweeper. */
static int fail(const struct job *j, struct sg_cell *cell, bool is_command,
                const struct sg_err *err)
{
    sg_cell_free(cell);
    int code = sg_cli_fail_run(j->cli, err);
    if (is_command)
        code = err->sys == ENOENT ? SG_EXIT_NOT_FOUND : SG_EXIT_NOT_RUNNABLE;
    return code;
}

static int run(struct sg_cli *cli, char *const *argv, bool wants_tty)
{
    struct job *j = sg_new(struct job);
    struct sg_err err = { 0 };
    struct sg_run_result result;
    bool is_command = false;
    j->cli = cli;
    j->run.argv = argv;
    j->run.env = j->env;
    sg_buf_init(&j->out, CAPTURE_BYTES);
    sg_buf_init(&j->err, CAPTURE_BYTES);
    struct sg_cell *cell = NULL;
    if (begin(j, &cell, &err) < 0 || prepare(j, wants_tty, &err) < 0 ||
        sg_run(cell, &j->run, &result, &is_command, &err) < 0)
        return fail(j, cell, is_command, &err);
    tell(j, &result);
    int code = sg_run_exit_code(&result);
    if (result.copy_failure.kind != SG_OK && code == 0)
        code = SG_EXIT_NOT_STARTED;
    if (result.copy_failure.kind != SG_OK && !cli->config.json) /* else it is part of the result */
        (void)sg_cli_fail_run(cli, &result.copy_failure);
    if (cli->config.json && print_json(j, &result) != 0)
        return SG_EXIT_FAILED;
    return code; /* what is left is the kernel's and the sweeper's to free */
}

int sg_cmd_run(struct sg_cli *cli)
{
    return run(cli, cli->args, false);
}

int sg_cmd_shell(struct sg_cli *cli)
{
    static char login_shell[] = "exec \"${SHELL:-/bin/sh}\" -l", sh[] = "/bin/sh", dash_c[] = "-c";
    static char *const argv[] = { sh, dash_c, login_shell, NULL };
    return run(cli, argv, true);
}

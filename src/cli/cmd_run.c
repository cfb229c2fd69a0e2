/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass run` and `sandglass shell`: settings in, one cell, the command's own exit code out. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/parse.h"
#include "cli/exec.h"
#include "cli/out.h"
#include "cli/run.h"
#include "cli/run_report.h"
#include "cli/term.h"
#include "config/mapping.h"
#include "base/banned.h"

extern char **environ;

enum { MAX_ENV = 1024, CAPTURE_BYTES = 64 << 20 };

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

/* Nobody can give more than they have; the result says so. */
static uint64_t open_files(uint64_t wanted)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_max == RLIM_INFINITY || l.rlim_max >= wanted)
        return wanted;
    return l.rlim_max;
}

static int prepare(struct job *j, struct sg_err *err)
{
    const struct sg_config *cfg = &j->cli->config;
    struct sg_run_spec *r = &j->run;
    struct sg_cell_spec *cell = &r->cell;
    sg_run_use_template(cell, &j->template);
    if (collect_binds(j, err) < 0)
        return -1;
    cell->hostname = cfg->hostname;
    cell->is_read_only = cfg->read_only;
    /* An image has a place to be in; other templates are entered where the settings say. */
    const bool is_of_image = j->template.manifest && !sg_run_was_asked_for(j->cli, "workdir");
    cell->workdir = r->workdir = is_of_image ? j->template.workdir : cfg->workdir;
    cell->limits = (struct sg_limits) { .mem_bytes = cfg->memory_bytes,
                                        .cpu_milli = cfg->cpu_milli,
                                        .pids = cfg->pids,
                                        .disk_bytes = cfg->disk_bytes,
                                        .open_files = open_files(cfg->open_files) };
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
    r->has_tty = cfg->tty == SG_TTY_ON || (cfg->tty == SG_TTY_AUTO && is_terminal);
    if (r->has_tty && !sg_run_was_asked_for(j->cli, "output-limit"))
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

static int run(struct sg_cli *cli, char *const *argv)
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
    if (begin(j, &cell, &err) < 0 || prepare(j, &err) < 0 ||
        sg_run(cell, &j->run, &result, &is_command, &err) < 0)
        return fail(j, cell, is_command, &err);
    sg_run_tell(cli, &j->run, &result);
    int code = sg_run_exit_code(&result);
    if ((result.copy_failure.kind != SG_OK || result.output_lost_sys) && code == 0)
        code = SG_EXIT_FAILED;
    if (result.copy_failure.kind != SG_OK && !cli->config.json) /* else it is part of the result */
        (void)sg_cli_fail_run(cli, &result.copy_failure);
    if (cli->config.json && sg_run_print_json(cli, &j->run, &result, code) != 0)
        return SG_EXIT_FAILED;
    return code; /* what is left is the kernel's and the sweeper's to free */
}

int sg_cmd_run(struct sg_cli *cli)
{
    return run(cli, cli->args);
}

int sg_cmd_shell(struct sg_cli *cli)
{
    static char login_shell[] = "exec \"${SHELL:-/bin/sh}\" -l", sh[] = "/bin/sh", dash_c[] = "-c";
    static char *const argv[] = { sh, dash_c, login_shell, NULL };
    if (cli->arg_count)
        return sg_exec_in(cli, cli->args[0], argv);
    if (!sg_run_was_asked_for(cli, "timeout"))
        cli->config.timeout_ms = 0; /* a person ends it */
    return run(cli, argv);
}

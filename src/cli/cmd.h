/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of `sandglass`: one row each in the table of main.c, one file each.
 *
 * A handler finds its settings in `config` and what followed its options in `args`. It prints its
 * result on stdout (JSON when config.json), talk on stderr, and returns the exit code; errors go
 * through cli/out.h, which knows the code of each kind. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"
#include "config/option.h"

struct sg_cli {
    struct sg_config config;
    struct sg_origins origins;
    const struct sg_command *command;
    char **args; /* NULL-terminated; borrows from argv */
    int arg_count;
};

struct sg_command {
    const char *name;        /* "run", "template build" */
    const char *tail;        /* "[options] -- command [args]" */
    const char *summary;     /* one sentence */
    const char *examples[2]; /* without the leading "sandglass " */
    sg_command_set bit;      /* SG_FOR_...: which options it takes */
    int min_args, max_args;  /* after the options; max -1: any number */
    bool stops_at_word;      /* what follows the first word belongs to the command inside */
    bool needs_no_config;    /* reads no file: help, version, completion */
    bool is_client;          /* what is not given is left to the service: no defaults to show */
    bool is_guard;           /* whatever goes wrong, before it runs, too, is a no: exit code 2 */
    bool is_operators; /* asks what no key may: over this machine's socket where there is one */
    const char *words; /* of the argument, for completion: "bash zsh fish", "@templates" */
    int (*run)(struct sg_cli *cli);
};

extern const struct sg_command sg_commands[];
extern const size_t sg_command_count;

int sg_cmd_run(struct sg_cli *cli);
int sg_cmd_shell(struct sg_cli *cli);
int sg_cmd_template_list(struct sg_cli *cli);
int sg_cmd_template_build(struct sg_cli *cli);
int sg_cmd_template_import(struct sg_cli *cli);
int sg_cmd_template_export(struct sg_cli *cli);
int sg_cmd_template_pull(struct sg_cli *cli);
int sg_cmd_template_push(struct sg_cli *cli);
int sg_cmd_template_rm(struct sg_cli *cli);
int sg_cmd_help(struct sg_cli *cli);
int sg_cmd_version(struct sg_cli *cli);
int sg_cmd_doctor(struct sg_cli *cli);
int sg_cmd_config_show(struct sg_cli *cli);
int sg_cmd_completion(struct sg_cli *cli);
int sg_cmd_serve(struct sg_cli *cli);
int sg_cmd_up(struct sg_cli *cli);
int sg_cmd_down(struct sg_cli *cli);
int sg_cmd_env(struct sg_cli *cli);
int sg_cmd_snapshot(struct sg_cli *cli);
int sg_cmd_snapshots_list(struct sg_cli *cli);
int sg_cmd_snapshots_rm(struct sg_cli *cli);
int sg_cmd_snapshots_export(struct sg_cli *cli);
int sg_cmd_snapshots_import(struct sg_cli *cli);
int sg_cmd_fork(struct sg_cli *cli);
int sg_cmd_rollback(struct sg_cli *cli);
int sg_cmd_tree(struct sg_cli *cli);
int sg_cmd_ps(struct sg_cli *cli);
int sg_cmd_create(struct sg_cli *cli);
int sg_cmd_exec(struct sg_cli *cli);
int sg_cmd_cp(struct sg_cli *cli);
int sg_cmd_logs(struct sg_cli *cli);
int sg_cmd_top(struct sg_cli *cli);
int sg_cmd_pause(struct sg_cli *cli);
int sg_cmd_resume(struct sg_cli *cli);
int sg_cmd_kill(struct sg_cli *cli);
int sg_cmd_rm(struct sg_cli *cli);
int sg_cmd_stats(struct sg_cli *cli);
int sg_cmd_events(struct sg_cli *cli);
int sg_cmd_code(struct sg_cli *cli);
int sg_cmd_repl(struct sg_cli *cli);
int sg_cmd_route(struct sg_cli *cli);
int sg_cmd_parse(struct sg_cli *cli);
int sg_cmd_task_run(struct sg_cli *cli);
int sg_cmd_approve(struct sg_cli *cli);
int sg_cmd_hook(struct sg_cli *cli);
int sg_cmd_swarm(struct sg_cli *cli);
int sg_cmd_usage(struct sg_cli *cli);
int sg_cmd_orgs_budget(struct sg_cli *cli);
int sg_cmd_orgs_budgets(struct sg_cli *cli);
int sg_cmd_keys_list(struct sg_cli *cli);
int sg_cmd_keys_create(struct sg_cli *cli);
int sg_cmd_keys_revoke(struct sg_cli *cli);
int sg_cmd_orgs_list(struct sg_cli *cli);
int sg_cmd_orgs_create(struct sg_cli *cli);
int sg_cmd_orgs_rm(struct sg_cli *cli);
int sg_cmd_secrets_list(struct sg_cli *cli);
int sg_cmd_secrets_set(struct sg_cli *cli);
int sg_cmd_secrets_rm(struct sg_cli *cli);
int sg_cmd_net_log(struct sg_cli *cli);
int sg_cmd_net_explain(struct sg_cli *cli);
int sg_cmd_net_set(struct sg_cli *cli);
int sg_cmd_forward(struct sg_cli *cli);
int sg_cmd_volume_create(struct sg_cli *cli);
int sg_cmd_volume_ls(struct sg_cli *cli);
int sg_cmd_volume_rm(struct sg_cli *cli);
int sg_cmd_gc(struct sg_cli *cli);
int sg_cmd_volume_cp(struct sg_cli *cli);
int sg_cmd_volume_resize(struct sg_cli *cli);
int sg_cmd_audit_list(struct sg_cli *cli);
int sg_cmd_audit_verify(struct sg_cli *cli);
int sg_cmd_tls_init(struct sg_cli *cli);

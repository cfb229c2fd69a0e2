/* SPDX-License-Identifier: Apache-2.0 */
/* What several commands ask of the service. */
#pragma once

#include "cli/api.h"

/* Calls `each` for every sandbox that --state and --metadata let through (`c` NULL: for all), page
 * by page. `s` ends with the call; one that calls the service itself uses another sg_api. */
int sg_sandbox_each(struct sg_api *a, const struct sg_config *c,
                    int (*each)(void *arg, const struct sg_jval *s, struct sg_err *err), void *arg,
                    struct sg_err *err);

/* The execs of a sandbox: *ret is the first, or NULL. */
int sg_sandbox_execs(struct sg_api *a, const char *sandbox, const struct sg_jval **ret,
                     struct sg_err *err);

/* GET TARGET; its array KEY as a table, a row each, or the answer as it is. Returns the exit code.
 */
struct sg_table;
int sg_cli_list(struct sg_cli *cli, const char *target, const char *key, struct sg_table *t,
                void (*row)(struct sg_table *t, const struct sg_jval *v));

/* DELETE /v1/KIND/ARGUMENT; prints the argument, or {"DONE":ARGUMENT}. Returns the exit code. */
int sg_cli_remove(struct sg_cli *cli, const char *kind, const char *done);

/* Refuses an exec's id in place of the sandbox's: `logs` and `kill` take both, and people have the
 * one that `exec --detach` printed. */
int sg_sandbox_check(const struct sg_cli *cli, struct sg_err *err);

/* The policy of --net, --allow and --block (cmd_net.c). */
void sg_put_network(struct sg_json *j, const struct sg_cli *cli, const struct sg_buf *password);
enum { SG_MAX_PASSWORD = 1024 };
/* The password for --egress-proxy, where that names a user; nothing otherwise. */
int sg_read_proxy_password(const struct sg_cli *cli, struct sg_buf *ret, struct sg_err *err);

/* The object for `env` of "NAME=value" and "NAME" (of our own environment). */
void sg_put_env(struct sg_json *j, const struct sg_strlist *env);
/* {"NAME":"VALUE"} of "NAME=VALUE". */
void sg_put_pairs(struct sg_json *j, const char *key, const struct sg_strlist *pairs);

/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass snapshot`, `snapshots list|rm`, `fork`, `rollback`, `tree`: files at one moment, and
 * what came from what. */
#include <string.h>

#include "base/auto.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "base/banned.h"

enum { DEEPEST = 64 };

/* One call whose answer is printed as it is (--json), or by its member `key`. */
static int call_and_print(struct sg_cli *cli, const char *target, struct sg_buf *body,
                          const char *key)
{
    sg_auto_api api;
    sg_auto_buf out;
    struct sg_err err;
    const struct sg_jval *v;
    sg_buf_init(&out, 4096);
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "POST", target, body, &v, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (cli->config.json)
        return sg_api_print(&api.reply);
    sg_add_clean(&out, sg_api_text(v, key));
    sg_buf_add_str(&out, "\n");
    return sg_cli_print(&out);
}

static void put_text(struct sg_json *j, const char *key, const char *value)
{
    if (!*value)
        return;
    sg_json_key(j, key);
    sg_json_str(j, value);
}

int sg_cmd_snapshot(struct sg_cli *cli)
{
    sg_auto_buf target, body;
    struct sg_json j;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_buf_init(&body, 4096);
    sg_api_path(&target, "sandboxes", cli->args[0], "snapshots");
    sg_json_init(&j, &body);
    sg_json_open(&j, '{');
    put_text(&j, "name", cli->config.name);
    put_text(&j, "tag", cli->config.tag);
    sg_json_close(&j, '}');
    return call_and_print(cli, sg_buf_cstr(&target), &body, "id");
}

int sg_cmd_rollback(struct sg_cli *cli)
{
    sg_auto_buf target, body;
    struct sg_json j;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_buf_init(&body, 4096);
    sg_api_path(&target, "sandboxes", cli->args[0], "rollback");
    sg_json_init(&j, &body);
    sg_json_open(&j, '{');
    put_text(&j, "snapshot", cli->args[1]);
    sg_json_close(&j, '}');
    return call_and_print(cli, sg_buf_cstr(&target), &body, "id");
}

/* The ids of those that were made; a fork that was not is an error in the end. */
int sg_cmd_fork(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf target, body, out;
    struct sg_json j;
    struct sg_err err = { 0 };
    const struct sg_jval *v;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_buf_init(&body, 4096);
    sg_buf_init(&out, SG_API_MAX_REPLY);
    sg_api_path(&target, "sandboxes", cli->args[0], "fork");
    sg_json_init(&j, &body);
    sg_json_open(&j, '{');
    sg_json_key(&j, "count");
    sg_json_u64(&j, cli->config.count);
    sg_json_close(&j, '}');
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "POST", sg_buf_cstr(&target), &body, &v, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (cli->config.json)
        return sg_api_print(&api.reply);
    for (const struct sg_jval *f = sg_api_first(v, "forks"); f; f = f->next) {
        const struct sg_jval *sandbox = sg_json_get(f, "sandbox"), *error = sg_json_get(f, "error");
        if (sandbox)
            sg_buf_addf(&out, "%s\n", sg_api_text(sandbox, "id"));
        else if (err.kind == SG_OK)
            (void)sg_fail(&err, SG_INTERNAL, "%s", sg_api_text(error, "message"));
    }
    const int printed = sg_cli_print(&out);
    return err.kind == SG_OK ? printed : sg_cli_fail(cli, &err);
}

static void add_row(struct sg_table *t, const struct sg_jval *s)
{
    const char *name = sg_api_text(s, "name");
    sg_table_add(t, sg_api_text(s, "id"));
    sg_table_addf(t, "%s%s%s", name, *name ? ":" : "", sg_api_text(s, "tag"));
    sg_table_add(t, sg_api_text(s, "sandbox"));
    sg_table_add(t, sg_api_text(s, "template"));
    sg_table_addf(t, "%llu", (unsigned long long)(sg_api_u64(s, "bytes") >> 20));
    sg_table_addf(t, "%llu", (unsigned long long)sg_api_u64(s, "sandboxes"));
    sg_table_add(t, sg_short_since(sg_api_text(s, "createdAt")).s);
}

int sg_cmd_snapshots_list(struct sg_cli *cli)
{
    sg_auto_table t;
    sg_table_init(&t, "ID", "NAME", "SANDBOX", "TEMPLATE", "MIB", "USED BY", "AGE");
    return sg_cli_list(cli, "/v1/snapshots", "snapshots", &t, add_row);
}

int sg_cmd_snapshots_rm(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf out, json;
    struct sg_err err;
    struct sg_json j;
    sg_buf_init(&out, SG_API_MAX_REPLY);
    sg_buf_init(&json, SG_API_MAX_REPLY);
    sg_json_init(&j, &json);
    sg_json_open(&j, '{');
    sg_json_key(&j, "removed");
    sg_json_open(&j, '[');
    sg_api_open(&api, cli);
    for (int i = 0; i < cli->arg_count; i++) {
        sg_auto_buf target;
        sg_buf_init(&target, SG_API_MAX_PATH);
        sg_api_path(&target, "snapshots", cli->args[i]);
        if (cli->config.cascade)
            sg_api_query(&target, "cascade", "1");
        if (sg_api_call(&api, "DELETE", sg_buf_cstr(&target), NULL, NULL, &err) < 0)
            return sg_cli_fail(cli, &err);
        sg_add_clean(&out, cli->args[i]);
        sg_buf_add_str(&out, "\n");
        sg_json_str(&j, cli->args[i]);
    }
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    return cli->config.json ? sg_api_print(&json) : sg_cli_print(&out);
}

/* ---- tree ---- */

static bool has_node(const struct sg_jval *first, const char *id)
{
    for (const struct sg_jval *n = first; n; n = n->next)
        if (strcmp(sg_api_text(n, "id"), id) == 0)
            return true;
    return false;
}

static void print_node(struct sg_buf *out, const struct sg_jval *n, unsigned depth)
{
    for (unsigned i = 0; i < depth; i++)
        sg_buf_add_str(out, "  ");
    sg_buf_addf(out, "%s %s", sg_api_text(n, "kind"), sg_api_text(n, "id"));
    if (*sg_api_text(n, "name"))
        sg_buf_addf(out, "  %s", sg_api_text(n, "name"));
    sg_buf_addf(out, "  %s  %s\n", sg_api_text(n, "state"),
                sg_short_since(sg_api_text(n, "createdAt")).s);
}

static void print_below(struct sg_buf *out, const struct sg_jval *first, const char *parent,
                        unsigned depth)
{
    for (const struct sg_jval *n = first; n && depth < DEEPEST; n = n->next) {
        const char *its = sg_api_text(n, "parent");
        const bool is_here = parent ? strcmp(its, parent) == 0 : !*its || !has_node(first, its);
        if (!is_here)
            continue;
        print_node(out, n, depth);
        print_below(out, first, sg_api_text(n, "id"), depth + 1);
    }
}

int sg_cmd_tree(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf out;
    struct sg_err err;
    const struct sg_jval *v;
    sg_buf_init(&out, SG_API_MAX_REPLY);
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "GET", "/v1/tree", NULL, &v, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (cli->config.json)
        return sg_api_print(&api.reply);
    print_below(&out, sg_api_first(v, "nodes"), NULL, 0);
    return sg_cli_print(&out);
}

/* A line each. */
static void add_ids(struct sg_buf *out, const char *what, const struct sg_jval *first)
{
    for (; first; first = first->next) {
        sg_buf_addf(out, "%s ", what);
        sg_add_clean(out, first->kind == SG_J_STRING ? first->s.p : "?");
        sg_buf_add_str(out, "\n");
    }
}

int sg_cmd_gc(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf body, out;
    struct sg_err err;
    const struct sg_jval *v;
    sg_buf_init(&body, 128);
    sg_buf_init(&out, SG_API_MAX_REPLY);
    sg_buf_addf(&body, "{\"dryRun\":%s,\"artifactDays\":%llu,\"layerDays\":%llu}",
                cli->config.dry_run ? "true" : "false", (unsigned long long)cli->config.days,
                (unsigned long long)cli->config.layer_days);
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "POST", "/v1/gc", &body, &v, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (cli->config.json)
        return sg_api_print(&api.reply);
    add_ids(&out, "snapshot", sg_api_first(v, "snapshots"));
    add_ids(&out, "artifacts", sg_api_first(v, "artifacts"));
    add_ids(&out, "layer", sg_api_first(v, "layers"));
    return sg_cli_print(&out);
}

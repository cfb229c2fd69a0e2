/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sandbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/id.h"
#include "cli/out.h"
#include "cli/table.h"
#include "base/banned.h"

static void write_target(struct sg_buf *out, const struct sg_config *c, const char *after)
{
    sg_api_path(out, "sandboxes");
    sg_api_query(out, "limit", "1000");
    if (*after)
        sg_api_query(out, "after", after);
    if (c && *c->state)
        sg_api_query(out, "state", c->state);
    for (size_t i = 0; c && i < c->metadata.n; i++) {
        const char *eq = strchr(c->metadata.v[i], '=');
        sg_auto_free char *name =
            sg_printf("metadata.%.*s", (int)(eq - c->metadata.v[i]), c->metadata.v[i]);
        sg_api_query(out, name, eq + 1);
    }
}

int sg_sandbox_each(struct sg_api *a, const struct sg_config *c,
                    int (*each)(void *arg, const struct sg_jval *s, struct sg_err *err), void *arg,
                    struct sg_err *err)
{
    char after[64] = "";
    do {
        const struct sg_jval *page;
        sg_auto_buf target;
        sg_buf_init(&target, SG_API_MAX_PATH);
        write_target(&target, c, after);
        if (sg_api_call(a, "GET", sg_buf_cstr(&target), NULL, &page, err) < 0)
            return -1;
        const struct sg_jval *list = sg_json_get(page, "sandboxes");
        if (!list || list->kind != SG_J_ARRAY)
            return sg_fail(err, SG_INTERNAL, "the service sent no list");
        for (const struct sg_jval *s = list->list.first; s; s = s->next)
            if (each(arg, s, err) < 0)
                return -1;
        (void)snprintf(after, sizeof after, "%s", sg_api_text(page, "next"));
    } while (*after);
    return 0;
}

int sg_sandbox_execs(struct sg_api *a, const char *sandbox, const struct sg_jval **ret,
                     struct sg_err *err)
{
    const struct sg_jval *v;
    sg_auto_buf target;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_api_path(&target, "sandboxes", sandbox, "execs");
    if (sg_api_call(a, "GET", sg_buf_cstr(&target), NULL, &v, err) < 0)
        return -1;
    *ret = sg_api_first(v, "execs");
    return 0;
}

int sg_cli_list(struct sg_cli *cli, const char *target, const char *key, struct sg_table *t,
                void (*row)(struct sg_table *t, const struct sg_jval *v))
{
    sg_auto_api api;
    sg_auto_buf out;
    struct sg_err err;
    const struct sg_jval *v;
    sg_buf_init(&out, SG_API_MAX_REPLY);
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "GET", target, NULL, &v, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (cli->config.json)
        return sg_api_print(&api.reply);
    for (const struct sg_jval *one = sg_api_first(v, key); one; one = one->next)
        row(t, one);
    sg_table_print(t, &out);
    return sg_cli_print(&out);
}

int sg_cli_remove(struct sg_cli *cli, const char *kind, const char *done)
{
    sg_auto_api api;
    sg_auto_buf target, json, text;
    struct sg_err err;
    struct sg_json j;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_buf_init(&json, 4096);
    sg_buf_init(&text, 4096);
    sg_api_path(&target, kind, cli->args[0]);
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "DELETE", sg_buf_cstr(&target), NULL, NULL, &err) < 0)
        return sg_cli_fail(cli, &err);
    sg_json_init(&j, &json);
    sg_json_open(&j, '{');
    sg_json_key(&j, done);
    sg_json_str(&j, cli->args[0]);
    sg_json_close(&j, '}');
    sg_buf_addf(&text, "%s\n", cli->args[0]);
    return cli->config.json ? sg_api_print(&json) : sg_cli_print(&text);
}

int sg_sandbox_check(const struct sg_cli *cli, struct sg_err *err)
{
    const char *id = cli->args[0];
    if (!sg_id_is_valid(id, 'x'))
        return 0;
    return sg_fail(err, SG_INVALID, "'%s' is an exec; its sandbox comes first: sandglass %s ID %s",
                   id, cli->command->name, id);
}

void sg_put_env(struct sg_json *j, const struct sg_strlist *env)
{
    sg_json_key(j, "env");
    sg_json_open(j, '{');
    for (size_t i = 0; i < env->n; i++) {
        size_t n = strcspn(env->v[i], "=");
        sg_auto_free char *name = sg_printf("%.*s", (int)n, env->v[i]);
        const char *value = env->v[i][n] ? env->v[i] + n + 1 : getenv(name);
        bool is_last = true; /* of its name: an object has each once */
        for (size_t k = i + 1; k < env->n; k++)
            is_last = is_last && (strncmp(env->v[k], name, n) != 0 ||
                                  (env->v[k][n] != '=' && env->v[k][n] != '\0'));
        if (!value || !is_last)
            continue;
        sg_json_key(j, name);
        sg_json_str(j, value);
    }
    sg_json_close(j, '}');
}

void sg_put_pairs(struct sg_json *j, const char *key, const struct sg_strlist *pairs)
{
    sg_json_key(j, key);
    sg_json_open(j, '{');
    for (size_t i = 0; i < pairs->n; i++) {
        size_t n = strcspn(pairs->v[i], "=");
        sg_auto_free char *name = sg_printf("%.*s", (int)n, pairs->v[i]);
        sg_json_key(j, name);
        sg_json_str(j, pairs->v[i] + n + 1);
    }
    sg_json_close(j, '}');
}

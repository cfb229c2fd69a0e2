/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass secrets list|set|rm`. A value comes from the standard input or is typed unseen; never
 * from the command line, where others can read it. */
#include <string.h>

#include "base/auto.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "cli/unseen.h"
#include "base/banned.h"

enum { MAX_VALUE = 64 << 10 };

static void add_hosts(struct sg_table *t, const struct sg_jval *secret)
{
    sg_auto_buf text;
    sg_buf_init(&text, 4096);
    for (const struct sg_jval *h = sg_api_first(secret, "hosts"); h; h = h->next)
        sg_buf_addf(&text, "%s%s", text.n ? " " : "", h->kind == SG_J_STRING ? h->s.p : "");
    sg_table_add(t, sg_buf_cstr(&text));
}

static void add_row(struct sg_table *t, const struct sg_jval *s)
{
    sg_table_add(t, sg_api_text(s, "name"));
    sg_table_addf(t, "%llu", (unsigned long long)sg_api_u64(s, "version"));
    sg_table_add(t, sg_short_since(sg_api_text(s, "updatedAt")).s);
    sg_table_add(t, sg_api_text(s, "id"));
    add_hosts(t, s);
}

int sg_cmd_secrets_list(struct sg_cli *cli)
{
    sg_auto_table t;
    sg_table_init(&t, "NAME", "VERSION", "CHANGED", "ID", "HOSTS");
    return sg_cli_list(cli, "/v1/secrets", "secrets", &t, add_row);
}

static int check_value(const struct sg_buf *value, struct sg_err *err)
{
    if (!value->n)
        return sg_fail(err, SG_INVALID, "there is no value on the standard input");
    if (value->n > MAX_VALUE)
        return sg_fail(err, SG_INVALID, "a secret has at most %d bytes", MAX_VALUE);
    if (!sg_utf8_valid((const char *)value->p, value->n) || memchr(value->p, 0, value->n))
        return sg_fail(err, SG_INVALID, "the value is no text in UTF-8");
    return 0;
}

static void put_hosts(struct sg_json *j, const struct sg_config *c)
{
    sg_json_key(j, "hosts");
    sg_json_open(j, '[');
    for (size_t i = 0; i < c->secret_hosts.n; i++)
        sg_json_str(j, c->secret_hosts.v[i]);
    sg_json_close(j, ']');
    sg_json_key(j, "plainHttp");
    sg_json_bool(j, c->plain_http);
}

static int send(struct sg_cli *cli, const struct sg_buf *value, struct sg_buf *body)
{
    sg_auto_api api;
    sg_auto_buf target, out;
    struct sg_err err;
    struct sg_json j;
    const struct sg_jval *v;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_buf_init(&out, 4096);
    sg_json_init(&j, body);
    sg_json_open(&j, '{');
    sg_json_key(&j, "value");
    sg_json_text(&j, (struct sg_str) { (const char *)value->p, value->n });
    if (cli->config.metadata.n)
        sg_put_pairs(&j, "metadata", &cli->config.metadata);
    if (cli->config.secret_hosts.n)
        put_hosts(&j, &cli->config);
    sg_json_close(&j, '}');
    sg_api_path(&target, "secrets", cli->args[0]);
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "PUT", sg_buf_cstr(&target), body, &v, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (cli->config.json)
        return sg_api_print(&api.reply);
    sg_add_clean(&out, sg_api_text(v, "name"));
    sg_buf_add_str(&out, "\n");
    return sg_cli_print(&out);
}

int sg_cmd_secrets_set(struct sg_cli *cli)
{
    sg_auto_buf value, body;
    struct sg_err err;
    sg_buf_init(&value, MAX_VALUE + 2);
    sg_buf_init(&body, (size_t)8 * MAX_VALUE);
    if (cli->config.plain_http && !cli->config.secret_hosts.n) {
        (void)sg_fail(&err, SG_INVALID, "--plain-http is about hosts: name them with --host");
        return sg_cli_fail(cli, &err);
    }
    if (sg_read_unseen("value", &value, &err) < 0 || check_value(&value, &err) < 0)
        return sg_cli_fail(cli, &err);
    return send(cli, &value, &body);
}

int sg_cmd_secrets_rm(struct sg_cli *cli)
{
    return sg_cli_remove(cli, "secrets", "removed");
}

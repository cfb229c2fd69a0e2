/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass orgs budget`, `orgs budgets`: what an organisation may spend, and what happens then.
 */
#include <string.h>

#include "base/auto.h"
#include "base/parse.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "base/banned.h"

/* A number as the service wrote it. */
static void add_number(struct sg_table *t, const struct sg_jval *v, const char *key)
{
    sg_auto_buf text;
    struct sg_json j;
    sg_buf_init(&text, 64);
    sg_json_init(&j, &text);
    const struct sg_jval *number = sg_json_get(v, key);
    if (number)
        sg_json_put(&j, number);
    sg_table_addf(t, "%s %s", sg_buf_cstr(&text), sg_api_text(v, "currency"));
}

static void add_row(struct sg_table *t, const struct sg_jval *v)
{
    sg_table_add(t, sg_api_text(v, "org"));
    add_number(t, v, "amount");
    add_number(t, v, "spent");
    sg_table_add(t, sg_api_text(v, "period"));
    sg_table_add(t, sg_api_text(v, "action"));
    sg_table_add(t, sg_api_text(v, "state"));
    sg_table_addf(t, "%.10s", sg_api_text(v, "endsAt")); /* the date alone */
}

int sg_cmd_orgs_budgets(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf out;
    sg_auto_table t;
    struct sg_err err;
    const struct sg_jval *v;
    sg_buf_init(&out, SG_API_MAX_REPLY);
    sg_table_init(&t, "ORG", "AMOUNT", "SPENT", "PERIOD", "ACTION", "STATE", "ENDS");
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "GET", "/v1/budgets", NULL, &v, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (cli->config.json)
        return sg_api_print(&api.reply);
    for (const struct sg_jval *row = sg_api_first(v, "budgets"); row; row = row->next)
        add_row(&t, row);
    sg_table_print(&t, &out);
    return sg_cli_print(&out);
}

/* Thousandths, as every number with a fraction on this command line. */
static void write_body(const struct sg_cli *cli, uint64_t amount_milli, struct sg_buf *body)
{
    const struct sg_config *c = &cli->config;
    struct sg_json j;
    sg_json_init(&j, body);
    sg_json_open(&j, '{');
    sg_json_key(&j, "amount");
    sg_json_milli(&j, amount_milli);
    sg_json_key(&j, "period");
    sg_json_str(&j, c->period);
    sg_json_key(&j, "action");
    sg_json_str(&j, c->action);
    sg_json_key(&j, "warnPercent");
    sg_json_u64(&j, c->warn_percent);
    sg_json_close(&j, '}');
}

int sg_cmd_orgs_budget(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf target, body;
    struct sg_err err;
    uint64_t milli;
    const bool is_none = strcmp(cli->args[1], "none") == 0;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_buf_init(&body, 4096);
    if (!is_none &&
        sg_parse_milli(sg_str_of(cli->args[1]), 1, UINT64_C(1000000000), &milli, &err) < 0) {
        (void)sg_wrap(&err, "the amount");
        return sg_cli_fail(cli, &err);
    }
    if (!is_none)
        write_body(cli, milli, &body);
    sg_api_path(&target, "orgs", cli->args[0], "budget");
    sg_api_open(&api, cli);
    if (sg_api_call(&api, is_none ? "DELETE" : "PUT", sg_buf_cstr(&target), is_none ? NULL : &body,
                    NULL, &err) < 0)
        return sg_cli_fail(cli, &err);
    return cli->config.json && !is_none ? sg_api_print(&api.reply) : 0;
}

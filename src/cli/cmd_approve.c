/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass approve`: what waits for an approval, and the answer to it. */
#include "base/auto.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "base/banned.h"

static void add_row(struct sg_table *t, const struct sg_jval *a)
{
    sg_table_add(t, sg_api_text(a, "id"));
    sg_table_add(t, sg_api_text(a, "state"));
    sg_table_add(t, sg_api_text(a, "operation"));
    sg_table_add(t, sg_short_since(sg_api_text(a, "createdAt")).s);
    sg_table_add(t, sg_short_until(sg_api_text(a, "expiresAt")).s);
    sg_table_add(t, sg_api_text(a, "summary"));
}

static int list(struct sg_cli *cli)
{
    const char *target = cli->config.all ? "/v1/approvals" : "/v1/approvals?state=pending";
    sg_auto_table t;
    sg_table_init(&t, "ID", "STATE", "OPERATION", "AGE", "ENDS", "SUMMARY");
    return sg_cli_list(cli, target, "approvals", &t, add_row);
}

int sg_cmd_approve(struct sg_cli *cli)
{
    if (!cli->args[0])
        return list(cli);
    sg_auto_api api;
    sg_auto_buf path, body, out;
    struct sg_err err;
    struct sg_json j;
    const struct sg_jval *v;
    sg_buf_init(&path, SG_API_MAX_PATH);
    sg_buf_init(&body, 64 << 10);
    sg_buf_init(&out, 4096);
    sg_json_init(&j, &body);
    sg_json_open(&j, '{');
    if (*cli->config.reason) {
        sg_json_key(&j, "reason");
        sg_json_str(&j, cli->config.reason);
    }
    sg_json_close(&j, '}');
    sg_api_path(&path, "approvals", cli->args[0], cli->config.deny ? "deny" : "approve");
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "POST", sg_buf_cstr(&path), &body, &v, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (cli->config.json)
        return sg_api_print(&api.reply);
    sg_add_clean(&out, sg_api_text(v, "state"));
    sg_buf_add_str(&out, "\n");
    return sg_cli_print(&out);
}

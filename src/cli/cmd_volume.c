/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass volume create|ls|rm|resize`: directories that outlive sandboxes. */
#include "base/auto.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "base/banned.h"

static void add_row(struct sg_table *t, const struct sg_jval *one)
{
    sg_table_add(t, sg_api_text(one, "name"));
    sg_table_add(t, sg_short_bytes(sg_api_u64(one, "bytes")).s);
    sg_table_addf(t, "%llu", (unsigned long long)sg_api_u64(one, "sandboxes"));
    sg_table_add(t, sg_short_since(sg_api_text(one, "createdAt")).s);
    sg_table_add(t, sg_api_text(one, "id"));
}

int sg_cmd_volume_ls(struct sg_cli *cli)
{
    sg_auto_table t;
    sg_table_init(&t, "NAME", "SIZE", "SANDBOXES", "AGE", "ID");
    return sg_cli_list(cli, "/v1/volumes", "volumes", &t, add_row);
}

int sg_cmd_volume_create(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf body, out;
    struct sg_err err;
    struct sg_json j;
    const struct sg_jval *v;
    sg_buf_init(&body, 4096);
    sg_buf_init(&out, 4096);
    sg_json_init(&j, &body);
    sg_json_open(&j, '{');
    sg_json_key(&j, "name");
    sg_json_str(&j, cli->args[0]);
    if (sg_cli_has_flag(cli, "disk")) {
        sg_json_key(&j, "bytes");
        sg_json_u64(&j, cli->config.disk_bytes);
    }
    sg_json_close(&j, '}');
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "POST", "/v1/volumes", &body, &v, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (cli->config.json)
        return sg_api_print(&api.reply);
    sg_add_clean(&out, sg_api_text(v, "id"));
    sg_buf_add_str(&out, "\n");
    return sg_cli_print(&out);
}

int sg_cmd_volume_resize(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf target, body, out;
    struct sg_err err = { 0 };
    const struct sg_jval *v;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_buf_init(&body, 128);
    sg_buf_init(&out, 4096);
    if (!sg_cli_has_flag(cli, "disk")) {
        (void)sg_fail(&err, SG_INVALID, "'volume resize' needs --disk SIZE");
        return sg_cli_fail(cli, &err);
    }
    sg_buf_addf(&body, "{\"bytes\":%llu}", (unsigned long long)cli->config.disk_bytes);
    sg_api_path(&target, "volumes", cli->args[0]);
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "PATCH", sg_buf_cstr(&target), &body, &v, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (cli->config.json)
        return sg_api_print(&api.reply);
    sg_buf_addf(&out, "%s\n", sg_short_bytes(sg_api_u64(v, "bytes")).s);
    return sg_cli_print(&out);
}

int sg_cmd_volume_rm(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf target, out;
    struct sg_err err;
    struct sg_json j;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_buf_init(&out, 4096);
    sg_api_path(&target, "volumes", cli->args[0]);
    if (cli->config.force)
        sg_api_query(&target, "force", "1");
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "DELETE", sg_buf_cstr(&target), NULL, NULL, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (!cli->config.json) {
        sg_buf_addf(&out, "%s\n", cli->args[0]);
        return sg_cli_print(&out);
    }
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "removed");
    sg_json_str(&j, cli->args[0]);
    sg_json_close(&j, '}');
    return sg_api_print(&out);
}

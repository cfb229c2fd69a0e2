/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass orgs list|create|rm`: the tenants, and what each may use. */
#include "base/auto.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "base/banned.h"

static void add_share(struct sg_table *t, uint64_t used, uint64_t quota, bool is_bytes)
{
    struct sg_short have = sg_short_bytes(used), most = sg_short_bytes(quota);
    if (!is_bytes)
        sg_table_addf(t, quota ? "%llu/%llu" : "%llu", (unsigned long long)used,
                      (unsigned long long)quota);
    else if (quota)
        sg_table_addf(t, "%s/%s", have.s, most.s);
    else
        sg_table_add(t, have.s);
}

static void add_row(struct sg_table *t, const struct sg_jval *o)
{
    const struct sg_jval *quota = sg_json_get(o, "quota"), *used = sg_json_get(o, "inUse");
    sg_table_add(t, sg_api_text(o, "id"));
    sg_table_add(t, sg_api_text(o, "name"));
    add_share(t, sg_api_u64(used, "sandboxes"), sg_api_u64(quota, "sandboxes"), false);
    add_share(t, sg_api_u64(used, "memoryBytes"), sg_api_u64(quota, "memoryBytes"), true);
    add_share(t, sg_api_u64(used, "diskBytes"), sg_api_u64(quota, "diskBytes"), true);
    sg_table_addf(t, "%llu", (unsigned long long)sg_api_u64(quota, "createsPerSecond"));
}

int sg_cmd_orgs_list(struct sg_cli *cli)
{
    sg_auto_table t;
    sg_table_init(&t, "ID", "NAME", "SANDBOXES", "MEMORY", "DISK", "CREATES/S");
    return sg_cli_list(cli, "/v1/orgs", "orgs", &t, add_row);
}

static void put_quota(struct sg_json *j, const struct sg_cli *cli)
{
    const struct sg_config *c = &cli->config;
    const struct {
        const char *flag, *key;
        uint64_t value;
    } numbers[] = {
        { "sandboxes", "sandboxes", c->sandboxes },
        { "memory", "memoryBytes", c->memory_bytes },
        { "disk", "diskBytes", c->disk_bytes },
        { "creates-per-second", "createsPerSecond", c->creates_per_second },
    };
    sg_json_key(j, "quota");
    sg_json_open(j, '{');
    for (size_t i = 0; i < SG_COUNT(numbers); i++) {
        if (!sg_cli_has_flag(cli, numbers[i].flag))
            continue;
        sg_json_key(j, numbers[i].key);
        sg_json_u64(j, numbers[i].value);
    }
    if (sg_cli_has_flag(cli, "cpus")) {
        sg_json_key(j, "cpus");
        sg_json_milli(j, c->cpu_milli);
    }
    sg_json_close(j, '}');
}

int sg_cmd_orgs_create(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf body, out;
    struct sg_err err;
    struct sg_json j;
    const struct sg_jval *v;
    sg_buf_init(&body, 64 << 10);
    sg_buf_init(&out, 4096);
    sg_json_init(&j, &body);
    sg_json_open(&j, '{');
    sg_json_key(&j, "name");
    sg_json_str(&j, cli->args[0]);
    put_quota(&j, cli);
    sg_json_close(&j, '}');
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "POST", "/v1/orgs", &body, &v, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (cli->config.json)
        return sg_api_print(&api.reply);
    sg_add_clean(&out, sg_api_text(v, "id"));
    sg_buf_add_str(&out, "\n");
    return sg_cli_print(&out);
}

int sg_cmd_orgs_rm(struct sg_cli *cli)
{
    return sg_cli_remove(cli, "orgs", "removed");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass stats ID`: what a sandbox uses, as the kernel counts it. */
#include "base/auto.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "base/banned.h"

static const struct row {
    const char *key, *name;
    enum { BYTES, MILLISECONDS, NUMBER } unit;
} rows[] = {
    { "memoryBytes", "memory", BYTES },
    { "memoryPeakBytes", "memory peak", BYTES },
    { "memoryLimitBytes", "memory limit", BYTES },
    { "cpuMs", "cpu time", MILLISECONDS },
    { "pids", "processes", NUMBER },
    { "pidsPeak", "processes peak", NUMBER },
    { "oomKills", "out of memory kills", NUMBER },
    { "diskUsedBytes", "disk", BYTES },
    { "diskBytes", "disk limit", BYTES },
};

static void add_value(struct sg_table *t, const struct row *row, uint64_t value)
{
    if (row->unit == BYTES)
        sg_table_add(t, sg_short_bytes(value).s);
    else if (row->unit == MILLISECONDS)
        sg_table_addf(t, "%llu.%03us", (unsigned long long)(value / 1000),
                      (unsigned)(value % 1000));
    else
        sg_table_addf(t, "%llu", (unsigned long long)value);
}

int sg_cmd_stats(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf target, out;
    struct sg_err err;
    const struct sg_jval *v;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_buf_init(&out, 4096);
    sg_api_path(&target, "sandboxes", cli->args[0], "stats");
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "GET", sg_buf_cstr(&target), NULL, &v, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (cli->config.json)
        return sg_api_print(&api.reply);
    sg_auto_table t;
    sg_table_init(&t, "WHAT", "VALUE");
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        if (!sg_json_get(v, rows[i].key))
            continue;
        sg_table_add(&t, rows[i].name);
        add_value(&t, &rows[i], sg_api_u64(v, rows[i].key));
    }
    sg_table_print(&t, &out);
    return sg_cli_print(&out);
}

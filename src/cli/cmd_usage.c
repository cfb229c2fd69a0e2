/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass usage`: what was used, by whom and when. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "base/banned.h"

#define HOUR_MS     3600000u
#define MIB_MS_GIBH (1024.0 * HOUR_MS)

/* The service's own cost, and the dearest of the others: what the same would have been there. */
static double dearest(const struct sg_jval *v)
{
    const struct sg_jval *all = sg_json_get(v, "elsewhere");
    double most = 0;
    for (const struct sg_jval *one = all && all->kind == SG_J_OBJECT ? all->list.first : NULL; one;
         one = one->next) {
        const double d = one->kind == SG_J_DOUBLE ? one->d
                         : one->kind == SG_J_UINT ? (double)one->u
                                                  : 0;
        most = d > most ? d : most;
    }
    return most;
}

static void add_row(struct sg_table *t, const struct sg_jval *v)
{
    static const char *const keys[] = { "org", "sandbox", "tier", "operation", "day" };
    char name[128] = "";
    for (size_t i = 0; i < SG_COUNT(keys); i++) {
        const char *text = sg_api_text(v, keys[i]);
        const int n = strcmp(keys[i], "day") == 0 ? 10 : 64; /* the date alone */
        const size_t at = strlen(name);
        if (*text)
            (void)snprintf(name + at, sizeof name - at, "%s%.*s", at ? " " : "", n, text);
    }
    sg_table_add(t, name);
    sg_table_addf(t, "%" PRIu64, sg_api_u64(v, "creates"));
    sg_table_addf(t, "%" PRIu64, sg_api_u64(v, "execs"));
    sg_table_addf(t, "%.1f", (double)sg_api_u64(v, "wallMs") / 1e3);
    sg_table_addf(t, "%.3f", (double)sg_api_u64(v, "cpuMs") / 1e3);
    sg_table_addf(t, "%.4f", (double)sg_api_u64(v, "memoryMibMs") / MIB_MS_GIBH);
    const struct sg_jval *cost = sg_json_get(v, "cost");
    sg_table_addf(t, "%.6f", cost && cost->kind == SG_J_DOUBLE ? cost->d : 0.0);
    sg_table_addf(t, "%.6f", dearest(v));
}

int sg_cmd_usage(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf target, out;
    sg_auto_table t;
    struct sg_err err;
    const struct sg_jval *v;
    char hours[24];
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_buf_init(&out, SG_API_MAX_REPLY);
    sg_table_init(&t, "OF", "CREATES", "EXECS", "SECONDS", "CPU SECONDS", "GIB HOURS", "COST",
                  "ELSEWHERE");
    (void)snprintf(hours, sizeof hours, "%" PRIu64, (cli->config.since_ms + HOUR_MS - 1) / HOUR_MS);
    sg_api_path(&target, "usage");
    sg_api_query(&target, "by", cli->config.by);
    sg_api_query(&target, "hours", hours);
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "GET", sg_buf_cstr(&target), NULL, &v, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (cli->config.json)
        return sg_api_print(&api.reply);
    for (const struct sg_jval *row = sg_api_first(v, "usage"); row; row = row->next)
        add_row(&t, row);
    sg_table_print(&t, &out);
    return sg_cli_print(&out);
}

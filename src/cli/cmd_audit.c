/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass audit list|verify`: who did what to which sandbox, and whether the record is whole. */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "cli/out.h"
#include "cli/ring.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "base/banned.h"

static void keep(struct sg_ring *r, const struct sg_jval *record)
{
    sg_auto_buf text;
    struct sg_json j;
    sg_buf_init(&text, SG_API_MAX_REPLY);
    sg_json_init(&j, &text);
    sg_json_put(&j, record);
    sg_ring_add(r, (struct sg_str) { (const char *)text.p, text.n });
}

/* The service gives them oldest first; the latest are at the end of the last page. */
static int read_pages(struct sg_api *a, struct sg_ring *r, struct sg_err *err)
{
    uint64_t after = 0;
    bool has_more = true;
    while (has_more) {
        const struct sg_jval *page;
        char target[64];
        (void)snprintf(target, sizeof target, "/v1/audit?after=%llu", (unsigned long long)after);
        if (sg_api_call(a, "GET", target, NULL, &page, err) < 0)
            return -1;
        for (const struct sg_jval *i = sg_api_first(page, "records"); i; i = i->next)
            keep(r, i);
        const uint64_t next = sg_api_u64(page, "next");
        has_more = sg_json_get(page, "next") && next > after;
        after = next;
    }
    return 0;
}

static void add_row(struct sg_table *t, const struct sg_jval *v)
{
    sg_auto_buf detail;
    struct sg_json j;
    sg_buf_init(&detail, SG_API_MAX_REPLY);
    sg_json_init(&j, &detail);
    if (sg_json_get(v, "detail"))
        sg_json_put(&j, sg_json_get(v, "detail"));
    sg_table_addf(t, "%llu", (unsigned long long)sg_api_u64(v, "seq"));
    sg_table_add(t, sg_api_text(v, "at"));
    sg_table_add(t, sg_api_text(v, "actor"));
    sg_table_add(t, sg_api_text(v, "action"));
    sg_table_add(t, sg_api_text(v, "sandbox"));
    sg_table_add(t, sg_buf_cstr(&detail));
}

int sg_cmd_audit_list(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf out;
    struct sg_err err;
    sg_auto_ring r;
    sg_ring_init(&r, (size_t)cli->config.limit);
    sg_buf_init(&out, SG_API_MAX_REPLY);
    sg_api_open(&api, cli);
    if (read_pages(&api, &r, &err) < 0)
        return sg_cli_fail(cli, &err);
    sg_auto_table t;
    sg_table_init(&t, "SEQ", "AT", "ACTOR", "ACTION", "SANDBOX", "DETAIL");
    const char *comma = "";
    if (cli->config.json)
        sg_buf_add_str(&out, "{\"records\":[");
    for (size_t i = r.n; i-- > 0;) {
        const char *text = sg_ring_get(&r, i);
        const struct sg_jval *v;
        sg_arena_clear(&api.arena);
        if (cli->config.json)
            sg_buf_addf(&out, "%s%s", comma, text);
        else if (sg_json_parse(sg_str_of(text), &api.arena, &v, NULL) == 0)
            add_row(&t, v);
        comma = ",";
    }
    if (cli->config.json)
        sg_buf_add_str(&out, "]}\n");
    else
        sg_table_print(&t, &out);
    return sg_cli_print(&out);
}

int sg_cmd_audit_verify(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf out;
    struct sg_err err;
    const struct sg_jval *v;
    sg_buf_init(&out, 4096);
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "GET", "/v1/audit/verify", NULL, &v, &err) < 0)
        return sg_cli_fail(cli, &err);
    const struct sg_jval *whole = sg_json_get(v, "whole");
    const bool is_whole = whole && whole->kind == SG_J_BOOL && whole->b;
    const unsigned long long records = sg_api_u64(v, "records"), bad = sg_api_u64(v, "brokenAt");
    if (is_whole)
        sg_buf_addf(&out, "whole: %llu records, head %s\n", records, sg_api_text(v, "head"));
    else
        sg_buf_addf(&out, "broken at record %llu of %llu\n", bad, records);
    const int printed = cli->config.json ? sg_api_print(&api.reply) : sg_cli_print(&out);
    return is_whole ? printed : SG_EXIT_FAILED;
}

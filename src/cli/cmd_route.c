/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass route`: which tier an operation would get, and why. Nothing is run. */
#include "base/auto.h"
#include "cli/ask.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "base/banned.h"

void sg_put_ask(struct sg_json *j, const struct sg_cli *cli)
{
    const struct sg_config *c = &cli->config;
    const struct {
        const char *flag, *key, *value;
    } texts[] = {
        { "operation", "operation", c->operation },
        { "trust", "trust", c->trust },
        { "agent", "agent", c->agent },
        { "tier", "tier", c->tier },
        { "network", "network", c->needs_network },
        { "files", "needsFiles", c->needs_files },
    };
    for (size_t i = 0; i < SG_COUNT(texts); i++) {
        if (!sg_cli_has_flag(cli, texts[i].flag))
            continue;
        sg_json_key(j, texts[i].key);
        sg_json_str(j, texts[i].value);
    }
    if (sg_cli_has_flag(cli, "parallel")) {
        sg_json_key(j, "parallel");
        sg_json_u64(j, c->parallel);
    }
    if (sg_cli_has_flag(cli, "seconds")) {
        sg_json_key(j, "seconds");
        sg_json_u64(j, c->seconds_ms / 1000);
    }
    if (!c->wants.n)
        return;
    sg_json_key(j, "capabilities");
    sg_json_open(j, '[');
    for (size_t i = 0; i < c->wants.n; i++)
        sg_json_str(j, c->wants.v[i]);
    sg_json_close(j, ']');
}

static void add_line(struct sg_buf *out, const char *name, const char *value)
{
    if (!*value)
        return;
    sg_buf_addf(out, "%-10s", name);
    sg_add_clean(out, value);
    sg_buf_add_str(out, "\n");
}

static void add_rows(struct sg_buf *out, const struct sg_jval *first, const char *title,
                     const char *key)
{
    sg_auto_table t;
    sg_table_init(&t, title, "WHY");
    for (const struct sg_jval *v = first; v; v = v->next) {
        sg_table_add(&t, sg_api_text(v, key));
        sg_table_add(&t, sg_api_text(v, "why"));
    }
    sg_buf_add_str(out, "\n");
    sg_table_print(&t, out);
}

static void add_decision(struct sg_buf *out, const struct sg_jval *v, bool explain)
{
    const struct sg_jval *fallback = sg_json_get(v, "fallback"),
                         *approval = sg_json_get(v, "approval"),
                         *refused = sg_json_get(v, "refused");
    add_line(out, "tier", refused ? "refused" : sg_api_text(v, "tier"));
    add_line(out, "rule", sg_api_text(v, "rule"));
    add_line(out, "reason", sg_api_text(v, "reason"));
    if (refused)
        add_line(out, "refused", sg_api_text(refused, "message"));
    if (fallback) {
        sg_auto_free char *text = sg_printf("in place of %s: %s", sg_api_text(fallback, "from"),
                                            sg_api_text(fallback, "why"));
        add_line(out, "fallback", text);
    }
    add_line(out, "network", sg_api_text(v, "network"));
    if (approval && approval->kind == SG_J_BOOL && approval->b)
        add_line(out, "approval", "required");
    if (!explain)
        return;
    add_rows(out, sg_api_first(v, "alternatives"), "TIER", "tier");
    if (sg_api_first(v, "passedOver"))
        add_rows(out, sg_api_first(v, "passedOver"), "RULE PASSED OVER", "rule");
}

int sg_cmd_route(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf body, out;
    struct sg_err err;
    struct sg_json j;
    const struct sg_jval *v;
    sg_buf_init(&body, 64 << 10);
    sg_buf_init(&out, 64 << 10);
    sg_json_init(&j, &body);
    sg_json_open(&j, '{');
    sg_put_ask(&j, cli);
    sg_json_close(&j, '}');
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "POST", "/v1/route", &body, &v, &err) < 0)
        return sg_cli_fail(cli, &err);
    const int code = sg_json_get(v, "refused") ? SG_EXIT_FAILED : SG_EXIT_OK;
    if (!cli->config.json)
        add_decision(&out, v, cli->config.explain);
    const int printed = cli->config.json ? sg_api_print(&api.reply) : sg_cli_print(&out);
    return printed ? printed : code;
}

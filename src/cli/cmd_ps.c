/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass ps`: the sandboxes of the service, page by page. */
#include "base/auto.h"
#include "cli/api.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "base/banned.h"

struct listing {
    struct sg_table table;
    struct sg_buf ids, json_text;
    struct sg_json json;
};

static void add_metadata(struct sg_table *t, const struct sg_jval *metadata)
{
    sg_auto_buf text;
    sg_buf_init(&text, 4096);
    if (metadata && metadata->kind == SG_J_OBJECT)
        for (const struct sg_jval *m = metadata->list.first; m; m = m->next)
            if (m->kind == SG_J_STRING)
                sg_buf_addf(&text, "%s%s=%s", text.n ? " " : "", m->key.p, m->s.p);
    sg_table_add(t, sg_buf_cstr(&text));
}

static int add_one(void *arg, const struct sg_jval *s, struct sg_err *err)
{
    struct listing *l = arg;
    (void)err;
    sg_buf_addf(&l->ids, "%s\n", sg_api_text(s, "id"));
    sg_json_put(&l->json, s);
    sg_table_add(&l->table, sg_api_text(s, "id"));
    sg_table_add(&l->table, sg_api_text(s, "template"));
    sg_table_add(&l->table, sg_api_text(s, "state"));
    sg_table_add(&l->table, sg_short_since(sg_api_text(s, "createdAt")).s);
    sg_table_add(&l->table, sg_short_until(sg_api_text(s, "expiresAt")).s);
    sg_table_addf(&l->table, "%llu", (unsigned long long)sg_api_u64(s, "execs"));
    add_metadata(&l->table, sg_json_get(s, "metadata"));
    return 0;
}

static void done(struct listing *l)
{
    sg_table_done(&l->table);
    sg_buf_done(&l->ids);
    sg_buf_done(&l->json_text);
}

static int print(const struct sg_cli *cli, struct listing *l)
{
    if (cli->config.json) {
        sg_json_close(&l->json, ']');
        sg_json_close(&l->json, '}');
        return sg_api_print(&l->json_text);
    }
    if (cli->config.ids)
        return sg_cli_print(&l->ids);
    sg_auto_buf out;
    sg_buf_init(&out, SG_API_MAX_REPLY);
    sg_table_print(&l->table, &out);
    return sg_cli_print(&out);
}

int sg_cmd_ps(struct sg_cli *cli)
{
    sg_auto_api api;
    struct sg_err err;
    __attribute__((cleanup(done))) struct listing l;
    sg_buf_init(&l.ids, SG_API_MAX_REPLY);
    sg_buf_init(&l.json_text, SG_API_MAX_REPLY);
    sg_table_init(&l.table, "ID", "TEMPLATE", "STATE", "AGE", "ENDS IN", "EXECS", "METADATA");
    sg_json_init(&l.json, &l.json_text);
    sg_json_open(&l.json, '{');
    sg_json_key(&l.json, "sandboxes");
    sg_json_open(&l.json, '[');
    sg_api_open(&api, cli);
    if (sg_sandbox_each(&api, &cli->config, add_one, &l, &err) < 0)
        return sg_cli_fail(cli, &err);
    return print(cli, &l);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass pause`, `resume` and `rm`: the same call for each of the named sandboxes. The first
 * failure ends it; what was done before is printed all the same. */
#include <string.h>

#include "base/auto.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "base/banned.h"

struct verb {
    const char *method, *tail; /* tail "": of the sandbox itself */
    const char *key;           /* of the list in the JSON result */
    bool has_sandboxes;        /* answers with the sandbox, not with nothing */
    const char *body;          /* NULL: none */
};

static int print(const struct sg_cli *cli, struct sg_buf *text, struct sg_buf *json)
{
    return cli->config.json ? sg_api_print(json) : sg_cli_print(text);
}

static int for_each(struct sg_cli *cli, const struct verb *v)
{
    sg_auto_api api;
    sg_auto_buf text, json, body;
    struct sg_err err = { 0 };
    struct sg_json j;
    sg_buf_init(&text, SG_API_MAX_REPLY);
    sg_buf_init(&json, SG_API_MAX_REPLY);
    sg_buf_init(&body, 128);
    if (v->body)
        sg_buf_add_str(&body, v->body);
    sg_json_init(&j, &json);
    sg_json_open(&j, '{');
    sg_json_key(&j, v->key);
    sg_json_open(&j, '[');
    sg_api_open(&api, cli);
    for (int i = 0; i < cli->arg_count && err.kind == SG_OK; i++) {
        const struct sg_jval *sandbox;
        sg_auto_buf target;
        sg_buf_init(&target, SG_API_MAX_PATH);
        sg_api_path(&target, "sandboxes", cli->args[i], *v->tail ? v->tail : NULL);
        if (sg_api_call(&api, v->method, sg_buf_cstr(&target), v->body ? &body : NULL, &sandbox,
                        &err) < 0) {
            if (!strstr(err.msg, cli->args[i])) /* which of them */
                (void)sg_wrap(&err, "%s", sg_quote(cli->args[i]).s);
            continue;
        }
        sg_add_clean(&text, cli->args[i]);
        sg_buf_add_str(&text, "\n");
        if (v->has_sandboxes && sandbox)
            sg_json_put(&j, sandbox);
        else
            sg_json_str(&j, cli->args[i]);
    }
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    if (err.kind == SG_OK)
        return print(cli, &text, &json);
    if (!cli->config.json && text.n)
        (void)sg_cli_print(&text);
    return sg_cli_fail(cli, &err);
}

int sg_cmd_pause(struct sg_cli *cli)
{
    return for_each(cli, &(struct verb) { "POST", "pause", "sandboxes", true,
                                          cli->config.drop_memory ? "{\"memory\":false}" : NULL });
}

int sg_cmd_resume(struct sg_cli *cli)
{
    return for_each(cli, &(struct verb) { "POST", "resume", "sandboxes", true, NULL });
}

static int remove_all(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf out;
    struct sg_err err;
    const struct sg_jval *v;
    sg_buf_init(&out, 128);
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "DELETE", "/v1/sandboxes", NULL, &v, &err) < 0)
        return sg_cli_fail(cli, &err);
    sg_buf_addf(&out, "%llu removed\n", (unsigned long long)sg_api_u64(v, "destroyed"));
    return print(cli, &out, &api.reply);
}

int sg_cmd_rm(struct sg_cli *cli)
{
    struct sg_err err;
    if (cli->config.all != (cli->arg_count == 0)) {
        (void)sg_fail(&err, SG_INVALID, "'rm' needs ids, or --all");
        return sg_cli_fail(cli, &err);
    }
    return cli->config.all ? remove_all(cli)
                           : for_each(cli, &(struct verb) { "DELETE", "", "removed", false, NULL });
}

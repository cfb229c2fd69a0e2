/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass kill ID [EXEC]`: one exec, or all that run in the sandbox. */
#include <string.h>

#include "base/auto.h"
#include "base/id.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "base/banned.h"

enum { MAX_EXECS = 100000 };

/* KILL is for the whole tree, wherever its processes have gone; other signals are the command's. */
static int kill_one(struct sg_api *a, const struct sg_cli *cli, const char *exec,
                    struct sg_err *err)
{
    const char *name = cli->config.signal;
    const bool is_kill = strcmp(name, "KILL") == 0 || strcmp(name, "SIGKILL") == 0;
    sg_auto_buf target, body;
    struct sg_json j;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_buf_init(&body, 4096);
    sg_api_path(&target, "sandboxes", cli->args[0], "execs", exec, is_kill ? NULL : "signal");
    sg_json_init(&j, &body);
    sg_json_open(&j, '{');
    sg_json_key(&j, "signal");
    sg_json_str(&j, sg_starts_with(name, "SIG") ? name + 3 : name);
    sg_json_close(&j, '}');
    return sg_api_call(a, is_kill ? "DELETE" : "POST", sg_buf_cstr(&target), is_kill ? NULL : &body,
                       NULL, err);
}

/* Ids of the running ones, each with its NUL. */
static int find_running(struct sg_api *a, const char *sandbox, struct sg_buf *ids,
                        struct sg_err *err)
{
    const struct sg_jval *x;
    if (sg_sandbox_execs(a, sandbox, &x, err) < 0)
        return -1;
    for (; x; x = x->next)
        if (strcmp(sg_api_text(x, "state"), "running") == 0)
            sg_buf_add(ids, sg_api_text(x, "id"), strlen(sg_api_text(x, "id")) + 1);
    return sg_buf_check(ids, "the list of execs", err);
}

int sg_cmd_kill(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf ids, text, json;
    struct sg_err err = { 0 };
    struct sg_json j;
    sg_buf_init(&ids, MAX_EXECS * (SG_ID_LEN + 1ul));
    sg_buf_init(&text, SG_API_MAX_REPLY);
    sg_buf_init(&json, SG_API_MAX_REPLY);
    sg_json_init(&j, &json);
    sg_json_open(&j, '{');
    sg_json_key(&j, "killed");
    sg_json_open(&j, '[');
    sg_api_open(&api, cli);
    if (sg_sandbox_check(cli, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (cli->arg_count == 2)
        sg_buf_add(&ids, cli->args[1], strlen(cli->args[1]) + 1);
    else if (find_running(&api, cli->args[0], &ids, &err) < 0)
        return sg_cli_fail(cli, &err);
    for (size_t at = 0; at < ids.n; at += strlen((const char *)ids.p + at) + 1) {
        const char *exec = (const char *)ids.p + at;
        int r = kill_one(&api, cli, exec, &err);
        if (r < 0 && cli->arg_count == 1 && err.kind == SG_CONFLICT)
            continue; /* it ended by itself meanwhile */
        if (r < 0)
            return sg_cli_fail(cli, &err);
        sg_json_str(&j, exec);
        sg_buf_addf(&text, "%s\n", sg_id_is_valid(exec, 'x') ? exec : sg_quote(exec).s);
    }
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    return cli->config.json ? sg_api_print(&json) : sg_cli_print(&text);
}

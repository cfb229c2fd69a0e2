/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass logs [-f] ID [EXEC]`: output that is kept of an exec; of the latest one where none is
 * named. */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "cli/out.h"
#include "cli/output.h"
#include "cli/sandbox.h"
#include "base/banned.h"

/* The one that started last. RFC 3339 in UTC sorts as text. */
static int find_latest(struct sg_api *a, const char *sandbox, char ret[64], struct sg_err *err)
{
    const struct sg_jval *x, *latest = NULL;
    if (sg_sandbox_execs(a, sandbox, &x, err) < 0)
        return -1;
    for (; x; x = x->next)
        if (!latest || strcmp(sg_api_text(x, "startedAt"), sg_api_text(latest, "startedAt")) >= 0)
            latest = x;
    if (!latest)
        return sg_fail(err, SG_NOT_FOUND, "nothing was executed in %s", sg_quote(sandbox).s);
    (void)snprintf(ret, 64, "%s", sg_api_text(latest, "id"));
    return 0;
}

int sg_cmd_logs(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf target;
    struct sg_err err;
    sg_auto_output output;
    char exec[64] = "";
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_output_init(&output);
    output.shows_lines = cli->config.json;
    sg_api_open(&api, cli);
    if (sg_sandbox_check(cli, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (cli->arg_count == 1 && find_latest(&api, cli->args[0], exec, &err) < 0)
        return sg_cli_fail(cli, &err);
    sg_api_path(&target, "sandboxes", cli->args[0], "execs", *exec ? exec : cli->args[1], "output");
    if (cli->config.follow)
        sg_api_query(&target, "follow", "1");
    if (sg_http_send(&api.http, "GET", sg_buf_cstr(&target), NULL, NULL, &err) < 0 ||
        sg_http_receive(&api.http, &err) < 0 || sg_api_check(&api, &err) < 0 ||
        sg_output_run(&output, &api, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (output.truncated && !output.shows_lines)
        sg_cli_note(cli, "%llu bytes of the output are no longer kept",
                    (unsigned long long)output.truncated);
    return SG_EXIT_OK;
}

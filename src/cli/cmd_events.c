/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass events [-f] [ID]`: what happened last, and with -f what happens. */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/lines.h"
#include "cli/out.h"
#include "cli/ring.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "base/banned.h"

/* The stream has no end and no mark between what was and what is to come, but what was comes at
 * once. */
enum { QUIET_MS = 300, TYPE_WIDTH = 17 /* sandbox.destroyed */ };

static int show(struct sg_api *a, const struct sg_cli *cli, struct sg_str data, struct sg_err *err)
{
    sg_auto_buf out;
    sg_buf_init(&out, 2ul * SG_LINES_MAX);
    if (cli->config.json) {
        sg_buf_add(&out, data.p, data.n);
        sg_buf_add_str(&out, "\n");
        return sg_out_write(STDOUT_FILENO, out.p, out.n, err);
    }
    const struct sg_jval *v;
    sg_arena_clear(&a->arena);
    if (sg_json_parse(data, &a->arena, &v, err) < 0)
        return -1;
    sg_auto_buf detail;
    struct sg_json j;
    sg_buf_init(&detail, SG_LINES_MAX);
    sg_json_init(&j, &detail);
    if (sg_json_get(v, "data"))
        sg_json_put(&j, sg_json_get(v, "data"));
    sg_add_clean(&out, sg_api_text(v, "at"));
    sg_buf_add_str(&out, "  ");
    const size_t before = out.n;
    sg_add_clean(&out, sg_api_text(v, "type"));
    while (out.n - before < TYPE_WIDTH + 2 && !out.has_overflowed)
        sg_buf_add_str(&out, " ");
    sg_add_clean(&out, sg_api_text(v, "sandbox"));
    sg_buf_add_str(&out, "  ");
    sg_add_clean(&out, sg_buf_cstr(&detail));
    sg_buf_add_str(&out, "\n");
    return sg_out_write(STDOUT_FILENO, out.p, out.n, err);
}

static int wait_a_moment(void *arg, int fd, struct sg_err *err)
{
    (void)arg;
    struct pollfd p = { .fd = fd, .events = POLLIN };
    return poll(&p, 1, QUIET_MS) ? 0 : sg_fail(err, SG_TIMEOUT, "it is quiet");
}

/* Our events have their data in one line; `id:`, `event:` and comments say nothing that it does not
 * say, too. */
static int follow(struct sg_api *a, const struct sg_cli *cli, struct sg_ring *latest,
                  struct sg_err *err)
{
    static const char field[] = "data:";
    sg_auto_lines lines;
    struct sg_str line;
    int r;
    sg_lines_init(&lines, &a->http);
    a->http.wait = cli->config.follow ? NULL : wait_a_moment;
    while ((r = sg_lines_next(&lines, &line, err)) > 0) {
        if (line.n < strlen(field) || memcmp(line.p, field, strlen(field)) != 0)
            continue;
        size_t skip = strlen(field) + (line.n > strlen(field) && line.p[strlen(field)] == ' ');
        const struct sg_str data = { line.p + skip, line.n - skip };
        if (!cli->config.follow)
            sg_ring_add(latest, data);
        else if (show(a, cli, data, err) < 0)
            return -1;
    }
    return r < 0 && err->kind == SG_TIMEOUT ? 0 : r;
}

int sg_cmd_events(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf target;
    struct sg_err err;
    sg_auto_ring latest;
    sg_ring_init(&latest, (size_t)cli->config.limit);
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_api_path(&target, "events");
    if (cli->arg_count)
        sg_api_query(&target, "sandbox", cli->args[0]);
    if (!cli->config.follow)
        sg_api_query(&target, "after", "0");
    sg_api_open(&api, cli);
    if (sg_http_send(&api.http, "GET", sg_buf_cstr(&target), NULL, NULL, &err) < 0 ||
        sg_http_receive(&api.http, &err) < 0 || sg_api_check(&api, &err) < 0 ||
        follow(&api, cli, &latest, &err) < 0)
        return sg_cli_fail(cli, &err);
    for (size_t i = 0; i < latest.n; i++)
        if (show(&api, cli, sg_str_of(sg_ring_get(&latest, i)), &err) < 0)
            return sg_cli_fail(cli, &err);
    return SG_EXIT_OK;
}

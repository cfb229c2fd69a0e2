/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass net log|explain|set`: what a sandbox reached and did not, why, and what it may. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "cli/unseen.h"
#include "base/banned.h"

enum { PAGE = 1000 };

/* ---- log ---- */

static void add_line(struct sg_buf *out, const struct sg_jval *v)
{
    const char *name = sg_api_text(v, "name"), *address = sg_api_text(v, "address");
    sg_add_clean(out, sg_api_text(v, "at"));
    sg_buf_addf(out, "  %-7s  %s  ", sg_api_text(v, "verdict"), sg_api_text(v, "protocol"));
    sg_add_clean(out, *name ? name : address);
    sg_buf_addf(out, ":%" PRIu64, sg_api_u64(v, "port"));
    if (*name && *address) {
        sg_buf_add_str(out, " (");
        sg_add_clean(out, address);
        sg_buf_add_str(out, ")");
    }
    sg_buf_addf(out, "  out %" PRIu64 " in %" PRIu64 "  ", sg_api_u64(v, "bytesOut"),
                sg_api_u64(v, "bytesIn"));
    sg_add_clean(out, sg_api_text(v, "rule"));
    if (sg_api_u64(v, "skipped"))
        sg_buf_addf(out, "  (%" PRIu64 " more before it)", sg_api_u64(v, "skipped"));
    sg_buf_add_str(out, "\n");
}

/* One page after `*after`, which is then its end. */
static int show_page(struct sg_api *a, const struct sg_cli *cli, uint64_t limit, uint64_t *after,
                     struct sg_err *err)
{
    sg_auto_buf target, out;
    const struct sg_jval *page;
    char number[24];
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_buf_init(&out, SG_API_MAX_REPLY);
    sg_api_path(&target, "sandboxes", cli->args[0], "connections");
    (void)snprintf(number, sizeof number, "%" PRIu64, *after);
    sg_api_query(&target, "after", number);
    (void)snprintf(number, sizeof number, "%" PRIu64, limit < PAGE ? limit : PAGE);
    sg_api_query(&target, "limit", number);
    if (sg_api_call(a, "GET", sg_buf_cstr(&target), NULL, &page, err) < 0)
        return -1;
    for (const struct sg_jval *i = sg_api_first(page, "connections"); i; i = i->next) {
        struct sg_json j;
        sg_json_init(&j, &out);
        if (cli->config.json) {
            sg_json_put(&j, i);
            sg_buf_add_str(&out, "\n");
        } else {
            add_line(&out, i);
        }
    }
    *after = sg_api_u64(page, "next");
    return sg_cli_print(&out) == SG_EXIT_OK ? 0 : sg_fail(err, SG_UNAVAILABLE, "write");
}

int sg_cmd_net_log(struct sg_cli *cli)
{
    sg_auto_api api;
    struct sg_err err;
    uint64_t after = 0;
    const struct timespec pause = { .tv_nsec = 500000000 };
    sg_api_open(&api, cli);
    if (show_page(&api, cli, cli->config.limit, &after, &err) < 0)
        return sg_cli_fail(cli, &err);
    while (cli->config.follow) {
        (void)nanosleep(&pause, NULL);
        if (show_page(&api, cli, PAGE, &after, &err) < 0)
            return sg_cli_fail(cli, &err);
    }
    return SG_EXIT_OK;
}

/* ---- explain ---- */

int sg_cmd_net_explain(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf target, out;
    struct sg_err err;
    const struct sg_jval *v;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_buf_init(&out, 4096);
    sg_api_path(&target, "sandboxes", cli->args[0], "network", "explain");
    sg_api_query(&target, "to", cli->args[1]);
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "GET", sg_buf_cstr(&target), NULL, &v, &err) < 0)
        return sg_cli_fail(cli, &err);
    const struct sg_jval *allowed = sg_json_get(v, "allowed");
    const bool is_allowed = allowed && allowed->kind == SG_J_BOOL && allowed->b;
    sg_buf_addf(&out, "%s: ", is_allowed ? "allowed" : "denied");
    sg_add_clean(&out, sg_api_text(v, "rule"));
    sg_buf_add_str(&out, "\n");
    const int printed = cli->config.json ? sg_api_print(&api.reply) : sg_cli_print(&out);
    return is_allowed ? printed : SG_EXIT_FAILED;
}

/* ---- set ---- */

static void put_list(struct sg_json *j, const char *key, const struct sg_strlist *list)
{
    sg_json_key(j, key);
    sg_json_open(j, '[');
    for (size_t i = 0; i < list->n; i++)
        sg_json_str(j, list->v[i]);
    sg_json_close(j, ']');
}

/* Where the host begins in "[USER@]HOST:PORT". */
static const char *proxy_host(const char *text)
{
    const char *at = strrchr(text, '@');
    return at ? at + 1 : text;
}

int sg_read_proxy_password(const struct sg_cli *cli, struct sg_buf *ret, struct sg_err *err)
{
    const char *text = cli->config.egress_proxy;
    if (proxy_host(text) == text)
        return 0;
    if (sg_read_unseen("password", ret, err) < 0)
        return -1;
    if (!sg_utf8_valid((const char *)ret->p, ret->n) || (ret->n && memchr(ret->p, 0, ret->n)))
        return sg_fail(err, SG_INVALID, "the password is no text in UTF-8");
    return 0;
}

static void put_proxy(struct sg_json *j, const char *text, const struct sg_buf *password)
{
    const char *host = proxy_host(text);
    sg_json_key(j, "egressProxy");
    sg_json_open(j, '{');
    sg_json_key(j, "address");
    sg_json_str(j, host);
    if (host > text) {
        sg_json_key(j, "username");
        sg_json_text(j, (struct sg_str) { text, (size_t)(host - text) - 1 });
        sg_json_key(j, "password");
        sg_json_text(j, (struct sg_str) { (const char *)password->p, password->n });
    }
    sg_json_close(j, '}');
}

void sg_put_network(struct sg_json *j, const struct sg_cli *cli, const struct sg_buf *password)
{
    static const char *const modes[] = { "none", "filtered", "open" };
    const struct sg_config *c = &cli->config;
    sg_json_open(j, '{');
    if (sg_cli_has_flag(cli, "net")) {
        sg_json_key(j, "mode");
        sg_json_str(j, modes[c->net]);
    }
    if (c->net_allow.n)
        put_list(j, "allow", &c->net_allow);
    if (c->net_block.n)
        put_list(j, "deny", &c->net_block);
    if (c->egress_proxy[0])
        put_proxy(j, c->egress_proxy, password);
    if (c->net_private.n)
        put_list(j, "networks", &c->net_private);
    if (c->net_name[0]) {
        sg_json_key(j, "name");
        sg_json_str(j, c->net_name);
    }
    sg_json_close(j, '}');
}

/* A sandbox; "org:ID" or "template:NAME": what lies above those of sandboxes. */
static void put_target(struct sg_buf *target, const char *text)
{
    static const char *const above[] = { "org:", "template:" }, *const roots[] = { "orgs",
                                                                                   "templates" };
    for (size_t i = 0; i < SG_COUNT(above); i++)
        if (sg_starts_with(text, above[i])) {
            sg_api_path(target, roots[i], text + strlen(above[i]), "network");
            return;
        }
    sg_api_path(target, "sandboxes", text, "network");
}

int sg_cmd_net_set(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf target, body, password;
    struct sg_err err;
    struct sg_json j;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_buf_init(&body, SG_API_MAX_REPLY);
    sg_buf_init(&password, SG_MAX_PASSWORD);
    if (sg_read_proxy_password(cli, &password, &err) < 0)
        return sg_cli_fail(cli, &err);
    put_target(&target, cli->args[0]);
    sg_json_init(&j, &body);
    sg_put_network(&j, cli, &password);
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "PUT", sg_buf_cstr(&target), &body, NULL, &err) < 0)
        return sg_cli_fail(cli, &err);
    return sg_api_print(&api.reply);
}

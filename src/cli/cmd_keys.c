/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass keys list|create|revoke`. A key is shown once, when it is made. */
#include <string.h>
#include <time.h>

#include "base/auto.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "base/banned.h"

static void add_list(struct sg_table *t, const struct sg_jval *first)
{
    sg_auto_buf text;
    sg_buf_init(&text, 1024);
    for (const struct sg_jval *m = first; m; m = m->next)
        if (m->kind == SG_J_STRING)
            sg_buf_addf(&text, "%s%s", text.n ? "," : "", m->s.p);
    sg_table_add(t, sg_buf_cstr(&text));
}

static void add_row(struct sg_table *t, const struct sg_jval *k)
{
    sg_table_add(t, sg_api_text(k, "id"));
    sg_table_add(t, sg_api_text(k, "name"));
    sg_table_add(t, sg_api_text(k, "shown"));
    add_list(t, sg_api_first(k, "scopes"));
    add_list(t, sg_api_first(k, "templates"));
    sg_table_add(t, sg_short_since(sg_api_text(k, "createdAt")).s);
    const struct sg_short left = sg_short_until(sg_api_text(k, "expiresAt"));
    if (*sg_api_text(k, "revokedAt"))
        sg_table_add(t, "revoked");
    else if (strcmp(left.s, "0s") == 0)
        sg_table_add(t, "expired");
    else if (*sg_api_text(k, "expiresAt"))
        sg_table_addf(t, "%s left", left.s);
    else
        sg_table_add(t, "good");
}

int sg_cmd_keys_list(struct sg_cli *cli)
{
    sg_auto_table t;
    sg_table_init(&t, "ID", "NAME", "BEGINS", "SCOPES", "TEMPLATES", "AGE", "STATE");
    return sg_cli_list(cli, "/v1/keys", "keys", &t, add_row);
}

/* ["a","b"] of "a,b" */
static void put_words(struct sg_json *j, const char *key, const char *words)
{
    sg_json_key(j, key);
    sg_json_open(j, '[');
    for (size_t n; *words; words += n + (words[n] == ',')) {
        n = strcspn(words, ",");
        if (n)
            sg_json_text(j, (struct sg_str) { words, n });
    }
    sg_json_close(j, ']');
}

static void put_expiry(struct sg_json *j, uint64_t in_ms)
{
    const time_t at = time(NULL) + (time_t)(in_ms / 1000);
    struct tm tm;
    char text[40] = "";
    if (gmtime_r(&at, &tm))
        (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S.000Z", &tm);
    sg_json_key(j, "expiresAt");
    sg_json_str(j, text);
}

int sg_cmd_keys_create(struct sg_cli *cli)
{
    const struct sg_config *c = &cli->config;
    sg_auto_api api;
    sg_auto_buf body, out;
    struct sg_err err;
    struct sg_json j;
    const struct sg_jval *v;
    sg_buf_init(&body, 64 << 10);
    sg_buf_init(&out, 4096);
    sg_json_init(&j, &body);
    sg_json_open(&j, '{');
    sg_json_key(&j, "name");
    sg_json_str(&j, *c->name ? c->name : "key");
    put_words(&j, "scopes", c->scopes);
    if (*c->org) {
        sg_json_key(&j, "org");
        sg_json_str(&j, c->org);
    }
    if (sg_cli_has_flag(cli, "template"))
        put_words(&j, "templates", c->template);
    if (c->expires_ms)
        put_expiry(&j, c->expires_ms);
    if (c->rate) {
        sg_json_key(&j, "ratePerSecond");
        sg_json_u64(&j, c->rate);
    }
    sg_json_close(&j, '}');
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "POST", "/v1/keys", &body, &v, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (c->json)
        return sg_api_print(&api.reply);
    sg_cli_note(cli, "key %s; this is the only time that it is shown", sg_api_text(v, "id"));
    sg_add_clean(&out, sg_api_text(v, "key"));
    sg_buf_add_str(&out, "\n");
    return sg_cli_print(&out);
}

int sg_cmd_keys_revoke(struct sg_cli *cli)
{
    return sg_cli_remove(cli, "keys", "revoked");
}

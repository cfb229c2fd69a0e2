/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass create`: a sandbox of the service. What is not asked for is left to the service. */
#include <string.h>

#include "base/auto.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "config/mapping.h"
#include "cli/table.h"
#include "base/banned.h"

static void put_number(struct sg_json *j, const struct sg_cli *cli, const char *flag,
                       const char *key, uint64_t value)
{
    if (!sg_cli_has_flag(cli, flag))
        return;
    sg_json_key(j, key);
    sg_json_u64(j, value);
}

static void put_limits(struct sg_json *j, const struct sg_cli *cli)
{
    const struct sg_config *c = &cli->config;
    sg_json_key(j, "limits");
    sg_json_open(j, '{');
    put_number(j, cli, "memory", "memoryBytes", c->memory_bytes);
    put_number(j, cli, "pids", "pids", c->pids);
    put_number(j, cli, "disk", "diskBytes", c->disk_bytes);
    if (sg_cli_has_flag(cli, "cpus")) {
        sg_json_key(j, "cpus");
        sg_json_milli(j, c->cpu_milli);
    }
    sg_json_close(j, '}');
}

/* They were checked when they were read. */
static void put_volumes(struct sg_json *j, const struct sg_strlist *volumes)
{
    sg_json_key(j, "mounts");
    sg_json_open(j, '[');
    for (size_t i = 0; i < volumes->n; i++) {
        struct sg_mapping m;
        if (sg_mapping_parse_bind(volumes->v[i], &m, NULL) < 0)
            continue;
        sg_json_open(j, '{');
        sg_json_key(j, "volume");
        sg_json_text(j, m.source);
        sg_json_key(j, "path");
        sg_json_text(j, m.target);
        sg_json_key(j, "readOnly");
        sg_json_bool(j, m.is_read_only);
        sg_json_close(j, '}');
    }
    sg_json_close(j, ']');
}

/* "[ENV=]NAME" */
static void put_secrets(struct sg_json *j, const struct sg_strlist *secrets)
{
    sg_json_key(j, "secrets");
    sg_json_open(j, '[');
    for (size_t i = 0; i < secrets->n; i++) {
        const char *text = secrets->v[i], *equals = strchr(text, '=');
        sg_json_open(j, '{');
        sg_json_key(j, "name");
        sg_json_str(j, equals ? equals + 1 : text);
        if (equals) {
            sg_json_key(j, "env");
            sg_json_text(j, (struct sg_str) { text, (size_t)(equals - text) });
        }
        sg_json_close(j, '}');
    }
    sg_json_close(j, ']');
}

static void write_body(const struct sg_cli *cli, const struct sg_buf *password, struct sg_buf *out)
{
    const struct sg_config *c = &cli->config;
    struct sg_json j;
    sg_json_init(&j, out);
    sg_json_open(&j, '{');
    if (sg_cli_has_flag(cli, "template")) {
        sg_json_key(&j, "template");
        sg_json_str(&j, c->template);
    }
    if (sg_cli_has_flag(cli, "tier")) {
        sg_json_key(&j, "tier");
        sg_json_str(&j, c->tier);
    }
    put_limits(&j, cli);
    put_number(&j, cli, "timeout", "timeoutMs", c->timeout_ms);
    put_number(&j, cli, "idle-timeout", "idleTimeoutMs", c->idle_timeout_ms);
    put_number(&j, cli, "retries", "retries", c->retries);
    put_number(&j, cli, "checkpoint-every", "checkpointEvery", c->checkpoint_every);
    if (c->captures.n) {
        sg_json_key(&j, "captureFiles");
        sg_json_open(&j, '[');
        for (size_t i = 0; i < c->captures.n; i++)
            sg_json_str(&j, c->captures.v[i]);
        sg_json_close(&j, ']');
    }
    if (sg_cli_has_flag(cli, "on-expiry")) {
        sg_json_key(&j, "onExpiry");
        sg_json_str(&j, c->on_expiry == SG_EXPIRY_PAUSE ? "pause" : "kill");
    }
    if (sg_cli_has_flag(cli, "net") || c->net_allow.n || c->net_block.n || c->net_private.n ||
        c->net_name[0] || c->egress_proxy[0]) {
        sg_json_key(&j, "network");
        sg_put_network(&j, cli, password);
    }
    if (c->metadata.n)
        sg_put_pairs(&j, "metadata", &c->metadata);
    if (c->volumes.n)
        put_volumes(&j, &c->volumes);
    if (c->secrets.n)
        put_secrets(&j, &c->secrets);
    if (sg_cli_has_flag(cli, "env"))
        sg_put_env(&j, &c->env);
    sg_json_close(&j, '}');
}

int sg_cmd_create(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf body, out, password;
    struct sg_err err;
    const struct sg_jval *sandbox;
    sg_buf_init(&body, SG_API_MAX_REPLY);
    sg_buf_init(&out, 256);
    sg_buf_init(&password, SG_MAX_PASSWORD);
    if (sg_read_proxy_password(cli, &password, &err) < 0)
        return sg_cli_fail(cli, &err);
    write_body(cli, &password, &body);
    sg_api_open(&api, cli);
    if (sg_api_call(&api, "POST", "/v1/sandboxes", &body, &sandbox, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (cli->config.json)
        return sg_api_print(&api.reply);
    const struct sg_jval *missing = sg_json_get(sandbox, "unenforced");
    if (missing && missing->kind == SG_J_ARRAY)
        for (const struct sg_jval *m = missing->list.first; m; m = m->next)
            sg_cli_note(cli, "not enforced on this machine: %s",
                        m->kind == SG_J_STRING ? sg_quote(m->s.p).s : "?");
    sg_add_clean(&out, sg_api_text(sandbox, "id"));
    sg_buf_add_str(&out, "\n");
    return sg_cli_print(&out);
}

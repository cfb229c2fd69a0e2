/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/str.h"
#include "config/config.h"
#include "config/endpoint.h"
#include "base/banned.h"

enum { MAX_PEM_BYTES = 1 << 20 };

/* NULL for an empty name. */
static int read_pem(const char *path, char **ret, struct sg_err *err)
{
    if (!*path)
        return 0;
    sg_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return sg_fail(err, SG_INVALID, "open %s: %s", sg_quote(path).s, strerror(errno));
    sg_auto_buf text;
    sg_buf_init(&text, MAX_PEM_BYTES);
    if (sg_buf_read_fd(&text, fd, path, err) < 0)
        return -1;
    *ret = sg_strdup(sg_buf_cstr(&text));
    return 0;
}

/* What the settings name, else what `sandglass tls init` made. */
static int read_tls(const struct sg_config *c, struct sg_settings *s, struct sg_err *err)
{
    sg_auto_free char *cert = sg_printf("%s/tls/cert.pem", c->state_dir);
    sg_auto_free char *key = sg_printf("%s/tls/key.pem", c->state_dir);
    const bool is_named = *c->serve_tls_cert;
    if (!is_named != !*c->serve_tls_key)
        return sg_fail(err, SG_INVALID, "serve.tls_cert and serve.tls_key belong together");
    if (!is_named && access(cert, F_OK) < 0)
        return 0;
    if (read_pem(is_named ? c->serve_tls_cert : cert, &s->tls_cert, err) < 0 ||
        read_pem(is_named ? c->serve_tls_key : key, &s->tls_key, err) < 0)
        return sg_wrap(err, "read the certificate");
    return 0;
}

/* Read here, while files can be seen: a service does not start with rules that make no sense.
 * *ret_path is NULL where there are none. */
static int read_rules(const char *named, const char *usual, struct sg_buf *text,
                      const char **ret_path, struct sg_err *err)
{
    const char *path = *named ? named : usual;
    sg_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    sg_buf_init(text, SG_RULES_MAX_BYTES);
    *ret_path = NULL;
    if (fd < 0 && errno == ENOENT && !*named)
        return 0;
    if (fd < 0)
        return sg_fail(err, SG_INVALID, "open %s: %s", sg_quote(path).s, strerror(errno));
    *ret_path = path;
    return sg_buf_read_fd(text, fd, path, err);
}

static int take_rules(const struct sg_config *c, struct sg_settings *s, struct sg_err *err)
{
    sg_auto_buf router = { 0 }, calls = { 0 };
    const char *path;
    if (read_rules(c->router_rules, SG_RULES_DEFAULT_PATH, &router, &path, err) < 0 ||
        (path && !(s->rules = sg_rules_parse((struct sg_str) { (const char *)router.p, router.n },
                                             path, err))))
        return sg_wrap(err, "read the router's rules");
    if (read_rules(c->intercept_rules, SG_INTERCEPT_DEFAULT_PATH, &calls, &path, err) < 0 ||
        (path && !(s->intercept = sg_intercept_parse(
                       (struct sg_str) { (const char *)calls.p, calls.n }, path, err))))
        return sg_wrap(err, "read the rules on tool calls");
    return 0;
}

static int read_prices(const char *named, struct sg_prices *ret, struct sg_err *err)
{
    const char *path = *named ? named : SG_PRICES_DEFAULT_PATH;
    sg_auto_buf text;
    sg_buf_init(&text, SG_PRICES_MAX_BYTES);
    sg_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT && !*named) {
        sg_prices_builtin(ret);
        return 0;
    }
    if (fd < 0)
        return sg_fail(err, SG_INVALID, "open %s: %s", sg_quote(path).s, strerror(errno));
    if (sg_buf_read_fd(&text, fd, path, err) < 0)
        return -1;
    return sg_prices_parse((struct sg_str) { (const char *)text.p, text.n }, path, ret, err);
}

/* The headers are the exporter's; here they are only looked at, while somebody is there to hear
 * that they make no sense. */
static int take_otlp(const struct sg_config *c, struct sg_settings *s, struct sg_err *err)
{
    char *ignored[SG_HEADERS_MAX];
    sg_auto_buf text;
    sg_buf_init(&text, SG_HEADERS_MAX_BYTES);
    if (!*c->otlp_endpoint)
        return 0;
    const int got = sg_headers_read(c->otlp_headers, &text, ignored, err);
    if (text.p)
        explicit_bzero(text.p, text.n);
    if (got < 0)
        return sg_wrap(err, "otlp.headers");
    if (*c->otlp_ca && access(c->otlp_ca, R_OK) < 0)
        return sg_fail(err, SG_INVALID, "otlp.ca: %s: %s", sg_quote(c->otlp_ca).s, strerror(errno));
    s->otlp_environment = sg_strdup(c->otlp_environment);
    s->otlp_spool_bytes = c->otlp_spool_bytes;
    s->otlp_content = c->otlp_content;
    return 0;
}

/* router.tiers: a host with more or less than this one, to try rules. */
static int take_tiers(const struct sg_strlist *tiers, struct sg_walls *ret, struct sg_err *err)
{
    for (unsigned w = 0; w < SG_WALL_COUNT; w++)
        ret->missing[w] = "not among router.tiers of the settings";
    for (size_t i = 0; i < tiers->n; i++) {
        int w = sg_router_word(sg_wall_names, SG_WALL_COUNT, "tier", sg_str_of(tiers->v[i]), err);
        if (w < 0)
            return sg_wrap(err, "router.tiers");
        ret->missing[w] = NULL;
    }
    return 0;
}

/* router.templates */
static int take_templates(const struct sg_strlist *rows, struct sg_settings *s, struct sg_err *err)
{
    s->template_tiers = rows->n ? sg_alloc(rows->n * sizeof *s->template_tiers) : NULL;
    for (size_t i = 0; i < rows->n; i++) {
        const char *eq = strchr(rows->v[i], '=');
        if (!eq)
            return sg_fail(err, SG_INVALID, "router.templates: %s is not TEMPLATE=TIER",
                           sg_quote(rows->v[i]).s);
        if (sg_router_word(sg_wall_names, SG_WALL_COUNT, "tier", sg_str_of(eq + 1), err) < 0)
            return sg_wrap(err, "router.templates");
        s->template_tiers[s->template_tiers_n++] = sg_strdup(rows->v[i]);
    }
    return 0;
}

static int take(const struct sg_config *c, struct sg_settings *s, struct sg_err *err)
{
    if (read_tls(c, s, err) < 0)
        return -1;
    s->domain = sg_strdup(c->serve_domain);
    if (take_rules(c, s, err) < 0 || take_tiers(&c->router_tiers, &s->walls, err) < 0 ||
        take_templates(&c->router_templates, s, err) < 0)
        return -1;
    s->has_walls = c->router_tiers.n > 0;
    if (read_prices(c->usage_prices, &s->prices, err) < 0)
        return sg_wrap(err, "read the prices");
    if (take_otlp(c, s, err) < 0)
        return -1;
    s->state_dir = sg_printf("%s/daemon", c->state_dir);
    s->seal_dir = sg_printf("%s/seal", c->state_dir);
    s->template = sg_strdup(c->serve_template);
    s->log_level = sg_strdup(c->serve_log_level);
    s->mem_bytes = c->memory_bytes;
    s->cpu_milli = c->cpu_milli;
    s->pids = c->pids;
    s->disk_bytes = c->disk_bytes;
    s->max_mem_bytes = c->serve_max_memory_bytes;
    s->max_cpu_milli = c->serve_max_cpu_milli;
    s->timeout_ms = c->serve_timeout_ms;
    s->max_sandboxes = c->serve_max_sandboxes;
    s->started = c->serve_started;
    s->started_each = c->serve_started_each;
    s->max_visitors = c->serve_max_visitors;
    s->journal_bytes = c->serve_journal_bytes;
    s->reconcile_ms = c->serve_reconcile_ms;
    s->pause_files_ms = c->serve_pause_files_ms;
    s->pause_memory_ms = c->serve_pause_memory_ms;
    for (size_t i = 0; i < c->gate_permit.n; i++)
        if (sg_nets_add(&s->permitted, sg_str_of(c->gate_permit.v[i]), err) < 0)
            return sg_wrap(err, "gate.permit");
    return 0;
}

int sg_settings_load(struct sg_settings *ret, struct sg_err *err)
{
    struct sg_config config;
    struct sg_origins origins;
    struct sg_settings s = { 0 };
    sg_config_init(&config, &origins);
    int got = sg_config_load(&config, &origins, NULL, environ, err);
    if (got == 0)
        got = take(&config, &s, err);
    sg_config_done(&config, &origins);
    if (got < 0) {
        sg_settings_done(&s);
        return -1;
    }
    *ret = s;
    return 0;
}

void sg_settings_done(struct sg_settings *s)
{
    if (s->tls_key)
        explicit_bzero(s->tls_key, strlen(s->tls_key));
    sg_rules_free(s->rules);
    sg_intercept_free(s->intercept);
    for (size_t i = 0; i < s->template_tiers_n; i++)
        free(s->template_tiers[i]);
    free(s->template_tiers);
    sg_nets_done(&s->permitted);
    free(s->state_dir);
    free(s->seal_dir);
    free(s->template);
    free(s->log_level);
    free(s->otlp_environment);
    free(s->tls_cert);
    free(s->domain);
    free(s->tls_key);
}

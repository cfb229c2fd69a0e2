/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/api.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/out.h"
#include "cli/secure.h"
#include "cli/supervise.h"
#include "wire/url.h"
#include "base/banned.h"

enum { MAX_KEY = 256, MAX_URL = 1024, MAX_TREE = 8 * SG_API_MAX_REPLY };

/* Instead of the service's, which speaks of headers. */
static const char KEY_HINT[] =
    "it comes from $SANDGLASS_API_KEY; on the service's machine 'sandglass up' prints a good one";

/* ---- where, and who we are ---- */

bool sg_cli_has_flag(const struct sg_cli *cli, const char *flag)
{
    const struct sg_option *o = sg_option_find_flag(sg_str_of(flag), cli->command->bit);
    return o && cli->origins.of[o - sg_options].kind == SG_FROM_FLAG;
}

char *sg_api_key_file(const struct sg_cli *cli)
{
    return sg_printf("%s/client.key", cli->config.state_dir);
}

/* The first word of a small file of ours; "" where there is none. Returns owned. */
static char *read_word(const char *path, size_t max)
{
    sg_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    sg_auto_buf text;
    struct sg_err ignored;
    sg_buf_init(&text, max);
    if (fd < 0 || sg_buf_read_fd(&text, fd, path, &ignored) < 0)
        return sg_strdup("");
    char *word = sg_strdup(sg_buf_cstr(&text));
    word[strcspn(word, "\r\n \t")] = '\0';
    return word;
}

char *sg_api_read_key(const struct sg_cli *cli)
{
    sg_auto_free char *path = sg_api_key_file(cli);
    return read_word(path, MAX_KEY);
}

/* An address that means "all of mine" is none to connect to. */
char *sg_api_listen_url(const struct sg_cli *cli)
{
    const struct sg_config *c = &cli->config;
    const char *colon = strrchr(c->serve_listen, ':');
    const char *scheme = *c->serve_tls_cert ? "https" : "http";
    size_t n = (size_t)(colon - c->serve_listen);
    if (n == strlen("0.0.0.0") && sg_starts_with(c->serve_listen, "0.0.0.0:"))
        return sg_printf("%s://127.0.0.1%s", scheme, colon);
    if (sg_starts_with(c->serve_listen, "[::]:"))
        return sg_printf("%s://[::1]%s", scheme, colon);
    return sg_printf("%s://%s", scheme, c->serve_listen);
}

char *sg_api_running_url(const struct sg_cli *cli)
{
    sg_auto_free char *path = sg_supervise_url(cli);
    sg_auto_free char *url = read_word(path, MAX_URL);
    return *url ? sg_take_ptr(&url) : sg_api_listen_url(cli);
}

void sg_api_open_at(struct sg_api *a, const char *url, const char *key)
{
    sg_http_init(&a->http, url, key);
    sg_buf_init(&a->reply, SG_API_MAX_REPLY);
    sg_arena_init(&a->arena, MAX_TREE);
}

/* Whether the service that is meant is this machine's own, with a socket that is ours. */
static bool has_socket(const struct sg_cli *cli, const char *own)
{
    const char *url = cli->config.url;
    sg_auto_free char *running = sg_api_running_url(cli);
    return (!*url || strcmp(url, running) == 0 || strcmp(url, own) == 0) &&
           access(own + strlen("unix:"), W_OK) == 0;
}

void sg_api_open(struct sg_api *a, const struct sg_cli *cli)
{
    const struct sg_config *c = &cli->config;
    const char *given = getenv("SANDGLASS_API_KEY");
    sg_auto_free char *stored = *c->url && !given ? sg_api_read_key(cli) : NULL;
    sg_auto_free char *own = sg_printf("unix:%s/api.sock", c->serve_run_dir);
    if (cli->command->is_operators && has_socket(cli, own))
        sg_api_open_at(a, own, "");
    else
        sg_api_open_at(a, *c->url ? c->url : own, given ? given : stored ? stored : "");
    a->http.secure = sg_secure_connect;
    a->http.secure_arg = (void *)(uintptr_t)cli;
}

void sg_api_done(struct sg_api *a)
{
    sg_http_done(&a->http);
    sg_buf_done(&a->reply);
    sg_arena_done(&a->arena);
}

/* ---- paths ---- */

void sg_api_path_(struct sg_buf *out, const char *segment, ...)
{
    va_list rest;
    va_start(rest, segment);
    sg_buf_add_str(out, "/v1");
    for (; segment; segment = va_arg(rest, const char *)) {
        sg_buf_add_str(out, "/");
        sg_url_encode(out, sg_str_of(segment), false);
    }
    va_end(rest);
}

void sg_api_query(struct sg_buf *out, const char *name, const char *value)
{
    sg_buf_add_str(out, memchr(out->p, '?', out->n) ? "&" : "?");
    sg_url_encode(out, sg_str_of(name), false);
    sg_buf_add_str(out, "=");
    sg_url_encode(out, sg_str_of(value), true);
}

/* ---- calls ---- */

static enum sg_kind kind_of(const char *name, int status)
{
    for (int k = SG_OK + 1; k < SG_KIND_COUNT; k++)
        if (strcmp(sg_kind_name((enum sg_kind)k), name) == 0)
            return (enum sg_kind)k;
    return status == 503 ? SG_UNAVAILABLE : SG_INTERNAL;
}

/* Bytes of a message that would drive a terminal do not get that far. */
static void clean(char *text)
{
    for (size_t i = 0, n = strlen(text); i < n;) {
        size_t width = sg_plain_width(text + i, n - i);
        if (!width && text[i] != '\'' && text[i] != '\\')
            text[i] = '?';
        i += width ? width : 1;
    }
}

static int fail_as_told(struct sg_api *a, struct sg_err *err)
{
    const struct sg_jval *v = NULL;
    const int status = a->http.head.status;
    struct sg_str text = { (const char *)a->reply.p, a->reply.n };
    if (sg_json_parse(text, &a->arena, &v, NULL) < 0)
        return sg_fail(err, kind_of("", status), "%s answered with status %d", a->http.url, status);
    const struct sg_jval *e = sg_json_get(v, "error");
    const char *hint = status == 401 ? KEY_HINT : sg_api_text(e, "hint");
    (void)sg_fail(err, kind_of(sg_api_text(e, "kind"), status), "%s%s%s%s",
                  e ? sg_api_text(e, "message") : "the service gave no reason", *hint ? " (" : "",
                  hint, *hint ? ")" : "");
    if (err)
        clean(err->msg);
    return -1;
}

int sg_api_check(struct sg_api *a, struct sg_err *err)
{
    if (a->http.head.status < 400)
        return 0;
    sg_buf_clear(&a->reply);
    sg_arena_clear(&a->arena);
    if (sg_http_read_all(&a->http, &a->reply, err) < 0)
        return -1;
    return fail_as_told(a, err);
}

static int exchange(struct sg_api *a, const char *method, const char *target,
                    const struct sg_str *body, struct sg_err *err)
{
    sg_buf_clear(&a->reply);
    sg_arena_clear(&a->arena);
    if (sg_http_send(&a->http, method, target, NULL, body, err) < 0 ||
        sg_http_receive(&a->http, err) < 0)
        return -1;
    return sg_api_check(a, err) < 0 ? -1 : sg_http_read_all(&a->http, &a->reply, err);
}

static int read_answer(struct sg_api *a, const struct sg_jval **ret, struct sg_err *err)
{
    const struct sg_jval *v = NULL;
    struct sg_str answer = { (const char *)a->reply.p, a->reply.n };
    if (ret && answer.n && sg_json_parse(answer, &a->arena, &v, err) < 0)
        return sg_wrap(err, "%s", a->http.url);
    if (ret)
        *ret = v;
    return 0;
}

int sg_api_call(struct sg_api *a, const char *method, const char *target, struct sg_buf *body,
                const struct sg_jval **ret, struct sg_err *err)
{
    struct sg_str text = { body ? (const char *)body->p : "", body ? body->n : 0 };
    if (body && sg_buf_check(body, "the request", err) < 0)
        return -1;
    const bool was_open = a->http.fd >= 0, is_question = strcmp(method, "GET") == 0;
    int r = exchange(a, method, target, body ? &text : NULL, err);
    if (r < 0 && was_open && is_question && a->http.fd < 0) /* it was closed while we did not ask */
        r = exchange(a, method, target, NULL, err);
    return r < 0 ? -1 : read_answer(a, ret, err);
}

int sg_api_answer(struct sg_api *a, const struct sg_jval **ret, struct sg_err *err)
{
    sg_buf_clear(&a->reply);
    sg_arena_clear(&a->arena);
    if (sg_api_check(a, err) < 0 || sg_http_read_all(&a->http, &a->reply, err) < 0)
        return -1;
    return read_answer(a, ret, err);
}

const char *sg_api_text(const struct sg_jval *v, const char *key)
{
    const struct sg_jval *m = sg_json_get(v, key);
    return m && m->kind == SG_J_STRING ? m->s.p : "";
}

const struct sg_jval *sg_api_first(const struct sg_jval *v, const char *key)
{
    const struct sg_jval *m = sg_json_get(v, key);
    return m && m->kind == SG_J_ARRAY ? m->list.first : NULL;
}

uint64_t sg_api_u64(const struct sg_jval *v, const char *key)
{
    const struct sg_jval *m = sg_json_get(v, key);
    return m && m->kind == SG_J_UINT ? m->u : 0;
}

int sg_api_print(const struct sg_buf *reply)
{
    sg_auto_buf out;
    sg_buf_init(&out, SG_API_MAX_REPLY + 1);
    sg_buf_add(&out, reply->p, reply->n);
    if (!out.n || out.p[out.n - 1] != '\n')
        sg_buf_add_str(&out, "\n");
    return sg_cli_print(&out);
}

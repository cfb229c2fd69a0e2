/* SPDX-License-Identifier: Apache-2.0 */
/* What a handler asks about its request. */
#include <string.h>

#include "api/internal.h"
#include "base/hint.h"
#include "base/parse.h"
#include "wire/url.h"
#include "base/banned.h"

const char *sg_call_param(const struct sg_call *c, const char *name)
{
    for (unsigned i = 0; i < SG_CALL_MAX_PARAMS && c->params[i].name; i++)
        if (strcmp(c->params[i].name, name) == 0)
            return c->params[i].value;
    return "";
}

const char *sg_call_header(const struct sg_call *c, const char *name)
{
    const struct sg_exchange *x = sg_exchange_of(c);
    const struct sg_http_field *f = sg_http1_find(x->fields, x->field_count, x->head, name);
    return f ? x->head + f->value.at : NULL;
}

const char *sg_call_header_next(const struct sg_call *c, const char *prefix, unsigned *cursor,
                                struct sg_str *ret_name)
{
    const struct sg_exchange *x = sg_exchange_of(c);
    const size_t n = strlen(prefix);
    while (*cursor < x->field_count) {
        const struct sg_http_field *f = &x->fields[(*cursor)++];
        const struct sg_str name = sg_span_str(f->name, x->head);
        if (name.n < n || strncasecmp(name.p, prefix, n) != 0)
            continue;
        *ret_name = (struct sg_str) { name.p + n, name.n - n };
        return x->head + f->value.at;
    }
    return NULL;
}

/* Decoded in the arena; NULL where it cannot be. */
static const char *decode(struct sg_call *c, struct sg_str text, struct sg_err *err)
{
    char *out = sg_arena_alloc(&c->arena, text.n + 1);
    if (!out) {
        (void)sg_fail(err, SG_EXHAUSTED, "no room for the query");
        return NULL;
    }
    return sg_url_decode(text, true, out, err) < 0 ? NULL : out;
}

/* Names are compared decoded, but seldom have anything to decode. */
static bool is_named(struct sg_call *c, struct sg_str name, const char *wanted)
{
    if (!memchr(name.p, '%', name.n) && !memchr(name.p, '+', name.n))
        return sg_str_is(name, wanted);
    const char *text = decode(c, name, NULL);
    return text && strcmp(text, wanted) == 0;
}

const char *sg_call_query(struct sg_call *c, const char *name)
{
    struct sg_str rest = sg_str_of(c->raw_query), n, v;
    while (sg_query_next(&rest, &n, &v))
        if (is_named(c, n, name))
            return decode(c, v, NULL);
    return NULL;
}

int sg_call_query_u64(struct sg_call *c, const char *name, uint64_t min, uint64_t max,
                      uint64_t *inout, struct sg_err *err)
{
    const char *text = sg_call_query(c, name);
    if (text && sg_parse_u64(sg_str_of(text), min, max, inout, err) < 0)
        return sg_wrap(err, "query parameter '%s'", name);
    return 0;
}

int sg_call_query_bool(struct sg_call *c, const char *name, bool *inout, struct sg_err *err)
{
    const char *text = sg_call_query(c, name);
    if (!text)
        return 0;
    bool is_yes = strcmp(text, "1") == 0 || strcmp(text, "true") == 0 || !text[0];
    if (!is_yes && strcmp(text, "0") != 0 && strcmp(text, "false") != 0)
        return sg_fail(err, SG_INVALID, "query parameter '%s' is 1 or 0, not %s", name,
                       sg_quote(text).s);
    *inout = is_yes;
    return 0;
}

/* "metadata." stands for every name that begins so. */
static bool is_known(const char *name, const char *const *known)
{
    for (; *known; known++) {
        const size_t n = strlen(*known);
        const bool is_prefix = n && (*known)[n - 1] == '.';
        if (is_prefix ? strncmp(name, *known, n) == 0 : strcmp(name, *known) == 0)
            return true;
    }
    return false;
}

int sg_call_query_only(struct sg_call *c, const char *const *known, struct sg_err *err)
{
    struct sg_str rest = sg_str_of(c->raw_query), n, v;
    while (sg_query_next(&rest, &n, &v)) {
        const char *name = decode(c, n, err);
        if (!name || !decode(c, v, err))
            return -1;
        if (is_known(name, known))
            continue;
        struct sg_hint hint = { .word = sg_str_of(name) };
        for (const char *const *k = known; *k; k++)
            sg_hint_try(&hint, *k);
        return sg_fail(err, SG_INVALID, "unknown query parameter %s%s", sg_quote(name).s,
                       sg_hint_text(&hint, "").s);
    }
    return 0;
}

int sg_call_json(struct sg_call *c, const struct sg_jval **ret, struct sg_err *err)
{
    struct sg_str text = c->body.n ? c->body : sg_str_of("{}");
    return sg_json_parse(text, &c->arena, ret, err) < 0 ? sg_wrap(err, "body") : 0;
}

const char *sg_call_domain(struct sg_call *c)
{
    static const char api[] = "api.";
    const char *own = c->server->options.domain, *host = sg_call_header(c, "Host");
    if (!own || !host || strncasecmp(host, api, strlen(api)) != 0)
        return own;
    const char *name = host + strlen(api);
    const size_t n = strcspn(name, ":");
    const bool is_ours = n == strcspn(own, ":") && strncasecmp(name, own, n) == 0;
    return is_ours ? name : own;
}

const char *sg_call_origin(struct sg_call *c)
{
    const char *host = sg_call_header(c, "Host");
    const char *text =
        host ? sg_arena_printf(&c->arena, "%s://%s", c->conn->sock.session ? "https" : "http", host)
             : NULL;
    return text ? text : "";
}

int sg_call_charge(struct sg_call *c, struct sg_org *org, struct sg_err *err)
{
    if (sg_server_charge(c->conn, org, err) == 0)
        return 0;
    sg_exchange_of(c)->closes = true;
    return -1;
}

/* The bytes are ours, whoever sees them as constant: the arena's, or the exchange's buffer. */
void sg_call_wipe(struct sg_call *c, struct sg_str part)
{
    explicit_bzero((void *)(uintptr_t)part.p, part.n);
    explicit_bzero((void *)(uintptr_t)c->body.p, c->body.n);
}

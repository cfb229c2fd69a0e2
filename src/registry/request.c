/* SPDX-License-Identifier: Apache-2.0 */
/* What comes in from the command line program, and the two small texts of registries that are no
 * documents of images: challenges and tokens. */
#include <string.h>

#include "base/auto.h"
#include "base/jsonr.h"
#include "registry/registry.h"
#include "base/banned.h"

/* ---- the request ---- */

static int read_have(const struct sg_jval *list, struct sg_arena *a,
                     struct sg_registry_request *ret, struct sg_err *err)
{
    const size_t n = list ? list->list.n : 0;
    ret->have = sg_arena_alloc(a, (n + 1) * sizeof *ret->have);
    if (!ret->have || n > SG_REGISTRY_HAVE_MAX)
        return sg_fail(err, SG_EXHAUSTED, "too many blobs");
    for (const struct sg_jval *v = list ? list->list.first : NULL; v; v = v->next) {
        if (v->kind != SG_J_STRING || !sg_oci_is_hex(v->s))
            return sg_fail(err, SG_INVALID, "'have' has digests");
        memcpy(ret->have[ret->have_count++].s, v->s.p, SG_OCI_HEX + 1);
    }
    return 0;
}

static int read_blobs(const struct sg_jval *list, struct sg_arena *a,
                      struct sg_registry_request *ret, struct sg_err *err)
{
    const size_t n = list ? list->list.n : 0;
    ret->blobs = sg_arena_alloc(a, (n + 1) * sizeof *ret->blobs);
    if (!ret->blobs || n > SG_REGISTRY_BLOBS_MAX)
        return sg_fail(err, SG_EXHAUSTED, "too many blobs");
    for (const struct sg_jval *v = list ? list->list.first : NULL; v; v = v->next) {
        struct {
            const char *hex;
            uint64_t size, fd;
        } row = { 0 };
        const struct sg_jfield fields[] = {
            { "hex", SG_JT_STRING, offsetof(__typeof__(row), hex), 0, 0, true },
            { "size", SG_JT_U64, offsetof(__typeof__(row), size), 0, INT64_MAX, true },
            { "fd", SG_JT_U64, offsetof(__typeof__(row), fd), 3, 4096, true },
        };
        if (sg_json_read(v, fields, SG_COUNT(fields), &row, err) < 0)
            return -1;
        if (!sg_oci_is_hex(sg_str_of(row.hex)))
            return sg_fail(err, SG_INVALID, "'hex' is a digest");
        struct sg_registry_blob *b = &ret->blobs[ret->blob_count++];
        *b = (struct sg_registry_blob) { .size = row.size, .fd = (int)row.fd };
        memcpy(b->hex.s, row.hex, sizeof b->hex.s);
    }
    return 0;
}

int sg_registry_request_parse(struct sg_str text, struct sg_arena *a,
                              struct sg_registry_request *ret, struct sg_err *err)
{
#define TEXT(key, field, is_required)                                                              \
    {                                                                                              \
        key, SG_JT_STRING, offsetof(struct row, r.field), 0, 0, is_required                        \
    }
    struct row {
        struct sg_registry_request r;
        const struct sg_jval *have, *blobs;
    } row = { .r = { .tag = "",
                     .platform = "",
                     .hex = "",
                     .user = "",
                     .password = "",
                     .ca = "",
                     .dir = "",
                     .media_type = "" } };
    const struct sg_jfield fields[] = {
        TEXT("action", action, true),
        TEXT("host", host, true),
        TEXT("repository", repository, true),
        TEXT("tag", tag, false),
        TEXT("hex", hex, false),
        TEXT("platform", platform, false),
        TEXT("user", user, false),
        TEXT("password", password, false),
        TEXT("ca", ca, false),
        TEXT("dir", dir, false),
        TEXT("mediaType", media_type, false),
        { "plain", SG_JT_BOOL, offsetof(struct row, r.is_plain), 0, 0, false },
        { "have", SG_JT_ARRAY, offsetof(struct row, have), 0, 0, false },
        { "blobs", SG_JT_ARRAY, offsetof(struct row, blobs), 0, 0, false },
    };
#undef TEXT
    const struct sg_jval *v;
    if (sg_json_parse(text, a, &v, err) < 0 ||
        sg_json_read(v, fields, SG_COUNT(fields), &row, err) < 0 ||
        read_have(row.have, a, &row.r, err) < 0 || read_blobs(row.blobs, a, &row.r, err) < 0)
        return -1;
    *ret = row.r;
    return 0;
}

/* ---- challenges (RFC 9110 11.6.1) ---- */

/* The next `name="value"` or `name=value`; false at the end, or where it is neither. */
static bool next_parameter(const char **at, struct sg_str *name, char *value, size_t cap)
{
    const char *p = *at + strspn(*at, " \t,");
    const size_t n = strcspn(p, "= \t,\"");
    if (!n || p[n] != '=')
        return false;
    *name = (struct sg_str) { p, n };
    p += n + 1;
    const bool is_quoted = *p == '"';
    p += is_quoted;
    size_t used = 0;
    for (; *p && (is_quoted ? *p != '"' : !strchr(" \t,", *p)); p++) {
        if (is_quoted && *p == '\\' && p[1])
            p++;
        if (used + 1 >= cap || (unsigned char)*p < 0x20)
            return false;
        value[used++] = *p;
    }
    if (is_quoted && *p++ != '"')
        return false;
    value[used] = '\0';
    *at = p;
    return true;
}

int sg_challenge_parse(const char *text, struct sg_challenge *ret, struct sg_err *err)
{
    struct sg_challenge c = { 0 };
    const char *at = text + strspn(text, " \t");
    const size_t n = strcspn(at, " \t");
    c.is_bearer = n == 6 && strncasecmp(at, "bearer", 6) == 0;
    if (!c.is_bearer && !(n == 5 && strncasecmp(at, "basic", 5) == 0))
        return sg_fail(err, SG_UNSUPPORTED, "the registry asks for %s, and not for Bearer or Basic",
                       sg_quote(text).s);
    at += n;
    struct sg_str name;
    char value[1024];
    while (next_parameter(&at, &name, value, sizeof value)) {
        const struct {
            const char *name;
            char *to;
            size_t cap;
        } rows[] = { { "realm", c.realm, sizeof c.realm },
                     { "service", c.service, sizeof c.service },
                     { "scope", c.scope, sizeof c.scope } };
        for (size_t i = 0; i < SG_COUNT(rows); i++)
            if (sg_str_is(name, rows[i].name) && strlen(value) < rows[i].cap)
                memcpy(rows[i].to, value, strlen(value) + 1);
    }
    if (c.is_bearer && !c.realm[0])
        return sg_fail(err, SG_INVALID, "the registry does not say where tokens are");
    *ret = c;
    return 0;
}

char *sg_token_parse(struct sg_str text, struct sg_err *err)
{
    static const char *const names[] = { "token", "access_token" };
    const struct sg_jval *v;
    sg_auto_arena a;
    sg_arena_init(&a, 4 << 20);
    if (sg_json_parse(text, &a, &v, err) < 0)
        return NULL;
    for (size_t i = 0; i < SG_COUNT(names); i++) {
        const struct sg_jval *m = sg_json_get(v, names[i]);
        bool is_plain = m && m->kind == SG_J_STRING && m->s.n > 0;
        for (size_t k = 0; is_plain && k < m->s.n; k++)
            is_plain = m->s.p[k] > ' ' && m->s.p[k] < 127;
        if (is_plain)
            return sg_printf("%.*s", (int)m->s.n, m->s.p);
    }
    (void)sg_fail(err, SG_INVALID, "the answer has no token");
    return NULL;
}

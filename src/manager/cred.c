/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/cred.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/jsonr.h"
#include "manager/life.h"
#include "manager/net.h"
#include "manager/secret.h"
#include "net/binding.h"

#include "base/banned.h"

static const char mark[] = "${e2b.secrets.", identity[] = "${e2b.identity.";

/* ---- life ---- */

void sg_creds_done(struct sg_cred_set *c)
{
    for (size_t i = 0; i < c->use_n; i++)
        free(c->uses[i].env);
    for (size_t i = 0; i < c->field_n; i++) {
        free(c->fields[i].host);
        free(c->fields[i].name);
        free(c->fields[i].value);
    }
    free(c->uses);
    free(c->fields);
    *c = (struct sg_cred_set) { 0 };
}

static void *grown(void *v, size_t n, size_t size)
{
    void *more = reallocarray(v, n + 1, size);
    if (!more)
        abort(); /* as sg_alloc() */
    return more;
}

/* One that is there already gets the name of a variable, if it has none. */
static void add_use(struct sg_cred_set *c, const char *secret, const char *env)
{
    for (size_t i = 0; i < c->use_n; i++)
        if (strcmp(c->uses[i].secret, secret) == 0 && (!env || !c->uses[i].env)) {
            if (env)
                c->uses[i].env = sg_strdup(env);
            return;
        }
    c->uses = grown(c->uses, c->use_n, sizeof *c->uses);
    struct sg_cred_use *u = &c->uses[c->use_n++];
    *u = (struct sg_cred_use) { .env = env ? sg_strdup(env) : NULL };
    (void)snprintf(u->secret, sizeof u->secret, "%s", secret);
}

static void add_field(struct sg_cred_set *c, const char *host, const char *name, const char *value)
{
    c->fields = grown(c->fields, c->field_n, sizeof *c->fields);
    c->fields[c->field_n++] =
        (struct sg_cred_field) { sg_strdup(host), sg_strdup(name), sg_strdup(value) };
}

void sg_creds_copy(struct sg_cred_set *to, const struct sg_cred_set *from)
{
    for (size_t i = 0; i < from->use_n; i++)
        add_use(to, from->uses[i].secret, from->uses[i].env);
    for (size_t i = 0; i < from->field_n; i++)
        add_field(to, from->fields[i].host, from->fields[i].name, from->fields[i].value);
}

/* ---- rules ---- */

static char *env_of(const char *secret)
{
    char *name = sg_printf("%s%s", isdigit((unsigned char)secret[0]) ? "_" : "", secret);
    for (char *p = name; *p; p++)
        *p = isalnum((unsigned char)*p) ? (char)toupper((unsigned char)*p) : '_';
    return name;
}

static int check_env(const char *env, struct sg_err *err)
{
    static const char some[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    const size_t n = strlen(env);
    if (!n || n > 128 || strspn(env, some) != n || isdigit((unsigned char)env[0]))
        return sg_fail(err, SG_INVALID, "%s is no name for a variable", sg_quote(env).s);
    return 0;
}

static int read_use(struct sg_manager *m, const struct sg_who *who,
                    const struct sg_cred_use_spec *spec, struct sg_cred_set *c, struct sg_err *err)
{
    const struct sg_secret *s = sg_secret_find(m, who, spec->secret, err);
    if (!s)
        return -1;
    if (!s->hosts.n)
        return sg_fail(err, SG_INVALID,
                       "secret %s is bound to no host; set it again with the hosts it may go to",
                       sg_quote(s->name).s);
    sg_auto_free char *env = spec->env && *spec->env ? sg_strdup(spec->env) : env_of(s->name);
    if (check_env(env, err) < 0)
        return -1;
    for (size_t i = 0; i < c->use_n; i++)
        if (c->uses[i].env && strcmp(c->uses[i].env, env) == 0)
            return sg_fail(err, SG_INVALID, "two secrets in the variable %s", sg_quote(env).s);
    add_use(c, s->id.s, env);
    return 0;
}

/* What is ours to write, and what another connection would be asked for by. */
static int check_field_name(const char *name, struct sg_err *err)
{
    static const char *const ours[] = { "host",       "content-length",  "transfer-encoding",
                                        "connection", "upgrade",         "te",
                                        "trailer",    "accept-encoding", "expect",
                                        "keep-alive", "proxy-connection" };
    static const char some[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                               "!#$%&'*+-.^_`|~";
    const size_t n = strlen(name);
    if (!n || n > SG_CRED_FIELD_NAME || strspn(name, some) != n)
        return sg_fail(err, SG_INVALID, "%s is no name of a header (1 to %d bytes)",
                       sg_quote(name).s, SG_CRED_FIELD_NAME);
    for (size_t i = 0; i < SG_COUNT(ours); i++)
        if (strcasecmp(name, ours[i]) == 0)
            return sg_fail(err, SG_INVALID, "header %s cannot be set by a rule", sg_quote(name).s);
    return 0;
}

static int check_field_value(const char *value, struct sg_err *err)
{
    if (strlen(value) > SG_CRED_FIELD_VALUE)
        return sg_fail(err, SG_INVALID, "the value of a header has at most %d bytes",
                       SG_CRED_FIELD_VALUE);
    for (const char *p = value; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return sg_fail(err, SG_INVALID, "the value of a header has no control characters");
    if (strstr(value, identity))
        return sg_fail(err, SG_UNSUPPORTED,
                       "${e2b.identity...} is not available on this server; use a secret");
    return 0;
}

/* "${e2b.secrets.NAME}" becomes the placeholder; the secret is one that is used. */
static int put_value(struct sg_manager *m, const struct sg_who *who, const char *value,
                     struct sg_cred_set *c, struct sg_buf *out, struct sg_err *err)
{
    for (const char *at; (at = strstr(value, mark)); value = at) {
        sg_buf_add(out, value, (size_t)(at - value));
        at += sizeof mark - 1;
        const char *end = strchr(at, '}');
        if (!end)
            return sg_fail(err, SG_INVALID, "%s has no end", sg_quote(value).s);
        sg_auto_free char *name = sg_printf("%.*s", (int)(end - at), at);
        const struct sg_secret *s = sg_secret_find(m, who, name, err);
        if (!s)
            return -1;
        sg_buf_addf(out, SG_PLACEHOLDER "%s", s->id.s);
        add_use(c, s->id.s, NULL);
        at = end + 1;
    }
    sg_buf_add_str(out, value);
    return 0;
}

static int check_host(const char *host, struct sg_err *err)
{
    struct sg_binding b = { 0 };
    const int got = sg_binding_add(&b, sg_str_of(host), err);
    sg_binding_done(&b);
    return got;
}

static int check_counts(const struct sg_cred_set *c, const char *host, struct sg_err *err)
{
    size_t fields = 0, hosts = 0;
    for (size_t i = 0; i < c->field_n; i++) {
        bool is_first = true;
        for (size_t k = 0; k < i; k++)
            is_first &= strcmp(c->fields[k].host, c->fields[i].host) != 0;
        hosts += is_first;
        fields += strcmp(c->fields[i].host, host) == 0;
    }
    if (hosts > SG_CRED_HOSTS || fields > SG_CRED_FIELDS)
        return sg_fail(err, SG_INVALID, "rules are for at most %d hosts, with %d headers each",
                       SG_CRED_HOSTS, SG_CRED_FIELDS);
    return 0;
}

static int read_field(struct sg_manager *m, const struct sg_who *who,
                      const struct sg_cred_field_spec *f, struct sg_cred_set *c, struct sg_err *err)
{
    sg_auto_buf value;
    sg_buf_init(&value, (size_t)2 * SG_CRED_FIELD_VALUE);
    if (check_host(f->host, err) < 0 || check_field_name(f->name, err) < 0 ||
        check_field_value(f->value, err) < 0 || put_value(m, who, f->value, c, &value, err) < 0)
        return -1;
    add_field(c, f->host, f->name, sg_buf_cstr(&value));
    return check_counts(c, f->host, err);
}

int sg_creds_read(struct sg_manager *m, const struct sg_who *who, const struct sg_cred_spec *spec,
                  struct sg_cred_set *ret, struct sg_err *err)
{
    struct sg_cred_set c = { 0 };
    int got = 0;
    for (size_t i = 0; i < spec->use_n && got == 0; i++)
        got = read_use(m, who, &spec->uses[i], &c, err);
    for (size_t i = 0; i < spec->field_n && got == 0; i++)
        got = read_field(m, who, &spec->fields[i], &c, err);
    if (got == 0 && c.use_n > SG_CRED_SECRETS)
        got = sg_fail(err, SG_INVALID, "a sandbox uses at most %d secrets", SG_CRED_SECRETS);
    if (got == 0 && (c.use_n || c.field_n) && !sg_manager_has_gate(m))
        got = sg_fail(
            err, SG_UNSUPPORTED,
            "there is no gate on this host (see 'sandglass doctor'): secrets cannot be used");
    if (got < 0)
        sg_creds_done(&c);
    else
        *ret = c;
    return got;
}

int sg_creds_set_fields(struct sg_sandbox *s, const struct sg_who *who,
                        const struct sg_cred_field_spec *v, size_t n, struct sg_err *err)
{
    const struct sg_cred_spec spec = { .fields = v, .field_n = n };
    struct sg_cred_set fresh;
    if (sg_creds_read(s->manager, who, &spec, &fresh, err) < 0)
        return -1;
    for (size_t i = 0; i < s->creds.use_n; i++)
        if (s->creds.uses[i].env)
            add_use(&fresh, s->creds.uses[i].secret, s->creds.uses[i].env);
    fresh.was_told = s->creds.was_told;
    sg_creds_done(&s->creds);
    s->creds = fresh;
    return 0;
}

/* ---- JSON ---- */

static void put(struct sg_json *j, const char *key, const char *value)
{
    sg_json_key(j, key);
    sg_json_str(j, value);
}

void sg_creds_put(struct sg_json *j, const struct sg_cred_set *c)
{
    sg_json_open(j, '{');
    sg_json_key(j, "secrets");
    sg_json_open(j, '[');
    for (size_t i = 0; i < c->use_n; i++) {
        sg_json_open(j, '{');
        put(j, "id", c->uses[i].secret);
        if (c->uses[i].env)
            put(j, "env", c->uses[i].env);
        sg_json_close(j, '}');
    }
    sg_json_close(j, ']');
    sg_json_key(j, "fields");
    sg_json_open(j, '[');
    for (size_t i = 0; i < c->field_n; i++) {
        sg_json_open(j, '{');
        put(j, "host", c->fields[i].host);
        put(j, "name", c->fields[i].name);
        put(j, "value", c->fields[i].value);
        sg_json_close(j, '}');
    }
    sg_json_close(j, ']');
    sg_json_close(j, '}');
}

struct use_row {
    const char *id, *env;
};
static const struct sg_jfield use_fields[] = {
    { "id", SG_JT_STRING, offsetof(struct use_row, id), 0, 0, true },
    { "env", SG_JT_STRING, offsetof(struct use_row, env), 0, 0, false },
};
struct field_row {
    const char *host, *name, *value;
};
static const struct sg_jfield field_fields[] = {
    { "host", SG_JT_STRING, offsetof(struct field_row, host), 0, 0, true },
    { "name", SG_JT_STRING, offsetof(struct field_row, name), 0, 0, true },
    { "value", SG_JT_STRING, offsetof(struct field_row, value), 0, 0, true },
};
struct doc {
    const struct sg_jval *secrets, *fields;
};
static const struct sg_jfield doc_fields[] = {
    { "secrets", SG_JT_ARRAY, offsetof(struct doc, secrets), 0, 0, true },
    { "fields", SG_JT_ARRAY, offsetof(struct doc, fields), 0, 0, true },
};

int sg_creds_load(const struct sg_jval *v, struct sg_cred_set *ret, struct sg_err *err)
{
    struct doc d = { 0 };
    if (sg_json_read(v, doc_fields, SG_COUNT(doc_fields), &d, err) < 0)
        return -1;
    for (const struct sg_jval *one = d.secrets->list.first; one; one = one->next) {
        struct use_row r = { 0 };
        if (sg_json_read(one, use_fields, SG_COUNT(use_fields), &r, err) < 0)
            return -1;
        add_use(ret, r.id, r.env);
    }
    for (const struct sg_jval *one = d.fields->list.first; one; one = one->next) {
        struct field_row r = { 0 };
        if (sg_json_read(one, field_fields, SG_COUNT(field_fields), &r, err) < 0)
            return -1;
        add_field(ret, r.host, r.name, r.value);
    }
    return 0;
}

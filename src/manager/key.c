/* SPDX-License-Identifier: Apache-2.0 */
/* Keys: made once, shown once, kept as a hash.
 *
 * K1. A key is known to the daemon only after its row is on the disk, and shown only then; taking
 *     one back works at once and is answered when that is on the disk.
 * K2. Nobody hands out more than they have: neither scopes nor templates. */
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/jsonr.h"
#include "base/str.h"
#include "manager/life.h"

#include "base/banned.h"

enum { SECRET_BYTES = 20, TEMPLATES_MAX = 64 };

static void hex(const unsigned char *p, size_t n, char *ret)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        ret[2 * i] = digits[p[i] >> 4];
        ret[2 * i + 1] = digits[p[i] & 15];
    }
    ret[2 * n] = '\0';
}

int sg_key_hash(const char *key, size_t n, char ret[65], struct sg_err *err)
{
    unsigned char digest[32];
    unsigned size = 0;

    if (EVP_Digest(key, n, digest, &size, EVP_sha256(), NULL) != 1 || size != sizeof digest)
        return sg_fail(err, SG_INTERNAL, "SHA-256 does not work");
    hex(digest, sizeof digest, ret);
    return 0;
}

static char **copy_texts(const char *const *v)
{
    size_t n = 0;

    if (!v || !v[0])
        return NULL;
    while (v[n])
        n++;
    char **copy = sg_alloc((n + 1) * sizeof *copy);
    for (size_t i = 0; i < n; i++)
        copy[i] = sg_strdup(v[i]);
    return copy;
}

void sg_key_free(struct sg_key *k)
{
    if (!k)
        return;
    for (size_t i = 0; k->templates && k->templates[i]; i++)
        free(k->templates[i]);
    free(k->templates);
    free(k->name);
    free(k);
}

/* ---- rows ---- */

static void put_row(struct sg_manager *m, const struct sg_key *k, sg_store_done *done, void *arg)
{
    sg_auto_buf templates;
    struct sg_json j;
    char scopes[24];

    sg_buf_init(&templates, 64 << 10);
    sg_json_init(&j, &templates);
    sg_json_open(&j, '[');
    for (size_t i = 0; k->templates && k->templates[i]; i++)
        sg_json_str(&j, k->templates[i]);
    sg_json_close(&j, ']');
    (void)snprintf(scopes, sizeof scopes, "%s%s%s", k->scopes & SG_SCOPE_READ ? "read " : "",
                   k->scopes & SG_SCOPE_EXEC ? "exec " : "",
                   k->scopes & SG_SCOPE_ADMIN ? "admin" : "");
    struct sg_key_row row = {
        .id = k->id.s,
        .org = k->org->id.s,
        .name = k->name,
        .hash = k->hash,
        .shown = k->shown,
        .scopes = scopes,
        .templates = sg_buf_cstr(&templates),
        .created_ms = k->created_ms,
        .expires_ms = k->expires_ms,
        .revoked_ms = k->revoked_ms,
        .rate_per_s = (int64_t)k->rate_per_s,
    };
    sg_store_put_key(m->store, &row, SG_STORE_FULL, done, arg);
}

static char **read_templates(const char *json)
{
    sg_auto_arena a;
    const struct sg_jval *v;
    struct sg_err err;
    const char *names[TEMPLATES_MAX + 1] = { 0 };
    size_t n = 0;

    sg_arena_init(&a, 256 << 10);
    if (!json || sg_json_parse(sg_str_of(json), &a, &v, &err) < 0 || v->kind != SG_J_ARRAY)
        return NULL;
    for (const struct sg_jval *one = v->list.first; one && n < TEMPLATES_MAX; one = one->next) {
        if (one->kind == SG_J_STRING)
            names[n++] = one->s.p;
    }
    return copy_texts(names);
}

static void know(struct sg_manager *m, struct sg_key *k)
{
    sg_map_put(&m->keys, k->id.s, k);
    sg_map_put(&m->keys_by_hash, k->hash, k);
}

static bool load_one(void *arg, const struct sg_key_row *r)
{
    struct sg_manager *m = arg;
    struct sg_org *org = sg_map_find(&m->orgs, r->org);

    if (!org || !sg_id_is_valid(r->id, 'k') || !r->hash || strlen(r->hash) != 64)
        return true;
    struct sg_key *k = sg_new(struct sg_key);
    memcpy(k->id.s, r->id, sizeof k->id.s);
    memcpy(k->hash, r->hash, sizeof k->hash);
    (void)snprintf(k->shown, sizeof k->shown, "%s", r->shown ? r->shown : "");
    k->org = org;
    k->name = sg_strdup(r->name ? r->name : "");
    k->scopes = (strstr(r->scopes, "read") ? SG_SCOPE_READ : 0u) |
                (strstr(r->scopes, "exec") ? SG_SCOPE_EXEC : 0u) |
                (strstr(r->scopes, "admin") ? SG_SCOPE_ADMIN : 0u);
    k->templates = read_templates(r->templates);
    k->created_ms = r->created_ms;
    k->expires_ms = r->expires_ms;
    k->revoked_ms = r->revoked_ms;
    k->rate_per_s = (uint64_t)r->rate_per_s;
    know(m, k);
    return true;
}

int sg_key_load(struct sg_manager *m, struct sg_err *err)
{
    if (sg_store_each_key(m->store, load_one, m, err) < 0)
        return sg_wrap(err, "load the keys");
    return 0;
}

/* ---- making ---- */

struct birth {
    struct sg_manager *m;
    struct sg_key *key;
    char secret[SG_KEY_LEN + 1];
    sg_key_cb *cb;
    void *arg;
};

static void stored(void *arg, const struct sg_err *err)
{
    struct birth *b = arg;
    struct sg_err gone = { 0 };

    if (!err && sg_map_find(&b->m->orgs, b->key->org->id.s) != b->key->org) {
        (void)sg_fail(&gone, SG_NOT_FOUND, "the organisation was removed meanwhile");
        err = &gone;
    }
    if (!err)
        know(b->m, b->key);
    if (b->cb)
        b->cb(b->arg, err ? NULL : b->key, err ? NULL : b->secret, err);
    if (err)
        sg_key_free(b->key);
    explicit_bzero(b->secret, sizeof b->secret);
    free(b);
}

static bool has_template(char *const *v, const char *name)
{
    for (size_t i = 0; v[i]; i++) {
        if (strcmp(v[i], name) == 0)
            return true;
    }
    return false;
}

static int check_templates(const struct sg_who *who, const char *const *v, struct sg_err *err)
{
    char *const *own = who->key ? who->key->templates : NULL;

    if (own && (!v || !v[0]))
        return sg_fail(err, SG_DENIED, "this key may not make one for every template");
    for (size_t i = 0; v && v[i]; i++) {
        if (i == TEMPLATES_MAX)
            return sg_fail(err, SG_INVALID, "a key names at most %d templates", TEMPLATES_MAX);
        if (sg_template_name_check(v[i], err) < 0)
            return -1;
        if (own && !has_template(own, v[i]))
            return sg_fail(err, SG_DENIED, "this key may not use template %s itself",
                           sg_quote(v[i]).s);
    }
    return 0;
}

static int check(const struct sg_who *who, const struct sg_key_spec *spec, struct sg_err *err)
{
    if (sg_tenant_demand(who, SG_SCOPE_ADMIN, err) < 0)
        return -1;
    if (spec->scopes == 0 || spec->scopes & ~(unsigned)SG_SCOPE_ALL)
        return sg_fail(err, SG_INVALID, "a key has some of the scopes read, exec, admin");
    if (spec->scopes & ~who->scopes)
        return sg_fail(err, SG_DENIED, "nobody may give scopes that they do not have");
    if (!spec->name || !sg_tenant_name_is_fine(spec->name))
        return sg_fail(err, SG_INVALID, "a key needs a name of up to 128 bytes");
    if (spec->expires_ms && spec->expires_ms <= sg_manager_unix_ms())
        return sg_fail(err, SG_INVALID, "expiresAt is not in the future");
    if (spec->rate_per_s > SG_RATE_MAX)
        return sg_fail(err, SG_INVALID, "ratePerSecond must be at most %d", SG_RATE_MAX);
    return check_templates(who, spec->templates, err);
}

static int make_secret(struct birth *b, struct sg_err *err)
{
    unsigned char random[SECRET_BYTES];

    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return sg_fail_sys(err, "random bytes for a key");
    memcpy(b->secret, "e2b_", 4);
    hex(random, sizeof random, b->secret + 4);
    explicit_bzero(random, sizeof random);
    memcpy(b->key->shown, b->secret, sizeof b->key->shown - 1);
    return sg_key_hash(b->secret, SG_KEY_LEN, b->key->hash, err);
}

int sg_key_create(struct sg_manager *m, const struct sg_who *who, const struct sg_key_spec *spec,
                  sg_key_cb *cb, void *arg, struct sg_err *err)
{
    const struct sg_org *org = spec->org ? sg_org_find(m, who, spec->org, err) : who->org;

    if (!org)
        return -1;
    if (check(who, spec, err) < 0)
        return sg_manager_denied(m, who, "key.create", NULL, err);
    struct birth *b = sg_new(struct birth);
    struct sg_key *k = sg_new(struct sg_key);
    *b = (struct birth) { .m = m, .key = k, .cb = cb, .arg = arg };
    k->id = sg_id_new('k');
    k->org = sg_map_find(&m->orgs, org->id.s);
    k->name = sg_strdup(spec->name);
    k->scopes = spec->scopes;
    k->templates = copy_texts(spec->templates);
    k->created_ms = sg_manager_unix_ms();
    k->expires_ms = spec->expires_ms;
    k->rate_per_s = spec->rate_per_s;
    if (!k->org || make_secret(b, err) < 0) {
        sg_key_free(k);
        free(b);
        return -1;
    }
    sg_manager_audit_value(m, who, "key.create", NULL, "key", k->id.s);
    put_row(m, k, sg_note_done, sg_note_new(m, stored, b));
    return 0;
}

/* ---- its end ---- */

int64_t sg_key_left_ms(const struct sg_key *k)
{
    if (k->revoked_ms)
        return 0;
    if (!k->expires_ms)
        return INT64_MAX;
    const int64_t left = k->expires_ms - sg_manager_unix_ms();
    return left > 0 ? left : 0;
}

void sg_key_when_revoked(struct sg_manager *m, void (*revoked)(void *arg), void *arg)
{
    m->revoked = revoked;
    m->revoked_arg = arg;
}

static void tell_revoked(struct sg_manager *m)
{
    if (m->revoked)
        m->revoked(m->revoked_arg);
}

struct end {
    sg_tenant_cb *cb;
    void *arg;
};

static void revoked(void *arg, const struct sg_err *err)
{
    struct end *e = arg;

    if (e->cb)
        e->cb(e->arg, err);
    free(e);
}

int sg_key_revoke(struct sg_manager *m, const struct sg_who *who, const char *id, sg_tenant_cb *cb,
                  void *arg, struct sg_err *err)
{
    struct sg_key *k = sg_map_find(&m->keys, id);

    if (!k || (!who->is_operator && k->org != who->org))
        return sg_fail(err, SG_NOT_FOUND, "no key %s", sg_quote(id).s);
    if (sg_tenant_demand(who, SG_SCOPE_ADMIN, err) < 0)
        return sg_manager_denied(m, who, "key.revoke", NULL, err);
    if (k->revoked_ms == 0)
        k->revoked_ms = sg_manager_unix_ms();
    tell_revoked(m);
    sg_manager_audit_value(m, who, "key.revoke", NULL, "key", k->id.s);
    struct end *e = sg_new(struct end);
    *e = (struct end) { cb, arg };
    put_row(m, k, sg_note_done, sg_note_new(m, revoked, e));
    return 0;
}

const struct sg_key *sg_key_next(struct sg_manager *m, const struct sg_who *who, size_t *cursor)
{
    const struct sg_key *k;

    while ((k = sg_map_next(&m->keys, cursor))) {
        if (who->is_operator || k->org == who->org)
            return k;
    }
    return NULL;
}

void sg_key_forget_all(struct sg_manager *m, const struct sg_org *o)
{
    size_t cursor = 0;

    for (struct sg_key *k; (k = sg_map_next(&m->keys, &cursor));) {
        if (k->org != o)
            continue;
        (void)sg_map_remove(&m->keys, k->id.s);
        (void)sg_map_remove(&m->keys_by_hash, k->hash);
        k->revoked_ms = k->revoked_ms ? k->revoked_ms : sg_manager_unix_ms();
        k->next_dead = m->dead_keys;
        m->dead_keys = k;
        cursor = 0; /* the map has changed */
    }
    tell_revoked(m);
}

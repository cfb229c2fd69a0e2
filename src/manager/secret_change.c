/* SPDX-License-Identifier: Apache-2.0 */
/* Making, changing and removing secrets. Several versions of one may be under way: the store has
 * them in the order in which they were asked for, and the memory takes each as it is told, never
 * an older one. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "manager/cred.h"
#include "manager/life.h"
#include "manager/secret.h"
#include "seal/seal.h"

#include "base/banned.h"

enum { ROW_MAX = 64 << 10, BOUND_MIN = 8, BOUND_MAX = 8 << 10 };

/* ---- rules ---- */

/* Clients put names into placeholders "${e2b.secrets.NAME}". */
static int check_name(const char *name, struct sg_err *err)
{
    if (!sg_tenant_name_is_fine(name) || strpbrk(name, "{}") || sg_starts_with(name, "sec_") ||
        sg_id_is_valid(name, 'c'))
        return sg_fail(err, SG_INVALID,
                       "%s is no name for a secret: up to 128 bytes without braces and control "
                       "characters, not like an id",
                       sg_quote(name).s);
    return 0;
}

static int check_metadata(const struct sg_secret_spec *spec, struct sg_err *err)
{
    size_t all = 0;
    if (spec->metadata_n > SG_SECRET_METADATA_MAX)
        return sg_fail(err, SG_INVALID, "metadata has more than %d members",
                       SG_SECRET_METADATA_MAX);
    for (size_t i = 0; i < spec->metadata_n; i++) {
        const size_t name = strlen(spec->metadata[i].name), value = strlen(spec->metadata[i].value);
        if (!name || name > SG_SECRET_METADATA_NAME || value > SG_SECRET_METADATA_VALUE)
            return sg_fail(err, SG_INVALID, "metadata: a name has 1 to %d bytes, a value up to %d",
                           SG_SECRET_METADATA_NAME, SG_SECRET_METADATA_VALUE);
        all += name + value;
    }
    if (all > SG_SECRET_METADATA_BYTES)
        return sg_fail(err, SG_INVALID, "metadata is over %d bytes", SG_SECRET_METADATA_BYTES);
    return 0;
}

static int check(struct sg_manager *m, const struct sg_who *who, const struct sg_secret_spec *spec,
                 const char *action, struct sg_err *err)
{
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(m, who, action, NULL, err);
    if (!m->o.seal_to)
        return sg_fail(err, SG_UNSUPPORTED, "this server has no key to seal secrets with");
    if (spec->value.n == 0)
        return sg_fail(err, SG_INVALID, "a secret needs a value");
    if (spec->value.n > SG_SEAL_MAX)
        return sg_fail(err, SG_INVALID, "the value of a secret has at most %d bytes", SG_SEAL_MAX);
    return check_metadata(spec, err);
}

static int check_count(struct sg_manager *m, const struct sg_org *org, struct sg_err *err)
{
    unsigned n = 0;
    for (const struct sg_secret *s = m->secrets; s; s = s->next)
        n += s->org == org;
    if (n >= SG_SECRETS_MAX)
        return sg_fail(err, SG_EXHAUSTED, "an organisation has at most %d secrets", SG_SECRETS_MAX);
    return 0;
}

/* ---- writing ---- */

struct change {
    struct sg_manager *m;
    struct sg_secret *secret; /* one reference */
    uint64_t version;
    char *sealed; /* owned, until it is the secret's */
    struct sg_pairs metadata;
    struct sg_binding hosts;
    int64_t at_ms;
    sg_secret_cb *cb;
    void *arg;
};

static void take_over(struct change *c)
{
    struct sg_secret *s = c->secret;
    if (c->version <= s->version)
        return;
    free(s->sealed);
    s->sealed = sg_take_ptr(&c->sealed);
    sg_pairs_done(&s->metadata);
    s->metadata = c->metadata;
    c->metadata = (struct sg_pairs) { 0 };
    sg_binding_done(&s->hosts);
    s->hosts = c->hosts;
    c->hosts = (struct sg_binding) { 0 };
    s->version = c->version;
    s->updated_ms = c->at_ms;
}

static void tell(struct sg_manager *m, const struct sg_secret *s, const char *type)
{
    sg_auto_buf data;
    struct sg_json j;
    sg_buf_init(&data, 1024);
    sg_json_init(&j, &data);
    sg_json_open(&j, '{');
    sg_json_key(&j, "secret");
    sg_json_str(&j, s->name);
    sg_json_key(&j, "version");
    sg_json_u64(&j, s->version);
    sg_json_close(&j, '}');
    sg_events_add(m, s->org, NULL, type, sg_buf_cstr(&data));
}

static void stored(void *arg, const struct sg_err *err)
{
    struct change *c = arg;
    struct sg_secret *s = c->secret;
    struct sg_err gone = { 0 };
    const bool was_new = s->is_new;

    if (!err && s->is_gone) {
        (void)sg_fail(&gone, SG_NOT_FOUND, "the secret was removed meanwhile");
        err = &gone;
    }
    if (!err) {
        take_over(c);
        s->is_new = false;
        tell(c->m, s, was_new ? "secret.created" : "secret.updated");
        sg_creds_changed(c->m, s->id.s);
    } else if (was_new && !s->is_gone) {
        sg_secret_drop(c->m, s);
    }
    if (c->cb)
        c->cb(c->arg, err ? NULL : s, err);
    sg_secret_unref(s);
    sg_pairs_done(&c->metadata);
    sg_binding_done(&c->hosts);
    free(c->sealed);
    free(c);
}

static void write_hosts(struct sg_json *j, const struct sg_binding *b)
{
    sg_json_open(j, '{');
    sg_json_key(j, "hosts");
    sg_json_open(j, '[');
    for (size_t i = 0; i < b->n; i++)
        sg_json_str(j, b->v[i].text);
    sg_json_close(j, ']');
    sg_json_key(j, "plain");
    sg_json_bool(j, b->allows_plain);
    sg_json_close(j, '}');
}

static void put_row(struct change *c)
{
    const struct sg_secret *s = c->secret;
    sg_auto_buf metadata, binding;
    struct sg_json j;
    sg_buf_init(&binding, ROW_MAX);
    sg_json_init(&j, &binding);
    write_hosts(&j, &c->hosts);
    sg_buf_init(&metadata, ROW_MAX);
    sg_json_init(&j, &metadata);
    sg_pairs_write(&j, &c->metadata);
    const struct sg_secret_row row = {
        .id = s->id.s,
        .org = s->org->id.s,
        .name = s->name,
        .metadata = sg_buf_cstr(&metadata),
        .binding = c->hosts.n ? sg_buf_cstr(&binding) : NULL,
        .sealed = c->sealed,
        .version = (int64_t)c->version,
        .created_ms = s->created_ms,
        .updated_ms = c->at_ms,
    };
    sg_store_put_secret(c->m->store, &row, SG_STORE_FULL, sg_note_done,
                        sg_note_new(c->m, stored, c));
}

/* Those given, or those of before. A value that is too short could not be told from other text in
 * what servers answer. */
static int bind(const struct sg_secret *s, const struct sg_secret_spec *spec,
                struct sg_binding *ret, struct sg_err *err)
{
    struct sg_binding b = { .allows_plain =
                                spec->hosts ? spec->allows_plain : s->hosts.allows_plain };
    const size_t n = spec->hosts ? spec->hosts_n : s->hosts.n;
    int got = 0;
    for (size_t i = 0; i < n && got == 0; i++)
        got = sg_binding_add(&b, sg_str_of(spec->hosts ? spec->hosts[i] : s->hosts.v[i].text), err);
    if (got == 0 && n && spec->value.n < BOUND_MIN)
        got = sg_fail(err, SG_INVALID, "a secret with hosts has at least %d bytes", BOUND_MIN);
    if (got == 0 && n && spec->value.n > BOUND_MAX)
        got = sg_fail(err, SG_INVALID, "a secret with hosts has at most %d bytes", BOUND_MAX);
    if (got < 0)
        sg_binding_done(&b);
    else
        *ret = b;
    return got;
}

/* Seals the value: from here on nobody in this process has it. */
static int write_version(struct sg_manager *m, struct sg_secret *s,
                         const struct sg_secret_spec *spec, sg_secret_cb *cb, void *arg,
                         struct sg_err *err)
{
    const uint64_t version = s->asked + 1;
    struct sg_binding hosts = { 0 };
    if (bind(s, spec, &hosts, err) < 0)
        return -1;
    sg_auto_free char *id = sg_secret_context(s->org, &s->id, version);
    sg_auto_free char *context = sg_binding_context(&hosts, id);
    char *sealed = sg_seal(m->o.seal_to, sg_str_of(context), spec->value, err);
    if (!sealed) {
        sg_binding_done(&hosts);
        return -1;
    }
    struct change *c = sg_new(struct change);
    *c = (struct change) { .m = m,
                           .secret = s,
                           .version = version,
                           .sealed = sealed,
                           .hosts = hosts,
                           .at_ms = s->is_new ? s->created_ms : sg_manager_unix_ms(),
                           .cb = cb,
                           .arg = arg };
    sg_pairs_copy(&c->metadata, spec->has_metadata ? spec->metadata : s->metadata.v,
                  spec->has_metadata ? spec->metadata_n : s->metadata.n);
    s->asked = version;
    s->refs++;
    put_row(c);
    return 0;
}

/* ---- what doors call ---- */

static char *lower(const char *name)
{
    char *copy = sg_strdup(name);
    for (char *p = copy; *p; p++)
        if (*p >= 'A' && *p <= 'Z')
            *p = (char)(*p - 'A' + 'a');
    return copy;
}

int sg_secret_create(struct sg_manager *m, const struct sg_who *who,
                     const struct sg_secret_spec *spec, sg_secret_cb *cb, void *arg,
                     struct sg_err *err)
{
    if (check(m, who, spec, "secret.create", err) < 0 || check_name(spec->name, err) < 0 ||
        check_count(m, who->org, err) < 0)
        return -1;
    if (sg_map_find(&m->orgs, who->org->id.s) != who->org)
        return sg_fail(err, SG_NOT_FOUND, "the organisation was removed");
    if (sg_secret_named(m, who->org, spec->name))
        return sg_fail(err, SG_CONFLICT, "there is a secret %s", sg_quote(spec->name).s);
    struct sg_secret *s = sg_new(struct sg_secret);
    s->id = sg_id_new('c');
    s->org = who->org;
    s->name = lower(spec->name);
    s->created_ms = sg_manager_unix_ms();
    s->is_new = true;
    sg_secret_add(m, s);
    if (write_version(m, s, spec, cb, arg, err) < 0) {
        sg_secret_drop(m, s);
        return -1;
    }
    sg_manager_audit_value(m, who, "secret.create", NULL, "secret", s->name);
    return 0;
}

int sg_secret_update(struct sg_manager *m, const struct sg_who *who, const char *which,
                     const struct sg_secret_spec *spec, sg_secret_cb *cb, void *arg,
                     struct sg_err *err)
{
    if (check(m, who, spec, "secret.update", err) < 0 || !sg_secret_find(m, who, which, err))
        return -1;
    struct sg_secret *s = sg_secret_named(m, who->org, which);
    if (write_version(m, s, spec, cb, arg, err) < 0)
        return -1;
    sg_manager_audit_value(m, who, "secret.update", NULL, "secret", s->name);
    return 0;
}

int sg_secret_set(struct sg_manager *m, const struct sg_who *who, const struct sg_secret_spec *spec,
                  sg_secret_cb *cb, void *arg, struct sg_err *err)
{
    return sg_id_is_valid(spec->name, 'c') || sg_secret_find(m, who, spec->name, NULL)
               ? sg_secret_update(m, who, spec->name, spec, cb, arg, err)
               : sg_secret_create(m, who, spec, cb, arg, err);
}

struct removal {
    sg_tenant_cb *cb;
    void *arg;
};

static void removed(void *arg, const struct sg_err *err)
{
    struct removal *r = arg;
    if (r->cb)
        r->cb(r->arg, err);
    free(r);
}

int sg_secret_remove(struct sg_manager *m, const struct sg_who *who, const char *which,
                     sg_tenant_cb *cb, void *arg, struct sg_err *err)
{
    const struct sg_secret *found = sg_secret_find(m, who, which, err);
    if (!found)
        return -1;
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(m, who, "secret.remove", NULL, err);
    struct sg_secret *s = sg_secret_named(m, who->org, which);
    struct removal *r = sg_new(struct removal);
    *r = (struct removal) { cb, arg };
    sg_manager_audit_value(m, who, "secret.remove", NULL, "secret", s->name);
    tell(m, s, "secret.removed");
    sg_auto_free char *id = sg_strdup(s->id.s);
    sg_store_remove_secret(m->store, s->id.s, sg_note_done, sg_note_new(m, removed, r));
    sg_secret_drop(m, s);
    sg_creds_changed(m, id);
    return 0;
}

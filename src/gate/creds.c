/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/creds.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "gate/term.h"
#include "base/banned.h"

enum { SECRETS_MAX = 64, FIELDS_MAX = 256 };

struct secret {
    char *placeholder;
    struct sg_str value; /* owned */
    struct sg_binding hosts;
};
struct field {
    struct sg_netrule host;
    char *name, *value;
};
struct sg_creds {
    struct secret *secrets; /* owned */
    struct field *fields;
    size_t secret_count, field_count;
};

void sg_creds_free(struct sg_creds *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->secret_count; i++) {
        struct secret *s = &c->secrets[i];
        explicit_bzero((void *)(uintptr_t)s->value.p, s->value.n);
        free((void *)(uintptr_t)s->value.p);
        free(s->placeholder);
        sg_binding_done(&s->hosts);
    }
    for (size_t i = 0; i < c->field_count; i++) {
        sg_netrule_done(&c->fields[i].host);
        free(c->fields[i].name);
        free(c->fields[i].value);
    }
    free(c->secrets);
    free(c->fields);
    free(c);
}

/* ---- a set, part by part ---- */

static int read_hosts(struct sg_binding *b, struct sg_texts list, struct sg_err *err)
{
    for (struct sg_text one; sg_text_next(&list, &one);)
        if (sg_binding_add(b, (struct sg_str) { one.p, one.n }, err) < 0)
            return -1;
    return 0;
}

/* The binding is part of what the box was sealed with: another one does not open it. */
static int open_secret(struct sg_gate_box *b, const struct sg_msg_g_cred *m, struct secret *s,
                       struct sg_err *err)
{
    sg_auto_buf value;
    sg_buf_init(&value, SG_SEAL_MAX);
    s->hosts.allows_plain = (m->flags & SG_G_PLAIN) != 0;
    if (read_hosts(&s->hosts, m->hosts, err) < 0)
        return -1;
    sg_auto_free char *context = sg_binding_context(&s->hosts, m->id.p);
    if (sg_trust_unseal(b->gate->trust, context, m->value.p, &value, err) < 0)
        return sg_wrap(err, "the gate cannot open it");
    char *own = sg_alloc(value.n + 1);
    memcpy(own, value.p, value.n);
    s->value = (struct sg_str) { own, value.n };
    explicit_bzero(value.p, value.n);
    s->placeholder = sg_strdup(m->name.p);
    return 0;
}

static int add_secret(struct sg_gate_box *b, const struct sg_msg_g_cred *m, struct sg_err *err)
{
    struct sg_creds *c = b->coming_creds;
    struct secret s = { 0 };
    if (c->secret_count == SECRETS_MAX || !m->name.n)
        return sg_fail(err, SG_EXHAUSTED, "a sandbox has at most %d secrets", SECRETS_MAX);
    if (open_secret(b, m, &s, err) < 0) {
        sg_binding_done(&s.hosts);
        return -1;
    }
    c->secrets = reallocarray(c->secrets, c->secret_count + 1, sizeof *c->secrets);
    if (!c->secrets)
        abort(); /* as sg_alloc() */
    c->secrets[c->secret_count++] = s;
    return 0;
}

static int add_field(struct sg_gate_box *b, const struct sg_msg_g_cred *m, struct sg_err *err)
{
    struct sg_creds *c = b->coming_creds;
    struct sg_binding host = { 0 };
    if (c->field_count == FIELDS_MAX)
        return sg_fail(err, SG_EXHAUSTED, "a sandbox has at most %d added fields", FIELDS_MAX);
    if (read_hosts(&host, m->hosts, err) < 0 || host.n != 1) {
        sg_binding_done(&host);
        return host.n ? -1 : sg_fail(err, SG_INVALID, "a field is for one host");
    }
    c->fields = reallocarray(c->fields, c->field_count + 1, sizeof *c->fields);
    if (!c->fields)
        abort();
    c->fields[c->field_count++] = (struct field) { .host = host.v[0],
                                                   .name = sg_strdup(m->name.p),
                                                   .value = sg_strdup(m->value.p) };
    free(host.v);
    return 0;
}

int sg_creds_order(struct sg_gate_box *b, const struct sg_msg_g_cred *m, struct sg_err *err)
{
    int got = 0;
    if (m->flags & SG_G_FIRST) {
        sg_creds_free(b->coming_creds);
        b->coming_creds = sg_new(struct sg_creds);
    }
    if (!b->coming_creds)
        return sg_fail(err, SG_CONFLICT, "this is not the beginning of a set");
    if (m->kind == SG_G_CRED_SECRET)
        got = add_secret(b, m, err);
    else if (m->kind == SG_G_CRED_FIELD)
        got = add_field(b, m, err);
    if (m->flags & SG_G_LAST) {
        sg_creds_free(b->creds);
        b->creds = sg_take_ptr(&b->coming_creds);
        b->creds_version++;
    }
    return got;
}

/* ---- questions ---- */

static bool is_bound(const struct secret *s, const char *name, uint16_t port, bool is_tls)
{
    return (is_tls || s->hosts.allows_plain) && sg_binding_has(&s->hosts, name, port);
}

/* The host of the fields that hold there: the one that fits best; NULL: none. */
static const struct sg_netrule *best_host(const struct sg_creds *c, const char *name, uint16_t port)
{
    const struct sg_netrule *best = NULL;
    size_t best_fit = 0;
    for (size_t i = 0; i < c->field_count; i++) {
        const size_t fit = sg_binding_fit(&c->fields[i].host, name, port);
        if (fit > best_fit) {
            best_fit = fit;
            best = &c->fields[i].host;
        }
    }
    return best;
}

bool sg_creds_want(const struct sg_gate_box *b, const char *name, uint16_t port, bool is_tls)
{
    const struct sg_creds *c = b->creds;
    if (!c || !name)
        return false;
    for (size_t i = 0; i < c->secret_count; i++)
        if (is_bound(&c->secrets[i], name, port, is_tls))
            return true;
    return is_tls && best_host(c, name, port);
}

static bool is_in_field(const struct sg_swaps *s, const char *placeholder)
{
    for (size_t i = 0; i < s->field_count; i++)
        if (strstr(s->fields[i].value, placeholder))
            return true;
    return false;
}

struct sg_swaps *sg_creds_swaps(const struct sg_gate_box *b, const char *name, uint16_t port,
                                bool is_tls)
{
    struct sg_swaps *s = sg_swaps_new();
    const struct sg_creds *c = b->creds;
    if (!c)
        return s;
    const struct sg_netrule *host = is_tls ? best_host(c, name, port) : NULL;
    for (size_t i = 0; host && i < c->field_count; i++)
        if (strcmp(c->fields[i].host.text, host->text) == 0)
            sg_swaps_add_field(s, c->fields[i].name, c->fields[i].value);
    for (size_t i = 0; i < c->secret_count; i++) {
        const struct secret *one = &c->secrets[i];
        const bool is_bound_here = is_bound(one, name, port, is_tls);
        if (is_bound_here || (!one->hosts.n && is_in_field(s, one->placeholder)))
            sg_swaps_add(s, one->placeholder, one->value, !is_bound_here);
    }
    return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses a sandbox may reach, as this door says it: everything unless something is denied,
 * and what is allowed beats what is denied. The gate enforces it, and adds headers by rules
 * (rules.c). TLS to a port, and to a proxy on the way, is refused. */
#include "api/e2b/network.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>

#include "base/auto.h"
#include "base/parse.h"
#include "manager/net.h"
#include "base/banned.h"

enum { MAX_RULES = 256, MAX_NAME = 253 };

/* An address, or one with a prefix: "10.0.0.0/8", "::1". */
static bool is_network(const char *text)
{
    uint8_t address[16];
    char copy[INET6_ADDRSTRLEN];
    size_t n = strcspn(text, "/");
    uint64_t bits = 0;
    if (n >= sizeof copy)
        return false;
    memcpy(copy, text, n);
    copy[n] = '\0';
    bool is_v4 = inet_pton(AF_INET, copy, address) == 1;
    if (!is_v4 && inet_pton(AF_INET6, copy, address) != 1)
        return false;
    return !text[n] || sg_parse_u64(sg_str_of(text + n + 1), 0, is_v4 ? 32 : 128, &bits, NULL) == 0;
}

/* "example.com", "*.example.com" */
static bool is_domain(const char *text)
{
    static const char some[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.";
    if (text[0] == '*' && text[1] == '.')
        text += 2;
    size_t n = strlen(text);
    return n > 0 && n <= MAX_NAME && strspn(text, some) == n && text[0] != '.' && text[0] != '-' &&
           strchr(text, '.') && !strstr(text, "..");
}

static int check_list(const struct sg_jval *v, const char *key, bool may_name, bool *ret_names,
                      bool *ret_all, struct sg_err *err)
{
    const struct sg_jval *list = sg_e2b_get(v, key);
    if (!list)
        return 0;
    if (list->kind != SG_J_ARRAY || list->list.n > MAX_RULES)
        return sg_fail(err, SG_INVALID, "%s must be a list of at most %d texts", key, MAX_RULES);
    for (const struct sg_jval *m = list->list.first; m; m = m->next) {
        const char *text = m->kind == SG_J_STRING && !memchr(m->s.p, 0, m->s.n) ? m->s.p : "";
        bool is_name = may_name && !is_network(text) && is_domain(text);
        if (!is_name && !is_network(text))
            return sg_fail(err, SG_INVALID, "%s is no %s in %s", sg_quote(text).s,
                           may_name ? "address, network or domain" : "address or network", key);
        *ret_names |= is_name;
        *ret_all |= strcmp(text, "0.0.0.0/0") == 0;
    }
    return 0;
}

int sg_e2b_network_check(const struct sg_jval *v, struct sg_e2b_record *into, struct sg_err *err)
{
    static const char *const missing[] = { "httpsPorts", "dnsServers" };
    bool has_names = false, ignored = false, denies_all = into->denies_internet;
    if (!v)
        return 0;
    if (v->kind != SG_J_OBJECT)
        return sg_fail(err, SG_INVALID, "network must be an object");
    for (size_t i = 0; i < SG_COUNT(missing); i++) {
        const struct sg_jval *m = sg_e2b_get(v, missing[i]);
        bool is_empty = m && (m->kind == SG_J_OBJECT || m->kind == SG_J_ARRAY) && !m->list.n;
        if (m && !is_empty)
            return sg_fail(err, SG_UNSUPPORTED, "network.%s is not available on this server",
                           missing[i]);
    }
    if (check_list(v, "allowOut", true, &has_names, &ignored, err) < 0 ||
        check_list(v, "denyOut", false, &ignored, &denies_all, err) < 0)
        return -1;
    if (has_names && !denies_all)
        return sg_fail(err, SG_INVALID, "domains in allowOut need \"0.0.0.0/0\" in denyOut");
    const char *mask = sg_e2b_text(v, "maskRequestHost");
    if (mask && (strlen(mask) > MAX_NAME || strpbrk(mask, " \t\r\n/")))
        return sg_fail(err, SG_INVALID, "maskRequestHost is no host");
    if (mask)
        into->mask = mask;
    return 0;
}

/* ---- what it comes to ---- */

static bool is_all(const char *text)
{
    return strcmp(text, "0.0.0.0/0") == 0 || strcmp(text, "::/0") == 0;
}

/* What was checked before is in order here. True: all addresses are among them. */
static bool add_rules(const struct sg_jval *v, const char *key, struct sg_netrules *to)
{
    const struct sg_jval *list = v ? sg_e2b_get(v, key) : NULL;
    bool has_all = false;
    for (const struct sg_jval *m = list ? list->list.first : NULL; m; m = m->next) {
        has_all |= is_all(m->s.p);
        if (!is_all(m->s.p))
            (void)sg_netrules_add(to, m->s, NULL);
    }
    return has_all;
}

struct egress {
    struct sg_egress_spec spec;
    const struct sg_jval *tls;
};
#define AT(f) offsetof(struct egress, f)
static const struct sg_jfield egress_fields[] = {
    { "address", SG_JT_STRING, AT(spec.address), 0, 0, true },
    { "username", SG_JT_STRING, AT(spec.user), 0, 0, false },
    { "password", SG_JT_STRING, AT(spec.password), 0, 0, false },
    { "tls", SG_JT_OBJECT, AT(tls), 0, 0, false },
};
#undef AT

/* Here nothing is passed over: what is not understood may be what keeps the connection private. */
static int read_egress(struct sg_call *c, const struct sg_jval *v, struct sg_egress *ret,
                       struct sg_err *err)
{
    const struct sg_jval *asked = v ? sg_e2b_get(v, "egressProxy") : NULL;
    struct egress e = { 0 };
    if (!asked)
        return 0;
    if (sg_json_read(asked, egress_fields, SG_COUNT(egress_fields), &e, err) < 0)
        return sg_wrap(err, "network.egressProxy");
    if (e.tls && sg_e2b_bool(e.tls, "enabled", true))
        return sg_fail(err, SG_UNSUPPORTED,
                       "network.egressProxy.tls is not available on this server");
    const int got = sg_net_egress(c->manager, &c->who, &e.spec, ret, err);
    if (e.spec.password)
        sg_call_wipe(c, sg_str_of(e.spec.password));
    return got;
}

int sg_e2b_network_policy(struct sg_call *c, const struct sg_jval *v, const struct sg_e2b_record *r,
                          struct sg_policy *ret, struct sg_err *err)
{
    struct sg_policy p = { .mode = SG_MODE_OPEN, .allow_first = true };
    if (read_egress(c, v, &p.egress, err) < 0)
        return -1;
    const bool allows_all = add_rules(v, "allowOut", &p.allow);
    const bool denies_all = add_rules(v, "denyOut", &p.deny) || r->denies_internet;
    if (denies_all && !allows_all)
        p.mode = p.allow.n ? SG_MODE_FILTERED : SG_MODE_NONE;
    if (p.mode == SG_MODE_NONE || !sg_manager_has_gate(c->manager)) {
        sg_policy_done(&p);
        p.mode = SG_MODE_NONE;
    }
    *ret = p;
    return 0;
}

/* ---- PUT: what is not named is cleared ---- */

struct change {
    struct sg_call *call;
    struct sg_policy policy; /* until it is taken */
    struct sg_e2b_rules rules;
};

static void in_force(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct change *w = arg;
    (void)s;
    if (err)
        sg_reply_error(w->call, err);
    else
        sg_reply_empty(w->call, 204);
}

static void kept(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct change *w = arg;
    struct sg_err own;
    if (!err && (sg_creds_set_fields(s, &w->call->who, w->rules.v, w->rules.n, &own) < 0 ||
                 sg_manager_set_network(s, &w->call->who, &w->policy, in_force, w, &own) < 0))
        err = &own;
    sg_policy_done(&w->policy);
    if (err)
        sg_reply_error(w->call, err);
}

int sg_e2b_network(struct sg_call *c, struct sg_err *err)
{
    const struct sg_jval *body;
    struct sg_e2b_record r;
    struct sg_sandbox *s = sg_e2b_sandbox(c, err);
    if (!s || sg_call_json(c, &body, err) < 0)
        return -1;
    if (s->state != SBX_RUNNING)
        return sg_fail(err, SG_CONFLICT, "Sandbox %s is paused", s->id.s);
    if (!sg_e2b_record(s, &c->arena, &r))
        return sg_fail(err, SG_CONFLICT, "connect to sandbox %s first", s->id.s);
    const struct sg_jval *internet = sg_e2b_get(body, "allowInternetAccess");
    r.has_internet_flag = internet && internet->kind == SG_J_BOOL;
    r.denies_internet = r.has_internet_flag && !internet->b;
    if (sg_e2b_network_check(body, &r, err) < 0)
        return -1;
    r.network = body;
    const char *text = sg_e2b_record_text(&c->arena, &r);
    struct change *w = sg_arena_alloc(&c->arena, sizeof *w);
    if (!text || !w)
        return sg_fail(err, SG_INVALID, "the network settings are too large");
    *w = (struct change) { .call = c };
    struct sg_cred_set creds; /* what is wrong with it is told before anything changes */
    if (sg_e2b_rules_read(c, body, &w->rules, err) < 0 ||
        sg_e2b_rules_creds(c, body, &creds, err) < 0)
        return -1;
    sg_creds_done(&creds);
    if (sg_e2b_network_policy(c, body, &r, &w->policy, err) < 0)
        return -1;
    sg_netnames_copy(&w->policy.networks, &s->network.networks); /* not for this door to clear */
    if (sg_manager_set_door(s, &c->who, text, kept, w, err) == 0)
        return 0;
    sg_policy_done(&w->policy);
    return -1;
}

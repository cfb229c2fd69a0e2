/* SPDX-License-Identifier: Apache-2.0 */
/* Who is calling, and what they may.
 *
 * W1. A key is looked up by its SHA-256, under a hash that is seeded anew at every start, and then
 *     compared in constant time: how long a refusal takes says nothing about any key.
 * W2. One text for every refusal: whoever guesses does not learn that a key existed.
 * W3. Organisations and keys that are removed stay in memory until the end, because a call that is
 *     under way points at them. */
#include "manager/tenant.h"

#include <openssl/crypto.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "manager/life.h"
#include "manager/volume.h"

#include "base/banned.h"

static bool is_key_text(const char *key, size_t n)
{
    if (n != SG_KEY_LEN || memcmp(key, "e2b_", 4) != 0)
        return false;
    for (size_t i = 4; i < n; i++) {
        if (!((key[i] >= '0' && key[i] <= '9') || (key[i] >= 'a' && key[i] <= 'f')))
            return false;
    }
    return true;
}

static struct sg_key *find_key(struct sg_manager *m, const char *key, size_t n)
{
    static const struct sg_key nobody = { .hash = "" };
    char hash[65];
    struct sg_err ignored;

    if (!is_key_text(key, n) || sg_key_hash(key, n, hash, &ignored) < 0)
        return NULL;
    struct sg_key *k = sg_map_find(&m->keys_by_hash, hash);
    bool is_same = CRYPTO_memcmp(k ? k->hash : nobody.hash, hash, 64) == 0;
    return k && is_same && sg_key_left_ms(k) > 0 ? k : NULL;
}

int sg_tenant_authenticate(struct sg_manager *m, const char *key, size_t n, struct sg_who *ret,
                           struct sg_err *err)
{
    struct sg_key *k = find_key(m, key, n);

    if (!k)
        return sg_fail(err, SG_DENIED, "the key is not valid");
    if (k->rate_per_s &&
        !sg_quota_take(&k->tokens_milli, &k->tokens_at_ns, k->rate_per_s, sg_loop_now(m->loop))) {
        m->metrics.hits[SG_HIT_KEY_RATE]++;
        return sg_fail(err, SG_EXHAUSTED, "this key may ask %llu times a second",
                       (unsigned long long)k->rate_per_s);
    }
    *ret = (struct sg_who) { .org = k->org, .key = k, .scopes = k->scopes };
    return 0;
}

void sg_tenant_local(struct sg_manager *m, struct sg_who *ret)
{
    *ret = (struct sg_who) { .org = m->default_org, .scopes = SG_SCOPE_ALL, .is_operator = true };
}

int sg_tenant_demand(const struct sg_who *who, unsigned scope, struct sg_err *err)
{
    static const struct {
        unsigned bit;
        const char *name;
    } scopes[] = { { SG_SCOPE_READ, "read" },
                   { SG_SCOPE_EXEC, "exec" },
                   { SG_SCOPE_ADMIN, "admin" } };

    for (size_t i = 0; i < SG_COUNT(scopes); i++) {
        if ((scope & scopes[i].bit) && !(who->scopes & scopes[i].bit))
            return sg_fail(err, SG_DENIED, "this key has no scope '%s'", scopes[i].name);
    }
    return 0;
}

void sg_tenant_refused(struct sg_manager *m, const struct sg_who *who, const char *action,
                       const struct sg_err *err)
{
    (void)sg_manager_denied(m, who, action, NULL, err);
}

bool sg_tenant_name_is_fine(const char *name)
{
    size_t n = strlen(name);

    if (n == 0 || n > 128 || !sg_utf8_valid(name, n))
        return false;
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
            return false;
    }
    return true;
}

int sg_tenant_load(struct sg_manager *m, struct sg_err *err)
{
    sg_map_init(&m->orgs);
    sg_map_init(&m->keys);
    sg_map_init(&m->keys_by_hash);
    if (sg_org_load(m, err) < 0 || sg_key_load(m, err) < 0 || sg_secret_load(m, err) < 0 ||
        sg_volume_load(m, err) < 0 || sg_netlayer_load(m, err) < 0)
        return -1;
    return 0;
}

void sg_tenant_free(struct sg_manager *m)
{
    size_t cursor = 0;

    sg_secret_free_all(m);
    sg_volume_free_all(m);
    for (struct sg_key *k; (k = sg_map_next(&m->keys, &cursor));)
        sg_key_free(k);
    cursor = 0;
    for (struct sg_org *o; (o = sg_map_next(&m->orgs, &cursor));)
        sg_org_free(o);
    for (struct sg_key *k = m->dead_keys, *next; k; k = next) {
        next = k->next_dead;
        sg_key_free(k);
    }
    for (struct sg_org *o = m->dead_orgs, *next; o; o = next) {
        next = o->next_dead;
        sg_org_free(o);
    }
    sg_map_done(&m->keys);
    sg_map_done(&m->keys_by_hash);
    sg_map_done(&m->orgs);
    sg_netlayer_free(m);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What this door keeps with a sandbox, as a small JSON text that the manager stores unread. It
 * outlives the daemon with the sandbox's row, so that a token stays the same over pause, resume and
 * restart. */
#include <openssl/crypto.h>
#include <string.h>
#include <sys/random.h>

#include "api/e2b/e2b.h"
#include "base/auto.h"
#include "base/banned.h"

bool sg_e2b_record(const struct sg_sandbox *s, struct sg_arena *a, struct sg_e2b_record *ret)
{
    struct sg_e2b_record r = { .token = "", .traffic = "", .mask = "" };
    const struct sg_jval *v = NULL;
    *ret = r;
    if (!s->door || sg_json_parse(sg_str_of(s->door), a, &v, NULL) < 0)
        return false;
    const char *secret = sg_e2b_text(v, "secret"), *traffic = sg_e2b_text(v, "traffic"),
               *mask = sg_e2b_text(v, "mask");
    if (secret && strlen(secret) != SG_E2B_TOKEN_LEN)
        return false;
    r.token = secret ? sg_arena_printf(a, "%s%s", s->id.s, secret + SG_ID_LEN) : "";
    r.traffic = traffic ? traffic : "";
    r.mask = mask ? mask : "";
    r.resumes = sg_e2b_bool(v, "resumes", false);
    r.network = sg_e2b_get(v, "network");
    const struct sg_jval *internet = sg_e2b_get(v, "internet");
    r.has_internet_flag = internet != NULL;
    r.denies_internet = internet && !internet->b;
    if (!r.token)
        return false;
    *ret = r;
    return true;
}

/* As it was asked for, but for the password of a proxy, which is nobody's any more. */
static void put_network(struct sg_json *j, const struct sg_jval *network)
{
    sg_json_open(j, '{');
    for (const struct sg_jval *m = network->list.first; m; m = m->next) {
        sg_json_key(j, m->key.p);
        if (!sg_e2b_is_key(m->key, "egressProxy") || m->kind != SG_J_OBJECT) {
            sg_json_put(j, m);
            continue;
        }
        sg_json_open(j, '{');
        for (const struct sg_jval *e = m->list.first; e; e = e->next)
            if (!sg_e2b_is_key(e->key, "password")) {
                sg_json_key(j, e->key.p);
                sg_json_put(j, e);
            }
        sg_json_close(j, '}');
    }
    sg_json_close(j, '}');
}

char *sg_e2b_record_text(struct sg_arena *a, const struct sg_e2b_record *r)
{
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_DOOR_MAX);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    if (r->token[0])
        sg_json_put_str(&j, "secret", r->token);
    if (r->traffic[0])
        sg_json_put_str(&j, "traffic", r->traffic);
    if (r->mask[0])
        sg_json_put_str(&j, "mask", r->mask);
    if (r->resumes)
        sg_json_put_bool(&j, "resumes", true);
    if (r->has_internet_flag)
        sg_json_put_bool(&j, "internet", !r->denies_internet);
    if (r->network) {
        sg_json_key(&j, "network");
        put_network(&j, r->network);
    }
    sg_json_close(&j, '}');
    return out.has_overflowed ? NULL : sg_arena_copy(a, (const char *)out.p, out.n);
}

void sg_e2b_secret(char ret[SG_E2B_TOKEN_LEN + 1])
{
    uint8_t bytes[SG_E2B_TOKEN_LEN / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        abort(); /* a kernel that has no randomness to give cannot be served */
    for (size_t i = 0; i < sizeof bytes; i++) {
        ret[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        ret[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    ret[SG_E2B_TOKEN_LEN] = '\0';
}

bool sg_e2b_is_same(const char *a, const char *b)
{
    size_t n = strlen(a);
    return strlen(b) == n && CRYPTO_memcmp(a, b, n) == 0;
}

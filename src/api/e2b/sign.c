/* SPDX-License-Identifier: Apache-2.0 */
#include "api/e2b/sign.h"

#include <openssl/evp.h>
#include <string.h>

#include "base/auto.h"
#include "base/parse.h"
#include "wire/base64.h"
#include "base/banned.h"

enum { HASH_LEN = 32, BATCH = 256 };

void sg_e2b_sign(const char *path, const char *operation, const char *user, const char *token,
                 const char *expiration, char ret[SG_E2B_SIGNATURE_LEN + 1])
{
    uint8_t hash[EVP_MAX_MD_SIZE];
    sg_auto_buf raw, text;
    ret[0] = '\0';
    sg_buf_init(&raw, 64 << 10);
    sg_buf_init(&text, 64);
    sg_buf_addf(&raw, "%s:%s:%s:%s", path, operation, user, token);
    if (expiration)
        sg_buf_addf(&raw, ":%s", expiration);
    if (raw.has_overflowed || !EVP_Digest(raw.p, raw.n, hash, NULL, EVP_sha256(), NULL))
        return; /* which equals no signature */
    sg_base64_encode(&text, hash, HASH_LEN);
    memcpy(ret, "v1_", 3);
    memcpy(ret + 3, text.p, SG_E2B_SIGNATURE_LEN - 3);
    ret[SG_E2B_SIGNATURE_LEN] = '\0';
}

static const char *query_or_empty(struct sg_call *c, const char *name)
{
    const char *value = sg_call_query(c, name);
    return value ? value : "";
}

static bool is_signed_by(struct sg_call *c, const char *token)
{
    char expected[SG_E2B_SIGNATURE_LEN + 1];
    sg_e2b_sign(query_or_empty(c, "path"), c->method == M_POST ? "write" : "read",
                query_or_empty(c, "username"), token, sg_call_query(c, "signature_expiration"),
                expected);
    return expected[0] && sg_e2b_is_same(query_or_empty(c, "signature"), expected);
}

/* The URL has no name in it: every sandbox is asked. Only what other clients never send comes here.
 */
const struct sg_sandbox *sg_e2b_find_signed(struct sg_call *c)
{
    const struct sg_who anybody = { .is_operator = true };
    struct sg_list_query q = { .limit = BATCH };
    struct sg_sandbox *batch[BATCH];
    bool has_more = true;
    while (has_more) {
        size_t n = sg_manager_list(c->manager, &anybody, &q, batch, &has_more);
        for (size_t i = 0; i < n; i++) {
            struct sg_e2b_record r;
            if (sg_e2b_record(batch[i], &c->arena, &r) && r.token[0] && is_signed_by(c, r.token))
                return batch[i];
        }
        has_more = has_more && n;
        if (n)
            q.after = batch[n - 1]->id.s;
    }
    return NULL;
}

int sg_e2b_check_signed(struct sg_call *c, struct sg_err *err)
{
    const struct sg_e2b_visit *v = sg_e2b_visit(c);
    const char *expiration = sg_call_query(c, "signature_expiration");
    uint64_t until;
    if (!v->record.token[0] || v->is_signed)
        return 0;
    if (sg_call_header(c, "X-Access-Token"))
        return sg_fail(err, SG_DENIED, "access token present in header but does not match");
    if (!sg_call_query(c, "signature"))
        return sg_fail(err, SG_DENIED, "missing signature query parameter");
    if (!is_signed_by(c, v->record.token))
        return sg_fail(err, SG_DENIED, "invalid signature");
    if (expiration && (sg_parse_u64(sg_str_of(expiration), 0, INT64_MAX, &until, NULL) < 0 ||
                       (int64_t)until < sg_e2b_now_ms() / 1000))
        return sg_fail(err, SG_DENIED, "signature is already expired");
    return 0;
}

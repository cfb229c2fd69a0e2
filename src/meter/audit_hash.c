/* SPDX-License-Identifier: Apache-2.0 */
#include "meter/audit_hash.h"

#include <string.h>

#include <openssl/evp.h>

#include "base/auto.h"
#include "base/banned.h"

enum { HASH_BYTES = 32 };

const char sg_audit_no_hash[SG_AUDIT_HEX] =
    "0000000000000000000000000000000000000000000000000000000000000000";

int sg_audit_hasher_init(struct sg_audit_hasher *h, struct sg_err *err)
{
    *h = (struct sg_audit_hasher) { EVP_MD_fetch(NULL, "SHA256", NULL), EVP_MD_CTX_new() };
    return h->md && h->ctx ? 0 : sg_fail(err, SG_UNSUPPORTED, "libcrypto offers no SHA-256");
}

void sg_audit_hasher_done(struct sg_audit_hasher *h)
{
    EVP_MD_CTX_free(h->ctx);
    EVP_MD_free(h->md);
}

static int hash_number(EVP_MD_CTX *ctx, uint64_t v)
{
    uint8_t le[8];
    for (unsigned i = 0; i < sizeof le; i++)
        le[i] = (uint8_t)(v >> (8 * i));
    return EVP_DigestUpdate(ctx, le, sizeof le);
}

/* With its length first, or "ab" + "c" would be "a" + "bc". */
static int hash_text(EVP_MD_CTX *ctx, const char *s)
{
    const size_t n = s ? strlen(s) : 0;
    return hash_number(ctx, n) && EVP_DigestUpdate(ctx, s ? s : "", n);
}

static void to_hex(const uint8_t *p, char *ret)
{
    static const char digits[] = "0123456789abcdef";
    for (unsigned i = 0; i < HASH_BYTES; i++) {
        *ret++ = digits[p[i] >> 4];
        *ret++ = digits[p[i] & 15];
    }
    *ret = '\0';
}

int sg_audit_hash(const struct sg_audit_hasher *h, const struct sg_audit_row *r, char *ret)
{
    const char *const texts[] = { r->prev,    r->org,    r->actor,  r->action,
                                  r->sandbox, r->detail, r->request };
    uint8_t sum[EVP_MAX_MD_SIZE];
    int is_fine = EVP_DigestInit_ex(h->ctx, h->md, NULL) && hash_number(h->ctx, (uint64_t)r->seq) &&
                  hash_number(h->ctx, (uint64_t)r->at_ms);
    for (size_t i = 0; i < SG_COUNT(texts) && is_fine; i++)
        is_fine = hash_text(h->ctx, texts[i]);
    if (!is_fine || !EVP_DigestFinal_ex(h->ctx, sum, NULL))
        return -1;
    to_hex(sum, ret);
    return 0;
}

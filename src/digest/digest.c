/* SPDX-License-Identifier: Apache-2.0 */
/* A failure of libcrypto (it has no memory) is kept until the end: there is one place to ask. */
#include "digest/digest.h"

#include <openssl/evp.h>
#include <stdio.h>

#include "base/banned.h"

int sg_digest_init(struct sg_digest *d, struct sg_err *err)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    if (!ctx || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(ctx);
        return sg_fail(err, SG_EXHAUSTED, "no memory for a digest");
    }
    d->ctx = ctx;
    return 0;
}

void sg_digest_add(struct sg_digest *d, const void *p, size_t n)
{
    if (d->ctx && EVP_DigestUpdate(d->ctx, p, n) != 1)
        sg_digest_done(d);
}

int sg_digest_end(struct sg_digest *d, char ret[SG_DIGEST_HEX + 1], struct sg_err *err)
{
    unsigned char bytes[EVP_MAX_MD_SIZE];
    const int done = d->ctx ? EVP_DigestFinal_ex(d->ctx, bytes, NULL) : 0;
    sg_digest_done(d);
    if (done != 1)
        return sg_fail(err, SG_EXHAUSTED, "no memory for a digest");
    for (size_t i = 0; i < SG_DIGEST_HEX / 2; i++)
        (void)snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

void sg_digest_done(struct sg_digest *d)
{
    EVP_MD_CTX_free(d->ctx);
    d->ctx = NULL;
}

int sg_digest_of(const void *p, size_t n, char ret[SG_DIGEST_HEX + 1], struct sg_err *err)
{
    sg_auto_digest d = { NULL };
    if (sg_digest_init(&d, err) < 0)
        return -1;
    sg_digest_add(&d, p, n);
    return sg_digest_end(&d, ret, err);
}

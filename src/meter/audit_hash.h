/* SPDX-License-Identifier: Apache-2.0 */
/* The hash of one audit record. */
#pragma once

#include <openssl/types.h>

#include "store/store.h"

enum { SG_AUDIT_HEX = 65 }; /* 64 digits and the end */

/* The hash before the first record. */
extern const char sg_audit_no_hash[SG_AUDIT_HEX];

struct sg_audit_hasher {
    EVP_MD *md; /* owned: looked up once, which is most of the work */
    EVP_MD_CTX *ctx;
};
int sg_audit_hasher_init(struct sg_audit_hasher *h, struct sg_err *err); /* done also after -1 */
void sg_audit_hasher_done(struct sg_audit_hasher *h);

/* Over everything but the hash itself. `ret` has room for SG_AUDIT_HEX. -1: no memory. */
int sg_audit_hash(const struct sg_audit_hasher *h, const struct sg_audit_row *r, char *ret);

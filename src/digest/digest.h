/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 of bytes that come piece by piece, as 64 hexadecimal digits. */
#pragma once

#include <stddef.h>

#include "base/err.h"

enum { SG_DIGEST_HEX = 64 };

struct sg_digest {
    void *ctx; /* owned; NULL: none */
};

int sg_digest_init(struct sg_digest *d, struct sg_err *err);
void sg_digest_add(struct sg_digest *d, const void *p, size_t n);
/* The digest of all that was added, lower case and terminated; the object is done with then. */
int sg_digest_end(struct sg_digest *d, char ret[SG_DIGEST_HEX + 1], struct sg_err *err);
void sg_digest_done(struct sg_digest *d);

/* All of it at once. */
int sg_digest_of(const void *p, size_t n, char ret[SG_DIGEST_HEX + 1], struct sg_err *err);

#define sg_auto_digest __attribute__((cleanup(sg_digest_done))) struct sg_digest

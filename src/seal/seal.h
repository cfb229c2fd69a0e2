/* SPDX-License-Identifier: Apache-2.0 */
/* Sealed boxes: whoever has the public key can close one, only who has the private key can open it.
 *
 * A box is made with a key pair of its own that is forgotten at once (X25519), so that not even who
 * closed it can open it again. The key is HKDF-SHA256 of the shared secret, with both public keys
 * as salt; the content is ChaCha20-Poly1305. `context` is not in the box, but must be the same when
 * it is opened: a box that is put in another's place stays shut.
 *
 * As text it is base64 of: 1 byte version, 8 bytes that tell which key it is for, 32 bytes public
 * key, the content, 16 bytes tag. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum { SG_SEAL_KEY_BYTES = 32, SG_SEAL_MAX = 64 << 10 }; /* max: of the content */

struct sg_seal_key { /* either half */
    uint8_t p[SG_SEAL_KEY_BYTES];
};

int sg_seal_make_key(struct sg_seal_key *ret_private, struct sg_err *err);
int sg_seal_public(const struct sg_seal_key *private, struct sg_seal_key *ret, struct sg_err *err);

/* Returns owned text, or NULL. SG_EXHAUSTED: over SG_SEAL_MAX. */
char *sg_seal(const struct sg_seal_key *to, struct sg_str context, struct sg_str value,
              struct sg_err *err);
/* Whether it was sealed to this public key; says nothing about who did it. */
bool sg_seal_is_for(const char *sealed, const struct sg_seal_key *public);
/* Appends the content. SG_INVALID: not a box, or damaged, or of another context. SG_DENIED: it is
 * for another key. */
int sg_unseal(const struct sg_seal_key *private, struct sg_str context, const char *sealed,
              struct sg_buf *ret, struct sg_err *err);

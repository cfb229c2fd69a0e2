/* SPDX-License-Identifier: Apache-2.0 */
/* Signed file URLs: "v1_" and the SHA-256 of path, operation, user, token and expiry. Who holds one
 * may read or write that one path for as long as it says, and learns nothing of the token. */
#pragma once

#include "api/e2b/e2b.h"

enum { SG_E2B_SIGNATURE_LEN = 46 }; /* "v1_" and 43 characters of base64 */

/* `expiration` NULL: none. */
void sg_e2b_sign(const char *path, const char *operation, const char *user, const char *token,
                 const char *expiration, char ret[SG_E2B_SIGNATURE_LEN + 1]);
/* The sandbox whose token signed the request, or NULL. */
const struct sg_sandbox *sg_e2b_find_signed(struct sg_call *c);
/* Whether the request for `files` may: by token, by signature, or because it needs neither. */
int sg_e2b_check_signed(struct sg_call *c, struct sg_err *err);

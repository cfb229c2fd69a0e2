/* SPDX-License-Identifier: Apache-2.0 */
/* The gate's own authority: it speaks for the hosts of secrets towards sandboxes of this
 * installation, and for nobody else: its certificate is put into sandboxes only, never into a
 * person's trust store. So it has no constraint on names, and its key is the gate's alone. */
#pragma once

#include "base/err.h"

struct sg_authority_text { /* PEM, owned */
    char *cert, *key;
};
/* DIR/ca.pem and DIR/ca.key; made where neither is there. The caller holds the directory's lock.
 * SG_INVALID: one is missing or damaged, with the remedy. */
int sg_authority_open(int dir_fd, struct sg_authority_text *ret, struct sg_err *err);
void sg_authority_text_done(struct sg_authority_text *t); /* the key is wiped */

/* Signs certificates: one key pair for all of them, made with the object. */
struct sg_authority;
struct sg_authority *sg_authority_new(const struct sg_authority_text *t, struct sg_err *err);
void sg_authority_free(struct sg_authority *a);
/* A certificate for one name, PEM, owned; NULL: SG_INTERNAL. */
char *sg_authority_issue(struct sg_authority *a, const char *name, struct sg_err *err);
const char *sg_authority_key(const struct sg_authority *a); /* of all that it issued, PEM */

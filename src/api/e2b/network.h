/* SPDX-License-Identifier: Apache-2.0 */
/* Network settings of a sandbox, as this door takes them: checked and kept. */
#pragma once

#include "api/e2b/e2b.h"
#include "manager/cred.h"
#include "net/policy.h"

/* `v` NULL: none. Fills `mask` of the record. SG_INVALID names what is wrong, SG_UNSUPPORTED what
 * this server does not have. */
int sg_e2b_network_check(const struct sg_jval *v, struct sg_e2b_record *into, struct sg_err *err);
/* What it comes to: open unless something is denied; nothing where this host has no gate. `v` as
 * above; the record has the flag. A proxy's password is sealed, and overwritten in the call. */
int sg_e2b_network_policy(struct sg_call *c, const struct sg_jval *v, const struct sg_e2b_record *r,
                          struct sg_policy *ret, struct sg_err *err);

/* ---- rules.c ---- */

struct sg_e2b_rules { /* of the call's arena */
    struct sg_cred_field_spec *v;
    size_t n;
};
/* `network` NULL: none. */
int sg_e2b_rules_read(struct sg_call *c, const struct sg_jval *network, struct sg_e2b_rules *ret,
                      struct sg_err *err);
/* What they come to; `ret` is the caller's to end. */
int sg_e2b_rules_creds(struct sg_call *c, const struct sg_jval *network, struct sg_cred_set *ret,
                       struct sg_err *err);

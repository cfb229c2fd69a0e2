/* SPDX-License-Identifier: Apache-2.0 */
/* Private networks: sandboxes of one organisation that are on the same one reach each other by
 * WHO.NETWORK.internal, and nobody else does. A name is of a network only for those who are on it;
 * for all others it is a name like any other. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

enum { SG_NETNAMES_MAX = 8 };

/* The networks that a sandbox is on, and what it is called there. */
struct sg_netnames {
    char *v[SG_NETNAMES_MAX + 1]; /* owned; NULL behind the last */
    size_t n;
    char *own; /* owned; NULL: its id */
};

/* One word each, in the form of a name's part. SG_INVALID; SG_EXHAUSTED past SG_NETNAMES_MAX. One
 * that is there already is not added again. */
int sg_netnames_add(struct sg_netnames *n, struct sg_str text, struct sg_err *err);
int sg_netnames_call(struct sg_netnames *n, struct sg_str text, struct sg_err *err);
void sg_netnames_copy(struct sg_netnames *to, const struct sg_netnames *from);
void sg_netnames_done(struct sg_netnames *n);

bool sg_netnames_has(const struct sg_netnames *n, const char *network);
/* What a member is found by, among all organisations' ("ORG/WHO.NETWORK.internal"); returns owned.
 */
char *sg_netnames_key(const char *org, const char *who, const char *network);
/* The network of theirs that a canonical name is of; NULL: none. `ret_who` borrows from `name`. */
const char *sg_netnames_of(const struct sg_netnames *n, const char *name, struct sg_str *ret_who);

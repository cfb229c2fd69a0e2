/* SPDX-License-Identifier: Apache-2.0 */
/* The audit record: who did what to which sandbox, in a chain of hashes.
 *
 * hash = SHA-256 over the previous hash and every field of the record, each with its length. A
 * record that is changed, dropped or put in between breaks every hash after it. */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct sg_loop;
struct sg_store;
struct sg_audit;

/* Continues the chain that the store holds. Borrows the store, which is closed after it is freed.
 */
struct sg_audit *sg_audit_new(struct sg_store *s, struct sg_err *err);
void sg_audit_free(struct sg_audit *a);

struct sg_audit_entry {
    const char *org, *actor, *action, *sandbox, *detail, *request; /* NULL is "" */
};
/* `detail` is JSON. Actions: "sandbox.create", "exec.start", "file.write", "denied", ... Nobody
 * waits: the record is on the disk soon (SG_STORE_SOON), and offered again when that fails. */
void sg_audit_add(struct sg_audit *a, const struct sg_audit_entry *e, int64_t now_ms);

struct sg_audit_verdict {
    uint64_t records;
    int64_t broken_at; /* seq of the first record that does not fit; 0: none */
    char head[65];     /* the last hash, in hex */
};
/* Records cut off at the end break no hash: whoever fears that keeps `head` elsewhere, and
 * compares.
 */
int sg_audit_verify(struct sg_store *s, struct sg_audit_verdict *ret, struct sg_err *err);

/* The same on the loop, in slices. `cb` comes once, never before the call returns; `v` NULL: why
 * not is in `err`. The store outlives it. */
typedef void sg_audit_verify_cb(void *arg, const struct sg_audit_verdict *v,
                                const struct sg_err *err);
int sg_audit_verify_slowly(struct sg_loop *l, struct sg_store *s, sg_audit_verify_cb *cb, void *arg,
                           struct sg_err *err);

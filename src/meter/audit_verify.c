/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the chain from its beginning. On the loop it does so in slices, and lets everybody else
 * have their turn in between: a long record takes seconds. It only ever grows, so that slices of
 * different moments fit together. */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "loop/loop.h"
#include "meter/audit.h"
#include "meter/audit_hash.h"
#include "base/banned.h"

enum { SLICE = 500 }; /* about a millisecond */

struct check {
    struct sg_store *store; /* borrows */
    struct sg_audit_hasher hasher;
    struct sg_audit_verdict verdict;
    int64_t after, seq; /* read up to here; number of the last record */
    unsigned left;      /* of this slice */
    /* on the loop only */
    struct sg_loop *loop; /* borrows */
    struct sg_later next;
    sg_audit_verify_cb *cb;
    void *arg;
};

static bool check_row(void *arg, const struct sg_audit_row *r)
{
    struct check *c = arg;
    char hash[SG_AUDIT_HEX];
    const char *prev = r->prev ? r->prev : "", *said = r->hash ? r->hash : "";
    c->verdict.records++;
    const bool fits = r->seq == c->seq + 1 && strcmp(prev, c->verdict.head) == 0 &&
                      sg_audit_hash(&c->hasher, r, hash) == 0 && strcmp(said, hash) == 0;
    if (!fits && !c->verdict.broken_at)
        c->verdict.broken_at = r->seq > 0 ? r->seq : 1; /* the chain begins with 1 */
    c->seq = c->after = r->seq;
    (void)snprintf(c->verdict.head, sizeof c->verdict.head, "%s", said);
    return --c->left > 0;
}

static int check_init(struct check *c, struct sg_store *s, struct sg_err *err)
{
    *c = (struct check) { .store = s, .after = INT64_MIN };
    memcpy(c->verdict.head, sg_audit_no_hash, SG_AUDIT_HEX);
    return sg_audit_hasher_init(&c->hasher, err);
}

/* 1: there may be more. */
static int check_some(struct check *c, unsigned count, struct sg_err *err)
{
    c->left = count;
    if (sg_store_each_audit(c->store, c->after, check_row, c, err) < 0)
        return sg_wrap(err, "verify the audit record");
    return c->left == 0;
}

int sg_audit_verify(struct sg_store *s, struct sg_audit_verdict *ret, struct sg_err *err)
{
    struct check c;
    int got = check_init(&c, s, err);
    while (got == 0 && (got = check_some(&c, UINT_MAX, err)) > 0)
        got = 0;
    sg_audit_hasher_done(&c.hasher);
    if (got < 0)
        return -1;
    *ret = c.verdict;
    return 0;
}

static void check_slice(struct sg_later *later)
{
    struct check *c = SG_OWNER(later, struct check, next);
    struct sg_err err = { 0 };
    int got = check_some(c, SLICE, &err);
    if (got > 0) {
        sg_later_call(c->loop, &c->next);
        return;
    }
    sg_audit_hasher_done(&c->hasher);
    c->cb(c->arg, got < 0 ? NULL : &c->verdict, got < 0 ? &err : NULL);
    free(c);
}

int sg_audit_verify_slowly(struct sg_loop *l, struct sg_store *s, sg_audit_verify_cb *cb, void *arg,
                           struct sg_err *err)
{
    struct check *c = sg_new(struct check);
    if (check_init(c, s, err) < 0) {
        sg_audit_hasher_done(&c->hasher);
        free(c);
        return -1;
    }
    c->loop = l;
    c->next.call = check_slice;
    c->cb = cb;
    c->arg = arg;
    sg_later_call(l, &c->next);
    return 0;
}

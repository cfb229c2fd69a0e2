/* SPDX-License-Identifier: Apache-2.0 */
/* The chain is made here, on the loop, so that its order is the order of the calls; the store adds
 * the records in the same order.
 *
 * A1. A record that the store could not write (the disk is full) is kept and offered again with the
 *     next one, with the number and the hash that it has: those after it build on them.
 * A2. More than HELD_MAX of those are dropped. The chain then has a hole, which sg_audit_verify()
 *     finds: a lost record is never hidden.
 * A3. Records are on the disk within SG_STORE_SOON_MS; nobody waits for them. */
#include "meter/audit.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "meter/audit_hash.h"
#include "store/store.h"
#include "base/banned.h"

enum { HELD_MAX = 4096 };

struct record {
    struct sg_audit *audit;
    struct record *next;
    struct sg_audit_row row; /* points to the texts below */
    char prev[SG_AUDIT_HEX], hash[SG_AUDIT_HEX];
    char texts[];
};

struct sg_audit {
    struct sg_store *store; /* borrows */
    struct sg_audit_hasher hasher;
    int64_t seq; /* of the last record */
    char head[SG_AUDIT_HEX];
    struct record *failed, **failed_end;
    unsigned failed_count, open; /* open: with the store, or failed */
    bool is_freed;               /* the last record takes it along */
};

static void destroy(struct sg_audit *a)
{
    sg_audit_hasher_done(&a->hasher);
    free(a);
}

static void forget(struct record *r)
{
    struct sg_audit *a = r->audit;
    free(r);
    if (--a->open == 0 && a->is_freed)
        destroy(a);
}

static void added(void *arg, const struct sg_err *err)
{
    struct record *r = arg;
    struct sg_audit *a = r->audit;
    if (!err || a->is_freed || a->failed_count == HELD_MAX) {
        forget(r);
        return;
    }
    r->next = NULL;
    *a->failed_end = r;
    a->failed_end = &r->next;
    a->failed_count++;
}

static struct record *take_failed(struct sg_audit *a)
{
    struct record *list = a->failed;
    a->failed = NULL;
    a->failed_end = &a->failed;
    a->failed_count = 0;
    return list;
}

static void offer_again(struct sg_audit *a)
{
    struct record *next;
    for (struct record *r = take_failed(a); r; r = next) {
        next = r->next;
        sg_store_add_audit(a->store, &r->row, SG_STORE_SOON, added, r);
    }
}

static struct record *make_record(struct sg_audit *a, const struct sg_audit_entry *e,
                                  int64_t now_ms)
{
    const char *const from[] = { e->org, e->actor, e->action, e->sandbox, e->detail, e->request };
    size_t bytes = SG_COUNT(from);
    for (size_t i = 0; i < SG_COUNT(from); i++)
        bytes += from[i] ? strlen(from[i]) : 0;
    struct record *r = sg_alloc(sizeof *r + bytes);
    const char **to[] = { &r->row.org,     &r->row.actor,  &r->row.action,
                          &r->row.sandbox, &r->row.detail, &r->row.request };
    char *room = r->texts;
    for (size_t i = 0; i < SG_COUNT(from); i++) {
        const size_t n = from[i] ? strlen(from[i]) : 0;
        memcpy(room, from[i] ? from[i] : "", n + 1);
        *to[i] = room;
        room += n + 1;
    }
    r->audit = a;
    r->row.seq = a->seq + 1;
    r->row.at_ms = now_ms;
    r->row.prev = memcpy(r->prev, a->head, sizeof r->prev);
    r->row.hash = r->hash;
    return r;
}

void sg_audit_add(struct sg_audit *a, const struct sg_audit_entry *e, int64_t now_ms)
{
    offer_again(a);
    struct record *r = make_record(a, e, now_ms);
    if (sg_audit_hash(&a->hasher, &r->row, r->hash) < 0)
        memcpy(r->hash, sg_audit_no_hash,
               SG_AUDIT_HEX); /* no memory: a record that does not verify */
    a->seq++;
    memcpy(a->head, r->hash, sizeof a->head);
    a->open++;
    sg_store_add_audit(a->store, &r->row, SG_STORE_SOON, added, r);
}

struct sg_audit *sg_audit_new(struct sg_store *s, struct sg_err *err)
{
    struct sg_store_last last;
    if (sg_store_last(s, &last, err) < 0)
        return NULL;
    struct sg_audit *a = sg_new(struct sg_audit);
    if (sg_audit_hasher_init(&a->hasher, err) < 0) {
        destroy(a);
        return NULL;
    }
    a->store = s;
    a->seq = last.audit_seq;
    (void)snprintf(a->head, sizeof a->head, "%s", a->seq ? last.audit_hash : sg_audit_no_hash);
    a->failed_end = &a->failed;
    return a;
}

void sg_audit_free(struct sg_audit *a)
{
    if (!a)
        return;
    offer_again(a);
    a->is_freed = true;
    if (a->open == 0)
        destroy(a);
}

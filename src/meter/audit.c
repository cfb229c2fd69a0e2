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

#include <openssl/evp.h>

#include "base/auto.h"
#include "store/store.h"
#include "base/banned.h"

enum { HASH_BYTES = 32, HELD_MAX = 4096 };

static const char no_hash[2 * HASH_BYTES + 1] =
    "0000000000000000000000000000000000000000000000000000000000000000";

struct hasher {
    EVP_MD *md; /* owned: looked up once, which is most of the work */
    EVP_MD_CTX *ctx;
};

struct record {
    struct sg_audit *audit;
    struct record *next;
    struct sg_audit_row row; /* points to the texts below */
    char prev[2 * HASH_BYTES + 1], hash[2 * HASH_BYTES + 1];
    char texts[];
};

struct sg_audit {
    struct sg_store *store; /* borrows */
    struct hasher hasher;
    int64_t seq; /* of the last record */
    char head[2 * HASH_BYTES + 1];
    struct record *failed, **failed_end;
    unsigned failed_count, open; /* open: with the store, or failed */
    bool is_freed;               /* the last record takes it along */
};

/* ---- hashing ---- */

static int hasher_init(struct hasher *h, struct sg_err *err)
{
    *h = (struct hasher) { EVP_MD_fetch(NULL, "SHA256", NULL), EVP_MD_CTX_new() };
    return h->md && h->ctx ? 0 : sg_fail(err, SG_UNSUPPORTED, "libcrypto offers no SHA-256");
}

static void hasher_done(struct hasher *h)
{
    EVP_MD_CTX_free(h->ctx);
    EVP_MD_free(h->md);
}

static int hash_number(EVP_MD_CTX *ctx, uint64_t v)
{
    uint8_t le[8];
    for (unsigned i = 0; i < sizeof le; i++)
        le[i] = (uint8_t)(v >> (8 * i));
    return EVP_DigestUpdate(ctx, le, sizeof le);
}

/* With its length first, or "ab" + "c" would be "a" + "bc". */
static int hash_text(EVP_MD_CTX *ctx, const char *s)
{
    const size_t n = s ? strlen(s) : 0;
    return hash_number(ctx, n) && EVP_DigestUpdate(ctx, s ? s : "", n);
}

static void to_hex(const uint8_t *p, char *ret)
{
    static const char digits[] = "0123456789abcdef";
    for (unsigned i = 0; i < HASH_BYTES; i++) {
        *ret++ = digits[p[i] >> 4];
        *ret++ = digits[p[i] & 15];
    }
    *ret = '\0';
}

/* Over everything but the hash itself. `ret` has room for 64 digits. */
static int hash_row(const struct hasher *h, const struct sg_audit_row *r, char *ret)
{
    const char *const texts[] = { r->prev,    r->org,    r->actor,  r->action,
                                  r->sandbox, r->detail, r->request };
    uint8_t sum[EVP_MAX_MD_SIZE];
    int is_fine = EVP_DigestInit_ex(h->ctx, h->md, NULL) && hash_number(h->ctx, (uint64_t)r->seq) &&
                  hash_number(h->ctx, (uint64_t)r->at_ms);
    for (size_t i = 0; i < SG_COUNT(texts) && is_fine; i++)
        is_fine = hash_text(h->ctx, texts[i]);
    if (!is_fine || !EVP_DigestFinal_ex(h->ctx, sum, NULL))
        return -1;
    to_hex(sum, ret);
    return 0;
}

/* ---- adding ---- */

static void destroy(struct sg_audit *a)
{
    hasher_done(&a->hasher);
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
    if (hash_row(&a->hasher, &r->row, r->hash) < 0)
        memcpy(r->hash, no_hash, sizeof no_hash); /* no memory: a record that does not verify */
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
    if (hasher_init(&a->hasher, err) < 0) {
        destroy(a);
        return NULL;
    }
    a->store = s;
    a->seq = last.audit_seq;
    (void)snprintf(a->head, sizeof a->head, "%s", a->seq ? last.audit_hash : no_hash);
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

/* ---- checking ---- */

struct check {
    struct hasher hasher;
    struct sg_audit_verdict verdict;
    int64_t seq;
};

static bool check_row(void *arg, const struct sg_audit_row *r)
{
    struct check *c = arg;
    char hash[2 * HASH_BYTES + 1];
    const char *prev = r->prev ? r->prev : "", *said = r->hash ? r->hash : "";
    c->verdict.records++;
    const bool fits = r->seq == c->seq + 1 && strcmp(prev, c->verdict.head) == 0 &&
                      hash_row(&c->hasher, r, hash) == 0 && strcmp(said, hash) == 0;
    if (!fits && !c->verdict.broken_at)
        c->verdict.broken_at = r->seq > 0 ? r->seq : 1; /* the chain begins with 1 */
    c->seq = r->seq;
    (void)snprintf(c->verdict.head, sizeof c->verdict.head, "%s", said);
    return true;
}

int sg_audit_verify(struct sg_store *s, struct sg_audit_verdict *ret, struct sg_err *err)
{
    struct check c = { 0 };
    memcpy(c.verdict.head, no_hash, sizeof no_hash);
    if (hasher_init(&c.hasher, err) < 0) {
        hasher_done(&c.hasher);
        return -1;
    }
    int got = sg_store_each_audit(s, INT64_MIN, check_row, &c, err);
    hasher_done(&c.hasher);
    if (got < 0)
        return sg_wrap(err, "verify the audit record");
    *ret = c.verdict;
    return 0;
}

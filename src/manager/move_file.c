/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/move_file.h"

#include <inttypes.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/auto.h"
#include "base/banned.h"

/* As of PNG: whatever takes it for text, or strips a bit, is found out by the first bytes. */
static const uint8_t magic[8] = { 0x89, 'S', 'G', 'X', '\r', '\n', 0x1a, '\n' };
enum { LENGTH_BYTES = 4, END_BYTES = 8 + SG_MOVE_DIGEST_BYTES };
enum state { HEAD, MANIFEST, LENGTH, DATA, END, OVER };

static void put_number(uint8_t *p, uint64_t v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t number_of(const uint8_t *p, unsigned bytes)
{
    uint64_t v = 0;
    for (unsigned i = bytes; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

static void *new_digest(struct sg_err *err)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    if (ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1)
        return ctx;
    EVP_MD_CTX_free(ctx);
    (void)sg_fail(err, SG_INTERNAL, "SHA-256 is not to be had");
    return NULL;
}

/* ---- writing ---- */

int sg_move_writer_init(struct sg_move_writer *w, struct sg_err *err)
{
    *w = (struct sg_move_writer) { .digest = new_digest(err) };
    return w->digest ? 0 : -1;
}

void sg_move_writer_done(struct sg_move_writer *w)
{
    EVP_MD_CTX_free(w->digest);
    w->digest = NULL;
}

static void put(struct sg_move_writer *w, struct sg_buf *out, const void *p, size_t n)
{
    (void)EVP_DigestUpdate(w->digest, p, n);
    sg_buf_add(out, p, n);
}

void sg_move_put_head(struct sg_move_writer *w, struct sg_buf *out, bool is_whole,
                      const void *manifest, size_t n)
{
    uint8_t head[SG_MOVE_HEAD_BYTES] = { 0 };
    memcpy(head, magic, sizeof magic);
    put_number(head + 8, is_whole ? SG_MOVE_VERSION_WHOLE : SG_MOVE_VERSION, 4);
    put_number(head + 16, n, 4);
    put(w, out, head, sizeof head);
    put(w, out, manifest, n);
}

void sg_move_put_piece(struct sg_move_writer *w, struct sg_buf *out, const void *p, size_t n)
{
    uint8_t length[LENGTH_BYTES];
    put_number(length, n, LENGTH_BYTES);
    put(w, out, length, sizeof length);
    put(w, out, p, n);
    w->bytes += n;
}

void sg_move_put_next(struct sg_move_writer *w, struct sg_buf *out)
{
    const uint8_t none[LENGTH_BYTES] = { 0 };
    put(w, out, none, sizeof none);
}

void sg_move_put_end(struct sg_move_writer *w, struct sg_buf *out)
{
    uint8_t end[LENGTH_BYTES + 8] = { 0 }, sum[EVP_MAX_MD_SIZE] = { 0 };
    put_number(end + LENGTH_BYTES, w->bytes, 8);
    put(w, out, end, sizeof end);
    (void)EVP_DigestFinal_ex(w->digest, sum, NULL);
    sg_buf_add(out, sum, SG_MOVE_DIGEST_BYTES);
}

/* ---- reading ---- */

int sg_move_reader_init(struct sg_move_reader *r, struct sg_err *err)
{
    *r = (struct sg_move_reader) { .state = HEAD, .left = SG_MOVE_HEAD_BYTES };
    sg_buf_init(&r->text, SG_MOVE_MANIFEST_MAX);
    r->digest = new_digest(err);
    return r->digest ? 0 : -1;
}

void sg_move_reader_done(struct sg_move_reader *r)
{
    EVP_MD_CTX_free(r->digest);
    r->digest = NULL;
    sg_buf_done(&r->text);
}

static void expect(struct sg_move_reader *r, enum state state, uint64_t bytes)
{
    r->state = (int)state;
    r->left = bytes;
    sg_buf_clear(&r->text);
}

static int take_head(struct sg_move_reader *r, struct sg_err *err)
{
    const uint8_t *p = r->text.p;
    const uint64_t version = number_of(p + 8, 4), bytes = number_of(p + 16, 4);
    if (memcmp(p, magic, sizeof magic) != 0)
        return sg_fail(err, SG_INVALID, "this is no file of a sandbox");
    if (version < SG_MOVE_VERSION || version > SG_MOVE_VERSION_WHOLE || number_of(p + 12, 4))
        return sg_fail(err, SG_UNSUPPORTED,
                       "the file is of version %" PRIu64 ", and this service reads up to version "
                       "%d: import it with a later one",
                       version, SG_MOVE_VERSION_WHOLE);
    if (!bytes || bytes > SG_MOVE_MANIFEST_MAX || number_of(p + 20, 4))
        return sg_fail(err, SG_INVALID, "the head of the file makes no sense");
    r->is_whole = version == SG_MOVE_VERSION_WHOLE;
    r->archives = r->is_whole ? 2 : 1;
    expect(r, MANIFEST, bytes);
    return 0;
}

static int take_length(struct sg_move_reader *r, enum sg_move_event *ret, struct sg_err *err)
{
    const uint64_t bytes = number_of(r->text.p, LENGTH_BYTES);
    if (bytes > SG_MOVE_PIECE_MAX)
        return sg_fail(err, SG_INVALID, "the file was altered: a piece of it has %" PRIu64 " bytes",
                       bytes);
    if (!bytes && --r->archives) {
        expect(r, LENGTH, LENGTH_BYTES);
        *ret = SG_MOVE_NEXT;
        return 1;
    }
    expect(r, bytes ? DATA : END, bytes ? bytes : END_BYTES);
    return 0;
}

/* The digest covers all but itself. */
static int take_end(struct sg_move_reader *r, struct sg_err *err)
{
    uint8_t sum[EVP_MAX_MD_SIZE] = { 0 };
    (void)EVP_DigestUpdate(r->digest, r->text.p, 8);
    if (EVP_DigestFinal_ex(r->digest, sum, NULL) != 1 ||
        memcmp(sum, r->text.p + 8, SG_MOVE_DIGEST_BYTES) != 0 ||
        number_of(r->text.p, 8) != r->bytes)
        return sg_fail(err, SG_INVALID,
                       "the file was altered: its digest is not that of what is in it");
    r->state = OVER;
    return 0;
}

/* What is gathered is whole. 1: there is something to tell; 0: go on. */
static int take_text(struct sg_move_reader *r, enum sg_move_event *ret, struct sg_err *err)
{
    switch ((enum state)r->state) {
    case HEAD:
        return take_head(r, err);
    case MANIFEST:
        r->state = LENGTH; /* the text stays until the next call */
        r->left = LENGTH_BYTES;
        *ret = SG_MOVE_MANIFEST;
        return 1;
    case LENGTH:
        return take_length(r, ret, err);
    case END:
        *ret = SG_MOVE_END;
        return take_end(r, err) < 0 ? -1 : 1;
    case DATA:
    case OVER:
        break;
    }
    return sg_fail(err, SG_INTERNAL, "the reader of a file is in no state");
}

static size_t take_some(struct sg_move_reader *r, const uint8_t **p, size_t *n)
{
    const size_t some = r->left < *n ? (size_t)r->left : *n;
    if (r->state != END)
        (void)EVP_DigestUpdate(r->digest, *p, some);
    *p += some;
    *n -= some;
    r->left -= some;
    return some;
}

int sg_move_read(struct sg_move_reader *r, const uint8_t **p, size_t *n, enum sg_move_event *ret,
                 struct sg_err *err)
{
    while (*n) {
        const uint8_t *at = *p;
        if (r->state == LENGTH && r->left == LENGTH_BYTES)
            sg_buf_clear(&r->text);
        const size_t some = take_some(r, p, n);
        if (r->state == DATA) {
            r->data = at;
            r->data_n = some;
            r->bytes += some;
            if (!r->left)
                expect(r, LENGTH, LENGTH_BYTES);
            *ret = SG_MOVE_DATA;
            return 0;
        }
        sg_buf_add(&r->text, at, some);
        const int told = r->left ? 0 : take_text(r, ret, err);
        if (told)
            return told < 0 ? -1 : 0;
    }
    *ret = SG_MOVE_MORE;
    return 0;
}

int sg_move_cut(const struct sg_move_reader *r, struct sg_err *err)
{
    if (r->state == HEAD)
        return sg_fail(err, SG_INVALID, "this is no file of a sandbox: it has %zu bytes",
                       r->text.n);
    return sg_fail(err, SG_INVALID,
                   "the file is cut off, after %" PRIu64 " bytes of the sandbox's files: "
                   "export it anew",
                   r->bytes);
}

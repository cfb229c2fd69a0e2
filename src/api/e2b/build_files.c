/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a build: the client asks whether an archive is there, and sends it to the address that
 * it is told, without a key. So the address holds a secret that stands for this one archive. What
 * comes compressed is kept as it is inside. */
#include <string.h>

#include "api/e2b/e2b.h"
#include "api/e2b/gunzip.h"
#include "base/auto.h"
#include "manager/upload.h"
#include "base/banned.h"

enum { MAGIC_BYTES = 2 };
static const uint8_t gzip_magic[MAGIC_BYTES] = { 0x1f, 0x8b };

int sg_e2b_build_files(struct sg_call *c, struct sg_err *err)
{
    char token[SG_UPLOAD_TOKEN_LEN + 1];
    const char *hash = sg_call_param(c, "hash");
    if (sg_upload_token(c->manager, &c->who, hash, token, err) < 0)
        return -1;
    const bool is_present = sg_upload_has(c->manager, c->who.org, hash);
    sg_auto_free char *url = sg_printf("%s/templates/files/%s", sg_call_origin(c), token);
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, 4096);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_put_bool(&j, "present", is_present);
    sg_json_put_str(&j, "url", url);
    sg_json_close(&j, '}');
    sg_reply_json(c, 201, &out);
    return 0;
}

/* ---- what comes ---- */

struct upload {
    struct sg_upload *to; /* owned; NULL: it is on its way to the disk */
    struct sg_gunzip *gunzip;
    uint8_t first[MAGIC_BYTES];
    size_t first_n;
    bool is_told; /* whether it is compressed */
};

static void release(struct upload *u)
{
    sg_gunzip_free(u->gunzip);
    u->gunzip = NULL;
    if (u->to)
        sg_upload_drop(u->to);
    u->to = NULL;
}

static void kept(void *arg, const char *hash, const struct sg_err *err)
{
    struct sg_call *c = arg;
    (void)hash;
    if (err)
        sg_reply_error(c, err);
    else
        sg_reply_empty(c, 200);
}

static int put(void *arg, const uint8_t *p, size_t n, struct sg_err *err)
{
    return sg_upload_add(arg, p, n, err);
}

static int take(struct upload *u, const uint8_t *p, size_t n, struct sg_err *err)
{
    return u->gunzip ? sg_gunzip_feed(u->gunzip, p, n, put, u->to, err)
                     : sg_upload_add(u->to, p, n, err);
}

/* The first two bytes tell; fewer are no archive, and are kept as they are. */
static int sniff(struct upload *u, const uint8_t **p, size_t *n, bool is_last, struct sg_err *err)
{
    while (*n && u->first_n < MAGIC_BYTES) {
        u->first[u->first_n++] = **p;
        ++*p;
        --*n;
    }
    if (u->is_told || (u->first_n < MAGIC_BYTES && !is_last))
        return 0;
    u->is_told = true;
    if (u->first_n == MAGIC_BYTES && memcmp(u->first, gzip_magic, MAGIC_BYTES) == 0 &&
        !(u->gunzip = sg_gunzip_new(err)))
        return -1;
    return take(u, u->first, u->first_n, err);
}

static void take_piece(struct sg_call *c, const void *bytes, size_t n, bool is_last)
{
    struct upload *u = c->state;
    const uint8_t *p = bytes;
    struct sg_err err = { 0 };
    int got = sniff(u, &p, &n, is_last, &err);
    if (got == 0 && n)
        got = take(u, p, n, &err);
    if (got == 0 && is_last && u->gunzip && !sg_gunzip_is_over(u->gunzip))
        got = sg_fail(&err, SG_INVALID, "the archive ends early");
    if (got == 0 && !is_last)
        return;
    c->on_gone = NULL;
    sg_call_pause_body(c, true);
    if (got == 0) {
        sg_upload_finish(sg_take_ptr(&u->to), kept, c);
        release(u);
        return;
    }
    release(u);
    sg_reply_error(c, &err);
}

static void sender_gone(struct sg_call *c)
{
    release(c->state);
    sg_reply_end(c);
}

int sg_e2b_build_upload(struct sg_call *c, struct sg_err *err)
{
    char hash[SG_UPLOAD_NAME_LEN + 1];
    struct sg_org *org = sg_upload_by_token(c->manager, sg_call_param(c, "token"), hash);
    struct upload *u = sg_arena_alloc(&c->arena, sizeof *u);
    if (!org)
        return sg_fail(err, SG_DENIED, "this address is not one that was given out, or is too old");
    if (!u)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    if (sg_call_charge(c, org, err) < 0)
        return -1;
    *u = (struct upload) { .to = sg_upload_new(c->manager, org, hash, err) };
    if (!u->to)
        return -1;
    c->state = u;
    c->on_body = take_piece;
    c->on_gone = sender_gone;
    return 0;
}

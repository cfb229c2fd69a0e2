/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/msg.h"

#include <inttypes.h>
#include <string.h>

#include "base/banned.h"

static const uint32_t MAGIC = 0x314c4753; /* "SGL1" */

static void put_u32(struct sg_buf *b, uint32_t v)
{
    uint8_t p[4] = { (uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24) };
    sg_buf_add(b, p, sizeof p);
}

static uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* ---- encode ---- */

static void put_text(struct sg_buf *b, const char *p, size_t n)
{
    put_u32(b, (uint32_t)n);
    sg_buf_add(b, p, n);
    sg_buf_add(b, "", 1);
}

static int put_field(struct sg_buf *out, const struct sg_field *f, const uint8_t *base,
                     struct sg_err *err)
{
    const void *at = base + f->offset;
    switch (f->kind) {
    case SG_FIELD_U32: {
        uint32_t v = *(const uint32_t *)at;
        if (v > f->max)
            return sg_fail(err, SG_INVALID, "field %s: %" PRIu32 " is too large", f->name, v);
        put_u32(out, v);
        return 0;
    }
    case SG_FIELD_U64: {
        uint64_t v = *(const uint64_t *)at;
        put_u32(out, (uint32_t)v);
        put_u32(out, (uint32_t)(v >> 32));
        return 0;
    }
    case SG_FIELD_TEXT: {
        const struct sg_text *t = at;
        if (t->n > f->max)
            return sg_fail(err, SG_EXHAUSTED, "field %s is over %" PRIu32 " bytes", f->name,
                           f->max);
        if (t->n && memchr(t->p, 0, t->n))
            return sg_fail(err, SG_INVALID, "field %s holds a NUL byte", f->name);
        put_text(out, t->p, t->n);
        return 0;
    }
    case SG_FIELD_TEXTS: {
        const struct sg_texts *t = at;
        if (t->count > f->max)
            return sg_fail(err, SG_EXHAUSTED, "field %s has over %" PRIu32 " entries", f->name,
                           f->max);
        put_u32(out, t->count);
        sg_buf_add(out, t->p, t->n);
        return 0;
    }
    case SG_FIELD_BYTES: {
        const struct sg_bytes *t = at;
        if (t->n > f->max)
            return sg_fail(err, SG_EXHAUSTED, "field %s is over %" PRIu32 " bytes", f->name,
                           f->max);
        put_u32(out, (uint32_t)t->n);
        sg_buf_add(out, t->p, t->n);
        return 0;
    }
    }
    return sg_fail(err, SG_INTERNAL, "field %s has no kind", f->name);
}

int sg_msg_encode(const struct sg_msg *m, struct sg_buf *out, struct sg_err *err)
{
    if (m->type <= SG_MSG_NONE || m->type >= SG_MSG_TYPE_COUNT)
        return sg_fail(err, SG_INTERNAL, "message type %d does not exist", (int)m->type);
    const struct sg_msg_desc *d = &sg_msg_table[m->type];
    size_t start = out->n;
    put_u32(out, MAGIC);
    put_u32(out, (uint32_t)m->type);
    put_u32(out, m->id);
    put_u32(out, m->epoch);
    for (unsigned i = 0; i < d->field_count; i++)
        if (put_field(out, &d->fields[i], (const uint8_t *)m, err) < 0)
            return sg_wrap(err, "message %s", d->name);
    if (out->has_overflowed || out->n - start > SG_CTL_MAX_BYTES)
        return sg_fail(err, SG_EXHAUSTED, "message %s is over %d bytes", d->name, SG_CTL_MAX_BYTES);
    return 0;
}

/* ---- decode ---- */

struct cursor {
    const uint8_t *p;
    size_t left;
};

static int take(struct cursor *c, size_t n, const uint8_t **ret)
{
    if (n > c->left)
        return -1;
    *ret = c->p;
    c->p += n;
    c->left -= n;
    return 0;
}

static int take_u32(struct cursor *c, uint32_t *ret)
{
    const uint8_t *p;
    if (take(c, 4, &p) < 0)
        return -1;
    *ret = get_u32(p);
    return 0;
}

static int take_text(struct cursor *c, uint32_t max, struct sg_text *ret)
{
    uint32_t n;
    const uint8_t *p;
    if (take_u32(c, &n) < 0 || n > max || take(c, (size_t)n + 1, &p) < 0)
        return -1;
    if (p[n] != 0 || (n && memchr(p, 0, n)))
        return -1;
    *ret = (struct sg_text) { (const char *)p, n };
    return 0;
}

static int take_texts(struct cursor *c, uint32_t max, struct sg_texts *ret)
{
    uint32_t count;
    if (take_u32(c, &count) < 0 || count > max)
        return -1;
    struct sg_texts list = { .p = c->p, .count = count };
    for (uint32_t i = 0; i < count; i++) {
        struct sg_text skipped;
        if (take_text(c, SG_CTL_MAX_BYTES, &skipped) < 0)
            return -1;
    }
    list.n = (size_t)(c->p - list.p);
    *ret = list;
    return 0;
}

static int take_field(struct cursor *c, const struct sg_field *f, uint8_t *base)
{
    void *at = base + f->offset;
    switch (f->kind) {
    case SG_FIELD_U32: {
        uint32_t *v = at;
        return take_u32(c, v) < 0 || *v > f->max ? -1 : 0;
    }
    case SG_FIELD_U64: {
        uint32_t low, high;
        if (take_u32(c, &low) < 0 || take_u32(c, &high) < 0)
            return -1;
        *(uint64_t *)at = (uint64_t)high << 32 | low;
        return 0;
    }
    case SG_FIELD_TEXT:
        return take_text(c, f->max, at);
    case SG_FIELD_TEXTS:
        return take_texts(c, f->max, at);
    case SG_FIELD_BYTES: {
        struct sg_bytes *b = at;
        uint32_t n;
        if (take_u32(c, &n) < 0 || n > f->max || take(c, n, &b->p) < 0)
            return -1;
        b->n = n;
        return 0;
    }
    }
    return -1;
}

int sg_msg_decode(const uint8_t *p, size_t n, enum sg_msg_role role, struct sg_msg *ret,
                  struct sg_err *err)
{
    struct cursor c = { p, n };
    uint32_t magic, type;
    struct sg_msg m;
    memset(&m, 0, sizeof m);
    if (n > SG_CTL_MAX_BYTES || take_u32(&c, &magic) < 0 || magic != MAGIC ||
        take_u32(&c, &type) < 0 || take_u32(&c, &m.id) < 0 || take_u32(&c, &m.epoch) < 0)
        return sg_fail(err, SG_INVALID, "not a control message (%zu bytes)", n);
    if (type <= SG_MSG_NONE || type >= SG_MSG_TYPE_COUNT)
        return sg_fail(err, SG_INVALID, "control message of unknown type %" PRIu32, type);
    const struct sg_msg_desc *d = &sg_msg_table[type];
    if (role != SG_ROLE_NONE && d->role != role)
        return sg_fail(err, SG_INVALID, "message %s does not belong in this direction", d->name);
    m.type = (enum sg_msg_type)type;
    for (unsigned i = 0; i < d->field_count; i++)
        if (take_field(&c, &d->fields[i], (uint8_t *)&m) < 0)
            return sg_fail(err, SG_INVALID, "message %s: bad field %s", d->name, d->fields[i].name);
    if (c.left)
        return sg_fail(err, SG_INVALID, "message %s: %zu bytes too many", d->name, c.left);
    *ret = m;
    return 0;
}

/* ---- views ---- */

bool sg_text_next(struct sg_texts *list, struct sg_text *ret)
{
    struct cursor c = { list->p, list->n };
    if (!list->count || take_text(&c, SG_CTL_MAX_BYTES, ret) < 0)
        return false;
    list->p = c.p;
    list->n = c.left;
    list->count--;
    return true;
}

struct sg_text sg_text_of(const char *s)
{
    return (struct sg_text) { s, strlen(s) };
}

int sg_texts_pack(char *const *v, struct sg_buf *store, struct sg_texts *ret, struct sg_err *err)
{
    uint32_t count = 0;
    for (; v[count]; count++)
        put_text(store, v[count], strlen(v[count]));
    if (sg_buf_check(store, "list of texts", err) < 0)
        return -1;
    *ret = (struct sg_texts) { store->p, store->n, count };
    return 0;
}

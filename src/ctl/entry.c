/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/entry.h"

#include <string.h>

#include "base/banned.h"

enum { FIXED_BYTES = 4 * 4 + 2 * 8 + 4 };

static void put(struct sg_buf *b, uint64_t v, unsigned bytes)
{
    uint8_t p[8];
    for (unsigned i = 0; i < bytes; i++)
        p[i] = (uint8_t)(v >> (8 * i));
    sg_buf_add(b, p, bytes);
}

static uint64_t get(const uint8_t **p, unsigned bytes)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes; i++)
        v |= (uint64_t)(*p)[i] << (8 * i);
    *p += bytes;
    return v;
}

void sg_entry_put(struct sg_buf *out, const struct sg_entry *e)
{
    put(out, e->mode, 4);
    put(out, e->uid, 4);
    put(out, e->gid, 4);
    put(out, e->flags, 4);
    put(out, e->bytes, 8);
    put(out, e->mtime_ns, 8);
    put(out, e->name.n, 4);
    sg_buf_add(out, e->name.p, e->name.n);
    sg_buf_add(out, "", 1);
}

static bool is_component(const char *p, size_t n)
{
    if (n == 0 || n > SG_ENTRY_NAME_MAX || memchr(p, '/', n) || memchr(p, 0, n))
        return false;
    return !(n == 1 && p[0] == '.') && !(n == 2 && p[0] == '.' && p[1] == '.');
}

bool sg_entry_next(struct sg_bytes *list, struct sg_entry *ret, bool *ret_is_bad)
{
    *ret_is_bad = list->n != 0;
    if (list->n < FIXED_BYTES)
        return false;
    const uint8_t *p = list->p;
    struct sg_entry e;
    e.mode = (uint32_t)get(&p, 4);
    e.uid = (uint32_t)get(&p, 4);
    e.gid = (uint32_t)get(&p, 4);
    e.flags = (uint32_t)get(&p, 4);
    e.bytes = get(&p, 8);
    e.mtime_ns = get(&p, 8);
    size_t name_bytes = (size_t)get(&p, 4);
    size_t left = list->n - FIXED_BYTES;
    if (name_bytes >= left || p[name_bytes] != 0 || !is_component((const char *)p, name_bytes))
        return false;
    e.name = (struct sg_text) { (const char *)p, name_bytes };
    list->p = p + name_bytes + 1;
    list->n = left - name_bytes - 1;
    *ret = e;
    *ret_is_bad = false;
    return true;
}

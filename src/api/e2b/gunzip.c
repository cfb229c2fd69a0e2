/* SPDX-License-Identifier: Apache-2.0 */
#include "api/e2b/gunzip.h"

#include <zlib.h>

#include "base/auto.h"
#include "base/banned.h"

enum { OUT_BYTES = 64 << 10, GZIP_ONLY = 16 + MAX_WBITS };

struct sg_gunzip {
    z_stream z;
    bool is_over;
};

struct sg_gunzip *sg_gunzip_new(struct sg_err *err)
{
    struct sg_gunzip *g = sg_new(struct sg_gunzip);
    if (inflateInit2(&g->z, GZIP_ONLY) == Z_OK)
        return g;
    free(g);
    (void)sg_fail(err, SG_EXHAUSTED, "no memory to decompress");
    return NULL;
}

void sg_gunzip_free(struct sg_gunzip *g)
{
    if (!g)
        return;
    (void)inflateEnd(&g->z);
    free(g);
}

/* A file may be several streams, one after the other. */
int sg_gunzip_feed(struct sg_gunzip *g, const uint8_t *p, size_t n,
                   int (*put)(void *arg, const uint8_t *p, size_t n, struct sg_err *err), void *arg,
                   struct sg_err *err)
{
    uint8_t out[OUT_BYTES];
    g->z.next_in = (uint8_t *)(uintptr_t)p;
    g->z.avail_in = (uInt)n;
    for (;;) {
        if (g->is_over && g->z.avail_in) {
            (void)inflateReset(&g->z);
            g->is_over = false;
        }
        g->z.next_out = out;
        g->z.avail_out = sizeof out;
        int got = g->is_over ? Z_BUF_ERROR : inflate(&g->z, Z_NO_FLUSH);
        if (got != Z_OK && got != Z_STREAM_END && got != Z_BUF_ERROR)
            return sg_fail(err, SG_INVALID, "the body is not gzip: %s", g->z.msg ? g->z.msg : "");
        g->is_over = g->is_over || got == Z_STREAM_END;
        size_t made = sizeof out - g->z.avail_out;
        if (made && put(arg, out, made, err) < 0)
            return -1;
        if (!g->z.avail_in && made < sizeof out)
            return 0;
        if (got == Z_BUF_ERROR && !made)
            return 0;
    }
}

bool sg_gunzip_is_over(const struct sg_gunzip *g)
{
    return g->is_over;
}

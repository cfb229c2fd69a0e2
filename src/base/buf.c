/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/banned.h"

void sg_buf_init(struct sg_buf *b, size_t max)
{
    *b = (struct sg_buf) { .max = max };
}

void sg_buf_done(struct sg_buf *b)
{
    free(b->p);
    *b = (struct sg_buf) { 0 };
}

void sg_buf_clear(struct sg_buf *b)
{
    b->n = 0;
    b->has_overflowed = false;
}

/* Keeps one byte spare beyond n for the terminator of sg_buf_cstr(). */
static bool reserve(struct sg_buf *b, size_t more)
{
    if (b->has_overflowed || more > b->max - b->n) {
        b->has_overflowed = true;
        return false;
    }
    size_t need = b->n + more + 1;
    if (need <= b->cap)
        return true;
    size_t cap = b->cap ? b->cap : 256;
    while (cap < need)
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    uint8_t *p = realloc(b->p, cap);
    if (!p) {
        b->has_overflowed = true;
        return false;
    }
    b->p = p;
    b->cap = cap;
    return true;
}

uint8_t *sg_buf_grow(struct sg_buf *b, size_t n)
{
    return reserve(b, n) ? b->p + b->n : NULL;
}

void sg_buf_add(struct sg_buf *b, const void *p, size_t n)
{
    if (n && reserve(b, n)) {
        memcpy(b->p + b->n, p, n);
        b->n += n;
    }
}

void sg_buf_add_str(struct sg_buf *b, const char *s)
{
    sg_buf_add(b, s, strlen(s));
}

void sg_buf_addf(struct sg_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || !reserve(b, (size_t)n)) {
        b->has_overflowed = true;
        return;
    }
    va_start(ap, fmt);
    (void)vsnprintf((char *)b->p + b->n, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->n += (size_t)n;
}

int sg_buf_check(const struct sg_buf *b, const char *what, struct sg_err *err)
{
    if (b->has_overflowed)
        return sg_fail(err, SG_EXHAUSTED, "%s is over %zu bytes", what, b->max);
    return 0;
}

const char *sg_buf_cstr(struct sg_buf *b)
{
    if (b->has_overflowed || !b->p)
        return "";
    b->p[b->n] = '\0';
    return (const char *)b->p;
}

int sg_buf_read_fd(struct sg_buf *b, int fd, const char *what, struct sg_err *err)
{
    for (;;) {
        size_t left = b->max - b->n;
        size_t want =
            left < 65536 ? left + 1 : 65536; /* one past the ceiling shows it was passed */
        uint8_t chunk[4096];
        if (want > sizeof chunk)
            want = sizeof chunk;
        ssize_t got = read(fd, chunk, want);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return sg_fail_sys(err, "read %s", what);
        if (got == 0)
            return 0;
        sg_buf_add(b, chunk, (size_t)got);
        if (sg_buf_check(b, what, err) < 0)
            return -1;
    }
}

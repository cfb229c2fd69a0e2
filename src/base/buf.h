/* SPDX-License-Identifier: Apache-2.0 */
/* A growing byte buffer that is born with its ceiling.
 *
 * The first append that would pass the ceiling (or that finds no memory) marks the buffer
 * `has_overflowed`; it and every later append change nothing. So a writer may append freely and
 * ask once at the end. Never hold a pointer into a buffer across a call that may grow it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct sg_buf {
    uint8_t *p; /* owned */
    size_t n;
    size_t cap;
    size_t max;
    bool has_overflowed;
};

void sg_buf_init(struct sg_buf *b, size_t max);
void sg_buf_done(struct sg_buf *b);
void sg_buf_clear(struct sg_buf *b); /* keeps the memory */

void sg_buf_add(struct sg_buf *b, const void *p, size_t n);
void sg_buf_add_str(struct sg_buf *b, const char *s);
void sg_buf_addf(struct sg_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
uint8_t *sg_buf_grow(struct sg_buf *b, size_t n); /* room for n more at the end, or NULL */

/* 0, or SG_EXHAUSTED when anything did not fit. */
int sg_buf_check(const struct sg_buf *b, const char *what, struct sg_err *err);

/* The content as a C string; stays valid until the next append. "" after overflow. */
const char *sg_buf_cstr(struct sg_buf *b);

/* Reads fd to its end. SG_EXHAUSTED when the ceiling comes first. */
int sg_buf_read_fd(struct sg_buf *b, int fd, const char *what, struct sg_err *err);

#define sg_auto_buf __attribute__((cleanup(sg_buf_done))) struct sg_buf

/* SPDX-License-Identifier: Apache-2.0 */
/* Borrowed string views, and text made safe to show. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct sg_str {
    const char *p; /* not terminated */
    size_t n;
};

static inline struct sg_str sg_str_of(const char *s)
{
    return (struct sg_str) { s, strlen(s) };
}

static inline bool sg_str_is(struct sg_str s, const char *lit)
{
    size_t n = strlen(lit);
    return s.n == n && memcmp(s.p, lit, n) == 0;
}

static inline bool sg_starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* Outside text for a message: single quotes around it, quotes and all that is no printable UTF-8 as
 * \xNN, cut with "..." where it does not fit. The argument lives in the struct, so it can be built
 * in place: sg_fail(err, SG_INVALID, "no such template %s", sg_quote(name).s) */
struct sg_quoted {
    char s[96];
};
struct sg_quoted sg_quote(const char *text);
struct sg_quoted sg_quote_str(struct sg_str text);

/* What is behind the last slash; slashes at the end do not count: "b" of "/a/b/", "" of "/". */
struct sg_str sg_last_part(const char *path);

bool sg_utf8_valid(const char *p, size_t n);
/* Bytes at the front that may be shown as they are: one character, or 0 for a quote, a backslash, a
 * control character and what is no UTF-8. n > 0. */
size_t sg_plain_width(const char *p, size_t n);

/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns: '*' and '?' stand for no slash, "**" between slashes for any number of directories.
 *
 * A matcher by position pairs would need room for both texts; this one goes back only to the last
 * star of a component and to the last "**", which decides the same and takes at most the product of
 * the two lengths. */
#include <string.h>

#include "base/auto.h"
#include "image/dockerfile.h"
#include "base/banned.h"

enum { PATTERN_MAX = 4096 };

/* One of "[a-z]"; `*p` is behind the bracket, and then behind the class. */
static bool in_class(const char **p, char c)
{
    const char *at = *p;
    const bool is_negated = *at == '^' || *at == '!';
    bool is_found = false;
    at += is_negated;
    for (bool is_first = true; *at && (*at != ']' || is_first); is_first = false) {
        char from = *at++, to = from;
        if (from == '\\' && *at)
            from = to = *at++;
        if (*at == '-' && at[1] && at[1] != ']') {
            to = at[1];
            at += 2;
        }
        is_found |= c >= from && c <= to;
    }
    *p = *at ? at + 1 : at;
    return is_found != is_negated && c != '/';
}

/* One character of the pattern against one of the name; moves `*p` on. */
static bool match_one(const char **p, char c)
{
    const char *at = *p;
    if (*at == '[') {
        at++;
        const bool is_in = in_class(&at, c);
        *p = at;
        return is_in;
    }
    if (*at == '?') {
        *p = at + 1;
        return c != '/';
    }
    if (*at == '\\' && at[1])
        at++;
    *p = at + 1;
    return *at == c;
}

/* A component without slashes. */
static bool match_part(const char *p, const char *p_end, const char *s, const char *s_end)
{
    const char *star = NULL, *back = NULL;
    while (s < s_end) {
        const char *next = p;
        if (p < p_end && *p == '*') {
            star = ++p;
            back = s;
        } else if (p < p_end && match_one(&next, *s) && next <= p_end) {
            p = next;
            s++;
        } else if (star) {
            p = star;
            s = ++back;
        } else {
            return false;
        }
    }
    while (p < p_end && *p == '*')
        p++;
    return p == p_end;
}

static const char *end_of(const char *p)
{
    return strchrnul(p, '/');
}

static bool is_deep(const char *p)
{
    return p[0] == '*' && p[1] == '*' && (!p[2] || p[2] == '/');
}

bool sg_docker_match(const char *pattern, const char *path)
{
    const char *p = pattern, *s = path, *deep = NULL, *back = NULL;
    if (strlen(pattern) > PATTERN_MAX)
        return false;
    while (*s) {
        if (is_deep(p)) {
            deep = p + 2 + (p[2] == '/');
            back = s;
            p = deep;
            if (!*p)
                return true;
        } else if (*p && match_part(p, end_of(p), s, end_of(s)) && !*end_of(p) == !*end_of(s)) {
            p = end_of(p);
            s = end_of(s);
            p += *p == '/';
            s += *s == '/';
        } else if (deep && *end_of(back)) {
            back = end_of(back) + 1;
            p = deep;
            s = back;
        } else {
            return false;
        }
    }
    return !*p || (is_deep(p) && !p[2]);
}

/* ---- .dockerignore ---- */

/* As it is written, without "./", "/" and slashes at the end; empty: says nothing. */
static void clean(struct sg_str line, char ret[PATTERN_MAX + 1])
{
    size_t n = 0;
    while (line.n && (line.p[0] == '/' || (line.n > 1 && line.p[0] == '.' && line.p[1] == '/'))) {
        const size_t skip = line.p[0] == '/' ? 1 : 2;
        line.p += skip;
        line.n -= skip;
    }
    while (line.n && line.p[line.n - 1] == '/')
        line.n--;
    if (line.n > PATTERN_MAX || memchr(line.p ? line.p : "", '\0', line.n))
        line.n = 0;
    for (size_t i = 0; i < line.n; i++)
        ret[n++] = line.p[i];
    ret[n] = '\0';
}

static bool matches_or_holds(const char *pattern, const char *path)
{
    char above[PATTERN_MAX + 1];
    const size_t n = strlen(path);
    if (n > PATTERN_MAX)
        return false;
    memcpy(above, path, n + 1);
    for (;;) {
        if (sg_docker_match(pattern, above))
            return true;
        char *slash = strrchr(above, '/');
        if (!slash)
            return false;
        *slash = '\0';
    }
}

static struct sg_str trim(struct sg_str s)
{
    while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
        s = (struct sg_str) { s.p + 1, s.n - 1 };
    while (s.n && strchr(" \t\r", s.p[s.n - 1]))
        s.n--;
    return s;
}

bool sg_dockerignore_has(struct sg_str text, const char *path)
{
    bool is_left_out = false;
    while (text.n) {
        const char *end = memchr(text.p, '\n', text.n);
        const size_t n = end ? (size_t)(end - text.p) : text.n;
        struct sg_str line = trim((struct sg_str) { text.p, n });
        const size_t used = n + (end != NULL);
        text = (struct sg_str) { text.p + used, text.n - used };
        if (!line.n || line.p[0] == '#')
            continue;
        const bool is_exception = line.p[0] == '!';
        if (is_exception)
            line = trim((struct sg_str) { line.p + 1, line.n - 1 });
        char pattern[PATTERN_MAX + 1];
        clean(line, pattern);
        if (pattern[0] && is_left_out == is_exception && matches_or_holds(pattern, path))
            is_left_out = !is_exception;
    }
    return is_left_out;
}

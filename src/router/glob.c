/* SPDX-License-Identifier: Apache-2.0 */
#include "router/glob.h"

#include "base/banned.h"

struct point { /* where to go on when what was tried does not fit; pattern NULL: nowhere */
    const char *pattern;
    size_t at;
};

static bool match(const char *p, struct sg_str s, bool is_path)
{
    struct point narrow = { 0 }, wide = { 0 }; /* behind the last star of each kind */
    size_t i = 0;

    for (;;) {
        if (*p == '*') {
            const bool is_wide = !is_path || p[1] == '*';
            while (*p == '*')
                p++;
            if (is_wide) { /* whatever a star before it took, this one could take, too */
                wide = (struct point) { p, i };
                narrow.pattern = NULL;
            } else {
                narrow = (struct point) { p, i };
            }
            continue;
        }
        if (i < s.n && *p && (*p == s.p[i] || (*p == '?' && !(is_path && s.p[i] == '/')))) {
            p++;
            i++;
            continue;
        }
        if (i == s.n && !*p)
            return true;
        if (narrow.pattern && narrow.at < s.n && s.p[narrow.at] != '/') {
            p = narrow.pattern;
            i = ++narrow.at;
        } else if (wide.pattern && wide.at < s.n) {
            p = wide.pattern;
            i = ++wide.at;
            narrow.pattern = NULL;
        } else {
            return false;
        }
    }
}

bool sg_glob_text(const char *pattern, struct sg_str text)
{
    return match(pattern, text, false);
}

bool sg_glob_path(const char *pattern, struct sg_str path)
{
    const size_t n = strlen(pattern);
    if (n > 3 && strcmp(pattern + n - 3, "/**") == 0 && path.n == n - 3 &&
        memcmp(pattern, path.p, path.n) == 0)
        return true;
    return match(pattern, path, true);
}

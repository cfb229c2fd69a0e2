/* SPDX-License-Identifier: Apache-2.0 */
/* Paths as these clients write them. They are made absolute here, because replies name them so;
 * what they lead to is init's to find. */
#include <string.h>

#include "api/e2b/e2b.h"
#include "base/banned.h"

/* Without "//", "/./", "x/../" and a slash at the end, by text alone. */
static char *clean(struct sg_call *c, const char *path)
{
    char *out = sg_arena_alloc(&c->arena, strlen(path) + 2);
    size_t n = 0;
    if (!out)
        return NULL;
    for (const char *p = path; *p;) {
        p += strspn(p, "/");
        size_t part = strcspn(p, "/");
        if (part == 2 && p[0] == '.' && p[1] == '.') {
            while (n && out[--n] != '/')
                ;
        } else if (part && !(part == 1 && p[0] == '.')) {
            out[n++] = '/';
            memcpy(out + n, p, part);
            n += part;
        }
        p += part;
    }
    if (!n)
        out[n++] = '/';
    out[n] = '\0';
    return out;
}

const char *sg_e2b_path(struct sg_call *c, const char *path, struct sg_err *err)
{
    const char *home = sg_e2b_visit(c)->home, *whole = path;
    if (path && path[0] == '~' && path[1] && path[1] != '/') {
        (void)sg_fail(err, SG_INVALID, "cannot expand another user's home in %s", sg_quote(path).s);
        return NULL;
    }
    if (!path || !path[0])
        whole = home;
    else if (path[0] == '~')
        whole = sg_arena_printf(&c->arena, "%s/%s", home, path + 1);
    else if (path[0] != '/')
        whole = sg_arena_printf(&c->arena, "%s/%s", home, path);
    const char *absolute = whole ? clean(c, whole) : NULL;
    if (!absolute)
        (void)sg_fail(err, SG_EXHAUSTED, "no room for the path");
    return absolute;
}

const char *sg_e2b_parent(struct sg_call *c, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash && slash != path ? (size_t)(slash - path) : 1;
    return sg_arena_copy(&c->arena, path, n);
}

const char *sg_e2b_basename(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

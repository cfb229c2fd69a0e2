/* SPDX-License-Identifier: Apache-2.0 */
/* The route tree: a node a segment, made once. Literal segments are tried before {params}; when the
 * rest of the path does not fit below the literal one, the param's turn comes. */
#include <string.h>

#include "api/internal.h"
#include "base/auto.h"
#include "wire/url.h"
#include "base/banned.h"

enum { MAX_SEGMENTS = 16 };

const char *const sg_method_names[M_COUNT] = { "GET",   "HEAD",   "POST",   "PUT",
                                               "PATCH", "DELETE", "OPTIONS" };

struct prepared {
    const struct sg_route *route;
    char *names[SG_CALL_MAX_PARAMS]; /* owned */
    unsigned count;
};

struct node {
    struct sg_str segment; /* of a route's path: static */
    struct node *child, *sibling, *param;
    struct prepared *routes[M_COUNT]; /* owned */
};

struct sg_router {
    struct node root;
};

static struct sg_str next_segment(struct sg_str *path)
{
    const char *slash = memchr(path->p, '/', path->n);
    struct sg_str s = { path->p, slash ? (size_t)(slash - path->p) : path->n };
    size_t taken = s.n + (slash ? 1 : 0);
    path->p += taken;
    path->n -= taken;
    return s;
}

static bool is_param(struct sg_str s)
{
    return s.n > 2 && s.p[0] == '{' && s.p[s.n - 1] == '}';
}

static bool is_same(struct sg_str a, struct sg_str b)
{
    return a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
}

static struct node *grow(struct node *at, struct sg_str segment)
{
    if (is_param(segment)) {
        if (!at->param)
            at->param = sg_new(struct node);
        return at->param;
    }
    struct node **link = &at->child;
    while (*link && !is_same((*link)->segment, segment))
        link = &(*link)->sibling;
    if (!*link) {
        *link = sg_new(struct node);
        (*link)->segment = segment;
    }
    return *link;
}

static int add_route(struct sg_router *r, const struct sg_route *route, struct sg_err *err)
{
    struct sg_str rest = sg_str_of(route->path);
    struct node *at = &r->root;
    struct prepared *p = sg_new(struct prepared);
    p->route = route;
    for (rest.p++, rest.n--; rest.n;) {
        struct sg_str segment = next_segment(&rest);
        if (is_param(segment) && p->count < SG_CALL_MAX_PARAMS)
            p->names[p->count++] = sg_printf("%.*s", (int)segment.n - 2, segment.p + 1);
        at = grow(at, segment);
    }
    if (at->routes[route->method]) {
        for (unsigned i = 0; i < p->count; i++)
            free(p->names[i]);
        free(p);
        return sg_fail(err, SG_INTERNAL, "route %s %s is there twice",
                       sg_method_names[route->method], route->path);
    }
    at->routes[route->method] = p;
    return 0;
}

struct sg_router *sg_router_new(const struct sg_route_table *const *doors, size_t count,
                                struct sg_err *err)
{
    struct sg_router *r = sg_new(struct sg_router);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < doors[i]->n; k++)
            if (add_route(r, &doors[i]->v[k], err) < 0) {
                sg_router_free(r);
                return NULL;
            }
    return r;
}

/* Depth is bounded by the longest path in the tables. */
static void free_below(struct node *n)
{
    for (struct node *c = n->child, *next; c; c = next) {
        next = c->sibling;
        free_below(c);
        free(c);
    }
    if (n->param) {
        free_below(n->param);
        free(n->param);
    }
    for (unsigned m = 0; m < M_COUNT; m++) {
        for (unsigned i = 0; n->routes[m] && i < n->routes[m]->count; i++)
            free(n->routes[m]->names[i]);
        free(n->routes[m]);
    }
}

void sg_router_free(struct sg_router *r)
{
    if (!r)
        return;
    free_below(&r->root);
    free(r);
}

static unsigned methods_of(const struct node *n)
{
    unsigned methods = 0;
    for (unsigned m = 0; m < M_COUNT; m++)
        methods |= n->routes[m] ? 1u << m : 0;
    return methods & 1u << M_GET ? methods | 1u << M_HEAD : methods;
}

static bool is_end(const struct node *n)
{
    return methods_of(n) != 0;
}

/* The node of all segments, with the values of params on the way. */
static const struct node *descend(const struct node *at, const struct sg_str *v, unsigned count,
                                  struct sg_match *m)
{
    if (!count)
        return is_end(at) ? at : NULL;
    for (const struct node *c = at->child; c; c = c->sibling)
        if (is_same(c->segment, v[0])) {
            const struct node *found = descend(c, v + 1, count - 1, m);
            if (found)
                return found;
            break;
        }
    if (!at->param || !v[0].n || m->count == SG_CALL_MAX_PARAMS)
        return NULL;
    m->values[m->count++] = v[0];
    const struct node *found = descend(at->param, v + 1, count - 1, m);
    if (!found)
        m->count--;
    return found;
}

static int split(struct sg_str path, struct sg_arena *arena, struct sg_str v[MAX_SEGMENTS],
                 unsigned *ret_count, struct sg_err *err)
{
    bool is_encoded = memchr(path.p, '%', path.n);
    unsigned count = 0;
    bool is_more = path.n > 1; /* "/" has no segment */
    path.p++;
    path.n--;
    while (is_more) {
        bool has_slash = memchr(path.p, '/', path.n);
        struct sg_str s = next_segment(&path);
        is_more = has_slash; /* "/a/" has an empty second one */
        if (count == MAX_SEGMENTS) {
            *ret_count = MAX_SEGMENTS + 1;
            return 0;
        }
        if (is_encoded) {
            char *to = sg_arena_alloc(arena, s.n + 1);
            int n = to ? sg_url_decode(s, false, to, err)
                       : sg_fail(err, SG_EXHAUSTED, "no room for the path");
            if (n < 0)
                return -1;
            s = (struct sg_str) { to, (size_t)n };
        }
        v[count++] = s;
    }
    *ret_count = count;
    return 0;
}

int sg_router_match(const struct sg_router *r, enum sg_method method, struct sg_str path,
                    struct sg_arena *arena, struct sg_match *ret, struct sg_err *err)
{
    struct sg_str v[MAX_SEGMENTS];
    unsigned count = 0;
    struct sg_match m = { 0 };
    if (split(path, arena, v, &count, err) < 0)
        return -1;
    const struct node *n = count > MAX_SEGMENTS ? NULL : descend(&r->root, v, count, &m);
    if (n) {
        m.methods = methods_of(n);
        const struct prepared *p = n->routes[method];
        if (!p && method == M_HEAD)
            p = n->routes[M_GET];
        m.route = p ? p->route : NULL;
        for (unsigned i = 0; p && i < p->count; i++)
            m.names[i] = p->names[i];
    }
    *ret = m;
    return 0;
}

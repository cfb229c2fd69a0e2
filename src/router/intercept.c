/* SPDX-License-Identifier: Apache-2.0 */
#include "router/intercept.h"

#include <stdio.h>

#include "base/auto.h"
#include "router/glob.h"
#include "base/banned.h"

const char *const sg_intercept_action_names[SG_INTERCEPT_ACTION_COUNT] = {
    "allow",
    "sandbox",
    "approve",
    "block",
};

/* ---- paths, by their letters ---- */

static size_t without_last(const char *path, size_t n)
{
    while (n && path[--n] != '/')
        ;
    return n;
}

/* Adds the parts of `path` to the `*n` bytes that are there. */
static int add_parts(const char *path, char ret[SG_INTERCEPT_PATH_MAX], size_t *n)
{
    for (size_t part; *path; path += part) {
        path += strspn(path, "/");
        part = strcspn(path, "/");
        if (!part || (part == 1 && path[0] == '.'))
            continue;
        if (part == 2 && path[0] == '.' && path[1] == '.') {
            *n = without_last(ret, *n);
            continue;
        }
        if (part + 2 > SG_INTERCEPT_PATH_MAX - *n)
            return -1;
        ret[(*n)++] = '/';
        memcpy(ret + *n, path, part);
        *n += part;
    }
    return 0;
}

int sg_path_plain(const char *cwd, const char *path, char ret[SG_INTERCEPT_PATH_MAX],
                  struct sg_err *err)
{
    size_t n = 0;
    if (path[0] != '/' && cwd[0] != '/')
        return sg_fail(err, SG_INVALID, "%s is not an absolute path", sg_quote(cwd).s);
    if ((path[0] != '/' && add_parts(cwd, ret, &n) < 0) || add_parts(path, ret, &n) < 0)
        return sg_fail(err, SG_INVALID, "the path %s is over %d bytes", sg_quote(path).s,
                       SG_INTERCEPT_PATH_MAX - 1);
    if (!n)
        ret[n++] = '/';
    ret[n] = '\0';
    return 0;
}

int sg_path_inside(const char *root, const char *workspace, const char *path,
                   char ret[SG_INTERCEPT_PATH_MAX], struct sg_err *err)
{
    const size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);
    const bool is_below = strncmp(root, path, n) == 0 && (path[n] == '/' || !path[n]);
    const char *rest = is_below ? path + n : path;
    if (is_below && strcmp(rest, "/") == 0)
        rest = "";
    const int all = snprintf(ret, SG_INTERCEPT_PATH_MAX, "%s%s", is_below ? workspace : "", rest);
    if (all < 0 || all >= SG_INTERCEPT_PATH_MAX)
        return sg_fail(err, SG_INVALID, "the path %s is over %d bytes", sg_quote(path).s,
                       SG_INTERCEPT_PATH_MAX - 1);
    return 0;
}

/* ---- which rule ---- */

static bool is_any_of(char *const *patterns, struct sg_str text)
{
    for (; *patterns; patterns++)
        if (sg_glob_text(*patterns, text))
            return true;
    return false;
}

static bool is_below_any_of(char *const *patterns, const char *path)
{
    for (; path && *patterns; patterns++)
        if (sg_glob_path(*patterns, sg_str_of(path)))
            return true;
    return false;
}

static bool paths_match(const struct sg_intercept_rule *r, const struct sg_tool_call *c,
                        const struct sg_interception *d)
{
    if (!r->paths)
        return true;
    const bool as_written = *d->host_path && is_below_any_of(r->paths, d->host_path);
    const bool as_resolved = c->resolved ? is_below_any_of(r->paths, c->resolved) : as_written;
    return r->action == SG_INTERCEPT_ALLOW ? as_written && as_resolved : as_written || as_resolved;
}

/* An argument that is not there, or no text, matches nothing. */
static bool arguments_match(const struct sg_intercept_rule *r, const struct sg_jval *input)
{
    for (size_t i = 0; i < r->argument_count; i++) {
        const struct sg_jval *v = sg_json_get(input, r->arguments[i].name);
        if (!v || v->kind != SG_J_STRING || !is_any_of(r->arguments[i].patterns, v->s))
            return false;
    }
    return true;
}

static bool matches(const struct sg_intercept_rule *r, const struct sg_tool_call *c,
                    const struct sg_interception *d)
{
    return (!r->tools || is_any_of(r->tools, sg_str_of(c->tool))) &&
           (!r->orgs || (c->org && is_any_of(r->orgs, sg_str_of(c->org)))) &&
           paths_match(r, c, d) && arguments_match(r, c->input);
}

/* The first of these arguments that is there as a text; counts all that are. */
static const struct sg_jval *first_of(char *const *names, const struct sg_jval *input, size_t *n)
{
    const struct sg_jval *first = NULL;
    for (; *names; names++) {
        const struct sg_jval *v = sg_json_get(input, *names);
        if (!v || v->kind != SG_J_STRING)
            continue;
        first = first ? first : v;
        ++*n;
    }
    return first;
}

static int take_path(const struct sg_tool_call *c, struct sg_interception *d, struct sg_err *err)
{
    if (!d->path)
        return 0;
    if (!d->path->s.n || memchr(d->path->s.p, '\0', d->path->s.n))
        return sg_fail(err, SG_INVALID, "%s is no path", sg_quote_str(d->path->s).s);
    return sg_path_plain(c->cwd, d->path->s.p, d->host_path, err);
}

int sg_intercept_decide(const struct sg_intercept_rules *r, const struct sg_tool_call *c,
                        struct sg_interception *ret, struct sg_err *err)
{
    size_t movable = 0;
    ret->rule = NULL;
    ret->action = ret->then = SG_INTERCEPT_BLOCK;
    ret->reason = "no rule permits this tool call";
    ret->command = first_of(r->commands, c->input, &movable);
    ret->path = first_of(r->paths, c->input, &movable);
    ret->host_path[0] = '\0';
    if (c->cwd[0] != '/')
        return sg_fail(err, SG_INVALID, "cwd %s is not an absolute path", sg_quote(c->cwd).s);
    if (take_path(c, ret, err) < 0)
        return -1;
    for (size_t i = 0; i < r->rule_count && !ret->rule; i++)
        if (matches(&r->rules[i], c, ret))
            ret->rule = &r->rules[i];
    if (!ret->rule)
        return 0;
    ret->action = ret->rule->action;
    ret->then = ret->rule->then;
    ret->reason = ret->rule->reason;
    const bool goes_inside =
        ret->action == SG_INTERCEPT_SANDBOX ||
        (ret->action == SG_INTERCEPT_APPROVE && ret->then == SG_INTERCEPT_SANDBOX);
    if (goes_inside && movable != 1) {
        ret->action = ret->then = SG_INTERCEPT_BLOCK;
        ret->reason = movable
                          ? "it names more than one thing to be moved into the sandbox"
                          : "it names neither a command nor a file to be moved into the sandbox";
    }
    return 0;
}

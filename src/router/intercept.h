/* SPDX-License-Identifier: Apache-2.0 */
/* Interceptors: what becomes of a tool call that an agent is about to make. Rules are data
 * (policy/intercept.toml); the first one that matches decides.
 *
 * K1. What no rule matches is blocked.
 * K2. A pattern is a way to choose, never the wall. A call that goes to the sandbox is confined
 *     there by the kernel, whatever its text says.
 * K3. A path is judged as it is written and as the caller's machine resolves it. A rule that lets
 *     something through on this machine (`allow`) must hold for both; any other holds for either.
 * K4. Nothing is kept between two calls, and nothing here allocates after the rules are read. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/jsonr.h"

#define SG_INTERCEPT_DEFAULT_PATH "/etc/sandglass/intercept.toml"
enum {
    SG_INTERCEPT_RULES_MAX = 256,
    SG_INTERCEPT_ARGUMENTS_MAX = 16, /* conditions of one rule */
    SG_INTERCEPT_PATH_MAX = 4096,
};

enum sg_intercept_action {
    SG_INTERCEPT_ALLOW,   /* as it is, on the caller's machine */
    SG_INTERCEPT_SANDBOX, /* in the sandbox of the session */
    SG_INTERCEPT_APPROVE, /* when somebody agrees: then `then` */
    SG_INTERCEPT_BLOCK,
    SG_INTERCEPT_ACTION_COUNT,
};
extern const char *const sg_intercept_action_names[SG_INTERCEPT_ACTION_COUNT];

struct sg_intercept_argument {
    char *name, **patterns; /* owned */
};

struct sg_intercept_rule {
    char *name, *reason;           /* owned */
    char **tools, **paths, **orgs; /* owned patterns (orgs: ids), NULL-terminated; NULL: any */
    struct sg_intercept_argument arguments[SG_INTERCEPT_ARGUMENTS_MAX]; /* each must match */
    size_t argument_count;
    enum sg_intercept_action action, then; /* then: after an approval; ALLOW or SANDBOX */
};

struct sg_intercept_rules {
    struct sg_intercept_rule *rules; /* owned */
    size_t rule_count;
    char **commands, **paths; /* owned: names of arguments that are a shell's line, and a file's */
    struct {                  /* of a session */
        char *operation, *template, *workspace, *shell; /* owned; template NULL: the service's */
        uint64_t lifetime_ms, approval_ms;
        bool copies; /* the session's directory goes in when the sandbox is made */
    } sandbox;
    char *source;      /* owned: a file's name, or "built in" */
    char revision[17]; /* of the text */
};

/* As sg_rules_parse(). */
struct sg_intercept_rules *sg_intercept_parse(struct sg_str text, const char *source,
                                              struct sg_err *err);
struct sg_intercept_rules *sg_intercept_builtin(struct sg_err *err);
void sg_intercept_free(struct sg_intercept_rules *r);

struct sg_tool_call { /* borrowed */
    const char *tool, *org;
    const char *cwd;             /* absolute, on the caller's machine */
    const struct sg_jval *input; /* an object, or NULL */
    const char *resolved;        /* the path as that machine resolves it; NULL: not said */
};

struct sg_interception {
    const struct sg_intercept_rule *rule; /* NULL: none matched */
    enum sg_intercept_action action, then;
    const char *reason;
    const struct sg_jval *command, *path;  /* of the input; NULL: it has none */
    char host_path[SG_INTERCEPT_PATH_MAX]; /* `path`, absolute and plain; "": none */
};

/* SG_INVALID: a path or a directory that is none. */
int sg_intercept_decide(const struct sg_intercept_rules *r, const struct sg_tool_call *c,
                        struct sg_interception *ret, struct sg_err *err);

/* `path` as seen from `cwd`, without "." and "..": by its letters alone. */
int sg_path_plain(const char *cwd, const char *path, char ret[SG_INTERCEPT_PATH_MAX],
                  struct sg_err *err);
/* Where `path` is inside a sandbox whose `workspace` stands for the directory `root`; what is
 * elsewhere has the same name there, and is the sandbox's own. */
int sg_path_inside(const char *root, const char *workspace, const char *path,
                   char ret[SG_INTERCEPT_PATH_MAX], struct sg_err *err);

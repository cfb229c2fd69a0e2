/* SPDX-License-Identifier: Apache-2.0 */
/* Tool calls of agents, judged by the interceptors' rules, and the sandboxes of their sessions.
 *
 * S1. A session has one sandbox at a time, which is known by its metadata: `sandglass.session` (and
 *     `sandglass.root`, the directory that is its workspace inside, where we made it). It is made
 * by the first call that needs it, and lives as long as calls come. S2. A call that needs an
 * approval gets the one for exactly this call of this session: the word of whoever decided holds
 * for it, once. Asking again is how one waits. */
#pragma once

#include "manager/approval.h"
#include "manager/manager.h"

enum { SG_SESSION_MAX = 128 };
#define SG_SESSION_KEY "sandglass.session"
#define SG_ROOT_KEY    "sandglass.root"

struct sg_intercept_spec { /* borrowed until the answer */
    const char *tool, *cwd, *session, *resolved;
    const struct sg_jval *input;
};

struct sg_intercept_result {         /* lives for the call back */
    enum sg_intercept_action action; /* APPROVE: it waits for `approval` */
    const char *rule, *reason;       /* rule "": none matched */
    const struct sg_intercept_rules *rules;
    const struct sg_approval *approval; /* or NULL */
    /* with SANDBOX */
    const struct sg_sandbox *sandbox;
    const char *root;                                             /* on the caller's machine */
    char cwd[SG_INTERCEPT_PATH_MAX], path[SG_INTERCEPT_PATH_MAX]; /* inside; path "": none */
    const struct sg_jval *command, *input_path;                   /* of the input: one of the two */
    bool copies; /* the root's files belong into the workspace */
};
typedef void sg_intercept_cb(void *arg, const struct sg_intercept_result *r,
                             const struct sg_err *err);

/* May call back before it returns. */
int sg_intercept_ask(struct sg_manager *m, const struct sg_who *who,
                     const struct sg_intercept_spec *spec, sg_intercept_cb *cb, void *arg,
                     struct sg_err *err);

/* ---- session.c ---- */

/* The session's sandbox, running; made where there is none. Calls that come meanwhile get the same.
 * May call back before it returns. */
int sg_session_sandbox(struct sg_manager *m, const struct sg_who *who, const char *session,
                       const char *root, sg_sandbox_cb *cb, void *arg, struct sg_err *err);

/* SPDX-License-Identifier: Apache-2.0 */
/* Code in contexts: cells of a notebook, run one after the other by an interpreter that keeps its
 * state.
 *
 * O1. A context is a language, a directory, an environment and at most one kernel: a process of the
 *     sandbox, which is an exec like any other (its program is <SG_CODE_KERNELS>/<name>). Requests
 *     go to its input, events come through its journal; docs/design/interpreter.md has both.
 * O2. A context runs one execution at a time; others wait in order. A kernel that dies takes its
 *     execution along, which is told so; the next one gets a fresh kernel in the same context.
 * O3. Contexts, and which execution runs, are in the store. After a kill -9 of the daemon the
 *     kernel, its state and what it runs go on, and whoever comes back can read on.
 * O4. An execution whose client leaves is interrupted. A kernel that does not heed that is ended as
 *     soon as somebody else needs it.
 * O5. What a kernel says is a stranger's text: bounded, checked, and never taken for another
 *     execution's. */
#pragma once

#include "base/str.h"
#include "manager/exec.h"
#include "manager/sandbox.h"
#include "manager/tenant.h"

#define SG_CODE_KERNELS "/opt/sandglass/kernels"
enum {
    SG_CODE_MAX_CONTEXTS = 256, /* of one sandbox */
    SG_CODE_MAX_WAITING = 64,   /* executions of one context, beside the one that runs */
    SG_CODE_MAX_LINE = 16 << 20,
};

struct sg_code_set; /* s->code_impl */
struct sg_code_run;

struct sg_code_context {
    struct sg_id id;
    struct sg_sandbox *sandbox;
    char *language, *cwd; /* owned; cwd: absolute */
    struct sg_pairs env;  /* of every kernel of it, over the sandbox's */
    bool is_default;      /* the language's own: for who names none */
    int64_t created_ms;
    uint64_t runs; /* executions that were begun, of all its kernels */
    struct sg_code_context *next;
    void *impl; /* code_internal.h */
};

/* Whether the sandbox has kernels. `cb` once; it may come before the call returns. */
typedef void sg_code_probe_cb(void *arg, bool has_kernels, const struct sg_err *err);
int sg_code_probe(struct sg_sandbox *s, const struct sg_who *who, sg_code_probe_cb *cb, void *arg,
                  struct sg_err *err);

/* ---- contexts ---- */

struct sg_code_context_spec {
    const char *language; /* NULL: python; "js" and "ts" are known, too; case and blanks do not
                             count */
    const char *cwd;      /* NULL: the home of the sandbox's user */
    const struct sg_pair *env;
    size_t env_n;
};
/* Called when its kernel was started, or could not be; then the context is not there. */
typedef void sg_code_context_cb(void *arg, struct sg_code_context *c, const struct sg_err *err);
int sg_code_create(struct sg_sandbox *s, const struct sg_who *who,
                   const struct sg_code_context_spec *spec, sg_code_context_cb *cb, void *arg,
                   struct sg_err *err);
struct sg_code_context *sg_code_find(struct sg_sandbox *s, const char *id, struct sg_err *err);
/* The language's own, which is made (without a kernel) where there is none. NULL: no such name. */
struct sg_code_context *sg_code_default(struct sg_sandbox *s, const struct sg_who *who,
                                        const char *language, struct sg_err *err);
struct sg_code_context *sg_code_first(struct sg_sandbox *s); /* in the order of creation: ->next */
bool sg_code_is_busy(const struct sg_code_context *c);
/* Its kernel ends now, what it runs ends with an error; those that wait go on with a fresh one. */
int sg_code_restart(struct sg_code_context *c, const struct sg_who *who, struct sg_err *err);
/* The same, and those that wait end, too, and so does the context. */
int sg_code_remove(struct sg_code_context *c, const struct sg_who *who, struct sg_err *err);
/* What it runs is asked to end; nothing runs: nothing happens. */
int sg_code_interrupt(struct sg_code_context *c, const struct sg_who *who, struct sg_err *err);

/* ---- executions: events are pulled ---- */

struct sg_code_spec {
    struct sg_str code;
    const struct sg_pair *env; /* for this execution only */
    size_t env_n;
    uint64_t timeout_ms; /* from its start; 0: none */
};
/* Whoever holds it hears `wake` when there may be something to read; never from inside a call. */
struct sg_code_client {
    void (*wake)(struct sg_code_client *k);
    struct sg_code_run *run; /* code_run.c's */
};
/* Puts it at the end of the context's queue. */
int sg_code_run(struct sg_code_context *c, const struct sg_who *who,
                const struct sg_code_spec *spec, struct sg_code_client *k, struct sg_err *err);
/* Its events from the beginning, as far as the journal has them: of the execution that runs, or ran
 * last, in the context. SG_NOT_FOUND; SG_CONFLICT: it has a reader. */
int sg_code_attach(struct sg_code_context *c, const struct sg_who *who, const char *run,
                   struct sg_code_client *k, struct sg_err *err);
const char *sg_code_run_id(const struct sg_code_client *k);
/* Its kernel is there: from now on all that happens is an event. Before that it can fail. */
bool sg_code_has_begun(const struct sg_code_client *k);

enum sg_code_got {
    SG_CODE_NOTHING, /* for now: wait for `wake` */
    SG_CODE_LATER,   /* there is more, but others want their turn */
    SG_CODE_EVENT,   /* one JSON object without a line break; lives until the next call */
    SG_CODE_END,     /* the last event was given out */
    SG_CODE_FAILED,  /* it has not begun, and will not */
    SG_CODE_GONE,    /* with its sandbox */
};
enum sg_code_got sg_code_next(struct sg_code_client *k, struct sg_str *ret, struct sg_err *err);
/* Lets go. With `interrupts`: what still runs is interrupted, what waits is taken back. */
void sg_code_leave(struct sg_code_client *k, bool interrupts);

/* SPDX-License-Identifier: Apache-2.0 */
/* What this host can do, found by trying, never by version.
 *
 * A probe is a row: what is tried, what it is for, who needs it, and the command that helps where
 * it is missing. Each runs in a forked child with a deadline, so that it may enter namespaces,
 * mount, or be killed by a filter, and nothing of it sticks. The caller has one thread.
 *
 * The rows of the kernel are here; those that need the engine's own code belong to the caller and
 * are of the same kind. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct sg_finding;
struct sg_host;

enum sg_need {
    SG_NEED_NOTHING, /* the row does not apply */
    SG_NEED_KNOW,    /* good to know; never a fault */
    SG_NEED_USEFUL,  /* without it something is weaker, slower or not to be had */
    SG_NEED_MUST,    /* without it there is no sandbox */
};

enum sg_verdict { SG_HAVE_IT, SG_HAVE_LESS, SG_HAVE_NOT, SG_HAVE_NEWS, SG_VERDICT_COUNT };

struct sg_probe_env {
    bool is_root;
    const char *state_dir, *run_dir;
    const struct sg_host *known; /* what was found so far; may be NULL */
    unsigned patience_ms;        /* for each row; 0: SG_PROBE_PATIENCE_MS */
};

struct sg_probe {
    const char *group, *name, *purpose;
    enum sg_need for_root, for_user;
    bool as_ordinary; /* root takes an account without rights first */
    int value;        /* the row's own parameter */
    void (*run)(const struct sg_probe_env *env, struct sg_finding *ret);
    const char *fix; /* a command or a setting; a finding may know a better one */
};

/* Crosses from the child as it is: no pointers that the child set. */
struct sg_finding {
    const struct sg_probe *probe;
    enum sg_need need;
    enum sg_verdict verdict;
    char detail[160]; /* "" when there is nothing to add */
    char fix[240];    /* "" unless something is missing or less than it could be */
};

enum { SG_HOST_MAX = 64, SG_PROBE_PATIENCE_MS = 2000 };

struct sg_host {
    struct sg_finding of[SG_HOST_MAX];
    size_t n;
};

extern const struct sg_probe sg_kernel_probes[];
extern const size_t sg_kernel_probe_count;

/* Tries those rows that apply, in order, and appends what they found. */
void sg_host_probe(struct sg_host *h, const struct sg_probe *rows, size_t count,
                   const struct sg_probe_env *env);

/* Is everything there that a sandbox cannot do without? */
bool sg_host_works(const struct sg_host *h);
const struct sg_finding *sg_host_find(const struct sg_host *h, const char *name); /* or NULL */

/* ---- for the rows ---- */

void sg_found_it(struct sg_finding *f);
void sg_found(struct sg_finding *f, enum sg_verdict v, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Not there: "what: why", the reason from errno. */
void sg_found_errno(struct sg_finding *f, const char *what);
void sg_found_fix(struct sg_finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Moves this child where a sandbox's mounts are made: a private mount namespace, and without root
 * an own user namespace around it. On failure the finding says why, and the result is -1. */
int sg_probe_enter(struct sg_finding *f);

/* SPDX-License-Identifier: Apache-2.0 */
/* Building a template: steps, each run in a sandbox of ours, each a layer that is kept.
 *
 * K1. A layer is a snapshot with a key: a hash over the organisation, what is below, and every step
 *     up to it. A step whose key is there is not run again, unless it is forced, and then neither
 *     are those after it looked up.
 * K2. The sandbox of a build is nobody's to see, has the organisation's quota and rules, and goes
 *     with the build. What a step leaves running is ended before its layer is taken.
 * K3. The start command runs and is ready, in a sandbox of the finished layer, before the template
 *     is told of.
 * K4. A build ends by itself, by its deadline or by sg_build_cancel(); the store knows its end
 *     before anybody is told. */
#pragma once

#include "manager/built.h"

enum sg_step_kind {
    SG_STEP_RUN,     /* command */
    SG_STEP_COPY,    /* source, destination */
    SG_STEP_ENV,     /* name, value, ... */
    SG_STEP_WORKDIR, /* path; "": as what is below has it */
    SG_STEP_USER,    /* name; the same */
    SG_STEP_KIND_COUNT,
};
extern const char *const sg_step_names[SG_STEP_KIND_COUNT]; /* "RUN", ... */

struct sg_step {
    enum sg_step_kind kind;
    const char *const *args;
    size_t n;
    const char *user;         /* RUN: as whom. COPY: whose. NULL: the user so far */
    const char *mode;         /* COPY: octal; NULL: as it is */
    const char *files;        /* COPY: an archive (upload.h) */
    unsigned stage;           /* COPY: 1 and up: of that stage's files, in place of an archive */
    const char *const *shell; /* RUN: before the command, NULL-terminated; NULL: bash -l -c */
    bool is_forced;
};
enum sg_from { SG_FROM_TEMPLATE, SG_FROM_IMAGE, SG_FROM_STAGE, SG_FROM_REGISTRY };
struct sg_stage {
    enum sg_from kind;
    const char *from; /* a name */
    unsigned stage;   /* SG_FROM_STAGE: 1 and up, an earlier one */
    const struct sg_step *steps;
    size_t n;
};
enum { SG_STAGES_MAX = 32, SG_STEPS_MAX = 500, SG_BUILDS_AT_ONCE = 4 };
/* An image that is fetched. Who may: keys with the scope admin; from where: registry.serve of the
 * service's settings. */
struct sg_pull_spec {
    const char *image, *platform; /* platform NULL: this machine's */
    const char *user, *password;  /* NULL: none; no row, log or message has them */
};
struct sg_build_spec {             /* borrowed for the call */
    const struct sg_stage *stages; /* the last one is the template */
    size_t n;
    const char *start, *ready;       /* NULL: none */
    const struct sg_pull_spec *pull; /* of the one stage, which is SG_FROM_REGISTRY; NULL: none */
    const struct sg_policy *network; /* NULL: none */
    bool is_forced;
    bool is_roots; /* what COPY and WORKDIR make is root's, and USER makes no users: a Dockerfile */
};

/* A build of a template, which is made where there is none of that name. Tags: NULL-terminated; its
 * own ends with the call. */
int sg_build_create(struct sg_manager *m, const struct sg_who *who, const char *name,
                    const char *const *tags, const struct sg_sandbox_limits *limits,
                    struct sg_build **ret, struct sg_err *err);
/* Begins; its state is "building" at once. SG_INVALID: it was begun before. */
int sg_build_start(struct sg_manager *m, const struct sg_who *who, struct sg_build *b,
                   const struct sg_build_spec *spec, struct sg_err *err);
/* Both; what is refused leaves no build. */
int sg_build_begin(struct sg_manager *m, const struct sg_who *who, const char *name,
                   const char *const *tags, const struct sg_sandbox_limits *limits,
                   const struct sg_build_spec *spec, struct sg_build **ret, struct sg_err *err);
/* The same of one that is an image of a registry. */
int sg_build_pull(struct sg_manager *m, const struct sg_who *who, const char *name,
                  const char *const *tags, const struct sg_pull_spec *pull, struct sg_build **ret,
                  struct sg_err *err);
/* SG_CONFLICT: it is not being built. */
int sg_build_cancel(struct sg_manager *m, const struct sg_who *who, struct sg_build *b,
                    struct sg_err *err);
/* Calls back at the next change of its log or state, once; or when it is forgotten. */
struct sg_build_watch {
    void (*changed)(struct sg_build_watch *w);
    struct sg_build_watch *next, **link; /* build.c's own; link NULL: it is on no list */
};
void sg_build_watch(struct sg_build *b, struct sg_build_watch *w);
void sg_build_unwatch(struct sg_build_watch *w);

/* ---- the manager's own ---- */

void sg_builds_end(struct sg_manager *m); /* sg_manager_free(): after all answers have come */

/* What a template reference leads to. Returns owned texts; *ret_snapshot NULL: none. */
struct sg_ground {
    char *base, *snapshot;
    struct sg_traits traits;
};
int sg_ground_find(struct sg_manager *m, const struct sg_who *who, enum sg_from kind,
                   const char *ref, struct sg_ground *ret, struct sg_err *err);
void sg_ground_done(struct sg_ground *g);

/* ---- layer.c ---- */

struct sg_snapshot *sg_layer_find(struct sg_manager *m, const struct sg_org *org, const char *key);
/* Nothing stands on it: no good build, no build under way, no sandbox. */
bool sg_layer_is_free(const struct sg_manager *m, const struct sg_snapshot *t);
/* Removes layers that no build needs and that were not used for long, or are too many. */
void sg_layers_trim(struct sg_manager *m);
void sg_layers_forget_org(struct sg_manager *m, const struct sg_org *org);

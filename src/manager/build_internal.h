/* SPDX-License-Identifier: Apache-2.0 */
/* A build that is under way: build.c drives it, build_step.c does one step. */
#pragma once

#include "base/arena.h"
#include "manager/build.h"
#include "manager/manager_internal.h"

struct sg_run;

struct sg_stage_made {
    struct sg_ground at;    /* so far: base, layer, traits */
    struct sg_traits below; /* of what it stands on */
    uint64_t stamp;         /* of its base, as it was when the build began; 0: not known */
    char key[65];
    bool is_needed;
};

struct sg_building {
    struct sg_manager *m;
    struct sg_build *build;
    struct sg_org *org;
    struct sg_arena arena; /* holds the spec */
    struct sg_build_spec spec;
    struct sg_policy network;
    struct sg_stage_made made[SG_STAGES_MAX];
    unsigned stage;
    size_t step;       /* of that stage */
    char label[12];    /* of the step, for the log */
    char next_key[65]; /* of the step under way */
    bool misses;       /* the cache is not asked any more */
    bool is_cancelled;
    struct sg_err why;                              /* of the cancellation */
    char box[SG_ID_LEN + 1], source[SG_ID_LEN + 1]; /* our sandboxes; "": none */
    struct sg_run *run;
    struct sg_image_job *job; /* fetches an image, and holds it */
    unsigned open;            /* answers of a copy to come, or on bases */
    struct sg_err copy_err, put_err;
    char home[256]; /* of a user: what a step found out */
    struct sg_timer deadline;
    struct sg_later go;
    void (*then)(struct sg_building *b);
};

enum { SG_BUILD_SPEC_MAX = 16 << 20 };

/* build_spec.c: a copy in the arena, checked. */
int sg_build_spec_copy(struct sg_arena *a, const struct sg_build_spec *from,
                       struct sg_build_spec *ret, struct sg_err *err);
void sg_build_tell(struct sg_build *b); /* who watches it */

/* build.c */
struct sg_sandbox *sg_building_box(struct sg_building *b, const char *id, struct sg_err *err);
void sg_building_log(struct sg_building *b, enum sg_build_level level, const char *text);
void sg_building_step_done(struct sg_building *b, const struct sg_err *err);
/* A sandbox of ours with these files, then `made`. */
int sg_building_make_box(struct sg_building *b, const struct sg_ground *g, char *ret_id,
                         sg_sandbox_cb *made, struct sg_err *err);
static inline const struct sg_step *sg_building_step(const struct sg_building *b)
{
    return &b->spec.stages[b->stage].steps[b->step];
}

void sg_building_fail(struct sg_building *b, const struct sg_err *err);
void sg_building_set_out(struct sg_building *b); /* the grounds are known */

/* build_pull.c: fetches the image, then sg_building_set_out(). */
bool sg_building_is_unpinned(struct sg_building *b); /* if so, its layer has next_key */
int sg_building_pull(struct sg_building *b, const struct sg_pull_spec *pull, struct sg_err *err);

/* build_step.c: does the step in hand in the box, then sg_building_step_done(). */
void sg_building_do(struct sg_building *b, struct sg_sandbox *s);
/* Those that need no sandbox; false: it is not one of them. */
bool sg_building_do_pure(struct sg_building *b);

/* build_key.c */
void sg_building_first_key(struct sg_building *b, unsigned stage);
void sg_building_next_key(struct sg_building *b); /* of the step in hand, into next_key */
void sg_building_proof(struct sg_building *b, char ret[65]);

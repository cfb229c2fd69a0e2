/* SPDX-License-Identifier: Apache-2.0 */
/* A job: a question of the launcher, answered after a few calls of the Engine. For work.c, and
 * work_image.c, which has those about images. */
#pragma once

#include "base/arena.h"
#include "keeper/docker.h"
#include "keeper/keeper.h"

enum { SG_CALL_MS = 120000, SG_PULL_MS = 900000, SG_JOB_NAMES_MAX = 4096 };
static const struct sg_str SG_NOTHING = { "", 0 };

struct sg_keeper_job {
    struct sg_keeper *keeper;
    struct sg_keeper_job *next, **link; /* in the keeper's list */
    uint32_t id;
    char *name, *image, *dir; /* owned */
    struct sg_docker_spec spec;
    struct sg_docker_image is;
    struct sg_arena arena; /* of what was read */
    bool has_pulled, is_ours;
    unsigned tries;
    struct sg_timer timer;
    struct sg_err err; /* what is told when it is cleaned up */
};

struct sg_keeper_job *sg_job_new(struct sg_keeper *k, const struct sg_msg *m);
void sg_job_free(struct sg_keeper_job *j); /* it was answered */
void sg_job_fail(struct sg_keeper_job *j, const struct sg_err *err);
void sg_job_call(struct sg_keeper_job *j, const char *method, const char *path, struct sg_str body,
                 uint64_t timeout_ms, sg_http_done *done);
/* The error of a call that got no answer, or not the one that was hoped for. */
void sg_job_explain(const struct sg_keeper_job *j, enum sg_kind kind, const char *what,
                    unsigned status, struct sg_str body, const struct sg_err *err,
                    struct sg_err *ret);

/* ---- work_image.c ---- */

/* PATH with a filter: what bears our label. Returns owned. */
char *sg_job_path_of_ours(const struct sg_keeper_job *j, const char *path);
/* K_LISTED with what `read` finds in an answer. */
void sg_job_answer_names(struct sg_keeper_job *j, const char *what,
                         int (*read)(struct sg_str body, struct sg_arena *a,
                                     void (*each)(void *arg, const char *name), void *arg,
                                     struct sg_err *err),
                         unsigned status, struct sg_str body, const struct sg_err *err);

void sg_work_import(struct sg_keeper *k, const struct sg_msg *m);
void sg_work_tag(struct sg_keeper *k, const struct sg_msg *m);
void sg_work_forget(struct sg_keeper *k, const struct sg_msg *m);
void sg_work_images(struct sg_keeper *k, const struct sg_msg *m);

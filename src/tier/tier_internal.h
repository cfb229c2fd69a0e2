/* SPDX-License-Identifier: Apache-2.0 */
/* A question to the launcher, for the files of this folder: tier.c says how it is asked. */
#pragma once

#include "base/buf.h"
#include "tier/tier.h"

enum { NAME_MAX_BYTES = 256 };

struct question {
    struct question *next, **link;
    struct sg_tier *tier;
    enum sg_msg_type type, expected;
    char sandbox[SG_CTL_MAX_TAG + 1];
    char template[NAME_MAX_BYTES];
    struct sg_tier_limits limits;
    enum sg_l_tier kind;
    uint64_t cursor;
    char snapshot[SG_CTL_MAX_TAG + 1];
    uint32_t flags;
    bool is_on;
    char *path; /* owned; of a mount */
    bool is_read_only;
    struct sg_buf packed;         /* of the next */
    struct sg_texts mounts;       /* of a create */
    int fds[SG_L_IMAGE_FD_COUNT]; /* owned; of an image */
    unsigned fd_count;
    sg_tier_answer *cb;
    void *arg;
    struct sg_err err; /* of a refused one */
};

/* Returns owned; sg_tier_send() takes it. */
struct question *sg_tier_question(struct sg_tier *t, enum sg_msg_type type, const char *sandbox,
                                  sg_tier_answer *cb, void *arg);
void sg_tier_send(struct question *q);

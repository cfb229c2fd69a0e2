/* SPDX-License-Identifier: Apache-2.0 */
/* sandglass-keeper as the launcher has it: kept running (child.h) where the settings name a Docker
 * Engine, and asked to make and remove containers.
 *
 * P1. Every question is answered once, from the loop: by the keeper, or, when that is gone, with
 *     SG_UNAVAILABLE.
 * P2. Whenever there is an Engine (again), containers of ours that belong to no box are removed:
 *     what an earlier launcher left, and what could not be removed while there was none. */
#pragma once

#include <stdbool.h>

#include "ctl/chan.h"
#include "engine/spec.h"
#include "launcher/child.h"

struct sg_launcher;
struct sg_question;

struct sg_keeper_link {
    struct sg_child child;
    char *program; /* owned; NULL: there is none */
    struct sg_io io;
    struct sg_packet packet;
    struct sg_question *questions; /* owned: asked, and not answered */
    uint32_t last_id;
    bool is_up;    /* there is an Engine */
    char why[240]; /* there is none: the reason */
};

/* `m` NULL with `err`. It ends with the call. */
typedef void sg_keeper_answer(void *arg, const struct sg_msg *m, const struct sg_err *err);

int sg_keeper_start(struct sg_launcher *l, struct sg_err *err);
void sg_keeper_stop(struct sg_launcher *l);
void sg_keeper_done(struct sg_launcher *l); /* no box is left */

void sg_keeper_ask(struct sg_launcher *l, struct sg_msg *m, sg_keeper_answer *done, void *arg);
/* The same, with a descriptor, borrowed. */
void sg_keeper_ask_with(struct sg_launcher *l, struct sg_msg *m, int fd, sg_keeper_answer *done,
                        void *arg);
/* Whoever asked with `arg` is not to be told. */
void sg_keeper_forget(struct sg_launcher *l, const void *arg);

/* SPDX-License-Identifier: Apache-2.0 */
/* sandglass-keeper: has the socket of a Docker Engine, so that nobody else of the service must.
 *
 * Whoever may speak to an Engine is as good as root on its machine. So this process does nothing
 * else: it takes a closed table of typed messages from the launcher and turns each into calls of
 * the Engine; no path, image or option comes from anybody but the launcher, and none is passed on
 * that the table does not name.
 *
 *     main.c     settings, leaving all rights but that socket
 *     keeper.c   messages from and to the launcher, and whether the Engine is there
 *     work.c     a message as a sequence of calls       docker.c   what the calls say
 *     http.c     libcurl on the loop
 *
 * E1. A question is answered once; what was made by halves is removed before it is answered.
 * E2. The Engine may go at any time: then every open question fails with SG_UNAVAILABLE, and the
 *     launcher is told when it is back. Nothing is remembered here across that. */
#pragma once

#include <stdbool.h>

#include "ctl/chan.h"
#include "keeper/http.h"
#include "loop/loop.h"

struct sg_keeper_options {
    int launcher_fd;
    const char *socket_path; /* as we see it */
    const char *shown;       /* as the settings name it */
    const char *service;     /* label of our containers: the run directory */
    bool may_pull;
    uint64_t user_processes; /* that a user may have here; 0: any number */
};

struct sg_keeper {
    struct sg_loop *loop;
    struct sg_keeper_options o;
    struct sg_http *http;
    struct sg_io io; /* the launcher */
    struct sg_packet packet;
    struct sg_timer timer; /* looks whether the Engine is there */
    bool has_told, is_up, is_podman;
    struct sg_keeper_job *jobs; /* owned: questions that are not answered yet */
    struct sg_err failure;      /* what ended us */
};

/* Borrows `o`; takes the launcher's descriptor. Returns owned. */
struct sg_keeper *sg_keeper_new(struct sg_loop *l, const struct sg_keeper_options *o,
                                struct sg_err *err);
void sg_keeper_free(struct sg_keeper *k);

/* ---- work.c ---- */

/* Answers the question, now or later. */
void sg_keeper_work(struct sg_keeper *k, const struct sg_msg *m);
/* After the calls: nobody waits any more. */
void sg_keeper_drop_jobs(struct sg_keeper *k);

/* ---- keeper.c, for work.c ---- */

void sg_keeper_send(struct sg_keeper *k, const struct sg_msg *m);
void sg_keeper_fail(struct sg_keeper *k, uint32_t id, const struct sg_err *err);
/* A call said that nobody is there. */
void sg_keeper_lost_engine(struct sg_keeper *k, const struct sg_err *err);

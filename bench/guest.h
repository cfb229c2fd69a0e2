/* SPDX-License-Identifier: Apache-2.0 */
/* A cell driven without the command line: the shortest conversation that runs a program in it. */
#pragma once

#include "cli/client.h"
#include "engine/cell.h"

struct sg_guest {
    struct sg_cell *cell; /* owned */
    struct sg_client client;
    struct sg_packet packet;
};

struct sg_guest_job {
    const struct sg_cell_spec *spec;
    struct sg_guest *guest; /* a live one; NULL: each run makes its own */
    char *const *argv;
    char *const *env;
    const char *user, *workdir;
    struct sg_buf *output; /* what it wrote; NULL: nobody wants it */
};

/* A cell whose pid 1 runs. */
int sg_guest_open(struct sg_guest *g, const struct sg_cell_spec *spec, struct sg_err *err);
void sg_guest_close(struct sg_guest *g); /* also of one that failed to open */

/* Both fit sg_entrant; anything but exit code 0 is an error. The time is until the end of output
 * and the news of the exit. sg_guest_run_new() makes a cell first, and destroys it untimed. */
int sg_guest_run_live(void *job, uint64_t *ret_ns, struct sg_err *err);
int sg_guest_run_new(void *job, uint64_t *ret_ns, struct sg_err *err);

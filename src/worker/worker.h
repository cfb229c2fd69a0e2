/* SPDX-License-Identifier: Apache-2.0 */
/* How gate, keeper and exporter begin and end: each is started by the launcher with one socket, as
 * descriptor 3, reads the settings, and does its own work. */
#pragma once

#include "base/err.h"
#include "loop/loop.h"

struct sg_config;

enum { SG_WORKER_FD = 3 };
enum { SG_WORKER_EXIT_SETTINGS = 2 }; /* they are wrong: another one would say the same */

/* The whole of main(). `run` is called with SIGPIPE ignored and no other descriptor open. */
int sg_worker_main(const char *name, int (*run)(const struct sg_config *c, struct sg_err *err));

/* One that ends with SIGTERM. INT and HUP are the launcher's to judge. NULL: see `err`. */
struct sg_loop *sg_worker_loop(struct sg_err *err);

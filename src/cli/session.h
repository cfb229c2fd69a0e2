/* SPDX-License-Identifier: Apache-2.0 */
/* A command with a terminal, over the service's WebSocket: our terminal is raw meanwhile. */
#pragma once

#include "cli/api.h"

/* `start` is the body of the exec. Returns the exit code of the command; -1 when it did not start
 * (err->sys tells a missing program from one that cannot run) or the connection broke. */
int sg_session_run(struct sg_api *a, const char *sandbox, const struct sg_buf *start,
                   struct sg_err *err);

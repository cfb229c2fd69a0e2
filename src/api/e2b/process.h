/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of process.Process share. */
#pragma once

#include "api/e2b/e2b.h"

/* The exec that the request's selector names (pid inside the sandbox, or tag), or NULL with
 * SG_NOT_FOUND. `may_have_ended`: also one that ended a moment ago. */
struct sg_exec *sg_envd_selected(struct sg_call *c, struct sg_sandbox *s, bool may_have_ended,
                                 struct sg_err *err);

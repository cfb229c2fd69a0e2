/* SPDX-License-Identifier: Apache-2.0 */
/* Port 49999: what other servers run inside the sandbox to execute code is part of this door, for
 * sandboxes whose template has kernels. In others the port is a port. */
#pragma once

#include "api/e2b/e2b.h"

enum { SG_E2B_CODE_PORT = 49999 };

/* The sandbox runs, and this caller may use its ports. The body is still to come. */
int sg_e2b_code(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err);

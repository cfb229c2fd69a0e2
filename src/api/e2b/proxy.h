/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of a sandbox other than envd's: a connection to what listens inside. */
#pragma once

#include "api/e2b/e2b.h"

/* Whether the request may pass: a sandbox whose traffic is private wants its token. False: it was
 * refused, and the call has ended. */
bool sg_e2b_proxy_may(struct sg_call *c);
int sg_e2b_proxy(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err);

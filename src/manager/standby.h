/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that wait for a create with the start command of their template running.
 *
 * S1. One belongs to the organisation whose template it is, and to nobody else: what others see of
 * a public template they start themselves. S2. Until it is claimed nothing of a caller is in it: no
 * environment but the template's, no volume, no credential, no network. Its row says that it is
 * ours, so that the next start removes it; no quota and no bill has it. S3. It counts as there once
 * the ready command has succeeded, and for as long as the start command has not failed. One that
 * fails is tried again after a pause, which grows. S4. A claim writes the caller's row before the
 * caller is told, and sets limits and network with it. What cannot be claimed becomes a create from
 * nothing, under the same id. */
#pragma once

#include "manager/manager_internal.h"

void sg_standby_start(struct sg_manager *m); /* looks after them from now on */
void sg_standby_free(struct sg_manager *m);
void sg_standby_soon(struct sg_manager *m); /* templates have changed */

/* One of this build, for a create; it is not waiting any more. NULL: there is none. */
struct sg_sandbox *sg_standby_take(struct sg_manager *m, const struct sg_org *org,
                                   const char *build, enum sg_wall wall);
/* Makes it the caller's: the operation of a create begins. */
void sg_standby_claim(struct sg_sandbox *s, const struct sg_sandbox_limits *limits);

struct sg_standby_counts {
    unsigned wanted, ready, starting, failing;
    uint64_t taken, failures; /* since this daemon started */
    const char *why;          /* of one that fails; borrowed until the loop runs on; or NULL */
};
/* `org` NULL: of all. */
struct sg_standby_counts sg_standby_counts(struct sg_manager *m, const struct sg_org *org);

/* SPDX-License-Identifier: Apache-2.0 */
/* The tiers of this version: launcher/holder.h. */
#include "launcher/holder.h"

#include "launcher/launcher.h"
#include "base/banned.h"

/* One that is there now and then counts: who asks meanwhile is told that it is gone. */
static const char *lacks_engine(const struct sg_launcher *l)
{
    return l->keeper.program    ? NULL
           : l->set.is_rootless ? "the service runs without root"
                                : "no Docker Engine is configured (docker.socket)";
}

const struct sg_tier_row sg_tiers[SG_L_TIER_COUNT] = {
    [SG_L_TIER_CELL] = { "cell", &sg_boxes, NULL },
    [SG_L_TIER_GVISOR] = { "gvisor", &sg_boxes, sg_oci_lacks },
    [SG_L_TIER_DOCKER] = { "docker", &sg_boxes, lacks_engine },
};

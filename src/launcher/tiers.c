/* SPDX-License-Identifier: Apache-2.0 */
/* The tiers of this version: launcher/holder.h. */
#include "launcher/holder.h"

#include "base/banned.h"

const struct sg_tier_row sg_tiers[SG_L_TIER_COUNT] = {
    [SG_L_TIER_CELL] = { "cell", &sg_boxes, NULL },
    [SG_L_TIER_GVISOR] = { "gvisor", NULL, NULL },
    [SG_L_TIER_DOCKER] = { "docker", NULL, NULL },
};

/* SPDX-License-Identifier: Apache-2.0 */
/* The probes of `sandglass doctor` that use the engine itself: ids, cgroups, and one sandbox from
 * start to end. */
#pragma once

#include "sys/probe.h"

struct sg_config;

extern const struct sg_probe sg_cell_probes[];
extern const size_t sg_cell_probe_count;

/* doctor_storage.c: the storage pool, and pauses. */
extern const struct sg_probe sg_storage_probes[];
extern const size_t sg_storage_probe_count;

/* doctor_tiers.c: the tier gvisor, as far as it is configured. */
void sg_tier_probe(struct sg_host *h, const struct sg_probe_env *env, const struct sg_config *c);

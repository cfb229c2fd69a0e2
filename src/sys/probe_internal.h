/* SPDX-License-Identifier: Apache-2.0 */
/* The probes themselves, by the file that has them; probe_table.c lists them as rows. */
#pragma once

#include "sys/probe.h"

typedef void sg_probe_fn(const struct sg_probe_env *env, struct sg_finding *ret);

/* The setting that forbids user namespaces here, as the fix. */
void sg_probe_explain_userns(struct sg_finding *f);

/* probe_calls.c */
sg_probe_fn sg_probe_release, sg_probe_machine, sg_probe_clone3, sg_probe_pidfd,
    sg_probe_close_range, sg_probe_openat2, sg_probe_memfd, sg_probe_seccomp, sg_probe_landlock,
    sg_probe_core_pattern, sg_probe_kvm, sg_probe_newuidmap, sg_probe_runsc;

/* probe_mounts.c */
sg_probe_fn sg_probe_userns, sg_probe_namespace, sg_probe_mount_api, sg_probe_tmpfs,
    sg_probe_overlay, sg_probe_proc, sg_probe_devpts, sg_probe_devices;

/* SPDX-License-Identifier: Apache-2.0 */
/* Test switches: each takes one protection away, or forces a fallback, so that a test can show that
 * it fails without the protection, and that the fallback works.
 *
 * They are read from SANDGLASS_TEST_SWITCHES (names separated by commas) and only in builds made
 * with -Dtest_switches=true; in any other build every switch is off and the name is not even
 * looked up. */
#pragma once

#include <stdbool.h>

enum sg_switch {
    SG_SWITCH_OVERLAY_BY_PATH, /* as on kernels before 6.13 */
    SG_SWITCH_NO_SECCOMP,
    SG_SWITCH_NO_USERNS, /* root inside is root outside */
    SG_SWITCH_NO_MASKS,
    SG_SWITCH_NO_PIDS_LIMIT,
    SG_SWITCH_NO_MEMORY_LIMIT,
    SG_SWITCH_NO_CPU_LIMIT,
    SG_SWITCH_NO_DISK_LIMIT,
    SG_SWITCH_NO_CAP_BOUND,
    SG_SWITCH_NO_NO_NEW_PRIVS,
    SG_SWITCH_NO_NODEV,
    SG_SWITCH_NO_NOSUID,
    SG_SWITCH_NO_READ_ONLY, /* binds that should be */
    SG_SWITCH_NO_RLIMITS,
    SG_SWITCH_NO_TERMINAL_LIMIT,
    SG_SWITCH_NO_PIDNS,
    SG_SWITCH_NO_IPCNS,
    SG_SWITCH_NO_NETNS,
    SG_SWITCH_NO_CGROUPNS,
    SG_SWITCH_KEEP_OLD_ROOT,    /* it stays stacked on the new one */
    SG_SWITCH_KEEP_DESCRIPTORS, /* of our caller */
    SG_SWITCH_COUNT,
};

bool sg_switch_is_on(enum sg_switch s);

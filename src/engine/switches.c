/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/switches.h"

#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

#ifdef SG_TEST_SWITCHES
static const char *const names[SG_SWITCH_COUNT] = {
    [SG_SWITCH_OVERLAY_BY_PATH] = "overlay-by-path",
    [SG_SWITCH_NO_SECCOMP] = "no-seccomp",
    [SG_SWITCH_NO_USERNS] = "no-userns",
    [SG_SWITCH_NO_MASKS] = "no-masks",
    [SG_SWITCH_NO_PIDS_LIMIT] = "no-pids-limit",
    [SG_SWITCH_NO_MEMORY_LIMIT] = "no-memory-limit",
    [SG_SWITCH_NO_CPU_LIMIT] = "no-cpu-limit",
    [SG_SWITCH_NO_DISK_LIMIT] = "no-disk-limit",
    [SG_SWITCH_NO_CAP_BOUND] = "no-cap-bound",
    [SG_SWITCH_NO_NO_NEW_PRIVS] = "no-no-new-privs",
    [SG_SWITCH_NO_NODEV] = "no-nodev",
    [SG_SWITCH_NO_NOSUID] = "no-nosuid",
    [SG_SWITCH_NO_READ_ONLY] = "no-read-only",
    [SG_SWITCH_NO_RLIMITS] = "no-rlimits",
    [SG_SWITCH_NO_TERMINAL_LIMIT] = "no-terminal-limit",
    [SG_SWITCH_NO_PIDNS] = "no-pidns",
    [SG_SWITCH_NO_IPCNS] = "no-ipcns",
    [SG_SWITCH_NO_NETNS] = "no-netns",
    [SG_SWITCH_NO_CGROUPNS] = "no-cgroupns",
    [SG_SWITCH_KEEP_OLD_ROOT] = "keep-old-root",
    [SG_SWITCH_KEEP_DESCRIPTORS] = "keep-descriptors",
};

bool sg_switch_is_on(enum sg_switch s)
{
    const char *list = getenv("SANDGLASS_TEST_SWITCHES");
    const size_t n = strlen(names[s]);
    for (const char *p = list; p && *p;) {
        size_t len = strcspn(p, ",");
        if (len == n && memcmp(p, names[s], n) == 0)
            return true;
        p += len + (p[len] == ',');
    }
    return false;
}
#else
bool sg_switch_is_on(enum sg_switch s)
{
    (void)s;
    return false;
}
#endif

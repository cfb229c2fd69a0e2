/* SPDX-License-Identifier: Apache-2.0 */
/* A process that only exists, so that its new user namespace can be given a map and a descriptor.
 * Shares its parent's memory: raw system calls only. */
#include <linux/futex.h>
#include <sys/prctl.h>
#include <time.h>

#include "engine/hold.h"
#include "sys/raw.h"
#include "base/banned.h"

void sg_hold_child(void *word)
{
    enum { SIG_KILL = 9 };
    const struct timespec patience = { .tv_sec = SG_HOLD_PATIENCE_S };
    const uint32_t parent = *(const uint32_t *)word;
    (void)sg_raw(SYS_prctl, PR_SET_PDEATHSIG, SIG_KILL, 0, 0, 0);
    if (sg_raw(SYS_getppid) == (long)parent) /* else it died before it could take us along */
        (void)sg_raw(SYS_futex, word, FUTEX_WAIT_PRIVATE, parent, &patience, 0, 0);
    sg_raw_exit(0);
}

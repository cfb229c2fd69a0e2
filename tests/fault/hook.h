/* SPDX-License-Identifier: Apache-2.0 */
/* Put before every file of the engine that is built for this suite: sys/raw.h asks here first. */
#pragma once

/* 0, or the negative errno with which this call is to fail. */
long fault_raw(long nr, long a, long b, long c);

#define SG_RAW_HOOK(nr, a, b, c)                                                                   \
    do {                                                                                           \
        const long fault_ = fault_raw(nr, a, b, c);                                                \
        if (fault_)                                                                                \
            return fault_;                                                                         \
    } while (0)

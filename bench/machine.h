/* SPDX-License-Identifier: Apache-2.0 */
/* On what the numbers were taken. */
#pragma once

#include <stdint.h>

struct sg_machine {
    char cpu[96], kernel[96];
    const char *cgroups; /* the layout; set by the caller, who may hide a part of it */
    unsigned cores;
    uint64_t mem_mib;
    double load; /* of the last minute, at the start */
};

void sg_machine_look(struct sg_machine *m);
uint64_t sg_machine_available_kib(void); /* MemAvailable */

/* SPDX-License-Identifier: Apache-2.0 */
/* Tiers that are somebody else's programs, each against that program by itself. */
#include "service.h"
#include "base/banned.h"

int sg_case_tiers(const struct sg_bench *b, struct sg_err *err)
{
    struct sg_service s;
    if (sg_service_find(b, &s, err) < 0)
        return -1;
    return sg_bench_gvisor(b, &s, err) < 0 ? -1 : sg_bench_docker(b, &s, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/demand.h"

#include "base/banned.h"

#define S UINT64_C(1000000000)

static const uint64_t WINDOW_NS = 1 * S, KEPT_NS = 120 * S, FALLS_NS = 30 * S;

void sg_demand_init(struct sg_demand *d, unsigned least, unsigned most)
{
    *d =
        (struct sg_demand) { .least = least, .most = most > least ? most : least, .wanted = least };
}

void sg_demand_take(struct sg_demand *d, uint64_t now_ns)
{
    if (now_ns - d->since_ns > WINDOW_NS) {
        d->since_ns = now_ns;
        d->taken = 0;
    }
    d->taken++;
    if (d->taken > d->wanted && d->wanted < d->most)
        d->wanted++;
    if (d->taken > d->wanted / 2)
        d->until_ns = now_ns + KEPT_NS;
}

void sg_demand_look(struct sg_demand *d, uint64_t now_ns)
{
    if (d->wanted == d->least || now_ns < d->until_ns)
        return;
    d->wanted = d->wanted / 2 > d->least ? d->wanted / 2 : d->least;
    d->until_ns = now_ns + FALLS_NS;
}

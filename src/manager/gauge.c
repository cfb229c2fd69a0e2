/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/gauge.h"

#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/parse.h"
#include "manager/manager_internal.h"
#include "tier/tier.h"

#include "base/banned.h"

#define NS_PER_US 1000u

struct sg_gauge {
    int fds[SG_L_GAUGE_COUNT];
    bool is_asked; /* an answer will come */
    bool is_left;  /* and is for nobody */
};

static void release(struct sg_gauge *g)
{
    for (unsigned i = 0; i < SG_L_GAUGE_COUNT; i++)
        sg_close_p(&g->fds[i]);
    free(g);
}

static void answered(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_gauge *g = arg;

    g->is_asked = false;
    for (unsigned i = 0; !err && p && i < SG_L_GAUGE_COUNT; i++)
        g->fds[i] = sg_packet_take_fd(p, i);
    if (g->is_left)
        release(g);
}

struct sg_gauge *sg_gauge_open(struct sg_sandbox *s)
{
    struct sg_gauge *g = sg_new(struct sg_gauge);

    *g = (struct sg_gauge) { .fds = { -1, -1, -1 }, .is_asked = true };
    sg_tier_gauge(s->manager->tier, s->id.s, answered, g);
    return g;
}

void sg_gauge_close(struct sg_gauge *g)
{
    if (!g)
        return;
    g->is_left = true;
    if (!g->is_asked)
        release(g);
}

/* A number, or the one behind "usage_usec" (in a thousand of these). */
static bool read_one(int fd, uint64_t *ret)
{
    static const char key[] = "usage_usec ";
    char text[1024];
    const ssize_t got = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
    if (got <= 0)
        return false;
    text[got] = '\0';
    const char *at = strstr(text, key);
    const char *number = at ? at + sizeof key - 1 : text;
    if (sg_parse_u64((struct sg_str) { number, strcspn(number, "\n") }, 0, UINT64_MAX / NS_PER_US,
                     ret, NULL) < 0)
        return false;
    *ret *= at ? NS_PER_US : 1;
    return true;
}

bool sg_gauge_read(const struct sg_gauge *g, struct sg_stats *ret)
{
    *ret = (struct sg_stats) { .disk_bytes = UINT64_MAX, .disk_used_bytes = UINT64_MAX };
    return g && read_one(g->fds[SG_L_GAUGE_CPU], &ret->cpu_ns) &&
           read_one(g->fds[SG_L_GAUGE_MEM], &ret->mem_bytes) &&
           read_one(g->fds[SG_L_GAUGE_MEM_PEAK], &ret->mem_peak_bytes);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/reclaim.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/auto.h"
#include "engine/cgroup.h"
#include "sys/kfile.h"
#include "base/banned.h"

/* A step is what a kill may have to wait for: a few milliseconds of a slow disk. */
#define STEP_BYTES  (UINT64_C(4) << 20)
#define LEAST_BYTES (UINT64_C(64) << 10)
enum { IDLE_STEPS = 3, IDLE_PART = 64, MIB_SHIFT = 20 };

/* ---- what there is ---- */

/* Cells are made beside each other: what their parent has, they have. */
static bool has_file(const struct sg_cgroup *g)
{
    char path[SG_CGROUP_PATH_MAX + 32];
    (void)snprintf(path, sizeof path, "%s", g->dirs[0]);
    char *slash = strrchr(path, '/');
    if (!slash)
        return false;
    (void)snprintf(slash, sizeof path - (size_t)(slash - path), "/memory.reclaim");
    return access(path, F_OK) == 0;
}

static const char *why_not(void)
{
    const struct sg_ids any = { .lock_fd = -1 };
    struct sg_cgroup g;
    if (!sg_cgroup_is_v2())
        return "cgroup v1 has no memory.reclaim";
    sg_cgroup_init_kept(&g, &any);
    if (!g.dirs[0][0])
        return "no cgroup is to be had here";
    return has_file(&g) ? NULL : "no memory.reclaim here (the memory controller, Linux 5.19)";
}

void sg_reclaim_probe(struct sg_reclaim_host *ret)
{
    struct sysinfo info = { 0 };
    *ret = (struct sg_reclaim_host) { .way = SG_RECLAIM_NONE, .why = why_not() };
    if (sysinfo(&info) == 0)
        ret->swap_bytes = (uint64_t)info.totalswap * info.mem_unit;
    if (ret->why)
        return;
    ret->way = ret->swap_bytes ? SG_RECLAIM_ALL : SG_RECLAIM_FILES;
    ret->why = ret->swap_bytes ? "" : "no swap";
}

void sg_reclaim_describe(const struct sg_reclaim_host *h, char *ret, size_t cap)
{
    switch (h->way) {
    case SG_RECLAIM_ALL:
        (void)snprintf(ret, cap, "reclaimed (swap %" PRIu64 " MiB)", h->swap_bytes >> MIB_SHIFT);
        return;
    case SG_RECLAIM_FILES:
        (void)snprintf(ret, cap, "file pages only: %s", h->why);
        return;
    case SG_RECLAIM_NONE:
    case SG_RECLAIM_WAY_COUNT:
        break;
    }
    (void)snprintf(ret, cap, "kept: %s", h->why);
}

/* ---- steps ---- */

/* Twice what there is: pages that were used of late go only when they are looked at again. */
void sg_reclaim_begin(struct sg_reclaim *r, uint64_t now_bytes)
{
    *r = (struct sg_reclaim) { .most_bytes =
                                   now_bytes > UINT64_MAX / 2 ? UINT64_MAX : 2 * now_bytes };
}

uint64_t sg_reclaim_next(const struct sg_reclaim *r, uint64_t now_bytes)
{
    if (now_bytes < LEAST_BYTES || r->idle >= IDLE_STEPS || r->asked_bytes >= r->most_bytes)
        return 0;
    return now_bytes < STEP_BYTES ? now_bytes : STEP_BYTES;
}

void sg_reclaim_note(struct sg_reclaim *r, uint64_t asked, uint64_t before, uint64_t after)
{
    r->asked_bytes += asked;
    r->idle = before > after && before - after > asked / IDLE_PART ? 0 : r->idle + 1;
}

/* EAGAIN: less went than was asked for, which memory.current tells better. */
static bool is_worth_more(const struct sg_err *err)
{
    return err->sys == EAGAIN || err->sys == EINTR;
}

void sg_reclaim_run(int dir_fd)
{
    static const char current[] = "memory.current";
    struct sg_reclaim r;
    uint64_t now, after, step;
    if (sg_file_read_u64(dir_fd, current, &now, NULL) < 0)
        return;
    sg_reclaim_begin(&r, now);
    while ((step = sg_reclaim_next(&r, now))) {
        struct sg_err err = { 0 };
        char text[24];
        (void)snprintf(text, sizeof text, "%" PRIu64, step);
        if (sg_file_write(dir_fd, "memory.reclaim", text, &err) < 0 && !is_worth_more(&err))
            return;
        if (sg_file_read_u64(dir_fd, current, &after, NULL) < 0)
            return;
        sg_reclaim_note(&r, step, now, after);
        now = after;
    }
}

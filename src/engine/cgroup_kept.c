/* SPDX-License-Identifier: Apache-2.0 */
/* The cgroups of a cell that is kept: changed, frozen and asked long after they were made, perhaps
 * by somebody else than their maker. A thousand cells must not mean thousands of descriptors, which
 * every clone would copy: a directory is opened for as long as a question takes. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "engine/cgroup_internal.h"
#include "sys/kfile.h"
#include "base/banned.h"

static const char *dir_of(const struct sg_cgroup *g, unsigned group)
{
    return g->dirs[g->is_v2 ? 0 : group];
}

/* -1 where there is none: then `err` is untouched. */
static int open_group(const struct sg_cgroup *g, unsigned group)
{
    const char *dir = dir_of(g, group);
    if (!*dir || (group < SG_CTRL_COUNT && g->missing & 1u << group))
        return -1;
    return open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* ---- limits ---- */

/* v1 refuses to go below what is in use; v2 would kill for it. */
static int check_memory_v2(int dir, uint64_t bytes, struct sg_err *err)
{
    uint64_t now;
    if (sg_file_read_u64(dir, "memory.current", &now, err) < 0)
        return -1;
    if (now > bytes)
        return sg_fail(err, SG_CONFLICT, "the sandbox uses more memory than the new limit");
    return 0;
}

static bool is_changed(enum sg_controller c, const struct sg_limits *a, const struct sg_limits *b)
{
    switch (c) {
    case SG_CTRL_MEMORY:
        return a->mem_bytes != b->mem_bytes;
    case SG_CTRL_CPU:
        return a->cpu_milli != b->cpu_milli;
    case SG_CTRL_PIDS:
        return a->pids != b->pids;
    case SG_CTRL_COUNT:
        break;
    }
    return false;
}

int sg_cgroup_relimit(const struct sg_cgroup *g, const struct sg_limits *was,
                      const struct sg_limits *l, struct sg_err *err)
{
    const bool is_growing = l->mem_bytes > was->mem_bytes;
    for (unsigned c = 0; c < SG_CTRL_COUNT; c++) {
        if (!is_changed(c, was, l) || g->missing & 1u << c)
            continue;
        sg_auto_fd dir = open_group(g, c);
        if (dir < 0)
            return sg_fail_sys(err, "open cgroup %s", sg_quote(dir_of(g, c)).s);
        if (c == SG_CTRL_MEMORY && g->is_v2 && !is_growing &&
            check_memory_v2(dir, l->mem_bytes, err) < 0)
            return -1;
        if (sg_cgroup_limit_one(g, c, dir, l, is_growing, err) < 0)
            return sg_wrap(err, "change the %s limit", sg_controller_name(c));
    }
    return 0;
}

void sg_cgroup_unthrottle(const struct sg_cgroup *g)
{
    sg_auto_fd dir = open_group(g, SG_CTRL_CPU);
    if (dir < 0)
        return;
    if (g->is_v2)
        (void)sg_file_write(dir, "cpu.max", "max", NULL);
    else
        (void)sg_file_write(dir, "cpu.cfs_quota_us", "-1", NULL);
}

/* ---- freezer ---- */

bool sg_cgroup_can_freeze(const struct sg_cgroup *g)
{
    sg_auto_fd dir = open_group(g, SG_GROUP_FREEZER);
    return dir >= 0 && faccessat(dir, g->is_v2 ? "cgroup.freeze" : "freezer.state", W_OK, 0) == 0;
}

int sg_cgroup_freeze(const struct sg_cgroup *g, bool is_frozen, struct sg_err *err)
{
    sg_auto_fd dir = open_group(g, SG_GROUP_FREEZER);
    if (dir < 0)
        return sg_fail(err, SG_UNSUPPORTED, "no freezer cgroup is to be had here");
    if (g->is_v2)
        return sg_file_write(dir, "cgroup.freeze", is_frozen ? "1" : "0", err);
    return sg_file_write(dir, "freezer.state", is_frozen ? "FROZEN" : "THAWED", err);
}

bool sg_cgroup_is_frozen(const struct sg_cgroup *g)
{
    sg_auto_fd dir = open_group(g, SG_GROUP_FREEZER);
    if (dir < 0)
        return false;
    uint64_t frozen = 0;
    if (g->is_v2)
        return sg_file_read_key(dir, "cgroup.events", "frozen", &frozen, NULL) == 0 && frozen == 1;
    char state[32];
    return sg_file_read(dir, "freezer.state", state, sizeof state, NULL) == 0 &&
           strcmp(state, "FROZEN\n") == 0;
}

/* ---- memory ---- */

int sg_cgroup_open_reclaim(const struct sg_cgroup *g, struct sg_err *err)
{
    sg_auto_fd dir = g->is_v2 ? open_group(g, SG_CTRL_MEMORY) : -1;
    if (dir < 0 || faccessat(dir, "memory.reclaim", W_OK, 0) < 0)
        return sg_fail(err, SG_UNSUPPORTED, "the kernel takes no memory of this sandbox");
    return sg_take_fd(&dir);
}

void sg_cgroup_set_swap(const struct sg_cgroup *g, uint64_t bytes)
{
    char text[24];
    sg_auto_fd dir = g->is_v2 ? open_group(g, SG_CTRL_MEMORY) : -1;
    (void)snprintf(text, sizeof text, "%" PRIu64, bytes);
    if (dir >= 0)
        (void)sg_file_write(dir, "memory.swap.max", text, NULL);
}

/* ---- use ---- */

static uint64_t read_now(int dir, const char *file)
{
    uint64_t v;
    return dir >= 0 && sg_file_read_u64(dir, file, &v, NULL) == 0 ? v : SG_UNKNOWN;
}

uint64_t sg_cgroup_memory(const struct sg_cgroup *g)
{
    sg_auto_fd dir = open_group(g, SG_CTRL_MEMORY);
    return read_now(dir, g->is_v2 ? "memory.current" : "memory.usage_in_bytes");
}

int sg_cgroup_use(const struct sg_cgroup *g, struct sg_usage *ret, struct sg_use_now *ret_now,
                  struct sg_err *err)
{
    struct sg_cgroup open = *g;
    for (unsigned c = 0; c < SG_GROUP_COUNT; c++) {
        open.join_fds[c] = -1;
        const bool tells = c < SG_CTRL_COUNT || (!g->is_v2 && c == SG_GROUP_CPUACCT);
        open.dir_fds[c] = tells ? open_group(g, c) : -1;
    }
    int result = sg_cgroup_usage(&open, ret, err);
    if (result == 0) {
        const int acct = open.dir_fds[SG_GROUP_CPUACCT], cpu = open.dir_fds[SG_CTRL_CPU];
        *ret_now = (struct sg_use_now) {
            .mem_bytes = read_now(open.dir_fds[SG_CTRL_MEMORY],
                                  g->is_v2 ? "memory.current" : "memory.usage_in_bytes"),
            .pids = read_now(open.dir_fds[SG_CTRL_PIDS], "pids.current"),
            .cpu_ns = g->is_v2 ? ret->cpu_ns : read_now(acct >= 0 ? acct : cpu, "cpuacct.usage"),
        };
    }
    sg_cgroup_done(&open);
    return result;
}

int sg_cgroup_gauges(const struct sg_cgroup *g, int ret[SG_L_GAUGE_COUNT], struct sg_err *err)
{
    static const struct {
        unsigned group[2]; /* v1, v2 */
        const char *file[2];
    } rows[SG_L_GAUGE_COUNT] = {
        [SG_L_GAUGE_CPU] = { { SG_GROUP_CPUACCT, SG_CTRL_CPU }, { "cpuacct.usage", "cpu.stat" } },
        [SG_L_GAUGE_MEM] = { { SG_CTRL_MEMORY, SG_CTRL_MEMORY },
                             { "memory.usage_in_bytes", "memory.current" } },
        [SG_L_GAUGE_MEM_PEAK] = { { SG_CTRL_MEMORY, SG_CTRL_MEMORY },
                                  { "memory.max_usage_in_bytes", "memory.peak" } },
    };
    for (unsigned i = 0; i < SG_L_GAUGE_COUNT; i++) {
        unsigned group = rows[i].group[g->is_v2];
        if (group == SG_GROUP_CPUACCT && !*dir_of(g, group))
            group = SG_CTRL_CPU; /* they are one hierarchy */
        sg_auto_fd dir = open_group(g, group);
        ret[i] = dir < 0 ? -1 : openat(dir, rows[i].file[g->is_v2], O_RDONLY | O_CLOEXEC);
        if (ret[i] >= 0)
            continue;
        while (i-- > 0)
            sg_drop_fd(&ret[i]);
        return sg_fail(err, SG_UNSUPPORTED, "the cgroups here do not tell what a sandbox uses");
    }
    return 0;
}

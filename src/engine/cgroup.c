/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/parse.h"
#include "base/str.h"
#include "engine/cgroup_internal.h"
#include "sys/kfile.h"
#include "base/banned.h"

#define CGROUP_ROOT "/sys/fs/cgroup"
#define PREFIX      "sandglass-"

static const char *const names[SG_GROUP_COUNT] = {
    [SG_CTRL_MEMORY] = "memory",    [SG_CTRL_CPU] = "cpu",          [SG_CTRL_PIDS] = "pids",
    [SG_GROUP_FREEZER] = "freezer", [SG_GROUP_CPUACCT] = "cpuacct",
};

const char *sg_controller_name(enum sg_controller c)
{
    return names[c];
}

/* ---- where ---- */

/* Does the comma-separated list hold the word? */
static bool list_has(const char *list, size_t n, const char *word)
{
    size_t word_n = strlen(word);
    for (const char *p = list; p < list + n;) {
        size_t len = 0;
        while (p + len < list + n && p[len] != ',')
            len++;
        if (len == word_n && memcmp(p, word, len) == 0)
            return true;
        p += len + 1;
    }
    return false;
}

void sg_cgroup_own_path(const char *table, const char *controller, char *ret, size_t cap)
{
    *ret = '\0';
    for (const char *line = table; *line;) {
        size_t n = strcspn(line, "\n");
        const char *list = memchr(line, ':', n);
        const char *path = list ? memchr(list + 1, ':', n - (size_t)(list + 1 - line)) : NULL;
        if (path) {
            size_t list_n = (size_t)(path - list - 1);
            bool is_it = controller ? list_has(list + 1, list_n, controller) : list_n == 0;
            size_t path_n = n - (size_t)(path + 1 - line);
            if (is_it && path_n > 1 && path_n < cap) { /* "/" needs no text */
                memcpy(ret, path + 1, path_n);
                ret[path_n] = '\0';
                return;
            }
        }
        line += n + (line[n] == '\n');
    }
}

/* The directory that will hold the cell's: our own cgroup where it can be seen (inside a container
 * it may not be), else the hierarchy's root. */
static bool parent_dir(const char *table, const char *controller, char *ret, size_t cap)
{
    char own[SG_CGROUP_PATH_MAX / 2];
    sg_cgroup_own_path(table, controller, own, sizeof own);
    const char *top = controller ? controller : "";
    int n = snprintf(ret, cap, CGROUP_ROOT "%s%s%s", *top ? "/" : "", top, own);
    if (n > 0 && (size_t)n < cap && access(ret, W_OK) == 0)
        return true;
    (void)snprintf(ret, cap, CGROUP_ROOT "%s%s", *top ? "/" : "", top);
    return access(ret, W_OK) == 0;
}

/* May cells live below this v2 cgroup? To be born in one of its children takes the right to write
 * its own process list, too. And one that holds processes cannot start to pass controllers on; only
 * the very root may, which alone has no type. */
static bool can_hold_cells(const char *dir)
{
    static const char *const written[] = { ".", "cgroup.procs", "cgroup.subtree_control" };
    sg_auto_fd fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    for (size_t i = 0; i < SG_COUNT(written); i++)
        if (faccessat(fd, written[i], W_OK, 0) < 0)
            return false;
    char text[256];
    return faccessat(fd, "cgroup.type", F_OK, 0) < 0 ||
           (sg_file_read(fd, "cgroup.subtree_control", text, sizeof text, NULL) == 0 && *text) ||
           (sg_file_read(fd, "cgroup.procs", text, sizeof text, NULL) == 0 && !*text);
}

/* v2: the root of the tree as seen from here, where that is ours; else what was delegated to us,
 * from our own cgroup upwards: we are in a leaf of it. */
static bool parent_dir_v2(const char *table, char *ret, size_t cap)
{
    char own[SG_CGROUP_PATH_MAX / 2];
    sg_cgroup_own_path(table, NULL, own, sizeof own);
    (void)snprintf(ret, cap, CGROUP_ROOT);
    if (can_hold_cells(ret))
        return true;
    if (sg_starts_with(own, "/..")) /* outside of what our cgroup namespace shows */
        return false;
    for (char *end; (end = strrchr(own, '/')); *end = '\0') {
        (void)snprintf(ret, cap, CGROUP_ROOT "%s", own);
        if (can_hold_cells(ret))
            return true;
    }
    return false;
}

bool sg_cgroup_is_v2(void)
{
    struct statfs fs;
    return statfs(CGROUP_ROOT, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
}

/* Where cpu and cpuacct are one hierarchy, the cpu group counts already. */
static bool is_counted_by_cpu(const char *parent)
{
    char file[SG_CGROUP_PATH_MAX + 32];
    (void)snprintf(file, sizeof file, "%s/cpuacct.usage", parent);
    return access(file, F_OK) == 0;
}

static void find_dirs(struct sg_cgroup *g, uint32_t slot, unsigned count_v1)
{
    memset(g, 0, sizeof *g);
    for (unsigned c = 0; c < SG_GROUP_COUNT; c++)
        g->dir_fds[c] = g->join_fds[c] = -1;
    char table[4096];
    if (sg_file_read(AT_FDCWD, "/proc/self/cgroup", table, sizeof table, NULL) < 0)
        *table = '\0';
    g->is_v2 = sg_cgroup_is_v2();
    const unsigned count = g->is_v2 ? 1 : count_v1;
    bool has_cpuacct = false;
    g->dir_count = count;
    for (unsigned c = 0; c < count; c++) {
        char parent[SG_CGROUP_PATH_MAX - 32] = "";
        bool is_there = g->is_v2 ? parent_dir_v2(table, parent, sizeof parent)
                                 : parent_dir(table, names[c], parent, sizeof parent);
        if (count > SG_CTRL_COUNT && c == SG_CTRL_CPU)
            has_cpuacct = is_there && is_counted_by_cpu(parent);
        if (is_there && !(c == SG_GROUP_CPUACCT && has_cpuacct))
            (void)snprintf(g->dirs[c], sizeof g->dirs[c], "%s/" PREFIX "%" PRIu32, parent, slot);
        else if (c < SG_CTRL_COUNT)
            g->missing |= g->is_v2 ? (1u << SG_CTRL_COUNT) - 1 : 1u << c;
    }
}

void sg_cgroup_init(struct sg_cgroup *g, const struct sg_ids *ids)
{
    find_dirs(g, ids->slot, SG_CTRL_COUNT);
}

void sg_cgroup_init_kept(struct sg_cgroup *g, const struct sg_ids *ids)
{
    find_dirs(g, ids->slot, SG_GROUP_COUNT);
}

void sg_cgroup_init_beside(struct sg_cgroup *g, const struct sg_cgroup *other,
                           const struct sg_ids *ids)
{
    *g = *other;
    for (unsigned c = 0; c < SG_GROUP_COUNT; c++) {
        char *last = strrchr(g->dirs[c], '/');
        const size_t at = last ? (size_t)(last - g->dirs[c]) : 0;
        g->dir_fds[c] = g->join_fds[c] = -1;
        if (last)
            (void)snprintf(last, sizeof g->dirs[c] - at, "/" PREFIX "%" PRIu32, ids->slot);
    }
}

void sg_cgroup_init_of(struct sg_cgroup *g, int pid)
{
    char file[40], table[4096], own[SG_CGROUP_PATH_MAX / 2];
    memset(g, 0, sizeof *g);
    for (unsigned c = 0; c < SG_GROUP_COUNT; c++)
        g->dir_fds[c] = g->join_fds[c] = -1;
    (void)snprintf(file, sizeof file, "/proc/%d/cgroup", pid);
    if (sg_file_read(AT_FDCWD, file, table, sizeof table, NULL) < 0)
        *table = '\0';
    g->is_v2 = sg_cgroup_is_v2();
    g->dir_count = g->is_v2 ? 1 : SG_GROUP_COUNT;
    for (unsigned c = 0; c < g->dir_count; c++) {
        sg_cgroup_own_path(table, g->is_v2 ? NULL : names[c], own, sizeof own);
        if (*own && !sg_starts_with(own, "/.."))
            (void)snprintf(g->dirs[c], sizeof g->dirs[c], CGROUP_ROOT "%s%s%s", g->is_v2 ? "" : "/",
                           g->is_v2 ? "" : names[c], own);
        if ((!g->dirs[c][0] || access(g->dirs[c], W_OK) < 0) && c < SG_CTRL_COUNT)
            g->missing |= g->is_v2 ? (1u << SG_CTRL_COUNT) - 1 : 1u << c;
    }
}

/* ---- make ---- */

/* A directory of this name is a leftover: the slot is ours now (G1). */
static int make_dir(const char *path, struct sg_err *err)
{
    int ret = mkdir(path, 0755);
    if (ret < 0 && errno == EEXIST) {
        if (rmdir(path) < 0)
            return sg_fail_sys(err, "remove the leftover cgroup %s", sg_quote(path).s);
        ret = mkdir(path, 0755);
    }
    int fd = ret < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return sg_fail_sys(err, "make cgroup %s", sg_quote(path).s);
    return fd;
}

static int put(int dir_fd, const char *file, uint64_t value, struct sg_err *err)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    return sg_file_write(dir_fd, file, text, err);
}

enum { CPU_PERIOD_US = 100000, CPU_QUOTA_MIN_US = 1000 };

static uint64_t cpu_quota_us(uint64_t cpu_milli)
{
    uint64_t quota = cpu_milli * CPU_PERIOD_US / 1000;
    return quota < CPU_QUOTA_MIN_US ? CPU_QUOTA_MIN_US : quota; /* the kernel's own minimum */
}

/* The limit with swap is never below the one without: a rise starts with the former. Without swap
 * accounting its file is not there: then the host's swap is not counted. */
static int limit_memory_v1(int dir, uint64_t bytes, bool is_growing, struct sg_err *err)
{
    static const char limit[] = "memory.limit_in_bytes",
                      with_swap[] = "memory.memsw.limit_in_bytes";
    const bool counts_swap = faccessat(dir, with_swap, W_OK, 0) == 0 || errno != ENOENT;
    if (is_growing && counts_swap && put(dir, with_swap, bytes, err) < 0)
        return -1;
    if (put(dir, limit, bytes, err) < 0)
        return -1;
    /* Socket buffers are counted apart: a quarter as much again, where the kernel can. */
    if (faccessat(dir, "memory.kmem.tcp.limit_in_bytes", W_OK, 0) == 0 &&
        put(dir, "memory.kmem.tcp.limit_in_bytes", bytes / 4, err) < 0)
        return -1;
    if (!counts_swap)
        return sg_file_write(dir, "memory.swappiness", "0", err);
    return is_growing ? 0 : put(dir, with_swap, bytes, err);
}

static int limit_v1(enum sg_controller c, int dir, const struct sg_limits *l, bool is_growing,
                    struct sg_err *err)
{
    switch (c) {
    case SG_CTRL_MEMORY:
        return limit_memory_v1(dir, l->mem_bytes, is_growing, err);
    case SG_CTRL_CPU:
        if (put(dir, "cpu.cfs_period_us", CPU_PERIOD_US, err) < 0)
            return -1;
        return put(dir, "cpu.cfs_quota_us", cpu_quota_us(l->cpu_milli), err);
    case SG_CTRL_PIDS:
        return put(dir, "pids.max", l->pids, err);
    case SG_CTRL_COUNT:
        break;
    }
    return sg_fail(err, SG_INTERNAL, "no such controller");
}

static int make_v1(struct sg_cgroup *g, struct sg_err *err)
{
    for (unsigned c = 0; c < g->dir_count; c++) {
        if (!g->dirs[c][0])
            continue;
        g->dir_fds[c] = make_dir(g->dirs[c], err);
        if (g->dir_fds[c] < 0)
            return -1;
        g->join_fds[c] = openat(g->dir_fds[c], "tasks", O_WRONLY | O_CLOEXEC);
        if (g->join_fds[c] < 0)
            return sg_fail_sys(err, "open the task list of %s", sg_quote(g->dirs[c]).s);
    }
    return 0;
}

/* The parent must pass the controllers on. Where it cannot, G2 applies. */
static void delegate_v2(const char *dir)
{
    char parent[SG_CGROUP_PATH_MAX];
    (void)snprintf(parent, sizeof parent, "%s", dir);
    *strrchr(parent, '/') = '\0';
    sg_auto_fd fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char on[256] = "";
    if (fd < 0 || sg_file_read(fd, "cgroup.subtree_control", on, sizeof on, NULL) < 0)
        return;
    for (unsigned c = 0; c < SG_CTRL_COUNT; c++) {
        char add[16];
        (void)snprintf(add, sizeof add, "+%s", names[c]);
        if (!strstr(on, names[c]))
            (void)sg_file_write(fd, "cgroup.subtree_control", add, NULL);
    }
}

static int limit_v2(enum sg_controller c, int dir, const struct sg_limits *l, struct sg_err *err)
{
    char quota[48];
    switch (c) {
    case SG_CTRL_MEMORY:
        if (put(dir, "memory.max", l->mem_bytes, err) < 0)
            return -1;
        if (faccessat(dir, "memory.swap.max", W_OK, 0) == 0 || errno != ENOENT)
            return put(dir, "memory.swap.max", 0, err);
        return 0;
    case SG_CTRL_CPU:
        (void)snprintf(quota, sizeof quota, "%" PRIu64 " %d", cpu_quota_us(l->cpu_milli),
                       CPU_PERIOD_US);
        return sg_file_write(dir, "cpu.max", quota, err);
    case SG_CTRL_PIDS:
        return put(dir, "pids.max", l->pids, err);
    case SG_CTRL_COUNT:
        break;
    }
    return sg_fail(err, SG_INTERNAL, "no such controller");
}

static int make_v2(struct sg_cgroup *g, struct sg_err *err)
{
    static const char *const probe[SG_CTRL_COUNT] = { "memory.max", "cpu.max", "pids.max" };
    delegate_v2(g->dirs[0]);
    sg_auto_fd dir = make_dir(g->dirs[0], err);
    if (dir < 0)
        return -1;
    for (unsigned c = 0; c < SG_CTRL_COUNT; c++) {
        if (faccessat(dir, probe[c], W_OK, 0) < 0)
            g->missing |= 1u << c;
        g->dir_fds[c] = fcntl(dir, F_DUPFD_CLOEXEC, 3);
        if (g->dir_fds[c] < 0)
            return sg_fail_sys(err, "keep the cgroup's descriptor");
    }
    return 0;
}

int sg_cgroup_make(struct sg_cgroup *g, struct sg_err *err)
{
    if (!g->is_v2)
        return make_v1(g, err);
    return g->dirs[0][0] ? make_v2(g, err) : 0;
}

int sg_cgroup_limit_one(const struct sg_cgroup *g, enum sg_controller c, int dir,
                        const struct sg_limits *l, bool is_growing, struct sg_err *err)
{
    return g->is_v2 ? limit_v2(c, dir, l, err) : limit_v1(c, dir, l, is_growing, err);
}

int sg_cgroup_limit(const struct sg_cgroup *g, const struct sg_limits *l, struct sg_err *err)
{
    for (unsigned c = 0; c < SG_CTRL_COUNT; c++) {
        if (g->missing & 1u << c)
            continue;
        if (sg_cgroup_limit_one(g, c, g->dir_fds[c], l, false, err) < 0)
            return -1;
    }
    return 0;
}

int sg_cgroup_birth_fd(const struct sg_cgroup *g)
{
    return g->is_v2 ? g->dir_fds[0] : -1;
}

bool sg_cgroup_counts_swap(const struct sg_cgroup *g)
{
    const char *file = g->is_v2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes";
    const int dir = g->dir_fds[SG_CTRL_MEMORY];
    return dir >= 0 && faccessat(dir, file, F_OK, 0) == 0;
}

/* ---- usage ---- */

static uint64_t read_or(int dir, const char *file, const char *key, uint64_t otherwise)
{
    uint64_t v;
    if (dir < 0)
        return otherwise;
    int ret =
        key ? sg_file_read_key(dir, file, key, &v, NULL) : sg_file_read_u64(dir, file, &v, NULL);
    return ret < 0 ? otherwise : v;
}

int sg_cgroup_usage(const struct sg_cgroup *g, struct sg_usage *ret, struct sg_err *err)
{
    (void)err;
    const int mem = g->dir_fds[SG_CTRL_MEMORY], pids = g->dir_fds[SG_CTRL_PIDS];
    *ret = (struct sg_usage) { .cpu_ns = SG_UNKNOWN };
    ret->pids_peak = read_or(pids, "pids.peak", NULL, SG_UNKNOWN);
    ret->pids_refused = read_or(pids, "pids.events", "max", 0);
    if (g->is_v2) {
        ret->mem_peak_bytes = read_or(mem, "memory.peak", NULL, SG_UNKNOWN);
        ret->oom_kills = read_or(mem, "memory.events", "oom_kill", 0);
        uint64_t us = read_or(g->dir_fds[SG_CTRL_CPU], "cpu.stat", "usage_usec", SG_UNKNOWN);
        ret->cpu_ns = us == SG_UNKNOWN ? SG_UNKNOWN : us * 1000;
    } else {
        ret->mem_peak_bytes = read_or(mem, "memory.max_usage_in_bytes", NULL, SG_UNKNOWN);
        ret->oom_kills = read_or(mem, "memory.oom_control", "oom_kill", 0);
    }
    return 0;
}

/* ---- end ---- */

void sg_cgroup_done(struct sg_cgroup *g)
{
    for (unsigned c = 0; c < SG_GROUP_COUNT; c++) {
        sg_drop_fd(&g->dir_fds[c]);
        sg_drop_fd(&g->join_fds[c]);
    }
}

static int remove_dir(const char *path, unsigned wait_ms, struct sg_err *err)
{
    for (unsigned waited_us = 0, step_us = 100;;) {
        if (rmdir(path) == 0 || errno == ENOENT)
            return 0;
        if (errno != EBUSY || waited_us / 1000 >= wait_ms)
            return sg_fail_sys(err, "remove cgroup %s", sg_quote(path).s);
        const struct timespec t = { .tv_nsec = (long)step_us * 1000 };
        (void)nanosleep(&t, NULL);
        waited_us += step_us;
        step_us = step_us < 10000 ? step_us * 2 : step_us;
    }
}

int sg_cgroup_remove(const struct sg_cgroup *g, unsigned wait_ms, struct sg_err *err)
{
    int ret = 0;
    for (unsigned i = 0; i < g->dir_count; i++)
        if (g->dirs[i][0] && remove_dir(g->dirs[i], wait_ms, err) < 0)
            ret = -1;
    return ret;
}

static int sweep_dir(const char *parent, bool is_root)
{
    sg_auto_dir d = opendir(parent);
    int swept = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        uint64_t slot;
        struct sg_ids ids;
        if (!sg_starts_with(e->d_name, PREFIX) ||
            sg_parse_u64(sg_str_of(e->d_name + strlen(PREFIX)), 0, SG_SLOT_COUNT - 1, &slot, NULL) <
                0 ||
            sg_ids_claim_slot(is_root, (uint32_t)slot, &ids, NULL) < 0)
            continue;
        if (unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR) == 0)
            swept++;
        sg_ids_release(&ids);
    }
    return swept;
}

int sg_cgroup_sweep(bool is_root)
{
    const struct sg_ids any = { .lock_fd = -1 };
    struct sg_cgroup g;
    sg_cgroup_init_kept(&g, &any);
    int swept = 0;
    for (unsigned i = 0; i < g.dir_count; i++) {
        char *slash = strrchr(g.dirs[i], '/');
        if (!slash)
            continue;
        *slash = '\0';
        swept += sweep_dir(g.dirs[i], is_root);
    }
    return swept;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A thousand cells that do nothing: what each weighs, how fast all go, and what they leave. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "bench.h"
#include "engine/cell.h"
#include "base/banned.h"

enum { CELLS = 1000, SETTLE_S = 1, MAX_LINE = 4352, CONTROLLERS = 3 };

/* What is looked at before and after. Mounts are those of our own namespace, so nobody else's. */
struct traces {
    size_t mounts, descriptors;
};

struct crowd {
    struct sg_cell **cells; /* owned, as are the paths */
    char **cgroups;
    size_t n, cgroup_count;
};

static size_t count_lines(const char *path)
{
    char line[MAX_LINE];
    size_t n = 0;
    sg_auto_file f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        n++;
    return n;
}

static size_t count_entries(const char *path)
{
    size_t n = 0;
    sg_auto_dir d = opendir(path);
    while (d && readdir(d))
        n++;
    return n;
}

static struct traces look(void)
{
    return (struct traces) { count_lines("/proc/self/mountinfo"), count_entries("/proc/self/fd") };
}

/* Its pid, as /proc knows it. */
static int pid_of(const struct sg_cell *c)
{
    char line[MAX_LINE];
    int pid = -1;
    sg_auto_free char *path = sg_printf("/proc/self/fdinfo/%d", sg_cell_pidfd(c));
    sg_auto_file f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Pid: %d", &pid) == 1)
            break;
    return pid;
}

/* Where its cgroups are, to see later that they are gone. "4:memory:/sandglass/sandglass-7" */
static void note_cgroups(struct crowd *w, const struct sg_cell *c)
{
    char line[MAX_LINE];
    sg_auto_free char *path = sg_printf("/proc/%d/cgroup", pid_of(c));
    sg_auto_file f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        char *controller = strchr(line, ':');
        char *below = controller ? strchr(controller + 1, ':') : NULL;
        if (!below || !strstr(below, "/sandglass-") || w->cgroup_count == CELLS * CONTROLLERS)
            continue;
        *below++ = '\0';
        below[strcspn(below, "\n")] = '\0';
        w->cgroups[w->cgroup_count++] = sg_printf("/sys/fs/cgroup/%s%s", controller + 1, below);
    }
}

static int add_cell(struct crowd *w, const struct sg_cell_spec *spec, struct sg_err *err)
{
    struct sg_cell *c = sg_cell_start(false, 0, err);
    if (!c)
        return -1;
    w->cells[w->n++] = c;
    if (sg_cell_build(c, spec, err) < 0 || sg_cell_settle(c, err) < 0)
        return -1;
    note_cgroups(w, c);
    return 0;
}

static void end_all(struct crowd *w)
{
    for (size_t i = 0; i < w->n; i++)
        sg_cell_kill(w->cells[i]);
    while (w->n > 0)
        sg_cell_free(w->cells[--w->n]);
}

static size_t count_left(const struct crowd *w, const struct traces *before)
{
    const struct traces after = look();
    size_t left = 0;
    for (size_t i = 0; i < w->cgroup_count; i++)
        left += access(w->cgroups[i], F_OK) == 0;
    left += after.mounts > before->mounts ? after.mounts - before->mounts : 0;
    left += after.descriptors > before->descriptors ? after.descriptors - before->descriptors : 0;
    /* A pid 1 is reaped only when all of its processes are gone, so children are all there is. */
    left += waitpid(-1, NULL, WNOHANG | __WALL) >= 0 || errno != ECHILD;
    return left;
}

static int fill_and_end(struct crowd *w, const struct sg_bench *b, unsigned n, struct sg_err *err)
{
    const struct traces before = look();
    const uint64_t free_kib = sg_machine_available_kib();
    for (unsigned i = 0; i < n; i++)
        if (sg_race_check(err) < 0 || add_cell(w, &b->cell, err) < 0)
            return sg_wrap(err, "cell %u", i + 1);
    if (w->cgroup_count == 0)
        return sg_fail(err, SG_INTERNAL, "the cells have no cgroups that could be looked for");
    (void)nanosleep(&(struct timespec) { .tv_sec = SETTLE_S }, NULL);
    const double kib = (double)free_kib - (double)sg_machine_available_kib();
    const uint64_t start_ns = sg_now_ns();
    end_all(w);
    const double seconds = (double)(sg_now_ns() - start_ns) / 1e9;
    const double left = (double)count_left(w, &before), mib = kib / 1024 / n;
    const struct sg_row rows[] = {
        { .case_name = "idle",
          .what = "idle cells: memory of each",
          .unit = SG_UNIT_MIB,
          .n = n,
          .median = mib,
          .min = mib,
          .bar = 0.9 },
        { .case_name = "idle",
          .what = "idle cells: all torn down in",
          .unit = SG_UNIT_S,
          .n = n,
          .median = seconds,
          .min = seconds,
          .bar = 3 },
        { .case_name = "idle",
          .what = "idle cells: left behind",
          .unit = SG_UNIT_COUNT,
          .n = n,
          .median = left,
          .min = left,
          .is_exact = true },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++)
        sg_report_add(b->report, &rows[i]);
    return 0;
}

int sg_case_idle(const struct sg_bench *b, struct sg_err *err)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    struct crowd w = { .cells = sg_alloc(CELLS * sizeof *w.cells),
                       .cgroups = sg_alloc((size_t)CELLS * CONTROLLERS * sizeof *w.cgroups) };
    const int result = fill_and_end(&w, b, sg_bench_rounds(b, CELLS), err);
    end_all(&w);
    while (w.cgroup_count > 0)
        free(w.cgroups[--w.cgroup_count]);
    free(w.cgroups);
    free(w.cells);
    return result;
}

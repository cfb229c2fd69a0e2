/* SPDX-License-Identifier: Apache-2.0 */
/* Fails the Nth call of the engine, N = 1, 2, ... until a whole life of a cell succeeds, and looks
 * each time at what came back and what is left.
 *
 * A trial is one such life, in a process of its own. After it:
 *   T1. an error came back, and its message ends with the reason that was injected; or the life
 *       went on undisturbed, and the call is in the table of those whose failure is tolerated
 *   T2. nothing is left: no process, descriptor, mount, cgroup or file
 * In the trials of the last kind no call fails: the process is killed at that very place instead.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "engine/cell.h"
#include "engine/cgroup.h"
#include "fault.h"
#include "left.h"
#include "scene.h"
#include "base/banned.h"

enum {
    MAX_CALLS = 2000,
    ENOUGH_MISSES = 3, /* so many trials in a row that never came to call N: there is none */
    LEFT_MS = 3000,
    SHOWN_FAILURES = 12,
};

static const int errnos[] = { EIO, ENOMEM, EPERM };

/* Shared by all processes of a trial. */
struct shared {
    struct fault fault;
    int ret;
    bool is_over;
    struct sg_err err;
    char left[1000];
};
static struct shared *shared;

static const struct variant {
    const char *name;
    unsigned cell_flags;
    const char *switches;
    enum fault_mode mode;
    unsigned first_errno, errno_count;
} variants[] = {
    { "a_failed_call_comes_back_as_an_error_and_leaves_nothing", 0, "", FAULT_FAIL, 0, 3 },
    { "a_failed_call_leaves_nothing_with_overlay_by_path", 0, "overlay-by-path", FAULT_FAIL, 1, 1 },
    { "a_failed_call_leaves_nothing_to_the_sweeper", SG_CELL_SWEPT, "", FAULT_FAIL, 2, 1 },
    { "a_failed_call_leaves_nothing_of_a_cell_to_be_kept", SCENE_KEPT, "", FAULT_FAIL, 1, 1 },
    { "kill_9_at_any_call_leaves_nothing", SG_CELL_SWEPT, "", FAULT_HALT, 0, 1 },
};

/* Calls whose failure may go unnoticed, or (is_reworded) is told in other words. */
enum { ANY = -1 };
static const struct tolerated {
    const char *name, *detail; /* of a libc call; what its path contains */
    long nr, arg;              /* of a raw one */
    bool is_reworded, is_sweepers, is_ending;
    const char *why;
} tolerated[] = {
    { "statfs64", "/sys/fs/cgroup", ANY, ANY, .why = "a hierarchy that cannot be seen is missing" },
    { "access", "/sys/fs/cgroup", ANY, ANY, .why = "the controller is reported as missing" },
    { "openat64", "/proc/self/cgroup", ANY, ANY, .why = "then the root of the hierarchy it is" },
    { "read", "/cgroup", ANY, ANY, .why = "the same; and what the result says is then unknown" },
    { "faccessat", NULL, ANY, ANY, .why = "what cannot be reached is reported as missing" },
    { "open64", "/sys/fs/cgroup", ANY, ANY, .why = "v2: the same" },
    { "openat64", "cgroup.", ANY, ANY, .why = "v2: a controller that is not passed on is missing" },
    { "openat64", "cpu.stat", ANY, ANY, .why = "the result says unknown" },
    { "openat64", "pids.", ANY, ANY, .why = "the result says unknown" },
    { "openat64", "memory.", ANY, ANY, .why = "the result says unknown" },
    { "syscall", NULL, SYS_openat2, ANY, .why = "the name is set, if not in /etc/hosts" },
    { "sched_getaffinity", NULL, ANY, ANY, .why = "a process then starts where it is put" },
    { "sched_setaffinity", NULL, ANY, ANY, .why = "the same, when there is nowhere else" },
    { "setsockopt", NULL, ANY, ANY, .why = "a smaller buffer does, too" },
    { "raw", "ip_unprivileged_port_start", ANY, ANY, .why = "ports from 1024 are left" },
    { "raw", NULL, SYS_prctl, PR_SET_PDEATHSIG, .why = "the holder ends by its patience" },
    { "raw", NULL, SYS_statx, ANY, true, .why = "two places that cannot be seen are not the same" },
    { "realloc", NULL, ANY, ANY, true, .why = "a buffer knows that it is full, not why" },
    { "raw", NULL, SYS_read, ANY, .is_sweepers = true, .why = "then it sweeps at once" },
    { "raw", NULL, SYS_setpgid, ANY, .is_sweepers = true, .why = "it hears no signal anyway" },
    { "raw", NULL, SYS_prctl, PR_SET_NAME, .is_sweepers = true, .why = "a name for people" },
    { "openat64", "cpu.", ANY, ANY, .is_ending = true, .why = "it takes its time to die, then" },
    { "write", "/cpu.", ANY, ANY, .is_ending = true, .why = "the same" },
};

static bool is_tolerated(const struct variant *v, const struct fault *f, bool is_noticed)
{
    for (size_t i = 0; i < SG_COUNT(tolerated); i++) {
        const struct tolerated *t = &tolerated[i];
        if (strcmp(t->name, f->name) == 0 && (t->nr == ANY || t->nr == f->nr) &&
            (t->arg == ANY || t->arg == f->arg) && (!t->detail || strstr(f->detail, t->detail)) &&
            (!t->is_reworded || is_noticed) && (!t->is_sweepers || v->cell_flags & SG_CELL_SWEPT) &&
            (!t->is_ending || f->was_ending))
            return true;
    }
    return false;
}

/* Where the program ends at once, by design: small allocations (base/auto.h), and the way back from
 * another identity (engine/userns.c). */
static bool may_abort(const struct fault *f)
{
    return strcmp(f->name, "calloc") == 0 || strcmp(f->name, "prctl") == 0 ||
           f->nr == SYS_setresuid;
}

/* ---- one trial ---- */

_Noreturn static void play(const struct variant *v, const char *root)
{
    struct left_own own;
    left_own_init(&own);
    __atomic_store_n(&shared->fault.is_armed, 1, __ATOMIC_RELEASE);
    shared->ret = scene_play(root, v->cell_flags, &shared->err);
    if (v->cell_flags & SG_CELL_SWEPT) {
        shared->is_over = true;
        _exit(0); /* still armed: the sweeper's calls count */
    }
    __atomic_store_n(&shared->fault.is_armed, 0, __ATOMIC_RELEASE);
    left_own_done(&own, shared->left, sizeof shared->left);
    shared->is_over = true;
    _exit(0);
}

/* Waits until the process has ended, or has come to its call and is to be killed there. */
static int await(pid_t pid)
{
    for (;;) {
        int status;
        if (waitpid(pid, &status, WNOHANG) == pid)
            return status;
        if (shared->fault.mode == FAULT_HALT &&
            __atomic_load_n(&shared->fault.is_hit, __ATOMIC_ACQUIRE)) {
            (void)kill(pid, SIGKILL);
            (void)waitpid(pid, &status, 0);
            fault_release();
            return status;
        }
        const struct timespec t = { .tv_nsec = 200000 };
        (void)nanosleep(&t, NULL);
    }
}

static const char *judge(const struct variant *v, int status, char *ret, size_t cap)
{
    const struct fault *f = &shared->fault;
    char processes[400], things[400];
    left_processes(LEFT_MS, processes, sizeof processes);
    __atomic_store_n(&shared->fault.is_armed, 0, __ATOMIC_RELEASE);
    if (WIFSIGNALED(status) && !(v->cell_flags & SG_CELL_SWEPT))
        (void)sg_cgroup_sweep(true); /* it had nobody to remove them: the next who looks does */
    left_things(things, sizeof things);
    if (*processes || *things || *shared->left)
        (void)snprintf(ret, cap, "left behind: %s %s %s", processes, things, shared->left);
    else if (v->mode == FAULT_HALT)
        return NULL;
    else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && may_abort(f))
        return NULL;
    else if (!shared->is_over)
        (void)snprintf(ret, cap, "ended with status %d", status);
    else if (f->is_hit && shared->ret == 0 && !is_tolerated(v, f, false))
        (void)snprintf(ret, cap, "went unnoticed");
    else if (!f->is_hit && shared->ret != 0)
        (void)snprintf(ret, cap, "failed by itself: %s", shared->err.msg);
    else if (shared->ret != 0 && !strstr(shared->err.msg, strerror(f->sys)) &&
             !is_tolerated(v, f, true))
        (void)snprintf(ret, cap, "came back as '%s'", shared->err.msg);
    else
        return NULL;
    return ret;
}

/* Returns whether the trial came to its call; `ret_bad` is set when something was wrong. */
static bool try(const struct variant *v, const char *root, uint32_t number, int sys, bool *ret_bad)
{
    memset(shared, 0, sizeof *shared);
    shared->fault.stop_at = number;
    shared->fault.mode = v->mode;
    shared->fault.sys = sys;
    pid_t pid = fork();
    if (pid < 0)
        abort();
    if (pid == 0)
        play(v, root);
    int status = await(pid);
    char text[2100];
    const char *bad = judge(v, status, text, sizeof text);
    const struct fault *f = &shared->fault;
    *ret_bad = bad != NULL;
    if (bad)
        (void)printf("# call %u, %s %ld(%ld) %s with %s: %s\n", number, f->name, f->nr, f->arg,
                     f->detail, strerror(sys), bad);
    return f->is_hit;
}

/* ---- all trials of a variant ---- */

static bool run(const struct variant *v, unsigned row, const char *root)
{
    unsigned bad_count = 0, last = 0, trials = 0;
    const uint64_t start = sg_now_ns();
    (void)setenv("SANDGLASS_TEST_SWITCHES", v->switches, 1);
    for (unsigned e = 0; e < v->errno_count; e++)
        for (uint32_t n = 1, misses = 0; n < MAX_CALLS && misses < ENOUGH_MISSES; n++) {
            bool is_bad;
            bool was_hit =
                try(v, root, n, errnos[(v->first_errno + e + n) % SG_COUNT(errnos)], &is_bad);
            misses = was_hit ? 0 : misses + 1;
            last = was_hit ? n : last;
            trials++;
            bad_count += is_bad;
            if (bad_count == SHOWN_FAILURES) {
                (void)printf("# and so on\n");
                misses = ENOUGH_MISSES;
            }
        }
    (void)printf("# %u calls, %u trials, %.1f s\n", last, trials,
                 (double)(sg_now_ns() - start) / 1e9);
    bool is_good = bad_count == 0 && last > 0 && last + ENOUGH_MISSES < MAX_CALLS;
    (void)printf("%s %u - %s\n", is_good ? "ok" : "not ok", row, v->name);
    (void)fflush(stdout);
    return is_good;
}

int main(int argc, char **argv)
{
    if (geteuid() != 0) {
        (void)printf("1..0 # SKIP needs root\n");
        return 0;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return 1;
    fault = &shared->fault;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)sg_cgroup_sweep(true); /* what others left is not ours to report */
    char *root = scene_make_root();
    bool is_good = true;
    (void)printf("1..%zu\n", SG_COUNT(variants));
    for (unsigned i = 0; i < SG_COUNT(variants); i++)
        if (argc < 2 || strstr(variants[i].name, argv[1]))
            is_good &= run(&variants[i], i + 1, root);
    scene_remove_root(root);
    return is_good ? 0 : 1;
}

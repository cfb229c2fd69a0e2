/* SPDX-License-Identifier: Apache-2.0 */
/* What `sandglass run` would get, asked of the code that gets it.
 *
 * Cgroups are made in a slot of our own, as those of a cell are: whatever ends this process, what
 * it left is known as a leftover and removed by the next sweep. */
#include "cli/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "cli/out.h"
#include "ctl/msg.h"
#include "engine/cgroup.h"
#include "engine/ids.h"
#include "engine/netsock.h"
#include "engine/userns.h"
#include "sys/kfile.h"
#include "sys/mnt.h"
#include "base/banned.h"

enum {
    PROBE_MEM_BYTES = 64 << 20,
    PROBE_PIDS = 64,
    REMOVE_WAIT_MS = 1000,
    MAX_TALK = 4096,
};
static const char AS_ROOT[] = "run it as root";

static void found_err(struct sg_finding *ret, const struct sg_err *err)
{
    sg_found(ret, SG_HAVE_NOT, "%s", err->msg);
}

/* Into the user namespace where `run` would do the rest, and a slot. */
static int claim(const struct sg_probe_env *env, struct sg_ids *ret_ids, struct sg_finding *ret)
{
    struct sg_err err;
    if ((!env->is_root && sg_userns_become_root(&err) < 0) ||
        sg_ids_claim(env->is_root, ret_ids, &err) < 0) {
        found_err(ret, &err);
        return -1;
    }
    return 0;
}

/* ---- cgroups ---- */

static bool is_cgroup2(const char *path)
{
    struct statfs fs;
    return statfs(path, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
}

static void probe_layout(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    const bool has_v1 =
        access("/sys/fs/cgroup/memory", F_OK) == 0 || access("/sys/fs/cgroup/pids", F_OK) == 0;
    const char *layout = "none";
    if (is_cgroup2("/sys/fs/cgroup"))
        layout = "v2";
    else if (is_cgroup2("/sys/fs/cgroup/unified"))
        layout = "hybrid: v1 for limits, v2 beside it";
    else if (has_v1)
        layout = "v1";
    sg_found(ret, SG_HAVE_NEWS, "%s", layout);
}

#define V1_DIRS "/sys/fs/cgroup/{memory,cpu,pids,freezer}/u%u"

/* What helps depends on who asks, and on the layout. */
static void fix_limit(const struct sg_probe_env *env, bool is_v2, const char *controller,
                      struct sg_finding *ret)
{
    const unsigned uid = getuid();
    if (!env->is_root && is_v2)
        sg_found_fix(ret, "systemd-run --user --scope -p Delegate=yes -- sandglass run ...");
    else if (!env->is_root)
        sg_found_fix(ret,
                     "as root: mkdir " V1_DIRS "\nas root: chown -R %u " V1_DIRS
                     "\nthen, in bash: echo $$ | tee " V1_DIRS "/tasks",
                     uid, uid, uid, uid);
    else if (is_v2)
        sg_found_fix(ret, "mount -o remount,rw /sys/fs/cgroup; boot without cgroup_disable=%s",
                     controller);
    else
        sg_found_fix(ret,
                     "mkdir -p /sys/fs/cgroup/%s && mount -t cgroup -o %s cgroup /sys/fs/cgroup/%s",
                     controller, controller, controller);
}

static const struct {
    enum sg_verdict without;
    const char *instead;
} weaker[SG_CTRL_COUNT] = {
    [SG_CTRL_MEMORY] = { SG_HAVE_LESS, "no cgroup to be had: RLIMIT_DATA per process instead" },
    [SG_CTRL_CPU] = { SG_HAVE_NOT, "no cgroup to be had: not limited" },
    [SG_CTRL_PIDS] = { SG_HAVE_LESS, "no cgroup to be had: RLIMIT_NPROC instead" },
};

struct limits_tried {
    bool is_made, is_v2, is_swap_counted;
    unsigned missing;
};

static int try_limits(const struct sg_probe_env *env, struct limits_tried *ret_tried,
                      struct sg_finding *ret)
{
    static const struct sg_limits limits = { .mem_bytes = PROBE_MEM_BYTES,
                                             .cpu_milli = 1000,
                                             .pids = PROBE_PIDS };
    struct sg_ids ids;
    struct sg_cgroup g;
    struct sg_err err;
    if (claim(env, &ids, ret) < 0)
        return -1;
    sg_cgroup_init(&g, &ids);
    int made = sg_cgroup_make(&g, &err) < 0 ? -1 : sg_cgroup_limit(&g, &limits, &err);
    if (made < 0)
        found_err(ret, &err);
    *ret_tried = (struct limits_tried) { .is_made = made == 0,
                                         .is_v2 = g.is_v2,
                                         .is_swap_counted = sg_cgroup_counts_swap(&g),
                                         .missing = g.missing };
    sg_cgroup_done(&g);
    if (sg_cgroup_remove(&g, REMOVE_WAIT_MS, &err) < 0 && made == 0)
        found_err(ret, &err);
    sg_ids_release(&ids);
    return 0;
}

static void probe_limit(const struct sg_probe_env *env, struct sg_finding *ret)
{
    struct limits_tried tried;
    const enum sg_controller c = (enum sg_controller)ret->probe->value;
    /* Told now: inside the user namespace everybody is root. */
    fix_limit(env, is_cgroup2("/sys/fs/cgroup"), sg_controller_name(c), ret);
    if (try_limits(env, &tried, ret) < 0 || !tried.is_made)
        return;
    if (tried.missing & 1u << c)
        sg_found(ret, weaker[c].without, "%s", weaker[c].instead);
    else
        sg_found_it(ret);
}

static bool has_swap(void)
{
    char text[4096];
    if (sg_file_read(AT_FDCWD, "/proc/swaps", text, sizeof text, NULL) < 0)
        return true;
    const char *second = strchr(text, '\n');
    return second && second[1];
}

static void probe_swap(const struct sg_probe_env *env, struct sg_finding *ret)
{
    struct limits_tried tried;
    if (try_limits(env, &tried, ret) < 0 || !tried.is_made)
        return;
    if (tried.is_swap_counted)
        sg_found_it(ret);
    else if (!has_swap())
        sg_found(ret, SG_HAVE_NEWS, "this host has none");
    else if (tried.missing & 1u << SG_CTRL_MEMORY)
        sg_found(ret, SG_HAVE_NOT, "no memory cgroup to be had");
    else
        sg_found(ret, SG_HAVE_NOT, "this kernel does not account for it");
}

static void probe_freezer(const struct sg_probe_env *env, struct sg_finding *ret)
{
    struct sg_ids ids;
    struct sg_cgroup g;
    struct sg_err err;
    fix_limit(env, is_cgroup2("/sys/fs/cgroup"), "freezer", ret);
    if (claim(env, &ids, ret) < 0)
        return;
    sg_cgroup_init_kept(&g, &ids);
    if (sg_cgroup_make(&g, &err) < 0)
        found_err(ret, &err);
    else if (sg_cgroup_can_freeze(&g))
        sg_found_it(ret);
    else
        sg_found(ret, SG_HAVE_NOT, "no cgroup to be had: sandboxes of the service cannot pause");
    sg_cgroup_done(&g);
    (void)sg_cgroup_remove(&g, REMOVE_WAIT_MS, NULL);
    sg_ids_release(&ids);
}

static void probe_dynmods(const struct sg_probe_env *env, struct sg_finding *ret)
{
    (void)env;
    sg_auto_buf text;
    sg_buf_init(&text, 1 << 20);
    sg_auto_fd fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || sg_buf_read_fd(&text, fd, "mountinfo", NULL) < 0)
        sg_found(ret, SG_HAVE_NEWS, "not known");
    else
        sg_found(ret, SG_HAVE_NEWS, "%s",
                 strstr(sg_buf_cstr(&text), "favordynmods") ? "on" : "off");
}

static void probe_leftovers(const struct sg_probe_env *env, struct sg_finding *ret)
{
    struct sg_ids ids;
    if (claim(env, &ids, ret) < 0)
        return;
    sg_ids_release(&ids);
    int swept = sg_cgroup_sweep(env->is_root);
    if (swept > 0)
        sg_found(ret, SG_HAVE_NEWS, "removed %d cgroups of sandboxes that are gone", swept);
    else
        sg_found(ret, SG_HAVE_NEWS, "none");
}

/* ---- ids ---- */

static unsigned count_free(bool is_root)
{
    unsigned n = 0;
    for (uint32_t slot = 0; slot < SG_SLOT_COUNT; slot++) {
        struct sg_ids ids;
        if (sg_ids_claim_slot(is_root, slot, &ids, NULL) == 0) {
            sg_ids_release(&ids);
            n++;
        }
    }
    return n;
}

/* A user namespace with the ids of one cell. */
struct range {
    struct sg_ids ids;
    struct sg_userns ns;
};

static void range_done(struct range *r)
{
    sg_userns_done(&r->ns);
    sg_ids_release(&r->ids);
}

#define auto_range __attribute__((cleanup(range_done))) struct range

static int range_init(struct range *r, const struct sg_probe_env *env, struct sg_finding *ret)
{
    struct sg_err err;
    if (claim(env, &r->ids, ret) < 0)
        return -1;
    const struct sg_idmap map = { 0, r->ids.first, SG_CELL_IDS, 0, false };
    if (sg_userns_init(&r->ns, &map, &err) == 0)
        return 0;
    found_err(ret, &err);
    if (err.sys == ENOSPC)
        sg_found_fix(ret, "sysctl -w user.max_user_namespaces=65536");
    return -1;
}

static void probe_ids(const struct sg_probe_env *env, struct sg_finding *ret)
{
    if (!env->is_root) {
        sg_found(ret, SG_HAVE_LESS, "one id inside, which is yours: no sudo, no other users");
        sg_found_fix(ret, "%s", AS_ROOT);
        return;
    }
    auto_range r = { .ids.lock_fd = -1, .ns.fd = -1 };
    if (range_init(&r, env, ret) < 0)
        return;
    /* Our own is free for others. */
    sg_found(ret, SG_HAVE_IT, "%u of %d ranges free", count_free(env->is_root) + 1, SG_SLOT_COUNT);
}

/* The directory itself, or the nearest above it that is there. */
static char *nearest_dir(const char *path)
{
    char *dir = sg_strdup(path);
    while (access(dir, F_OK) < 0) {
        char *slash = strrchr(dir, '/');
        if (!slash)
            break;
        slash[slash == dir] = '\0';
        if (slash == dir)
            break;
    }
    return dir;
}

static void probe_idmap(const struct sg_probe_env *env, struct sg_finding *ret)
{
    if (!env->is_root) {
        sg_found(ret, SG_HAVE_LESS, "not for ordinary users: everything inside is yours");
        sg_found_fix(ret, "%s", AS_ROOT);
        return;
    }
    struct sg_err err;
    auto_range r = { .ids.lock_fd = -1, .ns.fd = -1 };
    if (range_init(&r, env, ret) < 0) {
        sg_found_fix(ret, "as for id ranges");
        return;
    }
    sg_auto_free char *dir = nearest_dir(env->state_dir);
    sg_auto_fd mnt = sg_mnt_clone(AT_FDCWD, dir, false, &err);
    if (mnt < 0 || sg_mnt_idmap(mnt, r.ns.fd, &err) < 0)
        found_err(ret, &err);
    else
        sg_found(ret, SG_HAVE_IT, "on %s", dir);
}

/* ---- the whole ---- */

static void probe_state_dir(const struct sg_probe_env *env, struct sg_finding *ret)
{
    sg_auto_free char *dir = nearest_dir(env->state_dir);
    struct stat st;
    if (stat(dir, &st) == 0 && !S_ISDIR(st.st_mode))
        sg_found(ret, SG_HAVE_NOT, "%s is not a directory", sg_quote(dir).s);
    else if (access(dir, W_OK | X_OK) < 0)
        sg_found(ret, SG_HAVE_NOT, "%s: %s", sg_quote(dir).s, strerror(errno));
    else
        sg_found(ret, SG_HAVE_IT, "%s", env->state_dir);
}

_Noreturn static void exec_run(char *const *argv, int talk_fd)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd >= 0 && dup2(null_fd, STDIN_FILENO) >= 0 && dup2(null_fd, STDOUT_FILENO) >= 0 &&
        dup2(talk_fd, STDERR_FILENO) >= 0)
        (void)execv("/proc/self/exe", argv);
    _exit(SG_EXIT_NOT_STARTED);
}

/* What it said, without the name of the program and the end of the line. */
static void found_talk(struct sg_finding *ret, int status, struct sg_buf *talk)
{
    static const char name[] = "sandglass: ";
    const char *text = sg_buf_cstr(talk);
    if (sg_starts_with(text, name))
        text += sizeof name - 1;
    if (*text)
        sg_found(ret, SG_HAVE_NOT, "%.*s", (int)strcspn(text, "\n"), text);
    else
        sg_found(ret, SG_HAVE_NOT, "ended with status %d",
                 WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/* This very program, asked for `run`: whatever that needs is tried. */
static void probe_sandbox(const struct sg_probe_env *env, struct sg_finding *ret)
{
    if (!sg_host_works(env->known)) { /* nothing to learn, and something half made to be left */
        sg_found(ret, SG_HAVE_NEWS, "not tried");
        return;
    }
    static char words[][12] = { "sandglass", "run", "--template", "host", "--", "/bin/true" };
    char *argv[SG_COUNT(words) + 1] = { NULL };
    for (size_t i = 0; i < SG_COUNT(words); i++)
        argv[i] = words[i];
    sg_auto_buf talk;
    sg_buf_init(&talk, MAX_TALK);
    int fds[2], status = 0;
    if (pipe2(fds, O_CLOEXEC) < 0) {
        sg_found_errno(ret, "make a pipe");
        return;
    }
    sg_auto_fd near = fds[0];
    sg_auto_fd far = fds[1];
    const uint64_t start = sg_now_ns();
    pid_t pid = fork();
    if (pid == 0)
        exec_run(argv, far);
    sg_drop_fd(&far);
    (void)sg_buf_read_fd(&talk, near, "its messages", NULL);
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        sg_found_errno(ret, "start it");
    else if (status != 0)
        found_talk(ret, status, &talk);
    else
        sg_found(ret, SG_HAVE_IT, "/bin/true in %u ms",
                 (unsigned)((sg_now_ns() - start) / 1000000u));
}

/* ---- the network ---- */

/* Which way the service would take, unless gate.lead names one. */
static void probe_gate(const struct sg_probe_env *env, struct sg_finding *ret)
{
    struct sg_err err = { 0 };
    int fds[SG_G_FD_COUNT];
    if (!env->is_root && sg_userns_become_root(&err) < 0) {
        found_err(ret, &err);
        return;
    }
    for (enum sg_lead how = env->is_root ? SG_LEAD_LOOKUP : SG_LEAD_NFT; how < SG_LEAD_COUNT; how++)
        if (sg_netsock_make_apart(how, -1, fds, &err) == 0) {
            sg_found(ret, SG_HAVE_IT, "connections come to it by %s", sg_lead_names[how]);
            return;
        }
    found_err(ret, &err);
}

#define MUST   SG_NEED_MUST
#define USEFUL SG_NEED_USEFUL
#define KNOW   SG_NEED_KNOW

/* clang-format off */
const struct sg_probe sg_cell_probes[] = {
    /* group, name, purpose, for root, for a user, as an ordinary user, value, probe, fix */
    { "Limits", "cgroup layout", "", KNOW, KNOW, false, 0, probe_layout, NULL },
    { "Limits", "memory limit", "out of memory ends the sandbox, not the host", USEFUL, USEFUL,
      false, SG_CTRL_MEMORY, probe_limit, NULL },
    { "Limits", "swap limit", "memory and swap are limited together", USEFUL, USEFUL, false, 0,
      probe_swap, "boot with swapaccount=1" },
    { "Limits", "cpu limit", "fractions of a cpu", USEFUL, USEFUL, false, SG_CTRL_CPU, probe_limit,
      NULL },
    { "Limits", "pids limit", "a fork bomb ends at its limit", USEFUL, USEFUL, false, SG_CTRL_PIDS,
      probe_limit, NULL },
    { "Limits", "freezer", "the service can pause a sandbox", USEFUL, USEFUL, false, 0,
      probe_freezer, NULL },
    { "Limits", "favordynmods", "not needed: processes move themselves", KNOW, KNOW, false, 0,
      probe_dynmods, NULL },

    { "Ids and templates", "id ranges", "65,536 ids for each sandbox alone", MUST, USEFUL, false, 0,
      probe_ids, "run it outside of the container or user namespace, or as an ordinary user" },
    { "Ids and templates", "idmapped mounts", "stored templates serve any range of ids", USEFUL,
      USEFUL, false, 0, probe_idmap, "set state_dir to a directory on ext4, xfs or btrfs" },
    { "Ids and templates", "state directory", "where templates are kept", MUST, MUST, false, 0,
      probe_state_dir, "set state_dir in sandglass.toml, or SANDGLASS_STATE_DIR" },

    { "Network", "gate", "the service's sandboxes have a network, under control", USEFUL, USEFUL,
      false, 0, probe_gate,
      "boot a kernel with CONFIG_NF_TABLES_INET and CONFIG_NFT_TPROXY (Linux 5.12 or newer)" },

    { "All together", "a sandbox", "one from start to end", MUST, MUST, false, 0, probe_sandbox,
      "see the lines above" },
    { "All together", "leftovers", "of sandboxes whose owner was killed", KNOW, KNOW, false, 0,
      probe_leftovers, NULL },
};
/* clang-format on */

const size_t sg_cell_probe_count = SG_COUNT(sg_cell_probes);

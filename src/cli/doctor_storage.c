/* SPDX-License-Identifier: Apache-2.0 */
/* Probes of the storage pool and of pauses: what the service could have on this host, what the one
 * that runs here has, and what becomes of a paused sandbox's memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/str.h"
#include "cli/api.h"
#include "cli/doctor.h"
#include "engine/reclaim.h"
#include "base/banned.h"

enum { MAX_TEXT = 1 << 20 };

/* Where root's programs are, whatever PATH says: the launcher looks there, too. Returns owned, or
 * NULL. */
static char *find_program(const char *name)
{
    static const char *const places[] = { "/usr/local/sbin", "/usr/sbin", "/sbin",
                                          "/usr/local/bin",  "/usr/bin",  "/bin" };
    for (size_t i = 0; i < SG_COUNT(places); i++) {
        char *path = sg_printf("%s/%s", places[i], name);
        if (access(path, X_OK) == 0)
            return path;
        free(path);
    }
    return NULL;
}

/* A line of the file that ends with the word. */
static bool has_word(const char *file, const char *word)
{
    sg_auto_buf text;
    sg_buf_init(&text, MAX_TEXT);
    sg_auto_fd fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || sg_buf_read_fd(&text, fd, file, NULL) < 0)
        return false;
    sg_auto_free char *line = sg_printf("\t%s\n", word);
    return strstr(sg_buf_cstr(&text), line) != NULL;
}

static void probe_pool(const struct sg_probe_env *env, struct sg_finding *ret)
{
    sg_auto_free char *mkfs = find_program("mkfs.btrfs");
    if (!env->is_root) {
        sg_found(ret, SG_HAVE_NOT, "without root the service keeps sandboxes in memory");
        sg_found_fix(ret, "run the service as root");
    } else if (!has_word("/proc/filesystems", "btrfs")) {
        sg_found(ret, SG_HAVE_NOT, "this kernel has no btrfs (a module may not be loaded yet)");
        sg_found_fix(ret, "modprobe btrfs, or a kernel that has it; XFS does not replace it");
    } else if (access("/dev/loop-control", R_OK | W_OK) < 0) {
        sg_found(ret, SG_HAVE_LESS, "no loop devices: only a directory on btrfs would do");
        sg_found_fix(ret, "modprobe loop, or set serve.storage to a directory on btrfs");
    } else if (!mkfs) {
        sg_found(ret, SG_HAVE_LESS, "no mkfs.btrfs: only a directory on btrfs would do");
        sg_found_fix(ret, "apt-get install btrfs-progs");
    } else {
        sg_found_it(ret);
    }
}

/* ---- the one that runs ---- */

static void tell_pool(const struct sg_jval *v, struct sg_finding *ret)
{
    static const uint64_t mib = 1 << 20;
    const uint64_t total = sg_api_u64(v, "totalBytes"), left = sg_api_u64(v, "freeBytes"),
                   errors = sg_api_u64(v, "errors");
    const struct sg_jval *full = sg_json_get(v, "full"), *holds = sg_json_get(v, "limitsHold");
    const char *source = sg_api_text(v, "source");
    if (strcmp(source, "tmpfs") == 0) {
        sg_found(ret, SG_HAVE_NEWS, "sandboxes are in memory: %.100s", sg_api_text(v, "why"));
    } else if (errors) {
        sg_found(ret, SG_HAVE_LESS, "its disk has had %llu errors", (unsigned long long)errors);
        sg_found_fix(ret, "look at the kernel's log; btrfs scrub reads and checks everything");
    } else if (full && full->b) {
        sg_found(ret, SG_HAVE_LESS, "nearly full (%llu of %llu MiB are free): nothing new is made",
                 (unsigned long long)(left / mib), (unsigned long long)(total / mib));
        sg_found_fix(ret,
                     "sandglass snapshots gc; remove sandboxes, or let serve.storage_size grow");
    } else if (holds && !holds->b) {
        sg_found(ret, SG_HAVE_LESS, "it is being counted anew: nothing new is made meanwhile");
        sg_found_fix(ret, "wait");
    } else {
        sg_found(ret, SG_HAVE_IT, "%s, %llu of %llu MiB are free", source,
                 (unsigned long long)(left / mib), (unsigned long long)(total / mib));
    }
}

static void ask_service(const struct sg_probe_env *env, const char *path,
                        void (*tell)(const struct sg_jval *v, struct sg_finding *ret),
                        struct sg_finding *ret)
{
    sg_auto_api api;
    struct sg_err err = { 0 };
    const struct sg_jval *v;
    sg_auto_free char *url = sg_printf("unix:%s/api.sock", env->run_dir);
    sg_api_open_at(&api, url, "");
    if (access(url + strlen("unix:"), W_OK) < 0)
        sg_found(ret, SG_HAVE_NEWS, "no service of yours runs here");
    else if (sg_api_call(&api, "GET", path, NULL, &v, &err) < 0)
        sg_found(ret, SG_HAVE_NEWS, "the service does not tell: %.120s", err.msg);
    else
        tell(v, ret);
}

static void probe_service_pool(const struct sg_probe_env *env, struct sg_finding *ret)
{
    ask_service(env, "/v1/storage", tell_pool, ret);
}

/* ---- pauses ---- */

/* Its status and the first line that it said: the cause, from which the rest follows. */
static int run_criu(const char *path, const char *verb, char *ret_line, size_t cap)
{
    int ends[2], status = -1;
    sg_auto_buf talk;
    sg_buf_init(&talk, MAX_TEXT);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    sg_auto_fd near = ends[0], far = ends[1];
    const pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(far, STDOUT_FILENO);
        (void)dup2(far, STDERR_FILENO);
        (void)execl(path, "criu", verb, (char *)NULL);
        _exit(127);
    }
    sg_drop_fd(&far);
    (void)sg_buf_read_fd(&talk, near, "its messages", NULL);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    const char *text = sg_buf_cstr(&talk);
    (void)snprintf(ret_line, cap, "%.*s", (int)strcspn(text, "\n"), text);
    return status;
}

/* Even a criu that works here is of no use: it takes a process only if the namespaces that it is in
 * belong to its own user namespace, and those of a cell never do (docs/design/storage.md). Said
 * with its version and its own words, so that nobody believes that installing one changes it. */
static void probe_memory_pause(const struct sg_probe_env *env, struct sg_finding *ret)
{
    static const char kept[] = "pauses are by the freezer, and their memory ends with the machine";
    char line[60] = "", version[40] = "";
    sg_auto_free char *criu = find_program("criu");
    sg_found_fix(ret, "pause with memory dropped (--drop-memory) for one that survives a restart");
    if (!env->is_root || !criu) {
        sg_found(ret, SG_HAVE_NOT, "%s", kept);
        return;
    }
    (void)run_criu(criu, "--version", version, sizeof version);
    const char *number = sg_starts_with(version, "Version: ") ? version + strlen("Version: ") : "?";
    if (run_criu(criu, "check", line, sizeof line) != 0)
        sg_found(ret, SG_HAVE_NOT, "%s; 'criu check' of %s fails: %s", kept, number, line);
    else
        sg_found(ret, SG_HAVE_NOT, "%s; criu %s works, but takes no process of a sandbox", kept,
                 number);
}

/* What the kernel does with it until then. */
static void probe_paused_memory(const struct sg_probe_env *env, struct sg_finding *ret)
{
    static const enum sg_verdict verdicts[SG_RECLAIM_WAY_COUNT] = {
        [SG_RECLAIM_NONE] = SG_HAVE_NOT,
        [SG_RECLAIM_FILES] = SG_HAVE_LESS,
        [SG_RECLAIM_ALL] = SG_HAVE_IT,
    };
    struct sg_reclaim_host h;
    char text[160];
    (void)env;
    sg_reclaim_probe(&h);
    sg_reclaim_describe(&h, text, sizeof text);
    sg_found(ret, verdicts[h.way], "%s", text);
    if (h.way == SG_RECLAIM_FILES)
        sg_found_fix(ret, "swap: a partition or a file (mkswap, swapon), or zram");
    else if (h.way == SG_RECLAIM_NONE)
        sg_found_fix(ret,
                     "cgroup v2 alone (systemd.unified_cgroup_hierarchy=1), Linux 5.19 or newer;\n"
                     "or pause with memory dropped (--drop-memory)");
}

/* ---- start commands ---- */

static void tell_started(const struct sg_jval *v, struct sg_finding *ret)
{
    const struct sg_jval *s = sg_json_get(v, "started");
    const unsigned long long wanted = sg_api_u64(s, "wanted"), ready = sg_api_u64(s, "ready"),
                             failing = sg_api_u64(s, "failing");
    if (!s) {
        sg_found(ret, SG_HAVE_NEWS, "the service does not tell");
    } else if (failing) {
        sg_found(ret, SG_HAVE_LESS, "%llu of %llu fail: %.120s", failing, wanted,
                 sg_api_text(s, "why"));
        sg_found_fix(ret, "a create starts its own meanwhile; sandglass serve logs each failure");
    } else {
        sg_found(ret, SG_HAVE_IT, "%llu of %llu wait with it running", ready, wanted);
    }
}

static void probe_started(const struct sg_probe_env *env, struct sg_finding *ret)
{
    ask_service(env, "/v1/pool", tell_started, ret);
}

#define USEFUL SG_NEED_USEFUL
#define KNOW   SG_NEED_KNOW

/* clang-format off */
const struct sg_probe sg_storage_probes[] = {
    /* group, name, purpose, for root, for a user, as an ordinary user, value, probe, fix */
    { "Storage", "storage pool", "snapshots, forks, volumes, limits on disks", USEFUL, KNOW, false,
      0, probe_pool, NULL },
    { "Storage", "pool in use", "that of this machine's service", KNOW, KNOW, false, 0,
      probe_service_pool, NULL },
    { "Storage", "start commands", "sandboxes of templates with one wait with it running", KNOW,
      KNOW, false, 0, probe_started, NULL },
    { "Storage", "pause to disk", "memory of a paused sandbox on the disk", KNOW, KNOW, false, 0,
      probe_memory_pause, NULL },
    { "Storage", "paused memory", "memory of a paused sandbox is free for others", KNOW, KNOW, false, 0,
      probe_paused_memory, NULL },
};
/* clang-format on */

const size_t sg_storage_probe_count = SG_COUNT(sg_storage_probes);

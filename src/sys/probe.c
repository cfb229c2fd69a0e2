/* SPDX-License-Identifier: Apache-2.0 */
/* Running probes: one child each, one report through a pipe, one deadline. */
#include "sys/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "sys/kfile.h"
#include "sys/probe_internal.h"
#include "base/banned.h"

enum { NOBODY = 65534 };

/* ---- where mounts are made ---- */

/* What forbids user namespaces, when it is in force. */
static const struct {
    const char *path;
    char value;
    const char *setting;
} userns_blocks[] = {
    { "/proc/sys/user/max_user_namespaces", '0', "user.max_user_namespaces=65536" },
    { "/proc/sys/kernel/unprivileged_userns_clone", '0', "kernel.unprivileged_userns_clone=1" },
    { "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", '1',
      "kernel.apparmor_restrict_unprivileged_userns=0" },
};

void sg_probe_explain_userns(struct sg_finding *f)
{
    for (size_t i = 0; i < SG_COUNT(userns_blocks); i++) {
        char text[16];
        if (sg_file_read(AT_FDCWD, userns_blocks[i].path, text, sizeof text, NULL) == 0 &&
            text[0] == userns_blocks[i].value && (text[1] == '\n' || !text[1])) {
            sg_found_fix(f, "sysctl -w %s", userns_blocks[i].setting);
            return;
        }
    }
    sg_found_fix(f, "in a container: docker run --security-opt seccomp=unconfined");
}

static int own_userns(struct sg_finding *f)
{
    char uid_map[32], gid_map[32];
    struct sg_err err;
    (void)snprintf(uid_map, sizeof uid_map, "0 %u 1", (unsigned)geteuid());
    (void)snprintf(gid_map, sizeof gid_map, "0 %u 1", (unsigned)getegid());
    if (unshare(CLONE_NEWUSER) < 0) {
        sg_found_errno(f, "make a user namespace");
        sg_probe_explain_userns(f);
        return -1;
    }
    if (sg_file_write(AT_FDCWD, "/proc/self/setgroups", "deny", &err) < 0 ||
        sg_file_write(AT_FDCWD, "/proc/self/uid_map", uid_map, &err) < 0 ||
        sg_file_write(AT_FDCWD, "/proc/self/gid_map", gid_map, &err) < 0) {
        sg_found(f, SG_HAVE_NOT, "%s", err.msg);
        return -1;
    }
    return 0;
}

int sg_probe_enter(struct sg_finding *f)
{
    const bool is_rootless = geteuid() != 0;
    if (is_rootless && own_userns(f) < 0)
        return -1;
    /* AppArmor lets the namespace come to be, and takes its rights away: so this is the test. */
    if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0)
        return 0;
    sg_found_errno(f, "make a private mount namespace");
    if (is_rootless)
        sg_probe_explain_userns(f);
    return -1;
}

/* ---- one child ---- */

/* Out of root for good. The dumpable flag goes with it, and without that flag /proc/self belongs to
 * root: the id maps could not be written. */
static int step_down(struct sg_finding *f)
{
    if (setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
        setresuid(NOBODY, NOBODY, NOBODY) == 0 && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0)
        return 0;
    sg_found_errno(f, "become an ordinary user");
    sg_found_fix(f, "run 'sandglass doctor' as an ordinary user");
    return -1;
}

_Noreturn static void try_it(struct sg_finding *f, const struct sg_probe_env *env, int report_fd)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (!f->probe->as_ordinary || !env->is_root || step_down(f) == 0)
        f->probe->run(env, f);
    (void)!write(report_fd, f, sizeof *f);
    _exit(0);
}

enum ending { HAS_REPORTED, HAS_DIED, IS_LATE };

static unsigned patience_of(const struct sg_probe_env *env)
{
    return env->patience_ms ? env->patience_ms : SG_PROBE_PATIENCE_MS;
}

static enum ending await_report(int fd, unsigned patience_ms, struct sg_finding *ret)
{
    const uint64_t until = sg_now_ns() + (uint64_t)patience_ms * 1000000u;
    struct sg_finding got;
    for (;;) {
        const uint64_t now = sg_now_ns();
        struct pollfd p = { .fd = fd, .events = POLLIN };
        int n = poll(&p, 1, now < until ? (int)((until - now) / 1000000u) + 1 : 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return IS_LATE;
        if (read(fd, &got, sizeof got) != (ssize_t)sizeof got) /* the end of the pipe */
            return HAS_DIED;
        *ret = got;
        return HAS_REPORTED;
    }
}

static void end_child(pid_t pid, enum ending ending, unsigned patience_ms, struct sg_finding *f)
{
    int status = 0;
    if (ending == IS_LATE) /* not yet waited for: its number is still its own */
        (void)kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (ending == IS_LATE)
        sg_found(f, SG_HAVE_NOT, "no answer within %u s", patience_ms / 1000);
    else if (ending == HAS_DIED)
        sg_found(f, SG_HAVE_NOT, "the attempt was killed: %s",
                 WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "unexpected end");
}

static void probe_one(struct sg_finding *f, const struct sg_probe_env *env)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0) {
        sg_found_errno(f, "make a pipe");
        return;
    }
    sg_auto_fd near = fds[0];
    sg_auto_fd far = fds[1];
    pid_t pid = fork();
    if (pid == 0)
        try_it(f, env, far);
    sg_drop_fd(&far);
    if (pid < 0)
        sg_found_errno(f, "start a process");
    else
        end_child(pid, await_report(near, patience_of(env), f), patience_of(env), f);
}

void sg_host_probe(struct sg_host *h, const struct sg_probe *rows, size_t count,
                   const struct sg_probe_env *env)
{
    for (size_t i = 0; i < count && h->n < SG_HOST_MAX; i++) {
        const enum sg_need need = env->is_root ? rows[i].for_root : rows[i].for_user;
        if (need == SG_NEED_NOTHING)
            continue;
        struct sg_finding *f = &h->of[h->n];
        *f = (struct sg_finding) { .probe = &rows[i], .need = need, .verdict = SG_HAVE_NOT };
        sg_found_fix(f, "%s", rows[i].fix ? rows[i].fix : "");
        probe_one(f, env);
        if (f->verdict == SG_HAVE_IT || f->verdict == SG_HAVE_NEWS)
            f->fix[0] = '\0';
        h->n++; /* only now is it known */
    }
}

bool sg_host_works(const struct sg_host *h)
{
    for (size_t i = 0; i < h->n; i++)
        if (h->of[i].need == SG_NEED_MUST && h->of[i].verdict == SG_HAVE_NOT)
            return false;
    return true;
}

const struct sg_finding *sg_host_find(const struct sg_host *h, const char *name)
{
    for (size_t i = 0; i < h->n; i++)
        if (strcmp(h->of[i].probe->name, name) == 0)
            return &h->of[i];
    return NULL;
}

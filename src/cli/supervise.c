/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include "cli/api.h"
#include "cli/cmd_template.h"
#include "cli/out.h"
#include "cli/supervise.h"
#include "base/banned.h"

extern char **environ;

enum {
    LAST_STARTS = 3,
    FIRST_PAUSE_MS = 100,
    LAST_PAUSE_MS = 1000,
    STEADY_MS = 1000,      /* after so long a run the pause begins anew */
    FIRST_START_MS = 2000, /* failed within: it cannot start, and will not by trying */
    TERM_MS = 30000,       /* then it is killed: it is made for that */
    INT_MS = 300000,       /* many sandboxes take their time */
};
static const uint64_t MS = 1000000;

/* ---- the lock ---- */

static char *pid_file(const struct sg_cli *cli)
{
    return sg_printf("%s/serve.pid", cli->config.serve_run_dir);
}

char *sg_supervise_log(const struct sg_cli *cli)
{
    return sg_printf("%s/serve.log", cli->config.serve_run_dir);
}

char *sg_supervise_url(const struct sg_cli *cli)
{
    return sg_printf("%s/serve.url", cli->config.serve_run_dir);
}

static int make_run_dir(const char *dir, struct sg_err *err)
{
    if (mkdir(dir, 0700) == 0 || errno == EEXIST)
        return 0;
    sg_auto_free char *parent = sg_strdup(dir);
    char *slash = strrchr(parent, '/');
    if (errno == ENOENT && slash && slash != parent) { /* of an own directory: STATE/run */
        *slash = '\0';
        if (make_run_dir(parent, err) < 0)
            return -1;
        if (mkdir(dir, 0700) == 0 || errno == EEXIST)
            return 0;
    }
    return sg_fail_sys(err, "make the directory %s", sg_quote(dir).s);
}

static pid_t read_pid(int fd)
{
    char text[24] = "";
    uint64_t pid = 0;
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    text[strcspn(text, "\n")] = '\0';
    if (n <= 0 || sg_parse_u64(sg_str_of(text), 1, INT32_MAX, &pid, NULL) < 0)
        return 0;
    return (pid_t)pid;
}

int sg_supervise_lock(const struct sg_cli *cli, struct sg_err *err)
{
    sg_auto_free char *path = pid_file(cli);
    if (make_run_dir(cli->config.serve_run_dir, err) < 0)
        return -1;
    sg_auto_fd fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return sg_fail_sys(err, "open %s", sg_quote(path).s);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return sg_fail(err, SG_CONFLICT, "the service is running already (pid %d)",
                       (int)read_pid(fd));
    return sg_take_fd(&fd);
}

/* A pid that is read while the lock is held, and held still once we have the pidfd, is the
 * holder's. */
int sg_supervise_find(const struct sg_cli *cli, pid_t *ret_pid, struct sg_err *err)
{
    sg_auto_free char *path = pid_file(cli);
    sg_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno != ENOENT)
        return sg_fail_sys(err, "open %s", sg_quote(path).s);
    const pid_t pid = fd >= 0 ? read_pid(fd) : 0;
    sg_auto_fd pidfd = pid ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (pidfd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0)
        return sg_fail(err, SG_NOT_FOUND, "the service is not running");
    *ret_pid = pid;
    return sg_take_fd(&pidfd);
}

static void write_pid(int lock_fd)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%d\n", (int)getpid());
    (void)!ftruncate(lock_fd, 0);
    (void)!pwrite(lock_fd, text, (size_t)n, 0);
}

/* It may come from a flag, which clients do not see. */
static void write_url(const struct sg_cli *cli, const char *path)
{
    sg_auto_free char *url = sg_api_listen_url(cli);
    sg_auto_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        (void)sg_out_write(fd, url, strlen(url), NULL);
}

/* ---- settings for the launcher ---- */

/* It reads the same files as we do; what came by flags goes through the environment. So do the
 * directories: without root it becomes root of its own namespace, and would look for root's. A
 * client's key is no business of a server. */
static void export_flags(const struct sg_cli *cli)
{
    for (size_t i = 0; i < sg_option_count; i++) {
        const struct sg_option *o = &sg_options[i];
        if (!o->env || cli->origins.of[i].kind != SG_FROM_FLAG)
            continue;
        sg_auto_buf text;
        sg_buf_init(&text, 64 << 10);
        const struct sg_strlist *list = o->type == SG_OPTION_LIST
                                            ? (const void *)((const char *)&cli->config + o->offset)
                                            : NULL;
        for (size_t k = 0; k < (list ? list->n : 1); k++) {
            sg_buf_add_str(&text, k ? "," : "");
            sg_option_format(o, &cli->config, k, &text);
        }
        (void)setenv(o->env, sg_buf_cstr(&text), 1);
    }
    (void)setenv("SANDGLASS_STATE_DIR", cli->config.state_dir, 1);
    (void)setenv("SANDGLASS_RUN_DIR", cli->config.serve_run_dir, 1);
    (void)unsetenv("SANDGLASS_API_KEY");
    (void)unsetenv("SANDGLASS_URL");
    sg_auto_free char *file =
        *cli->config.config_file ? realpath(cli->config.config_file, NULL) : NULL;
    if (file)
        (void)setenv("SANDGLASS_CONFIG", file, 1);
}

/* ---- the child ---- */

struct supervisor {
    char *program; /* owned */
    int signal_fd;
    pid_t pid; /* 0: none */
    uint64_t started_ns, next_ns, kill_ns;
    unsigned starts;
    uint64_t pause_ms;
    int stop_signal;      /* 0: none yet */
    unsigned last_starts; /* only a launcher can end the sandboxes: of those that were to do that */
    int code;
};

static int start(struct supervisor *s, struct sg_err *err)
{
    char name[] = "sandglass-launcher", *argv[] = { name, NULL };
    posix_spawnattr_t attr;
    sigset_t held; /* a signal that comes before it can be taken waits for that */
    (void)sigemptyset(&held);
    (void)sigaddset(&held, SIGINT);
    (void)sigaddset(&held, SIGTERM);
    (void)posix_spawnattr_init(&attr);
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    (void)posix_spawnattr_setsigmask(&attr, &held);
    const int failed = posix_spawn(&s->pid, s->program, NULL, &attr, argv, environ);
    (void)posix_spawnattr_destroy(&attr);
    s->started_ns = sg_now_ns();
    s->starts++;
    if (!failed && s->stop_signal)
        (void)kill(s->pid, s->stop_signal);
    if (!failed)
        return 0;
    s->pid = 0;
    return sg_fail(err, sg_kind_of_errno(failed), "start %s: %s", s->program, strerror(failed));
}

static void plan_next(struct supervisor *s)
{
    const uint64_t now = sg_now_ns();
    const bool was_steady = now - s->started_ns > STEADY_MS * MS;
    s->pause_ms = was_steady || !s->pause_ms ? FIRST_PAUSE_MS : s->pause_ms * 2;
    if (s->pause_ms > LAST_PAUSE_MS)
        s->pause_ms = LAST_PAUSE_MS;
    s->next_ns = now + s->pause_ms * MS;
}

/* False: there is nothing left to supervise. */
static bool has_ended(struct supervisor *s, int status)
{
    const uint64_t lived = sg_now_ns() - s->started_ns;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : SG_EXIT_SIGNAL + WTERMSIG(status);
    char text[16];
    s->pid = 0;
    if (s->stop_signal) {
        s->code = code;
        s->next_ns = 0;
        return s->stop_signal == SIGINT && WIFSIGNALED(status) && s->last_starts++ < LAST_STARTS;
    }
    if (s->starts == 1 && WIFEXITED(status) && code != 0 &&
        (lived < FIRST_START_MS * MS || code == SG_EXIT_USAGE)) {
        s->code = code == SG_EXIT_TRY_LATER || code == SG_EXIT_USAGE ? code : SG_EXIT_FAILED;
        return false;
    }
    (void)snprintf(text, sizeof text, "%d", code);
    plan_next(s);
    sg_log(SG_LOG_WARN, "the launcher ended and is started again", SG_KV("status", text));
    return true;
}

static void stop(struct supervisor *s, int number)
{
    s->stop_signal = number;
    s->next_ns = 0;
    s->kill_ns = sg_now_ns() + (number == SIGINT ? INT_MS : TERM_MS) * MS;
    if (s->pid)
        (void)kill(s->pid, number);
}

static int timeout_ms(const struct supervisor *s)
{
    const uint64_t at = s->stop_signal ? s->kill_ns : s->next_ns, now = sg_now_ns();
    if (!s->pid && !s->next_ns)
        return 0;
    if (s->pid && !s->stop_signal)
        return -1;
    return at <= now ? 0 : (int)((at - now) / MS) + 1;
}

/* The launcher, or a process that a dead one left to us: one signal may stand for several. */
static bool reap(struct supervisor *s)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        if (pid == s->pid && !has_ended(s, status))
            return false;
    return true;
}

/* False: done. */
static bool take_signals(struct supervisor *s)
{
    struct signalfd_siginfo info;
    while (read(s->signal_fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo != SIGCHLD)
            stop(s, info.ssi_signo == SIGINT ? SIGINT : SIGTERM);
        else if (!reap(s))
            return false;
    }
    return s->pid || s->stop_signal != SIGTERM;
}

static int run(struct supervisor *s, struct sg_err *err)
{
    for (;;) {
        if (!s->pid && s->stop_signal != SIGTERM && sg_now_ns() >= s->next_ns &&
            start(s, err) < 0) {
            if (s->starts == 1 || s->stop_signal)
                return -1;
            sg_log(SG_LOG_ERROR, "the launcher cannot be started", SG_KV("error", err->msg));
            plan_next(s);
        }
        struct pollfd p = { .fd = s->signal_fd, .events = POLLIN };
        (void)poll(&p, 1, timeout_ms(s));
        if (!take_signals(s))
            return 0;
        if (s->stop_signal && s->pid && sg_now_ns() >= s->kill_ns)
            (void)kill(s->pid, SIGKILL);
    }
}

int sg_supervise(const struct sg_cli *cli, int lock_fd)
{
    static const char *const places[] = { "../libexec/sandglass/sandglass-launcher",
                                          "../launcher/sandglass-launcher" };
    sg_auto_fd lock = lock_fd;
    struct sg_err err = { 0 };
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGHUP);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    /* Cells whose launcher died come to us, or nobody may reap them. */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    sg_auto_free char *program = sg_find_beside(places, SG_COUNT(places), &err);
    sg_auto_fd signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (!program)
        return sg_cli_fail(cli, &err);
    if (signal_fd < 0) {
        (void)sg_fail_sys(&err, "make a signal descriptor");
        return sg_cli_fail(cli, &err);
    }
    sg_log_init("sandglass", cli->config.serve_log_level);
    export_flags(cli);
    sg_auto_free char *path = pid_file(cli), *url_path = sg_supervise_url(cli);
    write_pid(lock);
    write_url(cli, url_path);
    struct supervisor s = { .program = program, .signal_fd = signal_fd };
    const int r = run(&s, &err);
    (void)unlink(url_path);
    (void)unlink(path);
    return r < 0 ? sg_cli_fail(cli, &err) : s.code;
}

/* ---- in the background ---- */

int sg_supervise_detached(const struct sg_cli *cli, pid_t *ret_pid, struct sg_err *err)
{
    sg_auto_free char *log = sg_supervise_log(cli);
    sg_auto_fd lock = sg_supervise_lock(cli, err);
    if (lock < 0)
        return -1;
    sg_auto_fd log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    sg_auto_fd null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (log_fd < 0 || null_fd < 0)
        return sg_fail_sys(err, "open %s", sg_quote(log).s);
    const pid_t pid = fork();
    if (pid < 0)
        return sg_fail_sys(err, "start a process");
    if (pid == 0) {
        (void)setsid();
        (void)!chdir("/");
        (void)dup2(null_fd, STDIN_FILENO);
        (void)dup2(log_fd, STDOUT_FILENO);
        (void)dup2(log_fd, STDERR_FILENO);
        _exit(sg_supervise(cli, sg_take_fd(&lock)));
    }
    const int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0)
        return sg_fail_sys(err, "watch process %d", (int)pid);
    *ret_pid = pid;
    return pidfd;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass template build`: a recipe becomes a template. With -f a Dockerfile does, in the
 * service (cmd_template_docker.c).
 *
 * templates/build.sh runs mmdebstrap, whose archive goes to a file and then the way of every other
 * archive (cmd_template_import.c). Its working files live in a stage of the store, so they vanish
 * with it, at the latest when the next build sweeps. A build that is told to end (Ctrl-C) ends
 * mmdebstrap first and waits for it: it has mounts to undo. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "cli/cmd_template.h"
#include "cli/out.h"
#include "image/recipe.h"
#include "image/store.h"
#include "base/banned.h"

/* Descriptor of the child that keeps the stage locked for as long as it lives, even without us. */
enum { CHILD_LOCK_FD = 9 };
enum { MAX_CAUSES = 4 };
enum {
    TAIL_BYTES = 2048,
    KNOWN_BYTES = 1024,
    MAX_PACKAGES_BYTES = 16384,
    MAX_ARGS = 2 * SG_RECIPE_MAX_ITEMS + 16
};

/* From the program's directory: where it is installed, and in the build tree. */
#define RECIPES_INSTALLED "../share/sandglass/recipes"
#define RECIPES_BUILT     "../../templates"

struct build {
    pid_t pid;
    int log_fd, signal_fd;
    bool is_interrupted;
    char line[256]; /* of the log, so far */
    size_t line_bytes;
    char causes[MAX_CAUSES][160]; /* the first "E: " lines; the rest follows from them */
    size_t cause_count;
};

static void build_done(struct build *b)
{
    sg_drop_fd(&b->log_fd);
    sg_drop_fd(&b->signal_fd);
}

/* ---- what is needed ---- */

static bool is_in_path(const char *program)
{
    static const char *const dirs[] = { "/usr/bin", "/bin", "/usr/sbin", "/sbin",
                                        "/usr/local/bin" };
    for (size_t i = 0; i < SG_COUNT(dirs); i++) {
        sg_auto_free char *path = sg_printf("%s/%s", dirs[i], program);
        if (access(path, X_OK) == 0)
            return true;
    }
    return false;
}

static int check_tools(struct sg_err *err)
{
    if (!is_in_path("mmdebstrap"))
        return sg_fail(err, SG_UNSUPPORTED,
                       "building needs mmdebstrap; run: apt-get install mmdebstrap");
    if (geteuid() != 0 && !is_in_path("newuidmap"))
        return sg_fail(err, SG_UNSUPPORTED,
                       "building without root needs newuidmap; run: apt-get install uidmap "
                       "(and have a line in /etc/subuid and /etc/subgid), or build as root");
    return 0;
}

/* ---- mmdebstrap ---- */

static char *join_packages(const struct sg_recipe *r, struct sg_err *err)
{
    sg_auto_buf out;
    sg_buf_init(&out, MAX_PACKAGES_BYTES);
    for (size_t i = 0; i < r->package_count; i++)
        sg_buf_addf(&out, "%s%s", i ? "," : "", r->packages[i]);
    return sg_buf_check(&out, "list of packages", err) < 0 ? NULL : sg_strdup(sg_buf_cstr(&out));
}

struct arguments {
    char *v[MAX_ARGS]; /* owned; NULL-terminated */
    size_t n;
};

static void arguments_done(struct arguments *a)
{
    while (a->n)
        free(a->v[--a->n]);
}

static int fill_arguments(struct arguments *a, const struct sg_recipe *r, const char *script,
                          const char *recipe_dir, struct sg_err *err)
{
    char *packages = join_packages(r, err);
    if (!packages)
        return -1;
    a->v[a->n++] = sg_strdup("/bin/sh");
    a->v[a->n++] = sg_strdup(script);
    a->v[a->n++] = sg_strdup(geteuid() == 0 ? "root" : "unshare");
    a->v[a->n++] = sg_strdup(r->suite);
    a->v[a->n++] = sg_strdup(r->variant);
    a->v[a->n++] = packages;
    a->v[a->n++] = sg_printf("%s/setup.sh", recipe_dir);
    for (size_t i = 0; i < r->exclude_count; i++)
        a->v[a->n++] = sg_printf("path-exclude=%s", r->exclude[i]);
    for (size_t i = 0; i < r->include_count; i++)
        a->v[a->n++] = sg_printf("path-include=%s", r->include[i]);
    return 0;
}

/* Signals that end us are read, not delivered, so that the child is ended and everything removed.
 */
static int hold_signals(sigset_t *ret_before, struct sg_err *err)
{
    sigset_t ends;
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGINT);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigaddset(&ends, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &ends, ret_before);
    int fd = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd >= 0 ? fd : sg_fail_sys(err, "make a signalfd");
}

static int start(struct build *b, char **argv, int archive_fd, int lock_fd, const sigset_t *mask,
                 struct sg_err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make a pipe");
    sg_auto_fd log = ends[0], child_log = ends[1];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attr);
    (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&actions, archive_fd, STDOUT_FILENO);
    (void)posix_spawn_file_actions_adddup2(&actions, child_log, STDERR_FILENO);
    (void)posix_spawn_file_actions_adddup2(&actions, lock_fd, CHILD_LOCK_FD);
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    (void)posix_spawnattr_setsigmask(&attr, mask);
    int failed = posix_spawn(&b->pid, argv[0], &actions, &attr, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attr);
    if (failed) {
        errno = failed;
        return sg_fail_sys(err, "start '%s'", argv[0]);
    }
    b->log_fd = sg_take_fd(&log);
    return 0;
}

/* mmdebstrap says "I: what I do" and "E: what went wrong"; the programs under it say more. */
static void take_line(struct build *b, const char *name, struct sg_progress *p)
{
    b->line[b->line_bytes] = '\0';
    for (char *c = b->line; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    if (sg_starts_with(b->line, "I: "))
        sg_progress_say(p, "%s: %s", name, b->line + 3);
    if (sg_starts_with(b->line, "E: ") && b->cause_count < MAX_CAUSES) {
        char *cause = b->causes[b->cause_count++];
        (void)snprintf(cause, sizeof b->causes[0], "%.*s", (int)sizeof b->causes[0] - 1,
                       b->line + 3);
    }
    b->line_bytes = 0;
}

/* Returns whether there is more to come. */
static bool read_log(struct build *b, const char *name, struct sg_progress *p)
{
    char chunk[1024];
    ssize_t got = read(b->log_fd, chunk, sizeof chunk);
    if (got <= 0)
        return got < 0 && errno == EINTR;
    for (ssize_t i = 0; i < got; i++) {
        if (chunk[i] == '\n')
            take_line(b, name, p);
        else if (b->line_bytes + 1 < sizeof b->line)
            b->line[b->line_bytes++] = chunk[i];
    }
    return true;
}

/* apt gives the cause, then mmdebstrap says that apt failed, then that it failed itself: the first
 * line is the message, the others are shown before it. */
static int fail_recipe(const struct build *b, struct sg_progress *p, struct sg_err *err)
{
    for (size_t i = 1; i < b->cause_count; i++)
        sg_progress_say(p, "mmdebstrap: %s", b->causes[i]);
    return sg_fail(err, SG_DENIED, "%s%s",
                   b->cause_count ? b->causes[0] : "mmdebstrap failed and gave no reason",
                   geteuid() == 0 ? "" : " (without root; as root it needs less)");
}

static int follow(struct build *b, const char *name, struct sg_progress *p, struct sg_err *err)
{
    for (bool is_open = true; is_open;) {
        struct pollfd fds[] = { { .fd = b->log_fd, .events = POLLIN },
                                { .fd = b->signal_fd, .events = POLLIN } };
        if (poll(fds, SG_COUNT(fds), -1) < 0 && errno != EINTR)
            return sg_fail_sys(err, "wait for mmdebstrap");
        struct signalfd_siginfo info;
        if (fds[1].revents && read(b->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
            b->is_interrupted = true;
            (void)kill(-b->pid, SIGTERM); /* its whole group: the shell, mmdebstrap, apt */
        }
        if (fds[0].revents)
            is_open = read_log(b, name, p);
    }
    int status = 0;
    (void)waitpid(b->pid, &status, 0);
    if (b->is_interrupted)
        return sg_fail(err, SG_DENIED, "interrupted");
    return status == 0 ? 0 : fail_recipe(b, p, err);
}

/* Runs the recipe into `archive_fd`. */
static int run_recipe(const struct sg_recipe *r, const char *name, const char *recipe_dir,
                      const struct sg_stage *stage, const char *work_dir, int archive_fd,
                      struct sg_progress *p, struct sg_err *err)
{
    __attribute__((cleanup(build_done))) struct build b = { .log_fd = -1, .signal_fd = -1 };
    __attribute__((cleanup(arguments_done))) struct arguments args = { .n = 0 };
    sg_auto_free char *script = sg_printf("%s/../build.sh", recipe_dir);
    if (fill_arguments(&args, r, script, recipe_dir, err) < 0)
        return -1;
    if (geteuid() == 0) /* without root, mmdebstrap's other ids could not enter our directory */
        (void)setenv("TMPDIR", work_dir, 1);
    sigset_t before;
    b.signal_fd = hold_signals(&before, err);
    int done = b.signal_fd < 0 || start(&b, args.v, archive_fd, stage->fd, &before, err) < 0
                   ? -1
                   : follow(&b, name, p, err);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return done;
}

/* ---- the command ---- */

/* Whether there is nothing to do. What was not made by a recipe is somebody's own, and not
 * replaced unasked. */
static int check_present(const char *state_dir, const char *name, const char *digest,
                         bool *ret_is_current, struct sg_err *err)
{
    sg_auto_template t = { .lock_fd = -1 };
    struct sg_err absent;
    *ret_is_current = false;
    if (sg_template_open(state_dir, name, &t, &absent) < 0)
        return 0;
    if (!t.origin || strcmp(t.origin, "recipe") != 0)
        return sg_fail(err, SG_CONFLICT,
                       "template '%s' was imported, not built; --force replaces it", name);
    *ret_is_current = t.digest && strcmp(t.digest, digest) == 0;
    return 0;
}

/* "base, other": the recipes beside `dir`, for whoever asked for one that is not there. */
static int refuse_recipe(const char *name, struct sg_err *err)
{
    static const char *const places[] = { RECIPES_INSTALLED, RECIPES_BUILT };
    sg_auto_free char *dir = sg_find_beside(places, SG_COUNT(places), err);
    if (!dir)
        return -1;
    struct dirent **entries = NULL;
    int count = scandir(dir, &entries, NULL, alphasort);
    sg_auto_buf known;
    sg_buf_init(&known, KNOWN_BYTES);
    for (int i = 0; i < count; i++) {
        sg_auto_free char *recipe = sg_printf("%s/%s/recipe.toml", dir, entries[i]->d_name);
        if (access(recipe, R_OK) == 0)
            sg_buf_addf(&known, "%s%s", known.n ? ", " : "", entries[i]->d_name);
        free(entries[i]);
    }
    free((void *)entries);
    return sg_fail(err, SG_NOT_FOUND, "no recipe for a template %s; there is: %s", sg_quote(name).s,
                   known.n ? sg_buf_cstr(&known) : "none");
}

static int build(struct sg_cli *cli, const char *name, struct sg_recipe *r, const char *recipe_dir,
                 struct sg_import_result *ret, struct sg_err *err)
{
    const char *state_dir = cli->config.state_dir;
    sg_auto_stage stage = { .store_fd = -1, .fd = -1 };
    if (check_tools(err) < 0 || sg_stage_new(state_dir, &stage, err) < 0)
        return -1;
    sg_auto_fd archive =
        openat(stage.fd, "archive.tar", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (archive < 0)
        return sg_fail_sys(err, "make a file for the archive");
    sg_auto_free char *work_dir = sg_printf("%s/templates/%s", state_dir, stage.name);
    sg_auto_progress progress;
    sg_progress_init(&progress, cli);
    if (run_recipe(r, name, recipe_dir, &stage, work_dir, archive, &progress, err) < 0)
        return -1;
    if (lseek(archive, 0, SEEK_SET) < 0)
        return sg_fail_sys(err, "read the archive");
    const struct sg_import in = {
        .state_dir = state_dir,
        .name = name,
        .archive_fd = archive,
        .defaults = &r->defaults,
        .origin = "recipe",
        .digest = r->digest,
        .grants_sudo = r->defaults.grants_sudo,
        .skips_devices = true,
        .replaces = true,
        .program = r->finish,
        .writes = r->writes,
    };
    return sg_template_import(&in, &progress, ret, err);
}

static int print_built(const struct sg_cli *cli, const char *name, const char *digest,
                       const struct sg_import_result *r)
{
    sg_auto_buf out;
    sg_buf_init(&out, TAIL_BYTES);
    if (cli->config.json) {
        struct sg_json j;
        sg_json_init(&j, &out);
        sg_json_open(&j, '{');
        sg_json_key(&j, "name");
        sg_json_str(&j, name);
        sg_json_key(&j, "digest");
        sg_json_str(&j, digest);
        sg_json_key(&j, "was_built");
        sg_json_bool(&j, r != NULL);
        sg_json_key(&j, "bytes");
        r ? sg_json_u64(&j, r->numbers.bytes) : sg_json_null(&j);
        sg_json_close(&j, '}');
    } else {
        sg_buf_add_str(&out, name);
        if (!r)
            sg_cli_note(cli, "template '%s' is up to date; --force builds it again", name);
    }
    sg_buf_add_str(&out, "\n");
    return sg_cli_print(&out);
}

int sg_cmd_template_build(struct sg_cli *cli)
{
    const char *name = cli->args[0];
    const char *suite = cli->arg_count > 1 ? cli->args[1] : NULL;
    struct sg_err err;
    if (*cli->config.dockerfile)
        return sg_template_dockerfile(cli);
    if (sg_template_check_name(name, &err) < 0)
        return sg_cli_fail(cli, &err);
    sg_auto_free char *installed = sg_printf(RECIPES_INSTALLED "/%s", name);
    sg_auto_free char *built = sg_printf(RECIPES_BUILT "/%s", name);
    const char *const places[] = { installed, built };
    sg_auto_free char *dir = sg_find_beside(places, SG_COUNT(places), &err);
    sg_auto_recipe recipe = { .defaults.lock_fd = -1 };
    if ((dir ? sg_recipe_load(dir, name, suite, &recipe, &err) : refuse_recipe(name, &err)) < 0)
        return sg_cli_fail(cli, &err);
    bool is_current = false;
    if (!cli->config.force &&
        check_present(cli->config.state_dir, name, recipe.digest, &is_current, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (is_current)
        return print_built(cli, name, recipe.digest, NULL);
    struct sg_import_result result;
    if (build(cli, name, &recipe, dir, &result, &err) < 0) {
        (void)sg_wrap(&err, "build template '%s'", name);
        return sg_cli_fail(cli, &err);
    }
    return print_built(cli, name, recipe.digest, &result);
}

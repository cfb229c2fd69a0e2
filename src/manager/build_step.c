/* SPDX-License-Identifier: Apache-2.0 */
/* One step of a build. Each ends in sg_building_step_done().
 *
 * What a step says about the template (user, directory, environment) goes to the traits of the
 * stage; what it does is done in the box, as root or as the user so far. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "manager/build_internal.h"
#include "manager/files.h"
#include "manager/run.h"
#include "manager/traits.h"
#include "manager/upload.h"

#include "base/banned.h"

enum { EMPTY_ARCHIVE = 1024 };

static struct sg_traits *traits(struct sg_building *b)
{
    return &b->made[b->stage].at.traits;
}

/* ---- those without a sandbox ---- */

static void do_env(struct sg_building *b, const struct sg_step *s)
{
    for (size_t i = 0; i < s->n; i += 2)
        sg_traits_set_env(traits(b), s->args[i], s->args[i + 1]);
}

bool sg_building_do_pure(struct sg_building *b)
{
    const struct sg_step *s = sg_building_step(b);
    struct sg_traits *t = traits(b);
    const struct sg_traits *below = &b->made[b->stage].below;
    if (s->kind == SG_STEP_ENV) {
        do_env(b, s);
        return true;
    }
    const bool is_root = strcmp(s->args[0], "root") == 0;
    if (s->kind == SG_STEP_USER && (is_root || !s->args[0][0])) {
        sg_traits_set(&t->user, is_root ? "root" : below->user);
        sg_traits_set(&t->home, is_root ? "/root" : below->home);
        return true;
    }
    if (s->kind == SG_STEP_WORKDIR && (!s->args[0][0] || strcmp(s->args[0], "/") == 0)) {
        sg_traits_set(&t->workdir, s->args[0][0] ? "/" : below->workdir);
        return true;
    }
    return false;
}

/* ---- what is in force ---- */

static const char *user_of(struct sg_building *b, const struct sg_sandbox *s)
{
    const char *user = traits(b)->user;
    return user ? user : s->user ? s->user : "";
}

/* Where relative paths start. */
static const char *place_of(struct sg_building *b, const struct sg_sandbox *s)
{
    const struct sg_traits *t = traits(b);
    const char *place = t->workdir ? t->workdir : t->home ? t->home : t->user ? "/" : s->workdir;
    return place && *place ? place : "/";
}

static char *absolute(struct sg_building *b, const struct sg_sandbox *s, const char *path)
{
    if (path[0] == '/')
        return sg_strdup(path);
    const char *place = place_of(b, s);
    return sg_printf("%s%s%s", place, place[strlen(place) - 1] == '/' ? "" : "/",
                     strcmp(path, ".") == 0 ? "" : path);
}

/* ---- RUN ---- */

static void said(void *arg, enum sg_stream stream, struct sg_str line)
{
    struct sg_building *b = arg;
    sg_build_add_line(b->build, stream == SG_STREAM_ERR ? SG_BUILD_WARN : SG_BUILD_INFO, b->label,
                      line);
    sg_build_tell(b->build);
}

/* In the words that clients look for. */
static void explain(const char *command, struct sg_err *err)
{
    const char *no_user = strstr(err->msg, "no user ");
    struct sg_err own = *err;
    if (no_user) /* err->msg stays as it is meanwhile */
        (void)sg_fail(&own, SG_INVALID, "command failed: unauthenticated: invalid username: %s",
                      no_user + strlen("no user "));
    (void)sg_fail(err, SG_INVALID, "failed to run command '%.100s': %s", command, own.msg);
}

static void ran(void *arg, const struct sg_exec *x, const struct sg_err *err)
{
    struct sg_building *b = arg;
    struct sg_err own = { 0 };
    b->run = NULL;
    if (x && x->ending == SG_EXEC_EXIT && x->code == 0) {
        sg_building_step_done(b, NULL);
        return;
    }
    if (x)
        (void)sg_run_fail(x, &own);
    else
        own = *err;
    explain(sg_building_step(b)->args[0], &own);
    sg_building_step_done(b, &own);
}

static int do_run(struct sg_building *b, struct sg_sandbox *s, struct sg_err *err)
{
    static const struct sg_run_ops ops = { said, ran };
    static const char *const usual[] = { "/bin/bash", "-l", "-c", NULL };
    const struct sg_step *step = sg_building_step(b);
    const char *const *shell = step->shell ? step->shell : usual;
    size_t n = 0;
    while (shell[n])
        n++;
    sg_auto_free const char **argv = sg_alloc((n + 2) * sizeof *argv);
    memcpy(argv, shell, n * sizeof *argv);
    argv[n] = step->args[0];
    const struct sg_exec_spec spec = {
        .argv = argv,
        .env = traits(b)->env.v,
        .env_n = traits(b)->env.n,
        .cwd = place_of(b, s),
        .user = step->user && *step->user ? step->user : user_of(b, s),
        .tag = "build",
    };
    b->run = sg_run_start(s, &spec, &ops, b, err);
    return b->run ? 0 : -1;
}

/* ---- USER ---- */

static void heard_home(void *arg, enum sg_stream stream, struct sg_str line)
{
    struct sg_building *b = arg;
    if (stream == SG_STREAM_OUT && line.n && line.p[0] == '/')
        (void)snprintf(b->home, sizeof b->home, "%.*s", (int)line.n, line.p);
}

static void user_found(void *arg, const struct sg_exec *x, const struct sg_err *err)
{
    struct sg_building *b = arg;
    const char *user = sg_building_step(b)->args[0];
    struct sg_err own = { 0 };
    b->run = NULL;
    const bool has_no_shell = !x && (err->sys == ENOENT || err->sys == EACCES);
    if (!has_no_shell && (!x || x->ending != SG_EXEC_EXIT || x->code)) {
        if (x)
            (void)sg_run_fail(x, &own);
        else
            own = *err;
        (void)sg_wrap(&own, "user %s", sg_quote(user).s);
        sg_building_step_done(b, &own);
        return;
    }
    sg_traits_set(&traits(b)->user, user);
    sg_traits_set(&traits(b)->home, b->home);
    sg_building_step_done(b, NULL);
}

static int find_home(struct sg_building *b, struct sg_sandbox *s, struct sg_err *err)
{
    static const struct sg_run_ops ops = { heard_home, user_found };
    static const char *const argv[] = { "/bin/sh", "-c", "echo \"$HOME\"", NULL };
    const struct sg_exec_spec spec = {
        .argv = argv, .cwd = "/", .user = sg_building_step(b)->args[0], .tag = "build"
    };
    b->home[0] = '\0';
    b->run = sg_run_start(s, &spec, &ops, b, err);
    return b->run ? 0 : -1;
}

static void user_made(void *arg, const struct sg_exec *x, const struct sg_err *err)
{
    struct sg_building *b = arg;
    struct sg_err own = { 0 };
    struct sg_sandbox *s = sg_building_box(b, b->box, &own);
    (void)err;
    (void)x; /* the next question tells whether there is one now */
    b->run = NULL;
    if (!s || find_home(b, s, &own) < 0)
        sg_building_step_done(b, &own);
}

static int do_user(struct sg_building *b, struct sg_sandbox *s, struct sg_err *err)
{
    static const struct sg_run_ops ops = { said, user_made };
    static const char script[] =
        "id -u -- \"$1\" >/dev/null 2>&1 || useradd -m -s /bin/bash -- \"$1\"";
    const char *name = sg_building_step(b)->args[0];
    const char *const argv[] = { "/bin/sh", "-c", script, "sh", name, NULL };
    const struct sg_exec_spec spec = { .argv = argv, .cwd = "/", .user = "root", .tag = "build" };
    const bool is_number = strspn(name, "0123456789:") == strlen(name);
    if (b->spec.is_roots || is_number)
        return find_home(b, s, err);
    b->run = sg_run_start(s, &spec, &ops, b, err);
    return b->run ? 0 : -1;
}

/* ---- COPY, WORKDIR ---- */

/* One side that fails ends the pipe, and the other fails of that: the reading side's is the word
 * that counts, unless it only tells of an early end. */
static void one_answer(struct sg_building *b)
{
    if (--b->open)
        return;
    const struct sg_err *err = b->copy_err.kind != SG_OK && b->copy_err.sys != EPIPE ? &b->copy_err
                               : b->put_err.kind != SG_OK                            ? &b->put_err
                                                                                     : NULL;
    sg_building_step_done(b, err);
}

static void was_put(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_building *b = arg;
    if (!p)
        b->put_err = *err;
    one_answer(b);
}

static void was_packed(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_building *b = arg;
    if (!p)
        b->copy_err = *err;
    one_answer(b);
}

/* Checked by build_spec.c. */
static uint32_t octal(const char *text)
{
    uint32_t v = 0;
    for (; *text; text++)
        v = v * 8 + (uint32_t)(*text - '0');
    return v;
}

/* The archive in `fd` to `path`. */
static int put(struct sg_building *b, struct sg_sandbox *s, int fd, const char *source,
               const char *path, bool is_dir, const char *owner, struct sg_err *err)
{
    const struct sg_who us = { .org = b->org, .scopes = SG_SCOPE_ALL };
    const struct sg_step *step = sg_building_step(b);
    const char *mode = step->kind == SG_STEP_COPY && step->mode && *step->mode ? step->mode : NULL;
    struct sg_msg m = {
        .type = SG_MSG_PUT,
        .put = { .user = sg_text_of("root"),
                 .path = sg_text_of(path),
                 .source = sg_text_of(source),
                 .owner = sg_text_of(owner),
                 .flags = (is_dir ? SG_PUT_INTO : 0u) | (mode ? SG_PUT_MODE : 0u),
                 .mode = mode ? octal(mode) : 0 },
    };
    if (sg_files_ask(s, &us, &m, &fd, 1, was_put, b, err) < 0)
        return -1;
    b->open++;
    return 0;
}

static void reset_answers(struct sg_building *b)
{
    b->open = 0;
    b->copy_err = b->put_err = (struct sg_err) { 0 };
}

/* A directory is put by an archive of nothing: parents, owner and links as COPY has them. */
static int do_workdir(struct sg_building *b, struct sg_sandbox *s, struct sg_err *err)
{
    static const char nothing[EMPTY_ARCHIVE];
    int ends[2];
    sg_auto_free char *path = absolute(b, s, sg_building_step(b)->args[0]);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make a pipe");
    sg_auto_fd reading = ends[0], writing = ends[1];
    if (write(writing, nothing, sizeof nothing) != (ssize_t)sizeof nothing)
        return sg_fail_sys(err, "write to a pipe");
    reset_answers(b);
    if (put(b, s, reading, "", path, true, b->spec.is_roots ? "root" : user_of(b, s), err) < 0)
        return -1;
    sg_traits_set(&traits(b)->workdir, path);
    return 0;
}

/* Up to the first part with a pattern in it: what matched is what the archive holds. */
static char *without_pattern(const char *source)
{
    size_t end = strcspn(source, "*?[");
    if (!source[end])
        return sg_strdup(source);
    while (end && source[end - 1] != '/')
        end--;
    return sg_printf("%.*s", (int)end, source);
}

static const char *owner_of(struct sg_building *b, const struct sg_sandbox *s)
{
    const struct sg_step *step = sg_building_step(b);
    if (step->user && *step->user)
        return step->user;
    return b->spec.is_roots ? "root" : user_of(b, s);
}

static int do_copy_files(struct sg_building *b, struct sg_sandbox *s, struct sg_err *err)
{
    const struct sg_step *step = sg_building_step(b);
    sg_auto_fd fd = sg_upload_open(b->m, b->org, step->files, err);
    if (fd < 0)
        return -1;
    sg_auto_free char *source = without_pattern(step->args[0]);
    sg_auto_free char *path = absolute(b, s, step->args[1]);
    reset_answers(b);
    return put(b, s, fd, source, path, false, owner_of(b, s), err);
}

/* From another stage: its init packs, ours puts. */
static void source_stated(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_building *b = arg;
    const struct sg_who us = { .org = b->org, .scopes = SG_SCOPE_ALL };
    const struct sg_step *step = sg_building_step(b);
    struct sg_err own = { 0 };
    int ends[2] = { -1, -1 };
    if (err) {
        sg_building_step_done(b, err);
        return;
    }
    const bool is_dir = S_ISDIR(p->msg.stated.mode);
    struct sg_sandbox *to = sg_building_box(b, b->box, &own),
                      *from = to ? sg_building_box(b, b->source, &own) : NULL;
    if (!to || !from || pipe2(ends, O_CLOEXEC) < 0) {
        if (to && from)
            (void)sg_fail_sys(&own, "make a pipe");
        sg_building_step_done(b, &own);
        return;
    }
    sg_auto_fd reading = ends[0], writing = ends[1];
    const struct sg_str last = sg_last_part(step->args[0]);
    sg_auto_free char *source = is_dir ? sg_strdup("") : sg_printf("%.*s", (int)last.n, last.p);
    sg_auto_free char *path = absolute(b, to, step->args[1]);
    sg_auto_free char *packed =
        step->args[0][0] == '/' ? sg_strdup(step->args[0]) : sg_printf("/%s", step->args[0]);
    struct sg_msg out = { .type = SG_MSG_TAR_OUT,
                          .tar = { .user = sg_text_of("root"), .path = sg_text_of(packed) } };
    reset_answers(b);
    if (sg_files_ask(from, &us, &out, &writing, 1, was_packed, b, &own) < 0) {
        sg_building_step_done(b, &own);
        return;
    }
    b->open = 1;
    if (put(b, to, reading, source, path, is_dir, owner_of(b, to), &b->put_err) < 0)
        return; /* the packing side answers, and finds nobody who reads */
}

static void source_made(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_building *b = arg;
    const struct sg_who us = { .org = b->org, .scopes = SG_SCOPE_ALL };
    struct sg_err own = { 0 };
    if (err) {
        sg_building_step_done(b, err);
        return;
    }
    const char *from = sg_building_step(b)->args[0];
    sg_auto_free char *path = from[0] == '/' ? sg_strdup(from) : sg_printf("/%s", from);
    struct sg_msg m = { .type = SG_MSG_STAT, .stat = { sg_text_of("root"), sg_text_of(path), 0 } };
    if (sg_files_ask(s, &us, &m, NULL, 0, source_stated, b, &own) < 0)
        sg_building_step_done(b, &own);
}

static int do_copy(struct sg_building *b, struct sg_sandbox *s, struct sg_err *err)
{
    const struct sg_step *step = sg_building_step(b);
    if (!step->stage)
        return do_copy_files(b, s, err);
    if (strpbrk(step->args[0], "*?["))
        return sg_fail(err, SG_UNSUPPORTED,
                       "COPY --from takes no pattern: name the file or its directory");
    const struct sg_ground *g = &b->made[step->stage - 1].at;
    const struct sg_ground plain = { g->base, g->snapshot, { 0 } };
    return sg_building_make_box(b, &plain, b->source, source_made, err);
}

/* ---- all of them ---- */

void sg_building_do(struct sg_building *b, struct sg_sandbox *s)
{
    static int (*const steps[SG_STEP_KIND_COUNT])(struct sg_building * b, struct sg_sandbox * s,
                                                  struct sg_err * err) = {
        [SG_STEP_RUN] = do_run,
        [SG_STEP_COPY] = do_copy,
        [SG_STEP_WORKDIR] = do_workdir,
        [SG_STEP_USER] = do_user,
    };
    struct sg_err err = { 0 };
    if (steps[sg_building_step(b)->kind](b, s, &err) < 0)
        sg_building_step_done(b, &err);
}

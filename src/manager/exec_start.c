/* SPDX-License-Identifier: Apache-2.0 */
/* Starting: rules, environment, pipes, then two things at once: SPAWN to init and the row. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/clock.h"
#include "manager/budget.h"
#include "manager/cred.h"
#include "manager/exec_internal.h"
#include "manager/life.h"
#include "store/store.h"
#include "tier/peer.h"
#include "base/banned.h"

enum {
    MAX_ENV_BYTES = 2 * SG_CTL_MAX_BYTES,
    MAX_ENV = 1024,     /* names, all sources together */
    MAX_RUNNING = 1000, /* a little less than init has room for */
    MAX_TAG = 256,
    FDS_OF_EXEC = 4, /* more or less: pipes and files */
};
static const char DEFAULT_TERM[] = "xterm-256color";

/* ---- environment ---- */

struct environment {
    struct sg_arena *arena;
    char *v[MAX_ENV + 1]; /* "NAME=value", NULL-terminated */
    size_t n;
};

static char **find_name(struct environment *e, const char *name, size_t name_n)
{
    for (size_t i = 0; i < e->n; i++)
        if (strncmp(e->v[i], name, name_n) == 0 && e->v[i][name_n] == '=')
            return &e->v[i];
    return NULL;
}

/* Takes "NAME=value" in the place of what there is of that name. */
static int set_whole(struct environment *e, char *whole, struct sg_err *err)
{
    if (!whole)
        return sg_fail(err, SG_EXHAUSTED, "the environment is too large");
    char **there = find_name(e, whole, strcspn(whole, "="));
    if (!there && e->n == MAX_ENV)
        return sg_fail(err, SG_EXHAUSTED, "the environment has over %d names", MAX_ENV);
    *(there ? there : &e->v[e->n++]) = whole;
    return 0;
}

static int set_pair(struct environment *e, const char *name, const char *value, struct sg_err *err)
{
    if (!*name || strchr(name, '='))
        return sg_fail(err, SG_INVALID, "an environment cannot have the name %s", sg_quote(name).s);
    return set_whole(e, sg_arena_printf(e->arena, "%s=%s", name, value), err);
}

static int set_default(struct environment *e, const char *name, const char *value,
                       struct sg_err *err)
{
    if (!value || !*value || find_name(e, name, strlen(name)))
        return 0;
    return set_pair(e, name, value, err);
}

static int set_cred(void *arg, const char *name, const char *value, struct sg_err *err)
{
    return set_pair(arg, name, value, err);
}

/* The template's, then the sandbox's, then the call's. Init adds what belongs to the user. */
static int make_environment(struct environment *e, const struct sg_sandbox *s,
                            const struct sg_exec_spec *spec, struct sg_err *err)
{
    for (char **t = s->template_env; t && *t; t++)
        if (strchr(*t, '=') && set_whole(e, sg_arena_copy(e->arena, *t, strlen(*t)), err) < 0)
            return -1;
    for (size_t i = 0; i < s->traits.env.n; i++)
        if (set_pair(e, s->traits.env.v[i].name, s->traits.env.v[i].value, err) < 0)
            return -1;
    if (!spec->is_templates && sg_creds_env(s, set_cred, e, err) < 0)
        return -1;
    for (size_t i = 0; i < s->env.n && !spec->is_templates; i++)
        if (set_pair(e, s->env.v[i].name, s->env.v[i].value, err) < 0)
            return -1;
    for (size_t i = 0; i < spec->env_n; i++)
        if (set_pair(e, spec->env[i].name, spec->env[i].value, err) < 0)
            return -1;
    if (set_default(e, "PATH", s->path, err) < 0)
        return -1;
    return spec->has_tty ? set_default(e, "TERM", DEFAULT_TERM, err) : 0;
}

/* ---- pipes ---- */

struct pipes {
    int far_fds[3], near_fds[3]; /* stdin, stdout, stderr; -1: none */
};

static void close_pipes(struct pipes *p)
{
    for (unsigned i = 0; i < 3; i++) {
        sg_drop_fd(&p->far_fds[i]);
        sg_drop_fd(&p->near_fds[i]);
    }
}

/* The kernel gives the lowest free number, so a high one tells how many are in use. A third is left
 * to connections and files. Beyond the half an organisation that has much waits for the others: a
 * sixth is theirs, whatever the one does. */
static int check_room(int fd, const struct sg_org *org, struct sg_err *err)
{
    struct rlimit limit = { 0 };
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    const rlim_t all = limit.rlim_cur;
    if ((rlim_t)fd > all - all / 3)
        return sg_fail(err, SG_EXHAUSTED, "too many execs run on this server");
    if ((rlim_t)fd > all / 2 && (rlim_t)org->execs * FDS_OF_EXEC > all / 8)
        return sg_fail(err, SG_EXHAUSTED,
                       "the organisation runs %u execs, more than its share of this server",
                       org->execs - 1);
    return 0;
}

static int make_pipes(struct pipes *p, uint32_t flags, const struct sg_org *org, struct sg_err *err)
{
    for (unsigned i = 0; i < 3; i++) {
        int fds[2];
        if (!(flags & 1u << i))
            continue;
        if (pipe2(fds, O_CLOEXEC) < 0)
            return sg_fail_sys(err, "make a pipe for an exec");
        const bool is_input = i == 0;
        p->far_fds[i] = fds[is_input ? 0 : 1];
        p->near_fds[i] = fds[is_input ? 1 : 0];
        if (check_room(fds[1], org, err) < 0)
            return -1;
    }
    return 0;
}

static unsigned list_fds(const struct pipes *p, int *ret)
{
    unsigned n = 0;
    for (unsigned i = 0; i < 3; i++)
        if (p->far_fds[i] >= 0)
            ret[n++] = p->far_fds[i];
    for (unsigned i = 0; i < 3; i++)
        if (p->near_fds[i] >= 0)
            ret[n++] = p->near_fds[i];
    return n;
}

static void take_near(struct sg_exec *x, struct pipes *p)
{
    struct sg_exec_impl *i = x->impl;
    i->in.fd = sg_take_fd(&p->near_fds[0]);
    i->streams[SG_STREAM_OUT].fd = sg_take_fd(&p->near_fds[1]);
    i->streams[SG_STREAM_ERR].fd = sg_take_fd(&p->near_fds[2]);
}

/* ---- the two answers ---- */

static void fail_start(struct sg_exec *x, const struct sg_err *err)
{
    struct sg_exec_impl *i = x->impl;
    struct sg_sandbox *s = x->sandbox;
    sg_exec_cb *started = sg_take_ptr(&i->started);
    void *arg = i->started_arg;
    s->manager->metrics.errors[err->kind]++;
    if (i->has_exited)
        sg_exec_release(s, x->id.s);
    else if (x->pid) /* runs without a row; the EXITED of what nobody knows releases it */
        sg_exec_send_signal(s, x->pid, SIGKILL, SG_SIGNAL_SESSION);
    sg_store_remove_exec(s->manager->store, x->id.s, NULL, NULL);
    sg_journal_remove(&i->journal);
    sg_exec_work_end(x);
    sg_exec_drop(x);
    started(arg, NULL, err);
}

static void announce(struct sg_exec *x)
{
    sg_auto_free char *detail = sg_exec_detail(x, false);
    sg_sandbox_event(x->sandbox, "exec.started", detail);
    x->sandbox->manager->metrics.execs++;
}

static void got_one(struct sg_exec *x, unsigned which)
{
    struct sg_exec_impl *i = x->impl;
    i->awaits &= ~which;
    if (i->awaits)
        return;
    announce(x);
    sg_exec_cb *started = sg_take_ptr(&i->started);
    sg_exec_ref(x);
    started(i->started_arg, x, NULL);
    if (sg_exec_unref(x))
        sg_exec_go_on_ending(x); /* where it has been that quick */
}

static void spawn_answered(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_exec *x = arg;
    struct sg_err own;
    if (!sg_exec_unref(x))
        return;
    if (p && p->msg.type != SG_MSG_SPAWNED) {
        (void)sg_fail(&own, SG_UNAVAILABLE, "init gave no sensible answer");
        fail_start(x, &own);
        return;
    }
    if (p)
        x->pid = p->msg.spawned.pid;
    const struct sg_err *why = p ? sg_exec_impl(x)->no_row : err;
    if (why) {
        own = *why;
        fail_start(x, &own);
        return;
    }
    sg_histogram_add(&x->sandbox->manager->metrics.exec, sg_now_ns() - sg_exec_impl(x)->asked_ns);
    got_one(x, SG_AWAITS_SPAWN);
}

static void row_written(void *arg, const struct sg_err *err)
{
    struct sg_exec *x = arg;
    struct sg_exec_impl *i = x->impl;
    if (!sg_exec_unref(x))
        return;
    if (!err) {
        got_one(x, SG_AWAITS_ROW);
    } else if (i->awaits & SG_AWAITS_SPAWN) {
        i->no_row = sg_new(struct sg_err);
        *i->no_row = *err;
    } else {
        fail_start(x, err);
    }
}

/* ---- start ---- */

static int check_spec(const struct sg_sandbox *s, const struct sg_exec_spec *spec,
                      struct sg_err *err)
{
    if (!spec->argv || !spec->argv[0] || !spec->argv[0][0])
        return sg_fail(err, SG_INVALID, "no command to run");
    if (spec->tag && strlen(spec->tag) > MAX_TAG)
        return sg_fail(err, SG_INVALID, "a tag has at most %d bytes", MAX_TAG);
    if (s->exec_impl && ((struct sg_exec_set *)s->exec_impl)->running >= MAX_RUNNING)
        return sg_fail(err, SG_EXHAUSTED, "%d execs run in this sandbox already", MAX_RUNNING);
    return 0;
}

static char **copy_argv(const char *const *argv)
{
    size_t n = 0;
    while (argv[n])
        n++;
    char **v = sg_alloc((n + 1) * sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = sg_strdup(argv[i]);
    return v;
}

static struct sg_exec *make_exec(struct sg_sandbox *s, const struct sg_exec_spec *spec)
{
    struct sg_id id = sg_id_new('x');
    struct sg_exec *x = sg_exec_new(s, &id);
    const char *user = spec->user ? spec->user : s->user, *cwd = spec->cwd ? spec->cwd : s->workdir;
    x->argv = copy_argv(spec->argv);
    x->user = sg_strdup(user ? user : "");
    x->cwd = sg_strdup(cwd ? cwd : "");
    x->tag = spec->tag ? sg_strdup(spec->tag) : NULL;
    x->has_tty = spec->has_tty;
    x->has_stdin = spec->has_stdin || spec->has_tty;
    x->is_background = spec->is_background;
    if (spec->is_kernel)
        sg_exec_be_kernel(x);
    x->started_ms = sg_manager_unix_ms();
    if (spec->timeout_ms)
        sg_exec_impl(x)->deadline_ms = x->started_ms + (int64_t)spec->timeout_ms;
    return x;
}

static int ask_init(struct sg_exec *x, const struct sg_exec_spec *spec, struct sg_err *err)
{
    struct sg_sandbox *s = x->sandbox;
    sg_auto_arena arena;
    sg_auto_buf argv, env;
    sg_arena_init(&arena, MAX_ENV_BYTES);
    sg_buf_init(&argv, SG_CTL_MAX_BYTES);
    sg_buf_init(&env, SG_CTL_MAX_BYTES);
    struct environment e = { .arena = &arena };
    struct pipes pipes = { { -1, -1, -1 }, { -1, -1, -1 } };
    struct sg_msg m = { .type = SG_MSG_SPAWN,
                        .spawn = { .flags = (x->has_stdin ? SG_SPAWN_STDIN : 0u) | SG_SPAWN_STDOUT |
                                            (x->has_tty ? SG_SPAWN_PTY : SG_SPAWN_STDERR) |
                                            SG_SPAWN_KEEP,
                                   .rows = spec->rows,
                                   .cols = spec->cols,
                                   .user = sg_text_of(x->user),
                                   .cwd = sg_text_of(x->cwd),
                                   .tag = sg_text_of(x->id.s) } };
    int fds[SG_CTL_MAX_FDS];
    if (make_environment(&e, s, spec, err) < 0 ||
        sg_texts_pack(x->argv, &argv, &m.spawn.argv, err) < 0 ||
        sg_texts_pack(e.v, &env, &m.spawn.env, err) < 0)
        return sg_wrap(err, "exec");
    sg_exec_impl(x)->asked_ns = sg_now_ns();
    int result = make_pipes(&pipes, m.spawn.flags, s->org, err);
    if (result == 0)
        result = sg_peer_ask(s->peer, &m, fds, list_fds(&pipes, fds), spawn_answered, x, err);
    if (result == 0)
        take_near(x, &pipes);
    close_pipes(&pipes);
    return result;
}

int sg_exec_start(struct sg_sandbox *s, const struct sg_who *who, const struct sg_exec_spec *spec,
                  sg_exec_cb *cb, void *arg, struct sg_err *err)
{
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(s->manager, who, "exec.start", s, err);
    if (sg_budget_admit(s->manager, s->org, err) < 0)
        return sg_manager_denied(s->manager, who, "exec.start", s, err);
    if (sg_sandbox_demand_running(s, err) < 0 || check_spec(s, spec, err) < 0)
        return -1;
    struct sg_exec *x = make_exec(s, spec);
    struct sg_exec_impl *i = x->impl;
    if (ask_init(x, spec, err) < 0) {
        sg_exec_drop(x);
        return -1;
    }
    i->trace = who->trace;
    i->net_before = s->life->net_in + s->life->net_out;
    i->started = cb;
    i->started_arg = arg;
    i->awaits = SG_AWAITS_SPAWN | SG_AWAITS_ROW;
    i->refs = 2;
    sg_exec_put_row(x, row_written);
    sg_exec_watch_streams(x);
    sg_exec_set_limit(x);
    sg_exec_work_begin(x);
    sg_sandbox_touch(s);
    sg_auto_free char *detail = sg_exec_detail(x, true);
    sg_manager_audit(s->manager, who, "exec.start", s, detail);
    return 0;
}

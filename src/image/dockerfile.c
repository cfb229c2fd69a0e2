/* SPDX-License-Identifier: Apache-2.0 */
/* The instructions of a Dockerfile; see dockerfile.h. A table has a row for each. */
#include "image/dockerfile.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/parse.h"
#include "image/docker_line.h"
#include "image/docker_word.h"
#include "base/banned.h"

enum { ARENA_MAX = 64 << 20 };

const char *const sg_docker_names[SG_DOCKER_OP_COUNT] = {
    "FROM",    "RUN",    "COPY",       "ADD",         "ENV",        "ARG",
    "WORKDIR", "USER",   "SHELL",      "ENTRYPOINT",  "CMD",        "EXPOSE",
    "LABEL",   "VOLUME", "STOPSIGNAL", "HEALTHCHECK", "MAINTAINER", "ONBUILD",
};
static const char *const usual_shell[] = { "/bin/sh", "-c", NULL };

struct parsing {
    struct sg_dockerfile *d;
    const char *const *given; /* values of ARG from outside */
    struct sg_docker_words w;
    struct sg_docker_vars global, vars; /* before the first FROM; of the stage */
    struct sg_docker_stage *stage;      /* NULL: before the first FROM */
    const char *const *shell;
    const char **entrypoint, **cmd; /* NULL: none; of the stage */
    bool is_entry_exec, is_cmd_exec;
    size_t steps;
    /* of the instruction in hand */
    const char *rest, *heredoc;
    const char *from, *chown, *chmod;
};

static int fail(const struct parsing *p, const char *why, struct sg_err *err)
{
    return sg_fail(err, SG_INVALID, "line %u: %s", p->w.line, why);
}

static int fail_with(const struct parsing *p, const char *what, const char *why, struct sg_err *err)
{
    return sg_fail(err, SG_INVALID, "line %u: %s %s", p->w.line, sg_quote(what).s, why);
}

/* ---- stages ---- */

/* By name or number; 0: none. */
static unsigned find_stage(const struct parsing *p, const char *name)
{
    uint64_t number;
    const size_t own = p->stage ? (size_t)(p->stage - p->d->stages) : p->d->n;
    for (size_t i = own; i-- > 0;)
        if (p->d->stages[i].name && strcasecmp(p->d->stages[i].name, name) == 0)
            return (unsigned)i + 1;
    if (sg_parse_u64(sg_str_of(name), 0, SG_DOCKER_MAX_STAGES, &number, NULL) == 0 && number < own)
        return (unsigned)number + 1;
    return 0;
}

static void quote_for_shell(struct sg_buf *out, const char *text)
{
    sg_buf_add(out, "'", 1);
    for (; *text; text++) {
        if (*text == '\'')
            sg_buf_add_str(out, "'\\''");
        else
            sg_buf_add(out, text, 1);
    }
    sg_buf_add(out, "'", 1);
}

static void add_command(struct sg_buf *out, const char **words, bool is_exec)
{
    for (size_t i = 0; words && words[i]; i++) {
        if (out->n)
            sg_buf_add(out, " ", 1);
        if (is_exec)
            quote_for_shell(out, words[i]);
        else
            sg_buf_add_str(out, words[i]);
    }
}

/* With an ENTRYPOINT of the shell's form CMD has no effect. */
static int end_stage(struct parsing *p, struct sg_err *err)
{
    sg_auto_buf out;
    sg_buf_init(&out, SG_DOCKER_MAX_BYTES);
    if (!p->stage)
        return 0;
    add_command(&out, p->entrypoint, p->is_entry_exec);
    if (!p->entrypoint || p->is_entry_exec)
        add_command(&out, p->cmd, p->is_cmd_exec);
    if (out.n)
        p->stage->start = sg_arena_copy(&p->d->arena, (const char *)out.p, out.n);
    return out.n && !p->stage->start ? fail(p, "it is too long", err) : 0;
}

static int do_from(struct parsing *p, struct sg_err *err)
{
    const char **v;
    size_t n;
    struct sg_dockerfile *d = p->d;
    p->w.vars = &p->global;
    if (sg_docker_split(&p->w, p->rest, &v, &n, err) < 0)
        return -1;
    if (n != 1 && (n != 3 || strcasecmp(v[1], "as") != 0))
        return fail(p, "FROM needs an image, and perhaps 'AS name'", err);
    if (!v[0][0])
        return fail(p, "FROM has an empty image: a variable without a value?", err);
    if (d->n == SG_DOCKER_MAX_STAGES)
        return fail(p, "there are more than 32 stages", err);
    if (end_stage(p, err) < 0)
        return -1;
    p->stage = NULL;
    const unsigned stage = find_stage(p, v[0]);
    uint64_t number;
    const bool is_number = sg_parse_u64(sg_str_of(v[0]), 0, UINT32_MAX, &number, NULL) == 0;
    p->stage = &d->stages[d->n++];
    *p->stage = (struct sg_docker_stage) { .image = stage && !is_number ? NULL : v[0],
                                           .name = n == 3 ? v[2] : NULL,
                                           .stage = is_number ? 0 : stage };
    p->vars.n = 0;
    p->shell = usual_shell;
    p->entrypoint = p->cmd = NULL;
    return 0;
}

static struct sg_docker_step *add_step(struct parsing *p, enum sg_docker_op op, const char **words,
                                       size_t n, struct sg_err *err)
{
    struct sg_docker_stage *s = p->stage;
    if (p->steps++ == SG_DOCKER_MAX_STEPS) {
        (void)fail(p, "there are more than 500 steps", err);
        return NULL;
    }
    struct sg_docker_step *v = sg_arena_alloc(&p->d->arena, (s->n + 1) * sizeof *v);
    if (!v) {
        (void)fail(p, "it is too long", err);
        return NULL;
    }
    if (s->n)
        memcpy(v, s->steps, s->n * sizeof *v);
    s->steps = v;
    struct sg_docker_step *step = &v[s->n++];
    *step = (struct sg_docker_step) { .op = op, .line = p->w.line, .words = words, .n = n };
    return step;
}

/* ---- variables ---- */

static const char *given(const struct parsing *p, const char *name)
{
    const size_t n = strlen(name);
    for (size_t i = 0; p->given && p->given[i]; i++)
        if (strncmp(p->given[i], name, n) == 0 && p->given[i][n] == '=')
            return p->given[i] + n + 1;
    return NULL;
}

static bool is_name(const char *s)
{
    if (!*s || isdigit((unsigned char)*s))
        return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_')
            return false;
    return true;
}

/* NAME, NAME=default: what was given from outside goes before the default. */
static int do_arg(struct parsing *p, struct sg_err *err)
{
    const char **v;
    size_t n;
    struct sg_docker_vars *vars = p->stage ? &p->vars : &p->global;
    p->w.vars = vars;
    if (sg_docker_split(&p->w, p->rest, &v, &n, err) < 0)
        return -1;
    if (!n)
        return fail(p, "ARG needs a name", err);
    for (size_t i = 0; i < n; i++) {
        char *name = sg_arena_copy(&p->d->arena, v[i], strcspn(v[i], "="));
        if (!name || !is_name(name))
            return fail_with(p, v[i], "is no name of an ARG", err);
        const char *value = given(p, name), *equals = strchr(v[i], '=');
        if (!value && equals)
            value = equals + 1;
        if (!value && p->stage)
            value = sg_docker_var(&p->global, sg_str_of(name));
        if (sg_docker_set(vars, name, value, true, p->w.line, err) < 0)
            return -1;
    }
    return 0;
}

/* "name=value ..." or "name the rest"; name, value, ... */
static int read_pairs(struct parsing *p, const char ***ret, size_t *ret_n, struct sg_err *err)
{
    const char *at = p->rest, **words;
    size_t n;
    const size_t first = strcspn(at, " \t\n=");
    if (!first)
        return fail(p, "there is no name", err);
    const bool is_old = at[first] != '=';
    if (!is_old && sg_docker_split(&p->w, at, &words, &n, err) < 0)
        return -1;
    n = is_old ? 1 : n;
    const char **v = sg_arena_alloc(&p->d->arena, (2 * n + 1) * sizeof *v);
    if (!v)
        return fail(p, "it is too long", err);
    if (is_old) {
        const char *value = at + first + strspn(at + first, " \t\n");
        v[0] = sg_arena_copy(&p->d->arena, at, first);
        if (!*value)
            return fail_with(p, v[0] ? v[0] : "", "has no value", err);
        if (sg_docker_expand(&p->w, value, &v[1], err) < 0)
            return -1;
    }
    for (size_t i = 0; !is_old && i < n; i++) {
        const char *equals = strchr(words[i], '=');
        if (!equals || equals == words[i])
            return fail_with(p, words[i], "is no name=value", err);
        v[2 * i] = sg_arena_copy(&p->d->arena, words[i], (size_t)(equals - words[i]));
        v[2 * i + 1] = equals + 1;
    }
    for (size_t i = 0; i < 2 * n; i++)
        if (!v[i])
            return fail(p, "it is too long", err);
    v[2 * n] = NULL;
    *ret = v;
    *ret_n = 2 * n;
    return 0;
}

static int do_env(struct parsing *p, struct sg_err *err)
{
    const char **v;
    size_t n;
    if (read_pairs(p, &v, &n, err) < 0 || !add_step(p, SG_DOCKER_ENV, v, n, err))
        return -1;
    for (size_t i = 0; i < n; i += 2)
        if (sg_docker_set(&p->vars, v[i], v[i + 1], false, p->w.line, err) < 0)
            return -1;
    return 0;
}

static int do_label(struct parsing *p, struct sg_err *err)
{
    const char **v;
    size_t n;
    return read_pairs(p, &v, &n, err);
}

/* ---- commands ---- */

/* ARGs of the stage that have a value, the last of a name. */
static const char *const *args_in_force(struct parsing *p)
{
    const char **v = sg_arena_alloc(&p->d->arena, (p->vars.n + 1) * sizeof *v);
    size_t n = 0;
    for (size_t i = 0; v && i < p->vars.n; i++) {
        const struct sg_docker_var *var = &p->vars.v[i];
        bool is_last = var->is_arg && var->value;
        for (size_t k = i + 1; k < p->vars.n; k++)
            is_last &= strcmp(p->vars.v[k].name, var->name) != 0;
        if (is_last)
            v[n++] = sg_arena_printf(&p->d->arena, "%s=%s", var->name, var->value);
    }
    if (v)
        v[n] = NULL;
    return v;
}

static int do_run(struct parsing *p, struct sg_err *err)
{
    const char **v = NULL;
    size_t n = 0;
    int is_list = sg_docker_json(&p->w, p->rest, &v, &n, err);
    if (is_list < 0)
        return -1;
    if (!is_list) {
        v = sg_arena_alloc(&p->d->arena, 2 * sizeof *v);
        if (!v)
            return fail(p, "it is too long", err);
        v[0] = p->heredoc ? p->heredoc : p->rest;
        v[1] = NULL;
        n = 1;
    }
    if (!n || !v[0][0])
        return fail(p, "RUN needs a command", err);
    struct sg_docker_step *s = add_step(p, SG_DOCKER_RUN, v, n, err);
    if (!s)
        return -1;
    s->is_exec = is_list > 0;
    s->shell = p->shell;
    s->args = args_in_force(p);
    return s->args ? 0 : fail(p, "it is too long", err);
}

static int read_command(struct parsing *p, const char ***ret, bool *ret_is_exec, struct sg_err *err)
{
    const char **v;
    size_t n;
    int is_list = sg_docker_json(&p->w, p->rest, &v, &n, err);
    if (is_list < 0)
        return -1;
    if (!is_list) {
        if (!*p->rest)
            return fail(p, "there is no command", err);
        v = sg_arena_alloc(&p->d->arena, 2 * sizeof *v);
        if (!v)
            return fail(p, "it is too long", err);
        v[0] = p->rest;
        v[1] = NULL;
    }
    *ret = v;
    *ret_is_exec = is_list > 0;
    return 0;
}

/* A new ENTRYPOINT makes an earlier CMD void. */
static int do_entrypoint(struct parsing *p, struct sg_err *err)
{
    p->cmd = NULL;
    return read_command(p, &p->entrypoint, &p->is_entry_exec, err);
}

static int do_cmd(struct parsing *p, struct sg_err *err)
{
    return read_command(p, &p->cmd, &p->is_cmd_exec, err);
}

static int do_shell(struct parsing *p, struct sg_err *err)
{
    const char **v;
    size_t n;
    const int is_list = sg_docker_json(&p->w, p->rest, &v, &n, err);
    if (is_list < 0)
        return -1;
    if (!is_list || !n)
        return fail(p, "SHELL needs a list in brackets, as [\"/bin/bash\", \"-c\"]", err);
    p->shell = v;
    return 0;
}

/* ---- the others ---- */

static int do_one(struct parsing *p, enum sg_docker_op op, struct sg_err *err)
{
    const char **v = sg_arena_alloc(&p->d->arena, 2 * sizeof *v);
    if (!v)
        return fail(p, "it is too long", err);
    v[1] = NULL;
    if (sg_docker_expand(&p->w, p->rest, &v[0], err) < 0)
        return -1;
    size_t n = strlen(v[0]);
    if (n > 1 && (v[0][0] == '"' || v[0][0] == '\'') && v[0][n - 1] == v[0][0]) {
        v[0] = sg_arena_copy(&p->d->arena, v[0] + 1, n - 2);
        if (!v[0])
            return fail(p, "it is too long", err);
    }
    if (!v[0][0])
        return sg_fail(err, SG_INVALID, "line %u: %s needs an argument", p->w.line,
                       sg_docker_names[op]);
    return add_step(p, op, v, 1, err) ? 0 : -1;
}

static int do_workdir(struct parsing *p, struct sg_err *err)
{
    return do_one(p, SG_DOCKER_WORKDIR, err);
}

static int do_user(struct parsing *p, struct sg_err *err)
{
    return do_one(p, SG_DOCKER_USER, err);
}

static int copy_or_add(struct parsing *p, enum sg_docker_op op, struct sg_err *err)
{
    const char **v;
    size_t n;
    if (p->heredoc)
        return fail(p, "here-documents are known to RUN only: put the text into a file", err);
    int is_list = sg_docker_json(&p->w, p->rest, &v, &n, err);
    if (is_list < 0 || (!is_list && sg_docker_split(&p->w, p->rest, &v, &n, err) < 0))
        return -1;
    if (n < 2)
        return sg_fail(err, SG_INVALID, "line %u: %s needs a source and a destination", p->w.line,
                       sg_docker_names[op]);
    if (n > 2 && v[n - 1][strlen(v[n - 1]) - 1] != '/')
        return fail_with(p, v[n - 1], "must end with '/': there is more than one source", err);
    for (size_t i = 0; i < n; i++)
        if (!v[i][0])
            return fail(p, "a path is empty: a variable without a value?", err);
    for (size_t i = 0; i + 1 < n; i++)
        if (op == SG_DOCKER_ADD && (strstr(v[i], "://") || sg_starts_with(v[i], "git@")))
            return fail_with(p, v[i], "is fetched by nobody here: use RUN with curl or git", err);
    unsigned stage = 0;
    if (p->from && (op == SG_DOCKER_ADD || !(stage = find_stage(p, p->from))))
        return fail_with(p, p->from, "is no earlier stage of this file", err);
    struct sg_docker_step *s = add_step(p, op, v, n, err);
    if (!s)
        return -1;
    s->stage = stage;
    s->chown = p->chown;
    s->chmod = p->chmod;
    return 0;
}

static int do_copy(struct parsing *p, struct sg_err *err)
{
    return copy_or_add(p, SG_DOCKER_COPY, err);
}

static int do_add(struct parsing *p, struct sg_err *err)
{
    return copy_or_add(p, SG_DOCKER_ADD, err);
}

static int do_expose(struct parsing *p, struct sg_err *err)
{
    const char **v;
    size_t n;
    if (sg_docker_split(&p->w, p->rest, &v, &n, err) < 0)
        return -1;
    if (!n)
        return fail(p, "EXPOSE needs a port", err);
    for (size_t i = 0; i < n; i++) {
        uint64_t port;
        const size_t digits = strcspn(v[i], "/-");
        if (sg_parse_u64((struct sg_str) { v[i], digits }, 1, 65535, &port, NULL) < 0)
            return fail_with(p, v[i], "is no port", err);
    }
    return 0;
}

static int do_nothing(struct parsing *p, struct sg_err *err)
{
    return *p->rest ? 0 : fail(p, "there is nothing behind it", err);
}

static int do_onbuild(struct parsing *p, struct sg_err *err)
{
    return fail(p, "ONBUILD is not supported: a template has no triggers", err);
}

/* ---- all of them ---- */

static const struct {
    int (*run)(struct parsing *p, struct sg_err *err);
    bool is_noted, is_before; /* has no effect here; may stand before FROM */
    const char *flags;        /* that it takes, each with a comma behind it */
} ops[SG_DOCKER_OP_COUNT] = {
    [SG_DOCKER_FROM] = { do_from, false, true, "platform," },
    [SG_DOCKER_RUN] = { do_run, false, false, "" },
    [SG_DOCKER_COPY] = { do_copy, false, false, "from,chown,chmod,link," },
    [SG_DOCKER_ADD] = { do_add, false, false, "chown,chmod,link," },
    [SG_DOCKER_ENV] = { do_env, false, false, "" },
    [SG_DOCKER_ARG] = { do_arg, false, true, "" },
    [SG_DOCKER_WORKDIR] = { do_workdir, false, false, "" },
    [SG_DOCKER_USER] = { do_user, false, false, "" },
    [SG_DOCKER_SHELL] = { do_shell, false, false, "" },
    [SG_DOCKER_ENTRYPOINT] = { do_entrypoint, false, false, "" },
    [SG_DOCKER_CMD] = { do_cmd, false, false, "" },
    [SG_DOCKER_EXPOSE] = { do_expose, true, false, "" },
    [SG_DOCKER_LABEL] = { do_label, true, false, "" },
    [SG_DOCKER_VOLUME] = { do_nothing, true, false, "" },
    [SG_DOCKER_STOPSIGNAL] = { do_nothing, true, false, "" },
    [SG_DOCKER_HEALTHCHECK] = { do_nothing, true, false, "interval,timeout,retries,start-period," },
    [SG_DOCKER_MAINTAINER] = { do_nothing, true, false, "" },
    [SG_DOCKER_ONBUILD] = { do_onbuild, false, false, "" },
};

/* "--name=value" at the front of the rest. */
static int read_flags(struct parsing *p, enum sg_docker_op op, struct sg_err *err)
{
    p->from = p->chown = p->chmod = NULL;
    while (sg_starts_with(p->rest, "--")) {
        const char *word;
        if (sg_docker_word(&p->w, &p->rest, &word, err) < 0)
            return -1;
        p->rest += strspn(p->rest, " \t\n");
        const size_t n = strcspn(word + 2, "=");
        sg_auto_free char *known = sg_printf("%.*s,", (int)n, word + 2);
        const char *value = word[2 + n] ? word + 3 + n : "";
        const char *at = n ? strstr(ops[op].flags, known) : NULL;
        if (!at || (at != ops[op].flags && at[-1] != ','))
            return sg_fail(err, SG_INVALID, "line %u: %s does not take %s here", p->w.line,
                           sg_docker_names[op], sg_quote(word).s);
        if (strcmp(known, "from,") == 0)
            p->from = value;
        else if (strcmp(known, "chown,") == 0)
            p->chown = value;
        else if (strcmp(known, "chmod,") == 0)
            p->chmod = value;
    }
    if (p->chmod &&
        (!*p->chmod || strspn(p->chmod, "01234567") != strlen(p->chmod) || strlen(p->chmod) > 4))
        return fail_with(p, p->chmod, "is no octal mode", err);
    return 0;
}

static int take(void *arg, const struct sg_docker_line *line, struct sg_err *err)
{
    struct parsing *p = arg;
    const size_t n = strcspn(line->text, " \t\n");
    unsigned op = 0;
    while (op < SG_DOCKER_OP_COUNT && (strlen(sg_docker_names[op]) != n ||
                                       strncasecmp(line->text, sg_docker_names[op], n) != 0))
        op++;
    p->w.line = line->number;
    p->w.escape = line->escape;
    p->w.vars = &p->vars;
    if (op == SG_DOCKER_OP_COUNT)
        return sg_fail(err, SG_INVALID, "line %u: %s is no instruction", line->number,
                       sg_quote_str((struct sg_str) { line->text, n }).s);
    if (!p->stage && !ops[op].is_before)
        return sg_fail(err, SG_INVALID, "line %u: %s stands before the first FROM", line->number,
                       sg_docker_names[op]);
    p->rest = line->text + n + strspn(line->text + n, " \t\n");
    p->heredoc = line->heredoc;
    if (p->heredoc && op != SG_DOCKER_RUN && op != SG_DOCKER_COPY && op != SG_DOCKER_ADD)
        return fail(p, "here-documents are known to RUN only", err);
    if (read_flags(p, (enum sg_docker_op)op, err) < 0)
        return -1;
    if (ops[op].is_noted && !p->d->noted[op])
        p->d->noted[op] = line->number;
    return ops[op].run(p, err);
}

int sg_dockerfile_parse(struct sg_dockerfile *d, struct sg_str text, const char *const *args,
                        struct sg_err *err)
{
    *d = (struct sg_dockerfile) { .n = 0 };
    sg_arena_init(&d->arena, ARENA_MAX);
    sg_auto_free struct parsing *p = sg_new(struct parsing);
    p->d = d;
    p->given = args;
    p->w.arena = &d->arena;
    if (sg_docker_lines(&d->arena, text, take, p, err) < 0 || end_stage(p, err) < 0)
        return -1;
    if (!d->n)
        return sg_fail(err, SG_INVALID, "line 1: there is no FROM");
    return 0;
}

void sg_dockerfile_done(struct sg_dockerfile *d)
{
    sg_arena_done(&d->arena);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* An exec as a row of the store, and back. */
#include <stddef.h>
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/jsonr.h"
#include "manager/exec_internal.h"
#include "store/store.h"
#include "base/banned.h"

enum {
    SPEC_MAX = 8 * SG_CTL_MAX_BYTES, /* every byte escaped, at worst */
    PARSED_MAX = 8 * SPEC_MAX,
    DETAIL_MAX = 128 * 1024,
    SHOWN_ARGS = 64, /* of a record for people */
    SHOWN_BYTES = 200,
};

/* ---- there ---- */

static void put_text(struct sg_json *j, const char *key, const char *value)
{
    if (value && *value) {
        sg_json_key(j, key);
        sg_json_str(j, value);
    }
}

static void put_true(struct sg_json *j, const char *key, bool value)
{
    if (value) {
        sg_json_key(j, key);
        sg_json_bool(j, true);
    }
}

static void write_spec(const struct sg_exec *x, struct sg_buf *out)
{
    struct sg_json j;
    sg_json_init(&j, out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "argv");
    sg_json_open(&j, '[');
    for (char **a = x->argv; a && *a; a++)
        sg_json_str(&j, *a);
    sg_json_close(&j, ']');
    put_text(&j, "cwd", x->cwd);
    put_text(&j, "user", x->user);
    put_text(&j, "tag", x->tag);
    put_true(&j, "tty", x->has_tty);
    put_true(&j, "stdin", x->has_stdin);
    put_true(&j, "background", x->is_background);
    put_true(&j, "kernel", x->is_kernel);
    sg_json_key(&j, "pid");
    sg_json_u64(&j, x->pid);
    sg_json_key(&j, "deadline");
    sg_json_u64(&j, (uint64_t)sg_exec_impl(x)->deadline_ms);
    if (sg_exec_impl(x)->trace.is_set)
        put_text(&j, "trace", sg_traceparent_format(&sg_exec_impl(x)->trace).s);
    if (x->max_rss_bytes) {
        sg_json_key(&j, "rss");
        sg_json_u64(&j, x->max_rss_bytes);
    }
    sg_json_close(&j, '}');
}

void sg_exec_put_row(struct sg_exec *x, void (*done)(void *arg, const struct sg_err *err))
{
    struct sg_manager *m = x->sandbox->manager;
    const struct sg_journal *journal = &sg_exec_impl(x)->journal;
    const bool has_ended = x->ending != SG_EXEC_RUNNING;
    sg_auto_buf spec;
    sg_buf_init(&spec, SPEC_MAX);
    write_spec(x, &spec);
    const struct sg_exec_row row = {
        .id = x->id.s,
        .sandbox = x->sandbox->id.s,
        .spec = sg_buf_cstr(&spec),
        .state = has_ended ? "ended" : "running",
        .ending = has_ended ? sg_exec_ending_name(x->ending) : NULL,
        .code = x->code,
        .signal = x->signal,
        .started_ms = x->started_ms,
        .ended_ms = x->ended_ms,
        .out_bytes = (int64_t)journal->streams[SG_STREAM_OUT].bytes,
        .err_bytes = (int64_t)journal->streams[SG_STREAM_ERR].bytes,
        .cpu_ns = (int64_t)x->cpu_ns,
    };
    if (done)
        sg_store_put_exec(m->store, &row, SG_STORE_NORMAL, sg_note_done, sg_note_new(m, done, x));
    else
        sg_store_put_exec(m->store, &row, SG_STORE_NORMAL, NULL, NULL);
}

/* ---- back ---- */

struct spec {
    const struct sg_jval *argv;
    const char *cwd, *user, *tag, *trace;
    bool tty, in, background, kernel;
    uint64_t pid, deadline, rss;
};

static int read_spec(const char *text, struct sg_arena *a, struct spec *ret, struct sg_err *err)
{
#define AT(f) offsetof(struct spec, f)
    static const struct sg_jfield fields[] = {
        { "argv", SG_JT_ARRAY, AT(argv), 0, 0, true },
        { "cwd", SG_JT_STRING, AT(cwd), 0, 0, false },
        { "user", SG_JT_STRING, AT(user), 0, 0, false },
        { "tag", SG_JT_STRING, AT(tag), 0, 0, false },
        { "tty", SG_JT_BOOL, AT(tty), 0, 0, false },
        { "stdin", SG_JT_BOOL, AT(in), 0, 0, false },
        { "background", SG_JT_BOOL, AT(background), 0, 0, false },
        { "kernel", SG_JT_BOOL, AT(kernel), 0, 0, false },
        { "pid", SG_JT_U64, AT(pid), 0, UINT32_MAX, false },
        { "deadline", SG_JT_U64, AT(deadline), 0, INT64_MAX, false },
        { "trace", SG_JT_STRING, AT(trace), 0, 0, false },
        { "rss", SG_JT_U64, AT(rss), 0, UINT64_MAX, false },
    };
#undef AT
    const struct sg_jval *v;
    return sg_json_parse(sg_str_of(text), a, &v, err) < 0
               ? -1
               : sg_json_read(v, fields, SG_COUNT(fields), ret, err);
}

static char **copy_strings(const struct sg_jval *list)
{
    char **v = sg_alloc((list->list.n + 1) * sizeof *v);
    size_t n = 0;
    for (const struct sg_jval *i = list->list.first; i; i = i->next)
        v[n++] = sg_strdup(i->kind == SG_J_STRING ? i->s.p : "");
    return v;
}

static enum sg_exec_ending ending_of(const struct sg_exec_row *r)
{
    if (strcmp(r->state, "ended") != 0)
        return SG_EXEC_RUNNING;
    for (unsigned e = SG_EXEC_EXIT; e < SG_EXEC_LOST; e++)
        if (r->ending && strcmp(r->ending, sg_exec_ending_name(e)) == 0)
            return e;
    return SG_EXEC_LOST;
}

static void fill(struct sg_exec *x, const struct sg_exec_row *r, const struct spec *s)
{
    x->argv = copy_strings(s->argv);
    x->cwd = s->cwd ? sg_strdup(s->cwd) : NULL;
    x->user = s->user ? sg_strdup(s->user) : NULL;
    x->tag = s->tag ? sg_strdup(s->tag) : NULL;
    x->has_tty = s->tty;
    x->has_stdin = s->in;
    x->is_background = s->background;
    if (s->kernel)
        sg_exec_be_kernel(x);
    x->pid = (uint32_t)s->pid;
    x->code = (uint32_t)r->code;
    x->signal = (uint32_t)r->signal;
    x->started_ms = r->started_ms;
    x->ended_ms = r->ended_ms;
    x->cpu_ns = (uint64_t)r->cpu_ns;
    sg_exec_impl(x)->deadline_ms = (int64_t)s->deadline;
    x->max_rss_bytes = s->rss;
    if (s->trace)
        (void)sg_traceparent_parse(sg_str_of(s->trace), &sg_exec_impl(x)->trace);
}

struct sg_exec *sg_exec_of_row(struct sg_sandbox *s, const struct sg_exec_row *r)
{
    struct spec spec = { 0 };
    struct sg_err err;
    sg_auto_arena a;
    sg_arena_init(&a, PARSED_MAX);
    if (!sg_id_is_valid(r->id, 'x') || read_spec(r->spec, &a, &spec, &err) < 0)
        return NULL;
    struct sg_id id;
    memcpy(id.s, r->id, sizeof id.s);
    struct sg_exec *x = sg_exec_new(s, &id);
    fill(x, r, &spec);
    x->ending = ending_of(r);
    if (x->ending == SG_EXEC_RUNNING)
        return x;
    x->is_complete = true;
    sg_exec_count_end(x);
    return x;
}

/* ---- for people ---- */

static void put_argv(struct sg_json *j, const struct sg_exec *x)
{
    sg_json_key(j, "argv");
    sg_json_open(j, '[');
    for (unsigned i = 0; i < SHOWN_ARGS && x->argv[i]; i++) {
        size_t n = strlen(x->argv[i]);
        sg_json_text(j, (struct sg_str) { x->argv[i], n < SHOWN_BYTES ? n : SHOWN_BYTES });
    }
    sg_json_close(j, ']');
}

char *sg_exec_detail(const struct sg_exec *x, bool with_argv)
{
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, DETAIL_MAX);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "exec");
    sg_json_str(&j, x->id.s);
    put_text(&j, "tag", x->tag);
    if (with_argv) {
        put_text(&j, "user", x->user);
        put_argv(&j, x);
    }
    if (x->ending != SG_EXEC_RUNNING) {
        sg_json_key(&j, "ending");
        sg_json_str(&j, sg_exec_ending_name(x->ending));
        if (x->ending != SG_EXEC_LOST) {
            sg_json_key(&j, x->signal ? "signal" : "exitCode");
            sg_json_u64(&j, x->signal ? x->signal : x->code);
        }
    }
    sg_json_close(&j, '}');
    return sg_strdup(sg_buf_cstr(&out));
}

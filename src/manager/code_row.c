/* SPDX-License-Identifier: Apache-2.0 */
/* A context as a row of the store, and back. */
#include <stddef.h>
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/jsonr.h"
#include "base/log.h"
#include "manager/code_internal.h"
#include "manager/life.h"
#include "store/store.h"
#include "base/banned.h"

enum { SPEC_MAX = 1 << 20 };

/* ---- there ---- */

static void put_number(struct sg_json *j, const char *key, uint64_t value)
{
    sg_json_key(j, key);
    sg_json_u64(j, value);
}

static void put_text(struct sg_json *j, const char *key, const char *value)
{
    sg_json_key(j, key);
    sg_json_str(j, value);
}

static void write_spec(const struct sg_code_context *c, struct sg_buf *out)
{
    const struct sg_code_kernel *k = c->impl;
    struct sg_json j;
    sg_json_init(&j, out);
    sg_json_open(&j, '{');
    put_text(&j, "language", c->language);
    put_text(&j, "cwd", c->cwd);
    sg_json_key(&j, "default");
    sg_json_bool(&j, c->is_default);
    put_number(&j, "runs", c->runs);
    if (k->watch.exec)
        put_text(&j, "kernel", k->watch.exec->id.s);
    if (k->running) {
        put_text(&j, "run", k->running->id.s);
        put_number(&j, "at", k->running->at);
    }
    sg_json_key(&j, "env");
    sg_pairs_write(&j, &c->env);
    sg_json_close(&j, '}');
}

void sg_code_put_row(struct sg_code_context *c)
{
    struct sg_manager *m = c->sandbox->manager;
    sg_auto_buf spec = { 0 };
    if (sg_code_kernel(c)->made || m->is_ending) /* not there yet; or to be left as it is */
        return;
    sg_buf_init(&spec, SPEC_MAX);
    write_spec(c, &spec);
    const struct sg_context_row row = { .id = c->id.s,
                                        .sandbox = c->sandbox->id.s,
                                        .spec = sg_buf_cstr(&spec),
                                        .created_ms = c->created_ms };
    sg_store_put_context(m->store, &row, SG_STORE_NORMAL, NULL, NULL);
}

/* ---- back ---- */

struct spec {
    const char *language, *cwd, *kernel, *run;
    const struct sg_jval *env;
    bool is_default;
    uint64_t runs, at;
};

static int read_spec(const char *text, struct sg_arena *a, struct spec *ret, struct sg_err *err)
{
#define AT(f) offsetof(struct spec, f)
    static const struct sg_jfield fields[] = {
        { "language", SG_JT_STRING, AT(language), 0, 0, true },
        { "cwd", SG_JT_STRING, AT(cwd), 0, 0, true },
        { "default", SG_JT_BOOL, AT(is_default), 0, 0, false },
        { "runs", SG_JT_U64, AT(runs), 0, UINT64_MAX, false },
        { "kernel", SG_JT_STRING, AT(kernel), 0, 0, false },
        { "run", SG_JT_STRING, AT(run), 0, 0, false },
        { "at", SG_JT_U64, AT(at), 0, UINT64_MAX, false },
        { "env", SG_JT_OBJECT, AT(env), 0, 0, false },
    };
#undef AT
    const struct sg_jval *v;
    return sg_json_parse(sg_str_of(text), a, &v, err) < 0
               ? -1
               : sg_json_read(v, fields, SG_COUNT(fields), ret, err);
}

static void take_kernel(struct sg_code_context *c, const struct spec *spec)
{
    struct sg_err err;
    struct sg_exec *x = spec->kernel ? sg_exec_find(c->sandbox, spec->kernel, &err) : NULL;
    if (!x || !sg_exec_is_live(x))
        return;
    struct sg_id run;
    const bool runs = spec->run && sg_id_is_valid(spec->run, 'r') && spec->at <= x->total_bytes;
    sg_code_listen(c, x, runs ? spec->at : x->total_bytes);
    if (!runs)
        return;
    memcpy(run.s, spec->run, sizeof run.s);
    sg_code_run_again(c, &run, spec->at);
    c->runs = spec->runs;
    sg_code_kernel(c)->watch.wake(&sg_code_kernel(c)->watch); /* it may be over */
}

static bool load_row(void *arg, const struct sg_context_row *row)
{
    struct sg_sandbox *s = arg;
    struct spec spec = { 0 };
    struct sg_err err;
    struct sg_id id;
    sg_auto_arena a;
    sg_arena_init(&a, (size_t)8 * SPEC_MAX);
    if (!sg_id_is_valid(row->id, 'c') || read_spec(row->spec, &a, &spec, &err) < 0)
        return true;
    memcpy(id.s, row->id, sizeof id.s);
    struct sg_code_context *c = sg_code_add(s, &id, spec.language, spec.cwd);
    c->is_default = spec.is_default;
    c->runs = spec.runs;
    c->created_ms = row->created_ms;
    sg_pairs_read(spec.env, &c->env);
    take_kernel(c, &spec);
    return true;
}

void sg_code_recover(struct sg_sandbox *s)
{
    struct sg_err err;
    if (sg_store_each_context(s->manager->store, s->id.s, load_row, s, &err) < 0)
        sg_log(SG_LOG_ERROR, "the rows of contexts cannot be read", SG_KV("sandbox", s->id.s),
               SG_KV("error", err.msg));
}

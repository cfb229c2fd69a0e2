/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/batch.h"

#include <string.h>

#include "base/auto.h"
#include "base/map.h"
#include "base/str.h"
#include "base/log.h"
#include "manager/manager_internal.h"
#include "manager/volume.h"

#include "base/banned.h"

enum state { WAITING, RUNNING, GOOD, BAD, SKIPPED };

struct one {
    struct sg_batch *batch;
    const struct sg_batch_task *t;
    enum state state;
    struct sg_task *task;
    struct sg_task_spec spec;   /* with the files that were handed over */
    struct sg_task_file *files; /* owned: of `spec` */
    struct sg_mount_spec *mounts;
    struct sg_task_file *handed; /* owned, with paths and bytes: for those that come after */
    size_t handed_n;
    unsigned heirs; /* that may still want them */
};

struct sg_batch {
    struct sg_manager *m;
    struct sg_who who;
    const struct sg_batch_spec *spec;
    const struct sg_batch_ops *ops;
    void *arg;
    struct one *v; /* owned */
    struct sg_map names;
    unsigned running, left;
    size_t handed_bytes;
    bool has_failed;
    uint64_t began_ns;
    struct sg_batch_report report;
    struct sg_later go;
    char volume[SG_ID_LEN + 1]; /* shared; "": none (yet) */
    bool is_making, is_cancelled;
};

/* ---- beginning and end ---- */

static void release(struct sg_batch *b, struct one *o)
{
    for (size_t i = 0; i < o->handed_n; i++) {
        b->handed_bytes -= o->handed[i].bytes.n;
        free((char *)o->handed[i].path);
        free((char *)o->handed[i].bytes.p);
    }
    free(o->handed);
    o->handed = NULL;
    o->handed_n = 0;
}

static void batch_free(struct sg_batch *b)
{
    sg_later_cancel(b->m->loop, &b->go);
    for (size_t i = 0; i < b->spec->count; i++) {
        free(b->v[i].files);
        free(b->v[i].mounts);
        release(b, &b->v[i]);
    }
    sg_map_done(&b->names);
    free(b->v);
    free(b);
}

/* The sandboxes that have it are on their way out, too. */
static bool drop_volume(struct sg_batch *b, sg_tenant_cb *done)
{
    struct sg_err err = { 0 };
    if (!*b->volume || b->m->is_ending)
        return false; /* the next daemon finds it by its name */
    if (sg_volume_remove(b->m, &b->who, b->volume, true, done, b, &err) == 0)
        return true;
    sg_log(SG_LOG_WARN, "the volume of a batch stays", SG_KV("error", err.msg));
    return false;
}

void sg_batch_cancel(struct sg_batch *b)
{
    for (size_t i = 0; i < b->spec->count; i++)
        if (b->v[i].state == RUNNING)
            sg_task_cancel(b->v[i].task);
    b->is_cancelled = true;
    if (b->is_making) /* what is made is taken back */
        return;
    drop_volume(b, NULL);
    batch_free(b);
}

static struct one *named(struct sg_batch *b, const char *name)
{
    return sg_map_find(&b->names, name);
}

static int check_names(struct sg_batch *b, struct sg_err *err)
{
    for (size_t i = 0; i < b->spec->count; i++) {
        const char *name = b->v[i].t->name;
        if (!*name || strlen(name) > 64 || strchr(name, '/') || name[0] == '.')
            return sg_fail(err, SG_INVALID, "%s is no name of a task", sg_quote(name).s);
        if (named(b, name))
            return sg_fail(err, SG_INVALID, "there are two tasks %s", sg_quote(name).s);
        sg_map_put(&b->names, name, &b->v[i]);
    }
    return 0;
}

/* Takes away, again and again, what comes after nothing that is left: what stays is a circle. */
static int check_order(struct sg_batch *b, struct sg_err *err)
{
    sg_auto_free bool *gone = sg_alloc(b->spec->count * sizeof *gone);
    for (size_t left = b->spec->count, before = left + 1; left && left < before;) {
        before = left;
        for (size_t i = 0; i < b->spec->count; i++) {
            bool is_free = !gone[i];
            for (const char *const *a = b->v[i].t->after; is_free && a && *a; a++) {
                const struct one *o = named(b, *a);
                if (!o)
                    return sg_fail(err, SG_INVALID, "task %s comes after %s, which is not there",
                                   sg_quote(b->v[i].t->name).s, sg_quote(*a).s);
                is_free = gone[o - b->v];
            }
            gone[i] |= is_free;
            left -= is_free;
        }
        if (left == before)
            return sg_fail(err, SG_INVALID, "tasks come after each other in a circle");
    }
    return 0;
}

static void done(void *arg, const struct sg_err *err)
{
    struct sg_batch *b = arg;
    if (err && !b->m->is_ending)
        sg_log(SG_LOG_WARN, "the volume of a batch stays", SG_KV("error", err->msg));
    if (!b->is_cancelled)
        b->ops->done(b->arg, &b->report);
    batch_free(b);
}

static void finish(struct sg_batch *b)
{
    b->report.wall_ms = (sg_loop_now(b->m->loop) - b->began_ns) / 1000000u;
    b->is_making = drop_volume(b, done); /* a cancel waits for it */
    if (!b->is_making)
        done(b, NULL);
}

/* ---- one task ---- */

static void keep_files(struct one *o, struct sg_task_result *r)
{
    struct sg_batch *b = o->batch;
    if (!o->heirs || !r->file_count)
        return;
    o->handed = sg_alloc(r->file_count * sizeof *o->handed);
    for (size_t i = 0; i < r->file_count; i++) {
        const struct sg_task_out *f = &r->files[i];
        const struct sg_str name = sg_last_part(f->path);
        if (f->bytes.n > SG_BATCH_HANDED_BYTES - b->handed_bytes)
            break; /* who needs it says that it is not there */
        char *bytes = sg_alloc(f->bytes.n + 1);
        memcpy(bytes, f->bytes.n ? (const char *)f->bytes.p : "", f->bytes.n);
        o->handed[o->handed_n++] =
            (struct sg_task_file) { sg_printf("from/%s/%.*s", o->t->name, (int)name.n, name.p),
                                    { bytes, f->bytes.n } };
        b->handed_bytes += f->bytes.n;
    }
}

static void take_files(struct one *o)
{
    const struct sg_task_spec *spec = &o->t->spec;
    size_t n = spec->file_count;
    for (const char *const *a = o->t->after; a && *a; a++)
        n += named(o->batch, *a)->handed_n;
    o->spec = *spec;
    o->spec.tool = "batch";
    o->files = sg_alloc((n + 1) * sizeof *o->files);
    n = 0;
    for (size_t i = 0; i < spec->file_count; i++)
        o->files[n++] = spec->files[i];
    for (const char *const *a = o->t->after; a && *a; a++) {
        const struct one *from = named(o->batch, *a);
        for (size_t i = 0; i < from->handed_n; i++)
            o->files[n++] = from->handed[i];
    }
    o->spec.files = o->files;
    o->spec.file_count = n;
}

static void take_mounts(struct one *o)
{
    const struct sg_batch *b = o->batch;
    if (!*b->volume)
        return;
    size_t n = o->t->spec.mounts_n;
    o->mounts = sg_alloc((n + 1) * sizeof *o->mounts);
    for (size_t i = 0; i < n; i++)
        o->mounts[i] = o->t->spec.mounts[i];
    o->mounts[n++] = (struct sg_mount_spec) { .volume = b->volume, .path = b->spec->shared };
    o->spec.mounts = o->mounts;
    o->spec.mounts_n = n;
}

/* It has what it wanted of those before it, or never will. */
static void leave_files(struct one *o)
{
    free(o->files);
    o->files = NULL;
    for (const char *const *a = o->t->after; a && *a; a++) {
        struct one *from = named(o->batch, *a);
        if (--from->heirs == 0)
            release(o->batch, from);
    }
}

static void ended(void *arg, struct sg_task_result *r)
{
    struct one *o = arg;
    struct sg_batch *b = o->batch;
    const bool is_good =
        (r->ending == SG_TASK_EXIT && r->code == 0) || r->ending == SG_TASK_PERMITTED;
    o->state = is_good ? GOOD : BAD;
    o->task = NULL;
    b->running--;
    b->left--;
    b->report.cpu_ns += r->cpu_ns;
    if (is_good)
        b->report.succeeded++;
    else
        b->report.failed++;
    b->has_failed |= !is_good;
    keep_files(o, r);
    leave_files(o);
    b->ops->ended(b->arg, (size_t)(o - b->v), r);
    if (!b->m->is_ending)
        sg_later_call(b->m->loop, &b->go);
    else if (!b->running) /* the loop does not run on */
        finish(b);
}

static void start(struct one *o)
{
    struct sg_batch *b = o->batch;
    o->state = RUNNING;
    take_files(o);
    take_mounts(o);
    if (++b->running > b->report.most_at_a_time)
        b->report.most_at_a_time = b->running;
    o->task = sg_task_start(b->m, &b->who, &o->spec, ended, o);
    b->ops->started(b->arg, (size_t)(o - b->v));
}

static void skip(struct one *o, const char *why)
{
    struct sg_batch *b = o->batch;
    o->state = SKIPPED;
    b->left--;
    b->report.skipped++;
    leave_files(o);
    b->ops->skipped(b->arg, (size_t)(o - b->v), why);
}

/* ---- all of them ---- */

/* Whether its turn has come; `*ret_why`: it never will, because of that. */
static bool is_due(const struct one *o, const char **ret_why)
{
    struct sg_batch *b = o->batch;
    for (const char *const *a = o->t->after; a && *a; a++) {
        const enum state s = named(b, *a)->state;
        if (s == WAITING || s == RUNNING)
            return false;
        if (s != GOOD && !o->t->always) {
            *ret_why = "one that it comes after did not end well";
            return true;
        }
    }
    if (b->has_failed && b->spec->stops_on_failure && !o->t->always)
        *ret_why = "another one failed";
    return true;
}

/* Skipping one may make another one due, which may stand before it. */
static bool pass(struct sg_batch *b)
{
    bool has_skipped = false;
    for (size_t i = 0; i < b->spec->count; i++) {
        struct one *o = &b->v[i];
        const char *why = NULL;
        if (o->state != WAITING || !is_due(o, &why))
            continue;
        if (why) {
            skip(o, why);
            has_skipped = true;
        } else if (b->running < b->spec->concurrency) {
            start(o);
        }
    }
    return has_skipped;
}

static void go_on(struct sg_later *l)
{
    struct sg_batch *b = SG_OWNER(l, struct sg_batch, go);
    while (pass(b))
        ;
    if (!b->left)
        finish(b);
}

/* ---- what they share ---- */

static void shared(void *arg, const struct sg_volume *v, const struct sg_err *err)
{
    struct sg_batch *b = arg;
    b->is_making = false;
    if (v)
        memcpy(b->volume, v->id.s, sizeof b->volume);
    if (b->is_cancelled) {
        (void)drop_volume(b, NULL);
        batch_free(b);
        return;
    }
    for (size_t i = 0; !v && i < b->spec->count; i++)
        skip(&b->v[i], err->msg);
    if (b->m->is_ending)
        done(b, NULL);
    else
        sg_later_call(b->m->loop, &b->go);
}

static int share(struct sg_batch *b, struct sg_err *err)
{
    const struct sg_id id = sg_id_new(SG_VOLUME_BATCH_LETTER);
    sg_auto_free char *name = sg_printf(SG_VOLUME_BATCH "%s", id.s);
    if (sg_mount_check_place(b->spec->shared, err) < 0)
        return -1;
    b->is_making = true;
    return sg_volume_create(b->m, &b->who, name, b->spec->shared_bytes, shared, b, err);
}

struct sg_batch *sg_batch_start(struct sg_manager *m, const struct sg_who *who,
                                const struct sg_batch_spec *spec, const struct sg_batch_ops *ops,
                                void *arg, struct sg_err *err)
{
    struct sg_batch *b = sg_new(struct sg_batch);
    *b = (struct sg_batch) { .m = m, .who = *who, .spec = spec, .ops = ops, .arg = arg };
    b->v = sg_alloc(spec->count * sizeof *b->v);
    b->left = (unsigned)spec->count;
    b->began_ns = sg_loop_now(m->loop);
    sg_map_init(&b->names);
    for (size_t i = 0; i < spec->count; i++)
        b->v[i] = (struct one) { .batch = b, .t = &spec->tasks[i] };
    if (check_names(b, err) < 0 || check_order(b, err) < 0) {
        batch_free(b);
        return NULL;
    }
    for (size_t i = 0; i < spec->count; i++)
        for (const char *const *a = b->v[i].t->after; a && *a; a++)
            named(b, *a)->heirs++;
    b->go.call = go_on;
    if (!spec->shared)
        sg_later_call(m->loop, &b->go);
    else if (share(b, err) < 0) {
        batch_free(b);
        return NULL;
    }
    return b;
}

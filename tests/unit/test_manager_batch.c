/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a batch, with tasks that the test plays itself: what begins when, what is handed
 * over, what is skipped, and what a cancel ends. */
#include "manager_rig.h"

#include "manager/batch.h"
#include "base/banned.h"

enum { MOST = 8 };

/* ---- tasks that end when the test says so ---- */

struct sg_task {
    const struct sg_task_spec *spec;
    sg_task_cb *done;
    void *arg;
    bool is_cancelled;
};
static struct sg_task *running[MOST];
static unsigned cancelled;

struct sg_task *sg_task_start(struct sg_manager *m, const struct sg_who *who,
                              const struct sg_task_spec *spec, sg_task_cb *done, void *arg)
{
    struct sg_task *t = sg_new(struct sg_task);
    (void)m, (void)who;
    *t = (struct sg_task) { .spec = spec, .done = done, .arg = arg };
    for (unsigned i = 0; i < MOST; i++)
        if (!running[i])
            return running[i] = t;
    fail_msg("too many tasks at a time");
    return NULL;
}

static void forget(struct sg_task *t)
{
    for (unsigned i = 0; i < MOST; i++)
        if (running[i] == t)
            running[i] = NULL;
    free(t);
}

void sg_task_cancel(struct sg_task *t)
{
    cancelled++;
    forget(t);
}

static struct sg_task *find(const char *name)
{
    for (unsigned i = 0; i < MOST; i++)
        if (running[i] && strcmp(running[i]->spec->name, name) == 0)
            return running[i];
    return NULL;
}

static void end(const char *name, enum sg_task_ending ending, uint32_t code, const char *file)
{
    struct sg_task *t = find(name);
    struct sg_task_result r = { .ending = ending, .code = code, .cpu_ns = 1000000 };
    char path[] = "/workspace/out/n.txt";
    assert_non_null(t);
    if (file) {
        r.files[0].path = path;
        sg_buf_init(&r.files[0].bytes, 64);
        sg_buf_add_str(&r.files[0].bytes, file);
        r.file_count = 1;
    }
    t->done(t->arg, &r);
    if (file)
        sg_buf_done(&r.files[0].bytes);
    forget(t);
}

/* ---- what is told ---- */

static char story[512];
static struct sg_batch_report report;
static bool is_done;
static const struct sg_batch_spec *told_of;

static void add(const char *what, size_t task)
{
    const size_t n = strlen(story);
    (void)snprintf(story + n, sizeof story - n, "%s%s ", what, told_of->tasks[task].name);
}

static void started(void *arg, size_t task)
{
    (void)arg;
    add("+", task);
}

static void ended(void *arg, size_t task, const struct sg_task_result *r)
{
    (void)arg, (void)r;
    add("-", task);
}

static void skipped(void *arg, size_t task, const char *why)
{
    (void)arg;
    assert_non_null(why);
    add("~", task);
}

static void done(void *arg, const struct sg_batch_report *r)
{
    (void)arg;
    report = *r;
    is_done = true;
}

static const struct sg_batch_ops ops = { started, ended, skipped, done };

static struct sg_batch *start(struct rig *r, const struct sg_batch_spec *spec)
{
    struct sg_err err = { 0 };
    story[0] = '\0';
    is_done = false;
    cancelled = 0;
    told_of = spec;
    struct sg_batch *b = sg_batch_start(r->m, &r->who, spec, &ops, NULL, &err);
    if (!b)
        fail_msg("%s", err.msg);
    assert_string_equal(story, "");
    rig_turn(r);
    return b;
}

#define TASK(n, ...)                                                                               \
    {                                                                                              \
        .name = n, .spec = { .name = n }, __VA_ARGS__                                              \
    }
#define AFTER(...)                                                                                 \
    .after = (const char *const[])                                                                 \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

static void no_more_than_so_many_at_a_time(void **state)
{
    struct rig *r = *state;
    const struct sg_batch_task tasks[] = { TASK("a"), TASK("b"), TASK("c") };
    const struct sg_batch_spec spec = { .tasks = tasks, .count = 3, .concurrency = 2 };
    start(r, &spec);
    assert_string_equal(story, "+a +b ");
    end("b", SG_TASK_EXIT, 0, NULL);
    rig_turn(r);
    assert_string_equal(story, "+a +b -b +c ");
    end("a", SG_TASK_EXIT, 0, NULL);
    end("c", SG_TASK_PERMITTED, 0, NULL);
    rig_until(r, is_done);
    assert_int_equal(report.succeeded, 3);
    assert_int_equal(report.most_at_a_time, 2);
    assert_int_equal(report.cpu_ns, 3000000);
}

static void files_go_to_the_heirs(void **state)
{
    struct rig *r = *state;
    const struct sg_batch_task tasks[] = { TASK("c", AFTER("a", "b")), TASK("a"),
                                           TASK("b", AFTER("a")) };
    const struct sg_batch_spec spec = { .tasks = tasks, .count = 3, .concurrency = 8 };
    start(r, &spec);
    assert_string_equal(story, "+a ");
    end("a", SG_TASK_EXIT, 0, "one");
    rig_turn(r);
    assert_int_equal(find("b")->spec->file_count, 1);
    assert_string_equal(find("b")->spec->files[0].path, "from/a/n.txt");
    end("b", SG_TASK_EXIT, 0, "two");
    rig_turn(r);
    const struct sg_task_spec *c = find("c")->spec;
    assert_int_equal(c->file_count, 2);
    assert_string_equal(c->files[1].path, "from/b/n.txt");
    assert_memory_equal(c->files[1].bytes.p, "two", 3);
    end("c", SG_TASK_EXIT, 0, NULL);
    rig_until(r, is_done);
}

static void a_failure_costs_only_what_depends_on_it(void **state)
{
    struct rig *r = *state;
    static const enum sg_task_ending endings[] = { SG_TASK_TIMEOUT, SG_TASK_OOM,  SG_TASK_CRASH,
                                                   SG_TASK_LOST,    SG_TASK_EXIT, SG_TASK_DENIED };
    const struct sg_batch_task tasks[] = { TASK("bad"), TASK("heir", AFTER("bad")),
                                           TASK("last", AFTER("heir"), .always = true),
                                           TASK("other") };
    for (size_t i = 0; i < SG_COUNT(endings); i++) {
        const struct sg_batch_spec spec = { .tasks = tasks, .count = 4, .concurrency = 8 };
        start(r, &spec);
        end("bad", endings[i], 1, NULL);
        rig_turn(r);
        assert_string_equal(story, "+bad +other -bad ~heir +last ");
        end("other", SG_TASK_EXIT, 0, NULL);
        end("last", SG_TASK_EXIT, 0, NULL);
        rig_until(r, is_done);
        assert_int_equal(report.failed, 1);
        assert_int_equal(report.skipped, 1);
        assert_int_equal(report.succeeded, 2);
    }
}

static void the_first_failure_may_stop_the_rest(void **state)
{
    struct rig *r = *state;
    const struct sg_batch_task tasks[] = { TASK("a"), TASK("b"), TASK("c", .always = true) };
    const struct sg_batch_spec spec = {
        .tasks = tasks, .count = 3, .concurrency = 1, .stops_on_failure = true
    };
    start(r, &spec);
    end("a", SG_TASK_EXIT, 1, NULL);
    rig_turn(r);
    assert_string_equal(story, "+a -a ~b +c ");
    end("c", SG_TASK_EXIT, 0, NULL);
    rig_until(r, is_done);
}

static void a_cancel_ends_what_runs_and_tells_nobody(void **state)
{
    struct rig *r = *state;
    const struct sg_batch_task tasks[] = { TASK("a"), TASK("b"), TASK("c") };
    const struct sg_batch_spec spec = { .tasks = tasks, .count = 3, .concurrency = 2 };
    struct sg_batch *b = start(r, &spec);
    sg_batch_cancel(b);
    assert_int_equal(cancelled, 2);
    rig_turn(r);
    assert_string_equal(story, "+a +b ");
    assert_false(is_done);
}

static void what_makes_no_sense_is_refused(void **state)
{
    struct rig *r = *state;
    const struct sg_batch_task twice[] = { TASK("a"), TASK("a") },
                               circle[] = { TASK("a", AFTER("b")), TASK("b", AFTER("a")) },
                               itself[] = { TASK("a", AFTER("a")), TASK("b") },
                               absent[] = { TASK("a", AFTER("x")), TASK("b") },
                               slash[] = { TASK("a/b"), TASK("b") };
    const struct sg_batch_task *const all[] = { twice, circle, itself, absent, slash };
    for (size_t i = 0; i < SG_COUNT(all); i++) {
        const struct sg_batch_spec spec = { .tasks = all[i], .count = 2, .concurrency = 1 };
        struct sg_err err = { 0 };
        assert_null(sg_batch_start(r->m, &r->who, &spec, &ops, NULL, &err));
        assert_int_equal(err.kind, SG_INVALID);
    }
    const struct sg_batch_spec spec = {
        .tasks = twice, .count = 1, .concurrency = 1, .shared = "/shared"
    };
    struct sg_err err = { 0 };
    assert_null(sg_batch_start(r->m, &r->who, &spec, &ops, NULL, &err));
    assert_int_equal(err.kind, SG_UNSUPPORTED); /* this launcher has no storage pool */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(no_more_than_so_many_at_a_time),
        RIG_TEST(files_go_to_the_heirs),
        RIG_TEST(a_failure_costs_only_what_depends_on_it),
        RIG_TEST(the_first_failure_may_stop_the_rest),
        RIG_TEST(a_cancel_ends_what_runs_and_tells_nobody),
        RIG_TEST(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

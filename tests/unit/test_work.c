/* SPDX-License-Identifier: Apache-2.0 */
/* loop: the work queue. Nothing here is locked or atomic, so that a build with
 * -Db_sanitize=thread finds whatever the queue does not order. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "check.h"
#include "loop/loop.h"
#include "base/banned.h"

enum { JOBS = 2000 };

struct sum {
    struct sg_job job;
    struct shared *shared; /* the loop's: `work` does not look */
    uint64_t in, out;
    pthread_t ran_on;
};
struct shared {
    struct sg_loop *loop;
    struct sg_work *work;
    struct sum *again; /* added once more by the first `done` */
    uint64_t total, last;
    unsigned done, ran_here;
    bool is_in_order;
};

static void add_up(struct sg_job *j)
{
    struct sum *s = SG_OWNER(j, struct sum, job);
    s->out = 0;
    for (uint64_t i = 0; i <= s->in; i++)
        s->out += i;
    s->ran_on = pthread_self();
}

static void count(struct sg_job *j)
{
    struct sum *s = SG_OWNER(j, struct sum, job);
    struct shared *sh = s->shared;
    sh->ran_here += pthread_equal(s->ran_on, pthread_self()) != 0;
    sh->is_in_order &= s->in >= sh->last;
    sh->last = s->in;
    sh->total += s->out;
    sh->done++;
    if (sh->again == s) {
        sh->again = NULL;
        sg_work_add(sh->work, &s->job);
    }
}

static uint64_t fill(struct shared *sh, struct sum *jobs)
{
    uint64_t want = 0;
    for (unsigned i = 0; i < JOBS; i++) {
        jobs[i] = (struct sum) { .job = { .work = add_up, .done = count }, .shared = sh, .in = i };
        want += (uint64_t)i * (i + 1) / 2;
        sg_work_add(sh->work, &jobs[i].job);
    }
    return want;
}

static void run_with(unsigned threads, bool is_ordered)
{
    struct sg_err err = { 0 };
    struct shared sh = { .loop = sg_loop_new(&err), .is_in_order = true };
    assert_non_null(sh.loop);
    sh.work = sg_work_new(sh.loop, "test", threads, &err);
    assert_non_null(sh.work);
    struct sum *jobs = sg_alloc(JOBS * sizeof *jobs);
    uint64_t want = fill(&sh, jobs);
    while (sh.done < JOBS)
        assert_ok(sg_loop_turn(sh.loop, 5000, &err), err);
    assert_true(sh.total == want);
    assert_int_equal(sh.ran_here, 0);
    if (is_ordered)
        assert_true(sh.is_in_order);
    sg_work_free(sh.work);
    sg_loop_free(sh.loop);
    free(jobs);
}

static void many_threads_do_every_job_once(void **state)
{
    (void)state;
    run_with(4, false);
}

static void one_thread_keeps_the_order(void **state)
{
    (void)state;
    run_with(1, true);
}

static void freeing_finishes_what_is_queued(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    struct shared sh = { .loop = sg_loop_new(&err), .is_in_order = true };
    sh.work = sg_work_new(sh.loop, "test", 2, &err);
    struct sum *jobs = sg_alloc(JOBS * sizeof *jobs);
    uint64_t want = fill(&sh, jobs);
    sh.again = &jobs[JOBS - 1]; /* a job that is added while the queue ends */
    want += jobs[JOBS - 1].in * (jobs[JOBS - 1].in + 1) / 2;
    sg_work_free(sh.work);
    assert_int_equal(sh.done, JOBS + 1);
    assert_true(sh.total == want);
    sg_loop_free(sh.loop);
    free(jobs);
}

static void freeing_the_loop_frees_its_queues(void **state)
{
    (void)state;
    struct sg_err err = { 0 };
    struct shared sh = { .loop = sg_loop_new(&err), .is_in_order = true };
    sh.work = sg_work_new(sh.loop, "one", 1, &err);
    assert_non_null(sg_work_new(sh.loop, "two", 1, &err));
    struct sum *jobs = sg_alloc(JOBS * sizeof *jobs);
    uint64_t want = fill(&sh, jobs);
    sg_loop_free(sh.loop);
    assert_true(sh.total == want);
    free(jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_threads_do_every_job_once),
        cmocka_unit_test(one_thread_keeps_the_order),
        cmocka_unit_test(freeing_finishes_what_is_queued),
        cmocka_unit_test(freeing_the_loop_frees_its_queues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

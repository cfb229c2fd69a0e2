/* SPDX-License-Identifier: Apache-2.0 */
/* One operation from the question to the result: how its endings are told apart, and which of them
 * are tried again. Sandboxes are the rig's; commands and files are played here, one row of `plays`
 * an attempt. */
#define RIG_HAS_EXECS
#define RIG_HAS_FILES
#include "manager_rig.h"

#include "manager/task.h"
#include "base/banned.h"

enum { MOST = 4 };

/* ---- commands ---- */

static struct play {
    enum sg_exec_ending ending;
    uint32_t code, signal;
    const char *output;
    enum sg_kind refuses;  /* SG_OK: it is started */
    bool vanishes;         /* its sandbox goes, and it with that */
    enum sg_kind writes;   /* what putting a file ends with */
    enum sg_kind collects; /* the same of getting one */
} plays[MOST];
static unsigned at; /* commands that were started */
static struct sg_exec execs[MOST];
static bool was_told[MOST]; /* all of its output was read */
static struct sg_reader *open_reader;

static struct starting {
    struct sg_later later;
    struct sg_exec *x;
    sg_exec_cb *cb;
    void *arg;
    enum sg_kind kind;
} starting;

static void start_it(struct sg_later *l)
{
    const struct starting s = *SG_OWNER(l, struct starting, later);
    struct sg_err err = { 0 };
    if (s.kind != SG_OK)
        (void)sg_fail(&err, s.kind, "the test wants it so");
    s.cb(s.arg, s.kind == SG_OK ? s.x : NULL, s.kind == SG_OK ? NULL : &err);
}

int sg_exec_start(struct sg_sandbox *s, const struct sg_who *who, const struct sg_exec_spec *spec,
                  sg_exec_cb *cb, void *arg, struct sg_err *err)
{
    const struct play *p = &plays[at];
    struct sg_exec *x = &execs[at];
    (void)who, (void)spec, (void)err;
    *x = (struct sg_exec) { .sandbox = s,
                            .ending = p->ending,
                            .code = p->code,
                            .signal = p->signal,
                            .cpu_ns = 7,
                            .is_complete = !p->vanishes };
    starting = (struct starting) { { .call = start_it }, x, cb, arg, p->refuses };
    sg_later_call(s->manager->loop, &starting.later);
    at++;
    return 0;
}

void sg_reader_open(struct sg_reader *r, struct sg_exec *x, uint64_t from)
{
    (void)from;
    r->exec = x;
    open_reader = r;
}

void sg_reader_close(struct sg_reader *r)
{
    r->exec = NULL;
    open_reader = NULL;
}

ssize_t sg_reader_read(struct sg_reader *r, enum sg_stream *ret_stream, void *to, size_t cap,
                       uint64_t *ret_lost, struct sg_err *err)
{
    const unsigned i = at - 1;
    const char *text = plays[i].output;
    (void)r, (void)err;
    *ret_lost = 0;
    if (!text || was_told[i])
        return 0;
    was_told[i] = true;
    assert_true(strlen(text) < cap);
    memcpy(to, text, strlen(text));
    *ret_stream = SG_STREAM_OUT;
    return (ssize_t)strlen(text);
}

ssize_t sg_exec_write(struct sg_exec *x, const void *p, size_t n, struct sg_err *err)
{
    (void)x, (void)p, (void)err;
    return (ssize_t)n;
}

int sg_exec_when_writable(struct sg_exec *x, void (*writable)(void *arg), void *arg,
                          struct sg_err *err)
{
    (void)x, (void)writable, (void)arg;
    return sg_fail(err, SG_INTERNAL, "there is always room");
}

void sg_exec_forget_writable(struct sg_exec *x, void *arg)
{
    (void)x, (void)arg;
}

int sg_exec_close_stdin(struct sg_exec *x, struct sg_err *err)
{
    (void)x, (void)err;
    return 0;
}

/* ---- files ---- */

static unsigned attempt; /* sandboxes whose files were asked for */
static unsigned sent, fetched;

static int fail_as(enum sg_kind kind, struct sg_err *err)
{
    return kind == SG_OK ? 0 : sg_fail(err, kind, "the test wants it so");
}

int sg_files_write(struct sg_sandbox *s, const struct sg_who *who, const struct sg_file_spec *f,
                   sg_file_write_cb *cb, void *arg, struct sg_err *err)
{
    (void)s, (void)who, (void)f;
    sent++;
    if (fail_as(plays[attempt].writes, err) < 0) {
        attempt++;
        return -1;
    }
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    (void)close(ends[0]);
    cb(arg, (struct sg_file_write *)(uintptr_t)1, ends[1], NULL); /* nothing is written: 0 bytes */
    (void)close(ends[1]);
    return 0;
}

void sg_files_commit(struct sg_file_write *w, sg_files_done_cb *cb, void *arg)
{
    (void)w;
    cb(arg, NULL);
}

void sg_files_abandon(struct sg_file_write *w)
{
    (void)w;
}

int sg_files_ask(struct sg_sandbox *s, const struct sg_who *who, struct sg_msg *m, const int *fds,
                 unsigned fd_count, sg_files_cb *cb, void *arg, struct sg_err *err)
{
    (void)s, (void)who, (void)fds, (void)fd_count, (void)cb, (void)arg;
    assert_int_equal(m->type, SG_MSG_OPEN);
    fetched++;
    return fail_as(plays[at - 1].collects, err) < 0 ? -1
                                                    : sg_fail(err, SG_INTERNAL, "none is there");
}

int sg_files_send(struct sg_sandbox *s, struct sg_msg *m, const int *fds, unsigned fd_count,
                  sg_files_cb *cb, void *arg, struct sg_err *err)
{
    return sg_files_ask(s, NULL, m, fds, fd_count, cb, arg, err);
}

int sg_files_copy(struct sg_sandbox *from, const char *path, struct sg_sandbox *to,
                  const char *to_path, const struct sg_who *who, sg_files_done_cb *cb, void *arg,
                  struct sg_err *err)
{
    (void)from, (void)path, (void)to, (void)to_path, (void)who, (void)cb, (void)arg;
    return sg_fail(err, SG_UNSUPPORTED, "nothing is copied here");
}

void sg_files_news(struct sg_sandbox *s, struct sg_packet *p)
{
    (void)s, (void)p;
}

void sg_files_sandbox_ended(struct sg_sandbox *s)
{
    (void)s;
}

void sg_files_forget(struct sg_sandbox *s, bool is_manager_ending)
{
    (void)s, (void)is_manager_ending;
}

/* ---- the task ---- */

static struct outcome {
    unsigned calls, attempts;
    enum sg_task_ending ending;
    enum sg_kind kind;
    uint32_t code, signal;
    char output[64], last_loss[160], sandbox[SG_ID_LEN + 1];
} seen;

static void done(void *arg, struct sg_task_result *r)
{
    (void)arg;
    seen.calls++;
    seen.attempts = r->attempts;
    seen.ending = r->ending;
    seen.kind = r->err.kind;
    seen.code = r->code;
    seen.signal = r->signal;
    (void)snprintf(seen.output, sizeof seen.output, "%.*s", (int)r->output[SG_STREAM_OUT].n,
                   (const char *)r->output[SG_STREAM_OUT].p);
    (void)snprintf(seen.last_loss, sizeof seen.last_loss, "%s", r->last_loss);
    memcpy(seen.sandbox, r->sandbox, sizeof seen.sandbox);
}

static const char *const argv[] = { "true", NULL }, *const wanted[] = { "out", NULL };
static const struct sg_task_file one_file[] = { { "in", { "", 0 } } };

static struct sg_task_spec spec_of(unsigned retries)
{
    struct sg_task_spec s = { .argv = argv, .timeout_ms = 1000, .retries = retries };
    sg_ask_init(&s.ask, "execute_code");
    return s;
}

static struct sg_task *start(struct rig *r, const struct sg_task_spec *spec)
{
    at = attempt = sent = fetched = 0;
    memset(was_told, 0, sizeof was_told);
    seen = (struct outcome) { 0 };
    memset(r->asked, 0, sizeof r->asked);
    struct sg_task *t = sg_task_start(r->m, &r->who, spec, done, NULL);
    assert_int_equal(seen.calls, 0); /* never from inside */
    return t;
}

/* Plays it to its end. Nothing is left of it. */
static void run(struct rig *r, const struct sg_task_spec *spec)
{
    (void)start(r, spec);
    rig_in_time(r, seen.calls);
    rig_in_time(r, r->cell_count == 0);
    rig_in_time(r, !r->m->newest);
    assert_int_equal(seen.calls, 1);
}

static void what_a_program_does_to_itself_is_told_apart_and_not_tried_again(void **state)
{
    struct rig *r = *state;
    static const struct {
        struct play play;
        enum sg_task_ending ending;
        enum sg_kind kind;
    } rows[] = {
        { { .ending = SG_EXEC_EXIT, .code = 0 }, SG_TASK_EXIT, SG_OK },
        { { .ending = SG_EXEC_EXIT, .code = 3 }, SG_TASK_EXIT, SG_OK },
        { { .ending = SG_EXEC_TIMEOUT, .signal = 15 }, SG_TASK_TIMEOUT, SG_TIMEOUT },
        { { .ending = SG_EXEC_OOM, .signal = 9 }, SG_TASK_OOM, SG_EXHAUSTED },
        { { .ending = SG_EXEC_SIGNAL, .signal = 11 }, SG_TASK_CRASH, SG_INTERNAL },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        const struct sg_task_spec spec = spec_of(3);
        memset(plays, 0, sizeof plays);
        plays[0] = rows[i].play;
        plays[0].output = "said";
        run(r, &spec);
        assert_int_equal(seen.ending, rows[i].ending);
        assert_int_equal(seen.kind, rows[i].kind);
        assert_int_equal(seen.code, rows[i].play.code);
        assert_int_equal(seen.signal, rows[i].play.signal);
        assert_string_equal(seen.output, "said"); /* also of one that did not end well */
        assert_int_equal(seen.attempts, 1);
        assert_int_equal(r->asked[SG_MSG_L_CREATE], 1);
    }
}

static void a_lost_sandbox_is_tried_again_and_the_loss_is_told(void **state)
{
    struct rig *r = *state;
    const struct sg_task_spec spec = spec_of(2);
    memset(plays, 0, sizeof plays);
    plays[0] = (struct play) { .ending = SG_EXEC_LOST, .output = "first" };
    plays[1] = (struct play) { .refuses = SG_UNAVAILABLE };
    plays[2] = (struct play) { .ending = SG_EXEC_EXIT, .code = 5, .output = "third" };
    run(r, &spec);
    assert_int_equal(seen.ending, SG_TASK_EXIT);
    assert_int_equal(seen.code, 5);
    assert_int_equal(seen.attempts, 3);
    assert_string_equal(seen.output, "third"); /* nothing of those before */
    assert_non_null(strstr(seen.last_loss, "the test wants it so"));
    assert_int_equal(r->asked[SG_MSG_L_CREATE], 3);
    assert_int_equal(r->cell_most, 1); /* each begins when the one before is gone */
}

static void attempts_end_with_their_number(void **state)
{
    struct rig *r = *state;
    const struct sg_task_spec spec = spec_of(1);
    memset(plays, 0, sizeof plays);
    plays[0].ending = plays[1].ending = plays[2].ending = SG_EXEC_LOST;
    run(r, &spec);
    assert_int_equal(seen.ending, SG_TASK_LOST);
    assert_int_equal(seen.kind, SG_UNAVAILABLE);
    assert_int_equal(seen.attempts, 2);
}

static void what_may_have_reached_the_network_is_not_run_twice(void **state)
{
    struct rig *r = *state;
    struct sg_task_spec spec = spec_of(2);
    spec.ask.network = SG_NEED_NET_FILTERED;
    memset(plays, 0, sizeof plays);
    plays[0].ending = SG_EXEC_LOST;
    run(r, &spec);
    assert_int_equal(seen.ending, SG_TASK_LOST);
    assert_int_equal(seen.attempts, 1);
}

static void a_sandbox_that_goes_under_its_command_is_lost(void **state)
{
    struct rig *r = *state;
    const struct sg_task_spec spec = spec_of(0);
    memset(plays, 0, sizeof plays);
    plays[0].vanishes = true;
    (void)start(r, &spec);
    rig_in_time(r, open_reader);
    open_reader->exec = NULL;
    open_reader->wake(open_reader);
    rig_in_time(r, seen.calls);
    assert_int_equal(seen.ending, SG_TASK_LOST);
    rig_in_time(r, r->cell_count == 0 && !r->m->newest);
}

static void no_sandbox_is_told_apart_from_a_refusal(void **state)
{
    struct rig *r = *state;
    static const struct {
        enum sg_kind kind;
        enum sg_task_ending ending;
        unsigned attempts;
    } rows[] = {
        { SG_UNAVAILABLE, SG_TASK_UNAVAILABLE, 3 }, { SG_TIMEOUT, SG_TASK_UNAVAILABLE, 3 },
        { SG_EXHAUSTED, SG_TASK_REFUSED, 1 },       { SG_NOT_FOUND, SG_TASK_REFUSED, 1 },
        { SG_UNSUPPORTED, SG_TASK_REFUSED, 1 },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        const struct sg_task_spec spec = spec_of(2);
        memset(plays, 0, sizeof plays);
        r->fail_kind = rows[i].kind;
        r->fails[SG_MSG_L_CREATE] = 9;
        run(r, &spec);
        r->fails[SG_MSG_L_CREATE] = 0;
        assert_int_equal(seen.ending, rows[i].ending);
        assert_int_equal(seen.kind, rows[i].kind);
        assert_int_equal(seen.attempts, rows[i].attempts);
        assert_int_equal(at, 0);
    }
    r->fail_kind = SG_UNAVAILABLE;
}

static void a_file_that_cannot_be_put_is_no_fault_of_the_sandbox(void **state)
{
    struct rig *r = *state;
    struct sg_task_spec spec = spec_of(2);
    spec.files = one_file;
    spec.file_count = 1;
    memset(plays, 0, sizeof plays);
    plays[0].writes = SG_DENIED;
    run(r, &spec);
    assert_int_equal(seen.ending, SG_TASK_FILE_ERROR);
    assert_int_equal(seen.kind, SG_DENIED);
    assert_int_equal(seen.attempts, 1);
    assert_int_equal(at, 0); /* nothing ran */

    plays[0].writes = SG_UNAVAILABLE; /* the sandbox is gone: another one may do */
    plays[0].ending = SG_EXEC_EXIT;
    run(r, &spec);
    assert_int_equal(seen.ending, SG_TASK_EXIT);
    assert_int_equal(seen.attempts, 2);
    assert_int_equal(sent, 2);
}

static void a_file_that_cannot_be_had_leaves_the_output(void **state)
{
    struct rig *r = *state;
    struct sg_task_spec spec = spec_of(2);
    spec.collect = wanted;
    memset(plays, 0, sizeof plays);
    plays[0] = (struct play) { .ending = SG_EXEC_EXIT, .output = "said", .collects = SG_NOT_FOUND };
    run(r, &spec);
    assert_int_equal(seen.ending, SG_TASK_FILE_ERROR);
    assert_int_equal(seen.kind, SG_NOT_FOUND);
    assert_string_equal(seen.output, "said");
    assert_int_equal(fetched, 1);
    assert_int_equal(seen.attempts, 1);
}

static void a_question_that_makes_no_sense_runs_nothing(void **state)
{
    struct rig *r = *state;
    struct sg_task_spec spec = spec_of(2);
    spec.argv = NULL;
    run(r, &spec);
    assert_int_equal(seen.ending, SG_TASK_REFUSED);
    assert_int_equal(seen.kind, SG_INVALID);
    spec = spec_of(2);
    spec.ask.operation = "no_such_thing";
    run(r, &spec);
    assert_int_equal(seen.ending, SG_TASK_REFUSED);
    assert_int_equal(r->asked[SG_MSG_L_CREATE], 0);
    spec = spec_of(0);
    spec.ask.operation = "database_read";
    spec.argv = NULL;
    spec.ask.trust = SG_TRUST_TRUSTED;
    run(r, &spec);
    assert_int_equal(seen.ending, SG_TASK_PERMITTED);
    assert_int_equal(r->asked[SG_MSG_L_CREATE], 0);
}

static void a_cancelled_one_says_nothing_and_leaves_nothing(void **state)
{
    struct rig *r = *state;
    const struct sg_task_spec spec = spec_of(2);
    memset(plays, 0, sizeof plays);
    sg_task_cancel(start(r, &spec)); /* before it began */
    plays[0].vanishes = true;
    struct sg_task *t = start(r, &spec);
    rig_in_time(r, open_reader);
    struct sg_reader *reader = open_reader;
    sg_task_cancel(t);
    rig_in_time(r, r->cell_count == 0);
    reader->exec = NULL;
    reader->wake(reader);
    rig_in_time(r, !r->m->tasks && !r->m->newest);
    assert_int_equal(seen.calls, 0);
    assert_int_equal(r->asked[SG_MSG_L_CREATE], 1);
}

static int setup(void **state)
{
    static struct rig r;
    rig_init(&r);
    rig_start_manager(&r);
    *state = &r;
    return 0;
}

static int teardown(void **state)
{
    rig_done(*state);
    return 0;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_a_program_does_to_itself_is_told_apart_and_not_tried_again),
        TEST(a_lost_sandbox_is_tried_again_and_the_loss_is_told),
        TEST(attempts_end_with_their_number),
        TEST(what_may_have_reached_the_network_is_not_run_twice),
        TEST(a_sandbox_that_goes_under_its_command_is_lost),
        TEST(no_sandbox_is_told_apart_from_a_refusal),
        TEST(a_file_that_cannot_be_put_is_no_fault_of_the_sandbox),
        TEST(a_file_that_cannot_be_had_leaves_the_output),
        TEST(a_question_that_makes_no_sense_runs_nothing),
        TEST(a_cancelled_one_says_nothing_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

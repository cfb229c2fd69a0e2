/* SPDX-License-Identifier: Apache-2.0 */
/* Executions: they wait for their turn, their code is sent, they are interrupted, they are over. */
#include <signal.h>
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "manager/budget.h"
#include "manager/code_internal.h"
#include "manager/life.h"
#include "manager/trace.h"
#include "tier/peer.h"
#include "base/banned.h"

enum {
    REQUEST_MAX = 64 << 20, /* a body with every byte escaped */
    NAGS = 4,               /* then it has been asked often enough */
    HELD_MAX = 4 << 20,     /* of a kernel's journal while nothing runs */
};
#define CODE_BYTES_MAX ((uint64_t)512 << 20) /* in memory, of all organisations */
#define NAG_NS         1250000000u
#define ORPHAN_NS      60000000000u /* to come back after a restart of the daemon */
#define AGAIN_NS       100000000u
#define NS_PER_MS      1000000u

/* ---- one execution ---- */

static void wake_client(struct sg_later *later)
{
    struct sg_code_run *r = SG_OWNER(later, struct sg_code_run, wake);
    if (r->client)
        r->client->wake(r->client);
}

struct sg_code_run *sg_code_run_new(struct sg_code_context *c, const struct sg_id *id)
{
    struct sg_code_run *r = sg_new(struct sg_code_run);
    r->id = *id;
    r->context = c;
    r->loop = c->sandbox->manager->loop;
    r->wake.call = wake_client;
    r->refs = 1;
    sg_buf_init(&r->request, REQUEST_MAX);
    return r;
}

/* The counter is the manager's; a run that outlives it has sent its request, or will never. */
static void drop_request(struct sg_code_run *r)
{
    if (r->context)
        r->context->sandbox->manager->code_bytes -= r->request.cap;
    sg_buf_done(&r->request);
    sg_buf_init(&r->request, REQUEST_MAX);
    r->sent = 0;
}

void sg_code_run_unref(struct sg_code_run *r)
{
    if (--r->refs)
        return;
    sg_timer_stop(r->loop, &r->deadline);
    sg_later_cancel(r->loop, &r->wake);
    sg_code_view_close(r);
    sg_buf_done(&r->request);
    sg_buf_done(&r->out);
    sg_buf_done(&r->extra);
    free(r->failed);
    free(r->shown);
    free(r);
}

void sg_code_wake(struct sg_code_run *r)
{
    if (r->client)
        sg_later_call(r->loop, &r->wake);
}

/* ---- its turn ---- */

static struct sg_loop *loop_of(const struct sg_code_context *c)
{
    return c->sandbox->manager->loop;
}

static void interrupt(struct sg_code_context *c);

/* Nobody came back for it, or its time is over. */
static void deadline_came(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_code_run *r = SG_OWNER(t, struct sg_code_run, deadline);
    (void)now_ns;
    if (!r->context || r->state != SG_CODE_RUNS)
        return;
    if (r->timeout_ms)
        r->verdict = SG_CODE_TIMED_OUT;
    else if (r->client)
        return;
    interrupt(r->context);
}

static void send_on(void *arg)
{
    struct sg_code_context *c = arg;
    struct sg_code_kernel *k = c->impl;
    struct sg_code_run *r = k->running;
    struct sg_exec *x = k->watch.exec;
    struct sg_err err;
    if (!r || !x || !sg_exec_is_live(x)) /* its end is told by its output */
        return;
    while (r->sent < r->request.n) {
        ssize_t n = sg_exec_write(x, r->request.p + r->sent, r->request.n - r->sent, &err);
        if (n == 0 && sg_exec_when_writable(x, send_on, c, &err) == 0)
            return;
        if (n <= 0) { /* it has closed its input: no kernel any more */
            sg_code_end_kernel(c);
            sg_code_kernel_down(c);
            return;
        }
        r->sent += (size_t)n;
    }
    drop_request(r);
    if (r->is_interrupted)
        interrupt(c);
}

static void begin(struct sg_code_context *c, struct sg_code_run *r)
{
    struct sg_code_kernel *k = c->impl;
    struct sg_loop *l = loop_of(c);
    k->first = r->next;
    if (!k->first)
        k->end = &k->first;
    k->waiting--;
    k->running = r;
    r->next = NULL;
    r->state = SG_CODE_RUNS;
    r->began_ms = sg_manager_unix_ms();
    r->at = k->watch.exec->total_bytes;
    c->runs++;
    if (r->client)
        sg_code_view_open(r, k->watch.exec);
    if (r->timeout_ms) {
        r->deadline.fire = deadline_came;
        sg_timer_set(l, &r->deadline, sg_loop_now(l) + r->timeout_ms * NS_PER_MS);
    }
    sg_code_wake(r);
    send_on(c);
    sg_code_put_row(c); /* what is lost with us meanwhile is an answer that nobody waits for */
}

static void look_again(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    sg_code_go_on(SG_OWNER(t, struct sg_code_kernel, again)->c);
}

static void go_on_soon(struct sg_code_context *c, uint64_t after_ns)
{
    struct sg_code_kernel *k = c->impl;
    k->again.fire = look_again;
    sg_timer_set(loop_of(c), &k->again, sg_loop_now(loop_of(c)) + after_ns);
}

void sg_code_go_on(struct sg_code_context *c)
{
    struct sg_code_kernel *k = c->impl;
    struct sg_err err;
    if (k->running || !k->first || k->is_removed || k->is_starting || k->signals)
        return;
    if (!k->watch.exec) {
        if (sg_code_start_kernel(c, &err) < 0)
            sg_code_kernel_failed(c, &err);
    } else if (sg_exec_impl(k->watch.exec)->awaits_kept) { /* init has not answered yet */
        go_on_soon(c, AGAIN_NS);
    } else {
        begin(c, k->first);
    }
}

void sg_code_kernel_up(struct sg_code_context *c)
{
    for (struct sg_code_run *r = sg_code_kernel(c)->first; r; r = r->next)
        sg_code_wake(r);
    sg_code_go_on(c);
}

/* Not at once: its sandbox may be ending around us. */
void sg_code_kernel_down(struct sg_code_context *c)
{
    struct sg_code_kernel *k = c->impl;
    if (k->running)
        sg_code_run_over(c);
    else if (!k->is_removed)
        sg_code_put_row(c);
    if (k->first && !k->is_removed)
        go_on_soon(c, 0);
}

/* ---- the end ---- */

/* What is big and was read is not kept while nothing happens. */
static void shrink_journal(struct sg_code_kernel *k)
{
    struct sg_exec *x = k->watch.exec;
    struct sg_err err;
    if (!x || x->is_complete || sg_journal_held(&sg_exec_impl(x)->journal) < HELD_MAX)
        return;
    const struct sg_reader *first = sg_exec_impl(x)->readers;
    if (first == &k->watch && !first->next && k->watch.at == x->total_bytes)
        (void)sg_journal_empty(&sg_exec_impl(x)->journal, &err);
}

static void end_in_context(struct sg_code_run *r)
{
    sg_timer_stop(r->loop, &r->deadline);
    drop_request(r);
    r->state = SG_CODE_IS_OVER;
    sg_sandbox_work_end(r->context->sandbox);
    sg_code_wake(r);
}

void sg_code_run_over(struct sg_code_context *c)
{
    struct sg_code_kernel *k = c->impl;
    struct sg_code_run *r = sg_take_ptr(&k->running);
    if (k->watch.exec)
        sg_exec_forget_writable(k->watch.exec, c);
    sg_timer_stop(loop_of(c), &k->nag);
    k->nags = 0;
    sg_trace_code(r);
    end_in_context(r);
    if (k->last) {
        k->last->context = NULL;
        sg_code_run_unref(k->last);
    }
    k->last = r;
    if (!r->client)
        shrink_journal(k);
    if (k->is_removed)
        return;
    sg_code_put_row(c);
    sg_code_go_on(c);
}

static void unqueue(struct sg_code_context *c, struct sg_code_run *r)
{
    struct sg_code_kernel *k = c->impl;
    struct sg_code_run **at = &k->first;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    if (k->end == &r->next)
        k->end = at;
    k->waiting--;
    end_in_context(r);
    r->context = NULL;
}

static void leave_queue(struct sg_code_context *c, struct sg_code_run *r)
{
    unqueue(c, r);
    sg_code_run_unref(r);
}

void sg_code_fail_waiting(struct sg_code_context *c, enum sg_code_verdict why)
{
    for (struct sg_code_run *r; (r = sg_code_kernel(c)->first);) {
        r->verdict = why;
        leave_queue(c, r);
    }
}

void sg_code_kernel_failed(struct sg_code_context *c, const struct sg_err *err)
{
    for (struct sg_code_run *r; (r = sg_code_kernel(c)->first);) {
        r->failed = sg_new(struct sg_err);
        *r->failed = *err;
        leave_queue(c, r);
    }
}

/* ---- interrupting ---- */

static void signalled(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_code_context *c = arg;
    (void)p;
    (void)err;
    sg_code_kernel(c)->signals--;
    if (sg_code_unref(c))
        sg_code_go_on(c);
}

/* What comes next is sent after init has done it: no signal may reach the execution behind. */
static void send_interrupt(struct sg_code_context *c)
{
    struct sg_code_kernel *k = c->impl;
    struct sg_sandbox *s = c->sandbox;
    struct sg_err err;
    struct sg_msg m = { .type = SG_MSG_SIGNAL,
                        .signal = { k->watch.exec->pid, SIGINT, SG_SIGNAL_GROUP } };
    if (!s->peer || sg_peer_ask(s->peer, &m, NULL, 0, signalled, c, &err) < 0)
        return;
    k->signals++;
    k->refs++;
}

/* A loop that catches everything, or one in C: its state is lost only where somebody waits. */
static void nag(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_code_kernel *k = SG_OWNER(t, struct sg_code_kernel, nag);
    struct sg_code_context *c = k->c;
    const bool is_waited_for = k->first || k->running->client;
    if (++k->nags >= NAGS && is_waited_for) {
        sg_code_end_kernel(c);
        sg_code_kernel_down(c);
        return;
    }
    if (k->nags < NAGS && k->watch.exec)
        send_interrupt(c);
    sg_timer_set(loop_of(c), t, now_ns + NAG_NS);
}

static void interrupt(struct sg_code_context *c)
{
    struct sg_code_kernel *k = c->impl;
    if (!k->running || !k->watch.exec)
        return;
    k->running->is_interrupted = true;
    if (k->running->request.n && k->running->sent) { /* half of it is in the pipe: first the rest */
        if (!sg_timer_is_set(&k->nag)) {
            k->nag.fire = nag;
            sg_timer_set(loop_of(c), &k->nag, sg_loop_now(loop_of(c)) + NAG_NS);
        }
        return;
    }
    k->nag.fire = nag;
    k->nags = 0;
    sg_timer_set(loop_of(c), &k->nag, sg_loop_now(loop_of(c)) + NAG_NS);
    send_interrupt(c);
}

int sg_code_interrupt(struct sg_code_context *c, const struct sg_who *who, struct sg_err *err)
{
    struct sg_sandbox *s = c->sandbox;
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(s->manager, who, "context.interrupt", s, err);
    if (sg_sandbox_demand_running(s, err) < 0)
        return -1;
    interrupt(c);
    sg_manager_audit_value(s->manager, who, "context.interrupt", s, "context", c->id.s);
    return 0;
}

/* ---- what doors ask for ---- */

static void write_request(struct sg_code_run *r, const struct sg_code_spec *spec)
{
    struct sg_json j;
    sg_json_init(&j, &r->request);
    sg_json_open(&j, '{');
    sg_json_key(&j, "op");
    sg_json_str(&j, "execute");
    sg_json_key(&j, "id");
    sg_json_str(&j, r->id.s);
    sg_json_key(&j, "code");
    sg_json_text(&j, spec->code);
    sg_json_key(&j, "env");
    sg_json_open(&j, '{');
    for (size_t i = 0; i < spec->env_n; i++) {
        sg_json_key(&j, spec->env[i].name);
        sg_json_str(&j, spec->env[i].value);
    }
    sg_json_close(&j, '}');
    sg_json_close(&j, '}');
    sg_buf_add_str(&r->request, "\n");
}

static void hold(struct sg_code_run *r, struct sg_code_client *client)
{
    r->refs++;
    r->client = client;
    client->run = r;
}

static char *shown_code(struct sg_str code)
{
    enum { SHOWN_BYTES = 4096 };
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, 8 * SHOWN_BYTES);
    sg_json_init(&j, &out);
    sg_json_text(&j, (struct sg_str) { code.p, code.n < SHOWN_BYTES ? code.n : SHOWN_BYTES });
    return sg_strdup(sg_buf_cstr(&out));
}

int sg_code_run(struct sg_code_context *c, const struct sg_who *who,
                const struct sg_code_spec *spec, struct sg_code_client *client, struct sg_err *err)
{
    struct sg_sandbox *s = c->sandbox;
    struct sg_code_kernel *k = c->impl;
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(s->manager, who, "code.run", s, err);
    if (sg_budget_admit(s->manager, s->org, err) < 0)
        return sg_manager_denied(s->manager, who, "code.run", s, err);
    if (sg_sandbox_demand_running(s, err) < 0 ||
        sg_pairs_check("env", spec->env, spec->env_n, true, err) < 0)
        return -1;
    if (k->waiting >= SG_CODE_MAX_WAITING)
        return sg_fail(err, SG_EXHAUSTED, "%d executions wait in this context already",
                       SG_CODE_MAX_WAITING);
    const struct sg_id id = sg_id_new('r');
    struct sg_code_run *r = sg_code_run_new(c, &id);
    write_request(r, spec);
    s->manager->code_bytes += r->request.cap;
    if (sg_buf_check(&r->request, "the code", err) < 0 || s->manager->code_bytes > CODE_BYTES_MAX) {
        if (!r->request.has_overflowed)
            (void)sg_fail(err, SG_UNAVAILABLE, "too much code waits on this server; try again");
        drop_request(r);
        sg_code_run_unref(r);
        return -1;
    }
    r->timeout_ms = spec->timeout_ms;
    r->trace = who->trace;
    if (sg_traces_want_content(s->manager))
        r->shown = shown_code(spec->code);
    hold(r, client);
    *k->end = r;
    k->end = &r->next;
    k->waiting++;
    sg_sandbox_work_begin(s);
    sg_sandbox_touch(s);
    sg_sandbox_used(s, 1, spec->code.n, 0);
    sg_manager_audit_value(s->manager, who, "code.run", s, "context", c->id.s);
    sg_code_go_on(c);
    return 0;
}

int sg_code_attach(struct sg_code_context *c, const struct sg_who *who, const char *id,
                   struct sg_code_client *client, struct sg_err *err)
{
    struct sg_code_kernel *k = c->impl;
    struct sg_code_run *const candidates[] = { k->running, k->last };
    if (sg_tenant_demand(who, SG_SCOPE_READ, err) < 0)
        return sg_manager_denied(c->sandbox->manager, who, "code.attach", c->sandbox, err);
    for (size_t i = 0; i < SG_COUNT(candidates); i++) {
        struct sg_code_run *r = candidates[i];
        if (!r || strcmp(r->id.s, id) != 0)
            continue;
        if (r->client)
            return sg_fail(err, SG_CONFLICT, "somebody reads execution %s", r->id.s);
        if (!k->watch.exec)
            break;
        hold(r, client);
        r->has_ended = false;
        sg_code_view_open(r, k->watch.exec);
        sg_code_wake(r);
        return 0;
    }
    return sg_fail(err, SG_NOT_FOUND, "no such execution: %s", sg_quote(id).s);
}

const char *sg_code_run_id(const struct sg_code_client *client)
{
    return client->run->id.s;
}

bool sg_code_has_begun(const struct sg_code_client *client)
{
    struct sg_code_run *r = client->run;
    r->was_begun |=
        r->is_reading || r->verdict || (r->context && sg_code_kernel(r->context)->watch.exec);
    return r->was_begun;
}

void sg_code_leave(struct sg_code_client *client, bool interrupts)
{
    struct sg_code_run *r = sg_take_ptr(&client->run);
    if (!r)
        return;
    struct sg_code_context *c = r->context;
    r->client = NULL;
    sg_code_view_close(r);
    if (c && interrupts && r->state == SG_CODE_WAITS) {
        unqueue(c, r);
        r->refs--; /* the queue's; the client's goes last */
    } else if (c && interrupts && r->state == SG_CODE_RUNS)
        interrupt(c);
    else if (c && r->state == SG_CODE_IS_OVER)
        shrink_journal(c->impl);
    sg_code_run_unref(r);
}

/* ---- after a restart ---- */

void sg_code_run_again(struct sg_code_context *c, const struct sg_id *id, uint64_t at)
{
    struct sg_code_run *r = sg_code_run_new(c, id);
    struct sg_loop *l = loop_of(c);
    r->state = SG_CODE_RUNS;
    r->at = at;
    r->deadline.fire = deadline_came;
    sg_timer_set(l, &r->deadline, sg_loop_now(l) + ORPHAN_NS);
    sg_code_kernel(c)->running = r;
    sg_sandbox_work_begin(c->sandbox);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* An execution answered in one piece: what it printed, its results, its error. What is too much for
 * one reply is left out, and the reply says so; ?stream=1 has no such bound. */
#include "api/rest/rest.h"

#include "base/auto.h"
#include "manager/code_event.h"
#include "base/banned.h"

enum {
    TEXT_MAX = 8 << 20,
    RESULTS_MAX = 48 << 20,
    PARSED_MAX = 4 << 20, /* of one event's text: pieces are 64 KiB */
    TURN_EVENTS = 256,
};

/* In the call's arena; the buffers are its own. */
struct collect {
    struct sg_call *call;
    struct sg_loop *loop;
    struct sg_code_client client;
    struct sg_later more;
    char context[SG_ID_LEN + 1], language[40];
    struct sg_buf out, err, results, error;
    uint64_t number;
    bool is_cut;
};

static void let_go(struct collect *k, bool interrupts)
{
    sg_later_cancel(k->loop, &k->more);
    sg_code_leave(&k->client, interrupts);
    sg_buf_done(&k->out);
    sg_buf_done(&k->err);
    sg_buf_done(&k->results);
    sg_buf_done(&k->error);
}

/* ---- events in ---- */

static const struct sg_jval *parse(struct sg_str line, struct sg_arena *a, const char *member)
{
    const struct sg_jval *v;
    sg_arena_init(a, PARSED_MAX);
    return sg_json_parse(line, a, &v, NULL) < 0 ? NULL : sg_json_get(v, member);
}

static void add_text(struct collect *k, struct sg_buf *to, struct sg_str line)
{
    sg_auto_arena a;
    const struct sg_jval *text = parse(line, &a, "text");
    const size_t before = to->n;
    if (text && text->kind == SG_J_STRING && !to->has_overflowed)
        sg_buf_add(to, text->s.p, text->s.n);
    k->is_cut |= !text || (to->has_overflowed && to->n == before);
}

static void add_result(struct collect *k, struct sg_str line)
{
    if (k->results.n + line.n + 1 > RESULTS_MAX) {
        k->is_cut = true;
        return;
    }
    if (k->results.n)
        sg_buf_add_str(&k->results, ",");
    sg_buf_add(&k->results, line.p, line.n);
}

static void add_number(struct collect *k, struct sg_str line)
{
    sg_auto_arena a;
    const struct sg_jval *number = parse(line, &a, "execution_count");
    if (number && number->kind == SG_J_UINT)
        k->number = number->u;
}

static void add_event(struct collect *k, struct sg_str line)
{
    struct sg_code_event e;
    if (sg_code_event_read(line, &e, NULL) < 0)
        return;
    switch (e.type) {
    case SG_CODE_T_STDOUT:
        add_text(k, &k->out, line);
        break;
    case SG_CODE_T_STDERR:
        add_text(k, &k->err, line);
        break;
    case SG_CODE_T_RESULT:
        add_result(k, line);
        break;
    case SG_CODE_T_COUNT:
        add_number(k, line);
        break;
    case SG_CODE_T_ERROR:
        sg_buf_clear(&k->error);
        sg_buf_add(&k->error, line.p, line.n);
        break;
    case SG_CODE_T_READY:
    case SG_CODE_T_OVER:
    case SG_CODE_T_OTHER:
        break;
    }
}

/* ---- the reply ---- */

static void put_text(struct sg_json *j, const char *key, const struct sg_buf *text)
{
    sg_json_key(j, key);
    sg_json_text(j, (struct sg_str) { (const char *)text->p, text->n });
}

/* What is JSON already. */
static void put_raw(struct sg_json *j, const char *key, const char *open, const struct sg_buf *text,
                    const char *close)
{
    sg_json_key(j, key);
    sg_buf_add_str(j->out, open);
    sg_buf_add(j->out, text->p, text->n);
    sg_buf_add_str(j->out, close);
    j->needs_comma = true;
}

static void reply(struct collect *k)
{
    struct sg_call *c = k->call;
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, 2 * (size_t)SG_REST_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "id");
    sg_json_str(&j, sg_code_run_id(&k->client));
    sg_json_key(&j, "context");
    sg_json_str(&j, k->context);
    sg_json_key(&j, "language");
    sg_json_str(&j, k->language);
    sg_json_key(&j, "executionCount");
    sg_json_u64(&j, k->number);
    put_text(&j, "stdout", &k->out);
    put_text(&j, "stderr", &k->err);
    put_raw(&j, "results", "[", &k->results, "]");
    if (k->error.n)
        put_raw(&j, "error", "", &k->error, "");
    if (k->is_cut) {
        sg_json_key(&j, "truncated");
        sg_json_bool(&j, true);
    }
    sg_json_close(&j, '}');
    let_go(k, false);
    sg_reply_json(c, 200, &out);
}

static void fail(struct collect *k, const struct sg_err *err)
{
    struct sg_call *c = k->call;
    let_go(k, false);
    sg_reply_error(c, err);
}

static void turn(struct collect *k)
{
    (void)sg_code_has_begun(&k->client);
    for (unsigned n = 0; n < TURN_EVENTS; n++) {
        struct sg_str line;
        struct sg_err err = { 0 };
        switch (sg_code_next(&k->client, &line, &err)) {
        case SG_CODE_EVENT:
            add_event(k, line);
            continue;
        case SG_CODE_LATER:
            break;
        case SG_CODE_NOTHING:
            return;
        case SG_CODE_END:
            reply(k);
            return;
        case SG_CODE_GONE:
            (void)sg_fail(&err, SG_UNAVAILABLE, "the sandbox ended");
            fail(k, &err);
            return;
        case SG_CODE_FAILED:
            fail(k, &err);
            return;
        }
        break;
    }
    sg_later_call(k->loop, &k->more);
}

static void go_on(struct sg_later *later)
{
    turn(SG_OWNER(later, struct collect, more));
}

static void wake(struct sg_code_client *client)
{
    turn(SG_OWNER(client, struct collect, client));
}

static void gone(struct sg_call *c)
{
    let_go(c->state, true);
    sg_reply_end(c);
}

int sg_rest_code_collect(struct sg_call *c, struct sg_code_context *context,
                         const struct sg_code_spec *spec, struct sg_err *err)
{
    struct collect *k = sg_arena_alloc(&c->arena, sizeof *k);
    if (!k)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    *k = (struct collect) {
        .call = c, .loop = sg_manager_loop(c->manager), .client.wake = wake, .more.call = go_on
    };
    (void)snprintf(k->context, sizeof k->context, "%s", context->id.s);
    (void)snprintf(k->language, sizeof k->language, "%s", context->language);
    if (sg_code_run(context, &c->who, spec, &k->client, err) < 0)
        return -1;
    sg_buf_init(&k->out, TEXT_MAX);
    sg_buf_init(&k->err, TEXT_MAX);
    sg_buf_init(&k->results, RESULTS_MAX);
    sg_buf_init(&k->error, RESULTS_MAX);
    c->state = k;
    c->on_gone = gone;
    return 0;
}

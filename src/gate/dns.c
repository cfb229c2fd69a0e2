/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's questions for names. Whichever server it asks, it is answered here.
 *
 * A name that no rule allows does not exist (and those who understand it are told why); it is not
 * asked for anywhere, so that a question carries nothing out. One that is allowed is looked up: if
 * it exists, it gets a synthetic address. Other types than addresses have no answers. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "gate/flow.h"
#include "base/banned.h"

enum { DNS_PORT = 53, TTL_S = 60, RATE = 200, BURST = 400, OUT_MAX = 1024 };

struct sg_question {
    struct sg_gate_box *box;
    struct sg_lookup lookup;
    struct sg_question *next, **link;
    struct sg_datagram from; /* p: bytes below */
    struct sg_dns_query query;
    size_t n;
    uint8_t bytes[];
};

static void reply(const struct sg_gate_box *b, const struct sg_datagram *d,
                  const struct sg_dns_query *q, const struct sg_dns_reply *r)
{
    uint8_t out[OUT_MAX];
    const size_t n = sg_dns_reply_format(d->p, q, r, out, sizeof out);
    const struct sg_datagram back = { .from = d->to,
                                      .to = d->from,
                                      .from_port = d->to_port,
                                      .to_port = d->from_port,
                                      .p = out,
                                      .n = n };
    if (n && d->stream)
        sg_flow_answer_name(d->stream, out, n);
    else if (n)
        sg_gate_udp_send(b, &back);
}

static void answer(struct sg_gate_box *b, const struct sg_datagram *d, const struct sg_dns_query *q,
                   const struct sg_resolved *got)
{
    struct sg_dns_reply r = { .rcode = got->rcode, .ttl_s = TTL_S };
    struct sg_addr a;
    if (got->rcode == SG_DNS_SERVFAIL) {
        r.reason = SG_DNS_EDE_NETWORK;
        r.text = "no name server answers";
    }
    if (got->rcode == SG_DNS_OK && got->count && q->type == SG_DNS_A) {
        a = sg_gate_box_bind(b, q->name);
        r.addr = a.b + 12;
    }
    reply(b, d, q, &r);
}

static void close_question(struct sg_question *q)
{
    sg_resolve_cancel(&q->lookup);
    *q->link = q->next;
    if (q->next)
        q->next->link = q->link;
    q->box->question_count--;
    free(q);
}

static void resolved(struct sg_lookup *l, const struct sg_resolved *got)
{
    struct sg_question *q = SG_OWNER(l, struct sg_question, lookup);
    answer(q->box, &q->from, &q->query, got);
    close_question(q);
}

static void look_up(struct sg_gate_box *b, const struct sg_datagram *d,
                    const struct sg_dns_query *query)
{
    const struct sg_resolved *known;
    if (b->question_count >= SG_BOX_LOOKUPS)
        return; /* they ask again */
    struct sg_question *q = sg_alloc(sizeof *q + d->n);
    q->box = b;
    q->lookup.done = resolved;
    q->from = *d;
    q->query = *query;
    q->from.p = q->bytes;
    memcpy(q->bytes, d->p, d->n);
    q->next = b->questions;
    q->link = &b->questions;
    if (q->next)
        q->next->link = &q->next;
    b->questions = q;
    b->question_count++;
    if (sg_resolve(b->gate->resolver, q->query.name, &q->lookup, &known)) {
        answer(b, &q->from, &q->query, known);
        close_question(q);
    }
}

static void refuse(struct sg_gate_box *b, const struct sg_datagram *d, const struct sg_dns_query *q,
                   const char *rule)
{
    const struct sg_dns_reply r = { .rcode = SG_DNS_NXDOMAIN,
                                    .reason = SG_DNS_EDE_FILTERED,
                                    .text = rule };
    const struct sg_decision told = {
        .is_question = true, .name = q->name, .port = d->to_port, .is_udp = true, .rule = rule
    };
    sg_gate_tell(b, &told);
    reply(b, d, q, &r);
}

/* Who is on the network is known here; IPv6 clients find it as they find every name. */
static void answer_member(struct sg_gate_box *b, const struct sg_datagram *d,
                          const struct sg_dns_query *q)
{
    struct sg_netverdict v;
    if (sg_gate_member(b, q->name, &v))
        answer(b, d, q, &(struct sg_resolved) { .rcode = SG_DNS_OK, .count = 1 });
    else
        refuse(b, d, q, v.rule);
}

void sg_gate_dns(struct sg_gate_box *b, const struct sg_datagram *d)
{
    struct sg_dns_query q;
    struct sg_netverdict v;
    struct sg_name name;
    struct sg_err err = { 0 };
    if (!sg_bucket_take(&b->dns_rate, RATE, BURST, 1, sg_loop_now(b->gate->loop)))
        return;
    const int code = sg_dns_query_parse(d->p, d->n, &q);
    if (code < 0)
        return;
    if (code > 0) {
        reply(b, d, &q, &(struct sg_dns_reply) { .rcode = code });
        return;
    }
    if (sg_name_parse(sg_str_of(q.name), &name, &err) < 0 || !strchr(name.s, '.')) {
        reply(b, d, &q, &(struct sg_dns_reply) { .rcode = SG_DNS_NXDOMAIN });
        return;
    }
    memcpy(q.name, name.s, sizeof name.s);
    const struct sg_target t = { .name = name.s };
    sg_policy_judge(sg_gate_box_rules(b), &b->gate->permitted, &t, &v);
    if (!v.is_allowed)
        refuse(b, d, &q, v.rule);
    else if (sg_gate_is_private(b, name.s))
        answer_member(b, d, &q);
    else if (q.type == SG_DNS_A || q.type == SG_DNS_AAAA)
        look_up(b, d, &q);
    else
        reply(b, d, &q, &(struct sg_dns_reply) { .rcode = SG_DNS_OK });
}

void sg_gate_dns_hang_up(const struct sg_flow *f)
{
    for (struct sg_question *q = f->box->questions, *next; q; q = next) {
        next = q->next;
        if (q->from.stream == f)
            close_question(q);
    }
}

bool sg_gate_asks_server(const struct sg_gate_box *b, const struct sg_addr *a, bool is_udp)
{
    const struct sg_target t = { .addr = a, .port = DNS_PORT, .is_udp = is_udp };
    return sg_policy_names_server(sg_gate_box_rules(b), &t);
}

void sg_gate_dns_forget(struct sg_gate_box *b)
{
    for (struct sg_question *q = b->questions, *next; q; q = next) {
        next = q->next;
        close_question(q);
    }
}

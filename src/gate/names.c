/* SPDX-License-Identifier: Apache-2.0 */
/* Questions for names by TCP: the same as by UDP, each behind its length (RFC 1035, 4.2.2). What
 * comes is held against the same limits; who does not read its answers, or says nothing for a
 * while, is cut off. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "gate/flow.h"
#include "wire/dns.h"
#include "base/banned.h"

enum { PIECE = 2048, LENGTH = 2 };
static const uint64_t QUIET_NS = UINT64_C(10) * 1000000000;

static void part(struct sg_flow *f)
{
    f->up.is_shut = f->down.is_shut = true; /* an end, no reset */
    sg_flow_end(f, NULL);
}

static void quiet(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    part(SG_OWNER(t, struct sg_flow, timer));
}

/* False: it is none. */
static bool take_question(struct sg_flow *f, const uint8_t *p, size_t n)
{
    const struct sg_datagram d = {
        .to = f->wanted, .to_port = f->port, .p = p, .n = n, .stream = f
    };
    if (n == 0 || n > SG_DNS_MAX_QUERY)
        return false;
    sg_gate_dns(f->box, &d);
    return true;
}

static void on_words(struct sg_io *io, uint32_t events)
{
    (void)events;
    struct sg_flow *f = SG_OWNER(io, struct sg_flow, client);
    struct sg_loop *l = f->box->gate->loop;
    uint8_t in[PIECE];
    const ssize_t got = recv(io->fd, in, sizeof in, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    sg_buf_add(&f->web_out, in, got > 0 ? (size_t)got : 0);
    bool is_well = got > 0 && !f->web_out.has_overflowed;
    size_t at = 0;
    while (is_well && f->web_out.n - at >= LENGTH) {
        const uint8_t *p = f->web_out.p + at;
        const size_t n = (size_t)p[0] << 8 | p[1];
        if (n <= SG_DNS_MAX_QUERY && f->web_out.n - at - LENGTH < n)
            break;
        is_well = take_question(f, p + LENGTH, n);
        at += LENGTH + n;
    }
    if (!is_well) {
        part(f);
        return;
    }
    memmove(f->web_out.p, f->web_out.p + at, f->web_out.n - at);
    f->web_out.n -= at;
    sg_timer_set(l, &f->timer, sg_loop_now(l) + QUIET_NS);
}

void sg_flow_serve_names(struct sg_flow *f)
{
    struct sg_loop *l = f->box->gate->loop;
    f->is_told = true; /* as by UDP, only refused questions are in the record */
    f->client.ready = on_words;
    f->timer.fire = quiet;
    sg_timer_set(l, &f->timer, sg_loop_now(l) + QUIET_NS);
    if (sg_io_want(l, &f->client, EPOLLIN, NULL) < 0)
        sg_flow_end(f, NULL);
}

void sg_flow_answer_name(struct sg_flow *f, const uint8_t *p, size_t n)
{
    uint8_t out[LENGTH + SG_DNS_MAX_UDP] = { (uint8_t)(n >> 8), (uint8_t)n };
    if (n > SG_DNS_MAX_UDP)
        return;
    memcpy(out + LENGTH, p, n);
    if (send(f->client.fd, out, LENGTH + n, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)(LENGTH + n))
        (void)shutdown(f->client.fd, SHUT_RDWR); /* its end comes by the loop */
}

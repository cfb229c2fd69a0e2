/* SPDX-License-Identifier: Apache-2.0 */
#include "gate/resolve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/map.h"
#include "net/name.h"
#include "net/rule.h"
#include "base/banned.h"

enum { SERVERS_MAX = 4, ENTRIES_MAX = 2048, TRIES = 3, DNS_PORT = 53 };
#define SECOND UINT64_C(1000000000)
static const uint64_t TRY_NS = 3 * SECOND / 2;
enum { LEAST_S = 5, MOST_S = 300, ABSENT_S = 10, FAILED_S = 1 };

struct server {
    struct sg_addr addr;
    uint16_t port;
};

struct asking {      /* for one type */
    struct sg_io io; /* fd -1: answered, or given up */
    struct entry *entry;
    uint16_t type, id;
};

struct entry {
    struct sg_resolver *resolver;
    struct sg_name name;
    struct asking four, six;
    struct sg_timer timer;
    unsigned tries;
    bool is_known, is_telling;
    uint64_t until_ns;
    uint32_t ttl_s;
    struct sg_resolved got;
    struct sg_lookup *waiting;
    struct entry *next, **link; /* oldest first */
};

struct sg_resolver {
    struct sg_loop *loop;
    struct server servers[SERVERS_MAX];
    unsigned server_count;
    struct sg_map entries;
    struct entry *first, **last;
};

struct sg_resolver *sg_resolver_new(struct sg_loop *l)
{
    struct sg_resolver *r = sg_new(struct sg_resolver);
    r->loop = l;
    r->last = &r->first;
    sg_map_init(&r->entries);
    return r;
}

int sg_resolver_add(struct sg_resolver *r, struct sg_str text, struct sg_err *err)
{
    struct server s = { .port = DNS_PORT };
    struct sg_name unused;
    struct sg_target t;
    if (r->server_count == SERVERS_MAX) /* as many as anybody has */
        return 0;
    if (sg_addr_parse(text, &s.addr, NULL) < 0) {
        if (sg_target_parse(text, &unused, &s.addr, &t, err) < 0 || !t.addr)
            return sg_fail(err, SG_INVALID, "%s is no name server: an address, or ADDRESS:PORT",
                           sg_quote_str(text).s);
        s.port = t.port;
    }
    r->servers[r->server_count++] = s;
    return 0;
}

unsigned sg_resolver_servers(const struct sg_resolver *r)
{
    return r->server_count;
}

/* ---- what is known ---- */

static void forget_answer(struct entry *e)
{
    for (unsigned i = 0; i < e->got.alias_count; i++)
        free(e->got.aliases[i]);
    e->got = (struct sg_resolved) { 0 };
}

static void drop_entry(struct entry *e)
{
    struct sg_resolver *r = e->resolver;
    (void)sg_map_remove(&r->entries, e->name.s);
    *e->link = e->next;
    if (e->next)
        e->next->link = e->link;
    else
        r->last = e->link;
    sg_timer_stop(r->loop, &e->timer);
    sg_io_drop(r->loop, &e->four.io);
    sg_io_drop(r->loop, &e->six.io);
    forget_answer(e);
    free(e);
}

static void make_room(struct sg_resolver *r)
{
    for (struct entry *e = r->first, *next; e && r->entries.n >= ENTRIES_MAX; e = next) {
        next = e->next;
        if (!e->waiting && !e->is_telling)
            drop_entry(e);
    }
}

static void on_answer(struct sg_io *io, uint32_t events);
static void on_time(struct sg_timer *t, uint64_t now_ns);

static struct entry *new_entry(struct sg_resolver *r, const char *name)
{
    make_room(r);
    struct entry *e = sg_new(struct entry);
    e->resolver = r;
    memcpy(e->name.s, name, strlen(name) + 1);
    e->four = (struct asking) { .io = { .fd = -1 }, .entry = e, .type = SG_DNS_A };
    e->six = (struct asking) { .io = { .fd = -1 }, .entry = e, .type = SG_DNS_AAAA };
    e->timer.fire = on_time;
    e->link = r->last;
    *r->last = e;
    r->last = &e->next;
    sg_map_put(&r->entries, e->name.s, e);
    return e;
}

/* Who waits is told; each may ask again meanwhile. */
static void finish(struct entry *e, int rcode)
{
    struct sg_resolver *r = e->resolver;
    sg_timer_stop(r->loop, &e->timer);
    sg_io_drop(r->loop, &e->four.io);
    sg_io_drop(r->loop, &e->six.io);
    e->got.rcode = rcode;
    e->is_known = true;
    uint64_t s = rcode == SG_DNS_SERVFAIL ? FAILED_S : !e->got.count ? ABSENT_S : e->ttl_s;
    if (e->got.count)
        s = s < LEAST_S ? LEAST_S : s > MOST_S ? MOST_S : s;
    e->until_ns = sg_loop_now(r->loop) + s * SECOND;
    e->is_telling = true;
    for (struct sg_lookup *l; (l = e->waiting);) {
        sg_resolve_cancel(l);
        l->done(l, &e->got);
    }
    e->is_telling = false;
}

/* ---- asking ---- */

static void ask(struct asking *a)
{
    struct entry *e = a->entry;
    struct sg_resolver *r = e->resolver;
    const struct server *s = &r->servers[e->tries % r->server_count];
    struct sockaddr_storage to;
    uint8_t out[SG_DNS_MAX_QUERY];
    const socklen_t to_n = sg_addr_to_sock(&s->addr, s->port, &to);
    sg_io_drop(r->loop, &a->io);
    if (getrandom(&a->id, sizeof a->id, 0) != (ssize_t)sizeof a->id)
        abort();
    const size_t n = sg_dns_question_format(a->id, e->name.s, a->type, out, sizeof out);
    sg_auto_fd fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (n == 0 || fd < 0 || connect(fd, (struct sockaddr *)&to, to_n) < 0 ||
        send(fd, out, n, 0) < 0)
        return; /* the next try is another server's */
    a->io = (struct sg_io) { .fd = sg_take_fd(&fd), .ready = on_answer };
    if (sg_io_want(r->loop, &a->io, EPOLLIN, NULL) < 0)
        sg_io_drop(r->loop, &a->io);
}

static void ask_both(struct entry *e)
{
    ask(&e->four);
    ask(&e->six);
    e->tries++;
    sg_timer_set(e->resolver->loop, &e->timer, sg_loop_now(e->resolver->loop) + TRY_NS);
}

static void on_time(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    struct entry *e = SG_OWNER(t, struct entry, timer);
    if (e->tries >= TRIES)
        finish(e, e->got.count ? SG_DNS_OK : SG_DNS_SERVFAIL);
    else
        ask_both(e);
}

static void take(struct entry *e, const struct sg_dns_answer *a, uint16_t type)
{
    struct sg_resolved *g = &e->got;
    for (unsigned i = 0; i < a->count && g->count < SG_DNS_MAX_ADDRS; i++) {
        const uint8_t *p = a->addrs[i];
        struct sg_addr *to = &g->addrs[g->count++];
        if (type == SG_DNS_A)
            *to = sg_addr_v4((uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
                             p[3]);
        else
            memcpy(to->b, p, sizeof to->b);
    }
    for (unsigned i = 0; i < a->alias_count && g->alias_count < SG_COUNT(g->aliases); i++)
        g->aliases[g->alias_count++] = sg_strdup(a->aliases[i]);
    e->ttl_s = a->ttl_s;
}

static void on_answer(struct sg_io *io, uint32_t events)
{
    (void)events;
    struct asking *a = SG_OWNER(io, struct asking, io);
    struct entry *e = a->entry;
    uint8_t in[4096];
    struct sg_dns_answer answer;
    const ssize_t n = recv(io->fd, in, sizeof in, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) { /* nobody is there: the other servers need not wait for the clock */
        sg_io_drop(e->resolver->loop, io);
        if (e->four.io.fd < 0 && e->six.io.fd < 0)
            sg_timer_set(e->resolver->loop, &e->timer, sg_loop_now(e->resolver->loop));
        return;
    }
    if (sg_dns_answer_parse(in, (size_t)n, a->id, e->name.s, a->type, &answer, NULL) < 0)
        return;
    if (answer.rcode != SG_DNS_OK && answer.rcode != SG_DNS_NXDOMAIN) {
        sg_io_drop(e->resolver->loop, io);
        if (e->four.io.fd < 0 && e->six.io.fd < 0)
            sg_timer_set(e->resolver->loop, &e->timer, sg_loop_now(e->resolver->loop));
        return;
    }
    take(e, &answer, a->type);
    sg_io_drop(e->resolver->loop, io);
    if (e->got.count || answer.rcode == SG_DNS_NXDOMAIN ||
        (e->four.io.fd < 0 && e->six.io.fd < 0)) {
        /* R3: an IPv6 answer that is quicker waits for the other one. */
        if (a->type == SG_DNS_AAAA && e->four.io.fd >= 0 && answer.rcode == SG_DNS_OK)
            return;
        finish(e, answer.rcode);
    }
}

/* ---- for others ---- */

bool sg_resolve(struct sg_resolver *r, const char *name, struct sg_lookup *l,
                const struct sg_resolved **ret)
{
    static const struct sg_resolved nobody = { .rcode = SG_DNS_SERVFAIL };
    struct entry *e = sg_map_find(&r->entries, name);
    l->link = NULL;
    if (r->server_count == 0) {
        *ret = &nobody;
        return true;
    }
    if (e && e->is_known && sg_loop_now(r->loop) < e->until_ns) {
        *ret = &e->got;
        return true;
    }
    if (e && e->is_known) { /* too old */
        drop_entry(e);
        e = NULL;
    }
    if (!e) {
        e = new_entry(r, name);
        ask_both(e);
    }
    l->next = e->waiting;
    l->link = &e->waiting;
    if (l->next)
        l->next->link = &l->next;
    e->waiting = l;
    return false;
}

void sg_resolve_cancel(struct sg_lookup *l)
{
    if (!l->link)
        return;
    *l->link = l->next;
    if (l->next)
        l->next->link = l->link;
    l->link = NULL;
}

void sg_resolver_free(struct sg_resolver *r)
{
    if (!r)
        return;
    for (struct entry *e = r->first, *next; e; e = next) {
        next = e->next;
        drop_entry(e);
    }
    sg_map_done(&r->entries);
    free(r);
}

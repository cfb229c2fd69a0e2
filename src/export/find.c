/* SPDX-License-Identifier: Apache-2.0 */
/* A name's addresses. The C library's resolver would look for its files, which are out of sight,
 * and would take hostile bytes apart while it still could see them: ours asks when all is gone. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "export/post.h"
#include "net/name.h"
#include "net/resolv.h"
#include "net/rule.h"
#include "wire/dns.h"
#include "base/banned.h"

enum { DNS_PORT = 53, TRY_MS = 2000, TRIES = 2 };

/* The answer to one question of one server; -1: none came in time. */
static int ask(const struct sg_addr *server, uint16_t port, const char *name, uint16_t type,
               struct sg_dns_answer *ret, struct sg_err *err)
{
    uint8_t question[SG_DNS_MAX_QUERY], answer[SG_DNS_MAX_UDP];
    struct sockaddr_storage to;
    uint16_t id = 0;
    if (getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id)
        return sg_fail_sys(err, "choose an id");
    const size_t n = sg_dns_question_format(id, name, type, question, sizeof question);
    const unsigned to_n = sg_addr_to_sock(server, port, &to);
    sg_auto_fd fd = n ? socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    if (!n)
        return sg_fail(err, SG_INVALID, "%s is no name", sg_quote(name).s);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, to_n) < 0 ||
        send(fd, question, n, MSG_NOSIGNAL) != (ssize_t)n)
        return sg_fail_sys(err, "ask a name server");
    struct pollfd p = { .fd = fd, .events = POLLIN };
    for (unsigned strays = 0; strays < 8; strays++) { /* what answers something else is no answer */
        const int ready = poll(&p, 1, TRY_MS);
        const ssize_t got = ready > 0 ? recv(fd, answer, sizeof answer, 0) : -1;
        if (got < 0)
            break;
        if (sg_dns_answer_parse(answer, (size_t)got, id, name, type, ret, err) == 0)
            return 0;
    }
    return sg_fail(err, SG_TIMEOUT, "no name server answers");
}

static unsigned take(const struct sg_dns_answer *a, uint16_t type, struct sg_addr *ret, unsigned n,
                     unsigned max)
{
    for (unsigned i = 0; i < a->count && n < max; i++, n++) {
        if (type == SG_DNS_AAAA)
            memcpy(ret[n].b, a->addrs[i], sizeof ret[n].b);
        else
            ret[n] = sg_addr_v4((uint32_t)a->addrs[i][0] << 24 | (uint32_t)a->addrs[i][1] << 16 |
                                (uint32_t)a->addrs[i][2] << 8 | a->addrs[i][3]);
    }
    return n;
}

/* "ADDRESS" or "ADDRESS:PORT". */
static bool read_server(struct sg_str text, struct sg_addr *ret, uint16_t *ret_port)
{
    struct sg_name unused;
    struct sg_target t;
    *ret_port = DNS_PORT;
    if (sg_addr_parse(text, ret, NULL) == 0)
        return true;
    if (sg_target_parse(text, &unused, ret, &t, NULL) < 0 || !t.addr)
        return false;
    *ret_port = t.port;
    return true;
}

static int ask_all(const struct sg_post_options *o, struct sg_addr *ret, unsigned max,
                   struct sg_err *err)
{
    static const uint16_t types[] = { SG_DNS_A, SG_DNS_AAAA };
    struct sg_err why = { 0 };
    unsigned n = 0;
    char name[sizeof o->to.host];
    for (size_t i = 0; i < sizeof name; i++) /* questions are in lower case */
        name[i] = (char)(o->to.host[i] >= 'A' && o->to.host[i] <= 'Z' ? o->to.host[i] + 32
                                                                      : o->to.host[i]);
    for (unsigned t = 0; t < TRIES * o->server_count && !n; t++) {
        struct sg_addr server;
        uint16_t port;
        if (!read_server(sg_str_of(o->servers[t % o->server_count]), &server, &port))
            continue;
        for (size_t k = 0; k < SG_COUNT(types); k++) {
            struct sg_dns_answer a;
            if (ask(&server, port, name, types[k], &a, &why) < 0)
                break;
            n = take(&a, types[k], ret, n, max);
        }
    }
    if (!n)
        return sg_fail(err, SG_UNAVAILABLE, "no address of %s is known%s%s", sg_quote(o->to.host).s,
                       why.msg[0] ? ": " : "", why.msg);
    return (int)n;
}

int sg_find(const struct sg_post_options *o, struct sg_addr *ret, unsigned max, struct sg_err *err)
{
    if (sg_addr_parse(sg_str_of(o->to.host), &ret[0], NULL) == 0)
        return 1;
    const size_t n = sg_hosts_find(o->hosts, o->to.host, ret, max);
    return n ? (int)n : ask_all(o, ret, max, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What a client says first, looked at without taking it: TLS names its server, HTTP its host. They
 * must be the name that the connection was let through for. Where the two are usual (ports 443 and
 * 80) nothing else is understood, and what is not understood is refused; elsewhere a protocol that
 * names nobody is what the rule allowed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/parse.h"
#include "gate/creds.h"
#include "gate/term.h"
#include "wire/hello.h"
#include "base/banned.h"

enum { HTTP_PORT = 80, HTTPS_PORT = 443, PEEK = SG_HELLO_MAX + 1024, METHOD_MAX = 24 };
enum { RECORD_HANDSHAKE = 22 };

/* ---- names ---- */

static void say(struct sg_netverdict *v, const char *why)
{
    v->is_allowed = !*why;
    (void)snprintf(v->rule, sizeof v->rule, "%s", why);
}

/* "name", "name:port", "[v6]:port": without the port, which must be ours. */
static bool split_port(struct sg_str *said, uint16_t port)
{
    uint64_t given;
    if (!said->p || !said->n)
        return true;
    const char *end = said->p + said->n, *colon = memrchr(said->p, ':', said->n),
               *bracket = memrchr(said->p, ']', said->n);
    if (!colon || (bracket && bracket > colon))
        return true;
    const struct sg_str digits = { colon + 1, (size_t)(end - colon) - 1 };
    if (sg_parse_u64(digits, port, port, &given, NULL) < 0)
        return false;
    said->n = (size_t)(colon - said->p);
    return true;
}

void sg_flow_agrees(const struct sg_flow *f, struct sg_str said, struct sg_netverdict *ret)
{
    const struct sg_policy *p = sg_gate_box_rules(f->box);
    struct sg_name name;
    struct sg_addr addr;
    say(ret, "");
    if (!split_port(&said, f->port)) {
        say(ret, "name: the host has another port");
        return;
    }
    if (said.n > 2 && said.p[0] == '[' && said.p[said.n - 1] == ']')
        said = (struct sg_str) { said.p + 1, said.n - 2 };
    if (!f->name && sg_addr_parse(said, &addr, NULL) == 0) {
        if (!sg_addr_is_same(&addr, &f->wanted))
            say(ret, "name: the host is another address");
        return;
    }
    if (said.n == 0 && !f->name)
        return; /* nobody was named, and nobody had to be */
    if (said.n == 0 || sg_name_parse(said, &name, NULL) < 0)
        say(ret, said.n ? "name: the host is no name" : "name: no host is named");
    else if (f->name && strcmp(f->name, name.s) != 0 && sg_policy_is_filtered(p))
        say(ret, "name: the host is another one");
    else
        (void)sg_policy_denies_name(p, name.s, ret);
}

bool sg_flow_is_named(const struct sg_flow *f, struct sg_str said)
{
    struct sg_name name;
    return f->name && split_port(&said, f->port) && sg_name_parse(said, &name, NULL) == 0 &&
           strcmp(name.s, f->name) == 0;
}

/* ---- outcomes ---- */

/* The loop tells again when there is more than this. */
static int wait_beyond(struct sg_flow *f, int n)
{
    const int low = n + 1;
    if (low != f->low_mark)
        (void)setsockopt(f->client.fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low);
    f->low_mark = low;
    return 0;
}

static int pass(struct sg_flow *f)
{
    (void)wait_beyond(f, 0);
    f->is_sniffed = true;
    return 1;
}

static int turn_down(struct sg_flow *f, const char *rule, bool speaks_http)
{
    (void)wait_beyond(f, 0);
    sg_flow_refuse(f, rule, speaks_http);
    return -1;
}

/* ---- TLS ---- */

static int judge_hello(struct sg_flow *f, const struct sg_hello *h)
{
    const struct sg_policy *p = sg_gate_box_rules(f->box);
    struct sg_netverdict v;
    say(&v, "");
    if (h->has_encrypted)
        say(&v, "tls: an encrypted hello hides its name");
    else if (h->has_name)
        sg_flow_agrees(f, sg_str_of(h->name), &v);
    else if (f->name && sg_policy_is_filtered(p))
        say(&v, "tls: no server is named");
    if (v.is_allowed && h->has_name && sg_flow_is_named(f, sg_str_of(h->name)) &&
        sg_creds_want(f->box, f->name, f->port, true))
        sg_term_begin(f, true);
    return v.is_allowed ? pass(f) : turn_down(f, v.rule, false);
}

/* ---- HTTP ---- */

static void check_host(void *arg, struct sg_str host, struct sg_netverdict *v)
{
    sg_flow_agrees(arg, host, v);
}

/* A method and a blank: 1 yes, 0 perhaps, -1 no. */
static int looks_like_http(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n && i < METHOD_MAX; i++) {
        if (p[i] == ' ')
            return i > 0 ? 1 : -1;
        if ((p[i] < 'A' || p[i] > 'Z') && !(p[i] == '-' && i > 0))
            return -1;
    }
    return n >= METHOD_MAX ? -1 : 0;
}

/* ---- both ---- */

static int decide(struct sg_flow *f, const uint8_t *p, size_t n, bool has_ended)
{
    struct sg_hello hello;
    const int http = looks_like_http(p, n);
    const enum sg_hello_got tls = sg_hello_parse(p, n, &hello);
    if (tls == SG_HELLO_DONE)
        return judge_hello(f, &hello);
    if (http > 0) {
        if (sg_creds_want(f->box, f->name, f->port, false))
            sg_term_begin(f, false);
        else
            f->web = sg_web_new(check_host, f);
        return pass(f);
    }
    if (!has_ended && n < PEEK && (tls == SG_HELLO_MORE || http == 0))
        return wait_beyond(f, (int)n);
    if (f->port == HTTPS_PORT || p[0] == RECORD_HANDSHAKE)
        return turn_down(f, "tls: not a hello that can be read", false);
    if (f->port == HTTP_PORT)
        return turn_down(f, "http: not a request that can be read", true);
    return pass(f);
}

int sg_flow_sniff(struct sg_flow *f)
{
    uint8_t in[PEEK];
    const ssize_t n = recv(f->client.fd, in, sizeof in, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n < 0) {
        sg_flow_end(f, "the client is gone");
        return -1;
    }
    if (n == 0)
        return pass(f); /* it says nothing at all */
    /* Told although there is no more than the last time: no more will come. */
    const bool has_ended = (size_t)n == f->sniffed;
    f->sniffed = (size_t)n;
    return decide(f, in, (size_t)n, has_ended);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* DIAL: a connection to something that listens inside, handed to the host as a socket.
 *
 * TCP goes to 127.0.0.1 and, where that fails, to ::1; the answer of the first is the one to
 * report. Connecting never blocks: the dial waits in the loop, up to its deadline. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/str.h"
#include "init/init.h"
#include "init/path.h"
#include "base/banned.h"

static const uint64_t PATIENCE_NS = 10000000000u;

struct sg_dial {
    struct sg_source source;
    uint32_t id, port;
    bool is_second_try;
    int first_sys; /* why 127.0.0.1 failed */
    uint64_t deadline_ns;
};

static void dial_free(struct sg_init *in, struct sg_dial *d)
{
    for (unsigned i = 0; i < in->dial_count; i++)
        if (in->dials[i] == d)
            in->dials[i] = in->dials[--in->dial_count];
    sg_source_drop(in, &d->source);
    free(d);
}

/* ---- connecting ---- */

/* Returns a socket that is connected or on its way (errno EINPROGRESS tells), or -1. */
static int connect_to(const void *address, socklen_t bytes, int *ret_sys)
{
    const struct sockaddr *a = address;
    sg_auto_fd fd = socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *ret_sys = 0;
    if (fd >= 0 && connect(fd, a, bytes) == 0)
        return sg_take_fd(&fd);
    *ret_sys = errno;
    return fd >= 0 && errno == EINPROGRESS ? sg_take_fd(&fd) : -1;
}

static int connect_tcp(uint32_t port, bool is_second_try, int *ret_sys)
{
    const struct sockaddr_in v4 = { .sin_family = AF_INET,
                                    .sin_port = htons((uint16_t)port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
                                     .sin6_port = htons((uint16_t)port),
                                     .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    return is_second_try ? connect_to(&v6, sizeof v6, ret_sys)
                         : connect_to(&v4, sizeof v4, ret_sys);
}

/* By descriptor: resolved under our rules for paths, and free of the 108 bytes of an address. */
static int connect_unix(struct sg_text path, struct sg_err *err)
{
    sg_auto_fd file = sg_path_open(path, O_PATH, 0, err);
    if (file < 0)
        return -1;
    struct stat st;
    if (fstat(file, &st) < 0 || !S_ISSOCK(st.st_mode))
        return sg_fail(err, SG_INVALID, "%s is not a socket", sg_quote(path.p).s);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    sg_path_of_fd(file, address.sun_path);
    int sys, fd = connect_to(&address, sizeof address, &sys);
    if (fd >= 0)
        return fd;
    errno = sys;
    return sg_fail_sys(err, "dial %s", sg_quote(path.p).s);
}

/* ---- the loop ---- */

static struct sg_msg connected(uint32_t id)
{
    return (struct sg_msg) { .type = SG_MSG_FD, .id = id, .fd = { 0, S_IFSOCK } };
}

static int refused(const struct sg_dial *d, struct sg_err *err)
{
    errno = d->first_sys;
    return sg_fail_sys(err, "dial port %u", (unsigned)d->port);
}

/* Goes on with ::1. 0: on its way or there (*ret_sys 0); -1: failed as well. */
static int try_second(struct sg_dial *d, int *ret_sys)
{
    d->is_second_try = true;
    d->source.fd = connect_tcp(d->port, true, ret_sys);
    return d->source.fd < 0 ? -1 : 0;
}

static void dial_ready(struct sg_init *in, struct sg_source *s, uint32_t events)
{
    (void)events;
    struct sg_dial *d = SG_OWNER_OF(s, struct sg_dial, source);
    int sys = 0;
    socklen_t n = sizeof sys;
    if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &sys, &n) < 0)
        sys = errno;
    (void)sg_source_want(in, s, 0, NULL);
    if (sys && !d->is_second_try) {
        d->first_sys = sys;
        sg_drop_fd(&s->fd);
        if (try_second(d, &sys) == 0 && sys == EINPROGRESS &&
            sg_source_want(in, s, EPOLLOUT, NULL) == 0)
            return;
    }
    struct sg_msg m = connected(d->id);
    struct sg_err err = { 0 };
    if (sys) {
        (void)refused(d, &err);
        sg_outbox_send_error(in, d->id, &err);
    } else {
        sg_outbox_send(in, &m, sg_take_fd(&s->fd));
    }
    dial_free(in, d);
}

void sg_dial_end_all(struct sg_init *in)
{
    while (in->dial_count)
        dial_free(in, in->dials[0]);
}

uint64_t sg_dial_deadline(const struct sg_init *in)
{
    uint64_t first = UINT64_MAX;
    for (unsigned i = 0; i < in->dial_count; i++)
        if (in->dials[i]->deadline_ns < first)
            first = in->dials[i]->deadline_ns;
    return first;
}

void sg_dial_expire(struct sg_init *in, uint64_t now_ns)
{
    for (unsigned i = in->dial_count; i-- > 0;) {
        struct sg_dial *d = in->dials[i];
        if (d->deadline_ns > now_ns)
            continue;
        struct sg_err err = { 0 };
        d->first_sys = ETIMEDOUT;
        (void)refused(d, &err);
        sg_outbox_send_error(in, d->id, &err);
        dial_free(in, d);
    }
}

/* ---- the request ---- */

static int dial_tcp(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    if (!c->m->dial.port)
        return sg_fail(err, SG_INVALID, "port 0 cannot be dialled");
    if (in->dial_count == SG_INIT_MAX_DIALS)
        return sg_fail(err, SG_EXHAUSTED, "%d dials are under way", SG_INIT_MAX_DIALS);
    struct sg_dial *d = sg_new(struct sg_dial);
    *d = (struct sg_dial) { .source = { .fd = -1, .ready = dial_ready },
                            .id = c->m->id,
                            .port = c->m->dial.port,
                            .deadline_ns = sg_now_ns() + PATIENCE_NS };
    in->dials[in->dial_count++] = d;
    int sys;
    d->source.fd = connect_tcp(d->port, false, &sys);
    if (d->source.fd < 0) {
        d->first_sys = sys;
        if (try_second(d, &sys) < 0) {
            (void)refused(d, err);
            dial_free(in, d);
            return -1;
        }
    }
    if (sys == EINPROGRESS && sg_source_want(in, &d->source, EPOLLOUT, err) == 0)
        return SG_LATER;
    c->reply_fd = sys == 0 ? sg_take_fd(&d->source.fd) : -1;
    dial_free(in, d);
    return c->reply_fd < 0 ? -1 : 0;
}

int sg_handle_dial(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    const struct sg_msg_dial *m = &c->m->dial;
    c->reply = connected(c->m->id);
    if (m->family == SG_DIAL_TCP)
        return dial_tcp(in, c, err);
    c->reply_fd = connect_unix(m->path, err);
    return c->reply_fd < 0 ? -1 : 0;
}

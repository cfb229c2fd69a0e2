/* SPDX-License-Identifier: Apache-2.0 */
/* sandglass-export: carries spans from the daemon, which has no network, to where the settings say.
 *
 * Started by the launcher with a connection to the daemon as descriptor 3, and ends with it. While
 * it is still somebody it reads the settings, the headers (they may be secrets, and are nowhere
 * else), certificates and the machine's own word on names; then it becomes nobody (confine.h), with
 * a network and nothing more, and only then takes a word from anybody. It waits in system calls and
 * nowhere else: one file at a time, the daemon keeps all that is still to be sent. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "config/config.h"
#include "ctl/chan.h"
#include "export/post.h"
#include "export/seccomp_data.h"
#include "net/resolv.h"
#include "sys/confine.h"
#include "sys/kfile.h"
#include "worker/worker.h"
#include "base/banned.h"

enum { TEXT_MAX = 64 << 10, CA_MAX = 4 << 20, SPANS_MAX = 2 << 20 };
#define CA_FILE "/etc/ssl/certs/ca-certificates.crt"

struct files { /* what was read; `options` borrows from it */
    struct sg_buf headers, ca, hosts, servers;
    char host_name[65];
    struct sg_post_options options;
};

/* ---- files ---- */

static int read_file(const char *path, struct sg_buf *to, struct sg_err *err)
{
    sg_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return sg_fail_sys(err, "open %s", sg_quote(path).s);
    return sg_buf_read_fd(to, fd, path, err);
}

static int read_all(const struct sg_config *c, struct files *f, struct sg_err *err)
{
    struct sg_post_options *o = &f->options;
    if (sg_endpoint_parse(c->otlp_endpoint, &o->to, err) < 0)
        return sg_wrap(err, "otlp.endpoint");
    const int n = sg_headers_read(c->otlp_headers, &f->headers, o->headers, err);
    if (n < 0)
        return sg_wrap(err, "otlp.headers");
    o->header_count = (unsigned)n;
    if (o->to.is_tls && read_file(*c->otlp_ca ? c->otlp_ca : CA_FILE, &f->ca, err) < 0)
        return sg_wrap(err, "otlp.ca (is the package ca-certificates installed?)");
    o->ca = (struct sg_str) { (const char *)f->ca.p, f->ca.n };
    (void)read_file("/etc/hosts", &f->hosts, err); /* may be missing */
    (void)read_file("/etc/resolv.conf", &f->servers, err);
    (void)sg_buf_cstr(&f->servers);
    o->hosts = sg_buf_cstr(&f->hosts);
    if (f->servers.n)
        o->server_count = sg_resolv_servers((char *)f->servers.p, o->servers, SG_POST_SERVERS_MAX);
    if (gethostname(f->host_name, sizeof f->host_name - 1) < 0)
        (void)snprintf(f->host_name, sizeof f->host_name, "unknown");
    o->host_name = f->host_name;
    return 0;
}

/* ---- work ---- */

static void do_one(const struct sg_post_options *o, int fd, struct sg_post_result *ret)
{
    struct sg_err err = { 0 };
    sg_auto_buf text, body;
    sg_buf_init(&text, SPANS_MAX);
    sg_buf_init(&body, SG_POST_BODY_MAX);
    *ret = (struct sg_post_result) { .verdict = SG_POST_REFUSED };
    if (sg_buf_read_fd(&text, fd, "the spool", &err) < 0) {
        (void)snprintf(ret->why, sizeof ret->why, "%.190s", err.msg);
        return;
    }
    const unsigned n =
        sg_body_format((struct sg_str) { (const char *)text.p, text.n }, o->host_name, &body);
    if (n == 0 || body.has_overflowed) {
        ret->verdict = n ? SG_POST_REFUSED : SG_POST_TAKEN; /* nothing whole was in it */
        return;
    }
    sg_post(o, (struct sg_str) { (const char *)body.p, body.n }, ret);
}

static int serve(const struct sg_post_options *o, struct sg_err *err)
{
    sg_auto_packet p;
    sg_packet_init(&p);
    for (;;) {
        switch (sg_chan_recv(SG_WORKER_FD, 1u << SG_ROLE_EXPORT_ASK, true, &p, err)) {
        case SG_RECV_CLOSED:
            return 0;
        case SG_RECV_ERROR:
            return -1;
        case SG_RECV_AGAIN:
            continue;
        case SG_RECV_MESSAGE:
            break;
        }
        struct sg_post_result r;
        sg_auto_fd fd = sg_packet_take_fd(&p, 0);
        do_one(o, fd, &r);
        struct sg_msg m = { .type = SG_MSG_X_POSTED, .id = p.msg.id, .epoch = p.msg.epoch };
        m.x_posted = (struct sg_msg_x_posted) {
            .verdict = r.verdict, .status = r.status, .wait_ms = r.wait_ms, .why = sg_text_of(r.why)
        };
        if (sg_chan_send(SG_WORKER_FD, &m, NULL, 0, true, err) < 0)
            return err->sys == EPIPE || err->sys == ECONNRESET ? 0 : -1;
    }
}

static int confine_and_serve(const struct sg_config *c, struct files *f, struct sg_err *err)
{
    const struct sg_confine confine = { .name = "export",
                                        .id = SG_EXPORT_ID,
                                        .keeps_net = true,
                                        .filter = sg_seccomp_export,
                                        .filter_len = sg_seccomp_export_len };
    struct sg_confined confined;
    if (read_all(c, f, err) < 0 || sg_post_init(err) < 0 ||
        sg_confine(&confine, &confined, err) < 0)
        return -1;
    return serve(&f->options, err);
}

static int run(const struct sg_config *c, struct sg_err *err)
{
    static struct files files;
    sg_buf_init(&files.headers, SG_HEADERS_MAX_BYTES);
    sg_buf_init(&files.ca, CA_MAX);
    sg_buf_init(&files.hosts, TEXT_MAX);
    sg_buf_init(&files.servers, TEXT_MAX);
    const int ret = confine_and_serve(c, &files, err);
    if (files.headers.p)
        explicit_bzero(files.headers.p, files.headers.n);
    sg_buf_done(&files.headers);
    sg_buf_done(&files.ca);
    sg_buf_done(&files.hosts);
    sg_buf_done(&files.servers);
    return ret;
}

int main(void)
{
    return sg_worker_main("sandglass-export", run);
}

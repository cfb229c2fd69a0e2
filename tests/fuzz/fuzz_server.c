/* SPDX-License-Identifier: Apache-2.0 */
/* The whole server behind one connection: any bytes, cut where the input says, then the end. The
 * connection and its calls must be gone afterwards, and what was answered must begin as HTTP does.
 *
 * The first byte is the size of the pieces (0: all at once) and whether the end is half or hard. */
#include "http_rig.h"
#include "base/log.h"
#include "base/banned.h"

enum { MAX_ANSWER = 256 << 20, MAX_TURNS = 5000 };

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void let_go(void)
{
    struct sg_call *c = rig.held;
    rig.held = NULL;
    if (c)
        sg_reply_text(c, 200, "text/plain", "held");
}

static void turn(int fd, struct sg_buf *in)
{
    if (sg_loop_turn(rig.loop, 0, NULL) < 0)
        abort();
    (void)rig_receive(fd, in);
    if (in->n > 1 << 20) {
        memmove(in->p + 16, in->p + in->n - 16, 16); /* the beginning is what is looked at */
        in->n = 32;
    }
}

static void send_all(int fd, const uint8_t *p, size_t n, size_t step, struct sg_buf *in)
{
    for (size_t at = 0, turns = 0; at < n && turns < MAX_TURNS; turns++) {
        size_t want = n - at < step ? n - at : step;
        ssize_t sent = send(fd, p + at, want, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            return;
        at += sent > 0 ? (size_t)sent : 0;
        turn(fd, in);
        let_go();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    if (!rig.server) {
        sg_log_level_set(SG_LOG_ERROR + 1);
        rig_start(&(struct sg_server_options) { .max_body_bytes = 1 << 20 });
        rig_listen_unix((uint32_t)-1);
    }
    if (!n)
        return 0;
    sg_auto_buf in;
    sg_buf_init(&in, MAX_ANSWER);
    int fd = rig_connect_unix();
    send_all(fd, p + 1, n - 1, p[0] & 63 ? p[0] & 63 : n, &in);
    if (p[0] & 64)
        (void)shutdown(fd, SHUT_WR);
    for (int i = 0; i < 20; i++) {
        turn(fd, &in);
        let_go();
    }
    (void)close(fd);
    for (int i = 0; sg_server_stats(rig.server)->connections; i++) {
        let_go();
        if (i > MAX_TURNS || sg_loop_turn(rig.loop, 0, NULL) < 0)
            abort();
    }
    if (in.n >= 9 && memcmp(in.p, "HTTP/1.1 ", 9) != 0)
        abort();
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A hostile guest against the host's end of a channel: the greeting is given, everything after it
 * is the input, in two pieces. Whatever comes, the channel ends or goes on; what it holds is
 * bounded. */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "mux/frame.h"
#include "mux/mux.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

enum { MOST_BYTES = 64 * 1024, TURNS = 32 };

static bool turn(struct sg_mux *m)
{
    struct sg_err err = { 0 };
    for (int i = 0; i < TURNS; i++)
        if (sg_mux_turn(m, &err) < 0)
            return false;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static const struct sg_mux_ops ops = { .roles = 1u << SG_ROLE_REQUEST };
    struct sg_err err = { 0 };
    int channel[2], pair[2];
    const struct sigaction ignored = { .sa_handler = SIG_IGN };
    (void)sigaction(SIGPIPE, &ignored, NULL);
    if (n > MOST_BYTES || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) < 0)
        return 0;
    struct sg_mux *m = sg_mux_new(channel[0], SG_MUX_HOST, &ops, NULL, &err);
    if (!m || sg_chan_pair(pair, &err) < 0)
        abort();
    sg_mux_attach(m, pair[1]);
    const size_t half = n / 2;
    if (write(channel[1], SG_FRAME_GREETING, SG_FRAME_GREETING_BYTES) < 0 ||
        write(channel[1], p, half) != (ssize_t)half)
        abort();
    if (turn(m) && write(channel[1], p + half, n - half) == (ssize_t)(n - half))
        (void)turn(m);
    sg_mux_free(m);
    (void)close(channel[1]);
    (void)close(pair[0]);
    return 0;
}

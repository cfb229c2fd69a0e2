/* SPDX-License-Identifier: Apache-2.0 */
/* A non-blocking byte stream on the loop, plain or TLS, with an output queue.
 *
 * S1. Nothing is called back from inside a call to a sock: only the loop does that. A failed write
 *     shows as `lost` in a later pass.
 * S2. Output is taken always; sg_sock_write() says when it is enough, `drained` when it may go on.
 * S3. An idle sock holds no buffer: input is read where the caller has room, the queue's pieces
 *     are freed as they are sent, and OpenSSL gives its buffers back.
 * S4. The owner may end the sock inside any callback; its memory must live until the pass ends.
 *
 * The program must ignore SIGPIPE: OpenSSL writes to its descriptor by write(2).
 * (Named so because a stream is a sandbox's output here: manager/exec.h.) */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "link/tls.h"
#include "loop/loop.h"

enum {
    SG_SOCK_HIGH = 256 << 10, /* queued bytes from which on it is enough */
    SG_SOCK_LOW = 64 << 10,
    SG_SOCK_READ = 64 << 10, /* what a reader should have room for; 16 KiB at least */
};

struct sg_sock;
struct sg_sock_ops {
    void (*readable)(struct sg_sock *s); /* sg_sock_read() has something, or the end */
    /* The queue is below the low mark again after it was full; or, `was_full` not, it is empty. */
    void (*drained)(struct sg_sock *s, bool was_full);
    void (*hung_up)(struct sg_sock *s); /* while not reading: the peer will send no more */
    void (*lost)(struct sg_sock *s);    /* broken: nothing can be sent or received any more */
};

struct sg_sock {
    struct sg_io io;
    struct sg_loop *loop;
    const struct sg_sock_ops *ops;
    struct sg_tls *tls;         /* borrowed; NULL: plain only */
    struct sg_session *session; /* owned; NULL: plain */
    struct sg_sock_piece *first, *last;
    uint64_t sent;  /* bytes, ever */
    size_t queued;  /* bytes in memory */
    unsigned files; /* queued */
    bool is_reading, is_full, is_broken, has_hung_up;
    bool is_sniffing, is_handshaking, wants_out; /* wants_out: TLS needs to write first */
};

/* Takes `fd`. With `tls` the first byte tells whether the peer speaks it. Reads at first. */
int sg_sock_init(struct sg_sock *s, struct sg_loop *l, int fd, struct sg_tls *tls,
                 const struct sg_sock_ops *ops, struct sg_err *err);
void sg_sock_done(struct sg_sock *s); /* closes, drops what is queued; twice is fine */

/* > 0: bytes; 0: the peer sends no more; -1: nothing for now (or broken: `lost` comes). */
ssize_t sg_sock_read(struct sg_sock *s, void *p, size_t cap);
void sg_sock_want_read(struct sg_sock *s, bool is_wanted);

/* Sends what goes at once and queues the rest. False: enough. */
bool sg_sock_writev(struct sg_sock *s, const struct iovec *v, unsigned count);
bool sg_sock_write(struct sg_sock *s, const void *p, size_t n);
/* Takes `fd`, a regular file: `n` bytes from `offset` on. A file that ends early breaks the sock.
 */
void sg_sock_send_file(struct sg_sock *s, int fd, uint64_t offset, uint64_t n);
static inline bool sg_sock_is_empty(const struct sg_sock *s)
{
    return !s->first;
}
/* Grows as long as the peer takes anything: a slow reader still reads. */
uint64_t sg_sock_progress(const struct sg_sock *s);
/* No more output: the peer reads an end. With an empty queue only. */
void sg_sock_end_output(struct sg_sock *s);

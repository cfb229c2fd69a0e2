/* SPDX-License-Identifier: Apache-2.0 */
/* One control connection on the loop: questions with answers, and news.
 *
 * The same for a sandbox's init and for the launcher; only the roles differ. Everything that comes
 * in was decoded and bounded by ctl/msg.h, but its sender is not trusted: an answer to nothing is
 * dropped, a malformed packet ends the connection.
 *
 * Callbacks run on the loop, never from inside sg_peer_ask(). When the connection ends, every open
 * question is answered with SG_UNAVAILABLE, then `lost` is called once. A question that is not
 * answered in time is answered with SG_TIMEOUT; what comes later is `late`. */
#pragma once

#include "base/buf.h"
#include "ctl/chan.h"
#include "loop/loop.h"

struct sg_peer;

/* `p` is NULL when there is no answer; then `err` says why. An ERROR, L_FAILED or G_FAILED message
 * comes as `p` NULL, too, with its kind, errno and text in `err`. `p` (with its descriptors, unless
 * taken) ends with the call. */
typedef void sg_peer_answer(void *arg, struct sg_packet *p, const struct sg_err *err);

struct sg_peer_ops {
    unsigned answer_role, news_role;
    void (*news)(void *arg, struct sg_packet *p);
    void (*lost)(void *arg, const struct sg_err *err);
    void (*losing)(void *arg); /* may be NULL: before the open questions are answered */
    /* May be NULL: an answer that nobody waits for, any more or at all. Without it, or with what is
     * left after it, such a one is dropped together with its descriptors. */
    void (*late)(void *arg, struct sg_packet *p);
    uint64_t patience_ns; /* how long an answer to one of these may take; the others may for ever */
    uint64_t impatient;   /* 1 << enum sg_msg_type, of the first 64 */
    bool is_impatient;    /* with all of them */
};

/* Takes `fd`. Returns owned. `epoch`: answers of another one are dropped (0: any). */
struct sg_peer *sg_peer_new(struct sg_loop *l, int fd, uint32_t epoch,
                            const struct sg_peer_ops *ops, void *arg, struct sg_err *err);
void sg_peer_free(struct sg_peer *p); /* calls nothing back */
/* As if the connection had ended by itself: everybody is answered with `err`, then `lost` is
 * called, in which the peer may be freed. Not from inside one of its own callbacks. */
void sg_peer_end(struct sg_peer *p, const struct sg_err *err);

/* Sets m->id and m->epoch. `fds` are borrowed (a queued message keeps duplicates). `answer` NULL:
 * the answer is of no interest. Waits for room in a bounded queue; SG_EXHAUSTED past it. */
int sg_peer_ask(struct sg_peer *p, struct sg_msg *m, const int *fds, unsigned fd_count,
                sg_peer_answer *answer, void *arg, struct sg_err *err);
/* The other side is frozen: meanwhile no time passes for the open questions. */
void sg_peer_hold(struct sg_peer *p, bool is_held);
unsigned sg_peer_open_questions(const struct sg_peer *p);

/* SPDX-License-Identifier: Apache-2.0 */
/* The requests and answers of one HTTP/1 connection, one after the other, written anew.
 *
 *     up     placeholders in target, fields and body become values (gate/swap.h); fields that the
 *            gate adds take the place of the client's own; the answer is asked for uncoded
 *     down   values become stars, wherever they were cut; what is coded all the same is refused
 *
 * R1. Nothing goes on that was not understood; frames (length, chunks) are our own.
 * R2. A request is begun when the answer to the one before is over: an answer has one request.
 * R3. A body with a length is gathered up to SG_REWRITE_GATHER, because its length changes; a
 * longer one, and one that is coded, goes on as it came: a placeholder in it stays one. */
#pragma once

#include "gate/swap.h"
#include "net/policy.h"
#include "wire/answer.h"
#include "wire/chunked.h"

enum {
    SG_REWRITE_PIECE = 64 << 10,
    SG_REWRITE_GATHER = 256 << 10,
    SG_REWRITE_OUT = 1 << 20,
    SG_REWRITE_WHY = 240
};

enum sg_rewrite_got {
    SG_REWRITE_ON,  /* `out` has what there is; more may come */
    SG_REWRITE_END, /* the request, or the answer, is whole; what came behind it is kept */
    SG_REWRITE_BAD  /* `why` says it */
};

/* ---- up ---- */

struct sg_rewrite_up {
    uint8_t state;
    struct sg_buf held; /* a head or a body that is not whole, then what came behind */
    struct sg_http_head head;
    struct sg_chunked chunked;
    size_t head_n;
    uint64_t left;
    uint8_t form;  /* enum sg_swap_form, of the body */
    bool is_coded; /* so is the body: it stays as it is */
    bool is_head;  /* HEAD: its answer has no body */
    bool wants_upgrade;
    /* judges a host as it was sent */
    bool (*check)(void *arg, struct sg_str host);
    void *arg;
    char why[SG_REWRITE_WHY];
};

void sg_rewrite_up_init(struct sg_rewrite_up *u, bool (*check)(void *arg, struct sg_str host),
                        void *arg);
void sg_rewrite_up_done(struct sg_rewrite_up *u);
/* At most SG_REWRITE_PIECE bytes; n 0: what is kept is looked at. `back`: what the client must be
 * told before it goes on. */
enum sg_rewrite_got sg_rewrite_up(struct sg_rewrite_up *u, const struct sg_swaps *s, const void *p,
                                  size_t n, struct sg_buf *out, struct sg_buf *back);
void sg_rewrite_up_next(struct sg_rewrite_up *u);   /* after END: the next request may come */
void sg_rewrite_up_tunnel(struct sg_rewrite_up *u); /* after END: all goes on as it comes */

/* ---- down ---- */

struct sg_rewrite_down {
    uint8_t state;
    struct sg_buf held; /* a head that is not whole; the end of a body that may be a beginning */
    struct sg_chunked chunked;
    uint64_t left;
    bool is_tunnel;
    char why[SG_REWRITE_WHY];
};

void sg_rewrite_down_init(struct sg_rewrite_down *d);
void sg_rewrite_down_done(struct sg_rewrite_down *d);
/* `u`: the request that is being answered. Takes `*inout_n` bytes at most, and says how many: what
 * is behind the end of the answer is not its. */
enum sg_rewrite_got sg_rewrite_down(struct sg_rewrite_down *d, const struct sg_rewrite_up *u,
                                    const struct sg_swaps *s, uint8_t *p, size_t *inout_n,
                                    struct sg_buf *out);
/* No more comes. END: that was its end. BAD: it was cut short. */
enum sg_rewrite_got sg_rewrite_down_eof(struct sg_rewrite_down *d, struct sg_buf *out);
void sg_rewrite_down_next(struct sg_rewrite_down *d);

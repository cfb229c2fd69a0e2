/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of src/mux only: mux.c has the channel, stream.c the streams, local.c the
 * control socket of our own side. */
#pragma once

#include "mux/frame.h"
#include "mux/mux.h"

enum { SG_MUX_OUT_HIGH = 256 * 1024, SG_MUX_OUT_MAX = 4 * 1024 * 1024 };

enum sg_mux_source { SG_MUX_CHANNEL, SG_MUX_LOCAL, SG_MUX_STREAM };

struct sg_mux_io { /* in epoll; the first member of who owns it */
    enum sg_mux_source source;
    int fd;
    bool is_in;      /* epoll knows it */
    uint32_t events; /* what it was told */
};

struct sg_stream {
    struct sg_mux_io io; /* fd: our end; -1: done with it */
    uint32_t id;
    bool reads;            /* fd to channel: FIN is still to be sent */
    bool writes;           /* channel to fd: FIN is still to come, or bytes to be written */
    bool has_fin;          /* it has come */
    bool is_broken;        /* nobody takes what comes */
    bool is_file;          /* cannot be waited for */
    bool is_spool;         /* what comes goes to a file, whole */
    bool is_dead;          /* freed after the events in hand */
    uint64_t credit;       /* that we may send */
    uint64_t unpaid;       /* taken, and not told yet */
    uint64_t window;       /* that may come */
    uint64_t spooled;      /* bytes in the file */
    uint64_t due;          /* bytes that the end of their program waits for */
    struct sg_buf pending; /* came, and is not written yet; from `at` on */
    size_t at;
    char tag[SG_CTL_MAX_TAG + 1]; /* the exec's whose output it is; "": none */
    struct sg_stream *next, **link;
};

struct sg_held { /* a packet for the local socket, or for the other side */
    struct sg_held *next;
    bool goes_over;
    uint32_t spool_id;            /* waits for this file to be whole; 0: none */
    char tag[SG_CTL_MAX_TAG + 1]; /* waits for the bytes of this exec; "": none */
    int fds[SG_CTL_MAX_FDS];
    unsigned fd_count;
    uint32_t charge; /* of the window of messages: paid when it is gone */
    size_t n;
    uint8_t bytes[];
};

struct sg_mux {
    const struct sg_mux_ops *ops;
    void *arg;
    enum sg_mux_side side;
    int epoll_fd;
    struct sg_mux_io channel, local; /* local.fd: -1: no connection */
    uint32_t connection;             /* its number */
    bool has_greeting;
    size_t noise;
    struct sg_buf in, out;
    size_t out_at;
    uint64_t message_credit, message_window, message_unpaid;
    struct sg_stream *streams;
    struct sg_stream *by_slot[2][SG_MUX_STREAMS];
    uint32_t serial, last_slot;
    struct sg_held *held, **held_end;     /* wait for something of theirs */
    struct sg_held *queued, **queued_end; /* wait for room in the local socket */
    struct sg_packet packet;
    bool was_full;
};

/* ---- mux.c ---- */

static inline size_t sg_mux_out_bytes(const struct sg_mux *m)
{
    return m->out.n - m->out_at;
}
static inline bool sg_mux_has_room(const struct sg_mux *m)
{
    return sg_mux_out_bytes(m) < SG_MUX_OUT_HIGH;
}
/* Registers, changes or (is_in false) removes. */
void sg_mux_want(struct sg_mux *m, struct sg_mux_io *io, bool is_in, uint32_t events);
void sg_mux_drop(struct sg_mux *m, struct sg_mux_io *io); /* and closes */

/* ---- stream.c ---- */

/* Takes `fd`. NULL: there are too many. */
struct sg_stream *sg_stream_open(struct sg_mux *m, int fd, enum sg_frame_kind kind);
/* One that the other side opened: ours to make, with the end that goes on to `*ret_fd` (-1: it
 * comes when the file is whole). */
struct sg_stream *sg_stream_accept(struct sg_mux *m, const struct sg_frame_fd *f, int *ret_fd,
                                   struct sg_err *err);
enum sg_frame_kind sg_stream_kind(int fd);
struct sg_stream *sg_stream_find(const struct sg_mux *m, uint32_t id);
void sg_stream_ready(struct sg_mux *m, struct sg_stream *s, uint32_t events);
int sg_stream_take(struct sg_mux *m, struct sg_stream *s, const struct sg_frame *f,
                   struct sg_err *err);
void sg_stream_pump(struct sg_mux *m, struct sg_stream *s); /* fd to channel */
void sg_stream_watch(struct sg_mux *m, struct sg_stream *s);
void sg_stream_bury(struct sg_mux *m); /* frees those that are over */
void sg_stream_free(struct sg_mux *m, struct sg_stream *s);
/* Counts what is on its way of this exec now, as due. */
bool sg_stream_has_due(struct sg_mux *m, const char *tag, bool counts_anew);

/* ---- local.c ---- */

void sg_local_ready(struct sg_mux *m, uint32_t events);
void sg_local_watch(struct sg_mux *m);
int sg_local_message(struct sg_mux *m, const struct sg_frame *f, struct sg_err *err);
void sg_local_open(struct sg_mux *m, uint32_t connection); /* frames of these types came */
void sg_local_hangup(struct sg_mux *m, uint32_t connection);
void sg_local_look_at_held(struct sg_mux *m);
void sg_local_done(struct sg_mux *m);

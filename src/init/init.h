/* SPDX-License-Identifier: Apache-2.0 */
/* sandglass-init: pid 1 of a sandbox, which does what the host asks, inside.
 *
 * I1. One thread, one loop. A handler never waits: what takes time is a source in the loop (a dial,
 *     a terminal) or a process of its own (a worker: a recursive removal, an archive, an upload, a
 *     search).
 *
 * I2. The host is obeyed but not trusted to be well-formed; everything inside is hostile. Init's
 *     own state is bounded by the limits below, whatever either side does.
 *
 * I3. Nothing is lost and nothing grows when the host does not read: replies wait in the outbox,
 *     and while any waits, no request and no file event is taken in.
 *
 * I4. File work is done with the asked user's ids. Going back to our own must succeed, or we abort.
 *
 * I5. When the control socket ends, init ends, and the kernel ends everything in the sandbox. Only
 *     a host that said KEEP may come back: then execs and their records outlive the connection, and
 *     everything else of it ends.
 *
 * The host's side of the conversation is docs/design/control.md. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "ctl/chan.h"
#include "init/user.h"

enum {
    SG_INIT_MAX_EXECS = 1024, /* running, or ended and not released */
    SG_INIT_MAX_DIALS = 64,
    SG_INIT_MAX_WATCHES = 64, /* WATCH requests; each has its own bound of directories */
    SG_INIT_MAX_WORKERS = 64,
    SG_INIT_SPARE_FDS = 32, /* streams of execs leave these for the rest of what init does */
};

struct rusage;
struct sg_init;

/* A descriptor in the loop, embedded in the object that owns it. */
struct sg_source {
    int fd;
    uint32_t events; /* what epoll was told; 0: not registered */
    void (*ready)(struct sg_init *in, struct sg_source *s, uint32_t events);
};

#define SG_OWNER_OF(ptr, type, member)                                                             \
    ((type *)(void *)((char *)(ptr) - __builtin_offsetof(type, member)))

struct sg_worker {
    int pid;        /* 0: free */
    int report_fd;  /* what it says when it fails */
    bool is_orphan; /* its asker is gone: nobody is to be told */
    uint32_t id;
};

struct sg_init {
    int epoll_fd;
    struct sg_source ctl, listener, signals; /* ctl.fd is -1 between connections */
    struct sg_source channel;                /* channel.c: fd -1: the host sends descriptors */
    struct sg_mux *mux;                      /* owned; with a channel */
    uint32_t epoch;
    bool has_hello, is_one_user, is_over, drops_caps;
    bool keeps;       /* outlives its connection */
    bool has_hung_up; /* the connection is at its end: conn.c acts on it after the event in hand */
    uint64_t started_ns;
    struct sg_packet packet; /* the request in hand */
    struct sg_buf encoded;   /* the answer in hand; kept, since a page costs more than the answer */
    struct sg_queued *out, **out_end; /* packets that the host has not had room for */
    bool is_reclaiming; /* some execs are still to be told, then reclaim_id answered */
    uint32_t reclaim_id;
    struct sg_users users;
    struct sg_exec *execs[SG_INIT_MAX_EXECS];
    unsigned exec_count, running_count;
    int stream_ceiling; /* descriptors from here on are not for streams of execs */
    struct sg_worker workers[SG_INIT_MAX_WORKERS];
    struct sg_dial *dials[SG_INIT_MAX_DIALS];
    unsigned dial_count;
    struct sg_watch *watches[SG_INIT_MAX_WATCHES];
    unsigned watch_count;
    uint32_t last_watch_id;
    uint64_t shutdown_ns; /* when to go on to the next blow; 0: no shutdown */
    bool has_killed;
};

enum {
    SG_INIT_DROPS_CAPS = 1, /* programs have none of our capabilities, whoever they run as */
    SG_INIT_CHANNEL = 2,    /* ctl_fd is a byte channel (mux/mux.h), which outlives connections */
};

/* Serves the control socket until its end or SHUTDOWN. Takes `ctl_fd` and `listener_fd` (-1: none,
 * and nobody can come back). The process should exit right after: nothing is given back, since the
 * kernel does that faster. */
int sg_init_run(int ctl_fd, int listener_fd, unsigned flags, struct sg_err *err);

/* ---- loop.c ---- */

/* Registers, changes or (events 0) removes. Level-triggered. */
int sg_source_want(struct sg_init *in, struct sg_source *s, uint32_t events, struct sg_err *err);
/* Removes and closes. */
void sg_source_drop(struct sg_init *in, struct sg_source *s);

/* ---- conn.c ---- */

/* Greets whoever is at the other end of in->ctl. */
void sg_conn_begin(struct sg_init *in);
/* The connection has ended: so does everything that belonged to it, or init itself. */
void sg_conn_end(struct sg_init *in);
/* In place of the connection that may still be there. Takes `fd`. */
void sg_conn_take(struct sg_init *in, int fd);
/* Somebody connects: the new connection replaces the one that may still be there. */
void sg_conn_accept(struct sg_init *in, struct sg_source *s, uint32_t events);

/* ---- channel.c ---- */

/* Takes `fd`. */
int sg_channel_open(struct sg_init *in, int fd, struct sg_err *err);

/* ---- outbox.c ---- */

/* Sends now or queues, in order. `fd` (-1: none) is taken. Without a connection there is nobody to
 * tell, and before its HELLO nobody has asked for events. */
void sg_outbox_send(struct sg_init *in, struct sg_msg *m, int fd);
void sg_outbox_send_error(struct sg_init *in, uint32_t id, const struct sg_err *e);
/* Sends at once, with borrowed descriptors, or not at all: false where there is no room now, and
 * sg_outbox_flush() will be called when there is. Only while the outbox is empty. */
bool sg_outbox_try(struct sg_init *in, struct sg_msg *m, const int *fds, unsigned fd_count);
void sg_outbox_flush(struct sg_init *in);
void sg_outbox_clear(struct sg_init *in);
static inline bool sg_outbox_is_empty(const struct sg_init *in)
{
    return !in->out;
}

/* ---- serve.c ---- */

/* What a handler has in hand. It fills `reply` (of type OK, unless it says otherwise). */
struct sg_call {
    const struct sg_msg *m;
    struct sg_packet *packet;
    struct sg_user user; /* of the request, where its row names one */
    struct sg_msg reply;
    int reply_fd;
    struct sg_buf store; /* for what the reply's views point at */
    char owner[SG_USER_NAME_MAX + 1], group[SG_USER_NAME_MAX + 1];
};

/* Handlers return 0 to reply, -1 to reply with the error, SG_LATER when somebody else will. */
enum { SG_LATER = 1 };
typedef int sg_handler(struct sg_init *in, struct sg_call *c, struct sg_err *err);

void sg_serve_ready(struct sg_init *in, struct sg_source *s, uint32_t events);
int sg_serve_kill_all(int signal, struct sg_err *err);

sg_handler sg_handle_spawn, sg_handle_resize, sg_handle_close_stdin;
sg_handler sg_handle_reclaim, sg_handle_release;
sg_handler sg_handle_open, sg_handle_stat, sg_handle_list, sg_handle_make, sg_handle_move,
    sg_handle_setattr, sg_handle_remove;
sg_handler sg_handle_watch, sg_handle_unwatch, sg_handle_dial;
sg_handler sg_handle_tar_in, sg_handle_tar_out, sg_handle_find, sg_handle_write, sg_handle_put;

/* ---- session.c ---- */

/* Signals the processes of session `sid`, their descendants, and the sessions that these began. */
int sg_session_signal(int sid, int signal, struct sg_err *err);

/* ---- events of the loop for those who own what happened ---- */

bool sg_exec_exited(struct sg_init *in, int pid, int status, const struct rusage *use);
bool sg_exec_knows(const struct sg_init *in, uint32_t pid); /* running, or ended and kept */
/* Tells of the execs that RECLAIM has not told of yet, then answers it. False: no room now. */
bool sg_exec_go_on_telling(struct sg_init *in);
void sg_worker_exited(struct sg_init *in, int pid, int status);
void sg_worker_end_all(struct sg_init *in);
void sg_dial_end_all(struct sg_init *in);
void sg_watch_end_all(struct sg_init *in);
uint64_t sg_dial_deadline(const struct sg_init *in); /* UINT64_MAX: none */
void sg_dial_expire(struct sg_init *in, uint64_t now_ns);
/* Stops or resumes taking file events (I3). */
void sg_watch_pause(struct sg_init *in, bool is_paused);

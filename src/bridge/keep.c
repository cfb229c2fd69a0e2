/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/keep.h"

#include <fcntl.h>
#include <string.h>

#include "base/auto.h"
#include "base/banned.h"

enum { STREAMS = SG_SPAWN_STDIN | SG_SPAWN_STDOUT | SG_SPAWN_STDERR };

struct kept {
    struct kept *next;
    char tag[SG_CTL_MAX_TAG + 1];
    uint32_t pid, spawn_id; /* spawn_id 0: answered */
    int fds[3];             /* owned; -1: none */
};

struct sg_keeping {
    struct kept *first; /* as many as init has execs, at most */
};

struct sg_keeping *sg_keeping_new(void)
{
    return sg_new(struct sg_keeping);
}

static struct kept **find(struct sg_keeping *k, const char *tag)
{
    struct kept **at = &k->first;
    while (*at && strcmp((*at)->tag, tag) != 0)
        at = &(*at)->next;
    return at;
}

static void forget(struct kept **at)
{
    struct kept *e = *at;
    if (!e)
        return;
    *at = e->next;
    for (unsigned i = 0; i < 3; i++)
        sg_drop_fd(&e->fds[i]);
    free(e);
}

void sg_keeping_free(struct sg_keeping *k)
{
    while (k->first)
        forget(&k->first);
    free(k);
}

static bool encode_anew(struct sg_packet *p)
{
    struct sg_buf bytes;
    sg_buf_init(&bytes, SG_CTL_MAX_BYTES);
    if (sg_msg_encode(&p->msg, &bytes, NULL) < 0) {
        sg_buf_done(&bytes);
        return false;
    }
    sg_buf_done(&p->bytes);
    p->bytes = bytes;
    return sg_msg_decode(p->bytes.p, p->bytes.n, SG_ROLE_NONE, &p->msg, NULL) == 0;
}

/* ---- to init ---- */

/* The far ends go in, the near ends stay. A tag that is in use is init's to refuse. */
static bool keep_spawn(struct sg_keeping *k, struct sg_packet *p)
{
    struct sg_msg_spawn *s = &p->msg.spawn;
    const unsigned named = (unsigned)__builtin_popcount(s->flags & STREAMS);
    if (!(s->flags & SG_SPAWN_KEEP) || p->fd_count != 2 * named || *find(k, s->tag.p))
        return true;
    struct kept *e = sg_new(struct kept);
    unsigned next = named;
    memcpy(e->tag, s->tag.p, s->tag.n);
    e->spawn_id = p->msg.id;
    for (unsigned i = 0; i < 3; i++)
        e->fds[i] = s->flags & 1u << i ? sg_packet_take_fd(p, next++) : -1;
    e->next = k->first;
    k->first = e;
    p->fd_count = named;
    s->flags &= ~(uint32_t)SG_SPAWN_KEEP;
    return encode_anew(p);
}

/* With our end, and the host's own, the pipe ends behind what is still in it: nothing for init. */
static bool close_stdin(struct sg_keeping *k, struct sg_mux *m, const struct sg_msg *msg)
{
    for (struct kept *e = k->first; e; e = e->next) {
        if (e->pid != msg->close_stdin.pid || e->fds[0] < 0)
            continue;
        sg_drop_fd(&e->fds[0]);
        const struct sg_msg ok = { .type = SG_MSG_OK, .id = msg->id, .epoch = msg->epoch };
        sg_mux_say(m, &ok);
        return false;
    }
    return true;
}

bool sg_keeping_outgoing(struct sg_keeping *k, struct sg_mux *m, struct sg_packet *p)
{
    if (p->msg.type == SG_MSG_SPAWN)
        return keep_spawn(k, p);
    if (p->msg.type == SG_MSG_CLOSE_STDIN)
        return close_stdin(k, m, &p->msg);
    if (p->msg.type == SG_MSG_RELEASE)
        forget(find(k, p->msg.release.tag.p));
    return true;
}

/* ---- from init ---- */

static void spawn_answered(struct sg_keeping *k, const struct sg_msg *msg)
{
    for (struct kept **at = &k->first; *at; at = &(*at)->next) {
        if ((*at)->spawn_id != msg->id || !msg->id)
            continue;
        (*at)->spawn_id = 0;
        if (msg->type == SG_MSG_SPAWNED)
            (*at)->pid = msg->spawned.pid;
        else
            forget(at);
        return;
    }
}

/* The last bytes of one that has ended may still be on their way: then it is told of as one that
 * runs, and its end comes behind them. */
static bool tell_kept(struct sg_keeping *k, struct sg_mux *m, struct sg_packet *p)
{
    struct sg_msg_kept *told = &p->msg.kept;
    const struct kept *e = *find(k, told->tag.p);
    const bool is_early = told->flags & SG_KEPT_EXITED && sg_mux_is_busy(m, told->tag.p);
    const struct sg_msg end = { .type = SG_MSG_EXITED,
                                .epoch = p->msg.epoch,
                                .exited = { told->pid, told->code, told->signal, told->cpu_ns,
                                            told->max_rss_bytes, told->tag } };
    if (is_early) {
        told->flags &= ~(uint32_t)SG_KEPT_EXITED;
        told->code = told->signal = 0;
        told->cpu_ns = told->max_rss_bytes = 0;
    }
    for (unsigned i = 0; e && i < 3; i++) {
        const int fd = e->fds[i] < 0 ? -1 : fcntl(e->fds[i], F_DUPFD_CLOEXEC, 3);
        if (fd < 0)
            continue;
        told->flags |= 1u << i;
        p->fds[p->fd_count++] = fd;
    }
    if (is_early)
        sg_mux_say_after(m, told->tag.p, &end);
    return encode_anew(p);
}

bool sg_keeping_incoming(struct sg_keeping *k, struct sg_mux *m, struct sg_packet *p)
{
    if (p->msg.type == SG_MSG_KEPT)
        return p->fd_count == 0 && tell_kept(k, m, p);
    if (p->msg.type == SG_MSG_SPAWNED || p->msg.type == SG_MSG_ERROR)
        spawn_answered(k, &p->msg);
    return true;
}

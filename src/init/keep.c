/* SPDX-License-Identifier: Apache-2.0 */
/* Keeping: what a host that comes back finds.
 *
 * The host names an exec by a tag of its own and may leave its ends of the streams with us. They
 * are only ever held open: a pipe whose reader died keeps its bytes, its writer at worst waits, and
 * nobody dies of SIGPIPE. RECLAIM hands out duplicates (sending makes them), RELEASE closes ours.
 *
 * RECLAIM tells one exec at a time, as the host makes room: a thousand records with three
 * descriptors each would not fit into a socket, and a queue would have to hold them all twice. */
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "init/exec.h"
#include "base/banned.h"

enum { STREAMS = SG_SPAWN_STDIN | SG_SPAWN_STDOUT | SG_SPAWN_STDERR };

static unsigned named_streams(const struct sg_msg_spawn *m)
{
    return (unsigned)__builtin_popcount(m->flags & STREAMS);
}

unsigned sg_keep_expected_fds(const struct sg_msg_spawn *m)
{
    return named_streams(m) * (m->flags & SG_SPAWN_KEEP ? 2 : 1);
}

static struct sg_exec *find_tag(const struct sg_init *in, const char *tag)
{
    for (unsigned i = 0; i < in->exec_count; i++)
        if (strcmp(in->execs[i]->tag, tag) == 0)
            return in->execs[i];
    return NULL;
}

int sg_keep_check(const struct sg_init *in, const struct sg_msg_spawn *m, struct sg_err *err)
{
    if (!in->keeps) {
        if (m->flags & SG_SPAWN_KEEP)
            return sg_fail(err, SG_CONFLICT, "streams are kept only after a hello that says so");
        return 0;
    }
    if (!m->tag.n)
        return sg_fail(err, SG_INVALID, "what is kept needs a tag");
    if (find_tag(in, m->tag.p))
        return sg_fail(err, SG_CONFLICT, "tag %s is in use", sg_quote(m->tag.p).s);
    return 0;
}

void sg_keep_take(struct sg_exec *e, struct sg_call *c)
{
    const struct sg_msg_spawn *m = &c->m->spawn;
    unsigned next = named_streams(m);
    for (unsigned i = 0; i < 3; i++) {
        bool is_kept = m->flags & SG_SPAWN_KEEP && m->flags & 1u << i;
        e->near_fds[i] = is_kept ? sg_packet_take_fd(c->packet, next++) : -1;
    }
}

void sg_keep_drop(struct sg_exec *e)
{
    for (unsigned i = 0; i < 3; i++)
        sg_drop_fd(&e->near_fds[i]);
}

/* ---- the requests ---- */

static int demand_keeping(const struct sg_init *in, struct sg_err *err)
{
    return in->keeps ? 0 : sg_fail(err, SG_CONFLICT, "nothing is kept before a hello says so");
}

static bool tell(struct sg_init *in, const struct sg_exec *e)
{
    bool has_ended = e->state == SG_EXEC_ENDED;
    struct sg_msg m = { .type = SG_MSG_KEPT,
                        .kept = { .tag = sg_text_of(e->tag),
                                  .pid = e->pid,
                                  .flags = (has_ended ? SG_KEPT_EXITED : 0) |
                                           (e->has_pty ? SG_KEPT_PTY : 0) } };
    if (has_ended) {
        m.kept.code = e->end.code;
        m.kept.signal = e->end.signal;
        m.kept.cpu_ns = e->end.cpu_ns;
        m.kept.max_rss_bytes = e->end.max_rss_bytes;
    }
    int fds[3];
    unsigned count = 0;
    for (unsigned i = 0; i < 3; i++)
        if (e->near_fds[i] >= 0) {
            m.kept.flags |= 1u << i;
            fds[count++] = e->near_fds[i];
        }
    return sg_outbox_try(in, &m, fds, count);
}

bool sg_exec_go_on_telling(struct sg_init *in)
{
    for (unsigned i = 0; i < in->exec_count; i++) {
        struct sg_exec *e = in->execs[i];
        if (!e->is_told && !tell(in, e))
            return false;
        e->is_told = true;
    }
    struct sg_msg ok = { .type = SG_MSG_OK, .id = in->reclaim_id };
    in->is_reclaiming = false;
    sg_outbox_send(in, &ok, -1);
    return true;
}

int sg_handle_reclaim(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    if (demand_keeping(in, err) < 0)
        return -1;
    for (unsigned i = 0; i < in->exec_count; i++)
        in->execs[i]->is_told = false;
    in->is_reclaiming = true;
    in->reclaim_id = c->m->id;
    (void)sg_exec_go_on_telling(in);
    return SG_LATER;
}

int sg_handle_release(struct sg_init *in, struct sg_call *c, struct sg_err *err)
{
    const struct sg_text *tag = &c->m->release.tag;
    if (demand_keeping(in, err) < 0)
        return -1;
    struct sg_exec *e = tag->n ? find_tag(in, tag->p) : NULL;
    if (!e)
        return sg_fail(err, SG_NOT_FOUND, "no exec has the tag %s", sg_quote(tag->p).s);
    if (e->state == SG_EXEC_ENDED)
        sg_exec_forget(in, e);
    else
        sg_keep_drop(e);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The gate wants a connection into a sandbox, for another one of the same private network. Whether
 * they are on one is looked at here as well: nothing that the gate could be brought to say leads
 * from one organisation to another. The sandbox's init dials, as for previews; one that is paused
 * is not woken. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "manager/files_internal.h"
#include "manager/life.h"
#include "manager/net.h"
#include "tier/peer.h"

#include "base/banned.h"

struct meeting {
    struct sg_manager *m;
    uint32_t ticket;
    char sandbox[SG_ID_LEN + 1]; /* whose connection it is */
    char to[SG_ID_LEN + 1];
};

/* A gate that is gone has no use for it. */
static void tell(const struct meeting *t, const int *fd, int sys)
{
    struct sg_msg m = { .type = SG_MSG_G_MET };
    m.g_met = (struct sg_msg_g_met) { sg_text_of(t->sandbox), sg_text_of(t->to), t->ticket,
                                      (uint32_t)sys };
    if (t->m->gate)
        (void)sg_peer_ask(t->m->gate, &m, fd, fd ? 1 : 0, NULL, NULL, NULL);
}

static void dialled(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct meeting *t = arg;
    if (p && p->fd_count)
        tell(t, &p->fds[0], 0);
    else
        tell(t, NULL, err && err->sys ? err->sys : EHOSTUNREACH);
    free(t);
}

static bool know_each_other(const struct sg_sandbox *a, const struct sg_sandbox *b)
{
    for (size_t i = 0; a->org == b->org && i < a->network.networks.n; i++)
        if (sg_netnames_has(&b->network.networks, a->network.networks.v[i]))
            return true;
    return false;
}

void sg_net_meet(struct sg_manager *m, const struct sg_msg_g_meet *q)
{
    const struct sg_sandbox *from = sg_map_find(&m->sandboxes, q->sandbox.p);
    struct sg_sandbox *to = sg_map_find(&m->sandboxes, q->to.p);
    struct sg_msg dial = { .type = SG_MSG_DIAL };
    struct sg_err err = { 0 };
    if (!from)
        return;
    struct meeting *t = sg_new(struct meeting);
    *t = (struct meeting) { .m = m, .ticket = q->ticket };
    memcpy(t->sandbox, from->id.s, sizeof t->sandbox);
    (void)snprintf(t->to, sizeof t->to, "%s", q->to.p);
    dial.dial = (struct sg_msg_dial) { sg_text_of(""), sg_text_of(""), SG_DIAL_TCP, q->port };
    if (!to || !know_each_other(from, to))
        (void)sg_fail(&err, SG_DENIED, "they are not on one network");
    else if (sg_files_send(to, &dial, NULL, 0, dialled, t, &err) == 0) {
        sg_sandbox_touch(to);
        return;
    }
    tell(t, NULL, err.kind == SG_DENIED ? EACCES : err.sys ? err.sys : EHOSTUNREACH);
    free(t);
}

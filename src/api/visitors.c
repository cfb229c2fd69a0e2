/* SPDX-License-Identifier: Apache-2.0 */
/* Visitors of open ports: strangers, of whom any number may come. So each sandbox has a crowd with
 * a bound, which neither its organisation nor the ports of other sandboxes feel.
 *
 * C1. A connection belongs to the crowd of the sandbox that it asked for last, until it ends: idle
 *     ones count.
 * C2. Where a crowd is full, the one that is idle for longest makes room; where all are busy, the
 *     new one is refused and its connection ends. */
#include <string.h>

#include "api/internal.h"
#include "base/auto.h"
#include "base/banned.h"

struct sg_crowd {
    char id[SG_ID_LEN + 1];
    unsigned n;
    struct sg_conn *conns; /* who asked last comes first */
};

void sg_server_leave_crowd(struct sg_conn *c)
{
    struct sg_crowd *crowd = sg_take_ptr(&c->crowd);
    if (!crowd)
        return;
    *c->crowd_link = c->crowd_next;
    if (c->crowd_next)
        c->crowd_next->crowd_link = c->crowd_link;
    if (--crowd->n)
        return;
    (void)sg_map_remove(&c->server->crowds, crowd->id);
    free(crowd);
}

static bool is_idle(const struct sg_conn *c)
{
    return !c->exchange && !c->partial && !c->in.n && !c->is_dead && sg_sock_is_empty(&c->sock);
}

/* The crowd may be gone with it. */
static bool make_room(const struct sg_crowd *crowd)
{
    struct sg_conn *longest = NULL;
    for (struct sg_conn *c = crowd->conns; c; c = c->crowd_next)
        if (is_idle(c))
            longest = c;
    if (!longest)
        return false;
    sg_conn_kill(longest);
    sg_server_leave_crowd(longest);
    return true;
}

static struct sg_crowd *crowd_of(struct sg_server *s, const char *id)
{
    struct sg_crowd *crowd = sg_map_find(&s->crowds, id);
    if (crowd)
        return crowd;
    crowd = sg_new(struct sg_crowd);
    memcpy(crowd->id, id, sizeof crowd->id);
    sg_map_put(&s->crowds, crowd->id, crowd);
    return crowd;
}

int sg_call_visit(struct sg_call *c, const char *id, struct sg_err *err)
{
    struct sg_conn *conn = c->conn;
    sg_server_leave_crowd(conn);
    struct sg_crowd *crowd = sg_map_find(&c->server->crowds, id);
    if (crowd && crowd->n >= c->server->options.max_visitors && !make_room(crowd)) {
        sg_exchange_of(c)->closes = true;
        return sg_fail(err, SG_EXHAUSTED, "the sandbox has %u visitors already", crowd->n);
    }
    crowd = crowd_of(c->server, id);
    conn->crowd = crowd;
    conn->crowd_next = crowd->conns;
    conn->crowd_link = &crowd->conns;
    if (conn->crowd_next)
        conn->crowd_next->crowd_link = &conn->crowd_next;
    crowd->conns = conn;
    crowd->n++;
    return 0;
}

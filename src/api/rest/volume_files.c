/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a volume without a sandbox of the caller's: the handlers are those of a sandbox's files,
 * and what they get is the manager's own one that shows the volume. It is asked for first; the
 * handler then finds it by {volume} (sg_rest_sandbox). */
#include <string.h>

#include "api/rest/rest.h"
#include "api/routes.h"
#include "base/auto.h"
#include "manager/volume.h"
#include "base/banned.h"

struct visit {
    struct sg_call *call;
    sg_rest_handler *handler;
    void (*settled)(struct sg_call *c, const struct sg_err *err);
};

static const struct {
    enum sg_method method;
    const char *tail; /* of the route, behind /files */
    sg_rest_handler *handler;
} rows[] = {
    { M_GET, "", sg_rest_file_get },          { M_PUT, "", sg_rest_file_put },
    { M_DELETE, "", sg_rest_file_delete },    { M_GET, "/stat", sg_rest_file_stat },
    { M_GET, "/list", sg_rest_file_list },    { M_GET, "/search", sg_rest_file_search },
    { M_POST, "/mkdir", sg_rest_file_mkdir }, { M_POST, "/move", sg_rest_file_move },
    { M_POST, "/chmod", sg_rest_file_chmod }, { M_GET, "/tar", sg_rest_tar_get },
    { M_PUT, "/tar", sg_rest_tar_put },
};

static sg_rest_handler *handler_of(const struct sg_route *r)
{
    static const char files[] = "/files";
    const char *tail = strstr(r->path, files) + sizeof files - 1;
    for (size_t i = 0; i < SG_COUNT(rows); i++)
        if (rows[i].method == r->method && strcmp(rows[i].tail, tail) == 0)
            return rows[i].handler;
    return NULL;
}

static void arrived(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    const struct visit *v = arg;
    struct sg_call *c = v->call;
    struct sg_err own = { 0 };
    (void)s;
    if (err)
        sg_reply_error(c, err);
    else if (v->handler(c, &own) < 0)
        sg_reply_error(c, &own);
}

int sg_rest_volume_files(struct sg_call *c, struct sg_err *err)
{
    struct sg_volume *volume = sg_volume_find(c->manager, &c->who, sg_call_param(c, "volume"), err);
    struct visit *v = sg_arena_alloc(&c->arena, sizeof *v);
    if (!volume)
        return -1;
    if (!v)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    *v = (struct visit) { .call = c, .handler = handler_of(c->route) };
    if (c->route->flags & SG_ROUTE_STREAM)
        sg_call_pause_body(c, true);
    return sg_volume_visit(c->manager, volume, arrived, v, err);
}

static void synced(void *arg, const struct sg_err *err)
{
    const struct visit *v = arg;
    v->settled(v->call, err);
}

void sg_rest_settle(struct sg_call *c, void (*then)(struct sg_call *c, const struct sg_err *err))
{
    struct sg_err err = { 0 };
    if (!*sg_call_param(c, "volume")) {
        then(c, NULL);
        return;
    }
    struct visit *v = sg_arena_alloc(&c->arena, sizeof *v);
    if (!v) {
        (void)sg_fail(&err, SG_EXHAUSTED, "no room for the call");
        then(c, &err);
        return;
    }
    *v = (struct visit) { .call = c, .settled = then };
    if (sg_volume_sync(c->manager, synced, v, &err) < 0)
        then(c, &err);
}

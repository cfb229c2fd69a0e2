/* SPDX-License-Identifier: Apache-2.0 */
/* Routes that every installation has, whichever doors are open. */
#include <inttypes.h>

#include "api/internal.h"
#include "base/auto.h"
#include "manager/manager.h"
#include "base/banned.h"

enum { MAX_METRICS = 4 << 20 };

static int health(struct sg_call *c, struct sg_err *err)
{
    (void)err;
    sg_reply_text(c, 200, "application/json", "{\"status\":\"ok\"}");
    return 0;
}

static void add_stats(const struct sg_server_stats *s, struct sg_buf *out)
{
    sg_buf_addf(out,
                "# HELP sandglass_http_connections Open connections.\n"
                "# TYPE sandglass_http_connections gauge\n"
                "sandglass_http_connections %" PRIu64 "\n"
                "# HELP sandglass_http_refused_total Connections refused: too many were open.\n"
                "# TYPE sandglass_http_refused_total counter\n"
                "sandglass_http_refused_total %" PRIu64 "\n"
                "# HELP sandglass_http_requests_total Requests answered, by class of status.\n"
                "# TYPE sandglass_http_requests_total counter\n",
                s->connections, s->refused);
    for (unsigned i = 1; i < SG_COUNT(s->by_class); i++)
        sg_buf_addf(out, "sandglass_http_requests_total{class=\"%uxx\"} %" PRIu64 "\n", i,
                    s->by_class[i]);
}

static int metrics(struct sg_call *c, struct sg_err *err)
{
    sg_auto_buf out;
    sg_buf_init(&out, MAX_METRICS);
    sg_manager_metrics(c->manager, &out);
    add_stats(sg_server_stats(c->server), &out);
    if (sg_buf_check(&out, "the metrics", err) < 0)
        return -1;
    sg_reply_bytes(c, 200, "text/plain; version=0.0.4; charset=utf-8", out.p, out.n);
    return 0;
}

static const struct sg_route routes[] = {
    { M_GET, "/health", 0, SG_ROUTE_OPEN, health, "Whether the server answers" },
    { M_GET, "/metrics", 0, SG_ROUTE_OPEN, metrics, "Counters in Prometheus text format" },
};
const struct sg_route_table sg_base_routes = { routes, SG_COUNT(routes) };

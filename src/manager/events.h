/* SPDX-License-Identifier: Apache-2.0 */
/* Events: what happened to sandboxes, in order, for whoever listens. The last SG_EVENTS_KEPT stay
 * in memory for listeners that come back; all are in the store for a while. */
#pragma once

#include <stdint.h>

#include "manager/tenant.h"

enum { SG_EVENTS_KEPT = 4096 };

struct sg_event {
    uint64_t seq;
    int64_t at_ms;
    char org[SG_ID_LEN + 1], sandbox[SG_ID_LEN + 1];
    const char *type; /* "sandbox.created", "sandbox.paused", "exec.ended", ...; static */
    char *data;       /* owned: JSON object */
};

struct sg_listener {
    struct sg_who who;
    char sandbox[SG_ID_LEN + 1]; /* "": all that `who` may see */
    uint64_t seen;               /* seq of the last one delivered */
    void (*wake)(struct sg_listener *l);
    struct sg_listener *next, **link, **walk; /* events.c's own */
};
/* `after`: UINT64_MAX for new ones only. */
void sg_events_listen(struct sg_manager *m, struct sg_listener *l, uint64_t after);
void sg_events_leave(struct sg_listener *l);
/* The next one for the listener, or NULL. Borrowed until the loop runs on. */
const struct sg_event *sg_events_next(struct sg_manager *m, struct sg_listener *l);

/* The manager's own. `data` may be NULL. */
void sg_events_add(struct sg_manager *m, const struct sg_org *org, const char *sandbox,
                   const char *type, const char *data);

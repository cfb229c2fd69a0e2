/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix. A row is a state, a column an event; NO means that the event is refused there.
 *
 * What ends a sandbox (destroy, timeout, idle) is possible in every state but waits, in
 * lifecycle.c, for what is under way. What happens to it (oom, crash) is possible in every state in
 * which it may have a cell. */
#include "manager/state.h"

#include <string.h>

#include "base/auto.h"

#include "base/banned.h"

enum { NO = -1 };

#define CR SBX_CREATING
#define RU SBX_RUNNING
#define PG SBX_PAUSING
#define PD SBX_PAUSED
#define RE SBX_RESUMING
#define SG SBX_STOPPING
#define SD SBX_STOPPED
#define FA SBX_FAILED

/* clang-format off */
static const signed char next_state[SBX_STATE_COUNT][EV_COUNT] = {
    /*                 READY PAUSE PAUSED RESUME RESUMED STOP STOPPED START TIMEOUT IDLE OOM CRASH FAIL RETRY DESTROY */
    [SBX_CREATING] = { RU,   NO,   NO,    NO,    NO,     NO,  NO,     NO,   NO,     NO,  FA, FA,   FA,  CR,   SG },
    [SBX_RUNNING]  = { NO,   PG,   NO,    NO,    NO,     SG,  NO,     NO,   SG,     SG,  FA, FA,   FA,  NO,   SG },
    [SBX_PAUSING]  = { NO,   NO,   PD,    NO,    NO,     NO,  NO,     NO,   SG,     NO,  FA, FA,   RU,  NO,   SG },
    [SBX_PAUSED]   = { NO,   NO,   NO,    RE,    NO,     NO,  NO,     NO,   SG,     NO,  FA, FA,   FA,  NO,   SG },
    [SBX_RESUMING] = { NO,   NO,   NO,    NO,    RU,     NO,  NO,     NO,   SG,     NO,  FA, FA,   PD,  NO,   SG },
    [SBX_STOPPING] = { NO,   NO,   NO,    NO,    NO,     NO,  SD,     NO,   SG,     SG,  FA, FA,   RU,  NO,   SG },
    [SBX_STOPPED]  = { NO,   NO,   NO,    NO,    NO,     NO,  NO,     RU,   SG,     SG,  FA, FA,   FA,  NO,   SG },
    [SBX_FAILED]   = { NO,   NO,   NO,    NO,    NO,     NO,  NO,     NO,   SG,     SG,  NO, NO,   NO,  CR,   SG },
};
/* clang-format on */

static const char *const state_names[SBX_STATE_COUNT] = {
    [SBX_CREATING] = "creating", [SBX_RUNNING] = "running",   [SBX_PAUSING] = "pausing",
    [SBX_PAUSED] = "paused",     [SBX_RESUMING] = "resuming", [SBX_STOPPING] = "stopping",
    [SBX_STOPPED] = "stopped",   [SBX_FAILED] = "failed",
};

static const char *const event_names[EV_COUNT] = {
    [EV_READY] = "ready",     [EV_PAUSE] = "pause",     [EV_PAUSED] = "paused",
    [EV_RESUME] = "resume",   [EV_RESUMED] = "resumed", [EV_STOP] = "stop",
    [EV_STOPPED] = "stopped", [EV_START] = "start",     [EV_TIMEOUT] = "timeout",
    [EV_IDLE] = "idle",       [EV_OOM] = "oom",         [EV_CRASH] = "crash",
    [EV_FAIL] = "fail",       [EV_RETRY] = "retry",     [EV_DESTROY] = "destroy",
};

const char *sg_state_name(enum sg_state s)
{
    return (unsigned)s < SBX_STATE_COUNT ? state_names[s] : "unknown";
}

int sg_state_parse(const char *name, enum sg_state *ret)
{
    for (unsigned i = 0; i < SBX_STATE_COUNT; i++) {
        if (strcmp(name, state_names[i]) == 0) {
            *ret = (enum sg_state)i;
            return 0;
        }
    }
    return -1;
}

const char *sg_state_event_name(enum sg_state_event e)
{
    return (unsigned)e < EV_COUNT ? event_names[e] : "unknown";
}

int sg_state_next(enum sg_state s, enum sg_state_event e, enum sg_state *ret, struct sg_err *err)
{
    signed char next = next_state[s][e];

    if (next == NO)
        return sg_fail(err, SG_CONFLICT, "cannot %s a sandbox that is %s", event_names[e],
                       state_names[s]);
    *ret = (enum sg_state)next;
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The one state machine: next_state[state][event]. */
#pragma once

#include "base/err.h"

enum sg_state {
    SBX_CREATING,
    SBX_RUNNING,
    SBX_PAUSING,
    SBX_PAUSED,
    SBX_RESUMING,
    SBX_STOPPING, /* on the way to "stopped", or to its end */
    SBX_STOPPED,  /* no process of its own runs; its files are kept */
    SBX_FAILED,
    SBX_STATE_COUNT,
};
enum sg_state_event {
    EV_READY,   /* the launcher answered                       */
    EV_PAUSE,   /* asked to                                    */
    EV_PAUSED,  /* the freezer confirmed                       */
    EV_RESUME,  /* asked to                                    */
    EV_RESUMED, /* thawed                                      */
    EV_STOP,    /* asked to end its processes                  */
    EV_STOPPED, /* they are gone                               */
    EV_START,   /* asked to run again                          */
    EV_TIMEOUT, /* its lifetime is over, and the action is kill */
    EV_IDLE,    /* nothing happened for its idle time: kill    */
    EV_OOM,     /* its pid 1 was ended for lack of memory      */
    EV_CRASH,   /* its pid 1 is gone                           */
    EV_FAIL,    /* what was under way did not work             */
    EV_RETRY,   /* a fresh one is made, as its caller asked    */
    EV_DESTROY, /* asked to                                    */
    EV_COUNT,
};

const char *sg_state_name(enum sg_state s);
int sg_state_parse(const char *name, enum sg_state *ret); /* -1: no such state */
const char *sg_state_event_name(enum sg_state_event e);

/* SG_CONFLICT names state and event where the matrix has no way. */
int sg_state_next(enum sg_state s, enum sg_state_event e, enum sg_state *ret, struct sg_err *err);

/* SPDX-License-Identifier: Apache-2.0 */
/* An execution as a reply: a line of JSON for each event, as it comes. Both doors stream the same
 * lines; what differs is how a request is read and how an error is told. */
#pragma once

#include "api/call.h"
#include "manager/code.h"

/* Runs the code and answers the call with its events; uses the call's `state`. Where the client
 * goes away the execution is interrupted. */
int sg_code_reply(struct sg_call *c, struct sg_code_context *context,
                  const struct sg_code_spec *spec, struct sg_err *err);
/* The events of one that was begun before; where this client goes away, it goes on. */
int sg_code_reply_again(struct sg_call *c, struct sg_code_context *context, const char *run,
                        struct sg_err *err);

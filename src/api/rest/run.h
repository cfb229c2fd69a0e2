/* SPDX-License-Identifier: Apache-2.0 */
/* A task as a request and as a reply; one alone, and those of a batch. */
#pragma once

#include "api/rest/rest.h"
#include "manager/task.h"

struct sg_rest_task_more { /* what only a task of a batch has */
    const struct sg_jval *after;
    bool always;
};
/* `v` is the body of POST /v1/run. All of `ret` lives in the call's arena. `more` NULL: alone. */
int sg_rest_read_task(struct sg_call *c, const struct sg_jval *v, struct sg_task_spec *ret,
                      struct sg_rest_task_more *more, struct sg_err *err);
/* The members alone, inside an object that is open. */
void sg_rest_put_result(struct sg_json *j, const struct sg_manager *m,
                        const struct sg_task_result *r);

/* SPDX-License-Identifier: Apache-2.0 */
/* A create on its way from what was asked for (create_rules.c) to a sandbox (create.c), be it a new
 * one or one that has waited (standby.c). */
#pragma once

#include "manager/life.h"

/* What was asked for, with the defaults filled in. Borrows. */
struct sg_plan {
    const char *template, *snapshot; /* snapshot NULL: none */
    const struct sg_traits *traits;  /* NULL: none */
    const char *built, *build;       /* the same */
    struct sg_sandbox_limits limits;
    uint64_t timeout_ms;
    struct sg_ask ask;
    struct sg_decision decision;
    const struct sg_policy *network; /* NULL: none */
};

int sg_plan_make(struct sg_manager *m, const struct sg_who *who, const struct sg_create *c,
                 struct sg_plan *ret, struct sg_err *err);
char *sg_plan_decision(const struct sg_plan *p); /* as JSON; returns owned */

void sg_create_running(struct sg_sandbox *s); /* the operation's end: its caller is told */

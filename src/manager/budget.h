/* SPDX-License-Identifier: Apache-2.0 */
/* Budgets: what an organisation may spend in a period, reckoned by the operator's own prices.
 *
 * G1. What was spent is added up in memory as it is counted (usage.c), and from the store at the
 *     start and when a budget is set: the two are of the same rows.
 * G2. A warning and an exhaustion are told once a period, in an event and in the record.
 * G3. Files can always be fetched, sandboxes always be ended: only what costs more is refused. */
#pragma once

#include "manager/manager.h"

struct sg_org_row;

/* SG_EXHAUSTED, naming the remedy. */
int sg_budget_admit(struct sg_manager *m, struct sg_org *o, struct sg_err *err);
void sg_budget_used(struct sg_manager *m, struct sg_org *o, const struct sg_amounts *a);
void sg_budget_tick(struct sg_manager *m); /* every second: periods end, what runs is paused */

/* It is new, or was loaded: finds out what was spent of it. */
void sg_budget_begin(struct sg_manager *m, struct sg_org *o);
char *sg_budget_text(const struct sg_budget *b); /* JSON; returns owned, NULL of none */
void sg_budget_load(const char *text, struct sg_budget *ret);

/* SPDX-License-Identifier: Apache-2.0 */
/* The holder of a user namespace in the making: see userns.c. */
#pragma once

enum { SG_HOLD_PATIENCE_S = 10 };

/* Waits on the futex word (a uint32_t, the parent's pid) until it is woken, killed, or out of
 * patience. */
void sg_hold_child(void *word);

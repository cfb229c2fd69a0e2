/* SPDX-License-Identifier: Apache-2.0 */
/* Between the restorer's first instructions and its last. */
#pragma once

#include "warm/image.h"

/* Called on a stack of its own, with the one that exec made. */
_Noreturn void sg_restore_main(uint64_t *sp);
_Noreturn void sg_restore_jump(const struct sg_warm_registers *r);

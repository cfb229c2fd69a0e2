/* SPDX-License-Identifier: Apache-2.0 */
/* Public servers that answer questions for names over HTTPS, where nobody on the way sees which. */
#pragma once

#include "net/rule.h"

/* By its name, wherever that leads; by its address on the ports that it answers at. */
bool sg_net_is_resolver(const struct sg_target *t);

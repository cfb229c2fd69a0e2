/* SPDX-License-Identifier: Apache-2.0 */
/* What an operation is, from flags to the members of a request. */
#pragma once

#include "cli/api.h"

void sg_put_ask(struct sg_json *j, const struct sg_cli *cli);

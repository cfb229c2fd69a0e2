/* SPDX-License-Identifier: Apache-2.0 */
/* The `host` template: the machine's own programs, without the machine's own data. */
#pragma once

#include "image/template.h"

/* Fills `t` (initialised by sg_template_init). Builds the skeleton when there is none for the
 * present state of the machine; else costs some thirty stat calls. */
int sg_host_open(const char *state_dir, struct sg_template *t, struct sg_err *err);

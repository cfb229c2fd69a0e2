/* SPDX-License-Identifier: Apache-2.0 */
/* A command in a sandbox of the service, with our own input and output: `exec` and `shell ID`. */
#pragma once

#include "cli/cmd.h"

/* Returns our exit code. */
int sg_exec_in(struct sg_cli *cli, const char *sandbox, char *const *argv);

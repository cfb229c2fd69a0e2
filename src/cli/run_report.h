/* SPDX-License-Identifier: Apache-2.0 */
/* How a run ended, in words and as JSON. */
#pragma once

#include "cli/cmd.h"
#include "cli/run.h"

/* Lines on stderr: which limit ended it, what was lost, and what was asked for but cannot be had
 * here. */
void sg_run_tell(const struct sg_cli *cli, const struct sg_run_spec *spec,
                 const struct sg_run_result *res);

/* The result as one JSON object on stdout, with the captured output. Returns the exit code of
 * writing it. */
int sg_run_print_json(const struct sg_cli *cli, const struct sg_run_spec *spec,
                      const struct sg_run_result *res, int exit_code);

/* Did somebody set this option (by its flag's name), or is it the default? */
bool sg_run_was_asked_for(const struct sg_cli *cli, const char *flag);

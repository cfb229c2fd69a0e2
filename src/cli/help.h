/* SPDX-License-Identifier: Apache-2.0 */
/* --help and `sandglass help`, written from the tables of commands and options. */
#pragma once

#include "cli/cmd.h"

/* The command of one word or of two; NULL when there is none. `used` is how many it took. */
const struct sg_command *sg_help_find(const char *first, const char *second, int *ret_used);

bool sg_help_is_group(const char *word); /* "template": the first word of several commands */

/* Each prints on stdout and returns the exit code. */
int sg_help_overview(void);
int sg_help_group(const char *word);
int sg_help_command(const struct sg_command *command);

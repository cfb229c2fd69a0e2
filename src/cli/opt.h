/* SPDX-License-Identifier: Apache-2.0 */
/* Flags of the command line, by the option table. First scanned, then (when the files that
 * --config may name were read) applied: flags win over files wherever they stand. */
#pragma once

#include "cli/cmd.h"

struct sg_flag {
    const struct sg_option *option;
    struct sg_str value;
    char spelled[32]; /* "--memory", "-m": as the user wrote it, for messages */
};

struct sg_flags {
    struct sg_flag *v; /* owned */
    size_t n;
    char **args; /* owned array of borrowed words; NULL-terminated */
    int arg_count;
    bool wants_help; /* --help or -h was among them: everything else is moot */
};

/* `argv` is what follows the command's name. SG_INVALID names the mistake. */
int sg_flags_scan(const struct sg_command *command, int argc, char **argv, struct sg_flags *ret,
                  struct sg_err *err);
void sg_flags_done(struct sg_flags *f);

/* The last --config, or NULL. Returns owned. */
char *sg_flags_config_file(const struct sg_flags *f);

int sg_flags_apply(const struct sg_flags *f, struct sg_config *c, struct sg_origins *o,
                   struct sg_err *err);

#define sg_auto_flags __attribute__((cleanup(sg_flags_done))) struct sg_flags

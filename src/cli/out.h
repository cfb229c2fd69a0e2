/* SPDX-License-Identifier: Apache-2.0 */
/* What the program says: results on stdout, talk on stderr, and the exit code of each failure. */
#pragma once

#include "base/buf.h"
#include "cli/cmd.h"

enum {
    SG_EXIT_OK = 0,
    SG_EXIT_FAILED = 1,
    SG_EXIT_USAGE = 2,
    SG_EXIT_TRY_LATER = 75,
    SG_EXIT_TIMEOUT = 124,     /* run: the command's deadline passed */
    SG_EXIT_NOT_STARTED = 125, /* run: we failed before the command ran */
    SG_EXIT_NOT_RUNNABLE = 126,
    SG_EXIT_NOT_FOUND = 127,
    SG_EXIT_SIGNAL = 128, /* plus the number of the signal that ended it */
};

/* Reports a failure, once: "sandglass: message" on stderr, or with --json an object on stdout.
 * Returns the exit code of its kind. */
int sg_cli_fail(const struct sg_cli *cli, const struct sg_err *err);

/* The same for `run` and `shell`, before the command ran. Returns SG_EXIT_NOT_STARTED. */
int sg_cli_fail_run(const struct sg_cli *cli, const struct sg_err *err);

/* "sandglass: text" on stderr, unless --quiet. */
void sg_cli_note(const struct sg_cli *cli, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes a result to stdout. Returns the exit code: 0, or 1 when the write failed. */
int sg_cli_print(const struct sg_buf *out);

/* Whether fd is a terminal whose owner did not ask for plain text (NO_COLOR, TERM=dumb). */
bool sg_out_has_colour(int fd);

/* The whole of it, however often write(2) stops short. */
int sg_out_write(int fd, const void *p, size_t n, struct sg_err *err);

/* SPDX-License-Identifier: Apache-2.0 */
/* What needs OpenSSL: done by sandglass-tls, a program of its own, because this one links libc only
 * and starts in a millisecond. */
#pragma once

#include "cli/cmd.h"

/* Runs it with `args` (NULL-terminated, from its mode on) and waits. `in_fd` becomes its stdin; -1:
 * nothing. What it tells as an error is ours. */
int sg_secure_run(char *const *args, int in_fd, struct sg_err *err);

/* A connection to an https service at "HOST[:PORT]": a socket whose other end is carried over TLS.
 * `arg` is a struct sg_cli, whose tls_ca says who is trusted; as sg_http.secure. */
int sg_secure_connect(void *arg, const char *authority, struct sg_err *err);

/* SPDX-License-Identifier: Apache-2.0 */
/* The client's end of TLS: one connection, carried between a socket and the server. */
#pragma once

#include "base/err.h"

/* Connects to "HOST:PORT" and shakes hands; the server's certificate must be of that name and
 * signed by somebody in `ca_file` or, where that is "", in the system's own list. Then a process of
 * its own carries bytes between `fd` and the server until either ends, and this one returns 0. */
int sg_tls_dial(const char *authority, const char *ca_file, int fd, struct sg_err *err);

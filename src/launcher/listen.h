/* SPDX-License-Identifier: Apache-2.0 */
/* The service's own sockets. They are made once, before any daemon, and outlive it: a client that
 * comes while there is none waits for the next. */
#pragma once

#include "base/err.h"

/* "ADDRESS:PORT", "[V6]:PORT". SG_UNAVAILABLE: somebody else listens there. */
int sg_listen_tcp(const char *address, struct sg_err *err);

/* <run_dir>/api.sock, for our own account only. */
int sg_listen_unix(const char *run_dir, struct sg_err *err);
void sg_unlisten_unix(const char *run_dir);

/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to servers by name, for programs that may wait. */
#pragma once

#include "base/err.h"

enum { SG_DIAL_HOST_MAX = 256, SG_DIAL_PORT_MAX = 8 };

/* "host", "host:80", "[::1]:80" */
void sg_dial_split(const char *authority, const char *usual_port, char host[SG_DIAL_HOST_MAX],
                   char port[SG_DIAL_PORT_MAX]);
/* A connected socket, without delay for small writes; SG_UNAVAILABLE where nobody has the name. */
int sg_dial_tcp(const char *host, const char *port, struct sg_err *err);

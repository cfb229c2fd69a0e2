/* SPDX-License-Identifier: Apache-2.0 */
/* The service: store, audit, manager and doors on one loop, from the first event to the last. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "daemon/settings.h"

struct sg_seal_key;

struct sg_service_options {
    struct sg_settings *settings;
    const char *dir;                   /* of the database and the journals */
    uint32_t operator_uid;             /* whose clients on the unix socket need no key */
    const struct sg_seal_key *seal_to; /* public */
    const char *gate_cert;             /* PEM */
    int launcher_fd, tcp_fd, unix_fd;  /* taken; tcp_fd may be -1 */
};

/* Runs until SIGTERM (0) or until it cannot go on (-1): the launcher is gone, the store is not to
 * be had, ... */
int sg_service_run(const struct sg_service_options *o, struct sg_err *err);

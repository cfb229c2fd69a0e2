/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials for registries: from the file that docker, podman and skopeo keep them in. */
#pragma once

#include "base/err.h"

struct sg_credentials {
    char *user, *password; /* owned; "" where there are none */
};

/* `file` "": $REGISTRY_AUTH_FILE, or ~/.docker/config.json (of $DOCKER_CONFIG), which may be
 * missing; "-": the standard input. `account` is the registry's name. No message has a secret in
 * it. */
int sg_credentials_find(const char *file, const char *account, struct sg_credentials *ret,
                        struct sg_err *err);
void sg_credentials_done(struct sg_credentials *c); /* wiped */
#define sg_auto_credentials __attribute__((cleanup(sg_credentials_done))) struct sg_credentials

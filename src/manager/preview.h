/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of a sandbox that are open to visitors from outside, each to all or to those with a token.
 *
 * A token is "<until>.<signature>": unix seconds (0: for as long as the port is open) and an HMAC
 * of port and time by a key of this port's own, which ends with it. So tokens are made without
 * being kept, and all of a port's end when it is closed or opened anew.
 *
 * V1. A visitor who may not, a port that is not open and a sandbox that is not there are the same.
 */
#pragma once

#include "manager/manager.h"

enum { SG_PREVIEWS_MAX = 32, SG_PREVIEW_KEY = 32, SG_PREVIEW_TOKEN = 96 };

struct sg_preview {
    uint16_t port;
    bool is_public;
    char key[SG_PREVIEW_KEY + 1];
};

/* Opens it, or opens it anew with a key of its own. */
int sg_manager_open_port(struct sg_sandbox *s, const struct sg_who *who, uint16_t port,
                         bool is_public, sg_sandbox_cb *cb, void *arg, struct sg_err *err);
int sg_manager_close_port(struct sg_sandbox *s, const struct sg_who *who, uint16_t port,
                          sg_sandbox_cb *cb, void *arg, struct sg_err *err);
const struct sg_preview *sg_preview_find(const struct sg_sandbox *s, uint16_t port);

/* `until_s` 0: without an end. */
int sg_manager_sign_port(const struct sg_sandbox *s, const struct sg_who *who, uint16_t port,
                         uint64_t until_s, char ret[SG_PREVIEW_TOKEN], struct sg_err *err);
/* Whether a visitor may: the sandbox, or NULL. `token` may be NULL. */
struct sg_sandbox *sg_manager_visit_port(struct sg_manager *m, const char *id, uint16_t port,
                                         const char *token);

/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the Engine over its unix socket: libcurl on our loop.
 *
 * H1. Every call ends with exactly one `done`, from the loop, never from inside the call that asked
 *     for it; only sg_http_free() ends calls without a word.
 * H2. An answer is at most SG_HTTP_MAX bytes, and comes before its deadline or not at all. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "loop/loop.h"

enum { SG_HTTP_MAX = 8 << 20 };

struct sg_http;

/* `err` NULL: an answer came, whatever its status says; `body` ends with the call. SG_UNAVAILABLE:
 * nobody is there; SG_TIMEOUT. */
typedef void sg_http_done(void *arg, unsigned status, struct sg_str body, const struct sg_err *err);

/* `socket_path` as we see it; `shown` is what messages call it. Borrows both. */
struct sg_http *sg_http_new(struct sg_loop *l, const char *socket_path, const char *shown,
                            struct sg_err *err);
void sg_http_free(struct sg_http *h);

/* `path` with its query; `json` NULL: no body. Both are copied. */
void sg_http_call(struct sg_http *h, const char *method, const char *path, struct sg_str json,
                  uint64_t timeout_ms, sg_http_done *done, void *arg);

/* POST of what comes out of `fd`, a pipe, until its end, as a tar. Takes `fd`. */
void sg_http_send(struct sg_http *h, const char *path, int fd, uint64_t timeout_ms,
                  sg_http_done *done, void *arg);

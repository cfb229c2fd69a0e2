/* SPDX-License-Identifier: Apache-2.0 */
/* Where traces go: the URL of the settings, and the file of headers that belongs to it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct sg_endpoint {
    bool is_tls;
    char host[256]; /* a name, or an address without its brackets */
    uint16_t port;
    char path[512]; /* with what OTLP adds: /v1/traces */
};
/* "http[s]://HOST[:PORT][/PATH]", without user, query and fragment. */
int sg_endpoint_parse(const char *url, struct sg_endpoint *ret, struct sg_err *err);

enum { SG_HEADERS_MAX = 16, SG_HEADERS_MAX_BYTES = 16 << 10 };
/* Lines "Name: value"; empty ones and those with a # in front are passed over. `text` is cut into
 * terminated lines, which `ret` points to. Returns how many, or -1 (SG_INVALID with the line; never
 * with a value, which may be a secret). */
int sg_headers_parse(char *text, const char *source, char *ret[SG_HEADERS_MAX], struct sg_err *err);
/* The same of a file, which only its owner and group may read. `to` holds the text, which is the
 * caller's to wipe. "" is none. */
int sg_headers_read(const char *path, struct sg_buf *to, char *ret[SG_HEADERS_MAX],
                    struct sg_err *err);

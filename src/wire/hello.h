/* SPDX-License-Identifier: Apache-2.0 */
/* The first message of a TLS client (RFC 8446 4.1.2), for the name that it asks for.
 *
 * It may come in any number of records. What is no ClientHello, or is one that two implementations
 * could read differently (a second server name, lengths that do not add up), is SG_HELLO_BAD. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SG_HELLO_MAX = 16 << 10, SG_HELLO_NAME = 256 };

enum sg_hello_got { SG_HELLO_MORE, SG_HELLO_DONE, SG_HELLO_BAD };

struct sg_hello {
    bool has_name;            /* server_name */
    bool has_encrypted;       /* encrypted_client_hello: the real name may be another one */
    char name[SG_HELLO_NAME]; /* as it came; no NUL inside */
};

/* `p` is what came so far, from the first byte on. */
enum sg_hello_got sg_hello_parse(const uint8_t *p, size_t n, struct sg_hello *ret);

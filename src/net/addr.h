/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses and networks, of both families in one form: an IPv4 address is its mapped IPv6 one, so
 * that there is one spelling of each to compare. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct sockaddr_storage; /* sys/socket.h */

struct sg_addr {
    uint8_t b[16];
};
struct sg_cidr {
    struct sg_addr addr;
    uint8_t bits; /* of 128: 96 more than written for IPv4 */
};
enum { SG_ADDR_TEXT = 46 };

/* Dotted decimal with four parts, or IPv6 without zone. SG_INVALID. */
int sg_addr_parse(struct sg_str text, struct sg_addr *ret, struct sg_err *err);
void sg_addr_format(const struct sg_addr *a, char ret[SG_ADDR_TEXT]);
bool sg_addr_is_v4(const struct sg_addr *a);
bool sg_addr_is_same(const struct sg_addr *a, const struct sg_addr *b);
struct sg_addr sg_addr_v4(uint32_t host_order);
uint32_t sg_addr_to_v4(const struct sg_addr *a); /* host order */

/* To and from the kernel's form. `ret` is as `a` is, or AF_INET6 with the mapped address. */
unsigned sg_addr_to_sock(const struct sg_addr *a, uint16_t port, struct sockaddr_storage *ret);
bool sg_addr_of_sock(const struct sockaddr_storage *s, struct sg_addr *ret, uint16_t *ret_port);

/* "10.0.0.0/8", "::1", "2001:db8::/32": an address alone is a network of one. Bits behind the
 * prefix count as zero. */
int sg_cidr_parse(struct sg_str text, struct sg_cidr *ret, struct sg_err *err);
bool sg_cidr_has(const struct sg_cidr *c, const struct sg_addr *a);

/* What an address that is not for everybody is for ("private", "metadata", "loopback" ...); NULL:
 * it is an ordinary public one. Addresses that carry another one inside (6to4, NAT64, Teredo) are
 * "translated". */
const char *sg_addr_special(const struct sg_addr *a);

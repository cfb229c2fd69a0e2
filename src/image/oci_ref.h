/* SPDX-License-Identifier: Apache-2.0 */
/* Names of images in registries: [HOST[:PORT]/]REPOSITORY[:TAG][@sha256:HEX]. */
#pragma once

#include "image/oci.h"

struct sg_oci_ref {
    char host[256];        /* "registry-1.docker.io", "localhost:5000", "[::1]:5000" */
    char account[256];     /* what files of credentials call it: "docker.io", else the host */
    char repository[256];  /* "library/alpine" */
    char tag[129];         /* "latest" where neither a tag nor a digest is said; else maybe "" */
    struct sg_oci_hex hex; /* "" where no digest is said */
};

/* A name without a host is one of docker.io, as it is everywhere. SG_INVALID. */
int sg_oci_ref_parse(const char *text, struct sg_oci_ref *ret, struct sg_err *err);

/* This machine: "localhost", 127.*, [::1], with any port. */
bool sg_oci_host_is_loopback(const char *host);

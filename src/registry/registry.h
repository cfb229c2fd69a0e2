/* SPDX-License-Identifier: Apache-2.0 */
/* One registry, and what is asked of it (the distribution specification of OCI, version 1.1). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "digest/digest.h"
#include "export/post.h"
#include "image/oci.h"

enum {
    SG_REGISTRY_URL_MAX = 8192,
    SG_REGISTRY_HAVE_MAX = 1 << 16,
    SG_REGISTRY_BLOBS_MAX = SG_OCI_MAX_LAYERS + 2,
};

/* What the command line program wants, read from stdin as JSON. */
struct sg_registry_request {
    const char *action;                             /* "pull", "push" */
    const char *host, *repository, *tag, *platform; /* platform "": this machine */
    const char *hex;                                /* pull: the digest that it must have; "" */
    const char *user, *password;                    /* "": nobody */
    const char *ca, *dir;                           /* files; dir "": none */
    bool is_plain;                                  /* without TLS */
    struct sg_oci_hex *have;                        /* blobs that need not come */
    size_t have_count;
    struct sg_registry_blob {
        struct sg_oci_hex hex;
        uint64_t size;
        int fd;
    } * blobs; /* push: what goes; the last is the manifest */
    size_t blob_count;
    const char *media_type; /* of that */
};
int sg_registry_request_parse(struct sg_str text, struct sg_arena *a,
                              struct sg_registry_request *ret, struct sg_err *err);

/* "Bearer realm="...",service="...",scope="..."", or "Basic ...". */
struct sg_challenge {
    bool is_bearer;
    char realm[1024], service[256], scope[512];
};
int sg_challenge_parse(const char *text, struct sg_challenge *ret, struct sg_err *err);
/* The token in what the realm answers; returns owned, NULL on failure. */
char *sg_token_parse(struct sg_str text, struct sg_err *err);

/* ---- http.c ---- */

struct sg_registry {
    const struct sg_registry_request *request;
    struct sg_post_options names; /* how names are looked up, and the authorities */
    char *authorization;          /* owned: the header's value; NULL: none yet */
    bool is_push;
};

/* One request and its answer. Authorization, redirects of GET and HEAD, and errors of the other
 * side are dealt with; what is not 2xx is an error with the registry's own words. */
struct sg_call {
    const char *method, *url; /* url: with a scheme, or a path below /v2/ */
    const char *accept, *content_type;
    struct sg_str body;
    int body_fd; /* -1: `body` */
    uint64_t body_size;
    uint64_t from;                                   /* asks for what is behind this many bytes */
    int (*take)(void *arg, const void *p, size_t n); /* -1 ends it */
    void *arg;
    /* the answer */
    long status;
    char location[SG_REGISTRY_URL_MAX], type[128];
    char digest[80]; /* what the registry says that it is */
    bool is_whole;   /* and not just what is behind `from`: known when `take` is called */
    bool was_cut;    /* the connection broke: worth another try */
};
int sg_registry_call(struct sg_registry *r, struct sg_call *c, struct sg_err *err);
void sg_registry_done(struct sg_registry *r);

/* ---- pull.c, push.c: print lines of JSON ---- */

int sg_registry_pull(struct sg_registry *r, struct sg_err *err);
int sg_registry_push(struct sg_registry *r, struct sg_err *err);
void sg_registry_progress(uint64_t done, uint64_t total);

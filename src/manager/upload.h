/* SPDX-License-Identifier: Apache-2.0 */
/* Archives that clients send for the COPY steps of builds: files beside the store, each of an
 * organisation's, named by a hash.
 *
 * H1. A name leads to something whole and synced, or to nothing; what a crash leaves has no name
 *     and is removed at the next start.
 * H2. They are kept for a day, and an organisation has room for so many bytes. One that nears its
 *     end is not told of any more, so that whoever asks sends it again before it is gone. */
#pragma once

#include "manager/manager.h"

enum { SG_UPLOAD_NAME_LEN = 64 };
#define SG_UPLOAD_BYTES_MAX (UINT64_C(4) << 30) /* of an organisation, and of one */

bool sg_upload_is_name(const char *hash); /* 64 hex digits, small */
bool sg_upload_has(struct sg_manager *m, const struct sg_org *org, const char *hash);
/* For reading; SG_NOT_FOUND. */
int sg_upload_open(struct sg_manager *m, const struct sg_org *org, const char *hash,
                   struct sg_err *err);

/* A secret by which an upload is recognised where no key is shown, and back: the organisation. */
enum { SG_UPLOAD_TOKEN_LEN = 20 + 1 + 64 + 1 + 32 };
int sg_upload_token(struct sg_manager *m, const struct sg_who *who, const char *hash,
                    char ret[SG_UPLOAD_TOKEN_LEN + 1], struct sg_err *err);
struct sg_org *sg_upload_by_token(struct sg_manager *m, const char *token,
                                  char ret_hash[SG_UPLOAD_NAME_LEN + 1]);

struct sg_upload; /* owned until one of the two */
typedef void sg_upload_cb(void *arg, const char *hash, const struct sg_err *err);
/* `hash` NULL: that of the bytes. */
struct sg_upload *sg_upload_new(struct sg_manager *m, struct sg_org *org, const char *hash,
                                struct sg_err *err);
int sg_upload_add(struct sg_upload *u, const void *p, size_t n, struct sg_err *err);
void sg_upload_finish(struct sg_upload *u, sg_upload_cb *cb, void *arg); /* calls back later */
void sg_upload_drop(struct sg_upload *u);

/* ---- the manager's own ---- */

int sg_uploads_load(struct sg_manager *m, struct sg_err *err);
void sg_uploads_free(struct sg_manager *m);

/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets of an organisation: a name, and a value that goes in and never comes out again.
 *
 * X1. The value is sealed in the call that brings it (seal/seal.h), to a key that this process does
 *     not have; nothing else of it is kept, in memory or in the store. It is in no log, event or
 *     audit record.
 * X2. A secret is known once its row is on the disk; one that is removed is gone at once, and the
 *     answer says that the disk agrees.
 * X3. Names are unique in their organisation, without regard to case. What opens the box is given
 *     the organisation, the id, the version and the hosts as context: a row that is moved, and
 *     one that is to go elsewhere, stays shut. */
#pragma once

#include "base/str.h"
#include "manager/manager.h"
#include "net/binding.h"

enum {
    SG_SECRETS_MAX = 1000, /* of one organisation */
    SG_SECRET_METADATA_MAX = 32,
    SG_SECRET_METADATA_NAME = 128,
    SG_SECRET_METADATA_VALUE = 1024,
    SG_SECRET_METADATA_BYTES = 8192,
};

struct sg_secret {
    struct sg_id id;
    struct sg_org *org;
    char *name; /* owned; lower case */
    struct sg_pairs metadata;
    char *sealed;            /* owned */
    struct sg_binding hosts; /* where it may go; none: where a sandbox's rules put it */
    uint64_t version;
    int64_t created_ms, updated_ms;
    /* the manager's own */
    struct sg_secret *next;
    uint64_t asked;       /* the last version that was asked for */
    unsigned refs;        /* rows under way */
    bool is_new, is_gone; /* not yet known; not any more */
};

struct sg_secret_spec {
    const char *name;    /* of a new one */
    struct sg_str value; /* borrowed for the call */
    bool has_metadata;   /* false: none, or what there is */
    const struct sg_pair *metadata;
    size_t metadata_n;
    char *const *hosts; /* NULL: none, or what there is */
    size_t hosts_n;
    bool allows_plain; /* with hosts: to them also without TLS */
};
typedef void sg_secret_cb(void *arg, const struct sg_secret *s, const struct sg_err *err);

/* SG_CONFLICT: there is one of that name. */
int sg_secret_create(struct sg_manager *m, const struct sg_who *who,
                     const struct sg_secret_spec *spec, sg_secret_cb *cb, void *arg,
                     struct sg_err *err);
/* A new version. `which` is an id or a name, here and below. */
int sg_secret_update(struct sg_manager *m, const struct sg_who *who, const char *which,
                     const struct sg_secret_spec *spec, sg_secret_cb *cb, void *arg,
                     struct sg_err *err);
/* Either, by spec->name, which may be the id of one that there is. */
int sg_secret_set(struct sg_manager *m, const struct sg_who *who, const struct sg_secret_spec *spec,
                  sg_secret_cb *cb, void *arg, struct sg_err *err);
int sg_secret_remove(struct sg_manager *m, const struct sg_who *who, const char *which,
                     sg_tenant_cb *cb, void *arg, struct sg_err *err);
/* NULL with SG_NOT_FOUND. */
const struct sg_secret *sg_secret_find(struct sg_manager *m, const struct sg_who *who,
                                       const char *which, struct sg_err *err);
/* The next one by name; `after` NULL: the first. */
const struct sg_secret *sg_secret_after(struct sg_manager *m, const struct sg_who *who,
                                        const char *after);
/* It was sealed to another key than the one of now: nobody can open it any more. */
bool sg_secret_is_stale(const struct sg_manager *m, const struct sg_secret *s);
/* "organisation/id/version": what the box is bound to. Returns owned. */
char *sg_secret_context(const struct sg_org *org, const struct sg_id *id, uint64_t version);

/* ---- what secret.c and secret_change.c share ---- */

void sg_secret_drop(struct sg_manager *m, struct sg_secret *s); /* out of the list; freed soon */
void sg_secret_unref(struct sg_secret *s);
struct sg_secret *sg_secret_named(struct sg_manager *m, const struct sg_org *org,
                                  const char *which);          /* also one that is new; or NULL */
void sg_secret_add(struct sg_manager *m, struct sg_secret *s); /* into the list, as refs 1 */

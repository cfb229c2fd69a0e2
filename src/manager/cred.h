/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox may use without having it: secrets of its organisation, and fields that the gate
 * adds to its requests.
 *
 * C1. A sandbox has placeholders, which are made of ids and say nothing. The gate has the boxes,
 *     and opens them; nobody else can.
 * C2. The gate is told a sandbox's credentials before its policy, and again whenever a secret of
 *     them changes or goes.
 * C3. The gate's certificate is in a sandbox before anything of the caller's runs there, or before
 *     the change that needs it is acknowledged. */
#pragma once

#include "manager/manager.h"
#include "manager/sandbox.h"

struct sg_jval;
struct sg_json;

enum {
    SG_CRED_SECRETS = 32,
    SG_CRED_HOSTS = 10,
    SG_CRED_FIELDS = 20, /* of one host */
    SG_CRED_FIELD_NAME = 64,
    SG_CRED_FIELD_VALUE = 2048,
};

#define SG_PLACEHOLDER    "sgsecret_" /* and the secret's id */
#define SG_GATE_CERT_HASH "cee40a44"  /* of its subject, as OpenSSL has it (tls/authority.c) */

/* As a door has them, borrowed for the call. */
struct sg_cred_use_spec {
    const char *secret, *env; /* a name or an id; env NULL: after the name */
};
struct sg_cred_field_spec {
    const char *host, *name, *value; /* with "${e2b.secrets.NAME}" */
};
struct sg_cred_spec {
    const struct sg_cred_use_spec *uses;
    const struct sg_cred_field_spec *fields;
    size_t use_n, field_n;
};

/* SG_INVALID names what is wrong; SG_NOT_FOUND: no such secret. */
int sg_creds_read(struct sg_manager *m, const struct sg_who *who, const struct sg_cred_spec *spec,
                  struct sg_cred_set *ret, struct sg_err *err);
void sg_creds_copy(struct sg_cred_set *to, const struct sg_cred_set *from);
void sg_creds_done(struct sg_cred_set *c);
/* The fields are these from now on; what the sandbox may use otherwise stays. The change is told by
 * sg_manager_set_network(), which must follow. */
int sg_creds_set_fields(struct sg_sandbox *s, const struct sg_who *who,
                        const struct sg_cred_field_spec *v, size_t n, struct sg_err *err);

/* As JSON, for the row. */
void sg_creds_put(struct sg_json *j, const struct sg_cred_set *c);
int sg_creds_load(const struct sg_jval *v, struct sg_cred_set *ret, struct sg_err *err);

/* The environment that programs see: placeholders, and where the gate's certificate is. */
int sg_creds_env(const struct sg_sandbox *s,
                 int (*set)(void *arg, const char *name, const char *value, struct sg_err *err),
                 void *arg, struct sg_err *err);

/* ---- what net.c and secret_change.c call ---- */

/* How many answers sg_creds_open() brings to the step of a new cell. */
unsigned sg_creds_answers(const struct sg_sandbox *s);
void sg_creds_open(struct sg_sandbox *s);
/* All of it to the gate; nobody waits. */
void sg_creds_tell(struct sg_sandbox *s);
/* The certificate into a sandbox that runs: so many answers, some perhaps before it returns. */
struct sg_packet;
unsigned sg_creds_trust_answers(const struct sg_sandbox *s);
void sg_creds_trust(struct sg_sandbox *s,
                    void (*answered)(void *arg, struct sg_packet *p, const struct sg_err *err),
                    void *arg);
void sg_creds_changed(struct sg_manager *m, const char *secret); /* an id */

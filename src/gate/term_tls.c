/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/map.h"
#include "gate/term.h"
#include "link/tls_client.h"
#include "seal/keyfile.h"
#include "base/banned.h"

enum { ROOTS_MAX = 4 << 20, CERTS_KEPT = 256 };

/* Where distributions have the certificates of the authorities that everybody knows. */
static const char *const system_roots[] = { "/etc/ssl/certs/ca-certificates.crt",
                                            "/etc/pki/tls/certs/ca-bundle.crt",
                                            "/etc/ssl/cert.pem" };

struct made { /* for one name */
    char *name;
    struct sg_tls *tls;
};

struct sg_trust {
    struct sg_seal_key key;
    struct sg_authority *authority;
    char *roots[2];     /* PEM texts, until they are needed: reading them takes a while */
    struct sg_tls *far; /* NULL: not needed yet */
    struct sg_map made; /* name -> struct made */
};

static char *read_roots(const char *path, struct sg_err *err)
{
    sg_auto_buf text;
    sg_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    sg_buf_init(&text, ROOTS_MAX);
    if (fd < 0) {
        (void)sg_fail_sys(err, "open %s", sg_quote(path).s);
        return NULL;
    }
    if (sg_buf_read_fd(&text, fd, path, err) < 0)
        return NULL;
    return sg_strdup(sg_buf_cstr(&text));
}

static int open_keys(struct sg_trust *t, const char *path, struct sg_err *err)
{
    struct sg_authority_text ca;
    sg_auto_fd dir = sg_seal_dir_open(path, err);
    if (dir < 0 || sg_seal_key_open(dir, &t->key, err) < 0)
        return sg_wrap(err, "the key of the secrets, %s/key", path);
    if (sg_authority_open(dir, &ca, err) < 0)
        return sg_wrap(err, "the keys of the gate, in %s", path);
    t->authority = sg_authority_new(&ca, err);
    sg_authority_text_done(&ca);
    return t->authority ? 0 : -1;
}

struct sg_trust *sg_trust_open(const struct sg_trust_options *o, struct sg_err *err)
{
    struct sg_trust *t = sg_new(struct sg_trust);
    sg_map_init(&t->made);
    for (size_t i = 0; i < SG_COUNT(system_roots) && !t->roots[0]; i++)
        t->roots[0] = read_roots(system_roots[i], NULL);
    if (open_keys(t, o->seal_dir, err) < 0) {
        sg_trust_free(t);
        return NULL;
    }
    if (o->ca_file && *o->ca_file && !(t->roots[1] = read_roots(o->ca_file, err))) {
        sg_trust_free(t);
        (void)sg_wrap(err, "gate.ca_file");
        return NULL;
    }
    return t;
}

static void forget_made(struct sg_trust *t)
{
    size_t cursor = 0;
    for (struct made *m; (m = sg_map_next(&t->made, &cursor)); cursor = 0) {
        (void)sg_map_remove(&t->made, m->name);
        sg_tls_free(m->tls);
        free(m->name);
        free(m);
    }
}

void sg_trust_free(struct sg_trust *t)
{
    if (!t)
        return;
    forget_made(t);
    sg_map_done(&t->made);
    sg_authority_free(t->authority);
    if (t->far)
        sg_tls_free(t->far);
    free(t->roots[0]);
    free(t->roots[1]);
    explicit_bzero(&t->key, sizeof t->key);
    free(t);
}

int sg_trust_unseal(const struct sg_trust *t, const char *context, const char *sealed,
                    struct sg_buf *ret, struct sg_err *err)
{
    return sg_unseal(&t->key, sg_str_of(context), sealed, ret, err);
}

/* ---- sessions ---- */

static struct sg_tls *tls_for(struct sg_trust *t, const char *name, struct sg_err *err)
{
    struct made *m = sg_map_find(&t->made, name);
    if (m)
        return m->tls;
    sg_auto_free char *cert = sg_authority_issue(t->authority, name, err);
    struct sg_tls *tls = cert ? sg_tls_new(cert, sg_authority_key(t->authority), err) : NULL;
    if (!tls)
        return NULL;
    if (t->made.n >= CERTS_KEPT)
        forget_made(t); /* sessions hold what they use */
    m = sg_new(struct made);
    *m = (struct made) { sg_strdup(name), tls };
    sg_map_put(&t->made, m->name, m);
    return tls;
}

struct sg_session *sg_trust_near(struct sg_trust *t, int fd, const char *name, struct sg_err *err)
{
    struct sg_tls *tls = tls_for(t, name, err);
    return tls ? sg_session_new(tls, fd, err) : NULL;
}

struct sg_session *sg_trust_far(struct sg_trust *t, int fd, const char *name, struct sg_err *err)
{
    if (!t->far) {
        const char *const roots[] = { t->roots[0], t->roots[1] };
        t->far = sg_tls_client_new(roots, SG_COUNT(roots), err);
        if (!t->far)
            return NULL;
        for (size_t i = 0; i < SG_COUNT(t->roots); i++)
            free(sg_take_ptr(&t->roots[i]));
    }
    return sg_session_new_client(t->far, fd, name, err);
}

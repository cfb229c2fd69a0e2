/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials at work: told to the gate, and trusted inside. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "manager/cred.h"
#include "manager/life.h"
#include "manager/secret.h"
#include "tier/peer.h"

#include "base/banned.h"

enum { MODE_FILE = 0644 };

/* Where programs look for authorities: the bundle of Debian and its like, and a file whose name is
 * the hash of the certificate's subject, by which OpenSSL finds it without the bundle. */
#define BUNDLE "/etc/ssl/certs/ca-certificates.crt"
#define ALONE  "/etc/ssl/certs/" SG_GATE_CERT_HASH ".0"

static const struct sg_pair trust_env[] = {
    { "SSL_CERT_FILE", BUNDLE }, { "CURL_CA_BUNDLE", BUNDLE },     { "REQUESTS_CA_BUNDLE", BUNDLE },
    { "PIP_CERT", BUNDLE },      { "GIT_SSL_CAINFO", BUNDLE },     { "AWS_CA_BUNDLE", BUNDLE },
    { "DENO_CERT", ALONE },      { "NODE_EXTRA_CA_CERTS", ALONE },
};

static bool has_some(const struct sg_sandbox *s)
{
    return s->creds.use_n || s->creds.field_n;
}

int sg_creds_env(const struct sg_sandbox *s,
                 int (*set)(void *arg, const char *name, const char *value, struct sg_err *err),
                 void *arg, struct sg_err *err)
{
    if (!has_some(s))
        return 0;
    for (size_t i = 0; i < SG_COUNT(trust_env); i++)
        if (set(arg, trust_env[i].name, trust_env[i].value, err) < 0)
            return -1;
    for (size_t i = 0; i < s->creds.use_n; i++) {
        sg_auto_free char *value = sg_printf(SG_PLACEHOLDER "%s", s->creds.uses[i].secret);
        if (s->creds.uses[i].env && set(arg, s->creds.uses[i].env, value, err) < 0)
            return -1;
    }
    return 0;
}

/* ---- the gate ---- */

static const struct sg_secret *secret_of(const struct sg_sandbox *s, size_t i)
{
    const struct sg_secret *found = sg_secret_named(s->manager, s->org, s->creds.uses[i].secret);
    return found && !found->is_new ? found : NULL; /* one that was removed is told no more */
}

static unsigned count(const struct sg_sandbox *s)
{
    unsigned n = (unsigned)s->creds.field_n;
    for (size_t i = 0; i < s->creds.use_n; i++)
        n += secret_of(s, i) != NULL;
    return n ? n : 1;
}

struct telling {
    struct sg_sandbox *s;
    unsigned at, n;
    sg_peer_answer *answered;
    void *arg;
};

static void send(struct telling *t, struct sg_msg *m, char *const *hosts)
{
    struct sg_err err = { 0 };
    sg_auto_buf texts;
    sg_buf_init(&texts, SG_CTL_MAX_BYTES);
    m->type = SG_MSG_G_CRED;
    m->g_cred.sandbox = sg_text_of(t->s->id.s);
    m->g_cred.flags |= (t->at == 0 ? SG_G_FIRST : 0u) | (t->at + 1 == t->n ? SG_G_LAST : 0u);
    t->at++;
    int got = sg_texts_pack(hosts, &texts, &m->g_cred.hosts, &err);
    if (got == 0 && !t->s->manager->gate)
        got = sg_fail(&err, SG_UNAVAILABLE, "the gate is being started");
    if (got == 0)
        got = sg_peer_ask(t->s->manager->gate, m, NULL, 0, t->answered, t->arg, &err);
    if (got < 0 && t->answered)
        t->answered(t->arg, NULL, &err);
}

static void send_secret(struct telling *t, const struct sg_secret *one)
{
    sg_auto_free char *name = sg_printf(SG_PLACEHOLDER "%s", one->id.s);
    sg_auto_free char *id = sg_secret_context(one->org, &one->id, one->version);
    char **hosts = sg_alloc((one->hosts.n + 1) * sizeof *hosts);
    struct sg_msg m = { .g_cred = { .kind = SG_G_CRED_SECRET,
                                    .flags = one->hosts.allows_plain ? SG_G_PLAIN : 0u,
                                    .name = sg_text_of(name),
                                    .value = sg_text_of(one->sealed),
                                    .id = sg_text_of(id) } };
    for (size_t i = 0; i < one->hosts.n; i++)
        hosts[i] = one->hosts.v[i].text;
    send(t, &m, hosts);
    free(hosts);
}

static void send_field(struct telling *t, const struct sg_cred_field *f)
{
    char *hosts[] = { f->host, NULL };
    struct sg_msg m = { .g_cred = { .kind = SG_G_CRED_FIELD,
                                    .name = sg_text_of(f->name),
                                    .value = sg_text_of(f->value) } };
    send(t, &m, hosts);
}

static void tell_all(struct sg_sandbox *s, sg_peer_answer *answered, void *arg)
{
    struct telling t = { .s = s, .n = count(s), .answered = answered, .arg = arg };
    char *none = NULL;
    struct sg_msg m = { 0 };
    s->creds.was_told = true;
    for (size_t i = 0; i < s->creds.use_n; i++) {
        const struct sg_secret *one = secret_of(s, i);
        if (one)
            send_secret(&t, one);
    }
    for (size_t i = 0; i < s->creds.field_n; i++)
        send_field(&t, &s->creds.fields[i]);
    if (t.at == 0)
        send(&t, &m, &none);
}

static void complain(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    (void)arg;
    (void)p;
    if (err && err->kind != SG_UNAVAILABLE)
        sg_log(SG_LOG_ERROR, "the gate did not take a secret", SG_KV("error", err->msg));
}

void sg_creds_tell(struct sg_sandbox *s)
{
    if ((has_some(s) || s->creds.was_told) && s->manager->gate)
        tell_all(s, complain, NULL);
}

void sg_creds_changed(struct sg_manager *m, const char *secret)
{
    for (struct sg_sandbox *s = m->oldest; s && m->gate; s = s->newer)
        for (size_t i = 0; i < s->creds.use_n; i++)
            if (strcmp(s->creds.uses[i].secret, secret) == 0) {
                if (s->life->has_cell && s->network.mode != SG_MODE_NONE)
                    sg_creds_tell(s);
                break;
            }
}

/* ---- inside ---- */

/* All of it goes into the pipe at once, with the byte that says so: it is smaller than any pipe. */
static int write_file(struct sg_sandbox *s, const char *path, uint32_t flags,
                      sg_peer_answer *answered, void *arg, struct sg_err *err)
{
    sg_auto_free char *text = sg_printf("\n%s%c", s->manager->o.gate_cert, SG_WRITE_SEAL);
    struct sg_msg m = { .type = SG_MSG_WRITE,
                        .write = { .user = sg_text_of("root"),
                                   .path = sg_text_of(path),
                                   .flags = flags | SG_WRITE_PARENTS,
                                   .mode = MODE_FILE } };
    int ends[2];
    if (!s->peer)
        return sg_fail(err, SG_UNAVAILABLE, "the sandbox has no connection");
    if (pipe2(ends, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make a pipe");
    sg_auto_fd far = ends[0], near = ends[1];
    if (write(near, text, strlen(text)) != (ssize_t)strlen(text))
        return sg_fail_sys(err, "fill a pipe");
    return sg_peer_ask(s->peer, &m, &far, 1, answered, arg, err);
}

static const struct {
    const char *path;
    uint32_t flags;
} files[] = { { BUNDLE, SG_WRITE_APPEND }, { ALONE, 0 } };

unsigned sg_creds_trust_answers(const struct sg_sandbox *s)
{
    return has_some(s) && s->manager->o.gate_cert ? SG_COUNT(files) : 0;
}

void sg_creds_trust(struct sg_sandbox *s, sg_peer_answer *answered, void *arg)
{
    for (size_t i = 0; i < sg_creds_trust_answers(s); i++) {
        struct sg_err err = { 0 };
        if (write_file(s, files[i].path, files[i].flags, answered, arg, &err) < 0)
            answered(arg, NULL, &err);
    }
}

/* ---- of a new cell ---- */

static void told(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    (void)p; /* a gate that is away is told when it is back, and is shut until then */
    sg_life_got(arg, err && err->kind == SG_UNAVAILABLE ? NULL : err);
}

static void trusted(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_err own = { 0 };
    if (!p && err) {
        own = *err;
        (void)sg_wrap(&own, "the gate's certificate");
    }
    sg_life_got(arg, p ? NULL : &own);
}

unsigned sg_creds_answers(const struct sg_sandbox *s)
{
    if (!has_some(s))
        return 0;
    return (s->network.mode == SG_MODE_NONE ? 0 : count(s)) + sg_creds_trust_answers(s);
}

void sg_creds_open(struct sg_sandbox *s)
{
    if (!has_some(s))
        return;
    if (s->network.mode != SG_MODE_NONE)
        tell_all(s, told, s);
    sg_creds_trust(s, trusted, s);
}

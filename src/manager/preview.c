/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/preview.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/parse.h"
#include "manager/life.h"

#include "base/banned.h"

enum { SIGNED_BYTES = 16 };

const struct sg_preview *sg_preview_find(const struct sg_sandbox *s, uint16_t port)
{
    for (size_t i = 0; i < s->preview_n; i++)
        if (s->previews[i].port == port)
            return &s->previews[i];
    return NULL;
}

/* ---- tokens ---- */

static void add_hex(char *ret, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void)snprintf(ret + 2 * i, 3, "%02x", p[i]);
}

static void sign(const struct sg_preview *p, uint64_t until_s, char ret[SG_PREVIEW_TOKEN])
{
    char text[64];
    uint8_t hash[EVP_MAX_MD_SIZE];
    const int n = snprintf(text, sizeof text, "%u:%" PRIu64, (unsigned)p->port, until_s);
    if (!HMAC(EVP_sha256(), p->key, SG_PREVIEW_KEY, (const uint8_t *)text, (size_t)n, hash, NULL))
        abort(); /* without it nobody could be let in, or everybody */
    const int at = snprintf(ret, SG_PREVIEW_TOKEN, "%" PRIu64 ".", until_s);
    add_hex(ret + at, hash, SIGNED_BYTES);
}

static bool is_good(const struct sg_preview *p, const char *token)
{
    char wanted[SG_PREVIEW_TOKEN];
    uint64_t until_s;
    const size_t digits = strcspn(token, ".");
    if (sg_parse_u64((struct sg_str) { token, digits }, 0, INT64_MAX / 1000, &until_s, NULL) < 0)
        return false;
    sign(p, until_s, wanted);
    if (strlen(token) != strlen(wanted) || CRYPTO_memcmp(token, wanted, strlen(wanted)) != 0)
        return false;
    return !until_s || (int64_t)until_s * 1000 > sg_manager_unix_ms();
}

struct sg_sandbox *sg_manager_visit_port(struct sg_manager *m, const char *id, uint16_t port,
                                         const char *token)
{
    struct sg_sandbox *s = sg_map_find(&m->sandboxes, id);
    const struct sg_preview *p = s && !s->life->is_gone ? sg_preview_find(s, port) : NULL;
    if (!p || s->state != SBX_RUNNING)
        return NULL;
    return p->is_public || (token && is_good(p, token)) ? s : NULL;
}

/* ---- rules ---- */

static int demand(struct sg_sandbox *s, const struct sg_who *who, uint16_t port, struct sg_err *err)
{
    if (s->life->is_gone)
        return sg_fail(err, SG_NOT_FOUND, "no sandbox '%s'", s->id.s);
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(s->manager, who, "port.open", s, err);
    return port ? 0 : sg_fail(err, SG_INVALID, "a port is 1 to 65535");
}

static void say(struct sg_sandbox *s, const struct sg_who *who, const char *action, uint16_t port)
{
    char number[8];
    (void)snprintf(number, sizeof number, "%u", (unsigned)port);
    sg_manager_audit_value(s->manager, who, action, s, "port", number);
}

static void remove_port(struct sg_sandbox *s, uint16_t port)
{
    for (size_t i = 0; i < s->preview_n; i++)
        if (s->previews[i].port == port)
            s->previews[i] = s->previews[--s->preview_n];
}

int sg_manager_open_port(struct sg_sandbox *s, const struct sg_who *who, uint16_t port,
                         bool is_public, sg_sandbox_cb *cb, void *arg, struct sg_err *err)
{
    uint8_t key[SG_PREVIEW_KEY / 2];
    struct sg_preview p = { .port = port, .is_public = is_public };
    if (demand(s, who, port, err) < 0)
        return -1;
    if (!sg_preview_find(s, port) && s->preview_n == SG_PREVIEWS_MAX)
        return sg_fail(err, SG_EXHAUSTED, "%d ports are open already", SG_PREVIEWS_MAX);
    if (getrandom(key, sizeof key, 0) != (ssize_t)sizeof key)
        return sg_fail_sys(err, "make a key");
    add_hex(p.key, key, sizeof key);
    remove_port(s, port);
    if (!s->previews)
        s->previews = sg_alloc(SG_PREVIEWS_MAX * sizeof *s->previews);
    s->previews[s->preview_n++] = p;
    say(s, who, is_public ? "port.open.public" : "port.open", port);
    sg_life_save(s, cb, arg);
    return 0;
}

int sg_manager_close_port(struct sg_sandbox *s, const struct sg_who *who, uint16_t port,
                          sg_sandbox_cb *cb, void *arg, struct sg_err *err)
{
    if (demand(s, who, port, err) < 0)
        return -1;
    if (!sg_preview_find(s, port))
        return sg_fail(err, SG_NOT_FOUND, "port %u is not open", (unsigned)port);
    remove_port(s, port);
    say(s, who, "port.close", port);
    sg_life_save(s, cb, arg);
    return 0;
}

int sg_manager_sign_port(const struct sg_sandbox *s, const struct sg_who *who, uint16_t port,
                         uint64_t until_s, char ret[SG_PREVIEW_TOKEN], struct sg_err *err)
{
    const struct sg_preview *p = sg_preview_find(s, port);
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(s->manager, who, "port.sign", s, err);
    if (!p)
        return sg_fail(err, SG_NOT_FOUND, "port %u is not open", (unsigned)port);
    sign(p, until_s, ret);
    return 0;
}

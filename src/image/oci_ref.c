/* SPDX-License-Identifier: Apache-2.0 */
#include "image/oci_ref.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"

#include "base/banned.h"

static int refuse(const char *text, const char *why, struct sg_err *err)
{
    return sg_fail(err, SG_INVALID, "%s is not the name of an image: %s", sg_quote(text).s, why);
}

static bool is_of(struct sg_str s, const char *set)
{
    for (size_t i = 0; i < s.n; i++)
        if (!s.p[i] || !strchr(set, s.p[i]))
            return false;
    return s.n > 0;
}

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGIT "0123456789"

static bool take(char *to, size_t cap, struct sg_str from)
{
    if (from.n >= cap)
        return false;
    memcpy(to, from.p, from.n);
    to[from.n] = '\0';
    return true;
}

/* What is before the first slash is a host where it could be no part of a repository. */
static struct sg_str host_of(const char *text)
{
    const char *slash = strchr(text, '/');
    const struct sg_str first = { text, slash ? (size_t)(slash - text) : 0 };
    const bool is_host = slash && (memchr(text, '.', first.n) || memchr(text, ':', first.n) ||
                                   text[0] == '[' || sg_str_is(first, "localhost"));
    return is_host ? first : (struct sg_str) { text, 0 };
}

static int set_host(const char *text, struct sg_str host, struct sg_oci_ref *ret,
                    struct sg_err *err)
{
    static const char *const hub[] = { "docker.io", "index.docker.io", "registry-1.docker.io" };
    bool is_hub = host.n == 0;
    for (size_t i = 0; i < SG_COUNT(hub); i++)
        is_hub |= sg_str_is(host, hub[i]);
    if (is_hub) {
        (void)snprintf(ret->host, sizeof ret->host, "registry-1.docker.io");
        (void)snprintf(ret->account, sizeof ret->account, "docker.io");
        return 0;
    }
    if (!is_of(host, LOWER UPPER DIGIT ".-:[]") || !take(ret->host, sizeof ret->host, host))
        return refuse(text, "its host is none", err);
    memcpy(ret->account, ret->host, sizeof ret->host);
    return 0;
}

static bool has_twice(struct sg_str s, char c)
{
    for (size_t i = 1; i < s.n; i++)
        if (s.p[i] == c && s.p[i - 1] == c)
            return true;
    return false;
}

static int set_repository(const char *text, struct sg_str name, bool is_hub, struct sg_oci_ref *ret,
                          struct sg_err *err)
{
    const char *library = is_hub && !memchr(name.p, '/', name.n) ? "library/" : "";
    const size_t n = strlen(library);
    if (!is_of(name, LOWER DIGIT "._-/") || name.p[0] == '/' || name.p[name.n - 1] == '/' ||
        has_twice(name, '/') || has_twice(name, '.'))
        return refuse(text, "a repository has a-z, 0-9, '.', '_', '-' and '/'", err);
    memcpy(ret->repository, library, n + 1);
    if (!take(ret->repository + n, sizeof ret->repository - n, name))
        return refuse(text, "it is too long", err);
    return 0;
}

int sg_oci_ref_parse(const char *text, struct sg_oci_ref *ret, struct sg_err *err)
{
    struct sg_oci_ref r = { 0 };
    const struct sg_str host = host_of(text);
    const char *rest = text + host.n + (host.n ? 1 : 0);
    const char *at = strchr(rest, '@');
    const size_t n = at ? (size_t)(at - rest) : strlen(rest);
    const char *colon = memchr(rest, ':', n);
    const struct sg_str name = { rest, colon ? (size_t)(colon - rest) : n };
    if (set_host(text, host, &r, err) < 0 ||
        set_repository(text, name, strcmp(r.account, "docker.io") == 0, &r, err) < 0)
        return -1;
    if (at && sg_oci_digest_parse(sg_str_of(at + 1), &r.hex, err) < 0)
        return -1;
    const struct sg_str tag = { colon ? colon + 1 : "latest",
                                colon ? n - name.n - 1 : strlen("latest") };
    if (colon && (!is_of(tag, LOWER UPPER DIGIT "._-") || tag.p[0] == '.' || tag.p[0] == '-'))
        return refuse(text, "a tag has letters, digits, '.', '_' and '-'", err);
    if ((colon || !at) && !take(r.tag, sizeof r.tag, tag))
        return refuse(text, "its tag is too long", err);
    *ret = r;
    return 0;
}

bool sg_oci_host_is_loopback(const char *host)
{
    const struct sg_str name = { host,
                                 host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":") };
    unsigned dots = 0;
    if (sg_str_is(name, "localhost") || sg_str_is(name, "[::1]"))
        return true;
    for (size_t i = 0; i < name.n; i++)
        dots += name.p[i] == '.';
    return sg_starts_with(host, "127.") && dots == 3 && is_of(name, DIGIT ".");
}

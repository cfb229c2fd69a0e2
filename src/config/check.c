/* SPDX-License-Identifier: Apache-2.0 */
#include "config/check.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/parse.h"
#include "base/str.h"
#include "config/endpoint.h"
#include "config/mapping.h"
#include "base/banned.h"

static const char digits[] = "0123456789";
static const char name_bytes[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

enum { MAX_HOSTNAME = 64, MAX_USER = 64 }; /* both are the kernel's and shadow's own */
enum { MAX_DOMAIN = 200 };                 /* "49983-ID." goes before it */
enum { MAX_ID = 65535 };                   /* a cell has a range of so many */
enum { MAX_POOL = 1000 };                  /* parked sandboxes of one template */

int sg_check_filled(const char *text, struct sg_err *err)
{
    if (!*text)
        return sg_fail(err, SG_INVALID, "must not be empty");
    return 0;
}

/* What stands there is not repeated: it may be a password. */
int sg_check_proxy(const char *text, struct sg_err *err)
{
    const char *at = strrchr(text, '@');
    if (at && memchr(text, ':', (size_t)(at - text)))
        return sg_fail(
            err, SG_INVALID,
            "takes no password, which others could read there: write USER@HOST:PORT; the "
            "password is read from the standard input, or typed unseen");
    if (at == text || !strchr(at ? at : text, ':'))
        return sg_fail(err, SG_INVALID, "%s is not [USER@]HOST:PORT", sg_quote(text).s);
    return 0;
}

int sg_check_absolute(const char *text, struct sg_err *err)
{
    if (text[0] != '/')
        return sg_fail(err, SG_INVALID, "%s is not an absolute path", sg_quote(text).s);
    return 0;
}

int sg_check_hostname(const char *text, struct sg_err *err)
{
    size_t n = strlen(text);
    if (n == 0 || n > MAX_HOSTNAME || text[0] == '-' || strspn(text, name_bytes) != n)
        return sg_fail(err, SG_INVALID, "%s is not a host name (1 to %d of a-z, 0-9, - and .)",
                       sg_quote(text).s, MAX_HOSTNAME);
    return 0;
}

/* "", a name, "1000" or "1000:1000". Whether it exists is known inside only. */
int sg_check_user(const char *text, struct sg_err *err)
{
    size_t n = strlen(text);
    size_t number = strspn(text, digits);
    bool is_name = strspn(text, name_bytes) == n && text[0] != '-';
    bool is_pair = number > 0 && text[number] == ':' && text[number + 1] &&
                   text[number + 1 + strspn(text + number + 1, digits)] == '\0';
    if (n > MAX_USER || !(is_name || is_pair))
        return sg_fail(err, SG_INVALID, "%s is not a user name or UID[:GID]", sg_quote(text).s);
    uint64_t id;
    if (number > 0 && (is_pair || number == n) &&
        (sg_parse_u64((struct sg_str) { text, number }, 0, MAX_ID, &id, NULL) < 0 ||
         (is_pair && sg_parse_u64(sg_str_of(text + number + 1), 0, MAX_ID, &id, NULL) < 0)))
        return sg_fail(err, SG_INVALID, "%s: ids inside go from 0 to %d", sg_quote(text).s, MAX_ID);
    return 0;
}

int sg_check_env(const char *text, struct sg_err *err)
{
    if (text[0] == '=' || text[0] == '\0')
        return sg_fail(err, SG_INVALID, "%s has no name before the '='", sg_quote(text).s);
    return 0;
}

int sg_check_pair(const char *text, struct sg_err *err)
{
    if (text[0] == '=' || !strchr(text, '='))
        return sg_fail(err, SG_INVALID, "%s is not NAME=VALUE", sg_quote(text).s);
    return 0;
}

int sg_check_listen(const char *text, struct sg_err *err)
{
    const char *colon = strrchr(text, ':');
    uint64_t port;
    char host[64] = "";
    uint8_t address[16];
    bool is_good = colon && (size_t)(colon - text) < sizeof host &&
                   sg_parse_u64(sg_str_of(colon + 1), 0, 65535, &port, NULL) == 0;
    if (is_good) {
        bool is_six = text[0] == '[' && colon > text && colon[-1] == ']';
        memcpy(host, text + is_six, (size_t)(colon - text) - (is_six ? 2 : 0));
        is_good = inet_pton(is_six ? AF_INET6 : AF_INET, host, address) == 1;
    }
    if (!is_good)
        return sg_fail(err, SG_INVALID, "%s is not an address and a port, like 127.0.0.1:8787",
                       sg_quote(text).s);
    return 0;
}

/* "", "example.org", "example.org:8443" */
int sg_check_domain(const char *text, struct sg_err *err)
{
    static const char some[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";
    const size_t n = strcspn(text, ":");
    uint64_t port;
    if (!*text)
        return 0;
    if (!n || n > MAX_DOMAIN || strspn(text, some) != n || text[0] == '-' || text[0] == '.' ||
        (text[n] && sg_parse_u64(sg_str_of(text + n + 1), 1, 65535, &port, NULL) < 0))
        return sg_fail(err, SG_INVALID, "%s is not a domain, as in sandglass.localhost:8443",
                       sg_quote(text).s);
    return 0;
}

int sg_check_pool(const char *text, struct sg_err *err)
{
    const char *eq = strrchr(text, '=');
    uint64_t count;
    if (!eq || eq == text || sg_parse_u64(sg_str_of(eq + 1), 0, MAX_POOL, &count, NULL) < 0)
        return sg_fail(err, SG_INVALID, "%s is not TEMPLATE=NUMBER, like base=4 (up to %d)",
                       sg_quote(text).s, MAX_POOL);
    return 0;
}

int sg_check_storage(const char *text, struct sg_err *err)
{
    static const char *const words[] = { "auto", "image", "tmpfs" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(text, words[i]) == 0)
            return 0;
    if (text[0] == '/')
        return 0;
    return sg_fail(err, SG_INVALID, "%s is not one of auto, image, tmpfs, or a directory",
                   sg_quote(text).s);
}

int sg_check_level(const char *text, struct sg_err *err)
{
    static const char *const levels[] = { "debug", "info", "warn", "error" };
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
        if (strcmp(text, levels[i]) == 0)
            return 0;
    return sg_fail(err, SG_INVALID, "%s is not one of debug, info, warn, error", sg_quote(text).s);
}

int sg_check_url(const char *text, struct sg_err *err)
{
    static const char *const prefixes[] = { "http://", "https://", "unix:/" };
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (sg_starts_with(text, prefixes[i]) && text[strlen(prefixes[i])])
            return 0;
    if (!*text) /* as if it were not set */
        return 0;
    return sg_fail(err, SG_INVALID, "%s is not http[s]://HOST:PORT or unix:PATH", sg_quote(text).s);
}

int sg_check_endpoint(const char *text, struct sg_err *err)
{
    struct sg_endpoint ignored;
    return *text ? sg_endpoint_parse(text, &ignored, err) : 0;
}

int sg_check_copy(const char *text, struct sg_err *err)
{
    struct sg_mapping ignored;
    return sg_mapping_parse_copy(text, &ignored, err);
}

int sg_check_bind(const char *text, struct sg_err *err)
{
    struct sg_mapping ignored;
    return sg_mapping_parse_bind(text, &ignored, err);
}

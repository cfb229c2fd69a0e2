/* SPDX-License-Identifier: Apache-2.0 */
#include "config/endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/parse.h"
#include "base/banned.h"

#define TRACES "/v1/traces"
enum { HTTP_PORT = 80, HTTPS_PORT = 443 };

static int no_url(const char *url, const char *why, struct sg_err *err)
{
    return sg_fail(err, SG_INVALID, "%s is no endpoint, like https://HOST/PATH: %s",
                   sg_quote(url).s, why);
}

static int take_authority(const char *url, struct sg_str a, struct sg_endpoint *ret,
                          struct sg_err *err)
{
    const bool is_six = a.n && a.p[0] == '[';
    const char *close = is_six ? memchr(a.p, ']', a.n) : NULL;
    if (is_six && !close)
        return no_url(url, "the address has no end", err);
    const char *host = a.p + is_six;
    const char *colon = is_six ? close + 1 : memchr(a.p, ':', a.n);
    const char *end = is_six ? close : colon ? colon : a.p + a.n;
    if (is_six && colon == a.p + a.n)
        colon = NULL;
    const size_t n = (size_t)(end - host);
    uint64_t port = ret->is_tls ? HTTPS_PORT : HTTP_PORT;
    if (!n || n >= sizeof ret->host ||
        strspn(host, is_six
                         ? "0123456789abcdefABCDEF:."
                         : "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-") < n)
        return no_url(url, "it names no host", err);
    if (colon && (*colon != ':' ||
                  sg_parse_u64((struct sg_str) { colon + 1, (size_t)(a.p + a.n - colon - 1) }, 1,
                               65535, &port, NULL) < 0))
        return no_url(url, "the port is a number from 1 to 65535", err);
    memcpy(ret->host, host, n);
    ret->host[n] = '\0';
    ret->port = (uint16_t)port;
    return 0;
}

int sg_endpoint_parse(const char *url, struct sg_endpoint *ret, struct sg_err *err)
{
    struct sg_endpoint e = { .is_tls = sg_starts_with(url, "https://") };
    if (!e.is_tls && !sg_starts_with(url, "http://"))
        return no_url(url, "it begins with http:// or https://", err);
    const char *rest = strstr(url, "//") + 2;
    if (strpbrk(rest, "@?#\\\"<> "))
        return no_url(url, "a password belongs into the file of headers; no query", err);
    for (const char *c = rest; *c; c++)
        if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 127)
            return no_url(url, "it has characters that a URL has not", err);
    const struct sg_str authority = { rest, strcspn(rest, "/") };
    if (take_authority(url, authority, &e, err) < 0)
        return -1;
    const char *path = rest + authority.n;
    size_t n = strlen(path);
    while (n && path[n - 1] == '/')
        n--;
    const bool has_all = n >= sizeof TRACES - 1 &&
                         memcmp(path + n - (sizeof TRACES - 1), TRACES, sizeof TRACES - 1) == 0;
    if (n + sizeof TRACES > sizeof e.path)
        return no_url(url, "it is too long", err);
    (void)snprintf(e.path, sizeof e.path, "%.*s%s", (int)n, path, has_all ? "" : TRACES);
    *ret = e;
    return 0;
}

/* ---- headers ---- */

static const char *check_header(const char *line)
{
    static const char *const ours[] = { "content-type", "content-length", "host",
                                        "transfer-encoding", "connection" };
    static const char token[] = "!#$%&'*+-.^_`|~0123456789"
                                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const size_t n = strspn(line, token);
    if (!n || line[n] != ':')
        return "a line is NAME: VALUE";
    for (size_t i = 0; i < SG_COUNT(ours); i++)
        if (strlen(ours[i]) == n && strncasecmp(line, ours[i], n) == 0)
            return "this header is not for you to set";
    for (const char *c = line + n + 1; *c; c++)
        if (((unsigned char)*c < ' ' && *c != '\t') || *c == 127)
            return "a value has no control characters";
    return NULL;
}

int sg_headers_parse(char *text, const char *source, char *ret[SG_HEADERS_MAX], struct sg_err *err)
{
    int n = 0;
    unsigned number = 0;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        number++;
        size_t length = strlen(line);
        if (length && line[length - 1] == '\r')
            line[--length] = '\0';
        if (!length || line[0] == '#')
            continue;
        const char *why = n == SG_HEADERS_MAX ? "too many headers" : check_header(line);
        if (why)
            return sg_fail(err, SG_INVALID, "%s:%u: %s", source, number, why);
        ret[n++] = line;
    }
    return n;
}

int sg_headers_read(const char *path, struct sg_buf *to, char *ret[SG_HEADERS_MAX],
                    struct sg_err *err)
{
    struct stat st;
    if (!*path)
        return 0;
    sg_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return sg_fail(err, SG_INVALID, "open %s: %s", sg_quote(path).s, strerror(errno));
    if (st.st_mode & S_IRWXO)
        return sg_fail(err, SG_INVALID, "%s has secrets and anybody can read it; chmod 600 it",
                       sg_quote(path).s);
    if (sg_buf_read_fd(to, fd, path, err) < 0)
        return -1;
    if (strlen(sg_buf_cstr(to)) != to->n)
        return sg_fail(err, SG_INVALID, "%s has a NUL in it", sg_quote(path).s);
    return to->n ? sg_headers_parse((char *)to->p, path, ret, err) : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes, after one that says as what: a traceparent, an endpoint, a file of headers, the
 * machine's own files, a file of spans. What is taken can be used; what is refused has a word. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "config/endpoint.h"
#include "export/post.h"
#include "meter/span.h"
#include "net/resolv.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void demand(bool holds)
{
    if (!holds)
        abort();
}

static void as_traceparent(const char *text, size_t n)
{
    struct sg_trace t = { 0 };
    if (!sg_traceparent_parse((struct sg_str) { text, n }, &t)) {
        demand(!t.is_set);
        return;
    }
    const struct sg_traceparent back = sg_traceparent_format(&t);
    demand(memcmp(back.s + 2, text + 2, 50) == 0);
}

static void as_endpoint(const char *text, size_t n)
{
    struct sg_endpoint e;
    struct sg_err err = { 0 };
    (void)n;
    if (sg_endpoint_parse(text, &e, &err) < 0)
        demand(err.kind == SG_INVALID && err.msg[0]);
    else
        demand(e.host[0] && e.port && e.path[0] == '/' && !strpbrk(e.path, " @?#\r\n"));
}

static void as_headers(char *text, size_t n)
{
    char *v[SG_HEADERS_MAX];
    struct sg_err err = { 0 };
    (void)n;
    const int got = sg_headers_parse(text, "f", v, &err);
    demand(got >= 0 || err.kind == SG_INVALID);
    for (int i = 0; i < got; i++)
        demand(strchr(v[i], ':') && !strpbrk(v[i], "\r\n"));
}

static void as_files(char *text, size_t n)
{
    struct sg_addr found[4];
    char *servers[4];
    (void)n;
    demand(sg_hosts_find(text, "localhost", found, 4) <= 4);
    demand(sg_resolv_servers(text, servers, 4) <= 4);
}

static void as_spans(const char *text, size_t n)
{
    sg_auto_buf out;
    sg_buf_init(&out, SG_POST_BODY_MAX);
    const unsigned lines = sg_body_format((struct sg_str) { text, n }, "h", &out);
    demand(lines <= n / 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    if (n == 0)
        return 0;
    sg_auto_free char *text = sg_alloc(n);
    memcpy(text, p + 1, n - 1);
    text[n - 1] = '\0';
    switch (p[0] % 5) {
    case 0:
        as_traceparent(text, n - 1);
        break;
    case 1:
        as_endpoint(text, n - 1);
        break;
    case 2:
        as_headers(text, n - 1);
        break;
    case 3:
        as_files(text, n - 1);
        break;
    default:
        as_spans(text, n - 1);
        break;
    }
    return 0;
}

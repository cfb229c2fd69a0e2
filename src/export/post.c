/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl, and not our own: it knows the many ways in which servers end connections, and TLS.
 *
 * What is taken, what is tried again and what is given up is OTLP's: 429, 502, 503 and 504 are
 * tried again (and what never had an answer), other refusals are final. */
#include "export/post.h"

#include <stdio.h>
#include <string.h>

#include <curl/curl.h>

#include "base/auto.h"
#include "base/banned.h"

enum { CONNECT_MS = 10000, ALL_MS = 30000, ANSWER_MAX = 4096, WAIT_MAX_S = 3600 };

int sg_post_init(struct sg_err *err)
{
    if (curl_global_init(CURL_GLOBAL_ALL) != CURLE_OK)
        return sg_fail(err, SG_UNSUPPORTED, "libcurl does not start");
    return 0;
}

static size_t keep(char *p, size_t size, size_t count, void *arg)
{
    struct sg_buf *answer = arg;
    const size_t n = size * count, room = answer->max - answer->n;
    sg_buf_add(answer, p, n < room ? n : room);
    return n;
}

/* The name is asked for as it is written, and met at the addresses that we found. */
static struct curl_slist *addresses(const struct sg_post_options *o, struct sg_err *err)
{
    struct sg_addr found[SG_POST_ADDRS_MAX];
    const int n = sg_find(o, found, SG_POST_ADDRS_MAX, err);
    sg_auto_buf line;
    sg_buf_init(&line, 4096);
    if (n < 0)
        return NULL;
    sg_buf_addf(&line, "%s:%u:", o->to.host, o->to.port);
    for (int i = 0; i < n; i++) {
        char text[SG_ADDR_TEXT];
        sg_addr_format(&found[i], text);
        sg_buf_addf(&line, strchr(text, ':') ? "%s[%s]" : "%s%s", i ? "," : "", text);
    }
    return curl_slist_append(NULL, sg_buf_cstr(&line));
}

static struct curl_slist *headers(const struct sg_post_options *o)
{
    struct curl_slist *list = curl_slist_append(NULL, "Content-Type: application/json");
    list = curl_slist_append(list, "Expect:");
    for (unsigned i = 0; i < o->header_count; i++)
        list = curl_slist_append(list, o->headers[i]);
    return list;
}

static void prepare(CURL *c, const struct sg_post_options *o, struct sg_str body)
{
    const bool is_six = strchr(o->to.host, ':') != NULL;
    sg_auto_free char *url =
        sg_printf(is_six ? "%s://[%s]:%u%s" : "%s://%s:%u%s", o->to.is_tls ? "https" : "http",
                  o->to.host, o->to.port, o->to.path);
    struct curl_blob ca = { (void *)(uintptr_t)o->ca.p, o->ca.n, CURL_BLOB_NOCOPY };
    (void)curl_easy_setopt(c, CURLOPT_URL, url);
    (void)curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(c, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(c, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(c, CURLOPT_USERAGENT, "sandglass");
    (void)curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    (void)curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)ALL_MS);
    (void)curl_easy_setopt(c, CURLOPT_POST, 1L);
    (void)curl_easy_setopt(c, CURLOPT_POSTFIELDS, body.p);
    (void)curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.n);
    (void)curl_easy_setopt(c, CURLOPT_CAINFO, NULL);
    (void)curl_easy_setopt(c, CURLOPT_CAPATH, NULL);
    if (o->to.is_tls)
        (void)curl_easy_setopt(c, CURLOPT_CAINFO_BLOB, &ca);
}

/* Text of the other side, for a log: one line of what can be shown. */
static void say(struct sg_post_result *ret, const char *what, const struct sg_buf *answer)
{
    int n = snprintf(ret->why, sizeof ret->why, "%s", what);
    if (answer->n && n > 0 && (size_t)n < sizeof ret->why)
        n += snprintf(ret->why + n, sizeof ret->why - (size_t)n, ": %.*s", (int)answer->n,
                      (const char *)answer->p);
    for (char *c = ret->why; *c; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c >= 127)
            *c = '?';
}

static enum sg_post_verdict judge(long status)
{
    if (status >= 200 && status < 300)
        return SG_POST_TAKEN;
    return status == 408 || status == 429 || status == 502 || status == 503 || status == 504
               ? SG_POST_LATER
               : SG_POST_REFUSED;
}

static void perform(CURL *c, struct sg_buf *answer, struct sg_post_result *ret)
{
    long status = 0;
    curl_off_t wait_s = 0;
    char what[80];
    const CURLcode code = curl_easy_perform(c);
    (void)curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_easy_getinfo(c, CURLINFO_RETRY_AFTER, &wait_s);
    if (code != CURLE_OK) {
        ret->verdict = SG_POST_LATER;
        sg_buf_clear(answer);
        say(ret, curl_easy_strerror(code), answer);
        return;
    }
    ret->status = (uint32_t)status;
    ret->verdict = judge(status);
    ret->wait_ms = wait_s > 0 && wait_s <= WAIT_MAX_S ? (uint32_t)wait_s * 1000 : 0;
    (void)snprintf(what, sizeof what, "status %ld", status);
    if (ret->verdict != SG_POST_TAKEN)
        say(ret, what, answer);
}

void sg_post(const struct sg_post_options *o, struct sg_str body, struct sg_post_result *ret)
{
    struct sg_err err = { 0 };
    sg_auto_buf answer;
    sg_buf_init(&answer, ANSWER_MAX);
    *ret = (struct sg_post_result) { .verdict = SG_POST_LATER };
    struct curl_slist *where = addresses(o, &err);
    CURL *c = where ? curl_easy_init() : NULL;
    if (!c) {
        say(ret, where ? "no memory" : err.msg, &answer);
        curl_slist_free_all(where);
        return;
    }
    struct curl_slist *head = headers(o);
    prepare(c, o, body);
    (void)curl_easy_setopt(c, CURLOPT_RESOLVE, where);
    (void)curl_easy_setopt(c, CURLOPT_HTTPHEADER, head);
    (void)curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, keep);
    (void)curl_easy_setopt(c, CURLOPT_WRITEDATA, &answer);
    perform(c, &answer, ret);
    curl_easy_cleanup(c);
    curl_slist_free_all(head);
    curl_slist_free_all(where);
}

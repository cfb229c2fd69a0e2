/* SPDX-License-Identifier: Apache-2.0 */
/* Requests by libcurl, one at a time, blocking: there is nothing else to do meanwhile.
 *
 * H1. Credentials go to the registry and to the realm that it names, by TLS (or on this machine, or
 * where the settings say), and nowhere else: not behind a redirect, not into a message. H2. A
 * redirect is followed for reading only, and never from TLS to none. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <curl/curl.h>

#include "base/auto.h"
#include "base/jsonr.h"
#include "image/oci_ref.h"
#include "registry/registry.h"
#include "wire/base64.h"
#include "wire/url.h"
#include "base/banned.h"

enum { CONNECT_MS = 15000, STALL_S = 60, ANSWER_MAX = 16 << 10, HOPS = 6, TOKEN_MAX = 1 << 20 };

/* ---- where a URL leads ---- */

struct place {
    char host[256]; /* as in the URL, with brackets */
    char port[8];
    bool is_tls;
};

static int find_place(const char *url, struct place *ret, struct sg_err *err)
{
    CURLU *u = curl_url();
    char *scheme = NULL, *host = NULL, *port = NULL;
    const bool is_read = u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
                         curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                         curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
                         curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK;
    struct place p = { 0 };
    const bool is_fine = is_read && strlen(host) < sizeof p.host && strlen(port) < sizeof p.port &&
                         (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
    if (is_fine) {
        memcpy(p.host, host, strlen(host) + 1);
        memcpy(p.port, port, strlen(port) + 1);
        p.is_tls = strcmp(scheme, "https") == 0;
    }
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(u);
    if (!is_fine)
        return sg_fail(err, SG_INVALID, "the registry leads to %s", sg_quote(url).s);
    *ret = p;
    return 0;
}

/* Without TLS only where the registry itself is spoken to so. */
static int check_place(const struct sg_registry *r, const struct place *p, struct sg_err *err)
{
    if (p->is_tls || r->request->is_plain)
        return 0;
    return sg_fail(err, SG_DENIED, "the registry leads to %s without TLS", sg_quote(p->host).s);
}

static bool is_same(const struct place *a, const struct place *b)
{
    return strcmp(a->host, b->host) == 0 && strcmp(a->port, b->port) == 0;
}

/* The name is asked for as it is written, and met at the addresses that we found. */
static struct curl_slist *addresses(const struct sg_registry *r, const struct place *p,
                                    struct sg_err *err)
{
    struct sg_addr found[SG_POST_ADDRS_MAX];
    struct sg_post_options o = r->names;
    const bool is_six = p->host[0] == '[';
    (void)snprintf(o.to.host, sizeof o.to.host, "%s", p->host + is_six);
    o.to.host[strcspn(o.to.host, "]")] = '\0';
    const int n = strcmp(o.to.host, "localhost") == 0
                      ? sg_addr_parse(sg_str_of("127.0.0.1"), &found[0], err) + 1
                      : sg_find(&o, found, SG_POST_ADDRS_MAX, err);
    if (n <= 0)
        return NULL;
    sg_auto_buf line;
    sg_buf_init(&line, 4096);
    sg_buf_addf(&line, "%s:%s:", o.to.host, p->port);
    for (int i = 0; i < n; i++) {
        char text[SG_ADDR_TEXT];
        sg_addr_format(&found[i], text);
        sg_buf_addf(&line, strchr(text, ':') ? "%s[%s]" : "%s%s", i ? "," : "", text);
    }
    return curl_slist_append(NULL, sg_buf_cstr(&line));
}

/* ---- one exchange ---- */

struct exchange {
    CURL *curl;
    struct sg_call *call;
    struct sg_buf said; /* what is not the answer that was wanted */
    uint64_t sent;
    bool was_refused; /* by `take` */
};

static size_t take_bytes(char *p, size_t size, size_t count, void *arg)
{
    struct exchange *x = arg;
    const size_t n = size * count, room = x->said.max - x->said.n;
    long status = 0;
    (void)curl_easy_getinfo(x->curl, CURLINFO_RESPONSE_CODE, &status);
    x->call->is_whole = status != 206;
    if (status >= 200 && status < 300 && x->call->take) {
        x->was_refused = x->call->take(x->call->arg, p, n) < 0;
        return x->was_refused ? 0 : n;
    }
    sg_buf_add(&x->said, p, n < room ? n : room);
    return n;
}

static size_t give_bytes(char *p, size_t size, size_t count, void *arg)
{
    struct exchange *x = arg;
    const ssize_t n = pread(x->call->body_fd, p, size * count, (off_t)x->sent);
    if (n < 0)
        return CURL_READFUNC_ABORT;
    x->sent += (uint64_t)n;
    return (size_t)n;
}

/* Asked about once a second: nobody is left to tell, where the command was killed. */
static int look_around(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)arg, (void)a, (void)b, (void)c, (void)d;
    struct pollfd out = { .fd = STDOUT_FILENO };
    return poll(&out, 1, 0) > 0 && (out.revents & POLLERR);
}

static struct curl_slist *headers(const struct sg_registry *r, const struct sg_call *c,
                                  bool is_trusted)
{
    const struct {
        const char *name, *value;
    } rows[] = { { "Accept", c->accept },
                 { "Content-Type", c->content_type },
                 { "Authorization", is_trusted ? r->authorization : NULL } };
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        if (!rows[i].value)
            continue;
        sg_auto_free char *line = sg_printf("%s: %s", rows[i].name, rows[i].value);
        list = curl_slist_append(list, line);
        explicit_bzero(line, strlen(line));
    }
    return list;
}

static void set_body(struct exchange *x)
{
    struct sg_call *c = x->call;
    if (strcmp(c->method, "HEAD") == 0) {
        (void)curl_easy_setopt(x->curl, CURLOPT_NOBODY, 1L);
    } else if (c->body_fd >= 0) {
        (void)curl_easy_setopt(x->curl, CURLOPT_UPLOAD, 1L);
        (void)curl_easy_setopt(x->curl, CURLOPT_READFUNCTION, give_bytes);
        (void)curl_easy_setopt(x->curl, CURLOPT_READDATA, x);
        (void)curl_easy_setopt(x->curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)c->body_size);
        (void)curl_easy_setopt(x->curl, CURLOPT_CUSTOMREQUEST, c->method);
    } else if (strcmp(c->method, "GET") != 0) {
        (void)curl_easy_setopt(x->curl, CURLOPT_POST, 1L);
        (void)curl_easy_setopt(x->curl, CURLOPT_POSTFIELDS, c->body.n ? c->body.p : "");
        (void)curl_easy_setopt(x->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->body.n);
        (void)curl_easy_setopt(x->curl, CURLOPT_CUSTOMREQUEST, c->method);
    }
}

static void prepare(const struct sg_registry *r, struct exchange *x, const char *url)
{
    CURL *c = x->curl;
    char range[40];
    struct curl_blob ca = { (void *)(uintptr_t)r->names.ca.p, r->names.ca.n, CURL_BLOB_NOCOPY };
    (void)curl_easy_setopt(c, CURLOPT_URL, url);
    (void)curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(c, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(c, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(c, CURLOPT_USERAGENT, "sandglass");
    (void)curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    (void)curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    (void)curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)STALL_S);
    (void)curl_easy_setopt(c, CURLOPT_CAINFO, NULL);
    (void)curl_easy_setopt(c, CURLOPT_CAPATH, NULL);
    (void)curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, look_around);
    (void)curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_bytes);
    (void)curl_easy_setopt(c, CURLOPT_WRITEDATA, x);
    if (ca.len)
        (void)curl_easy_setopt(c, CURLOPT_CAINFO_BLOB, &ca);
    if (x->call->from) {
        (void)snprintf(range, sizeof range, "%llu-", (unsigned long long)x->call->from);
        (void)curl_easy_setopt(c, CURLOPT_RANGE, range);
    }
    set_body(x);
}

static void header_of(CURL *c, const char *name, char *to, size_t cap)
{
    struct curl_header *h;
    to[0] = '\0';
    if (curl_easy_header(c, name, 0, CURLH_HEADER, -1, &h) == CURLHE_OK && strlen(h->value) < cap)
        memcpy(to, h->value, strlen(h->value) + 1);
}

/* Of several challenges Bearer is taken. */
static int challenge_of(CURL *c, struct sg_challenge *ret, struct sg_err *err)
{
    struct curl_header *h;
    int got = sg_fail(err, SG_INVALID, "the registry asks for a login and does not say how");
    for (size_t i = 0;
         curl_easy_header(c, "WWW-Authenticate", i, CURLH_HEADER, -1, &h) == CURLHE_OK; i++) {
        struct sg_challenge one;
        if (sg_challenge_parse(h->value, &one, err) < 0)
            continue;
        if (got < 0 || one.is_bearer)
            *ret = one;
        got = 0;
    }
    return got;
}

static int exchange(struct sg_registry *r, struct sg_call *c, const char *url, bool is_trusted,
                    struct sg_buf *said, struct sg_challenge *challenge, struct sg_err *err)
{
    struct place p;
    if (find_place(url, &p, err) < 0 || check_place(r, &p, err) < 0)
        return -1;
    struct curl_slist *where = addresses(r, &p, err);
    if (!where)
        return -1;
    struct exchange x = { .curl = curl_easy_init(), .call = c, .said = *said };
    struct curl_slist *head = headers(r, c, is_trusted);
    prepare(r, &x, url);
    (void)curl_easy_setopt(x.curl, CURLOPT_RESOLVE, where);
    (void)curl_easy_setopt(x.curl, CURLOPT_HTTPHEADER, head);
    const CURLcode code = curl_easy_perform(x.curl);
    char *to = NULL;
    (void)curl_easy_getinfo(x.curl, CURLINFO_RESPONSE_CODE, &c->status);
    (void)curl_easy_getinfo(x.curl, CURLINFO_REDIRECT_URL, &to);
    header_of(x.curl, "Location", c->location, sizeof c->location);
    if (to && strlen(to) < sizeof c->location)
        memcpy(c->location, to, strlen(to) + 1);
    header_of(x.curl, "Content-Type", c->type, sizeof c->type);
    header_of(x.curl, "Docker-Content-Digest", c->digest, sizeof c->digest);
    int got = 0;
    struct sg_err unused;
    if (code != CURLE_OK && x.was_refused) {
        got = -1; /* whoever takes it has said why */
    } else if (code == CURLE_SSL_CONNECT_ERROR || code == CURLE_PEER_FAILED_VERIFICATION) {
        got = sg_fail(err, SG_DENIED, "%s: %s; see registry.ca and registry.insecure", p.host,
                      curl_easy_strerror(code));
    } else if (code != CURLE_OK) {
        c->was_cut = code != CURLE_ABORTED_BY_CALLBACK;
        got = sg_fail(err, SG_UNAVAILABLE, "%s: %s", p.host, curl_easy_strerror(code));
    } else if (c->status == 401) {
        *challenge = (struct sg_challenge) { 0 };
        (void)challenge_of(x.curl, challenge, &unused);
    }
    *said = x.said;
    curl_easy_cleanup(x.curl);
    curl_slist_free_all(head);
    curl_slist_free_all(where);
    return got;
}

/* ---- who we are ---- */

static void set_authorization(struct sg_registry *r, char *value)
{
    if (r->authorization)
        explicit_bzero(r->authorization, strlen(r->authorization));
    free(r->authorization);
    r->authorization = value;
}

static char *basic(const struct sg_registry *r)
{
    sg_auto_free char *pair = sg_printf("%s:%s", r->request->user, r->request->password);
    sg_auto_buf text;
    sg_buf_init(&text, 64 << 10);
    sg_buf_add_str(&text, "Basic ");
    sg_base64_encode(&text, pair, strlen(pair));
    explicit_bzero(pair, strlen(pair));
    char *copy = sg_strdup(sg_buf_cstr(&text));
    explicit_bzero(text.p, text.n);
    return copy;
}

static int take_text(void *arg, const void *p, size_t n)
{
    struct sg_buf *text = arg;
    sg_buf_add(text, p, n);
    return text->has_overflowed ? -1 : 0;
}

static int fetch_token(struct sg_registry *r, const struct sg_challenge *c, struct sg_err *err)
{
    sg_auto_free char *scope =
        sg_printf("repository:%s:%s", r->request->repository, r->is_push ? "pull,push" : "pull");
    sg_auto_buf url, text, said;
    sg_buf_init(&url, SG_REGISTRY_URL_MAX);
    sg_buf_init(&text, TOKEN_MAX);
    sg_buf_init(&said, ANSWER_MAX);
    sg_buf_addf(&url, "%s%sservice=", c->realm, strchr(c->realm, '?') ? "&" : "?");
    sg_url_encode(&url, sg_str_of(c->service), false);
    sg_buf_add_str(&url, "&scope=");
    sg_url_encode(&url, sg_str_of(scope), false);
    if (sg_buf_check(&url, "realm", err) < 0)
        return -1;
    set_authorization(r, *r->request->user ? basic(r) : NULL);
    struct sg_call call = { .method = "GET", .body_fd = -1, .take = take_text, .arg = &text };
    struct sg_challenge unused;
    if (exchange(r, &call, sg_buf_cstr(&url), true, &said, &unused, err) < 0)
        return text.has_overflowed ? sg_buf_check(&text, "token", err)
                                   : sg_wrap(err, "get a token");
    if (call.status == 401 || call.status == 403)
        return sg_fail(err, SG_DENIED, "the registry does not take these credentials");
    if (call.status < 200 || call.status > 299)
        return sg_fail(err, SG_UNAVAILABLE, "get a token: status %ld", call.status);
    char *token = sg_token_parse((struct sg_str) { (const char *)text.p, text.n }, err);
    if (!token)
        return sg_wrap(err, "get a token");
    set_authorization(r, sg_printf("Bearer %s", token));
    explicit_bzero(token, strlen(token));
    free(token);
    explicit_bzero(text.p, text.n);
    return 0;
}

static int log_in(struct sg_registry *r, const struct sg_challenge *c, struct sg_err *err)
{
    if (c->is_bearer)
        return fetch_token(r, c, err);
    if (!*r->request->user)
        return sg_fail(err, SG_DENIED, "the registry wants credentials for this; see --auth-file");
    set_authorization(r, basic(r));
    return 0;
}

/* ---- the whole of it ---- */

/* {"errors":[{"code":"...","message":"..."}]}, or nothing that can be shown. */
static struct sg_quoted words_of(const struct sg_buf *said)
{
    struct sg_err unused;
    const struct sg_jval *v;
    sg_auto_arena a;
    sg_arena_init(&a, 1 << 20);
    if (sg_json_parse((struct sg_str) { (const char *)said->p, said->n }, &a, &v, &unused) < 0)
        return sg_quote("no reason");
    const struct sg_jval *list = sg_json_get(v, "errors");
    const struct sg_jval *first = list && list->kind == SG_J_ARRAY ? list->list.first : NULL;
    const struct sg_jval *m = first ? sg_json_get(first, "message") : NULL;
    return m && m->kind == SG_J_STRING ? sg_quote_str(m->s) : sg_quote("no reason");
}

static int fail_status(const struct sg_call *c, const struct sg_buf *said, struct sg_err *err)
{
    const struct sg_quoted why = words_of(said);
    if (c->status == 401 || c->status == 403)
        return sg_fail(err, SG_DENIED, "the registry refuses: %s (status %ld)", why.s, c->status);
    if (c->status == 404)
        return sg_fail(err, SG_NOT_FOUND, "the registry does not have it: %s", why.s);
    return sg_fail(err, c->status == 429 || c->status >= 500 ? SG_UNAVAILABLE : SG_INVALID,
                   "the registry answers with status %ld: %s", c->status, why.s);
}

int sg_registry_call(struct sg_registry *r, struct sg_call *c, struct sg_err *err)
{
    const struct sg_registry_request *q = r->request;
    sg_auto_free char *base = sg_printf("%s://%s/v2/", q->is_plain ? "http" : "https", q->host);
    sg_auto_free char *url = strstr(c->url, "://") ? sg_strdup(c->url)
                             : c->url[0] == '/'
                                 ? sg_printf("%.*s%s", (int)(strlen(base) - 4), base, c->url)
                                 : sg_printf("%s%s", base, c->url);
    struct place home, at;
    if (find_place(base, &home, err) < 0)
        return -1;
    bool has_logged_in = false;
    const bool is_reading = strcmp(c->method, "GET") == 0 || strcmp(c->method, "HEAD") == 0;
    for (int hop = 0; hop < HOPS; hop++) {
        struct sg_challenge challenge;
        sg_auto_buf said;
        sg_buf_init(&said, ANSWER_MAX);
        c->was_cut = false;
        if (find_place(url, &at, err) < 0 ||
            exchange(r, c, url, is_same(&home, &at), &said, &challenge, err) < 0)
            return -1;
        if (c->status >= 200 && c->status < 300)
            return 0;
        if (c->status == 401 && !has_logged_in && is_same(&home, &at)) {
            has_logged_in = true;
            if (log_in(r, &challenge, err) < 0)
                return -1;
        } else if (c->status >= 300 && c->status < 400 && is_reading && c->location[0]) {
            free(url);
            url = sg_strdup(c->location);
        } else {
            return fail_status(c, &said, err);
        }
    }
    return sg_fail(err, SG_INVALID, "the registry sends us in circles");
}

void sg_registry_done(struct sg_registry *r)
{
    set_authorization(r, NULL);
}

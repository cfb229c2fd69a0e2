/* SPDX-License-Identifier: Apache-2.0 */
/* Downloads: the file's bytes, by sendfile from the descriptor that init opened. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "api/e2b/e2b.h"
#include "api/e2b/root.h"
#include "api/e2b/sign.h"
#include "base/auto.h"
#include "base/parse.h"
#include "manager/files.h"
#include "wire/url.h"
#include "base/banned.h"

enum { UNSIZED_MAX = 4 << 20 }; /* of files that tell no size, as those of /proc */

/* ---- what the reply says of the file ---- */

static const char *type_of(const char *path)
{
    static const struct {
        const char *ending, *type;
    } types[] = {
        { ".txt", "text/plain; charset=utf-8" },
        { ".html", "text/html; charset=utf-8" },
        { ".css", "text/css; charset=utf-8" },
        { ".js", "text/javascript; charset=utf-8" },
        { ".json", "application/json" },
        { ".xml", "text/xml; charset=utf-8" },
        { ".csv", "text/csv; charset=utf-8" },
        { ".md", "text/markdown; charset=utf-8" },
        { ".png", "image/png" },
        { ".jpg", "image/jpeg" },
        { ".jpeg", "image/jpeg" },
        { ".gif", "image/gif" },
        { ".svg", "image/svg+xml" },
        { ".pdf", "application/pdf" },
        { ".wasm", "application/wasm" },
        { ".gz", "application/gzip" },
        { ".zip", "application/zip" },
    };
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < SG_COUNT(types); i++)
        if (strcmp(dot, types[i].ending) == 0)
            return types[i].type;
    return "application/octet-stream";
}

static void describe(struct sg_call *c, const char *path, const struct stat *st)
{
    sg_auto_buf name;
    char date[64];
    struct tm tm;
    sg_buf_init(&name, 16 << 10);
    sg_buf_add_str(&name, "inline; filename*=utf-8''");
    sg_url_encode(&name, sg_str_of(sg_e2b_basename(path)), false);
    sg_reply_header(c, "Content-Disposition", sg_buf_cstr(&name));
    if (gmtime_r(&st->st_mtim.tv_sec, &tm) &&
        strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &tm))
        sg_reply_header(c, "Last-Modified", date);
    sg_reply_header(c, "Vary", "Accept-Encoding");
}

/* ---- one range of it ---- */

/* "bytes=first-last", "bytes=first-", "bytes=-count". 0: the whole; 1: the range; -1: not there. */
static int read_range(const char *text, uint64_t size, uint64_t *ret_at, uint64_t *ret_n)
{
    uint64_t first = 0, last = size ? size - 1 : 0;
    if (!text || strncmp(text, "bytes=", 6) != 0)
        return 0;
    const struct sg_str begin = { text + 6, strcspn(text + 6, "-") };
    if (!begin.p[begin.n])
        return 0;
    const struct sg_str end = sg_str_of(begin.p + begin.n + 1);
    if ((begin.n && sg_parse_u64(begin, 0, INT64_MAX, &first, NULL) < 0) ||
        (end.n && sg_parse_u64(end, 0, INT64_MAX, &last, NULL) < 0) || (!begin.n && !end.n))
        return 0;
    if (!begin.n) { /* so many at the end */
        *ret_n = last < size ? last : size;
        *ret_at = size - *ret_n;
        return *ret_n ? 1 : -1;
    }
    if (first >= size)
        return -1;
    if (last < first)
        return 0;
    *ret_at = first;
    *ret_n = (last < size ? last : size - 1) - first + 1;
    return 1;
}

static void send_file(struct sg_call *c, const char *path, int fd, const struct stat *st)
{
    char range[96];
    uint64_t size = (uint64_t)st->st_size, at = 0, n = size;
    int part = read_range(sg_call_header(c, "Range"), size, &at, &n);
    sg_reply_header(c, "Accept-Ranges", "bytes");
    if (part < 0) {
        (void)snprintf(range, sizeof range, "bytes */%llu", (unsigned long long)size);
        sg_reply_header(c, "Content-Range", range);
        (void)close(fd);
        sg_reply_text(c, 416, "text/plain", "invalid range");
        return;
    }
    if (part > 0) {
        (void)snprintf(range, sizeof range, "bytes %llu-%llu/%llu", (unsigned long long)at,
                       (unsigned long long)(at + n - 1), (unsigned long long)size);
        sg_reply_header(c, "Content-Range", range);
    }
    sg_reply_file(c, part > 0 ? 206 : 200, type_of(path), fd, at, n);
}

/* It says that it is empty; who knows. Opened without blocking, by init. */
static void send_unsized(struct sg_call *c, const char *path, int fd)
{
    sg_auto_buf out;
    sg_buf_init(&out, UNSIZED_MAX);
    while (!out.has_overflowed) {
        uint8_t piece[16384];
        ssize_t n = read(fd, piece, sizeof piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        sg_buf_add(&out, piece, (size_t)n);
    }
    sg_reply_bytes(c, 200, type_of(path), out.p, out.n);
}

/* ---- the request ---- */

static void fail(struct sg_call *c, const char *path, const struct sg_err *err)
{
    struct sg_err own = *err;
    if (sg_e2b_again_as_root(c, err))
        return;
    if (err->kind == SG_NOT_FOUND && err->sys == ENOENT)
        (void)sg_fail(&own, SG_NOT_FOUND, "path %s does not exist", sg_quote(path).s);
    else if (err->kind == SG_DENIED)
        own.kind = SG_INTERNAL; /* unreadable is a failure there; a token would not help */
    sg_reply_error(c, &own);
}

/* "If-Modified-Since": the client has it, as it is. A date that cannot be read asks for all. */
static bool is_unchanged(struct sg_call *c, const struct stat *st)
{
    const char *since = sg_call_header(c, "If-Modified-Since");
    struct tm tm = { 0 };
    const char *end = since ? strptime(since, "%a, %d %b %Y %H:%M:%S GMT", &tm) : NULL;
    return end && !*end && st->st_mtim.tv_sec <= timegm(&tm);
}

static void opened(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_call *c = arg;
    const char *path = sg_e2b_visit(c)->own;
    struct sg_err own = { 0 };
    struct stat st;
    if (!p) {
        fail(c, path, err);
        return;
    }
    sg_auto_fd fd = sg_packet_take_fd(p, 0);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        (void)sg_fail(&own, SG_INVALID, "path %s is a directory", sg_quote(path).s);
        sg_reply_error(c, &own);
        return;
    }
    describe(c, path, &st);
    if (is_unchanged(c, &st))
        sg_reply_empty(c, 304);
    else if (st.st_size)
        send_file(c, path, sg_take_fd(&fd), &st);
    else
        send_unsized(c, path, fd);
}

int sg_envd_download(struct sg_call *c, struct sg_sandbox *s, struct sg_err *err)
{
    struct sg_e2b_visit *v = sg_e2b_visit(c);
    struct sg_msg m = { .type = SG_MSG_OPEN };
    if (sg_e2b_check_signed(c, err) < 0) {
        sg_e2b_error(c, 401, err);
        return 0;
    }
    const char *path = sg_e2b_path(c, sg_call_query(c, "path"), err);
    if (!path)
        return -1;
    v->own = (void *)(uintptr_t)path;
    m.open = (struct sg_msg_open) { sg_text_of(v->user), sg_text_of(path), O_RDONLY, 0 };
    return sg_files_ask(s, &c->who, &m, NULL, 0, opened, c, err);
}

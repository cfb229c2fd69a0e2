/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/out.h"
#include "base/banned.h"

static void file_target(struct sg_buf *out, const struct sg_remote *r, const char *tail,
                        const char *path)
{
    sg_buf_init(out, SG_API_MAX_PATH);
    sg_api_path(out, r->kind, r->owner, "files", tail);
    sg_api_query(out, "path", path);
}

int sg_remote_stat(const struct sg_remote *r, const char *path, enum sg_remote_kind *ret,
                   uint64_t *ret_mode, struct sg_err *err)
{
    sg_auto_buf target;
    const struct sg_jval *v;
    file_target(&target, r, "stat", path);
    *ret = SG_REMOTE_NOTHING;
    if (sg_api_call(r->api, "GET", sg_buf_cstr(&target), NULL, &v, err) < 0)
        return err->kind == SG_NOT_FOUND ? 0 : -1;
    *ret = strcmp(sg_api_text(v, "type"), "directory") == 0 ? SG_REMOTE_DIRECTORY : SG_REMOTE_FILE;
    uint64_t mode = 0;
    for (const char *p = sg_api_text(v, "mode"); *p >= '0' && *p <= '7'; p++)
        mode = mode << 3 | (uint64_t)(*p - '0');
    *ret_mode = mode & 0777;
    return 0;
}

/* ---- in ---- */

struct upload {
    const struct sg_remote *remote;
    struct sg_http *http;
    int dir_fd;
    uint64_t sent;
};

static int put_chunk(void *arg, const void *p, size_t n, struct sg_err *err)
{
    struct upload *u = arg;
    u->sent += n;
    if (u->remote->most_bytes && u->sent > u->remote->most_bytes)
        return sg_fail(err, SG_EXHAUSTED, "the directory is over %llu bytes",
                       (unsigned long long)u->remote->most_bytes);
    return sg_http_put(u->http, p, n, err);
}

static int write_tree(void *arg, struct sg_http *h, struct sg_err *err)
{
    struct upload *u = arg;
    u->http = h;
    return sg_tar_pack(u->dir_fd, put_chunk, u, u->remote->count, err);
}

static int make_dir(const struct sg_remote *r, const char *path, struct sg_err *err)
{
    sg_auto_buf target, body;
    struct sg_json json;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_buf_init(&body, SG_API_MAX_PATH);
    sg_api_path(&target, r->kind, r->owner, "files", "mkdir");
    sg_json_init(&json, &body);
    sg_json_open(&json, '{');
    sg_json_key(&json, "path");
    sg_json_str(&json, path);
    sg_json_key(&json, "parents");
    sg_json_bool(&json, true);
    sg_json_close(&json, '}');
    return sg_api_call(r->api, "POST", sg_buf_cstr(&target), &body, NULL, err);
}

/* The answer to a body that was streamed. */
static int finish_upload(const struct sg_remote *r, struct sg_err *err)
{
    sg_auto_buf ignored;
    sg_buf_init(&ignored, SG_API_MAX_REPLY);
    if (sg_api_check(r->api, err) < 0)
        return -1;
    return sg_http_read_all(&r->api->http, &ignored, err);
}

int sg_remote_put_tree(const struct sg_remote *r, int dir_fd, const char *path, struct sg_err *err)
{
    sg_auto_buf target;
    struct upload u = { .remote = r, .dir_fd = dir_fd };
    file_target(&target, r, "tar", path);
    if (make_dir(r, path, err) < 0) {
        (void)close(dir_fd);
        return -1;
    }
    if (sg_http_send_with(&r->api->http, "PUT", sg_buf_cstr(&target), write_tree, &u, err) < 0)
        return -1;
    return finish_upload(r, err);
}

int sg_remote_put_file(const struct sg_remote *r, int fd, const struct stat *st, const char *path,
                       struct sg_err *err)
{
    sg_auto_buf target;
    char mode[8];
    const bool is_regular = S_ISREG(st->st_mode);
    const char *slash = strrchr(path, '/');
    if (r->makes_parents && slash && slash != path) {
        sg_auto_free char *parent = sg_printf("%.*s", (int)(slash - path), path);
        if (make_dir(r, parent, err) < 0)
            return -1;
    }
    file_target(&target, r, NULL, path);
    (void)snprintf(mode, sizeof mode, "%04o", is_regular ? st->st_mode & 0777 : 0644u);
    sg_api_query(&target, "mode", mode);
    const uint64_t bytes = is_regular ? (uint64_t)st->st_size : UINT64_MAX;
    if (sg_http_send_fd(&r->api->http, "PUT", sg_buf_cstr(&target), fd, bytes, err) < 0)
        return -1;
    r->count->files = 1;
    r->count->bytes = is_regular ? bytes : 0;
    return finish_upload(r, err);
}

/* ---- out ---- */

int sg_remote_get(const struct sg_remote *r, const char *tail, const char *path, struct sg_err *err)
{
    sg_auto_buf target;
    file_target(&target, r, tail, path);
    if (sg_http_send(&r->api->http, "GET", sg_buf_cstr(&target), NULL, NULL, err) < 0 ||
        sg_http_receive(&r->api->http, err) < 0)
        return -1;
    return sg_api_check(r->api, err);
}

int sg_remote_get_body(const struct sg_remote *r, int fd, struct sg_err *err)
{
    char piece[64 << 10];
    for (;;) {
        ssize_t n = sg_http_read(&r->api->http, piece, sizeof piece, err);
        if (n <= 0)
            return (int)n;
        if (sg_out_write(fd, piece, (size_t)n, err) < 0)
            return -1;
        r->count->bytes += (uint64_t)n;
    }
}

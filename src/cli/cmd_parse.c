/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass parse FILE`: an untrusted document as text, metadata, tables and page images. A
 * sandbox without a network reads it; this program sends its bytes and prints what came out,
 * cleaned of what a terminal would obey. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "wire/base64.h"
#include "base/banned.h"

enum { MAX_IMAGE = 16 << 20 };

static int open_document(const char *path, uint64_t *ret_bytes, struct sg_err *err)
{
    struct stat st;
    const bool is_stdin = strcmp(path, "-") == 0;
    sg_auto_fd fd = is_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                             : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return sg_fail_sys(err, "open %s", sg_quote(path).s);
    if (S_ISDIR(st.st_mode))
        return sg_fail(err, SG_INVALID, "%s is a directory, and no document", sg_quote(path).s);
    *ret_bytes = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : UINT64_MAX;
    return sg_take_fd(&fd);
}

static void put_target(struct sg_buf *target, const struct sg_cli *cli)
{
    const struct sg_config *c = &cli->config;
    sg_api_path(target, "parse");
    if (strcmp(cli->args[0], "-") != 0) {
        const struct sg_str name = sg_last_part(cli->args[0]);
        sg_auto_free char *text = sg_printf("%.*s", (int)name.n, name.p);
        sg_api_query(target, "name", text);
    }
    if (*c->images)
        sg_api_query(target, "images", "true");
    if (sg_cli_has_flag(cli, "template"))
        sg_api_query(target, "template", c->template);
    if (sg_cli_has_flag(cli, "timeout")) {
        sg_auto_free char *text = sg_printf("%llu", (unsigned long long)c->timeout_ms);
        sg_api_query(target, "timeoutMs", text);
    }
    if (sg_cli_has_flag(cli, "memory")) {
        sg_auto_free char *text = sg_printf("%llu", (unsigned long long)c->memory_bytes);
        sg_api_query(target, "memoryBytes", text);
    }
}

static int ask(struct sg_cli *cli, struct sg_api *a, const struct sg_jval **ret, struct sg_err *err)
{
    sg_auto_buf target;
    uint64_t bytes = 0;
    sg_buf_init(&target, SG_API_MAX_PATH);
    put_target(&target, cli);
    int fd = open_document(cli->args[0], &bytes, err);
    if (fd < 0)
        return -1;
    sg_auto_fd held = fd;
    sg_buf_clear(&a->reply);
    if (sg_http_send_fd(&a->http, "POST", sg_buf_cstr(&target), held, bytes, err) < 0 ||
        sg_api_check(a, err) < 0 || sg_http_read_all(&a->http, &a->reply, err) < 0)
        return -1;
    const struct sg_str text = { (const char *)a->reply.p, a->reply.n };
    return sg_json_parse(text, &a->arena, ret, err);
}

/* ---- page images ---- */

/* The names come from inside: only those that the parser of ours gives are taken. */
static bool is_page_name(const char *name)
{
    const size_t n = strlen(name);
    return n < 32 && sg_starts_with(name, "page-") &&
           strspn(name + 5, "0123456789") == n - strlen("page-.png") &&
           strcmp(name + n - 4, ".png") == 0;
}

static int save(int dir_fd, const struct sg_jval *image, struct sg_err *err)
{
    const char *name = sg_api_text(image, "name");
    const struct sg_jval *text = sg_json_get(image, "base64");
    sg_auto_buf bytes;
    sg_buf_init(&bytes, MAX_IMAGE);
    if (!is_page_name(name) || !text || text->kind != SG_J_STRING)
        return sg_fail(err, SG_INVALID, "the service sent an image without a proper name");
    if (sg_base64_decode(&bytes, text->s, err) < 0)
        return -1;
    sg_auto_fd fd =
        openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return sg_fail_sys(err, "write %s", sg_quote(name).s);
    return sg_out_write(fd, bytes.p, bytes.n, err);
}

static int save_images(const char *dir, const struct sg_jval *v, struct sg_err *err)
{
    if (!*dir)
        return 0;
    if (mkdir(dir, 0755) < 0 && errno != EEXIST)
        return sg_fail_sys(err, "make %s", sg_quote(dir).s);
    sg_auto_fd dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return sg_fail_sys(err, "open %s", sg_quote(dir).s);
    for (const struct sg_jval *i = sg_api_first(v, "images"); i; i = i->next)
        if (save(dir_fd, i, err) < 0)
            return -1;
    return 0;
}

/* ---- */

static void warn(const struct sg_cli *cli, const struct sg_jval *document)
{
    for (const struct sg_jval *w = sg_api_first(document, "warnings"); w; w = w->next)
        if (w->kind == SG_J_STRING)
            sg_cli_note(cli, "%s", sg_quote(w->s.p).s);
}

int sg_cmd_parse(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf out;
    struct sg_err err;
    const struct sg_jval *v;
    sg_buf_init(&out, SG_API_MAX_REPLY);
    sg_api_open(&api, cli);
    if (ask(cli, &api, &v, &err) < 0 || save_images(cli->config.images, v, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (cli->config.json)
        return sg_api_print(&api.reply);
    const struct sg_jval *document = sg_json_get(v, "document");
    warn(cli, document);
    const struct sg_jval *text = sg_json_get(document, "text");
    if (text && text->kind == SG_J_STRING)
        sg_add_clean_lines(&out, text->s);
    sg_buf_add_str(&out, "\n");
    return sg_cli_print(&out);
}

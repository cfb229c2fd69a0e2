/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass snapshots export ID FILE`, `snapshots import FILE`: a sandbox or snapshot as one file,
 * to move it to another machine. FILE is `-` for standard output and input.
 *
 * A file that is written appears by rename, when all of it came: what stands under its name can be
 * imported. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/str.h"
#include "cli/out.h"
#include "cli/sandbox.h"
#include "cli/table.h"
#include "base/banned.h"

enum { PIECE_BYTES = 64 << 10, FILE_MODE = 0600 };

/* ---- export ---- */

static int write_all(struct sg_api *api, int fd, uint64_t *bytes, struct sg_err *err)
{
    char piece[PIECE_BYTES];
    ssize_t n;
    while ((n = sg_http_read(&api->http, piece, sizeof piece, err)) > 0) {
        if (sg_out_write(fd, piece, (size_t)n, err) < 0)
            return -1;
        *bytes += (uint64_t)n;
    }
    return (int)n;
}

static int ask(struct sg_api *api, const char *id, bool is_whole, struct sg_err *err)
{
    sg_auto_buf target;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_api_path(&target, sg_id_is_valid(id, 's') ? "sandboxes" : "snapshots", id, "export");
    if (is_whole)
        sg_api_query(&target, "whole", "1");
    if (sg_http_send(&api->http, "GET", sg_buf_cstr(&target), NULL, NULL, err) < 0 ||
        sg_http_receive(&api->http, err) < 0)
        return -1;
    return sg_api_check(api, err);
}

static int export_to(struct sg_api *api, const char *path, uint64_t *bytes, struct sg_err *err)
{
    if (strcmp(path, "-") == 0)
        return write_all(api, STDOUT_FILENO, bytes, err);
    sg_auto_free char *fresh = sg_printf("%s.%d.part", path, (int)getpid());
    sg_auto_fd fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
    if (fd < 0)
        return sg_fail_sys(err, "write %s", sg_quote(path).s);
    int result = write_all(api, fd, bytes, err);
    if (result == 0 && (fsync(fd) < 0 || rename(fresh, path) < 0))
        result = sg_fail_sys(err, "write %s", sg_quote(path).s);
    if (result < 0)
        (void)unlink(fresh);
    return result;
}

int sg_cmd_snapshots_export(struct sg_cli *cli)
{
    const char *path = cli->args[1];
    sg_auto_api api;
    sg_auto_buf out;
    struct sg_err err = { 0 };
    struct sg_json j;
    uint64_t bytes = 0;
    sg_buf_init(&out, 4096);
    sg_api_open(&api, cli);
    if (ask(&api, cli->args[0], cli->config.whole, &err) < 0 ||
        export_to(&api, path, &bytes, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (strcmp(path, "-") == 0)
        return 0;
    if (!cli->config.json) {
        sg_buf_addf(&out, "%s\n", sg_short_bytes(bytes).s);
        return sg_cli_print(&out);
    }
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "file");
    sg_json_str(&j, path);
    sg_json_key(&j, "bytes");
    sg_json_u64(&j, bytes);
    sg_json_close(&j, '}');
    return sg_api_print(&out);
}

/* ---- import ---- */

static void add_target(struct sg_buf *target, const struct sg_cli *cli)
{
    const struct sg_config *c = &cli->config;
    const bool is_kept = c->keep_snapshot || *c->name;
    sg_api_path(target, is_kept ? "snapshots" : "sandboxes", "import");
    if (*c->name)
        sg_api_query(target, "name", c->name);
    if (*c->tag)
        sg_api_query(target, "tag", c->tag);
    if (c->keep_network && !is_kept)
        sg_api_query(target, "keepNetwork", "1");
    if (sg_cli_has_flag(cli, "template"))
        sg_api_query(target, "template", c->template);
}

static int send_file(struct sg_api *api, const struct sg_cli *cli, struct sg_err *err)
{
    const char *path = cli->args[0];
    sg_auto_buf target;
    struct stat st;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_auto_fd fd = strcmp(path, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                           : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return sg_fail_sys(err, "read %s", sg_quote(path).s);
    add_target(&target, cli);
    const uint64_t bytes = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : UINT64_MAX;
    return sg_http_send_fd(&api->http, "POST", sg_buf_cstr(&target), fd, bytes, err);
}

static void tell_notices(const struct sg_cli *cli, const struct sg_jval *v)
{
    const struct sg_jval *list = sg_json_get(v, "notices");
    for (const struct sg_jval *one = list && list->kind == SG_J_ARRAY ? list->list.first : NULL;
         one; one = one->next) {
        sg_auto_buf text;
        sg_buf_init(&text, 4096);
        if (one->kind == SG_J_STRING)
            sg_add_clean(&text, one->s.p);
        sg_cli_note(cli, "%s", sg_buf_cstr(&text));
    }
}

int sg_cmd_snapshots_import(struct sg_cli *cli)
{
    sg_auto_api api;
    sg_auto_buf out;
    struct sg_err err = { 0 };
    const struct sg_jval *v;
    sg_buf_init(&out, 4096);
    sg_api_open(&api, cli);
    if (send_file(&api, cli, &err) < 0 || sg_api_answer(&api, &v, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (cli->config.json)
        return sg_api_print(&api.reply);
    tell_notices(cli, v);
    sg_add_clean(&out, sg_api_text(v, "id"));
    sg_buf_add_str(&out, "\n");
    return sg_cli_print(&out);
}

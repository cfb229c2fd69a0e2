/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass cp SRC DST`: files and trees in and out of sandboxes of the service, and between them;
 * `sandglass volume cp SRC DST`: the same of volumes, without a sandbox.
 *
 * As with cp(1): a DST that is a directory, or ends with a slash, gets SRC under its own name. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/parse.h"
#include "cli/out.h"
#include "cli/remote.h"
#include "cli/sandbox.h"
#include "base/banned.h"

enum { NAME_MAX_BYTES = 128 }; /* of a volume */

struct side {
    const char *kind;               /* "sandboxes", "volumes" */
    char owner[NAME_MAX_BYTES + 1]; /* a sandbox's id, a volume's name; "": this machine */
    const char *path;
};

struct job {
    struct sg_cli *cli;
    struct sg_api api;
    struct sg_tar_count count;
};

static struct sg_remote remote(struct job *j, const struct side *s)
{
    return (struct sg_remote) {
        .api = &j->api, .kind = s->kind, .owner = s->owner, .count = &j->count
    };
}

static struct side parse_side(const char *word)
{
    struct side s = { .kind = "sandboxes", .path = word };
    const char *colon = strchr(word, ':');
    if (colon && colon - word == SG_ID_LEN) {
        memcpy(s.owner, word, SG_ID_LEN);
        if (sg_id_is_valid(s.owner, 's'))
            s.path = colon[1] ? colon + 1 : "."; /* as with scp: where commands start */
        else
            s.owner[0] = '\0';
    }
    return s;
}

/* NAME:PATH; what begins with a slash or a dot is this machine's, whatever follows. */
static struct side parse_volume_side(const char *word)
{
    struct side s = { .kind = "volumes", .path = word };
    const size_t n = strcspn(word, ":/");
    if (word[n] != ':' || !n || n > NAME_MAX_BYTES || word[0] == '.')
        return s;
    memcpy(s.owner, word, n);
    s.path = word[n + 1] ? word + n + 1 : "/";
    return s;
}

/* ---- names ---- */

/* `dst` itself, or `src`'s name in it. Returns owned. */
static char *target_of(const char *dst, bool is_directory, const char *src)
{
    const size_t n = strlen(dst);
    if (!is_directory && (!n || dst[n - 1] != '/'))
        return sg_strdup(dst);
    const struct sg_str name = sg_last_part(src);
    return sg_printf("%s%s%.*s", dst, n && dst[n - 1] == '/' ? "" : "/", (int)name.n, name.p);
}

/* ---- in ---- */

static int upload(struct job *j, const char *from, const struct side *to, struct sg_err *err)
{
    const bool is_stdin = strcmp(from, "-") == 0;
    sg_auto_fd fd = is_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                             : open(from, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    struct stat st;
    enum sg_remote_kind kind;
    uint64_t mode;
    if (fd < 0 || fstat(fd, &st) < 0)
        return sg_fail_sys(err, "read %s", sg_quote(from).s);
    const struct sg_remote r = remote(j, to);
    if (sg_remote_stat(&r, to->path, &kind, &mode, err) < 0)
        return -1;
    if (is_stdin && kind == SG_REMOTE_DIRECTORY)
        return sg_fail(err, SG_INVALID, "%s is a directory, and - has no name",
                       sg_quote(to->path).s);
    sg_auto_free char *path =
        is_stdin ? sg_strdup(to->path) : target_of(to->path, kind == SG_REMOTE_DIRECTORY, from);
    if (S_ISDIR(st.st_mode))
        return sg_remote_put_tree(&r, sg_take_fd(&fd), path, err);
    return sg_remote_put_file(&r, fd, &st, path, err);
}

/* ---- out ---- */

/* Written beside and renamed: whoever reads the file meanwhile has the old one. */
static int download_file(struct job *j, const struct side *from, const char *path, uint64_t mode,
                         struct sg_err *err)
{
    sg_auto_free char *fresh = sg_printf("%s.%d.part", path, (int)getpid());
    sg_auto_fd fd =
        open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, (mode_t)mode & 0777);
    if (fd < 0)
        return sg_fail_sys(err, "write %s", sg_quote(path).s);
    j->count.files = 1;
    const struct sg_remote r = remote(j, from);
    if (sg_remote_get(&r, NULL, from->path, err) < 0 || sg_remote_get_body(&r, fd, err) < 0) {
        (void)unlink(fresh);
        return -1;
    }
    if (rename(fresh, path) < 0) {
        (void)sg_fail_sys(err, "write %s", sg_quote(path).s);
        (void)unlink(fresh);
        return -1;
    }
    return 0;
}

struct download {
    struct job *job;
    struct sg_err err;
};

static ssize_t pull(void *arg, void *p, size_t n)
{
    struct download *d = arg;
    ssize_t got = sg_http_read(&d->job->api.http, p, n, &d->err);
    if (got < 0)
        errno = d->err.sys ? d->err.sys : EIO;
    return got;
}

static int download_tree(struct job *j, const struct side *from, const char *path,
                         struct sg_err *err)
{
    struct download d = { .job = j };
    const struct sg_remote r = remote(j, from);
    if (sg_remote_get(&r, "tar", from->path, err) < 0)
        return -1;
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return sg_fail_sys(err, "make the directory %s", sg_quote(path).s);
    sg_auto_fd fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return sg_fail_sys(err, "open the directory %s", sg_quote(path).s);
    if (sg_tar_extract(fd, pull, &d, &j->count, err) == 0)
        return 0;
    if (d.err.kind != SG_OK && err)
        *err = d.err;
    return -1;
}

static int download(struct job *j, const struct side *from, const char *to, struct sg_err *err)
{
    struct stat st;
    enum sg_remote_kind kind;
    uint64_t mode = 0644;
    const struct sg_remote r = remote(j, from);
    if (sg_remote_stat(&r, from->path, &kind, &mode, err) < 0)
        return -1;
    if (kind == SG_REMOTE_NOTHING) /* what the service said about it */
        return -1;
    if (strcmp(to, "-") == 0) {
        j->count.files = 1;
        return sg_remote_get(&r, kind == SG_REMOTE_DIRECTORY ? "tar" : NULL, from->path, err) < 0
                   ? -1
                   : sg_remote_get_body(&r, STDOUT_FILENO, err);
    }
    const bool is_directory = stat(to, &st) == 0 && S_ISDIR(st.st_mode);
    sg_auto_free char *path = target_of(to, is_directory, from->path);
    return kind == SG_REMOTE_DIRECTORY ? download_tree(j, from, path, err)
                                       : download_file(j, from, path, mode, err);
}

/* ---- between ---- */

static int copy_between(struct job *j, const struct side *from, const struct side *to,
                        struct sg_err *err)
{
    sg_auto_buf target, body;
    struct sg_json json;
    enum sg_remote_kind kind;
    uint64_t mode;
    sg_buf_init(&target, SG_API_MAX_PATH);
    sg_buf_init(&body, SG_API_MAX_PATH);
    const struct sg_remote r = remote(j, to);
    if (sg_remote_stat(&r, to->path, &kind, &mode, err) < 0)
        return -1;
    sg_auto_free char *path = target_of(to->path, kind == SG_REMOTE_DIRECTORY, from->path);
    sg_api_path(&target, from->kind, from->owner, "files", "copy");
    sg_json_init(&json, &body);
    sg_json_open(&json, '{');
    sg_json_key(&json, "path");
    sg_json_str(&json, from->path);
    sg_json_key(&json, "toSandbox");
    sg_json_str(&json, to->owner);
    sg_json_key(&json, "toPath");
    sg_json_str(&json, path);
    sg_json_close(&json, '}');
    return sg_api_call(&j->api, "POST", sg_buf_cstr(&target), &body, NULL, err);
}

static int print(const struct job *j)
{
    const struct sg_tar_count *c = &j->count;
    sg_auto_buf out;
    sg_buf_init(&out, 256);
    if (c->skipped && !j->cli->config.json)
        sg_cli_note(j->cli, "%llu links, pipes and devices were left out",
                    (unsigned long long)c->skipped);
    if (!j->cli->config.json || strcmp(j->cli->args[1], "-") == 0)
        return SG_EXIT_OK;
    sg_buf_addf(&out, "{\"files\":%llu,\"bytes\":%llu,\"skipped\":%llu}\n",
                (unsigned long long)c->files, (unsigned long long)c->bytes,
                (unsigned long long)c->skipped);
    return sg_cli_print(&out);
}

static int copy(struct sg_cli *cli, const struct side *from, const struct side *to)
{
    struct sg_err err = { 0 };
    struct job j = { .cli = cli };
    sg_api_open(&j.api, cli);
    const int r = !*from->owner ? upload(&j, from->path, to, &err)
                  : *to->owner  ? copy_between(&j, from, to, &err)
                                : download(&j, from, to->path, &err);
    sg_api_done(&j.api);
    return r < 0 ? sg_cli_fail(cli, &err) : print(&j);
}

int sg_cmd_cp(struct sg_cli *cli)
{
    struct sg_err err = { 0 };
    const struct side from = parse_side(cli->args[0]), to = parse_side(cli->args[1]);
    if ((*from.owner || *to.owner) && *from.path && *to.path)
        return copy(cli, &from, &to);
    (void)sg_fail(&err, SG_INVALID, "one side of 'cp' must be ID:PATH, with the id of a sandbox");
    return sg_cli_fail(cli, &err);
}

int sg_cmd_volume_cp(struct sg_cli *cli)
{
    struct sg_err err = { 0 };
    const struct side from = parse_volume_side(cli->args[0]), to = parse_volume_side(cli->args[1]);
    if (!*from.owner != !*to.owner && *from.path && *to.path)
        return copy(cli, &from, &to);
    (void)sg_fail(&err, SG_INVALID,
                  "one side of 'volume cp', and not both, must be NAME:PATH, with a volume's name");
    return sg_cli_fail(cli, &err);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass template pull` and `template push`: sandglass-registry speaks to the registry, we give
 * it what it needs (over a pipe: credentials are in no list of arguments) and believe little of
 * what it says. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/jsonr.h"
#include "cli/cmd_template.h"
#include "cli/out.h"
#include "cli/registry_auth.h"
#include "image/oci_ref.h"
#include "base/banned.h"

enum { REQUEST_MAX = 8 << 20, LINE_MAX_BYTES = 8 << 20, PART_DAYS = 7, DAY_S = 86400 };
enum { HIGH_FD = 600, FIRST_FD = 10 }; /* apart, so that none is in another's way */
#define PARTS ".pull"

/* ---- the helper ---- */

struct helper {
    pid_t pid;
    int in_fd;
    FILE *out;
};

static void helper_done(struct helper *h)
{
    sg_drop_fd(&h->in_fd);
    sg_fclose_p(&h->out);
    h->out = NULL;
    if (h->pid > 0)
        (void)waitpid(h->pid, NULL, 0);
    h->pid = 0;
}

static int start(struct helper *h, const int *fds, size_t n, struct sg_err *err)
{
    static const char *const places[] = { "../libexec/sandglass/sandglass-registry",
                                          "../registry/sandglass-registry" };
    sg_auto_free char *program = sg_find_beside(places, SG_COUNT(places), err);
    int to[2], from[2];
    if (!program)
        return -1;
    if (pipe2(to, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make a pipe");
    h->in_fd = to[1];
    sg_auto_fd far_in = to[0], far_out = -1;
    if (pipe2(from, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make a pipe");
    far_out = from[1];
    h->out = fdopen(from[0], "r");
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, far_in, STDIN_FILENO);
    (void)posix_spawn_file_actions_adddup2(&actions, far_out, STDOUT_FILENO);
    for (size_t i = 0; i < n; i++)
        (void)posix_spawn_file_actions_adddup2(&actions, fds[i], FIRST_FD + (int)i);
    char *argv[] = { program, NULL }, *env[] = { (char *)"LANG=C.UTF-8", NULL };
    const int failed = posix_spawn(&h->pid, program, &actions, NULL, argv, env);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (failed) {
        h->pid = 0;
        errno = failed;
        return sg_fail_sys(err, "start 'sandglass-registry'");
    }
    return 0;
}

/* What it says last; on the way, how far it is. */
static int listen_to(struct helper *h, const char *what, struct sg_progress *p, struct sg_arena *a,
                     const struct sg_jval **ret, struct sg_err *err)
{
    sg_auto_free char *line = NULL;
    size_t cap = 0;
    unsigned tenths = 0;
    for (ssize_t n; (n = getline(&line, &cap, h->out)) > 0 && n < LINE_MAX_BYTES;) {
        const struct sg_jval *v, *m;
        sg_arena_clear(a);
        if (sg_json_parse((struct sg_str) { line, (size_t)n }, a, &v, err) < 0)
            return sg_wrap(err, "what sandglass-registry says");
        const struct sg_jval *done = sg_json_get(v, "done"), *total = sg_json_get(v, "total");
        if (done && total && done->kind == SG_J_UINT && total->kind == SG_J_UINT) {
            if (p->is_terminal && total->u)
                sg_progress_say(p, "%s: %u %% of %llu MiB", what,
                                (unsigned)(done->u * 100 / total->u),
                                (unsigned long long)(total->u >> 20));
            if (p->report_fd && total->u && done->u / (total->u / 10 + 1) > tenths) {
                tenths = (unsigned)(done->u / (total->u / 10 + 1));
                sg_progress_say(p, "%s: %u %% of %llu MiB", what, tenths * 10,
                                (unsigned long long)(total->u >> 20));
            }
            continue;
        }
        if ((m = sg_json_get(v, "error"))) {
            const struct sg_jval *kind = sg_json_get(m, "kind"), *text = sg_json_get(m, "message");
            const bool is_known =
                kind && kind->kind == SG_J_UINT && kind->u > SG_OK && kind->u < SG_KIND_COUNT;
            return sg_fail(err, is_known ? (enum sg_kind)kind->u : SG_INTERNAL, "%s",
                           text && text->kind == SG_J_STRING ? text->s.p : "no reason given");
        }
        *ret = v;
        return 0;
    }
    return sg_fail(err, SG_INTERNAL, "sandglass-registry ended without a word");
}

/* ---- the request ---- */

static void put_pair(struct sg_json *j, const char *key, const char *text)
{
    sg_json_key(j, key);
    sg_json_str(j, text);
}

static bool is_plain(const struct sg_config *c, const char *host)
{
    bool is = sg_oci_host_is_loopback(host);
    for (size_t i = 0; i < c->registry_insecure.n; i++)
        is |= strcmp(c->registry_insecure.v[i], host) == 0;
    return is;
}

static void begin_request(struct sg_json *j, const struct sg_cli *cli, const char *action,
                          const struct sg_oci_ref *ref, const struct sg_credentials *who)
{
    sg_json_open(j, '{');
    put_pair(j, "action", action);
    put_pair(j, "host", ref->host);
    put_pair(j, "repository", ref->repository);
    put_pair(j, "tag", ref->tag);
    put_pair(j, "hex", ref->hex.s);
    put_pair(j, "user", who->user);
    put_pair(j, "password", who->password);
    put_pair(j, "ca", cli->config.registry_ca);
    sg_json_key(j, "plain");
    sg_json_bool(j, is_plain(&cli->config, ref->host));
}

static int send_request(struct helper *h, struct sg_buf *text, struct sg_err *err)
{
    int sent = sg_buf_check(text, "request", err);
    if (sent == 0)
        sent = sg_out_write(h->in_fd, text->p, text->n, err);
    explicit_bzero(text->p, text->n);
    sg_drop_fd(&h->in_fd);
    return sent;
}

/* ---- pull ---- */

/* Blobs of layers that are here need not come again. Those with set-id bits are other layers. */
static void put_have(struct sg_json *j, int store_fd, bool keeps_setuid)
{
    const size_t n = strlen(SG_LAYER_PREFIX) + SG_OCI_HEX + (keeps_setuid ? 1 : 0);
    sg_json_key(j, "have");
    sg_json_open(j, '[');
    int fd = openat(store_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sg_auto_dir store = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *d; store && (d = readdir(store));) {
        if (!sg_starts_with(d->d_name, SG_LAYER_PREFIX) || strlen(d->d_name) != n)
            continue;
        fd = openat(store_fd, d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        sg_auto_dir layer = fd < 0 ? NULL : fdopendir(fd);
        for (struct dirent *b; layer && (b = readdir(layer));)
            if (sg_starts_with(b->d_name, "blob-") && sg_oci_is_hex(sg_str_of(b->d_name + 5)))
                sg_json_str(j, b->d_name + 5);
    }
    sg_json_close(j, ']');
}

/* What nobody came back for. */
static void sweep_parts(int parts_fd)
{
    const time_t now = time(NULL);
    int fd = openat(parts_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sg_auto_dir dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        struct stat st;
        if (fstatat(parts_fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
            now - st.st_mtime > (time_t)PART_DAYS * DAY_S)
            (void)unlinkat(parts_fd, d->d_name, 0);
    }
}

static void drop_part(int parts_fd, const struct sg_oci_hex *hex)
{
    char name[SG_PART_NAME];
    sg_part_name(hex, name);
    (void)unlinkat(parts_fd, name, 0);
}

static int fetch(struct sg_cli *cli, const struct sg_oci_ref *ref, const struct sg_credentials *as,
                 struct sg_stage *stage, const char *dir, struct sg_progress *p, struct sg_arena *a,
                 struct sg_oci_image *ret, struct sg_err *err)
{
    __attribute__((cleanup(helper_done))) struct helper h = { .in_fd = -1 };
    sg_auto_credentials who = { 0 };
    sg_auto_buf text;
    sg_buf_init(&text, REQUEST_MAX);
    if (!as && sg_credentials_find(cli->config.registry_auth, ref->account, &who, err) < 0)
        return -1;
    struct sg_json j;
    sg_json_init(&j, &text);
    begin_request(&j, cli, "pull", ref, as ? as : &who);
    put_pair(&j, "platform", cli->config.platform);
    put_pair(&j, "dir", dir);
    put_have(&j, stage->store_fd, cli->config.sudo);
    sg_json_close(&j, '}');
    const struct sg_jval *v;
    sg_auto_free char *what = sg_printf("%s: downloading", ref->repository);
    sg_progress_say(p, "%s", what);
    if (start(&h, NULL, 0, err) < 0 || send_request(&h, &text, err) < 0 ||
        listen_to(&h, what, p, a, &v, err) < 0)
        return -1;
    if (sg_oci_image_parse(sg_json_get(v, "image"), a, ret, err) < 0)
        return sg_wrap(err, "what sandglass-registry says");
    return 0;
}

/* How template.toml says where it came from. */
static char *format_reference(const struct sg_oci_ref *ref)
{
    return sg_printf("%s/%s%s%s%s%s", ref->account, ref->repository, *ref->tag ? ":" : "", ref->tag,
                     *ref->hex.s ? "@sha256:" : "", ref->hex.s);
}

static int pull_into(struct sg_cli *cli, struct sg_import *in, const struct sg_oci_ref *ref,
                     const struct sg_credentials *who, const struct sg_template *host,
                     struct sg_stage *stage, struct sg_progress *p, struct sg_import_result *ret,
                     struct sg_err *err)
{
    sg_auto_free char *dir = sg_printf("%s/templates/" PARTS, in->state_dir);
    if (mkdirat(stage->store_fd, PARTS, 0700) < 0 && errno != EEXIST)
        return sg_fail_sys(err, "make a directory for downloads");
    sg_auto_fd parts =
        openat(stage->store_fd, PARTS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (parts < 0)
        return sg_fail_sys(err, "open the directory for downloads");
    /* One at a time: what one lays down another would take away. */
    if (flock(parts, LOCK_EX) < 0)
        return sg_fail_sys(err, "wait for another pull");
    sweep_parts(parts);
    struct sg_oci_image image;
    sg_auto_arena a;
    sg_arena_init(&a, SG_OCI_ARENA);
    sg_auto_template t;
    sg_template_init(&t, in->name);
    if (fetch(cli, ref, who, stage, dir, p, &a, &image, err) < 0 ||
        sg_image_assemble(in, host, stage, parts, &image, p, &t, ret, err) < 0)
        return -1;
    t.reference =
        sg_printf("%s/%s%s%s", ref->account, ref->repository, *ref->tag ? ":" : "", ref->tag);
    if (sg_import_commit(in, stage, &t, ret, p, err) < 0)
        return -1;
    drop_part(parts, &image.manifest);
    drop_part(parts, &image.config);
    for (size_t i = 0; i < image.n; i++)
        drop_part(parts, &image.layers[i].blob);
    return 0;
}

int sg_registry_pull(struct sg_cli *cli, const char *name, const struct sg_oci_ref *ref,
                     const struct sg_credentials *who, struct sg_unnamed *unnamed,
                     struct sg_progress *p, struct sg_import_result *ret, struct sg_err *err)
{
    struct sg_import in = { .state_dir = cli->config.state_dir,
                            .name = name,
                            .origin = "image",
                            .grants_sudo = cli->config.sudo,
                            .replaces = cli->config.force,
                            .unnamed = unnamed };
    sg_auto_template host = { .lock_fd = -1 };
    sg_auto_stage stage = { .store_fd = -1, .fd = -1 };
    if (sg_import_begin(&in, &host, &stage, err) < 0)
        return -1;
    return pull_into(cli, &in, ref, who, &host, &stage, p, ret, err);
}

static int pull(struct sg_cli *cli, const char *name, const struct sg_oci_ref *ref,
                struct sg_import_result *ret, struct sg_err *err)
{
    sg_auto_progress p;
    sg_progress_init(&p, cli);
    if (sg_template_check_name(name, err) < 0)
        return -1;
    return sg_registry_pull(cli, name, ref, NULL, NULL, &p, ret, err);
}

int sg_cmd_template_pull(struct sg_cli *cli)
{
    struct sg_err err;
    struct sg_oci_ref ref;
    struct sg_import_result result = { 0 };
    const char *text = cli->args[cli->arg_count - 1];
    if (sg_oci_ref_parse(text, &ref, &err) < 0)
        return sg_cli_fail(cli, &err);
    const char *last = strrchr(ref.repository, '/');
    const char *name = cli->arg_count == 2 ? cli->args[0]
                       : *cli->config.name ? cli->config.name
                       : last              ? last + 1
                                           : ref.repository;
    const int got = pull(cli, name, &ref, &result, &err);
    sg_import_sweep(cli->config.state_dir);
    if (got < 0) {
        (void)sg_wrap(&err, "pull %s", sg_quote(text).s);
        return sg_cli_fail(cli, &err);
    }
    return sg_import_print(cli, name, &result);
}

/* "alpine-3.20" of docker.io/library/alpine:3.20. */
static char *name_for(const struct sg_oci_ref *ref)
{
    const char *last = strrchr(ref->repository, '/');
    char *name = sg_printf("%.40s-%.20s", last ? last + 1 : ref->repository,
                           *ref->tag ? ref->tag : ref->hex.s);
    for (char *c = name; *c; c++)
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + 32 : *c);
    return name;
}

static bool is_pulled(const struct sg_cli *cli, const char *name, const struct sg_oci_ref *ref)
{
    struct sg_err ignored;
    sg_auto_template t = { .lock_fd = -1 };
    sg_auto_free char *reference = format_reference(ref);
    return sg_template_open(cli->config.state_dir, name, &t, &ignored) == 0 && t.reference &&
           strcmp(t.reference, reference) == 0;
}

char *sg_template_pull_missing(struct sg_cli *cli, const char *image, struct sg_err *err)
{
    struct sg_oci_ref ref;
    struct sg_import_result unused;
    if (sg_oci_ref_parse(image, &ref, err) < 0)
        return NULL;
    sg_auto_free char *name = name_for(&ref);
    if (!is_pulled(cli, name, &ref)) {
        const int got = pull(cli, name, &ref, &unused, err);
        sg_import_sweep(cli->config.state_dir);
        if (got < 0) {
            (void)sg_wrap(err, "pull %s", sg_quote(image).s);
            return NULL;
        }
    }
    return sg_take_ptr(&name);
}

/* ---- push ---- */

struct sending {
    int fds[SG_OCI_MAX_LAYERS + 2];
    size_t n;
};

static void sending_done(struct sending *s)
{
    while (s->n)
        sg_drop_fd(&s->fds[--s->n]);
}

static int open_blobs(const struct sg_leaving *l, struct sending *s, struct sg_json *j,
                      struct sg_err *err)
{
    sg_json_key(j, "blobs");
    sg_json_open(j, '[');
    for (size_t i = 0; i < l->n; i++) {
        struct stat st;
        sg_auto_free char *path = sg_printf("blobs/sha256/%s", l->blobs[i].s);
        sg_auto_fd fd = openat(l->dir_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        s->fds[s->n] = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
        if (s->fds[s->n] < 0 || fstat(fd, &st) < 0)
            return sg_fail_sys(err, "open blob sha256:%.12s...", l->blobs[i].s);
        s->n++;
        sg_json_open(j, '{');
        put_pair(j, "hex", l->blobs[i].s);
        sg_json_key(j, "size");
        sg_json_u64(j, (uint64_t)st.st_size);
        sg_json_key(j, "fd");
        sg_json_u64(j, FIRST_FD + i);
        sg_json_close(j, '}');
    }
    sg_json_close(j, ']');
    return 0;
}

static int push(struct sg_cli *cli, const char *name, const struct sg_oci_ref *ref,
                struct sg_oci_hex *ret, struct sg_err *err)
{
    __attribute__((cleanup(helper_done))) struct helper h = { .in_fd = -1 };
    __attribute__((cleanup(sending_done))) struct sending s = { .n = 0 };
    sg_auto_credentials who = { 0 };
    sg_auto_progress p;
    sg_auto_buf text;
    sg_auto_arena a;
    sg_progress_init(&p, cli);
    sg_buf_init(&text, REQUEST_MAX);
    sg_arena_init(&a, SG_OCI_ARENA);
    if (ref->hex.s[0])
        return sg_fail(err, SG_INVALID, "an image is pushed under a tag, not under a digest");
    if (sg_credentials_find(cli->config.registry_auth, ref->account, &who, err) < 0)
        return -1;
    sg_auto_leaving l;
    if (sg_leaving_make(&l, cli, name, ref->tag, &p, err) < 0)
        return -1;
    struct sg_json j;
    sg_json_init(&j, &text);
    begin_request(&j, cli, "push", ref, &who);
    put_pair(&j, "mediaType", l.image.media_type);
    if (open_blobs(&l, &s, &j, err) < 0)
        return -1;
    sg_json_close(&j, '}');
    const struct sg_jval *v;
    sg_auto_free char *what = sg_printf("%s: uploading", ref->repository);
    sg_progress_say(&p, "%s", what);
    if (start(&h, s.fds, s.n, err) < 0 || send_request(&h, &text, err) < 0 ||
        listen_to(&h, what, &p, &a, &v, err) < 0)
        return -1;
    *ret = l.image.manifest;
    return 0;
}

int sg_cmd_template_push(struct sg_cli *cli)
{
    struct sg_err err;
    struct sg_oci_ref ref;
    struct sg_oci_hex digest;
    sg_auto_buf out;
    sg_buf_init(&out, REQUEST_MAX);
    if (sg_oci_ref_parse(cli->args[1], &ref, &err) < 0)
        return sg_cli_fail(cli, &err);
    if (push(cli, cli->args[0], &ref, &digest, &err) < 0) {
        (void)sg_wrap(&err, "push %s", sg_quote(cli->args[1]).s);
        return sg_cli_fail(cli, &err);
    }
    sg_auto_free char *text = sg_printf("sha256:%s", digest.s);
    struct sg_json j;
    sg_json_init(&j, &out);
    if (cli->config.json) {
        sg_json_open(&j, '{');
        put_pair(&j, "name", cli->args[0]);
        put_pair(&j, "image", cli->args[1]);
        put_pair(&j, "digest", text);
        sg_json_close(&j, '}');
    } else {
        sg_buf_add_str(&out, text);
    }
    sg_buf_add_str(&out, "\n");
    return sg_cli_print(&out);
}

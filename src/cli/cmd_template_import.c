/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass template import`: an archive or a directory becomes a template.
 *
 * The archive is decoded by sandglass-unpack in a cell of its own: template `host`, no network, and
 * of the machine's disk only the new layer, bound with its ids as they will be seen inside. So a
 * decoder that an archive takes over owns a layer that is thrown away, and nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/jsonr.h"
#include "cli/cmd_template.h"
#include "cli/out.h"
#include "cli/run.h"
#include "image/meta.h"
#include "image/store.h"
#include "image/tree.h"
#include "base/banned.h"

enum { UNPACK_REFUSED = 1 }; /* exit code of sandglass-unpack */
enum { SUMMARY_BYTES = 1 << 20, MESSAGE_BYTES = 8192, UNPACK_TIMEOUT_MS = 3600 * 1000 };
enum { MAX_FLAGS = 16 };

#define LAYER_INSIDE  "/layer"
#define UNPACK_INSIDE "/run/sandglass-unpack"
#define ROOT_INSIDE   "/tree"

char *sg_find_beside(const char *const *candidates, size_t count, struct sg_err *err)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = '\0';
    for (size_t i = 0; slash && i < count; i++) {
        sg_auto_free char *path = sg_printf("%s/%s", self, candidates[i]);
        char *real = realpath(path, NULL);
        if (real)
            return real;
    }
    (void)sg_fail(err, SG_UNSUPPORTED, "%s is not installed beside this program; run: make install",
                  candidates[0]);
    return NULL;
}

/* One line of the program's own words, safe to show. */
static void clean_line(char *text)
{
    text[strcspn(text, "\n")] = '\0';
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

static int fail_unpack(const struct sg_import *in, const struct sg_run_result *r,
                       struct sg_buf *said, struct sg_err *err)
{
    static const char prefix[] = "sandglass-unpack: ";
    sg_auto_free char *line = sg_strdup(sg_buf_cstr(said));
    clean_line(line);
    const char *why = sg_starts_with(line, prefix) ? line + strlen(prefix) : line;
    if (r->ending != SG_END_EXIT)
        return sg_fail(err, SG_DENIED, "unpacking was ended: %s", sg_ending_name(r->ending));
    if (r->code == UNPACK_REFUSED)
        return sg_fail(err, SG_DENIED, "%s refused: %s", in->origin,
                       *why ? why : "no reason given");
    return sg_fail(err, SG_DENIED, "unpacking failed: %s", *why ? why : "no reason given");
}

struct program {
    int in_fd;
    const char *dir;         /* on this machine: what it may write */
    const char *root;        /* what it may read beside; NULL: nothing */
    const char *const *argv; /* NULL-terminated; the program itself is put before it */
};

static int run_program(const struct sg_import *in, const struct sg_template *host,
                       const struct program *what, struct sg_buf *summary, struct sg_err *err)
{
    static const char *const places[] = { "../libexec/sandglass/sandglass-unpack",
                                          "../unpack/sandglass-unpack" };
    sg_auto_free char *program = sg_find_beside(places, SG_COUNT(places), err);
    if (!program)
        return -1;
    sg_auto_buf said;
    sg_buf_init(&said, MESSAGE_BYTES);
    struct sg_run_spec run = {
        .cell = { .hostname = "sandbox",
                  .limits = { .mem_bytes = UINT64_C(1) << 30,
                              .cpu_milli = 2000,
                              .pids = 16,
                              .disk_bytes = UINT64_C(64) << 20,
                              .open_files = 256 },
                  .workdir = "/tmp" },
        .user = "root",
        .workdir = "/tmp",
        .timeout_ms = UNPACK_TIMEOUT_MS,
        .output_bytes = SUMMARY_BYTES + MESSAGE_BYTES,
        .in_fd = what->in_fd,
        .out_fd = -1,
        .err_fd = -1,
        .out_capture = summary,
        .err_capture = &said,
    };
    if (sg_run_prepare(&run.cell.is_rootless, err) < 0)
        return -1;
    sg_run_use_template(&run.cell, host);
    const unsigned as_inside = run.cell.is_rootless ? 0 : SG_BIND_IDMAP;
    struct sg_bind *binds = run.cell.binds;
    binds[run.cell.bind_count++] = (struct sg_bind) { what->dir, LAYER_INSIDE, as_inside };
    binds[run.cell.bind_count++] = (struct sg_bind) { program, UNPACK_INSIDE, SG_BIND_READ_ONLY };
    if (what->root)
        binds[run.cell.bind_count++] =
            (struct sg_bind) { what->root, ROOT_INSIDE, as_inside | SG_BIND_READ_ONLY };

    const char *argv[MAX_FLAGS + 6] = { UNPACK_INSIDE };
    size_t n = 1;
    const struct {
        bool is_set;
        const char *flag;
    } usual[] = { { run.cell.is_rootless, "--one-user" },
                  { in->grants_sudo, "--keep-setuid" },
                  { in->skips_devices, "--skip-devices" } };
    for (size_t i = 0; !what->root && i < SG_COUNT(usual); i++)
        if (usual[i].is_set)
            argv[n++] = usual[i].flag;
    for (size_t i = 0; i < MAX_FLAGS && what->argv[i]; i++)
        argv[n++] = what->argv[i];
    argv[n] = LAYER_INSIDE;
    char *env[] = { (char *)"PATH=/usr/bin:/bin", (char *)"LANG=C.UTF-8", NULL };
    run.argv = (char *const *)(uintptr_t)argv;
    run.env = env;

    struct sg_run_result result;
    bool is_command = false;
    if (sg_run(NULL, &run, &result, &is_command, err) < 0)
        return sg_wrap(err, "%s in a sandbox", what->root ? "pack" : "unpack");
    if (result.ending != SG_END_EXIT || result.code != 0)
        return fail_unpack(in, &result, &said, err);
    return 0;
}

int sg_unpack_in_cell(const struct sg_import *in, const struct sg_template *host, int archive_fd,
                      const char *dir, const char *const *flags, struct sg_buf *summary,
                      struct sg_err *err)
{
    const struct program what = { .in_fd = archive_fd, .dir = dir, .argv = flags };
    return run_program(in, host, &what, summary, err);
}

int sg_pack_in_cell(const struct sg_import *in, const struct sg_template *host, int config_fd,
                    const char *root, const char *dir, struct sg_buf *summary, struct sg_err *err)
{
    static const char *const flags[] = { "--pack", ROOT_INSIDE, NULL };
    const struct program what = { .in_fd = config_fd, .dir = dir, .root = root, .argv = flags };
    return run_program(in, host, &what, summary, err);
}

static uint64_t number_of(const struct sg_jval *v, const char *key)
{
    const struct sg_jval *m = sg_json_get(v, key);
    return m && m->kind == SG_J_UINT ? m->u : 0;
}

int sg_unpack_summary(const struct sg_buf *text, struct sg_arena *a, struct sg_layer_numbers *ret,
                      const struct sg_jval **ret_image, struct sg_err *err)
{
    const struct sg_jval *v;
    if (sg_json_parse((struct sg_str) { (const char *)text->p, text->n }, a, &v, err) < 0)
        return sg_wrap(err, "what sandglass-unpack says");
    *ret = (struct sg_layer_numbers) {
        .entries = number_of(v, "entries"),
        .bytes = number_of(v, "bytes"),
        .skipped = number_of(v, "skipped"),
        .setuid_dropped = number_of(v, "setuid_dropped"),
    };
    if (ret_image)
        *ret_image = sg_json_get(v, "image");
    return 0;
}

static int write_meta(const struct sg_template *t, int stage_fd, struct sg_err *err)
{
    sg_auto_buf text;
    sg_buf_init(&text, SG_META_MAX_BYTES);
    sg_meta_format(t, &text);
    if (sg_buf_check(&text, "template.toml", err) < 0)
        return -1;
    sg_auto_fd fd =
        openat(stage_fd, "template.toml", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return sg_fail_sys(err, "write 'template.toml'");
    return sg_out_write(fd, text.p, text.n, err);
}

static int keep_unnamed(const struct sg_import *in, struct sg_stage *stage,
                        const struct sg_import_result *r, struct sg_err *err)
{
    struct sg_unnamed *u = in->unnamed;
    if (!r->digest.s[0])
        return sg_fail(err, SG_DENIED, "the archive has no image in it");
    sg_templates_image_name(r->digest.s, in->grants_sudo, u->name);
    if (sg_stage_commit(stage, u->name, false, err) == 0)
        u->fd = sg_stage_use(stage, u->name, err);
    else if (err->kind == SG_CONFLICT) /* it has this digest, so it is this one */
        u->fd = sg_templates_use(stage->store_fd, u->name, err);
    return u->fd < 0 ? -1 : 0;
}

int sg_import_commit(const struct sg_import *in, struct sg_stage *stage, struct sg_template *t,
                     const struct sg_import_result *r, struct sg_progress *p, struct sg_err *err)
{
    free(t->origin);
    t->origin = sg_strdup(in->origin);
    free(t->digest);
    t->digest = in->digest ? sg_strdup(in->digest) : NULL;
    t->grants_sudo = in->grants_sudo;
    t->is_idmapped = in->is_idmapped;
    t->bytes = r->numbers.bytes;
    t->entries = r->numbers.entries;
    sg_progress_say(p, "%s: writing to disk", in->name);
    if (write_meta(t, stage->fd, err) < 0)
        return -1;
    return in->unnamed ? keep_unnamed(in, stage, r, err)
                       : sg_stage_commit(stage, in->name, in->replaces, err);
}

int sg_import_begin(struct sg_import *in, struct sg_template *host, struct sg_stage *stage,
                    struct sg_err *err)
{
    bool is_rootless;
    in->is_idmapped = geteuid() == 0; /* asked before a rootless run becomes root of its own */
    if (sg_run_prepare(&is_rootless, err) < 0 ||
        sg_template_open(in->state_dir, "host", host, err) < 0 ||
        sg_stage_new(in->state_dir, stage, err) < 0)
        return -1;
    if (!in->unnamed && !in->replaces &&
        faccessat(stage->store_fd, in->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return sg_fail(err, SG_CONFLICT, "template '%s' exists; remove it first or use --force",
                       in->name);
    if (mkdirat(stage->fd, "root", 0755) < 0)
        return sg_fail_sys(err, "make the root of the new template");
    return 0;
}

static int unpack(const struct sg_import *in, const struct sg_template *host, const char *layer,
                  struct sg_arena *a, struct sg_import_result *ret,
                  const struct sg_jval **ret_image, struct sg_err *err)
{
    const char *flags[8] = { NULL };
    size_t n = 0;
    if (in->takes_images)
        flags[n++] = "--images";
    if (in->takes_images && *in->image) {
        flags[n++] = "--image";
        flags[n++] = in->image;
    }
    if (in->takes_images && *in->platform) {
        flags[n++] = "--platform";
        flags[n++] = in->platform;
    }
    sg_auto_buf summary;
    sg_buf_init(&summary, SUMMARY_BYTES);
    if (sg_unpack_in_cell(in, host, in->archive_fd, layer, flags, &summary, err) < 0)
        return -1;
    return sg_unpack_summary(&summary, a, &ret->numbers, ret_image, err);
}

/* What was unpacked is not a root but the parts of one. */
static int assemble(struct sg_import *in, const struct sg_template *host, struct sg_stage *stage,
                    const struct sg_jval *described, struct sg_arena *a, struct sg_progress *p,
                    struct sg_template *t, struct sg_import_result *ret, struct sg_err *err)
{
    struct sg_oci_image image;
    in->origin = "image";
    if (sg_oci_image_parse(described, a, &image, err) < 0)
        return sg_wrap(err, "what sandglass-unpack says");
    if (renameat(stage->fd, "root", stage->fd, "parts") < 0 || mkdirat(stage->fd, "root", 0755) < 0)
        return sg_fail_sys(err, "make the root of the new template");
    sg_auto_fd parts = openat(stage->fd, "parts", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (parts < 0)
        return sg_fail_sys(err, "open the parts of the image");
    if (sg_image_assemble(in, host, stage, parts, &image, p, t, ret, err) < 0)
        return -1;
    return sg_tree_remove(stage->fd, "parts", err);
}

static int import_into(struct sg_import *in, const struct sg_template *host, struct sg_stage *stage,
                       struct sg_arena *a, struct sg_progress *p, struct sg_import_result *ret,
                       struct sg_err *err)
{
    sg_auto_free char *layer = sg_printf("%s/templates/%s/root", in->state_dir, stage->name);
    sg_auto_free char *what = sg_printf("%s: unpacking", in->name);
    struct stat st;
    bool is_file = fstat(in->archive_fd, &st) == 0 && S_ISREG(st.st_mode);
    sg_progress_follow(p, what, in->archive_fd, is_file ? (uint64_t)st.st_size : 0);

    struct sg_import_result result = { 0 };
    const struct sg_jval *image = NULL;
    if (unpack(in, host, layer, a, &result, &image, err) < 0 ||
        (in->finish && in->finish(in->finish_arg, err) < 0) ||
        (in->program && sg_template_finish(in, layer, in->is_idmapped, p, err) < 0))
        return -1;
    sg_auto_template own;
    sg_template_init(&own, in->name);
    struct sg_template *t = in->defaults ? in->defaults : &own;
    if (image && assemble(in, host, stage, image, a, p, t, &result, err) < 0)
        return -1;
    sg_auto_fd root = openat(stage->fd, "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (root < 0)
        return sg_fail_sys(err, "open the new root");
    if (!image && !in->defaults && sg_template_read_root(t, root, err) < 0)
        return -1;
    if (sg_import_commit(in, stage, t, &result, p, err) < 0)
        return -1;
    *ret = result;
    return 0;
}

static int import_one(const struct sg_import *asked, struct sg_progress *p,
                      struct sg_import_result *ret, struct sg_err *err)
{
    struct sg_import in = *asked;
    sg_auto_template host = { .lock_fd = -1 };
    sg_auto_stage stage = { .store_fd = -1, .fd = -1 };
    sg_auto_arena a;
    sg_arena_init(&a, SG_OCI_ARENA);
    if (sg_import_begin(&in, &host, &stage, err) < 0)
        return -1;
    return import_into(&in, &host, &stage, &a, p, ret, err);
}

void sg_import_sweep(const char *state_dir)
{
    struct sg_err ignored;
    sg_auto_fd store = sg_templates_open(state_dir, false, &ignored);
    if (store >= 0)
        sg_layers_sweep(store);
}

int sg_template_import(const struct sg_import *in, struct sg_progress *p,
                       struct sg_import_result *ret, struct sg_err *err)
{
    const int got = import_one(in, p, ret, err);
    if (in->takes_images)
        sg_import_sweep(in->state_dir);
    return got;
}

/* ---- the command ---- */

struct source {
    int fd;
    pid_t tar; /* packs a directory; 0: none */
};

static void source_done(struct source *s)
{
    sg_drop_fd(&s->fd);
    if (s->tar > 0)
        (void)waitpid(s->tar, NULL, 0);
}

/* A directory goes the same way as an archive, packed on the fly by tar(1). */
static int pack_directory(const char *path, struct source *ret, struct sg_err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make a pipe");
    sg_auto_fd in = ends[0], out = ends[1];
    char *argv[] = { (char *)"tar",
                     (char *)"--numeric-owner",
                     (char *)"--one-file-system",
                     (char *)"--format=pax",
                     (char *)"-C",
                     (char *)(uintptr_t)path,
                     (char *)"-cf",
                     (char *)"-",
                     (char *)".",
                     NULL };
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    pid_t pid;
    int failed = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (failed) {
        errno = failed;
        return sg_fail_sys(err, "start 'tar'");
    }
    *ret = (struct source) { .fd = sg_take_fd(&in), .tar = pid };
    return 0;
}

static int open_source(const char *path, struct source *ret, struct sg_err *err)
{
    if (strcmp(path, "-") == 0) {
        *ret = (struct source) { .fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) };
        return ret->fd < 0 ? sg_fail_sys(err, "read standard input") : 0;
    }
    sg_auto_fd fd = open(path, O_RDONLY | O_NOCTTY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return sg_fail_sys(err, "open %s", sg_quote(path).s);
    if (S_ISDIR(st.st_mode))
        return pack_directory(path, ret, err);
    *ret = (struct source) { .fd = sg_take_fd(&fd) };
    return 0;
}

/* A tar that failed gave us half a directory. */
static int finish_source(void *arg, struct sg_err *err)
{
    struct source *s = arg;
    int status = 0;
    sg_drop_fd(&s->fd);
    if (s->tar > 0 && waitpid(s->tar, &status, 0) == s->tar)
        s->tar = 0;
    return status == 0 ? 0 : sg_fail(err, SG_DENIED, "'tar' could not read all of the directory");
}

/* "dir/debian-12.tar.xz" is debian-12. */
static char *name_from_file(const char *path)
{
    const char *base = strrchr(path, '/');
    char *name = sg_strdup(base ? base + 1 : path);
    char *end = strstr(name, ".tar");
    if (!end)
        end = strstr(name, ".t");
    if (end && end > name)
        *end = '\0';
    return name;
}

/* The first argument of two, --name, or the file's own. Returns owned; NULL on a mistake. */
static char *choose_name(const struct sg_cli *cli, const char *path, struct sg_err *err)
{
    const char *word = cli->arg_count == 2 ? cli->args[0] : NULL, *flag = cli->config.name;
    if (word && *flag && strcmp(word, flag) != 0) {
        (void)sg_fail(err, SG_INVALID, "two names: %s and --name %s", sg_quote(word).s,
                      sg_quote(flag).s);
        return NULL;
    }
    if (word || *flag)
        return sg_strdup(word ? word : flag);
    if (strcmp(path, "-") != 0)
        return name_from_file(path);
    (void)sg_fail(err, SG_INVALID,
                  "'-' (standard input) needs a name: sandglass template import NAME -");
    return NULL;
}

int sg_import_print(const struct sg_cli *cli, const char *name, const struct sg_import_result *r)
{
    const struct sg_layer_numbers *n = &r->numbers;
    sg_auto_buf out;
    sg_buf_init(&out, MESSAGE_BYTES);
    if (cli->config.json) {
        const struct {
            const char *key;
            uint64_t v;
            bool is_shown;
        } rows[] = {
            { "entries", n->entries, true },         { "bytes", n->bytes, true },
            { "skipped", n->skipped, true },         { "setuid_dropped", n->setuid_dropped, true },
            { "layers", r->layers, r->digest.s[0] }, { "layers_shared", r->shared, r->digest.s[0] },
        };
        struct sg_json j;
        sg_json_init(&j, &out);
        sg_json_open(&j, '{');
        sg_json_key(&j, "name");
        sg_json_str(&j, name);
        for (size_t i = 0; i < SG_COUNT(rows); i++)
            if (rows[i].is_shown) {
                sg_json_key(&j, rows[i].key);
                sg_json_u64(&j, rows[i].v);
            }
        if (r->digest.s[0]) {
            sg_auto_free char *digest = sg_printf("sha256:%s", r->digest.s);
            sg_json_key(&j, "digest");
            sg_json_str(&j, digest);
        }
        sg_json_close(&j, '}');
        sg_buf_add_str(&out, "\n");
    } else {
        sg_buf_addf(&out, "%s\n", name);
        if (n->skipped)
            sg_cli_note(cli, "%s: %llu %s left out", name, (unsigned long long)n->skipped,
                        n->skipped == 1 ? "FIFO, socket or device" : "FIFOs, sockets or devices");
        if (n->setuid_dropped)
            sg_cli_note(cli, "%s: %llu %s set-id bit; --sudo keeps it", name,
                        (unsigned long long)n->setuid_dropped,
                        n->setuid_dropped == 1 ? "file lost its" : "files lost their");
    }
    return sg_cli_print(&out);
}

static int import(struct sg_cli *cli, const char *name, const char *path,
                  struct sg_import_result *ret, struct sg_err *err)
{
    if (sg_template_check_name(name, err) < 0)
        return -1;
    __attribute__((cleanup(source_done))) struct source source = { .fd = -1 };
    if (open_source(path, &source, err) < 0)
        return -1;
    sg_auto_progress progress;
    sg_progress_init(&progress, cli);
    const struct sg_import in = {
        .state_dir = cli->config.state_dir,
        .name = name,
        .archive_fd = source.fd,
        .origin = source.tar ? "directory" : "archive",
        .takes_images = true,
        .image = cli->config.image,
        .platform = cli->config.platform,
        .grants_sudo = cli->config.sudo,
        .skips_devices = source.tar != 0,
        .replaces = cli->config.force,
        .finish = finish_source,
        .finish_arg = &source,
    };
    return sg_template_import(&in, &progress, ret, err);
}

int sg_cmd_template_import(struct sg_cli *cli)
{
    struct sg_err err;
    struct sg_import_result result;
    const char *path = cli->args[cli->arg_count - 1];
    sg_auto_free char *name = choose_name(cli, path, &err);
    if (!name || import(cli, name, path, &result, &err) < 0)
        return sg_cli_fail(cli, &err);
    return sg_import_print(cli, name, &result);
}

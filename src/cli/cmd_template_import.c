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
#include "base/parse.h"
#include "cli/cmd_template.h"
#include "cli/out.h"
#include "cli/run.h"
#include "image/meta.h"
#include "image/store.h"
#include "base/banned.h"

enum { UNPACK_REFUSED = 1 }; /* exit code of sandglass-unpack */
enum { SUMMARY_BYTES = 4096, MESSAGE_BYTES = 8192, UNPACK_TIMEOUT_MS = 3600 * 1000 };

#define LAYER_INSIDE  "/layer"
#define UNPACK_INSIDE "/run/sandglass-unpack"

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

/* The number after "key": in the summary; 0 when there is none. */
static uint64_t summary_number(const char *summary, const char *key)
{
    sg_auto_free char *quoted = sg_printf("\"%s\":", key);
    const char *at = strstr(summary, quoted);
    uint64_t v = 0;
    struct sg_err ignored;
    if (at) {
        at += strlen(quoted);
        struct sg_str digits = { at, strspn(at, "0123456789") };
        (void)sg_parse_u64(digits, 0, UINT64_MAX, &v, &ignored);
    }
    return v;
}

static int unpack_in_cell(const struct sg_import *in, const struct sg_template *host,
                          const char *layer, struct sg_import_result *ret, struct sg_err *err)
{
    static const char *const places[] = { "../libexec/sandglass/sandglass-unpack",
                                          "../unpack/sandglass-unpack" };
    sg_auto_free char *program = sg_find_beside(places, SG_COUNT(places), err);
    if (!program)
        return -1;
    sg_auto_buf out, said;
    sg_buf_init(&out, SUMMARY_BYTES);
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
        .output_bytes = MESSAGE_BYTES,
        .in_fd = in->archive_fd,
        .out_fd = -1,
        .err_fd = -1,
        .out_capture = &out,
        .err_capture = &said,
    };
    if (sg_run_prepare(&run.cell.is_rootless, err) < 0)
        return -1;
    sg_run_use_template(&run.cell, host);
    bool is_one_user = run.cell.is_rootless;
    struct sg_bind *binds = run.cell.binds;
    binds[run.cell.bind_count++] =
        (struct sg_bind) { layer, LAYER_INSIDE, is_one_user ? 0 : SG_BIND_IDMAP };
    binds[run.cell.bind_count++] = (struct sg_bind) { program, UNPACK_INSIDE, SG_BIND_READ_ONLY };

    char *argv[8] = { (char *)UNPACK_INSIDE };
    size_t n = 1;
    const struct {
        bool is_set;
        const char *flag;
    } flags[] = { { is_one_user, "--one-user" },
                  { in->grants_sudo, "--keep-setuid" },
                  { in->skips_devices, "--skip-devices" },
                  { true, LAYER_INSIDE } };
    for (size_t i = 0; i < SG_COUNT(flags); i++)
        if (flags[i].is_set)
            argv[n++] = (char *)(uintptr_t)flags[i].flag;
    char *env[] = { (char *)"PATH=/usr/bin:/bin", (char *)"LANG=C.UTF-8", NULL };
    run.argv = argv;
    run.env = env;

    struct sg_run_result result;
    bool is_command = false;
    if (sg_run(NULL, &run, &result, &is_command, err) < 0)
        return sg_wrap(err, "unpack in a sandbox");
    if (result.ending != SG_END_EXIT || result.code != 0)
        return fail_unpack(in, &result, &said, err);
    const char *summary = sg_buf_cstr(&out);
    *ret = (struct sg_import_result) {
        .entries = summary_number(summary, "entries"),
        .bytes = summary_number(summary, "bytes"),
        .skipped = summary_number(summary, "skipped"),
        .setuid_dropped = summary_number(summary, "setuid_dropped"),
    };
    return 0;
}

/* template.toml, from the recipe's defaults or from what the root itself says. */
static int describe(const struct sg_import *in, const struct sg_import_result *r, int stage_fd,
                    int root_fd, bool is_idmapped, struct sg_err *err)
{
    sg_auto_template own;
    sg_template_init(&own, in->name);
    struct sg_template *t = in->defaults ? in->defaults : &own;
    if (!in->defaults && sg_template_read_root(t, root_fd, err) < 0)
        return -1;
    free(t->origin);
    t->origin = sg_strdup(in->origin);
    free(t->digest);
    t->digest = in->digest ? sg_strdup(in->digest) : NULL;
    t->grants_sudo = in->grants_sudo;
    t->is_idmapped = is_idmapped;
    t->bytes = r->bytes;
    t->entries = r->entries;
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

int sg_template_import(const struct sg_import *in, struct sg_progress *p,
                       struct sg_import_result *ret, struct sg_err *err)
{
    bool is_root = geteuid() == 0; /* asked before a rootless run becomes root of its own */
    sg_auto_template host = { .lock_fd = -1 };
    sg_auto_stage stage = { .store_fd = -1, .fd = -1 };
    if (sg_template_open(in->state_dir, "host", &host, err) < 0 ||
        sg_stage_new(in->state_dir, &stage, err) < 0)
        return -1;
    if (!in->replaces && faccessat(stage.store_fd, in->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return sg_fail(err, SG_CONFLICT, "template '%s' exists; remove it first or use --force",
                       in->name);
    if (mkdirat(stage.fd, "root", 0755) < 0)
        return sg_fail_sys(err, "make the root of the new template");
    sg_auto_free char *layer = sg_printf("%s/templates/%s/root", in->state_dir, stage.name);
    sg_auto_free char *what = sg_printf("%s: unpacking", in->name);
    struct stat st;
    bool is_file = fstat(in->archive_fd, &st) == 0 && S_ISREG(st.st_mode);
    sg_progress_follow(p, what, in->archive_fd, is_file ? (uint64_t)st.st_size : 0);

    struct sg_import_result result;
    if (unpack_in_cell(in, &host, layer, &result, err) < 0 ||
        (in->finish && in->finish(in->finish_arg, err) < 0) ||
        (in->program && sg_template_finish(in, layer, is_root, p, err) < 0))
        return -1;
    sg_auto_fd root = openat(stage.fd, "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (root < 0)
        return sg_fail_sys(err, "open the new root");
    sg_progress_say(p, "%s: writing to disk", in->name);
    if (describe(in, &result, stage.fd, root, is_root, err) < 0 ||
        sg_stage_commit(&stage, in->name, in->replaces, err) < 0)
        return -1;
    *ret = result;
    return 0;
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

static int print_imported(const struct sg_cli *cli, const char *name,
                          const struct sg_import_result *r)
{
    sg_auto_buf out;
    sg_buf_init(&out, SUMMARY_BYTES);
    if (cli->config.json) {
        struct sg_json j;
        sg_json_init(&j, &out);
        sg_json_open(&j, '{');
        sg_json_key(&j, "name");
        sg_json_str(&j, name);
        sg_json_key(&j, "entries");
        sg_json_u64(&j, r->entries);
        sg_json_key(&j, "bytes");
        sg_json_u64(&j, r->bytes);
        sg_json_key(&j, "skipped");
        sg_json_u64(&j, r->skipped);
        sg_json_key(&j, "setuid_dropped");
        sg_json_u64(&j, r->setuid_dropped);
        sg_json_close(&j, '}');
        sg_buf_add_str(&out, "\n");
    } else {
        sg_buf_addf(&out, "%s\n", name);
        if (r->skipped)
            sg_cli_note(cli, "%s: %llu %s left out", name, (unsigned long long)r->skipped,
                        r->skipped == 1 ? "FIFO, socket or device" : "FIFOs, sockets or devices");
        if (r->setuid_dropped)
            sg_cli_note(cli, "%s: %llu %s set-id bit; --sudo keeps it", name,
                        (unsigned long long)r->setuid_dropped,
                        r->setuid_dropped == 1 ? "file lost its" : "files lost their");
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
    return print_imported(cli, name, &result);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes: one works, the other waits for the end of either side. Whoever asked and goes
 * takes the first one along, in the midst of whatever it does; so does a disk that fills up, since
 * what a file says of its size is a stranger's word. What that leaves is swept by the second. */
#include "cli/image_work.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/json.h"
#include "base/jsonr.h"
#include "cli/cmd_template.h"
#include "cli/out.h"
#include "cli/registry_auth.h"
#include "cli/run.h"
#include "image/oci_ref.h"
#include "base/banned.h"

enum { ASKED_FD = 3, SAYS_FD = 4, DATA_FD = 5 };
enum { REQUEST_MAX = 64 << 10, LINE_BYTES = 4096 };
/* What the store's disk keeps free, whatever is asked. */
static const uint64_t SPARE_BYTES = UINT64_C(256) << 20, SPARE_FILES = 8192;
enum { LOOK_MS = 50 }; /* at the disk: less than it takes to write what is spare */
extern char **environ;

struct work {
    struct sg_cli cli;
    struct sg_progress progress;
    const char *action, *template, *snapshot, *image, *platform, *user, *password;
    uint64_t bytes, unpacked;
    bool sudo;
    atomic_bool *fills; /* shared by both: the disk is written to */
};

/* ---- what is said ---- */

static void begin(struct sg_buf *out, struct sg_json *j)
{
    sg_buf_init(out, LINE_BYTES);
    sg_json_init(j, out);
    sg_json_open(j, '{');
}

static int say(struct sg_buf *out, struct sg_json *j, struct sg_err *err)
{
    sg_json_close(j, '}');
    sg_buf_add_str(out, "\n");
    return sg_out_write(SAYS_FD, out->p, out->n, err);
}

static int fail(const struct sg_err *err)
{
    struct sg_err ignored;
    struct sg_json j;
    sg_auto_buf out;
    begin(&out, &j);
    sg_json_key(&j, "error");
    sg_json_open(&j, '{');
    sg_json_put_u64(&j, "kind", err->kind);
    sg_json_put_str(&j, "message", err->msg);
    sg_json_close(&j, '}');
    (void)say(&out, &j, &ignored);
    return SG_EXIT_FAILED;
}

/* ---- room ---- */

/* Before anything is written: a disk that fills up in the midst is everybody's. */
static int check_room(const struct work *w, uint64_t bytes, struct sg_err *err)
{
    struct statvfs fs;
    uint64_t needed;
    sg_auto_fd store = sg_templates_open(w->cli.config.state_dir, true, err);
    if (store < 0)
        return -1;
    if (fstatvfs(store, &fs) < 0)
        return sg_fail_sys(err, "look at the disk of the templates");
    const uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (__builtin_add_overflow(bytes, SPARE_BYTES, &needed) || needed > free_bytes)
        return sg_fail(err, SG_EXHAUSTED,
                       "the template needs %" PRIu64 " MiB, and the disk of the templates has "
                       "%" PRIu64 " MiB left",
                       bytes >> 20, free_bytes >> 20);
    atomic_store(w->fills, true);
    return 0;
}

/* It may be more than was said, and others write, too. */
static bool is_spent(int store_fd)
{
    struct statvfs fs;
    if (store_fd < 0 || fstatvfs(store_fd, &fs) < 0)
        return false;
    return (uint64_t)fs.f_bavail * fs.f_frsize < SPARE_BYTES ||
           (fs.f_files && fs.f_favail < SPARE_FILES);
}

/* ---- out ---- */

static uint64_t bytes_of(const struct sg_leaving *l)
{
    uint64_t all = 0;
    for (size_t i = 0; i < l->n; i++) {
        struct stat st;
        sg_auto_free char *path = sg_printf("blobs/sha256/%s", l->blobs[i].s);
        if (fstatat(l->dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
            all += (uint64_t)st.st_size;
    }
    return all;
}

static int tell_done(struct sg_err *err)
{
    struct sg_json j;
    sg_auto_buf out;
    begin(&out, &j);
    sg_json_put_bool(&j, "done", true);
    return say(&out, &j, err);
}

static int leave(struct work *w, struct sg_err *err)
{
    const char *state_dir = w->cli.config.state_dir;
    sg_auto_template t = { .lock_fd = -1 };
    sg_auto_leaving l = { .stage = { .store_fd = -1, .fd = -1 }, .dir_fd = -1 };
    bool is_rootless;
    if (!w->template || strcmp(w->template, "host") == 0)
        return sg_fail(err, SG_INVALID, "'host' is the machine itself; it does not leave it");
    if (!w->snapshot || !sg_id_is_valid(w->snapshot, 't'))
        return sg_fail(err, SG_INVALID, "of no snapshot");
    if (sg_template_open_pinned(state_dir, w->template, w->snapshot, &t, err) < 0 ||
        (!t.manifest && check_room(w, t.bytes, err) < 0) || sg_run_prepare(&is_rootless, err) < 0 ||
        sg_leaving_of(&l, state_dir, &t, "template:latest", &w->progress, err) < 0)
        return -1;
    atomic_store(w->fills, false);
    struct sg_json j;
    sg_auto_buf out;
    begin(&out, &j);
    sg_json_put_u64(&j, "bytes", bytes_of(&l));
    sg_json_put_u64(&j, "unpacked", t.bytes);
    sg_json_put_bool(&j, "sudo", t.grants_sudo);
    if (say(&out, &j, err) < 0 || sg_leaving_write(&l, DATA_FD, err) < 0)
        return -1;
    return tell_done(err);
}

/* ---- in ---- */

/* Until nobody needs our hold on it: a snapshot has its own. */
static int hold(const struct work *w, const char *name, struct sg_err *err)
{
    char byte;
    struct sg_json j;
    sg_auto_buf out;
    begin(&out, &j);
    atomic_store(w->fills, false);
    sg_json_put_str(&j, "template", name);
    if (say(&out, &j, err) < 0)
        return -1;
    while (read(ASKED_FD, &byte, 1) > 0 || errno == EINTR)
        errno = 0;
    return 0;
}

static void unnamed_done(struct sg_unnamed *u)
{
    sg_drop_fd(&u->fd);
}

static int come(struct work *w, struct sg_err *err)
{
    struct sg_import_result result;
    __attribute__((cleanup(unnamed_done))) struct sg_unnamed made = { .fd = -1 };
    const struct sg_import in = {
        .state_dir = w->cli.config.state_dir,
        .name = "template",
        .archive_fd = DATA_FD,
        .origin = "archive",
        .takes_images = true,
        .image = "",
        .platform = "",
        .grants_sudo = w->sudo,
        .unnamed = &made,
    };
    uint64_t all;
    if (__builtin_add_overflow(w->bytes, w->unpacked, &all))
        all = UINT64_MAX;
    if (check_room(w, all, err) < 0 || sg_template_import(&in, &w->progress, &result, err) < 0)
        return sg_wrap(err, "the template of the file");
    return hold(w, made.name, err);
}

/* From where the settings say: whoever has the daemon reaches nothing else by us. */
static int check_host(const struct sg_config *c, const struct sg_oci_ref *ref, struct sg_err *err)
{
    for (size_t i = 0; i < c->registry_serve.n; i++)
        if (strcmp(c->registry_serve.v[i], ref->account) == 0)
            return 0;
    return sg_fail(err, SG_DENIED,
                   "registry %s is not among registry.serve of the service's settings",
                   sg_quote(ref->account).s);
}

static int pull(struct work *w, struct sg_unnamed *made, struct sg_err *err)
{
    struct sg_oci_ref ref;
    struct sg_import_result result;
    struct sg_config *c = &w->cli.config;
    const struct sg_credentials who = { (char *)(uintptr_t)(w->user ? w->user : ""),
                                        (char *)(uintptr_t)(w->password ? w->password : "") };
    if (sg_oci_ref_parse(w->image, &ref, err) < 0 || check_host(c, &ref, err) < 0 ||
        check_room(w, 0, err) < 0)
        return -1;
    c->sudo = c->force = false;
    free(c->platform);
    c->platform = sg_strdup(w->platform ? w->platform : "");
    return sg_registry_pull(&w->cli, ref.repository, &ref, &who, made, &w->progress, &result, err);
}

static int fetch(struct work *w, struct sg_err *err)
{
    __attribute__((cleanup(unnamed_done))) struct sg_unnamed made = { .fd = -1 };
    if (!w->image)
        return sg_fail(err, SG_INVALID, "of no image");
    if (pull(w, &made, err) < 0)
        return sg_wrap(err, "pull %s", sg_quote(w->image).s);
    return hold(w, made.name, err);
}

/* ---- what is asked ---- */

static const struct {
    const char *action;
    int (*run)(struct work *w, struct sg_err *err);
} works[] = { { "export", leave }, { "import", come }, { "pull", fetch } };

static int read_line(struct sg_buf *text, struct sg_err *err)
{
    char byte;
    for (ssize_t n; (n = read(ASKED_FD, &byte, 1)) != 0;) {
        if (n < 0 && errno != EINTR)
            return sg_fail_sys(err, "read what is asked");
        if (n > 0 && byte == '\n')
            return sg_buf_check(text, "what is asked", err);
        if (n > 0)
            sg_buf_add(text, &byte, 1);
    }
    return sg_fail(err, SG_INVALID, "what is asked ends early");
}

static int work(struct work *w, struct sg_err *err)
{
#define AT(f) offsetof(struct work, f)
    static const struct sg_jfield fields[] = {
        { "action", SG_JT_STRING, AT(action), 0, 0, true },
        { "template", SG_JT_STRING, AT(template), 0, 0, false },
        { "snapshot", SG_JT_STRING, AT(snapshot), 0, 0, false },
        { "bytes", SG_JT_U64, AT(bytes), 0, UINT64_MAX, false },
        { "unpacked", SG_JT_U64, AT(unpacked), 0, UINT64_MAX, false },
        { "sudo", SG_JT_BOOL, AT(sudo), 0, 0, false },
        { "image", SG_JT_STRING, AT(image), 0, 0, false },
        { "platform", SG_JT_STRING, AT(platform), 0, 0, false },
        { "user", SG_JT_STRING, AT(user), 0, 0, false },
        { "password", SG_JT_STRING, AT(password), 0, 0, false },
    };
#undef AT
    const struct sg_jval *v;
    sg_auto_buf text;
    sg_auto_arena a;
    sg_buf_init(&text, REQUEST_MAX);
    sg_arena_init(&a, (size_t)8 * REQUEST_MAX);
    if (read_line(&text, err) < 0 ||
        sg_json_parse((struct sg_str) { (const char *)text.p, text.n }, &a, &v, err) < 0 ||
        sg_json_read(v, fields, SG_COUNT(fields), w, err) < 0)
        return -1;
    for (size_t i = 0; i < SG_COUNT(works); i++)
        if (strcmp(works[i].action, w->action) == 0)
            return works[i].run(w, err);
    return sg_fail(err, SG_INVALID, "nobody does %s", sg_quote(w->action).s);
}

static int do_work(struct work *w)
{
    struct sg_err err = { 0 };
    w->progress = (struct sg_progress) { .is_silent = true, .ticker_fd = -1, .report_fd = SAYS_FD };
    const int done = work(w, &err);
    sg_progress_done(&w->progress);
    return done < 0 ? fail(&err) : SG_EXIT_OK;
}

/* ---- who waits ---- */

static void keep_from_others(void)
{
    for (int fd = ASKED_FD; fd <= DATA_FD; fd++)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* Until either side ends, or the disk does: true. */
static bool wait_for_end(struct pollfd ends[2], const struct work *w)
{
    for (;;) {
        sg_auto_fd store = -1;
        const int n = poll(ends, 2, LOOK_MS);
        if (n > 0 || (n < 0 && errno != EINTR))
            return false;
        if (atomic_load(w->fills))
            store = sg_templates_open(w->cli.config.state_dir, false, NULL);
        if (is_spent(store))
            return true;
    }
}

static int wait_for(const struct work *w, pid_t worker, int worker_fd)
{
    const char *state_dir = w->cli.config.state_dir;
    struct pollfd ends[] = { { .fd = ASKED_FD }, { .fd = worker_fd, .events = POLLIN } };
    int status = 0;
    const bool is_full = wait_for_end(ends, w);
    if (!ends[1].revents)
        (void)kill(worker, SIGKILL);
    while (waitpid(worker, &status, 0) < 0 && errno == EINTR)
        ;
    if (is_full) {
        struct sg_err err = { 0 };
        (void)sg_fail(&err, SG_EXHAUSTED,
                      "the disk of the templates is full but for its last %" PRIu64
                      " MiB: the template is larger than was said, or others fill the disk",
                      SPARE_BYTES >> 20);
        (void)fail(&err);
    }
    (void)close(SAYS_FD);
    sg_auto_fd store = sg_templates_open(state_dir, false, NULL);
    if (store >= 0)
        sg_templates_sweep(store, NULL);
    sg_import_sweep(state_dir);
    return WIFEXITED(status) ? WEXITSTATUS(status) : SG_EXIT_FAILED;
}

int sg_image_work(void)
{
    struct work w = { .action = NULL };
    struct sg_err err = { 0 };
    const struct sigaction ignore = { .sa_handler = SIG_IGN };
    (void)sigaction(SIGPIPE, &ignore, NULL); /* it is an error like any other */
    keep_from_others();
    sg_config_init(&w.cli.config, &w.cli.origins);
    if (sg_config_load(&w.cli.config, &w.cli.origins, NULL, environ, &err) < 0)
        return fail(&err);
    w.fills =
        mmap(NULL, sizeof *w.fills, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (w.fills == MAP_FAILED) {
        (void)sg_fail_sys(&err, "share a page");
        return fail(&err);
    }
    const pid_t parent = getpid(), worker = fork();
    if (worker == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(getppid() == parent ? do_work(&w) : SG_EXIT_FAILED);
    }
    sg_auto_fd worker_fd = worker < 0 ? -1 : (int)syscall(SYS_pidfd_open, worker, 0);
    (void)close(DATA_FD);
    if (worker > 0 && worker_fd < 0)
        (void)kill(worker, SIGKILL);
    const int code = worker_fd < 0 ? SG_EXIT_FAILED : wait_for(&w, worker, worker_fd);
    sg_config_done(&w.cli.config, &w.cli.origins);
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* sandglass-launcher: starts, looks for what an earlier one left, starts the daemon, and serves it.
 *
 * SIGTERM (and the end of whoever started us) ends the service and leaves the sandboxes for the
 * next start; SIGINT ends them, too. Either way the daemon goes first, so that it takes no end of a
 * sandbox for a failure. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sched.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "config/config.h"
#include "engine/init_image.h"
#include "engine/reclaim.h"
#include "engine/userns.h"
#include "launcher/adopt.h"
#include "launcher/container.h"
#include "launcher/launcher.h"
#include "launcher/listen.h"
#include "sys/kfile.h"
#include "sys/uapi.h"
#include "base/banned.h"

extern char **environ;

#define MIB (1ull << 20)
#define PIB (1ull << 50)

enum { EXIT_SETTINGS = 2, EXIT_TRY_LATER = 75 };
static const uint64_t STOP_NS = 25000000000u, STOP_ALL_NS = 240000000000u,
                      LOCK_PATIENCE_NS = 2000000000, PORT_PATIENCE_NS = 5000000000u;

/* ---- ending ---- */

static bool is_all_ended(struct sg_launcher *l)
{
    const unsigned staying = l->stopping == SG_STOP_LEAVE ? l->claimed_count : 0;
    if (l->daemon.child.pid > 0 || l->gate.child.pid > 0 || l->export.child.pid > 0 ||
        l->images.count || l->box_count != staying)
        return false;
    sg_keeper_stop(l); /* the boxes needed it */
    return l->keeper.child.pid <= 0;
}

static void go_on_stopping(struct sg_launcher *l)
{
    if (l->stopping == SG_STOP_END)
        for (struct sg_box *b = l->boxes, *next; b; b = next) {
            next = b->all_next;
            sg_box_end(b);
        }
    if (is_all_ended(l))
        sg_loop_stop(l->loop);
}

void sg_launcher_daemon_gone(struct sg_launcher *l)
{
    sg_conn_close(l);
    sg_gate_stop(l);
    sg_export_stop(l);
    sg_maker_end(l);
    go_on_stopping(l);
}

void sg_launcher_box_gone(struct sg_launcher *l)
{
    if (l->stopping && is_all_ended(l))
        sg_loop_stop(l->loop);
}

static void stop_anyway(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    struct sg_launcher *l = SG_OWNER(t, struct sg_launcher, stop_timer);
    sg_log(SG_LOG_ERROR, "not everything could be ended in time");
    sg_loop_stop(l->loop);
}

void sg_launcher_stop(struct sg_launcher *l, enum sg_stopping how)
{
    if (l->stopping >= how)
        return;
    const bool is_first = l->stopping == SG_STOP_NOT;
    l->stopping = how;
    if (!is_first) {
        if (l->maker.is_off)
            go_on_stopping(l);
        return;
    }
    l->stop_timer.fire = stop_anyway;
    sg_timer_set(l->loop, &l->stop_timer,
                 sg_loop_now(l->loop) + (how == SG_STOP_END ? STOP_ALL_NS : STOP_NS));
    sg_daemon_end(l);
}

static void on_signal(void *arg, const struct signalfd_siginfo *info)
{
    sg_launcher_stop(arg, info->ssi_signo == SIGINT ? SG_STOP_END : SG_STOP_LEAVE);
}

static void on_parent_gone(struct sg_io *io, uint32_t events)
{
    (void)events;
    struct sg_launcher *l = SG_OWNER(io, struct sg_launcher, parent);
    sg_io_drop(l->loop, io);
    sg_launcher_stop(l, SG_STOP_LEAVE);
}

/* Not by PR_SET_PDEATHSIG: a change of credentials clears it, and making a cell is one. */
static int watch_parent(struct sg_launcher *l, struct sg_err *err)
{
    l->parent = (struct sg_io) { .fd = (int)syscall(SYS_pidfd_open, getppid(), 0),
                                 .ready = on_parent_gone };
    if (l->parent.fd < 0) /* it is outside of our pid namespace: as good as the kernel itself */
        return 0;
    return sg_io_want(l->loop, &l->parent, EPOLLIN, err);
}

/* ---- starting ---- */

struct arguments {
    const char *config, *daemon;
    int peer_fd; /* -1: a daemon is started */
};

static int parse_arguments(char **argv, struct arguments *ret, struct sg_err *err)
{
    struct arguments a = { .peer_fd = -1 };
    for (argv++; *argv; argv += 2) {
        uint64_t fd;
        if (!argv[1])
            return sg_fail(err, SG_INVALID, "%s needs a value", sg_quote(*argv).s);
        if (strcmp(*argv, "--config") == 0)
            a.config = argv[1];
        else if (strcmp(*argv, "--daemon") == 0)
            a.daemon = argv[1];
        else if (strcmp(*argv, "--peer") == 0 &&
                 sg_parse_u64(sg_str_of(argv[1]), 3, INT_MAX, &fd, err) == 0)
            a.peer_fd = (int)fd;
        else
            return sg_fail(err, SG_INVALID,
                           "usage: sandglass-launcher [--config FILE] [--daemon PROGRAM] "
                           "[--peer DESCRIPTOR]");
    }
    *ret = a;
    return 0;
}

static uint64_t or_any(uint64_t limit, uint64_t any)
{
    return limit ? limit : any;
}

/* NULL: no name was given. Returns owned. */
static char *named(const char *path)
{
    return *path ? sg_strdup(path) : NULL;
}

static void take_settings(struct sg_launcher *l, const struct sg_config *c)
{
    l->set.run_dir = sg_strdup(c->serve_run_dir);
    l->set.state_dir = sg_strdup(c->state_dir);
    l->set.rules_paths[SG_RULE_FILE_ROUTER] = named(c->router_rules);
    l->set.rules_paths[SG_RULE_FILE_INTERCEPT] = named(c->intercept_rules);
    l->set.defaults = (struct sg_limits) { .mem_bytes = c->memory_bytes,
                                           .cpu_milli = c->cpu_milli,
                                           .pids = c->pids,
                                           .disk_bytes = c->disk_bytes,
                                           .open_files = c->open_files };
    /* As in the option table: below, the kernel's own share would be all there is. */
    l->set.permit.least = (struct sg_limits) { 4 * MIB, 10, 2, MIB, 0, false };
    l->set.permit.most = (struct sg_limits) { or_any(c->serve_max_memory_bytes, PIB),
                                              or_any(c->serve_max_cpu_milli, 1024000),
                                              1000000,
                                              PIB,
                                              0,
                                              false };
    l->set.max_cells = c->serve_max_sandboxes + c->serve_started; /* those are nobody's yet */
    l->set.docker_image = sg_strdup(c->docker_image);
    l->set.docker_template = sg_strdup(c->serve_template);
    l->set.permit.images = c->docker_images.v;
    l->set.permit.image_count = c->docker_images.n;
}

static void rest(void)
{
    const struct timespec t = { .tv_nsec = 5000000 };
    (void)nanosleep(&t, NULL);
}

/* One launcher a directory. The lock goes with us, whatever happens; but not at once: cells in the
 * making have our descriptors, too, until they have noticed. The file stays where we do not end by
 * ourselves, so that the next one knows. */
static int lock_run_dir(struct sg_launcher *l, struct sg_err *err)
{
    sg_auto_free char *path = sg_printf("%s/launcher.lock", l->set.run_dir);
    l->is_second = access(path, F_OK) == 0;
    const uint64_t until = sg_now_ns() + LOCK_PATIENCE_NS;
    sg_auto_fd fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return sg_fail_sys(err, "open %s", sg_quote(path).s);
    while (syscall(SYS_flock, fd, LOCK_EX | LOCK_NB) < 0) {
        if (sg_now_ns() >= until)
            return sg_fail(err, SG_UNAVAILABLE, "the service runs already (in %s)",
                           sg_quote(l->set.run_dir).s);
        rest();
    }
    return sg_take_fd(&fd);
}

static int open_run_dir(struct sg_launcher *l, int *ret_lock_fd, struct sg_err *err)
{
    sg_auto_free char *cells = sg_printf("%s/cells", l->set.run_dir);
    if (sg_mkdir_all(l->set.run_dir, 0700, err) < 0 || sg_mkdir_all(cells, 0700, err) < 0)
        return -1;
    sg_auto_fd run = open(l->set.run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    if (run < 0 || fstat(run, &st) < 0)
        return sg_fail_sys(err, "open %s", sg_quote(l->set.run_dir).s);
    if (st.st_uid != geteuid())
        return sg_fail(err, SG_DENIED, "%s belongs to somebody else", sg_quote(l->set.run_dir).s);
    if (fchmod(run, 0700) < 0)
        return sg_fail_sys(err, "close %s to others", sg_quote(l->set.run_dir).s);
    sg_auto_fd fd = lock_run_dir(l, err);
    if (fd < 0)
        return -1;
    l->cells_fd = open(cells, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (l->cells_fd < 0)
        return sg_fail_sys(err, "open %s", sg_quote(cells).s);
    l->init_fd = sg_init_image_open(err);
    if (l->init_fd < 0)
        return -1;
    *ret_lock_fd = sg_take_fd(&fd);
    return 0;
}

static void close_run_dir(const struct sg_launcher *l)
{
    sg_auto_free char *cells = sg_printf("%s/cells", l->set.run_dir);
    sg_auto_free char *lock = sg_printf("%s/launcher.lock", l->set.run_dir);
    sg_unlisten_unix(l->set.run_dir);
    (void)rmdir(cells); /* not while a sandbox is left in it */
    (void)unlink(lock);
}

/* Every sandbox is a descriptor. */
static void raise_file_limit(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
        r.rlim_cur = r.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &r);
    }
}

static int become(struct sg_launcher *l, struct sg_err *err)
{
    if (geteuid() != 0) {
        if (sg_userns_become_root(err) < 0)
            return -1;
        l->set.is_rootless = true;
    }
    struct sigaction action = { .sa_handler = SIG_IGN };
    (void)sigaction(SIGPIPE, &action, NULL);
    action.sa_handler = SIG_DFL;
    (void)sigaction(SIGCHLD, &action, NULL);
    umask(077);
    raise_file_limit();
    /* The storage pool is mounted where nobody else sees it; what the host unmounts goes here, too.
     * Without root the namespace is our own already. */
    if (!l->set.is_rootless &&
        (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0))
        return sg_fail_sys(err, "make a mount namespace of our own");
    return 0;
}

static bool can_freeze(void)
{
    const struct sg_ids any = { .lock_fd = -1 };
    struct sg_cgroup g;
    sg_cgroup_init_kept(&g, &any);
    return g.is_v2 ? g.dirs[0][0] : g.dirs[SG_GROUP_FREEZER][0];
}

static bool can_reclaim(void)
{
    struct sg_reclaim_host h;
    sg_reclaim_probe(&h);
    return h.way != SG_RECLAIM_NONE;
}

static int connect_daemon(struct sg_launcher *l, const struct arguments *a, struct sg_err *err)
{
    if (a->peer_fd < 0)
        return sg_daemon_start(l, err);
    if (fcntl(a->peer_fd, F_SETFD, FD_CLOEXEC) < 0)
        return sg_fail_sys(err, "descriptor %d", a->peer_fd);
    return sg_conn_open(l, a->peer_fd, err);
}

/* Where the settings name an Engine. Its socket is root's. */
static int start_keeper(struct sg_launcher *l, const struct sg_config *c, struct sg_err *err)
{
    if (!*c->docker_socket || l->set.is_rootless)
        return 0;
    l->keeper.program = sg_child_program("sandglass-keeper", "keeper");
    if (access(l->keeper.program, X_OK) < 0)
        return sg_fail_sys(err, "docker.socket is set, but %s", sg_quote(l->keeper.program).s);
    return sg_keeper_start(l, err);
}

static void find_export(struct sg_launcher *l, const struct sg_config *c, const struct arguments *a)
{
    sg_auto_free char *program =
        a->peer_fd < 0 && *c->otlp_endpoint ? sg_child_program("sandglass-export", "export") : NULL;
    if (program && access(program, X_OK) == 0)
        l->export.program = sg_take_ptr(&program);
    else if (program)
        sg_log(SG_LOG_ERROR, "traces are not sent: sandglass-export is not installed");
}

/* After one that was killed its daemon may still be on its way out, and hold the port. */
static int listen_tcp(const struct sg_launcher *l, const char *address, struct sg_err *err)
{
    const uint64_t until = sg_now_ns() + (l->is_second ? PORT_PATIENCE_NS : 0);
    for (;;) {
        int fd = sg_listen_tcp(address, err);
        if (fd >= 0 || err->kind != SG_UNAVAILABLE || sg_now_ns() >= until)
            return fd;
        rest();
    }
}

_Static_assert((int)SG_GATE_SK_LOOKUP == (int)SG_LEAD_LOOKUP &&
                   (int)SG_GATE_NFT == (int)SG_LEAD_NFT && (int)SG_GATE_AUTO == (int)SG_LEAD_AUTO,
               "the setting is the way");

static int start(struct sg_launcher *l, const struct sg_config *c, const struct arguments *a,
                 struct sg_err *err)
{
    static const int signals[] = { SIGTERM, SIGINT, SIGHUP };
    l->loop = sg_loop_new(err);
    if (!l->loop || sg_loop_signals(l->loop, signals, SG_COUNT(signals), on_signal, l, err) < 0 ||
        watch_parent(l, err) < 0)
        return -1;
    const char *named = a->config ? a->config : getenv("SANDGLASS_CONFIG");
    l->daemon.config = named ? sg_strdup(named) : NULL;
    if (a->peer_fd < 0) {
        l->daemon.program =
            a->daemon ? sg_strdup(a->daemon) : sg_child_program("sandglassd", "daemon");
        l->daemon.tcp_fd = listen_tcp(l, c->serve_listen, err);
        if (l->daemon.tcp_fd < 0)
            return -1;
        l->daemon.unix_fd = sg_listen_unix(l->set.run_dir, err);
        if (l->daemon.unix_fd < 0)
            return -1;
    }
    if (sg_vault_open(&l->vault, l->loop, c, l->set.is_rootless, err) < 0)
        return -1;
    if (a->peer_fd < 0)
        sg_gate_find(l, (enum sg_lead)c->gate_lead);
    sg_oci_init(&l->oci, c, &l->set, l->gate.program != NULL);
    if (sg_maker_init(l, c->serve_pool.v, c->serve_pool.n, (unsigned)c->serve_pool_most, err) < 0)
        return -1;
    l->can_freeze = can_freeze();
    l->can_reclaim = can_reclaim();
    (void)sg_cgroup_sweep(!l->set.is_rootless);
    if (start_keeper(l, c, err) < 0)
        return -1;
    sg_adopt_all(l);
    sg_container_sweep(l);
    sg_adopt_pool(l);
    sg_tmpl_sweep(l);
    find_export(l, c, a);
    if ((l->gate.program && sg_gate_start(l, err) < 0) || connect_daemon(l, a, err) < 0)
        return -1;
    sg_maker_begin(l);
    return 0;
}

static struct sg_launcher *new_launcher(void)
{
    struct sg_launcher *l = sg_new(struct sg_launcher);
    l->cells_fd = l->init_fd = l->daemon.tcp_fd = l->daemon.unix_fd = l->daemon.child.gone.fd = -1;
    l->gate.io.fd = l->gate.own_net_fd = l->gate.child.gone.fd = -1;
    l->keeper.io.fd = l->keeper.child.gone.fd = -1;
    sg_packet_init(&l->keeper.packet);
    l->export.child.gone.fd = -1;
    l->oci.program_fd = -1;
    sg_vault_init(&l->vault);
    sg_reclaimer_init(&l->reclaimer);
    sg_map_init(&l->by_id);
    sg_packet_init(&l->packet);
    sg_conn_init(&l->conn);
    return l;
}

static void free_launcher(struct sg_launcher *l)
{
    if (l->loop) {
        sg_conn_close(l);
        sg_reclaimer_done(l);
        while (l->boxes)
            sg_box_leave(l->boxes);
        sg_import_done(l);
        sg_maker_done(l);
        sg_tmpl_sweep(l);
        sg_keeper_done(l);
        sg_vault_close(&l->vault);
        sg_loop_free(l->loop);
        sg_oci_done(&l->oci);
    }
    sg_conn_done(&l->conn);
    sg_packet_done(&l->packet);
    sg_map_done(&l->by_id);
    free(l->set.run_dir);
    free(l->set.state_dir);
    for (size_t i = 0; i < SG_RULE_FILE_COUNT; i++)
        free(l->set.rules_paths[i]);
    free(l->daemon.program);
    free(l->daemon.config);
    sg_drop_fd(&l->daemon.tcp_fd);
    sg_drop_fd(&l->daemon.unix_fd);
    sg_drop_fd(&l->cells_fd);
    sg_drop_fd(&l->init_fd);
    sg_drop_fd(&l->gate.own_net_fd);
    free(l->gate.program);
    sg_packet_done(&l->keeper.packet);
    free(l->keeper.program);
    free(l->set.docker_image);
    free(l->set.docker_template);
    free(l->export.program);
    free(l);
}

static int fail(const struct sg_err *err)
{
    sg_log(SG_LOG_ERROR, "the launcher cannot go on", SG_KV("error", err->msg));
    return err->kind == SG_UNAVAILABLE ? EXIT_TRY_LATER
           : err->kind == SG_INVALID   ? EXIT_SETTINGS
                                       : EXIT_FAILURE;
}

static int serve(struct sg_launcher *l, const struct sg_config *c, const struct arguments *a)
{
    struct sg_err err = { 0 };
    sg_auto_fd lock_fd = -1;
    take_settings(l, c);
    if (become(l, &err) < 0 || open_run_dir(l, &lock_fd, &err) < 0)
        return fail(&err);
    int ret = start(l, c, a, &err);
    if (ret == 0)
        ret = sg_loop_run(l->loop, &err);
    close_run_dir(l);
    if (ret < 0)
        return fail(&err);
    if (l->daemon.is_hopeless)
        return EXIT_SETTINGS;
    return l->stopping == SG_STOP_END && l->box_count ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    (void)argc;
    struct sg_err err = { 0 };
    struct arguments a;
    struct sg_config config;
    struct sg_origins origins;
    sg_log_init("sandglass-launcher", NULL);
    sg_config_init(&config, &origins);
    int code;
    if (parse_arguments(argv, &a, &err) < 0 ||
        sg_config_load(&config, &origins, a.config, environ, &err) < 0) {
        code = fail(&err);
    } else {
        sg_log_init("sandglass-launcher", config.serve_log_level);
        struct sg_launcher *l = new_launcher();
        code = serve(l, &config, &a);
        free_launcher(l);
    }
    sg_config_done(&config, &origins);
    return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Clients wait in the listeners' queues until the manager has its sandboxes back: nobody is told
 * that one does not exist while that is being found out.
 *
 * The launcher's socket is the manager's. A duplicate of it here tells when the other end is gone:
 * then we go, too, and the next launcher starts the next of us. */
#include "daemon/service.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/e2b/e2b.h"
#include "api/rest/rest.h"
#include "api/routes.h"
#include "api/server.h"
#include "base/auto.h"
#include "base/log.h"
#include "link/tls.h"
#include "loop/loop.h"
#include "manager/manager.h"
#include "manager/trace.h"
#include "meter/audit.h"
#include "store/store.h"
#include "base/banned.h"

enum {
    HEAD_MS = 15000, /* slow clients: the head of a request, a pause in its body, between two */
    BODY_MS = 60000,
    IDLE_MS = 650000, /* clients of the E2B API keep theirs for so long, and send then */
    DRAIN_MS = 3000,
    MIN_CONNECTIONS = 64,
    MAX_CONNECTIONS = 16384,
    HTTPS_PORT = 443,
};

struct service {
    const struct sg_service_options *o;
    struct sg_loop *loop;
    struct sg_store *store;
    struct sg_audit *audit;
    struct sg_manager *manager;
    struct sg_server *server;
    struct sg_io launcher; /* a duplicate: only its end is of interest */
    int journal_fd, upload_fd, tcp_fd, unix_fd;
    struct sg_manager_options manager_options;
    struct sg_trace_options traces;
    char *domain; /* owned; NULL: none */
    bool is_draining;
    struct sg_err failure; /* kind SG_OK: none */
};

static void fail(struct service *s, const struct sg_err *err)
{
    s->failure = *err;
    sg_loop_stop(s->loop);
}

/* ---- parts ---- */

static int open_store(struct service *s, struct sg_err *err)
{
    sg_auto_free char *path = sg_printf("%s/sandglass.db", s->o->dir);
    struct sg_store_report report;
    s->store = sg_store_open(s->loop, path, &report, err);
    if (!s->store)
        return -1;
    if (report.moved_aside[0])
        sg_log(SG_LOG_ERROR, "the store was damaged, a new one is in use",
               SG_KV("kept", report.moved_aside));
    else if (report.migrated_from != report.schema && !report.was_new)
        sg_log(SG_LOG_INFO, "the store has a new schema");
    s->audit = sg_audit_new(s->store, err);
    return s->audit ? 0 : -1;
}

static int open_journals(struct service *s, struct sg_err *err)
{
    sg_auto_free char *path = sg_printf("%s/journal", s->o->dir);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return sg_fail_sys(err, "make the directory of the journals");
    s->journal_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->journal_fd < 0)
        return sg_fail_sys(err, "open the directory of the journals");
    return 0;
}

static int open_uploads(struct service *s, struct sg_err *err)
{
    sg_auto_free char *path = sg_printf("%s/uploads", s->o->dir);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return sg_fail_sys(err, "make the directory of uploads");
    s->upload_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->upload_fd < 0)
        return sg_fail_sys(err, "open the directory of uploads");
    return 0;
}

/* SG_OK without traces, too. */
static int open_spool(struct service *s, struct sg_err *err)
{
    const struct sg_settings *set = s->o->settings;
    sg_auto_free char *path = sg_printf("%s/spans", s->o->dir);
    if (!set->otlp_environment)
        return 0;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return sg_fail_sys(err, "make the directory of the spans");
    s->traces = (struct sg_trace_options) { .dir_fd = open(path, O_RDONLY | O_DIRECTORY |
                                                                     O_NOFOLLOW | O_CLOEXEC),
                                            .max_bytes = set->otlp_spool_bytes,
                                            .environment = set->otlp_environment,
                                            .version = SG_VERSION,
                                            .has_content = set->otlp_content };
    if (s->traces.dir_fd < 0)
        return sg_fail_sys(err, "open the directory of the spans");
    s->manager_options.traces = &s->traces;
    return 0;
}

static void set_manager_options(struct service *s)
{
    struct sg_settings *set = s->o->settings;
    struct sg_rules *rules = sg_take_ptr(&set->rules);
    struct sg_intercept_rules *intercept = sg_take_ptr(&set->intercept);
    s->manager_options = (struct sg_manager_options) {
        .defaults = { set->mem_bytes, set->cpu_milli, set->pids, set->disk_bytes },
        .most = { .mem_bytes = set->max_mem_bytes, .cpu_milli = set->max_cpu_milli },
        .default_timeout_ms = set->timeout_ms,
        .max_sandboxes = set->max_sandboxes,
        .started = set->started,
        .started_each = set->started_each,
        .journal_bytes = set->journal_bytes,
        .default_template = set->template,
        .journal_dir_fd = s->journal_fd,
        .upload_dir_fd = s->upload_fd,
        .reconcile_ms = set->reconcile_ms,
        .pause_files_ms = set->pause_files_ms,
        .pause_memory_ms = set->pause_memory_ms,
        .seal_to = s->o->seal_to,
        .gate_cert = s->o->gate_cert,
        .rules = rules,
        .intercept = intercept,
        .template_tiers = set->template_tiers,
        .template_tiers_n = set->template_tiers_n,
        .walls = set->has_walls ? &set->walls : NULL,
        .watches_rules = true,
        .permitted = &set->permitted,
        .prices = &set->prices,
    };
}

static rlim_t max_files(void)
{
    struct rlimit limit = { MIN_CONNECTIONS, MIN_CONNECTIONS };
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur < INT32_MAX ? limit.rlim_cur : INT32_MAX;
}

/* A share of the descriptors: sandboxes and execs need theirs. */
static unsigned max_connections(void)
{
    const rlim_t share = max_files() / 4;
    return share < MIN_CONNECTIONS   ? MIN_CONNECTIONS
           : share > MAX_CONNECTIONS ? MAX_CONNECTIONS
                                     : (unsigned)share;
}

/* Of the listener; 0: there is none. */
static unsigned listen_port(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } a = { 0 };
    socklen_t n = sizeof a;
    if (fd < 0 || getsockname(fd, &a.any, &n) < 0)
        return 0;
    return ntohs(a.any.sa_family == AF_INET6 ? a.six.sin6_port : a.four.sin_port);
}

/* Below which name sandboxes are reached: what the settings say, or the wildcard of the
 * certificate. Whoever names no port means the one we listen on. Returns owned, or NULL. */
static char *find_domain(const struct service *s)
{
    const struct sg_settings *set = s->o->settings;
    sg_auto_free char *name = *set->domain    ? sg_strdup(set->domain)
                              : set->tls_cert ? sg_tls_wildcard(set->tls_cert)
                                              : NULL;
    const unsigned port = listen_port(s->tcp_fd);
    if (!name || strchr(name, ':') || !port || port == HTTPS_PORT)
        return sg_take_ptr(&name);
    return sg_printf("%s:%u", name, port);
}

/* Visitors of open ports first; who may not is answered like one who asks for no sandbox at all. */
static const struct sg_route *claim(struct sg_call *c)
{
    const struct sg_route *r = sg_port_claim(c);
    return r ? r : sg_e2b_claim(c);
}

static int make_server(struct service *s, struct sg_err *err)
{
    s->domain = find_domain(s);
    static const struct sg_route_table *const doors[] = { &sg_base_routes, &sg_rest_routes,
                                                          &sg_e2b_routes };
    const struct sg_server_options options = {
        .tls_cert = s->o->settings->tls_cert,
        .tls_key = s->o->settings->tls_key,
        .domain = s->domain,
        .head_ms = HEAD_MS,
        .body_ms = BODY_MS,
        .idle_ms = IDLE_MS,
        .max_connections = max_connections(),
        .max_visitors = (unsigned)s->o->settings->max_visitors,
        .max_fd = (int)(max_files() - max_files() / 16), /* the rest is for the operator's door */
        .claim = claim,
        .max_body_bytes = UINT64_MAX, /* of streamed bodies; others have SG_CALL_MAX_BODY */
    };
    s->server = sg_server_new(s->loop, s->manager, doors, SG_COUNT(doors), &options, err);
    return s->server ? 0 : -1;
}

/* ---- events ---- */

static void listen_now(struct service *s)
{
    struct sg_err err = { 0 };
    const uint32_t uid = s->o->operator_uid;
    if ((s->tcp_fd >= 0 &&
         sg_server_listen(s->server, sg_take_fd(&s->tcp_fd), false, uid, &err) < 0) ||
        sg_server_listen(s->server, sg_take_fd(&s->unix_fd), true, uid, &err) < 0)
        fail(s, &err);
    else
        sg_log(SG_LOG_INFO, "serving");
}

static void manager_ready(void *arg, const struct sg_err *err)
{
    struct service *s = arg;
    if (err)
        fail(s, err);
    else if (!s->is_draining)
        listen_now(s);
}

static void launcher_gone(struct sg_io *io, uint32_t events)
{
    (void)events;
    struct sg_err err = { 0 };
    (void)sg_fail(&err, SG_UNAVAILABLE, "the launcher is gone");
    fail(SG_OWNER(io, struct service, launcher), &err);
}

static void drained(void *arg)
{
    sg_loop_stop(((struct service *)arg)->loop);
}

/* The first TERM lets calls end, a second one does not wait. */
static void got_signal(void *arg, const struct signalfd_siginfo *info)
{
    struct service *s = arg;
    if (info->ssi_signo != SIGTERM)
        return;
    if (s->is_draining || !s->server) {
        sg_loop_stop(s->loop);
        return;
    }
    s->is_draining = true;
    sg_log(SG_LOG_INFO, "ending");
    sg_server_drain(s->server, DRAIN_MS, drained, s);
}

/* INT and HUP go to everybody in the foreground of a terminal; what they mean is the launcher's to
 * say. */
static int watch(struct service *s, struct sg_err *err)
{
    static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };
    if (sg_loop_signals(s->loop, numbers, SG_COUNT(numbers), got_signal, s, err) < 0)
        return -1;
    s->launcher = (struct sg_io) { .fd = fcntl(s->o->launcher_fd, F_DUPFD_CLOEXEC, 3),
                                   .ready = launcher_gone };
    if (s->launcher.fd < 0)
        return sg_fail_sys(err, "duplicate the launcher's socket");
    return sg_io_want(s->loop, &s->launcher, EPOLLRDHUP, err);
}

/* ---- the whole ---- */

static int start(struct service *s, struct sg_err *err)
{
    int launcher_fd = s->o->launcher_fd;
    if (watch(s, err) < 0 || open_store(s, err) < 0 || open_journals(s, err) < 0 ||
        open_uploads(s, err) < 0) {
        sg_close_p(&launcher_fd);
        return -1;
    }
    set_manager_options(s);
    if (open_spool(s, err) < 0) {
        sg_close_p(&launcher_fd);
        return -1;
    }
    s->manager = sg_manager_new(s->loop, s->store, s->audit, launcher_fd, &s->manager_options,
                                manager_ready, s, err);
    if (!s->manager)
        return -1;
    return make_server(s, err);
}

/* The manager goes first: it answers who still waits, and lets go of streams. The launcher takes
 * the end of its socket for our end and makes sure of it, so that the duplicate stays open: the
 * exit closes it. */
static void end(struct service *s)
{
    sg_manager_free(s->manager);
    sg_server_free(s->server);
    sg_audit_free(s->audit);
    sg_store_close(s->store);
    sg_loop_free(s->loop);
    sg_close_p(&s->journal_fd);
    sg_close_p(&s->upload_fd);
    sg_close_p(&s->tcp_fd);
    sg_close_p(&s->unix_fd);
    free(s->domain);
}

int sg_service_run(const struct sg_service_options *o, struct sg_err *err)
{
    struct service s = {
        .o = o,
        .launcher.fd = -1,
        .journal_fd = -1,
        .upload_fd = -1,
        .tcp_fd = o->tcp_fd,
        .unix_fd = o->unix_fd,
    };
    s.loop = sg_loop_new(err);
    if (!s.loop)
        return -1;
    int got = start(&s, err);
    if (got == 0)
        got = sg_loop_run(s.loop, err);
    if (got == 0 && s.failure.kind) {
        if (err)
            *err = s.failure;
        got = -1;
    }
    end(&s);
    return got;
}

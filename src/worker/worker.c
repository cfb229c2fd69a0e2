/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/worker.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "config/config.h"
#include "base/banned.h"

extern char **environ;

/* Nobody who starts it by hand gets further than this. */
static int prepare(struct sg_err *err)
{
    const struct sigaction ignore = { .sa_handler = SIG_IGN };
    int type = 0;
    socklen_t n = sizeof type;
    (void)close_range(SG_WORKER_FD + 1, ~0u, 0);
    (void)fcntl(SG_WORKER_FD, F_SETFD, FD_CLOEXEC);
    if (getsockopt(SG_WORKER_FD, SOL_SOCKET, SO_TYPE, &type, &n) < 0 || type != SOCK_SEQPACKET)
        return sg_fail(err, SG_INVALID, "started without its socket; 'sandglass serve' starts it");
    if (sigaction(SIGPIPE, &ignore, NULL) < 0)
        return sg_fail_sys(err, "ignore SIGPIPE");
    return 0;
}

int sg_worker_main(const char *name, int (*run)(const struct sg_config *c, struct sg_err *err))
{
    struct sg_err err = { 0 };
    struct sg_config config;
    struct sg_origins origins;
    sg_log_init(name, NULL);
    sg_config_init(&config, &origins);
    int got = prepare(&err);
    if (got == 0)
        got = sg_config_load(&config, &origins, NULL, environ, &err);
    if (got == 0) {
        sg_log_init(name, config.serve_log_level);
        got = run(&config, &err);
    }
    sg_config_done(&config, &origins);
    if (got == 0)
        return EXIT_SUCCESS;
    sg_log(SG_LOG_ERROR, "it ends", SG_KV("why", err.msg), SG_KV("where", err.where));
    return err.kind == SG_INVALID ? SG_WORKER_EXIT_SETTINGS : EXIT_FAILURE;
}

static void on_signal(void *arg, const struct signalfd_siginfo *info)
{
    if (info->ssi_signo == SIGTERM)
        sg_loop_stop(arg);
}

struct sg_loop *sg_worker_loop(struct sg_err *err)
{
    static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };
    struct sg_loop *l = sg_loop_new(err);
    if (l && sg_loop_signals(l, numbers, SG_COUNT(numbers), on_signal, l, err) < 0) {
        sg_loop_free(l);
        return NULL;
    }
    return l;
}

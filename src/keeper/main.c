/* SPDX-License-Identifier: Apache-2.0 */
/* Started by the launcher with its socket as descriptor 3. It reads the settings, then leaves
 * everything but the directory that the Engine's socket is in, and only then takes a word from
 * anybody. One capability stays, DAC_OVERRIDE: the socket belongs to root and to a group of the
 * Engine's, and who may speak there has more than that anyway. */
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "config/config.h"
#include "keeper/keeper.h"
#include "keeper/seccomp_data.h"
#include "sys/confine.h"
#include "base/banned.h"

extern char **environ;

enum { LAUNCHER_FD = 3 };

static int check_descriptors(struct sg_err *err)
{
    int type = 0;
    socklen_t n = sizeof type;
    (void)close_range(LAUNCHER_FD + 1, ~0u, 0);
    (void)fcntl(LAUNCHER_FD, F_SETFD, FD_CLOEXEC);
    if (getsockopt(LAUNCHER_FD, SOL_SOCKET, SO_TYPE, &type, &n) < 0 || type != SOCK_SEQPACKET)
        return sg_fail(err, SG_INVALID,
                       "started without the launcher's socket; 'sandglass serve' starts it");
    return 0;
}

static void on_signal(void *arg, const struct signalfd_siginfo *info)
{
    if (info->ssi_signo == SIGTERM) /* INT and HUP are the launcher's to judge */
        sg_loop_stop(arg);
}

static int serve(const struct sg_keeper_options *o, struct sg_err *err)
{
    static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };
    struct sg_loop *l = sg_loop_new(err);
    struct sg_keeper *k = NULL;
    int ret = -1;
    if (l && sg_loop_signals(l, numbers, SG_COUNT(numbers), on_signal, l, err) == 0 &&
        (k = sg_keeper_new(l, o, err)))
        ret = sg_loop_run(l, err);
    if (k && k->failure.kind) {
        *err = k->failure;
        ret = -1;
    }
    sg_keeper_free(k);
    if (l)
        sg_loop_free(l);
    return ret;
}

/* The directory must be there; the socket may come later, and go and come again. */
static int run(const struct sg_config *c, struct sg_err *err)
{
    const struct sigaction ignore = { .sa_handler = SIG_IGN };
    sg_auto_free char *dir_text = sg_strdup(c->docker_socket);
    sg_auto_free char *name_text = sg_strdup(c->docker_socket);
    const char *dir = dirname(dir_text);
    sg_auto_free char *path = sg_printf("/view/%s", basename(name_text));
    const struct sg_confine confine = { .name = "keeper",
                                        .id = SG_KEEPER_ID,
                                        .view_dir = dir,
                                        .keeps_caps = 1u << CAP_DAC_OVERRIDE,
                                        .filter = sg_seccomp_keeper,
                                        .filter_len = sg_seccomp_keeper_len };
    const struct sg_keeper_options o = { .launcher_fd = LAUNCHER_FD,
                                         .socket_path = path,
                                         .shown = c->docker_socket,
                                         .service = c->serve_run_dir,
                                         .may_pull = c->docker_pull };
    struct sg_confined confined;
    if (sigaction(SIGPIPE, &ignore, NULL) < 0)
        return sg_fail_sys(err, "ignore SIGPIPE");
    if (sg_confine(&confine, &confined, err) < 0)
        return -1;
    return serve(&o, err);
}

int main(void)
{
    struct sg_err err = { 0 };
    struct sg_config config;
    struct sg_origins origins;
    sg_log_init("sandglass-keeper", NULL);
    sg_config_init(&config, &origins);
    int got = check_descriptors(&err);
    if (got == 0)
        got = sg_config_load(&config, &origins, NULL, environ, &err);
    if (got == 0) {
        sg_log_init("sandglass-keeper", config.serve_log_level);
        got = run(&config, &err);
    }
    sg_config_done(&config, &origins);
    if (got < 0)
        sg_log(SG_LOG_ERROR, "sandglass-keeper ends", SG_KV("why", err.msg),
               SG_KV("where", err.where));
    return got == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

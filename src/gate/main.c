/* SPDX-License-Identifier: Apache-2.0 */
/* Started by the launcher with its socket as descriptor 3. While it is still somebody it reads the
 * settings, the machine's name servers and the keys that are its alone; then it becomes nobody, and
 * only then takes a word from anybody. */
#include <fcntl.h>
#include <linux/close_range.h>
#include <openssl/ssl.h>
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
#include "gate/gate.h"
#include "gate/seccomp_data.h"
#include "gate/term.h"
#include "net/resolv.h"
#include "sys/confine.h"
#include "sys/kfile.h"
#include "base/banned.h"

extern char **environ;

enum { LAUNCHER_FD = 3, SERVERS_MAX = 4, TEXT_MAX = 16 << 10 };

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

/* Where the settings name none. */
static size_t own_servers(char *text, char **ret)
{
    if (sg_file_read(AT_FDCWD, "/etc/resolv.conf", text, TEXT_MAX, NULL) < 0)
        return 0;
    return sg_resolv_servers(text, ret, SERVERS_MAX);
}

static void on_signal(void *arg, const struct signalfd_siginfo *info)
{
    if (info->ssi_signo == SIGTERM) /* INT and HUP are the launcher's to judge */
        sg_loop_stop(arg);
}

static int serve(const struct sg_gate_options *o, struct sg_err *err)
{
    static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };
    struct sg_loop *l = sg_loop_new(err);
    struct sg_gate *g = NULL;
    int ret = -1;
    if (l && sg_loop_signals(l, numbers, SG_COUNT(numbers), on_signal, l, err) == 0 &&
        (g = sg_gate_new(l, o, err)))
        ret = sg_loop_run(l, err);
    sg_gate_free(g);
    if (l)
        sg_loop_free(l);
    return ret;
}

static int run(const struct sg_config *c, struct sg_err *err)
{
    static char text[TEXT_MAX];
    char *servers[SERVERS_MAX];
    const struct sigaction ignore = { .sa_handler = SIG_IGN };
    const struct sg_confine confine = { .name = "gate",
                                        .id = SG_GATE_ID,
                                        .keeps_net = true,
                                        .filter = sg_seccomp_gate,
                                        .filter_len = sg_seccomp_gate_len };
    struct sg_confined confined;
    struct sg_gate_options o = { .launcher_fd = LAUNCHER_FD,
                                 .resolvers = c->gate_resolvers.v,
                                 .resolver_count = c->gate_resolvers.n,
                                 .permit = c->gate_permit.v,
                                 .permit_count = c->gate_permit.n };
    if (!o.resolver_count) {
        o.resolver_count = own_servers(text, servers);
        o.resolvers = servers;
    }
    sg_auto_free char *seal_dir = sg_printf("%s/seal", c->state_dir);
    const struct sg_trust_options trust = { .seal_dir = seal_dir, .ca_file = c->gate_ca_file };
    if (OPENSSL_init_ssl(OPENSSL_INIT_LOAD_CONFIG, NULL) != 1)
        return sg_fail(err, SG_UNSUPPORTED, "libssl does not start");
    if (sigaction(SIGPIPE, &ignore, NULL) < 0)
        return sg_fail_sys(err, "ignore SIGPIPE");
    o.trust = sg_trust_open(&trust, err);
    if (!o.trust)
        return -1;
    if (sg_confine(&confine, &confined, err) < 0) {
        sg_trust_free(o.trust);
        return -1;
    }
    return serve(&o, err);
}

int main(void)
{
    struct sg_err err = { 0 };
    struct sg_config config;
    struct sg_origins origins;
    sg_log_init("sandglass-gate", NULL);
    sg_config_init(&config, &origins);
    int got = check_descriptors(&err);
    if (got == 0)
        got = sg_config_load(&config, &origins, NULL, environ, &err);
    if (got == 0) {
        sg_log_init("sandglass-gate", config.serve_log_level);
        got = run(&config, &err);
    }
    sg_config_done(&config, &origins);
    if (got < 0)
        sg_log(SG_LOG_ERROR, "sandglass-gate ends", SG_KV("why", err.msg),
               SG_KV("where", err.where));
    return got == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* sandglassd: what faces the network. Started by the launcher, with descriptors 3 (launcher), 4
 * (TCP listener, or nothing) and 5 (unix listener).
 *
 * While it is still somebody it reads the settings and the certificate, and lets the libraries look
 * for their own files. Then it becomes nobody (confine.h), and only then starts threads, opens the
 * store, and speaks. */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "base/log.h"
#include "daemon/sealing.h"
#include "daemon/seccomp_data.h"
#include "daemon/service.h"
#include "daemon/settings.h"
#include "sys/confine.h"
#include "base/banned.h"

enum { LAUNCHER_FD = 3, TCP_FD = 4, UNIX_FD = 5, FIRST_OTHER_FD };
enum { EXIT_SETTINGS = 2 }; /* they are wrong: the launcher need not try again */

static bool is_socket(int fd, int option, int wanted)
{
    int value = 0;
    socklen_t n = sizeof value;
    return getsockopt(fd, SOL_SOCKET, option, &value, &n) == 0 && value == wanted;
}

/* Nobody who starts it by hand gets further than this. */
static int check_descriptors(struct sg_err *err)
{
    (void)close_range(FIRST_OTHER_FD, ~0u, 0);
    for (int fd = LAUNCHER_FD; fd < FIRST_OTHER_FD; fd++)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (!is_socket(LAUNCHER_FD, SO_TYPE, SOCK_SEQPACKET) || !is_socket(UNIX_FD, SO_ACCEPTCONN, 1) ||
        (fcntl(TCP_FD, F_GETFD) >= 0 && !is_socket(TCP_FD, SO_ACCEPTCONN, 1)))
        return sg_fail(err, SG_INVALID,
                       "started without the launcher's sockets; 'sandglass serve' starts it");
    return 0;
}

/* Before threads and before the files are out of sight. */
static int prepare(struct sg_err *err)
{
    const struct sigaction ignore = { .sa_handler = SIG_IGN };
    if (sigaction(SIGPIPE, &ignore, NULL) < 0)
        return sg_fail_sys(err, "ignore SIGPIPE");
    if (OPENSSL_init_ssl(OPENSSL_INIT_LOAD_CONFIG, NULL) != 1)
        return sg_fail(err, SG_UNSUPPORTED, "libssl does not start");
    return 0;
}

static int run(struct sg_settings *settings, struct sg_err *err)
{
    struct sg_confined confined;
    struct sg_sealing sealing;
    const uint32_t operator_uid = geteuid();
    const struct sg_confine confine = { .name = "daemon",
                                        .id = SG_DAEMON_ID,
                                        .state_dir = settings->state_dir,
                                        .filter = sg_seccomp_daemon,
                                        .filter_len = sg_seccomp_daemon_len };
    if (prepare(err) < 0 || sg_sealing_open(settings->seal_dir, &sealing, err) < 0 ||
        sg_confine(&confine, &confined, err) < 0)
        return -1;
    if (!confined.has_own_id)
        sg_log(SG_LOG_WARN, "no id of its own here: the daemon runs as its user, confined");
    const struct sg_service_options options = {
        .settings = settings,
        .dir = "/state",
        .operator_uid = operator_uid,
        .seal_to = &sealing.to,
        .gate_cert = sealing.gate_cert,
        .launcher_fd = LAUNCHER_FD,
        .tcp_fd = fcntl(TCP_FD, F_GETFD) >= 0 ? TCP_FD : -1,
        .unix_fd = UNIX_FD,
    };
    return sg_service_run(&options, err);
}

int main(void)
{
    struct sg_err err = { 0 };
    struct sg_settings settings = { 0 };
    sg_log_init("sandglassd", NULL);
    int got = check_descriptors(&err);
    if (got == 0)
        got = sg_settings_load(&settings, &err);
    if (got == 0) {
        sg_log_init("sandglassd", settings.log_level);
        got = run(&settings, &err);
    }
    sg_settings_done(&settings);
    if (got < 0)
        sg_log(SG_LOG_ERROR, "sandglassd ends", SG_KV("why", err.msg), SG_KV("where", err.where));
    return got == 0 ? EXIT_SUCCESS : err.kind == SG_INVALID ? EXIT_SETTINGS : EXIT_FAILURE;
}

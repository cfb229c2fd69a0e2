/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass down`: ends the service, with its sandboxes or (--keep) without, and waits until that
 * is done. */
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/out.h"
#include "cli/supervise.h"
#include "base/banned.h"

enum { WAIT_MS = 330000 }; /* longer than the supervisor waits for the launcher */

static int report(const struct sg_cli *cli, pid_t pid)
{
    sg_auto_buf out;
    sg_buf_init(&out, 128);
    if (!cli->config.json && !pid)
        sg_cli_note(cli, "the service was not running");
    if (cli->config.json)
        sg_buf_addf(&out, "{\"stopped\":%s}\n", pid ? "true" : "false");
    return sg_cli_print(&out);
}

int sg_cmd_down(struct sg_cli *cli)
{
    struct sg_err err;
    pid_t pid;
    sg_auto_fd pidfd = sg_supervise_find(cli, &pid, &err);
    if (pidfd < 0 && err.kind == SG_NOT_FOUND)
        return report(cli, 0);
    if (pidfd < 0)
        return sg_cli_fail(cli, &err);
    if (syscall(SYS_pidfd_send_signal, pidfd, cli->config.keep ? SIGTERM : SIGINT, NULL, 0) < 0) {
        (void)sg_fail_sys(&err, "tell process %d to end", (int)pid);
        return sg_cli_fail(cli, &err);
    }
    struct pollfd p = { .fd = pidfd, .events = POLLIN };
    if (poll(&p, 1, WAIT_MS) <= 0) {
        (void)sg_fail(&err, SG_TIMEOUT, "process %d does not end", (int)pid);
        return sg_cli_fail(cli, &err);
    }
    return report(cli, pid);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass serve`: the service in the foreground, or (--detach) in the background. */
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "cli/out.h"
#include "cli/supervise.h"
#include "base/banned.h"

static int detach(struct sg_cli *cli)
{
    struct sg_err err;
    sg_auto_buf out;
    pid_t pid;
    sg_buf_init(&out, 128);
    sg_auto_fd pidfd = sg_supervise_detached(cli, &pid, &err);
    if (pidfd < 0)
        return sg_cli_fail(cli, &err);
    sg_buf_addf(&out, cli->config.json ? "{\"pid\":%d}\n" : "pid %d\n", (int)pid);
    return sg_cli_print(&out);
}

int sg_cmd_serve(struct sg_cli *cli)
{
    struct sg_err err;
    if (cli->config.detach)
        return detach(cli);
    const int lock_fd = sg_supervise_lock(cli, &err);
    if (lock_fd < 0)
        return sg_cli_fail(cli, &err);
    return sg_supervise(cli, lock_fd);
}

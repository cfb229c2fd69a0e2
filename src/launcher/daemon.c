/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/daemon.h"

#include <sys/wait.h>

#include "base/auto.h"
#include "ctl/chan.h"
#include "launcher/launcher.h"
#include "base/banned.h"

enum { EXIT_SETTINGS = 2 }; /* of the daemon */

/* Descriptors as in docs/design/service.md: launcher, TCP, unix. */
static int start(struct sg_child *c, struct sg_err *err)
{
    struct sg_launcher *l = SG_OWNER(c, struct sg_launcher, daemon.child);
    int pair[2];
    if (sg_chan_pair(pair, err) < 0)
        return -1;
    sg_auto_fd near = pair[0], far = pair[1];
    const int fds[] = { far, l->daemon.tcp_fd, l->daemon.unix_fd };
    if (sg_child_spawn(c, fds, SG_COUNT(fds), err) < 0)
        return -1;
    if (sg_conn_open(l, sg_take_fd(&near), err) < 0) {
        sg_child_abort(c);
        return -1;
    }
    return 0;
}

static bool ended(struct sg_child *c, int status)
{
    struct sg_launcher *l = SG_OWNER(c, struct sg_launcher, daemon.child);
    sg_conn_close(l);
    if (c->is_ending) {
        sg_launcher_daemon_gone(l);
        return false;
    }
    if (c->starts == 1 && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SETTINGS) {
        l->daemon.is_hopeless = true;
        sg_launcher_stop(l, SG_STOP_LEAVE);
        return false;
    }
    return true;
}

static const struct sg_child_ops ops = { "sandglassd", "daemon", start, ended };

int sg_daemon_start(struct sg_launcher *l, struct sg_err *err)
{
    return sg_child_begin(&l->daemon.child, l->loop, &ops, l->daemon.program, l->daemon.config,
                          err);
}

void sg_daemon_kill(struct sg_launcher *l)
{
    if (l->daemon.program)
        sg_child_kill(&l->daemon.child);
    else
        sg_launcher_stop(l, SG_STOP_LEAVE);
}

void sg_daemon_end(struct sg_launcher *l)
{
    if (!sg_child_end(&l->daemon.child))
        sg_launcher_daemon_gone(l);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/export.h"

#include <sys/wait.h>

#include "base/auto.h"
#include "base/log.h"
#include "ctl/chan.h"
#include "launcher/launcher.h"
#include "base/banned.h"

enum { EXIT_SETTINGS = 2 }; /* of the exporter: another one would say the same */

static int start(struct sg_child *c, struct sg_err *err)
{
    struct sg_launcher *l = SG_OWNER(c, struct sg_launcher, export.child);
    struct sg_msg m = { .type = SG_MSG_L_EXPORT };
    int pair[2];
    if (sg_chan_pair(pair, err) < 0)
        return -1;
    sg_auto_fd near = pair[0], far = pair[1];
    if (sg_child_spawn(c, &far, 1, err) < 0)
        return -1;
    sg_conn_send(l, &m, near); /* with the daemon, which may be gone: then it ends, too */
    return 0;
}

/* Its daemon is gone: the next one that says hello gets the next. */
static bool ended(struct sg_child *c, int status)
{
    struct sg_launcher *l = SG_OWNER(c, struct sg_launcher, export.child);
    if (c->is_ending) {
        sg_launcher_box_gone(l); /* it may be what an ending launcher waits for */
        return false;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SETTINGS) {
        sg_log(SG_LOG_ERROR, "traces are not sent until the service is started anew");
        return false;
    }
    return l->conn.has_hello;
}

static const struct sg_child_ops ops = { "sandglass-export", "exporter", start, ended };

void sg_export_join(struct sg_launcher *l)
{
    struct sg_err err = { 0 };
    struct sg_child *c = &l->export.child;
    if (!l->export.program)
        return;
    if (c->pid > 0) /* of the daemon before: `ended` starts the next */
        sg_child_kill(c);
    else if (sg_child_begin(c, l->loop, &ops, l->export.program, l->daemon.config, &err) < 0)
        sg_log(SG_LOG_ERROR, "the exporter cannot be started", SG_KV("error", err.msg));
}

void sg_export_stop(struct sg_launcher *l)
{
    if (l->export.program)
        (void)sg_child_end(&l->export.child);
}

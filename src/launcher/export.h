/* SPDX-License-Identifier: Apache-2.0 */
/* sandglass-export as the launcher has it: one for each daemon that has said hello, with a
 * connection between the two and none to us. It ends with its daemon, and is started anew (child.h)
 * when it ends before. Without otlp.endpoint there is none. */
#pragma once

#include "launcher/child.h"

struct sg_launcher;

struct sg_export_link {
    struct sg_child child;
    char *program; /* owned; NULL: no traces are sent */
};

void sg_export_join(struct sg_launcher *l); /* the daemon has said hello */
void sg_export_stop(struct sg_launcher *l); /* at the end of the service */

/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the file half share.
 *
 * F1. Every question to init is in the sandbox's list until it is answered: an open one is work,
 *     and when the daemon ends, where init's answer will not come, each is answered from here.
 * F2. A descriptor that comes out of a sandbox is looked at before anybody uses it, and never
 *     written to: what is written is charged to the writer. */
#pragma once

#include "manager/files.h"
#include "manager/manager_internal.h"

struct sg_files_set { /* s->files_impl */
    struct sg_files_ask *asks;
    struct sg_watch_sub *watches;
};
struct sg_files_set *sg_files_set(struct sg_sandbox *s); /* made where there is none */

/* As sg_files_ask(), without its rules: those were asked before. */
int sg_files_send(struct sg_sandbox *s, struct sg_msg *m, const int *fds, unsigned fd_count,
                  sg_files_cb *cb, void *arg, struct sg_err *err);
/* Scope, audit and state, for who does more than one thing to init. `to` may be NULL. */
int sg_files_permit(struct sg_sandbox *s, const struct sg_who *who, unsigned scope,
                    const char *action, const char *path, const char *to, struct sg_err *err);
/* "dir/.sandglass-<random>" beside `path`; returns owned. */
char *sg_files_beside(const char *path);
/* An error that tells of a name from there, which nobody knows, tells of `path` instead. */
struct sg_err sg_files_renamed(const struct sg_err *err, const char *path);
/* Removes, with all below; nobody waits for it. */
void sg_files_tidy(struct sg_sandbox *s, const char *user, const char *path);

void sg_watches_end(struct sg_sandbox *s); /* files_watch.c */

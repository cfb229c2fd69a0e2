/* SPDX-License-Identifier: Apache-2.0 */
/* Files: requests to init, as the sandboxed user. The door fills the message (ctl/msg.h: OPEN,
 * STAT, LIST, MAKE, MOVE, REMOVE, SETATTR, TAR_IN, TAR_OUT, FIND, DIAL); the rules (state, scope,
 * default user, audit of what changes something) are here. OPEN is for reading only: what is
 * written by us would count as ours, so init writes (sg_files_write). */
#pragma once

#include "ctl/chan.h"
#include "manager/sandbox.h"
#include "manager/tenant.h"

typedef void sg_files_cb(void *arg, struct sg_packet *p,
                         const struct sg_err *err); /* as in tier/peer.h */

/* An empty user in `m` becomes the sandbox's default. Needs state running. */
int sg_files_ask(struct sg_sandbox *s, const struct sg_who *who, struct sg_msg *m, const int *fds,
                 unsigned fd_count, sg_files_cb *cb, void *arg, struct sg_err *err);

/* Writes a file. `cb` tells that it is open, with the end of a pipe: bytes go in there without
 * waiting (api/pour.h). EPIPE means that the sandbox has given up, and sg_files_commit() tells why.
 * Commit when all is in the pipe, abandon otherwise, which leaves nothing of a whole file. */
struct sg_file_spec {
    const char *user, *path; /* user NULL or "": the sandbox's default */
    uint32_t flags, mode;    /* flags: SG_WRITE_... of ctl/msg.h */
    char *const *labels;     /* name, value, ..., NULL: its labels from now on; NULL: as they are */
};
struct sg_file_write; /* owned by the caller until one of the two */
typedef void sg_file_write_cb(
    void *arg, struct sg_file_write *w, int fd,
    const struct sg_err *err); /* fd: borrowed, out of the loop at the end */
int sg_files_write(struct sg_sandbox *s, const struct sg_who *who, const struct sg_file_spec *f,
                   sg_file_write_cb *cb, void *arg, struct sg_err *err);
typedef void sg_files_done_cb(void *arg, const struct sg_err *err);
/* May call back before it returns. After it, abandoning means that the end is of no interest. */
void sg_files_commit(struct sg_file_write *w, sg_files_done_cb *cb, void *arg);
void sg_files_abandon(struct sg_file_write *w);

/* Changes below a directory. `changed` with path and what (SG_CHANGED_...); path NULL: the watch
 * has ended with its sandbox, and `w` with it. */
struct sg_watch_sub;
typedef void sg_watch_changed(void *arg, const char *path, uint32_t what);
typedef void sg_watch_cb(void *arg, struct sg_watch_sub *w, const struct sg_err *err);
int sg_files_watch(struct sg_sandbox *s, const struct sg_who *who, const char *user,
                   const char *path, bool is_recursive, sg_watch_changed *changed, sg_watch_cb *cb,
                   void *arg, struct sg_err *err);
void sg_files_unwatch(struct sg_watch_sub *w);

/* One file or tree from one sandbox to another, both of the same organisation; it becomes
 * `to_path`, whole or not at all. */
int sg_files_copy(struct sg_sandbox *from, const char *path, struct sg_sandbox *to,
                  const char *to_path, const struct sg_who *who, sg_files_done_cb *cb, void *arg,
                  struct sg_err *err);

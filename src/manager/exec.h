/* SPDX-License-Identifier: Apache-2.0 */
/* Execs: process trees in a sandbox, their streams and their ends.
 *
 * E1. Output goes from the pipe into the journal by splice(2), so that a kill -9 of the daemon
 * loses no byte; readers read the journal, each at its own pace, and none ever holds up the child.
 * E2. The journal keeps the last `journal_bytes` of each stream; what came before is gone, and a
 *     reader who asks for it is told how much.
 * E3. Init keeps duplicates of our pipe ends and the record of the end until RELEASE, which is sent
 *     when the end is in the store.
 * E4. One combined offset counts the bytes of stdout and stderr in the order in which they came. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "manager/journal.h" /* enum sg_stream */
#include "manager/sandbox.h"
#include "manager/tenant.h"

enum sg_exec_ending {
    SG_EXEC_RUNNING,
    SG_EXEC_EXIT,
    SG_EXEC_SIGNAL,
    SG_EXEC_TIMEOUT,
    SG_EXEC_OOM,
    SG_EXEC_LOST, /* its sandbox ended first */
};
const char *sg_exec_ending_name(enum sg_exec_ending e);

struct sg_exec {
    struct sg_id id;
    struct sg_sandbox *sandbox;
    uint32_t pid; /* inside */
    enum sg_exec_ending ending;
    uint32_t code, signal;
    bool has_tty, has_stdin, is_background;
    bool is_kernel; /* of a context (code.h): no work by itself, and its journal is larger */
    char *user, *cwd;
    char **argv; /* owned, NULL-terminated */
    char *tag;   /* the caller's own name for it, or NULL */
    int64_t started_ms, ended_ms;
    uint64_t cpu_ns, max_rss_bytes;
    uint64_t total_bytes; /* of output so far: the end of the combined offset */
    uint64_t seen_bytes;  /* of those, what some reader has had; 0 again after a restart */
    bool is_complete;     /* ended, and every byte of its output is in the journal */
    void *impl;           /* exec_internal.h */
};

struct sg_exec_spec {
    const char *const *argv;   /* NULL-terminated */
    const struct sg_pair *env; /* over the sandbox's, over the template's */
    size_t env_n;
    const char *cwd, *user, *tag; /* NULL: the sandbox's default, none */
    bool has_tty, has_stdin, is_background, is_kernel;
    bool is_templates; /* without the sandbox's own environment */
    uint32_t rows, cols;
    uint64_t timeout_ms; /* 0: none: TERM to the tree, KILL after two seconds */
};
typedef void sg_exec_cb(void *arg, struct sg_exec *x, const struct sg_err *err);

/* err.sys ENOENT or EACCES: the program is not there or cannot be run. */
int sg_exec_start(struct sg_sandbox *s, const struct sg_who *who, const struct sg_exec_spec *spec,
                  sg_exec_cb *cb, void *arg, struct sg_err *err);
struct sg_exec *sg_exec_find(struct sg_sandbox *s, const char *id, struct sg_err *err);
struct sg_exec *sg_exec_find_pid(struct sg_sandbox *s, uint32_t pid); /* a running one */
struct sg_exec *sg_exec_next(struct sg_sandbox *s, size_t *cursor);

/* What it used, or has used so far. */
void sg_exec_amounts(const struct sg_exec *x, struct sg_amounts *ret);

/* ---- output: pulled ---- */

struct sg_reader {
    struct sg_exec *exec;              /* NULL after it went away with its sandbox */
    uint64_t at;                       /* combined offset of what is read next */
    void (*wake)(struct sg_reader *r); /* there is more to read, or the exec is complete or gone */
    bool is_quiet;                     /* is no work */
    /* exec.c's own */
    uint64_t run;
    struct sg_reader *next, **link;
};
/* Starts at `at` (UINT64_MAX: at the end). An open reader is work (sandbox.h), unless it is quiet.
 */
void sg_reader_open(struct sg_reader *r, struct sg_exec *x, uint64_t at);
void sg_reader_close(struct sg_reader *r);
/* Copies what comes next, of one stream, at most `cap` bytes. 0: nothing for now; with
 * exec->is_complete: nothing any more. `*ret_lost` > 0: that many bytes before it are gone. */
ssize_t sg_reader_read(struct sg_reader *r, enum sg_stream *ret_stream, void *to, size_t cap,
                       uint64_t *ret_lost, struct sg_err *err);

/* ---- input and control ---- */

/* Takes what fits, returns how much; 0: there is no room, wait for it with the next call. */
ssize_t sg_exec_write(struct sg_exec *x, const void *p, size_t n, struct sg_err *err);
/* Calls back once: when there is room for input again, or when the exec has ended or goes away (a
 * write then fails). One waiter at a time: SG_CONFLICT. */
int sg_exec_when_writable(struct sg_exec *x, void (*writable)(void *arg), void *arg,
                          struct sg_err *err);
void sg_exec_forget_writable(struct sg_exec *x, void *arg);
int sg_exec_close_stdin(struct sg_exec *x, struct sg_err *err);
int sg_exec_signal(struct sg_exec *x, const struct sg_who *who, int number,
                   struct sg_err *err); /* to its group */
int sg_exec_resize(struct sg_exec *x, uint32_t rows, uint32_t cols, struct sg_err *err);
/* TERM to the whole tree, KILL two seconds later. */
int sg_exec_kill(struct sg_exec *x, const struct sg_who *who, struct sg_err *err);

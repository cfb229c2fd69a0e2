/* SPDX-License-Identifier: Apache-2.0 */
/* A task: one operation from the question to the result. The router decides, an approval is waited
 * for where the rule wants one, a sandbox is taken, files go in, the command runs with its
 * deadline, output and files come out, the sandbox goes.
 *
 * J1. `done` is called once, from the loop, and never from inside sg_task_start(); not at all after
 *     sg_task_cancel().
 * J2. Whatever the ending, the sandbox is out of everybody's sight before `done` and on its way out
 *     right after it, with a lifetime of its own. A fresh attempt begins when it is gone.
 * J3. A fresh attempt is made only where the first can have left nothing behind: the sandbox was
 *     lost or could not be made, and it had no network. A program's own failure (its status, its
 *     deadline, its memory) is a result, not a reason to run it again. */
#pragma once

#include "base/buf.h"
#include "manager/exec.h"
#include "manager/manager.h"

enum {
    SG_TASK_FILES_MAX = 64,         /* each way */
    SG_TASK_FILE_BYTES = 4 << 20,   /* of one that comes out */
    SG_TASK_ALL_BYTES = 16 << 20,   /* of all that come out */
    SG_TASK_OUTPUT_BYTES = 1 << 20, /* of each stream */
    SG_TASK_RETRIES_MAX = 5,
};

enum sg_task_ending {
    SG_TASK_EXIT,      /* the program's own status */
    SG_TASK_PERMITTED, /* tier none: the caller does it itself */
    SG_TASK_TIMEOUT,
    SG_TASK_OOM,
    SG_TASK_CRASH, /* a signal */
    SG_TASK_LOST,  /* the sandbox ended under it */
    SG_TASK_FILE_ERROR,
    SG_TASK_REFUSED,     /* by the router, a quota or the input: nothing ran */
    SG_TASK_DENIED,      /* by whoever was asked to approve */
    SG_TASK_EXPIRED,     /* nobody approved in time */
    SG_TASK_UNAVAILABLE, /* no sandbox could be had */
    SG_TASK_ENDING_COUNT,
};
extern const char *const sg_task_ending_names[SG_TASK_ENDING_COUNT];

struct sg_task_file {
    const char *path;
    struct sg_str bytes;
};

struct sg_task_spec { /* borrowed: must live as long as the task */
    const char *name; /* for the record, or NULL */
    const char *tool; /* what traces call it; NULL: "run" */
    struct sg_ask ask;
    const char *template;
    struct sg_sandbox_limits limits;
    const struct sg_pair *env;
    size_t env_n;
    const char *const *argv; /* NULL: nothing to run (tier none) */
    const char *cwd, *user;
    const struct sg_mount_spec *mounts; /* volumes */
    size_t mounts_n;
    struct sg_str input;
    const struct sg_task_file *files;
    size_t file_count;
    const char *const *collect; /* paths; the last part may be a pattern. NULL-terminated or NULL */
    uint64_t timeout_ms, approval_ms;
    const char *approval; /* one that was asked for before, or NULL */
    unsigned retries;
};

struct sg_task_out { /* a file that came out */
    char *path;      /* owned */
    struct sg_buf bytes;
    uint64_t size; /* of the file; more than `bytes` holds: cut */
};

struct sg_task_times { /* ms */
    uint64_t approval, create, upload, run, collect, all;
};

struct sg_task_result {
    enum sg_task_ending ending;
    struct sg_err err; /* why, where it is not the program's own status; SG_OK: nothing to say */
    uint32_t code, signal;
    struct sg_buf output[SG_STREAM_COUNT];
    uint64_t lost_bytes; /* of output */
    struct sg_task_out files[SG_TASK_FILES_MAX];
    size_t file_count;
    char *decision; /* owned JSON, or NULL */
    enum sg_wall wall;
    char approval[SG_ID_LEN + 1], sandbox[SG_ID_LEN + 1]; /* "": none */
    bool was_parked;
    unsigned attempts;
    char last_loss[160]; /* why the attempt before was not the last; "": there was none */
    struct sg_task_times times;
    uint64_t cpu_ns, mem_peak_bytes;
    struct sg_amounts amounts; /* of its sandbox's whole life */
};

struct sg_task;
typedef void sg_task_cb(void *arg, struct sg_task_result *r);

/* -1: SG_UNAVAILABLE, and nothing else: what is wrong with the question is a result, too. */
struct sg_task *sg_task_start(struct sg_manager *m, const struct sg_who *who,
                              const struct sg_task_spec *spec, sg_task_cb *done, void *arg);
void sg_task_cancel(struct sg_task *t); /* ends what runs; `spec` is not used any more */

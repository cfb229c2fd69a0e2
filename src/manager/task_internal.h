/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "manager/approval.h"
#include "manager/files.h"
#include "manager/manager_internal.h"
#include "manager/task.h"

struct sg_gauge;

struct sg_task {
    struct sg_manager *m;
    struct sg_who who;
    const struct sg_task_spec *spec; /* NULL: cancelled */
    sg_task_cb *done;
    void *arg;
    struct sg_task_result r;
    struct sg_id id;       /* for traces */
    struct sg_trace above; /* that it is a part of; `who` is below it */
    char rule[64];
    struct sg_later go;
    struct sg_approval *approval; /* being asked for, waited for or used; NULL: none */
    struct sg_approval_wait waits;
    char subject[SG_SUBJECT_LEN + 1]; /* of the approval */
    bool was_started;                 /* the program ran, or may have */
    uint64_t began_ns, step_ns;
    size_t at; /* file under way: in, then out */
    size_t pattern;
    uint64_t out_bytes; /* that came out so far */
    struct sg_file_write *write;
    struct sg_io pipe;
    size_t written;
    struct sg_reader reader;
    bool is_reading;
    struct sg_gauge *gauge; /* owned; NULL: none */
    size_t fed;
    struct sg_task *next, **link; /* of all of the manager's */
};

/* ---- task.c ---- */

/* The sandbox, while there is one; else the task has ended as LOST (NULL). */
struct sg_sandbox *sg_task_sandbox(struct sg_task *t);
void sg_task_end(struct sg_task *t, enum sg_task_ending ending, const struct sg_err *err);
uint64_t sg_task_lap(struct sg_task *t); /* ms since the last step */

/* ---- task_files.c ---- */

void sg_task_upload(struct sg_task *t);  /* then sg_task_exec() */
void sg_task_collect(struct sg_task *t); /* then sg_task_end() */

/* ---- task_approval.c ---- */

void sg_task_ask(struct sg_task *t);   /* then sg_task_permitted(), or its end */
bool sg_task_leave(struct sg_task *t); /* nobody waits any more; true: and nothing will come */
void sg_task_permitted(struct sg_task *t);

/* ---- task_exec.c ---- */

void sg_task_exec(struct sg_task *t);
void sg_task_exec_leave(struct sg_task *t); /* reads no more */

/* SPDX-License-Identifier: Apache-2.0 */
/* One command in one fresh cell, from start to end: what `run`, `shell` and `template import`
 * share. */
#pragma once

#include "base/buf.h"
#include "config/config.h"
#include "engine/cell.h"
#include "image/template.h"

struct sg_run_spec {
    struct sg_cell_spec cell;
    char *const *argv;
    char *const *env;
    const char *user, *workdir;
    bool has_tty;
    uint64_t timeout_ms, output_bytes;           /* 0: none */
    int in_fd, out_fd, err_fd;                   /* ours, to pump from and to; in_fd -1: nothing */
    struct sg_buf *out_capture, *err_capture;    /* instead of out_fd, err_fd where not NULL */
    const struct sg_strlist *copy_in, *copy_out; /* may be NULL */
};

enum sg_ending {
    SG_END_EXIT,
    SG_END_SIGNAL,
    SG_END_TIMEOUT,
    SG_END_MEMORY,
    SG_END_OUTPUT,
    SG_END_LOST
};

struct sg_run_result {
    enum sg_ending ending;
    unsigned code, signal;
    uint64_t wall_ns, cpu_ns, output_bytes;
    bool is_disk_full, is_output_cut;
    int output_lost_sys;     /* errno of our own failed write of its output; 0: none */
    uint64_t copies_skipped; /* links, pipes and devices that were not copied */
    struct sg_cell_report report;
    struct sg_err copy_failure; /* kind SG_OK: all that was to be copied out was */
};

/* `cell` is of sg_run_begin(); NULL: one is begun here, and freed at the end. Fails (-1) when the
 * command could not be started: err->sys tells ENOENT and EACCES of the command itself (then
 * `*ret_is_command` is set) from failures of ours. */
int sg_run(struct sg_cell *cell, const struct sg_run_spec *spec, struct sg_run_result *ret,
           bool *ret_is_command, struct sg_err *err);

/* The exit code of `run` for a result (see style of timeout(1) and shells). */
int sg_run_exit_code(const struct sg_run_result *r);
const char *sg_ending_name(enum sg_ending e);

/* Fills the parts of a cell's spec that come from a template; borrows from it. */
void sg_run_use_template(struct sg_cell_spec *cell, const struct sg_template *t);

/* Without root: becomes root of an own user namespace, once. Tells whether that was so. */
int sg_run_prepare(bool *ret_is_rootless, struct sg_err *err);

/* Starts a cell's first process, before it is even known what is to run: namespaces take their
 * time. The cell is swept when this process ends; nobody needs to free it. */
struct sg_cell *sg_run_begin(bool is_rootless, struct sg_err *err);

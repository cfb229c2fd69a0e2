/* SPDX-License-Identifier: Apache-2.0 */
/* The last step of a recipe: a program of the new root, run in a cell made from it, as every
 * program of a template will be. It sees its root read as cells see it, and fills one directory;
 * the rest of what it writes is gone with the cell. The warm image of an interpreter is made like
 * this: a process can be frozen only where it will be thawed. */
#include <string.h>

#include "base/auto.h"
#include "cli/cmd_template.h"
#include "cli/run.h"
#include "base/banned.h"

enum { SAID_BYTES = 8192, FINISH_TIMEOUT_MS = 600 * 1000 };

static void tell(struct sg_progress *p, const char *name, const struct sg_run_result *r,
                 struct sg_buf *said)
{
    sg_auto_free char *text = sg_strdup(sg_buf_cstr(said));
    char *end = strchr(text, '\n');
    if (end)
        *end = '\0';
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    bool is_done = r->ending == SG_END_EXIT && r->code == 0;
    if (!is_done || *text)
        sg_progress_say(p, "%s: %s%s", name, is_done ? "" : "the last step failed: ",
                        *text ? text : sg_ending_name(r->ending));
}

int sg_template_finish(const struct sg_import *in, const char *layer, bool is_idmapped,
                       struct sg_progress *p, struct sg_err *err)
{
    sg_progress_say(p, "%s: running %s", in->name, in->program);
    sg_auto_free char *source = sg_printf("%s%s", layer, in->writes);
    sg_auto_free char *program = sg_strdup(in->program);
    sg_auto_buf out, said;
    sg_buf_init(&out, SAID_BYTES);
    sg_buf_init(&said, SAID_BYTES);
    struct sg_run_spec run = {
        .cell = { .hostname = SG_CELL_HOSTNAME,
                  .layers = { layer },
                  .layer_count = 1,
                  .limits = { .mem_bytes = UINT64_C(2) << 30,
                              .cpu_milli = 2000,
                              .pids = 64,
                              .disk_bytes = UINT64_C(256) << 20,
                              .open_files = 1024 },
                  .workdir = "/tmp" },
        .user = "root",
        .workdir = "/tmp",
        .timeout_ms = FINISH_TIMEOUT_MS,
        .output_bytes = SAID_BYTES,
        .in_fd = -1,
        .out_fd = -1,
        .err_fd = -1,
        .out_capture = &out,
        .err_capture = &said,
    };
    if (sg_run_prepare(&run.cell.is_rootless, err) < 0)
        return -1;
    run.cell.is_idmapped = is_idmapped && !run.cell.is_rootless;
    run.cell.binds[run.cell.bind_count++] =
        (struct sg_bind) { source, in->writes, run.cell.is_idmapped ? SG_BIND_IDMAP : 0 };
    char *argv[] = { program, NULL };
    char *env[] = { (char *)"PATH=/usr/bin:/bin", (char *)"LANG=C.UTF-8", (char *)"HOME=/tmp",
                    NULL };
    run.argv = argv;
    run.env = env;
    struct sg_run_result result;
    bool is_command = false;
    if (sg_run(NULL, &run, &result, &is_command, err) < 0)
        return sg_wrap(err, "run the last step of the recipe");
    tell(p, in->name, &result, &said);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "cli/lines.h"
#include "cli/out.h"
#include "wire/base64.h"
#include "base/banned.h"

void sg_output_init(struct sg_output *o)
{
    *o = (struct sg_output) { .watch_fd = -1 };
    sg_buf_init(&o->end, SG_LINES_MAX);
}

void sg_output_done(struct sg_output *o)
{
    sg_buf_done(&o->end);
}

int sg_exec_exit_code(const struct sg_jval *exec)
{
    const char *ending = sg_api_text(exec, "ending");
    const uint64_t code = sg_api_u64(exec, "exitCode"), signal = sg_api_u64(exec, "signal");
    if (strcmp(ending, "timeout") == 0)
        return SG_EXIT_TIMEOUT;
    if (strcmp(ending, "oom") == 0)
        return SG_EXIT_SIGNAL + 9;
    if (strcmp(ending, "signal") == 0)
        return SG_EXIT_SIGNAL + (int)(signal & 127);
    if (strcmp(ending, "exit") == 0)
        return (int)(code & 255);
    return SG_EXIT_NOT_STARTED;
}

static int deliver(struct sg_output *o, bool is_stderr, const void *p, size_t n, struct sg_err *err)
{
    struct sg_buf *keep = is_stderr ? o->err : o->out;
    if (!keep)
        return sg_out_write(is_stderr ? STDERR_FILENO : STDOUT_FILENO, p, n, err);
    sg_buf_add(keep, p, n);
    return sg_buf_check(keep, "the output", err);
}

static int take_piece(struct sg_output *o, const struct sg_jval *v, struct sg_err *err)
{
    const struct sg_jval *text = sg_json_get(v, "data"), *coded = sg_json_get(v, "base64");
    const bool is_stderr = strcmp(sg_api_text(v, "stream"), "stderr") == 0;
    if (text && text->kind == SG_J_STRING)
        return deliver(o, is_stderr, text->s.p, text->s.n, err);
    if (!coded || coded->kind != SG_J_STRING)
        return 0;
    sg_auto_buf bytes;
    sg_buf_init(&bytes, SG_LINES_MAX);
    if (sg_base64_decode(&bytes, coded->s, err) < 0)
        return -1;
    return deliver(o, is_stderr, bytes.p, bytes.n, err);
}

static int take_line(struct sg_output *o, struct sg_api *a, struct sg_str line, struct sg_err *err)
{
    const struct sg_jval *v;
    sg_arena_clear(&a->arena);
    if (sg_json_parse(line, &a->arena, &v, err) < 0)
        return -1;
    const struct sg_jval *end = sg_json_get(v, "end");
    if (end) {
        struct sg_json j;
        sg_buf_clear(&o->end);
        sg_json_init(&j, &o->end);
        sg_json_put(&j, end);
        o->has_ended = true;
    }
    o->truncated += sg_api_u64(v, "truncated");
    if (!o->shows_lines)
        return take_piece(o, v, err);
    if (sg_out_write(STDOUT_FILENO, line.p, line.n, err) < 0)
        return -1;
    return sg_out_write(STDOUT_FILENO, "\n", 1, err);
}

/* Until the answer goes on, serving the other descriptor meanwhile. */
static int wait_for_more(void *arg, int fd, struct sg_err *err)
{
    struct sg_output *o = arg;
    (void)err;
    struct pollfd p[] = { { .fd = fd, .events = POLLIN }, { .fd = o->watch_fd, .events = POLLIN } };
    do {
        if (poll(p, 2, -1) > 0 && p[1].revents)
            o->ready(o->arg, o->watch_fd);
    } while (!p[0].revents);
    return 0;
}

int sg_output_run(struct sg_output *o, struct sg_api *a, struct sg_err *err)
{
    sg_auto_lines lines;
    sg_lines_init(&lines, &a->http);
    if (o->watch_fd >= 0) {
        a->http.wait = wait_for_more;
        a->http.wait_arg = o;
    }
    struct sg_str line;
    int r;
    while ((r = sg_lines_next(&lines, &line, err)) > 0)
        if (take_line(o, a, line, err) < 0) {
            r = -1;
            break;
        }
    a->http.wait = NULL;
    return r;
}

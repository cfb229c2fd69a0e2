/* SPDX-License-Identifier: Apache-2.0 */
/* A context's kernel: an exec whose input takes requests and whose output is events. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/auto.h"
#include "base/log.h"
#include "manager/code_internal.h"
#include "store/store.h"
#include "base/banned.h"

enum {
    PIECE_BYTES = 16384,
    WATCHED_MAX = 4096, /* the lines that matter here are short */
};
static const char OVER[] = "end_of_execution";

/* ---- listening ---- */

static void hear(struct sg_code_context *c, struct sg_str line)
{
    struct sg_code_kernel *k = c->impl;
    struct sg_code_event e;
    if (!k->running || !memmem(line.p, line.n, OVER, sizeof OVER - 1) ||
        sg_code_event_read(line, &e, NULL) < 0)
        return;
    if (e.type == SG_CODE_T_OVER && sg_str_is(e.id, k->running->id.s))
        sg_code_run_over(c);
}

/* The end of what it says is all that is of interest, and that only when it dies. */
static void note_diagnostics(struct sg_code_kernel *k, const char *p, size_t n)
{
    if (n > SG_CODE_SAID_MAX) {
        p += n - SG_CODE_SAID_MAX;
        n = SG_CODE_SAID_MAX;
    }
    if (k->said_n + n > SG_CODE_SAID_MAX) {
        const size_t gone = k->said_n + n - SG_CODE_SAID_MAX;
        memmove(k->said, k->said + gone, k->said_n - gone);
        k->said_n -= gone;
    }
    memcpy(k->said + k->said_n, p, n);
    k->said_n += n;
    k->said[k->said_n] = '\0';
}

static void take_piece(struct sg_code_context *c, enum sg_stream stream, const char *p, size_t n)
{
    struct sg_code_kernel *k = c->impl;
    struct sg_str in = { p, n }, line;
    if (stream == SG_STREAM_ERR) {
        note_diagnostics(k, p, n);
        return;
    }
    for (enum sg_code_line got;
         (got = sg_code_lines_next(&k->lines, &in, &line)) != SG_CODE_LINE_MORE;)
        if (got == SG_CODE_LINE)
            hear(c, line);
}

static void stop_listening(struct sg_code_kernel *k)
{
    if (k->watch.exec)
        sg_exec_forget_writable(k->watch.exec, k->c);
    sg_reader_close(&k->watch);
    sg_code_lines_done(&k->lines);
}

static void heard(struct sg_reader *reader)
{
    struct sg_code_kernel *k = SG_OWNER(reader, struct sg_code_kernel, watch);
    struct sg_code_context *c = k->c;
    char piece[PIECE_BYTES];
    if (!reader->exec) { /* it goes with its sandbox, and so does the context */
        k->is_removed = true;
        return;
    }
    while (reader->exec) {
        enum sg_stream stream = SG_STREAM_OUT;
        uint64_t lost = 0;
        struct sg_err err;
        ssize_t n = sg_reader_read(reader, &stream, piece, sizeof piece, &lost, &err);
        if (lost)
            sg_code_lines_gap(&k->lines);
        if (n > 0) {
            take_piece(c, stream, piece, (size_t)n);
            continue;
        }
        if (n == 0 && !reader->exec->is_complete)
            return;
        if (n < 0) { /* nobody could follow it any more */
            sg_log(SG_LOG_ERROR, "a kernel cannot be listened to",
                   SG_KV("sandbox", c->sandbox->id.s), SG_KV("error", err.msg));
            sg_code_end_kernel(c);
        }
        break;
    }
    stop_listening(k);
    sg_code_kernel_down(c);
}

void sg_code_listen(struct sg_code_context *c, struct sg_exec *x, uint64_t at)
{
    struct sg_code_kernel *k = c->impl;
    sg_code_lines_init(&k->lines, WATCHED_MAX, NULL, 0);
    k->said_n = 0;
    k->said[0] = '\0';
    k->watch = (struct sg_reader) { .wake = heard, .is_quiet = true };
    sg_reader_open(&k->watch, x, at);
}

void sg_code_end_kernel(struct sg_code_context *c)
{
    struct sg_code_kernel *k = c->impl;
    struct sg_exec *x = k->watch.exec;
    if (!x)
        return;
    if (sg_exec_is_live(x) && x->pid)
        sg_exec_send_signal(c->sandbox, x->pid, SIGKILL, SG_SIGNAL_SESSION);
    stop_listening(k);
}

/* ---- starting ---- */

/* What is missing is the language, unless it is the directory. */
static void explain(const struct sg_code_context *c, const struct sg_err *err, struct sg_err *ret)
{
    *ret = *err;
    if (err->sys == ENOENT && !strstr(err->msg, "directory '"))
        (void)sg_fail(ret, SG_UNSUPPORTED, "the language %s is not available in template %s",
                      sg_quote(c->language).s, sg_quote(c->sandbox->template).s);
}

static void tell_maker(struct sg_code_context *c, const struct sg_err *err)
{
    struct sg_code_kernel *k = c->impl;
    sg_code_context_cb *made = sg_take_ptr(&k->made);
    void *arg = k->made_arg;
    if (!made)
        return;
    if (!err) {
        sg_code_put_row(c);
        made(arg, c, NULL);
        return;
    }
    struct sg_err own = *err;
    sg_code_drop(c);
    made(arg, NULL, &own);
}

static void started(void *arg, struct sg_exec *x, const struct sg_err *err)
{
    struct sg_code_context *c = arg;
    struct sg_code_kernel *k = c->impl;
    struct sg_err own;
    k->is_starting = false;
    if (k->is_removed && x)
        sg_exec_send_signal(x->sandbox, x->pid, SIGKILL, SG_SIGNAL_SESSION);
    if (!sg_code_unref(c))
        return;
    if (!x) {
        explain(c, err, &own);
        const bool is_none = own.kind == SG_UNSUPPORTED && c->is_default && !k->made;
        sg_code_kernel_failed(c, &own);
        tell_maker(c, &own);
        if (is_none) { /* nobody made it but the attempt to use it */
            sg_store_remove_context(c->sandbox->manager->store, c->id.s, NULL, NULL);
            sg_code_drop(c);
        }
        return;
    }
    sg_code_listen(c, x, 0);
    tell_maker(c, NULL);
    sg_code_kernel_up(c);
    heard(&k->watch); /* what has come meanwhile */
}

int sg_code_start_kernel(struct sg_code_context *c, struct sg_err *err)
{
    struct sg_code_kernel *k = c->impl;
    struct sg_sandbox *s = c->sandbox;
    const struct sg_who who = { .org = s->org, .scopes = SG_SCOPE_EXEC };
    sg_auto_free char *program = sg_printf("%s/%s", SG_CODE_KERNELS, k->kernel);
    const bool has_other = strcmp(k->kernel, c->language) != 0;
    const char *const argv[] = { program, has_other ? c->language : NULL, NULL };
    const struct sg_exec_spec spec = { .argv = argv,
                                       .env = c->env.v,
                                       .env_n = c->env.n,
                                       .cwd = c->cwd,
                                       .tag = "kernel",
                                       .has_stdin = true,
                                       .is_background = true,
                                       .is_kernel = true };
    if (sg_exec_start(s, &who, &spec, started, c, err) < 0)
        return -1;
    k->is_starting = true;
    k->refs++;
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/out.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json.h"
#include "base/banned.h"

enum { MAX_LINE = 4096 };

static const int exit_codes[SG_KIND_COUNT] = {
    [SG_OK] = SG_EXIT_OK,
    [SG_INVALID] = SG_EXIT_USAGE,
    [SG_NOT_FOUND] = SG_EXIT_FAILED,
    [SG_CONFLICT] = SG_EXIT_FAILED,
    [SG_DENIED] = SG_EXIT_FAILED,
    [SG_EXHAUSTED] = SG_EXIT_FAILED,
    [SG_UNSUPPORTED] = SG_EXIT_FAILED,
    [SG_TIMEOUT] = SG_EXIT_FAILED,
    [SG_UNAVAILABLE] = SG_EXIT_TRY_LATER,
    [SG_INTERNAL] = SG_EXIT_FAILED,
};

bool sg_out_has_colour(int fd)
{
    const char *no_colour = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    bool is_dumb = !term || strcmp(term, "dumb") == 0;
    return !(no_colour && *no_colour) && !is_dumb && isatty(fd);
}

int sg_out_write(int fd, const void *p, size_t n, struct sg_err *err)
{
    const char *at = p;
    while (n) {
        ssize_t done = write(fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return sg_fail_sys(err, "write the output");
        at += done;
        n -= (size_t)done;
    }
    return 0;
}

/* One write a line, so that lines of several programs do not mix. */
static void say(const char *colour, const char *text)
{
    bool has_colour = sg_out_has_colour(STDERR_FILENO);
    sg_auto_buf line;
    sg_buf_init(&line, MAX_LINE);
    sg_buf_addf(&line, "%ssandglass:%s %s\n", has_colour ? colour : "", has_colour ? "\033[0m" : "",
                text);
    (void)sg_out_write(STDERR_FILENO, line.p, line.n, NULL);
}

static void report(const struct sg_cli *cli, const struct sg_err *err)
{
    if (!cli->config.json) {
        say("\033[31m", err->msg);
        return;
    }
    sg_auto_buf out;
    sg_buf_init(&out, MAX_LINE);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "error");
    sg_json_open(&j, '{');
    sg_json_key(&j, "kind");
    sg_json_str(&j, sg_kind_name(err->kind));
    sg_json_key(&j, "message");
    sg_json_str(&j, err->msg);
    sg_json_close(&j, '}');
    sg_json_close(&j, '}');
    sg_buf_add_str(&out, "\n");
    (void)sg_out_write(STDOUT_FILENO, out.p, out.n, NULL);
}

int sg_cli_fail(const struct sg_cli *cli, const struct sg_err *err)
{
    report(cli, err);
    /* These give the status of what they run, so ours must not look like one of its own. */
    bool runs_a_command = cli->command && (cli->command->bit & (SG_FOR_RUN | SG_FOR_SHELL));
    if (runs_a_command && err->kind != SG_INVALID)
        return SG_EXIT_NOT_STARTED;
    return (unsigned)err->kind < SG_KIND_COUNT ? exit_codes[err->kind] : SG_EXIT_FAILED;
}

int sg_cli_fail_run(const struct sg_cli *cli, const struct sg_err *err)
{
    report(cli, err);
    return SG_EXIT_NOT_STARTED;
}

void sg_cli_note(const struct sg_cli *cli, const char *fmt, ...)
{
    if (cli->config.quiet)
        return;
    char text[MAX_LINE / 2];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    say("\033[33m", text);
}

int sg_cli_print(const struct sg_buf *out)
{
    struct sg_err err;
    if (sg_buf_check(out, "the output", &err) == 0 &&
        sg_out_write(STDOUT_FILENO, out->p, out->n, &err) == 0)
        return SG_EXIT_OK;
    say("\033[31m", err.msg); /* never as JSON: stdout is what failed */
    return SG_EXIT_FAILED;
}

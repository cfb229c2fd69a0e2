/* SPDX-License-Identifier: Apache-2.0 */
/* The ticker is a forked child, because the program itself is busy with a cell meanwhile. It shares
 * the archive's descriptor, whose offset tells how much has been read; it ends when the pipe from
 * its parent does, however that comes about. */
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "cli/cmd_template.h"
#include "cli/out.h"
#include "base/banned.h"

enum { TICK_MS = 200, MAX_LINE = 160 };

void sg_progress_init(struct sg_progress *p, const struct sg_cli *cli)
{
    *p = (struct sg_progress) {
        .is_silent = cli->config.quiet || cli->config.json,
        .is_terminal = isatty(STDERR_FILENO) == 1,
        .ticker_fd = -1,
    };
}

static void show(bool is_terminal, const char *line)
{
    char text[MAX_LINE + 16];
    int n = snprintf(text, sizeof text, is_terminal ? "\r%.*s\033[K" : "%.*s\n", MAX_LINE, line);
    (void)!write(STDERR_FILENO, text, (size_t)n);
}

/* That nobody reads it is found out by whoever has more to say. */
static void report(int fd, const char *line)
{
    struct sg_err ignored;
    struct sg_json j;
    sg_auto_buf out;
    sg_buf_init(&out, 8 * MAX_LINE);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_put_str(&j, "say", line);
    sg_json_close(&j, '}');
    sg_buf_add_str(&out, "\n");
    (void)sg_out_write(fd, out.p, out.n, &ignored);
}

static void stop_ticker(struct sg_progress *p)
{
    sg_drop_fd(&p->ticker_fd);
    if (p->ticker > 0)
        (void)waitpid(p->ticker, NULL, 0);
    p->ticker = 0;
}

void sg_progress_say(struct sg_progress *p, const char *fmt, ...)
{
    stop_ticker(p);
    if (p->is_silent && !p->report_fd)
        return;
    char line[MAX_LINE];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (p->report_fd)
        report(p->report_fd, line);
    else
        show(p->is_terminal, line);
}

_Noreturn static void tick(const char *what, int fd, uint64_t total, int end_fd)
{
    struct pollfd end = { .fd = end_fd, .events = POLLIN };
    while (poll(&end, 1, TICK_MS) == 0) {
        char line[MAX_LINE];
        off_t at = lseek(fd, 0, SEEK_CUR);
        if (at < 0)
            break;
        (void)snprintf(line, sizeof line, "%s: %u %%", what,
                       (unsigned)((uint64_t)at * 100 / total));
        show(true, line);
    }
    _exit(0);
}

void sg_progress_follow(struct sg_progress *p, const char *what, int fd, uint64_t total)
{
    sg_progress_say(p, "%s", what);
    int ends[2];
    if (p->is_silent || !p->is_terminal || total == 0 || pipe(ends) < 0)
        return;
    p->ticker = fork();
    if (p->ticker == 0) {
        (void)close(ends[1]);
        tick(what, fd, total, ends[0]);
    }
    (void)close(ends[0]);
    p->ticker_fd = ends[1];
}

void sg_progress_done(struct sg_progress *p)
{
    stop_ticker(p);
    if (p->is_terminal && !p->is_silent)
        (void)!write(STDERR_FILENO, "\r\033[K", 4);
}

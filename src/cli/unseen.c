/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/unseen.h"

#include <signal.h>
#include <stdio.h>
#include <termios.h>
#include <unistd.h>

#include "cli/term.h"
#include "base/banned.h"

/* One line, which the terminal does not show. Ctrl-C ends us with the terminal as it was: the
 * driver's own signal would not wait for that. */
static int read_typed(const char *what, struct sg_buf *ret, struct sg_err *err)
{
    struct termios saved;
    char c = '\0';
    if (tcgetattr(STDIN_FILENO, &saved) < 0)
        return sg_fail_sys(err, "ask the terminal");
    struct termios quiet = saved;
    quiet.c_lflag &= ~(tcflag_t)(ECHO | ISIG);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
    (void)dprintf(STDERR_FILENO, "%s: ", what); /* from here on nothing typed is lost */
    ssize_t n;
    while ((n = read(STDIN_FILENO, &c, 1)) == 1 && c != '\n' && c != '\x03')
        sg_buf_add(ret, &c, 1);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved);
    (void)!write(STDERR_FILENO, "\n", 1);
    if (n < 0)
        return sg_fail_sys(err, "read the %s", what);
    if (c == '\x03')
        (void)raise(SIGINT);
    return sg_buf_check(ret, what, err);
}

/* What `echo` adds is not meant: one line end at the end does not count. */
int sg_read_unseen(const char *what, struct sg_buf *ret, struct sg_err *err)
{
    if (sg_term_is_tty(STDIN_FILENO))
        return read_typed(what, ret, err);
    if (sg_buf_read_fd(ret, STDIN_FILENO, "the standard input", err) < 0)
        return -1;
    if (ret->n && ret->p[ret->n - 1] == '\n')
        ret->n--;
    return 0;
}

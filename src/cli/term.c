/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/term.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "base/banned.h"

bool sg_term_is_tty(int fd)
{
    return fd >= 0 && isatty(fd);
}

void sg_term_raw(struct sg_term *t, int fd)
{
    t->fd = fd;
    t->is_raw = tcgetattr(fd, &t->saved) == 0;
    if (!t->is_raw)
        return;
    struct termios raw = t->saved;
    cfmakeraw(&raw);
    (void)tcsetattr(fd, TCSADRAIN, &raw);
}

void sg_term_restore(struct sg_term *t)
{
    if (t->is_raw)
        (void)tcsetattr(t->fd, TCSADRAIN, &t->saved);
    t->is_raw = false;
}

void sg_term_size(int fd, uint32_t *ret_rows, uint32_t *ret_cols)
{
    struct winsize w;
    *ret_rows = 24;
    *ret_cols = 80;
    if (ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_row && w.ws_col) {
        *ret_rows = w.ws_row;
        *ret_cols = w.ws_col;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Our own terminal while a command inside has one: raw, so that its keys go in untouched. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <termios.h>

struct sg_term {
    int fd;
    bool is_raw;
    struct termios saved;
};

bool sg_term_is_tty(int fd);
void sg_term_raw(struct sg_term *t, int fd);
void sg_term_restore(struct sg_term *t); /* also fine when it never was raw */
void sg_term_size(int fd, uint32_t *ret_rows, uint32_t *ret_cols);

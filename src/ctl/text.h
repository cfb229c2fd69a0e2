/* SPDX-License-Identifier: Apache-2.0 */
/* Texts in messages. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Text field: p is terminated. An absent text is "". */
struct sg_text {
    const char *p;
    size_t n;
};

/* A list of texts, walked with sg_text_next(). */
struct sg_texts {
    const uint8_t *p;
    size_t n;
    uint32_t count;
};

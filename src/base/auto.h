/* SPDX-License-Identifier: Apache-2.0 */
/* Scope-bound release: the resource is named once, beside its acquisition. */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void sg_close_p(int *fd)
{
    if (*fd >= 0) {
        int keep = errno;
        (void)close(*fd);
        errno = keep;
    }
}

static inline void sg_free_p(void *pp)
{
    free(*(void **)pp);
}

static inline void sg_fclose_p(FILE **f)
{
    if (*f)
        (void)fclose(*f);
}

static inline void sg_closedir_p(DIR **d)
{
    if (*d)
        (void)closedir(*d);
}

#define sg_auto_fd   __attribute__((cleanup(sg_close_p))) int
#define sg_auto_free __attribute__((cleanup(sg_free_p)))
#define sg_auto_file __attribute__((cleanup(sg_fclose_p))) FILE *
#define sg_auto_dir  __attribute__((cleanup(sg_closedir_p))) DIR *

/* Moves ownership out: the variable becomes -1 and its cleanup does nothing. */
static inline int sg_take_fd(int *fd)
{
    int v = *fd;
    *fd = -1;
    return v;
}

/* Closes and forgets. */
static inline void sg_drop_fd(int *fd)
{
    sg_close_p(fd);
    *fd = -1;
}

#define sg_take_ptr(pp)                                                                            \
    __extension__({                                                                                \
        __typeof__(*(pp)) v_ = *(pp);                                                              \
        *(pp) = NULL;                                                                              \
        v_;                                                                                        \
    })

/* Small fixed-size allocations abort on failure: the programs are crash-only. Sizes that came
 * from outside go through sg_buf, which has a ceiling and fails as SG_EXHAUSTED. */
void *sg_alloc(size_t n); /* zeroed */
#define sg_new(type) ((type *)sg_alloc(sizeof(type)))
char *sg_strdup(const char *s);
char *sg_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2))); /* returns owned */

#define SG_COUNT(a) (sizeof(a) / sizeof((a)[0]))

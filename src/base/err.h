/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: one small value, no allocation, so it works when memory is short.
 *
 * A function that can fail takes `struct sg_err *err` last and returns -1 (or NULL). On success
 * `err` is untouched; on failure every `ret_` parameter is untouched. The callee detects and
 * describes, the caller adds what it was doing with sg_wrap(), the outermost layer reports once. */
#pragma once

enum sg_kind {
    SG_OK,
    SG_INVALID,     /* the request itself is wrong                    */
    SG_NOT_FOUND,   /* the named thing does not exist                 */
    SG_CONFLICT,    /* not in a state that allows this                */
    SG_DENIED,      /* not permitted                                  */
    SG_EXHAUSTED,   /* over a limit, or out of space or memory        */
    SG_UNSUPPORTED, /* this host or build lacks a feature             */
    SG_TIMEOUT,     /* a deadline passed                              */
    SG_UNAVAILABLE, /* try again later                                */
    SG_INTERNAL,    /* our fault                                      */
    SG_KIND_COUNT,
};

struct sg_err {
    enum sg_kind kind; /* what a caller may act on            */
    int sys;           /* errno at the origin, or 0           */
    const char *where; /* "src/sys/path.c:24", static storage */
    char msg[240];     /* outermost context first             */
};

/* All three return -1, so that a failure is one statement. User data goes through sg_quote(). */
#define sg_fail(err, kind, ...) sg_failed_(sg_err_set_(err, kind, 0, SG_HERE_, __VA_ARGS__))
#define sg_fail_sys(err, ...)   sg_failed_(sg_err_set_sys_(err, SG_HERE_, __VA_ARGS__)) /* errno */
#define sg_wrap(err, ...)       sg_failed_(sg_err_wrap_(err, __VA_ARGS__)) /* "context: inner" */

/* Says -1 where analyzers can see it, or they follow paths on which a failure succeeds. */
static inline int sg_failed_(int is_always_minus_one)
{
    (void)is_always_minus_one;
    return -1;
}

enum sg_kind sg_kind_of_errno(int sys);
const char *sg_kind_name(enum sg_kind kind);

#define SG_STR1_(x) #x
#define SG_STR_(x)  SG_STR1_(x)
#define SG_HERE_    __FILE__ ":" SG_STR_(__LINE__)

int sg_err_set_(struct sg_err *err, enum sg_kind kind, int sys, const char *where, const char *fmt,
                ...) __attribute__((format(printf, 5, 6)));
int sg_err_set_sys_(struct sg_err *err, const char *where, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int sg_err_wrap_(struct sg_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

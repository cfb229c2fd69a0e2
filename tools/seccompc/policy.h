/* SPDX-License-Identifier: Apache-2.0 */
/* A system call policy: what policy/<name>.json says, for one architecture.
 *
 * A call's verdict is the action of its first rule whose conditions all hold, else the call's own
 * action; a call that the policy does not name gets the default. docs/design/seccomp.md gives the
 * file format. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum {
    SG_POLICY_MAX_BYTES = 256 * 1024,
    SG_POLICY_MAX_DEPTH = 12, /* the format itself nests ten deep */
    SG_POLICY_MAX_CALLS = 600,
    SG_POLICY_MAX_RULES = 16, /* per call */
    SG_POLICY_MAX_CONDS = 4,  /* per rule */
    SG_POLICY_MAX_VALUES = 16,
    SG_POLICY_MAX_NAME = 40,
    SG_POLICY_ARGS = 6,
    SG_POLICY_FIRST_SHARED = 424, /* from here on all architectures number new calls alike */
    SG_POLICY_LAST_NUMBER = 1023,
};

/* Holds when the masked argument is (or with is_negated: is not) one of the values. */
struct sg_policy_cond {
    unsigned arg;
    unsigned bits; /* 32: the upper half is not looked at, as the kernel does for an int */
    bool is_negated;
    uint64_t mask; /* every value lies inside it */
    uint64_t values[SG_POLICY_MAX_VALUES];
    size_t value_count;
};

struct sg_policy_rule {
    struct sg_policy_cond conds[SG_POLICY_MAX_CONDS];
    size_t cond_count; /* at least one */
    uint32_t action;   /* SECCOMP_RET_*, with the errno in its low half */
};

struct sg_policy_call {
    char name[SG_POLICY_MAX_NAME];
    int number; /* -1: this architecture does not have it */
    uint32_t action;
    struct sg_policy_rule *rules; /* owned */
    size_t rule_count;
};

struct sg_policy {
    char name[SG_POLICY_MAX_NAME]; /* lower-case letters, digits, underscore */
    uint32_t arch;                 /* AUDIT_ARCH_* */
    uint32_t default_action;
    struct sg_policy_call *calls; /* owned; in file order, no number twice */
    size_t call_count;
};

/* "x86_64" or "aarch64" to AUDIT_ARCH_*. SG_UNSUPPORTED for any other. */
int sg_policy_arch_find(const char *name, uint32_t *ret_arch, struct sg_err *err);

/* Reads a policy file's bytes. SG_INVALID names the place and the cause; SG_EXHAUSTED is a limit
 * above. On success the caller owns *ret and ends it with sg_policy_done(). */
int sg_policy_parse(struct sg_str text, uint32_t arch, struct sg_policy *ret, struct sg_err *err);
void sg_policy_done(struct sg_policy *p);

/* The words of a policy file. An action is "allow", "kill" or "errno NAME"; a value is a decimal
 * or 0x number or names of kernel constants joined by '|'. */
int sg_policy_action_parse(const char *text, uint32_t *ret_action, struct sg_err *err);
int sg_policy_value_parse(const char *text, uint64_t *ret_value, struct sg_err *err);

#define sg_auto_policy __attribute__((cleanup(sg_policy_done))) struct sg_policy

/* SPDX-License-Identifier: Apache-2.0 */
/* A table of a rule file into a struct, by a table of fields: what is unknown, ill-typed or out of
 * range is refused with its place. */
#pragma once

#include "config/toml.h"
#include "router/router.h"

struct sg_rules_reader {
    struct sg_rules *rules; /* whose operations SG_RF_OPERATIONS are; else NULL */
    const char *source;
    struct sg_err *err;
};

enum sg_rf_kind {
    SG_RF_TEXT,       /* char *, owned, filled */
    SG_RF_TEXTS,      /* char **, owned, NULL-terminated: one, or a list */
    SG_RF_BOOL,       /* bool */
    SG_RF_COUNT,      /* uint64_t, 1 and up */
    SG_RF_WORD,       /* unsigned char-sized enum as int: one of `words` */
    SG_RF_WORDS,      /* unsigned: a mask of `words` */
    SG_RF_OPERATIONS, /* uint64_t: a mask of the file's operations */
    SG_RF_WALLS,      /* struct sg_rf_walls */
    SG_RF_TIME,       /* uint64_t: milliseconds of "30s", 1 ms to a year */
    SG_RF_NODE,       /* const struct sg_toml *: for the caller to read */
};
struct sg_rf_walls {
    enum sg_wall v[SG_WALL_COUNT];
    unsigned n;
};
struct sg_rf {
    const char *key;
    enum sg_rf_kind kind;
    size_t offset;
    const char *const *words;
    size_t word_count;
    const char *what; /* "trust level" */
    bool is_required;
};

/* Puts "FILE:line:column: " before what is wrong. Returns -1. */
int sg_rf_at(const struct sg_rules_reader *x, const struct sg_toml *t);
int sg_rf_fail(const struct sg_rules_reader *x, const struct sg_toml *t, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int sg_rf_read(const struct sg_rules_reader *x, const struct sg_toml *table,
               const struct sg_rf *fields, size_t n, void *into);
/* A text without NUL, not empty. Returns owned. */
int sg_rf_text(const struct sg_rules_reader *x, const struct sg_toml *t, char **ret);
/* `version = 1`, which every rule file has. */
int sg_rf_version(const struct sg_rules_reader *x, const struct sg_toml *t);
size_t sg_rf_count(const struct sg_toml *t); /* children */
/* A text that tells one content from another. */
void sg_rf_revision(struct sg_str text, char ret[17]);
/* Texts of `t`, one or a list, added to `*list`; what is there is the caller's on failure, too. */
int sg_rf_texts(const struct sg_rules_reader *x, const struct sg_toml *t, char ***list);
void sg_texts_free(char **v); /* NULL-terminated, or NULL */

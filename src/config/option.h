/* SPDX-License-Identifier: Apache-2.0 */
/* The option table: one row a setting. It feeds the file parser, the flags, the environment,
 * `config show`, --help, shell completion and the check of the man pages. */
#pragma once

#include "base/buf.h"
#include "config/config.h"

enum sg_option_type {
    SG_OPTION_STRING,
    SG_OPTION_BYTES,
    SG_OPTION_DURATION,
    SG_OPTION_MILLI,
    SG_OPTION_COUNT,
    SG_OPTION_BOOL,   /* as a flag: no argument; --no-FLAG unsets it */
    SG_OPTION_WORD,   /* one of `words` */
    SG_OPTION_SWITCH, /* one of `words`; as a flag no argument: --FLAG is "on", --no-FLAG "off" */
    SG_OPTION_LIST,
    SG_OPTION_TYPE_COUNT,
};

/* The commands, as a mask: which of them take an option. */
enum {
    SG_FOR_RUN = 1,
    SG_FOR_SHELL = 2,
    SG_FOR_TEMPLATE_LIST = 4,
    SG_FOR_TEMPLATE_BUILD = 8,
    SG_FOR_TEMPLATE_IMPORT = 16,
    SG_FOR_TEMPLATE_RM = 32,
    SG_FOR_DOCTOR = 64,
    SG_FOR_CONFIG_SHOW = 128,
    SG_FOR_COMPLETION = 256,
    SG_FOR_HELP = 512,
    SG_FOR_VERSION = 1024,
    SG_FOR_CELL = SG_FOR_RUN | SG_FOR_SHELL | SG_FOR_CONFIG_SHOW,
    SG_FOR_TEMPLATE =
        SG_FOR_TEMPLATE_LIST | SG_FOR_TEMPLATE_BUILD | SG_FOR_TEMPLATE_IMPORT | SG_FOR_TEMPLATE_RM,
    SG_FOR_ALL = 2047,
};

struct sg_word {
    const char *text; /* NULL ends the list */
    int value;
    bool is_alias; /* understood, not shown */
};

struct sg_option {
    const char *key;  /* in a file, "run.memory"; NULL: not there */
    const char *flag; /* "memory" for --memory; NULL: none */
    const char *env;  /* "SANDGLASS_MEMORY"; NULL: none */
    char letter;      /* 'm' for -m; 0: none */
    enum sg_option_type type;
    unsigned commands; /* SG_FOR_... */
    size_t offset;     /* in struct sg_config */
    uint64_t min, max; /* of a number, in the unit of the field */
    const char
        *fallback;    /* the default, as a user would write it; NULL: none, or found at run time */
    const char *arg;  /* "SIZE"; NULL: takes no argument */
    const char *help; /* one line */
    const struct sg_word *words;
    int (*check)(const char *text, struct sg_err *err); /* of a text, or of one entry of a list */
};

extern const struct sg_option sg_options[];
extern const size_t sg_option_count;

/* Sets the value from text; a list gets one more entry. SG_INVALID names the mistake and the
 * range, not the option: the caller knows how the user spelled it. */
int sg_option_set(const struct sg_option *o, struct sg_config *c, struct sg_str text,
                  struct sg_err *err);

/* Appends the value as text that sg_option_set() takes back; of a list the entry `index`. */
void sg_option_format(const struct sg_option *o, const struct sg_config *c, size_t index,
                      struct sg_buf *out);

const struct sg_option *sg_option_find_key(struct sg_str section, struct sg_str name);
const struct sg_option *sg_option_find_flag(struct sg_str flag, unsigned commands);
const struct sg_option *sg_option_find_letter(char letter, unsigned commands);
bool sg_option_takes_argument(const struct sg_option *o); /* as a flag */

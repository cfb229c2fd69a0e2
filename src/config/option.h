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
#define SG_FOR_RUN             (UINT64_C(1) << 0)
#define SG_FOR_SHELL           (UINT64_C(1) << 1)
#define SG_FOR_TEMPLATE_LIST   (UINT64_C(1) << 2)
#define SG_FOR_TEMPLATE_BUILD  (UINT64_C(1) << 3)
#define SG_FOR_TEMPLATE_IMPORT (UINT64_C(1) << 4)
#define SG_FOR_TEMPLATE_RM     (UINT64_C(1) << 5)
#define SG_FOR_DOCTOR          (UINT64_C(1) << 6)
#define SG_FOR_CONFIG_SHOW     (UINT64_C(1) << 7)
#define SG_FOR_COMPLETION      (UINT64_C(1) << 8)
#define SG_FOR_HELP            (UINT64_C(1) << 9)
#define SG_FOR_VERSION         (UINT64_C(1) << 10)
#define SG_FOR_SERVE           (UINT64_C(1) << 11)
#define SG_FOR_UP              (UINT64_C(1) << 12)
#define SG_FOR_DOWN            (UINT64_C(1) << 13)
#define SG_FOR_ENV             (UINT64_C(1) << 14)
#define SG_FOR_PS              (UINT64_C(1) << 15)
#define SG_FOR_CREATE          (UINT64_C(1) << 16)
#define SG_FOR_EXEC            (UINT64_C(1) << 17)
#define SG_FOR_CP              (UINT64_C(1) << 18)
#define SG_FOR_LOGS            (UINT64_C(1) << 19)
#define SG_FOR_TOP             (UINT64_C(1) << 20)
#define SG_FOR_PAUSE           (UINT64_C(1) << 21)
#define SG_FOR_RESUME          (UINT64_C(1) << 22)
#define SG_FOR_KILL            (UINT64_C(1) << 23)
#define SG_FOR_RM              (UINT64_C(1) << 24)
#define SG_FOR_STATS           (UINT64_C(1) << 25)
#define SG_FOR_EVENTS          (UINT64_C(1) << 26)
#define SG_FOR_KEYS_LIST       (UINT64_C(1) << 27)
#define SG_FOR_KEYS_CREATE     (UINT64_C(1) << 28)
#define SG_FOR_KEYS_REVOKE     (UINT64_C(1) << 29)
#define SG_FOR_ORGS_LIST       (UINT64_C(1) << 30)
#define SG_FOR_ORGS_CREATE     (UINT64_C(1) << 31)
#define SG_FOR_ORGS_RM         (UINT64_C(1) << 32)
#define SG_FOR_AUDIT_LIST      (UINT64_C(1) << 33)
#define SG_FOR_AUDIT_VERIFY    (UINT64_C(1) << 34)
#define SG_FOR_TLS_INIT        (UINT64_C(1) << 35)
#define SG_FOR_SECRETS_LIST    (UINT64_C(1) << 36)
#define SG_FOR_SECRETS_SET     (UINT64_C(1) << 37)
#define SG_FOR_SECRETS_RM      (UINT64_C(1) << 38)
/* The router's and what hangs on it: from the other end. */
#define SG_FOR_CODE     (UINT64_C(1) << 50)
#define SG_FOR_REPL     (UINT64_C(1) << 51)
#define SG_FOR_CELLS    (SG_FOR_CODE | SG_FOR_REPL)
#define SG_FOR_ROUTE    (UINT64_C(1) << 63)
#define SG_FOR_TASK_RUN (UINT64_C(1) << 62)
#define SG_FOR_APPROVE  (UINT64_C(1) << 61)
#define SG_FOR_HOOK     (UINT64_C(1) << 60)
#define SG_FOR_SWARM    (UINT64_C(1) << 59)
#define SG_FOR_USAGE    (UINT64_C(1) << 58)
#define SG_FOR_PARSE    (UINT64_C(1) << 57)
/* Of the gate. */
#define SG_FOR_NET_LOG     (UINT64_C(1) << 45)
#define SG_FOR_NET_EXPLAIN (UINT64_C(1) << 46)
#define SG_FOR_NET_SET     (UINT64_C(1) << 47)
#define SG_FOR_NET         (SG_FOR_NET_LOG | SG_FOR_NET_EXPLAIN | SG_FOR_NET_SET)
/* Of the storage pool. */
#define SG_FOR_SNAPSHOT       (UINT64_C(1) << 44)
#define SG_FOR_SNAPSHOTS_LIST (UINT64_C(1) << 43)
#define SG_FOR_SNAPSHOTS_RM   (UINT64_C(1) << 42)
#define SG_FOR_FORK           (UINT64_C(1) << 41)
#define SG_FOR_ROLLBACK       (UINT64_C(1) << 40)
#define SG_FOR_TREE           (UINT64_C(1) << 39)
#define SG_FOR_SNAPSHOTS                                                                           \
    (SG_FOR_SNAPSHOT | SG_FOR_SNAPSHOTS_LIST | SG_FOR_SNAPSHOTS_RM | SG_FOR_FORK |                 \
     SG_FOR_ROLLBACK | SG_FOR_TREE)
#define SG_FOR_ASK    (SG_FOR_ROUTE | SG_FOR_TASK_RUN)
#define SG_FOR_ROUTER (SG_FOR_ASK | SG_FOR_APPROVE | SG_FOR_SWARM | SG_FOR_USAGE)
#define SG_FOR_ALL    UINT64_MAX
#define SG_FOR_CELL   (SG_FOR_RUN | SG_FOR_SHELL | SG_FOR_CONFIG_SHOW)
#define SG_FOR_TEMPLATE                                                                            \
    (SG_FOR_TEMPLATE_LIST | SG_FOR_TEMPLATE_BUILD | SG_FOR_TEMPLATE_IMPORT | SG_FOR_TEMPLATE_RM)
#define SG_FOR_KEYS          (SG_FOR_KEYS_LIST | SG_FOR_KEYS_CREATE | SG_FOR_KEYS_REVOKE)
#define SG_FOR_ORGS          (SG_FOR_ORGS_LIST | SG_FOR_ORGS_CREATE | SG_FOR_ORGS_RM)
#define SG_FOR_VOLUME_CREATE (UINT64_C(1) << 52)
#define SG_FOR_VOLUME_LS     (UINT64_C(1) << 53)
#define SG_FOR_VOLUME_RM     (UINT64_C(1) << 54)
#define SG_FOR_VOLUME        (SG_FOR_VOLUME_CREATE | SG_FOR_VOLUME_LS | SG_FOR_VOLUME_RM)
#define SG_FOR_SECRETS       (SG_FOR_SECRETS_LIST | SG_FOR_SECRETS_SET | SG_FOR_SECRETS_RM)
#define SG_FOR_AUDIT         (SG_FOR_AUDIT_LIST | SG_FOR_AUDIT_VERIFY)
#define SG_FOR_SERVICE       (SG_FOR_SERVE | SG_FOR_UP)
/* Those that ask the service. */
#define SG_FOR_CLIENT                                                                              \
    (SG_FOR_NET | SG_FOR_PARSE | SG_FOR_CELLS | SG_FOR_SNAPSHOTS | SG_FOR_ROUTER | SG_FOR_PS |     \
     SG_FOR_CREATE | SG_FOR_EXEC | SG_FOR_CP | SG_FOR_LOGS | SG_FOR_TOP | SG_FOR_PAUSE |           \
     SG_FOR_RESUME | SG_FOR_KILL | SG_FOR_RM | SG_FOR_STATS | SG_FOR_EVENTS | SG_FOR_KEYS |        \
     SG_FOR_ORGS | SG_FOR_SECRETS | SG_FOR_VOLUME | SG_FOR_AUDIT)

struct sg_word {
    const char *text; /* NULL ends the list */
    int value;
    bool is_alias; /* understood, not shown */
};

struct sg_option {
    const char *key;  /* in a file, "run.memory"; NULL: not there */
    const char *flag; /* "memory" for --memory; NULL: none */
    const char *env;  /* "SANDGLASS_MEMORY"; NULL: none; a list has commas between its entries */
    char letter;      /* 'm' for -m; 0: none */
    enum sg_option_type type;
    uint64_t commands; /* SG_FOR_... */
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
const struct sg_option *sg_option_find_flag(struct sg_str flag, uint64_t commands);
const struct sg_option *sg_option_find_letter(char letter, uint64_t commands);
bool sg_option_takes_argument(const struct sg_option *o); /* as a flag */

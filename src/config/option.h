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

/* The commands, and as a mask: which of them take an option. A new one goes to the end. */
enum sg_command_place {
    SG_COMMAND_RUN,
    SG_COMMAND_SHELL,
    SG_COMMAND_TEMPLATE_LIST,
    SG_COMMAND_TEMPLATE_BUILD,
    SG_COMMAND_TEMPLATE_IMPORT,
    SG_COMMAND_TEMPLATE_EXPORT,
    SG_COMMAND_TEMPLATE_PULL,
    SG_COMMAND_TEMPLATE_PUSH,
    SG_COMMAND_TEMPLATE_RM,
    SG_COMMAND_DOCTOR,
    SG_COMMAND_CONFIG_SHOW,
    SG_COMMAND_COMPLETION,
    SG_COMMAND_HELP,
    SG_COMMAND_VERSION,
    SG_COMMAND_SERVE,
    SG_COMMAND_UP,
    SG_COMMAND_DOWN,
    SG_COMMAND_ENV,
    SG_COMMAND_PS,
    SG_COMMAND_CREATE,
    SG_COMMAND_EXEC,
    SG_COMMAND_CP,
    SG_COMMAND_LOGS,
    SG_COMMAND_TOP,
    SG_COMMAND_PAUSE,
    SG_COMMAND_RESUME,
    SG_COMMAND_KILL,
    SG_COMMAND_RM,
    SG_COMMAND_STATS,
    SG_COMMAND_EVENTS,
    SG_COMMAND_KEYS_LIST,
    SG_COMMAND_KEYS_CREATE,
    SG_COMMAND_KEYS_REVOKE,
    SG_COMMAND_ORGS_LIST,
    SG_COMMAND_ORGS_CREATE,
    SG_COMMAND_ORGS_RM,
    SG_COMMAND_AUDIT_LIST,
    SG_COMMAND_AUDIT_VERIFY,
    SG_COMMAND_TLS_INIT,
    SG_COMMAND_SECRETS_LIST,
    SG_COMMAND_SECRETS_SET,
    SG_COMMAND_SECRETS_RM,
    SG_COMMAND_CODE,
    SG_COMMAND_REPL,
    SG_COMMAND_ROUTE,
    SG_COMMAND_TASK_RUN,
    SG_COMMAND_APPROVE,
    SG_COMMAND_HOOK,
    SG_COMMAND_SWARM,
    SG_COMMAND_USAGE,
    SG_COMMAND_PARSE,
    SG_COMMAND_NET_LOG,
    SG_COMMAND_NET_EXPLAIN,
    SG_COMMAND_NET_SET,
    SG_COMMAND_SNAPSHOT,
    SG_COMMAND_SNAPSHOTS_LIST,
    SG_COMMAND_SNAPSHOTS_RM,
    SG_COMMAND_FORK,
    SG_COMMAND_ROLLBACK,
    SG_COMMAND_TREE,
    SG_COMMAND_VOLUME_CREATE,
    SG_COMMAND_VOLUME_LS,
    SG_COMMAND_VOLUME_RM,
    SG_COMMAND_ORGS_BUDGET,
    SG_COMMAND_ORGS_BUDGETS,
    SG_COMMAND_VOLUME_CP,
    SG_COMMAND_VOLUME_RESIZE,
    SG_COMMAND_FORWARD,
    SG_COMMAND_GC,
    SG_COMMAND_SNAPSHOTS_EXPORT,
    SG_COMMAND_SNAPSHOTS_IMPORT,
};
__extension__ typedef unsigned __int128 sg_command_set;
#define SG_FOR(command)        ((sg_command_set)1 << SG_COMMAND_##command)
#define SG_FOR_RUN             SG_FOR(RUN)
#define SG_FOR_SHELL           SG_FOR(SHELL)
#define SG_FOR_TEMPLATE_LIST   SG_FOR(TEMPLATE_LIST)
#define SG_FOR_TEMPLATE_BUILD  SG_FOR(TEMPLATE_BUILD)
#define SG_FOR_TEMPLATE_IMPORT SG_FOR(TEMPLATE_IMPORT)
#define SG_FOR_TEMPLATE_EXPORT SG_FOR(TEMPLATE_EXPORT)
#define SG_FOR_TEMPLATE_PULL   SG_FOR(TEMPLATE_PULL)
#define SG_FOR_TEMPLATE_PUSH   SG_FOR(TEMPLATE_PUSH)
#define SG_FOR_TEMPLATE_RM     SG_FOR(TEMPLATE_RM)
#define SG_FOR_DOCTOR          SG_FOR(DOCTOR)
#define SG_FOR_CONFIG_SHOW     SG_FOR(CONFIG_SHOW)
#define SG_FOR_COMPLETION      SG_FOR(COMPLETION)
#define SG_FOR_HELP            SG_FOR(HELP)
#define SG_FOR_VERSION         SG_FOR(VERSION)
#define SG_FOR_SERVE           SG_FOR(SERVE)
#define SG_FOR_UP              SG_FOR(UP)
#define SG_FOR_DOWN            SG_FOR(DOWN)
#define SG_FOR_ENV             SG_FOR(ENV)
#define SG_FOR_PS              SG_FOR(PS)
#define SG_FOR_CREATE          SG_FOR(CREATE)
#define SG_FOR_EXEC            SG_FOR(EXEC)
#define SG_FOR_CP              SG_FOR(CP)
#define SG_FOR_LOGS            SG_FOR(LOGS)
#define SG_FOR_TOP             SG_FOR(TOP)
#define SG_FOR_PAUSE           SG_FOR(PAUSE)
#define SG_FOR_RESUME          SG_FOR(RESUME)
#define SG_FOR_KILL            SG_FOR(KILL)
#define SG_FOR_RM              SG_FOR(RM)
#define SG_FOR_STATS           SG_FOR(STATS)
#define SG_FOR_EVENTS          SG_FOR(EVENTS)
#define SG_FOR_KEYS_LIST       SG_FOR(KEYS_LIST)
#define SG_FOR_KEYS_CREATE     SG_FOR(KEYS_CREATE)
#define SG_FOR_KEYS_REVOKE     SG_FOR(KEYS_REVOKE)
#define SG_FOR_ORGS_LIST       SG_FOR(ORGS_LIST)
#define SG_FOR_ORGS_CREATE     SG_FOR(ORGS_CREATE)
#define SG_FOR_ORGS_RM         SG_FOR(ORGS_RM)
#define SG_FOR_AUDIT_LIST      SG_FOR(AUDIT_LIST)
#define SG_FOR_AUDIT_VERIFY    SG_FOR(AUDIT_VERIFY)
#define SG_FOR_TLS_INIT        SG_FOR(TLS_INIT)
#define SG_FOR_SECRETS_LIST    SG_FOR(SECRETS_LIST)
#define SG_FOR_SECRETS_SET     SG_FOR(SECRETS_SET)
#define SG_FOR_SECRETS_RM      SG_FOR(SECRETS_RM)
/* The router's and what hangs on it. */
#define SG_FOR_CODE         SG_FOR(CODE)
#define SG_FOR_REPL         SG_FOR(REPL)
#define SG_FOR_CELLS        (SG_FOR_CODE | SG_FOR_REPL)
#define SG_FOR_ROUTE        SG_FOR(ROUTE)
#define SG_FOR_TASK_RUN     SG_FOR(TASK_RUN)
#define SG_FOR_APPROVE      SG_FOR(APPROVE)
#define SG_FOR_HOOK         SG_FOR(HOOK)
#define SG_FOR_SWARM        SG_FOR(SWARM)
#define SG_FOR_USAGE        SG_FOR(USAGE)
#define SG_FOR_ORGS_BUDGET  SG_FOR(ORGS_BUDGET)
#define SG_FOR_ORGS_BUDGETS SG_FOR(ORGS_BUDGETS)
#define SG_FOR_PARSE        SG_FOR(PARSE)
/* Of the gate. */
#define SG_FOR_NET_LOG     SG_FOR(NET_LOG)
#define SG_FOR_NET_EXPLAIN SG_FOR(NET_EXPLAIN)
#define SG_FOR_NET_SET     SG_FOR(NET_SET)
#define SG_FOR_FORWARD     SG_FOR(FORWARD)
#define SG_FOR_NET         (SG_FOR_NET_LOG | SG_FOR_NET_EXPLAIN | SG_FOR_NET_SET | SG_FOR_FORWARD)
/* Of the storage pool. */
#define SG_FOR_SNAPSHOT         SG_FOR(SNAPSHOT)
#define SG_FOR_SNAPSHOTS_LIST   SG_FOR(SNAPSHOTS_LIST)
#define SG_FOR_SNAPSHOTS_RM     SG_FOR(SNAPSHOTS_RM)
#define SG_FOR_FORK             SG_FOR(FORK)
#define SG_FOR_ROLLBACK         SG_FOR(ROLLBACK)
#define SG_FOR_TREE             SG_FOR(TREE)
#define SG_FOR_GC               SG_FOR(GC)
#define SG_FOR_SNAPSHOTS_EXPORT SG_FOR(SNAPSHOTS_EXPORT)
#define SG_FOR_SNAPSHOTS_IMPORT SG_FOR(SNAPSHOTS_IMPORT)
#define SG_FOR_SNAPSHOTS                                                                           \
    (SG_FOR_GC | SG_FOR_SNAPSHOT | SG_FOR_SNAPSHOTS_LIST | SG_FOR_SNAPSHOTS_RM | SG_FOR_FORK |     \
     SG_FOR_ROLLBACK | SG_FOR_TREE | SG_FOR_SNAPSHOTS_EXPORT | SG_FOR_SNAPSHOTS_IMPORT)
#define SG_FOR_ASK    (SG_FOR_ROUTE | SG_FOR_TASK_RUN)
#define SG_FOR_ROUTER (SG_FOR_ASK | SG_FOR_APPROVE | SG_FOR_HOOK | SG_FOR_SWARM | SG_FOR_USAGE)
#define SG_FOR_ALL    (~(sg_command_set)0)
#define SG_FOR_CELL   (SG_FOR_RUN | SG_FOR_SHELL | SG_FOR_CONFIG_SHOW)
#define SG_FOR_TEMPLATE                                                                            \
    (SG_FOR_TEMPLATE_LIST | SG_FOR_TEMPLATE_BUILD | SG_FOR_TEMPLATE_IMPORT |                       \
     SG_FOR_TEMPLATE_EXPORT | SG_FOR_TEMPLATE_PULL | SG_FOR_TEMPLATE_PUSH | SG_FOR_TEMPLATE_RM)
#define SG_FOR_REGISTRY (SG_FOR_TEMPLATE_PULL | SG_FOR_TEMPLATE_PUSH)
#define SG_FOR_KEYS     (SG_FOR_KEYS_LIST | SG_FOR_KEYS_CREATE | SG_FOR_KEYS_REVOKE)
#define SG_FOR_ORGS                                                                                \
    (SG_FOR_ORGS_LIST | SG_FOR_ORGS_CREATE | SG_FOR_ORGS_RM | SG_FOR_ORGS_BUDGET |                 \
     SG_FOR_ORGS_BUDGETS)
#define SG_FOR_VOLUME_CREATE SG_FOR(VOLUME_CREATE)
#define SG_FOR_VOLUME_LS     SG_FOR(VOLUME_LS)
#define SG_FOR_VOLUME_RM     SG_FOR(VOLUME_RM)
#define SG_FOR_VOLUME_CP     SG_FOR(VOLUME_CP)
#define SG_FOR_VOLUME_RESIZE SG_FOR(VOLUME_RESIZE)
#define SG_FOR_VOLUME                                                                              \
    (SG_FOR_VOLUME_CREATE | SG_FOR_VOLUME_LS | SG_FOR_VOLUME_RM | SG_FOR_VOLUME_CP |               \
     SG_FOR_VOLUME_RESIZE)
#define SG_FOR_SECRETS (SG_FOR_SECRETS_LIST | SG_FOR_SECRETS_SET | SG_FOR_SECRETS_RM)
#define SG_FOR_AUDIT   (SG_FOR_AUDIT_LIST | SG_FOR_AUDIT_VERIFY)
#define SG_FOR_SERVICE (SG_FOR_SERVE | SG_FOR_UP)
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
    sg_command_set commands; /* SG_FOR_... */
    size_t offset;           /* in struct sg_config */
    uint64_t min, max;       /* of a number, in the unit of the field */
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
const struct sg_option *sg_option_find_flag(struct sg_str flag, sg_command_set commands);
const struct sg_option *sg_option_find_letter(char letter, sg_command_set commands);
bool sg_option_takes_argument(const struct sg_option *o); /* as a flag */

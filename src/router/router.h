/* SPDX-License-Identifier: Apache-2.0 */
/* The router: which wall stands around an operation, and why. Rules are data (policy/router.toml);
 * the first one that matches decides.
 *
 * Q1. A decision never goes below the floor of its rule: a weaker wall is refused, never put in
 *     place of another. A wall further down the rule's own list is a fallback, and said to be one.
 * Q2. What decides is the rules, the question and the host; nothing is kept between two questions.
 * Q3. Nothing here allocates after the rules are read: a decision is a walk over small tables. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct sg_json;

/* Tiers, by what they are and not by strength: that is sg_wall_strength(). */
enum sg_wall {
    SG_WALL_NONE,
    SG_WALL_WASM,
    SG_WALL_CELL,
    SG_WALL_DOCKER,
    SG_WALL_GVISOR,
    SG_WALL_MICROVM,
    SG_WALL_REMOTE,
    SG_WALL_COUNT,
};
enum sg_trust { SG_TRUST_TRUSTED, SG_TRUST_LIMITED, SG_TRUST_UNTRUSTED, SG_TRUST_COUNT };
enum sg_need_net { SG_NEED_NET_NONE, SG_NEED_NET_FILTERED, SG_NEED_NET_OPEN, SG_NEED_NET_COUNT };
enum sg_need_files { SG_NEED_NO_FILES, SG_NEED_READ, SG_NEED_WRITE, SG_NEED_FILES_COUNT };
enum sg_ability {
    SG_ABILITY_CODE,
    SG_ABILITY_TERMINAL,
    SG_ABILITY_GUI,
    SG_ABILITY_BROWSER,
    SG_ABILITY_COUNT,
};
extern const char *const sg_wall_names[SG_WALL_COUNT];
extern const char *const sg_trust_names[SG_TRUST_COUNT];
extern const char *const sg_need_net_names[SG_NEED_NET_COUNT];
extern const char *const sg_need_files_names[SG_NEED_FILES_COUNT];
extern const char *const sg_ability_names[SG_ABILITY_COUNT];
/* The place in `names`; SG_INVALID names the word, and what is near it. */
int sg_router_word(const char *const *names, size_t n, const char *what, struct sg_str word,
                   struct sg_err *err);
unsigned sg_wall_strength(enum sg_wall w);

/* ---- rules ---- */

#define SG_RULES_DEFAULT_PATH "/etc/sandglass/router.toml"
enum {
    SG_RULES_MAX_BYTES = 256 << 10,
    SG_RULES_MAX = 256,
    SG_RULES_OPERATIONS = 64, /* bits of a mask */
    SG_RULES_AGENTS = 256,
};

struct sg_rule {
    char *name, *reason; /* owned */
    uint64_t operations; /* 1 << place in sg_rules.operations; 0: any */
    unsigned trusts;     /* masks; 0: any */
    unsigned networks, files;
    unsigned abilities;                              /* any of these is wanted; 0: whatever is */
    uint64_t min_parallel, min_seconds, max_seconds; /* 0: any */
    char **orgs, **agents;                           /* owned, NULL-terminated; NULL: any */
    enum sg_wall walls[SG_WALL_COUNT];               /* the best first */
    unsigned wall_count;
    enum sg_wall floor;
    bool has_floor, needs_approval, has_network;
    enum sg_need_net network; /* what it gets, where has_network; else what it asked for */
};

struct sg_operation {
    char *name; /* owned */
    enum sg_trust trust;
};

struct sg_agent { /* of one type of agent: its walls in place of the rule's */
    char *name;   /* owned */
    enum sg_wall walls[SG_WALL_COUNT];
    unsigned wall_count;
};

struct sg_rules {
    struct sg_rule *rules; /* owned */
    size_t rule_count;
    struct sg_operation operations[SG_RULES_OPERATIONS];
    size_t operation_count;
    struct sg_agent *agents; /* owned */
    size_t agent_count;
    char *source;      /* owned: a file's name, or "built in" */
    char revision[17]; /* of the text: the same text has the same one */
};

/* Returns owned, or NULL: SG_INVALID as "FILE:3:14: what is wrong", SG_EXHAUSTED. `source` names
 * the file in messages. */
struct sg_rules *sg_rules_parse(struct sg_str text, const char *source, struct sg_err *err);
struct sg_rules *sg_rules_builtin(struct sg_err *err); /* policy/router.toml */
void sg_rules_free(struct sg_rules *r);

/* ---- a question, and the decision ---- */

#define SG_OPERATION_DEFAULT "execute_code" /* of a sandbox whose maker says nothing else */

struct sg_ask { /* texts are borrowed */
    const char *operation;
    const char *agent, *org;    /* NULL: not said */
    int trust;                  /* enum sg_trust; -1: as the operation's */
    uint64_t parallel, seconds; /* 0: not said */
    enum sg_need_net network;
    enum sg_need_files files;
    unsigned abilities; /* 1 << enum sg_ability */
    int wish;           /* enum sg_wall: this one or none; -1: the rule's choice */
    bool needs_sandbox; /* `none` will not do: the caller wants a sandbox */
};
void sg_ask_init(struct sg_ask *a, const char *operation);

struct sg_walls { /* why a wall is not to be had here; NULL: it is. Static or outliving texts */
    const char *missing[SG_WALL_COUNT];
};

/* Before a launcher has said what it has. */
extern const struct sg_walls sg_walls_today;

enum sg_verdict {
    SG_VERDICT_CHOSEN,
    SG_VERDICT_NOT_NAMED,   /* the rule does not permit it */
    SG_VERDICT_BELOW_FLOOR, /* weaker than the rule's floor */
    SG_VERDICT_MISSING,     /* this host does not have it */
    SG_VERDICT_UNABLE,      /* it has not what was wanted inside */
    SG_VERDICT_NOT_WISHED,  /* the caller wants another */
    SG_VERDICT_LATER,       /* permitted; one before it in the list was there */
    SG_VERDICT_NO_SANDBOX,  /* `none` gives no sandbox to work in */
    SG_VERDICT_COUNT,
};

struct sg_decision { /* borrows from rules, question and host */
    const struct sg_rules *rules;
    const struct sg_walls *host;
    const struct sg_rule *rule;
    const struct sg_agent *agent; /* whose walls were used in place of the rule's; NULL: none */
    const char *operation;
    enum sg_trust trust;
    enum sg_wall wall; /* with is_allowed */
    bool is_allowed;
    bool is_fallback;       /* not the first of the list: `preferred` is */
    enum sg_wall preferred; /* the first of the list that could have done it */
    bool needs_approval;
    enum sg_need_net network;
    enum sg_verdict verdicts[SG_WALL_COUNT];
    int wish; /* of the question */
};

/* SG_INVALID: no such operation. A refusal is a decision, too. */
int sg_router_decide(const struct sg_rules *r, const struct sg_walls *h, const struct sg_ask *a,
                     struct sg_decision *ret, struct sg_err *err);
/* The refusal as an error: SG_UNSUPPORTED (this host lacks it) or SG_DENIED (below the floor).
 * Returns -1; 0 where it is allowed. */
int sg_decision_error(const struct sg_decision *d, struct sg_err *err);
/* Why this rule does not match; false: it does. */
bool sg_rule_refuses(const struct sg_rule *rule, size_t operation, enum sg_trust trust,
                     const struct sg_ask *a, const char **ret_why);

/* {"tier","rule","reason",...} for people and the record; `explain` adds every tier and every rule
 * that did not match, each with its why. */
void sg_decision_put(struct sg_json *j, const struct sg_decision *d, const struct sg_ask *a,
                     bool explain);

/* SPDX-License-Identifier: Apache-2.0 */
/* From the text of a rule file to rules: whole, or an error with its place. */
#include "base/auto.h"
#include "router/read.h"
#include "base/banned.h"

extern const unsigned char sg_rules_builtin_text[];
extern const size_t sg_rules_builtin_bytes;

/* What a [[rule]] looks like while it is read. */
struct raw {
    struct sg_rule rule;
    struct sg_rf_walls walls;
    int floor, network; /* -1: not there */
};
#define IN(f)        offsetof(struct raw, f)
#define WORDS(names) names, SG_COUNT(names)
static const struct sg_rf rule_fields[] = {
    { "name", SG_RF_TEXT, IN(rule.name), NULL, 0, NULL, true },
    { "reason", SG_RF_TEXT, IN(rule.reason), NULL, 0, NULL, true },
    { "operation", SG_RF_OPERATIONS, IN(rule.operations), NULL, 0, NULL, false },
    { "trust", SG_RF_WORDS, IN(rule.trusts), WORDS(sg_trust_names), "trust level", false },
    { "needs_network", SG_RF_WORDS, IN(rule.networks), WORDS(sg_need_net_names), "network", false },
    { "needs_files", SG_RF_WORDS, IN(rule.files), WORDS(sg_need_files_names), "file need", false },
    { "wants", SG_RF_WORDS, IN(rule.abilities), WORDS(sg_ability_names), "capability", false },
    { "min_parallel", SG_RF_COUNT, IN(rule.min_parallel), NULL, 0, NULL, false },
    { "min_seconds", SG_RF_COUNT, IN(rule.min_seconds), NULL, 0, NULL, false },
    { "max_seconds", SG_RF_COUNT, IN(rule.max_seconds), NULL, 0, NULL, false },
    { "org", SG_RF_TEXTS, IN(rule.orgs), NULL, 0, NULL, false },
    { "agent", SG_RF_TEXTS, IN(rule.agents), NULL, 0, NULL, false },
    { "tiers", SG_RF_WALLS, IN(walls), WORDS(sg_wall_names), "tier", true },
    { "floor", SG_RF_WORD, IN(floor), WORDS(sg_wall_names), "tier", false },
    { "network", SG_RF_WORD, IN(network), WORDS(sg_need_net_names), "network", false },
    { "approval", SG_RF_BOOL, IN(rule.needs_approval), NULL, 0, NULL, false },
};
#undef IN

static const struct sg_rf agent_fields[] = {
    { "tier", SG_RF_WALLS, offsetof(struct sg_agent, walls), WORDS(sg_wall_names), "tier", true },
};
_Static_assert(offsetof(struct sg_agent, wall_count) - offsetof(struct sg_agent, walls) ==
                   offsetof(struct sg_rf_walls, n),
               "an agent's walls are read in place");

static void rule_done(struct sg_rule *r)
{
    free(r->name);
    free(r->reason);
    sg_texts_free(r->orgs);
    sg_texts_free(r->agents);
}

static int check_floor(const struct sg_rules_reader *x, const struct sg_toml *t, struct raw *raw)
{
    struct sg_rule *r = &raw->rule;
    r->floor = raw->walls.v[0];
    for (unsigned i = 0; i < raw->walls.n; i++) {
        r->walls[i] = raw->walls.v[i];
        if (sg_wall_strength(r->walls[i]) < sg_wall_strength(r->floor))
            r->floor = r->walls[i];
    }
    r->wall_count = raw->walls.n;
    if (raw->floor < 0)
        return 0;
    if (sg_wall_strength((enum sg_wall)raw->floor) > sg_wall_strength(r->floor))
        return sg_rf_fail(x, sg_toml_find(t, "tiers"), "tier %s is below the floor, %s",
                          sg_wall_names[r->floor], sg_wall_names[raw->floor]);
    r->floor = (enum sg_wall)raw->floor;
    r->has_floor = true;
    return 0;
}

static int check_rule(const struct sg_rules_reader *x, const struct sg_toml *t, struct raw *raw)
{
    struct sg_rule *r = &raw->rule;
    for (size_t i = 0; i < x->rules->rule_count; i++)
        if (strcmp(x->rules->rules[i].name, r->name) == 0)
            return sg_rf_fail(x, sg_toml_find(t, "name"), "there is a rule %s already",
                              sg_quote(r->name).s);
    if (r->max_seconds && r->max_seconds < r->min_seconds)
        return sg_rf_fail(x, sg_toml_find(t, "max_seconds"), "max_seconds is below min_seconds");
    r->has_network = raw->network >= 0;
    r->network = r->has_network ? (enum sg_need_net)raw->network : SG_NEED_NET_NONE;
    return check_floor(x, t, raw);
}

static int read_rule(const struct sg_rules_reader *x, const struct sg_toml *t)
{
    struct raw raw = { .floor = -1, .network = -1 };
    if (sg_rf_read(x, t, rule_fields, SG_COUNT(rule_fields), &raw) < 0 ||
        check_rule(x, t, &raw) < 0) {
        rule_done(&raw.rule);
        return -1;
    }
    x->rules->rules[x->rules->rule_count++] = raw.rule;
    return 0;
}

static int read_rules(const struct sg_rules_reader *x, const struct sg_toml *t)
{
    if (t->type != SG_TOML_ARRAY)
        return sg_rf_fail(x, t, "rules are written as [[rule]]");
    const size_t n = sg_rf_count(t);
    if (n > SG_RULES_MAX)
        return sg_rf_fail(x, t, "over %d rules", SG_RULES_MAX);
    x->rules->rules = sg_alloc((n + 1) * sizeof *x->rules->rules);
    for (const struct sg_toml *v = t->first; v; v = v->next)
        if (read_rule(x, v) < 0)
            return -1;
    return 0;
}

/* name = "trust level" */
static int read_operations(const struct sg_rules_reader *x, const struct sg_toml *t)
{
    if (t->type != SG_TOML_TABLE)
        return sg_rf_fail(x, t, "operations are a table, not %s", sg_toml_type_name(t->type));
    for (const struct sg_toml *v = t->first; v; v = v->next) {
        struct sg_operation *o = &x->rules->operations[x->rules->operation_count];
        if (x->rules->operation_count == SG_RULES_OPERATIONS)
            return sg_rf_fail(x, v, "over %d operations", SG_RULES_OPERATIONS);
        if (!v->key.n || v->key.n > 64 || memchr(v->key.p, '\0', v->key.n))
            return sg_rf_fail(x, v, "a name of 1 to 64 bytes is wanted here");
        if (v->type != SG_TOML_STRING)
            return sg_rf_fail(x, v, "an operation's trust level is a string, not %s",
                              sg_toml_type_name(v->type));
        int trust = sg_router_word(WORDS(sg_trust_names), "trust level", v->text, x->err);
        if (trust < 0)
            return sg_rf_at(x, v);
        o->name = sg_printf("%.*s", (int)v->key.n, v->key.p);
        o->trust = (enum sg_trust)trust;
        x->rules->operation_count++;
    }
    for (size_t i = 0; i < x->rules->operation_count; i++)
        if (strcmp(x->rules->operations[i].name, SG_OPERATION_DEFAULT) == 0)
            return 0;
    return sg_rf_fail(x, t, "%s is missing here: what a sandbox is for unless its maker says",
                      SG_OPERATION_DEFAULT);
}

/* [agents.NAME] tier = ... */
static int read_agents(const struct sg_rules_reader *x, const struct sg_toml *t)
{
    if (t->type != SG_TOML_TABLE)
        return sg_rf_fail(x, t, "agents are tables: [agents.NAME]");
    const size_t n = sg_rf_count(t);
    if (n > SG_RULES_AGENTS)
        return sg_rf_fail(x, t, "over %d agents", SG_RULES_AGENTS);
    x->rules->agents = sg_alloc((n + 1) * sizeof *x->rules->agents);
    for (const struct sg_toml *v = t->first; v; v = v->next) {
        struct sg_agent *a = &x->rules->agents[x->rules->agent_count];
        if (sg_rf_read(x, v, agent_fields, SG_COUNT(agent_fields), a) < 0)
            return -1;
        a->name = sg_printf("%.*s", (int)v->key.n, v->key.p);
        x->rules->agent_count++;
    }
    return 0;
}

/* In this order: rules name operations. */
static const struct {
    const char *key;
    int (*read)(const struct sg_rules_reader *x, const struct sg_toml *t);
    bool is_required;
} sections[] = {
    { "version", sg_rf_version, true },
    { "operations", read_operations, true },
    { "rule", read_rules, true },
    { "agents", read_agents, false },
};

static int read_all(const struct sg_rules_reader *x, const struct sg_toml *root)
{
    for (const struct sg_toml *t = root->first; t; t = t->next) {
        size_t i = 0;
        while (i < SG_COUNT(sections) && !sg_str_is(t->key, sections[i].key))
            i++;
        if (i == SG_COUNT(sections))
            return sg_rf_fail(x, t, "unknown key %s", sg_quote_str(t->key).s);
    }
    for (size_t i = 0; i < SG_COUNT(sections); i++) {
        const struct sg_toml *t = sg_toml_find(root, sections[i].key);
        if (!t && sections[i].is_required)
            return sg_fail(x->err, SG_INVALID, "%s:1:1: %s is missing", x->source, sections[i].key);
        if (t && sections[i].read(x, t) < 0)
            return -1;
    }
    return 0;
}

struct sg_rules *sg_rules_parse(struct sg_str text, const char *source, struct sg_err *err)
{
    if (text.n > SG_RULES_MAX_BYTES) {
        (void)sg_fail(err, SG_EXHAUSTED, "%s is over %d bytes", source, SG_RULES_MAX_BYTES);
        return NULL;
    }
    sg_auto_toml doc = sg_toml_parse(text, err);
    if (!doc) {
        (void)sg_wrap(err, "%s", source);
        return NULL;
    }
    struct sg_rules *r = sg_new(struct sg_rules);
    const struct sg_rules_reader x = { r, source, err };
    r->source = sg_strdup(source);
    sg_rf_revision(text, r->revision);
    if (read_all(&x, sg_toml_root(doc)) < 0) {
        sg_rules_free(r);
        return NULL;
    }
    return r;
}

struct sg_rules *sg_rules_builtin(struct sg_err *err)
{
    return sg_rules_parse(
        (struct sg_str) { (const char *)sg_rules_builtin_text, sg_rules_builtin_bytes }, "built in",
        err);
}

void sg_rules_free(struct sg_rules *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->rule_count; i++)
        rule_done(&r->rules[i]);
    for (size_t i = 0; i < r->operation_count; i++)
        free(r->operations[i].name);
    for (size_t i = 0; i < r->agent_count; i++)
        free(r->agents[i].name);
    free(r->rules);
    free(r->agents);
    free(r->source);
    free(r);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* From the text of an interceptor file to rules: whole, or an error with its place. */
#include "base/auto.h"
#include "router/intercept.h"
#include "router/read.h"
#include "base/banned.h"

extern const unsigned char sg_intercept_builtin_text[];
extern const size_t sg_intercept_builtin_bytes;

#define LIFETIME_MS 3600000u
#define APPROVAL_MS 300000u

/* What a [[rule]] looks like while it is read. */
struct raw {
    struct sg_intercept_rule rule;
    int action, then; /* -1: not there */
    const struct sg_toml *arguments;
};
#define IN(f)        offsetof(struct raw, f)
#define WORDS(names) names, SG_COUNT(names)
static const struct sg_rf rule_fields[] = {
    { "name", SG_RF_TEXT, IN(rule.name), NULL, 0, NULL, true },
    { "reason", SG_RF_TEXT, IN(rule.reason), NULL, 0, NULL, true },
    { "tool", SG_RF_TEXTS, IN(rule.tools), NULL, 0, NULL, false },
    { "path", SG_RF_TEXTS, IN(rule.paths), NULL, 0, NULL, false },
    { "org", SG_RF_TEXTS, IN(rule.orgs), NULL, 0, NULL, false },
    { "arguments", SG_RF_NODE, IN(arguments), NULL, 0, NULL, false },
    { "action", SG_RF_WORD, IN(action), WORDS(sg_intercept_action_names), "action", true },
    { "then", SG_RF_WORD, IN(then), WORDS(sg_intercept_action_names), "action", false },
};
#undef IN

#define IN(f) offsetof(struct sg_intercept_rules, f)
static const struct sg_rf sandbox_fields[] = {
    { "operation", SG_RF_TEXT, IN(sandbox.operation), NULL, 0, NULL, false },
    { "template", SG_RF_TEXT, IN(sandbox.template), NULL, 0, NULL, false },
    { "workspace", SG_RF_TEXT, IN(sandbox.workspace), NULL, 0, NULL, false },
    { "shell", SG_RF_TEXT, IN(sandbox.shell), NULL, 0, NULL, false },
    { "lifetime", SG_RF_TIME, IN(sandbox.lifetime_ms), NULL, 0, NULL, false },
    { "approval_timeout", SG_RF_TIME, IN(sandbox.approval_ms), NULL, 0, NULL, false },
    { "copy", SG_RF_BOOL, IN(sandbox.copies), NULL, 0, NULL, false },
};
static const struct sg_rf argument_fields[] = {
    { "command", SG_RF_TEXTS, IN(commands), NULL, 0, NULL, true },
    { "path", SG_RF_TEXTS, IN(paths), NULL, 0, NULL, true },
};
#undef IN

struct sections {
    const struct sg_toml *version, *arguments, *sandbox, *rule;
};
#define IN(f) offsetof(struct sections, f)
static const struct sg_rf file_fields[] = {
    { "version", SG_RF_NODE, IN(version), NULL, 0, NULL, true },
    { "arguments", SG_RF_NODE, IN(arguments), NULL, 0, NULL, true },
    { "sandbox", SG_RF_NODE, IN(sandbox), NULL, 0, NULL, false },
    { "rule", SG_RF_NODE, IN(rule), NULL, 0, NULL, true },
};
#undef IN

static void rule_done(struct sg_intercept_rule *r)
{
    free(r->name);
    free(r->reason);
    sg_texts_free(r->tools);
    sg_texts_free(r->paths);
    sg_texts_free(r->orgs);
    for (size_t i = 0; i < r->argument_count; i++) {
        free(r->arguments[i].name);
        sg_texts_free(r->arguments[i].patterns);
    }
}

/* ---- a rule ---- */

static int read_arguments(const struct sg_rules_reader *x, const struct sg_toml *t,
                          struct sg_intercept_rule *r)
{
    if (!t)
        return 0;
    if (t->type != SG_TOML_TABLE)
        return sg_rf_fail(x, t, "arguments are a table of patterns, not %s",
                          sg_toml_type_name(t->type));
    for (const struct sg_toml *v = t->first; v; v = v->next) {
        if (r->argument_count == SG_INTERCEPT_ARGUMENTS_MAX)
            return sg_rf_fail(x, v, "over %d arguments", SG_INTERCEPT_ARGUMENTS_MAX);
        if (!v->key.n || memchr(v->key.p, '\0', v->key.n))
            return sg_rf_fail(x, v, "the name of an argument is wanted here");
        struct sg_intercept_argument *a = &r->arguments[r->argument_count++];
        a->name = sg_printf("%.*s", (int)v->key.n, v->key.p);
        if (sg_rf_texts(x, v, &a->patterns) < 0)
            return -1;
    }
    return 0;
}

/* A pattern that is no absolute path, and does not begin with a star, would match none. */
static int check_paths(const struct sg_rules_reader *x, const struct sg_toml *t,
                       const struct sg_intercept_rule *r)
{
    for (char **p = r->paths; p && *p; p++)
        if ((*p)[0] != '/' && strncmp(*p, "**", 2) != 0)
            return sg_rf_fail(x, sg_toml_find(t, "path"),
                              "%s matches no path: begin it with '/' or '**'", sg_quote(*p).s);
    return 0;
}

static int check_action(const struct sg_rules_reader *x, const struct sg_toml *t, struct raw *raw)
{
    struct sg_intercept_rule *r = &raw->rule;
    r->action = (enum sg_intercept_action)raw->action;
    r->then = SG_INTERCEPT_SANDBOX;
    if (raw->then < 0)
        return 0;
    if (r->action != SG_INTERCEPT_APPROVE)
        return sg_rf_fail(x, sg_toml_find(t, "then"), "then is what follows an approval");
    r->then = (enum sg_intercept_action)raw->then;
    if (r->then != SG_INTERCEPT_ALLOW && r->then != SG_INTERCEPT_SANDBOX)
        return sg_rf_fail(x, sg_toml_find(t, "then"), "then is \"allow\" or \"sandbox\"");
    return 0;
}

static int check_name(const struct sg_rules_reader *x, const struct sg_toml *t,
                      const struct sg_intercept_rules *all, const struct sg_intercept_rule *r)
{
    for (size_t i = 0; i < all->rule_count; i++)
        if (strcmp(all->rules[i].name, r->name) == 0)
            return sg_rf_fail(x, sg_toml_find(t, "name"), "there is a rule %s already",
                              sg_quote(r->name).s);
    return 0;
}

static int read_rule(const struct sg_rules_reader *x, const struct sg_toml *t,
                     struct sg_intercept_rules *all)
{
    struct raw raw = { .action = -1, .then = -1 };
    if (sg_rf_read(x, t, rule_fields, SG_COUNT(rule_fields), &raw) < 0 ||
        read_arguments(x, raw.arguments, &raw.rule) < 0 || check_action(x, t, &raw) < 0 ||
        check_paths(x, t, &raw.rule) < 0 || check_name(x, t, all, &raw.rule) < 0) {
        rule_done(&raw.rule);
        return -1;
    }
    all->rules[all->rule_count++] = raw.rule;
    return 0;
}

/* ---- the file ---- */

static int read_rules(const struct sg_rules_reader *x, const struct sg_toml *t,
                      struct sg_intercept_rules *all)
{
    if (t->type != SG_TOML_ARRAY)
        return sg_rf_fail(x, t, "rules are written as [[rule]]");
    const size_t n = sg_rf_count(t);
    if (n > SG_INTERCEPT_RULES_MAX)
        return sg_rf_fail(x, t, "over %d rules", SG_INTERCEPT_RULES_MAX);
    all->rules = sg_alloc((n + 1) * sizeof *all->rules);
    for (const struct sg_toml *v = t->first; v; v = v->next)
        if (read_rule(x, v, all) < 0)
            return -1;
    return 0;
}

static int read_sandbox(const struct sg_rules_reader *x, const struct sg_toml *t,
                        struct sg_intercept_rules *all)
{
    char plain[SG_INTERCEPT_PATH_MAX];
    all->sandbox.copies = true;
    all->sandbox.lifetime_ms = LIFETIME_MS;
    all->sandbox.approval_ms = APPROVAL_MS;
    if (t && sg_rf_read(x, t, sandbox_fields, SG_COUNT(sandbox_fields), all) < 0)
        return -1;
    if (!all->sandbox.workspace)
        all->sandbox.workspace = sg_strdup("/workspace");
    if (!all->sandbox.shell)
        all->sandbox.shell = sg_strdup("/bin/bash");
    if (!all->sandbox.operation)
        all->sandbox.operation = sg_strdup(SG_OPERATION_DEFAULT);
    if (all->sandbox.workspace[0] != '/' || !all->sandbox.workspace[1] ||
        sg_path_plain("/", all->sandbox.workspace, plain, x->err) < 0 ||
        strcmp(plain, all->sandbox.workspace) != 0)
        return sg_rf_fail(x, sg_toml_find(t, "workspace"),
                          "a plain, absolute path below / is wanted here");
    return 0;
}

static int read_all(const struct sg_rules_reader *x, const struct sg_toml *root,
                    struct sg_intercept_rules *all)
{
    struct sections s = { 0 };
    if (sg_rf_read(x, root, file_fields, SG_COUNT(file_fields), &s) < 0 ||
        sg_rf_version(x, s.version) < 0 || read_sandbox(x, s.sandbox, all) < 0 ||
        sg_rf_read(x, s.arguments, argument_fields, SG_COUNT(argument_fields), all) < 0)
        return -1;
    return read_rules(x, s.rule, all);
}

struct sg_intercept_rules *sg_intercept_parse(struct sg_str text, const char *source,
                                              struct sg_err *err)
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
    struct sg_intercept_rules *r = sg_new(struct sg_intercept_rules);
    const struct sg_rules_reader x = { NULL, source, err };
    r->source = sg_strdup(source);
    sg_rf_revision(text, r->revision);
    if (read_all(&x, sg_toml_root(doc), r) < 0) {
        sg_intercept_free(r);
        return NULL;
    }
    return r;
}

struct sg_intercept_rules *sg_intercept_builtin(struct sg_err *err)
{
    return sg_intercept_parse(
        (struct sg_str) { (const char *)sg_intercept_builtin_text, sg_intercept_builtin_bytes },
        "built in", err);
}

void sg_intercept_free(struct sg_intercept_rules *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->rule_count; i++)
        rule_done(&r->rules[i]);
    free(r->rules);
    sg_texts_free(r->commands);
    sg_texts_free(r->paths);
    free(r->sandbox.operation);
    free(r->sandbox.template);
    free(r->sandbox.workspace);
    free(r->sandbox.shell);
    free(r->source);
    free(r);
}

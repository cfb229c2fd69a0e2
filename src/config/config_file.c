/* SPDX-License-Identifier: Apache-2.0 */
/* From a TOML document to settings: every key must be known, under its own name or under one that
 * people already have in their files. */
#include <inttypes.h>
#include <stdio.h>

#include "base/hint.h"
#include "config/option.h"
#include "config/toml.h"
#include "base/banned.h"

/* [sandbox] as other tools write it. */
static const struct {
    const char *name, *section, *key;
} aliases[] = {
    { "image", "run", "template" },      { "work_dir", "run", "workdir" },
    { "memory_limit", "run", "memory" }, { "cpu_limit", "run", "cpus" },
    { "timeout", "run", "timeout" },     { "network_enabled", "run", "net" },
};

/* [daytona] as other tools write it: known, so not a mistake, and of no use here. The values are
 * secrets; they are never kept. */
static const char *const daytona_keys[] = { "daytona_api_key", "daytona_server_url",
                                            "VNC_password" };

struct context {
    struct sg_config *config;
    struct sg_origins *origins;
    const char *file;
    struct sg_err *err;
};

/* "file:line:column: ", put before what is wrong. */
static int at(const struct context *x, const struct sg_toml *t)
{
    return sg_wrap(x->err, "%s:%" PRIu32 ":%" PRIu32, x->file, t->line, t->column);
}

static bool fits(enum sg_option_type option, enum sg_toml_type value)
{
    static const unsigned accepted[SG_OPTION_TYPE_COUNT] = {
        [SG_OPTION_STRING] = 1u << SG_TOML_STRING,
        [SG_OPTION_BYTES] = 1u << SG_TOML_STRING | 1u << SG_TOML_INTEGER,
        [SG_OPTION_DURATION] = 1u << SG_TOML_STRING | 1u << SG_TOML_INTEGER | 1u << SG_TOML_FLOAT,
        [SG_OPTION_MILLI] = 1u << SG_TOML_STRING | 1u << SG_TOML_INTEGER | 1u << SG_TOML_FLOAT,
        [SG_OPTION_COUNT] = 1u << SG_TOML_STRING | 1u << SG_TOML_INTEGER,
        [SG_OPTION_BOOL] = 1u << SG_TOML_BOOL,
        [SG_OPTION_WORD] = 1u << SG_TOML_STRING | 1u << SG_TOML_BOOL,
        [SG_OPTION_SWITCH] = 1u << SG_TOML_STRING | 1u << SG_TOML_BOOL,
        [SG_OPTION_LIST] = 1u << SG_TOML_STRING, /* of one entry */
    };
    return accepted[option] >> value & 1;
}

static int set_value(const struct context *x, const struct sg_option *o, const struct sg_toml *t)
{
    if (!fits(o->type, t->type)) {
        (void)sg_fail(x->err, SG_INVALID, "%s cannot be %s", o->key, sg_toml_type_name(t->type));
        return at(x, t);
    }
    char decimal[24];
    struct sg_str text = t->text;
    if (t->type == SG_TOML_INTEGER) { /* 0x100 and +1 are integers too */
        (void)snprintf(decimal, sizeof decimal, "%" PRId64, t->integer);
        text = sg_str_of(decimal);
    }
    if (sg_option_set(o, x->config, text, x->err) < 0) {
        (void)sg_wrap(x->err, "%s", o->key);
        return at(x, t);
    }
    return 0;
}

/* [run.env] NAME = "value" */
static int set_pairs(const struct context *x, const struct sg_option *o, const struct sg_toml *t)
{
    for (const struct sg_toml *pair = t->first; pair; pair = pair->next) {
        if (pair->type != SG_TOML_STRING) {
            (void)sg_fail(x->err, SG_INVALID, "%s: a variable must be a string, not %s", o->key,
                          sg_toml_type_name(pair->type));
            return at(x, pair);
        }
        sg_auto_buf joined;
        sg_buf_init(&joined, SG_MAX_CONFIG_BYTES);
        sg_buf_add(&joined, pair->key.p, pair->key.n);
        sg_buf_add_str(&joined, "=");
        sg_buf_add(&joined, pair->text.p, pair->text.n);
        bool is_name = pair->key.n > 0 && !memchr(pair->key.p, '=', pair->key.n);
        if (!is_name)
            (void)sg_fail(x->err, SG_INVALID, "%s is not a name of a variable",
                          sg_quote_str(pair->key).s);
        struct sg_str text = { (char *)joined.p, joined.n };
        if (!is_name || sg_option_set(o, x->config, text, x->err) < 0) {
            (void)sg_wrap(x->err, "%s", o->key);
            return at(x, pair);
        }
    }
    return 0;
}

static int set_list(const struct context *x, const struct sg_option *o, const struct sg_toml *t)
{
    if (t->type == SG_TOML_TABLE && sg_str_is(t->key, "env"))
        return set_pairs(x, o, t);
    if (t->type != SG_TOML_ARRAY) {
        (void)sg_fail(x->err, SG_INVALID, "%s must be an array of strings, not %s", o->key,
                      sg_toml_type_name(t->type));
        return at(x, t);
    }
    for (const struct sg_toml *entry = t->first; entry; entry = entry->next)
        if (set_value(x, o, entry) < 0)
            return -1;
    return 0;
}

static const struct sg_option *find_alias(struct sg_str section, struct sg_str name)
{
    if (!sg_str_is(section, "sandbox"))
        return NULL;
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (sg_str_is(name, aliases[i].name))
            return sg_option_find_key(sg_str_of(aliases[i].section), sg_str_of(aliases[i].key));
    return NULL;
}

static bool is_daytona(struct sg_str section, struct sg_str name)
{
    if (!sg_str_is(section, "daytona"))
        return false;
    for (size_t i = 0; i < sizeof daytona_keys / sizeof daytona_keys[0]; i++)
        if (sg_str_is(name, daytona_keys[i]))
            return true;
    return false;
}

static int refuse_unknown(const struct context *x, struct sg_str section, const struct sg_toml *t)
{
    sg_auto_buf full;
    sg_buf_init(&full, SG_MAX_CONFIG_BYTES);
    if (section.n) {
        sg_buf_add(&full, section.p, section.n);
        sg_buf_add_str(&full, ".");
    }
    sg_buf_add(&full, t->key.p, t->key.n);
    struct sg_str word = { (const char *)full.p, full.n };
    struct sg_hint hint = { .word = word };
    for (size_t i = 0; i < sg_option_count; i++)
        if (sg_options[i].key)
            sg_hint_try(&hint, sg_options[i].key);
    (void)sg_fail(x->err, SG_INVALID, "unknown key %s%s", sg_quote_str(word).s,
                  sg_hint_text(&hint, "").s);
    return at(x, t);
}

static int set_key(const struct context *x, struct sg_str section, const struct sg_toml *t)
{
    const struct sg_option *o = sg_option_find_key(section, t->key);
    if (!o)
        o = find_alias(section, t->key);
    if (!o && is_daytona(section, t->key)) {
        x->origins->has_daytona = true;
        return 0;
    }
    if (!o)
        return refuse_unknown(x, section, t);
    if ((o->type == SG_OPTION_LIST ? set_list(x, o, t) : set_value(x, o, t)) < 0)
        return -1;
    x->origins->of[o - sg_options] =
        (struct sg_origin) { .kind = SG_FROM_FILE, .line = t->line, .file = x->file };
    return 0;
}

/* Those of the option table, and those that are read for what they were called elsewhere. */
static bool is_section(struct sg_str name)
{
    for (size_t i = 0; i < sg_option_count; i++) {
        const char *key = sg_options[i].key;
        if (key && strncmp(key, name.p, name.n) == 0 && key[name.n] == '.')
            return true;
    }
    return sg_str_is(name, "sandbox") || sg_str_is(name, "daytona");
}

int sg_config_apply_toml(struct sg_config *c, struct sg_origins *o, const char *file,
                         struct sg_str text, struct sg_err *err)
{
    struct context x = { .config = c, .origins = o, .file = file, .err = err };
    struct sg_err inner; /* begins with line and column, which belong right behind the name */
    sg_auto_toml doc = sg_toml_parse(text, &inner);
    if (!doc)
        return sg_fail(err, inner.kind, "%s:%s", file, inner.msg);
    for (const struct sg_toml *top = sg_toml_root(doc)->first; top; top = top->next) {
        if (top->type != SG_TOML_TABLE || !is_section(top->key)) {
            if (set_key(&x, (struct sg_str) { "", 0 }, top) < 0)
                return -1;
            continue;
        }
        for (const struct sg_toml *t = top->first; t; t = t->next)
            if (set_key(&x, top->key, t) < 0)
                return -1;
    }
    return 0;
}

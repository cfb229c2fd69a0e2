/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/opt.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/hint.h"
#include "base/banned.h"

struct scan {
    const struct sg_command *command;
    char **argv;
    int argc, at;
    struct sg_flags *flags;
    struct sg_err *err;
};

static void add_flag(struct scan *s, const struct sg_option *o, const char *spelled,
                     struct sg_str value)
{
    struct sg_flag *f = &s->flags->v[s->flags->n++];
    *f = (struct sg_flag) { .option = o, .value = value };
    (void)snprintf(f->spelled, sizeof f->spelled, "%s", spelled);
}

static int refuse_unknown(struct scan *s, struct sg_str spelled, struct sg_str name)
{
    struct sg_hint hint = { .word = name };
    for (size_t i = 0; i < sg_option_count; i++)
        if (sg_options[i].flag && (sg_options[i].commands & s->command->bit))
            sg_hint_try(&hint, sg_options[i].flag);
    sg_hint_try(&hint, "help");
    return sg_fail(s->err, SG_INVALID, "unknown option %s of '%s'%s; --help lists them",
                   sg_quote_str(spelled).s, s->command->name, sg_hint_text(&hint, "--").s);
}

/* The next word as the value of `spelled`. */
static int take_value(struct scan *s, const struct sg_option *o, const char *spelled)
{
    if (s->at + 1 >= s->argc)
        return sg_fail(s->err, SG_INVALID, "%s needs a value: %s", spelled, o->arg);
    add_flag(s, o, spelled, sg_str_of(s->argv[++s->at]));
    return 0;
}

static const char *switch_value(const struct sg_option *o, bool is_on)
{
    if (o->type == SG_OPTION_BOOL)
        return is_on ? "true" : "false";
    return is_on ? "on" : "off";
}

/* --name, --name=value, --name value, --no-name */
static int scan_long(struct scan *s, const char *word)
{
    const char *eq = strchr(word, '=');
    size_t n = eq ? (size_t)(eq - word) : strlen(word);
    struct sg_str name = { word + 2, n - 2 };
    if (sg_str_is(name, "help") && !eq) {
        s->flags->wants_help = true;
        return 0;
    }
    const struct sg_option *o = sg_option_find_flag(name, s->command->bit);
    bool is_negated = false;
    if (!o && name.n > 3 && memcmp(name.p, "no-", 3) == 0) {
        o = sg_option_find_flag((struct sg_str) { name.p + 3, name.n - 3 }, s->command->bit);
        is_negated = o && !sg_option_takes_argument(o) && !eq;
    }
    if (!o || (name.n != strlen(o->flag) && !is_negated))
        return refuse_unknown(s, (struct sg_str) { word, n }, name);
    char spelled[sizeof s->flags->v->spelled];
    (void)snprintf(spelled, sizeof spelled, "--%s%s", is_negated ? "no-" : "", o->flag);
    if (eq)
        add_flag(s, o, spelled, sg_str_of(eq + 1));
    else if (sg_option_takes_argument(o))
        return take_value(s, o, spelled);
    else
        add_flag(s, o, spelled, sg_str_of(switch_value(o, !is_negated)));
    return 0;
}

/* -m 1g, -m1g, -tq */
static int scan_short(struct scan *s, const char *word)
{
    for (const char *p = word + 1; *p; p++) {
        if (*p == 'h') {
            s->flags->wants_help = true;
            continue;
        }
        const struct sg_option *o = sg_option_find_letter(*p, s->command->bit);
        const char spelled[] = { '-', *p, '\0' };
        if (!o)
            return refuse_unknown(s, sg_str_of(spelled), (struct sg_str) { p, 1 });
        if (!sg_option_takes_argument(o)) {
            add_flag(s, o, spelled, sg_str_of(switch_value(o, true)));
            continue;
        }
        if (!p[1])
            return take_value(s, o, spelled);
        add_flag(s, o, spelled, sg_str_of(p + 1));
        return 0;
    }
    return 0;
}

static int check_arg_count(const struct sg_command *c, int n, struct sg_err *err)
{
    if (n < c->min_args)
        return sg_fail(err, SG_INVALID, "'%s' needs %s: sandglass %s %s", c->name,
                       c->stops_at_word ? "a command" : "an argument", c->name, c->tail);
    if (c->max_args == 0 && n > 0)
        return sg_fail(err, SG_INVALID, "'%s' takes no arguments: sandglass %s %s", c->name,
                       c->name, c->tail);
    if (c->max_args >= 0 && n > c->max_args)
        return sg_fail(err, SG_INVALID, "'%s' takes no more than %d argument%s: sandglass %s %s",
                       c->name, c->max_args, c->max_args == 1 ? "" : "s", c->name, c->tail);
    return 0;
}

int sg_flags_scan(const struct sg_command *command, int argc, char **argv, struct sg_flags *ret,
                  struct sg_err *err)
{
    size_t letters = 0; /* a word of switches holds one flag a letter */
    for (int i = 0; i < argc; i++)
        letters += strlen(argv[i]);
    sg_auto_flags flags = { .v = sg_alloc((letters + 1) * sizeof *flags.v),
                            .args = sg_alloc(((size_t)argc + 1) * sizeof *flags.args) };
    struct scan s = { .command = command, .argv = argv, .argc = argc, .flags = &flags, .err = err };
    bool has_ended = false;
    for (; s.at < argc; s.at++) {
        char *word = argv[s.at];
        bool is_flag = !has_ended && word[0] == '-' && word[1];
        if (is_flag && strcmp(word, "--") == 0) {
            has_ended = true;
        } else if (is_flag) {
            if ((word[1] == '-' ? scan_long(&s, word) : scan_short(&s, word)) < 0)
                return -1;
        } else {
            flags.args[flags.arg_count++] = word;
            has_ended = has_ended || command->stops_at_word;
        }
    }
    if (!flags.wants_help && check_arg_count(command, flags.arg_count, err) < 0)
        return -1;
    *ret = flags;
    flags = (struct sg_flags) { 0 };
    return 0;
}

void sg_flags_done(struct sg_flags *f)
{
    free(f->v);
    free(f->args);
    *f = (struct sg_flags) { 0 };
}

char *sg_flags_config_file(const struct sg_flags *f)
{
    for (size_t i = f->n; i-- > 0;)
        if (strcmp(f->v[i].spelled, "--config") == 0)
            return strndup(f->v[i].value.p, f->v[i].value.n);
    return NULL;
}

int sg_flags_apply(const struct sg_flags *f, struct sg_config *c, struct sg_origins *o,
                   struct sg_err *err)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct sg_flag *flag = &f->v[i];
        if (sg_option_set(flag->option, c, flag->value, err) < 0)
            return sg_wrap(err, "%s", flag->spelled);
        o->of[flag->option - sg_options] = (struct sg_origin) { .kind = SG_FROM_FLAG };
    }
    return 0;
}

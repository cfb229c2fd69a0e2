/* SPDX-License-Identifier: Apache-2.0 */
/* Help fits a screen: usage, one sentence, options, two examples. */
#include "cli/help.h"

#include <stdio.h>

#include "base/json.h"
#include "cli/out.h"
#include "base/banned.h"

enum { MAX_HELP = 256 * 1024, NAME_WIDTH = 18, FLAG_WIDTH = 30 };

const struct sg_command *sg_help_find(const char *first, const char *second, int *ret_used)
{
    size_t n = strlen(first);
    for (size_t i = 0; i < sg_command_count; i++) {
        const char *name = sg_commands[i].name;
        if (strcmp(name, first) == 0) {
            *ret_used = 1;
            return &sg_commands[i];
        }
        if (second && strncmp(name, first, n) == 0 && name[n] == ' ' &&
            strcmp(name + n + 1, second) == 0) {
            *ret_used = 2;
            return &sg_commands[i];
        }
    }
    return NULL;
}

bool sg_help_is_group(const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i < sg_command_count; i++)
        if (strncmp(sg_commands[i].name, word, n) == 0 && sg_commands[i].name[n] == ' ')
            return true;
    return false;
}

static void add_command_lines(struct sg_buf *out, const char *group)
{
    const size_t n = strlen(group);
    for (size_t i = 0; i < sg_command_count; i++) {
        const struct sg_command *c = &sg_commands[i];
        if (strncmp(c->name, group, n) == 0 && c->name[n] == ' ')
            sg_buf_addf(out, "  %-*s %s\n", NAME_WIDTH, c->name, c->summary);
    }
}

/* Commands of two words, as one line of the overview: it has to fit a screen. */
static const struct {
    const char *word, *summary;
} groups[] = {
    { "template", "Templates that sandboxes start from" },
    { "keys", "Keys that speak for an organisation" },
    { "orgs", "Organisations, their quotas and budgets" },
    { "snapshots", "Files of sandboxes that were kept" },
    { "volume", "Directories that outlive sandboxes" },
    { "secrets", "Secrets of an organisation, write-only" },
    { "snapshots", "Snapshots of sandboxes" },
    { "net", "What sandboxes may reach, and what they did" },
    { "audit", "The record of who did what" },
    { "tls", "A certificate for the service" },
};

/* Returns the length of the group's word, or 0. */
static size_t group_of(const char *name, const char **ret_summary)
{
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        const size_t n = strlen(groups[i].word);
        if (strncmp(name, groups[i].word, n) == 0 && name[n] == ' ') {
            *ret_summary = groups[i].summary;
            return n;
        }
    }
    return 0;
}

static void add_overview(struct sg_buf *out)
{
    for (size_t i = 0; i < sg_command_count; i++) {
        const char *name = sg_commands[i].name, *summary;
        const size_t n = group_of(name, &summary);
        const bool is_first = i == 0 || strncmp(name, sg_commands[i - 1].name, n + 1) != 0;
        const bool is_last =
            i + 1 == sg_command_count || strncmp(name, sg_commands[i + 1].name, n + 1) != 0;
        if (!n) {
            sg_buf_addf(out, "  %-*s %s\n", NAME_WIDTH, name, sg_commands[i].summary);
            continue;
        }
        if (is_first)
            sg_buf_addf(out, "  %-*.*s %s: ", NAME_WIDTH, (int)n, name, summary);
        sg_buf_addf(out, "%s%s", name + n + 1, is_last ? ".\n" : ", ");
    }
}

int sg_help_overview(void)
{
    sg_auto_buf out;
    sg_buf_init(&out, MAX_HELP);
    sg_buf_add_str(&out, "Sandglass runs code that nobody trusts, on a machine that you own.\n\n"
                         "Usage: sandglass <command> [options]\nCommands:\n");
    add_overview(&out);
    sg_buf_add_str(&out,
                   "\nTry first:\n"
                   "  sandglass run -- python3 -c 'print(1)'\n\n"
                   "'sandglass help <command>' explains a command, sandglass(1) all of it.\n");
    return sg_cli_print(&out);
}

int sg_help_group(const char *word)
{
    sg_auto_buf out;
    sg_buf_init(&out, MAX_HELP);
    sg_buf_addf(&out, "Usage: sandglass %s <command> [options]\n\nCommands:\n", word);
    add_command_lines(&out, word);
    return sg_cli_print(&out);
}

static void add_option_line(struct sg_buf *out, const struct sg_option *o, bool has_default)
{
    char flag[64];
    const char *arg = sg_option_takes_argument(o) ? o->arg : "";
    if (o->type == SG_OPTION_SWITCH)
        (void)snprintf(flag, sizeof flag, "--%s, --no-%s", o->flag, o->flag);
    else
        (void)snprintf(flag, sizeof flag, "--%s%s%s", o->flag, *arg ? " " : "", arg);
    char letter[5] = "    ";
    if (o->letter)
        (void)snprintf(letter, sizeof letter, "-%c, ", o->letter);
    sg_buf_addf(out, "  %s%-*s %s", letter, FLAG_WIDTH - 6, flag, o->help);
    if (has_default && o->fallback && *o->fallback && sg_option_takes_argument(o))
        sg_buf_addf(out, " [%s]", o->fallback);
    sg_buf_add_str(out, "\n");
}

static void add_command(struct sg_buf *out, const struct sg_command *c)
{
    sg_buf_addf(out, "Usage: sandglass %s %s\n\n%s\n\nOptions:\n", c->name, c->tail, c->summary);
    for (size_t i = 0; i < sg_option_count; i++)
        if (sg_options[i].flag && (sg_options[i].commands & c->bit))
            add_option_line(out, &sg_options[i], !c->is_client || !sg_options[i].key);
    sg_buf_addf(out, "  -h, %-*s %s\n\nExamples:\n", FLAG_WIDTH - 6, "--help", "print this");
    for (size_t i = 0; i < sizeof c->examples / sizeof c->examples[0]; i++)
        if (c->examples[i])
            sg_buf_addf(out, "  sandglass %s\n", c->examples[i]);
}

int sg_help_command(const struct sg_command *command)
{
    sg_auto_buf out;
    sg_buf_init(&out, MAX_HELP);
    add_command(&out, command);
    return sg_cli_print(&out);
}

static void option_json(struct sg_json *j, const struct sg_option *o)
{
    const char letter[] = { o->letter, '\0' };
    const struct {
        const char *name, *value;
    } fields[] = {
        { "key", o->key },
        { "flag", o->flag },
        { "letter", o->letter ? letter : NULL },
        { "environment", o->env },
        { "argument", o->flag && sg_option_takes_argument(o) ? o->arg : NULL },
        { "default", o->fallback },
        { "help", o->help },
    };
    sg_json_open(j, '{');
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        sg_json_key(j, fields[i].name);
        sg_json_str(j, fields[i].value);
    }
    sg_json_key(j, "words");
    sg_json_open(j, '[');
    for (const struct sg_word *w = o->words; w && w->text; w++)
        if (!w->is_alias)
            sg_json_str(j, w->text);
    sg_json_close(j, ']');
    sg_json_close(j, '}');
}

static void command_json(struct sg_json *j, const struct sg_command *c)
{
    sg_json_open(j, '{');
    sg_json_key(j, "name");
    sg_json_str(j, c->name);
    sg_json_key(j, "usage");
    sg_json_str(j, c->tail);
    sg_json_key(j, "summary");
    sg_json_str(j, c->summary);
    sg_json_key(j, "flags");
    sg_json_open(j, '[');
    for (size_t i = 0; i < sg_option_count; i++)
        if (sg_options[i].flag && (sg_options[i].commands & c->bit))
            sg_json_str(j, sg_options[i].flag);
    sg_json_close(j, ']');
    sg_json_close(j, '}');
}

/* The tables themselves, for tests and tools. */
static int print_json(void)
{
    sg_auto_buf out;
    sg_buf_init(&out, MAX_HELP);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "commands");
    sg_json_open(&j, '[');
    for (size_t i = 0; i < sg_command_count; i++)
        command_json(&j, &sg_commands[i]);
    sg_json_close(&j, ']');
    sg_json_key(&j, "options");
    sg_json_open(&j, '[');
    for (size_t i = 0; i < sg_option_count; i++)
        option_json(&j, &sg_options[i]);
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    sg_buf_add_str(&out, "\n");
    return sg_cli_print(&out);
}

int sg_cmd_help(struct sg_cli *cli)
{
    int used = 0;
    const struct sg_command *c =
        cli->arg_count ? sg_help_find(cli->args[0], cli->args[1], &used) : NULL;
    bool is_group = cli->arg_count == 1 && sg_help_is_group(cli->args[0]);
    if (used != cli->arg_count && !is_group) {
        struct sg_err err;
        (void)sg_fail(&err, SG_INVALID, "no help on %s: 'sandglass help' lists the commands",
                      sg_quote(cli->args[cli->arg_count - 1]).s);
        return sg_cli_fail(cli, &err);
    }
    if (cli->config.json)
        return print_json();
    if (is_group)
        return sg_help_group(cli->args[0]);
    return c ? sg_help_command(c) : sg_help_overview();
}

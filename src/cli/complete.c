/* SPDX-License-Identifier: Apache-2.0 */
/* Bash and zsh get one function of three `case`s: the values of an option, the flags of a command,
 * the words of a command. Fish gets one `complete` line a flag. Names of templates are asked of
 * `sandglass template list --names` when they are needed, since only it knows them. */
#include "cli/complete.h"

#include <stdio.h>

#include "cli/cmd.h"
#include "base/banned.h"

#define LIST_TEMPLATES "sandglass template list --names 2>/dev/null"
#define LIST_STORED    LIST_TEMPLATES " | grep -vx host" /* `host` cannot be removed */
#define LIST_SANDBOXES "sandglass ps --ids 2>/dev/null"

/* The shell command that knows the words, or NULL: they are words themselves. */
static const char *words_command(const struct sg_command *c)
{
    return strcmp(c->words, "@templates") == 0   ? LIST_STORED
           : strcmp(c->words, "@sandboxes") == 0 ? LIST_SANDBOXES
                                                 : NULL;
}

static bool is_taken(const struct sg_option *o, const struct sg_command *c)
{
    return o->flag && (o->commands & c->bit);
}

static void add_words(struct sg_buf *out, const struct sg_word *words)
{
    const char *space = "";
    for (const struct sg_word *w = words; w->text; w++)
        if (!w->is_alias) {
            sg_buf_addf(out, "%s%s", space, w->text);
            space = " ";
        }
}

static bool names_template(const struct sg_option *o)
{
    return o->arg && strcmp(o->arg, "TEMPLATE") == 0;
}

static bool names_file(const struct sg_option *o)
{
    return o->arg && (strcmp(o->arg, "FILE") == 0 || sg_starts_with(o->arg, "SRC:"));
}

/* "--memory|-m" */
static void add_pattern(struct sg_buf *out, const struct sg_option *o)
{
    sg_buf_addf(out, "        --%s", o->flag);
    if (o->letter)
        sg_buf_addf(out, "|-%c", o->letter);
    sg_buf_add_str(out, ") ");
}

static void add_value_cases(struct sg_buf *out)
{
    for (size_t i = 0; i < sg_option_count; i++) {
        const struct sg_option *o = &sg_options[i];
        if (!o->flag || !sg_option_takes_argument(o))
            continue;
        add_pattern(out, o);
        if (o->words) {
            sg_buf_add_str(out, "words=\"");
            add_words(out, o->words);
            sg_buf_add_str(out, "\" ;;\n");
        } else if (names_template(o)) {
            sg_buf_add_str(out, "case \"$current\" in */*) kind=files ;; "
                                "*) words=\"$(" LIST_TEMPLATES ")\" ;; esac ;;\n");
        } else {
            sg_buf_addf(out, "%s ;;\n", names_file(o) ? "kind=files" : "kind=nothing");
        }
    }
}

/* First words of commands, each once; or the second words of those that begin with `group`. */
static void add_command_words(struct sg_buf *out, const char *group)
{
    const char *previous = "", *space = "";
    size_t previous_n = 0, group_n = group ? strlen(group) : 0;
    for (size_t i = 0; i < sg_command_count; i++) {
        const char *name = sg_commands[i].name;
        size_t n = strcspn(name, " ");
        if (group && n == group_n && memcmp(name, group, n) == 0 && name[n])
            sg_buf_addf(out, "%s%s", space, name + n + 1);
        else if (!group && (n != previous_n || memcmp(name, previous, n) != 0))
            sg_buf_addf(out, "%s%.*s", space, (int)n, name);
        else
            continue;
        space = " ";
        previous = name;
        previous_n = n;
    }
}

/* "template) words="list build" ;;" for every first word that needs a second one. */
static void add_group_cases(struct sg_buf *out)
{
    const char *previous = "";
    for (size_t i = 0; i < sg_command_count; i++) {
        char group[32];
        size_t n = strcspn(sg_commands[i].name, " ");
        if (!sg_commands[i].name[n])
            continue;
        (void)snprintf(group, sizeof group, "%.*s", (int)n, sg_commands[i].name);
        if (strncmp(previous, group, n) == 0 && previous[n] == ' ')
            continue;
        sg_buf_addf(out, "        %s) words=\"", group);
        add_command_words(out, group);
        sg_buf_add_str(out, "\" ;;\n");
        previous = sg_commands[i].name;
    }
}

/* The commands, as words of `help`. */
static void add_help_words(struct sg_buf *out)
{
    sg_buf_add_str(out, "\n            if [ \"$position\" -eq 2 ]; then words=\"");
    add_command_words(out, NULL);
    sg_buf_add_str(out, "\"; else case \"$second\" in\n");
    add_group_cases(out);
    sg_buf_add_str(out, "            esac; fi");
}

/* Quoted patterns of `case "$first $second" in`: the second word of a one-word command is free. */
static void add_flag_cases(struct sg_buf *out)
{
    for (size_t i = 0; i < sg_command_count; i++) {
        const struct sg_command *c = &sg_commands[i];
        sg_buf_addf(out, "        \"%s%s) flags=\"--help", c->name,
                    strchr(c->name, ' ') ? "\"" : " \"*");
        for (size_t k = 0; k < sg_option_count; k++) {
            const struct sg_option *o = &sg_options[k];
            if (is_taken(o, c))
                sg_buf_addf(out, " --%s", o->flag);
            if (is_taken(o, c) && o->type == SG_OPTION_SWITCH)
                sg_buf_addf(out, " --no-%s", o->flag);
        }
        sg_buf_add_str(out, "\"");
        if (c->words)
            sg_buf_addf(out, words_command(c) ? " words=\"$(%s)\"" : " words=\"%s\"",
                        words_command(c) ? words_command(c) : c->words);
        if (c->stops_at_word)
            sg_buf_add_str(out, " kind=command");
        if (strstr(c->tail, "FILE") || strstr(c->tail, "SRC"))
            sg_buf_add_str(out, " kind=arguments");
        if (c->run == sg_cmd_help)
            add_help_words(out);
        sg_buf_add_str(out, " ;;\n");
    }
}

/* The part that bash and zsh share; `first`, `second`, `previous` and `position` are set before,
 * and `words`, `flags`, `kind` are what it finds. */
static void add_search(struct sg_buf *out)
{
    sg_buf_add_str(out, "    if [ \"$position\" -eq 1 ]; then\n        words=\"");
    add_command_words(out, NULL);
    sg_buf_add_str(out, "\" flags=\"--help --version\"\n    else\n"
                        "        if [ \"$position\" -eq 2 ]; then case \"$first\" in\n");
    add_group_cases(out);
    sg_buf_add_str(out, "        esac; fi\n        case \"$previous\" in\n");
    add_value_cases(out);
    sg_buf_add_str(out, "        *) case \"$first $second\" in\n");
    add_flag_cases(out);
    sg_buf_add_str(out, "        esac ;;\n        esac\n    fi\n");
}

/* Flags whose value is the next word: "--memory|-m|--cpus". */
static void add_value_pattern(struct sg_buf *out)
{
    const char *bar = "";
    for (size_t i = 0; i < sg_option_count; i++) {
        const struct sg_option *o = &sg_options[i];
        if (!o->flag || !sg_option_takes_argument(o))
            continue;
        sg_buf_addf(out, "%s--%s", bar, o->flag);
        if (o->letter)
            sg_buf_addf(out, "|-%c", o->letter);
        bar = "|";
    }
}

/* Leaves in `i` where the command inside begins, or COMP_CWORD. Bash makes words of their own of
 * "=" and ":". */
static void add_bash_walk(struct sg_buf *out)
{
    sg_buf_add_str(out, "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
                        "        case \"${COMP_WORDS[i]}\" in\n"
                        "        --) ((i++)); has_ended=1; break ;;\n"
                        "        =|:) ((i++)) ;;\n"
                        "        ");
    add_value_pattern(out);
    sg_buf_add_str(out, ") ((i++)); if [ \"${COMP_WORDS[i]}\" = = ]; then ((i++)); fi ;;\n"
                        "        -*) ;;\n"
                        "        *) if [ \"$first\" = run ]; then has_ended=1; break; fi ;;\n"
                        "        esac\n"
                        "    done\n"
                        "    if [ -n \"$has_ended\" ]; then\n"
                        "        if ((i == COMP_CWORD)); then COMPREPLY=($(compgen -c -- "
                        "\"$current\")); fi\n"
                        "        COMPREPLY+=($(compgen -f -- \"$current\"))\n"
                        "        return\n"
                        "    fi\n");
}

void sg_complete_bash(struct sg_buf *out)
{
    sg_buf_add_str(
        out,
        "# bash completion of sandglass; written by 'sandglass completion bash'\n"
        "_sandglass() {\n"
        "    local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
        "    local first=\"${COMP_WORDS[1]}\" second=\"${COMP_WORDS[2]}\" position=$COMP_CWORD\n"
        "    local words=\"\" flags=\"\" kind=\"\" has_ended=\"\" i\n"
        "    COMPREPLY=()\n");
    add_bash_walk(out);
    sg_buf_add_str(
        out, "    if [ \"$current\" = = ]; then current=\"\"; fi\n"
             "    if [ \"$previous\" = = ]; then previous=\"${COMP_WORDS[COMP_CWORD-2]}\"; fi\n");
    add_search(out);
    sg_buf_add_str(out, "    case \"$kind\" in\n"
                        "    files) COMPREPLY=($(compgen -f -- \"$current\")); return ;;\n"
                        "    nothing) return ;;\n"
                        "    esac\n"
                        "    case \"$kind $current\" in\n"
                        "    *\" -\"*) COMPREPLY=($(compgen -W \"$flags\" -- \"$current\")) ;;\n"
                        "    command*) COMPREPLY=($(compgen -c -- \"$current\")) ;;\n"
                        "    arguments*) COMPREPLY=($(compgen -f -- \"$current\")) ;;\n"
                        "    *) COMPREPLY=($(compgen -W \"${words:-$flags}\" -- \"$current\")) ;;\n"
                        "    esac\n"
                        "}\n"
                        "complete -o filenames -F _sandglass sandglass\n");
}

/* In a directory of $fpath the file is the body of the function, else it is sourced: see the end.
 */
void sg_complete_zsh(struct sg_buf *out)
{
    sg_buf_add_str(
        out, "#compdef sandglass\n"
             "# zsh completion of sandglass; written by 'sandglass completion zsh'\n"
             "_sandglass() {\n"
             "    local typed=(\"${words[@]}\") position=$((CURRENT - 1))\n"
             "    local current=\"$typed[CURRENT]\" previous=\"$typed[CURRENT-1]\"\n"
             "    local first=\"$typed[2]\" second=\"$typed[3]\" words=\"\" flags=\"\" kind=\"\"\n"
             "    if (( ${typed[(Ie)--]} && ${typed[(Ie)--]} < CURRENT )); then\n"
             "        _files\n"
             "        return\n"
             "    fi\n");
    add_search(out);
    sg_buf_add_str(out, "    case \"$kind\" in\n"
                        "    files) _files; return ;;\n"
                        "    nothing) return ;;\n"
                        "    esac\n"
                        "    case \"$kind $current\" in\n"
                        "    *\" -\"*) compadd -- ${=flags} ;;\n"
                        "    command*) _command_names -e ;;\n"
                        "    arguments*) _files ;;\n"
                        "    *) compadd -- ${=words:-$flags} ;;\n"
                        "    esac\n"
                        "}\n"
                        "if [ \"$funcstack[1]\" = _sandglass ]; then\n"
                        "    _sandglass \"$@\"\n"
                        "else\n"
                        "    compdef _sandglass sandglass\n"
                        "fi\n");
}

/* Single quotes for fish, where a backslash escapes both itself and the quote. */
static void add_fish_quoted(struct sg_buf *out, const char *text)
{
    sg_buf_add_str(out, "'");
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            sg_buf_add_str(out, "\\");
        sg_buf_add(out, text, 1);
    }
    sg_buf_add_str(out, "'");
}

/* "complete -c sandglass -n '<this command was typed>'" */
static void add_fish_start(struct sg_buf *out, const struct sg_command *c)
{
    int n = (int)strcspn(c->name, " ");
    sg_buf_addf(out, "complete -c sandglass -n '__fish_seen_subcommand_from %.*s", n, c->name);
    if (c->name[n])
        sg_buf_addf(out, "; and __fish_seen_subcommand_from %s", c->name + n + 1);
    sg_buf_add_str(out, "'");
}

static void add_fish_option(struct sg_buf *out, const struct sg_command *c,
                            const struct sg_option *o)
{
    add_fish_start(out, c);
    sg_buf_addf(out, " -l %s", o->flag);
    if (o->letter)
        sg_buf_addf(out, " -s %c", o->letter);
    if (sg_option_takes_argument(o))
        sg_buf_add_str(out, names_file(o) ? " -r -F" : " -x");
    if (names_template(o))
        sg_buf_add_str(out, " -a '(" LIST_TEMPLATES ")'");
    if (o->words && sg_option_takes_argument(o)) {
        sg_buf_add_str(out, " -a '");
        add_words(out, o->words);
        sg_buf_add_str(out, "'");
    }
    sg_buf_add_str(out, " -d ");
    add_fish_quoted(out, o->help);
    sg_buf_add_str(out, "\n");
    if (o->type == SG_OPTION_SWITCH) {
        add_fish_start(out, c);
        sg_buf_addf(out, " -l no-%s\n", o->flag);
    }
}

static void add_fish_command(struct sg_buf *out, const struct sg_command *c)
{
    int n = (int)strcspn(c->name, " ");
    if (c->name[n])
        sg_buf_addf(
            out,
            "complete -c sandglass -f -n '__fish_seen_subcommand_from %.*s; and test (count "
            "(commandline -opc)) -eq 2' -a %s -d ",
            n, c->name, c->name + n + 1);
    else
        sg_buf_addf(out, "complete -c sandglass -f -n __fish_use_subcommand -a %s -d ", c->name);
    add_fish_quoted(out, c->summary);
    sg_buf_add_str(out, "\n");
    if (c->words) {
        add_fish_start(out, c);
        sg_buf_addf(out, words_command(c) ? " -f -a '(%s)'\n" : " -f -a '%s'\n",
                    words_command(c) ? words_command(c) : c->words);
    }
    for (size_t i = 0; i < sg_option_count; i++)
        if (is_taken(&sg_options[i], c))
            add_fish_option(out, c, &sg_options[i]);
}

void sg_complete_fish(struct sg_buf *out)
{
    sg_buf_add_str(out, "# fish completion of sandglass; written by 'sandglass completion fish'\n"
                        "complete -c sandglass -s h -l help -d 'explain'\n");
    const char *previous = "";
    for (size_t i = 0; i < sg_command_count; i++) {
        const char *name = sg_commands[i].name;
        size_t n = strcspn(name, " ");
        if (name[n] && (strncmp(previous, name, n) != 0 || previous[n] != ' '))
            sg_buf_addf(out, "complete -c sandglass -f -n __fish_use_subcommand -a %.*s\n", (int)n,
                        name);
        add_fish_command(out, &sg_commands[i]);
        previous = name;
    }
}

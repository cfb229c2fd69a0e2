/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass config show`: every setting that a file can hold, its value, and who set it.
 *
 * Values of variables are not shown, only their names: people keep keys in them. */
#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "cli/out.h"
#include "base/banned.h"

enum { MAX_OUTPUT = 4 << 20, KEY_WIDTH = 20, VALUE_WIDTH = 24 };

static const char *const kind_names[] = {
    [SG_FROM_DEFAULT] = "default",
    [SG_FROM_FILE] = "file",
    [SG_FROM_ENVIRONMENT] = "environment",
    [SG_FROM_FLAG] = "flag",
};

static const char daytona_note[] = "[daytona] is understood, and of no effect here";

static bool is_list(const struct sg_option *o)
{
    return o->type == SG_OPTION_LIST;
}

static size_t entry_count(const struct sg_option *o, const struct sg_config *c)
{
    return is_list(o) ? ((const struct sg_strlist *)(const void *)((const char *)c + o->offset))->n
                      : 1;
}

/* The value of `text` ("NAME=secret") hidden. */
static void hide_value(struct sg_buf *text)
{
    uint8_t *eq = text->p ? memchr(text->p, '=', text->n) : NULL;
    if (eq) {
        text->n = (size_t)(eq - text->p) + 1;
        sg_buf_add_str(text, "***");
    }
}

static void format_entry(const struct sg_option *o, const struct sg_config *c, size_t index,
                         struct sg_buf *out)
{
    sg_option_format(o, c, index, out);
    if (o->offset == offsetof(struct sg_config, env))
        hide_value(out);
}

static void add_row(struct sg_buf *out, const struct sg_option *o, const struct sg_cli *cli,
                    size_t index)
{
    const struct sg_origin *from = &cli->origins.of[o - sg_options];
    sg_auto_buf value;
    sg_buf_init(&value, MAX_OUTPUT);
    format_entry(o, &cli->config, index, &value);
    sg_buf_addf(out, "%-*s %-*s ", KEY_WIDTH, o->key, VALUE_WIDTH,
                value.n ? sg_buf_cstr(&value) : "-");
    if (from->kind == SG_FROM_FILE)
        sg_buf_addf(out, "%s:%" PRIu32 "\n", from->file, from->line);
    else if (from->kind == SG_FROM_ENVIRONMENT && o->env)
        sg_buf_addf(out, "$%s\n", o->env);
    else
        sg_buf_addf(out, "%s\n", kind_names[from->kind]);
}

static int show_text(const struct sg_cli *cli)
{
    sg_auto_buf out;
    sg_buf_init(&out, MAX_OUTPUT);
    for (size_t i = 0; i < sg_option_count; i++) {
        const struct sg_option *o = &sg_options[i];
        size_t n = o->key ? entry_count(o, &cli->config) : 0;
        for (size_t k = 0; k < n; k++)
            add_row(&out, o, cli, k);
        if (o->key && n == 0)
            add_row(&out, o, cli, 0);
    }
    if (cli->origins.has_daytona)
        sg_cli_note(cli, "%s", daytona_note);
    return sg_cli_print(&out);
}

static void value_json(struct sg_json *j, const struct sg_option *o, const struct sg_config *c)
{
    if (is_list(o))
        sg_json_open(j, '[');
    for (size_t i = 0; i < entry_count(o, c); i++) {
        sg_auto_buf text;
        sg_buf_init(&text, MAX_OUTPUT);
        format_entry(o, c, i, &text);
        if (o->type == SG_OPTION_BOOL)
            sg_json_bool(j, strcmp(sg_buf_cstr(&text), "true") == 0);
        else
            sg_json_str(j, sg_buf_cstr(&text));
    }
    if (is_list(o))
        sg_json_close(j, ']');
}

static void setting_json(struct sg_json *j, const struct sg_option *o, const struct sg_cli *cli)
{
    const struct sg_origin *from = &cli->origins.of[o - sg_options];
    sg_json_key(j, o->key);
    sg_json_open(j, '{');
    sg_json_key(j, "value");
    value_json(j, o, &cli->config);
    sg_json_key(j, "origin");
    sg_json_str(j, kind_names[from->kind]);
    if (from->kind == SG_FROM_FILE) {
        sg_json_key(j, "file");
        sg_json_str(j, from->file);
        sg_json_key(j, "line");
        sg_json_u64(j, from->line);
    }
    sg_json_close(j, '}');
}

static int show_json(const struct sg_cli *cli)
{
    sg_auto_buf out;
    sg_buf_init(&out, MAX_OUTPUT);
    struct sg_json j;
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "settings");
    sg_json_open(&j, '{');
    for (size_t i = 0; i < sg_option_count; i++)
        if (sg_options[i].key)
            setting_json(&j, &sg_options[i], cli);
    sg_json_close(&j, '}');
    sg_json_key(&j, "files");
    sg_json_open(&j, '[');
    for (size_t i = 0; i < cli->origins.file_count; i++)
        sg_json_str(&j, cli->origins.files[i]);
    sg_json_close(&j, ']');
    sg_json_key(&j, "notes");
    sg_json_open(&j, '[');
    if (cli->origins.has_daytona)
        sg_json_str(&j, daytona_note);
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    sg_buf_add_str(&out, "\n");
    return sg_cli_print(&out);
}

int sg_cmd_config_show(struct sg_cli *cli)
{
    return cli->config.json ? show_json(cli) : show_text(cli);
}

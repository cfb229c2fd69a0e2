/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass doctor`: what this host has of what Sandglass uses, what that is for, and what helps
 * where it is missing. Exit code 0 when `sandglass run` would work. */
#include <stdlib.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/doctor.h"
#include "cli/out.h"
#include "base/banned.h"

enum {
    MAX_OUTPUT = 256 * 1024,
    NAME_WIDTH = 19,
    STATUS_WIDTH = 8,
    NOTE_INDENT = 12,
    LINE_WIDTH = 98
};

static const struct {
    const char *name, *colour;
} verdicts[SG_VERDICT_COUNT] = {
    [SG_HAVE_IT] = { "ok", "\033[32m" },
    [SG_HAVE_LESS] = { "degraded", "\033[33m" },
    [SG_HAVE_NOT] = { "missing", "\033[31m" },
    [SG_HAVE_NEWS] = { "info", "\033[2m" },
};

static const char *const needs[] = {
    [SG_NEED_NOTHING] = "nothing",
    [SG_NEED_KNOW] = "information",
    [SG_NEED_USEFUL] = "useful",
    [SG_NEED_MUST] = "needed",
};

/* ---- the last line ---- */

static bool is_lacking(const struct sg_finding *f, enum sg_verdict v, enum sg_need least)
{
    return f->verdict == v && f->need >= least;
}

/* "missing a, b; degraded c" */
static void add_lacks(struct sg_buf *out, const struct sg_host *h, enum sg_need least)
{
    static const enum sg_verdict kinds[] = { SG_HAVE_NOT, SG_HAVE_LESS };
    const size_t start = out->n;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        const char *before = verdicts[kinds[k]].name;
        for (size_t i = 0; i < h->n; i++)
            if (is_lacking(&h->of[i], kinds[k], least)) {
                const bool is_first = before[0] != ',';
                sg_buf_addf(out, "%s%s %s", is_first && out->n > start ? "; " : "", before,
                            h->of[i].probe->name);
                before = ",";
            }
    }
}

static void add_verdict(struct sg_buf *out, const struct sg_host *h)
{
    sg_auto_buf lacks;
    sg_buf_init(&lacks, MAX_OUTPUT);
    const bool works = sg_host_works(h);
    add_lacks(&lacks, h, works ? SG_NEED_USEFUL : SG_NEED_MUST);
    if (!works)
        sg_buf_addf(out, "no: %s", sg_buf_cstr(&lacks));
    else if (lacks.n)
        sg_buf_addf(out, "yes, but: %s", sg_buf_cstr(&lacks));
    else
        sg_buf_add_str(out, "yes, with all limits");
}

/* ---- for people ---- */

/* Text from column `hang` on, broken at spaces where it is too long, and at its own line ends. */
static void add_hanging(struct sg_buf *out, int hang, const char *text)
{
    const size_t room = (size_t)(LINE_WIDTH - hang);
    for (;;) {
        size_t n = strcspn(text, "\n");
        for (size_t i = room; n > room && i > 0; i--)
            if (text[i] == ' ')
                n = i;
        sg_buf_addf(out, "%.*s\n", (int)n, text);
        if (!text[n])
            return;
        text += n + 1;
        sg_buf_addf(out, "%*s", hang, "");
    }
}

static void add_note(struct sg_buf *out, const char *label, const char *text)
{
    sg_buf_addf(out, "%*s%s ", NOTE_INDENT, "", label);
    add_hanging(out, NOTE_INDENT + (int)strlen(label) + 1, text);
}

static void add_line(struct sg_buf *out, const struct sg_finding *f, const char *last_fix,
                     bool has_colour)
{
    const bool is_lacking_it = f->verdict == SG_HAVE_NOT || f->verdict == SG_HAVE_LESS;
    const bool has_both = *f->probe->purpose && f->detail[0] && !is_lacking_it;
    sg_auto_buf text;
    sg_buf_init(&text, MAX_OUTPUT);
    sg_buf_addf(&text, "%s%s%s%s", f->probe->purpose, has_both ? " (" : "",
                is_lacking_it ? "" : f->detail, has_both ? ")" : "");
    sg_buf_addf(out, "  %s%-*s%s  %-*s ", has_colour ? verdicts[f->verdict].colour : "",
                STATUS_WIDTH, verdicts[f->verdict].name, has_colour ? "\033[0m" : "", NAME_WIDTH,
                f->probe->name);
    add_hanging(out, 2 + STATUS_WIDTH + 2 + NAME_WIDTH + 1, sg_buf_cstr(&text));
    if (is_lacking_it && f->detail[0])
        add_note(out, "why:", f->detail);
    if (is_lacking_it && f->fix[0])
        add_note(out, "fix:", strcmp(f->fix, last_fix) == 0 ? "the same" : f->fix);
}

static void add_text(struct sg_buf *out, const struct sg_host *h)
{
    const bool has_colour = sg_out_has_colour(STDOUT_FILENO);
    static const char works[] = "sandboxes work: ";
    const char *group = "", *last_fix = "";
    for (size_t i = 0; i < h->n; i++) {
        const struct sg_finding *f = &h->of[i];
        if (strcmp(group, f->probe->group) != 0) {
            sg_buf_addf(out, "%s%s%s%s\n", *group ? "\n" : "", has_colour ? "\033[1m" : "",
                        f->probe->group, has_colour ? "\033[0m" : "");
            group = f->probe->group;
        }
        add_line(out, f, last_fix, has_colour);
        if (f->fix[0])
            last_fix = f->fix;
    }
    sg_auto_buf verdict;
    sg_buf_init(&verdict, MAX_OUTPUT);
    add_verdict(&verdict, h);
    sg_buf_addf(out, "\n%s", works);
    add_hanging(out, (int)strlen(works), sg_buf_cstr(&verdict));
}

/* ---- for programs ---- */

static void finding_json(struct sg_json *j, const struct sg_finding *f)
{
    const struct {
        const char *name, *value;
    } fields[] = {
        { "group", f->probe->group },
        { "name", f->probe->name },
        { "status", verdicts[f->verdict].name },
        { "need", needs[f->need] },
        { "purpose", f->probe->purpose },
        { "detail", f->detail[0] ? f->detail : NULL },
        { "fix", f->fix[0] ? f->fix : NULL },
    };
    sg_json_open(j, '{');
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        sg_json_key(j, fields[i].name);
        sg_json_str(j, fields[i].value);
    }
    sg_json_close(j, '}');
}

static void add_json(struct sg_buf *out, const struct sg_host *h, bool is_root)
{
    struct sg_json j;
    sg_auto_buf verdict;
    sg_buf_init(&verdict, MAX_OUTPUT);
    add_verdict(&verdict, h);
    sg_json_init(&j, out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "works");
    sg_json_bool(&j, sg_host_works(h));
    sg_json_key(&j, "verdict");
    sg_json_str(&j, sg_buf_cstr(&verdict));
    sg_json_key(&j, "as_root");
    sg_json_bool(&j, is_root);
    sg_json_key(&j, "checks");
    sg_json_open(&j, '[');
    for (size_t i = 0; i < h->n; i++)
        finding_json(&j, &h->of[i]);
    sg_json_close(&j, ']');
    sg_json_close(&j, '}');
    sg_buf_add_str(out, "\n");
}

int sg_cmd_doctor(struct sg_cli *cli)
{
    struct sg_host host = { .n = 0 };
    const struct sg_probe_env env = { .is_root = geteuid() == 0,
                                      .state_dir = cli->config.state_dir,
                                      .run_dir = cli->config.serve_run_dir,
                                      .known = &host };
    if (*cli->config.config_file) /* the sandbox that is tried reads the same settings */
        (void)setenv("SANDGLASS_CONFIG", cli->config.config_file, 1);
    sg_host_probe(&host, sg_kernel_probes, sg_kernel_probe_count, &env);
    sg_host_probe(&host, sg_storage_probes, sg_storage_probe_count, &env);
    sg_tier_probe(&host, &env, &cli->config);
    sg_host_probe(&host, sg_cell_probes, sg_cell_probe_count, &env);
    sg_auto_buf out;
    sg_buf_init(&out, MAX_OUTPUT);
    if (cli->config.json)
        add_json(&out, &host, env.is_root);
    else
        add_text(&out, &host);
    const int code = sg_cli_print(&out);
    return code == SG_EXIT_OK && !sg_host_works(&host) ? SG_EXIT_FAILED : code;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "cli/out.h"
#include "base/banned.h"

enum { SHORTFALL_MAX = 8 };
static const size_t MAX_TEXT = (size_t)1 << 30;
static const uint64_t MIB = 1 << 20;

/* ---- what was asked for and cannot be had ---- */

struct sg_shortfall {
    const char *flag; /* whose wish it is */
    char text[128];
};

static void add(struct sg_shortfall *list, size_t *n, const char *flag, const char *text)
{
    list[*n].flag = flag;
    (void)snprintf(list[(*n)++].text, sizeof list->text, "%s", text);
}

static size_t shortfalls(const struct sg_cli *cli, const struct sg_run_spec *spec,
                         const struct sg_run_result *res, struct sg_shortfall *ret)
{
    static const struct {
        const char *flag, *text;
    } missing[SG_CTRL_COUNT] = {
        { "memory", "memory: no cgroup to be had here; RLIMIT_DATA per process instead" },
        { "cpus", "cpu: no cgroup to be had here; not limited" },
        { "pids", "pids: no cgroup to be had here; RLIMIT_NPROC instead" },
    };
    const struct sg_cell_report *rep = &res->report;
    size_t n = 0;
    for (unsigned i = 0; i < SG_CTRL_COUNT; i++)
        if (rep->missing & 1u << i)
            add(ret, &n, missing[i].flag, missing[i].text);
    if (rep->disk_bytes < cli->config.disk_bytes) {
        add(ret, &n, "disk", "");
        (void)snprintf(ret[n - 1].text, sizeof ret->text,
                       "disk: %" PRIu64 " MiB; the writable layer lives in memory, at most three "
                       "quarters of it",
                       rep->disk_bytes / MIB);
    }
    if (!(rep->missing & 1u << SG_CTRL_MEMORY) && !rep->is_swap_counted)
        add(ret, &n, "memory", "swap: this kernel does not account for it");
    if (spec->cell.limits.open_files < cli->config.open_files) {
        add(ret, &n, "open-files", "");
        (void)snprintf(ret[n - 1].text, sizeof ret->text,
                       "open files: %" PRIu64 ", the hard limit of this account",
                       spec->cell.limits.open_files);
    }
    if (cli->config.json &&
        (!cli->config.output_bytes || cli->config.output_bytes > spec->output_bytes))
        add(ret, &n, "output-limit", "output: what JSON carries is at most 64 MiB");
    if (spec->cell.is_rootless)
        add(ret, &n, "user", "ids: one id inside, no change of user (rootless)");
    return n;
}

/* Defaults that fall short are told in the JSON result and by `doctor`; a wish is answered. */
bool sg_run_was_asked_for(const struct sg_cli *cli, const char *flag)
{
    for (size_t i = 0; i < sg_option_count; i++)
        if (sg_options[i].flag && strcmp(sg_options[i].flag, flag) == 0)
            return cli->origins.of[i].kind != SG_FROM_DEFAULT;
    return false;
}

/* ---- JSON ---- */

static void put_or_null(struct sg_json *out, const char *key, uint64_t value, uint64_t divisor)
{
    sg_json_key(out, key);
    if (value == SG_UNKNOWN)
        sg_json_null(out);
    else
        sg_json_u64(out, value / divisor);
}

static const char *limit_of(const struct sg_run_result *res)
{
    switch (res->ending) {
    case SG_END_TIMEOUT:
        return "timeout";
    case SG_END_MEMORY:
        return "memory";
    case SG_END_OUTPUT:
        return "output";
    case SG_END_EXIT:
    case SG_END_SIGNAL:
    case SG_END_LOST:
        break;
    }
    return NULL;
}

int sg_run_print_json(const struct sg_cli *cli, const struct sg_run_spec *spec,
                      const struct sg_run_result *res, int exit_code)
{
    const struct sg_usage *u = &res->report.usage;
    sg_auto_buf text;
    sg_buf_init(&text, MAX_TEXT);
    struct sg_json o;
    sg_json_init(&o, &text);
    sg_json_open(&o, '{');
    sg_json_key(&o, "exit_code");
    sg_json_i64(&o, exit_code);
    sg_json_key(&o, "ended_by");
    sg_json_str(&o, sg_ending_name(res->ending));
    sg_json_key(&o, "limit");
    sg_json_str(&o, limit_of(res));
    put_or_null(&o, "signal", res->signal ? res->signal : SG_UNKNOWN, 1);
    put_or_null(&o, "wall_ms", res->wall_ns, 1000000);
    put_or_null(&o, "cpu_ms", res->cpu_ns, 1000000);
    put_or_null(&o, "memory_peak_bytes", u->mem_peak_bytes, 1);
    put_or_null(&o, "pids_peak", u->pids_peak, 1);
    put_or_null(&o, "disk_used_bytes", res->report.disk_used_bytes, 1);
    put_or_null(&o, "disk_limit_bytes", res->report.disk_bytes, 1);
    put_or_null(&o, "output_bytes", res->output_bytes, 1);
    put_or_null(&o, "oom_kills", u->oom_kills, 1);
    put_or_null(&o, "pids_refused", u->pids_refused, 1);
    sg_json_key(&o, "disk_full");
    sg_json_bool(&o, res->is_disk_full);
    sg_json_key(&o, "output_truncated");
    sg_json_bool(&o, res->is_output_cut);
    sg_json_key(&o, "copy_out_error");
    sg_json_str(&o, res->copy_failure.kind == SG_OK ? NULL : res->copy_failure.msg);
    put_or_null(&o, "copies_skipped", res->copies_skipped, 1);
    sg_json_key(&o, "not_enforced");
    sg_json_open(&o, '[');
    struct sg_shortfall list[SHORTFALL_MAX];
    for (size_t i = 0, n = shortfalls(cli, spec, res, list); i < n; i++)
        sg_json_str(&o, list[i].text);
    sg_json_close(&o, ']');
    sg_json_key(&o, "stdout");
    sg_json_text(&o, (struct sg_str) { (const char *)spec->out_capture->p, spec->out_capture->n });
    sg_json_key(&o, "stderr");
    sg_json_text(&o, (struct sg_str) { (const char *)spec->err_capture->p, spec->err_capture->n });
    sg_json_close(&o, '}');
    sg_buf_add_str(&text, "\n");
    return sg_cli_print(&text);
}

/* ---- words ---- */

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static void tell_ending(const struct sg_cli *cli, const struct sg_run_spec *spec,
                        const struct sg_run_result *res)
{
    const struct sg_config *cfg = &cli->config;
    if (res->ending == SG_END_TIMEOUT && cfg->timeout_ms % 1000 == 0)
        sg_cli_note(cli, "ended at its deadline of %" PRIu64 " s; --timeout sets it",
                    cfg->timeout_ms / 1000);
    else if (res->ending == SG_END_TIMEOUT)
        sg_cli_note(cli, "ended at its deadline of %" PRIu64 " ms; --timeout sets it",
                    cfg->timeout_ms);
    if (res->ending == SG_END_MEMORY)
        sg_cli_note(cli, "out of memory at %" PRIu64 " MiB; --memory sets the limit",
                    cfg->memory_bytes / MIB);
    if (res->ending == SG_END_OUTPUT)
        sg_cli_note(cli, "ended after %" PRIu64 " bytes of output; --output-limit sets it",
                    spec->output_bytes);
    if (res->ending == SG_END_LOST)
        sg_cli_note(cli, "the sandbox ended unexpectedly");
}

void sg_run_tell(const struct sg_cli *cli, const struct sg_run_spec *spec,
                 const struct sg_run_result *res)
{
    const uint64_t refused = res->report.usage.pids_refused;
    tell_ending(cli, spec, res);
    if (res->is_disk_full)
        sg_cli_note(cli,
                    "the disk of the sandbox is full (%" PRIu64 " MiB); --disk sets it, up "
                    "to three quarters of --memory",
                    res->report.disk_bytes / MIB);
    if (refused)
        sg_cli_note(cli, "a new process was refused %" PRIu64 " time%s; --pids sets the limit",
                    refused, plural(refused));
    if (res->copies_skipped)
        sg_cli_note(cli, "%" PRIu64 " link%s, pipe%s or device%s not copied", res->copies_skipped,
                    plural(res->copies_skipped), plural(res->copies_skipped),
                    res->copies_skipped == 1 ? " was" : "s were");
    if (res->output_lost_sys)
        sg_cli_note(cli, "the output could not be written: %s", strerror(res->output_lost_sys));
    struct sg_shortfall list[SHORTFALL_MAX];
    for (size_t i = 0, n = shortfalls(cli, spec, res, list); i < n; i++)
        if (sg_run_was_asked_for(cli, list[i].flag))
            sg_cli_note(cli, "not as asked: %s", list[i].text);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The benchmark. Started by bench/run, which sets up the competition and cleans up after it. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "bench.h"
#include "service.h"
#include "base/banned.h"

static const struct {
    const char *name;
    int (*run)(const struct sg_bench *b, struct sg_err *err);
} cases[] = {
    { "run", sg_case_run },         { "engine", sg_case_engine }, { "spawn", sg_case_spawn },
    { "python", sg_case_python },   { "cpu", sg_case_cpu },       { "idle", sg_case_idle },
    { "service", sg_case_service }, { "crowd", sg_case_crowd },   { "http", sg_case_http },
    { "sdk", sg_case_sdk },         { "router", sg_case_router }, { "code", sg_case_code },
    { "storage", sg_case_storage }, { "gate", sg_case_gate },     { "tiers", sg_case_tiers },
};

/* ---- for the cases ---- */

unsigned sg_bench_rounds(const struct sg_bench *b, unsigned n)
{
    if (!b->is_quick)
        return n;
    return n / 10 < 3 ? 3 : n / 10;
}

struct sg_row *sg_bench_compare(const struct sg_bench *b, const char *case_name, const char *what,
                                const struct sg_entrant *ours, const struct sg_entrant *peer,
                                double bar)
{
    return sg_report_add(b->report, &(struct sg_row) {
                                        .case_name = case_name,
                                        .what = what,
                                        .unit = SG_UNIT_MS,
                                        .n = ours->n,
                                        .peer_n = peer->n,
                                        .median = (double)sg_series_median(&ours->times) / 1e6,
                                        .min = (double)sg_series_min(&ours->times) / 1e6,
                                        .peer_median = (double)sg_series_median(&peer->times) / 1e6,
                                        .peer_min = (double)sg_series_min(&peer->times) / 1e6,
                                        .bar = bar,
                                    });
}

/* ---- set-up ---- */

static void describe_cell(struct sg_bench *b)
{
    const struct sg_config *c = &b->config;
    struct sg_cell_spec *s = &b->cell;
    s->layers[0] = b->host.layer;
    s->layer_count = 1;
    for (size_t i = 0; i < b->host.bind_count; i++)
        s->binds[s->bind_count++] = (struct sg_bind) { b->host.binds[i].source,
                                                       b->host.binds[i].target, SG_BIND_READ_ONLY };
    for (size_t i = 0; i < b->host.hide_count; i++)
        s->hide[s->hide_count++] = b->host.hide[i];
    s->is_idmapped = b->host.is_idmapped;
    s->hostname = c->hostname;
    s->workdir = c->workdir;
    s->owner_id = 1000;
    s->limits = (struct sg_limits) { .mem_bytes = c->memory_bytes,
                                     .cpu_milli = c->cpu_milli,
                                     .pids = c->pids,
                                     .disk_bytes = c->disk_bytes,
                                     .open_files = c->open_files };
}

static int open_bench(struct sg_bench *b, struct sg_err *err)
{
    static char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    sg_config_init(&b->config, &b->origins);
    sg_auto_free char *state = sg_printf("%s/state", b->dir);
    if (sg_template_open(state, "host", &b->host, err) < 0)
        return -1;
    describe_cell(b);
    size_t n = 0;
    b->env[n++] = sg_printf("PATH=%s", b->host.path);
    for (size_t i = 0; i < b->host.env_count; i++)
        b->env[n++] = sg_strdup(b->host.env[i]);
    b->run_env[0] = path;
    b->run_env[1] = sg_printf("SANDGLASS_STATE_DIR=%s", state);
    b->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    return b->null_fd < 0 ? sg_fail_sys(err, "open '/dev/null'") : 0;
}

static void close_bench(struct sg_bench *b)
{
    for (size_t i = 0; b->env[i]; i++)
        free(b->env[i]);
    free(b->run_env[1]);
    sg_drop_fd(&b->null_fd);
    sg_template_done(&b->host);
    sg_config_done(&b->config, &b->origins);
}

static int run_cases(const struct sg_bench *b, const char *only, struct sg_err *err)
{
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        if (only && strcmp(only, cases[i].name) != 0)
            continue;
        (void)fprintf(stderr, "measuring: %s\n", cases[i].name);
        if (cases[i].run(b, err) < 0)
            return sg_wrap(err, "%s", cases[i].name);
    }
    return 0;
}

/* ---- the command line ---- */

struct settings {
    const char *only, *json, *cgroups;
};

static bool is_case(const char *name)
{
    for (size_t i = 0; i < SG_COUNT(cases); i++)
        if (strcmp(name, cases[i].name) == 0)
            return true;
    return false;
}

static int parse(char **argv, struct sg_bench *b, struct settings *s, struct sg_err *err)
{
    const struct {
        const char *flag;
        const char **text;
        bool *is_set;
    } flags[] = {
        { "--sandglass", &b->sandglass, NULL }, { "--burn", &b->burn, NULL },
        { "--dial", &b->dial, NULL },           { "--dir", &b->dir, NULL },
        { "--only", &s->only, NULL },           { "--json", &s->json, NULL },
        { "--cgroups", &s->cgroups, NULL },     { "--quick", NULL, &b->is_quick },
    };
    for (; *argv; argv++) {
        size_t i = 0;
        while (i < SG_COUNT(flags) && strcmp(*argv, flags[i].flag) != 0)
            i++;
        if (i == SG_COUNT(flags))
            return sg_fail(err, SG_INVALID,
                           "no option %s; there are --only CASE, --quick and "
                           "--json FILE",
                           sg_quote(*argv).s);
        if (flags[i].is_set)
            *flags[i].is_set = true;
        else if (!(*flags[i].text = *++argv))
            return sg_fail(err, SG_INVALID, "%s needs a value", flags[i].flag);
    }
    if (s->only && !is_case(s->only))
        return sg_fail(err, SG_INVALID,
                       "no case %s; there are run, engine, spawn, python, cpu, idle, service, "
                       "crowd, http, sdk, router, code, storage and gate",
                       sg_quote(s->only).s);
    if (!b->sandglass || !b->burn || !b->dial || !b->dir || !s->cgroups)
        return sg_fail(err, SG_INVALID, "start it with bench/run");
    return 0;
}

static bool is_on(const char *variable)
{
    const char *value = getenv(variable);
    return value && *value && strcmp(value, "0") != 0;
}

int main(int argc, char **argv)
{
    (void)argc;
    struct sg_report report = { .n = 0 };
    struct sg_bench b = { .null_fd = -1, .is_full = is_on("BENCH_FULL"), .report = &report };
    struct settings s = { 0 };
    struct sg_machine machine;
    struct sg_err err = { 0 };
    const struct sigaction stop = { .sa_handler = sg_race_interrupt, .sa_flags = SA_RESTART };
    (void)sigaction(SIGINT, &stop, NULL);
    (void)sigaction(SIGTERM, &stop, NULL);
    sg_machine_look(&machine);
    b.host.lock_fd = -1;
    int result = parse(argv + 1, &b, &s, &err);
    if (result == 0)
        result = open_bench(&b, &err);
    if (result == 0)
        result = run_cases(&b, s.only, &err);
    if (result == 0) {
        machine.cgroups = s.cgroups;
        sg_report_print(&report, &machine);
        if (s.json)
            result = sg_report_write_json(&report, &machine, s.json, &err);
    }
    close_bench(&b);
    if (result < 0) {
        (void)fprintf(stderr, "bench: %s\n", err.msg);
        return err.kind == SG_INVALID ? 2 : 1;
    }
    return is_on("BENCH_STRICT") && sg_report_missed(&report) > 0 ? 1 : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/banned.h"

enum { JSON_BYTES = 1 << 20 };
#define NOISY_LOAD 0.7

static const char *const unit_names[] = {
    [SG_UNIT_MS] = "ms",   [SG_UNIT_S] = "s",    [SG_UNIT_KIB] = "KiB",
    [SG_UNIT_MIB] = "MiB", [SG_UNIT_COUNT] = "",
};

struct sg_row *sg_report_add(struct sg_report *r, const struct sg_row *row)
{
    assert(r->n < SG_REPORT_ROWS);
    r->rows[r->n] = *row;
    return &r->rows[r->n++];
}

/* What the bar is for. */
static double measure(const struct sg_row *row)
{
    return row->peer_n ? row->median / row->peer_median : row->median;
}

static bool has_bar(const struct sg_row *row)
{
    return !row->missing && (row->is_exact || row->bar > 0);
}

static bool holds(const struct sg_row *row)
{
    return measure(row) <= row->bar; /* none is negative, so exactly 0 is "at most 0" */
}

size_t sg_report_missed(const struct sg_report *r)
{
    size_t missed = 0;
    for (size_t i = 0; i < r->n; i++)
        missed += has_bar(&r->rows[i]) && !holds(&r->rows[i]);
    return missed;
}

/* ---- for people ---- */

static void print_pair(double median, double min, enum sg_unit unit)
{
    char text[48];
    const int digits = unit == SG_UNIT_COUNT ? 0 : median < 100 ? 2 : 0;
    (void)snprintf(text, sizeof text, "%.*f (%.*f) %s", digits, median, digits, min,
                   unit_names[unit]);
    printf("  %-18s", text);
}

static void print_row(const struct sg_row *row)
{
    printf("%-34s", row->what);
    if (row->missing) {
        printf("  %s\n", row->missing);
        return;
    }
    char n[24];
    if (row->peer_n && row->peer_n != row->n)
        (void)snprintf(n, sizeof n, "%u/%u", row->n, row->peer_n);
    else
        (void)snprintf(n, sizeof n, "%u", row->n);
    printf(" %7s", n);
    print_pair(row->median, row->min, row->unit);
    if (row->peer_n) {
        print_pair(row->peer_median, row->peer_min, row->unit);
        printf("  %5.3f (%5.3f)", row->median / row->peer_median, row->min / row->peer_min);
    } else
        printf("  %-18s  %-13s", "", "");
    if (has_bar(row))
        printf("  %5.4g  %-6s", row->bar, holds(row) ? "holds" : "MISSED");
    else
        printf("  %5s  %-6s", "-", "");
    if (row->paused_ratio > 0)
        printf("  %5.3f (%.2f ms)", row->paused_ratio, row->paused_ms);
    printf("\n");
}

void sg_report_print(const struct sg_report *r, const struct sg_machine *m)
{
    printf("%s, %u cores, %llu MiB, Linux %s, cgroups %s, load %.2f\n", m->cpu, m->cores,
           (unsigned long long)m->mem_mib, m->kernel, m->cgroups, m->load);
    if (m->load > NOISY_LOAD)
        printf("warning: the machine was busy (load %.2f): the numbers are noisy\n", m->load);
    printf("\n%-34s %7s  %-18s  %-18s  %-13s  %5s  %-6s  %s\n", "median (minimum)", "n",
           "sandglass", "other", "ratio", "bar", "", "ratio after 50 ms (ours)");
    for (size_t i = 0; i < r->n; i++)
        print_row(&r->rows[i]);
    printf(
        "\nbubblewrap: the same namespaces and a comparable view; no cgroup, no seccomp filter.\n"
        "crun: the same, with a user namespace and cgroup limits; no seccomp filter.\n"
        "docker: an Engine of this benchmark's own, --network none, the client's time.\n"
        "bare: vfork, exec, wait. A ratio is at most its bar, or the bar is missed.\n");
}

/* ---- for programs ---- */

static void put_number(struct sg_json *o, const char *key, double value)
{
    sg_json_key(o, key);
    sg_json_milli(o, value > 0 ? (uint64_t)(value * 1000 + 0.5) : 0);
}

static void put_text(struct sg_json *o, const char *key, const char *text)
{
    sg_json_key(o, key);
    sg_json_str(o, text);
}

static void put_row(struct sg_json *o, const struct sg_row *row)
{
    sg_json_open(o, '{');
    put_text(o, "case", row->case_name);
    put_text(o, "what", row->what);
    put_text(o, "missing", row->missing);
    if (!row->missing) {
        put_text(o, "unit", unit_names[row->unit]);
        put_number(o, "n", row->n);
        put_number(o, "median", row->median);
        put_number(o, "min", row->min);
    }
    if (!row->missing && row->peer_n) {
        put_number(o, "peer_n", row->peer_n);
        put_number(o, "peer_median", row->peer_median);
        put_number(o, "peer_min", row->peer_min);
        put_number(o, "ratio", row->median / row->peer_median);
        put_number(o, "ratio_of_minima", row->min / row->peer_min);
    }
    if (has_bar(row)) {
        put_number(o, "bar", row->bar);
        sg_json_key(o, "holds");
        sg_json_bool(o, holds(row));
    }
    if (row->paused_ratio > 0) {
        put_number(o, "paused_ratio", row->paused_ratio);
        put_number(o, "paused_ms", row->paused_ms);
    }
    sg_json_close(o, '}');
}

int sg_report_write_json(const struct sg_report *r, const struct sg_machine *m, const char *path,
                         struct sg_err *err)
{
    sg_auto_buf text;
    struct sg_json o;
    sg_buf_init(&text, JSON_BYTES);
    sg_json_init(&o, &text);
    sg_json_open(&o, '{');
    put_text(&o, "cpu", m->cpu);
    put_number(&o, "cores", m->cores);
    put_number(&o, "memory_mib", (double)m->mem_mib);
    put_text(&o, "kernel", m->kernel);
    put_text(&o, "cgroups", m->cgroups);
    put_number(&o, "load", m->load);
    sg_json_key(&o, "rows");
    sg_json_open(&o, '[');
    for (size_t i = 0; i < r->n; i++)
        put_row(&o, &r->rows[i]);
    sg_json_close(&o, ']');
    sg_json_close(&o, '}');
    sg_buf_add_str(&text, "\n");
    if (sg_buf_check(&text, "the report", err) < 0)
        return -1;
    sg_auto_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text.p, text.n) != (ssize_t)text.n)
        return sg_fail_sys(err, "write '%s'", path);
    return 0;
}

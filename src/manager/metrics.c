/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics as Prometheus text: counted where things happen, written when somebody asks. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "manager/life.h"
#include "manager/standby.h"
#include "manager/trace.h"
#include "tier/tier.h"

#include "base/banned.h"

#define FIRST_BUCKET_NS 250000u /* doubling: 0.25 ms to 4.1 s, then +Inf */

void sg_histogram_add(struct sg_histogram *h, uint64_t ns)
{
    unsigned i = 0;

    while (i < SG_HISTOGRAM_BUCKETS - 1 && ns > (uint64_t)FIRST_BUCKET_NS << i)
        i++;
    h->buckets[i]++;
    h->count++;
    h->sum_ns += ns;
}

static void head(struct sg_buf *out, const char *name, const char *type, const char *help)
{
    sg_buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void one(struct sg_buf *out, const char *name, const char *type, const char *help,
                uint64_t v)
{
    head(out, name, type, help);
    sg_buf_addf(out, "%s %" PRIu64 "\n", name, v);
}

static void seconds(struct sg_buf *out, uint64_t ns)
{
    sg_buf_addf(out, "%" PRIu64 ".%09" PRIu64, ns / 1000000000u, ns % 1000000000u);
}

static void histogram(struct sg_buf *out, const char *name, const char *help,
                      const struct sg_histogram *h)
{
    uint64_t sum = 0;

    head(out, name, "histogram", help);
    for (unsigned i = 0; i < SG_HISTOGRAM_BUCKETS; i++) {
        sum += h->buckets[i];
        sg_buf_addf(out, "%s_bucket{le=\"", name);
        if (i < SG_HISTOGRAM_BUCKETS - 1)
            seconds(out, (uint64_t)FIRST_BUCKET_NS << i);
        else
            sg_buf_add_str(out, "+Inf");
        sg_buf_addf(out, "\"} %" PRIu64 "\n", sum);
    }
    sg_buf_addf(out, "%s_sum ", name);
    seconds(out, h->sum_ns);
    sg_buf_addf(out, "\n%s_count %" PRIu64 "\n", name, h->count);
}

static void states(struct sg_manager *m, struct sg_buf *out)
{
    uint64_t counts[SBX_STATE_COUNT] = { 0 };

    for (const struct sg_sandbox *s = m->newest; s; s = s->older)
        counts[s->state] += !s->is_internal;
    head(out, "sandglass_sandboxes", "gauge", "Sandboxes by state.");
    for (unsigned i = 0; i < SBX_STATE_COUNT; i++)
        sg_buf_addf(out, "sandglass_sandboxes{state=\"%s\"} %" PRIu64 "\n",
                    sg_state_name((enum sg_state)i), counts[i]);
}

/* The launcher's lines are "template parked wanted". */
static void pool(struct sg_manager *m, struct sg_buf *out)
{
    head(out, "sandglass_pool", "gauge", "Parked sandboxes by template, and how many are wanted.");
    for (size_t i = 0; i < m->pool_n; i++) {
        const char *name = m->pool[i], *parked = strchr(name, ' ');
        const char *wanted = parked ? strchr(parked + 1, ' ') : NULL;
        if (!wanted)
            continue;
        int name_n = (int)(parked - name), parked_n = (int)(wanted - parked - 1);
        sg_buf_addf(out, "sandglass_pool{template=\"%.*s\",what=\"parked\"} %.*s\n", name_n, name,
                    parked_n, parked + 1);
        sg_buf_addf(out, "sandglass_pool{template=\"%.*s\",what=\"wanted\"} %s\n", name_n, name,
                    wanted + 1);
    }
}

/* No names: whoever may read this is not told what organisations call their templates. */
static void standbys(struct sg_manager *m, struct sg_buf *out)
{
    const struct sg_standby_counts c = sg_standby_counts(m, NULL);
    const struct {
        const char *what;
        unsigned n;
    } rows[] = { { "wanted", c.wanted },
                 { "ready", c.ready },
                 { "starting", c.starting },
                 { "failing", c.failing } };

    head(out, "sandglass_started", "gauge",
         "Sandboxes that wait with the start command of their template running.");
    for (size_t i = 0; i < SG_COUNT(rows); i++)
        sg_buf_addf(out, "sandglass_started{what=\"%s\"} %u\n", rows[i].what, rows[i].n);
    one(out, "sandglass_started_taken_total", "counter", "Creates that got one of them.", c.taken);
    one(out, "sandglass_started_failures_total", "counter",
        "Times that one could not be started, or ended.", c.failures);
}

static void storage(struct sg_manager *m, struct sg_buf *out)
{
    if (!m->storage.is_known)
        return;
    head(out, "sandglass_storage_bytes", "gauge", "The storage pool.");
    sg_buf_addf(out, "sandglass_storage_bytes{what=\"total\"} %" PRIu64 "\n",
                m->storage.total_bytes);
    sg_buf_addf(out, "sandglass_storage_bytes{what=\"free\"} %" PRIu64 "\n", m->storage.free_bytes);
    head(out, "sandglass_storage_full", "gauge", "1: nothing new is made in it.");
    sg_buf_addf(out, "sandglass_storage_full %d\n", m->storage.is_full);
    head(out, "sandglass_storage_limits_hold", "gauge",
         "0: the storage pool is counted anew, and nothing new is made.");
    sg_buf_addf(out, "sandglass_storage_limits_hold %d\n", m->storage.is_counting);
    one(out, "sandglass_storage_errors_total", "counter",
        "Errors that the disk of the storage pool has had.", m->storage.errors);
    one(out, "sandglass_storage_errands", "gauge", "What the storage pool has still to do.",
        m->storage.errands);
    head(out, "sandglass_snapshots", "gauge", "Snapshots of all organisations.");
    sg_buf_addf(out, "sandglass_snapshots %zu\n", m->snapshots.n);
}

static void hits(struct sg_manager *m, struct sg_buf *out)
{
    static const char *const names[SG_HIT_COUNT] = {
        [SG_HIT_MAX_SANDBOXES] = "max_sandboxes",
        [SG_HIT_SANDBOXES] = "org_sandboxes",
        [SG_HIT_MEMORY] = "org_memory",
        [SG_HIT_CPU] = "org_cpu",
        [SG_HIT_DISK] = "org_disk",
        [SG_HIT_CREATE_RATE] = "org_create_rate",
        [SG_HIT_KEY_RATE] = "key_rate",
        [SG_HIT_OOM] = "sandbox_memory",
        [SG_HIT_TIMEOUT] = "exec_timeout",
        [SG_HIT_JOURNAL] = "journal",
        [SG_HIT_BUDGET] = "budget",
    };

    head(out, "sandglass_limit_hits_total", "counter", "Limits that somebody has met.");
    for (unsigned i = 0; i < SG_HIT_COUNT; i++)
        sg_buf_addf(out, "sandglass_limit_hits_total{limit=\"%s\"} %" PRIu64 "\n", names[i],
                    m->metrics.hits[i]);
    const struct sg_trace_counts t = sg_traces_counts(m);
    const struct {
        const char *name, *help;
        uint64_t value;
    } spans[] = { { "sandglass_spans_total", "Spans of operations.", t.spans },
                  { "sandglass_spans_dropped_total", "Spans that went unsent.", t.dropped },
                  { "sandglass_span_files_sent_total", "Files of spans taken.", t.sent_files },
                  { "sandglass_span_files_refused_total", "The same, refused.", t.refused_files },
                  { "sandglass_spans_spooled_bytes", "Spans that wait.", t.spooled_bytes } };
    for (size_t i = 0; i < SG_COUNT(spans); i++) {
        head(out, spans[i].name, i < SG_COUNT(spans) - 1 ? "counter" : "gauge", spans[i].help);
        sg_buf_addf(out, "%s %" PRIu64 "\n", spans[i].name, spans[i].value);
    }
    head(out, "sandglass_errors_total", "counter", "Operations that failed, by kind.");
    for (unsigned i = SG_OK + 1; i < SG_KIND_COUNT; i++)
        sg_buf_addf(out, "sandglass_errors_total{kind=\"%s\"} %" PRIu64 "\n",
                    sg_kind_name((enum sg_kind)i), m->metrics.errors[i]);
}

void sg_manager_metrics(struct sg_manager *m, struct sg_buf *out)
{
    const struct sg_metrics *x = &m->metrics;
    struct sg_store_stats st = sg_store_stats(m->store);
    const struct sg_reconcile_report *r = &m->report;
    static const char c[] = "counter", g[] = "gauge";

    states(m, out);
    pool(m, out);
    standbys(m, out);
    storage(m, out);
    histogram(out, "sandglass_create_seconds", "From the call to a sandbox that answers.",
              &x->create);
    histogram(out, "sandglass_exec_start_seconds", "From the call to a program that runs.",
              &x->exec);
    hits(m, out);
    one(out, "sandglass_creates_total", c, "Sandboxes that came to run.", x->creates);
    one(out, "sandglass_creates_parked_total", c, "Those that were parked before.",
        x->creates_parked);
    one(out, "sandglass_destroys_total", c, "Sandboxes that are gone.", x->destroys);
    one(out, "sandglass_retries_total", c, "Fresh attempts.", x->retries);
    one(out, "sandglass_deaths_total", c, "Sandboxes that ended by themselves.", x->deaths);
    one(out, "sandglass_execs_total", c, "Programs started.", x->execs);
    one(out, "sandglass_exec_output_bytes_total", c, "Bytes they wrote.", x->exec_output_bytes);
    one(out, "sandglass_net_connections_total", c, "Connections that the gate let through.",
        x->net_allowed);
    one(out, "sandglass_net_refused_total", c, "Connections that the gate refused.",
        x->net_refused);
    one(out, "sandglass_net_sent_bytes_total", c, "Bytes out of sandboxes.", x->net_bytes_out);
    one(out, "sandglass_net_received_bytes_total", c, "Bytes into sandboxes.", x->net_bytes_in);
    one(out, "sandglass_reclaimed_bytes_total", c, "Memory that paused sandboxes were relieved of.",
        x->reclaimed_bytes);
    one(out, "sandglass_events_total", c, "Number of the last event.", m->events.seq);
    one(out, "sandglass_launcher_questions", g, "Questions that the launcher has not answered.",
        sg_tier_waiting(m->tier));
    one(out, "sandglass_store_writes_total", c, "Rows written.", st.writes);
    one(out, "sandglass_store_commits_total", c, "Transactions.", st.commits);
    one(out, "sandglass_store_failures_total", c, "Writes that failed.", st.failures);
    one(out, "sandglass_store_queued", g, "Writes that wait.", st.queued);
    one(out, "sandglass_store_bytes", g, "Size of the store.", st.file_bytes);
    one(out, "sandglass_reconcile_found", g, "What the last look put right.",
        (uint64_t)r->lost + r->orphans + r->stale_journals + r->unknown_execs);
}

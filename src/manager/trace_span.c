/* SPDX-License-Identifier: Apache-2.0 */
/* What is in a span. Names are those of the OpenTelemetry conventions for generative AI where there
 * are any (a command, code, a task is a tool that somebody executes), those that Langfuse documents
 * for its OTLP endpoint, and our own below "sandglass.". */
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "manager/journal.h"
#include "manager/life.h"
#include "manager/trace_internal.h"
#include "base/banned.h"

enum { SHOWN_BYTES = 4096 }; /* of a command, code or output */

/* ---- groups of attributes ---- */

static void put_gen_ai(struct sg_json *j, const struct sg_told *t)
{
    if (!t->tool)
        return;
    sg_span_text(j, "gen_ai.operation.name", "execute_tool");
    sg_span_text(j, "gen_ai.tool.name", t->tool);
    sg_span_text(j, "gen_ai.tool.type", "function");
    sg_span_text(j, "gen_ai.tool.call.id", t->span.id);
    sg_span_text(j, "gen_ai.provider.name", "sandglass");
    sg_span_text(j, "gen_ai.agent.name", t->agent);
    sg_span_text(j, "gen_ai.conversation.id", t->session ? t->session : t->sandbox);
    sg_span_text(j, "gen_ai.tool.call.arguments", t->input);
    sg_span_text(j, "gen_ai.tool.call.result", t->output);
}

static void put_own(struct sg_json *j, const struct sg_told *t)
{
    const struct {
        const char *key, *value;
    } texts[] = {
        { "sandglass.org.id", t->org },          { "sandglass.sandbox.id", t->sandbox },
        { "sandglass.template", t->template },   { "sandglass.tier", t->tier },
        { "sandglass.operation", t->operation }, { "sandglass.rule", t->rule },
        { "sandglass.ending", t->ending },
    };
    for (size_t i = 0; i < SG_COUNT(texts); i++)
        sg_span_text(j, texts[i].key, texts[i].value);
    if (t->limits) {
        char cpus[24];
        (void)snprintf(cpus, sizeof cpus, "%llu.%03llu",
                       (unsigned long long)(t->limits->cpu_milli / 1000),
                       (unsigned long long)(t->limits->cpu_milli % 1000));
        sg_span_int(j, "sandglass.limits.memory_bytes", t->limits->mem_bytes);
        sg_span_number(j, "sandglass.limits.cpus", cpus);
        sg_span_int(j, "sandglass.limits.pids", t->limits->pids);
        sg_span_int(j, "sandglass.limits.disk_bytes", t->limits->disk_bytes);
    }
    if (t->exit_code >= 0)
        sg_span_int(j, "process.exit.code", (uint64_t)t->exit_code);
    if (t->span.error)
        sg_span_text(j, "error.type", t->ending);
}

static const struct {
    const char *key, *name;
    size_t offset;
    uint64_t unit;
} used[] = {
#define AT(f) offsetof(struct sg_amounts, f)
    { "sandglass.usage.cpu_ms", "cpu_ms", AT(cpu_ns), 1000000 },
    { "sandglass.usage.memory_mib_ms", "memory_mib_ms", AT(mem_mib_ms), 1 },
    { "sandglass.usage.disk_mib_ms", "disk_mib_ms", AT(disk_mib_ms), 1 },
    { "sandglass.usage.network_bytes", "network_bytes", AT(net_bytes), 1 },
    { "sandglass.usage.wall_ms", "wall_ms", AT(wall_ms), 1 },
#undef AT
};

static uint64_t amount(const struct sg_amounts *a, size_t i)
{
    return *(const uint64_t *)(const void *)((const char *)a + used[i].offset) / used[i].unit;
}

static void put_cost(struct sg_json *j, const struct sg_manager *m, const struct sg_told *t)
{
    const struct sg_money_text cost = sg_money_text(sg_price_of(&m->prices.own, t->amounts));
    sg_auto_buf text;
    struct sg_json inner;
    for (size_t i = 0; i < SG_COUNT(used); i++)
        sg_span_int(j, used[i].key, amount(t->amounts, i));
    sg_span_number(j, "sandglass.cost.amount", cost.s);
    sg_span_text(j, "sandglass.cost.currency", m->prices.currency);
    sg_buf_init(&text, 2048);
    sg_json_init(&inner, &text);
    sg_json_open(&inner, '{');
    sg_json_key(&inner, "total");
    sg_json_number(&inner, cost.s);
    sg_json_close(&inner, '}');
    sg_span_text(j, "langfuse.observation.cost_details", sg_buf_cstr(&text));
    sg_buf_clear(&text);
    sg_json_init(&inner, &text);
    sg_json_open(&inner, '{');
    for (size_t i = 0; i < SG_COUNT(used); i++) {
        sg_json_key(&inner, used[i].name);
        sg_json_u64(&inner, amount(t->amounts, i));
    }
    sg_json_close(&inner, '}');
    sg_span_text(j, "langfuse.observation.usage_details", sg_buf_cstr(&text));
}

static void put_trace(struct sg_json *j, const struct sg_told *t)
{
    const char *tags[] = { "sandglass", t->tier, t->operation };
    size_t n = 0;
    while (n < SG_COUNT(tags) && tags[n] && *tags[n])
        n++;
    sg_span_text(j, "langfuse.trace.name", t->span.name);
    sg_span_texts(j, "langfuse.trace.tags", tags, n);
    sg_span_text(j, "langfuse.trace.metadata.org", t->org);
    sg_span_text(j, "langfuse.trace.metadata.sandbox", t->sandbox);
    sg_span_text(j, "langfuse.trace.input", t->input);
    sg_span_text(j, "langfuse.trace.output", t->output);
}

static void put_langfuse(struct sg_json *j, const struct sg_traces *x, const struct sg_told *t)
{
    const char *user = t->user ? t->user : t->org;
    const char *session = t->session ? t->session : t->sandbox;
    sg_span_text(j, "user.id", user);
    sg_span_text(j, "session.id", session);
    sg_span_text(j, "langfuse.user.id", user);
    sg_span_text(j, "langfuse.session.id", session);
    sg_span_text(j, "langfuse.environment", x->environment);
    sg_span_text(j, "deployment.environment.name", x->environment);
    sg_span_text(j, "langfuse.release", x->version);
    sg_span_text(j, "langfuse.version", x->version);
    if (!t->span.trace->is_set) /* a part of somebody's trace does not rename it */
        put_trace(j, t);
    sg_span_text(j, "langfuse.observation.type", t->tool ? "tool" : "span");
    sg_span_text(j, "langfuse.observation.level", t->span.error ? "ERROR" : "DEFAULT");
    sg_span_text(j, "langfuse.observation.status_message", t->span.error);
    sg_span_text(j, "langfuse.observation.metadata.tier", t->tier);
    sg_span_text(j, "langfuse.observation.metadata.operation", t->operation);
    sg_span_text(j, "langfuse.observation.metadata.rule", t->rule);
    sg_span_text(j, "langfuse.observation.input", t->input);
    sg_span_text(j, "langfuse.observation.output", t->output);
}

void sg_told_tell(struct sg_manager *m, struct sg_told *t)
{
    sg_auto_buf line;
    struct sg_json j;
    sg_auto_free char *name = t->tool ? sg_printf("execute_tool %s", t->tool) : NULL;
    sg_buf_init(&line, SG_SPOOL_LINE_MAX);
    sg_json_init(&j, &line);
    t->span.name = name ? name : "create_sandbox";
    sg_span_open(&j, &t->span);
    put_gen_ai(&j, t);
    put_own(&j, t);
    put_langfuse(&j, m->traces, t);
    if (t->amounts)
        put_cost(&j, m, t);
    sg_span_close(&j, &t->span);
    sg_traces_add(m, &line);
}

/* ---- sandboxes ---- */

static const char *metadata(const struct sg_sandbox *s, const char *name)
{
    for (size_t i = 0; i < s->metadata.n; i++)
        if (strcmp(s->metadata.v[i].name, name) == 0)
            return s->metadata.v[i].value;
    return NULL;
}

struct sg_told sg_told_of(struct sg_sandbox *s)
{
    const struct sg_labels *l = sg_sandbox_labels(s);
    return (struct sg_told) { .org = s->org->id.s,
                              .sandbox = s->id.s,
                              .template = s->template,
                              .tier = l->tier,
                              .operation = l->operation,
                              .rule = l->rule,
                              .user = metadata(s, "user.id"),
                              .session = metadata(s, "session.id"),
                              .agent = metadata(s, "agent"),
                              .limits = &s->limits,
                              .exit_code = -1 };
}

void sg_trace_create(struct sg_sandbox *s, const struct sg_err *err)
{
    if (!s->manager->traces || s->is_internal)
        return;
    struct sg_told t = sg_told_of(s);
    t.span = (struct sg_trace_span) { .id = s->id.s,
                                      .trace = &s->life->trace,
                                      .start_ms = s->created_ms,
                                      .end_ms = sg_manager_unix_ms(),
                                      .error = err ? err->msg : NULL };
    t.ending = err ? sg_kind_name(err->kind) : "running";
    sg_told_tell(s->manager, &t);
}

/* ---- texts ---- */

static void put_shown(struct sg_json *j, const char *p, size_t n)
{
    sg_json_text(j, (struct sg_str) { p, n < SHOWN_BYTES ? n : SHOWN_BYTES });
}

char *sg_told_argv(char *const *argv)
{
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, 6 * SHOWN_BYTES);
    sg_json_init(&j, &out);
    sg_json_open(&j, '[');
    for (size_t left = SHOWN_BYTES; argv && *argv && left; argv++) {
        const size_t n = strlen(*argv), shown = n < left ? n : left;
        put_shown(&j, *argv, shown);
        left -= shown;
    }
    sg_json_close(&j, ']');
    return sg_strdup(sg_buf_cstr(&out));
}

/* How it ended, and for a task what it said. */
char *sg_told_end(const char *ending, int64_t code, const struct sg_buf *output)
{
    static const char *const names[SG_STREAM_COUNT] = { "stdout", "stderr" };
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, 16 * SHOWN_BYTES);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "ending");
    sg_json_str(&j, ending);
    if (code >= 0) {
        sg_json_key(&j, "exitCode");
        sg_json_i64(&j, code);
    }
    for (unsigned i = 0; output && i < SG_STREAM_COUNT; i++) {
        sg_json_key(&j, names[i]);
        put_shown(&j, (const char *)output[i].p, output[i].n);
    }
    sg_json_close(&j, '}');
    return sg_strdup(sg_buf_cstr(&out));
}

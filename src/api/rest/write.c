/* SPDX-License-Identifier: Apache-2.0 */
/* How things look in JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "api/rest/rest.h"
#include "base/auto.h"
#include "wire/base64.h"
#include "manager/net.h"
#include "base/banned.h"

void sg_rest_open_list(struct sg_json *j, struct sg_buf *out, const char *key)
{
    sg_buf_init(out, SG_REST_MAX_REPLY);
    sg_json_init(j, out);
    sg_json_open(j, '{');
    sg_json_key(j, key);
    sg_json_open(j, '[');
}

void sg_rest_put_time(struct sg_json *j, const char *key, int64_t unix_ms)
{
    if (!unix_ms)
        return;
    const time_t seconds = unix_ms / 1000;
    struct tm tm;
    char day[32], text[48];
    if (!gmtime_r(&seconds, &tm) || !strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm))
        return;
    (void)snprintf(text, sizeof text, "%s.%03dZ", day, (int)(unix_ms % 1000));
    sg_json_key(j, key);
    sg_json_str(j, text);
}

void sg_rest_put_text(struct sg_json *j, const char *key, const char *value)
{
    if (!value || !*value)
        return;
    sg_json_key(j, key);
    sg_json_str(j, value);
}

static void put_pairs(struct sg_json *j, const char *key, const struct sg_pairs *pairs)
{
    sg_json_key(j, key);
    sg_json_open(j, '{');
    for (size_t i = 0; i < pairs->n; i++) {
        sg_json_key(j, pairs->v[i].name);
        sg_json_str(j, pairs->v[i].value);
    }
    sg_json_close(j, '}');
}

static void put_limits(struct sg_json *j, const struct sg_sandbox *s)
{
    static const char *const controllers[] = { "memory", "cpu", "pids" };
    sg_json_key(j, "limits");
    sg_json_open(j, '{');
    sg_json_put_u64(j, "memoryBytes", s->limits.mem_bytes);
    sg_json_key(j, "cpus");
    sg_json_milli(j, s->limits.cpu_milli);
    sg_json_put_u64(j, "pids", s->limits.pids);
    sg_json_put_u64(j, "diskBytes", s->limits.disk_bytes);
    sg_json_close(j, '}');
    sg_json_key(j, "unenforced");
    sg_json_open(j, '[');
    for (unsigned i = 0; i < SG_COUNT(controllers); i++)
        if (s->missing & 1u << i)
            sg_json_str(j, controllers[i]);
    sg_json_close(j, ']');
}

void sg_rest_put_sandbox(struct sg_json *j, const struct sg_sandbox *s)
{
    sg_json_open(j, '{');
    sg_rest_put_text(j, "id", s->id.s);
    sg_rest_put_text(j, "org", s->org->id.s);
    sg_rest_put_text(j, "template", s->template);
    sg_rest_put_text(j, "state", sg_state_name(s->state));
    sg_rest_put_text(j, "cause", s->cause);
    sg_rest_put_text(j, "tier", sg_wall_names[s->wall]);
    if (s->decision) {
        sg_json_key(j, "decision");
        sg_buf_add_str(j->out, s->decision); /* is JSON already */
        j->needs_comma = true;
    }
    put_pairs(j, "metadata", &s->metadata);
    sg_rest_put_mounts(j, s);
    sg_rest_put_creds(j, s);
    put_limits(j, s);
    sg_rest_put_time(j, "createdAt", s->created_ms);
    sg_rest_put_time(j, "startedAt", s->started_ms);
    sg_rest_put_time(j, "expiresAt", s->expires_ms);
    sg_json_put_u64(j, "timeoutMs", s->timeout_ms);
    sg_json_put_u64(j, "idleTimeoutMs", s->idle_ms);
    sg_rest_put_text(j, "onExpiry", s->on_expiry == SG_EXPIRY_PAUSE ? "pause" : "kill");
    if (s->checkpoint_every)
        sg_json_put_u64(j, "checkpointEvery", s->checkpoint_every);
    if (s->captures_n) {
        sg_json_key(j, "captureFiles");
        sg_json_open(j, '[');
        for (size_t i = 0; i < s->captures_n; i++)
            sg_json_str(j, s->captures[i]);
        sg_json_close(j, ']');
    }
    sg_rest_put_text(j, "user", s->user);
    sg_rest_put_text(j, "workdir", s->workdir);
    sg_json_key(j, "wasParked");
    sg_json_bool(j, s->was_parked);
    sg_json_key(j, "retries");
    sg_json_open(j, '{');
    sg_json_put_u64(j, "left", s->retries_left);
    sg_json_put_u64(j, "used", s->retries_used);
    sg_json_close(j, '}');
    sg_json_put_u64(j, "execs", s->execs.n);
    sg_rest_put_text(j, "storage", s->is_pooled ? "pool" : "tmpfs");
    sg_rest_put_text(j, "snapshot", s->snapshot);
    sg_rest_put_text(j, "parent", s->parent);
    if (s->state == SBX_PAUSED) { /* what is kept of it, and until when */
        sg_rest_put_text(j, "paused", s->paused_snapshot ? "disk" : "memory");
        sg_json_key(j, "filesKept");
        sg_json_bool(j, s->paused_snapshot || s->paused_files);
        sg_json_put_u64(j, "reclaimedBytes", sg_manager_reclaimed(s));
    }
    sg_json_key(j, "network");
    sg_net_put(j, &s->network);
    sg_json_close(j, '}');
}

void sg_rest_put_exec_members(struct sg_json *j, const struct sg_exec *x)
{
    const bool has_ended = x->ending != SG_EXEC_RUNNING;
    struct sg_amounts amounts;
    sg_rest_put_text(j, "id", x->id.s);
    sg_rest_put_text(j, "sandbox", x->sandbox->id.s);
    sg_json_put_u64(j, "pid", x->pid);
    sg_json_key(j, "argv");
    sg_json_open(j, '[');
    for (char **a = x->argv; a && *a; a++)
        sg_json_str(j, *a);
    sg_json_close(j, ']');
    sg_rest_put_text(j, "cwd", x->cwd);
    sg_rest_put_text(j, "user", x->user);
    sg_json_key(j, "tty");
    sg_json_bool(j, x->has_tty);
    sg_json_key(j, "background");
    sg_json_bool(j, x->is_background);
    sg_rest_put_text(j, "tag", x->tag);
    sg_rest_put_text(j, "state", has_ended ? "ended" : "running");
    if (has_ended) {
        sg_rest_put_text(j, "ending", sg_exec_ending_name(x->ending));
        if (x->ending != SG_EXEC_LOST) /* nobody knows, and 0 would be a claim */
            sg_json_put_u64(j, "exitCode", x->signal ? 128 + x->signal : x->code);
        if (x->signal)
            sg_json_put_u64(j, "signal", x->signal);
        sg_json_put_u64(j, "cpuMs", x->cpu_ns / 1000000);
        sg_exec_amounts(x, &amounts);
        sg_rest_put_amounts(j, x->sandbox->manager, &amounts);
    }
    sg_rest_put_time(j, "startedAt", x->started_ms);
    sg_rest_put_time(j, "endedAt", x->ended_ms);
    sg_json_put_u64(j, "outputBytes", x->total_bytes);
    sg_json_key(j, "complete");
    sg_json_bool(j, x->is_complete);
}

void sg_rest_put_exec(struct sg_json *j, const struct sg_exec *x)
{
    sg_json_open(j, '{');
    sg_rest_put_exec_members(j, x);
    sg_json_close(j, '}');
}

void sg_rest_put_bytes(struct sg_json *j, const char *key, const char *key64, const void *p,
                       size_t n)
{
    if (sg_utf8_valid(p, n)) {
        sg_json_key(j, key);
        sg_json_text(j, (struct sg_str) { p, n });
        return;
    }
    sg_json_key(j, key64);
    sg_buf_add_str(j->out, "\"");
    sg_base64_encode(j->out, p, n);
    sg_buf_add_str(j->out, "\"");
    j->needs_comma = true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/move_doc.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/jsonr.h"
#include "image/unnamed.h"
#include "manager/capture.h"
#include "manager/life.h"
#include "manager/move_file.h"
#include "manager/net.h"
#include "manager/traits.h"
#include "base/banned.h"

#if defined(__x86_64__)
static const char architecture[] = "x86_64";
#elif defined(__aarch64__)
static const char architecture[] = "aarch64";
#else
static const char architecture[] = "other";
#endif

static const char kind[] = "layer";

/* ---- being ---- */

void sg_move_doc_of(struct sg_move_doc *d, const struct sg_sandbox *s)
{
    *d = (struct sg_move_doc) {
        .has_settings = true,
        .pauses = s->on_expiry == SG_EXPIRY_PAUSE,
        .drops_memory = s->drops_memory,
        .has_network = true, /* none, too: what is not said is the organisation's default */
        .limits = s->limits,
        .timeout_ms = s->timeout_ms,
        .idle_ms = s->idle_ms,
        .checkpoint_every = s->checkpoint_every,
    };
    memcpy(d->sandbox, s->id.s, sizeof d->sandbox);
    sg_pairs_copy(&d->metadata, s->metadata.v, s->metadata.n);
    sg_pairs_copy(&d->env, s->env.v, s->env.n);
    sg_net_copy(&d->network, &s->network);
    sg_traits_copy(&d->traits, &s->traits);
    d->captures = s->captures_n ? sg_alloc(s->captures_n * sizeof *d->captures) : NULL;
    for (; d->captures_n < s->captures_n; d->captures_n++)
        d->captures[d->captures_n] = sg_strdup(s->captures[d->captures_n]);
}

void sg_move_doc_done(struct sg_move_doc *d)
{
    sg_pairs_done(&d->metadata);
    sg_pairs_done(&d->env);
    sg_policy_done(&d->network);
    sg_traits_done(&d->traits);
    for (size_t i = 0; i < d->captures_n; i++)
        free(d->captures[i]);
    free(d->captures);
    *d = (struct sg_move_doc) { 0 };
}

/* ---- out ---- */

static void put_settings(struct sg_json *j, const struct sg_move_doc *d)
{
    sg_json_key(j, "settings");
    sg_json_open(j, '{');
    sg_json_put_u64(j, "memoryBytes", d->limits.mem_bytes);
    sg_json_put_u64(j, "cpuMilli", d->limits.cpu_milli);
    sg_json_put_u64(j, "pids", d->limits.pids);
    sg_json_put_u64(j, "diskBytes", d->limits.disk_bytes);
    sg_json_put_u64(j, "timeoutMs", d->timeout_ms);
    sg_json_put_u64(j, "idleMs", d->idle_ms);
    sg_json_put_bool(j, "pausesAtExpiry", d->pauses);
    sg_json_put_bool(j, "dropsMemory", d->drops_memory);
    sg_json_put_u64(j, "checkpointEvery", d->checkpoint_every);
    sg_json_key(j, "metadata");
    sg_pairs_write(j, &d->metadata);
    sg_json_key(j, "env");
    sg_pairs_write(j, &d->env);
    if (d->has_network) {
        sg_json_key(j, "network");
        sg_net_put(j, &d->network);
    }
    sg_json_key(j, "captureFiles");
    sg_json_open(j, '[');
    for (size_t i = 0; i < d->captures_n; i++)
        sg_json_str(j, d->captures[i]);
    sg_json_close(j, ']');
    sg_json_close(j, '}');
}

void sg_move_doc_put(const struct sg_move_doc *d, struct sg_buf *out)
{
    struct sg_json j;
    sg_json_init(&j, out);
    sg_json_open(&j, '{');
    sg_json_put_str(&j, "files", kind);
    sg_json_put_str(&j, "architecture", architecture);
    sg_json_put_str(&j, "template", d->template);
    sg_json_put_str(&j, "templateIdentity", d->identity);
    if (d->is_whole) {
        sg_json_key(&j, "templateImage");
        sg_json_open(&j, '{');
        sg_json_put_u64(&j, "bytes", d->template_bytes);
        sg_json_put_u64(&j, "unpackedBytes", d->template_unpacked);
        sg_json_put_bool(&j, "sudo", d->template_sudo);
        sg_json_close(&j, '}');
    }
    if (*d->sandbox)
        sg_json_put_str(&j, "sandbox", d->sandbox);
    sg_json_key(&j, "traits");
    sg_traits_put(&j, &d->traits);
    if (d->has_settings)
        put_settings(&j, d);
    sg_json_close(&j, '}');
}

/* ---- in ---- */

struct head {
    const char *files, *architecture, *template, *identity, *sandbox;
    const struct sg_jval *image, *traits, *settings;
};
struct settings {
    uint64_t mem, cpu, pids, disk, timeout_ms, idle_ms, every;
    bool pauses, drops_memory;
    const struct sg_jval *metadata, *env, *network, *captures;
};

#define AT(f) offsetof(struct head, f)
static const struct sg_jfield head_fields[] = {
    { "files", SG_JT_STRING, AT(files), 0, 0, true },
    { "architecture", SG_JT_STRING, AT(architecture), 0, 0, true },
    { "template", SG_JT_STRING, AT(template), 0, 0, true },
    { "templateIdentity", SG_JT_STRING, AT(identity), 0, 0, true },
    { "sandbox", SG_JT_STRING, AT(sandbox), 0, 0, false },
    { "templateImage", SG_JT_OBJECT, AT(image), 0, 0, false },
    { "traits", SG_JT_OBJECT, AT(traits), 0, 0, false },
    { "settings", SG_JT_OBJECT, AT(settings), 0, 0, false },
};
#undef AT
#define AT(f) offsetof(struct sg_move_doc, f)
static const struct sg_jfield image_fields[] = {
    { "bytes", SG_JT_U64, AT(template_bytes), 0, INT64_MAX, true },
    { "unpackedBytes", SG_JT_U64, AT(template_unpacked), 0, INT64_MAX, true },
    { "sudo", SG_JT_BOOL, AT(template_sudo), 0, 0, false },
};
#undef AT
#define AT(f) offsetof(struct settings, f)
static const struct sg_jfield settings_fields[] = {
    { "memoryBytes", SG_JT_U64, AT(mem), 0, INT64_MAX, false },
    { "cpuMilli", SG_JT_U64, AT(cpu), 0, INT64_MAX, false },
    { "pids", SG_JT_U64, AT(pids), 0, INT64_MAX, false },
    { "diskBytes", SG_JT_U64, AT(disk), 0, INT64_MAX, false },
    { "timeoutMs", SG_JT_U64, AT(timeout_ms), 0, INT64_MAX, false },
    { "idleMs", SG_JT_U64, AT(idle_ms), 0, INT64_MAX, false },
    { "pausesAtExpiry", SG_JT_BOOL, AT(pauses), 0, 0, false },
    { "dropsMemory", SG_JT_BOOL, AT(drops_memory), 0, 0, false },
    { "checkpointEvery", SG_JT_U64, AT(every), 0, SG_CHECKPOINT_EVERY_MAX, false },
    { "metadata", SG_JT_OBJECT, AT(metadata), 0, 0, false },
    { "env", SG_JT_OBJECT, AT(env), 0, 0, false },
    { "network", SG_JT_OBJECT, AT(network), 0, 0, false },
    { "captureFiles", SG_JT_ARRAY, AT(captures), 0, 0, false },
};
#undef AT

static int read_captures(const struct sg_jval *v, struct sg_move_doc *d, struct sg_err *err)
{
    if (!v || !v->list.n)
        return 0;
    if (v->list.n > SG_CAPTURES_MAX)
        return sg_fail(err, SG_INVALID, "captureFiles has at most %d patterns", SG_CAPTURES_MAX);
    d->captures = sg_alloc(v->list.n * sizeof *d->captures);
    for (const struct sg_jval *one = v->list.first; one; one = one->next) {
        if (one->kind != SG_J_STRING || strlen(one->s.p) != one->s.n)
            return sg_fail(err, SG_INVALID, "captureFiles has something else than patterns");
        d->captures[d->captures_n++] = sg_strdup(one->s.p);
    }
    return sg_captures_check((const char *const *)d->captures, d->captures_n, err);
}

static int read_settings(const struct sg_jval *v, struct sg_move_doc *d, struct sg_err *err)
{
    struct settings s = { 0 };
    if (sg_json_read(v, settings_fields, SG_COUNT(settings_fields), &s, err) < 0)
        return -1;
    d->has_settings = true;
    d->limits = (struct sg_sandbox_limits) { s.mem, s.cpu, s.pids, s.disk };
    d->timeout_ms = s.timeout_ms;
    d->idle_ms = s.idle_ms;
    d->pauses = s.pauses;
    d->drops_memory = s.drops_memory;
    d->checkpoint_every = s.every;
    sg_pairs_read(s.metadata, &d->metadata);
    sg_pairs_read(s.env, &d->env);
    if (sg_pairs_check("metadata", d->metadata.v, d->metadata.n, false, err) < 0 ||
        sg_pairs_check("env", d->env.v, d->env.n, true, err) < 0 ||
        (s.network && sg_net_read(s.network, &d->network, err) < 0))
        return -1;
    d->has_network = s.network;
    return read_captures(s.captures, d, err);
}

static int read_head(const struct sg_jval *v, struct sg_move_doc *d, struct sg_err *err)
{
    struct head h = { 0 };
    if (sg_json_read(v, head_fields, SG_COUNT(head_fields), &h, err) < 0)
        return -1;
    if (strcmp(h.files, kind) != 0)
        return sg_fail(err, SG_UNSUPPORTED, "its files are told as %s, which is not known here",
                       sg_quote(h.files).s);
    if (strcmp(h.architecture, architecture) != 0)
        return sg_fail(err, SG_UNSUPPORTED,
                       "it is of a machine of another kind: %s, and this is %s",
                       sg_quote(h.architecture).s, architecture);
    d->is_whole = h.image;
    if (h.image && sg_json_read(h.image, image_fields, SG_COUNT(image_fields), d, err) < 0)
        return -1;
    /* A template without a name is another one's own, unless it is in the file itself. */
    if (!(d->is_whole && sg_templates_is_image(h.template)) &&
        sg_template_name_check(h.template, err) < 0)
        return -1;
    if (strlen(h.identity) > SG_MOVE_NAME_MAX || (h.sandbox && !sg_id_is_valid(h.sandbox, 's')))
        return sg_fail(err, SG_INVALID, "where it comes from makes no sense");
    (void)snprintf(d->template, sizeof d->template, "%s", h.template);
    (void)snprintf(d->identity, sizeof d->identity, "%s", h.identity);
    (void)snprintf(d->sandbox, sizeof d->sandbox, "%s", h.sandbox ? h.sandbox : "");
    sg_traits_read(h.traits, &d->traits);
    if (sg_pairs_check("traits", d->traits.env.v, d->traits.env.n, true, err) < 0)
        return -1;
    return h.settings ? read_settings(h.settings, d, err) : 0;
}

int sg_move_doc_read(struct sg_str text, struct sg_move_doc *ret, struct sg_err *err)
{
    sg_auto_arena a;
    const struct sg_jval *v;
    struct sg_move_doc d = { 0 };
    sg_arena_init(&a, (size_t)4 * SG_MOVE_MANIFEST_MAX);
    if (sg_json_parse(text, &a, &v, err) < 0 || read_head(v, &d, err) < 0) {
        sg_move_doc_done(&d);
        return sg_wrap(err, "the manifest of the file");
    }
    *ret = d;
    return 0;
}

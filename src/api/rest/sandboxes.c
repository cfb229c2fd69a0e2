/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "api/rest/rest.h"
#include "base/auto.h"
#include "manager/cred.h"
#include "manager/net.h"
#include "wire/url.h"
#include "base/banned.h"

enum { PAGE_DEFAULT = 100, PAGE_MAX = 1000, MAX_RETRIES = 10, MAX_FILTERS = 16 };

struct create_body {
    const char *template, *on_expiry;
    const struct sg_jval *limits, *metadata, *env, *network, *mounts, *captures, *secrets;
    uint64_t timeout_ms, idle_ms, retries, checkpoint_every;
    struct sg_rest_ask ask;
};
#define AT(f) offsetof(struct create_body, f)
static const struct sg_jfield create_fields[] = {
    { "template", SG_JT_STRING, AT(template), 0, 0, false },
    { "limits", SG_JT_OBJECT, AT(limits), 0, 0, false },
    { "timeoutMs", SG_JT_U64, AT(timeout_ms), 0, UINT64_MAX / 1000000, false },
    { "idleTimeoutMs", SG_JT_U64, AT(idle_ms), 0, UINT64_MAX / 1000000, false },
    { "onExpiry", SG_JT_STRING, AT(on_expiry), 0, 0, false },
    { "metadata", SG_JT_OBJECT, AT(metadata), 0, 0, false },
    { "env", SG_JT_OBJECT, AT(env), 0, 0, false },
    { "network", SG_JT_VALUE, AT(network), 0, 0, false },
    { "retries", SG_JT_U64, AT(retries), 0, MAX_RETRIES, false },
    { "mounts", SG_JT_ARRAY, AT(mounts), 0, 0, false },
    { "captureFiles", SG_JT_ARRAY, AT(captures), 0, 0, false },
    { "checkpointEvery", SG_JT_U64, AT(checkpoint_every), 0, UINT32_MAX, false },
    { "secrets", SG_JT_ARRAY, AT(secrets), 0, 0, false },
    SG_REST_ASK_ROWS(AT(ask)),
};
#undef AT

static int read_expiry(const char *text, enum sg_expiry *ret, struct sg_err *err)
{
    if (!text || strcmp(text, "kill") == 0)
        *ret = SG_EXPIRY_KILL;
    else if (strcmp(text, "pause") == 0)
        *ret = SG_EXPIRY_PAUSE;
    else
        return sg_fail(err, SG_INVALID, "onExpiry is \"kill\" or \"pause\", not %s",
                       sg_quote(text).s);
    return 0;
}

int sg_rest_sandbox_create(struct sg_call *c, struct sg_err *err)
{
    struct create_body b = { .timeout_ms = UINT64_MAX };
    const struct sg_jval *body;
    struct sg_create create = { 0 };
    struct sg_policy network = { 0 };
    struct sg_cred_set creds = { 0 };
    struct sg_pair *metadata = NULL, *env = NULL;
    const char **captures = NULL;
    struct sg_ask ask;
    if (sg_call_json(c, &body, err) < 0 ||
        sg_json_read(body, create_fields, SG_COUNT(create_fields), &b, err) < 0 ||
        sg_rest_limits(b.limits, &create.limits, err) < 0 ||
        sg_call_pairs(c, b.metadata, "metadata", &metadata, &create.metadata_n, err) < 0 ||
        sg_call_pairs(c, b.env, "env", &env, &create.env_n, err) < 0 ||
        sg_rest_mounts(c, b.mounts, &create, err) < 0 ||
        sg_rest_strings(c, b.captures, "captureFiles", &captures, err) < 0 ||
        read_expiry(b.on_expiry, &create.on_expiry, err) < 0 ||
        (b.network && sg_rest_read_network(c, b.network, &network, err) < 0))
        return -1;
    b.ask.network = sg_net_mode_name(network.mode);
    if (sg_rest_read_ask(&b.ask, &ask, err) < 0 || sg_rest_creds(c, b.secrets, &creds, err) < 0) {
        sg_policy_done(&network);
        return -1;
    }
    create.ask = &ask;
    create.template = b.template;
    create.timeout_ms = b.timeout_ms;
    create.idle_ms = b.idle_ms;
    create.captures = captures;
    create.captures_n = b.captures ? b.captures->list.n : 0;
    create.checkpoint_every = (unsigned)b.checkpoint_every;
    create.metadata = metadata;
    create.env = env;
    create.retries = (unsigned)b.retries;
    create.network = b.network ? &network : NULL; /* its template's, or its organisation's */
    create.creds = &creds;
    int got = sg_manager_create(c->manager, &c->who, &create, sg_rest_reply_created, c, err);
    sg_policy_done(&network);
    sg_creds_done(&creds);
    return got;
}

/* ---- list ---- */

static int read_states(const char *text, unsigned *ret, struct sg_err *err)
{
    while (text && *text) {
        char name[16];
        size_t n = strcspn(text, ",");
        enum sg_state state;
        if (n < sizeof name) {
            memcpy(name, text, n);
            name[n] = '\0';
        }
        if (n >= sizeof name || sg_state_parse(name, &state) < 0)
            return sg_fail(err, SG_INVALID, "no such state in %s", sg_quote(text).s);
        *ret |= 1u << state;
        text += n + (text[n] == ',');
    }
    return 0;
}

static const char PREFIX[] = "metadata.";

/* metadata.K=V: several of them, all must hold. */
static int read_filters(struct sg_call *c, struct sg_pair *filters, size_t *ret_n,
                        struct sg_err *err)
{
    struct sg_str rest = sg_str_of(c->raw_query), n, v;
    while (sg_query_next(&rest, &n, &v)) {
        char *name = sg_arena_alloc(&c->arena, n.n + 1),
             *value = sg_arena_alloc(&c->arena, v.n + 1);
        if (!name || !value)
            return sg_fail(err, SG_EXHAUSTED, "no room for the query");
        if (sg_url_decode(n, true, name, err) < 0 || sg_url_decode(v, true, value, err) < 0)
            return -1;
        if (!sg_starts_with(name, PREFIX))
            continue;
        if (*ret_n == MAX_FILTERS)
            return sg_fail(err, SG_INVALID, "over %d metadata filters", MAX_FILTERS);
        filters[(*ret_n)++] = (struct sg_pair) { name + strlen(PREFIX), value };
    }
    return 0;
}

int sg_rest_sandbox_list(struct sg_call *c, struct sg_err *err)
{
    static const char *const known[] = { "state", "limit", "after", PREFIX, NULL };
    struct sg_pair filters[MAX_FILTERS];
    uint64_t limit = PAGE_DEFAULT;
    struct sg_list_query q = { .metadata = filters, .after = sg_call_query(c, "after") };
    if (sg_call_query_only(c, known, err) < 0 ||
        read_states(sg_call_query(c, "state"), &q.states, err) < 0 ||
        read_filters(c, filters, &q.metadata_n, err) < 0 ||
        sg_call_query_u64(c, "limit", 1, PAGE_MAX, &limit, err) < 0)
        return -1;
    q.limit = (unsigned)limit;
    struct sg_sandbox **found = sg_arena_alloc(&c->arena, limit * sizeof(struct sg_sandbox *));
    if (!found)
        return sg_fail(err, SG_EXHAUSTED, "no room for the list");
    bool has_more = false;
    const size_t n = sg_manager_list(c->manager, &c->who, &q, found, &has_more);
    sg_auto_buf out;
    struct sg_json j;
    sg_rest_open_list(&j, &out, "sandboxes");
    for (size_t i = 0; i < n; i++)
        sg_rest_put_sandbox(&j, found[i]);
    sg_json_close(&j, ']');
    if (has_more && n) {
        sg_json_key(&j, "next");
        sg_json_str(&j, found[n - 1]->id.s);
    }
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}

/* ---- one ---- */

int sg_rest_sandbox_get(struct sg_call *c, struct sg_err *err)
{
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    if (!s)
        return -1;
    sg_rest_reply_sandbox(c, s, NULL);
    return 0;
}

static void destroyed(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    (void)s;
    sg_rest_reply_done(arg, err);
}

int sg_rest_sandbox_delete(struct sg_call *c, struct sg_err *err)
{
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    return s ? sg_manager_destroy(s, &c->who, destroyed, c, err) : -1;
}

static void all_destroyed(void *arg, unsigned count, const struct sg_err *err)
{
    struct sg_call *c = arg;
    char text[48];
    if (err) {
        sg_reply_error(c, err);
        return;
    }
    (void)snprintf(text, sizeof text, "{\"destroyed\":%u}", count);
    sg_reply_text(c, 200, "application/json", text);
}

int sg_rest_sandbox_delete_all(struct sg_call *c, struct sg_err *err)
{
    return sg_manager_destroy_all(c->manager, &c->who, all_destroyed, c, err);
}

/* A row a verb: all look the same. */
#define VERB(name, call)                                                                           \
    int name(struct sg_call *c, struct sg_err *err)                                                \
    {                                                                                              \
        struct sg_sandbox *s = sg_rest_sandbox(c, err);                                            \
        return s ? call(s, &c->who, sg_rest_reply_sandbox, c, err) : -1;                           \
    }
VERB(sg_rest_sandbox_resume, sg_manager_resume)
VERB(sg_rest_sandbox_stop, sg_manager_stop)
VERB(sg_rest_sandbox_start, sg_manager_start)

int sg_rest_sandbox_timeout(struct sg_call *c, struct sg_err *err)
{
    uint64_t timeout_ms = 0;
    const struct sg_jfield fields[] = { { "timeoutMs", SG_JT_U64, 0, 0, UINT64_MAX / 1000000,
                                          true } };
    const struct sg_jval *body;
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    if (!s || sg_call_json(c, &body, err) < 0 ||
        sg_json_read(body, fields, 1, &timeout_ms, err) < 0)
        return -1;
    return sg_manager_set_timeout(s, &c->who, timeout_ms, sg_rest_reply_sandbox, c, err);
}

int sg_rest_sandbox_keepalive(struct sg_call *c, struct sg_err *err)
{
    struct sg_sandbox *s = sg_rest_sandbox(c, err);
    if (!s)
        return -1;
    return sg_manager_set_timeout(s, &c->who, s->timeout_ms, sg_rest_reply_sandbox, c, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Organisations, keys, quotas and events: who may what, and who sees what. */
#include "manager_rig.h"

#include "meter/audit.h"
#include "random.h"
#include "base/banned.h"

struct tenant { /* an organisation with a key of its own */
    const struct sg_org *org;
    struct sg_id key;
    char secret[SG_KEY_LEN + 1];
    struct sg_err err;
    unsigned calls;
};

static void note_org(void *arg, const struct sg_org *o, const struct sg_err *err)
{
    struct tenant *t = arg;
    t->calls++;
    t->org = o;
    if (err)
        t->err = *err;
}

static void note_key(void *arg, const struct sg_key *k, const char *secret,
                     const struct sg_err *err)
{
    struct tenant *t = arg;
    t->calls++;
    if (err) {
        t->err = *err;
        return;
    }
    t->key = k->id;
    memcpy(t->secret, secret, sizeof t->secret);
}

static void note_end(void *arg, const struct sg_err *err)
{
    struct tenant *t = arg;
    t->calls++;
    if (err)
        t->err = *err;
}

static void note_count(void *arg, unsigned count, const struct sg_err *err)
{
    assert_null(err);
    *(unsigned *)arg = count;
}

static struct tenant make_key(struct rig *r, const struct sg_who *who, struct sg_key_spec spec)
{
    struct tenant t = { 0 };
    struct sg_err err;

    spec.name = spec.name ? spec.name : "test";
    spec.scopes = spec.scopes ? spec.scopes : SG_SCOPE_ALL;
    assert_ok(sg_key_create(r->m, who, &spec, note_key, &t, &err), err);
    rig_until(r, t.calls);
    assert_int_equal(t.err.kind, SG_OK);
    return t;
}

static struct tenant make_tenant(struct rig *r, const char *name, const struct sg_quota *quota)
{
    struct tenant t = { 0 };
    struct sg_err err;

    assert_ok(sg_org_create(r->m, &r->who, name, quota, note_org, &t, &err), err);
    rig_until(r, t.calls);
    struct tenant k = make_key(r, &r->who, (struct sg_key_spec) { .org = t.org->id.s });
    k.org = t.org;
    return k;
}

static struct sg_who as(struct rig *r, const struct tenant *t)
{
    struct sg_who who;
    struct sg_err err;
    assert_ok(sg_tenant_authenticate(r->m, t->secret, SG_KEY_LEN, &who, &err), err);
    return who;
}

/* ---- refusals ---- */

struct refusals {
    const char *org;
    unsigned records;
    unsigned long long more;
};

static bool count_refusal(void *arg, const struct sg_audit_row *a)
{
    struct refusals *n = arg;
    if (strcmp(a->action, "denied") != 0 || strcmp(a->org, n->org) != 0)
        return true;
    unsigned long long more = 0;
    n->records += sscanf(a->detail, "{\"more\":%llu}", &more) != 1;
    n->more += more;
    return true;
}

static struct refusals refusals_of(struct rig *r, const char *org)
{
    struct refusals n = { .org = org };
    struct sg_err err;
    rig_until(r, sg_store_stats(r->store).queued == 0);
    assert_ok(sg_store_each_audit(r->store, 0, count_refusal, &n, &err), err);
    return n;
}

static void refusals_beyond_a_few_a_second_are_one_record_with_their_number(void **state)
{
    struct rig *r = *state;
    struct sg_err err;
    struct tenant noisy = make_tenant(r, "noisy", NULL), quiet = make_tenant(r, "quiet", NULL);
    struct sg_who who = as(r, &noisy), other = as(r, &quiet);
    r->m->audit = sg_audit_new(r->store, &err);
    assert_non_null(r->m->audit);
    who.scopes = other.scopes = SG_SCOPE_READ;
    struct sg_key_spec spec = { .name = "no", .scopes = SG_SCOPE_READ };
    for (unsigned i = 0; i < 1000; i++)
        assert_fails(sg_key_create(r->m, &who, &spec, NULL, NULL, &err), err, SG_DENIED);
    assert_fails(sg_key_create(r->m, &other, &spec, NULL, NULL, &err), err, SG_DENIED);
    sg_refusals_sum(r->m);
    struct refusals n = refusals_of(r, noisy.org->id.s);
    assert_true(n.records >= 10 && n.records < 40); /* the loop's time may go on meanwhile */
    assert_int_equal(n.records + n.more, 1000);
    assert_int_equal(refusals_of(r, quiet.org->id.s).records, 1);
    sg_audit_free(sg_take_ptr(&r->m->audit));
}

/* ---- keys ---- */

static bool has_secret(void *arg, const struct sg_key_row *k)
{
    const char *secret = arg;
    assert_null(strstr(k->hash, secret + 4));
    assert_int_equal(strlen(k->hash), 64);
    assert_memory_equal(k->shown, secret, 12);
    assert_int_equal(strlen(k->shown), 12);
    return true;
}

static void a_key_is_shown_once_and_kept_as_a_hash(void **state)
{
    struct rig *r = *state;
    struct tenant t = make_key(r, &r->who, (struct sg_key_spec) { 0 });
    struct sg_err err;

    assert_memory_equal(t.secret, "e2b_", 4);
    assert_int_equal(strlen(t.secret), 44);
    assert_int_equal(strspn(t.secret + 4, "0123456789abcdef"), 40);
    assert_ok(sg_store_each_key(r->store, has_secret, t.secret, &err), err);
    struct sg_who who = as(r, &t);
    assert_ptr_equal(who.org, r->m->default_org);
    assert_false(who.is_operator);
    rig_stop_manager(r);
    rig_start_manager(r);
    (void)as(r, &t);
}

static void every_refusal_of_a_key_reads_the_same(void **state)
{
    struct rig *r = *state;
    struct tenant soon =
        make_key(r, &r->who, (struct sg_key_spec) { .expires_ms = sg_manager_unix_ms() + 30 });
    struct tenant back = make_key(r, &r->who, (struct sg_key_spec) { 0 });
    struct sg_who who;
    struct sg_err err;
    char wrong[SG_KEY_LEN + 1];

    (void)as(r, &soon);
    (void)as(r, &back);
    memcpy(wrong, back.secret, sizeof wrong);
    wrong[43] = wrong[43] == 'a' ? 'b' : 'a';
    clock_pass(40000000);
    assert_ok(sg_key_revoke(r->m, &r->who, back.key.s, note_end, &back, &err), err);

    static const char said[] = "the key is not valid";
    const struct {
        const char *key;
        size_t n;
    } tries[] = { { soon.secret, 44 }, { back.secret, 44 }, { wrong, 44 }, { wrong, 43 },
                  { "", 0 },           { "x", 1 },          { "E2B_", 4 } };
    for (size_t i = 0; i < SG_COUNT(tries); i++) {
        assert_fails(sg_tenant_authenticate(r->m, tries[i].key, tries[i].n, &who, &err), err,
                     SG_DENIED);
        assert_string_equal(err.msg, said);
    }
    rig_until(r, back.calls == 2); /* the taking back was answered, too */
    rig_stop_manager(r);
    rig_start_manager(r);
    assert_fails(sg_tenant_authenticate(r->m, back.secret, 44, &who, &err), err, SG_DENIED);
}

static void a_key_asks_no_faster_than_it_may(void **state)
{
    struct rig *r = *state;
    struct tenant t = make_key(r, &r->who, (struct sg_key_spec) { .rate_per_s = 20 });
    struct sg_who who;
    struct sg_err err = { 0 };
    unsigned well = 0;

    for (unsigned i = 0; i < 100; i++)
        well += sg_tenant_authenticate(r->m, t.secret, 44, &who, &err) == 0;
    assert_int_equal(well, 20);
    assert_int_equal(err.kind, SG_EXHAUSTED);
    rig_run_ms(r, 210);
    well = 0;
    for (unsigned i = 0; i < 100; i++)
        well += sg_tenant_authenticate(r->m, t.secret, 44, &who, &err) == 0;
    assert_int_equal(well, 4);
}

static void nobody_gives_what_they_do_not_have(void **state)
{
    struct rig *r = *state;
    const char *const base[] = { "base", NULL }, *const other[] = { "base", "python", NULL };
    struct tenant a = make_key(
        r, &r->who,
        (struct sg_key_spec) { .scopes = SG_SCOPE_READ | SG_SCOPE_ADMIN, .templates = base });
    struct tenant plain = make_key(r, &r->who, (struct sg_key_spec) { .scopes = SG_SCOPE_READ });
    struct sg_who who = as(r, &a), reader = as(r, &plain);
    struct sg_key_spec spec = { .name = "x", .scopes = SG_SCOPE_EXEC, .templates = base };
    struct sg_create c = { .timeout_ms = 0 };
    struct sg_err err;

    assert_fails(sg_key_create(r->m, &who, &spec, note_key, &a, &err), err, SG_DENIED);
    spec.scopes = SG_SCOPE_READ;
    spec.templates = other;
    assert_fails(sg_key_create(r->m, &who, &spec, note_key, &a, &err), err, SG_DENIED);
    spec.templates = NULL;
    assert_fails(sg_key_create(r->m, &who, &spec, note_key, &a, &err), err, SG_DENIED);
    spec.templates = base;
    assert_ok(sg_key_create(r->m, &who, &spec, note_key, &a, &err), err);
    rig_until(r, a.calls == 2);
    assert_fails(sg_key_create(r->m, &reader, &spec, note_key, &a, &err), err, SG_DENIED);
    assert_fails(sg_manager_create(r->m, &reader, &c, tell, NULL, &err), err, SG_DENIED);
    assert_fails(sg_org_create(r->m, &who, "mine", NULL, note_org, &a, &err), err, SG_DENIED);
}

static void a_key_uses_the_templates_it_names(void **state)
{
    struct rig *r = *state;
    const char *const python[] = { "python", NULL };
    struct tenant t = make_key(r, &r->who, (struct sg_key_spec) { .templates = python });
    struct sg_who who = as(r, &t);
    struct sg_create c = { .timeout_ms = 0, .template = "base" };
    struct told told = { 0 };
    struct sg_err err;

    assert_fails(sg_manager_create(r->m, &who, &c, tell, &told, &err), err, SG_DENIED);
    c.template = "python";
    assert_ok(sg_manager_create(r->m, &who, &c, tell, &told, &err), err);
    rig_until(r, told.well);
    c.template = "../etc";
    assert_fails(sg_manager_create(r->m, &r->who, &c, tell, &told, &err), err, SG_INVALID);
}

/* ---- organisations ---- */

static void what_is_anothers_answers_exactly_as_what_is_not(void **state)
{
    struct rig *r = *state;
    struct tenant a = make_tenant(r, "a", NULL), b = make_tenant(r, "b", NULL);
    struct sg_who in_a = as(r, &a), in_b = as(r, &b);
    struct sg_create c = { .timeout_ms = 0 };
    struct told told = { 0 };
    struct sg_err err, missing;
    struct sg_sandbox *page[4];
    struct sg_list_query q = { .limit = 4 };
    bool more;
    unsigned count = 9;
    char expected[64];

    assert_ok(sg_manager_create(r->m, &in_a, &c, tell, &told, &err), err);
    rig_until(r, told.well);
    assert_non_null(sg_manager_find(r->m, &in_a, told.id, &err));
    assert_non_null(sg_manager_find(r->m, &r->who, told.id, &err)); /* the operator */
    assert_null(sg_manager_find(r->m, &in_b, told.id, &err));
    assert_null(sg_manager_find(r->m, &in_b, "s0000000000000000000", &missing));
    assert_int_equal(err.kind, missing.kind);
    (void)snprintf(expected, sizeof expected, "no sandbox '%s'", told.id);
    assert_string_equal(err.msg, expected);
    assert_string_equal(missing.msg, "no sandbox 's0000000000000000000'");
    assert_int_equal(sg_manager_list(r->m, &in_b, &q, page, &more), 0);
    assert_int_equal(sg_manager_list(r->m, &in_a, &q, page, &more), 1);

    assert_null(sg_org_find(r->m, &in_b, a.org->id.s, &err));
    assert_int_equal(err.kind, SG_NOT_FOUND);
    assert_fails(sg_key_revoke(r->m, &in_b, a.key.s, note_end, &b, &err), err, SG_NOT_FOUND);
    struct sg_key_spec spec = { .name = "x", .org = a.org->id.s, .scopes = SG_SCOPE_READ };
    assert_fails(sg_key_create(r->m, &in_b, &spec, note_key, &b, &err), err, SG_NOT_FOUND);
    size_t cursor = 0, keys = 0;
    for (const struct sg_key *k; (k = sg_key_next(r->m, &in_b, &cursor)); keys++)
        assert_ptr_equal(k->org, b.org);
    assert_int_equal(keys, 1);
    cursor = 0;
    assert_ptr_equal(sg_org_next(r->m, &in_b, &cursor), b.org);
    assert_null(sg_org_next(r->m, &in_b, &cursor));

    assert_ok(sg_manager_destroy_all(r->m, &in_b, note_count, &count, &err), err);
    assert_int_equal(count, 0);
    assert_int_equal(r->cell_count, 1);
}

static void anothers_sandbox_is_no_place_in_a_list(void **state)
{
    struct rig *r = *state;
    struct tenant a = make_tenant(r, "a", NULL), b = make_tenant(r, "b", NULL);
    struct sg_who in_a = as(r, &a), in_b = as(r, &b);
    struct sg_create c = { .timeout_ms = 0 };
    struct told older = { 0 }, newer = { 0 };
    struct sg_list_query q = { .limit = 4, .after = newer.id };
    struct sg_sandbox *page[4];
    struct sg_err err;
    bool more;

    assert_ok(sg_manager_create(r->m, &in_b, &c, tell, &older, &err), err);
    rig_until(r, older.well);
    assert_ok(sg_manager_create(r->m, &in_a, &c, tell, &newer, &err), err);
    rig_until(r, newer.well);
    assert_int_equal(sg_manager_list(r->m, &in_b, &q, page, &more), 0);
    assert_int_equal(sg_manager_list(r->m, &r->who, &q, page, &more), 1);
    (void)rig_do(r, sg_manager_destroy, newer.s);
    assert_int_equal(sg_manager_list(r->m, &in_b, &q, page, &more), 0);
    assert_int_equal(sg_manager_list(r->m, &r->who, &q, page, &more), 1);
}

static void an_organisation_with_sandboxes_stays_and_one_without_goes_with_its_keys(void **state)
{
    struct rig *r = *state;
    struct tenant a = make_tenant(r, "a", NULL);
    struct sg_who in_a = as(r, &a), who;
    struct sg_create c = { .timeout_ms = 0 };
    struct told told = { 0 };
    struct sg_err err;
    char id[SG_ID_LEN + 1];

    memcpy(id, a.org->id.s, sizeof id);
    assert_ok(sg_manager_create(r->m, &in_a, &c, tell, &told, &err), err);
    rig_until(r, told.well);
    assert_fails(sg_org_remove(r->m, &r->who, id, note_end, &a, &err), err, SG_CONFLICT);
    assert_int_equal(rig_do(r, sg_manager_destroy, told.s).well, 1);
    assert_ok(sg_org_remove(r->m, &r->who, id, note_end, &a, &err), err);
    assert_fails(sg_tenant_authenticate(r->m, a.secret, 44, &who, &err), err, SG_DENIED);
    assert_fails(sg_manager_create(r->m, &in_a, &c, tell, &told, &err), err, SG_NOT_FOUND);
    rig_until(r, a.calls == 2);
    rig_stop_manager(r);
    rig_start_manager(r);
    assert_null(sg_org_find(r->m, &r->who, id, &err));
    assert_fails(sg_org_remove(r->m, &r->who, r->who.org->id.s, note_end, &a, &err), err,
                 SG_CONFLICT);
    assert_fails(sg_org_create(r->m, &r->who, "default", NULL, note_org, &a, &err), err,
                 SG_CONFLICT);
}

/* ---- quotas ---- */

static void a_thousand_parallel_creates_pass_no_quota(void **state)
{
    struct rig *r = *state;
    struct sg_quota quota = { .sandboxes = 137 };
    struct tenant t = make_tenant(r, "busy", &quota);
    struct sg_who who = as(r, &t);
    struct sg_create c = { .timeout_ms = 0 };
    struct told told = { 0 };
    struct sg_err err;
    unsigned admitted = 0, refused = 0, gone = 0;

    r->looks_into_store = false;
    for (unsigned i = 0; i < 1000; i++) {
        if (sg_manager_create(r->m, &who, &c, tell, &told, &err) == 0) {
            admitted++;
        } else {
            assert_int_equal(err.kind, SG_EXHAUSTED);
            refused++;
        }
    }
    assert_int_equal(admitted, 137);
    assert_int_equal(refused, 863);
    rig_until(r, told.calls == 137);
    assert_int_equal(told.well, 137);
    assert_int_equal(r->cell_most, 137);
    assert_int_equal(t.org->sandboxes, 137);
    assert_int_equal(r->m->metrics.hits[SG_HIT_SANDBOXES], 863);
    assert_ok(sg_manager_destroy_all(r->m, &who, note_count, &gone, &err), err);
    rig_until(r, gone == 137);
    assert_null(r->m->newest);
    assert_int_equal(t.org->sandboxes, 0);
}

/* With creates that fail, and others that take what was given back. */
static void a_quota_is_given_back_exactly_once(void **state)
{
    struct rig *r = *state;
    struct sg_quota quota = { .mem_bytes = 640u << 20, .cpu_milli = 100000, .disk_bytes = 1 << 30 };
    struct tenant t = make_tenant(r, "mixed", &quota);
    struct sg_who who = as(r, &t);
    struct rng rng = rng_start("quota");
    struct told told = { 0 };
    unsigned asked = 0, gone = 0;

    r->looks_into_store = false;
    for (unsigned i = 0; i < 1000; i++) {
        struct sg_create c = { .timeout_ms = 0,
                               .limits = { .mem_bytes = (1 + rng_below(&rng, 100)) << 20 } };
        struct sg_err err;
        if (rng_below(&rng, 10) == 0)
            r->fails[SG_MSG_L_CREATE]++;
        asked += sg_manager_create(r->m, &who, &c, tell, &told, &err) == 0;
        assert_true(t.org->mem_bytes <= quota.mem_bytes);
        if (rng_below(&rng, 3) == 0)
            rig_turn(r);
        if (r->m->oldest && rng_below(&rng, 3) == 0)
            asked += sg_manager_destroy(r->m->oldest, &who, tell, &told, &err) == 0;
        uint64_t sum = 0;
        for (const struct sg_sandbox *s = r->m->newest; s; s = s->older)
            sum += s->life->charged.mem_bytes;
        assert_int_equal(sum, t.org->mem_bytes);
    }
    rig_until(r, told.calls == asked);
    struct sg_err err;
    assert_ok(sg_manager_destroy_all(r->m, &who, note_count, &gone, &err), err);
    rig_until(r, !r->m->newest);
    assert_int_equal(t.org->mem_bytes + t.org->cpu_milli + t.org->disk_bytes + t.org->sandboxes, 0);
    assert_int_equal(r->cell_count, 0);
}

static void creates_per_second_and_the_server_as_a_whole_are_limited(void **state)
{
    struct rig *r = *state;
    struct sg_quota quota = { .creates_per_s = 10 };
    struct tenant t = make_tenant(r, "quick", &quota);
    struct sg_who who = as(r, &t);
    struct sg_create c = { .timeout_ms = 0 };
    struct told told = { 0 };
    struct sg_err err;
    unsigned admitted = 0;

    for (unsigned i = 0; i < 50; i++)
        admitted += sg_manager_create(r->m, &who, &c, tell, &told, &err) == 0;
    assert_int_equal(admitted, 10);
    assert_int_equal(err.kind, SG_EXHAUSTED);
    rig_until(r, told.calls == 10);
    r->m->o.max_sandboxes = 12;
    for (unsigned i = 0; i < 50; i++)
        admitted += sg_manager_create(r->m, &r->who, &c, tell, &told, &err) == 0;
    assert_int_equal(admitted, 12);
    rig_until(r, told.calls == 12);
}

static void a_changed_quota_counts_at_once_and_after_a_restart(void **state)
{
    struct rig *r = *state;
    struct sg_quota one = { .sandboxes = 1 };
    struct tenant t = make_tenant(r, "small", &one);
    struct sg_who who = as(r, &t);
    struct sg_create c = { .timeout_ms = 0 };
    struct told told = { 0 };
    struct sg_err err;

    assert_ok(sg_manager_create(r->m, &who, &c, tell, &told, &err), err);
    assert_fails(sg_manager_create(r->m, &who, &c, tell, &told, &err), err, SG_EXHAUSTED);
    one.sandboxes = 2;
    assert_ok(sg_org_change(r->m, &r->who, t.org->id.s, "bigger", &one, note_org, &t, &err), err);
    rig_until(r, t.calls == 2 && told.calls == 1);
    assert_string_equal(t.org->name, "bigger");
    rig_stop_manager(r);
    rig_start_manager(r);
    who = as(r, &t);
    assert_ok(sg_manager_create(r->m, &who, &c, tell, &told, &err), err);
    assert_fails(sg_manager_create(r->m, &who, &c, tell, &told, &err), err, SG_EXHAUSTED);
    rig_until(r, told.calls == 2);
}

/* ---- events and metrics ---- */

struct ear {
    struct sg_listener l;
    unsigned wakes;
};

static void woken(struct sg_listener *l)
{
    SG_OWNER(l, struct ear, l)->wakes++;
}

static const char *next_type(struct rig *r, struct ear *e)
{
    const struct sg_event *ev = sg_events_next(r->m, &e->l);
    return ev ? ev->type : "";
}

static void events_reach_those_who_may_see_them_and_are_there_after_a_restart(void **state)
{
    struct rig *r = *state;
    struct tenant a = make_tenant(r, "a", NULL), b = make_tenant(r, "b", NULL);
    struct ear mine = { .l = { .who = as(r, &a), .wake = woken } };
    struct ear other = { .l = { .who = as(r, &b), .wake = woken } };
    struct sg_create c = { .timeout_ms = 0 };
    struct told told = { 0 };
    struct sg_err err;

    sg_events_listen(r->m, &mine.l, UINT64_MAX);
    sg_events_listen(r->m, &other.l, UINT64_MAX);
    assert_ok(sg_manager_create(r->m, &mine.l.who, &c, tell, &told, &err), err);
    rig_until(r, told.well && mine.wakes);
    assert_string_equal(next_type(r, &mine), "sandbox.created");
    uint64_t seen = mine.l.seen;
    assert_string_equal(next_type(r, &mine), "");
    assert_string_equal(next_type(r, &other), "");
    (void)rig_do(r, sg_manager_pause, told.s);
    (void)rig_do(r, sg_manager_resume, told.s);
    assert_string_equal(next_type(r, &mine), "sandbox.paused");
    assert_string_equal(next_type(r, &mine), "sandbox.resumed");
    sg_events_leave(&mine.l);
    sg_events_leave(&other.l);
    rig_stop_manager(r);
    rig_start_manager(r);
    struct ear again = { .l = { .who = as(r, &a), .wake = woken } };
    sg_events_listen(r->m, &again.l, seen);
    rig_until(r, again.wakes);
    assert_string_equal(next_type(r, &again), "sandbox.paused");
    assert_string_equal(next_type(r, &again), "sandbox.resumed");
    assert_string_equal(next_type(r, &again), "");
    (void)rig_do(r, sg_manager_destroy, r->m->newest);
    assert_string_equal(next_type(r, &again), "sandbox.destroyed");
    assert_ok(sg_key_revoke(r->m, &r->who, a.key.s, note_end, &a, &err), err);
    sg_events_add(r->m, again.l.who.org, NULL, "org.changed", NULL);
    assert_string_equal(next_type(r, &again), ""); /* the key is worth nothing any more */
    sg_events_leave(&again.l);
    rig_until(r, a.calls == 2);
}

static void metrics_say_what_happened(void **state)
{
    struct rig *r = *state;
    sg_auto_buf out;

    sg_buf_init(&out, 1 << 20);
    (void)rig_do(r, sg_manager_pause, rig_create(r, NULL));
    (void)rig_create(r, NULL);
    rig_in_time(r, r->m->pool_n); /* asked for every few seconds */
    sg_manager_metrics(r->m, &out);
    const char *text = sg_buf_cstr(&out);
    assert_non_null(strstr(text, "\nsandglass_sandboxes{state=\"running\"} 1\n"));
    assert_non_null(strstr(text, "\nsandglass_sandboxes{state=\"paused\"} 1\n"));
    assert_non_null(strstr(text, "\nsandglass_pool{template=\"base\",what=\"parked\"} 2\n"));
    assert_non_null(strstr(text, "\nsandglass_create_seconds_count 2\n"));
    assert_non_null(strstr(text, "sandglass_create_seconds_bucket{le=\"+Inf\"} 2\n"));
    assert_non_null(strstr(text, "sandglass_create_seconds_bucket{le=\"0.000250000\"} "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(refusals_beyond_a_few_a_second_are_one_record_with_their_number),
        RIG_TEST(a_key_is_shown_once_and_kept_as_a_hash),
        RIG_TEST(every_refusal_of_a_key_reads_the_same),
        RIG_TEST(a_key_asks_no_faster_than_it_may),
        RIG_TEST(nobody_gives_what_they_do_not_have),
        RIG_TEST(a_key_uses_the_templates_it_names),
        RIG_TEST(what_is_anothers_answers_exactly_as_what_is_not),
        RIG_TEST(anothers_sandbox_is_no_place_in_a_list),
        RIG_TEST(an_organisation_with_sandboxes_stays_and_one_without_goes_with_its_keys),
        RIG_TEST(a_thousand_parallel_creates_pass_no_quota),
        RIG_TEST(a_quota_is_given_back_exactly_once),
        RIG_TEST(creates_per_second_and_the_server_as_a_whole_are_limited),
        RIG_TEST(a_changed_quota_counts_at_once_and_after_a_restart),
        RIG_TEST(events_reach_those_who_may_see_them_and_are_there_after_a_restart),
        RIG_TEST(metrics_say_what_happened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

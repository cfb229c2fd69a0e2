/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes over the control plane: create, look at, keep, end. Both generations of each call. */
#include <string.h>
#include <sys/sysinfo.h>

#include "api/e2b/e2b.h"
#include "api/e2b/network.h"
#include "base/auto.h"
#include "manager/built.h"
#include "manager/snapshot.h"
#include "base/banned.h"

enum {
    SECONDS_V1 = 15, /* lifetimes where the request names none */
    SECONDS_V2 = 300,
    SECONDS_MAX = 315360000, /* ten years, as the manager's */
    REFRESH_MIN_S = 15,
};
static const char CLIENT_ID[] = "6532622b"; /* a constant of the API; old clients want one */

/* ---- which sandbox ---- */

struct sg_sandbox *sg_e2b_sandbox(struct sg_call *c, struct sg_err *err)
{
    const char *id = sg_call_param(c, "id");
    char *own = sg_arena_copy(&c->arena, id, strcspn(id, "-")); /* old clients add "-client" */
    struct sg_sandbox *s = own ? sg_manager_find(c->manager, &c->who, own, err) : NULL;
    if (s && s->state != SBX_STOPPING && s->state != SBX_FAILED && s->state != SBX_CREATING)
        return s;
    (void)sg_fail(err, SG_NOT_FOUND,
                  "Sandbox \"%.40s\" doesn't exist or you don't have access to it", own ? own : "");
    return NULL;
}

/* ---- how one looks ---- */

static void put_identity(struct sg_json *j, const struct sg_sandbox *s)
{
    sg_json_put_str(j, "sandboxID", s->id.s);
    /* A fork was made of no template that anybody could name. */
    const struct sg_built *b = s->built ? sg_built_by_id(s->manager, s->built) : NULL;
    sg_json_put_str(j, "templateID",
                    b                           ? b->id.s
                    : s->snapshot && !s->parent ? s->snapshot
                                                : s->template);
    sg_json_put_str(j, "alias", b ? b->name : s->template);
    sg_json_put_str(j, "clientID", CLIENT_ID);
    sg_json_put_str(j, "envdVersion", SG_E2B_ENVD_VERSION);
}

static void put_domain(struct sg_json *j, struct sg_call *c)
{
    const char *domain = sg_call_domain(c);
    sg_json_key(j, "domain");
    if (domain)
        sg_json_str(j, domain);
    else
        sg_json_null(j);
}

static void put_tokens(struct sg_json *j, const struct sg_e2b_record *r)
{
    if (r->token[0])
        sg_json_put_str(j, "envdAccessToken", r->token);
    if (r->traffic[0])
        sg_json_put_str(j, "trafficAccessToken", r->traffic);
}

void sg_e2b_put_sandbox(struct sg_json *j, struct sg_call *c, const struct sg_sandbox *s)
{
    struct sg_e2b_record r;
    (void)sg_e2b_record(s, &c->arena, &r);
    put_identity(j, s);
    put_tokens(j, &r);
    put_domain(j, c);
}

void sg_e2b_reply_sandbox(struct sg_call *c, int status, const struct sg_sandbox *s)
{
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_e2b_put_sandbox(&j, c, s);
    sg_json_close(&j, '}');
    sg_reply_json(c, status, &out);
}

/* What has no limit has the machine's. */
static void put_size(struct sg_json *j, const struct sg_sandbox *s)
{
    struct sysinfo machine = { 0 };
    uint64_t mem = s->limits.mem_bytes, cpus = (s->limits.cpu_milli + 999) / 1000;
    (void)sysinfo(&machine);
    if (!mem)
        mem = (uint64_t)machine.totalram * machine.mem_unit;
    sg_json_put_u64(j, "cpuCount", cpus ? cpus : (uint64_t)get_nprocs());
    sg_json_put_u64(j, "memoryMB", mem >> 20);
    sg_json_put_u64(j, "diskSizeMB", s->limits.disk_bytes >> 20);
}

void sg_e2b_put_listed(struct sg_json *j, const struct sg_sandbox *s, int64_t now_ms)
{
    const int64_t never = s->started_ms + (int64_t)SECONDS_MAX * 1000;
    const bool is_paused = s->state == SBX_PAUSED || s->state == SBX_PAUSING;
    put_identity(j, s);
    sg_json_put_str(j, "state", is_paused ? "paused" : "running");
    sg_e2b_put_time(j, "startedAt", s->started_ms);
    sg_e2b_put_time(j, "endAt", s->expires_ms ? s->expires_ms : is_paused ? now_ms : never);
    put_size(j, s);
    sg_e2b_put_pairs(j, "metadata", &s->metadata);
    sg_e2b_put_mounts(j, s);
}

/* ---- create ---- */

const char *sg_e2b_template_name(struct sg_call *c, const char *text, struct sg_err *err)
{
    static const char usual[] = ":default";
    text += strspn(text, " ");
    size_t all = strlen(text);
    while (all && text[all - 1] == ' ')
        all--;
    char *name = sg_arena_copy(&c->arena, text, all);
    if (!name) {
        (void)sg_fail(err, SG_EXHAUSTED, "no room for the call");
        return NULL;
    }
    for (char *p = name; *p; p++)
        if (*p >= 'A' && *p <= 'Z')
            *p = (char)(*p + ('a' - 'A'));
    const size_t n = strlen(name);
    if (n > strlen(usual) && strcmp(name + n - strlen(usual), usual) == 0)
        name[n - strlen(usual)] = '\0';
    return name;
}

/* Seconds from the member, which may be missing, to milliseconds. */
static int read_seconds(const struct sg_jval *v, const char *key, uint64_t otherwise,
                        uint64_t *ret_ms, struct sg_err *err)
{
    const struct sg_jval *m = sg_e2b_get(v, key);
    uint64_t seconds = sg_e2b_u64(v, key, otherwise);
    if (m && m->kind == SG_J_INT) /* a negative number */
        seconds = 0;
    else if (m && m->kind != SG_J_UINT && m->kind != SG_J_DOUBLE)
        return sg_fail(err, SG_INVALID, "%s must be a number of seconds", key);
    if (seconds > SECONDS_MAX)
        return sg_fail(err, SG_INVALID, "%s cannot be greater than %d seconds", key, SECONDS_MAX);
    *ret_ms = seconds * 1000;
    return 0;
}

/* What this server cannot do is refused, never ignored. */
static int refuse_unsupported(const struct sg_jval *body, bool pauses, struct sg_err *err)
{
    if (sg_e2b_get(body, "iam"))
        return sg_fail(err, SG_UNSUPPORTED, "workload identity is not available on this server");
    if (!sg_e2b_bool(body, "autoPauseMemory", true) && !pauses)
        return sg_fail(err, SG_UNSUPPORTED, "autoPauseMemory needs autoPause");
    return 0;
}

static void created(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct sg_call *c = arg;
    struct sg_err own;
    if (s) {
        sg_e2b_reply_sandbox(c, 201, s);
        return;
    }
    if (err->kind == SG_NOT_FOUND) {
        (void)sg_fail(&own, SG_NOT_FOUND, "template %s not found", sg_quote(c->state).s);
        err = &own;
    }
    sg_reply_error(c, err);
}

/* What the manager looks for itself is a name of ours, a snapshot, or a template of the server's,
 * which has neither namespace nor tag. */
static int resolve(struct sg_call *c, const char **inout, struct sg_err *err)
{
    const char *ref = *inout, *slash = strrchr(ref, '/'), *bare = slash ? slash + 1 : ref;
    const char *colon = strchr(bare, ':');
    if (sg_built_find(c->manager, &c->who, ref, NULL, NULL) ||
        sg_snapshot_find(c->manager, &c->who, ref, NULL))
        return 0;
    if (!colon) {
        *inout = bare;
        return 0;
    }
    char *name = sg_arena_copy(&c->arena, bare, (size_t)(colon - bare));
    return sg_fail(err, SG_NOT_FOUND, "tag %s does not exist for template %s",
                   sg_quote(colon + 1).s, sg_quote(name ? name : "").s);
}

static int read_record(struct sg_call *c, const struct sg_jval *body, bool is_secure,
                       struct sg_policy *policy, const char **ret, struct sg_err *err)
{
    char *token = sg_arena_alloc(&c->arena, SG_E2B_TOKEN_LEN + 1);
    char *traffic = sg_arena_alloc(&c->arena, SG_E2B_TOKEN_LEN + 1);
    const struct sg_jval *internet = sg_e2b_get(body, "allowInternetAccess");
    struct sg_e2b_record r = { .token = token, .traffic = traffic, .mask = "" };
    if (!token || !traffic)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    if (is_secure)
        sg_e2b_secret(token);
    r.resumes = sg_e2b_bool(sg_e2b_get(body, "autoResume"), "enabled", false);
    r.has_internet_flag = internet && internet->kind == SG_J_BOOL;
    r.denies_internet = r.has_internet_flag && !internet->b;
    r.network = sg_e2b_get(body, "network");
    if (sg_e2b_network_check(r.network, &r, err) < 0)
        return -1;
    if (!sg_e2b_bool(r.network, "allowPublicTraffic", true)) {
        if (!is_secure)
            return sg_fail(err, SG_INVALID,
                           "allowPublicTraffic: false needs a secured sandbox (secure: true)");
        sg_e2b_secret(traffic);
    }
    *ret = sg_e2b_record_text(&c->arena, &r);
    if (!*ret)
        return sg_fail(err, SG_INVALID, "the network settings are too large");
    return sg_e2b_network_policy(c, r.network, &r, policy, err);
}

static int create(struct sg_call *c, bool is_v2, struct sg_err *err)
{
    const struct sg_jval *body;
    struct sg_create create = { 0 };
    struct sg_policy network;
    struct sg_cred_set creds = { 0 };
    struct sg_pair *metadata = NULL, *env = NULL;
    if (sg_call_json(c, &body, err) < 0)
        return -1;
    const char *template = sg_e2b_text(body, "templateID");
    const bool pauses = sg_e2b_bool(body, "autoPause", false);
    if (!template || !template[0])
        return sg_fail(err, SG_INVALID, "templateID is missing");
    if (read_seconds(body, "timeout", is_v2 ? SECONDS_V2 : SECONDS_V1, &create.timeout_ms, err) < 0)
        return -1;
    if (!create.timeout_ms)
        return sg_fail(err, SG_INVALID, "Timeout must be greater than 0");
    if (!(create.template = sg_e2b_template_name(c, template, err)) ||
        resolve(c, &create.template, err) < 0 || refuse_unsupported(body, pauses, err) < 0 ||
        sg_e2b_read_mounts(c, sg_e2b_get(body, "volumeMounts"), &create, err) < 0 ||
        sg_call_pairs(c, sg_e2b_get(body, "metadata"), "metadata", &metadata, &create.metadata_n,
                      err) < 0 ||
        sg_call_pairs(c, sg_e2b_get(body, "envVars"), "envVars", &env, &create.env_n, err) < 0 ||
        read_record(c, body, is_v2 || sg_e2b_bool(body, "secure", false), &network, &create.door,
                    err) < 0)
        return -1;
    if (sg_e2b_rules_creds(c, sg_e2b_get(body, "network"), &creds, err) < 0) {
        sg_policy_done(&network);
        return -1;
    }
    create.metadata = metadata;
    create.env = env;
    create.on_expiry = pauses ? SG_EXPIRY_PAUSE : SG_EXPIRY_KILL;
    create.drops_memory = !sg_e2b_bool(body, "autoPauseMemory", true);
    c->state = (void *)(uintptr_t)create.template;
    create.network = &network;
    create.creds = &creds;
    int got = sg_manager_create(c->manager, &c->who, &create, created, c, err);
    sg_policy_done(&network);
    sg_creds_done(&creds);
    return got;
}

int sg_e2b_create_v1(struct sg_call *c, struct sg_err *err)
{
    return create(c, false, err);
}

int sg_e2b_create_v2(struct sg_call *c, struct sg_err *err)
{
    return create(c, true, err);
}

/* ---- connect: a running one lives on at least that long, a paused one goes on ---- */

struct connecting {
    struct sg_call *call;
    uint64_t timeout_ms;
    int status;
    bool is_cold; /* from the disk, whatever is in memory */
    int (*go_on)(struct connecting *w, struct sg_sandbox *s, struct sg_err *err);
};

static void stepped(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    struct connecting *w = arg;
    struct sg_err own;
    if (!err && w->go_on(w, s, &own) < 0)
        err = &own;
    if (err)
        sg_reply_error(w->call, err);
}

static int tell(struct connecting *w, struct sg_sandbox *s, struct sg_err *err)
{
    (void)err;
    sg_e2b_reply_sandbox(w->call, w->status, s);
    return 0;
}

/* A sandbox that came through another door has no token yet. */
static int give_token(struct connecting *w, struct sg_sandbox *s, struct sg_err *err)
{
    struct sg_call *c = w->call;
    struct sg_e2b_record r;
    char secret[SG_E2B_TOKEN_LEN + 1];
    if (sg_e2b_record(s, &c->arena, &r))
        return tell(w, s, err);
    sg_e2b_secret(secret);
    r.token = secret;
    const char *text = sg_e2b_record_text(&c->arena, &r);
    if (!text)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    w->go_on = tell;
    return sg_manager_set_door(s, &c->who, text, stepped, w, err);
}

static int set_time(struct connecting *w, struct sg_sandbox *s, struct sg_err *err)
{
    w->go_on = give_token;
    return sg_manager_set_timeout(s, &w->call->who, w->timeout_ms, stepped, w, err);
}

static int wake(struct connecting *w, struct sg_sandbox *s, struct sg_err *err);

static int drop_memory(struct connecting *w, struct sg_sandbox *s, struct sg_err *err)
{
    w->is_cold = false;
    w->go_on = wake;
    return sg_manager_pause_disk(s, &w->call->who, stepped, w, err);
}

static int wake(struct connecting *w, struct sg_sandbox *s, struct sg_err *err)
{
    w->status = 201;
    w->go_on = w->is_cold && !s->paused_snapshot ? drop_memory : set_time;
    return sg_manager_resume(s, &w->call->who, stepped, w, err);
}

static int connect_to(struct sg_call *c, struct sg_sandbox *s, uint64_t timeout_ms, bool is_cold,
                      struct sg_err *err)
{
    struct connecting *w = sg_arena_alloc(&c->arena, sizeof *w);
    if (!w)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    *w = (struct connecting) {
        .call = c, .timeout_ms = timeout_ms, .status = 200, .is_cold = is_cold
    };
    if (s->state == SBX_PAUSED || s->state == SBX_RESUMING)
        return wake(w, s, err);
    if (s->state == SBX_PAUSING) {
        w->go_on = wake;
        return sg_manager_pause(s, &c->who, stepped, w, err); /* joins what is under way */
    }
    const int64_t ends = sg_e2b_now_ms() + (int64_t)timeout_ms;
    if (s->expires_ms && s->expires_ms < ends)
        return set_time(w, s, err);
    return give_token(w, s, err);
}

static int connect_call(struct sg_call *c, uint64_t otherwise_s, struct sg_err *err)
{
    const struct sg_jval *body;
    uint64_t timeout_ms;
    struct sg_sandbox *s = sg_e2b_sandbox(c, err);
    if (!s || sg_call_json(c, &body, err) < 0 ||
        read_seconds(body, "timeout", otherwise_s, &timeout_ms, err) < 0)
        return -1;
    if (!timeout_ms)
        return sg_fail(err, SG_INVALID, "Timeout must be greater than 0");
    return connect_to(c, s, timeout_ms, !sg_e2b_bool(body, "memory", true), err);
}

int sg_e2b_connect_v1(struct sg_call *c, struct sg_err *err)
{
    return connect_call(c, SECONDS_V1, err);
}

int sg_e2b_connect_v2(struct sg_call *c, struct sg_err *err)
{
    return connect_call(c, SECONDS_V2, err);
}

int sg_e2b_resume(struct sg_call *c, struct sg_err *err)
{
    struct sg_sandbox *s = sg_e2b_sandbox(c, err);
    if (s && s->state == SBX_RUNNING)
        return sg_fail(err, SG_CONFLICT, "Sandbox %s is already running", s->id.s);
    return s ? connect_call(c, SECONDS_V1, err) : -1;
}

/* ---- look, end, keep ---- */

int sg_e2b_info(struct sg_call *c, struct sg_err *err)
{
    struct sg_sandbox *s = sg_e2b_sandbox(c, err);
    struct sg_e2b_record r;
    sg_auto_buf out = { 0 };
    struct sg_json j;
    if (!s)
        return -1;
    (void)sg_e2b_record(s, &c->arena, &r);
    sg_buf_init(&out, SG_E2B_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_json_open(&j, '{');
    sg_e2b_put_listed(&j, s, sg_e2b_now_ms());
    put_tokens(&j, &r);
    put_domain(&j, c);
    if (r.has_internet_flag)
        sg_json_put_bool(&j, "allowInternetAccess", !r.denies_internet);
    if (r.network) {
        sg_json_key(&j, "network");
        sg_json_put(&j, r.network);
    }
    sg_json_key(&j, "lifecycle");
    sg_json_open(&j, '{');
    sg_json_put_str(&j, "onTimeout", s->on_expiry == SG_EXPIRY_PAUSE ? "pause" : "kill");
    sg_json_put_bool(&j, "autoResume", r.resumes);
    sg_json_close(&j, '}');
    sg_json_close(&j, '}');
    sg_reply_json(c, 200, &out);
    return 0;
}

static void done(void *arg, struct sg_sandbox *s, const struct sg_err *err)
{
    (void)s;
    if (err)
        sg_reply_error(arg, err);
    else
        sg_reply_empty(arg, 204);
}

int sg_e2b_kill(struct sg_call *c, struct sg_err *err)
{
    struct sg_sandbox *s = sg_e2b_sandbox(c, err);
    return s ? sg_manager_destroy(s, &c->who, done, c, err) : -1;
}

int sg_e2b_pause(struct sg_call *c, struct sg_err *err)
{
    const struct sg_jval *body;
    struct sg_sandbox *s = sg_e2b_sandbox(c, err);
    if (!s || sg_call_json(c, &body, err) < 0)
        return -1;
    if (s->state == SBX_PAUSED || s->state == SBX_PAUSING)
        return sg_fail(err, SG_CONFLICT, "Sandbox %s is already paused", s->id.s);
    return sg_e2b_bool(body, "memory", true) ? sg_manager_pause(s, &c->who, done, c, err)
                                             : sg_manager_pause_disk(s, &c->who, done, c, err);
}

int sg_e2b_timeout(struct sg_call *c, struct sg_err *err)
{
    const struct sg_jval *body;
    uint64_t timeout_ms;
    struct sg_sandbox *s = sg_e2b_sandbox(c, err);
    if (!s || sg_call_json(c, &body, err) < 0)
        return -1;
    if (!sg_e2b_get(body, "timeout"))
        return sg_fail(err, SG_INVALID, "timeout is missing");
    if (read_seconds(body, "timeout", 0, &timeout_ms, err) < 0)
        return -1;
    if (s->state == SBX_PAUSED)
        return sg_fail(err, SG_CONFLICT, "Sandbox %s is paused", s->id.s);
    return sg_manager_set_timeout(s, &c->who, timeout_ms ? timeout_ms : 1, done, c, err);
}

/* Only ever extends. */
int sg_e2b_refresh(struct sg_call *c, struct sg_err *err)
{
    const struct sg_jval *body;
    uint64_t ms;
    struct sg_sandbox *s = sg_e2b_sandbox(c, err);
    if (!s || sg_call_json(c, &body, err) < 0 ||
        read_seconds(body, "duration", REFRESH_MIN_S, &ms, err) < 0)
        return -1;
    if (ms < (uint64_t)REFRESH_MIN_S * 1000)
        ms = (uint64_t)REFRESH_MIN_S * 1000;
    if (s->state == SBX_PAUSED)
        return sg_fail(err, SG_CONFLICT, "Sandbox %s is paused", s->id.s);
    if (s->expires_ms && s->expires_ms < sg_e2b_now_ms() + (int64_t)ms)
        return sg_manager_set_timeout(s, &c->who, ms, done, c, err);
    sg_reply_empty(c, 204);
    return 0;
}

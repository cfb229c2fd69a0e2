/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: made, found, restarted, removed. */
#include <string.h>

#include "base/auto.h"
#include "ctl/msg.h"
#include "manager/code_internal.h"
#include "manager/files.h"
#include "manager/life.h"
#include "store/store.h"
#include "base/banned.h"

enum { LANGUAGE_MAX = 32, CWD_MAX = 4096 };

struct sg_code_set *sg_code_set(struct sg_sandbox *s)
{
    if (!s->code_impl) {
        struct sg_code_set *set = sg_new(struct sg_code_set);
        set->s = s;
        set->end = &set->first;
        s->code_impl = set;
    }
    return s->code_impl;
}

/* ---- is there anything to run code with? ---- */

struct probe {
    struct sg_sandbox *s;
    sg_code_probe_cb *cb;
    void *arg;
};

static void probed(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct probe *q = arg;
    const bool is_answer = p || err->sys; /* it is there, or it cannot be reached */
    if (p)
        sg_code_set(q->s)->has_kernels = true;
    q->cb(q->arg, p != NULL, is_answer ? NULL : err);
    free(q);
}

int sg_code_probe(struct sg_sandbox *s, const struct sg_who *who, sg_code_probe_cb *cb, void *arg,
                  struct sg_err *err)
{
    struct sg_msg m = { .type = SG_MSG_STAT };
    if (sg_code_set(s)->has_kernels) {
        cb(arg, true, NULL);
        return 0;
    }
    struct probe *q = sg_new(struct probe);
    *q = (struct probe) { s, cb, arg };
    m.stat = (struct sg_msg_path) { sg_text_of(""), sg_text_of(SG_CODE_KERNELS), 0 };
    if (sg_files_ask(s, who, &m, NULL, 0, probed, q, err) == 0)
        return 0;
    free(q);
    return -1;
}

/* ---- languages ---- */

static const struct {
    const char *name, *stands_for;
} others[] = {
    { "js", "javascript" }, { "ts", "typescript" }, { "py", "python" }, { "sh", "bash" }
};

static bool is_fit(const char *name)
{
    static const char set[] = "abcdefghijklmnopqrstuvwxyz0123456789_+-";
    return name[0] && name[strspn(name, set)] == '\0';
}

/* Lower case, without blanks around it, and not by its short name. */
static int read_language(const char *text, char ret[LANGUAGE_MAX + 1], struct sg_err *err)
{
    const char *from = text ? text + strspn(text, " \t\r\n") : "python";
    size_t n = strlen(from);
    while (n && strchr(" \t\r\n", from[n - 1]))
        n--;
    char name[LANGUAGE_MAX + 1] = "";
    for (size_t i = 0; i < n && n <= LANGUAGE_MAX; i++)
        name[i] = from[i] >= 'A' && from[i] <= 'Z' ? (char)(from[i] - 'A' + 'a') : from[i];
    if (!is_fit(name))
        return sg_fail(err, SG_INVALID, "no such language: %s", sg_quote(text ? text : "").s);
    const char *known = name;
    for (size_t i = 0; i < SG_COUNT(others); i++)
        if (strcmp(name, others[i].name) == 0)
            known = others[i].stands_for;
    memcpy(ret, known, strlen(known) + 1);
    return 0;
}

/* ---- in and out ---- */

struct sg_code_context *sg_code_add(struct sg_sandbox *s, const struct sg_id *id,
                                    const char *language, const char *cwd)
{
    struct sg_code_set *set = sg_code_set(s);
    struct sg_code_context *c = sg_new(struct sg_code_context);
    struct sg_code_kernel *k = sg_new(struct sg_code_kernel);
    c->id = *id;
    c->sandbox = s;
    c->language = sg_strdup(language);
    c->cwd = sg_strdup(cwd);
    c->created_ms = sg_manager_unix_ms();
    c->impl = k;
    k->c = c;
    k->kernel = sg_strdup(strcmp(language, "typescript") == 0 ? "javascript" : language);
    k->end = &k->first;
    *set->end = c;
    set->end = &c->next;
    set->count++;
    return c;
}

static void unlink_context(struct sg_code_context *c)
{
    struct sg_code_set *set = sg_code_set(c->sandbox);
    struct sg_code_context **at = &set->first;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    if (set->end == &c->next)
        set->end = at;
    set->count--;
}

static void free_context(struct sg_code_context *c)
{
    struct sg_code_kernel *k = c->impl;
    sg_pairs_done(&c->env);
    free(c->language);
    free(c->cwd);
    free(k->kernel);
    free(k);
    free(c);
}

bool sg_code_unref(struct sg_code_context *c)
{
    struct sg_code_kernel *k = c->impl;
    k->refs--;
    if (!k->is_removed)
        return true;
    if (!k->refs)
        free_context(c);
    return false;
}

static void let_go(struct sg_code_context *c)
{
    struct sg_code_kernel *k = c->impl;
    struct sg_loop *l = c->sandbox->manager->loop;
    sg_code_end_kernel(c);
    if (k->running)
        sg_code_run_over(c);
    sg_code_fail_waiting(c, SG_CODE_REMOVED);
    sg_timer_stop(l, &k->nag);
    sg_timer_stop(l, &k->again);
    if (k->last) {
        k->last->context = NULL;
        sg_code_run_unref(k->last);
    }
    k->last = NULL;
}

void sg_code_drop(struct sg_code_context *c)
{
    struct sg_code_kernel *k = c->impl;
    k->refs++;
    k->is_removed = true; /* nothing new begins */
    let_go(c);
    unlink_context(c);
    (void)sg_code_unref(c);
}

/* No answer comes any more that would count a reference down. */
void sg_code_forget(struct sg_sandbox *s)
{
    struct sg_code_set *set = s->code_impl;
    if (!set)
        return;
    for (struct sg_code_context *c = set->first, *next; c; c = next) {
        next = c->next;
        sg_code_kernel(c)->is_removed = true;
        let_go(c);
        free_context(c);
    }
    free(set);
    s->code_impl = NULL;
}

/* ---- what doors ask for ---- */

static int demand(struct sg_sandbox *s, const struct sg_who *who, const char *action,
                  struct sg_err *err)
{
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(s->manager, who, action, s, err);
    return sg_sandbox_demand_running(s, err);
}

static int check_spec(struct sg_sandbox *s, const struct sg_code_context_spec *spec,
                      struct sg_err *err)
{
    if (sg_code_set(s)->count >= SG_CODE_MAX_CONTEXTS)
        return sg_fail(err, SG_EXHAUSTED, "the sandbox has %d contexts already: remove some",
                       SG_CODE_MAX_CONTEXTS);
    if (spec->cwd && (spec->cwd[0] != '/' || strlen(spec->cwd) > CWD_MAX))
        return sg_fail(err, SG_INVALID, "the directory of a context is an absolute path");
    return sg_pairs_check("env", spec->env, spec->env_n, true, err);
}

static struct sg_code_context *make(struct sg_sandbox *s, const char *language, const char *cwd)
{
    const struct sg_id id = sg_id_new('c');
    const char *home = s->home && s->home[0] ? s->home : "/";
    return sg_code_add(s, &id, language, cwd ? cwd : home);
}

int sg_code_create(struct sg_sandbox *s, const struct sg_who *who,
                   const struct sg_code_context_spec *spec, sg_code_context_cb *cb, void *arg,
                   struct sg_err *err)
{
    char language[LANGUAGE_MAX + 1];
    if (demand(s, who, "context.create", err) < 0 || check_spec(s, spec, err) < 0 ||
        read_language(spec->language, language, err) < 0)
        return -1;
    struct sg_code_context *c = make(s, language, spec->cwd);
    struct sg_code_kernel *k = c->impl;
    sg_pairs_copy(&c->env, spec->env, spec->env_n);
    if (sg_code_start_kernel(c, err) < 0) {
        sg_code_drop(c);
        return -1;
    }
    k->made = cb;
    k->made_arg = arg;
    sg_sandbox_touch(s);
    sg_manager_audit_value(s->manager, who, "context.create", s, "context", c->id.s);
    return 0;
}

struct sg_code_context *sg_code_first(struct sg_sandbox *s)
{
    return sg_code_set(s)->first;
}

struct sg_code_context *sg_code_find(struct sg_sandbox *s, const char *id, struct sg_err *err)
{
    for (struct sg_code_context *c = sg_code_first(s); c; c = c->next)
        if (strcmp(c->id.s, id) == 0 && !sg_code_kernel(c)->made)
            return c;
    (void)sg_fail(err, SG_NOT_FOUND, "Context %s not found", sg_quote(id).s);
    return NULL;
}

struct sg_code_context *sg_code_default(struct sg_sandbox *s, const struct sg_who *who,
                                        const char *language, struct sg_err *err)
{
    char name[LANGUAGE_MAX + 1];
    if (demand(s, who, "context.create", err) < 0 || read_language(language, name, err) < 0)
        return NULL;
    for (struct sg_code_context *c = sg_code_first(s); c; c = c->next)
        if (c->is_default && strcmp(c->language, name) == 0)
            return c;
    if (check_spec(s, &(struct sg_code_context_spec) { 0 }, err) < 0)
        return NULL;
    struct sg_code_context *c = make(s, name, NULL);
    c->is_default = true;
    sg_code_put_row(c);
    return c;
}

bool sg_code_is_busy(const struct sg_code_context *c)
{
    const struct sg_code_kernel *k = c->impl;
    return k->running || k->first;
}

int sg_code_restart(struct sg_code_context *c, const struct sg_who *who, struct sg_err *err)
{
    struct sg_sandbox *s = c->sandbox;
    struct sg_code_kernel *k = c->impl;
    if (demand(s, who, "context.restart", err) < 0)
        return -1;
    if (k->running)
        k->running->verdict = SG_CODE_RESTARTED;
    sg_code_end_kernel(c);
    if (k->running)
        sg_code_run_over(c);
    sg_code_put_row(c);
    sg_code_go_on(c);
    sg_manager_audit_value(s->manager, who, "context.restart", s, "context", c->id.s);
    return 0;
}

int sg_code_remove(struct sg_code_context *c, const struct sg_who *who, struct sg_err *err)
{
    struct sg_sandbox *s = c->sandbox;
    struct sg_code_kernel *k = c->impl;
    if (demand(s, who, "context.remove", err) < 0)
        return -1;
    sg_manager_audit_value(s->manager, who, "context.remove", s, "context", c->id.s);
    if (k->running)
        k->running->verdict = SG_CODE_REMOVED;
    sg_store_remove_context(s->manager->store, c->id.s, NULL, NULL);
    sg_code_drop(c);
    return 0;
}

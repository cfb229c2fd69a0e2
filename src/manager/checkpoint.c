/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints by themselves, every so many commands: see capture.h, A3. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/parse.h"
#include "base/str.h"
#include "manager/capture.h"
#include "manager/life.h"
#include "manager/snapshot.h"

#include "base/banned.h"

enum { KEPT = 10 };

bool sg_checkpoint_is(const struct sg_snapshot *t)
{
    return *t->name && strcmp(t->name, t->sandbox) == 0 && t->tag[0] == 'c';
}

static uint64_t number_of(const struct sg_snapshot *t)
{
    uint64_t n = 0;
    (void)sg_parse_u64(sg_str_of(t->tag + 1), 1, UINT32_MAX, &n, NULL);
    return n;
}

/* The newest are kept; one that sandboxes were made of is, too. */
static void prune(struct sg_manager *m, const char *sandbox)
{
    unsigned seen = 0;
    struct sg_snapshot *older;
    for (struct sg_snapshot *t = m->newest_snapshot; t; t = older) {
        older = t->older;
        if (t->state != SG_SNAPSHOT_READY || !sg_checkpoint_is(t) ||
            strcmp(t->sandbox, sandbox) != 0 || ++seen <= KEPT)
            continue;
        const struct sg_who us = { .org = t->org, .scopes = SG_SCOPE_ALL, .is_operator = true };
        struct sg_err err = { 0 };
        if (!sg_snapshot_users(m, t))
            (void)sg_snapshot_remove(m, &us, t, false, NULL, NULL, &err);
    }
}

static void made(void *arg, struct sg_snapshot *t, const struct sg_err *err)
{
    struct sg_manager *m = arg;
    if (err)
        sg_log(SG_LOG_WARN, "a checkpoint could not be made", SG_KV("error", err->msg));
    else if (!m->is_ending)
        prune(m, t->sandbox);
}

void sg_checkpoint_count(struct sg_sandbox *s)
{
    struct sg_manager *m = s->manager;
    if (!s->checkpoint_every || ++s->execs_since < s->checkpoint_every || m->is_ending ||
        s->state != SBX_RUNNING || s->life->op != OP_NONE || s->life->wants_end)
        return; /* what is under way comes first: then after the next command */
    uint64_t last = 0;
    char tag[24];
    for (const struct sg_snapshot *t = m->newest_snapshot; t; t = t->older)
        if (sg_checkpoint_is(t) && strcmp(t->sandbox, s->id.s) == 0 && number_of(t) > last)
            last = number_of(t);
    (void)snprintf(tag, sizeof tag, "c%llu", (unsigned long long)last + 1);
    const struct sg_who us = { .org = s->org, .scopes = SG_SCOPE_ALL, .is_operator = true };
    struct sg_err err = { 0 };
    s->execs_since = 0;
    if (sg_manager_snapshot(s, &us, s->id.s, tag, made, m, &err) < 0)
        sg_log(SG_LOG_WARN, "a checkpoint could not be made", SG_KV("sandbox", s->id.s),
               SG_KV("error", err.msg));
}

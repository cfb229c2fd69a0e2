/* SPDX-License-Identifier: Apache-2.0 */
/* Templates that were built here: a name of an organisation's own, tags that lead to builds.
 *
 * B1. A tag moves when its build has succeeded and is on the disk, and not before: whatever ends a
 *     build, the template is what it was. A template of which no build has succeeded is not seen.
 * B2. It belongs to its organisation. Another one finds it only where it is public, and then by
 *     "organisation/name"; else it is as if it were not there.
 * B3. A build that a tag leads to, or that sandboxes were made of, is kept; of the others the last
 *     few are, for their logs. */
#pragma once

#include "base/str.h"
#include "manager/manager.h"

enum { SG_BUILD_ID_LEN = 36, SG_BUILT_MAX = 1000, SG_TAGS_MAX = 100, SG_BUILDS_KEPT = 10 };

enum sg_build_state { SG_BUILD_WAITING, SG_BUILD_BUILDING, SG_BUILD_READY, SG_BUILD_ERROR };
enum sg_build_level { SG_BUILD_DEBUG, SG_BUILD_INFO, SG_BUILD_WARN, SG_BUILD_FAILED };

struct sg_build_line {
    int64_t at_ms;
    enum sg_build_level level;
    char step[12]; /* "base", "1", ..., "finalize"; "": none */
    char *text;    /* owned */
};

struct sg_build {
    char id[SG_BUILD_ID_LEN + 1]; /* a UUID, as clients expect */
    struct sg_built *of;
    enum sg_build_state state;
    struct sg_sandbox_limits limits; /* of its sandboxes; 0: the default */
    char **tags;                     /* owned, NULL-terminated: that are to lead to it */
    /* What it made: a template or image below, a layer above it ("": none), traits. */
    char *base, *snapshot;
    struct sg_traits traits;
    char proof[65];             /* the start command was seen ready in what has this key */
    char *reason, *reason_step; /* of an error; owned, NULL: none */
    struct sg_build_line *log;  /* owned */
    size_t log_n, log_room, log_bytes;
    uint64_t log_dropped;
    int64_t created_ms, updated_ms;
    struct sg_building *work; /* while it is being built: build.c */
    struct sg_build_watch *watches;
    struct sg_build *older; /* of the same template */
};

struct sg_tag {
    char *name; /* owned */
    char build[SG_BUILD_ID_LEN + 1];
    int64_t created_ms;
};

struct sg_built {
    struct sg_id id;
    struct sg_org *org;
    char *name; /* owned */
    bool is_public, is_going;
    int64_t created_ms, updated_ms, spawned_ms; /* spawned: the last one, or 0 */
    uint64_t spawns;
    struct sg_tag *tags; /* owned */
    size_t tag_n;
    struct sg_build *newest; /* owned: its builds */
    struct sg_built *next;   /* by organisation and name */
};

/* ---- finding ---- */

/* By id, name, name:tag, or either behind "organisation/". NULL with SG_NOT_FOUND. `ret_build` (may
 * be NULL): what the tag leads to. */
struct sg_built *sg_built_find(struct sg_manager *m, const struct sg_who *who, const char *ref,
                               struct sg_build **ret_build, struct sg_err *err);
/* The caller's own, those without a good build, too: for builds. By id or name. */
struct sg_built *sg_built_own(struct sg_manager *m, const struct sg_who *who, const char *ref);
/* Walks those that the caller's organisation has and that can be used. */
struct sg_built *sg_built_next(struct sg_manager *m, const struct sg_who *who,
                               const struct sg_built *b);
struct sg_built *sg_built_by_id(struct sg_manager *m, const char *id); /* anybody's, or NULL */
struct sg_build *sg_build_find(struct sg_built *b, const char *id, struct sg_err *err);
/* One of the caller's own, by its id; NULL. */
struct sg_build *sg_build_of(struct sg_manager *m, const struct sg_who *who, const char *id);
const struct sg_build *sg_built_tagged(const struct sg_built *b, const char *tag); /* or NULL */
const char *sg_build_state_name(enum sg_build_state s);
const char *sg_build_level_name(enum sg_build_level l);
unsigned sg_built_users(const struct sg_manager *m, const struct sg_built *b); /* sandboxes */
void sg_built_spawned(struct sg_manager *m, const char *id); /* a sandbox was made of it */

/* ---- changing ---- */

typedef void sg_built_cb(void *arg, struct sg_built *b, const struct sg_err *err);
/* Tags in the caller's own arena; they lead to what `ref` leads to. */
int sg_built_tag(struct sg_manager *m, const struct sg_who *who, const char *ref,
                 const char *const *tags, size_t n, sg_built_cb *cb, void *arg, struct sg_err *err);
int sg_built_untag(struct sg_manager *m, const struct sg_who *who, const char *name,
                   const char *const *tags, size_t n, sg_built_cb *cb, void *arg,
                   struct sg_err *err);
int sg_built_publish(struct sg_manager *m, const struct sg_who *who, const char *ref,
                     bool is_public, sg_built_cb *cb, void *arg, struct sg_err *err);
/* SG_CONFLICT while sandboxes of it live, or a build runs. */
int sg_built_remove(struct sg_manager *m, const struct sg_who *who, const char *ref,
                    sg_tenant_cb *cb, void *arg, struct sg_err *err);
bool sg_tag_is_fine(const char *tag);

/* ---- between built*.c and build*.c ---- */

/* Finds or makes the template of that name. */
struct sg_built *sg_built_claim(struct sg_manager *m, struct sg_org *org, const char *name,
                                struct sg_err *err);
struct sg_build *sg_build_new(struct sg_built *b, const char *id);
void sg_build_forget(struct sg_manager *m, struct sg_build *b); /* out of its list, and freed */
void sg_built_drop(struct sg_manager *m, struct sg_built *b);   /* the same, with its builds */
void sg_built_set_tag(struct sg_built *b, const char *tag, const char *build);
void sg_built_put(struct sg_manager *m, const struct sg_built *b,
                  void (*done)(void *arg, const struct sg_err *err), void *arg);
void sg_build_put(struct sg_manager *m, const struct sg_build *b,
                  void (*done)(void *arg, const struct sg_err *err), void *arg);
void sg_built_prune(struct sg_manager *m, struct sg_built *b); /* B3 */
void sg_build_add_line(struct sg_build *b, enum sg_build_level level, const char *step,
                       struct sg_str text);
int sg_built_load(struct sg_manager *m, struct sg_err *err);
void sg_built_free_all(struct sg_manager *m);
bool sg_built_is_building(const struct sg_built *b);
/* Whether a build stands on this snapshot. */
bool sg_built_needs(const struct sg_manager *m, const char *snapshot);
/* Keeps what logs and builds that nobody began take of memory in bounds. SG_EXHAUSTED: too many
 * wait. */
int sg_built_bound(struct sg_manager *m, const struct sg_org *org, struct sg_err *err);
/* What nobody sees: those without a good build. */
void sg_built_forget_org(struct sg_manager *m, const struct sg_org *org);

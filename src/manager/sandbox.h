/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox as the manager knows it. Doors read these fields and change none. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/map.h"
#include "loop/loop.h"
#include "manager/state.h"
#include "net/policy.h"
#include "router/router.h"

struct sg_manager;
struct sg_org;
struct sg_peer;
struct sg_preview;
struct sg_exec;
struct sg_life;

struct sg_pair {
    char *name, *value; /* owned */
};
struct sg_pairs {
    struct sg_pair *v; /* owned */
    size_t n;
};

/* What a template that was built says beside its files. Owned; NULL: as what is below has it. */
struct sg_traits {
    char *user, *home, *workdir; /* home: of the user, known where that is */
    char *start, *ready;         /* a command that runs in each of its sandboxes; one that succeeds
                                    when it does (traits.h) */
    struct sg_pairs env;
};

struct sg_mount {
    char volume[SG_ID_LEN + 1];
    char *path; /* owned */
    bool is_read_only;
};
struct sg_mounts {
    struct sg_mount *v; /* owned */
    size_t n;
};

struct sg_cred_use {
    char secret[SG_ID_LEN + 1];
    char *env; /* owned; NULL: only in fields */
};
struct sg_cred_field {
    char *host, *name, *value; /* owned; the value with placeholders */
};
struct sg_cred_set { /* cred.h */
    struct sg_cred_use *uses;
    struct sg_cred_field *fields;
    size_t use_n, field_n;
    bool was_told; /* the gate has had something to keep */
};

struct sg_sandbox_limits {
    uint64_t mem_bytes, cpu_milli, pids, disk_bytes;
};
enum sg_expiry { SG_EXPIRY_KILL, SG_EXPIRY_PAUSE };

struct sg_sandbox {
    struct sg_id id;
    struct sg_manager *manager;
    struct sg_org *org;
    enum sg_state state;
    char *template, *cause; /* owned; cause "": none */
    /* Owned; NULL: none. The snapshot and the sandbox that it was made of; the one that it is while
     * its memory is not kept, which is nobody else's; and the one that it would be, should its
     * memory be lost while it is frozen. */
    char *snapshot, *parent, *paused_snapshot, *paused_files;
    struct sg_pairs metadata, env;
    struct sg_traits traits;
    char *built;       /* owned: id of the template (built.h) that it was made of; NULL: none */
    enum sg_wall wall; /* its tier */
    char *decision;    /* owned: why it has that, as JSON; NULL: of an older version */
    struct sg_mounts mounts;
    bool is_internal; /* ours: nobody sees it (volume.h) */
    bool is_standby;  /* the same, with its start command running, for a create (standby.h) */
    /* A task's: it ends with that, or with this daemon. Its row says "creating" all along, so that
     * a restart removes what is left of it. */
    bool is_brief;
    bool is_leaving; /* of a task that has ended: nobody sees it any more */
    char *door;      /* owned: what a door keeps with it; nobody here reads it. NULL: nothing */
    struct sg_sandbox_limits limits;
    struct sg_policy network;
    struct sg_preview *previews; /* owned: ports that visitors reach (preview.h) */
    size_t preview_n;
    struct sg_cred_set creds;
    int64_t created_ms, started_ms, expires_ms; /* unix; expires 0: never */
    uint64_t timeout_ms, idle_ms;               /* 0: none */
    enum sg_expiry on_expiry;
    bool drops_memory; /* a pause at expiry keeps the files alone */
    char **captures;   /* owned: patterns of files that are kept at its end (capture.h) */
    size_t captures_n;
    unsigned checkpoint_every, execs_since; /* commands; 0: never */
    unsigned retries_left, retries_used;
    /* from the launcher, once it runs */
    uint32_t missing; /* limits that are not enforced here: 1 << enum sg_controller */
    uint32_t host_pid;
    char *user, *home, *workdir, *path; /* owned */
    char *identity;                     /* owned: of the template's files; "": not known */
    char **template_env;                /* owned, NULL-terminated */
    bool was_parked, is_pooled; /* pooled: its files are in the storage pool, not in memory */
    /* work that keeps it from being idle: running execs and open streams */
    unsigned work;
    uint64_t idle_since_ns;
    /* the manager's own */
    struct sg_peer *peer; /* owned: the control connection; NULL while there is none */
    struct sg_map execs;  /* by id */
    struct sg_timer expiry, idle;
    struct sg_life *life;             /* owned: what is under way: life.h */
    void *exec_impl, *files_impl;     /* the exec half's own */
    void *code_impl;                  /* and that of its contexts */
    struct sg_sandbox *newer, *older; /* in the manager's list */
    uint64_t seq;                     /* place in that list: grows with every one made */
};

/* Open streams (a watch, a terminal, a proxied connection) are work. Calls nest. */
void sg_sandbox_work_begin(struct sg_sandbox *s);
void sg_sandbox_work_end(struct sg_sandbox *s);
void sg_sandbox_touch(struct sg_sandbox *s); /* any API call on it: the idle time starts anew */

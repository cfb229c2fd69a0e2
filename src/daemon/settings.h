/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon takes from the configuration, read while the files can still be seen. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "meter/price.h"
#include "net/policy.h"
#include "router/intercept.h"
#include "router/router.h"

struct sg_settings { /* all texts owned */
    char *state_dir; /* of the daemon: STATE/daemon */
    char *seal_dir;  /* STATE/seal: not for the daemon; see sealing.h */
    char *template, *log_level;
    char *tls_cert, *tls_key;                        /* PEM texts, or NULL */
    char *domain;                                    /* NAME[:PORT], or "" */
    uint64_t mem_bytes, cpu_milli, pids, disk_bytes; /* of a sandbox that asks for nothing */
    uint64_t max_mem_bytes, max_cpu_milli;           /* of one sandbox; 0: any */
    uint64_t started, started_each;
    uint64_t timeout_ms, max_sandboxes, max_visitors, journal_bytes, reconcile_ms;
    uint64_t pause_files_ms, pause_memory_ms;
    struct sg_rules *rules; /* of the router; taken by the manager. NULL: the built-in ones */
    struct sg_intercept_rules *intercept; /* the same, of tool calls */
    struct sg_walls walls;                /* with has_walls: what the router takes for available */
    bool has_walls;
    char **template_tiers; /* owned: "TEMPLATE=TIER" */
    size_t template_tiers_n;
    struct sg_nets permitted; /* owned: of the gate */
    struct sg_prices prices;
    char *otlp_environment; /* NULL: no traces */
    uint64_t otlp_spool_bytes;
    bool otlp_content;
};

int sg_settings_load(struct sg_settings *ret, struct sg_err *err);
void sg_settings_done(struct sg_settings *s);

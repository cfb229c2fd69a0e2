/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: what a run is to be, gathered from defaults, files, environment and flags.
 *
 * Later wins: default, /etc/sandglass/sandglass.toml, the user's own sandglass.toml, environment,
 * flags; lists add up instead. A file named by --config or $SANDGLASS_CONFIG replaces both default
 * files. The working directory is never searched: a repository that somebody cloned must not widen
 * its own sandbox. Each value remembers where it came from. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct sg_strlist {
    char **v; /* owned, with the texts; NULL-terminated once anything was added */
    size_t n;
};

enum sg_gate_lead { SG_GATE_AUTO, SG_GATE_SK_LOOKUP, SG_GATE_NFT }; /* as engine/lead.h */
enum sg_net { SG_NET_NONE, SG_NET_FILTERED, SG_NET_OPEN };
enum sg_tty { SG_TTY_AUTO, SG_TTY_ON, SG_TTY_OFF };
enum sg_expiry { SG_EXPIRY_KILL, SG_EXPIRY_PAUSE };

/* All texts are owned and never NULL after sg_config_init(). */
struct sg_config {
    char *template, *workdir, *user, *hostname; /* user "": the template's */
    char *state_dir;
    uint64_t memory_bytes;
    uint64_t cpu_milli; /* 1000 is one cpu */
    uint64_t pids;
    uint64_t disk_bytes;
    uint64_t open_files;
    uint64_t timeout_ms;   /* 0: none */
    uint64_t output_bytes; /* of stdout and stderr together, then the run is ended; 0: no limit */
    struct sg_strlist env; /* "NAME=value", or "NAME" to take it from our own environment */
    struct sg_strlist copy_in, copy_out, bind; /* see config/mapping.h */
    enum sg_net net;
    enum sg_tty tty;
    bool json, read_only, quiet;
    /* The service. serve_run_dir is never "" after sg_config_load(). */
    char *serve_listen, *serve_run_dir, *serve_template, *serve_log_level;
    char *serve_tls_cert, *serve_tls_key; /* "": those of `tls init`, where there are any */
    char *serve_domain;                   /* NAME[:PORT]; "": the certificate's, or none */
    char *serve_storage;                  /* "auto", "image", "tmpfs", or a directory */
    uint64_t serve_storage_bytes;         /* of the image */
    struct sg_strlist serve_pool;         /* "TEMPLATE=NUMBER"; of one template the last counts */
    uint64_t serve_pool_most;             /* of a template */
    uint64_t serve_max_sandboxes, serve_journal_bytes;
    uint64_t serve_started, serve_started_each;           /* with a start command running */
    uint64_t serve_max_visitors;                          /* of one sandbox */
    uint64_t serve_max_memory_bytes, serve_max_cpu_milli; /* of one sandbox; 0: any */
    uint64_t serve_reconcile_ms;                          /* 0: never */
    uint64_t serve_timeout_ms;                            /* of a new sandbox; 0: no end */
    uint64_t serve_pause_files_ms, serve_pause_memory_ms; /* 0: never */
    struct sg_strlist net_allow, net_block;               /* create, net set: rules */
    struct sg_strlist net_private;                        /* create, net set: private networks */
    char *egress_proxy;                                   /* "": none; [USER@]HOST:PORT */
    char *net_name;                                       /* "": its id */
    enum sg_gate_lead gate_lead;
    struct sg_strlist gate_resolvers, gate_permit; /* addresses; networks */
    char *router_rules;                            /* "": the default place, if there is one */
    char *gvisor_runtime, *gvisor_platform;        /* "": no tier gvisor; the best that runs */
    struct sg_strlist gvisor_arguments;
    struct sg_strlist router_templates; /* TEMPLATE=TIER */
    char *docker_socket, *docker_image; /* "": no Engine; the template's own */
    struct sg_strlist docker_images;    /* patterns of others that may be asked for */
    bool docker_pull;
    char *otlp_endpoint, *otlp_headers; /* "": no traces; a file, or "": none */
    char *otlp_ca, *otlp_environment;   /* "": the system's own list; where this is */
    uint64_t otlp_spool_bytes;
    bool otlp_content;
    char *usage_prices;             /* as router_rules */
    char *intercept_rules;          /* the same */
    char *gate_ca_file;             /* "": none */
    struct sg_strlist router_tiers; /* the tiers that count as there; none: what is there */
    char *url;                      /* "": by serve_run_dir */
    char *tls_ca; /* who signs the service's certificate; "": what `tls init` made, or anybody */
    /* Of single commands; flags only. */
    uint64_t idle_timeout_ms, retries; /* create */
    enum sg_expiry on_expiry;
    struct sg_strlist volumes;      /* create: "NAME:PATH[:ro]" */
    struct sg_strlist secrets;      /* create: "[ENV=]NAME" */
    struct sg_strlist secret_hosts; /* secrets set */
    bool plain_http;
    struct sg_strlist metadata; /* create, ps: "NAME=VALUE" */
    char *state;                /* ps */
    char *signal;               /* kill */
    char *org, *scopes;         /* keys create */
    uint64_t expires_ms, rate;
    uint64_t sandboxes, creates_per_second; /* orgs create */
    uint64_t interval_ms, limit;            /* top; audit list */
    bool ids, detach, follow, all, keep;    /* ps; exec, serve; logs, events; rm; down */
    char *operation, *trust, *agent, *tier; /* route, task run */
    char *needs_network, *needs_files;
    struct sg_strlist wants;
    uint64_t parallel, seconds_ms;
    bool explain, deny;
    char *by;              /* usage */
    char *period, *action; /* budget set */
    uint64_t warn_percent;
    uint64_t since_ms;
    char *images;                          /* parse; "": none */
    char *code, *language, *into, *reason; /* task run, approve */
    struct sg_strlist task_files, collect;
    char *lang, *sandbox, *save; /* code, repl; "": by the file's name, a fresh one, here */
    char *name;                  /* template import, keys create */
    bool force, names, sudo;     /* template build, import; list; import */
    char *dir;                   /* tls init; "": STATE/tls */
    uint64_t count;              /* fork */
    bool cascade, drop_memory;   /* snapshots rm; pause */
    bool keep_snapshot;          /* snapshots import */
    bool whole;                  /* snapshots export */
    bool keep_network;           /* snapshots import */
    bool dry_run;                /* gc */
    uint64_t days, layer_days, checkpoint_every; /* gc; gc; create */
    struct sg_strlist captures;                  /* create */
    uint64_t hook_wait_ms;
    char *tag;                         /* snapshot, template build */
    char *dockerfile, *ready;          /* template build */
    char *image, *platform;            /* template import, pull */
    bool pull;                         /* template build */
    char *registry_ca, *registry_auth; /* template pull, push; "": the usual */
    struct sg_strlist registry_insecure,
        registry_serve; /* serve: where the service may pull from */
    struct sg_strlist build_args;
    char *config_file; /* --config; "" when not given */
};

enum sg_origin_kind {
    SG_FROM_DEFAULT,
    SG_FROM_FILE,
    SG_FROM_ENVIRONMENT,
    SG_FROM_FLAG,
};

enum { SG_MAX_OPTIONS = 160, SG_MAX_CONFIG_FILES = 2, SG_MAX_CONFIG_BYTES = 1 << 20 };

struct sg_origin {
    enum sg_origin_kind kind;
    uint32_t line;    /* of a file */
    const char *file; /* borrows from sg_origins */
};

struct sg_origins {
    struct sg_origin of[SG_MAX_OPTIONS]; /* by row of the option table */
    char *files[SG_MAX_CONFIG_FILES];    /* owned: what was read, in order */
    size_t file_count;
    bool has_daytona; /* a [daytona] table was there, and ignored */
};

void sg_config_init(struct sg_config *c, struct sg_origins *o); /* the defaults */
void sg_config_done(struct sg_config *c, struct sg_origins *o);

/* Reads the files (`named_file`, or the default ones when it is NULL) and the environment `env`
 * (as of environ(7)). SG_INVALID names file, line and column; SG_NOT_FOUND: the named file. */
int sg_config_load(struct sg_config *c, struct sg_origins *o, const char *named_file,
                   char *const *env, struct sg_err *err);

/* One file's text; `file` is its name for messages and origins, and must outlive `o`. */
int sg_config_apply_toml(struct sg_config *c, struct sg_origins *o, const char *file,
                         struct sg_str text, struct sg_err *err);

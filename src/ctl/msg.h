/* SPDX-License-Identifier: Apache-2.0 */
/* The control messages: one table, read by every program that speaks them.
 *
 * M1. A packet is one SEQPACKET datagram: a 16-byte head, then the fields of its type in table
 *     order, little endian, nothing after them. Descriptors ride beside it (SCM_RIGHTS).
 * M2. Every length is checked against the packet and against the field's own ceiling before use;
 *     a packet with anything wrong is refused whole.
 * M3. Text holds no NUL and is followed by one, so that a decoded field can be used in place.
 * M4. Decoded views borrow from the packet; they end with it.
 *
 * Both ends treat the other as hostile. docs/design/control.md describes the conversation. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "ctl/msg_gate.h"
#include "ctl/msg_launcher.h"
#include "ctl/text.h"

enum {
    SG_CTL_VERSION = 1,
    SG_L_MOUNTS_MAX = 16,          /* volumes of one sandbox */
    SG_CTL_MAX_BYTES = 192 * 1024, /* one argument of the kernel's own limit, and an environment */
    SG_CTL_MAX_FDS = 6,
    SG_CTL_MAX_TAG = 32,
    SG_CTL_MAX_PATH = 4096,
    SG_CTL_HEAD_BYTES = 16,
};

enum sg_msg_type {
    SG_MSG_NONE, /* never on the wire */
    /* requests, host to init */
    SG_MSG_HELLO,
    SG_MSG_SPAWN,
    SG_MSG_SIGNAL,
    SG_MSG_RESIZE,
    SG_MSG_CLOSE_STDIN,
    SG_MSG_OPEN,
    SG_MSG_STAT,
    SG_MSG_LIST,
    SG_MSG_MAKE,
    SG_MSG_MOVE,
    SG_MSG_REMOVE,
    SG_MSG_SETATTR,
    SG_MSG_WATCH,
    SG_MSG_UNWATCH,
    SG_MSG_DIAL,
    SG_MSG_INFO,
    SG_MSG_SHUTDOWN,
    SG_MSG_RECLAIM,
    SG_MSG_RELEASE,
    SG_MSG_TAR_IN,
    SG_MSG_TAR_OUT,
    SG_MSG_FIND,
    SG_MSG_WRITE,
    /* replies, init to host: same id as the request */
    SG_MSG_OK,
    SG_MSG_ERROR,
    SG_MSG_SPAWNED,
    SG_MSG_FD,
    SG_MSG_STATED,
    SG_MSG_LISTED,
    SG_MSG_WATCHED,
    SG_MSG_INFOED,
    /* events, init to host, unasked: id 0 */
    SG_MSG_READY,
    SG_MSG_EXITED,
    SG_MSG_CHANGED,
    SG_MSG_KEPT,
    /* daemon to launcher */
    SG_MSG_L_HELLO,
    SG_MSG_L_CREATE,
    SG_MSG_L_ADOPT,
    SG_MSG_L_DESTROY,
    SG_MSG_L_FREEZE,
    SG_MSG_L_THAW,
    SG_MSG_L_LIMIT,
    SG_MSG_L_STATS,
    SG_MSG_L_LIST,
    SG_MSG_L_POOL,
    SG_MSG_L_TEMPLATES,
    SG_MSG_L_SNAPSHOT,
    SG_MSG_L_FORGET,
    SG_MSG_L_SNAPSHOTS,
    SG_MSG_L_STORAGE,
    SG_MSG_L_RULES,
    SG_MSG_L_NET,
    SG_MSG_L_VOLUME_MAKE,
    SG_MSG_L_VOLUME_REMOVE,
    SG_MSG_L_VOLUME_USE,
    SG_MSG_L_MOUNT,
    SG_MSG_L_SYNC,
    /* launcher to daemon: same id as the question */
    SG_MSG_L_WELCOME,
    SG_MSG_L_CELL,
    SG_MSG_L_DONE,
    SG_MSG_L_FAILED,
    SG_MSG_L_STATED,
    SG_MSG_L_LISTED,
    SG_MSG_L_SNAPPED,
    SG_MSG_L_STORED,
    SG_MSG_L_RULED,
    /* launcher to daemon, unasked */
    SG_MSG_L_ENDED,
    SG_MSG_L_GATE,
    SG_MSG_L_EXPORT,
    /* launcher to gate */
    SG_MSG_G_ATTACH,
    SG_MSG_G_DETACH,
    SG_MSG_G_DAEMON,
    /* daemon to gate */
    SG_MSG_G_POLICY,
    SG_MSG_G_CRED,
    SG_MSG_G_MET,
    /* gate to daemon: same id as the question */
    SG_MSG_G_DONE,
    SG_MSG_G_FAILED,
    /* gate to daemon, unasked */
    SG_MSG_G_DECISION,
    SG_MSG_G_USAGE,
    SG_MSG_G_MEET,
    /* launcher to an init that came to it: first of all */
    SG_MSG_JOIN,
    /* launcher to keeper */
    SG_MSG_K_MAKE,
    SG_MSG_K_REMOVE,
    SG_MSG_K_LIST,
    /* keeper to launcher: same id as the question */
    SG_MSG_K_MADE,
    SG_MSG_K_DONE,
    SG_MSG_K_FAILED,
    SG_MSG_K_LISTED,
    /* keeper to launcher, unasked */
    SG_MSG_K_STATE,
    /* a request that came later: numbers stay what they were */
    SG_MSG_PUT,
    /* daemon to launcher */
    SG_MSG_L_VOLUME_LIMIT,
    /* daemon to exporter, and its answer */
    SG_MSG_X_POST,
    SG_MSG_X_POSTED,
    /* daemon to launcher, and its answer */
    SG_MSG_L_IDENTIFY,
    SG_MSG_L_IDENTIFIED,
    /* daemon to launcher */
    SG_MSG_L_UNFOLD,
    SG_MSG_L_IMAGE,
    /* daemon to launcher; launcher to daemon, unasked: how much of its memory went */
    SG_MSG_L_RECLAIM,
    SG_MSG_L_RECLAIMED,
    /* launcher to keeper */
    SG_MSG_K_IMPORT,
    SG_MSG_K_TAG,
    SG_MSG_K_FORGET,
    SG_MSG_K_IMAGES,
    /* daemon to launcher, and its answer */
    SG_MSG_L_GAUGE,
    SG_MSG_L_GAUGED,
    SG_MSG_TYPE_COUNT,
};

struct sg_bytes {
    const uint8_t *p;
    size_t n;
};

enum {                      /* SPAWN flags; the descriptors follow in the order of the bits */
       SG_SPAWN_STDIN = 1,  /* fd: read end; absent: /dev/null  */
       SG_SPAWN_STDOUT = 2, /* fd: write end; absent: /dev/null */
       SG_SPAWN_STDERR = 4, /* fd: write end; absent: stdout    */
       SG_SPAWN_PTY = 8,    /* a terminal inside, pumped through stdin and stdout by init */
       SG_SPAWN_KEEP = 16,  /* our ends follow, in the same order, for safekeeping */
};
enum { /* SIGNAL scope */
       SG_SIGNAL_PROCESS,
       SG_SIGNAL_GROUP,
       SG_SIGNAL_ALL,     /* every process but init */
       SG_SIGNAL_SESSION, /* an exec's whole tree: its session, and all who descend from that */
};
enum { SG_STAT_NOFOLLOW = 1, SG_STAT_LABELS = 2 };
enum { SG_MAKE_PARENTS = 1 }; /* MAKE: missing parents too, existing directory is fine */
enum { SG_MOVE_NOREPLACE = 1 };
enum { SG_REMOVE_RECURSIVE = 1 };
enum { SG_SETATTR_MODE = 1, SG_SETATTR_OWNER = 2, SG_SETATTR_MTIME = 4 };
enum { SG_WATCH_RECURSIVE = 1 };
enum { SG_DIAL_TCP, SG_DIAL_UNIX };
enum {
    SG_HELLO_ONE_USER = 1, /* only one id is mapped: no change of user, no groups */
    SG_HELLO_KEEP = 2,     /* outlive this connection; remember every end until RELEASE */
    SG_HELLO_VIEW = 4,     /* paths are those below SG_CTL_VIEW, and no link leads out of it */
};
enum { SG_KEPT_EXITED = 8, SG_KEPT_PTY = 16 }; /* KEPT flags, beside SG_SPAWN_STDIN to STDERR */
enum {                                         /* TAR_IN; of TAR_OUT the last one */
       SG_TAR_OVERWRITE = 1,                   /* existing files are replaced */
       SG_TAR_ANY_LINK = 2, /* symbolic links may lead anywhere: the archive is of our own making */
       SG_TAR_EXACT = 4,    /* a layer as it is: owners, set-id bits, attributes, holes, removals */
};
enum { /* WRITE; without the first two a new file takes the place of the path */
       SG_WRITE_APPEND = 1,   /* at the end of what is there; made where it is missing */
       SG_WRITE_IN_PLACE = 2, /* what is there is emptied and written, links followed */
       SG_WRITE_KEEP_MODE =
           4, /* a file that is replaced lends its mode; `mode` where there is none */
       SG_WRITE_PARENTS = 8, /* missing directories are made */
       SG_WRITE_LABELS = 16, /* its labels are those given, and no others */
};
enum { SG_PUT_INTO = 1, SG_PUT_MODE = 2 }; /* PUT: `path` is a directory; `mode` is to be set */
enum { SG_WRITE_SEAL = 1 }; /* WRITE: the last byte in the pipe, which says that all came */
enum { SG_FIND_TEXT = 1 };  /* FIND: `text` is looked for in files */
/* CHANGED what */
enum {
    SG_CHANGED_CREATE = 1,
    SG_CHANGED_WRITE = 2,
    SG_CHANGED_REMOVE = 4,
    SG_CHANGED_RENAME = 8,
    SG_CHANGED_CHMOD = 16,
    SG_CHANGED_OVERFLOW = 32, /* events were lost */
    SG_CHANGED_IS_DIR = 64,
};

/* Labels: texts that a client keeps with a file, as extended attributes of these names. They are
 * those of the E2B clients, so that programs inside find them where they look. */
#define SG_LABEL_PREFIX "user.e2b."

/* `user` is "" for init's own, a name from the sandbox's passwd, or "uid[:gid]". */
struct sg_msg_hello {
    uint32_t version, flags, epoch;
};
struct sg_msg_spawn {
    uint32_t flags, rows, cols;
    struct sg_text user, cwd; /* cwd "": the user's home */
    struct sg_texts argv, env;
    struct sg_text tag; /* the host's own name for it; "" without SG_HELLO_KEEP */
};
struct sg_msg_signal {
    uint32_t pid, signal, scope;
};
struct sg_msg_resize {
    uint32_t pid, rows, cols;
};
struct sg_msg_pid {
    uint32_t pid;
};
struct sg_msg_open {
    struct sg_text user, path;
    uint32_t flags, mode;
}; /* flags as of open(2) */
struct sg_msg_path {
    struct sg_text user, path;
    uint32_t flags;
};
struct sg_msg_list {
    struct sg_text user, path;
    uint64_t cursor;
};
struct sg_msg_make {
    struct sg_text user, path;
    uint32_t flags, mode;
};
struct sg_msg_move {
    struct sg_text user, from, to;
    uint32_t flags;
};
struct sg_msg_setattr {
    struct sg_text user, path, owner; /* owner: "name", "uid" or "uid:gid" */
    uint32_t what, mode;
    uint64_t mtime_ns;
};
struct sg_msg_watch_id {
    uint32_t watch;
};
struct sg_msg_dial {
    struct sg_text user, path;
    uint32_t family, port;
};
struct sg_msg_empty {
    uint32_t unused;
};
struct sg_msg_error {
    uint32_t kind, sys;
    struct sg_text text;
};
struct sg_msg_fd {
    uint64_t bytes;
    uint32_t mode;
};
struct sg_msg_stated {
    uint32_t mode, uid, gid, nlink;
    uint64_t bytes, mtime_ns, inode;
    struct sg_text owner, group, target; /* target: of a symbolic link */
    struct sg_texts labels;              /* name, value, ...; where they were asked for */
};
struct sg_msg_listed {
    uint64_t next;
    struct sg_bytes entries;
}; /* next 0: the end; see ctl/entry.h */
struct sg_msg_infoed {
    uint32_t version, processes;
    uint64_t uptime_ns;
};
struct sg_msg_ready {
    uint32_t version, pid;
};
struct sg_msg_exited {
    uint32_t pid, code, signal;
    uint64_t cpu_ns, max_rss_bytes;
    struct sg_text tag;
};
struct sg_msg_changed {
    uint32_t watch, what;
    struct sg_text path;
}; /* path below the watched one */
struct sg_msg_release {
    struct sg_text tag;
};
struct sg_msg_tar {
    struct sg_text user, path;
    uint32_t flags;
};
struct sg_msg_put { /* `source`: what of the archive; `owner`: "", as of `user` */
    struct sg_text user, path, source, owner;
    uint32_t flags, mode;
};
struct sg_msg_write {
    struct sg_text user, path;
    uint32_t flags, mode;
    struct sg_texts labels; /* name, value, ... */
};
struct sg_msg_find {
    struct sg_text user, path, name, text; /* name: a pattern as of fnmatch(3), "": any */
    uint32_t flags, max, timeout_ms;       /* max: results; 0: some thousands, and a minute */
};
struct sg_msg_kept {
    struct sg_text tag;
    uint32_t pid, flags, code, signal;
    uint64_t cpu_ns, max_rss_bytes;
};

/* ---- sandboxes that somebody else makes: init comes to us, a keeper speaks with who makes it ----
 */

enum {                   /* JOIN: the descriptors of an init, in this order */
       SG_JOIN_LISTENER, /* by which its host comes back */
       SG_JOIN_LOCK,     /* of its slot */
       SG_JOIN_FD_COUNT,
};
struct sg_msg_join {
    struct sg_bytes filter; /* struct sock_filter, for everything inside; empty: none */
};
struct sg_msg_k_make {
    struct sg_text container, image,
        dir; /* dir: on the host; holds init and the socket it comes to */
    uint64_t mem_bytes, cpu_milli, pids, disk_bytes, open_files;
    uint32_t is_ours; /* the image is a template of ours: not pulled */
};
struct sg_msg_k_import { /* with a pipe, out of which a tar comes; K_MADE: its id */
    struct sg_texts env;
};
struct sg_msg_k_image { /* TAG, FORGET; id: by which TAG finds it */
    struct sg_text image, id;
};
struct sg_msg_k_name {
    struct sg_text container;
};
struct sg_msg_k_made {
    struct sg_text image; /* the Engine's id of it */
    struct sg_texts env;
};
struct sg_msg_k_state {
    uint32_t is_up;
    struct sg_text version, why; /* why: it is not up */
};

/* ---- the exporter ---- */

enum { SG_X_TAKEN, SG_X_LATER, SG_X_REFUSED }; /* X_POSTED verdict */
struct sg_msg_x_posted {
    uint32_t verdict, status, wait_ms; /* status: of HTTP, or 0; wait: that was asked for, or 0 */
    struct sg_text why;
};

struct sg_msg {
    enum sg_msg_type type;
    uint32_t id;    /* chosen by the asker, repeated in the reply; 0 in events */
    uint32_t epoch; /* of the host's connection: stale replies are dropped     */
    union {
        struct sg_msg_hello hello;
        struct sg_msg_spawn spawn;
        struct sg_msg_signal signal;
        struct sg_msg_resize resize;
        struct sg_msg_pid close_stdin;
        struct sg_msg_open open;
        struct sg_msg_path stat;
        struct sg_msg_list list;
        struct sg_msg_make make;
        struct sg_msg_move move;
        struct sg_msg_path remove;
        struct sg_msg_setattr setattr;
        struct sg_msg_path watch;
        struct sg_msg_watch_id unwatch;
        struct sg_msg_dial dial;
        struct sg_msg_empty empty;
        struct sg_msg_error error;
        struct sg_msg_pid spawned;
        struct sg_msg_fd fd;
        struct sg_msg_stated stated;
        struct sg_msg_listed listed;
        struct sg_msg_watch_id watched;
        struct sg_msg_infoed infoed;
        struct sg_msg_ready ready;
        struct sg_msg_exited exited;
        struct sg_msg_changed changed;
        struct sg_msg_release release;
        struct sg_msg_tar tar;
        struct sg_msg_put put;
        struct sg_msg_find find;
        struct sg_msg_write write;
        struct sg_msg_kept kept;
        struct sg_msg_l_hello l_hello;
        struct sg_msg_l_create l_create;
        struct sg_msg_l_name l_name;
        struct sg_msg_l_list l_list;
        struct sg_msg_l_welcome l_welcome;
        struct sg_msg_l_cell l_cell;
        struct sg_msg_l_stated l_stated;
        struct sg_msg_l_listed l_listed;
        struct sg_msg_l_snapshot l_snapshot;
        struct sg_msg_l_forget l_forget;
        struct sg_msg_l_volume l_volume;
        struct sg_msg_l_mount l_mount;
        struct sg_msg_l_snapped l_snapped;
        struct sg_msg_l_stored l_stored;
        struct sg_msg_l_rules l_rules, l_ruled;
        struct sg_msg_l_identify l_identify;
        struct sg_msg_l_identified l_identified;
        struct sg_msg_l_ended l_ended;
        struct sg_msg_l_reclaimed l_reclaimed;
        struct sg_msg_l_net l_net;
        struct sg_msg_g_policy g_policy;
        struct sg_msg_g_cred g_cred;
        struct sg_msg_g_decision g_decision;
        struct sg_msg_g_usage g_usage;
        struct sg_msg_g_meet g_meet;
        struct sg_msg_g_met g_met;
        struct sg_msg_join join;
        struct sg_msg_k_make k_make;
        struct sg_msg_k_name k_name;
        struct sg_msg_k_import k_import;
        struct sg_msg_k_image k_image;
        struct sg_msg_k_made k_made;
        struct sg_msg_k_state k_state;
        struct sg_msg_x_posted x_posted;
    };
};

enum sg_msg_role {
    SG_ROLE_NONE,
    SG_ROLE_REQUEST, /* host and init */
    SG_ROLE_REPLY,
    SG_ROLE_EVENT,
    SG_ROLE_ASK, /* daemon and launcher */
    SG_ROLE_ANSWER,
    SG_ROLE_NEWS,
    SG_ROLE_ORDER,    /* launcher to gate */
    SG_ROLE_GATE_ASK, /* daemon and gate */
    SG_ROLE_GATE_ANSWER,
    SG_ROLE_GATE_NEWS,
    SG_ROLE_JOIN,       /* launcher to init */
    SG_ROLE_KEEPER_ASK, /* launcher and keeper */
    SG_ROLE_KEEPER_ANSWER,
    SG_ROLE_KEEPER_NEWS,
    SG_ROLE_EXPORT_ASK, /* daemon and exporter */
    SG_ROLE_EXPORT_ANSWER,
};
enum sg_field_kind { SG_FIELD_U32, SG_FIELD_U64, SG_FIELD_TEXT, SG_FIELD_TEXTS, SG_FIELD_BYTES };

struct sg_field {
    const char *name;
    enum sg_field_kind kind;
    uint16_t offset; /* in struct sg_msg */
    uint32_t max;    /* value, bytes of the text, or number of texts */
};
struct sg_msg_desc {
    const char *name;
    enum sg_msg_role role;
    uint8_t max_fds;
    uint8_t field_count;
    const struct sg_field *fields;
};
extern const struct sg_msg_desc sg_msg_table[SG_MSG_TYPE_COUNT];

/* Appends the packet. SG_INVALID where a field breaks its row, SG_EXHAUSTED where it is too big. */
int sg_msg_encode(const struct sg_msg *m, struct sg_buf *out, struct sg_err *err);

/* `p` must stay while `ret` is used. Accepts only messages of `role` (or of any but NONE when
 * `role` is SG_ROLE_NONE), so that neither end can be fed its own side's messages. */
int sg_msg_decode(const uint8_t *p, size_t n, enum sg_msg_role role, struct sg_msg *ret,
                  struct sg_err *err);

/* Takes the next text off the front of `list`; false at the end. */
bool sg_text_next(struct sg_texts *list, struct sg_text *ret);

/* Builders; the views borrow. sg_texts_pack() fills an empty `store`, which must outlive `ret`. */
struct sg_text sg_text_of(const char *s);
int sg_texts_pack(char *const *v, struct sg_buf *store, struct sg_texts *ret, struct sg_err *err);

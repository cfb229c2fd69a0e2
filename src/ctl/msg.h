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

enum {
    SG_CTL_VERSION = 1,
    SG_CTL_MAX_BYTES = 192 * 1024, /* one argument of the kernel's own limit, and an environment */
    SG_CTL_MAX_FDS = 4,
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
    SG_MSG_TYPE_COUNT,
};

/* Text field: p is terminated. An absent text is "". */
struct sg_text {
    const char *p;
    size_t n;
};

/* A list of texts, walked with sg_text_next(). */
struct sg_texts {
    const uint8_t *p;
    size_t n;
    uint32_t count;
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
};
enum {
    SG_SIGNAL_PROCESS,
    SG_SIGNAL_GROUP,
    SG_SIGNAL_ALL
}; /* SIGNAL scope; ALL: every process but init */
enum { SG_STAT_NOFOLLOW = 1 };
enum { SG_MAKE_PARENTS = 1 }; /* MAKE: missing parents too, existing directory is fine */
enum { SG_MOVE_NOREPLACE = 1 };
enum { SG_REMOVE_RECURSIVE = 1 };
enum { SG_SETATTR_MODE = 1, SG_SETATTR_OWNER = 2, SG_SETATTR_MTIME = 4 };
enum { SG_WATCH_RECURSIVE = 1 };
enum { SG_DIAL_TCP, SG_DIAL_UNIX };
enum { SG_HELLO_ONE_USER = 1 }; /* only one id is mapped: no change of user, no groups */
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

/* `user` is "" for init's own, a name from the sandbox's passwd, or "uid[:gid]". */
struct sg_msg_hello {
    uint32_t version, flags, epoch;
};
struct sg_msg_spawn {
    uint32_t flags, rows, cols;
    struct sg_text user, cwd; /* cwd "": the user's home */
    struct sg_texts argv, env;
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
};
struct sg_msg_changed {
    uint32_t watch, what;
    struct sg_text path;
}; /* path below the watched one */

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
    };
};

enum sg_msg_role { SG_ROLE_NONE, SG_ROLE_REQUEST, SG_ROLE_REPLY, SG_ROLE_EVENT };
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

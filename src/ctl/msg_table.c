/* SPDX-License-Identifier: Apache-2.0 */
/* The table itself. A new message is a row here, a struct in msg.h, a handler in its receiver. */
#include "ctl/msg.h"

#include "base/auto.h"
#include "base/banned.h"

enum {
    USER_MAX = 64,
    ARGS_MAX = 16384, /* texts in one list; the packet's own size binds first for long ones */
    TEXT_MAX = 512,
    PIDS_MAX = 1u << 22,
    LABEL_MAX = 255,
};
#define ANY UINT32_MAX

/* clang-format off */
#define U32(m, f, max)  { #f, SG_FIELD_U32, offsetof(struct sg_msg, m.f), max }
#define U64(m, f)       { #f, SG_FIELD_U64, offsetof(struct sg_msg, m.f), 0 }
#define TEXT(m, f, max) { #f, SG_FIELD_TEXT, offsetof(struct sg_msg, m.f), max }
#define TEXTS(m, f)     { #f, SG_FIELD_TEXTS, offsetof(struct sg_msg, m.f), ARGS_MAX }
#define BYTES(m, f)     { #f, SG_FIELD_BYTES, offsetof(struct sg_msg, m.f), SG_CTL_MAX_BYTES }
/* clang-format on */

static const struct sg_field hello[] = { U32(hello, version, ANY), U32(hello, flags, 7),
                                         U32(hello, epoch, ANY) };
static const struct sg_field spawn[] = {
    U32(spawn, flags, 31),       U32(spawn, rows, 65535),           U32(spawn, cols, 65535),
    TEXT(spawn, user, USER_MAX), TEXT(spawn, cwd, SG_CTL_MAX_PATH), TEXTS(spawn, argv),
    TEXTS(spawn, env),           TEXT(spawn, tag, SG_CTL_MAX_TAG),
};
static const struct sg_field signal_[] = { U32(signal, pid, PIDS_MAX), U32(signal, signal, 64),
                                           U32(signal, scope, SG_SIGNAL_SESSION) };
static const struct sg_field resize[] = { U32(resize, pid, PIDS_MAX), U32(resize, rows, 65535),
                                          U32(resize, cols, 65535) };
static const struct sg_field close_stdin[] = { U32(close_stdin, pid, PIDS_MAX) };
static const struct sg_field open_[] = { TEXT(open, user, USER_MAX),
                                         TEXT(open, path, SG_CTL_MAX_PATH), U32(open, flags, ANY),
                                         U32(open, mode, 07777) };
static const struct sg_field stat_[] = { TEXT(stat, user, USER_MAX),
                                         TEXT(stat, path, SG_CTL_MAX_PATH), U32(stat, flags, 3) };
static const struct sg_field list[] = { TEXT(list, user, USER_MAX),
                                        TEXT(list, path, SG_CTL_MAX_PATH), U64(list, cursor) };
static const struct sg_field make[] = { TEXT(make, user, USER_MAX),
                                        TEXT(make, path, SG_CTL_MAX_PATH), U32(make, flags, 1),
                                        U32(make, mode, 07777) };
static const struct sg_field move[] = { TEXT(move, user, USER_MAX),
                                        TEXT(move, from, SG_CTL_MAX_PATH),
                                        TEXT(move, to, SG_CTL_MAX_PATH), U32(move, flags, 1) };
static const struct sg_field remove_[] = { TEXT(remove, user, USER_MAX),
                                           TEXT(remove, path, SG_CTL_MAX_PATH),
                                           U32(remove, flags, 1) };
static const struct sg_field setattr[] = {
    TEXT(setattr, user, USER_MAX),  TEXT(setattr, path, SG_CTL_MAX_PATH),
    TEXT(setattr, owner, USER_MAX), U32(setattr, what, 7),
    U32(setattr, mode, 07777),      U64(setattr, mtime_ns),
};
static const struct sg_field watch[] = { TEXT(watch, user, USER_MAX),
                                         TEXT(watch, path, SG_CTL_MAX_PATH), U32(watch, flags, 1) };
static const struct sg_field unwatch[] = { U32(unwatch, watch, ANY) };
static const struct sg_field dial[] = { TEXT(dial, user, USER_MAX),
                                        TEXT(dial, path, SG_CTL_MAX_PATH),
                                        U32(dial, family, SG_DIAL_UNIX), U32(dial, port, 65535) };
static const struct sg_field error[] = { U32(error, kind, SG_KIND_COUNT - 1), U32(error, sys, 4095),
                                         TEXT(error, text, TEXT_MAX) };
static const struct sg_field spawned[] = { U32(spawned, pid, PIDS_MAX) };
static const struct sg_field fd[] = { U64(fd, bytes), U32(fd, mode, ANY) };
static const struct sg_field stated[] = {
    U32(stated, mode, ANY),
    U32(stated, uid, ANY),
    U32(stated, gid, ANY),
    U32(stated, nlink, ANY),
    U64(stated, bytes),
    U64(stated, mtime_ns),
    U64(stated, inode),
    TEXT(stated, owner, USER_MAX),
    TEXT(stated, group, USER_MAX),
    TEXT(stated, target, SG_CTL_MAX_PATH),
    TEXTS(stated, labels),
};
static const struct sg_field listed[] = { U64(listed, next), BYTES(listed, entries) };
static const struct sg_field watched[] = { U32(watched, watch, ANY) };
static const struct sg_field infoed[] = { U32(infoed, version, ANY), U32(infoed, processes, ANY),
                                          U64(infoed, uptime_ns) };
static const struct sg_field ready[] = { U32(ready, version, ANY), U32(ready, pid, PIDS_MAX) };
static const struct sg_field exited[] = {
    U32(exited, pid, PIDS_MAX), U32(exited, code, 255),     U32(exited, signal, 64),
    U64(exited, cpu_ns),        U64(exited, max_rss_bytes), TEXT(exited, tag, SG_CTL_MAX_TAG)
};
static const struct sg_field changed[] = { U32(changed, watch, ANY), U32(changed, what, 127),
                                           TEXT(changed, path, SG_CTL_MAX_PATH) };

static const struct sg_field release[] = { TEXT(release, tag, SG_CTL_MAX_TAG) };
static const struct sg_field tar[] = { TEXT(tar, user, USER_MAX), TEXT(tar, path, SG_CTL_MAX_PATH),
                                       U32(tar, flags, 7) };
static const struct sg_field put[] = {
    TEXT(put, user, USER_MAX),
    TEXT(put, path, SG_CTL_MAX_PATH),
    TEXT(put, source, SG_CTL_MAX_PATH),
    TEXT(put, owner, USER_MAX),
    U32(put, flags, 3),
    U32(put, mode, 07777),
};
static const struct sg_field find[] = {
    TEXT(find, user, USER_MAX),  TEXT(find, path, SG_CTL_MAX_PATH),
    TEXT(find, name, LABEL_MAX), TEXT(find, text, TEXT_MAX),
    U32(find, flags, 1),         U32(find, max, ANY),
    U32(find, timeout_ms, ANY),
};
static const struct sg_field write_[] = { TEXT(write, user, USER_MAX),
                                          TEXT(write, path, SG_CTL_MAX_PATH), U32(write, flags, 31),
                                          U32(write, mode, 07777), TEXTS(write, labels) };
static const struct sg_field kept[] = {
    TEXT(kept, tag, SG_CTL_MAX_TAG),
    U32(kept, pid, PIDS_MAX),
    U32(kept, flags, 31),
    U32(kept, code, 255),
    U32(kept, signal, 64),
    U64(kept, cpu_ns),
    U64(kept, max_rss_bytes),
};

static const struct sg_field l_hello[] = { U32(l_hello, version, ANY), U32(l_hello, epoch, ANY) };
static const struct sg_field l_create[] = {
    TEXT(l_create, sandbox, SG_CTL_MAX_TAG),
    TEXT(l_create, template, LABEL_MAX),
    U64(l_create, mem_bytes),
    U64(l_create, cpu_milli),
    U64(l_create, pids),
    U64(l_create, disk_bytes),
    U32(l_create, tier, SG_L_TIER_COUNT - 1),
    TEXTS(l_create, mounts),
};
static const struct sg_field l_name[] = { TEXT(l_name, sandbox, SG_CTL_MAX_TAG) };
static const struct sg_field l_net[] = { TEXT(l_net, sandbox, SG_CTL_MAX_TAG),
                                         U32(l_net, is_on, 1) };
static const struct sg_field l_list[] = { U64(l_list, cursor) };
static const struct sg_field l_welcome[] = { U32(l_welcome, version, ANY),
                                             U32(l_welcome, flags, 63), TEXTS(l_welcome, lacking) };
static const struct sg_field l_cell[] = {
    U32(l_cell, flags, 63),
    U32(l_cell, missing, 255),
    U32(l_cell, pid, PIDS_MAX),
    U64(l_cell, disk_bytes),
    TEXT(l_cell, template, LABEL_MAX),
    TEXT(l_cell, identity, LABEL_MAX),
    TEXT(l_cell, user, USER_MAX),
    TEXT(l_cell, home, SG_CTL_MAX_PATH),
    TEXT(l_cell, workdir, SG_CTL_MAX_PATH),
    TEXT(l_cell, path, SG_CTL_MAX_PATH),
    TEXTS(l_cell, env),
};
static const struct sg_field l_stated[] = {
    U64(l_stated, mem_bytes), U64(l_stated, mem_peak_bytes), U64(l_stated, mem_limit_bytes),
    U64(l_stated, cpu_ns),    U64(l_stated, pids),           U64(l_stated, pids_peak),
    U64(l_stated, oom_kills), U64(l_stated, disk_bytes),     U64(l_stated, disk_used_bytes),
};
static const struct sg_field l_listed[] = { U64(l_listed, next), TEXTS(l_listed, names) };
static const struct sg_field l_snapshot[] = { TEXT(l_snapshot, sandbox, SG_CTL_MAX_TAG),
                                              TEXT(l_snapshot, snapshot, SG_CTL_MAX_TAG),
                                              U32(l_snapshot, flags, SG_L_STAY_FROZEN) };
static const struct sg_field l_forget[] = { TEXT(l_forget, snapshot, SG_CTL_MAX_TAG) };
static const struct sg_field l_volume_make[] = { TEXT(l_volume, volume, SG_CTL_MAX_TAG),
                                                 U64(l_volume, bytes) };
static const struct sg_field l_volume[] = { TEXT(l_volume, volume, SG_CTL_MAX_TAG) };
static const struct sg_field l_mount[] = { TEXT(l_mount, sandbox, SG_CTL_MAX_TAG),
                                           TEXT(l_mount, volume, SG_CTL_MAX_TAG),
                                           TEXT(l_mount, path, SG_CTL_MAX_PATH),
                                           U32(l_mount, flags, SG_L_READ_ONLY) };
static const struct sg_field l_snapped[] = { U64(l_snapped, bytes), U64(l_snapped, frozen_ns) };
static const struct sg_field l_stored[] = {
    U32(l_stored, flags, 3),        U64(l_stored, total_bytes),
    U64(l_stored, free_bytes),      U64(l_stored, errands),
    U64(l_stored, errors),          TEXT(l_stored, source, LABEL_MAX),
    TEXT(l_stored, why, LABEL_MAX), U32(l_stored, reclaim, SG_L_RECLAIM_COUNT - 1),
    U64(l_stored, swap_bytes),      TEXT(l_stored, kept_why, LABEL_MAX),
};
static const struct sg_field l_rules[] = { U64(l_rules, stamp),
                                           U32(l_rules, which, SG_RULE_FILE_COUNT - 1) };
static const struct sg_field l_ruled[] = { U64(l_ruled, stamp) };
static const struct sg_field l_identify[] = { TEXT(l_identify, template, SG_CTL_MAX_TAG) };
static const struct sg_field l_reclaimed[] = { TEXT(l_reclaimed, sandbox, SG_CTL_MAX_TAG),
                                               U64(l_reclaimed, bytes) };
static const struct sg_field l_identified[] = { U64(l_identified, stamp),
                                                TEXT(l_identified, identity, LABEL_MAX) };
static const struct sg_field l_ended[] = { TEXT(l_ended, sandbox, SG_CTL_MAX_TAG),
                                           U32(l_ended, cause, SG_L_END_KILLED),
                                           U64(l_ended, oom_kills), U64(l_ended, cpu_ns) };

enum { NET_NAME_MAX = 253, NET_ADDR_MAX = 45, NET_MODE_MAX = 2 };
enum { NET_PROXY_MAX = 259, NET_BOX_MAX = 1024 };
static const struct sg_field g_policy[] = {
    TEXT(g_policy, sandbox, SG_CTL_MAX_TAG),
    U32(g_policy, mode, NET_MODE_MAX),
    U32(g_policy, flags, 3),
    U32(g_policy, layer, SG_LAYER_COUNT - 1),
    U32(g_policy, above, (1 << SG_LAYER_COUNT) - 1),
    U64(g_policy, mbps),
    U64(g_policy, max_bytes),
    U64(g_policy, max_connections),
    U64(g_policy, connections_per_s),
    TEXTS(g_policy, allow),
    TEXTS(g_policy, deny),
    TEXTS(g_policy, networks),
    TEXT(g_policy, org, SG_CTL_MAX_TAG),
    TEXT(g_policy, name, NET_NAME_MAX),
    TEXT(g_policy, proxy, NET_PROXY_MAX),
    TEXT(g_policy, proxy_user, NET_PROXY_MAX),
    TEXT(g_policy, proxy_box, NET_BOX_MAX),
};
enum { CRED_NAME_MAX = 256, CRED_VALUE_MAX = 96 << 10, CRED_ID_MAX = 128 };
static const struct sg_field g_cred[] = {
    TEXT(g_cred, sandbox, SG_CTL_MAX_TAG),
    U32(g_cred, kind, SG_G_CRED_FIELD),
    U32(g_cred, flags, 7),
    TEXT(g_cred, name, CRED_NAME_MAX),
    TEXT(g_cred, value, CRED_VALUE_MAX),
    TEXT(g_cred, id, CRED_ID_MAX),
    TEXTS(g_cred, hosts),
};
static const struct sg_field g_decision[] = {
    TEXT(g_decision, sandbox, SG_CTL_MAX_TAG),
    U32(g_decision, is_allowed, 1),
    U32(g_decision, flags, 7),
    U32(g_decision, port, 65535),
    U32(g_decision, skipped, ANY),
    U64(g_decision, at_ms),
    U64(g_decision, duration_ms),
    U64(g_decision, bytes_out),
    U64(g_decision, bytes_in),
    TEXT(g_decision, name, NET_NAME_MAX),
    TEXT(g_decision, address, NET_ADDR_MAX),
    TEXT(g_decision, rule, SG_G_RULE_MAX),
};
static const struct sg_field g_meet[] = {
    TEXT(g_meet, sandbox, SG_CTL_MAX_TAG),
    TEXT(g_meet, to, SG_CTL_MAX_TAG),
    U32(g_meet, ticket, ANY),
    U32(g_meet, port, 65535),
};
static const struct sg_field g_met[] = {
    TEXT(g_met, sandbox, SG_CTL_MAX_TAG),
    TEXT(g_met, to, SG_CTL_MAX_TAG),
    U32(g_met, ticket, ANY),
    U32(g_met, sys, ANY),
};
static const struct sg_field g_usage[] = {
    TEXT(g_usage, sandbox, SG_CTL_MAX_TAG),
    U64(g_usage, bytes_out),
    U64(g_usage, bytes_in),
    U64(g_usage, connections),
    U64(g_usage, refused),
};

static const struct sg_field join[] = { BYTES(join, filter) };
static const struct sg_field k_make[] = {
    TEXT(k_make, container, LABEL_MAX),
    TEXT(k_make, image, LABEL_MAX),
    TEXT(k_make, dir, SG_CTL_MAX_PATH),
    U64(k_make, mem_bytes),
    U64(k_make, cpu_milli),
    U64(k_make, pids),
    U64(k_make, disk_bytes),
    U64(k_make, open_files),
    U32(k_make, is_ours, 1),
};
static const struct sg_field k_import[] = { TEXTS(k_import, env) };
static const struct sg_field k_image[] = { TEXT(k_image, image, LABEL_MAX),
                                           TEXT(k_image, id, LABEL_MAX) };
static const struct sg_field k_name[] = { TEXT(k_name, container, LABEL_MAX) };
static const struct sg_field k_made[] = {
    TEXT(k_made, image, LABEL_MAX),
    TEXTS(k_made, env),
};
static const struct sg_field k_state[] = { U32(k_state, is_up, 1),
                                           TEXT(k_state, version, LABEL_MAX),
                                           TEXT(k_state, why, TEXT_MAX) };

static const struct sg_field x_posted[] = { U32(x_posted, verdict, SG_X_REFUSED),
                                            U32(x_posted, status, 999), U32(x_posted, wait_ms, ANY),
                                            TEXT(x_posted, why, TEXT_MAX) };

/* clang-format off */
#define ROW(name, role, fds, fields) { name, role, fds, SG_COUNT(fields), fields }
#define BARE(name, role)             { name, role, 0, 0, NULL }
/* clang-format on */

const struct sg_msg_desc sg_msg_table[SG_MSG_TYPE_COUNT] = {
    [SG_MSG_NONE] = BARE("none", SG_ROLE_NONE),
    [SG_MSG_HELLO] = ROW("hello", SG_ROLE_REQUEST, 0, hello),
    [SG_MSG_SPAWN] = ROW("spawn", SG_ROLE_REQUEST, 6, spawn),
    [SG_MSG_SIGNAL] = ROW("signal", SG_ROLE_REQUEST, 0, signal_),
    [SG_MSG_RESIZE] = ROW("resize", SG_ROLE_REQUEST, 0, resize),
    [SG_MSG_CLOSE_STDIN] = ROW("close_stdin", SG_ROLE_REQUEST, 0, close_stdin),
    [SG_MSG_OPEN] = ROW("open", SG_ROLE_REQUEST, 0, open_),
    [SG_MSG_STAT] = ROW("stat", SG_ROLE_REQUEST, 0, stat_),
    [SG_MSG_LIST] = ROW("list", SG_ROLE_REQUEST, 0, list),
    [SG_MSG_MAKE] = ROW("make", SG_ROLE_REQUEST, 0, make),
    [SG_MSG_MOVE] = ROW("move", SG_ROLE_REQUEST, 0, move),
    [SG_MSG_REMOVE] = ROW("remove", SG_ROLE_REQUEST, 0, remove_),
    [SG_MSG_SETATTR] = ROW("setattr", SG_ROLE_REQUEST, 0, setattr),
    [SG_MSG_WATCH] = ROW("watch", SG_ROLE_REQUEST, 0, watch),
    [SG_MSG_UNWATCH] = ROW("unwatch", SG_ROLE_REQUEST, 0, unwatch),
    [SG_MSG_DIAL] = ROW("dial", SG_ROLE_REQUEST, 0, dial),
    [SG_MSG_INFO] = BARE("info", SG_ROLE_REQUEST),
    [SG_MSG_SHUTDOWN] = BARE("shutdown", SG_ROLE_REQUEST),
    [SG_MSG_RECLAIM] = BARE("reclaim", SG_ROLE_REQUEST),
    [SG_MSG_RELEASE] = ROW("release", SG_ROLE_REQUEST, 0, release),
    [SG_MSG_TAR_IN] = ROW("tar_in", SG_ROLE_REQUEST, 1, tar),
    [SG_MSG_TAR_OUT] = ROW("tar_out", SG_ROLE_REQUEST, 1, tar),
    [SG_MSG_FIND] = ROW("find", SG_ROLE_REQUEST, 1, find),
    [SG_MSG_WRITE] = ROW("write", SG_ROLE_REQUEST, 1, write_),
    [SG_MSG_PUT] = ROW("put", SG_ROLE_REQUEST, 1, put),
    [SG_MSG_OK] = BARE("ok", SG_ROLE_REPLY),
    [SG_MSG_ERROR] = ROW("error", SG_ROLE_REPLY, 0, error),
    [SG_MSG_SPAWNED] = ROW("spawned", SG_ROLE_REPLY, 0, spawned),
    [SG_MSG_FD] = ROW("fd", SG_ROLE_REPLY, 1, fd),
    [SG_MSG_STATED] = ROW("stated", SG_ROLE_REPLY, 0, stated),
    [SG_MSG_LISTED] = ROW("listed", SG_ROLE_REPLY, 0, listed),
    [SG_MSG_WATCHED] = ROW("watched", SG_ROLE_REPLY, 0, watched),
    [SG_MSG_INFOED] = ROW("infoed", SG_ROLE_REPLY, 0, infoed),
    [SG_MSG_READY] = ROW("ready", SG_ROLE_EVENT, 0, ready),
    [SG_MSG_EXITED] = ROW("exited", SG_ROLE_EVENT, 0, exited),
    [SG_MSG_CHANGED] = ROW("changed", SG_ROLE_EVENT, 0, changed),
    [SG_MSG_KEPT] = ROW("kept", SG_ROLE_EVENT, 3, kept),
    [SG_MSG_L_HELLO] = ROW("l_hello", SG_ROLE_ASK, 0, l_hello),
    [SG_MSG_L_CREATE] = ROW("l_create", SG_ROLE_ASK, 0, l_create),
    [SG_MSG_L_ADOPT] = ROW("l_adopt", SG_ROLE_ASK, 0, l_name),
    [SG_MSG_L_DESTROY] = ROW("l_destroy", SG_ROLE_ASK, 0, l_name),
    [SG_MSG_L_FREEZE] = ROW("l_freeze", SG_ROLE_ASK, 0, l_name),
    [SG_MSG_L_THAW] = ROW("l_thaw", SG_ROLE_ASK, 0, l_name),
    [SG_MSG_L_LIMIT] = ROW("l_limit", SG_ROLE_ASK, 0, l_create),
    [SG_MSG_L_STATS] = ROW("l_stats", SG_ROLE_ASK, 0, l_name),
    [SG_MSG_L_LIST] = ROW("l_list", SG_ROLE_ASK, 0, l_list),
    [SG_MSG_L_POOL] = BARE("l_pool", SG_ROLE_ASK),
    [SG_MSG_L_TEMPLATES] = BARE("l_templates", SG_ROLE_ASK),
    [SG_MSG_L_SNAPSHOT] = ROW("l_snapshot", SG_ROLE_ASK, 0, l_snapshot),
    [SG_MSG_L_FORGET] = ROW("l_forget", SG_ROLE_ASK, 0, l_forget),
    [SG_MSG_L_SNAPSHOTS] = ROW("l_snapshots", SG_ROLE_ASK, 0, l_list),
    [SG_MSG_L_STORAGE] = BARE("l_storage", SG_ROLE_ASK),
    [SG_MSG_L_RULES] = ROW("l_rules", SG_ROLE_ASK, 0, l_rules),
    [SG_MSG_L_NET] = ROW("l_net", SG_ROLE_ASK, 0, l_net),
    [SG_MSG_L_VOLUME_MAKE] = ROW("l_volume_make", SG_ROLE_ASK, 0, l_volume_make),
    [SG_MSG_L_VOLUME_LIMIT] = ROW("l_volume_limit", SG_ROLE_ASK, 0, l_volume_make),
    [SG_MSG_L_VOLUME_REMOVE] = ROW("l_volume_remove", SG_ROLE_ASK, 0, l_volume),
    [SG_MSG_L_VOLUME_USE] = ROW("l_volume_use", SG_ROLE_ASK, 0, l_volume),
    [SG_MSG_L_MOUNT] = ROW("l_mount", SG_ROLE_ASK, 0, l_mount),
    [SG_MSG_L_SYNC] = BARE("l_sync", SG_ROLE_ASK),
    [SG_MSG_L_RECLAIM] = ROW("l_reclaim", SG_ROLE_ASK, 0, l_name),
    [SG_MSG_L_RECLAIMED] = ROW("l_reclaimed", SG_ROLE_NEWS, 0, l_reclaimed),
    [SG_MSG_L_UNFOLD] = ROW("l_unfold", SG_ROLE_ASK, 0, l_name),
    [SG_MSG_L_WELCOME] = ROW("l_welcome", SG_ROLE_ANSWER, 0, l_welcome),
    [SG_MSG_L_CELL] = ROW("l_cell", SG_ROLE_ANSWER, 1, l_cell),
    [SG_MSG_L_DONE] = BARE("l_done", SG_ROLE_ANSWER),
    [SG_MSG_L_FAILED] = ROW("l_failed", SG_ROLE_ANSWER, 0, error),
    [SG_MSG_L_STATED] = ROW("l_stated", SG_ROLE_ANSWER, 0, l_stated),
    [SG_MSG_L_LISTED] = ROW("l_listed", SG_ROLE_ANSWER, 0, l_listed),
    [SG_MSG_L_SNAPPED] = ROW("l_snapped", SG_ROLE_ANSWER, 0, l_snapped),
    [SG_MSG_L_STORED] = ROW("l_stored", SG_ROLE_ANSWER, 0, l_stored),
    [SG_MSG_L_RULED] = ROW("l_ruled", SG_ROLE_ANSWER, 1, l_ruled),
    [SG_MSG_L_ENDED] = ROW("l_ended", SG_ROLE_NEWS, 0, l_ended),
    [SG_MSG_L_GATE] = { "l_gate", SG_ROLE_NEWS, 1, 0, NULL },
    [SG_MSG_L_EXPORT] = { "l_export", SG_ROLE_NEWS, 1, 0, NULL },
    [SG_MSG_G_ATTACH] = ROW("g_attach", SG_ROLE_ORDER, SG_G_FD_COUNT, l_name),
    [SG_MSG_G_DETACH] = ROW("g_detach", SG_ROLE_ORDER, 0, l_name),
    [SG_MSG_G_DAEMON] = { "g_daemon", SG_ROLE_ORDER, 1, 0, NULL },
    [SG_MSG_G_POLICY] = ROW("g_policy", SG_ROLE_GATE_ASK, 0, g_policy),
    [SG_MSG_G_CRED] = ROW("g_cred", SG_ROLE_GATE_ASK, 0, g_cred),
    [SG_MSG_G_MET] = ROW("g_met", SG_ROLE_GATE_ASK, 1, g_met),
    [SG_MSG_G_DONE] = BARE("g_done", SG_ROLE_GATE_ANSWER),
    [SG_MSG_G_FAILED] = ROW("g_failed", SG_ROLE_GATE_ANSWER, 0, error),
    [SG_MSG_G_DECISION] = ROW("g_decision", SG_ROLE_GATE_NEWS, 0, g_decision),
    [SG_MSG_G_USAGE] = ROW("g_usage", SG_ROLE_GATE_NEWS, 0, g_usage),
    [SG_MSG_G_MEET] = ROW("g_meet", SG_ROLE_GATE_NEWS, 0, g_meet),
    [SG_MSG_JOIN] = ROW("join", SG_ROLE_JOIN, SG_JOIN_FD_COUNT, join),
    [SG_MSG_K_MAKE] = ROW("k_make", SG_ROLE_KEEPER_ASK, 0, k_make),
    [SG_MSG_K_REMOVE] = ROW("k_remove", SG_ROLE_KEEPER_ASK, 0, k_name),
    [SG_MSG_K_LIST] = ROW("k_list", SG_ROLE_KEEPER_ASK, 0, l_list),
    [SG_MSG_K_IMPORT] = ROW("k_import", SG_ROLE_KEEPER_ASK, 1, k_import),
    [SG_MSG_K_TAG] = ROW("k_tag", SG_ROLE_KEEPER_ASK, 0, k_image),
    [SG_MSG_K_FORGET] = ROW("k_forget", SG_ROLE_KEEPER_ASK, 0, k_image),
    [SG_MSG_K_IMAGES] = BARE("k_images", SG_ROLE_KEEPER_ASK),
    [SG_MSG_K_MADE] = ROW("k_made", SG_ROLE_KEEPER_ANSWER, 0, k_made),
    [SG_MSG_K_DONE] = BARE("k_done", SG_ROLE_KEEPER_ANSWER),
    [SG_MSG_K_FAILED] = ROW("k_failed", SG_ROLE_KEEPER_ANSWER, 0, error),
    [SG_MSG_K_LISTED] = ROW("k_listed", SG_ROLE_KEEPER_ANSWER, 0, l_listed),
    [SG_MSG_K_STATE] = ROW("k_state", SG_ROLE_KEEPER_NEWS, 0, k_state),
    [SG_MSG_X_POST] = { "x_post", SG_ROLE_EXPORT_ASK, 1, 0, NULL },
    [SG_MSG_X_POSTED] = ROW("x_posted", SG_ROLE_EXPORT_ANSWER, 0, x_posted),
    [SG_MSG_L_IDENTIFY] = ROW("l_identify", SG_ROLE_ASK, 0, l_identify),
    [SG_MSG_L_GAUGE] = ROW("l_gauge", SG_ROLE_ASK, 0, l_name),
    [SG_MSG_L_GAUGED] = { "l_gauged", SG_ROLE_ANSWER, SG_L_GAUGE_COUNT, 0, NULL },
    [SG_MSG_L_IMAGE] = { "l_image", SG_ROLE_ASK, SG_L_IMAGE_FD_COUNT, 0, NULL },
    [SG_MSG_L_IDENTIFIED] = ROW("l_identified", SG_ROLE_ANSWER, 0, l_identified),
};

/* SPDX-License-Identifier: Apache-2.0 */
/* The native routes. schema/openapi.json describes the same rows; a test compares the two. */
#include "api/rest/rest.h"

#include "api/routes.h"
#include "base/auto.h"
#include "base/banned.h"

#define R SG_SCOPE_READ
#define X SG_SCOPE_EXEC
#define A SG_SCOPE_ADMIN
#define N SG_ROUTE_NO_QUERY

#define S  "/v1/sandboxes/{id}"
#define SX S "/execs/{exec}"
#define SF S "/files"
#define SC S "/contexts/{context}"
#define VF "/v1/volumes/{volume}/files"

/* clang-format off */
static const struct sg_route rows[] = {
    { M_POST,   "/v1/sandboxes", X, N, sg_rest_sandbox_create, "Create a sandbox" },
    { M_GET,    "/v1/sandboxes", R, 0, sg_rest_sandbox_list, "List sandboxes" },
    { M_DELETE, "/v1/sandboxes", X, N, sg_rest_sandbox_delete_all, "Destroy every sandbox of the organisation" },
    { M_GET,    S, R, N, sg_rest_sandbox_get, "One sandbox" },
    { M_PATCH,  S, X, N, sg_rest_sandbox_patch, "Change limits, metadata or lifetime" },
    { M_DELETE, S, X, N, sg_rest_sandbox_delete, "Destroy a sandbox" },
    { M_POST,   S "/timeout", X, N, sg_rest_sandbox_timeout, "Set the lifetime from now on" },
    { M_POST,   S "/keepalive", X, N, sg_rest_sandbox_keepalive, "Start the lifetime anew" },
    { M_POST,   S "/pause", X, N, sg_rest_sandbox_pause, "Freeze every process" },
    { M_POST,   S "/resume", X, N, sg_rest_sandbox_resume, "Let them go on" },
    { M_POST,   S "/stop", X, N, sg_rest_sandbox_stop, "End every process, keep the files" },
    { M_POST,   S "/start", X, N, sg_rest_sandbox_start, "Allow processes again" },
    { M_GET,    S "/stats", R, N, sg_rest_sandbox_stats, "What it uses" },
    { M_GET,    S "/health", R, N, sg_rest_sandbox_health, "Does it answer?" },
    { M_GET,    S "/network", R, N, sg_rest_network_get, "Which network it has" },
    { M_PUT,    S "/network", X, N, sg_rest_network_put, "Change its network, from now on" },
    { M_GET,    S "/ports", R, N, sg_rest_port_list, "Ports that are open to visitors" },
    { M_PUT,    S "/ports/{port}", X, N, sg_rest_port_open, "Open a port to visitors" },
    { M_DELETE, S "/ports/{port}", X, N, sg_rest_port_close, "Close a port to visitors" },
    { M_POST,   S "/ports/{port}/sign", X, N, sg_rest_port_sign, "Make a link to an open port" },
    { M_GET,    S "/ports/{port}/connect", X, SG_ROUTE_STREAM | N, sg_rest_port_connect, "Connect to a port, whatever it speaks" },
    { M_GET,    S "/network/explain", R, 0, sg_rest_network_explain, "Would it get there, and why?" },
    { M_GET,    S "/network/learned", R, N, sg_rest_network_learned, "The rules that would have sufficed" },
    { M_GET,    S "/connections", R, 0, sg_rest_connections, "What the gate decided" },
    { M_GET,    "/v1/health", R, N, sg_rest_health_all, "Do all sandboxes answer?" },

    { M_POST,   S "/exec", X, 0, sg_rest_exec_start, "Run a command" },
    { M_GET,    S "/exec/ws", X, N, sg_rest_exec_start_ws, "Run a command over a WebSocket" },
    { M_GET,    S "/execs", R, N, sg_rest_exec_list, "Commands that run or ran" },
    { M_GET,    SX, R, N, sg_rest_exec_get, "One command" },
    { M_DELETE, SX, X, N, sg_rest_exec_kill, "End a command and its children" },
    { M_GET,    SX "/output", R, 0, sg_rest_exec_output, "Output from an offset on" },
    { M_POST,   SX "/stdin", X, SG_ROUTE_STREAM, sg_rest_exec_stdin, "Write to its input" },
    { M_POST,   SX "/signal", X, N, sg_rest_exec_signal, "Send a signal" },
    { M_POST,   SX "/resize", X, N, sg_rest_exec_resize, "Resize its terminal" },
    { M_GET,    SX "/ws", X, 0, sg_rest_exec_attach_ws, "Attach by a WebSocket" },

    { M_GET,    SF, R, 0, sg_rest_file_get, "Download a file" },
    { M_PUT,    SF, X, SG_ROUTE_STREAM, sg_rest_file_put, "Upload a file, atomically" },
    { M_DELETE, SF, X, 0, sg_rest_file_delete, "Remove a file or a tree" },
    { M_POST,   SF "/append", X, SG_ROUTE_STREAM, sg_rest_file_append, "Write at the end of a file" },
    { M_GET,    SF "/stat", R, 0, sg_rest_file_stat, "What a path is" },
    { M_GET,    SF "/list", R, 0, sg_rest_file_list, "Entries of a directory" },
    { M_GET,    SF "/search", R, 0, sg_rest_file_search, "Find files by name or text" },
    { M_GET,    SF "/watch", R, 0, sg_rest_file_watch, "Changes as server-sent events" },
    { M_POST,   SF "/mkdir", X, N, sg_rest_file_mkdir, "Make a directory" },
    { M_POST,   SF "/move", X, N, sg_rest_file_move, "Move or rename" },
    { M_POST,   SF "/chmod", X, N, sg_rest_file_chmod, "Change mode or owner" },
    { M_POST,   SF "/copy", X, N, sg_rest_file_copy, "Copy a tree to another sandbox" },
    { M_GET,    SF "/tar", R, 0, sg_rest_tar_get, "A tree as a tar archive" },
    { M_PUT,    SF "/tar", X, SG_ROUTE_STREAM, sg_rest_tar_put, "Unpack a tar archive" },

    { M_POST,   "/v1/route", R, N, sg_rest_route, "Which tier an operation would get, and why" },
    { M_POST,   "/v1/intercept", X, N, sg_rest_intercept, "What becomes of a tool call of an agent" },
    { M_POST,   "/v1/parse", X, SG_ROUTE_LARGE, sg_rest_parse, "Read a document that nobody trusts" },
    { M_POST,   "/v1/run", X, N, sg_rest_run, "Do one operation in a sandbox that is gone afterwards" },
    { M_POST,   "/v1/batch", X, N, sg_rest_batch, "Do many operations side by side" },
    { M_GET,    "/v1/approvals", R, 0, sg_rest_approval_list, "What waits for an approval, and what became of it" },
    { M_POST,   "/v1/approvals", X, N, sg_rest_approval_ask, "Ask for an approval" },
    { M_GET,    "/v1/approvals/{approval}", R, 0, sg_rest_approval_get, "One approval" },
    { M_POST,   "/v1/approvals/{approval}/approve", A, N, sg_rest_approval_approve, "Approve of it" },
    { M_POST,   "/v1/approvals/{approval}/deny", A, N, sg_rest_approval_deny, "Deny it" },

    { M_POST,   S "/code", X, 0, sg_rest_code_run, "Run code in a context" },
    { M_GET,    S "/contexts", R, N, sg_rest_context_list, "Contexts in which code runs" },
    { M_POST,   S "/contexts", X, N, sg_rest_context_create, "Make a context" },
    { M_GET,    SC, R, N, sg_rest_context_get, "One context" },
    { M_DELETE, SC, X, N, sg_rest_context_remove, "End a context" },
    { M_POST,   SC "/restart", X, N, sg_rest_context_restart, "Give it a fresh interpreter" },
    { M_POST,   SC "/interrupt", X, N, sg_rest_context_interrupt, "Interrupt what runs in it" },
    { M_GET,    SC "/runs/{run}", R, N, sg_rest_code_attach, "Events of an execution, from the beginning" },

    { M_GET,    "/v1/events", R, 0, sg_rest_events, "Events as they happen" },
    { M_GET,    "/v1/keys", A, N, sg_rest_key_list, "Keys of the organisation" },
    { M_POST,   "/v1/keys", A, N, sg_rest_key_create, "Make a key" },
    { M_DELETE, "/v1/keys/{key}", A, N, sg_rest_key_revoke, "Revoke a key" },
    { M_GET,    "/v1/orgs", A, N, sg_rest_org_list, "Organisations" },
    { M_POST,   "/v1/orgs", A, SG_ROUTE_OPERATOR | N, sg_rest_org_create, "Make an organisation" },
    { M_GET,    "/v1/orgs/{org}", A, N, sg_rest_org_get, "One organisation" },
    { M_PATCH,  "/v1/orgs/{org}", A, SG_ROUTE_OPERATOR | N, sg_rest_org_change, "Change name or quota" },
    { M_DELETE, "/v1/orgs/{org}", A, SG_ROUTE_OPERATOR | N, sg_rest_org_remove, "Remove an organisation" },
    { M_GET,    "/v1/budgets", A, N, sg_rest_budget_list, "Budgets of organisations" },
    { M_GET,    "/v1/orgs/{org}/budget", A, N, sg_rest_budget_get, "What an organisation may spend" },
    { M_PUT,    "/v1/orgs/{org}/budget", A, SG_ROUTE_OPERATOR | N, sg_rest_budget_set, "Say what an organisation may spend" },
    { M_DELETE, "/v1/orgs/{org}/budget", A, SG_ROUTE_OPERATOR | N, sg_rest_budget_remove, "Let it spend what it wants" },
    { M_GET,    "/v1/whoami", R, N, sg_rest_whoami, "Who the key speaks for" },
    { M_GET,    "/v1/orgs/{org}/network", A, N, sg_rest_netlayer_get, "What sandboxes of an organisation may reach at most" },
    { M_PUT,    "/v1/orgs/{org}/network", A, SG_ROUTE_OPERATOR | N, sg_rest_netlayer_put, "Say what sandboxes of an organisation may reach at most" },
    { M_DELETE, "/v1/orgs/{org}/network", A, SG_ROUTE_OPERATOR | N, sg_rest_netlayer_remove, "Leave that to each sandbox" },
    { M_GET,    "/v1/templates/{template}/network", R, N, sg_rest_netlayer_get, "What sandboxes of a template may reach at most" },
    { M_PUT,    "/v1/templates/{template}/network", A, SG_ROUTE_OPERATOR | N, sg_rest_netlayer_put, "Say what sandboxes of a template may reach at most" },
    { M_DELETE, "/v1/templates/{template}/network", A, SG_ROUTE_OPERATOR | N, sg_rest_netlayer_remove, "Leave that to each sandbox" },
    { M_GET,    "/v1/templates", R, N, sg_rest_templates, "Templates" },
    { M_GET,    "/v1/pool", R, N, sg_rest_pool, "Parked sandboxes" },
    { M_GET,    "/v1/usage", R, 0, sg_rest_usage, "What was used" },
    { M_GET,    "/v1/audit", A, SG_ROUTE_OPERATOR, sg_rest_audit, "Who did what" },
    { M_GET,    "/v1/audit/verify", A, SG_ROUTE_OPERATOR | N, sg_rest_audit_verify, "Is the record whole?" },
    { M_GET,    "/v1/reconcile", A, SG_ROUTE_OPERATOR | N, sg_rest_reconcile_get, "The last comparison of all there is" },
    { M_POST,   "/v1/reconcile", A, SG_ROUTE_OPERATOR | N, sg_rest_reconcile_run, "Compare now" },
    { M_GET,    "/v1/secrets", R, N, sg_rest_secret_list, "Secrets of the organisation" },
    { M_GET,    "/v1/secrets/{secret}", R, N, sg_rest_secret_get, "One secret, without its value" },
    { M_PUT,    "/v1/secrets/{secret}", X, N, sg_rest_secret_set, "Keep a secret, or a new value of it" },
    { M_DELETE, "/v1/secrets/{secret}", X, N, sg_rest_secret_remove, "Remove a secret" },
    { M_GET,    "/v1/volumes", R, N, sg_rest_volume_list, "Volumes of the organisation" },
    { M_POST,   "/v1/volumes", X, N, sg_rest_volume_create, "Make a volume" },
    { M_GET,    "/v1/volumes/{volume}", R, N, sg_rest_volume_get, "One volume" },
    { M_PATCH,  "/v1/volumes/{volume}", X, N, sg_rest_volume_resize, "Change a volume's size" },
    { M_DELETE, "/v1/volumes/{volume}", X, 0, sg_rest_volume_remove, "Remove a volume" },
    { M_GET,    VF, R, 0, sg_rest_volume_files, "Download a file of a volume" },
    { M_PUT,    VF, X, SG_ROUTE_STREAM, sg_rest_volume_files, "Upload a file to a volume, atomically" },
    { M_DELETE, VF, X, 0, sg_rest_volume_files, "Remove a file or a tree of a volume" },
    { M_GET,    VF "/stat", R, 0, sg_rest_volume_files, "What a path in a volume is" },
    { M_GET,    VF "/list", R, 0, sg_rest_volume_files, "Entries of a directory of a volume" },
    { M_GET,    VF "/search", R, 0, sg_rest_volume_files, "Find files of a volume by name or text" },
    { M_POST,   VF "/mkdir", X, N, sg_rest_volume_files, "Make a directory in a volume" },
    { M_POST,   VF "/move", X, N, sg_rest_volume_files, "Move or rename within a volume" },
    { M_POST,   VF "/chmod", X, N, sg_rest_volume_files, "Change mode or owner in a volume" },
    { M_GET,    VF "/tar", R, 0, sg_rest_volume_files, "A tree of a volume as a tar archive" },
    { M_PUT,    VF "/tar", X, SG_ROUTE_STREAM, sg_rest_volume_files, "Unpack a tar archive into a volume" },
    { M_GET,    "/v1/openapi.json", 0, SG_ROUTE_OPEN | N, sg_rest_openapi, "This description" },

    { M_POST,   S "/snapshots", X, N, sg_rest_snapshot_create, "Make a snapshot of its files" },
    { M_POST,   S "/rollback", X, N, sg_rest_sandbox_rollback, "Go back to a snapshot" },
    { M_POST,   S "/fork", X, N, sg_rest_sandbox_fork, "New sandboxes with the same files" },
    { M_GET,    "/v1/snapshots", R, 0, sg_rest_snapshot_list, "Snapshots" },
    { M_GET,    "/v1/snapshots/{snapshot}", R, N, sg_rest_snapshot_get, "One snapshot" },
    { M_DELETE, "/v1/snapshots/{snapshot}", X, 0, sg_rest_snapshot_delete, "Remove a snapshot" },
    { M_GET,    "/v1/tree", R, N, sg_rest_tree, "What came from what" },
    { M_GET,    "/v1/storage", R, N, sg_rest_storage, "The storage pool" },
    { M_POST,   "/v1/gc", X, N, sg_rest_gc, "Remove what is of no use any more" },
};
/* clang-format on */

const struct sg_route_table sg_rest_routes = { rows, SG_COUNT(rows) };

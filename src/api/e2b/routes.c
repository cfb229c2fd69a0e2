/* SPDX-License-Identifier: Apache-2.0 */
/* The routes of the control plane, both generations side by side. */
#include "api/routes.h"

#include "api/e2b/e2b.h"
#include "base/auto.h"
#include "base/banned.h"

#define R SG_SCOPE_READ
#define X SG_SCOPE_EXEC

#define S  "/sandboxes/{id}"
#define T  "/templates/{id}"
#define VC "/volumecontent/{id}"

/* clang-format off */
static const struct sg_route rows[] = {
    { M_POST,   "/sandboxes", X, 0, sg_e2b_create_v1, "Create a sandbox" },
    { M_POST,   "/v2/sandboxes", X, 0, sg_e2b_create_v2, "Create a secured sandbox" },
    { M_GET,    "/sandboxes", R, 0, sg_e2b_list_v1, "Sandboxes that run" },
    { M_GET,    "/v2/sandboxes", R, 0, sg_e2b_list_v2, "Sandboxes, filtered and paged" },
    { M_GET,    S, R, 0, sg_e2b_info, "One sandbox" },
    { M_DELETE, S, X, 0, sg_e2b_kill, "End a sandbox" },
    { M_POST,   S "/connect", X, 0, sg_e2b_connect_v1, "Keep or wake a sandbox" },
    { M_POST,   "/v2" S "/connect", X, 0, sg_e2b_connect_v2, "Keep or wake a sandbox" },
    { M_POST,   S "/resume", X, 0, sg_e2b_resume, "Wake a sandbox" },
    { M_POST,   S "/timeout", X, 0, sg_e2b_timeout, "Set its end" },
    { M_POST,   S "/refreshes", X, 0, sg_e2b_refresh, "Move its end away" },
    { M_POST,   S "/pause", X, 0, sg_e2b_pause, "Freeze a sandbox" },
    { M_PUT,    S "/network", X, 0, sg_e2b_network, "Set what it may reach" },
    { M_POST,   S "/snapshots", X, 0, sg_e2b_snapshot_create, "Make a snapshot" },
    { M_POST,   S "/fork", X, 0, sg_e2b_fork, "Fork a sandbox" },
    { M_GET,    "/sandboxes/metrics", R, 0, sg_e2b_metrics_of_many, "What several use" },
    { M_GET,    S "/metrics", R, 0, sg_e2b_metrics, "What it uses" },
    { M_GET,    S "/logs", R, 0, sg_e2b_logs_v1, "What happened to it" },
    { M_GET,    "/v2" S "/logs", R, 0, sg_e2b_logs_v2, "What happened to it" },
    { M_GET,    "/snapshots", R, 0, sg_e2b_snapshot_list, "Snapshots" },

    { M_GET,    "/templates", R, 0, sg_e2b_template_list, "Templates" },
    { M_GET,    "/v2/templates", R, 0, sg_e2b_template_list, "Templates" },
    { M_GET,    T, R, 0, sg_e2b_template_get, "One template" },
    { M_DELETE, T, X, 0, sg_e2b_template_remove, "Remove a template" },
    { M_PATCH,  T, X, 0, sg_e2b_template_change, "Change a template" },
    { M_PATCH,  "/v2" T, X, 0, sg_e2b_template_change, "Change a template" },
    { M_GET,    "/templates/aliases/{id}", R, 0, sg_e2b_template_alias, "Whether there is one" },
    { M_GET,    T "/tags", R, 0, sg_e2b_template_tags, "Its tags" },
    { M_POST,   "/templates/tags", X, 0, sg_e2b_tag, "Tag a template" },
    { M_DELETE, "/templates/tags", X, 0, sg_e2b_untag, "Untag a template" },
    { M_POST,   "/templates", X, 0, sg_e2b_no_build, "Begin a build" },
    { M_POST,   "/v2/templates", X, 0, sg_e2b_no_build, "Begin a build" },
    { M_POST,   "/v3/templates", X, 0, sg_e2b_build_create, "Begin a build" },
    { M_GET,    T "/files/{hash}", X, 0, sg_e2b_build_files, "Whether files of a build are there" },
    { M_PUT,    "/templates/files/{token}", 0, SG_ROUTE_OPEN | SG_ROUTE_STREAM, sg_e2b_build_upload, "Send files of a build" },
    { M_POST,   "/v2" T "/builds/{build}", X, 0, sg_e2b_build_start, "Build a template" },
    { M_GET,    T "/builds/{build}/status", R, 0, sg_e2b_build_status, "How a build is doing" },
    { M_GET,    T "/builds/{build}/logs", R, 0, sg_e2b_build_logs, "What a build said" },
    { M_GET,    "/teams", R, 0, sg_e2b_teams, "The key's organisation" },

    { M_GET,    "/volumes", R, 0, sg_e2b_volume_list, "Volumes" },
    { M_POST,   "/volumes", X, 0, sg_e2b_volume_create, "Make a volume" },
    { M_GET,    "/volumes/{id}", R, 0, sg_e2b_volume_get, "One volume" },
    { M_DELETE, "/volumes/{id}", X, 0, sg_e2b_volume_remove, "Remove a volume" },
    { M_GET,    VC "/path", 0, SG_ROUTE_OPEN, sg_e2b_volume_stat, "What a path of a volume is" },
    { M_PATCH,  VC "/path", 0, SG_ROUTE_OPEN, sg_e2b_volume_change, "Change owner or mode" },
    { M_DELETE, VC "/path", 0, SG_ROUTE_OPEN, sg_e2b_volume_remove_path, "Remove a file or a tree" },
    { M_GET,    VC "/dir", 0, SG_ROUTE_OPEN, sg_e2b_volume_list_dir, "Entries of a directory" },
    { M_POST,   VC "/dir", 0, SG_ROUTE_OPEN, sg_e2b_volume_make_dir, "Make a directory" },
    { M_GET,    VC "/file", 0, SG_ROUTE_OPEN, sg_e2b_volume_read, "Read a file" },
    { M_PUT,    VC "/file", 0, SG_ROUTE_OPEN | SG_ROUTE_STREAM, sg_e2b_volume_write, "Write a file" },
    { M_GET,    "/secrets", R, 0, sg_e2b_secret_list, "Secrets" },
    { M_POST,   "/secrets", X, 0, sg_e2b_secret_create, "Keep a secret" },
    { M_GET,    "/secrets/{id}", R, 0, sg_e2b_secret_get, "One secret" },
    { M_POST,   "/secrets/{id}", X, 0, sg_e2b_secret_update, "Change a secret" },
    { M_DELETE, "/secrets/{id}", X, 0, sg_e2b_secret_remove, "Remove a secret" },
};
/* clang-format on */

const struct sg_route_table sg_e2b_routes = { rows, SG_COUNT(rows) };

/* SPDX-License-Identifier: Apache-2.0 */
/* What the native door calls and no body leads to. They are here so that the manager and the server
 * need not be linked; none is ever called. */
#include <stdlib.h>

#include "base/banned.h"

#define UNUSED(name)                                                                               \
    void name(void);                                                                               \
    void name(void)                                                                                \
    {                                                                                              \
        abort();                                                                                   \
    }

UNUSED(sg_approval_next)
UNUSED(sg_audit_verify_slowly)
UNUSED(sg_code_attach)
UNUSED(sg_code_first)
UNUSED(sg_code_has_begun)
UNUSED(sg_code_interrupt)
UNUSED(sg_code_is_busy)
UNUSED(sg_code_leave)
UNUSED(sg_code_next)
UNUSED(sg_code_remove)
UNUSED(sg_code_restart)
UNUSED(sg_code_run_id)
UNUSED(sg_events_leave)
UNUSED(sg_events_listen)
UNUSED(sg_events_next)
UNUSED(sg_exec_ending_name)
UNUSED(sg_exec_kill)
UNUSED(sg_exec_next)
UNUSED(sg_exec_when_writable)
UNUSED(sg_files_abandon)
UNUSED(sg_files_commit)
UNUSED(sg_files_unwatch)
UNUSED(sg_files_watch)
UNUSED(sg_files_write)
UNUSED(sg_key_next)
UNUSED(sg_key_revoke)
UNUSED(sg_manager_destroy)
UNUSED(sg_manager_storage)
UNUSED(sg_snapshot_next)
UNUSED(sg_snapshot_remove)
UNUSED(sg_snapshot_users)
UNUSED(sg_manager_destroy_all)
UNUSED(sg_manager_health)
UNUSED(sg_manager_list)
UNUSED(sg_manager_pool)
UNUSED(sg_manager_reconcile)
UNUSED(sg_manager_report)
UNUSED(sg_manager_resume)
UNUSED(sg_manager_start)
UNUSED(sg_manager_stats)
UNUSED(sg_manager_stop)
UNUSED(sg_manager_store)
UNUSED(sg_manager_templates)
UNUSED(sg_org_next)
UNUSED(sg_org_remove)
UNUSED(sg_reply_abort)
UNUSED(sg_reply_add)
UNUSED(sg_reply_bytes)
UNUSED(sg_reply_end)
UNUSED(sg_reply_file)
UNUSED(sg_reply_header)
UNUSED(sg_reply_start)
UNUSED(sg_reply_start_with)
UNUSED(sg_secret_after)
UNUSED(sg_secret_find)
UNUSED(sg_secret_is_stale)
UNUSED(sg_secret_remove)
UNUSED(sg_store_each_audit)
UNUSED(sg_task_cancel)
UNUSED(sg_store_each_usage)

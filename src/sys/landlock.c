/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers are spelled out here because the headers of Debian 12 end at ABI 2. The kernel reads
 * as many bytes of the attribute struct as it knows, so one struct serves every version as long as
 * the newer fields are zero where the version is too old for them. */
#include "sys/landlock.h"

#include <errno.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/banned.h"

enum { RULESET_VERSION = 1, RULE_PATH_BENEATH = 1, ABI_WITH_REFER = 2 };

struct ruleset_attr {
    uint64_t fs;
    uint64_t net;    /* ABI 4 */
    uint64_t scoped; /* ABI 6 */
};

struct path_beneath_attr {
    uint64_t allowed;
    int32_t dir_fd;
} __attribute__((packed));

/* What each ABI version added; a row counts from its version on. */
static const struct {
    long abi;
    uint64_t fs, net, scoped;
} additions[] = {
    { 1, (1u << 13) - 1, 0, 0 }, /* execute, read, write, list, remove, make_* */
    { 2, 1u << 13, 0, 0 },       /* refer: link and rename across directories */
    { 3, 1u << 14, 0, 0 },       /* truncate */
    { 4, 0, 3, 0 },              /* bind and connect TCP */
    { 5, 1u << 15, 0, 0 },       /* ioctl on devices */
    { 6, 0, 0, 3 },              /* abstract sockets and signals outside */
};

int sg_landlock_keep_only(int dir_fd, struct sg_err *err)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, RULESET_VERSION);
    if (abi < ABI_WITH_REFER) /* -1, or ABI 1, which refuses every link across directories */
        return sg_fail(err, SG_UNSUPPORTED, "Landlock (ABI 2 or newer) is not enabled");

    struct ruleset_attr handled = { 0 };
    for (size_t i = 0; i < SG_COUNT(additions); i++)
        if (abi >= additions[i].abi) {
            handled.fs |= additions[i].fs;
            handled.net |= additions[i].net;
            handled.scoped |= additions[i].scoped;
        }
    size_t size = abi >= 6 ? sizeof handled : abi >= 4 ? 16 : 8;
    sg_auto_fd ruleset = (int)syscall(SYS_landlock_create_ruleset, &handled, size, 0);
    if (ruleset < 0)
        return sg_fail_sys(err, "make a Landlock ruleset");

    const struct path_beneath_attr rule = { .allowed = handled.fs, .dir_fd = dir_fd };
    if (syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0) < 0)
        return sg_fail_sys(err, "add a Landlock rule");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        return sg_fail_sys(err, "apply the Landlock ruleset");
    return 0;
}

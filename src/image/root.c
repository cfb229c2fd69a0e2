/* SPDX-License-Identifier: Apache-2.0 */
#include "image/root.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/auto.h"

#include "base/banned.h"

int sg_root_check(int root_fd, struct sg_err *err)
{
    static const char *const places[] = { "dev", "etc", "proc", "run", "sys", "tmp", "usr" };
    for (size_t i = 0; i < SG_COUNT(places); i++) {
        struct stat st;
        if (fstatat(root_fd, places[i], &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode))
            return sg_fail(err, SG_INVALID,
                           "'/%s' of the template is a %s where a directory must be; replace it in "
                           "the template",
                           places[i], S_ISLNK(st.st_mode) ? "symbolic link" : "file");
    }
    return 0;
}

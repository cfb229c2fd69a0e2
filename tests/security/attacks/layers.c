/* SPDX-License-Identifier: Apache-2.0 */
/* Tricks on the overlay: the layers below are shared, what happens here must stay here. Most of
 * these succeed inside; the test looks at the layer and at a neighbour. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "attack.h"
#include "base/banned.h"

/* Sixteen writers wake the same file of the lower layer at once. */
static void race_copy_up(const char *path)
{
    for (int i = 0; i < 16; i++)
        if (fork() == 0) {
            int fd = open(path, i % 2 ? O_WRONLY | O_APPEND : O_RDWR | O_TRUNC);
            _exit(fd < 0 || write(fd, "raced", 5) != 5);
        }
    while (wait(NULL) > 0)
        ;
    sg_say("raced", "%s", path);
}

static void forge(const char *path)
{
    static const char *const names[] = {
        "trusted.overlay.opaque", "trusted.overlay.redirect", "trusted.overlay.metacopy",
        "trusted.overlay.origin", "user.overlay.opaque",      "user.overlay.redirect",
        "user.overlay.metacopy",  "user.overlay.whiteouts",   "security.capability",
    };
    for (size_t i = 0; i < SG_COUNT_OF(names); i++)
        sg_say_result(names[i], setxattr(path, names[i], "/../../../etc", 13, 0));
}

/* `dir` of the template holds: gone, kept, raced, linked and a directory sub with a file in it. */
static void layer_tricks(char **args)
{
    if (chdir(sg_word(&args)) < 0)
        sg_broken("chdir");
    race_copy_up("raced");
    sg_say_result("unlink", unlink("gone"));
    sg_say_result("hard-link", link("linked", "second-name"));
    int fd = open("second-name", O_WRONLY | O_TRUNC);
    sg_say_result("write-hard-link", fd < 0 ? -1 : write(fd, "owned", 5));
    sg_say_result("rename-directory", rename("sub", "moved"));
    sg_say_result("chmod", chmod("kept", 0777));
    sg_say_result("truncate", truncate("kept", 0));
    sg_say_result("exchange", rename("kept", "raced"));
    (void)mkdir("sub", 0755);
    forge("sub");
    forge("raced");
}

const struct sg_attack sg_attacks_on_layers[] = {
    { "layer-tricks", layer_tricks },
    { NULL, NULL },
};

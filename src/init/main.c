/* SPDX-License-Identifier: Apache-2.0 */
/* Started by the engine inside a finished sandbox: descriptors 0, 1 and 2 are /dev/null, 3 is the
 * control socket, nothing else is open. There is nobody to tell of a failure but the exit code. */
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "init/init.h"
#include "base/banned.h"

enum { CONTROL_FD = 3, EXIT_BROKEN = 125 };

int main(void)
{
    (void)prctl(PR_SET_DUMPABLE, 0); /* our memory and /proc entries are not for those inside */
    (void)prctl(PR_SET_NAME, "sandglass-init");
    if (fcntl(CONTROL_FD, F_SETFD, FD_CLOEXEC) < 0)
        _exit(EXIT_BROKEN);
    struct sg_err err;
    _exit(sg_init_run(CONTROL_FD, &err) < 0 ? EXIT_BROKEN : 0);
}

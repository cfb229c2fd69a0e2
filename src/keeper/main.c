/* SPDX-License-Identifier: Apache-2.0 */
/* Started by the launcher with its socket as descriptor 3. It reads the settings, then leaves
 * everything but the directory that the Engine's socket is in, and only then takes a word from
 * anybody. One capability stays, DAC_OVERRIDE: the socket belongs to root and to a group of the
 * Engine's, and who may speak there has more than that anyway. */
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/resource.h>

#include "base/auto.h"
#include "base/parse.h"
#include "config/config.h"
#include "keeper/keeper.h"
#include "keeper/seccomp_data.h"
#include "sys/confine.h"
#include "sys/kfile.h"
#include "worker/worker.h"
#include "base/banned.h"

static int serve(const struct sg_keeper_options *o, struct sg_err *err)
{
    struct sg_loop *l = sg_worker_loop(err);
    struct sg_keeper *k = l ? sg_keeper_new(l, o, err) : NULL;
    int ret = k ? sg_loop_run(l, err) : -1;
    if (k && k->failure.kind) {
        *err = k->failure;
        ret = -1;
    }
    sg_keeper_free(k);
    if (l)
        sg_loop_free(l);
    return ret;
}

/* What no process of ours can have more of: the limit, and the number of numbers, to which podman
 * lowers its own. */
static uint64_t user_processes(void)
{
    struct rlimit most;
    char text[32];
    uint64_t n = UINT64_MAX;
    if (sg_file_read(AT_FDCWD, "/proc/sys/kernel/pid_max", text, sizeof text, NULL) == 0)
        (void)sg_parse_u64((struct sg_str) { text, strspn(text, "0123456789") }, 1, UINT32_MAX, &n,
                           NULL);
    if (getrlimit(RLIMIT_NPROC, &most) == 0 && most.rlim_max < n)
        n = most.rlim_max;
    return n == UINT64_MAX ? 0 : n;
}

/* The directory must be there; the socket may come later, and go and come again. */
static int run(const struct sg_config *c, struct sg_err *err)
{
    sg_auto_free char *dir_text = sg_strdup(c->docker_socket);
    sg_auto_free char *name_text = sg_strdup(c->docker_socket);
    const char *dir = dirname(dir_text);
    sg_auto_free char *path = sg_printf("/view/%s", basename(name_text));
    const struct sg_confine confine = { .name = "keeper",
                                        .id = SG_KEEPER_ID,
                                        .view_dir = dir,
                                        .keeps_caps = 1u << CAP_DAC_OVERRIDE,
                                        .filter = sg_seccomp_keeper,
                                        .filter_len = sg_seccomp_keeper_len };
    const struct sg_keeper_options o = { .launcher_fd = SG_WORKER_FD,
                                         .socket_path = path,
                                         .shown = c->docker_socket,
                                         .service = c->serve_run_dir,
                                         .may_pull = c->docker_pull,
                                         .user_processes = user_processes() };
    struct sg_confined confined;
    if (sg_confine(&confine, &confined, err) < 0)
        return -1;
    return serve(&o, err);
}

int main(void)
{
    return sg_worker_main("sandglass-keeper", run);
}

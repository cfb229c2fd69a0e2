/* SPDX-License-Identifier: Apache-2.0 */
/* Probes of the tier gvisor: which of its platforms run here, and which one the service takes. They
 * are tried as the service tries them (engine/runtime.h), and found out once a boot. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "cli/cmd_template.h"
#include "cli/doctor.h"
#include "cli/run.h"
#include "engine/runtime.h"
#include "image/host.h"
#include "base/banned.h"

static const struct sg_config *settings; /* a row has no argument of its own */

static const struct sg_limits limits = {
    .mem_bytes = UINT64_C(512) << 20,
    .cpu_milli = 1000,
    .pids = 64,
    .disk_bytes = UINT64_C(64) << 20,
    .open_files = 1024,
};

static int try_all(const struct sg_probe_env *env, struct sg_platform_found *found, int *ret_best,
                   struct sg_err *err)
{
    static const char *const places[] = { "../libexec/sandglass/sandglass-bridge",
                                          "../bridge/sandglass-bridge" };
    struct sg_cell_spec spec = { .limits = limits,
                                 .hostname = SG_CELL_HOSTNAME,
                                 .workdir = "/tmp" };
    sg_auto_free char *path = sg_runtime_find(settings->gvisor_runtime);
    if (!path)
        return sg_fail(err, SG_NOT_FOUND, "there is no program %s",
                       sg_quote(settings->gvisor_runtime).s);
    sg_auto_free char *bridge = sg_find_beside(places, SG_COUNT(places), err);
    sg_auto_fd bridge_fd = bridge ? open(bridge, O_RDONLY | O_CLOEXEC) : -1;
    if (bridge_fd < 0)
        return sg_fail(err, SG_NOT_FOUND, "sandglass-bridge is not installed");
    sg_auto_template host;
    sg_template_init(&host, "host");
    if (sg_host_open(env->state_dir, &host, err) < 0)
        return -1;
    sg_run_use_template(&spec, &host);
    const struct sg_runtime_trial trial = {
        .runtime = { .path = path,
                     .arguments = settings->gvisor_arguments.v,
                     .argument_count = settings->gvisor_arguments.n },
        .cell = &spec,
        .bridge_fd = bridge_fd,
    };
    *ret_best = sg_runtime_platforms(&trial, found);
    return 0;
}

static void probe_platform(const struct sg_probe_env *env, struct sg_finding *ret)
{
    const int which = ret->probe->value;
    const char *named = settings->gvisor_platform;
    struct sg_platform_found found[SG_PLATFORM_COUNT];
    struct sg_err err = { 0 };
    int best = -1;
    if (!env->is_root)
        sg_found(ret, SG_HAVE_NOT, "the service must be root's");
    else if (try_all(env, found, &best, &err) < 0)
        sg_found(ret, SG_HAVE_NOT, "%s", err.msg);
    else if (!found[which].works)
        sg_found(ret, SG_HAVE_NOT, "%s", found[which].why);
    else if (*named ? strcmp(named, sg_platforms[which]) == 0 : which == best)
        sg_found(ret, SG_HAVE_IT, "works; the service takes it");
    else
        sg_found(ret, SG_HAVE_IT, "works");
}

#define KNOW SG_NEED_KNOW

/* clang-format off */
static const struct sg_probe rows[] = {
    { "Tier gvisor", "gvisor kvm", "system calls by the processor's virtualisation", KNOW, KNOW, false, 0, probe_platform,
      "a machine with KVM; in a virtual one, with nested virtualisation" },
    { "Tier gvisor", "gvisor systrap", "system calls by seccomp traps", KNOW, KNOW, false, 1, probe_platform,
      "a runsc of 2023 or newer" },
    { "Tier gvisor", "gvisor ptrace", "system calls by ptrace", KNOW, KNOW, false, 2, probe_platform,
      "a runsc that has it: newer ones do not" },
};
/* clang-format on */

void sg_tier_probe(struct sg_host *h, const struct sg_probe_env *env, const struct sg_config *c)
{
    struct sg_probe_env patient = *env;
    const bool has_platforms = *c->gvisor_runtime && sg_runtime_is_gvisor(c->gvisor_runtime);
    settings = c;
    patient.patience_ms = 200000; /* all of the platforms, one after the other */
    if (has_platforms)
        sg_host_probe(h, rows, SG_COUNT(rows), &patient);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/oci.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"
#include "base/str.h"
#include "image/host.h"
#include "launcher/launcher.h"
#include "base/banned.h"

static void lack(struct sg_oci *o, char *why)
{
    free(o->why);
    o->why = why;
}

/* ---- platforms of gVisor ---- */

/* The settings' own, or none: what was asked for and does not run is not replaced by another. */
static int take_named(struct sg_oci *o, const struct sg_runtime_trial *t, const char *platform)
{
    struct sg_err err = { 0 };
    if (sg_runtime_platform(t, platform, &err) == 0) {
        o->runtime.platform = platform;
        return 0;
    }
    lack(o, sg_printf("gvisor.platform: %s does not run here: %s; name none for the best that does "
                      "('sandglass doctor' tells which)",
                      sg_quote(platform).s, err.msg));
    return -1;
}

static int take_best(struct sg_oci *o, const struct sg_runtime_trial *t)
{
    struct sg_platform_found found[SG_PLATFORM_COUNT];
    const int best = sg_runtime_platforms(t, found);
    if (best >= 0) {
        o->runtime.platform = sg_platforms[best];
        return 0;
    }
    lack(o, sg_printf("no platform of gVisor runs here; %s: %s (see 'sandglass doctor')",
                      sg_platforms[SG_PLATFORM_COUNT - 1], found[SG_PLATFORM_COUNT - 1].why));
    return -1;
}

static int choose_platform(struct sg_oci *o, const struct sg_config *c, const struct sg_launch *set)
{
    struct sg_err err = { 0 };
    struct sg_cell_spec spec = { .limits = set->defaults };
    struct sg_tmpl host = { 0 };
    sg_template_init(&host.t, "host");
    if (sg_host_open(set->state_dir, &host.t, &err) < 0) {
        lack(o, sg_printf("its platforms cannot be tried: %s", err.msg));
        sg_template_done(&host.t);
        return -1;
    }
    sg_tmpl_fill_spec(&host, false, &spec);
    const struct sg_runtime_trial trial = { .runtime = o->runtime,
                                            .cell = &spec,
                                            .bridge_fd = o->program_fd };
    const int ret =
        *c->gvisor_platform ? take_named(o, &trial, c->gvisor_platform) : take_best(o, &trial);
    sg_template_done(&host.t);
    if (ret == 0)
        sg_log(SG_LOG_INFO, "tier gvisor is there", SG_KV("platform", o->runtime.platform));
    return ret;
}

/* ---- what there is ---- */

static int find(struct sg_oci *o, const struct sg_config *c, bool is_rootless)
{
    sg_auto_free char *bridge = sg_child_program("sandglass-bridge", "bridge");
    if (!*c->gvisor_runtime) {
        lack(o, sg_strdup("no runtime is configured: set gvisor.runtime (runsc)"));
        return -1;
    }
    if (is_rootless) {
        lack(o, sg_strdup("it needs a service that was started by root"));
        return -1;
    }
    o->path = sg_runtime_find(c->gvisor_runtime);
    if (!o->path) {
        lack(o, sg_printf("gvisor.runtime: there is no program %s; install it (Debian: runsc)",
                          sg_quote(c->gvisor_runtime).s));
        return -1;
    }
    o->program_fd = open(bridge, O_RDONLY | O_CLOEXEC);
    if (o->program_fd < 0) {
        lack(o, sg_printf("%s cannot be used", sg_quote(bridge).s));
        return -1;
    }
    return 0;
}

void sg_oci_init(struct sg_oci *o, const struct sg_config *c, const struct sg_launch *set,
                 bool has_gate)
{
    *o = (struct sg_oci) { .program_fd = -1 };
    if (find(o, c, set->is_rootless) < 0)
        return;
    o->runtime = (struct sg_runtime) { .path = o->path,
                                       .arguments = c->gvisor_arguments.v,
                                       .argument_count = c->gvisor_arguments.n,
                                       .has_gate = has_gate };
    const bool is_gvisor = sg_runtime_is_gvisor(o->path);
    if (is_gvisor && choose_platform(o, c, set) < 0)
        return;
    o->command = sg_runtime_command(&o->runtime);
    if (!o->command)
        lack(o, sg_strdup("gvisor.arguments are too long"));
    if (!is_gvisor)
        sg_log(SG_LOG_WARN,
               "tier gvisor has another runtime: its sandboxes are as strong as that one's",
               SG_KV("runtime", o->path));
}

void sg_oci_done(struct sg_oci *o)
{
    free(o->why);
    free(o->path);
    free(o->command);
    sg_drop_fd(&o->program_fd);
}

const char *sg_oci_lacks(const struct sg_launcher *l)
{
    return l->oci.why;
}

int sg_oci_fill(const struct sg_oci *o, const struct sg_cell_spec *spec, struct sg_buf *text,
                struct sg_nested *ret, struct sg_err *err)
{
    if (o->why) /* the settings keep some ready of a tier that is not there */
        return sg_fail(err, SG_UNSUPPORTED, "%s", o->why);
    return sg_runtime_fill(&o->runtime, o->command, o->program_fd, spec, text, ret, err);
}

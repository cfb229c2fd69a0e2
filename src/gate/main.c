/* SPDX-License-Identifier: Apache-2.0 */
/* Started by the launcher with its socket as descriptor 3. While it is still somebody it reads the
 * settings, the machine's name servers and the keys that are its alone; then it becomes nobody, and
 * only then takes a word from anybody. */
#include <fcntl.h>
#include <openssl/ssl.h>

#include "base/auto.h"
#include "config/config.h"
#include "gate/gate.h"
#include "gate/seccomp_data.h"
#include "gate/term.h"
#include "net/resolv.h"
#include "sys/confine.h"
#include "sys/kfile.h"
#include "worker/worker.h"
#include "base/banned.h"

enum { SERVERS_MAX = 4, TEXT_MAX = 16 << 10 };

/* Where the settings name none. */
static size_t own_servers(char *text, char **ret)
{
    if (sg_file_read(AT_FDCWD, "/etc/resolv.conf", text, TEXT_MAX, NULL) < 0)
        return 0;
    return sg_resolv_servers(text, ret, SERVERS_MAX);
}

static int serve(const struct sg_gate_options *o, struct sg_err *err)
{
    struct sg_loop *l = sg_worker_loop(err);
    struct sg_gate *g = l ? sg_gate_new(l, o, err) : NULL;
    const int ret = g ? sg_loop_run(l, err) : -1;
    sg_gate_free(g);
    if (l)
        sg_loop_free(l);
    return ret;
}

static int run(const struct sg_config *c, struct sg_err *err)
{
    static char text[TEXT_MAX];
    char *servers[SERVERS_MAX];
    const struct sg_confine confine = { .name = "gate",
                                        .id = SG_GATE_ID,
                                        .keeps_net = true,
                                        .filter = sg_seccomp_gate,
                                        .filter_len = sg_seccomp_gate_len };
    struct sg_confined confined;
    struct sg_gate_options o = { .launcher_fd = SG_WORKER_FD,
                                 .resolvers = c->gate_resolvers.v,
                                 .resolver_count = c->gate_resolvers.n,
                                 .permit = c->gate_permit.v,
                                 .permit_count = c->gate_permit.n };
    if (!o.resolver_count) {
        o.resolver_count = own_servers(text, servers);
        o.resolvers = servers;
    }
    sg_auto_free char *seal_dir = sg_printf("%s/seal", c->state_dir);
    const struct sg_trust_options trust = { .seal_dir = seal_dir, .ca_file = c->gate_ca_file };
    if (OPENSSL_init_ssl(OPENSSL_INIT_LOAD_CONFIG, NULL) != 1)
        return sg_fail(err, SG_UNSUPPORTED, "libssl does not start");
    o.trust = sg_trust_open(&trust, err);
    if (!o.trust)
        return -1;
    if (sg_confine(&confine, &confined, err) < 0) {
        sg_trust_free(o.trust);
        return -1;
    }
    return serve(&o, err);
}

int main(void)
{
    return sg_worker_main("sandglass-gate", run);
}

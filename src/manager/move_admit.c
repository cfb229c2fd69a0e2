/* SPDX-License-Identifier: Apache-2.0 */
/* What a file may bring along. It comes from anywhere, and a sandbox with a private network sees
 * others of the organisation, one with a proxy sends all of its connections there: neither is a
 * stranger's to choose. Rules about public names only ever take away. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/str.h"
#include "manager/move_internal.h"
#include "manager/net.h"
#include "base/banned.h"

static void add(char *notices[SG_MOVE_NOTICES_MAX + 1], char *text)
{
    size_t n = 0;
    while (notices[n])
        n++;
    if (n < SG_MOVE_NOTICES_MAX)
        notices[n] = text;
    else
        free(text);
}

static void leave_networks(struct sg_move_doc *d, char *notices[SG_MOVE_NOTICES_MAX + 1])
{
    sg_auto_free char *names = sg_strdup(d->network.networks.v[0]);
    for (size_t i = 1; i < d->network.networks.n; i++) {
        char *more = sg_printf("%s, %s", names, d->network.networks.v[i]);
        free(names);
        names = more;
    }
    add(notices, sg_printf("private networks of the file were not joined: %s (keepNetwork=1, "
                           "--keep-network joins those of this name here)",
                           names));
    sg_netnames_done(&d->network.networks);
}

/* Without its proxy it would go another way than it did: it goes nowhere. */
static void leave_proxy(struct sg_move_doc *d, char *notices[SG_MOVE_NOTICES_MAX + 1])
{
    add(notices, sg_printf("the egress proxy %s of the file was not taken over, so the sandbox has "
                           "no network until one is set (keepNetwork=1, --keep-network keeps it)",
                           d->network.egress.address));
    sg_policy_done(&d->network);
    d->network = (struct sg_policy) { .mode = SG_MODE_NONE };
}

/* As if it was asked for here: the password, which no file has, is an empty one. */
static int take_proxy(struct sg_manager *m, const struct sg_who *who, struct sg_move_doc *d,
                      char *notices[SG_MOVE_NOTICES_MAX + 1], struct sg_err *err)
{
    struct sg_egress own;
    const struct sg_egress_spec spec = { .address = d->network.egress.address,
                                         .user = d->network.egress.user };
    if (sg_net_egress(m, who, &spec, &own, err) < 0)
        return sg_wrap(err, "the network of the file");
    if (own.user)
        add(notices, sg_printf("the password for the egress proxy %s is in no file: set it again",
                               own.address));
    sg_egress_done(&d->network.egress);
    d->network.egress = own;
    return 0;
}

int sg_move_admit(struct sg_manager *m, const struct sg_who *who, struct sg_move_doc *d,
                  bool keeps_network, char *notices[SG_MOVE_NOTICES_MAX + 1], struct sg_err *err)
{
    if (d->is_whole && d->template_sudo && !who->is_operator)
        add(notices, sg_strdup("sudo of the template, where it is made of the file, is the "
                               "operator's to grant: it was not taken over"));
    if (d->network.networks.n && !keeps_network)
        leave_networks(d, notices);
    if (!d->network.egress.address)
        return 0;
    if (keeps_network)
        return take_proxy(m, who, d, notices, err);
    leave_proxy(d, notices);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "net/private.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "net/name.h"
#include "base/banned.h"

#define SUFFIX ".internal"

/* Names that programs know hold what they held before: a member must not be taken for the machine
 * or its cloud. */
static const struct {
    const char *network, *known;
} taken[] = {
    { "containers", "host.containers.internal" },
    { "docker", "host.docker.internal" },
    { "ec2", "ip-10-0-0-1.ec2.internal" },
    { "gateway", "gateway.internal" },
    { "google", "metadata.google.internal" },
    { "host", "host.internal" },
    { "k3d", "host.k3d.internal" },
    { "kubernetes", "kubernetes.internal" },
    { "lima", "host.lima.internal" },
    { "metadata", "metadata.internal" },
    { "minikube", "host.minikube.internal" },
    { "orb", "host.orb.internal" },
    { "rancher-desktop", "host.rancher-desktop.internal" },
};

static char *word_of(struct sg_str text, struct sg_err *err)
{
    struct sg_name name;
    if (sg_name_parse(text, &name, err) < 0)
        return NULL;
    if (strchr(name.s, '.')) {
        (void)sg_fail(err, SG_INVALID, "%s is no word for a private network: it has parts",
                      sg_quote_str(text).s);
        return NULL;
    }
    return sg_strdup(name.s);
}

bool sg_netnames_has(const struct sg_netnames *n, const char *network)
{
    for (size_t i = 0; i < n->n; i++)
        if (strcmp(n->v[i], network) == 0)
            return true;
    return false;
}

int sg_netnames_add(struct sg_netnames *n, struct sg_str text, struct sg_err *err)
{
    sg_auto_free char *word = word_of(text, err);
    if (!word)
        return -1;
    if (sg_netnames_has(n, word))
        return 0;
    for (size_t i = 0; i < SG_COUNT(taken); i++)
        if (strcmp(taken[i].network, word) == 0)
            return sg_fail(err, SG_INVALID,
                           "a private network cannot be called '%s': programs look for %s", word,
                           taken[i].known);
    if (n->n == SG_NETNAMES_MAX)
        return sg_fail(err, SG_EXHAUSTED, "over %d private networks", SG_NETNAMES_MAX);
    n->v[n->n++] = sg_take_ptr(&word);
    return 0;
}

int sg_netnames_call(struct sg_netnames *n, struct sg_str text, struct sg_err *err)
{
    char *word = word_of(text, err);
    if (!word)
        return -1;
    free(n->own);
    n->own = word;
    return 0;
}

void sg_netnames_copy(struct sg_netnames *to, const struct sg_netnames *from)
{
    *to = (struct sg_netnames) { .n = from->n };
    for (size_t i = 0; i < from->n; i++)
        to->v[i] = sg_strdup(from->v[i]);
    to->own = from->own ? sg_strdup(from->own) : NULL;
}

void sg_netnames_done(struct sg_netnames *n)
{
    for (size_t i = 0; i < n->n; i++)
        free(n->v[i]);
    free(n->own);
    *n = (struct sg_netnames) { 0 };
}

char *sg_netnames_key(const char *org, const char *who, const char *network)
{
    return sg_printf("%s/%s.%s" SUFFIX, org, who, network);
}

const char *sg_netnames_of(const struct sg_netnames *n, const char *name, struct sg_str *ret_who)
{
    const char *dot = strchr(name, '.'), *end = dot ? strchr(dot + 1, '.') : NULL;
    if (!end || strcmp(end, SUFFIX) != 0)
        return NULL;
    const size_t size = (size_t)(end - dot - 1);
    for (size_t i = 0; i < n->n; i++)
        if (strlen(n->v[i]) == size && memcmp(n->v[i], dot + 1, size) == 0) {
            *ret_who = (struct sg_str) { name, (size_t)(dot - name) };
            return n->v[i];
        }
    return NULL;
}

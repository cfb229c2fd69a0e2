/* SPDX-License-Identifier: Apache-2.0 */
/* What an operation is, and which tier it would get. */
#include "base/auto.h"
#include "api/rest/rest.h"
#include "base/banned.h"

/* NULL: `otherwise`. */
static int read_word(const char *text, const char *const *names, size_t n, const char *what,
                     int otherwise, int *ret, struct sg_err *err)
{
    const int at = text ? sg_router_word(names, n, what, sg_str_of(text), err) : otherwise;
    if (text && at < 0)
        return -1;
    *ret = at;
    return 0;
}

static int read_abilities(const struct sg_jval *list, unsigned *ret, struct sg_err *err)
{
    for (const struct sg_jval *v = list ? list->list.first : NULL; v; v = v->next) {
        if (v->kind != SG_J_STRING)
            return sg_fail(err, SG_INVALID, "capabilities is a list of strings");
        const int at = sg_router_word(sg_ability_names, SG_ABILITY_COUNT, "capability", v->s, err);
        if (at < 0)
            return -1;
        *ret |= 1u << at;
    }
    return 0;
}

int sg_rest_read_ask(const struct sg_rest_ask *in, struct sg_ask *ret, struct sg_err *err)
{
    struct sg_ask a;
    int network, files;
    sg_ask_init(&a, in->operation ? in->operation : SG_OPERATION_DEFAULT);
    if (read_word(in->trust, sg_trust_names, SG_TRUST_COUNT, "trust level", -1, &a.trust, err) <
            0 ||
        read_word(in->tier, sg_wall_names, SG_WALL_COUNT, "tier", -1, &a.wish, err) < 0 ||
        read_word(in->network, sg_need_net_names, SG_NEED_NET_COUNT, "network", SG_NEED_NET_NONE,
                  &network, err) < 0 ||
        read_word(in->files, sg_need_files_names, SG_NEED_FILES_COUNT, "file need",
                  SG_NEED_NO_FILES, &files, err) < 0 ||
        read_abilities(in->capabilities, &a.abilities, err) < 0)
        return -1;
    a.network = (enum sg_need_net)network;
    a.files = (enum sg_need_files)files;
    a.agent = in->agent;
    a.parallel = in->parallel;
    a.seconds = in->seconds;
    *ret = a;
    return 0;
}

int sg_rest_route(struct sg_call *c, struct sg_err *err)
{
    static const struct sg_jfield fields[] = {
        SG_REST_ASK_ROWS(0), SG_REST_ASK_ROW("network", SG_JT_STRING, 0, network, 0)
    };
    struct sg_rest_ask in = { 0 };
    struct sg_ask a;
    struct sg_decision d;
    const struct sg_jval *body;
    if (sg_call_json(c, &body, err) < 0 ||
        sg_json_read(body, fields, SG_COUNT(fields), &in, err) < 0 ||
        sg_rest_read_ask(&in, &a, err) < 0 ||
        sg_manager_route(c->manager, &c->who, &a, &d, err) < 0)
        return -1;
    sg_auto_buf out;
    struct sg_json j;
    sg_buf_init(&out, SG_REST_MAX_REPLY);
    sg_json_init(&j, &out);
    sg_decision_put(&j, &d, &a, true);
    sg_reply_json(c, 200, &out);
    return 0;
}

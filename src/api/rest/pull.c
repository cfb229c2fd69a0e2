/* SPDX-License-Identifier: Apache-2.0 */
/* A template out of an image of a registry: a build like others, from here on. */
#include <stddef.h>

#include "api/rest/rest.h"
#include "base/auto.h"
#include "manager/build.h"
#include "base/banned.h"

struct body {
    const char *name, *image, *platform, *user, *password;
    const struct sg_jval *tags;
};

int sg_rest_template_pull(struct sg_call *c, struct sg_err *err)
{
#define AT(f) offsetof(struct body, f)
    static const struct sg_jfield fields[] = {
        { "name", SG_JT_STRING, AT(name), 0, 0, true },
        { "image", SG_JT_STRING, AT(image), 0, 0, true },
        { "tags", SG_JT_ARRAY, AT(tags), 0, 0, false },
        { "platform", SG_JT_STRING, AT(platform), 0, 0, false },
        { "username", SG_JT_STRING, AT(user), 0, 0, false },
        { "password", SG_JT_STRING, AT(password), 0, 0, false },
    };
#undef AT
    struct body b = { 0 };
    const char **tags = NULL;
    const struct sg_jval *v;
    struct sg_build *build = NULL;
    if (sg_call_json(c, &v, err) < 0 || sg_json_read(v, fields, SG_COUNT(fields), &b, err) < 0 ||
        sg_rest_strings(c, b.tags, "tags", &tags, err) < 0)
        return -1;
    const struct sg_pull_spec pull = { b.image, b.platform, b.user, b.password };
    if (sg_build_pull(c->manager, &c->who, b.name, tags, &pull, &build, err) < 0)
        return -1;
    sg_rest_reply_build(c, 202, build, 0);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a settings file: accepted with every number in its range, or refused. */
#include <stdlib.h>

#include "config/option.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void check_ranges(const struct sg_config *c)
{
    for (size_t i = 0; i < sg_option_count; i++) {
        const struct sg_option *o = &sg_options[i];
        const void *field = (const char *)c + o->offset;
        if (o->type == SG_OPTION_STRING && !*(char *const *)field)
            abort();
        if (o->type < SG_OPTION_BYTES || o->type > SG_OPTION_COUNT)
            continue;
        uint64_t v = *(const uint64_t *)field;
        if (v < o->min || v > o->max)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sg_config c;
    struct sg_origins o;
    struct sg_err err = { 0 };
    sg_config_init(&c, &o);
    struct sg_str text = { (const char *)p, n };
    if (sg_config_apply_toml(&c, &o, "f", text, &err) < 0 && (err.kind == SG_OK || !err.msg[0]))
        abort();
    check_ranges(&c);
    sg_config_done(&c, &o);
    return 0;
}

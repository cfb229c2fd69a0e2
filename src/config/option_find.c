/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "config/option.h"
#include "base/banned.h"

/* "run" and "memory" against "run.memory"; no section: "" and "state_dir". */
static bool is_key(const char *key, struct sg_str section, struct sg_str name)
{
    const char *dot = strchr(key, '.');
    if (!dot)
        return section.n == 0 && sg_str_is(name, key);
    size_t n = (size_t)(dot - key);
    return section.n == n && memcmp(section.p, key, n) == 0 && sg_str_is(name, dot + 1);
}

const struct sg_option *sg_option_find_key(struct sg_str section, struct sg_str name)
{
    for (size_t i = 0; i < sg_option_count; i++)
        if (sg_options[i].key && is_key(sg_options[i].key, section, name))
            return &sg_options[i];
    return NULL;
}

const struct sg_option *sg_option_find_flag(struct sg_str flag, sg_command_set commands)
{
    for (size_t i = 0; i < sg_option_count; i++) {
        const struct sg_option *o = &sg_options[i];
        if (o->flag && (o->commands & commands) && sg_str_is(flag, o->flag))
            return o;
    }
    return NULL;
}

const struct sg_option *sg_option_find_letter(char letter, sg_command_set commands)
{
    for (size_t i = 0; i < sg_option_count; i++)
        if (letter && sg_options[i].letter == letter && (sg_options[i].commands & commands))
            return &sg_options[i];
    return NULL;
}

bool sg_option_takes_argument(const struct sg_option *o)
{
    return o->type != SG_OPTION_BOOL && o->type != SG_OPTION_SWITCH;
}

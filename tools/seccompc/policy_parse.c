/* SPDX-License-Identifier: Apache-2.0 */
/* From JSON to a policy. Strict on purpose: a key that is misspelt must not quietly mean
 * "no condition", so unknown keys, missing reasons and doubled calls are refused. Each level adds
 * its place to the message: "groups[2] 'mounts': syscalls[4] 'fsopen': no 'why'". */
#include "seccompc/policy.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <seccomp.h>
#include <stdlib.h>

#include "base/auto.h"

#include "base/banned.h"

static void json_put_p(struct json_object **o)
{
    json_object_put(*o);
}

static void tokener_free_p(struct json_tokener **t)
{
    if (*t)
        json_tokener_free(*t);
}

static int check_keys(struct json_object *o, const char *const *known, struct sg_err *err)
{
    if (!json_object_is_type(o, json_type_object))
        return sg_fail(err, SG_INVALID, "not an object");
    struct json_object_iterator it = json_object_iter_begin(o);
    struct json_object_iterator end = json_object_iter_end(o);
    for (; !json_object_iter_equal(&it, &end); json_object_iter_next(&it)) {
        const char *key = json_object_iter_peek_name(&it);
        size_t i = 0;
        while (known[i] && strcmp(known[i], key) != 0)
            i++;
        if (!known[i])
            return sg_fail(err, SG_INVALID, "unknown key %s", sg_quote(key).s);
    }
    return 0;
}

/* Borrowed from v, or NULL when v is no string or holds a NUL. */
static const char *text_of(struct json_object *v)
{
    if (!json_object_is_type(v, json_type_string))
        return NULL;
    const char *s = json_object_get_string(v);
    return strlen(s) == (size_t)json_object_get_string_len(v) ? s : NULL;
}

/* A string with something to read in it. Borrowed from o. */
static int get_text(struct json_object *o, const char *key, const char **ret, struct sg_err *err)
{
    struct json_object *v = NULL;
    if (!json_object_object_get_ex(o, key, &v))
        return sg_fail(err, SG_INVALID, "no '%s'", key);
    const char *s = text_of(v);
    if (!s)
        return sg_fail(err, SG_INVALID, "'%s' is not text", key);
    if (s[strspn(s, " \t\r\n")] == '\0')
        return sg_fail(err, SG_INVALID, "'%s' is empty", key);
    *ret = s;
    return 0;
}

/* A name made of lower-case letters, digits and underscores, short enough for ret. */
static int get_name(struct json_object *o, char ret[SG_POLICY_MAX_NAME], struct sg_err *err)
{
    const char *s;
    if (get_text(o, "name", &s, err) < 0)
        return -1;
    size_t n = strlen(s);
    if (n >= SG_POLICY_MAX_NAME || strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_") != n)
        return sg_fail(err, SG_INVALID, "%s is no name", sg_quote(s).s);
    memcpy(ret, s, n + 1);
    return 0;
}

static int get_list(struct json_object *o, const char *key, size_t max, struct json_object **ret,
                    struct sg_err *err)
{
    struct json_object *v = NULL;
    if (!json_object_object_get_ex(o, key, &v))
        return sg_fail(err, SG_INVALID, "no '%s'", key);
    if (!json_object_is_type(v, json_type_array) || json_object_array_length(v) == 0)
        return sg_fail(err, SG_INVALID, "'%s' is not a list with entries", key);
    if (json_object_array_length(v) > max)
        return sg_fail(err, SG_EXHAUSTED, "'%s' has over %zu entries", key, max);
    *ret = v;
    return 0;
}

static int get_number(struct json_object *o, const char *key, uint64_t max, uint64_t *ret,
                      struct sg_err *err)
{
    struct json_object *v = NULL;
    if (!json_object_object_get_ex(o, key, &v))
        return sg_fail(err, SG_INVALID, "no '%s'", key);
    if (!json_object_is_type(v, json_type_int) || json_object_get_int64(v) < 0 ||
        json_object_get_uint64(v) > max)
        return sg_fail(err, SG_INVALID, "'%s' is not a number up to %" PRIu64, key, max);
    *ret = json_object_get_uint64(v);
    return 0;
}

static int get_action(struct json_object *o, const char *key, uint32_t *ret, struct sg_err *err)
{
    const char *text;
    if (get_text(o, key, &text, err) < 0 || sg_policy_action_parse(text, ret, err) < 0)
        return -1;
    return 0;
}

static int get_why(struct json_object *o, struct sg_err *err)
{
    const char *why;
    return get_text(o, "why", &why, err);
}

static int read_value(struct json_object *v, uint64_t *ret, struct sg_err *err)
{
    if (json_object_is_type(v, json_type_int) && json_object_get_int64(v) >= 0)
        return *ret = json_object_get_uint64(v), 0;
    const char *text = text_of(v);
    if (text)
        return sg_policy_value_parse(text, ret, err);
    return sg_fail(err, SG_INVALID, "a value is a number from 0 or a string");
}

static int add_value(struct sg_policy_cond *c, struct json_object *v, struct sg_err *err)
{
    uint64_t value;
    if (read_value(v, &value, err) < 0)
        return -1;
    if (value & ~c->mask)
        return sg_fail(err, SG_INVALID, "0x%" PRIx64 " has bits outside of 0x%" PRIx64, value,
                       c->mask);
    c->values[c->value_count++] = value;
    return 0;
}

static int read_mask(struct json_object *o, struct sg_policy_cond *c, struct sg_err *err)
{
    const uint64_t all = c->bits == 32 ? UINT32_MAX : UINT64_MAX;
    struct json_object *v = NULL;
    c->mask = all;
    if (!json_object_object_get_ex(o, "mask", &v))
        return 0;
    if (read_value(v, &c->mask, err) < 0)
        return sg_wrap(err, "mask");
    if (c->mask == 0 || c->mask > all)
        return sg_fail(err, SG_INVALID, "mask 0x%" PRIx64 " in %u bits", c->mask, c->bits);
    return 0;
}

/* { "arg": 0, "bits": 32, "mask": M, "is": V or [V, ...] }, or "not" in place of "is". The width
 * has no default: whether the kernel looks at the upper half is a question to answer each time. */
static int read_cond(struct json_object *o, struct sg_policy_cond *ret, struct sg_err *err)
{
    static const char *const keys[] = { "arg", "bits", "mask", "is", "not", NULL };
    uint64_t arg, bits;
    if (check_keys(o, keys, err) < 0 || get_number(o, "arg", SG_POLICY_ARGS - 1, &arg, err) < 0 ||
        get_number(o, "bits", 64, &bits, err) < 0)
        return -1;
    if (bits != 32 && bits != 64)
        return sg_fail(err, SG_INVALID, "'bits' is neither 32 nor 64");
    struct json_object *is = NULL, *but = NULL;
    (void)json_object_object_get_ex(o, "is", &is);
    (void)json_object_object_get_ex(o, "not", &but);
    if (!is == !but)
        return sg_fail(err, SG_INVALID, "needs either 'is' or 'not'");

    *ret = (struct sg_policy_cond) { (unsigned)arg, (unsigned)bits, .is_negated = !is };
    if (read_mask(o, ret, err) < 0)
        return -1;
    struct json_object *values = is ? is : but;
    if (!json_object_is_type(values, json_type_array))
        return add_value(ret, values, err);
    if (get_list(o, is ? "is" : "not", SG_POLICY_MAX_VALUES, &values, err) < 0)
        return -1;
    for (size_t i = 0; i < json_object_array_length(values); i++)
        if (add_value(ret, json_object_array_get_idx(values, i), err) < 0)
            return -1;
    return 0;
}

static int read_rule(struct json_object *o, struct sg_policy_rule *ret, struct sg_err *err)
{
    static const char *const keys[] = { "args", "action", "why", NULL };
    struct json_object *args;
    if (check_keys(o, keys, err) < 0 || get_why(o, err) < 0 ||
        get_action(o, "action", &ret->action, err) < 0 ||
        get_list(o, "args", SG_POLICY_MAX_CONDS, &args, err) < 0)
        return -1;
    for (size_t i = 0; i < json_object_array_length(args); i++) {
        struct json_object *cond = json_object_array_get_idx(args, i);
        if (read_cond(cond, &ret->conds[ret->cond_count], err) < 0)
            return sg_wrap(err, "args[%zu]", i);
        ret->cond_count++;
    }
    return 0;
}

static int read_rules(struct json_object *o, struct sg_policy_call *call, struct sg_err *err)
{
    struct json_object *rules;
    if (!json_object_object_get_ex(o, "rules", NULL))
        return 0;
    if (get_list(o, "rules", SG_POLICY_MAX_RULES, &rules, err) < 0)
        return -1;
    size_t count = json_object_array_length(rules);
    call->rules = sg_alloc(count * sizeof *call->rules);
    for (size_t i = 0; i < count; i++) {
        struct json_object *rule = json_object_array_get_idx(rules, i);
        if (read_rule(rule, &call->rules[i], err) < 0)
            return sg_wrap(err, "rules[%zu]", i);
        call->rule_count++;
    }
    return 0;
}

/* By name where libseccomp knows it. Calls younger than libseccomp carry their number, and the
 * two must agree once it learns the name. */
static int resolve(struct json_object *o, uint32_t arch, struct sg_policy_call *call,
                   struct sg_err *err)
{
    int known = seccomp_syscall_resolve_name_arch(arch, call->name);
    uint64_t number;
    if (!json_object_object_get_ex(o, "number", NULL)) {
        if (known == __NR_SCMP_ERROR)
            return sg_fail(err, SG_INVALID, "unknown system call; a new one needs its 'number'");
        call->number = known < 0 ? -1 : known;
        return 0;
    }
    if (get_number(o, "number", SG_POLICY_LAST_NUMBER, &number, err) < 0)
        return -1;
    if (number < SG_POLICY_FIRST_SHARED)
        return sg_fail(err, SG_INVALID, "numbers below %d differ between architectures",
                       SG_POLICY_FIRST_SHARED);
    if (known != __NR_SCMP_ERROR && known != (int)number)
        return sg_fail(err, SG_INVALID, "number %" PRIu64 " is not %d", number, known);
    call->number = (int)number;
    return 0;
}

static int refuse_twice(const struct sg_policy *p, const struct sg_policy_call *call,
                        struct sg_err *err)
{
    for (size_t i = 0; i < p->call_count; i++) {
        const struct sg_policy_call *other = &p->calls[i];
        if (strcmp(other->name, call->name) == 0)
            return sg_fail(err, SG_INVALID, "named twice");
        if (call->number >= 0 && other->number == call->number)
            return sg_fail(err, SG_INVALID, "has the number of '%s'", other->name);
    }
    return 0;
}

/* The call joins the policy before its parts are read, so that sg_policy_done() frees them. */
static int read_call(struct json_object *o, const uint32_t *group_action, struct sg_policy *p,
                     struct sg_err *err)
{
    static const char *const keys[] = { "name", "number", "action", "why", "rules", NULL };
    struct sg_policy_call call = { .action = group_action ? *group_action : 0 };
    if (check_keys(o, keys, err) < 0 || get_name(o, call.name, err) < 0)
        return -1;
    if (p->call_count == SG_POLICY_MAX_CALLS)
        return sg_fail(err, SG_EXHAUSTED, "over %d system calls", SG_POLICY_MAX_CALLS);
    bool has_own = json_object_object_get_ex(o, "action", NULL);
    if (!has_own && !group_action)
        return sg_fail(err, SG_INVALID, "'%s': no 'action' here nor in the group", call.name);
    if (get_why(o, err) < 0 || (has_own && get_action(o, "action", &call.action, err) < 0) ||
        resolve(o, p->arch, &call, err) < 0 || refuse_twice(p, &call, err) < 0)
        return sg_wrap(err, "'%s'", call.name);
    struct sg_policy_call *slot = &p->calls[p->call_count++];
    *slot = call;
    return read_rules(o, slot, err) < 0 ? sg_wrap(err, "'%s'", call.name) : 0;
}

static int read_group(struct json_object *o, struct sg_policy *p, struct sg_err *err)
{
    static const char *const keys[] = { "name", "why", "action", "syscalls", NULL };
    char name[SG_POLICY_MAX_NAME];
    uint32_t action = 0;
    struct json_object *list;
    if (check_keys(o, keys, err) < 0 || get_name(o, name, err) < 0)
        return -1;
    bool has_action = json_object_object_get_ex(o, "action", NULL);
    if (get_why(o, err) < 0 || (has_action && get_action(o, "action", &action, err) < 0) ||
        get_list(o, "syscalls", SG_POLICY_MAX_CALLS, &list, err) < 0)
        return sg_wrap(err, "'%s'", name);
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        struct json_object *call = json_object_array_get_idx(list, i);
        if (read_call(call, has_action ? &action : NULL, p, err) < 0)
            return sg_wrap(err, "'%s': syscalls[%zu]", name, i);
    }
    return 0;
}

static int read_policy(struct json_object *o, struct sg_policy *p, struct sg_err *err)
{
    static const char *const keys[] = { "name", "why", "default", "groups", NULL };
    struct json_object *groups;
    if (check_keys(o, keys, err) < 0 || get_name(o, p->name, err) < 0 || get_why(o, err) < 0 ||
        get_action(o, "default", &p->default_action, err) < 0 ||
        get_list(o, "groups", SG_POLICY_MAX_CALLS, &groups, err) < 0)
        return -1;
    for (size_t i = 0; i < json_object_array_length(groups); i++)
        if (read_group(json_object_array_get_idx(groups, i), p, err) < 0)
            return sg_wrap(err, "groups[%zu]", i);
    return 0;
}

static int fail_json(struct sg_str text, size_t at, const char *cause, struct sg_err *err)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < text.n; i++) {
        column = text.p[i] == '\n' ? 1 : column + 1;
        line += text.p[i] == '\n';
    }
    return sg_fail(err, SG_INVALID, "line %zu, column %zu: %s", line, column, cause);
}

static int read_json(struct sg_str text, struct json_object **ret, struct sg_err *err)
{
    __attribute__((cleanup(tokener_free_p))) struct json_tokener *tok =
        json_tokener_new_ex(SG_POLICY_MAX_DEPTH);
    if (!tok)
        return sg_fail(err, SG_EXHAUSTED, "no memory for the JSON reader");
    json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8 |
                                    JSON_TOKENER_ALLOW_TRAILING_CHARS);
    __attribute__((cleanup(json_put_p))) struct json_object *o =
        json_tokener_parse_ex(tok, text.p, (int)text.n);
    size_t end = json_tokener_get_parse_end(tok);
    enum json_tokener_error code = json_tokener_get_error(tok);
    if (code == json_tokener_continue)
        return fail_json(text, text.n, "ends too early", err);
    if (code != json_tokener_success)
        return fail_json(text, end, json_tokener_error_desc(code), err);
    while (end < text.n && memchr(" \t\r\n", text.p[end], 4))
        end++;
    if (end != text.n)
        return fail_json(text, end, "something follows the policy", err);
    *ret = sg_take_ptr(&o);
    return 0;
}

int sg_policy_parse(struct sg_str text, uint32_t arch, struct sg_policy *ret, struct sg_err *err)
{
    if (text.n > SG_POLICY_MAX_BYTES)
        return sg_fail(err, SG_EXHAUSTED, "over %d bytes", SG_POLICY_MAX_BYTES);
    __attribute__((cleanup(json_put_p))) struct json_object *o = NULL;
    if (read_json(text, &o, err) < 0)
        return -1;
    sg_auto_policy p = { .arch = arch };
    p.calls = sg_alloc(SG_POLICY_MAX_CALLS * sizeof *p.calls);
    if (read_policy(o, &p, err) < 0)
        return -1;
    *ret = p;
    p = (struct sg_policy) { 0 };
    return 0;
}

void sg_policy_done(struct sg_policy *p)
{
    for (size_t i = 0; i < p->call_count; i++)
        free(p->calls[i].rules);
    free(p->calls);
    *p = (struct sg_policy) { 0 };
}

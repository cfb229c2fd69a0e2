/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as these clients write and read it: members that nobody knows are passed over, names come in
 * camelCase or, from some, in snake_case. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/e2b/e2b.h"
#include "base/parse.h"
#include "base/banned.h"

bool sg_e2b_is_key(struct sg_str key, const char *camel)
{
    size_t at = 0;
    for (const char *p = camel; *p; p++) {
        bool is_upper = *p >= 'A' && *p <= 'Z';
        if (is_upper && at + 1 < key.n && key.p[at] == '_' && key.p[at + 1] == *p + ('a' - 'A')) {
            at += 2;
            continue;
        }
        if (at >= key.n || key.p[at] != *p)
            return false;
        at++;
    }
    return at == key.n;
}

const struct sg_jval *sg_e2b_get(const struct sg_jval *v, const char *key)
{
    if (!v || v->kind != SG_J_OBJECT)
        return NULL;
    for (const struct sg_jval *m = v->list.first; m; m = m->next)
        if (sg_e2b_is_key(m->key, key))
            return m->kind == SG_J_NULL ? NULL : m;
    return NULL;
}

const char *sg_e2b_text(const struct sg_jval *v, const char *key)
{
    const struct sg_jval *m = sg_e2b_get(v, key);
    return m && m->kind == SG_J_STRING && !memchr(m->s.p, 0, m->s.n) ? m->s.p : NULL;
}

bool sg_e2b_bool(const struct sg_jval *v, const char *key, bool otherwise)
{
    const struct sg_jval *m = sg_e2b_get(v, key);
    return m && m->kind == SG_J_BOOL ? m->b : otherwise;
}

/* 64-bit numbers may come as text. */
uint64_t sg_e2b_u64(const struct sg_jval *v, const char *key, uint64_t otherwise)
{
    const struct sg_jval *m = sg_e2b_get(v, key);
    uint64_t value = otherwise;
    if (m && m->kind == SG_J_UINT)
        value = m->u;
    else if (m && m->kind == SG_J_DOUBLE && m->d >= 0 && m->d < 1e15)
        value = (uint64_t)m->d;
    else if (m && m->kind == SG_J_STRING)
        (void)sg_parse_u64(m->s, 0, UINT64_MAX, &value, NULL);
    return value;
}

/* ---- out ---- */

static void put_time(struct sg_json *j, const char *key, int64_t seconds, unsigned fraction,
                     int digits)
{
    const time_t at = seconds;
    struct tm tm;
    char day[32], text[64];
    if (!gmtime_r(&at, &tm) || !strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm))
        return;
    (void)snprintf(text, sizeof text, "%s.%0*uZ", day, digits, fraction);
    sg_json_put_str(j, key, text);
}

void sg_e2b_put_time(struct sg_json *j, const char *key, int64_t unix_ms)
{
    put_time(j, key, unix_ms / 1000, (unsigned)(unix_ms % 1000), 3);
}

void sg_e2b_put_time_ns(struct sg_json *j, const char *key, uint64_t unix_ns)
{
    put_time(j, key, (int64_t)(unix_ns / 1000000000u), (unsigned)(unix_ns % 1000000000u), 9);
}

void sg_e2b_put_pairs(struct sg_json *j, const char *key, const struct sg_pairs *p)
{
    sg_json_key(j, key);
    sg_json_open(j, '{');
    for (size_t i = 0; i < p->n; i++)
        sg_json_put_str(j, p->v[i].name, p->v[i].value);
    sg_json_close(j, '}');
}

int64_t sg_e2b_now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

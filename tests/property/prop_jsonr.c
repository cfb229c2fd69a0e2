/* SPDX-License-Identifier: Apache-2.0 */
/* base/jsonr: what the writer formats is read back as the same tree; and on texts that were bent at
 * random, json-c (an independent reader) accepts whatever we accept, with the same tree. It is
 * laxer in places (duplicate keys, numbers), so the other direction holds only for texts left
 * whole. */
#include <string.h>

#include <json-c/json.h>

#include "base/auto.h"
#include "base/json.h"
#include "base/jsonr.h"
#include "check.h"
#include "random.h"
#include "base/banned.h"

enum { ROUNDS = 3000, MAX_DEPTH = 5, MAX_MEMORY = 8 << 20 };

static void write_text(struct sg_json *j, struct rng *rng)
{
    static const char *const pieces[] = {
        "a",    "\"",       "\\",           "\n", "\x01",
        "\x7f", "\xc3\xbc", "\xe2\x82\xac", "/",  "\xf0\x9f\x99\x82",
        "{",    "u0041"
    };
    sg_auto_buf text;
    sg_buf_init(&text, 1000);
    for (uint64_t n = rng_below(rng, 30); n > 0; n--)
        sg_buf_add_str(&text, pieces[rng_below(rng, SG_COUNT(pieces))]);
    if (rng_below(rng, 10) == 0)
        sg_buf_add(&text, "\0", 1);
    sg_json_text(j, (struct sg_str) { (const char *)text.p, text.n });
}

static void write_value(struct sg_json *j, struct rng *rng, unsigned depth)
{
    uint64_t shape = rng_below(rng, depth < MAX_DEPTH ? 8 : 6);
    uint64_t members = rng_below(rng, rng_below(rng, 20) ? 5 : 40);
    switch (shape) {
    case 0:
        sg_json_null(j);
        return;
    case 1:
        sg_json_bool(j, rng_below(rng, 2));
        return;
    case 2:
        sg_json_u64(j, rng_magnitude(rng));
        return;
    case 3:
        sg_json_i64(j, -(int64_t)(rng_magnitude(rng) >> 1));
        return;
    case 4:
        sg_json_milli(j, rng_magnitude(rng) >> 12 | 1); /* never whole: a whole one is an integer */
        return;
    case 5:
        write_text(j, rng);
        return;
    default:
        sg_json_open(j, shape == 6 ? '[' : '{');
        for (uint64_t i = 0; i < members; i++) {
            char key[24];
            (void)snprintf(key, sizeof key, "k\n%" PRIu64, i);
            if (shape == 7)
                sg_json_key(j, key);
            write_value(j, rng, depth + 1);
        }
        sg_json_close(j, shape == 6 ? ']' : '}');
    }
}

static void make_document(struct sg_buf *b, struct rng *rng)
{
    struct sg_json j;
    sg_buf_init(b, 1 << 20);
    sg_json_init(&j, b);
    sg_json_open(&j, '[');
    write_value(&j, rng, 0);
    sg_json_close(&j, ']');
}

static void format_then_parse_is_identity(void **state)
{
    (void)state;
    struct rng rng = rng_start(__func__);
    for (int i = 0; i < ROUNDS; i++) {
        sg_auto_buf once, twice;
        sg_auto_arena a;
        struct sg_err err = { 0 };
        const struct sg_jval *v;
        struct sg_json j;
        make_document(&once, &rng);
        sg_arena_init(&a, MAX_MEMORY);
        sg_buf_init(&twice, 1 << 20);
        sg_json_init(&j, &twice);
        assert_ok(sg_json_parse((struct sg_str) { (char *)once.p, once.n }, &a, &v, &err), err);
        sg_json_put(&j, v);
        assert_int_equal(once.n, twice.n);
        assert_memory_equal(once.p, twice.p, once.n);
    }
}

/* ---- against json-c ---- */

static struct json_object *parse_other(const struct sg_buf *b, bool *ret_is_good)
{
    struct json_tokener *reader = json_tokener_new_ex(SG_J_MAX_DEPTH + 2);
    json_tokener_set_flags(reader, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    struct json_object *o = json_tokener_parse_ex(reader, (const char *)b->p, (int)b->n);
    enum json_tokener_error e = json_tokener_get_error(reader);
    if (e == json_tokener_continue) { /* a number at the end waits for more */
        o = json_tokener_parse_ex(reader, "", 1);
        e = json_tokener_get_error(reader);
    }
    *ret_is_good = e == json_tokener_success;
    json_tokener_free(reader);
    return o;
}

static void must_agree(const struct sg_jval *v, struct json_object *o)
{
    static const enum json_type types[] = {
        [SG_J_NULL] = json_type_null,     [SG_J_BOOL] = json_type_boolean,
        [SG_J_INT] = json_type_int,       [SG_J_UINT] = json_type_int,
        [SG_J_DOUBLE] = json_type_double, [SG_J_STRING] = json_type_string,
        [SG_J_ARRAY] = json_type_array,   [SG_J_OBJECT] = json_type_object,
    };
    if (v->kind == SG_J_DOUBLE && json_object_is_type(o, json_type_int))
        return; /* json-c cuts an integer that is too large */
    assert_int_equal(json_object_get_type(o), types[v->kind]);
    size_t at = 0;
    switch (v->kind) {
    case SG_J_NULL:
        return;
    case SG_J_BOOL:
        assert_int_equal(v->b, json_object_get_boolean(o));
        return;
    case SG_J_INT:
        assert_true(v->i == json_object_get_int64(o));
        return;
    case SG_J_UINT:
        assert_true(v->u == json_object_get_uint64(o));
        return;
    case SG_J_DOUBLE:
        assert_true(v->d - json_object_get_double(o) == 0);
        return;
    case SG_J_STRING:
        assert_int_equal(v->s.n, json_object_get_string_len(o));
        assert_memory_equal(v->s.p, json_object_get_string(o), v->s.n);
        return;
    case SG_J_ARRAY:
        assert_int_equal(v->list.n, json_object_array_length(o));
        for (const struct sg_jval *m = v->list.first; m; m = m->next)
            must_agree(m, json_object_array_get_idx(o, at++));
        return;
    case SG_J_OBJECT:
        assert_int_equal(v->list.n, (size_t)json_object_object_length(o));
        for (const struct sg_jval *m = v->list.first; m; m = m->next) {
            struct json_object *other = NULL;
            assert_true(json_object_object_get_ex(o, m->key.p, &other));
            must_agree(m, other);
        }
        return;
    }
}

/* One to three bytes changed, removed or doubled. */
static void bend(struct sg_buf *b, struct rng *rng)
{
    static const char bytes[] = "{}[],:\"\\u0019eE+-. tfn\n\x01\xc3\xff";
    for (uint64_t n = rng_below(rng, 3) + 1; n > 0 && b->n > 1; n--) {
        size_t at = (size_t)rng_below(rng, b->n);
        switch (rng_below(rng, 3)) {
        case 0:
            b->p[at] = (uint8_t)bytes[rng_below(rng, sizeof bytes - 1)];
            break;
        case 1:
            memmove(b->p + at, b->p + at + 1, b->n - at - 1);
            b->n--;
            break;
        default:
            sg_buf_add(b, "", 1);
            memmove(b->p + at + 1, b->p + at, b->n - at - 1);
        }
    }
}

static void another_reader_agrees(void **state)
{
    (void)state;
    struct rng rng = rng_start(__func__);
    unsigned accepted = 0, refused = 0;
    for (int i = 0; i < 4 * ROUNDS; i++) {
        sg_auto_buf b;
        sg_auto_arena a;
        const struct sg_jval *v = NULL;
        bool is_bent = rng_below(&rng, 4) > 0, is_good = false;
        make_document(&b, &rng);
        if (is_bent)
            bend(&b, &rng);
        sg_arena_init(&a, MAX_MEMORY);
        int r = sg_json_parse((struct sg_str) { (char *)b.p, b.n }, &a, &v, NULL);
        struct json_object *o = parse_other(&b, &is_good);
        if (r < 0 ? !is_bent : !is_good)
            fail_msg("we: %d, json-c: %d: %.*s", r, is_good, (int)b.n, (char *)b.p);
        if (r == 0)
            must_agree(v, o);
        json_object_put(o);
        accepted += r == 0;
        refused += r < 0;
    }
    assert_true(accepted > ROUNDS && refused > ROUNDS / 4); /* or the test tests nothing */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(format_then_parse_is_identity),
        cmocka_unit_test(another_reader_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

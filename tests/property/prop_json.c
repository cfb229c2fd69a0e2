/* SPDX-License-Identifier: Apache-2.0 */
/* base/json against an independent reader: whatever is written, json-c reads the same back. */
#include <string.h>

#include <json-c/json.h>

#include "base/auto.h"
#include "base/json.h"
#include "check.h"
#include "random.h"
#include "base/banned.h"

enum { ROUNDS = 3000, MAX_TEXT = 40, MAX_DEPTH = 5 };

/* The same random walk is taken twice from one seed: once to write, once to compare. */
struct text {
    char p[MAX_TEXT * 4];
    size_t n;
};

static struct text random_text(struct rng *rng, bool is_utf8)
{
    static const char *const pieces[] = {
        "a", "\"", "\\", "\n", "\x01", "\x7f", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x99\x82", "/"
    };
    struct text t = { .n = 0 };
    size_t count = (size_t)rng_below(rng, MAX_TEXT);
    for (size_t i = 0; i < count; i++) {
        char byte = (char)rng_next(rng);
        if (!is_utf8) {
            t.p[t.n++] = byte;
            continue;
        }
        const char *piece = pieces[rng_below(rng, SG_COUNT(pieces))];
        size_t n = strlen(piece);
        memcpy(t.p + t.n, piece, n);
        t.n += n;
    }
    return t;
}

static struct json_object *read_back(struct sg_buf *b)
{
    struct json_tokener *reader = json_tokener_new();
    json_tokener_set_flags(reader, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    const char *text = sg_buf_cstr(b);
    struct json_object *o = json_tokener_parse_ex(reader, text, (int)b->n + 1);
    if (json_tokener_get_error(reader) != json_tokener_success)
        fail_msg("%s: %s", json_tokener_error_desc(json_tokener_get_error(reader)), text);
    json_tokener_free(reader);
    return o;
}

enum shape { LIST, OBJECT, TEXT, UNSIGNED, SIGNED, BOOL, NOTHING, SHAPES };

static enum shape pick(struct rng *rng, unsigned depth)
{
    return (enum shape)(depth < MAX_DEPTH ? rng_below(rng, SHAPES)
                                          : TEXT + rng_below(rng, SHAPES - TEXT));
}

static void write_value(struct sg_json *j, struct rng *rng, unsigned depth);

static void write_members(struct sg_json *j, struct rng *rng, unsigned depth, bool is_object)
{
    unsigned count = (unsigned)rng_below(rng, 4);
    sg_json_open(j, is_object ? '{' : '[');
    for (unsigned i = 0; i < count; i++) {
        if (is_object) {
            char key[] = { (char)('a' + i), '\n', '\0' };
            sg_json_key(j, key);
        }
        write_value(j, rng, depth + 1);
    }
    sg_json_close(j, is_object ? '}' : ']');
}

static void write_value(struct sg_json *j, struct rng *rng, unsigned depth)
{
    enum shape shape = pick(rng, depth);
    struct text t;
    switch (shape) {
    case LIST:
    case OBJECT:
        write_members(j, rng, depth, shape == OBJECT);
        return;
    case TEXT:
        t = random_text(rng, true);
        sg_json_text(j, (struct sg_str) { t.p, t.n });
        return;
    case UNSIGNED:
        sg_json_u64(j, rng_magnitude(rng));
        return;
    case SIGNED:
        sg_json_i64(j, (int64_t)rng_next(rng));
        return;
    case BOOL:
        sg_json_bool(j, rng_below(rng, 2));
        return;
    case NOTHING:
    case SHAPES:
        sg_json_null(j);
        return;
    }
}

static void compare(struct json_object *o, struct rng *rng, unsigned depth);

static void compare_members(struct json_object *o, struct rng *rng, unsigned depth, bool is_object)
{
    unsigned count = (unsigned)rng_below(rng, 4);
    assert_true(json_object_is_type(o, is_object ? json_type_object : json_type_array));
    assert_int_equal(is_object ? (size_t)json_object_object_length(o) : json_object_array_length(o),
                     count);
    for (unsigned i = 0; i < count; i++) {
        char key[] = { (char)('a' + i), '\n', '\0' };
        struct json_object *member =
            is_object ? json_object_object_get(o, key) : json_object_array_get_idx(o, i);
        compare(member, rng, depth + 1);
    }
}

static void compare(struct json_object *o, struct rng *rng, unsigned depth)
{
    enum shape shape = pick(rng, depth);
    struct text t;
    switch (shape) {
    case LIST:
    case OBJECT:
        compare_members(o, rng, depth, shape == OBJECT);
        return;
    case TEXT:
        t = random_text(rng, true);
        assert_int_equal(json_object_get_string_len(o), t.n);
        assert_memory_equal(json_object_get_string(o), t.p, t.n);
        return;
    case UNSIGNED:
        assert_true(json_object_get_uint64(o) == rng_magnitude(rng));
        return;
    case SIGNED:
        assert_true(json_object_get_int64(o) == (int64_t)rng_next(rng));
        return;
    case BOOL:
        assert_true(json_object_is_type(o, json_type_boolean));
        assert_int_equal(json_object_get_boolean(o), (int)rng_below(rng, 2));
        return;
    case NOTHING:
    case SHAPES:
        assert_null(o);
        return;
    }
}

static void another_reader_reads_the_tree_that_was_written(void **state)
{
    (void)state;
    struct rng rng = rng_start(__func__);
    for (int i = 0; i < ROUNDS; i++) {
        sg_auto_buf b;
        struct sg_json j;
        struct rng writer = { rng_next(&rng) }, reader = writer;
        sg_buf_init(&b, 1 << 20);
        sg_json_init(&j, &b);
        sg_json_open(&j, '['); /* so that the value itself may be null */
        write_value(&j, &writer, 0);
        sg_json_close(&j, ']');
        struct json_object *o = read_back(&b);
        compare(json_object_array_get_idx(o, 0), &reader, 0);
        json_object_put(o);
    }
}

static void any_bytes_become_valid_json_text(void **state)
{
    (void)state;
    struct rng rng = rng_start(__func__);
    for (int i = 0; i < ROUNDS; i++) {
        sg_auto_buf b;
        struct sg_json j;
        struct text t = random_text(&rng, false);
        sg_buf_init(&b, 1 << 20);
        sg_json_init(&j, &b);
        sg_json_text(&j, (struct sg_str) { t.p, t.n });
        assert_true(sg_utf8_valid((const char *)b.p, b.n));
        struct json_object *o = read_back(&b);
        assert_true(json_object_is_type(o, json_type_string));
        if (sg_utf8_valid(t.p, t.n)) {
            assert_int_equal(json_object_get_string_len(o), t.n);
            assert_memory_equal(json_object_get_string(o), t.p, t.n);
        }
        json_object_put(o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_reader_reads_the_tree_that_was_written),
        cmocka_unit_test(any_bytes_become_valid_json_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

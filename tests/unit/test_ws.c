/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "check.h"
#include "wire/ws.h"
#include "base/banned.h"

enum { MAX_MESSAGE = 1000 };

/* A client's frame. */
static void add_frame(struct sg_buf *b, unsigned first, const void *p, size_t n)
{
    static const uint8_t mask[4] = { 0x37, 0xfa, 0x21, 0x3d };
    uint8_t head[SG_WS_MAX_HEAD];
    size_t head_n = sg_ws_head(head, SG_WS_OP_MORE, false, n, mask);
    head[0] = (uint8_t)first;
    sg_buf_add(b, head, head_n);
    size_t at = b->n;
    sg_buf_add(b, p, n);
    sg_ws_mask(b->p + at, n, mask, 0);
}

struct heard {
    char log[512]; /* one letter a thing: "T(hello)", "P(x)", "C1000(bye)", "!1002" */
};

static void note(struct heard *h, const char *what)
{
    size_t n = strlen(h->log);
    (void)snprintf(h->log + n, sizeof h->log - n, "%s", what);
}

static void note_bytes(struct heard *h, struct sg_input p)
{
    size_t n = strlen(h->log), room = sizeof h->log - n - 1;
    memcpy(h->log + n, p.p, p.n < room ? p.n : room);
    h->log[n + (p.n < room ? p.n : room)] = '\0';
}

static void note_code(struct heard *h, char what, unsigned code)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%c%u", what, code);
    note(h, text);
}

static struct heard hear(struct sg_buf *bytes, bool is_server, size_t step)
{
    struct heard h = { "" };
    struct sg_ws w;
    sg_ws_init(&w, is_server, MAX_MESSAGE);
    for (size_t at = 0; at < bytes->n; at += step) {
        struct sg_input in = { bytes->p + at, bytes->n - at < step ? bytes->n - at : step }, got;
        for (bool is_on = true; is_on;) {
            switch (sg_ws_next(&w, &in, &got, NULL)) {
            case SG_WS_NEEDS_MORE:
                is_on = false;
                break;
            case SG_WS_DATA:
                note(&h, !w.is_first ? "" : w.is_text ? "T(" : "B(");
                note_bytes(&h, got);
                note(&h, w.is_last ? ")" : "");
                break;
            case SG_WS_PING:
            case SG_WS_PONG:
                note(&h, w.op == SG_WS_OP_PING ? "P(" : "O(");
                note_bytes(&h, got);
                note(&h, ")");
                break;
            case SG_WS_CLOSE:
                note_code(&h, 'C', w.code);
                note(&h, "(");
                note_bytes(&h, got);
                note(&h, ")");
                break;
            case SG_WS_BAD:
                note_code(&h, '!', w.code);
                break;
            }
        }
    }
    return h;
}

/* Says what a server hears, cut in every way that has equal pieces. */
static void assert_heard(const struct sg_buf *bytes, const char *want)
{
    for (size_t step = 1; step <= bytes->n; step++) {
        sg_auto_buf copy; /* it is unmasked in place */
        sg_buf_init(&copy, 1 << 20);
        sg_buf_add(&copy, bytes->p, bytes->n);
        assert_string_equal(hear(&copy, true, step).log, want);
    }
}

#define FRAME(b, first, text) add_frame(b, first, text, sizeof(text) - 1)

static void hears_messages_and_control_frames(void **state)
{
    (void)state;
    sg_auto_buf b;
    sg_buf_init(&b, 1 << 20);
    FRAME(&b, 0x81, "hello");
    FRAME(&b, 0x82, "");
    FRAME(&b, 0x01, "fir");
    FRAME(&b, 0x89, "ping");
    FRAME(&b, 0x00, "s");
    FRAME(&b, 0x8a, "");
    FRAME(&b, 0x80, "t\xc3\xa9");
    FRAME(&b, 0x88,
          "\x03\xe8"
          "bye");
    FRAME(&b, 0x81, "not heard");
    assert_heard(&b, "T(hello)B()T(firP(ping)sO()t\xc3\xa9)C1000(bye)");
    sg_buf_clear(&b);
    FRAME(&b, 0x88, "");
    assert_heard(&b, "C1005()");
}

static void text_is_utf8_also_across_frames(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b, *want;
    } rows[] = {
        { "\xf0\x9f", "\x8f\x96", "T(\xf0\x9f\x8f\x96)" },
        { "a\xed\x9f", "\xbf", "T(a\xed\x9f\xbf)" },
        { "\xf0\x9f", "\x8f", NULL },
        { "\xf0\x9f", "x", NULL },
        { "\xc0", "\x80", NULL },
        { "\xed\xa0", "\x80", NULL },
        { "\xf4\x90", "\x80\x80", NULL },
        { "\xe0\x80", "\x80", NULL },
        { "\xff", "", NULL },
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        sg_auto_buf b;
        sg_buf_init(&b, 1 << 20);
        add_frame(&b, 0x01, rows[i].a, strlen(rows[i].a));
        add_frame(&b, 0x80, rows[i].b, strlen(rows[i].b));
        struct heard h = hear(&b, true, b.n);
        if (rows[i].want)
            assert_string_equal(h.log, rows[i].want);
        else
            assert_non_null(strstr(h.log, "!1007"));
    }
}

static void refuses_what_the_protocol_forbids(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        const char *want;
    } rows[] = {
#define ROW(text, want) { text, sizeof(text) - 1, want }
        ROW("\x81\x05hello", "!1002"),                        /* not masked */
        ROW("\xc1\x80\0\0\0\0", "!1002"),                     /* reserved bit */
        ROW("\x83\x80\0\0\0\0", "!1002"),                     /* opcode */
        ROW("\x8b\x80\0\0\0\0", "!1002"),                     /* opcode */
        ROW("\x80\x80\0\0\0\0", "!1002"),                     /* continues nothing */
        ROW("\x01\x80\0\0\0\0\x81\x80\0\0\0\0", "T(!1002"),   /* begins inside */
        ROW("\x09\x80\0\0\0\0", "!1002"),                     /* cut control */
        ROW("\x89\xfe\0\x7e\0\0\0\0", "!1002"),               /* long control */
        ROW("\x82\xfe\0\x7d\0\0\0\0", "!1002"),               /* not the shortest length */
        ROW("\x82\xff\0\0\0\0\0\0\xff\xff\0\0\0\0", "!1002"), /* nor here */
        ROW("\x82\xff\x80\0\0\0\0\0\0\0\0\0\0\0", "!1002"),   /* more than 63 bits */
        ROW("\x82\xff\x7f\0\0\0\0\0\0\0\0\0\0\0", "!1009"),   /* too much */
        ROW("\x88\x81\0\0\0\0\x03", "!1002"),                 /* half a code */
        ROW("\x88\x82\0\0\0\0\x03\xed", "!1002"),             /* 1005 is never sent */
        ROW("\x88\x82\0\0\0\0\x07\xd0", "!1002"),             /* 2000 is nobody's */
        ROW("\x88\x83\0\0\0\0\x03\xe8\xff", "!1007"),         /* reason */
#undef ROW
    };
    for (size_t i = 0; i < SG_COUNT(rows); i++) {
        sg_auto_buf b;
        sg_buf_init(&b, 1 << 20);
        sg_buf_add(&b, rows[i].bytes, rows[i].n);
        assert_heard(&b, rows[i].want);
    }
}

static void a_message_has_a_limit_over_all_its_frames(void **state)
{
    (void)state;
    uint8_t data[MAX_MESSAGE] = { 0 };
    sg_auto_buf b;
    sg_buf_init(&b, 1 << 20);
    add_frame(&b, 0x02, data, MAX_MESSAGE - 1);
    add_frame(&b, 0x80, data, 1);
    assert_non_null(strchr(hear(&b, true, b.n).log, ')'));
    sg_buf_clear(&b);
    add_frame(&b, 0x02, data, MAX_MESSAGE - 1);
    add_frame(&b, 0x80, data, 2);
    assert_non_null(strstr(hear(&b, true, b.n).log, "!1009"));
}

static void a_client_refuses_a_masked_frame_and_hears_a_plain_one(void **state)
{
    (void)state;
    sg_auto_buf b;
    sg_buf_init(&b, 1 << 20);
    uint8_t head[SG_WS_MAX_HEAD];
    sg_buf_add(&b, head, sg_ws_head(head, SG_WS_OP_TEXT, true, 300, NULL));
    for (int i = 0; i < 300; i++)
        sg_buf_add_str(&b, i < 10 ? "a" : "b");
    assert_memory_equal(b.p, "\x81\x7e\x01\x2c", 4);
    assert_non_null(strstr(hear(&b, false, b.n).log, "T(aaaaaaaaaabb"));
    sg_buf_clear(&b);
    FRAME(&b, 0x81, "hello");
    assert_string_equal(hear(&b, false, b.n).log, "!1002");
}

static void a_long_reason_is_cut_between_characters(void **state)
{
    (void)state;
    char reason[200];
    memset(reason, 'x', sizeof reason);
    memcpy(reason + 121, "\xf0\x9f\x8f\x96", 5);
    uint8_t out[SG_WS_MAX_CONTROL];
    assert_int_equal(sg_ws_close_payload(out, 1011, reason), 123);
    assert_memory_equal(out, "\x03\xf3xx", 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hears_messages_and_control_frames),
        cmocka_unit_test(text_is_utf8_also_across_frames),
        cmocka_unit_test(refuses_what_the_protocol_forbids),
        cmocka_unit_test(a_message_has_a_limit_over_all_its_frames),
        cmocka_unit_test(a_client_refuses_a_masked_frame_and_hears_a_plain_one),
        cmocka_unit_test(a_long_reason_is_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire: any split of the input reads the same. Inputs are strings of fragments that make sense
 * often enough to get far, and break rules often enough to matter. */
#include <stdio.h>

#include "check.h"
#include "random.h"
#include "wire_oracle.h"
#include "base/banned.h"

enum { ROUNDS = 4000 };

static const char *const http_parts[] = {
    "GET / HTTP/1.1\r\n",
    "POST /v1/a?b=c HTTP/1.1\r\n",
    "GET http://a/b HTTP/1.1\r\n",
    "Host: a\r\n",
    "Host: a\r\n",
    "Content-Length: 5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close, upgrade\r\n",
    "Expect: 100-continue\r\n",
    "X: y\r\n",
    " fold\r\n",
    "\r\n",
    "\r\n",
    "\n",
    "\r",
    "3\r\nabc\r\n",
    "5;x=y\r\nhello\r\n",
    "0\r\n",
    "T: v\r\n",
    "\r\n\r\n",
    "x",
};
static const char *const form_parts[] = {
    "--b\r\n",
    "--b\r\n",
    "Content-Disposition: form-data; name=\"n\"\r\n",
    "Content-Disposition: form-data; name=\"n\"; filename=\"f\"\r\n",
    "Content-Type: t/u\r\n",
    "\r\n",
    "\r\n",
    "\r\n--b\r\n",
    "\r\n--b--",
    "\r\n--",
    "\r",
    "\n",
    "data",
    "\r\n--bb",
};

static void add_parts(struct sg_buf *b, struct rng *rng, const char *const *parts, size_t count)
{
    for (uint64_t n = rng_below(rng, 12); n; n--)
        sg_buf_add_str(b, parts[rng_below(rng, count)]);
}

static void add_frames(struct sg_buf *b, struct rng *rng)
{
    static const uint8_t firsts[] = { 0x81, 0x82, 0x01, 0x02, 0x00, 0x80, 0x89, 0x8a, 0x88, 0xc1 };
    for (uint64_t count = rng_below(rng, 8); count; count--) {
        const uint8_t mask[4] = { (uint8_t)rng_next(rng), 2, 3, (uint8_t)rng_next(rng) };
        uint8_t head[SG_WS_MAX_HEAD], data[700];
        size_t n = (size_t)rng_below(rng, rng_below(rng, 4) ? 20 : sizeof data);
        for (size_t i = 0; i < n; i++)
            data[i] = (uint8_t)(rng_below(rng, 40) ? 'a' + i % 26 : rng_next(rng));
        if (rng_below(rng, 3) == 0 && n > 2)
            memcpy(data, "\x03\xe8", 2);
        size_t head_n = sg_ws_head(head, SG_WS_OP_MORE, true, n, mask);
        head[0] = firsts[rng_below(rng, sizeof firsts)];
        sg_ws_mask(data, n, mask, 0);
        sg_buf_add(b, head, head_n);
        sg_buf_add(b, data, n);
    }
}

static void check(oracle_reader *read, const struct sg_buf *b, struct rng *rng)
{
    size_t step = 1 + (size_t)rng_below(rng, b->n / 2 + 1);
    assert_true(oracle_agrees(read, b->p, b->n, 1));
    assert_true(oracle_agrees(read, b->p, b->n, step));
}

static void requests_read_the_same_however_they_are_cut(void **state)
{
    (void)state;
    struct rng rng = rng_start(__func__);
    for (int i = 0; i < ROUNDS; i++) {
        sg_auto_buf b;
        sg_buf_init(&b, 1 << 20);
        if (rng_below(&rng, 3))
            sg_buf_add_str(&b, "POST / HTTP/1.1\r\nHost: a\r\n");
        if (rng_below(&rng, 3))
            sg_buf_add_str(&b, "Transfer-Encoding: chunked\r\n\r\n");
        add_parts(&b, &rng, http_parts, SG_COUNT(http_parts));
        check(oracle_http1, &b, &rng);
    }
}

static void forms_read_the_same_however_they_are_cut(void **state)
{
    (void)state;
    struct rng rng = rng_start(__func__);
    for (int i = 0; i < ROUNDS; i++) {
        sg_auto_buf b;
        sg_buf_init(&b, 1 << 20);
        sg_buf_add_str(&b, "multipart/form-data; boundary=b\n");
        add_parts(&b, &rng, form_parts, SG_COUNT(form_parts));
        check(oracle_multipart, &b, &rng);
    }
}

static void frames_read_the_same_however_they_are_cut(void **state)
{
    (void)state;
    struct rng rng = rng_start(__func__);
    for (int i = 0; i < ROUNDS / 4; i++) {
        sg_auto_buf b;
        sg_buf_init(&b, 1 << 20);
        add_frames(&b, &rng);
        check(oracle_ws, &b, &rng);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_read_the_same_however_they_are_cut),
        cmocka_unit_test(forms_read_the_same_however_they_are_cut),
        cmocka_unit_test(frames_read_the_same_however_they_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

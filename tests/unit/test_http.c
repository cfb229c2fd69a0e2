/* SPDX-License-Identifier: Apache-2.0 */
/* cli/http, cli/lines: replies as they come, from the other end of a socketpair. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "check.h"
#include "cli/http.h"
#include "cli/lines.h"
#include "base/banned.h"

struct rig {
    struct sg_http http;
    int far;
};

static int start(void **state)
{
    struct rig *r = sg_new(struct rig);
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return -1;
    sg_http_init(&r->http, "http://127.0.0.1:1/", "secret");
    r->http.fd = ends[0]; /* as if it had connected */
    r->http.is_read = true;
    r->far = ends[1];
    *state = r;
    return 0;
}

static int stop(void **state)
{
    struct rig *r = *state;
    sg_http_done(&r->http);
    sg_drop_fd(&r->far);
    free(r);
    return 0;
}

static void answer(struct rig *r, const char *text, bool closes)
{
    assert_int_equal(write(r->far, text, strlen(text)), (ssize_t)strlen(text));
    if (closes)
        (void)shutdown(r->far, SHUT_WR);
}

static void hear(struct rig *r, char *into, size_t n)
{
    ssize_t got = recv(r->far, into, n - 1, 0);
    assert_true(got > 0);
    into[got] = '\0';
}

/* Asks, and reads the whole answer into `out`. */
static int ask(struct rig *r, struct sg_buf *out, struct sg_err *err)
{
    sg_buf_init(out, 100000);
    if (sg_http_send(&r->http, "GET", "/x", NULL, NULL, err) < 0 ||
        sg_http_receive(&r->http, err) < 0)
        return -1;
    return sg_http_read_all(&r->http, out, err);
}

static void a_request_has_host_key_and_length(void **state)
{
    struct rig *r = *state;
    struct sg_err err = { 0 };
    char seen[1000];
    const struct sg_str body = { "{}", 2 };
    assert_ok(sg_http_send(&r->http, "POST", "/v1/x?y=1", "X-More: 1\r\n", &body, &err), err);
    hear(r, seen, sizeof seen);
    assert_string_equal(seen, "POST /v1/x?y=1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n"
                              "User-Agent: sandglass\r\nAuthorization: Bearer secret\r\n"
                              "X-More: 1\r\nContent-Type: application/json\r\n"
                              "Content-Length: 2\r\n\r\n{}");
}

static void every_framing_is_read_to_its_end(void **state)
{
    struct rig *r = *state;
    static const struct {
        const char *reply, *body;
        bool closes, stays;
    } cases[] = {
        { "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", false, true },
        { "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", false,
          true },
        { "HTTP/1.1 204 No Content\r\n\r\n", "", false, true },
        { "HTTP/1.1 200 OK\r\ntransfer-encoding: CHUNKED\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nA: "
          "b"
          "\r\n\r\n",
          "hello", false, true },
        { "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi", "hi", false,
          false },
    };
    for (size_t i = 0; i < SG_COUNT(cases); i++) {
        sg_auto_buf out;
        struct sg_err err = { 0 };
        answer(r, cases[i].reply, cases[i].closes);
        assert_ok(ask(r, &out, &err), err);
        assert_string_equal(sg_buf_cstr(&out), cases[i].body);
        assert_int_equal(r->http.fd >= 0, cases[i].stays);
    }
}

static void a_reply_without_length_ends_with_its_connection(void **state)
{
    struct rig *r = *state;
    sg_auto_buf out;
    struct sg_err err = { 0 };
    answer(r, "HTTP/1.0 200 OK\r\n\r\nall of it", true);
    assert_ok(ask(r, &out, &err), err);
    assert_string_equal(sg_buf_cstr(&out), "all of it");
    assert_int_equal(r->http.fd, -1);
}

static void a_reply_that_breaks_off_is_no_reply(void **state)
{
    struct rig *r = *state;
    sg_auto_buf out;
    struct sg_err err = { 0 };
    answer(r, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", true);
    assert_fails(ask(r, &out, &err), err, SG_UNAVAILABLE);
}

static void a_head_that_can_be_read_in_two_ways_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\r\n",
        "HTTP/1.1\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 2000\r\n\r\n",
        "HTTP/1.1 099 x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nNo colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nName : x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: y",
    };
    for (size_t i = 0; i < SG_COUNT(bad); i++) {
        struct sg_reply_head h;
        struct sg_err err;
        assert_fails(sg_reply_head_parse(sg_str_of(bad[i]), &h, &err), err, SG_INVALID);
    }
}

static void lines_come_whole_however_they_were_cut(void **state)
{
    struct rig *r = *state;
    struct sg_err err = { 0 };
    sg_auto_lines lines;
    struct sg_str line;
    answer(r,
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
           "2\r\non\r\n3\r\ne\n\n\r\n4\r\ntwo\n\r\n4\r\nrest\r\n0\r\n\r\n",
           false);
    assert_ok(sg_http_send(&r->http, "GET", "/x", NULL, NULL, &err), err);
    assert_ok(sg_http_receive(&r->http, &err), err);
    sg_lines_init(&lines, &r->http);
    static const char *const want[] = { "one", "", "two" };
    for (size_t i = 0; i < SG_COUNT(want); i++) {
        assert_int_equal(sg_lines_next(&lines, &line, &err), 1);
        assert_true(sg_str_is(line, want[i]));
    }
    assert_int_equal(sg_lines_next(&lines, &line, &err), 0); /* what has no end is no line */
}

static int give_up(void *arg, int fd, struct sg_err *err)
{
    (void)arg;
    (void)fd;
    return sg_fail(err, SG_TIMEOUT, "enough");
}

static void whoever_waits_can_give_up(void **state)
{
    struct rig *r = *state;
    struct sg_err err = { 0 };
    assert_ok(sg_http_send(&r->http, "GET", "/x", NULL, NULL, &err), err);
    r->http.wait = give_up;
    assert_fails(sg_http_receive(&r->http, &err), err, SG_TIMEOUT);
}

static void an_answer_in_the_middle_of_a_body_counts(void **state)
{
    struct rig *r = *state;
    struct sg_err err = { 0 };
    char path[] = "/tmp/sg-http-XXXXXX";
    sg_auto_fd fd = mkstemp(path);
    assert_true(fd >= 0 && ftruncate(fd, 64 << 20) == 0);
    (void)unlink(path);
    const pid_t pid = fork();
    if (pid == 0) { /* reads the head, refuses, reads no more */
        static const char refusal[] = "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n";
        char head[64];
        (void)!read(r->far, head, sizeof head);
        (void)!write(r->far, refusal, strlen(refusal));
        (void)shutdown(r->far, SHUT_RD);
        _exit(0);
    }
    assert_ok(sg_http_send_fd(&r->http, "PUT", "/x", fd, 64 << 20, &err), err);
    assert_int_equal(r->http.head.status, 413);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(a_request_has_host_key_and_length),
        EACH(every_framing_is_read_to_its_end),
        EACH(a_reply_without_length_ends_with_its_connection),
        EACH(a_reply_that_breaks_off_is_no_reply),
        cmocka_unit_test(a_head_that_can_be_read_in_two_ways_is_refused),
        EACH(lines_come_whole_however_they_were_cut),
        EACH(whoever_waits_can_give_up),
        EACH(an_answer_in_the_middle_of_a_body_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

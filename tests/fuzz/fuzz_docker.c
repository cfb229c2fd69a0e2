/* SPDX-License-Identifier: Apache-2.0 */
/* What a Docker Engine answers: the first byte says to which question. Names that come out of it
 * are names of ours, and what an image says of itself makes a question that is whole JSON. */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/jsonr.h"
#include "keeper/docker.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void check_name(void *arg, const char *name)
{
    (void)arg;
    if (sg_docker_check_name(name, NULL) < 0 || strpbrk(name, "/?&%# "))
        abort();
}

static void check_image(void *arg, const char *name)
{
    (void)arg;
    if (strpbrk(name, "/?&%# "))
        abort();
}

static void image(struct sg_str body, struct sg_arena *a)
{
    const struct sg_docker_spec spec = {
        .name = "sandglass-x", .image = "x", .dir = "/run/x", .service = "/run", .mem_bytes = 1
    };
    struct sg_docker_image is;
    const struct sg_jval *v;
    sg_auto_buf out;
    sg_buf_init(&out, 8 << 20);
    if (sg_docker_read_image(body, a, &is, NULL) < 0)
        return;
    sg_docker_write_create(&spec, &is, &out);
    struct sg_arena b;
    sg_arena_init(&b, 64 << 20);
    const struct sg_str text = { (const char *)out.p, out.n };
    if (!out.has_overflowed && sg_json_parse(text, &b, &v, NULL) < 0)
        abort();
    sg_arena_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    if (n == 0)
        return 0;
    const struct sg_str body = { (const char *)p + 1, n - 1 };
    const char *text;
    bool is_podman;
    char line[160];
    sg_auto_arena a;
    sg_arena_init(&a, 4 << 20);
    switch (p[0]) {
    case 'i':
        image(body, &a);
        break;
    case 'c':
        if (sg_docker_read_created(body, &a, &text, NULL) == 0 && strpbrk(text, "/?&%# "))
            abort();
        break;
    case 'l':
        (void)sg_docker_read_list(body, &a, check_name, NULL, NULL);
        break;
    case 'v':
        (void)sg_docker_read_version(body, &a, &text, &is_podman, NULL);
        break;
    case 'm':
        if (sg_docker_read_imported(body, &a, &text, NULL) == 0 && strpbrk(text, "/?&%# "))
            abort();
        break;
    case 'g':
        (void)sg_docker_read_images(body, &a, check_image, NULL, NULL);
        break;
    case 'p':
        (void)sg_docker_read_pull(body, NULL);
        break;
    default:
        sg_docker_read_message(body, line, sizeof line);
        if (strpbrk(line, "\n\r\033"))
            abort();
    }
    return 0;
}

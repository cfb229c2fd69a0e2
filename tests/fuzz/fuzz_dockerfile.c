/* SPDX-License-Identifier: Apache-2.0 */
/* Dockerfiles; and, behind a first byte of 'i', a .dockerignore with a path in its first line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "image/dockerfile.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void feed_ignore(struct sg_str text)
{
    const char *end = memchr(text.p, '\n', text.n);
    if (!end)
        return;
    sg_auto_free char *path = sg_printf("%.*s", (int)(end - text.p), text.p);
    const size_t used = (size_t)(end + 1 - text.p);
    (void)sg_dockerignore_has((struct sg_str) { end + 1, text.n - used }, path);
}

/* What was read makes sense to whoever goes through it. */
static void look_at(const struct sg_dockerfile *d)
{
    for (size_t i = 0; i < d->n; i++) {
        const struct sg_docker_stage *s = &d->stages[i];
        if (s->image ? !*s->image : s->stage < 1 || s->stage > i)
            abort();
        for (size_t k = 0; k < s->n; k++) {
            const struct sg_docker_step *step = &s->steps[k];
            if (!step->n || step->words[step->n] || step->stage > i ||
                (step->op == SG_DOCKER_RUN && (!step->shell || !step->args)) ||
                (step->op == SG_DOCKER_ENV && step->n % 2))
                abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sg_dockerfile *d = sg_new(struct sg_dockerfile);
    struct sg_err err = { 0 };
    if (n && p[0] == 'i')
        feed_ignore((struct sg_str) { (const char *)p + 1, n - 1 });
    if (sg_dockerfile_parse(d, (struct sg_str) { (const char *)p, n }, NULL, &err) == 0)
        look_at(d);
    else if (err.kind != SG_INVALID || strncmp(err.msg, "line ", 5) != 0)
        abort();
    sg_dockerfile_done(d);
    free(d);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of layers: SHA-256 over all that a layer depends on, each text with its length before it. */
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json.h"
#include "manager/build_internal.h"
#include "manager/traits.h"

#include "base/banned.h"

/* To be raised when steps come to mean something else: what older versions made is not used then.
 */
static const char GENERATION[] = "2";
enum { TEXT_MAX = 64 << 20 };

static void add(struct sg_buf *to, const char *text)
{
    const uint64_t n = text ? strlen(text) : UINT64_MAX;
    sg_buf_add(to, &n, sizeof n);
    if (text)
        sg_buf_add(to, text, (size_t)n);
}

/* One that could not be made would be everybody's. */
static void end(const struct sg_buf *b, char ret[65])
{
    uint8_t h[EVP_MAX_MD_SIZE];
    if (b->has_overflowed || EVP_Digest(b->p, b->n, h, NULL, EVP_sha256(), NULL) != 1)
        abort();
    for (unsigned i = 0; i < 32; i++)
        (void)snprintf(ret + (size_t)2 * i, 3, "%02x", h[i]);
}

void sg_building_first_key(struct sg_building *b, unsigned stage)
{
    struct sg_stage_made *made = &b->made[stage];
    sg_auto_buf t, traits;
    struct sg_json j;
    sg_buf_init(&t, TEXT_MAX);
    add(&t, GENERATION);
    add(&t, b->org->id.s);
    add(&t, made->at.base);
    add(&t, made->at.snapshot);
    if (!made->at.snapshot) { /* which has a base of its own, whatever the name leads to by now */
        char stamp[24];
        (void)snprintf(stamp, sizeof stamp, "%016" PRIx64, made->stamp);
        add(&t, stamp);
    }
    add(&t, b->spec.is_roots ? "root" : "user");
    sg_buf_init(&traits, TEXT_MAX);
    sg_json_init(&j, &traits);
    sg_traits_put(&j, &made->at.traits); /* what is below may have had steps that are no layer */
    add(&t, sg_buf_cstr(&traits));
    end(&t, made->key);
}

void sg_building_next_key(struct sg_building *b)
{
    const struct sg_step *s = sg_building_step(b);
    sg_auto_buf t;
    sg_buf_init(&t, TEXT_MAX);
    add(&t, b->made[b->stage].key);
    add(&t, sg_step_names[s->kind]);
    for (size_t i = 0; i < s->n; i++)
        add(&t, s->args[i]);
    add(&t, NULL);
    add(&t, s->user);
    add(&t, s->mode);
    add(&t, s->files);
    add(&t, s->stage ? b->made[s->stage - 1].key : NULL);
    for (size_t i = 0; s->shell && s->shell[i]; i++)
        add(&t, s->shell[i]);
    end(&t, b->next_key);
}

void sg_building_proof(struct sg_building *b, char ret[65])
{
    const struct sg_stage_made *last = &b->made[b->spec.n - 1];
    sg_auto_buf t;
    sg_buf_init(&t, TEXT_MAX);
    add(&t, last->key);
    add(&t, last->at.traits.start);
    add(&t, last->at.traits.ready);
    end(&t, ret);
}

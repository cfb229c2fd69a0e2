/* SPDX-License-Identifier: Apache-2.0 */
#include "router/router.h"

#include "base/auto.h"
#include "base/hint.h"
#include "base/banned.h"

const char *const sg_wall_names[SG_WALL_COUNT] = {
    [SG_WALL_NONE] = "none",     [SG_WALL_WASM] = "wasm",     [SG_WALL_CELL] = "cell",
    [SG_WALL_DOCKER] = "docker", [SG_WALL_GVISOR] = "gvisor", [SG_WALL_MICROVM] = "microvm",
    [SG_WALL_REMOTE] = "remote",
};
const char *const sg_trust_names[SG_TRUST_COUNT] = { "trusted", "limited", "untrusted" };
const char *const sg_need_net_names[SG_NEED_NET_COUNT] = { "none", "filtered", "open" };
const char *const sg_need_files_names[SG_NEED_FILES_COUNT] = { "none", "read", "write" };
const char *const sg_ability_names[SG_ABILITY_COUNT] = { "code", "terminal", "gui", "browser" };

const struct sg_walls sg_walls_today = { {
    [SG_WALL_WASM] = "this version has no runtime for it",
    [SG_WALL_DOCKER] = "no Docker Engine is configured",
    [SG_WALL_GVISOR] = "no runtime is configured",
    [SG_WALL_MICROVM] = "this version does not run it",
    [SG_WALL_REMOTE] = "no other server is configured",
} };

/* Docker's containers and cells share the host's kernel, and so does a wasm runtime with our
 * filters around it: equals. `remote` is somebody else's machine, judged as one with a kernel of
 * its own. */
unsigned sg_wall_strength(enum sg_wall w)
{
    static const unsigned char strength[SG_WALL_COUNT] = {
        [SG_WALL_NONE] = 0,   [SG_WALL_WASM] = 1,    [SG_WALL_CELL] = 1,   [SG_WALL_DOCKER] = 1,
        [SG_WALL_GVISOR] = 2, [SG_WALL_MICROVM] = 3, [SG_WALL_REMOTE] = 3,
    };
    return strength[w];
}

int sg_router_word(const char *const *names, size_t n, const char *what, struct sg_str word,
                   struct sg_err *err)
{
    struct sg_hint hint = { .word = word };
    for (size_t i = 0; i < n; i++) {
        if (sg_str_is(word, names[i]))
            return (int)i;
        sg_hint_try(&hint, names[i]);
    }
    return sg_fail(err, SG_INVALID, "no %s %s%s", what, sg_quote_str(word).s,
                   sg_hint_text(&hint, "").s);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/id.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/banned.h"

static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
enum {
    LETTERS = sizeof letters - 1,
    FAIR = 256 / LETTERS * LETTERS
}; /* above: would favour some */

struct sg_id sg_id_new(char kind)
{
    struct sg_id id = { .s = { kind } };
    size_t n = 1;
    while (n < SG_ID_LEN) {
        uint8_t bytes[32];
        if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
            abort(); /* a guessable name is worse than none; the kernel does not fail here */
        for (size_t i = 0; i < sizeof bytes && n < SG_ID_LEN; i++)
            if (bytes[i] < FAIR)
                id.s[n++] = letters[bytes[i] % LETTERS];
    }
    return id;
}

bool sg_id_is_valid(const char *s, char kind)
{
    if (s[0] != kind)
        return false;
    size_t n = 1;
    while (n < SG_ID_LEN && ((s[n] >= 'a' && s[n] <= 'z') || (s[n] >= '0' && s[n] <= '9')))
        n++;
    return n == SG_ID_LEN && s[n] == '\0';
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing with linear probing, at most three quarters full. A removal moves the rest of its
 * run back, so that no grave is left behind and a map that lives for months stays as fast as a new
 * one. The hash is SipHash-1-3 (Aumasson and Bernstein, 2012), with one secret word for both halves
 * of its key: nobody outside sees a hash. */
#include "base/map.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/banned.h"

enum { FIRST_CAP = 16 };

struct sip {
    uint64_t a, b, c, d;
};

static uint64_t turn(uint64_t v, unsigned bits)
{
    return v << bits | v >> (64 - bits);
}

static void sip_round(struct sip *s)
{
    s->a += s->b;
    s->c += s->d;
    s->b = turn(s->b, 13) ^ s->a;
    s->d = turn(s->d, 16) ^ s->c;
    s->a = turn(s->a, 32);
    s->c += s->b;
    s->a += s->d;
    s->b = turn(s->b, 17) ^ s->c;
    s->d = turn(s->d, 21) ^ s->a;
    s->c = turn(s->c, 32);
}

static void sip_add(struct sip *s, uint64_t word)
{
    s->d ^= word;
    sip_round(s);
    s->a ^= word;
}

static uint64_t hash_of(uint64_t seed, const char *key)
{
    size_t n = strlen(key), at = 0;
    struct sip s = { seed ^ 0x736f6d6570736575u, ~seed ^ 0x646f72616e646f6du,
                     seed ^ 0x6c7967656e657261u, ~seed ^ 0x7465646279746573u };
    for (; n - at >= 8; at += 8) {
        uint64_t word;
        memcpy(&word, key + at, 8);
        sip_add(&s, word);
    }
    uint64_t last = (uint64_t)n << 56;
    for (unsigned i = 0; at + i < n; i++)
        last |= (uint64_t)(uint8_t)key[at + i] << (8 * i);
    sip_add(&s, last);
    s.c ^= 0xff;
    for (unsigned i = 0; i < 3; i++)
        sip_round(&s);
    return s.a ^ s.b ^ s.c ^ s.d;
}

void sg_map_init(struct sg_map *m)
{
    *m = (struct sg_map) { 0 };
    if (getrandom(&m->seed, sizeof m->seed, 0) != sizeof m->seed)
        m->seed = sg_now_ns() * 0x9e3779b97f4a7c15u ^ (uintptr_t)m; /* better than a constant */
}

void sg_map_done(struct sg_map *m)
{
    free(m->slots);
    *m = (struct sg_map) { 0 };
}

/* The key's slot, or the free one where it would go. */
static struct sg_map_slot *slot_of(struct sg_map_slot *slots, size_t cap, uint64_t hash,
                                   const char *key)
{
    for (size_t i = (size_t)hash & (cap - 1);; i = (i + 1) & (cap - 1)) {
        struct sg_map_slot *s = &slots[i];
        if (!s->key || (s->hash == hash && strcmp(s->key, key) == 0))
            return s;
    }
}

static void grow(struct sg_map *m)
{
    size_t cap = m->cap ? m->cap * 2 : FIRST_CAP;
    struct sg_map_slot *slots = sg_alloc(cap * sizeof *slots);
    for (size_t i = 0; i < m->cap; i++)
        if (m->slots[i].key)
            *slot_of(slots, cap, m->slots[i].hash, m->slots[i].key) = m->slots[i];
    free(m->slots);
    m->slots = slots;
    m->cap = cap;
}

void *sg_map_find(const struct sg_map *m, const char *key)
{
    return m->n ? slot_of(m->slots, m->cap, hash_of(m->seed, key), key)->value : NULL;
}

void sg_map_put(struct sg_map *m, const char *key, void *value)
{
    if ((m->n + 1) * 4 > m->cap * 3)
        grow(m);
    uint64_t hash = hash_of(m->seed, key);
    struct sg_map_slot *s = slot_of(m->slots, m->cap, hash, key);
    m->n += !s->key;
    *s = (struct sg_map_slot) { key, value, hash };
}

/* Every entry of the run behind a hole that may live in the hole moves into it: one whose own place
 * is not between the hole (exclusive) and where it is now. */
static void close_hole(struct sg_map *m, size_t hole)
{
    size_t mask = m->cap - 1;
    for (size_t i = (hole + 1) & mask; m->slots[i].key; i = (i + 1) & mask) {
        size_t home = (size_t)m->slots[i].hash & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            m->slots[hole] = m->slots[i];
            hole = i;
        }
    }
    m->slots[hole] = (struct sg_map_slot) { 0 };
}

void *sg_map_remove(struct sg_map *m, const char *key)
{
    if (!m->n)
        return NULL;
    struct sg_map_slot *s = slot_of(m->slots, m->cap, hash_of(m->seed, key), key);
    if (!s->key)
        return NULL;
    void *value = s->value;
    close_hole(m, (size_t)(s - m->slots));
    m->n--;
    return value;
}

void *sg_map_next(const struct sg_map *m, size_t *cursor)
{
    while (*cursor < m->cap) {
        const struct sg_map_slot *s = &m->slots[(*cursor)++];
        if (s->key)
            return s->value;
    }
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/banned.h"

enum { FIRST_BLOCK_BYTES = 4096, LAST_BLOCK_BYTES = 256 * 1024, ALIGNMENT = 16 };

/* `p` is aligned like the block, whose head has a size that keeps it so. */
struct sg_arena_block {
    struct sg_arena_block *next; /* older */
    size_t n, cap;
    size_t unused;
    uint8_t p[];
};
_Static_assert(sizeof(struct sg_arena_block) % ALIGNMENT == 0, "alignment of an arena's memory");

void sg_arena_init(struct sg_arena *a, size_t max)
{
    *a = (struct sg_arena) { .max = max };
}

static void free_newer_than(struct sg_arena *a, const struct sg_arena_block *last)
{
    while (a->head != last) {
        struct sg_arena_block *b = a->head;
        a->head = b->next;
        free(b);
    }
}

void sg_arena_done(struct sg_arena *a)
{
    free_newer_than(a, NULL);
    *a = (struct sg_arena) { 0 };
}

void sg_arena_clear(struct sg_arena *a)
{
    struct sg_arena_block *first = a->head;
    while (first && first->next)
        first = first->next;
    free_newer_than(a, first);
    if (first)
        first->n = 0;
    a->used = 0;
}

/* Blocks grow, so that a large request needs few of them; a piece larger than the next block gets
 * one of its own size. */
static struct sg_arena_block *add_block(struct sg_arena *a, size_t least)
{
    size_t cap = a->head ? a->head->cap * 2 : FIRST_BLOCK_BYTES - sizeof(struct sg_arena_block);
    if (cap > LAST_BLOCK_BYTES)
        cap = LAST_BLOCK_BYTES;
    if (cap < least)
        cap = least;
    struct sg_arena_block *b = malloc(sizeof *b + cap);
    if (!b)
        return NULL;
    *b = (struct sg_arena_block) { .next = a->head, .cap = cap };
    a->head = b;
    return b;
}

void *sg_arena_alloc(struct sg_arena *a, size_t n)
{
    if (n > a->max)
        return NULL;
    size_t need = (n + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (need > a->max - a->used)
        return NULL;
    struct sg_arena_block *b = a->head;
    if ((!b || need > b->cap - b->n) && !(b = add_block(a, need)))
        return NULL;
    void *p = b->p + b->n;
    b->n += need;
    a->used += need;
    return memset(p, 0, n);
}

char *sg_arena_copy(struct sg_arena *a, const char *p, size_t n)
{
    char *copy = n < SIZE_MAX ? sg_arena_alloc(a, n + 1) : NULL;
    if (copy && n)
        memcpy(copy, p, n);
    return copy;
}

char *sg_arena_printf(struct sg_arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *s = n < 0 ? NULL : sg_arena_alloc(a, (size_t)n + 1);
    if (!s)
        return NULL;
    va_start(ap, fmt);
    (void)vsnprintf(s, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "race.h"

#include <signal.h>
#include <stdbool.h>
#include <time.h>

#include "base/banned.h"

enum { WARM_UP = 3, MAX_ENTRANTS = 8, SEED = 20231116 };

static volatile sig_atomic_t is_interrupted;

void sg_race_interrupt(int signal)
{
    (void)signal;
    is_interrupted = 1;
}

int sg_race_check(struct sg_err *err)
{
    return is_interrupted ? sg_fail(err, SG_UNAVAILABLE, "interrupted") : 0;
}

static int run_once(struct sg_entrant *e, bool is_counted, struct sg_err *err)
{
    uint64_t ns = 0;
    if (sg_race_check(err) < 0)
        return -1;
    if (e->run(e->ctx, &ns, err) < 0)
        return sg_race_check(err) < 0 ? -1 : sg_wrap(err, "%s", e->name);
    if (is_counted)
        sg_series_add(&e->times, ns);
    return 0;
}

static uint32_t draw(uint32_t *state, uint32_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state % below;
}

static void shuffle(unsigned *order, size_t count, uint32_t *random)
{
    for (size_t i = count; i > 1; i--) {
        const uint32_t j = draw(random, (uint32_t)i);
        const unsigned held = order[i - 1];
        order[i - 1] = order[j];
        order[j] = held;
    }
}

/* Does an entrant with n of `rounds` runs take part in this one? */
static bool takes_part(unsigned n, unsigned rounds, unsigned round)
{
    return (uint64_t)(round + 1) * n / rounds != (uint64_t)round * n / rounds;
}

int sg_race(struct sg_entrant *e, size_t count, unsigned pause_ms, struct sg_err *err)
{
    unsigned rounds = 0, order[MAX_ENTRANTS];
    uint32_t random = SEED;
    if (count > MAX_ENTRANTS)
        return sg_fail(err, SG_INTERNAL, "over %d entrants", MAX_ENTRANTS);
    for (unsigned i = 0; i < count; i++) {
        sg_series_init(&e[i].times, e[i].n);
        rounds = e[i].n > rounds ? e[i].n : rounds;
        order[i] = i;
    }
    for (unsigned i = 0; i < count * WARM_UP; i++)
        if (run_once(&e[i % count], false, err) < 0)
            return -1;
    for (unsigned round = 0; round < rounds; round++) {
        shuffle(order, count, &random);
        for (unsigned i = 0; i < count; i++) {
            struct sg_entrant *next = &e[order[i]];
            if (!takes_part(next->n, rounds, round))
                continue;
            const struct timespec pause = { .tv_nsec = (long)pause_ms * 1000000 };
            if (pause_ms)
                (void)nanosleep(&pause, NULL);
            if (run_once(next, true, err) < 0)
                return -1;
        }
    }
    return 0;
}

void sg_race_done(struct sg_entrant *e, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sg_series_done(&e[i].times);
}

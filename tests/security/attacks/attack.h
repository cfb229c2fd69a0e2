/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that try to get out, to take more than their share, or to disturb a neighbour.
 *
 * Each attack says line by line what came of what it tried:
 *     got NAME             it worked
 *     held NAME ERRNO      it was stopped, and how
 *     said NAME VALUE      something to be judged by the test, outside
 * An attack that could not even be tried ends with EXIT_BROKEN, so that "nothing happened" is never
 * taken for "it was stopped". All of them are harmless when they succeed: they go for scratch files
 * and processes of the test, or pass arguments that the kernel refuses after it has said yes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define SG_COUNT_OF(a) (sizeof(a) / sizeof *(a))
enum { EXIT_BROKEN = 99 };

/* An empty name ends a table. */
struct sg_attack {
    const char *name;
    void (*run)(char **args);
};

extern const struct sg_attack sg_attacks_on_resources[];
extern const struct sg_attack sg_attacks_on_files[];
extern const struct sg_attack sg_attacks_on_layers[];
extern const struct sg_attack sg_attacks_on_kernel[];
extern const struct sg_attack sg_attacks_on_others[];

void sg_say_got(const char *name);
void sg_say_held(const char *name, int error);
void sg_say(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* By the usual sign: a negative result is a failure with errno. */
void sg_say_result(const char *name, long result);

/* The same for a call with nonsense in its arguments: an answer about the arguments shows that
 * neither filter nor privilege stood before it. */
void sg_say_reached(const char *name, long result);

/* The next argument as a number, or EXIT_BROKEN. */
long sg_number(char ***args);
const char *sg_word(char ***args);
_Noreturn void sg_broken(const char *what);

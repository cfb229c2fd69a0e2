/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attack.h"
#include "base/banned.h"

static const struct sg_attack *const tables[] = {
    sg_attacks_on_resources, sg_attacks_on_files,  sg_attacks_on_layers,
    sg_attacks_on_kernel,    sg_attacks_on_others,
};

void sg_say_got(const char *name)
{
    printf("got %s\n", name);
}

void sg_say_held(const char *name, int error)
{
    const char *text = strerrorname_np(error);
    printf("held %s %s\n", name, text ? text : "?");
}

void sg_say(const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("said %s ", name);
    (void)vprintf(format, args);
    printf("\n");
    va_end(args);
}

void sg_say_result(const char *name, long result)
{
    if (result < 0)
        sg_say_held(name, errno);
    else
        sg_say_got(name);
}

void sg_say_reached(const char *name, long result)
{
    if (result < 0 && (errno == EPERM || errno == ENOSYS || errno == EACCES))
        sg_say_held(name, errno);
    else
        sg_say_got(name);
}

const char *sg_word(char ***args)
{
    if (!**args)
        sg_broken("an argument is missing");
    return *(*args)++;
}

long sg_number(char ***args)
{
    long value;
    const char *word = sg_word(args);
    if (sscanf(word, "%li", &value) != 1) {
        errno = EINVAL;
        sg_broken(word);
    }
    return value;
}

void sg_broken(const char *what)
{
    fprintf(stderr, "attack: %s: %s\n", what, strerror(errno));
    exit(EXIT_BROKEN);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; argc > 1 && i < SG_COUNT_OF(tables); i++)
        for (const struct sg_attack *a = tables[i]; a->name; a++)
            if (strcmp(a->name, argv[1]) == 0) {
                a->run(argv + 2);
                return 0;
            }
    errno = EINVAL;
    sg_broken("no such attack");
}

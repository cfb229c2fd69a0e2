/* SPDX-License-Identifier: Apache-2.0 */
/* What a trial could leave behind. */
#pragma once

#include <stddef.h>

/* This process's own descriptors and mounts, to be compared. */
struct left_own {
    char *fds, *mounts; /* owned */
};
void left_own_init(struct left_own *o);

/* Looks again; says into `ret` what is new, "" for nothing. Releases `o`. */
void left_own_done(struct left_own *o, char *ret, size_t cap);

/* Children, also adopted ones: reaps, and waits up to `wait_ms` for them to go. */
void left_processes(unsigned wait_ms, char *ret, size_t cap);

/* Cgroups that nobody owns (they are removed), files in the run directory. */
void left_things(char *ret, size_t cap);

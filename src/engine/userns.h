/* SPDX-License-Identifier: Apache-2.0 */
/* User namespaces, made ahead of the process that will live in them.
 *
 * The cell's other namespaces are made by us and belong to *our* user namespace; the cell's
 * process enters this one last. So root inside owns no namespace at all: with every capability it
 * could still neither mount, nor configure the network, nor set the host name. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct sg_idmap {
    uint32_t inside, outside, count;
    uint32_t gid_inside; /* where gids start; `outside` and `count` are the same */
    bool has_host_root; /* host id 0 is there, too, behind the others. Only ever to shift the ids of
                           a mount with: nobody may enter such a namespace */
};

/* A user namespace in the making: it needs a process that is in it until it has a descriptor. */
struct sg_userns {
    int fd;
    int holder_pid; /* 0: none */
    uint32_t word;
    _Alignas(16) char stack[4096];
};

/* Makes a user namespace with this one extent for uids and gids. The holder runs on `u`, which
 * must stay where it is until sg_userns_done(). */
int sg_userns_init(struct sg_userns *u, const struct sg_idmap *map, struct sg_err *err);

/* Ends and reaps the holder, closes the descriptor. Fine on a struct with fd -1 and no holder. */
void sg_userns_done(struct sg_userns *u);

/* Without root: moves this very process into a user namespace where it is root, and a mount
 * namespace that belongs to it. Called once, before anything else. */
int sg_userns_become_root(struct sg_err *err);

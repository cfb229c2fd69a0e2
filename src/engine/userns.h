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
};

/* Returns a descriptor of a new user namespace with this one extent for uids and gids. */
int sg_userns_new(const struct sg_idmap *map, struct sg_err *err);

/* Without root: moves this very process into a user namespace where it is root, and a mount
 * namespace that belongs to it. Called once, before anything else. */
int sg_userns_become_root(struct sg_err *err);

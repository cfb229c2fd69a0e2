/* SPDX-License-Identifier: Apache-2.0 */
/* Removal of a tree by descriptors, whatever its depth. */
#pragma once

/* Removes `name` in `parent_fd` and everything below. 0, or -1 with errno. Takes as long as it
 * takes. Never follows a link. */
int sg_remove_tree(int parent_fd, const char *name);

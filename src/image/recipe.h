/* SPDX-License-Identifier: Apache-2.0 */
/* Recipes of built-in templates: a directory with
 *
 *   recipe.toml    suite, variant, packages, path rules
 *   template.toml  the defaults of the finished template
 *   setup.sh       run by mmdebstrap with the new root's path, after the packages
 *
 * and what else setup.sh puts there: `files`. A recipe may stand on another (`from`), whose
 * packages and path rules then come first; that one on a third, and so on. */
#pragma once

#include "image/template.h"

enum { SG_RECIPE_MAX_ITEMS = 128 };

struct sg_recipe {
    char *suite, *variant; /* owned, as are all strings here */
    char *from;            /* the recipe that this one stands on; NULL: none */
    char *finish;          /* a program inside, run in a cell of the new root; NULL: none */
    char *writes;          /* the directory inside that it fills */
    char *packages[SG_RECIPE_MAX_ITEMS];
    size_t package_count;
    char *exclude[SG_RECIPE_MAX_ITEMS]; /* dpkg path patterns */
    size_t exclude_count;
    char *include[SG_RECIPE_MAX_ITEMS]; /* exceptions from these */
    size_t include_count;
    char *files[SG_RECIPE_MAX_ITEMS]; /* below the recipe's directory */
    size_t file_count;
    char digest[17]; /* over all of these files, the suite, and for `finish` the kernel */
    struct sg_template defaults; /* without a layer */
};

/* `suite` replaces the recipe's own; NULL keeps it. SG_NOT_FOUND when there is no such recipe. */
int sg_recipe_load(const char *dir, const char *name, const char *suite, struct sg_recipe *ret,
                   struct sg_err *err);
void sg_recipe_done(struct sg_recipe *r);

#define sg_auto_recipe __attribute__((cleanup(sg_recipe_done))) struct sg_recipe

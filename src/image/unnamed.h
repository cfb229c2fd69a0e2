/* SPDX-License-Identifier: Apache-2.0 */
/* How templates without a name of their own are called in the store. */
#pragma once

#include <stdbool.h>
#include <string.h>

#define SG_TEMPLATES_IMAGE_PREFIX ".image-"

/* Templates without a name of their own: of an image that the service fetched, or that came with a
 * sandbox. ".image-" and the beginning of the manifest's digest; what no sandbox uses and no
 * snapshot has a pin on is swept. No name that somebody chooses can be one. */
enum { SG_IMAGE_NAME_HEX = 40, SG_IMAGE_NAME = 7 + SG_IMAGE_NAME_HEX + 1 };
static inline bool sg_templates_is_image(const char *name)
{
    return strncmp(name, SG_TEMPLATES_IMAGE_PREFIX, 7) == 0 && strlen(name) == SG_IMAGE_NAME - 1 &&
           strspn(name + 7, "0123456789abcdef") == SG_IMAGE_NAME_HEX;
}

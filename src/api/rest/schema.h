/* SPDX-License-Identifier: Apache-2.0 */
/* schema/openapi.json, carried inside the program. */
#pragma once

#include <stddef.h>

extern const unsigned char sg_schema_openapi[];
extern const size_t sg_schema_openapi_bytes;

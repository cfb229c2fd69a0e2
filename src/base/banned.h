/* SPDX-License-Identifier: Apache-2.0 */
/* Include last in every .c file: calls that cannot be used safely do not compile. */
#pragma once

#undef alloca

#pragma GCC poison strcpy strcat sprintf vsprintf strncpy strncat strtok atoi atol atoll
#pragma GCC poison strtol strtoul strtoll strtoull gets alloca localtime gmtime

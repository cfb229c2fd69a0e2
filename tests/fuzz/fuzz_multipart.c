/* SPDX-License-Identifier: Apache-2.0 */
/* Forms: the first line is the Content-Type, the rest the body, cut in any way. */
#include "wire_oracle.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    oracle_must_agree(oracle_multipart, p, n);
    return 0;
}

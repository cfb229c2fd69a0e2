/* SPDX-License-Identifier: Apache-2.0 */
/* Request heads and chunked bodies: any bytes, cut in any way, give one result. */
#include "wire_oracle.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    oracle_must_agree(oracle_http1, p, n);
    return 0;
}

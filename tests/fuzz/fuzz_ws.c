/* SPDX-License-Identifier: Apache-2.0 */
/* WebSocket frames: any bytes, cut in any way, give the same messages, and text is UTF-8. */
#include "wire_oracle.h"
#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    oracle_must_agree(oracle_ws, p, n);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* SG_PRICES_PATH is policy/prices.toml, given by the build. */
    .section .rodata
    .balign 16
    .globl sg_prices_builtin_text
    .hidden sg_prices_builtin_text
    .type sg_prices_builtin_text, @object
sg_prices_builtin_text:
    .incbin SG_PRICES_PATH
end:
    .size sg_prices_builtin_text, end - sg_prices_builtin_text
    .balign 8
    .globl sg_prices_builtin_bytes
    .hidden sg_prices_builtin_bytes
    .type sg_prices_builtin_bytes, @object
sg_prices_builtin_bytes:
    .quad end - sg_prices_builtin_text
    .size sg_prices_builtin_bytes, 8
    .section .note.GNU-stack, "", @progbits

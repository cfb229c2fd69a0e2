/* SPDX-License-Identifier: Apache-2.0 */
/* SG_RULES_PATH is policy/router.toml, given by the build. */
    .section .rodata
    .balign 16
    .globl sg_rules_builtin_text
    .hidden sg_rules_builtin_text
    .type sg_rules_builtin_text, @object
sg_rules_builtin_text:
    .incbin SG_RULES_PATH
end:
    .size sg_rules_builtin_text, end - sg_rules_builtin_text
    .balign 8
    .globl sg_rules_builtin_bytes
    .hidden sg_rules_builtin_bytes
    .type sg_rules_builtin_bytes, @object
sg_rules_builtin_bytes:
    .quad end - sg_rules_builtin_text
    .size sg_rules_builtin_bytes, 8
    .section .note.GNU-stack, "", @progbits

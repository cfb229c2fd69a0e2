/* SPDX-License-Identifier: Apache-2.0 */
/* The rule files that come with the service; their paths are given by the build. */
    .section .rodata

    .macro embed name, path
    .balign 16
    .globl \name\()_text
    .hidden \name\()_text
    .type \name\()_text, @object
\name\()_text:
    .incbin "\path"
\name\()_end:
    .size \name\()_text, \name\()_end - \name\()_text
    .balign 8
    .globl \name\()_bytes
    .hidden \name\()_bytes
    .type \name\()_bytes, @object
\name\()_bytes:
    .quad \name\()_end - \name\()_text
    .size \name\()_bytes, 8
    .endm

    embed sg_rules_builtin, SG_RULES_PATH
    embed sg_intercept_builtin, SG_INTERCEPT_PATH
    .section .note.GNU-stack, "", @progbits

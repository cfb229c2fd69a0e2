/* SPDX-License-Identifier: Apache-2.0 */
/* SG_INIT_PATH is the built sandglass-init, given by the build. */
    .section .rodata
    .balign 16
    .globl sg_init_image_start
    .hidden sg_init_image_start
sg_init_image_start:
    .incbin SG_INIT_PATH
    .globl sg_init_image_end
    .hidden sg_init_image_end
sg_init_image_end:
    .section .note.GNU-stack, "", @progbits

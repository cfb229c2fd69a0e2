/* SPDX-License-Identifier: Apache-2.0 */
/* The restorer's first and last instructions. */
    .text
    .globl _start
    .type _start, @function
_start: /* what the kernel put on the stack is the argument; the stack itself will go */
    xorl %ebp, %ebp
    movq %rsp, %rdi
    leaq sg_restore_stack_top(%rip), %rsp
    call sg_restore_main
    hlt
    .size _start, . - _start

/* _Noreturn void sg_restore_jump(const struct sg_warm_registers *) */
    .globl sg_restore_jump
    .hidden sg_restore_jump
    .type sg_restore_jump, @function
sg_restore_jump:
    movq 0(%rdi), %rbx
    movq 8(%rdi), %rbp
    movq 16(%rdi), %r12
    movq 24(%rdi), %r13
    movq 32(%rdi), %r14
    movq 40(%rdi), %r15
    ldmxcsr 64(%rdi)
    fldcw 68(%rdi)
    movq 48(%rdi), %rsp
    movl $1, %eax
    jmpq *56(%rdi)
    .size sg_restore_jump, . - sg_restore_jump

    .bss
    .balign 4096
    .skip 16384
    .globl sg_restore_stack_top
    .hidden sg_restore_stack_top
sg_restore_stack_top:
    .section .note.GNU-stack, "", @progbits

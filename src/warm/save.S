/* SPDX-License-Identifier: Apache-2.0 */
/* int sg_warm_save(struct sg_warm_registers *): like setjmp(). Returns 0; and 1 when the registers
 * are loaded again, by the restorer, with 1 in %eax. */
    .text
    .globl sg_warm_save
    .hidden sg_warm_save
    .type sg_warm_save, @function
sg_warm_save:
    endbr64
    movq %rbx, 0(%rdi)
    movq %rbp, 8(%rdi)
    movq %r12, 16(%rdi)
    movq %r13, 24(%rdi)
    movq %r14, 32(%rdi)
    movq %r15, 40(%rdi)
    leaq 8(%rsp), %rax
    movq %rax, 48(%rdi)
    movq (%rsp), %rax
    movq %rax, 56(%rdi)
    stmxcsr 64(%rdi)
    fnstcw 68(%rdi)
    xorl %eax, %eax
    ret
    .size sg_warm_save, . - sg_warm_save
    .section .note.GNU-stack, "", @progbits

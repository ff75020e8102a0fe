/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simtorch_clear_hook: clears the block, then jumps on with all registers that carry arguments as
 * they were. Arguments: address rdi, size rsi, two totals rdx and rcx, device r8.
 */
	.text
	.globl simtorch_clear_hook
	.hidden simtorch_clear_hook
	.type simtorch_clear_hook, @function
simtorch_clear_hook:
	.cfi_startproc
	endbr64
	push %rdi
	.cfi_adjust_cfa_offset 8
	push %rsi
	.cfi_adjust_cfa_offset 8
	push %rdx
	.cfi_adjust_cfa_offset 8
	push %rcx
	.cfi_adjust_cfa_offset 8
	push %r8
	.cfi_adjust_cfa_offset 8
	movl %r8d, %edx
	call simtorch_clear_block
	pop %r8
	.cfi_adjust_cfa_offset -8
	pop %rcx
	.cfi_adjust_cfa_offset -8
	pop %rdx
	.cfi_adjust_cfa_offset -8
	pop %rsi
	.cfi_adjust_cfa_offset -8
	pop %rdi
	.cfi_adjust_cfa_offset -8
	jmp *simtorch_clear_next(%rip)
	.cfi_endproc
	.size simtorch_clear_hook, . - simtorch_clear_hook

	.bss
	.globl simtorch_clear_next
	.hidden simtorch_clear_next
	.p2align 3
simtorch_clear_next:
	.zero 8

	.section .note.GNU-stack, "", @progbits

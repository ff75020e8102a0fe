/* SPDX-License-Identifier: Apache-2.0 */
/* void swap_call(void (*function)(void *), void *argument): calls with a frame of SWAP_FRAME. */
	.text
	.globl	swap_call
	.type	swap_call, @function
swap_call:
	.cfi_startproc
#if defined(__x86_64__)
	subq	$SWAP_FRAME, %rsp
	.cfi_adjust_cfa_offset SWAP_FRAME
	movq	%rdi, %rax
	movq	%rsi, %rdi
	call	*%rax
	addq	$SWAP_FRAME, %rsp
	.cfi_adjust_cfa_offset -SWAP_FRAME
#elif defined(__aarch64__)
	sub	sp, sp, #(SWAP_FRAME / 16 * 16)
	.cfi_adjust_cfa_offset SWAP_FRAME / 16 * 16
	str	x30, [sp]
	.cfi_offset 30, -(SWAP_FRAME / 16 * 16)
	mov	x2, x0
	mov	x0, x1
	blr	x2
	ldr	x30, [sp]
	add	sp, sp, #(SWAP_FRAME / 16 * 16)
	.cfi_adjust_cfa_offset -(SWAP_FRAME / 16 * 16)
	.cfi_restore 30
#endif
	ret
	.cfi_endproc
	.size	swap_call, . - swap_call
	.section .note.GNU-stack, "", %progbits

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of torch.def that make and run nodes. They leave by a jump: what PyTorch throws passes
 * no frame of ours, and nothing of ours is on the stacks that are taken meanwhile. The function in C
 * is given what it needs and gives PyTorch's own.
 */
#if defined(__x86_64__)
	.macro	announce name, made
	.globl	\name
	.type	\name, @function
	.p2align 4
\name:
	.cfi_startproc
	push	%rdi
	.cfi_adjust_cfa_offset 8
	push	%rsi
	.cfi_adjust_cfa_offset 8
	push	%rdx
	.cfi_adjust_cfa_offset 8
	push	%rcx
	.cfi_adjust_cfa_offset 8
	push	%r8
	.cfi_adjust_cfa_offset 8
	.if	\made
	mov	%rsi, %rdi		/* Edge, which begins with its node's address */
	mov	40(%rsp), %rsi		/* who calls */
	call	vc_torch_node_made
	.else
	mov	%rdx, %rdi		/* Node * */
	lea	48(%rsp), %rsi		/* where the caller's frame begins */
	mov	40(%rsp), %rdx
	call	vc_torch_node_runs
	.endif
	pop	%r8
	.cfi_adjust_cfa_offset -8
	pop	%rcx
	.cfi_adjust_cfa_offset -8
	pop	%rdx
	.cfi_adjust_cfa_offset -8
	pop	%rsi
	.cfi_adjust_cfa_offset -8
	pop	%rdi
	.cfi_adjust_cfa_offset -8
	jmp	*%rax
	.cfi_endproc
	.size	\name, .-\name
	.endm
#elif defined(__aarch64__)
	.macro	announce name, made
	.globl	\name
	.type	\name, %function
	.p2align 4
\name:
	.cfi_startproc
	stp	x29, x30, [sp, #-64]!
	.cfi_def_cfa_offset 64
	.cfi_offset 29, -64
	.cfi_offset 30, -56
	stp	x0, x1, [sp, #16]
	stp	x2, x3, [sp, #32]
	str	x4, [sp, #48]
	.if	\made
	mov	x0, x1			/* Edge, which begins with its node's address */
	mov	x1, x30			/* who calls */
	bl	vc_torch_node_made
	.else
	mov	x0, x2			/* Node * */
	add	x1, sp, #64		/* where the caller's frame begins */
	mov	x2, x30
	bl	vc_torch_node_runs
	.endif
	mov	x9, x0
	ldp	x0, x1, [sp, #16]
	ldp	x2, x3, [sp, #32]
	ldr	x4, [sp, #48]
	ldp	x29, x30, [sp], #64
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	br	x9
	.cfi_endproc
	.size	\name, .-\name
	.endm
#else
#error "unsupported processor"
#endif

#define VC_TORCH_USAGE(symbol)
#define VC_TORCH_MEMORY(symbol)
#define VC_TORCH_NODE_MADE(symbol) announce symbol, 1
#define VC_TORCH_NODE_RUNS(symbol) announce symbol, 0
	.text
#include "capture/torch.def"
	.section .note.GNU-stack, "", %progbits

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported dlsym and dlvsym. They leave by a jump: the real ones look at their return address
 * to tell what RTLD_NEXT and RTLD_DEFAULT mean, and that must be the program's. Only for names of
 * hooks.def does an answer of ours come in between, and never for RTLD_NEXT, save where a library
 * that is in front of us asks dlvsym for the next dlsym: we are that, though without a version.
 */
#if defined(__x86_64__)
	.macro	in_front name, answer, real, next
	.text
	.globl	\name
	.type	\name, @function
	.p2align 4
\name:
	.cfi_startproc
	test	%rsi, %rsi
	je	1f
	cmp	$-1, %rdi		/* RTLD_NEXT */
	je	4f
	cmpb	$'c', (%rsi)
	jne	1f
	cmpb	$'u', 1(%rsi)
	jne	1f
	push	%rdi
	.cfi_adjust_cfa_offset 8
	push	%rsi
	.cfi_adjust_cfa_offset 8
	push	%rdx
	.cfi_adjust_cfa_offset 8
	mov	%rsi, %rdi
	call	vc_dlsym_wanted
	pop	%rdx
	.cfi_adjust_cfa_offset -8
	pop	%rsi
	.cfi_adjust_cfa_offset -8
	pop	%rdi
	.cfi_adjust_cfa_offset -8
	test	%al, %al
	je	1f
	jmp	\answer
1:	mov	\real(%rip), %rax
	test	%rax, %rax
	je	2f
	jmp	*%rax
2:	push	%rdi
	.cfi_adjust_cfa_offset 8
	push	%rsi
	.cfi_adjust_cfa_offset 8
	push	%rdx
	.cfi_adjust_cfa_offset 8
	call	vc_dlsym_find
	pop	%rdx
	.cfi_adjust_cfa_offset -8
	pop	%rsi
	.cfi_adjust_cfa_offset -8
	pop	%rdi
	.cfi_adjust_cfa_offset -8
	mov	\real(%rip), %rax
	test	%rax, %rax
	je	3f
	jmp	*%rax
3:	ret				/* no such function in this process: NULL */
4:	.ifc	\next, none
	jmp	1b
	.else
	cmpb	$'d', (%rsi)
	jne	1b
	cmpb	$'l', 1(%rsi)
	jne	1b
	push	%rdi
	.cfi_adjust_cfa_offset 8
	push	%rsi
	.cfi_adjust_cfa_offset 8
	push	%rdx
	.cfi_adjust_cfa_offset 8
	mov	%rsi, %rdi
	mov	24(%rsp), %rsi		/* who asks */
	call	\next
	pop	%rdx
	.cfi_adjust_cfa_offset -8
	pop	%rsi
	.cfi_adjust_cfa_offset -8
	pop	%rdi
	.cfi_adjust_cfa_offset -8
	test	%rax, %rax
	je	1b
	ret
	.endif
	.cfi_endproc
	.size	\name, .-\name
	.endm
#elif defined(__aarch64__)
	.macro	in_front name, answer, real, next
	.text
	.globl	\name
	.type	\name, %function
	.p2align 4
\name:
	.cfi_startproc
	cbz	x1, 1f
	cmn	x0, #1			/* RTLD_NEXT */
	b.eq	4f
	ldrb	w3, [x1]
	cmp	w3, #'c'
	b.ne	1f
	ldrb	w3, [x1, #1]
	cmp	w3, #'u'
	b.ne	1f
	stp	x29, x30, [sp, #-48]!
	.cfi_def_cfa_offset 48
	.cfi_offset 29, -48
	.cfi_offset 30, -40
	stp	x0, x1, [sp, #16]
	str	x2, [sp, #32]
	mov	x0, x1
	bl	vc_dlsym_wanted
	mov	w3, w0
	ldr	x2, [sp, #32]
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #48
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	tbz	w3, #0, 1f
	b	\answer
1:	adrp	x3, \real
	ldr	x3, [x3, #:lo12:\real]
	cbz	x3, 2f
	br	x3
2:	stp	x29, x30, [sp, #-48]!
	.cfi_def_cfa_offset 48
	.cfi_offset 29, -48
	.cfi_offset 30, -40
	stp	x0, x1, [sp, #16]
	str	x2, [sp, #32]
	bl	vc_dlsym_find
	ldr	x2, [sp, #32]
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #48
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	adrp	x3, \real
	ldr	x3, [x3, #:lo12:\real]
	cbz	x3, 3f
	br	x3
3:	mov	x0, #0
	ret
4:	.ifc	\next, none
	b	1b
	.else
	ldrb	w3, [x1]
	cmp	w3, #'d'
	b.ne	1b
	ldrb	w3, [x1, #1]
	cmp	w3, #'l'
	b.ne	1b
	stp	x29, x30, [sp, #-48]!
	.cfi_def_cfa_offset 48
	.cfi_offset 29, -48
	.cfi_offset 30, -40
	stp	x0, x1, [sp, #16]
	str	x2, [sp, #32]
	mov	x0, x1
	mov	x1, x30			/* who asks */
	bl	\next
	mov	x3, x0
	ldr	x2, [sp, #32]
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #48
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	cbz	x3, 1b
	mov	x0, x3
	ret
	.endif
	.cfi_endproc
	.size	\name, .-\name
	.endm
#else
#error "unsupported processor"
#endif
	in_front dlsym, vc_dlsym_answer, vc_dlsym_real, none
	in_front dlvsym, vc_dlvsym_answer, vc_dlvsym_real, vc_dlvsym_next
	.section .note.GNU-stack, "", %progbits

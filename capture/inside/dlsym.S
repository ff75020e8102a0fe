/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported dlsym. It leaves by a jump: the real dlsym looks at its return address to tell what
 * RTLD_NEXT and RTLD_DEFAULT mean, and that must be the program's. Only for names of hooks.def does
 * vc_dlsym_answer come in between, and never for RTLD_NEXT.
 */
#if defined(__x86_64__)
	.text
	.globl	dlsym
	.type	dlsym, @function
	.p2align 4
dlsym:
	.cfi_startproc
	cmp	$-1, %rdi		/* RTLD_NEXT */
	je	1f
	test	%rsi, %rsi
	je	1f
	cmpb	$'c', (%rsi)
	jne	1f
	cmpb	$'u', 1(%rsi)
	jne	1f
	push	%rdi
	.cfi_adjust_cfa_offset 8
	push	%rsi
	.cfi_adjust_cfa_offset 8
	sub	$8, %rsp
	.cfi_adjust_cfa_offset 8
	mov	%rsi, %rdi
	call	vc_dlsym_wanted
	add	$8, %rsp
	.cfi_adjust_cfa_offset -8
	pop	%rsi
	.cfi_adjust_cfa_offset -8
	pop	%rdi
	.cfi_adjust_cfa_offset -8
	test	%al, %al
	je	1f
	jmp	vc_dlsym_answer
1:	mov	vc_dlsym_real(%rip), %rax
	test	%rax, %rax
	je	2f
	jmp	*%rax
2:	push	%rdi
	.cfi_adjust_cfa_offset 8
	push	%rsi
	.cfi_adjust_cfa_offset 8
	sub	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	vc_dlsym_find
	add	$8, %rsp
	.cfi_adjust_cfa_offset -8
	pop	%rsi
	.cfi_adjust_cfa_offset -8
	pop	%rdi
	.cfi_adjust_cfa_offset -8
	mov	vc_dlsym_real(%rip), %rax
	test	%rax, %rax
	je	3f
	jmp	*%rax
3:	ret				/* no dlsym in this process: NULL */
	.cfi_endproc
	.size	dlsym, .-dlsym
#elif defined(__aarch64__)
	.text
	.globl	dlsym
	.type	dlsym, %function
	.p2align 4
dlsym:
	.cfi_startproc
	cmn	x0, #1			/* RTLD_NEXT */
	b.eq	1f
	cbz	x1, 1f
	ldrb	w2, [x1]
	cmp	w2, #'c'
	b.ne	1f
	ldrb	w2, [x1, #1]
	cmp	w2, #'u'
	b.ne	1f
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 29, -32
	.cfi_offset 30, -24
	stp	x0, x1, [sp, #16]
	mov	x0, x1
	bl	vc_dlsym_wanted
	mov	w2, w0
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #32
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	tbz	w2, #0, 1f
	b	vc_dlsym_answer
1:	adrp	x2, vc_dlsym_real
	ldr	x2, [x2, #:lo12:vc_dlsym_real]
	cbz	x2, 2f
	br	x2
2:	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 29, -32
	.cfi_offset 30, -24
	stp	x0, x1, [sp, #16]
	bl	vc_dlsym_find
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #32
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	adrp	x2, vc_dlsym_real
	ldr	x2, [x2, #:lo12:vc_dlsym_real]
	cbz	x2, 3f
	br	x2
3:	mov	x0, #0
	ret
	.cfi_endproc
	.size	dlsym, .-dlsym
#else
#error "unsupported processor"
#endif
	.section .note.GNU-stack, "", %progbits

/* SPDX-License-Identifier: Apache-2.0 */
/* 1,024 times 16 bytes of code that jump to what vc_slot_target holds. */
	.text
	.globl	vc_slots
	.hidden	vc_slots
	.type	vc_slots, %object
	.p2align 4
	.cfi_startproc
vc_slots:
	.set	offset, 0
	.rept	1024
	.p2align 4
#if defined(__x86_64__)
	jmp	*vc_slot_target+offset(%rip)
#elif defined(__aarch64__)
	adrp	x16, vc_slot_target+offset
	ldr	x16, [x16, #:lo12:vc_slot_target+offset]
	br	x16
#else
#error "unsupported processor"
#endif
	.set	offset, offset + 8
	.endr
	.cfi_endproc
	.size	vc_slots, .-vc_slots
	.section .note.GNU-stack, "", %progbits

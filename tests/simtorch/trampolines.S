/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported functions of one library, from its table STUB_TABLE: every one counts its call and
 * jumps on, with all arguments where the caller put them. WRITTEN rows go to the C function
 * stub_<symbol>, all others to the shared answer stub_answer_<answer> with the row's number in eax.
 * Beside the code: the counts, and the names for whoever prints them.
 */
	.set stub_number, 0

.macro stub symbol, answer
	.text
	.globl \symbol
	.type \symbol, @function
	.p2align 4
\symbol:
	endbr64
	lock incl stub_counts + 4 * stub_number(%rip)
	.ifc \answer, WRITTEN
	jmp stub_\symbol
	.else
	movl $stub_number, %eax
	jmp stub_answer_\answer
	.endif
	.size \symbol, . - \symbol
	.section .rodata
7:	.asciz "\symbol"
	.section .data.rel.ro, "aw", @progbits
	.quad 7b
	.set stub_number, stub_number + 1
.endm

	.section .data.rel.ro, "aw", @progbits
	.globl stub_names
	.hidden stub_names
	.p2align 3
stub_names:

#define STUB(symbol, answer) stub symbol, answer
#include STUB_TABLE

	.globl stub_count
	.hidden stub_count
	.section .rodata
	.p2align 2
stub_count:
	.long stub_number

	.bss
	.globl stub_counts
	.hidden stub_counts
	.p2align 3
stub_counts:
	.zero 4 * stub_number

	.text
	.hidden stub_refuse, stub_accept, stub_free
stub_answer_REFUSED:
	movl %eax, %edi
	jmp stub_refuse
stub_answer_ACCEPTED:
	movl %eax, %edi
	jmp stub_accept
stub_answer_FREE:
	jmp stub_free

/*
 * Outputs: the argument's place goes to the writer as its first argument. SIZES: this argument and
 * the next. Integers and pointers only are counted; floating-point ones travel elsewhere.
 */
.macro writer answer, position, place, next
stub_answer_\answer\position:
	.ifnb \next
	movq \next, %rsi
	.endif
	.ifnc \place, %rdi
	movq \place, %rdi
	.endif
	jmp stub_write_\answer
.endm

.macro writers position, place, next
	writer HANDLE, \position, \place
	writer INT, \position, \place
	writer SIZE, \position, \place
	writer SIZES, \position, \place, \next
.endm

	.hidden stub_write_HANDLE, stub_write_INT, stub_write_SIZE, stub_write_SIZES
	writers 1, %rdi, %rsi
	writers 2, %rsi, %rdx
	writers 3, %rdx, %rcx
	writers 4, %rcx, %r8
	writers 5, %r8, %r9
	writers 6, %r9, 8(%rsp)
	.irp position, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20
	writers \position, 8*(\position-6)(%rsp), 8*(\position-5)(%rsp)
	.endr

	.section .note.GNU-stack, "", @progbits

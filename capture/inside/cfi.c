/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding of .eh_frame into compact rules. */
#include "capture/inside/cfi.h"

#include <stddef.h>
#include <string.h>

#include "capture/inside/cfi_cursor.h"

#if defined(__x86_64__)
enum { REGISTER_SP = 7, REGISTER_FP = 6, REGISTER_RA = 16, RA_STARTS_IN_REGISTER = 0 };
#elif defined(__aarch64__)
enum { REGISTER_SP = 31, REGISTER_FP = 29, REGISTER_RA = 30, RA_STARTS_IN_REGISTER = 1 };
#else
#error "no unwind rules for this processor"
#endif

enum { REMEMBER_DEPTH = 4, EXPRESSION_DEPTH = 6 };

/* A pointer in one of the DW_EH_PE encodings; base is what "relative to data" means. */
static uintptr_t take_encoded(struct cursor *c, uint8_t encoding, uintptr_t base)
{
	uintptr_t position = c->at;
	uintptr_t value;

	switch (encoding & 0x0f) {
	case 0x00:
	case 0x04:
	case 0x0c:
		value = take_u64(c);
		break;
	case 0x01:
		value = take_uleb(c);
		break;
	case 0x02:
		value = take_u16(c);
		break;
	case 0x03:
		value = take_u32(c);
		break;
	case 0x09:
		value = (uintptr_t)take_sleb(c);
		break;
	case 0x0a:
		value = (uintptr_t)(intptr_t)(int16_t)take_u16(c);
		break;
	case 0x0b:
		value = (uintptr_t)(intptr_t)(int32_t)take_u32(c);
		break;
	default:
		c->bad = true;
		return 0;
	}
	switch (encoding & 0xf0) {
	case 0x00:
		return value;
	case 0x10:
		return value + position;
	case 0x30:
		return value + base;
	default:
		c->bad = true;
		return 0;
	}
}

/* What a CIE and an FDE say about one function. */
struct function {
	struct cursor common;	/* instructions of the CIE */
	struct cursor own;	/* instructions of the FDE */
	uintptr_t low;
	uintptr_t high;
	uint64_t code_factor;
	int64_t data_factor;
	uint64_t ra_register;
	uint8_t encoding;
	bool sized; /* the FDE has augmentation data, preceded by its size */
	bool signal;
};

/* An entry of .eh_frame is a length and that many bytes. */
static struct cursor entry_at(const struct vc_cfi_table *table, uintptr_t at)
{
	struct cursor c = { at, table->high, at < table->low || at >= table->high };
	uint32_t length = take_u32(&c);

	/* 0 ends the section; all ones announces a 64-bit length, which no linker writes here. */
	if (length == 0 || length == UINT32_MAX || length > c.end - c.at)
		c.bad = true;
	else
		c.end = c.at + length;
	return c;
}

static bool parse_augmentation(struct cursor *c, struct cursor augmentation, struct function *f)
{
	uint64_t size = take_uleb(c);
	struct cursor data = *c;
	uint8_t letter;

	skip(c, size);
	if (c->bad)
		return false;
	data.end = c->at;
	while ((letter = take_u8(&augmentation)) != 0) {
		switch (letter) {
		case 'R':
			f->encoding = take_u8(&data);
			break;
		case 'L':
			take_u8(&data);
			break;
		case 'P':
			/* The value is of no use; only its length matters. */
			take_encoded(&data, take_u8(&data) & 0x0f, 0);
			break;
		case 'S':
			f->signal = true;
			break;
		case 'B': /* return addresses are signed with the B key */
		case 'G': /* memory tagged frame */
			break;
		default:
			return false;
		}
	}
	return !data.bad;
}

static bool parse_common(const struct vc_cfi_table *table, uintptr_t at, struct function *f)
{
	struct cursor c = entry_at(table, at);
	struct cursor augmentation;
	uint32_t id = take_u32(&c);
	uint8_t version = take_u8(&c);
	uint8_t first;

	if (c.bad || id != 0 || (version != 1 && version != 3 && version != 4))
		return false;
	augmentation = c;
	first = take_u8(&c);
	if (first == 'z') {
		f->sized = true;
		take_u8(&augmentation);
		while (take_u8(&c) != 0)
			;
	} else if (first != 0) {
		return false;
	}
	if (version == 4)
		skip(&c, 2); /* address and segment size */
	f->code_factor = take_uleb(&c);
	f->data_factor = take_sleb(&c);
	f->ra_register = version == 1 ? take_u8(&c) : take_uleb(&c);
	if (c.bad || f->ra_register != REGISTER_RA)
		return false;
	if (f->sized && !parse_augmentation(&c, augmentation, f))
		return false;
	f->common = c;
	return true;
}

static bool parse_function(const struct vc_cfi_table *table, uintptr_t at, struct function *f)
{
	struct cursor c = entry_at(table, at);
	uintptr_t id_at = c.at;
	uint32_t to_common = take_u32(&c);
	uint64_t augmentation_size = 0;

	memset(f, 0, sizeof(*f));
	if (c.bad || to_common == 0 || to_common > id_at - table->low)
		return false;
	if (!parse_common(table, id_at - to_common, f))
		return false;
	f->low = take_encoded(&c, f->encoding, table->hdr);
	f->high = f->low + take_encoded(&c, f->encoding & 0x0f, 0);
	if (f->sized)
		augmentation_size = take_uleb(&c);
	skip(&c, augmentation_size);
	f->own = c;
	return !c.bad && f->high > f->low;
}

/* A register's rule in one row of the unwind table. */
enum place { PLACE_SAME, PLACE_AT_CFA, PLACE_EXPRESSION, PLACE_UNDEFINED, PLACE_OTHER };

struct saved {
	uint32_t place;	/* enum place */
	uint32_t size;	/* of the expression */
	union {
		int64_t offset;
		uintptr_t expression;
	};
};

/* Several of them lie on the stack of a hook: nothing in them is larger than need be. */
struct row {
	uint32_t cfa_register;
	uint16_t cfa_is_expression; /* 0: register and offset */
	uint16_t cfa_size;          /* of the expression */
	union {
		int64_t cfa_offset;
		uintptr_t cfa_expression;
	};
	struct saved fp;
	struct saved ra;
};

/* What registers are restored to. */
struct initial {
	struct saved fp;
	struct saved ra;
};

static struct saved *saved_of(struct row *row, uint64_t number)
{
	if (number == REGISTER_FP)
		return &row->fp;
	if (number == REGISTER_RA)
		return &row->ra;
	return NULL;
}

static void set_place(struct row *row, uint64_t number, enum place place, int64_t offset)
{
	struct saved *saved = saved_of(row, number);

	if (saved) {
		saved->place = place;
		saved->offset = offset;
	}
}

/* Registers beyond 32 bits are none that exists. */
static uint32_t register_number(struct cursor *c)
{
	uint64_t number = take_uleb(c);

	return number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

static int64_t scale(uint64_t value, int64_t factor)
{
	return (int64_t)(value * (uint64_t)factor);
}

static void restore(struct row *row, const struct initial *initial, uint64_t number)
{
	if (number == REGISTER_FP)
		row->fp = initial->fp;
	else if (number == REGISTER_RA)
		row->ra = initial->ra;
}

/* State of the interpreter of one function's instructions. */
struct machine {
	const struct function *function;
	uintptr_t location;
	struct row row;
	struct initial initial;
	struct row remembered[REMEMBER_DEPTH];
	unsigned int depth;
};

static bool execute_extended(struct machine *m, struct cursor *c, uint8_t op);

/* Executes one instruction that does not move the location; false: not understood. */
static bool execute(struct machine *m, struct cursor *c, uint8_t op)
{
	const struct function *f = m->function;
	struct row *row = &m->row;
	uint64_t number;

	switch (op) {
	case 0x05: /* offset_extended */
		number = take_uleb(c);
		set_place(row, number, PLACE_AT_CFA, scale(take_uleb(c), f->data_factor));
		return true;
	case 0x06: /* restore_extended */
		restore(row, &m->initial, take_uleb(c));
		return true;
	case 0x07: /* undefined */
		set_place(row, take_uleb(c), PLACE_UNDEFINED, 0);
		return true;
	case 0x08: /* same_value */
		set_place(row, take_uleb(c), PLACE_SAME, 0);
		return true;
	case 0x0a: /* remember_state */
		if (m->depth == REMEMBER_DEPTH)
			return false;
		m->remembered[m->depth++] = *row;
		return true;
	case 0x0b: /* restore_state */
		if (m->depth == 0)
			return false;
		*row = m->remembered[--m->depth];
		return true;
	case 0x0c: /* def_cfa */
		row->cfa_register = register_number(c);
		row->cfa_offset = (int64_t)take_uleb(c);
		row->cfa_is_expression = 0;
		return true;
	case 0x0d: /* def_cfa_register */
		row->cfa_register = register_number(c);
		return !row->cfa_is_expression;
	case 0x0e: /* def_cfa_offset */
		row->cfa_offset = (int64_t)take_uleb(c);
		return !row->cfa_is_expression;
	default:
		return execute_extended(m, c, op);
	}
}

/* The rarer instructions. */
static bool execute_extended(struct machine *m, struct cursor *c, uint8_t op)
{
	const struct function *f = m->function;
	struct row *row = &m->row;
	struct saved *saved;
	uint64_t number;
	uint64_t size;

	switch (op) {
	case 0x00: /* nop */
	case 0x2d: /* negate_ra_state: the signature is stripped from every return address */
		return true;
	case 0x09: /* register */
		set_place(row, take_uleb(c), PLACE_OTHER, 0);
		take_uleb(c);
		return true;
	case 0x0f: /* def_cfa_expression */
		size = take_uleb(c);
		row->cfa_size = (uint16_t)size;
		row->cfa_expression = c->at;
		row->cfa_is_expression = 1;
		skip(c, size);
		return size <= UINT16_MAX;
	case 0x10: /* expression */
		number = take_uleb(c);
		size = take_uleb(c);
		saved = saved_of(row, number);
		if (saved) {
			saved->place = size > UINT16_MAX ? PLACE_OTHER : PLACE_EXPRESSION;
			saved->size = (uint32_t)size;
			saved->expression = c->at;
		}
		skip(c, size);
		return true;
	case 0x11: /* offset_extended_sf */
		number = take_uleb(c);
		set_place(row, number, PLACE_AT_CFA,
			  scale((uint64_t)take_sleb(c), f->data_factor));
		return true;
	case 0x12: /* def_cfa_sf */
		row->cfa_register = register_number(c);
		row->cfa_offset = scale((uint64_t)take_sleb(c), f->data_factor);
		row->cfa_is_expression = 0;
		return true;
	case 0x13: /* def_cfa_offset_sf */
		row->cfa_offset = scale((uint64_t)take_sleb(c), f->data_factor);
		return !row->cfa_is_expression;
	case 0x14: /* val_offset */
	case 0x15: /* val_offset_sf: both operands have the length of an uleb */
		set_place(row, take_uleb(c), PLACE_OTHER, 0);
		take_uleb(c);
		return true;
	case 0x16: /* val_expression */
		set_place(row, take_uleb(c), PLACE_OTHER, 0);
		skip(c, take_uleb(c));
		return true;
	case 0x2e: /* GNU_args_size */
		take_uleb(c);
		return true;
	case 0x2f: /* GNU_negative_offset_extended */
		number = take_uleb(c);
		set_place(row, number, PLACE_AT_CFA, -scale(take_uleb(c), f->data_factor));
		return true;
	default:
		return false;
	}
}

/* If op moves the location, the distance is in *ret. */
static bool is_advance(const struct machine *m, struct cursor *c, uint8_t op, uint64_t *ret)
{
	const struct function *f = m->function;

	switch (op) {
	case 0x01: /* set_loc */
		*ret = take_encoded(c, f->encoding, 0) - m->location;
		return true;
	case 0x02:
		*ret = take_u8(c) * f->code_factor;
		return true;
	case 0x03:
		*ret = take_u16(c) * f->code_factor;
		return true;
	case 0x04:
		*ret = take_u32(c) * f->code_factor;
		return true;
	default:
		if (op >> 6 != 1)
			return false;
		*ret = (op & 0x3f) * f->code_factor;
		return true;
	}
}

/* Runs instructions until the row that covers pc; false: not understood. */
static bool run(struct machine *m, struct cursor c, uintptr_t pc)
{
	uint64_t distance;

	while (c.at < c.end && !c.bad) {
		uint8_t op = take_u8(&c);

		if (is_advance(m, &c, op, &distance)) {
			if (distance > pc - m->location)
				return !c.bad;
			m->location += distance;
		} else if (op >> 6 == 2) {
			set_place(&m->row, op & 0x3f, PLACE_AT_CFA,
				  scale(take_uleb(&c), m->function->data_factor));
		} else if (op >> 6 == 3) {
			restore(&m->row, &m->initial, op & 0x3f);
		} else if (!execute(m, &c, op)) {
			return false;
		}
	}
	return !c.bad;
}

/*
 * A value while an expression is evaluated: a number, a register plus a number, or what lies at
 * such an address plus a number. pc is known, so it is a number too: that alone turns the
 * expression of a procedure linkage table into sp + 8 or sp + 16.
 */
struct value {
	enum { VALUE_NUMBER, VALUE_SP, VALUE_FP, VALUE_SP_LOAD, VALUE_FP_LOAD } base;
	int64_t number;	 /* added last */
	int64_t address; /* added to the register before the load */
};

static bool combine(struct value *left, const struct value *right, uint8_t op)
{
	uint64_t a = (uint64_t)left->number;
	uint64_t b = (uint64_t)right->number;

	if (op == 0x22 && left->base == VALUE_NUMBER) { /* plus */
		*left = *right;
		left->number = (int64_t)(a + b);
		return true;
	}
	if (right->base != VALUE_NUMBER)
		return false;
	if (op == 0x22 || op == 0x1c) { /* plus, minus */
		left->number = (int64_t)(op == 0x22 ? a + b : a - b);
		return true;
	}
	if (left->base != VALUE_NUMBER)
		return false;
	switch (op) {
	case 0x1a: /* and */
		left->number = (int64_t)(a & b);
		return true;
	case 0x24: /* shl */
		left->number = b < 64 ? (int64_t)(a << b) : 0;
		return true;
	case 0x2a: /* ge */
		left->number = left->number >= right->number;
		return true;
	default:
		return false;
	}
}

static bool load(struct value *v)
{
	if (v->base != VALUE_SP && v->base != VALUE_FP)
		return false;
	v->base = v->base == VALUE_SP ? VALUE_SP_LOAD : VALUE_FP_LOAD;
	v->address = v->number;
	v->number = 0;
	return true;
}

/* Pushes what op names onto the stack; false: not an operation that pushes. */
static bool push(struct cursor *c, uint8_t op, uintptr_t pc, struct value *top)
{
	memset(top, 0, sizeof(*top));
	if (op >= 0x30 && op <= 0x4f) { /* lit */
		top->number = op - 0x30;
		return true;
	}
	if (op >= 0x70 && op <= 0x8f) { /* breg */
		top->number = take_sleb(c);
		if (op - 0x70 == REGISTER_SP)
			top->base = VALUE_SP;
		else if (op - 0x70 == REGISTER_FP)
			top->base = VALUE_FP;
		else if (op - 0x70 == REGISTER_RA && !RA_STARTS_IN_REGISTER)
			top->number += (int64_t)pc;
		else
			return false;
		return true;
	}
	switch (op) {
	case 0x08: /* const1u */
		top->number = take_u8(c);
		return true;
	case 0x09: /* const1s */
		top->number = (int8_t)take_u8(c);
		return true;
	case 0x0a: /* const2u */
		top->number = take_u16(c);
		return true;
	case 0x10: /* constu */
		top->number = (int64_t)take_uleb(c);
		return true;
	case 0x11: /* consts */
		top->number = take_sleb(c);
		return true;
	default:
		return false;
	}
}

static __attribute__((noinline)) bool evaluate(uintptr_t at, uint64_t size, uintptr_t pc,
					       struct value *ret)
{
	struct value stack[EXPRESSION_DEPTH];
	struct cursor c = { at, at + size, false };
	unsigned int depth = 0;

	while (c.at < c.end && !c.bad) {
		uint8_t op = take_u8(&c);

		if (op == 0x06) { /* deref */
			if (depth < 1 || !load(&stack[depth - 1]))
				return false;
		} else if (op == 0x23) { /* plus_uconst */
			uint64_t number = take_uleb(&c);

			if (depth < 1)
				return false;
			number += (uint64_t)stack[depth - 1].number;
			stack[depth - 1].number = (int64_t)number;
		} else if (op == 0x1a || op == 0x1c || op == 0x22 || op == 0x24 || op == 0x2a) {
			if (depth < 2 || !combine(&stack[depth - 2], &stack[depth - 1], op))
				return false;
			depth--;
		} else {
			if (depth == EXPRESSION_DEPTH || !push(&c, op, pc, &stack[depth]))
				return false;
			depth++;
		}
	}
	if (c.bad || depth != 1)
		return false;
	*ret = stack[0];
	return true;
}

/* value / 8 if it is a whole number that fits into so many bits. */
static bool fit(int64_t value, unsigned int bits, int64_t *ret)
{
	int64_t limit = (int64_t)1 << (bits - 1);

	if (value % 8 != 0 || value / 8 < -limit || value / 8 >= limit)
		return false;
	*ret = value / 8;
	return true;
}

static bool cfa_of(const struct row *row, uintptr_t pc, struct vc_cfi_rule *rule)
{
	static const uint8_t kinds[] = { VC_CFI_NONE, VC_CFI_SP, VC_CFI_FP, VC_CFI_SP_LOAD,
					 VC_CFI_FP_LOAD };
	struct value v = { VALUE_NUMBER, 0, 0 };
	int64_t cfa;
	int64_t add = 0;

	if (row->cfa_is_expression) {
		if (!evaluate(row->cfa_expression, row->cfa_size, pc, &v))
			return false;
	} else {
		v.number = row->cfa_offset;
		if (row->cfa_register == REGISTER_SP)
			v.base = VALUE_SP;
		else if (row->cfa_register == REGISTER_FP)
			v.base = VALUE_FP;
	}
	if (v.base == VALUE_NUMBER)
		return false;
	if (v.base == VALUE_SP || v.base == VALUE_FP) {
		if (!fit(v.number, 20, &cfa))
			return false;
	} else if (!fit(v.address, 20, &cfa) || !fit(v.number, 5, &add)) {
		return false;
	}
	rule->kind = kinds[v.base];
	rule->cfa = cfa;
	rule->add = add;
	return true;
}

static bool fp_of(const struct row *row, uintptr_t pc, struct vc_cfi_rule *rule)
{
	struct value v = { VALUE_NUMBER, row->fp.offset, 0 };
	int64_t offset;

	switch (row->fp.place) {
	case PLACE_SAME:
	case PLACE_UNDEFINED: /* outermost functions say so; there the value is of no use */
		rule->fp_kind = VC_CFI_FP_SAME;
		return true;
	case PLACE_AT_CFA:
		rule->fp_kind = VC_CFI_FP_AT_CFA;
		break;
	case PLACE_EXPRESSION:
		if (!evaluate(row->fp.expression, row->fp.size, pc, &v) || v.base != VALUE_FP)
			return false;
		rule->fp_kind = VC_CFI_FP_AT_FP;
		break;
	default:
		return false;
	}
	if (!fit(v.number, 17, &offset))
		return false;
	rule->fp = offset;
	return true;
}

/* The compact form of a row; VC_CFI_NONE if it has none. */
static struct vc_cfi_rule compact(const struct row *row, uintptr_t pc)
{
	const struct vc_cfi_rule none = { 0 };
	struct vc_cfi_rule rule = { 0 };
	int64_t offset;

	if (row->ra.place == PLACE_UNDEFINED) {
		rule.kind = VC_CFI_ROOT;
		return rule;
	}
	if (row->ra.place == PLACE_AT_CFA) {
		if (!fit(row->ra.offset, 15, &offset))
			return none;
		rule.ra = offset;
	} else if (row->ra.place == PLACE_SAME && RA_STARTS_IN_REGISTER) {
		rule.ra_in_register = 1;
	} else {
		return none;
	}
	if (!cfa_of(row, pc, &rule) || !fp_of(row, pc, &rule))
		return none;
	return rule;
}

static bool rule_in(const struct function *f, uintptr_t pc, struct vc_cfi_rule *ret)
{
	struct machine m;

	m.function = f;
	m.depth = 0;
	m.location = f->low;
	memset(&m.row, 0, sizeof(m.row));
	memset(&m.initial, 0, sizeof(m.initial));
	m.row.cfa_register = UINT32_MAX;
	/* The CIE's row holds from the first instruction on: nothing in it can be past pc. */
	if (!run(&m, f->common, pc))
		return false;
	m.initial = (struct initial){ m.row.fp, m.row.ra };
	m.location = f->low;
	if (!run(&m, f->own, pc))
		return false;
	*ret = compact(&m.row, pc);
	return true;
}

/* The FDE that .eh_frame_hdr's sorted table names for pc, or 0. */
static uintptr_t find_entry(const struct vc_cfi_table *table, uintptr_t pc)
{
	struct cursor c = { table->hdr, table->high,
			    table->hdr < table->low || table->hdr >= table->high };
	uint8_t version = take_u8(&c);
	uint8_t frame_encoding = take_u8(&c);
	uint8_t count_encoding = take_u8(&c);
	uint8_t table_encoding = take_u8(&c);
	int64_t target = (int64_t)(pc - table->hdr);
	uint64_t count;
	uint64_t first = 0;
	int32_t pair[2];
	uint64_t last;

	/* Every linker writes this one form of table: pairs of 32 bits relative to the header. */
	if (c.bad || version != 1 || count_encoding != 0x03 || table_encoding != 0x3b)
		return 0;
	take_encoded(&c, frame_encoding, table->hdr);
	count = take_u32(&c);
	if (c.bad || count == 0 || count > (c.end - c.at) / sizeof(pair))
		return 0;
	for (last = count; first < last;) {
		uint64_t middle = first + (last - first) / 2;

		memcpy(pair, (const void *)(c.at + middle * sizeof(pair)), sizeof(pair));
		if (pair[0] <= target)
			first = middle + 1;
		else
			last = middle;
	}
	if (first == 0)
		return 0;
	memcpy(pair, (const void *)(c.at + (first - 1) * sizeof(pair)), sizeof(pair));
	return table->hdr + (uintptr_t)(intptr_t)pair[1];
}

static bool find_function(const struct vc_cfi_table *table, uintptr_t pc, struct function *ret)
{
	uintptr_t entry = table->hdr ? find_entry(table, pc) : 0;

	return entry && parse_function(table, entry, ret) && pc >= ret->low && pc < ret->high;
}

bool vc_cfi_function_at(const struct vc_cfi_table *table, uintptr_t pc, uintptr_t *ret_low,
			uintptr_t *ret_high)
{
	struct function f;

	if (!find_function(table, pc, &f))
		return false;
	*ret_low = f.low;
	*ret_high = f.high;
	return true;
}

bool vc_cfi_rule_at(const struct vc_cfi_table *table, uintptr_t pc, struct vc_cfi_rule *ret)
{
	struct function f;

	*ret = (struct vc_cfi_rule){ 0 };
	if (!find_function(table, pc, &f))
		return false;
	if (f.signal)
		ret->kind = VC_CFI_SIGNAL;
	else if (!rule_in(&f, pc, ret))
		ret->kind = VC_CFI_NONE;
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The walk from frame to frame, and its replay. */
#include "capture/inside/unwind.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "capture/inside/cfi.h"
#include "capture/inside/modules.h"
#include "capture/inside/stack_range.h"
#include "formats/error.h"

enum {
	MAX = VC_UNWIND_MAX_FRAMES,
	WAYS = 4,
	SETS = 1024,
	PC_BITS = 48,
	JIT_HOPS = 32,
	SIGNALS = 16,	 /* signal frames in one stack, against loops */
	LIST_SIZE = 4096, /* buffer for the list of mappings */
};

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define PC_MASK ((UINT64_C(1) << PC_BITS) - 1)

/* A pc and its module in one word: pc in the low 48 bits. */
struct cached {
	uint64_t place;
	struct vc_cfi_rule rule;
};

/* A frame as it was met by the walk now running, innermost first. */
struct step {
	uint64_t place;
	uintptr_t sp;
	uintptr_t fp;
	/* The words that led to its caller; address 0: not read. */
	uintptr_t ra_at;
	uintptr_t ra_word;
	uintptr_t fp_at;
	uintptr_t fp_word;
	uintptr_t cfa_at;
	uintptr_t cfa_word;
	bool uses_fp; /* the rule itself needs the register */
	bool keeps_fp; /* the caller's fp is this frame's */
};

/*
 * The last stack, outermost frame first. Words of frame i: [first_word[i], first_word[i + 1]).
 * The arrays are a cache line longer than needed, so that element i of one does not lie a multiple
 * of 4096 bytes from element i of another: processors take such addresses for the same.
 */
struct kept {
	uint32_t count;
	bool valid; /* may be replayed */
	uint8_t end;
	uintptr_t high; /* of the stack it was on */
	uint64_t pc[MAX + 8];
	uint64_t hash[MAX + 8];
	uintptr_t sp[MAX + 8];
	uintptr_t fp[MAX + 8];
	uint16_t module[MAX];
	uint16_t first_word[MAX + 1];
	bool needs_fp[MAX]; /* this frame or one further out */
	uintptr_t word_at[MAX * 3 + 8];
	uintptr_t word[MAX * 3 + 8];
};

struct vc_unwind_state {
	volatile uint32_t busy;
	uint32_t next_way;
	uintptr_t thread;
	uint64_t generation;
	uint64_t dlclose_mark;
	uint64_t next_recheck; /* capture from which bounds may be read again */
	struct vc_unwind_counts counts;
	struct vc_stack_ranges ranges;
	struct kept kept;
	_Alignas(64) struct cached cache[SETS][WAYS];
	struct step steps[MAX];
	char list[LIST_SIZE];
};

_Static_assert(sizeof(struct vc_unwind_state) <= VC_UNWIND_STATE_BYTES, "state outgrew its size");
_Static_assert(sizeof(struct vc_cfi_rule) == 8, "a rule is one word");
_Static_assert(VC_MODULES_MAX < 1 << 16, "a module's index fits beside a pc");

/* The walk now running. */
struct walk {
	struct vc_unwind_state *state;
	uintptr_t pc;
	uintptr_t sp;
	uintptr_t fp;
	uintptr_t link; /* link register where known (after a signal frame), else 0 */
	uintptr_t high;
	uint32_t count;
	uint32_t signals;
	int32_t joined; /* frame of the kept stack that this walk reached, -1: none */
	bool exact;	/* pc is where a signal struck, not a return address */
	bool unsure;	/* the end depends on more than registers and words */
	bool stale;	/* an object was found unloaded under way */
	bool last_try;	/* go on all the same */
	uint8_t end;
};

static _Atomic uintptr_t own_low;
static _Atomic uintptr_t own_high;

void vc_unwind_set_own_code(uintptr_t low, uintptr_t high)
{
	atomic_store_explicit(&own_low, low, memory_order_relaxed);
	atomic_store_explicit(&own_high, high, memory_order_relaxed);
}

static inline uintptr_t strip(uintptr_t pc)
{
#if defined(__aarch64__)
	return pc & PC_MASK; /* pointer authentication uses the bits above */
#else
	return pc;
#endif
}

static inline uint64_t mix(uint64_t hash, uint64_t place)
{
	hash = (hash ^ place) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

/*
 * Where a signal struck, registers that an epilogue has just restored are still described as saved
 * below sp. They were written there, so it is at most the page sp is in.
 */
static __attribute__((noinline)) bool in_red_zone(const struct walk *w, uintptr_t at)
{
	enum { RED_ZONE = 128, PAGE = 4096 };

	return w->exact && at < w->sp && w->sp - at <= RED_ZONE && at / PAGE == w->sp / PAGE;
}

static inline bool readable(const struct walk *w, uintptr_t at)
{
	if (UNLIKELY(at & 7 || at >= w->high))
		return false;
	return LIKELY(at >= w->sp) || in_red_zone(w, at);
}

static inline uintptr_t word_at(uintptr_t at)
{
	return *(const uintptr_t *)at;
}

static void forget(struct vc_unwind_state *state, uint64_t generation)
{
	memset(state->cache, 0, sizeof(state->cache));
	state->kept.valid = false;
	state->generation = generation;
}

/*
 * Decodes the rule at pc and, if its module is known, caches it. An object that was loaded where
 * another had been makes older rules worthless: w->stale then has the walk begin again.
 */
static __attribute__((noinline)) struct cached decode(struct walk *w, struct cached *set,
						      uintptr_t pc, bool exact)
{
	struct vc_unwind_state *state = w->state;
	struct cached entry = { .place = pc };
	uint64_t generation;
	uint32_t module;

	state->counts.rules_decoded++;
	if (!vc_module_rule(pc - !exact, &entry.rule, &module) && module && !exact) {
		struct vc_cfi_rule at_pc;

		/* No call returns to a function's start: this is where a made context ends. */
		if (vc_module_rule(pc, &at_pc, &module))
			entry.rule.kind = VC_CFI_ROOT;
	}
	entry.rule.exact = exact;
	entry.place |= (uint64_t)module << PC_BITS;
	generation = vc_modules_generation();
	if (generation != state->generation) {
		forget(state, generation);
		w->stale = true;
	}
	if (module) {
		unsigned int way = 0;

		/* First the first: then most lookups end there, which is predictable. */
		while (way < WAYS && set[way].place)
			way++;
		set[way < WAYS ? way : state->next_way++ % WAYS] = entry;
	}
	return entry;
}

static inline struct cached *set_of(struct vc_unwind_state *state, uintptr_t pc)
{
	_Static_assert(SETS == 1 << (64 - 54), "the product's high bits index the sets");
	return state->cache[(pc * UINT64_C(0x9e3779b97f4a7c15)) >> 54];
}

static struct cached lookup(struct walk *w, uintptr_t pc, bool exact)
{
	struct cached *set = set_of(w->state, pc);
	unsigned int way;

	for (way = 0; way < WAYS; way++) {
		if ((set[way].place & PC_MASK) == pc && set[way].rule.exact == exact)
			return set[way];
	}
	return decode(w, set, pc, exact);
}

/*
 * Code in no module, without a rule: if its frame pointer, or those it leads to, come back to code
 * that has one, take the first of those steps.
 */
static __attribute__((noinline)) bool step_out_of_unknown(struct walk *w, struct step *s)
{
	uintptr_t at = w->fp;
	unsigned int hop;

	s->uses_fp = true;
	for (hop = 0; hop < JIT_HOPS; hop++) {
		uintptr_t pc;
		uintptr_t next;
		struct cached entry;

		if (!readable(w, at) || !readable(w, at + 8))
			return false;
		pc = strip(word_at(at + 8));
		next = word_at(at);
		if (!pc || pc > PC_MASK)
			return false;
		entry = lookup(w, pc, false);
		if (entry.rule.kind != VC_CFI_NONE)
			break;
		if (entry.place >> PC_BITS || next <= at)
			return false;
		at = next;
	}
	if (hop == JIT_HOPS)
		return false;
	s->ra_at = w->fp + 8;
	s->ra_word = word_at(s->ra_at);
	s->fp_at = w->fp;
	s->fp_word = word_at(s->fp_at);
	w->pc = strip(s->ra_word);
	w->sp = w->fp + 16;
	w->fp = s->fp_word;
	w->exact = false;
	return true;
}

/* Bounds of the stack that holds sp; false if unknown. */
static bool enter_stack(struct walk *w, uintptr_t sp)
{
	struct vc_unwind_state *state = w->state;
	const struct vc_stack_range *range = vc_stack_range_kept(&state->ranges, sp);

	if (UNLIKELY(!range)) {
		range = vc_stack_range_read(&state->ranges, sp, state->list, sizeof(state->list));
		state->counts.range_lookups++;
		if (!range)
			return false;
	}
	w->high = range->high;
	return true;
}

/* Where the kernel's signal frame keeps registers, from sp in the frame of the return stub. */
#if defined(__x86_64__)
enum { SIGNAL_PC = 168, SIGNAL_SP = 160, SIGNAL_FP = 120, SIGNAL_LINK = 168 };
#elif defined(__aarch64__)
/* siginfo (128), then flags, link, stack and mask of the ucontext (176), then fault address. */
enum { SIGNAL_REGISTERS = 128 + 176 + 8, SIGNAL_FP = SIGNAL_REGISTERS + 29 * 8,
       SIGNAL_LINK = SIGNAL_REGISTERS + 30 * 8, SIGNAL_SP = SIGNAL_REGISTERS + 31 * 8,
       SIGNAL_PC = SIGNAL_REGISTERS + 32 * 8 };
#endif

static __attribute__((noinline)) bool step_out_of_signal(struct walk *w)
{
	uintptr_t sp;

	w->unsure = true; /* what lies on two stacks is never replayed */
	w->end = VC_STACK_OUTSIDE;
	if (!readable(w, w->sp) || !readable(w, w->sp + SIGNAL_PC) ||
	    !readable(w, w->sp + SIGNAL_SP) || !readable(w, w->sp + SIGNAL_LINK))
		return false;
	if (++w->signals > SIGNALS)
		return false;
	sp = word_at(w->sp + SIGNAL_SP);
	w->pc = word_at(w->sp + SIGNAL_PC);
	w->fp = word_at(w->sp + SIGNAL_FP);
	w->link = strip(word_at(w->sp + SIGNAL_LINK));
	w->exact = true;
	if (!enter_stack(w, sp))
		return false;
	w->sp = sp;
	return true;
}

/*
 * A walk left the stack's bounds: they may be those of an earlier mapping at this place. Reads
 * them again, rarely, and says whether there is now more.
 */
static __attribute__((noinline)) bool more_stack(struct walk *w)
{
	struct vc_unwind_state *state = w->state;
	uint64_t now = state->counts.captures;
	const struct vc_stack_range *range;
	uintptr_t high = w->high;

	if (now < state->next_recheck)
		return false;
	state->next_recheck = now + now / 2 + 16;
	range = vc_stack_range_read(&state->ranges, w->sp, state->list, sizeof(state->list));
	state->counts.range_lookups++;
	if (!range)
		return false;
	w->high = range->high;
	return range->high > high;
}

/* From a frame to its caller by a rule; false: w->end says why not. */
static bool step_by_rule(struct walk *w, struct vc_cfi_rule rule, struct step *s)
{
	bool first = w->count == 0 || w->exact;
	uintptr_t cfa;
	uintptr_t at;

	w->end = VC_STACK_OUTSIDE;
	if (rule.kind == VC_CFI_SP) {
		cfa = w->sp + (uintptr_t)(rule.cfa * 8);
	} else if (rule.kind == VC_CFI_FP) {
		s->uses_fp = true;
		cfa = w->fp + (uintptr_t)(rule.cfa * 8);
	} else {
		s->uses_fp = rule.kind == VC_CFI_FP_LOAD;
		at = (s->uses_fp ? w->fp : w->sp) + (uintptr_t)(rule.cfa * 8);
		if (!readable(w, at))
			return false;
		s->cfa_at = at;
		s->cfa_word = word_at(at);
		cfa = s->cfa_word + (uintptr_t)(rule.add * 8);
	}
	if (rule.fp_kind == VC_CFI_FP_AT_FP)
		s->uses_fp = true;
	/* Every call takes stack, so a caller's frame is further out: no walk runs in circles. */
	if (cfa > w->high || cfa < w->sp || (cfa == w->sp && !first))
		return false;
	if (rule.ra_in_register) {
		if (!w->exact || !w->link) {
			w->end = VC_STACK_NO_RULE;
			return false;
		}
		w->pc = w->link;
	} else {
		at = cfa + (uintptr_t)(rule.ra * 8);
		if (!readable(w, at))
			return false;
		s->ra_at = at;
		s->ra_word = word_at(at);
		w->pc = strip(s->ra_word);
	}
	if (rule.fp_kind == VC_CFI_FP_SAME) {
		s->keeps_fp = true;
	} else {
		at = (rule.fp_kind == VC_CFI_FP_AT_CFA ? cfa : w->fp) + (uintptr_t)(rule.fp * 8);
		if (!readable(w, at))
			return false;
		s->fp_at = at;
		s->fp_word = word_at(at);
		w->fp = s->fp_word;
	}
	w->sp = cfa;
	w->exact = false;
	return true;
}

/* One step outwards; false: the frame just listed is the last. */
static bool step_out(struct walk *w, struct step *s)
{
	struct cached entry;

	if (w->pc > PC_MASK) {
		s->place = 0;
		w->end = VC_STACK_NO_RULE;
		return false;
	}
	entry = lookup(w, w->pc, w->exact);
	s->place = entry.place;
	switch (entry.rule.kind) {
	case VC_CFI_ROOT:
		w->end = VC_STACK_COMPLETE;
		return false;
	case VC_CFI_SIGNAL:
		return step_out_of_signal(w);
	case VC_CFI_NONE:
		if (!(entry.place >> PC_BITS)) {
			if (step_out_of_unknown(w, s))
				return true;
			w->unsure = true;
		}
		w->end = VC_STACK_NO_RULE;
		return false;
	default:
		return step_by_rule(w, entry.rule, s);
	}
}

/*
 * The innermost kept frame from which all words that led outwards are unchanged, -1: none. Only
 * words from sp on are read, and those up to the end of the stack can be, whatever they hold now.
 */
static inline int32_t unchanged(const struct kept *kept, uintptr_t sp)
{
	uint32_t words = kept->first_word[kept->count], i = 0;
	int32_t k = (int32_t)kept->count - 1;

	while (i < words && kept->word_at[i] >= sp && word_at(kept->word_at[i]) == kept->word[i])
		i++;
	while (k >= 0 && (kept->first_word[k + 1] > i || kept->sp[k] < sp))
		k--;
	return k;
}

/* A frame's registers, apart from the walk so that they stay in the processor's. */
struct position {
	uintptr_t pc;
	uintptr_t sp;
	uintptr_t fp;
};

/* Moves *k outwards to the kept frame at this sp; true if it is the frame at hand. */
static inline bool reached(const struct kept *kept, const struct position *p, int32_t *k)
{
	int32_t i = *k;

	while (i >= 0 && kept->sp[i] < p->sp)
		i--;
	*k = i;
	return i >= 0 && kept->sp[i] == p->sp && kept->pc[i] == p->pc &&
	       (!kept->needs_fp[i] || kept->fp[i] == p->fp);
}

/*
 * Nearly every step: a cached rule with the CFA at a distance from sp or fp, all within bounds.
 * Anything else is left to step_slow: then this returns false and has changed nothing.
 */
static inline bool step_fast(const struct walk *w, struct position *p, struct step *s)
{
	const struct cached *set = set_of(w->state, p->pc);
	uintptr_t room = w->high - p->sp;
	struct vc_cfi_rule rule;
	bool saved;
	uintptr_t cfa;
	uintptr_t ra_at;
	uintptr_t fp_at;
	unsigned int way = 0;

	while ((set[way].place & PC_MASK) != p->pc || set[way].rule.exact) {
		if (++way == WAYS)
			return false;
	}
	rule = set[way].rule;
	if (UNLIKELY((rule.kind != VC_CFI_SP && rule.kind != VC_CFI_FP) || rule.ra_in_register))
		return false;
	saved = rule.fp_kind != VC_CFI_FP_SAME;
	cfa = (rule.kind == VC_CFI_SP ? p->sp : p->fp) + (uintptr_t)(rule.cfa * 8);
	ra_at = cfa + (uintptr_t)(rule.ra * 8);
	fp_at = (rule.fp_kind == VC_CFI_FP_AT_FP ? p->fp : cfa) + (uintptr_t)(rule.fp * 8);
	/* Whether fp was saved is not predictable: one read in any case, and no branch. */
	fp_at = saved ? fp_at : ra_at;
	if (UNLIKELY(cfa <= p->sp || cfa > w->high || ra_at - p->sp >= room ||
		     fp_at - p->sp >= room || ((ra_at | fp_at) & 7)))
		return false;
	s->place = set[way].place;
	s->sp = p->sp;
	s->fp = p->fp;
	s->ra_at = ra_at;
	s->ra_word = word_at(ra_at);
	s->fp_at = saved ? fp_at : 0;
	s->fp_word = word_at(fp_at);
	s->cfa_at = 0;
	s->uses_fp = rule.kind == VC_CFI_FP || rule.fp_kind == VC_CFI_FP_AT_FP;
	s->keeps_fp = !saved;
	p->pc = strip(s->ra_word);
	p->sp = cfa;
	p->fp = saved ? s->fp_word : p->fp;
	return true;
}

/* Any step; false: the frame just listed is the last. */
static __attribute__((noinline)) bool step_slow(struct walk *w, struct position *p, struct step *s)
{
	unsigned int attempt = 0;
	bool more;

	do {
		w->pc = p->pc;
		w->sp = p->sp;
		w->fp = p->fp;
		memset(s, 0, sizeof(*s));
		s->sp = p->sp;
		s->fp = p->fp;
		more = step_out(w, s);
	} while (!more && w->end == VC_STACK_OUTSIDE && !w->signals && attempt++ == 0 &&
		 more_stack(w));
	p->pc = w->pc;
	p->sp = w->sp;
	p->fp = w->fp;
	return more;
}

/*
 * Walks from where w is until the root, a limit, or a frame of the kept stack from k on, all of
 * which are unchanged.
 */
static void walk(struct walk *w, int32_t k)
{
	struct vc_unwind_state *state = w->state;
	const struct kept *kept = &state->kept;
	struct position p = { w->pc, w->sp, w->fp };
	uintptr_t join = k >= 0 ? kept->sp[k] : UINTPTR_MAX;

	w->joined = -1;
	while (w->count < MAX) {
		struct step *s = &state->steps[w->count];

		/* Seldom before the walk is over: where the stacks part they stay apart. */
		if (UNLIKELY(p.sp >= join) && !w->exact) {
			if (reached(kept, &p, &k)) {
				w->joined = k;
				w->end = kept->end;
				return;
			}
			join = k >= 0 ? kept->sp[k] : UINTPTR_MAX;
		}
		if (UNLIKELY(w->exact || !step_fast(w, &p, s))) {
			/* A copy, or the address taken here would keep p in memory. */
			struct position copy = p;
			bool more = step_slow(w, &copy, s);

			p = copy;
			if (!more || (w->stale && !w->last_try)) {
				w->count++;
				/* Bounds may turn out to be others: such a stack is walked anew. */
				w->unsure |= w->end == VC_STACK_OUTSIDE || w->stale;
				return;
			}
		}
		w->count++;
		if (UNLIKELY(p.pc == 0)) {
			w->end = VC_STACK_COMPLETE;
			return;
		}
	}
	w->end = VC_STACK_LIMIT;
	w->unsure = true;
}

/* Without a branch, since nothing predicts which frames save what. */
static inline uint16_t keep_word(struct kept *kept, uint16_t used, uintptr_t at, uintptr_t word,
				 bool wanted)
{
	kept->word_at[used] = at;
	kept->word[used] = word;
	return (uint16_t)(used + wanted);
}

/* Appends the walk's frames to the part of the kept stack that it joined. */
static void keep(const struct walk *w)
{
	struct vc_unwind_state *state = w->state;
	struct kept *kept = &state->kept;
	uint32_t at = (uint32_t)(w->joined + 1);
	uint32_t i = w->count;
	uint64_t hash = at ? kept->hash[at - 1] : mix(0, w->end + 1u);
	bool needs_fp = at ? kept->needs_fp[at - 1] : false;
	uint16_t words = at ? kept->first_word[at] : 0;

	kept->first_word[0] = 0;
	while (i-- > 0) {
		const struct step *s = &state->steps[i];

		hash = mix(hash, s->place);
		kept->pc[at] = s->place & PC_MASK;
		kept->module[at] = (uint16_t)(s->place >> PC_BITS);
		kept->hash[at] = hash;
		kept->sp[at] = s->sp;
		kept->fp[at] = s->fp;
		/* Read from the last to the first: the CFA's word must come before the others. */
		words = keep_word(kept, words, s->fp_at, s->fp_word, (s->fp_at != 0) & needs_fp);
		words = keep_word(kept, words, s->ra_at, s->ra_word, s->ra_at != 0);
		if (UNLIKELY(s->cfa_at))
			words = keep_word(kept, words, s->cfa_at, s->cfa_word, true);
		needs_fp = s->uses_fp | (s->keeps_fp & needs_fp);
		kept->needs_fp[at] = needs_fp;
		at++;
		kept->first_word[at] = words;
	}
	kept->count = at;
	kept->end = w->end;
	kept->high = w->high;
	kept->valid = !w->unsure;
	state->counts.frames_replayed += (uint32_t)(w->joined + 1);
}

static void start(struct walk *w, struct vc_unwind_state *state, const struct vc_registers *from)
{
	memset(w, 0, sizeof(*w));
	w->state = state;
	w->pc = strip(from->pc);
	w->sp = from->sp;
	w->fp = from->fp;
	/* Without bounds nothing is read: the stack is then the first frame alone. */
	if (!enter_stack(w, from->sp))
		w->high = from->sp;
}

/* What has to be looked at before anything kept is used. */
static void prepare(struct vc_unwind_state *state)
{
	uintptr_t thread = (uintptr_t)__builtin_thread_pointer();
	uint64_t generation;

	if (UNLIKELY(state->thread != thread)) {
		state->thread = thread;
		state->kept.valid = false;
		memset(&state->ranges, 0, sizeof(state->ranges));
	}
	if (UNLIKELY(vc_modules_may_have_changed(&state->dlclose_mark)))
		vc_modules_check();
	generation = vc_modules_generation();
	if (UNLIKELY(generation != state->generation))
		forget(state, generation);
}

/* The kept stack without the recorder's own frames at its inner end. */
static void report(const struct kept *kept, struct vc_native_stack *ret)
{
	uintptr_t low = atomic_load_explicit(&own_low, memory_order_relaxed);
	uintptr_t high = atomic_load_explicit(&own_high, memory_order_relaxed);
	uint32_t count = kept->count;

	while (count > 1 && kept->pc[count - 1] > low && kept->pc[count - 1] <= high)
		count--;
	ret->pcs = kept->pc;
	ret->sps = kept->sp;
	ret->modules = kept->module;
	ret->hash = kept->hash[count - 1];
	ret->count = count;
	ret->end = kept->end;
}

int vc_unwind(struct vc_unwind_state *state, const struct vc_registers *from,
	      struct vc_native_stack *ret)
{
	struct walk w;

	if (UNLIKELY(state->busy))
		return VC_E_LIMIT;
	state->busy = 1;
	atomic_signal_fence(memory_order_seq_cst);
	state->counts.captures++;
	prepare(state);
	start(&w, state, from);
	walk(&w, state->kept.valid && state->kept.high == w.high ? unchanged(&state->kept, w.sp) : -1);
	if (UNLIKELY(w.stale)) {
		start(&w, state, from);
		w.last_try = true;
		walk(&w, -1);
	}
	/* A stack over the limit is the innermost frames, whatever is known of the others. */
	if (UNLIKELY(w.joined >= 0 && (uint32_t)w.joined + 1 + w.count > MAX)) {
		start(&w, state, from);
		walk(&w, -1);
	}
	keep(&w);
	report(&state->kept, ret);
	state->counts.frames += ret->count;
	atomic_signal_fence(memory_order_seq_cst);
	state->busy = 0;
	return 0;
}

void vc_unwind_counts_of(const struct vc_unwind_state *state, struct vc_unwind_counts *ret)
{
	*ret = state->counts;
}

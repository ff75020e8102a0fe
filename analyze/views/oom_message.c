/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/oom_message.h"

#include <stdlib.h>
#include <string.h>

#include "formats/error.h"

const struct vc_oom_kind_info vc_oom_kinds[VC_OOM_KINDS] = {
#define VC_OOM_KIND(name, key, headline) {key, headline},
	VC_OOM_KIND_LIST
#undef VC_OOM_KIND
};

static const uint32_t expected[VC_OOM_GROUPS] = {
#define VC_OOM_BIT(quantity) (UINT32_C(1) << VC_OOM_##quantity)
#define VC_OOM_GROUP(name, patience, expected) expected,
#include "analyze/oom_message.def"
};

static const char *const quantity_text[VC_OOM_QUANTITIES] = {
#define VC_OOM_QUANTITY(name, key, text) text,
#include "analyze/oom_message.def"
};

struct work {
	const struct vc_oom_message *message;
	const struct vc_oom_size *size;    /* of the message */
	struct vc_oom_reading *reading;
	struct vc_arena *arena;
	enum vc_text_exact exact;
	struct vc_oom_size own;            /* held by this process's allocator */
	struct vc_oom_size others;         /* of processes that are not this one */
	int self;                          /* listed process that must be this one; -1 none */
	bool failed;
};

/* ---- sizes that are known within bounds ---- */

static struct vc_oom_size sum(struct vc_oom_size a, struct vc_oom_size b)
{
	struct vc_oom_size result = {
		.told = a.told && b.told, .beyond = a.beyond || b.beyond,
		.bytes = a.bytes + b.bytes, .within = a.within + b.within,
	};

	if (result.beyond)
		result.bytes = UINT64_MAX;
	return result;
}

static bool usable(struct vc_oom_size a)
{
	return a.told && !a.beyond;
}

/** True when a is more than b whatever they were before they were rounded. */
static bool more(struct vc_oom_size a, struct vc_oom_size b)
{
	return usable(a) && usable(b) && a.bytes > b.bytes &&
	       a.bytes - b.bytes > a.within + b.within;
}

static bool at_least(struct vc_oom_size a, struct vc_oom_size b)
{
	return usable(a) && usable(b) && a.bytes >= b.bytes &&
	       (a.bytes == b.bytes || a.bytes - b.bytes >= a.within + b.within);
}

/* ---- sentences: %s in order are sizes ---- */

static const char *sentence(struct work *work, const char *format, const uint64_t *bytes)
{
	struct vc_text text = {0};
	const char *kept;

	for (; *format; format++) {
		if (format[0] == '%' && format[1] == 's') {
			vc_text_bytes(&text, *bytes++, work->exact);
			format++;
		} else {
			vc_text_bytes_raw(&text, format, 1);
		}
	}
	kept = vc_arena_string(work->arena, vc_text_get(&text));
	work->failed |= !kept || text.failed;
	vc_text_deinit(&text);
	return kept ? kept : "";
}

static void add_finding(struct work *work, enum vc_oom_kind kind, const char *format,
			const uint64_t *bytes)
{
	struct vc_oom_reading *reading = work->reading;

	if (reading->finding_count < VC_OOM_TEXTS_MAX)
		reading->findings[reading->finding_count++] = (struct vc_oom_finding){
			.kind = kind, .text = sentence(work, format, bytes)};
}

static void add_contradiction(struct work *work, const char *format, const uint64_t *bytes)
{
	struct vc_oom_reading *reading = work->reading;

	if (reading->contradiction_count < VC_OOM_TEXTS_MAX)
		reading->contradictions[reading->contradiction_count++] =
			sentence(work, format, bytes);
}

static void add_untold(struct work *work, const char *text)
{
	struct vc_oom_reading *reading = work->reading;

	if (reading->untold_count < VC_OOM_TEXTS_MAX)
		reading->untold[reading->untold_count++] = text;
}

/* ---- what was asked for ---- */

/** Bytes of one element; 0 unknown. */
static uint64_t element_bytes(const char *type)
{
	static const struct {
		const char *name;
		uint64_t bytes;
	} types[] = {
		{"float", 4}, {"float32", 4}, {"half", 2}, {"float16", 2}, {"bfloat16", 2},
		{"double", 8}, {"float64", 8}, {"int32", 4}, {"int64", 8}, {"int16", 2},
		{"int8", 1}, {"uint8", 1}, {"bool", 1}, {"complex64", 8}, {"complex128", 16},
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (!strcmp(type, types[i].name))
			return types[i].bytes;
	return 0;
}

static void compute_shape(const struct vc_oom_message *message, struct vc_oom_size *ret)
{
	uint64_t bytes = element_bytes(message->type);
	const char *at = message->shape;

	if (*at != '[' || !bytes)
		return;
	while (*at && *at != ']') {
		char *end;
		uint64_t side;

		at++;
		while (*at == ' ')
			at++;
		if (*at == ']')
			break;
		if (*at < '0' || *at > '9')
			return;
		side = strtoull(at, &end, 10);
		if (__builtin_mul_overflow(bytes, side, &bytes))
			return;
		at = end;
		if (*at != ',' && *at != ']')
			return;
	}
	*ret = (struct vc_oom_size){.told = true, .bytes = bytes};
}

static void find_requested(struct work *work)
{
	struct vc_oom_reading *reading = work->reading;

	reading->requested = work->size[VC_OOM_REQUESTED_EXACT].told ?
			     work->size[VC_OOM_REQUESTED_EXACT] : work->size[VC_OOM_REQUESTED];
	if (reading->requested.told)
		return;
	compute_shape(work->message, &reading->requested);
	reading->requested_computed = reading->requested.told;
}

/* ---- who holds what ---- */

static void find_own(struct work *work)
{
	const struct vc_oom_size *size = work->size;

	if (size[VC_OOM_RESERVED].told)
		work->own = size[VC_OOM_RESERVED];
	else if (size[VC_OOM_UNALLOCATED].told)
		work->own = sum(size[VC_OOM_ALLOCATED], size[VC_OOM_UNALLOCATED]);
	else
		work->own = size[VC_OOM_ALLOCATED];
}

/**
 * In a container a process does not know its own number, and is listed like any other. It must be
 * among those listed when all of them and it would not fit; with one that is large enough, it is
 * that one.
 */
static void find_self(struct work *work)
{
	const struct vc_oom_message *message = work->message;
	struct vc_oom_size all = {.told = true};
	int candidate = -1;
	unsigned candidates = 0;

	work->self = -1;
	for (unsigned i = 0; i < message->process_count; i++) {
		all = sum(all, message->processes[i].size);
		if (!more(work->own, message->processes[i].size)) {
			candidate = (int)i;
			candidates++;
		}
	}
	if (!message->process_count)
		return;
	if (work->size[VC_OOM_IN_USE].told) {
		work->others = all;
		return;
	}
	if (candidates == 1 && more(sum(sum(all, work->own), work->size[VC_OOM_FREE]),
				    work->size[VC_OOM_TOTAL]))
		work->self = candidate;
	if (work->self < 0 && candidates)
		return; /* who is who is not known: no one is called another */
	work->others = (struct vc_oom_size){.told = true};
	for (unsigned i = 0; i < message->process_count; i++)
		if ((int)i != work->self)
			work->others = sum(work->others, message->processes[i].size);
}

/* ---- contradictions ---- */

static void check_counters(struct work *work)
{
	for (unsigned i = 0; i < VC_OOM_QUANTITIES; i++) {
		struct vc_text text = {0};

		if (!work->size[i].told || !work->size[i].beyond || i == VC_OOM_LIMIT ||
		    i == VC_OOM_REQUESTED || i == VC_OOM_REQUESTED_EXACT)
			continue;
		vc_text_add(&text, "%s: a size that no device has; a counter fell below zero",
			    quantity_text[i]);
		add_contradiction(work, vc_text_get(&text), NULL);
		vc_text_deinit(&text);
	}
}

static void check_torch(struct work *work)
{
	const struct vc_oom_size *size = work->size;
	struct vc_oom_size used = size[VC_OOM_IN_USE].told && !size[VC_OOM_IN_USE].beyond ?
				  size[VC_OOM_IN_USE] : work->own;

	if (more(size[VC_OOM_FREE], size[VC_OOM_TOTAL]))
		add_contradiction(work, "%s is free of %s",
				  (uint64_t[]){size[VC_OOM_FREE].bytes, size[VC_OOM_TOTAL].bytes});
	if (size[VC_OOM_RESERVED].told && more(size[VC_OOM_ALLOCATED], size[VC_OOM_RESERVED]))
		add_contradiction(work, "%s is allocated out of %s that is reserved",
				  (uint64_t[]){size[VC_OOM_ALLOCATED].bytes,
					       size[VC_OOM_RESERVED].bytes});
	if (more(size[VC_OOM_PRIVATE_POOLS], size[VC_OOM_ALLOCATED]))
		add_contradiction(work,
				  "%s in private pools is more than all that is allocated, %s",
				  (uint64_t[]){size[VC_OOM_PRIVATE_POOLS].bytes,
					       size[VC_OOM_ALLOCATED].bytes});
	if (more(work->own, size[VC_OOM_IN_USE]))
		add_contradiction(work, "PyTorch holds %s of the %s that its process uses",
				  (uint64_t[]){work->own.bytes, size[VC_OOM_IN_USE].bytes});
	if (work->others.told)
		used = sum(used, work->others);
	if (work->self >= 0)
		used = sum(work->others, work->message->processes[work->self].size);
	if (more(sum(used, size[VC_OOM_FREE]), size[VC_OOM_TOTAL]))
		add_contradiction(work, "%s in use and %s free are more than the device has, %s; "
				  "where the driver moves memory to the host (Windows) that can be",
				  (uint64_t[]){used.bytes, size[VC_OOM_FREE].bytes,
					       size[VC_OOM_TOTAL].bytes});
}

static void check_requested(struct work *work)
{
	struct vc_oom_size told = work->size[VC_OOM_REQUESTED];
	struct vc_oom_size exact = work->size[VC_OOM_REQUESTED_EXACT];

	if (vc_oom_wordings[work->message->wording].group == VC_OOM_GROUP_BFC)
		told.within += 256; /* to which it rounds up */
	if (more(told, exact) || more(exact, told))
		add_contradiction(work, "%s and %s are told of the same request",
				  (uint64_t[]){told.bytes, exact.bytes});
}

static void check_others(struct work *work)
{
	const struct vc_oom_size *size = work->size;
	struct vc_oom_size plan = sum(sum(size[VC_OOM_PARAMETERS], size[VC_OOM_CONSTANTS]),
				      sum(size[VC_OOM_LIVE_OUT], size[VC_OOM_TEMPORARY]));

	if (more(size[VC_OOM_PLAN_TOTAL], plan))
		add_contradiction(work, "the parts of the program's plan are %s, its total %s",
				  (uint64_t[]){plan.bytes, size[VC_OOM_PLAN_TOTAL].bytes});
	if (vc_oom_wordings[work->message->wording].group == VC_OOM_GROUP_BFC) {
		if (more(size[VC_OOM_ALLOCATED], size[VC_OOM_LIMIT]))
			add_contradiction(work, "%s is in use under a limit of %s",
					  (uint64_t[]){size[VC_OOM_ALLOCATED].bytes,
						       size[VC_OOM_LIMIT].bytes});
		if (more(size[VC_OOM_ALLOCATED], size[VC_OOM_REGIONS]))
			add_contradiction(work, "%s is in use in regions of %s",
					  (uint64_t[]){size[VC_OOM_ALLOCATED].bytes,
						       size[VC_OOM_REGIONS].bytes});
	}
	if (size[VC_OOM_EXCEEDED].told) {
		struct vc_oom_size need = sum(size[VC_OOM_TOTAL], size[VC_OOM_EXCEEDED]);

		if (more(need, size[VC_OOM_REQUESTED]) || more(size[VC_OOM_REQUESTED], need))
			add_contradiction(work, "%s used of %s is not over by %s",
					  (uint64_t[]){size[VC_OOM_REQUESTED].bytes,
						       size[VC_OOM_TOTAL].bytes,
						       size[VC_OOM_EXCEEDED].bytes});
	}
}

static void check_missing(struct work *work)
{
	struct vc_oom_reading *reading = work->reading;
	uint32_t wanted = expected[vc_oom_wordings[work->message->wording].group];

	if (!reading->requested.told)
		reading->missing[reading->missing_count++] = "how much was asked for";
	for (unsigned i = 0; i < VC_OOM_QUANTITIES; i++) {
		bool told = work->size[i].told ||
			    (i == VC_OOM_RESERVED && work->size[VC_OOM_UNALLOCATED].told);

		if (wanted >> i & 1 && !told && reading->missing_count < VC_OOM_TEXTS_MAX)
			reading->missing[reading->missing_count++] = quantity_text[i];
	}
}

/* ---- ledger ---- */

static void add_row(struct work *work, const char *key, const char *text, const char *how,
		    int64_t bytes)
{
	struct vc_oom_reading *reading = work->reading;

	if (reading->row_count < VC_OOM_ROWS_MAX && bytes)
		reading->rows[reading->row_count++] = (struct vc_oom_ledger_row){
			.key = key, .text = text, .how = how, .bytes = bytes};
}

static void add_told(struct work *work, const char *key, const char *text, struct vc_oom_size size)
{
	if (usable(size))
		add_row(work, key, text, "told", (int64_t)size.bytes);
}

static int64_t rows_total(const struct work *work)
{
	int64_t total = 0;

	for (unsigned i = 0; i < work->reading->row_count; i++)
		total += work->reading->rows[i].bytes;
	return total;
}

/** Ends the ledger with what is left of the total. */
static void end_ledger(struct work *work, struct vc_oom_size total, const char *total_text,
		       const char *key, const char *text)
{
	if (!usable(total)) {
		work->reading->row_count = 0;
		return;
	}
	add_row(work, key, text, "residual", (int64_t)total.bytes - rows_total(work));
	work->reading->total = total.bytes;
	work->reading->total_text = total_text;
}

static void add_processes(struct work *work)
{
	const struct vc_oom_message *message = work->message;

	for (unsigned i = 0; i < message->process_count; i++) {
		struct vc_text text = {0};

		if ((int)i == work->self)
			continue;
		vc_text_add(&text, "process %llu%s",
			    (unsigned long long)message->processes[i].pid,
			    work->others.told ? "" : ", this one or another");
		add_told(work, "process", sentence(work, vc_text_get(&text), NULL),
			 message->processes[i].size);
		vc_text_deinit(&text);
	}
}

static void add_own(struct work *work)
{
	const struct vc_oom_size *size = work->size;
	struct vc_oom_size used = work->self >= 0 ? work->message->processes[work->self].size :
						    size[VC_OOM_IN_USE];
	struct vc_oom_size allocated = size[VC_OOM_ALLOCATED], pools = size[VC_OOM_PRIVATE_POOLS];

	if (usable(allocated) && usable(pools) && allocated.bytes >= pools.bytes) {
		add_told(work, "private_pools", "allocated by PyTorch, in private pools", pools);
		allocated.bytes -= pools.bytes;
	}
	add_told(work, "allocated", "allocated by PyTorch", allocated);
	if (size[VC_OOM_UNALLOCATED].told)
		add_told(work, "unallocated", "reserved by PyTorch, unallocated",
			 size[VC_OOM_UNALLOCATED]);
	else if (usable(size[VC_OOM_RESERVED]) && usable(size[VC_OOM_ALLOCATED]))
		add_row(work, "unallocated", "reserved by PyTorch, unallocated", "difference",
			(int64_t)size[VC_OOM_RESERVED].bytes -
			(int64_t)size[VC_OOM_ALLOCATED].bytes);
	if (usable(used) && usable(work->own))
		add_row(work, "outside", "this process, outside of PyTorch", "difference",
			(int64_t)used.bytes - (int64_t)work->own.bytes);
}

static void make_torch_ledger(struct work *work)
{
	const struct vc_oom_size *size = work->size;
	bool self_known = size[VC_OOM_IN_USE].told || work->self >= 0;

	if (work->others.told || !work->message->process_count)
		add_own(work);
	add_processes(work);
	add_told(work, "free", "free", size[VC_OOM_FREE]);
	end_ledger(work, size[VC_OOM_TOTAL], "total", "residual", self_known ?
		   "driver, processes not listed" :
		   "driver, other processes, this one outside of PyTorch");
}

static void make_plan_ledger(struct work *work)
{
	const struct vc_oom_size *size = work->size;

	add_told(work, "parameters", "parameters", size[VC_OOM_PARAMETERS]);
	add_told(work, "constants", "constants", size[VC_OOM_CONSTANTS]);
	add_told(work, "live_out", "results", size[VC_OOM_LIVE_OUT]);
	add_told(work, "temporary", "temporaries, in one piece", size[VC_OOM_TEMPORARY]);
	end_ledger(work, size[VC_OOM_PLAN_TOTAL], "total of the compiled program", "overlap",
		   "parameters that become results, counted twice; rounding");
}

static void make_ledger(struct work *work)
{
	const struct vc_oom_size *size = work->size;

	switch (vc_oom_wordings[work->message->wording].group) {
	case VC_OOM_GROUP_TORCH:
	case VC_OOM_GROUP_ASYNC:
		make_torch_ledger(work);
		break;
	case VC_OOM_GROUP_MPS:
		add_told(work, "allocated", "allocated by PyTorch", size[VC_OOM_ALLOCATED]);
		add_told(work, "other_allocations", "other allocations",
			 size[VC_OOM_OTHER_ALLOCATIONS]);
		end_ledger(work, size[VC_OOM_LIMIT], "allowed", "room", "left of what is allowed");
		break;
	case VC_OOM_GROUP_XLA:
		make_plan_ledger(work);
		break;
	case VC_OOM_GROUP_BFC:
		add_told(work, "allocated", "in use", size[VC_OOM_ALLOCATED]);
		if (usable(size[VC_OOM_REGIONS]) && usable(size[VC_OOM_ALLOCATED]))
			add_row(work, "unallocated", "in regions, not in use", "difference",
				(int64_t)size[VC_OOM_REGIONS].bytes -
				(int64_t)size[VC_OOM_ALLOCATED].bytes);
		end_ledger(work, size[VC_OOM_LIMIT], "limit of the pool", "room",
			   size[VC_OOM_REGIONS].told ? "left of the pool's limit" :
			   "not in use, or not taken from the device");
		break;
	default:
		break;
	}
}

static int share_ledger(struct work *work)
{
	struct vc_oom_reading *reading = work->reading;
	int64_t values[VC_OOM_ROWS_MAX], shares[VC_OOM_ROWS_MAX];
	int error;

	if (!reading->total)
		return 0;
	for (unsigned i = 0; i < reading->row_count; i++) {
		values[i] = reading->rows[i].bytes;
		if (llabs(values[i]) / 10000 > (int64_t)reading->total)
			return 0; /* contradictory beyond shares */
	}
	error = vc_text_shares(values, reading->row_count, (int64_t)reading->total, shares);
	for (unsigned i = 0; !error && i < reading->row_count; i++)
		reading->rows[i].share = shares[i];
	return error;
}

/* ---- kinds ---- */

static bool find_host(struct work *work)
{
	static const char *const hosts[] = {"cpu", "mklcpu", "cuda_host_bfc", "gpu_host_bfc"};
	const struct vc_oom_message *message = work->message;
	unsigned before = work->reading->finding_count;

	if (message->host || message->wording == VC_OOM_WORDING_GGML_HOST)
		add_finding(work, VC_OOM_KIND_HOST, "the message names pinned memory of the host",
			    NULL);
	else if (strstr(message->call, "Host"))
		add_finding(work, VC_OOM_KIND_HOST,
			    "the call that failed gives memory of the host", NULL);
	else if (message->pinning)
		add_finding(work, VC_OOM_KIND_HOST,
			    "the traceback passes through pin_memory: pinned memory of the host",
			    NULL);
	for (size_t i = 0; i < sizeof(hosts) / sizeof(*hosts); i++)
		if (!strcmp(message->allocator, hosts[i]))
			add_finding(work, VC_OOM_KIND_HOST,
				    "the allocator named is one of the host's memory", NULL);
	return work->reading->finding_count > before;
}

static void find_limit(struct work *work)
{
	const struct vc_oom_size *size = work->size;
	struct vc_oom_size requested = work->reading->requested, need;
	enum vc_oom_group group = vc_oom_wordings[work->message->wording].group;

	if (work->message->pool_limit)
		add_finding(work, VC_OOM_KIND_LIMIT, "the message names the pool's own limit",
			    NULL);
	if (!usable(size[VC_OOM_LIMIT]) || group == VC_OOM_GROUP_BFC)
		return;
	need = sum(work->own, requested);
	if (group == VC_OOM_GROUP_MPS)
		need = sum(need, size[VC_OOM_OTHER_ALLOCATIONS]);
	if (more(need, size[VC_OOM_LIMIT]) &&
	    (!size[VC_OOM_FREE].told || at_least(size[VC_OOM_FREE], requested)))
		add_finding(work, VC_OOM_KIND_LIMIT, group == VC_OOM_GROUP_MPS ?
			    "allocated and asked for make %s; %s is allowed" :
			    "held and asked for make %s; this process is allowed %s",
			    (uint64_t[]){need.bytes, size[VC_OOM_LIMIT].bytes});
}

static struct vc_oom_size difference(struct vc_oom_size a, struct vc_oom_size b)
{
	struct vc_oom_size result = {.told = usable(a) && usable(b) && a.bytes >= b.bytes,
				     .within = a.within + b.within};

	result.bytes = result.told ? a.bytes - b.bytes : 0;
	return result;
}

static bool find_fragmented(struct work *work)
{
	const struct vc_oom_size *size = work->size;
	struct vc_oom_size requested = work->reading->requested, slack = size[VC_OOM_UNALLOCATED];
	enum vc_oom_group group = vc_oom_wordings[work->message->wording].group;

	if (!slack.told && group == VC_OOM_GROUP_TORCH)
		slack = difference(size[VC_OOM_RESERVED], size[VC_OOM_ALLOCATED]);
	if (group == VC_OOM_GROUP_BFC)
		slack = difference(size[VC_OOM_REGIONS], size[VC_OOM_ALLOCATED]);
	if (!at_least(slack, requested))
		return false;
	add_finding(work, VC_OOM_KIND_FRAGMENTED,
		    "%s is reserved and unallocated, %s was asked for: enough, but not in one "
		    "piece, or in a pool that this request may not use",
		    (uint64_t[]){slack.bytes, requested.bytes});
	return true;
}

static bool find_other_processes(struct work *work)
{
	struct vc_oom_size need = sum(work->size[VC_OOM_FREE], work->others);

	if (!usable(work->others) || !at_least(need, work->reading->requested) ||
	    more(work->size[VC_OOM_FREE], work->reading->requested) ||
	    !more(work->others, work->own))
		return false;
	add_finding(work, VC_OOM_KIND_OTHER_PROCESSES,
		    "other processes use %s, more than this one's allocator (%s); without them the "
		    "%s asked for would have fit",
		    (uint64_t[]){work->others.bytes, work->own.bytes,
				 work->reading->requested.bytes});
	return true;
}

/** The pool of TensorFlow and JAX, of which only the limit is told. */
static void find_pool(struct work *work)
{
	const struct vc_oom_size *size = work->size;
	struct vc_oom_size room = difference(size[VC_OOM_LIMIT], size[VC_OOM_ALLOCATED]);
	struct vc_oom_size requested = work->reading->requested;

	if (more(requested, room))
		add_finding(work, VC_OOM_KIND_FULL,
			    "%s is in use, the pool's limit is %s: %s more does not fit",
			    (uint64_t[]){size[VC_OOM_ALLOCATED].bytes, size[VC_OOM_LIMIT].bytes,
					 requested.bytes});
	else if (at_least(room, requested))
		add_finding(work, VC_OOM_KIND_UNEXPLAINED,
			    "%s is left below the pool's limit: it is in pieces, or the device had "
			    "no more to give; the text does not say which",
			    (uint64_t[]){room.bytes});
}

static void find_full(struct work *work)
{
	const struct vc_oom_size *size = work->size;
	struct vc_oom_size requested = work->reading->requested;
	struct vc_oom_size used = difference(size[VC_OOM_TOTAL], size[VC_OOM_FREE]);
	struct vc_oom_size outside = difference(used, work->own);

	if (!usable(size[VC_OOM_TOTAL]) || !usable(size[VC_OOM_FREE]))
		return;
	if (at_least(size[VC_OOM_FREE], requested)) {
		if (!work->reading->finding_count)
			add_finding(work, VC_OOM_KIND_UNEXPLAINED,
				    "%s was free when the message was made, %s was asked for: "
				    "something was freed in between, or the driver refused for "
				    "another reason",
				    (uint64_t[]){size[VC_OOM_FREE].bytes, requested.bytes});
		return;
	}
	if (!more(requested, size[VC_OOM_FREE]) || work->reading->finding_count ||
	    !usable(work->own))
		return;
	if (more(outside, work->own))
		add_finding(work, VC_OOM_KIND_OUTSIDE,
			    "of %s in use the allocator holds %s; who holds the rest is not told "
			    "in full",
			    (uint64_t[]){used.bytes, work->own.bytes});
	else
		add_finding(work, VC_OOM_KIND_FULL,
			    "of %s in use the allocator itself holds %s; %s is free, %s was asked "
			    "for",
			    (uint64_t[]){used.bytes, work->own.bytes, size[VC_OOM_FREE].bytes,
					 requested.bytes});
}

static void find_kinds(struct work *work)
{
	const struct vc_oom_size *size = work->size;
	struct vc_oom_size requested = work->reading->requested;

	if (requested.told && requested.beyond)
		add_finding(work, VC_OOM_KIND_NONSENSE,
			    "no device has such a size: it was computed wrong", NULL);
	if (!find_host(work)) {
		if (more(requested, size[VC_OOM_TOTAL]))
			add_finding(work, VC_OOM_KIND_TOO_LARGE,
				    "%s was asked for; all of the device is %s",
				    (uint64_t[]){requested.bytes, size[VC_OOM_TOTAL].bytes});
		find_limit(work);
		find_fragmented(work);
		find_other_processes(work);
		if (vc_oom_wordings[work->message->wording].group == VC_OOM_GROUP_BFC &&
		    !work->reading->finding_count)
			find_pool(work);
		find_full(work);
	}
	if (!work->reading->finding_count)
		add_finding(work, VC_OOM_KIND_NOT_TOLD, requested.told ?
			    "the text does not tell what the memory was used for, or how much was "
			    "free" :
			    "the text tells no sizes", NULL);
}

static void find_untold(struct work *work)
{
	const struct vc_oom_message *message = work->message;
	const struct vc_oom_size *size = work->size;
	enum vc_oom_group group = vc_oom_wordings[message->wording].group;

	add_untold(work, "which tensors or buffers were live, and which code holds them");
	if (group == VC_OOM_GROUP_TORCH || group == VC_OOM_GROUP_ASYNC) {
		if (!size[VC_OOM_IN_USE].told && work->self < 0)
			add_untold(work, message->process_count ?
				   "which of the listed processes is this one" :
				   "what other processes use");
		add_untold(work, "the largest free piece");
		if (!size[VC_OOM_PRIVATE_POOLS].told && group == VC_OOM_GROUP_TORCH)
			add_untold(work, "what lies in pools of CUDA graphs");
	} else if (!size[VC_OOM_TOTAL].told) {
		add_untold(work, "how much the device has and had free");
	}
	if (message->device < 0)
		add_untold(work, "which device");
	if (!*message->innermost.file)
		add_untold(work, "which line asked");
}

int vc_oom_message_read(const struct vc_oom_message *message, enum vc_text_exact exact,
			struct vc_arena *arena, struct vc_oom_reading *ret)
{
	struct vc_oom_reading reading = {0};
	struct work work = {.message = message, .size = message->sizes, .reading = &reading,
			    .arena = arena, .exact = exact, .self = -1};
	int error;

	find_requested(&work);
	find_own(&work);
	find_self(&work);
	check_counters(&work);
	if (vc_oom_wordings[message->wording].group == VC_OOM_GROUP_TORCH ||
	    vc_oom_wordings[message->wording].group == VC_OOM_GROUP_ASYNC)
		check_torch(&work);
	check_requested(&work);
	check_others(&work);
	check_missing(&work);
	make_ledger(&work);
	error = share_ledger(&work);
	find_kinds(&work);
	find_untold(&work);
	if (error || work.failed)
		return VC_E_NO_MEMORY;
	*ret = reading;
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/triggers.h"

#include <signal.h>
#include <string.h>

#include "capture/inside/agent.h"
#include "capture/inside/device.h"
#include "capture/inside/events.h"
#include "capture/inside/interpreter.h"
#include "capture/inside/interpreter_work.h"
#include "capture/inside/peak.h"
#include "capture/inside/settings.h"
#include "capture/inside/start.h"
#include "capture/inside/system.h"
#include "capture/inside/thread.h"
#include "capture/inside/walk_file.h"

#define STEPS_MAX 64
#define FAILURE_SNAPSHOTS_MAX 3
#define ERROR_SNAPSHOTS_MAX 3
#define FAILURE_WAIT UINT64_C(500000000)
#define SECOND UINT64_C(1000000000)

/* Which moment of a step is shown. */
enum when { WHEN_BEFORE_BACKWARD, WHEN_AFTER_STEP, WHEN_PEAK };

#define WALKS_MAX 4 /* of one step */

/* A walk before a backward pass; walk_plus_one 0: none. */
struct early_walk {
	uint64_t number;
	uint32_t walk_plus_one;
};

static struct {
	uint64_t at_step[STEPS_MAX];
	uint32_t at_steps;
	uint64_t every_steps;
	uint64_t every_time, next_time;      /* nanoseconds; 0: none */
	uint64_t used_percent, used_bytes;   /* 0: none */
	bool used_fired[VC_DEVICES_MAX];
	bool selected;                       /* this rank takes step and time triggers */
	bool at_exit;
	enum when when;                      /* before the backward pass: where there is one */
	struct early_walk before, last;      /* of the step that is watched: see keep_walk */
	uint32_t walks;
	int signal;
	uint64_t asked_seen;
	uint32_t failures_taken;
	uint32_t failures_retried;           /* of these, how many did not count in the end */
	uint64_t error_taken[ERROR_SNAPSHOTS_MAX]; /* which error of which device, plus 1; 0: none */
	uint32_t failure_plus_one;           /* row of a failure that waits for its observer */
	uint64_t failure_time;
} triggers;

static void read_steps(const char *text)
{
	uint64_t step;

	while (text && triggers.at_steps < STEPS_MAX && vc_parse_number(text, &text, &step)) {
		triggers.at_step[triggers.at_steps++] = step;
		if (*text++ != ',')
			break;
	}
}

/* "1000steps", "90s", "10m", "2h". */
static void read_every(const char *text)
{
	uint64_t number;

	if (!text || !vc_parse_number(text, &text, &number) || !number)
		return;
	if (!strcmp(text, "steps") || !strcmp(text, "step"))
		triggers.every_steps = number;
	else if (!strcmp(text, "s"))
		triggers.every_time = number * SECOND;
	else if (!strcmp(text, "m"))
		triggers.every_time = number * 60 * SECOND;
	else if (!strcmp(text, "h"))
		triggers.every_time = number * 3600 * SECOND;
	triggers.next_time = triggers.every_time;
}

static void read_used(const char *text)
{
	const char *end;
	uint64_t number;

	if (!text)
		return;
	if (vc_parse_number(text, &end, &number) && !strcmp(end, "%"))
		triggers.used_percent = number;
	else if (vc_parse_bytes(text, &number))
		triggers.used_bytes = number;
}

static int signal_number(const char *name)
{
	static const struct {
		const char *name;
		int number;
	} signals[] = {{"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT}, {"USR1", SIGUSR1},
		       {"USR2", SIGUSR2}, {"TERM", SIGTERM}, {"ALRM", SIGALRM}, {"WINCH", SIGWINCH}};
	const char *end;
	uint64_t number;

	if (!strncmp(name, "SIG", 3))
		name += 3;
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (!strcmp(name, signals[i].name))
			return signals[i].number;
	return vc_parse_number(name, &end, &number) && !*end && number <= 64 ? (int)number : 0;
}

static bool of_steps(void)
{
	return triggers.selected && (triggers.at_steps || triggers.every_steps);
}

void vc_triggers_start(void)
{
	const char *ranks = vc_setting(VC_SETTING_RANKS), *name = vc_setting(VC_SETTING_ON_SIGNAL);
	const char *when = vc_setting(VC_SETTING_WHEN);
	uint64_t rank_plus_one = vc_store_root()->fixed.rank_plus_one;

	memset(&triggers, 0, sizeof(triggers));
	triggers.selected = !ranks || !rank_plus_one || vc_list_holds(ranks, rank_plus_one - 1);
	read_steps(vc_setting(VC_SETTING_AT_STEP));
	read_every(vc_setting(VC_SETTING_EVERY));
	read_used(vc_setting(VC_SETTING_AT_USED));
	triggers.at_exit = vc_setting(VC_SETTING_AT_EXIT) != NULL;
	triggers.signal = name ? signal_number(name) : 0;
	triggers.when = when && !strcmp(when, "after-step") ? WHEN_AFTER_STEP :
			when && !strcmp(when, "peak")	    ? WHEN_PEAK :
							      WHEN_BEFORE_BACKWARD;
	/* what comes before the end of the first step is the first step, whatever its number */
	if (triggers.when == WHEN_PEAK && of_steps()) {
		vc_store_keep_deaths();
		vc_peak_begin();
	}
}

/*
 * Inside a call that the interpreter made, it is asked too. So is the driver where the program made
 * the call (`asks`), and nothing was born or died since the instant.
 */
static uint32_t take_moment(struct vc_moment *moment, bool asks)
{
	struct vc_instant at = {0};
	uint32_t row;

	moment->phase = vc_thread_local.phase;
	if (moment->at && moment->at->peak_device_plus_one) {
		moment->moment = "peak";
		moment->phase = moment->at->phase;
	}
	moment->thread = vc_thread_local.id ? vc_thread_local.id : (uint32_t)vc_sys_gettid();
	if (asks || vc_thread_local.interpreter) {
		vc_store_instant(&at);
		if (asks && (!moment->at || moment->at->number == at.number))
			vc_device_memory(&moment->memory);
		if (!moment->at)
			moment->at = &at;
	}
	if (moment->at && moment->at->walk_plus_one)
		moment->walk_plus_one = moment->at->walk_plus_one;
	else if (vc_thread_local.interpreter)
		moment->walk_plus_one = vc_work_walk(at.number, moment->failure_plus_one != 0);
	row = vc_store_moment(moment);
	if (row == UINT32_MAX)
		vc_store_count(VC_COUNTER_TRIGGERS_LOST);
	else
		vc_agent_wake();
	return row;
}

uint32_t vc_trigger(const char *trigger, const char *moment, uint64_t failure_plus_one)
{
	struct vc_moment taken = {
		.trigger = trigger,
		.moment = moment,
		.step = vc_start_step(),
		.failure_plus_one = failure_plus_one,
	};

	return take_moment(&taken, false);
}

uint32_t vc_trigger_at(const char *trigger, const char *moment, uint64_t step,
		       const struct vc_instant *at)
{
	struct vc_moment taken = {.trigger = trigger, .moment = moment, .step = step, .at = at};

	return take_moment(&taken, true);
}

/* By the program: here where this thread has the interpreter, else as soon as that can be asked. */
static void trigger_of_program(enum vc_interpreter_trigger asked, const char *trigger,
			       const char *moment, uint64_t step, const struct vc_instant *at)
{
	struct vc_instant now = {0};

	if (!vc_thread_local.interpreter && vc_interpreter_ready()) {
		if (vc_work_holds()) {
			vc_work_moment(trigger, moment, step, at);
			return;
		}
		if (!at)
			vc_store_instant(&now);
		if (vc_interpreter_ask(asked, step, at ? at : &now))
			return;
	}
	vc_trigger_at(trigger, moment, step, at);
}

static bool step_chosen(uint64_t step, const char **ret)
{
	for (uint32_t i = 0; i < triggers.at_steps; i++)
		if (triggers.at_step[i] == step) {
			*ret = "step";
			return true;
		}
	if (triggers.every_steps && step && step % triggers.every_steps == 0) {
		*ret = "every";
		return true;
	}
	return false;
}

/* When, and the longest time from one to the next: what a reader needs to call a program hung. */
static void time_step(struct vc_root *root)
{
	uint64_t now = vc_store_time();
	uint64_t last = vc_word_value(__atomic_load_n(&root->last_step_time, __ATOMIC_RELAXED));
	uint64_t longest = vc_word_value(__atomic_load_n(&root->longest_step, __ATOMIC_RELAXED));

	if (last && now > last && now - last > longest)
		__atomic_store_n(&root->longest_step, vc_word(now - last), __ATOMIC_RELAXED);
	__atomic_store_n(&root->last_step_time, vc_word(now), __ATOMIC_RELAXED);
	__atomic_store_n(&root->last_event_time, vc_word(now), __ATOMIC_RELAXED);
}

static void take_step(const char *trigger, uint64_t step, const struct vc_instant *at)
{
	trigger_of_program(*trigger == 's' ? VC_INTERPRETER_STEP : VC_INTERPRETER_EVERY_STEP, trigger,
			   "after-step", step, at);
}

static void drop_walk(struct early_walk *walk)
{
	if (walk->walk_plus_one)
		vc_walk_remove(walk->walk_plus_one);
	walk->walk_plus_one = 0;
}

/* The last walk before the highest moment, else the first after it; 0: none is wanted. */
static uint32_t choose_walk(uint64_t number)
{
	bool last = !triggers.before.walk_plus_one || number >= triggers.last.number;
	uint32_t chosen = last ? triggers.last.walk_plus_one : triggers.before.walk_plus_one;

	if (!chosen)
		chosen = triggers.before.walk_plus_one;
	if (!number)
		chosen = 0;
	if (chosen != triggers.last.walk_plus_one)
		drop_walk(&triggers.last);
	if (chosen != triggers.before.walk_plus_one)
		drop_walk(&triggers.before);
	triggers.last.walk_plus_one = triggers.before.walk_plus_one = triggers.walks = 0;
	return chosen;
}

/*
 * A step ended whose highest moment is wanted: it is past, and rebuilt from its number. Tensors are
 * looked at before the backward pass, where activations live; a step without one after its end. A
 * step that was not watched, since nobody could know its number before, is shown after it.
 */
static void peak_of_step(uint64_t step)
{
	struct vc_instant at = {0};
	bool known = vc_peak_end(&at), chosen;
	const char *trigger = "step";

	chosen = step_chosen(step, &trigger);
	if (vc_thread_local.interpreter)
		vc_work_backward_taken(step);
	at.walk_plus_one = choose_walk(known && chosen ? at.number : 0);
	if (chosen)
		take_step(trigger, step, known ? &at : NULL);
	if (!step_chosen(step + 1, &trigger))
		return;
	vc_peak_begin();
	if (vc_thread_local.interpreter)
		vc_work_before_backward(trigger, step + 1);
}

/*
 * A step may have several backward passes, and its highest moment be in any: before each, tensors
 * are looked at again while the last pass came higher than all before it.
 */
static void keep_walk(const char *trigger, uint64_t step)
{
	uint64_t highest = vc_peak_number();
	struct vc_instant at = {0};

	if (triggers.last.walk_plus_one && highest <= triggers.last.number)
		return;
	drop_walk(&triggers.before);
	triggers.before = triggers.last;
	vc_store_instant(&at);
	triggers.last = (struct early_walk){at.number, vc_work_walk(at.number, false)};
	if (++triggers.walks < WALKS_MAX && triggers.last.walk_plus_one)
		vc_work_before_backward(trigger, step);
}

void vc_trigger_first_backward(void)
{
	const char *trigger;

	if (triggers.when == WHEN_PEAK && triggers.selected && step_chosen(1, &trigger) &&
	    !vc_start_step())
		vc_work_before_backward(trigger, 1);
}

void vc_trigger_before_backward(const char *trigger, uint64_t step)
{
	if (triggers.when != WHEN_PEAK)
		vc_trigger_at(trigger, "before-backward", step, NULL);
	else
		keep_walk(trigger, step);
}

/*
 * A step ended. A moment before the backward pass was made ready when the step before ended: a step
 * without such a pass, and the first one, is shown after it. So none is lost where the program ends
 * with the step.
 */
static void trigger_of_step(uint64_t step)
{
	bool backward = triggers.when == WHEN_BEFORE_BACKWARD && vc_thread_local.interpreter;
	bool taken = backward && vc_work_backward_taken(step);
	const char *trigger;

	if (!taken && step_chosen(step, &trigger))
		take_step(trigger, step, NULL);
	if (backward && step_chosen(step + 1, &trigger))
		vc_work_before_backward(trigger, step + 1);
}

bool vc_trigger_wants_backward(void)
{
	return triggers.when != WHEN_AFTER_STEP && (triggers.at_steps || triggers.every_steps);
}

void vc_event_step(uint64_t step)
{
	struct vc_root *root = vc_store_root();

	if (!root)
		return;
	__atomic_store_n(&root->step, vc_word(step + 1), __ATOMIC_RELEASE);
	time_step(root);
	if (!triggers.selected)
		return;
	if (triggers.when == WHEN_PEAK)
		peak_of_step(step);
	else
		trigger_of_step(step);
}

void vc_event_request(void)
{
	if (vc_store_ready())
		trigger_of_program(VC_INTERPRETER_REQUEST, "request", "now", vc_start_step(), NULL);
}

/* What came before is shown as it is: it has waited long enough. */
static void show_failure(uint32_t row_plus_one)
{
	if (!row_plus_one)
		return;
	vc_store_failure_outcome(row_plus_one - 1, VC_FAILURE_OUT_OF_MEMORY);
	vc_trigger("oom", "oom", row_plus_one);
}

/*
 * PyTorch tells its observer about a failure a little later, on the same thread, with its lock free
 * and the interpreter's taken: the moment is taken there. Where nobody comes, the agent takes it;
 * until then the failure is open, so that it counts when the process dies of it.
 */
static void defer_failure(uint32_t row)
{
	__atomic_store_n(&triggers.failure_time, vc_store_time(), __ATOMIC_RELAXED);
	show_failure(__atomic_exchange_n(&triggers.failure_plus_one, row + 1, __ATOMIC_ACQ_REL));
}

void vc_event_failure_observed(void)
{
	show_failure(__atomic_exchange_n(&triggers.failure_plus_one, 0, __ATOMIC_ACQ_REL));
}

static void poll_failure(void)
{
	if (__atomic_load_n(&triggers.failure_plus_one, __ATOMIC_ACQUIRE) &&
	    vc_store_time() - __atomic_load_n(&triggers.failure_time, __ATOMIC_RELAXED) >
		    FAILURE_WAIT)
		vc_event_failure_observed();
}

void vc_event_failure(uint32_t row, bool final)
{
	if (row == UINT32_MAX || !final)
		return;
	if (__atomic_fetch_add(&triggers.failures_taken, 1, __ATOMIC_RELAXED) >=
	    FAILURE_SNAPSHOTS_MAX) {
		__atomic_store_n(&triggers.failures_taken, FAILURE_SNAPSHOTS_MAX, __ATOMIC_RELAXED);
		vc_store_failure_outcome(row, VC_FAILURE_OUT_OF_MEMORY);
	} else if (vc_work_observes()) {
		defer_failure(row);
	} else {
		show_failure(row + 1);
	}
}

/*
 * A context that met such an error gives it with every later call: one snapshot for each error of a
 * device, and no more than a few.
 */
void vc_event_error(uint32_t row, uint32_t result, uint16_t device_plus_one)
{
	uint64_t error = (uint64_t)device_plus_one << 32 | (result + UINT64_C(1)), none;

	if (row == UINT32_MAX)
		return;
	for (unsigned int i = 0; i < ERROR_SNAPSHOTS_MAX; i++) {
		none = 0;
		if (__atomic_compare_exchange_n(&triggers.error_taken[i], &none, error, false,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			vc_trigger("error", "error", (uint64_t)row + 1);
			return;
		}
		if (none == error)
			return;
	}
}

/*
 * The snapshot, if there is one already, takes none of the places of failures that are none, but for
 * a few times.
 */
void vc_event_failure_retried(uint32_t row)
{
	uint32_t waiting = row + 1;

	__atomic_compare_exchange_n(&triggers.failure_plus_one, &waiting, 0, false, __ATOMIC_ACQ_REL,
				    __ATOMIC_RELAXED);
	if (__atomic_load_n(&triggers.failures_retried, __ATOMIC_RELAXED) < FAILURE_SNAPSHOTS_MAX &&
	    __atomic_fetch_add(&triggers.failures_retried, 1, __ATOMIC_RELAXED) <
		    FAILURE_SNAPSHOTS_MAX)
		__atomic_fetch_sub(&triggers.failures_taken, 1, __ATOMIC_RELAXED);
}

static void on_signal(int number)
{
	(void)number;
	vc_enter();
	if (vc_store_ready() && !vc_interpreter_ask(VC_INTERPRETER_SIGNAL, vc_start_step(), NULL))
		vc_trigger("signal", "now", 0);
	vc_leave();
}

void vc_triggers_watch_signal(void)
{
	struct sigaction old, action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	if (!triggers.signal || sigaction(triggers.signal, NULL, &old) != 0 ||
	    old.sa_handler != SIG_DFL)
		return;
	sigfillset(&action.sa_mask);
	sigaction(triggers.signal, &action, NULL);
}

static void trigger_of_agent(enum vc_interpreter_trigger asked, const char *trigger)
{
	if (!vc_interpreter_ask(asked, vc_start_step(), NULL))
		vc_trigger(trigger, "now", 0);
}

static void poll_used(void)
{
	struct vc_root *root = vc_store_root();

	for (uint32_t i = 0; i < VC_DEVICES_MAX; i++) {
		struct vc_device *device = &root->device[i];
		uint64_t limit = triggers.used_bytes, live;

		if (!__atomic_load_n(&device->check, __ATOMIC_ACQUIRE))
			continue;
		if (triggers.used_percent)
			limit = device->total / 100 * triggers.used_percent;
		live = vc_store_device_live(i);
		if (!triggers.used_fired[i] && live >= limit) {
			triggers.used_fired[i] = true;
			trigger_of_agent(VC_INTERPRETER_USED, "used");
		} else if (live < limit - limit / 20) {
			triggers.used_fired[i] = false; /* fell by 5 %: armed again */
		}
	}
}

/* Somebody outside wrote a number into the recording: a moment is asked for. */
static void poll_asked(void)
{
	uint64_t asked = __atomic_load_n(&vc_store_root()->asked, __ATOMIC_ACQUIRE);

	if (asked == triggers.asked_seen || !vc_word_good(asked))
		return;
	triggers.asked_seen = asked;
	trigger_of_program(VC_INTERPRETER_ASKED, VC_TRIGGER_ASKED, "now", vc_start_step(), NULL);
}

void vc_triggers_poll(void)
{
	uint64_t now = vc_store_time();

	poll_failure();
	poll_asked();
	if (triggers.used_percent || triggers.used_bytes)
		poll_used();
	if (triggers.every_time && triggers.selected && now >= triggers.next_time) {
		triggers.next_time += (now - triggers.next_time) / triggers.every_time *
				      triggers.every_time + triggers.every_time;
		trigger_of_agent(VC_INTERPRETER_EVERY, "every");
	}
}

uint64_t vc_triggers_due(void)
{
	uint64_t now = vc_store_time();

	if (!triggers.every_time || !triggers.selected)
		return UINT64_MAX;
	return triggers.next_time > now ? triggers.next_time - now : 0;
}

void vc_event_exit(void)
{
	if (!vc_store_ready())
		return;
	vc_event_failure_observed();
	vc_interpreter_finish();
	if (triggers.at_exit)
		vc_trigger("exit", "exit", 0);
	vc_agent_finish();
}

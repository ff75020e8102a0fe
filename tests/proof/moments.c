/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moments BIN held|forks|free|killed [END]: a churning program, its recording, its journal, and
 * what the driver knows.
 *
 *   held    all threads wait between calls: the recording read from outside, now, equals the
 *           driver's own list.
 *   forks   the same while children of all sorts come and go, and the recordings of these.
 *   free    the threads run on: the recording at the moment of a step equals the program's journal
 *           but for the calls that were under way.
 *   killed  an end at any time: the recording that is left against the journal and the driver. END
 *           is kill (SIGKILL), stop (the same after SIGSTOP, read stopped and dead), fault (SIGSEGV
 *           of a thread that allocates), abort (in another thread) or exit (while others allocate).
 *
 * The journal says for two ticks before and after a moment what lived all that time ("must"), what
 * a call under way may have made or ended ("may"), and, by being neither, what was not there.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "journal.h"
#include "live.h"
#include "victim.h"

#define OBJECTS_MAX 65536u
#define CHURN_THREADS 4u   /* where they go on */
#define VICTIM_THREADS 8u  /* where they die */

enum role { MUST, MAY };

struct expected {
	const struct journal_object *object;
	uint64_t address;
	uint32_t kind;
	enum role role;
	bool being_born, dying; /* by calls under way */
	uint32_t thread;        /* that made it */
	bool met;
};

/* How the program dies: told by the journal, or by a signal. */
struct ending {
	const char *name;
	enum journal_end told;
	bool stopped;           /* it is stopped, and read, before */
	int signal, status;     /* that it ends with */
};
static const struct ending endings[] = {
	{"kill", JOURNAL_RUNS, false, SIGKILL, 0},
	{"stop", JOURNAL_RUNS, true, SIGKILL, 0},
	{"fault", JOURNAL_FAULTS, false, SIGSEGV, 0},
	{"abort", JOURNAL_ABORTS, false, SIGABRT, 0},
	{"exit", JOURNAL_EXITS, false, 0, JOURNAL_STATUS},
};

struct proof {
	const char *bin;
	struct journal *journal;
	int descriptor;
	char variable[64];
	bool forks;
	char actor[512];
	const struct ending *ending;
	struct expected expected[OBJECTS_MAX];
	size_t count, may;
	uint64_t compared, may_total, may_most, rows_total, doubt_total;
	unsigned int wrong;
};

/* ---- journal ---- */

static void make_journal(struct proof *proof, uint32_t threads)
{
	pthread_barrierattr_t attributes;

	proof->descriptor = memfd_create("journal", 0);
	if (proof->descriptor < 0 || ftruncate(proof->descriptor, sizeof(struct journal)))
		victim_trouble("memfd");
	proof->journal = mmap(NULL, sizeof(struct journal), PROT_READ | PROT_WRITE, MAP_SHARED,
			      proof->descriptor, 0);
	if (proof->journal == MAP_FAILED)
		victim_trouble("mmap");
	proof->journal->threads = threads;
	pthread_barrierattr_init(&attributes);
	pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&proof->journal->held, &attributes, threads + 1);
	pthread_barrier_init(&proof->journal->released, &attributes, threads + 1);
	snprintf(proof->variable, sizeof(proof->variable), "PROOF_JOURNAL=%d", proof->descriptor);
}

static void drop_journal(struct proof *proof)
{
	munmap(proof->journal, sizeof(struct journal));
	close(proof->descriptor);
}

static int order(const void *left, const void *right)
{
	const struct expected *a = left, *b = right;

	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return (int)a->role - (int)b->role;
}

static void expect(struct proof *proof, const struct journal_thread *table,
		   const struct journal_object *object, uint64_t before, uint64_t after)
{
	uint64_t born_before = __atomic_load_n(&object->born_before, __ATOMIC_ACQUIRE);
	uint64_t born_after = __atomic_load_n(&object->born_after, __ATOMIC_ACQUIRE);
	uint64_t dies_before = __atomic_load_n(&object->dies_before, __ATOMIC_ACQUIRE);
	uint64_t dies_after = __atomic_load_n(&object->dies_after, __ATOMIC_ACQUIRE);
	struct expected one = {
		.object = object,
		.address = __atomic_load_n(&object->address, __ATOMIC_ACQUIRE),
		.kind = __atomic_load_n(&object->kind, __ATOMIC_ACQUIRE),
		.thread = table->thread,
		.being_born = !born_after || born_after > before,
		.dying = dies_before && dies_before < after,
	};

	if (!born_before || born_before > after || (dies_after && dies_after < before) || !one.kind)
		return;
	one.role = one.being_born || one.dying ? MAY : MUST;
	if (proof->count == OBJECTS_MAX) {
		fprintf(stderr, "more objects than the judge has room for\n");
		exit(2);
	}
	proof->may += one.role == MAY;
	proof->expected[proof->count++] = one;
}

/* What the journal knows of the time between two ticks. */
static void expect_all(struct proof *proof, uint64_t before, uint64_t after)
{
	proof->count = proof->may = 0;
	for (unsigned int i = 0; i < proof->journal->threads; i++) {
		struct journal_thread *table = &proof->journal->table[i];
		uint64_t count = __atomic_load_n(&table->count, __ATOMIC_ACQUIRE);

		for (uint64_t k = table->first; k < count; k++) {
			const struct journal_object *object = &table->object[k];
			uint64_t dead = __atomic_load_n(&object->dies_after, __ATOMIC_ACQUIRE);

			if (k == table->first && ((dead && dead < before) || !object->kind))
				table->first++;
			else
				expect(proof, table, object, before, after);
		}
	}
	qsort(proof->expected, proof->count, sizeof(proof->expected[0]), order);
}

/* ---- comparison ---- */

static struct expected *find(struct proof *proof, const struct live_row *row)
{
	size_t low = 0, high = proof->count;

	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct expected *at = &proof->expected[middle];

		if (at->kind < row->kind || (at->kind == row->kind && at->address < row->address))
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < proof->count && proof->expected[low].kind == row->kind &&
	       proof->expected[low].address == row->address; low++)
		if (!proof->expected[low].met && proof->expected[low].object->size == row->size &&
		    proof->expected[low].object->device == row->device)
			return &proof->expected[low];
	return NULL;
}

/*
 * A birth under way whose address nobody but the driver and the recorder know yet. A thread that
 * ends while it fills a record may leave one that does not say whose it is: it can be any.
 */
static struct expected *find_unborn(struct proof *proof, const struct live_row *row)
{
	bool unfilled = row->state == VC_STATE_IN_DOUBT && row->kind == VC_KIND_UNKNOWN;

	for (size_t i = 0; i < proof->count; i++) {
		struct expected *one = &proof->expected[i];

		if (one->being_born && unfilled)
			return one;
		if (one->being_born && !one->met && one->kind == row->kind &&
		    one->thread == row->thread &&
		    (!one->object->size || !row->size || one->object->size == row->size))
			return one;
	}
	return NULL;
}

static void say_expected(const char *where, const char *what, const struct expected *one)
{
	fprintf(stderr,
		"%s: %s: %s 0x%" PRIx64 ", %" PRIu64 " bytes, device %d, ticks %" PRIu64 " %" PRIu64
		" %" PRIu64 " %" PRIu64 ", thread %u\n",
		where, what, vc_kind_text(one->kind), one->address, one->object->size,
		one->object->device, one->object->born_before, one->object->born_after,
		one->object->dies_before, one->object->dies_after, one->thread);
}

/* All that rows and journal say of the address of a row. */
static void explain(struct proof *proof, const char *where, const struct live *live,
		    const struct live_row *row)
{
	fprintf(stderr, "%s: moment %" PRIu64 "\n", where, live->number);
	for (size_t i = 0; i < live->count; i++)
		if (live->row[i].address == row->address)
			live_say(where, "  row", &live->row[i]);
	for (unsigned int i = 0; i < proof->journal->threads; i++) {
		const struct journal_thread *table = &proof->journal->table[i];

		for (uint64_t k = 0; k < table->count; k++) {
			const struct journal_object *object = &table->object[k];
			const struct expected one = {.object = object, .kind = object->kind,
						     .address = object->address,
						     .thread = table->thread};

			if (object->address == row->address)
				say_expected(where, "  journal", &one);
		}
	}
}

/*
 * Looks for each row, those in doubt or all others. In doubt is what a call had not made at the
 * time of reading, which may have begun long after the moment: the others choose first.
 */
static unsigned int compare_rows(struct proof *proof, const char *where, const struct live *live,
				 bool in_doubt, bool states)
{
	unsigned int wrong = 0;

	for (size_t i = 0; i < live->count; i++) {
		const struct live_row *row = &live->row[i];
		struct expected *one = in_doubt ? NULL : find(proof, row);

		if (in_doubt != (row->state == VC_STATE_IN_DOUBT))
			continue;
		if (!one)
			one = find_unborn(proof, row);
		if (!one) {
			if (in_doubt && !states)
				continue; /* of a call that began after the moment */
			live_say(where, "recorded only", row);
			explain(proof, where, live, row);
			wrong++;
			continue;
		}
		one->met = one->met || one->kind == row->kind;
		if (states && ((in_doubt && !one->being_born) ||
			       (row->state == VC_STATE_BEING_FREED && !one->dying))) {
			live_say(where, "in doubt without a call under way", row);
			wrong++;
		}
	}
	return wrong;
}

/*
 * Every row is a must or a may, and every must is a row. `states`: also what rows say of calls
 * under way (their state is that of the time of reading, so for dead programs only).
 */
static unsigned int compare(struct proof *proof, const char *where, const struct live *live,
			    bool states)
{
	unsigned int wrong = compare_rows(proof, where, live, false, states);

	wrong += compare_rows(proof, where, live, true, states);
	for (size_t i = 0; i < proof->count; i++) {
		struct expected *one = &proof->expected[i];

		if (one->role == MUST && !one->met) {
			say_expected(where, "not recorded", one);
			wrong++;
		}
		one->met = false;
	}
	return wrong;
}

static void account(struct proof *proof, const struct live *live)
{
	proof->compared++;
	proof->rows_total += live->count;
	proof->doubt_total += live->in_doubt + live->being_freed;
	proof->may_total += proof->may;
	if (proof->may > proof->may_most)
		proof->may_most = proof->may;
}

/* The comparison itself must see a row that is missing, one too many, and a wrong field. */
static void check_comparison(struct proof *proof, const struct live *live)
{
	struct live copy = *live;
	size_t victim = 0;

	copy.row = calloc(live->count, sizeof(*copy.row));
	memcpy(copy.row, live->row, live->count * sizeof(*copy.row));
	for (size_t i = 0; i < live->count; i++) {
		struct expected *one = find(proof, &live->row[i]);

		if (one && one->role == MUST)
			victim = i;
	}
	fprintf(stderr, "three complaints are meant to follow: ");
	copy.row[victim].size++;
	if (compare(proof, "size", &copy, false) < 2)
		proof->wrong++;
	copy.row[victim] = copy.row[live->count - 1];
	copy.count--;
	if (compare(proof, "left out", &copy, false) < 1)
		proof->wrong++;
	free(copy.row);
}

/* ---- held ---- */

/* A program that ends before it is told to ends its judge, which may be waiting for it for ever. */
static struct journal *watched;
static void on_child(int number)
{
	static const char text[] = "the program ended before its time\n";

	(void)number;
	if (__atomic_load_n(&watched->stop, __ATOMIC_ACQUIRE))
		return;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(3);
	_exit(1);
}

static void watch(struct proof *proof)
{
	watched = proof->journal;
	signal(SIGCHLD, on_child);
}

static void start(struct proof *proof, struct victim *victim)
{
	char program[] = "proof_churn", *arguments[] = {program, NULL};
	const char *environment[] = {proof->variable, "VRAMCORE_EVERY=1steps",
				     "VRAMCORE_MAX_FILES=0",
				     proof->forks ? proof->actor : NULL, NULL};

	victim_start(victim, proof->bin, arguments, environment);
}

static void wait_for_recording(struct victim *victim)
{
	for (int i = 0; i < 3000; i++) {
		if (victim_recording(victim, victim->pid) == 1)
			return;
		usleep(10000);
	}
	fprintf(stderr, "no recording\n");
	exit(1);
}

static void end(struct proof *proof, struct victim *victim)
{
	int status;

	__atomic_store_n(&proof->journal->stop, 1, __ATOMIC_RELEASE);
	status = victim_wait(victim);
	if (status || proof->journal->failures) {
		fprintf(stderr, "the program: status 0x%x, %u calls failed\n", (unsigned int)status,
			proof->journal->failures);
		proof->wrong++;
	}
	for (unsigned int i = 0; i < proof->journal->threads; i++)
		if (proof->journal->table[i].full) {
			fprintf(stderr, "a journal is full\n");
			proof->wrong++;
		}
}

/* Recordings of children: those that allocated show what their own driver says. */
static unsigned int check_children(struct proof *proof, struct victim *victim)
{
	unsigned int with = 0, without = 0;
	struct victim child = *victim;
	struct dirent *entry;
	DIR *list = opendir(victim->recordings);

	while (list && (entry = readdir(list))) {
		struct live judge = {0}, recorded;
		unsigned int boot;
		int pid;

		if (sscanf(entry->d_name, "vramcore-%8x-%d-", &boot, &pid) != 2 ||
		    pid == victim->pid)
			continue;
		if (victim_recording(&child, pid) != 1 ||
		    live_of_recording(child.recording, NULL, &recorded)) {
			fprintf(stderr, "%s: not one recording that can be read\n", entry->d_name);
			proof->wrong++;
			continue;
		}
		victim_map(&child, pid);
		if (live_of_judge(child.map, &judge))
			without++;
		else
			with++;
		proof->wrong += live_compare(entry->d_name, &judge, &recorded);
		proof->wrong += recorded.in_doubt + recorded.being_freed + recorded.faults != 0;
		live_free(&judge);
		live_free(&recorded);
	}
	if (list)
		closedir(list);
	printf("%u children, %u with memory of their own, %u recordings without any\n",
	       proof->journal->children, with, without);
	return with;
}

static void held(struct proof *proof)
{
	unsigned int moments = victim_full() ? 5000 : proof->forks ? 100 : 500;
	unsigned int children = !proof->forks ? 0 : victim_full() ? 3000 : 300;
	bool last = false;
	struct live judge, recorded;
	struct victim victim;

	make_journal(proof, CHURN_THREADS);
	proof->journal->hold_every = 40;
	watch(proof);
	start(proof, &victim);
	wait_for_recording(&victim);
	for (unsigned int i = 0; !last && !proof->wrong; i++) {
		char where[32];
		int result;

		if (children)
			usleep(3000);
		pthread_barrier_wait(&proof->journal->held);
		snprintf(where, sizeof(where), "moment %u", i);
		if (live_of_judge(victim.map, &judge)) {
			fprintf(stderr, "no judge\n");
			exit(2);
		}
		result = live_of_recording(victim.recording, NULL, &recorded);
		if (result) {
			fprintf(stderr, "%s: error %d\n", where, result);
			exit(1);
		}
		proof->wrong += live_compare(where, &judge, &recorded);
		if (recorded.in_doubt || recorded.being_freed || recorded.faults ||
		    recorded.deaths_missing) {
			fprintf(stderr,
				"%s: %" PRIu64 " in doubt, %" PRIu64 " being freed, %" PRIu64
				" faults, %" PRIu64 " deaths missing\n",
				where, recorded.in_doubt, recorded.being_freed, recorded.faults,
				recorded.deaths_missing);
			proof->wrong++;
		}
		account(proof, &recorded);
		live_free(&judge);
		live_free(&recorded);
		last = i + 1 >= moments &&
		       __atomic_load_n(&proof->journal->children, __ATOMIC_RELAXED) >= children;
		if (last) { /* threads must not wait for another one */
			proof->journal->hold_every = 0;
			__atomic_store_n(&proof->journal->stop, 1, __ATOMIC_RELEASE);
		}
		pthread_barrier_wait(&proof->journal->released);
	}
	if (!proof->wrong) {
		end(proof, &victim);
	} else {
		signal(SIGCHLD, SIG_DFL);
		kill(victim.pid, SIGKILL);
	}
	if (proof->forks && check_children(proof, &victim) < children / 4)
		proof->wrong++;
	printf("%" PRIu64 " held moments equal to the driver's list, %" PRIu64
	       " rows on average, %u calls\n",
	       proof->compared, proof->rows_total / (proof->compared ? proof->compared : 1),
	       proof->journal->calls);
	victim_clean(&victim);
	drop_journal(proof);
}

/* ---- free ---- */

static void take_step(struct proof *proof, uint32_t step)
{
	__atomic_store_n(&proof->journal->step_wanted, step, __ATOMIC_RELEASE);
	while (__atomic_load_n(&proof->journal->step_done, __ATOMIC_ACQUIRE) != step)
		usleep(100);
}

static uint64_t read_tick(struct proof *proof)
{
	return journal_tick(proof->journal);
}

static void one_free_moment(struct proof *proof, struct victim *victim, uint32_t step,
			    uint64_t *missing)
{
	struct vc_convert_options options = {
		.at = VC_AT_MOMENT, .number = step - 1, .freed_max = 1};
	const struct vc_convert_options now = {.freed_max = 1};
	struct live live;
	char where[96];
	uint64_t before, after;
	int result;

	take_step(proof, step);
	if (step % 3 == 0) /* some are read when much has happened since */
		usleep(2000);
	result = live_of_recording(victim->recording, &options, &live);
	snprintf(where, sizeof(where), "step %u", step);
	if (result || live.step != step) {
		fprintf(stderr, "%s: error %d\n", where, result);
		exit(1);
	}
	expect_all(proof, proof->journal->step_before, proof->journal->step_after);
	if (live.deaths_missing)
		++*missing;
	else
		proof->wrong += compare(proof, where, &live, false);
	account(proof, &live);
	if (step == 2 && !proof->wrong)
		check_comparison(proof, &live);
	live_free(&live);

	/* The same for now: the ticks are this process's own, so more calls are under way. */
	before = read_tick(proof);
	result = live_of_recording(victim->recording, &now, &live);
	after = read_tick(proof);
	expect_all(proof, before, after);
	snprintf(where, sizeof(where), "now %u, ticks %" PRIu64 " to %" PRIu64, step, before,
		 after);
	if (result) {
		fprintf(stderr, "%s: error %d\n", where, result);
		exit(1);
	}
	if (!live.deaths_missing)
		proof->wrong += compare(proof, where, &live, false);
	if (live.in_doubt > proof->journal->threads) {
		fprintf(stderr, "%s: %" PRIu64 " in doubt\n", where, live.in_doubt);
		proof->wrong++;
	}
	live_free(&live);
}

static void free_running(struct proof *proof)
{
	unsigned int moments = victim_full() ? 4000 : 500;
	uint64_t missing = 0;
	struct victim victim;

	make_journal(proof, CHURN_THREADS);
	watch(proof);
	start(proof, &victim);
	wait_for_recording(&victim);
	while (__atomic_load_n(&proof->journal->started, __ATOMIC_ACQUIRE) < proof->journal->threads)
		usleep(1000);
	for (uint32_t step = 1; step <= moments && !proof->wrong; step++)
		one_free_moment(proof, &victim, step, &missing);
	end(proof, &victim);
	if (missing * 10 > proof->compared) {
		fprintf(stderr, "deaths are missing from %" PRIu64 " of %" PRIu64 " moments\n",
			missing, proof->compared);
		proof->wrong++;
	}
	printf("%" PRIu64 " free moments, %" PRIu64 " rows and %.2f objects of calls under way on "
	       "average (most %" PRIu64 "), %u calls, %" PRIu64 " with deaths missing\n",
	       proof->compared, proof->rows_total / (proof->compared ? proof->compared : 1),
	       (double)proof->may_total / (double)(proof->compared ? proof->compared : 1),
	       proof->may_most, proof->journal->calls, missing);
	victim_clean(&victim);
	drop_journal(proof);
}

/* ---- killed ---- */

/* Calls under way when it died: one a thread at most. */
static unsigned int calls_under_way(const struct proof *proof)
{
	uint32_t call[2 * JOURNAL_THREADS] = {0};
	unsigned int count = 0;

	for (size_t i = 0; i < proof->count; i++) {
		const struct expected *one = &proof->expected[i];
		uint32_t number = one->dying ? one->object->dies_call : one->object->born_call;
		unsigned int k;

		if (one->role != MAY)
			continue;
		for (k = 0; k < count && call[k] != number; k++)
			;
		if (k == count && count < 2 * JOURNAL_THREADS)
			call[count++] = number;
	}
	return count;
}

/* The driver's list against the recording: they differ in calls under way only. */
static unsigned int compare_judge(struct proof *proof, const char *where, const char *path)
{
	struct live judge;
	unsigned int wrong;

	if (live_of_judge(path, &judge))
		return 0;
	wrong = compare(proof, where, &judge, false);
	live_free(&judge);
	return wrong;
}

/* The recording of a process that is stopped or dead. */
static void compare_left(struct proof *proof, struct victim *victim, const char *where)
{
	struct live live = {0};
	int found = victim_recording(victim, victim->pid), result = 0;

	expect_all(proof, UINT64_MAX - 1, UINT64_MAX);
	if (found > 1) {
		fprintf(stderr, "%s: %d recordings\n", where, found);
		proof->wrong++;
	}
	if (found)
		result = live_of_recording(victim->recording, NULL, &live);
	if (result && proof->count > proof->may) {
		fprintf(stderr, "%s: error %d\n", where, result);
		proof->wrong++;
	} else {
		proof->wrong += compare(proof, where, &live, true);
		proof->wrong += compare_judge(proof, where, victim->map);
	}
	if (calls_under_way(proof) > VICTIM_THREADS) {
		fprintf(stderr, "%s: the journal has %u calls under way\n", where,
			calls_under_way(proof));
		proof->wrong++;
	}
	if (live.in_doubt > VICTIM_THREADS) {
		fprintf(stderr, "%s: %" PRIu64 " in doubt\n", where, live.in_doubt);
		proof->wrong++;
	}
	account(proof, &live);
	live_free(&live);
}

static void make_end(struct proof *proof, struct victim *victim, const char *where)
{
	const struct ending *ending = proof->ending;
	char stopped[64];
	int status;

	__atomic_store_n(&proof->journal->end, ending->told, __ATOMIC_RELAXED);
	if (ending->stopped) {
		kill(victim->pid, SIGSTOP);
		if (waitpid(victim->pid, &status, WUNTRACED) != victim->pid || !WIFSTOPPED(status))
			victim_trouble("it did not stop");
		snprintf(stopped, sizeof(stopped), "%s, stopped", where);
		compare_left(proof, victim, stopped);
	}
	if (ending->told == JOURNAL_RUNS)
		kill(victim->pid, SIGKILL);
	status = victim_wait(victim);
	if (ending->signal ? !WIFSIGNALED(status) || WTERMSIG(status) != ending->signal :
			     !WIFEXITED(status) || WEXITSTATUS(status) != ending->status) {
		fprintf(stderr, "%s: status 0x%x\n", where, (unsigned int)status);
		proof->wrong++;
	}
}

static void one_death(struct proof *proof, unsigned int number)
{
	struct timespec life = {0};
	struct victim victim;
	char where[32];
	long most = number % 4 == 0 ? 20000000 : 120000000;

	make_journal(proof, VICTIM_THREADS);
	start(proof, &victim);
	if (number % 4) /* else also while it starts */
		while (!__atomic_load_n(&proof->journal->started, __ATOMIC_ACQUIRE))
			usleep(500);
	life.tv_nsec = (long)(random() % most);
	nanosleep(&life, NULL);
	snprintf(where, sizeof(where), "death %u", number);
	make_end(proof, &victim, where);
	compare_left(proof, &victim, where);
	victim_clean(&victim);
	drop_journal(proof);
}

static int killed(struct proof *proof, const char *name)
{
	unsigned int deaths = victim_full() ? 1000 : 50, made = 0;

	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
		if (!strcmp(endings[i].name, name))
			proof->ending = &endings[i];
	if (!proof->ending)
		return 64;
	srandom((unsigned int)time(NULL));
	for (; made < deaths && !proof->wrong; made++)
		one_death(proof, made);
	printf("%u deaths, %" PRIu64 " rows left on average, %" PRIu64
	       " in doubt or being freed and %" PRIu64 " objects of calls under way in all\n",
	       made, proof->rows_total / (proof->compared ? proof->compared : 1),
	       proof->doubt_total, proof->may_total);
	if (!proof->rows_total)
		proof->wrong++;
	return proof->wrong != 0;
}

int main(int argc, char **argv)
{
	static struct proof proof;

	if (argc != 3 && argc != 4)
		return 64;
	proof.bin = argv[1];
	snprintf(proof.actor, sizeof(proof.actor), "PROOF_ACTOR=%s/proof_actor", argv[1]);
	proof.forks = !strcmp(argv[2], "forks");
	if (!strcmp(argv[2], "held") || proof.forks)
		held(&proof);
	else if (!strcmp(argv[2], "free"))
		free_running(&proof);
	else if (!strcmp(argv[2], "killed"))
		return killed(&proof, argc == 4 ? argv[3] : "kill");
	else
		return 64;
	return proof.wrong != 0;
}

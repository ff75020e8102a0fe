/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/oom_message.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/oom_pattern.h"
#include "formats/error.h"

enum {
	LINE_MAX_BYTES = 16384,
	TAIL_MAX = 256,           /* more than any clause is long */
	STREAMS_MAX = 256,
	FRAME_AGE_MAX = 40,       /* lines between a frame and its message */
	ROWS_MAX = 192,
};

const struct vc_oom_wording_info vc_oom_wordings[VC_OOM_WORDINGS] = {
#define VC_OOM_WORDING(name, group, key, text) {VC_OOM_GROUP_##group, key, text},
#include "analyze/oom_message.def"
};

static const uint64_t patience[VC_OOM_GROUPS] = {
#define VC_OOM_GROUP(name, patience, expected) patience,
#include "analyze/oom_message.def"
};

struct row {
	int wording;              /* -1: a clause */
	enum vc_oom_group group;
	const char *pattern;
	uint8_t targets[VC_OOM_VALUES_MAX];
};

static const struct row rows[] = {
#define VC_OOM_START(wording, pattern, ...) \
	{VC_OOM_WORDING_##wording, 0, pattern, {__VA_ARGS__}},
#define VC_OOM_CLAUSE(group, pattern, ...) {-1, VC_OOM_GROUP_##group, pattern, {__VA_ARGS__}},
#include "analyze/oom_message.def"
};

enum { ROWS = sizeof(rows) / sizeof(*rows) };
_Static_assert((int)ROWS <= (int)ROWS_MAX && VC_OOM_QUANTITIES < 32, "rows are numbered by bytes");

/** The traceback that stands above. */
struct trace {
	bool open, wants_source;
	unsigned left;            /* lines that may follow its end */
	uint64_t age;             /* lines since the last frame */
	bool pinning;
	struct vc_oom_place user, innermost;
};

/** The text of one prefix. */
struct stream {
	struct vc_oom_prefix prefix;
	uint64_t used;            /* when last, for replacement */
	char tail[TAIL_MAX];
	size_t tail_length;
	uint64_t written;
	struct trace trace;
	bool open, ended, touched; /* touched: by the line being read */
	uint64_t start, start_end, quiet;
	struct vc_oom_message message;
	struct vc_oom_message *first, *recent;
	uint64_t messages;
};

struct vc_oom_reader {
	struct stream *streams[STREAMS_MAX];
	unsigned stream_count;
	struct stream *newest, *last; /* last: where the last message was */
	uint64_t lines, clock;
	bool merged, failed, continues, returned;
	enum { PLAIN, ESCAPE, CONTROL_SEQUENCE, COMMAND, COMMAND_ESCAPE } escape;
	uint64_t bytes, messages;
	size_t line_length;
	char line[LINE_MAX_BYTES];
	char window[TAIL_MAX + 1 + LINE_MAX_BYTES];
	/* rows that may stand at a character, ended by ROWS_MAX: they begin a message, or go on */
	uint8_t begins[256][ROWS_MAX + 1], clauses[256][ROWS_MAX + 1];
	struct vc_oom_source sources[STREAMS_MAX];
};

int vc_oom_reader_create(struct vc_oom_reader **ret)
{
	struct vc_oom_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return VC_E_NO_MEMORY;
	for (unsigned first = 0; first < 256; first++) {
		unsigned begins = 0, clauses = 0;

		for (unsigned row = 0; row < ROWS; row++) {
			if (!vc_oom_pattern_begins(rows[row].pattern, (unsigned char)first))
				continue;
			if (rows[row].wording < 0)
				reader->clauses[first][clauses++] = (uint8_t)row;
			else
				reader->begins[first][begins++] = (uint8_t)row;
		}
		reader->begins[first][begins] = ROWS_MAX;
		reader->clauses[first][clauses] = ROWS_MAX;
	}
	*ret = reader;
	return 0;
}

static void stream_destroy(struct stream *stream)
{
	free(stream->first);
	free(stream->recent);
	free(stream);
}

void vc_oom_reader_destroy(struct vc_oom_reader *reader)
{
	if (!reader)
		return;
	for (unsigned i = 0; i < reader->stream_count; i++)
		stream_destroy(reader->streams[i]);
	free(reader);
}

/* ---- messages that have ended ---- */

static bool same_size(const struct vc_oom_size *a, const struct vc_oom_size *b)
{
	return a->told == b->told && a->bytes == b->bytes && a->within == b->within;
}

static bool same_message(const struct vc_oom_message *a, const struct vc_oom_message *b)
{
	bool same = a && a->wording == b->wording && a->device == b->device &&
		    a->process_count == b->process_count && !strcmp(a->shape, b->shape) &&
		    !strcmp(a->allocator, b->allocator) && !strcmp(a->call, b->call);

	for (unsigned i = 0; same && i < VC_OOM_QUANTITIES; i++)
		same = same_size(&a->sizes[i], &b->sizes[i]);
	for (unsigned i = 0; same && i < a->process_count; i++)
		same = a->processes[i].pid == b->processes[i].pid &&
		       same_size(&a->processes[i].size, &b->processes[i].size);
	return same;
}

/** What a reader wants to see first: a failure rather than a warning, then one with a size. */
static unsigned weight(const struct vc_oom_message *message)
{
	bool sized = message->sizes[VC_OOM_REQUESTED].told ||
		     message->sizes[VC_OOM_REQUESTED_EXACT].told || *message->shape;

	return (unsigned)sized +
	       2 * !(message->no_failure || message->wording == VC_OOM_WORDING_EXECUTOR);
}

static void repeat(struct vc_oom_message *kept, const struct vc_oom_message *again)
{
	kept->times += again->times;
	if (!*kept->innermost.file) {
		kept->user = again->user;
		kept->innermost = again->innermost;
		kept->pinning = again->pinning;
	}
}

static void keep(struct vc_oom_reader *reader, struct vc_oom_message **slot,
		 const struct vc_oom_message *message)
{
	if (!*slot)
		*slot = malloc(sizeof(**slot));
	if (*slot)
		**slot = *message;
	else
		reader->failed = true;
}

static void close_message(struct vc_oom_reader *reader, struct stream *stream)
{
	struct vc_oom_message *message = &stream->message;

	if (!stream->open)
		return;
	stream->open = false;
	reader->messages += message->times;
	reader->last = stream;
	if (same_message(stream->recent, message)) {
		repeat(stream->recent, message);
		return;
	}
	if (same_message(stream->first, message)) {
		repeat(stream->first, message);
		return;
	}
	stream->messages++;
	if (!stream->first) {
		keep(reader, &stream->first, message);
	} else if (weight(message) > weight(stream->first)) {
		*stream->first = *message;
		free(stream->recent);
		stream->recent = NULL;
	} else {
		keep(reader, &stream->recent, message);
	}
}

/* ---- what clauses say ---- */

/** The number that follows one of the words with which devices are named: "GPU_0_bfc", "CUDA0". */
static void take_device(struct vc_oom_message *message, const char *name)
{
	static const char *const words[] = {"GPU_", "device:GPU:", "CUDA", "ROCm"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words) && message->device < 0; i++) {
		const char *at = strstr(name, words[i]);

		at = at ? at + strlen(words[i]) : NULL;
		if (at && *at >= '0' && *at <= '9')
			message->device = (int64_t)(strtoul(at, NULL, 10) & 1023);
	}
}

static void take_word(struct vc_oom_message *message, uint8_t target,
		      const struct vc_oom_value *value)
{
	const char *from = value->characters;
	size_t length = value->length;

	if (target == VC_OOM_TO_ALLOCATOR)
		vc_oom_copy(message->allocator, sizeof(message->allocator), from, length);
	else if (target == VC_OOM_TO_TYPE)
		vc_oom_copy(message->type, sizeof(message->type), from, length);
	else if (target == VC_OOM_TO_WHERE)
		vc_oom_copy(message->where, sizeof(message->where), from, length);
	else if (target == VC_OOM_TO_SHAPE)
		vc_oom_copy(message->shape, sizeof(message->shape), from, length);
	else if (target == VC_OOM_TO_CALL)
		vc_oom_copy(message->call, sizeof(message->call), from, length);
	else if (target == VC_OOM_TO_BUFFER_FILE)
		vc_oom_copy(message->buffer.file, sizeof(message->buffer.file), from, length);
	take_device(message, target == VC_OOM_TO_ALLOCATOR ? message->allocator :
			     target == VC_OOM_TO_WHERE ? message->where : "");
}

static void take_value(struct stream *stream, uint8_t target, const struct vc_oom_value *value)
{
	struct vc_oom_message *message = &stream->message;
	struct vc_oom_process *process = &message->processes[message->process_count];
	struct vc_oom_size beyond = {.told = true, .beyond = true, .bytes = UINT64_MAX};

	if (target < VC_OOM_QUANTITIES) {
		message->sizes[target] = value->size;
		return;
	}
	if (value->characters) {
		take_word(message, target, value);
	} else if (target == VC_OOM_TO_DEVICE) {
		message->device = value->number < 1024 ? (int64_t)value->number : -1;
	} else if (target == VC_OOM_TO_PROCESS) {
		if (message->process_count < VC_OOM_PROCESSES_MAX)
			process->pid = value->number;
	} else if (target == VC_OOM_TO_PROCESS_SIZE) {
		if (message->process_count < VC_OOM_PROCESSES_MAX) {
			process->size = value->size;
			message->process_count++;
		} else {
			message->processes_more++;
		}
	} else if (target == VC_OOM_TO_BUFFER_LINE) {
		message->buffer.line = value->number;
	} else if (target == VC_OOM_TO_HOST_SIZE) {
		message->sizes[VC_OOM_REQUESTED] = value->size;
		message->host = true;
	} else if (target == VC_OOM_TO_BEYOND) {
		message->sizes[VC_OOM_REQUESTED] = beyond;
	} else if (target == VC_OOM_TO_END) {
		stream->ended = true;
	} else if (target == VC_OOM_TO_NO_FAILURE) {
		message->no_failure = true;
	} else if (target == VC_OOM_TO_POOL_LIMIT) {
		message->pool_limit = true;
	}
}

static void take_values(struct stream *stream, const struct row *row,
			const struct vc_oom_match *match)
{
	static const struct vc_oom_value nothing;

	take_value(stream, row->targets[0], match->count ? &match->values[0] : &nothing);
	for (unsigned i = 1; i < match->count; i++)
		take_value(stream, row->targets[i], &match->values[i]);
	stream->quiet = 0;
	stream->touched = true;
}

/** True when what the row says first is known already: the first word counts. */
static bool is_known(const struct vc_oom_message *message, uint8_t target)
{
	if (target < VC_OOM_QUANTITIES)
		return message->sizes[target].told;
	switch (target) {
	case VC_OOM_TO_TYPE:
		return *message->type;
	case VC_OOM_TO_BUFFER_FILE:
		return *message->buffer.file;
	case VC_OOM_TO_DEVICE:
		return message->device >= 0;
	case VC_OOM_TO_ALLOCATOR:
		return *message->allocator;
	default:
		return false;
	}
}

/* ---- beginnings ---- */

static void take_trace(struct stream *stream)
{
	const struct trace *trace = &stream->trace;

	if (!trace->open || trace->age > FRAME_AGE_MAX || *stream->message.innermost.file)
		return;
	stream->message.user = trace->user;
	stream->message.innermost = trace->innermost;
	stream->message.pinning = trace->pinning;
}

static bool agree(const struct vc_oom_size *a, const struct vc_oom_size *b)
{
	uint64_t apart = a->bytes > b->bytes ? a->bytes - b->bytes : b->bytes - a->bytes;

	return a->told && b->told && apart <= a->within + b->within;
}

/** True when a beginning belongs to the message that is open: the row is taken into it. */
static bool joins(struct stream *stream, const struct row *row, const struct vc_oom_match *match,
		  size_t at, uint64_t start, uint64_t line)
{
	struct vc_oom_message *message = &stream->message;
	enum vc_oom_group group = vc_oom_wordings[message->wording].group;
	bool bare = row->targets[0] == VC_OOM_TO_NOTHING;

	if (!stream->open)
		return false;
	if (bare && (start < stream->start_end || message->line == line))
		return true; /* says less than what is there */
	if (bare)
		return row->wording != (int)message->wording && stream->quiet <= 1;
	if (start < stream->start_end) { /* the same words, with more after them */
		if (vc_oom_wordings[row->wording].group != group)
			message->wording = (enum vc_oom_wording)row->wording;
		stream->start_end = start + match->end - at;
		take_values(stream, row, match);
		return true;
	}
	if (group == VC_OOM_GROUP_BFC && row->wording == VC_OOM_WORDING_TF_TENSOR) {
		const struct vc_oom_value *shape = &match->values[0];

		if (*message->shape && (strlen(message->shape) != shape->length ||
					memcmp(message->shape, shape->characters, shape->length)))
			return false;
		message->times += *message->shape != '\0';
		message->wording = VC_OOM_WORDING_TF_TENSOR;
	} else if ((message->wording == VC_OOM_WORDING_BFC ||
		    message->wording == VC_OOM_WORDING_XLA) &&
		   row->wording == VC_OOM_WORDING_XLA &&
		   (agree(&message->sizes[VC_OOM_REQUESTED], &match->values[0].size) ||
		    agree(&message->sizes[VC_OOM_REQUESTED_EXACT], &match->values[0].size))) {
		/* what the runtime logs, its exception says again */
		message->times += message->wording == VC_OOM_WORDING_XLA;
		message->wording = VC_OOM_WORDING_XLA;
	} else {
		return false;
	}
	take_values(stream, row, match);
	take_trace(stream);
	return true;
}

static void begin(struct vc_oom_reader *reader, struct stream *stream, const struct row *row,
		  const struct vc_oom_match *match, size_t at, uint64_t start)
{
	if (joins(stream, row, match, at, start, reader->lines + 1))
		return;
	close_message(reader, stream);
	stream->open = true;
	stream->ended = false;
	stream->start = start;
	stream->start_end = start + match->end - at;
	stream->message = (struct vc_oom_message){
		.wording = (enum vc_oom_wording)row->wording, .device = -1,
		.rank = stream->prefix.rank, .line = reader->lines + 1, .times = 1,
	};
	vc_oom_copy(stream->message.label, sizeof(stream->message.label), stream->prefix.label,
		    strlen(stream->prefix.label));
	take_values(stream, row, match);
	take_trace(stream);
}

/* ---- lines ---- */

static void add_text(struct vc_oom_message *message, const char *text, size_t length)
{
	size_t have = strlen(message->text);

	for (size_t i = 0; i < length && have + 1 < sizeof(message->text); i++) {
		bool blank = text[i] == ' ' || text[i] == '\t' || text[i] == '\n';

		if (!blank)
			message->text[have++] = text[i];
		else if (have && message->text[have - 1] != ' ')
			message->text[have++] = ' ';
	}
	message->text[have] = '\0';
}

/** The row that fits at `at` and ends in what is new; ROWS_MAX none. */
static unsigned fit(struct vc_oom_reader *reader, const struct stream *stream, size_t length,
		    size_t at, size_t fresh, bool clauses, struct vc_oom_match *match)
{
	unsigned char first = (unsigned char)reader->window[at];
	const uint8_t *list = clauses ? reader->clauses[first] : reader->begins[first];
	enum vc_oom_group group = vc_oom_wordings[stream->message.wording].group;

	for (; *list != ROWS_MAX; list++) {
		const struct row *row = &rows[*list];

		if (clauses && (row->group != group ||
				is_known(&stream->message, row->targets[0])))
			continue;
		if (vc_oom_pattern_match(row->pattern, reader->window, length, at, match) &&
		    match->end > fresh)
			return *list;
	}
	return ROWS_MAX;
}

static bool inside_number(const char *window, size_t at)
{
	char before = at ? window[at - 1] : ' ';

	return window[at] >= '0' && window[at] <= '9' &&
	       ((before >= '0' && before <= '9') || before == '.' || before == ',');
}

static void scan(struct vc_oom_reader *reader, struct stream *stream, size_t length, size_t fresh)
{
	uint64_t base = stream->written - stream->tail_length;

	for (size_t at = 0; at < length; at++) {
		unsigned char first = (unsigned char)reader->window[at];
		struct vc_oom_match match;
		unsigned row;

		if (reader->begins[first][0] == ROWS_MAX &&
		    (!stream->open || reader->clauses[first][0] == ROWS_MAX))
			continue;
		if (inside_number(reader->window, at))
			continue;
		row = stream->open ? fit(reader, stream, length, at, fresh, true, &match) :
				     ROWS_MAX;
		if (row != ROWS_MAX) {
			take_values(stream, &rows[row], &match);
			at = match.end - 1;
			continue;
		}
		row = fit(reader, stream, length, at, fresh, false, &match);
		if (row == ROWS_MAX)
			continue;
		begin(reader, stream, &rows[row], &match, at, base + at);
		if (rows[row].targets[0] != VC_OOM_TO_NOTHING)
			at = match.end - 1;
	}
}

static void take_text(struct stream *stream, struct vc_oom_reader *reader, size_t length,
		      size_t fresh)
{
	uint64_t base = stream->written - stream->tail_length;
	size_t from = fresh;

	if (!stream->open || !stream->touched)
		return;
	if (!*stream->message.text && stream->start >= base)
		from = (size_t)(stream->start - base);
	else
		add_text(&stream->message, " ", 1);
	add_text(&stream->message, reader->window + from, length - from);
}

/** "--> 174   source" gives the frame above its line. */
static void take_arrow(struct trace *trace, const char *line, size_t length)
{
	size_t at = 0;
	uint64_t number = 0;

	while (at < length && line[at] == '-')
		at++;
	if (at < 2 || at + 2 >= length || line[at] != '>' || line[at + 1] != ' ')
		return;
	for (at += 2; at < length && line[at] >= '0' && line[at] <= '9' && number < 10000000; at++)
		number = number * 10 + (uint64_t)(line[at] - '0');
	while (at < length && line[at] == ' ')
		at++;
	trace->innermost.line = number;
	vc_oom_copy(trace->innermost.source, sizeof(trace->innermost.source), line + at,
		    length - at);
	if (!vc_oom_is_library(trace->innermost.file))
		trace->user = trace->innermost;
}

static void take_source(struct trace *trace, const char *line, size_t length)
{
	trace->wants_source = false;
	while (length && (*line == ' ' || *line == '\t')) {
		line++;
		length--;
	}
	vc_oom_copy(trace->innermost.source, sizeof(trace->innermost.source), line, length);
	if (strstr(trace->innermost.source, "pin_memory"))
		trace->pinning = true;
	if (!vc_oom_is_library(trace->innermost.file))
		trace->user = trace->innermost;
}

/** Follows tracebacks; true for lines that belong to one and are not to be looked at. */
static bool follow_trace(struct trace *trace, const char *line, size_t length)
{
	struct vc_oom_place place;

	if (length && memmem(line, length, "Traceback (most recent call last)", 33)) {
		*trace = (struct trace){.open = true, .left = 2};
		return true;
	}
	if (vc_oom_frame_parse(line, length, &place)) {
		if (!trace->open)
			*trace = (struct trace){.open = true};
		trace->left = 2;
		trace->age = 0;
		trace->innermost = place;
		trace->pinning |= strstr(place.file, "pin_memory") != NULL ||
				  strstr(place.function, "pin_memory") != NULL;
		if (!vc_oom_is_library(place.file))
			trace->user = place;
		trace->wants_source = length && (*line == ' ' || *line == '\t');
		return true;
	}
	if (!trace->open)
		return false;
	trace->age++;
	if (trace->wants_source && length && (*line == ' ' || *line == '\t')) {
		take_source(trace, line, length);
		return true;
	}
	trace->wants_source = false;
	take_arrow(trace, line, length);
	return false;
}

/** Lines that are not indented end a traceback, but for those that IPython puts into one. */
static void end_trace(struct trace *trace, const char *line, size_t length)
{
	if (!trace->open || !length || strchr(" \t-~^>[", *line) ||
	    (*line >= '0' && *line <= '9'))
		return;
	if (!trace->left || !--trace->left)
		trace->open = false;
}

static void read_line(struct vc_oom_reader *reader, struct stream *stream, const char *line,
		      size_t length, bool continues)
{
	size_t fresh = stream->tail_length, total, tail;
	bool of_trace = !continues && follow_trace(&stream->trace, line, length);

	memcpy(reader->window, stream->tail, fresh);
	if (!continues)
		reader->window[fresh++] = '\n';
	memcpy(reader->window + fresh, line, length);
	total = fresh + length;
	stream->touched = false;
	if (!of_trace) {
		scan(reader, stream, total, fresh);
		take_text(stream, reader, total, fresh);
		end_trace(&stream->trace, line, length);
	}
	tail = total < TAIL_MAX ? total : TAIL_MAX;
	stream->written += total - stream->tail_length;
	memcpy(stream->tail, reader->window + total - tail, tail);
	stream->tail_length = tail;
	if (!stream->open)
		return;
	stream->quiet += !stream->touched;
	if (stream->ended ||
	    stream->quiet > patience[vc_oom_wordings[stream->message.wording].group])
		close_message(reader, stream);
}

/** The stream of a prefix; where there are too many, one without messages gives way. */
static struct stream *find_stream(struct vc_oom_reader *reader, const struct vc_oom_prefix *prefix)
{
	struct stream *oldest = NULL, *stream = reader->newest;
	unsigned slot = 0;

	if (stream && !strcmp(stream->prefix.label, prefix->label))
		return stream;
	for (unsigned i = 0; i < reader->stream_count; i++) {
		stream = reader->streams[i];
		if (!strcmp(stream->prefix.label, prefix->label))
			return stream;
		if (!stream->first && !stream->open && (!oldest || stream->used < oldest->used)) {
			oldest = stream;
			slot = i;
		}
	}
	if (reader->stream_count < STREAMS_MAX) {
		slot = reader->stream_count;
		stream = malloc(sizeof(*stream));
		if (!stream) {
			reader->failed = true;
			return NULL;
		}
		reader->streams[reader->stream_count++] = stream;
	} else if (oldest) {
		stream = oldest;
	} else {
		reader->merged = true;
		return reader->streams[0];
	}
	memset(stream, 0, sizeof(*stream));
	stream->prefix = *prefix;
	reader->streams[slot] = stream;
	return stream;
}

static void flush_line(struct vc_oom_reader *reader, bool whole)
{
	struct vc_oom_prefix prefix = {.rank = -1};
	struct stream *stream = reader->newest;

	if (!reader->continues || !stream) {
		vc_oom_prefix_parse(reader->line, reader->line_length, &prefix);
		stream = find_stream(reader, &prefix);
	}
	if (stream && (reader->line_length || whole)) {
		stream->used = ++reader->clock;
		read_line(reader, stream, reader->line + prefix.length,
			  reader->line_length - prefix.length, reader->continues);
		reader->newest = stream;
	}
	reader->line_length = 0;
	reader->continues = !whole;
}

/** True for bytes that are part of a terminal escape. */
static bool eat_escape(struct vc_oom_reader *reader, unsigned char byte)
{
	switch (reader->escape) {
	case PLAIN:
		if (byte == 0x1b)
			reader->escape = ESCAPE;
		return byte == 0x1b;
	case ESCAPE:
		reader->escape = byte == '[' ? CONTROL_SEQUENCE : byte == ']' ? COMMAND : PLAIN;
		return true;
	case CONTROL_SEQUENCE:
		if (byte >= 0x40 && byte <= 0x7e)
			reader->escape = PLAIN;
		return true;
	case COMMAND:
		if (byte == 0x1b)
			reader->escape = COMMAND_ESCAPE;
		else if (byte == 0x07)
			reader->escape = PLAIN;
		return true;
	case COMMAND_ESCAPE:
		reader->escape = PLAIN;
		return true;
	}
	return false;
}

int vc_oom_reader_feed(struct vc_oom_reader *reader, const void *bytes, size_t length)
{
	const unsigned char *from = bytes;

	reader->bytes += length;
	for (size_t i = 0; i < length; i++) {
		unsigned char byte = from[i];

		if (byte == '\n' || byte == '\r') {
			reader->escape = PLAIN; /* one that was cut ends here */
			if (reader->line_length || (byte == '\n' && !reader->returned))
				flush_line(reader, true);
			reader->lines += byte == '\n';
			reader->returned = byte == '\r';
			continue;
		}
		reader->returned = false;
		if (eat_escape(reader, byte) || (byte < 0x20 && byte != '\t') || byte == 0x7f)
			continue;
		reader->line[reader->line_length++] = (char)byte;
		if (reader->line_length == LINE_MAX_BYTES)
			flush_line(reader, false);
	}
	return reader->failed ? VC_E_NO_MEMORY : 0;
}

static int by_line(const void *a, const void *b)
{
	const struct stream *const *one = a, *const *other = b;
	uint64_t x = (*one)->first ? (*one)->first->line : UINT64_MAX;
	uint64_t y = (*other)->first ? (*other)->first->line : UINT64_MAX;

	return x < y ? -1 : x > y;
}

int vc_oom_reader_finish(struct vc_oom_reader *reader, struct vc_oom_log *ret)
{
	struct vc_oom_log log = {.sources = reader->sources};

	if (reader->line_length)
		flush_line(reader, true);
	for (unsigned i = 0; i < reader->stream_count; i++)
		close_message(reader, reader->streams[i]);
	if (reader->failed)
		return VC_E_NO_MEMORY;
	if (reader->stream_count)
		qsort(reader->streams, reader->stream_count, sizeof(*reader->streams), by_line);
	for (unsigned i = 0; i < reader->stream_count; i++) {
		const struct stream *stream = reader->streams[i];

		if (!stream->first)
			break;
		log.sources[log.source_count++] = (struct vc_oom_source){
			.first = stream->first, .messages = stream->messages};
		if (stream->recent && (!log.last || stream->recent->line > log.last->line))
			log.last = stream->recent;
		if (!log.last || stream->first->line > log.last->line)
			log.last = stream->first;
	}
	log.messages = reader->messages;
	log.bytes = reader->bytes;
	log.lines = reader->lines;
	log.sources_merged = reader->merged;
	*ret = log;
	return 0;
}

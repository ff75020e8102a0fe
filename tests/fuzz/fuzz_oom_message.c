/* SPDX-License-Identifier: Apache-2.0 */
/* Any text through the reader of out-of-memory messages and all that follows from them. */
#include <stdint.h>
#include <stdlib.h>

#include "analyze/oom_message.h"
#include "analyze/views/oom_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct vc_oom_reader *reader;
	struct vc_arena arena = {0};
	struct vc_oom_reading reading;
	struct vc_oom_log log;
	size_t half = length / 2;

	if (vc_oom_reader_create(&reader))
		return 0;
	if (vc_oom_reader_feed(reader, bytes, half) ||
	    vc_oom_reader_feed(reader, bytes + half, length - half) ||
	    vc_oom_reader_finish(reader, &log))
		abort();
	for (unsigned i = 0; i < log.source_count; i++)
		if (vc_oom_message_read(log.sources[i].first, VC_TEXT_ROUNDED, &arena, &reading) ||
		    !reading.finding_count)
			abort();
	if (log.last && vc_oom_message_read(log.last, VC_TEXT_EXACT, &arena, &reading))
		abort();
	vc_arena_deinit(&arena);
	vc_oom_reader_destroy(reader);
	return 0;
}

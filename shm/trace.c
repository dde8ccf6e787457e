/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "shm/trace.h"

#include <string.h>

#include "shm/point.h"

static gm_a64 *record_at(const struct gm_trace *trace, uint64_t pos)
{
	char *base = (char *)(uintptr_t)trace + GM_TRACE_RECORDS_AT;

	return (gm_a64 *)(void *)base + pos % GM_TRACE_RECORDS * GM_TRACE_WORDS;
}

/* A writer that died between two stores has left a record that was begun; the
 * next one writes it anew. */
void gm_trace_put(struct gm_trace *trace, const struct gm_trace_record *record)
{
	uint64_t pos = gm_get(&trace->written), words[GM_TRACE_WORDS];
	gm_a64 *to = record_at(trace, pos);

	memcpy(words, record, sizeof(words));
	gm_put(&trace->begun, pos + 1);
	for (uint32_t i = 0; i < GM_TRACE_WORDS; i++) {
		gm_put_release(&to[i], words[i]); /* TRACE.reuse */
		GM_POINT("trace_word");
	}
	gm_put_release(&trace->written, pos + 1); /* TRACE.put */
}

uint32_t gm_trace_get(const struct gm_trace *trace, uint64_t *pos,
		      struct gm_trace_record *ret_records, uint32_t n,
		      uint64_t *ret_lost)
{
	uint64_t written = gm_get_acquire(&trace->written); /* TRACE.put */
	uint64_t at = *pos, words[GM_TRACE_WORDS], lost = 0;
	uint32_t taken = 0;

	while (taken < n && at < written) {
		const gm_a64 *from = record_at(trace, at);
		uint64_t begun;

		for (uint32_t i = 0; i < GM_TRACE_WORDS; i++)
			words[i] = gm_get_acquire(&from[i]); /* TRACE.reuse */
		begun = gm_get(&trace->begun);
		if (begun - at > GM_TRACE_RECORDS) {
			/* Go on in the middle, or the writer is there again. */
			uint64_t next = begun - GM_TRACE_RECORDS / 2;

			next = next < written ? next : written;
			lost += next - at;
			at = next;
			continue;
		}
		memcpy(&ret_records[taken++], words, sizeof(words));
		at++;
	}
	*pos = at;
	*ret_lost = lost;
	return taken;
}

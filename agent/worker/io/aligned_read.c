/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/io/aligned_read.h"

void gm_aligned_read_next(struct gm_aligned_read *cut, uint32_t buffer_bytes,
			  struct gm_read *ret_read)
{
	uint32_t head = (uint32_t)(cut->from % GM_LOAD_ALIGN);
	uint32_t want = buffer_bytes - head;

	if (want > cut->left)
		want = (uint32_t)cut->left;
	*ret_read = (struct gm_read){
		.from = cut->from - head,
		.bytes = (head + want + GM_LOAD_ALIGN - 1) / GM_LOAD_ALIGN *
			 GM_LOAD_ALIGN,
		.head = head,
		.want = want,
	};
	cut->from += want;
	cut->left -= want;
}

enum gm_read_is gm_aligned_read_took(struct gm_read *read, uint32_t bytes)
{
	uint32_t got = read->begun + bytes;

	if (got >= read->head + read->want)
		return GM_READ_WHOLE;
	/* No new bytes: the file ends here or was truncated. */
	if (got <= read->got)
		return GM_READ_AT_END;
	read->got = got;
	read->begun = got / GM_LOAD_ALIGN * GM_LOAD_ALIGN;
	return GM_READ_SHORT;
}

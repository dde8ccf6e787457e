/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * validate - may this agent go on writing where the previous one stopped?
 *
 * The previous agent stopped between any two stores, and the file may have been
 * damaged since.  Everything is checked, and one wrong thing refuses the whole:
 * a segment that is replaced costs its readers an attach, a segment that is
 * trusted wrongly gives them wrong answers.
 */
#ifndef GM_DAEMON_SEGMENT_VALIDATE_H
#define GM_DAEMON_SEGMENT_VALIDATE_H

#include <stdint.h>

#include "agent/common/refusal.h"
#include "agent/daemon/segment/block_alloc.h"
#include "shm/check.h"

/* A slot, and the block that it names. */
struct gm_block {
	uint32_t unit; /* 0: none, and then only version holds */
	uint32_t bytes;
	uint64_t version; /* of the slot, also when it names nothing */
	uint32_t slot;    /* of the directory; not of a row's facts */
	uint32_t kind;
	uint32_t owner_uid;
	uint32_t flags; /* GM_OBJECT_* */
	char name[GM_NAME_BYTES];
};

/* The contents of a segment, for the agent that adopts it.  In private
 * memory. */
struct gm_adopted_state {
	struct gm_heap heap; /* every block of slots and holders claimed */
	struct gm_block objects[GM_OBJECTS];
	struct gm_block rows[GM_ROWS];
	uint32_t rows_used;
	uint64_t promised[GM_ROWS]; /* charges of committed maps */
	struct gm_holder_image holders[GM_HOLDERS];
};

/*
 * gm_segment_check - validate a whole segment
 *
 * map		that gm_check_map() has passed
 * boot_id	of this boot: another's processes are all gone
 * ret_past	filled on success, and has a heap to give back then
 * ret_why	what is wrong
 *
 * Returns	0
 *		-EPROTO		to be replaced
 *		-ENOMEM
 */
int gm_segment_check(const struct gm_map *map, const uint64_t boot_id[2],
		     struct gm_adopted_state *ret_past,
		     char ret_why[GM_WHY_BYTES]);

/*
 * gm_segment_check_words - do a block's words make sense, wherever they are?
 *
 * words	@bytes of them, in private memory
 * n_rows	numbers of rows are below this
 * ret_why	what is wrong
 *
 * Returns	0, and the words that are numbers of rows lie apart from all
 *		others
 *		-EPROTO
 */
int gm_segment_check_words(const uint64_t *words, uint64_t bytes,
			   uint32_t n_rows, char ret_why[GM_WHY_BYTES]);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * rows - read and write the device table: static facts in a block, moving facts
 * in eight buffers (seq.h).
 */
#ifndef GM_ROWS_H
#define GM_ROWS_H

#include "shm/objects.h"

/* The number of rows that have been given out. */
uint32_t gm_rows_used(const struct gm_map *map);

/*
 * gm_rows_facts - read the static facts of one row, as one publication
 *
 * Returns	0
 *		-ENODEV		no such row
 *		-EAGAIN		the writer was writing during all attempts
 *		-EPROTO		the segment is damaged
 */
int gm_rows_facts(const struct gm_map *map, uint32_t row,
		  struct gm_row_image *ret_image);

/* Read the moving facts of one row; returns as gm_rows_facts(). */
int gm_rows_moving(const struct gm_map *map, uint32_t row,
		   struct gm_moving_image *ret_image);

/*
 * gm_rows_read - read both, of the same device: a row may be given to another
 *
 * Returns	as gm_rows_facts()
 */
int gm_rows_read(const struct gm_map *map, uint32_t row,
		 struct gm_row_image *ret_facts,
		 struct gm_moving_image *ret_moving);

/* Writer: publish moving facts. */
void gm_rows_move(struct gm_row *row, const struct gm_moving_image *image);

#endif

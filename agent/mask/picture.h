/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * picture - draw a mask for people: in characters, or as an image.
 *
 * An element is seen where it is 0, and masked where it is 1 (u8), or minus
 * infinity or the least number of its type, which some models write instead.
 * Any other value, such as a bias, is neither.
 */
#ifndef GM_PICTURE_H
#define GM_PICTURE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define GM_PICTURE_COLS 64u
#define GM_PICTURE_ROWS 32u
/* Each line has a newline, and the last a NUL behind it. */
#define GM_PICTURE_TEXT ((GM_PICTURE_COLS + 1) * GM_PICTURE_ROWS + 1)

/* Row-major, without gaps. */
struct gm_picture {
	const void *elements; /* of any alignment */
	uint32_t dtype;       /* enum gpumap_dtype: U8, F16, BF16 or F32 */
	uint64_t rows, cols;
};

/*
 * gm_picture_print - draw a mask in characters
 *
 * ret_text	receives a line for each row and a character for each column,
 *		'.' seen, '#' masked; of a mask with more than GM_PICTURE_ROWS
 *		or GM_PICTURE_COLS a character stands for several elements that
 *		lie together, '+' where they differ, or are neither
 *
 * Returns	ret_text
 * Cost		reads every element once
 * Threads	any
 */
char *gm_picture_print(const struct gm_picture *picture,
		       char ret_text[GM_PICTURE_TEXT]);

/*
 * gm_picture_write - write a mask as a PGM image (P5), a pixel for each element
 *
 * Seen is white, masked black, neither grey.  Flushes.
 *
 * Returns	0, -EIO, or another error of writing
 * Threads	any, one per @to
 */
int gm_picture_write(const struct gm_picture *picture, FILE *to);

#endif

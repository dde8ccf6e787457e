/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/mask/picture.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "agent/mask/mask.h"
#include "gpumap.h"
#include "lib/model/plan/checked.h"

/* bits: both together mean neither */
enum shade { SEEN = 1, MASKED = 2, NEITHER = 3 };

#define ROOM 4096u /* pixels of one write to a file */

/* The shade of an element: 0 of either sign is seen; minus infinity, or the
 * finite number next to it, is masked. */
static enum shade check(uint32_t bits, uint32_t sign, uint32_t infinity)
{
	if ((bits & ~sign) == 0)
		return SEEN;
	return bits == infinity || bits == infinity - 1 ? MASKED : NEITHER;
}

static enum shade shade(const struct gm_picture *p, uint64_t i)
{
	const unsigned char *at = p->elements;
	uint16_t half;
	uint32_t word;

	switch (p->dtype) {
	case GPUMAP_DTYPE_U8:
		return at[i] ? MASKED : SEEN;
	case GPUMAP_DTYPE_F32:
		memcpy(&word, at + i * sizeof(word), sizeof(word));
		return check(word, 0x80000000, 0xff800000);
	default:
		memcpy(&half, at + i * sizeof(half), sizeof(half));
		return check(half, 0x8000,
			     p->dtype == GPUMAP_DTYPE_F16 ? 0xfc00 : 0xff80);
	}
}

/* The first element of cell @i of @cells over @n elements; cells <= n. */
static uint64_t edge(uint64_t n, uint64_t cells, uint64_t i)
{
	return n / cells * i + n % cells * i / cells;
}

/* Add row @y of elements to the shades of the cells. */
static void look(const struct gm_picture *p, uint64_t y, uint64_t cells,
		 unsigned int *found)
{
	uint64_t x = 0;

	for (uint64_t cell = 0; cell < cells; cell++)
		for (; x < edge(p->cols, cells, cell + 1); x++)
			found[cell] |= shade(p, y * p->cols + x);
}

char *gm_picture_print(const struct gm_picture *picture,
		       char ret_text[GM_PICTURE_TEXT])
{
	const uint64_t cols = gm_min(picture->cols, GM_PICTURE_COLS);
	const uint64_t rows = gm_min(picture->rows, GM_PICTURE_ROWS);
	char *to = ret_text;
	uint64_t y = 0;

	for (uint64_t row = 0; row < rows; row++) {
		unsigned int found[GM_PICTURE_COLS] = { 0 };

		for (; y < edge(picture->rows, rows, row + 1); y++)
			look(picture, y, cols, found);
		for (uint64_t cell = 0; cell < cols; cell++)
			*to++ = " .#+"[found[cell]];
		*to++ = '\n';
	}
	*to = '\0';
	return ret_text;
}

int gm_picture_write(const struct gm_picture *picture, FILE *to)
{
	static const unsigned char greys[] = {
		[SEEN] = 255, [MASKED] = 0, [NEITHER] = 128
	};
	const uint64_t n = picture->rows * picture->cols;
	unsigned char pixels[ROOM];
	bool good;

	errno = 0;
	good = fprintf(to, "P5\n%" PRIu64 " %" PRIu64 "\n255\n", picture->cols,
		       picture->rows) > 0;
	for (uint64_t i = 0; good && i < n;) {
		size_t step = 0;

		for (; step < ROOM && i < n; step++, i++)
			pixels[step] = greys[shade(picture, i)];
		good = fwrite(pixels, 1, step, to) == step;
	}
	if (good && fflush(to) == 0)
		return 0;
	return errno ? -errno : -EIO;
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* picture: masks as a person sees them, character by character. */

#include <errno.h>
#include <float.h>
#include <math.h>

#include "agent/mask/mask.h"
#include "agent/mask/picture.h"
#include "gpumap.h"
#include "tests/support/tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static char text[GM_PICTURE_TEXT];

/* A mask made by rule, to free(). */
static void *make(const struct gm_mask_spec *spec, uint32_t dtype,
		  struct gm_picture *ret)
{
	struct gm_mask_size size;
	void *bytes = NULL;

	if (gm_mask_check(spec, dtype, UINT64_MAX, &size, NULL) == 0)
		bytes = malloc(size.bytes + 1);
	if (!bytes)
		abort();
	gm_mask_fill(spec, dtype, 0, size.rows, bytes);
	*ret = (struct gm_picture){ bytes, dtype, size.rows, size.cols };
	return bytes;
}

static void small_masks_are_whole(void)
{
	static const struct gm_mask_spec spec = { GM_MASK_SLIDING, 3, 2, 1, 0 };
	static const uint32_t dtypes[] = { GPUMAP_DTYPE_U8, GPUMAP_DTYPE_F16,
					   GPUMAP_DTYPE_BF16,
					   GPUMAP_DTYPE_F32 };

	for (size_t i = 0; i < COUNT(dtypes); i++) {
		struct gm_picture p;
		void *bytes = make(&spec, dtypes[i], &p);

		STR(gm_picture_print(&p, text), "#..##\n##..#\n###..\n");
		free(bytes);
	}
}

static void nothing_is_drawn_of_nothing(void)
{
	struct gm_picture p = { NULL, GPUMAP_DTYPE_F32, 0, 7 };

	STR(gm_picture_print(&p, text), "");
	p.rows = 2;
	p.cols = 0;
	STR(gm_picture_print(&p, text), "\n\n");
}

/* 33 rows over 32 lines: only the last line stands for two. */
static void large_masks_shrink(void)
{
	struct gm_mask_spec spec = { GM_MASK_CAUSAL, 33, 0, 0, 0 };
	struct gm_picture p;
	void *bytes = make(&spec, GPUMAP_DTYPE_U8, &p);
	const char *last;

	gm_picture_print(&p, text);
	EQ(strlen(text), 32 * 34);
	last = text + 31 * 34;
	EQ(strspn(text, "."), 1);
	EQ(strspn(text + 1, "#"), 32);
	EQ(strspn(last, "."), 32);
	EQ(last[32], '+');
	EQ(last[33], '\n');
	free(bytes);
}

/* A mask of 8 by 8 blocks, each all seen or all masked, over 512 by 256. */
static void every_element_counts_in_its_cell(void)
{
	static unsigned char bytes[256][512];
	const struct gm_picture p = { bytes, GPUMAP_DTYPE_U8, 256, 512 };
	int wrong = 0;

	for (int y = 0; y < 256; y++)
		for (int x = 0; x < 512; x++)
			bytes[y][x] = (y / 8 + x / 8) % 3 == 0;
	gm_picture_print(&p, text);
	EQ(strlen(text), 32 * 65);
	for (int y = 0; y < 32; y++)
		for (int x = 0; x < 64; x++)
			wrong += text[y * 65 + x] !=
				 ((y + x) % 3 == 0 ? '#' : '.');
	EQ(wrong, 0);
	/* One element of a cell, at its very end. */
	bytes[15][23] = 1;
	bytes[255][511] = 1;
	gm_picture_print(&p, text);
	EQ(text[1 * 65 + 2], '#');
	EQ(text[1 * 65 + 1], '.');
	EQ(text[31 * 65 + 63], '+');
}

static void other_numbers_are_neither(void)
{
	static const float f32[] = { 0,        -0.0f,  -INFINITY, -FLT_MAX,
				     INFINITY, -1e30f, 1,         NAN,
				     FLT_MIN,  FLT_MAX };
	static const uint16_t f16[] = {
		0,      0x8000, 0xfc00, 0xfbff, 0x7c00,
		0xfbfe, 0x3c00, 0xfc01, 1,      0xff80
	};
	static const uint16_t bf16[] = {
		0,      0x8000, 0xff80, 0xff7f, 0x7f80,
		0xff7e, 0x3f80, 0xff81, 1,      0xfc00
	};
	static const uint8_t u8[] = { 0, 1, 2, 255 };
	struct gm_picture p = { f32, GPUMAP_DTYPE_F32, 1, COUNT(f32) };

	STR(gm_picture_print(&p, text), "..##++++++\n");
	p = (struct gm_picture){ f16, GPUMAP_DTYPE_F16, 1, COUNT(f16) };
	STR(gm_picture_print(&p, text), "..##++++++\n");
	p = (struct gm_picture){ bf16, GPUMAP_DTYPE_BF16, 1, COUNT(bf16) };
	STR(gm_picture_print(&p, text), "..##++++++\n");
	p = (struct gm_picture){ u8, GPUMAP_DTYPE_U8, 1, COUNT(u8) };
	STR(gm_picture_print(&p, text), ".###\n");
}

/* ---- images -------------------------------------------------------------- */

static void images_have_a_pixel_per_element(void)
{
	static const float elements[] = { 0, -INFINITY, 2, -INFINITY, 0, 0 };
	static const char want[] = "P5\n3 2\n255\n\xff\0\x80\0\xff\xff";
	const struct gm_picture p = { elements, GPUMAP_DTYPE_F32, 2, 3 };
	char *got = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&got, &n);

	if (!OK(f))
		return;
	EQ(gm_picture_write(&p, f), 0);
	fclose(f);
	EQ(n, sizeof(want) - 1);
	OK(n == sizeof(want) - 1 && memcmp(got, want, n) == 0);
	free(got);
}

static void large_images_are_whole(void)
{
	struct gm_mask_spec spec = { GM_MASK_CAUSAL, 100, 31, 0, 0 };
	struct gm_picture p;
	void *bytes = make(&spec, GPUMAP_DTYPE_BF16, &p);
	const size_t head = strlen("P5\n131 100\n255\n");
	size_t n = 0, wrong = 0;
	char *got = NULL;
	FILE *f = open_memstream(&got, &n);

	if (!OK(f))
		return;
	EQ(gm_picture_write(&p, f), 0);
	fclose(f);
	if (EQ(n, head + 13100))
		for (size_t i = 0; i < 13100; i++)
			wrong += (got[head + i] == 0) !=
				 (i % 131 > i / 131 + 31);
	EQ(wrong, 0);
	free(got);
	free(bytes);
}

static void a_full_disk_is_told(void)
{
	static const uint8_t elements[20000];
	const struct gm_picture p = { elements, GPUMAP_DTYPE_U8, 1, 20000 };
	FILE *f = fopen("/dev/full", "we");

	if (!f) {
		SKIP(2, "no /dev/full");
		return;
	}
	EQ(gm_picture_write(&p, f), -ENOSPC);
	fclose(f);
	f = fopen("/dev/full", "we");
	/* The length is right also for a picture that fits the buffer. */
	EQ(gm_picture_write(
		   &(struct gm_picture){ elements, GPUMAP_DTYPE_U8, 1, 9 }, f),
	   -ENOSPC);
	fclose(f);
}

TAP_CASE()
{
	small_masks_are_whole();
	nothing_is_drawn_of_nothing();
	large_masks_shrink();
	every_element_counts_in_its_cell();
	other_numbers_are_neither();
	images_have_a_pixel_per_element();
	large_images_are_whole();
	a_full_disk_is_told();
	return tap_done();
}

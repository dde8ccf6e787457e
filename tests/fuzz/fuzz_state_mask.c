/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* State files of masks: whatever is taken is of a mask that can be, and the
 * same when it is written down and read again. */

#include "tests/fuzz/fuzz_state.h"

#include "agent/daemon/masks/state_text.h"
#include "agent/daemon/masks/validate.h"
#include "gpumap.h"

static int read_text(const char *text, size_t bytes, struct gm_mask_file *mask)
{
	char why[GM_WHY_BYTES] = "";

	return fuzz_state_must(
		gm_mask_text_read("m.mask", text, bytes, mask, why), why);
}

static void check_sense(const struct gm_mask_file *mask)
{
	struct gm_mask_image image = mask->image;
	char why[GM_WHY_BYTES] = "";

	MUST(strcmp(image.object.name, "m") == 0);
	MUST(mask->version > 0 && mask->version >> (64 - GM_UNIT_BITS) == 0);
	MUST(mask->n_rows <= GM_ROWS);
	MUST((mask->n_rows == 0) == (image.map[0] != '\0'));
	MUST(gm_mask_check_image(&image, UINT64_MAX, why) == 0);
	MUST(memcmp(&image, &mask->image, sizeof(image)) == 0);
	MUST((mask->data != NULL) == gm_mask_text_has_data(&image));
}

static void check_again(const struct gm_mask_file *mask)
{
	struct gm_mask_file copy;
	size_t n;
	char *text;

	MUST(gm_mask_text_make(mask, &text, &n) == 0);
	MUST(read_text(text, n, &copy) == 0);
	MUST(copy.version == mask->version && copy.n_rows == mask->n_rows);
	MUST(memcmp(&copy.image, &mask->image, sizeof(copy.image)) == 0);
	MUST(copy.n_rows == 0 ||
	     memcmp(copy.uuids, mask->uuids, 16 * copy.n_rows) == 0);
	MUST(copy.data == NULL ||
	     memcmp(copy.data, mask->data, copy.image.bytes) == 0);
	free(text);
	gm_mask_file_free(&copy);
}

static void try_text(const char *text, size_t bytes)
{
	struct gm_mask_file mask;

	if (read_text(text, bytes, &mask) != 0)
		return;
	check_sense(&mask);
	check_again(&mask);
	gm_mask_file_free(&mask);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_state(data, size, try_text);
	return 0;
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * State files of every kind, as they are and with a head that is right:
 * whatever is believed has rows below its number of devices, each in a word of
 * its own, and is as good with other numbers of rows.
 */

#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <string.h>

#include "agent/daemon/segment/validate.h"
#include "tests/support/state_files.h"

/* A number of a row is turned round. */
static void turn_row(uint32_t *row, void *arg)
{
	const struct gm_state_file *file = arg;

	MUST((char *)row >= (char *)gm_state_file_words(file));
	MUST((char *)(row + 1) <= (const char *)file + file->bytes);
	MUST(*row < file->n_uuids || *row >= GM_ROWS - file->n_uuids);
	*row = GM_ROWS - 1 - *row;
}

static void check_rows(const struct gm_state_kind *kind,
		       struct gm_state_file *file)
{
	uint64_t *words = gm_state_file_words(file);
	uint64_t bytes = gm_state_file_word_bytes(file);
	uint64_t *before = malloc(bytes);
	char why[GM_WHY_BYTES] = "";

	MUST(before != NULL);
	memcpy(before, words, bytes);
	kind->visit_rows(words, turn_row, file);
	MUST(gm_segment_check_words(words, bytes, GM_ROWS, why) == 0);
	kind->visit_rows(words, turn_row, file);
	MUST(memcmp(before, words, bytes) == 0);
	if (kind->clear_moving != NULL)
		kind->clear_moving(words);
	free(before);
}

static void try_file(uint32_t i, struct gm_state_file *file, size_t bytes)
{
	const struct gm_state_kind *kind = state_kinds[i];
	char why[GM_WHY_BYTES] = "";
	int ret = gm_state_file_check(kind, state_names[i], file, bytes, why);

	MUST(ret == 0 || ret == -EPROTO || ret == -EBADMSG);
	MUST((ret == 0) == (why[0] == '\0'));
	if (ret != 0)
		return;
	MUST(file->bytes == bytes && file->n_uuids <= GM_ROWS);
	if (kind->number < GM_STATE_SINGLE)
		MUST(strcmp(gm_state_file_object(file)->name, "m") == 0);
	if (kind->visit_rows != NULL)
		check_rows(kind, file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_state_file *file = malloc(size + 1);

	MUST(file != NULL);
	for (uint32_t i = 0; i < N_STATE_KINDS; i++) {
		struct gm_state_file *good =
			gm_state_file_new(state_kinds[i], 0, 0);

		MUST(good != NULL);
		memcpy(file, data, size);
		try_file(i, file, size);
		if (size >= sizeof(*file)) {
			good->bytes = size;
			good->n_uuids = file->n_uuids;
			memcpy(file, data, size);
			memcpy(file, good, sizeof(*good));
			gm_state_file_seal(file);
			try_file(i, file, size);
		}
		free(good);
	}
	free(file);
	return 0;
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Headers of GGUF files, the facts in their metadata, and the layers of their
 * tensors.
 *
 *	bytes 0-1	bytes of the file that the input does not have,
 *			little-endian
 *	then		the start of the file
 */

#include "tests/fuzz/fuzz_checkpoint.h"

#include "gpumap.h"
#include "gpumap/model.h"

#define HEAD 2

/* Read the metadata alone, which have been read with the rest. */
static void check_pairs(const struct gm_weights *ws, const uint8_t *data,
			uint64_t bytes)
{
	struct gm_weights_config config = { .n_layers = 7 };
	struct gm_weights_meta meta = { .bytes = ws->files[0].pairs_end,
					.format = GPUMAP_META_GGUF };
	struct gm_reason why = { "" };

	meta.data = copy_of(data, meta.bytes);
	if (gm_weights_config_read(&meta, &why, &config) != 0) {
		MUST(why.text[0] != '\0' && config.n_layers == 7);
		config.n_layers = 0;
	}
	MUST(config.n_layers <= GM_WEIGHTS_LAYERS);
	MUST((config.k_dim != 0) == (config.n_kv_heads != 0));
	free(meta.data);
	check_layers(ws, bytes, &config);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_weights_split split;
	struct gm_reason why;
	struct gm_weights ws = no_weights(&why);
	uint64_t file_bytes, at = 0;
	int ret;

	MUST(gm_weights_add_file(&ws, "input") == 0);
	if (size >= HEAD) {
		size -= HEAD;
		file_bytes = size + data[0] + ((uint64_t)data[1] << 8);
		data += HEAD;
		ws.files[0].header = copy_of(data, size);
		ret = gm_weights_gguf_header(&ws, 0, ws.files[0].header, size,
					     file_bytes, &split);
		if (ret != 0) {
			check_refusal(ret, &ws);
			MUST(ret != -EAGAIN || size < file_bytes);
		}
		if (ret == 0)
			gm_weights_keep_names(&ws, 0, 0);
		for (size_t i = 0; i < ws.n; i++) {
			MUST(gm_weights_type(ws.v[i].type) != NULL);
			MUST(ws.v[i].begin >= at);
			at = ws.v[i].begin + ws.v[i].bytes;
			/* An empty one may lie behind the file. */
			MUST(ws.v[i].bytes == 0 || at <= file_bytes);
		}
		if (ret == 0)
			check_pairs(&ws, data, file_bytes);
	}
	gm_weights_free(&ws);
	return 0;
}

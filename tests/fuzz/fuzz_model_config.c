/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* config.json: the input is the text. */

#include "tests/fuzz/fuzz_checkpoint.h"

#include "gpumap.h"
#include "gpumap/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct gm_weights_meta meta = { .data = copy_of(data, size),
					      .bytes = size,
					      .format =
						      GPUMAP_META_CONFIG_JSON };
	struct gm_weights_config config = { .n_layers = 7 };
	struct gm_reason why = { "" };
	struct gm_weights ws = { .why = &why };
	int ret = gm_weights_config_read(&meta, &why, &config);

	if (ret != 0)
		check_refusal(ret, &ws);
	MUST(ret == 0 || config.n_layers == 7);
	MUST(config.n_layers <= GM_WEIGHTS_LAYERS);
	MUST((config.k_dim != 0) == (config.n_kv_heads != 0));
	MUST(memchr(config.type, '\0', sizeof(config.type)) != NULL);
	free(meta.data);
	return 0;
}

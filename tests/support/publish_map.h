/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * publish_map - publish a map as a change of a client would, without a file.
 */
#ifndef TESTS_SUPPORT_PUBLISH_MAP_H
#define TESTS_SUPPORT_PUBLISH_MAP_H

#include <stdlib.h>

#include "agent/daemon/map/map_kind.h"

/* Returns 0, -ENOMEM, or as gm_publish_prepare(). */
static inline int publish_map(struct gm_daemon *d,
			      const struct gm_layers *layers,
			      char why[GM_WHY_BYTES], uint64_t *ret_version)
{
	uint64_t *words = gm_map_kind_words(layers);
	struct gm_put put;
	int ret = words != NULL ? gm_publish_prepare(d, &gm_map_kind, words,
						     why, &put)
				: -ENOMEM;

	if (ret == 0) {
		gm_publish_store(d, &gm_map_kind, words, &put);
		*ret_version = put.block.version;
	}
	free(words);
	return ret;
}

#endif

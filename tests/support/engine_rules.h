/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * engine_rules.h - where an engine places a model's layers, by its own rules,
 * if it is started with some settings.
 *
 * Each rule is that of the engine's sources, written anew, and knows nothing of
 * gpumap.  A device is named as the settings do, by a UUID whose first byte is
 * its row and one.
 *
 *	llama.cpp	load_tensors() of src/llama-model.cpp, the arguments of
 *			common/arg.cpp, overrides of src/llama-model-loader.cpp
 *	vLLM, SGLang	get_pp_indices() of distributed/utils.py
 *	mistral.rs	init_mapper(), DeviceMapMetadata and Topology
 *	accelerate	check_device_map() and load_checkpoint_in_model()
 */
#ifndef GM_TEST_SUPPORT_ENGINE_RULES_H
#define GM_TEST_SUPPORT_ENGINE_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "gpumap.h"
#include "gpumap/engine.h"

#define RULES_LAYERS 256
#define RULES_CPU    (-1)

struct rules_place {
	/* Rows, or RULES_CPU. */
	int weights[RULES_LAYERS + 1]; /* llama.cpp: the output is the last */
	int caches[RULES_LAYERS];
	int other;        /* mistral.rs: of what belongs to no layer */
	uint32_t n_named; /* llama.cpp: layers that an override names */
};

/* The value of an option behind its name, or of a variable; NULL: not set. */
const char *rules_option(const struct gpumap_engine_settings *s,
			 const char *name);
const char *rules_variable(const struct gpumap_engine_settings *s,
			   const char *name);

/* The row of a CUDA ordinal; -2: there is no such device. */
int rules_row(const struct gpumap_engine_settings *s, uint32_t ordinal);

/* Where the engine places a model of @n layers, which is RULES_LAYERS at most.
 * False: it refuses the settings, or the model with them. */
bool rules_llama_cpp(const struct gpumap_engine_settings *s, uint32_t n,
		     struct rules_place *ret_place);
bool rules_pipeline(const struct gpumap_engine_settings *s,
		    const char *variable, uint32_t n,
		    struct rules_place *ret_place);
bool rules_mistral_rs(const struct gpumap_engine_settings *s, uint32_t n,
		      struct rules_place *ret_place);

/* The row of a tensor of accelerate's; -2: the map has no place for it.
 * @ret_n receives the number of modules that have the tensor. */
int rules_accelerate(const struct gpumap_engine_settings *s, const char *tensor,
		     uint32_t *ret_n);

#endif

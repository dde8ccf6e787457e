/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * engine - say a layer map in the settings of an inference engine.
 *
 *	export.c	the public calls: the map and the table to a job, and
 *			its lists to the caller
 *	devices.c	which CUDA ordinal is which row
 *	llama_cpp.c	llama.cpp, and ollama, which starts it
 *	pipeline.c	vLLM and SGLang: a range of layers for each rank
 *	mistral_rs.c	mistral.rs
 *	accelerate.c	accelerate and transformers
 *
 * An engine's function adds settings to the job, or refuses the map with the
 * layer that no setting can place.  The function clears @exact where the engine
 * would place a layer, or the KV cache of one, on another row than the map.
 */
#ifndef GM_LIB_ENGINES_ENGINE_H
#define GM_LIB_ENGINES_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include <gpumap/engine.h>

#include "lib/model/checkpoint/checkpoint.h"
#include "lib/private.h"

#define GM_ENGINE_NO_ROW UINT32_MAX

struct gm_engine_list {
	char **v;
	uint32_t n;
	uint32_t room;
};

struct gm_engine_job {
	const struct gpumap *map; /* for reasons of errors; may be NULL */
	const char *name;         /* of the engine, in sentences */
	const char *map_name;     /* likewise of the layer map */
	struct gpumap_engine_request request;
	/* The map. */
	const uint32_t *rows;
	const uint64_t *layer_bytes; /* may be NULL */
	uint32_t n_layers;
	uint32_t base_row;
	/* The map has a part of every layer on each row: @rows are those of the
	 * ranks, and @n_layers their number. */
	bool has_ranks;
	/* The table. */
	const struct gpumap_device *devices; /* by row */
	uint32_t n_devices;
	/* gm_engine_devices() fills these in. */
	uint32_t cards[GPUMAP_ROWS_MAX]; /* rows by ordinal */
	uint32_t n_cards;
	int32_t ordinal[GPUMAP_ROWS_MAX]; /* of rows; -1: not a card in use */
	uint32_t host_row; /* of layers; GM_ENGINE_NO_ROW: none */
	/* Results. */
	struct gm_engine_list argv, env, notes;
	char *file; /* NULL: none */
	bool exact;
	bool no_memory; /* something could not be added */
};

/* The ordinal of the card that a layer is on; -1: it is on the host. */
static inline int32_t gm_engine_card(const struct gm_engine_job *job,
				     uint32_t layer)
{
	return job->ordinal[job->rows[layer]];
}

/* ---- export.c ------------------------------------------------------------ */

/* Add a text to a list, printed. */
void gm_engine_add(struct gm_engine_job *job, struct gm_engine_list *list,
		   const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Add an option and its value. */
void gm_engine_option(struct gm_engine_job *job, const char *option,
		      const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * gm_engine_read_model - read the names of the model's tensors, and find their
 * layers
 *
 * ret_weights	give them back with gm_weights_free()
 * ret_layers	receives the layer of each; free() it
 *
 * Returns	0, or as gpumap_engine_export() about the model, refused
 */
int gm_engine_read_model(struct gm_engine_job *job,
			 struct gm_weights *ret_weights, int32_t **ret_layers,
			 struct gm_layers_stack *ret_stack);

/* ---- devices.c ----------------------------------------------------------- */

/*
 * gm_engine_devices - give each card of the map its ordinal, and set
 * CUDA_VISIBLE_DEVICES
 *
 * base_first	the base row has ordinal 0, if it is a card
 *
 * Ordinals else are in the order of the layers.
 *
 * Returns	0, -ENODEV or -EOPNOTSUPP, refused
 */
int gm_engine_devices(struct gm_engine_job *job, bool base_first);

/* The layers that are on the host must all be on one row, of which engines have
 * no more.  Tells what that takes on a machine with several.  Returns 0 or
 * -EOPNOTSUPP, refused. */
int gm_engine_one_host(struct gm_engine_job *job);

/* Refuse a map with several ranges of layers on one card.  @what ends the
 * sentence.  Returns 0 or -EOPNOTSUPP. */
int gm_engine_ranges(const struct gm_engine_job *job, const char *what);

/* ---- one for each engine ------------------------------------------------- */

int gm_engine_env(struct gm_engine_job *job);
int gm_engine_llama_cpp(struct gm_engine_job *job);
int gm_engine_pipeline(struct gm_engine_job *job);
int gm_engine_mistral_rs(struct gm_engine_job *job);
int gm_engine_accelerate(struct gm_engine_job *job);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/engine.h - say a layer map in the settings of an inference engine that
 * does not use gpumap.
 *
 * The settings are arguments, environment variables, and for two engines a
 * file.  CUDA_VISIBLE_DEVICES names the map's devices by UUID, in the order in
 * which the engine numbers them.  Each engine's own rules are applied to the
 * settings, to see where it would place each layer: what no setting can say is
 * an error, and gpumap_engine_settings.exact tells whether the rest is the map.
 */
#ifndef GPUMAP_ENGINE_H
#define GPUMAP_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include <gpumap/map.h>
#include <gpumap/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum gpumap_engine {
	GPUMAP_ENGINE_ENV = 1, /* any program: which devices, and no more */
	GPUMAP_ENGINE_LLAMA_CPP = 2,
	GPUMAP_ENGINE_OLLAMA = 3, /* one that starts llama-server */
	GPUMAP_ENGINE_VLLM = 4,
	GPUMAP_ENGINE_SGLANG = 5,
	GPUMAP_ENGINE_MISTRAL_RS = 6,
	GPUMAP_ENGINE_ACCELERATE = 7 /* also transformers */
};

/* Bits of gpumap_engine_request.flags. */
/* llama.cpp: variables in the place of arguments */
#define GPUMAP_ENGINE_BY_ENV (UINT32_C(1) << 0)

struct gpumap_engine_request {
	size_t size;     /* sizeof(struct gpumap_engine_request) */
	uint32_t engine; /* enum gpumap_engine */
	uint32_t flags;  /* GPUMAP_ENGINE_* */
	/* The model's files: a directory, or a file.  accelerate needs it, for
	 * the names of modules; llama.cpp and ollama count the file's layers,
	 * which may be more than the map's.  NULL: not known */
	const char *model;
	/* The name that arguments give to the engine's file; NULL:
	 * "topology.yaml".  The library does not write it. */
	const char *file_name;
	/* The map, where gpumap_engine_export() gets no @name. */
	const uint32_t *rows;        /* the row of each layer */
	const uint64_t *layer_bytes; /* n_layers of them; NULL: not known */
	uint32_t n_layers;
	uint32_t base_row; /* of what belongs to no layer */
	/* The device table, where it gets no @map; each with its size, and with
	 * -1 for the mig_gi of what is no MIG instance.  Devices without a UUID
	 * are named by their place among the CUDA devices of the table. */
	const struct gpumap_device *devices; /* by row */
	uint32_t n_devices;
	uint32_t reserved; /* 0 */
};

/* Made by the library, which may append fields.  Lists have a NULL behind their
 * last entry. */
struct gpumap_engine_settings {
	/* 1: with these settings the engine places each layer, with its KV
	 * cache, on the map's row: a model of as many layers as the map has,
	 * by the rules of the engine's release that gpumap(7) names, and what
	 * belongs to no layer there or on the host.  Where an engine places
	 * that is in @notes, if it is elsewhere than in the map. */
	uint32_t exact;
	uint32_t n_argv;
	uint32_t n_env;
	uint32_t n_notes;
	const char *const *argv;  /* arguments to append */
	const char *const *env;   /* "NAME=VALUE", to set */
	const char *const *notes; /* sentences for people */
	/* The text of a file: mistral.rs's topology (YAML), or accelerate's
	 * device_map (JSON); else NULL */
	const char *file;
	/* The row of CUDA ordinal 0, 1 and so on in the engine's processes. */
	const uint32_t *rows;
	uint32_t n_rows;
	uint32_t reserved;
};

/*
 * gpumap_engine_export - find the settings that make an engine follow a map
 *
 * map		NULL: the table is that of the request; gpumap_refusal(NULL)
 *		then has the reason of an error
 * name		of a layer map; NULL: the map is that of the request
 * ret_settings	give them back with gpumap_engine_free()
 *
 * Returns	0
 *		-EOPNOTSUPP	no settings of this engine can say this map:
 *				gpumap_refusal() names the layer, and the
 *				remedy
 *		-ENOENT		no map has this name; or the model's files are
 *				missing
 *		-ENODEV		a row that does not exist, or is lost or failed
 *		-EINVAL		no such engine, no layers, no model where the
 *				engine needs one, or a model that the map is not
 *				for
 *		-E2BIG		a field newer than this library, more layers
 *				than a map may have, or a model beyond a limit
 *		-EAGAIN, -EPROTO	as gpumap_layers_read()
 *		-ENODATA, -EACCES, -EIO, -ENOMEM, -EMFILE, ...	as reading the
 *				model's files
 *		gpumap_refusal() says what was wrong
 * Cost		no system call, and one pass over the map; with a model, an open
 *		and some reads for each of its files
 * Threads	any
 */
GPUMAP_API int
gpumap_engine_export(struct gpumap *map, const char *name,
		     const struct gpumap_engine_request *request,
		     struct gpumap_engine_settings **ret_settings);

/*
 * gpumap_engine_free - free settings; NULL is allowed
 *
 * Returns	nothing
 * Cost		frees
 * Threads	any
 */
GPUMAP_API void gpumap_engine_free(struct gpumap_engine_settings *settings);

#ifdef __cplusplus
}
#endif
#endif

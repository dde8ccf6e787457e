/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * shards.h - checkpoints whose every byte is known.
 *
 * The bytes of a tensor follow from its number: tensor i begins where
 * load_byte() is at i * SHARD_STEP.
 */
#ifndef GM_TEST_SUPPORT_SHARDS_H
#define GM_TEST_SUPPORT_SHARDS_H

#include <dirent.h>

#include "tests/support/load_file.h"

#define SHARD_STEP UINT64_C(1000000007)

struct shard_tensor {
	const char *name;
	const char *type;
	const char *shape; /* as JSON has it */
	uint64_t bytes;
	unsigned file;
	bool is_hole; /* its bytes are 0 */
};

/* A directory that is made for it. */
struct shards {
	char path[64];
	const struct shard_tensor *v;
	size_t n;
	unsigned n_files;
};

void shards_path(const struct shards *s, const char *name, char ret_path[160]);
int shards_open(const struct shards *s, const char *name, int flags);

/* Header and data of one file; returns how many bytes it has. */
uint64_t shards_write_file(const struct shards *s, unsigned file);
void shards_write_index(const struct shards *s);
void shards_remove(const struct shards *s);
struct shards shards_make(const struct shard_tensor *v, size_t n,
			  unsigned n_files);

/* Check the memory at @at, which holds @n bytes of tensor @i from @from on. */
bool shards_match(const struct shards *s, size_t i, const char *at,
		  uint64_t from, uint64_t n);

/* A map of so many layers, as a spec has it. */
int shards_map(struct gpumap *map, const char *name, const char *spec);

/* Until sessions have so much memory of devices, on all rows. */
bool shards_taken(struct gpumap *map, uint64_t bytes);

/* Check that no worker has a file of it open any more. */
void shards_let_go(struct gpumap *map);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/plan/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/plan/file.h"
#include "agent/plan/gguf.h"
#include "agent/plan/model_config.h"
#include "agent/plan/safetensors.h"
#include "agent/plan/stack.h"

#define SINGLE      "model.safetensors"
#define INDEX       "model.safetensors.index.json"
#define SUFFIX      ".safetensors"
#define MOST_INDEX  ((size_t)100 << 20) /* bytes */

#define MOST_DTYPES 64u /* more than either format has */

_Static_assert(GM_SAFETENSORS_DTYPES <= MOST_DTYPES, "they are counted");
_Static_assert(GM_GGUF_TYPES <= MOST_DTYPES, "they are counted");

/* A checkpoint that is being read. */
struct reader {
	const char *dir;
	json_t *index; /* NULL without one */
	json_t *map;   /* in the index: tensor -> shard */
	bool is_gguf;  /* @dir is one file */
	char **shards; /* names in the directory, sorted */
	size_t n_shards;
	struct gm_tensors tensors;
	struct gm_model_config config;
	const struct gm_checkpoint_watch *watch; /* may be NULL */
	struct gm_plan_error *err;
};

/* "DIR/NAME" to free(), or NULL. */
static char *path_of(const struct reader *rd, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s", rd->dir, name) < 0 ? NULL : path;
}

static bool has_file(const struct reader *rd, const char *name)
{
	char *path = path_of(rd, name);
	bool has = path && access(path, F_OK) == 0;

	free(path);
	return has;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int by_name(const void *a, const void *b)
{
	const struct gm_tensor *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* Does the name denote a file in the directory itself? */
static bool is_plain(const char *name)
{
	return name[0] != '\0' && !strchr(name, '/') && strcmp(name, ".") &&
	       strcmp(name, "..");
}

static int add_shard(struct reader *rd, const char *name)
{
	if (rd->n_shards == GM_CHECKPOINT_SHARDS)
		return gm_error_set(rd->err, -E2BIG,
				    "is this the right directory?",
				    "%s: more than %u " SUFFIX " files",
				    rd->dir, GM_CHECKPOINT_SHARDS);
	rd->shards[rd->n_shards] = strdup(name);
	if (!rd->shards[rd->n_shards])
		return gm_error_no_memory(rd->err);
	rd->n_shards++;
	return 0;
}

static int scan_directory(struct reader *rd)
{
	DIR *dir = opendir(rd->dir);
	struct dirent *entry;
	int r = 0;

	if (!dir)
		return gm_error_set(rd->err, -errno,
				    "give the model's directory", "%s: %s",
				    rd->dir, strerror(errno));
	while (r == 0 && (entry = readdir(dir))) {
		size_t len = strlen(entry->d_name);

		if (entry->d_name[0] != '.' && len > strlen(SUFFIX) &&
		    strcmp(entry->d_name + len - strlen(SUFFIX), SUFFIX) == 0)
			r = add_shard(rd, entry->d_name);
	}
	closedir(dir);
	if (r == 0 && rd->n_shards == 0)
		r = gm_error_set(rd->err, -ENOENT,
				 "give a directory with safetensors files",
				 "%s: no " SUFFIX " file", rd->dir);
	if (r == 0)
		qsort(rd->shards, rd->n_shards, sizeof(rd->shards[0]), by_text);
	return r;
}

static int bad_index(const struct reader *rd, const char *tensor,
		     const char *what)
{
	return gm_error_set(rd->err, -EINVAL, "fetch " INDEX " again",
			    "%s/" INDEX ": tensor %.128s: %s", rd->dir, tensor,
			    what);
}

/* The index of @name among the sorted shards, or where to insert it. */
static size_t slot_of(const struct reader *rd, const char *name)
{
	size_t low = 0, high = rd->n_shards;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (strcmp(rd->shards[middle], name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int add_indexed(struct reader *rd, const char *name)
{
	size_t slot = slot_of(rd, name);
	char *added;
	int r;

	if (slot < rd->n_shards && strcmp(rd->shards[slot], name) == 0)
		return 0;
	r = add_shard(rd, name);
	if (r)
		return r;
	added = rd->shards[rd->n_shards - 1];
	memmove(rd->shards + slot + 1, rd->shards + slot,
		(rd->n_shards - 1 - slot) * sizeof(rd->shards[0]));
	rd->shards[slot] = added;
	return 0;
}

static int list_indexed(struct reader *rd)
{
	const char *tensor;
	json_t *value;
	int r = 0;

	json_object_foreach(rd->map, tensor, value)
	{
		const char *shard = json_string_value(value);

		if (!shard || !is_plain(shard))
			return bad_index(rd, tensor,
					 "its shard is not the name of a file "
					 "beside the index");
		r = add_indexed(rd, shard);
		if (r)
			return r;
	}
	if (rd->n_shards == 0)
		return gm_error_set(rd->err, -EINVAL, "fetch " INDEX " again",
				    "%s/" INDEX ": weight_map names no tensor",
				    rd->dir);
	return 0;
}

static int read_index(struct reader *rd)
{
	char *path = path_of(rd, INDEX);
	int r;

	if (!path)
		return gm_error_no_memory(rd->err);
	r = gm_file_json(path, NULL, MOST_INDEX, &rd->index, rd->err);
	if (r)
		goto out;
	rd->map = json_object_get(rd->index, "weight_map");
	if (json_is_object(rd->map))
		r = list_indexed(rd);
	else
		r = gm_error_set(rd->err, -EINVAL, "fetch " INDEX " again",
				 "%s has no weight_map", path);
out:
	free(path);
	return r;
}

static int list_shards(struct reader *rd)
{
	rd->shards = calloc(GM_CHECKPOINT_SHARDS, sizeof(rd->shards[0]));
	if (!rd->shards)
		return gm_error_no_memory(rd->err);
	if (has_file(rd, SINGLE))
		return add_shard(rd, SINGLE);
	if (has_file(rd, INDEX))
		return read_index(rd);
	return scan_directory(rd);
}

/* So many of @n files have been read. */
static void tell(const struct reader *rd, uint32_t n_read, uint32_t n)
{
	if (rd->watch != NULL)
		rd->watch->read(rd->watch->data, n_read, n);
}

static int read_shard(struct reader *rd, uint32_t shard, uint64_t *budget)
{
	char *path = path_of(rd, rd->shards[shard]);
	struct gm_file file;
	int r;

	if (!path)
		return gm_error_no_memory(rd->err);
	r = gm_file_open(path, "fetch the missing file", &file, rd->err);
	if (r == 0) {
		r = gm_safetensors_read(&file, shard, budget, &rd->tensors,
					rd->err);
		gm_file_close(&file);
	}
	free(path);
	return r;
}

/* Sort the tensors: none may be in two files. */
static int check_names(struct reader *rd)
{
	struct gm_tensor *t = rd->tensors.v;

	if (rd->tensors.n > 0)
		qsort(t, rd->tensors.n, sizeof(t[0]), by_name);
	for (size_t i = 1; i < rd->tensors.n; i++)
		if (strcmp(t[i - 1].name, t[i].name) == 0)
			return gm_error_set(
				rd->err, -EINVAL,
				"leave one model's files in the directory",
				"%s: tensor %.128s is in %s and in %s", rd->dir,
				t[i].name, rd->shards[t[i - 1].shard],
				rd->shards[t[i].shard]);
	return 0;
}

static int read_shards(struct reader *rd)
{
	uint64_t budget = GM_CHECKPOINT_HEADERS;
	int r = 0;

	for (uint32_t i = 0; i < rd->n_shards && r == 0; i++) {
		tell(rd, i, (uint32_t)rd->n_shards);
		r = read_shard(rd, i, &budget);
	}
	return r ? r : check_names(rd);
}

/* Check the index's tensors against the shards. */
static int check_index(const struct reader *rd)
{
	const char *name;
	json_t *value;

	json_object_foreach(rd->map, name, value)
	{
		const struct gm_tensor key = { .name = (char *)name };
		const struct gm_tensor *t = NULL;

		if (rd->tensors.n > 0)
			t = bsearch(&key, rd->tensors.v, rd->tensors.n,
				    sizeof(key), by_name);
		if (!t ||
		    strcmp(rd->shards[t->shard], json_string_value(value)))
			return gm_error_set(
				rd->err, -EINVAL,
				"fetch the shard and the index again",
				"%s/" INDEX ": tensor %.128s is not in %s",
				rd->dir, name, json_string_value(value));
	}
	return 0;
}

static const char *dtype_name(const struct reader *rd, uint32_t dtype)
{
	return rd->is_gguf ? gm_gguf_type(dtype) : gm_safetensors_dtype(dtype);
}

/* The dtype with most bytes; the format's order breaks ties. */
static const char *main_dtype(const struct reader *rd)
{
	uint64_t bytes[MOST_DTYPES] = { 0 };
	uint32_t best = 0;

	for (size_t i = 0; i < rd->tensors.n; i++)
		bytes[rd->tensors.v[i].dtype] += rd->tensors.v[i].bytes;
	for (uint32_t i = 1; i < MOST_DTYPES; i++)
		if (bytes[i] > bytes[best])
			best = i;
	return dtype_name(rd, best);
}

static int sum_up(const struct reader *rd, struct gm_checkpoint *ret)
{
	struct gm_checkpoint ckpt = { 0 };
	struct gm_stack stack;
	int r;

	for (size_t i = 0; i < rd->tensors.n; i++)
		if (__builtin_add_overflow(ckpt.total_bytes,
					   rd->tensors.v[i].bytes,
					   &ckpt.total_bytes))
			return gm_error_set(rd->err, -EOVERFLOW,
					    "fetch the model again",
					    "%s: tensors of 2^64 bytes or more",
					    rd->dir);
	r = gm_stack_find(rd->dir, &rd->tensors, &rd->config, &stack, rd->err);
	if (r)
		return r;
	ckpt.n_layers = stack.n_layers;
	ckpt.layer_bytes = stack.layer_bytes;
	ckpt.non_mapped_bytes = ckpt.total_bytes;
	for (uint32_t i = 0; i < stack.n_layers; i++)
		ckpt.non_mapped_bytes -= stack.layer_bytes[i];
	ckpt.n_shards = rd->n_shards ? (uint32_t)rd->n_shards : 1;
	ckpt.n_tensors = rd->tensors.n;
	ckpt.dtype = main_dtype(rd);
	ckpt.config = rd->config;
	ckpt.config.kv.n_layers = stack.n_layers;
	*ret = ckpt;
	return 0;
}

static int read_config(struct reader *rd)
{
	char *path = path_of(rd, "config.json");
	int r;

	if (!path)
		return gm_error_no_memory(rd->err);
	r = gm_model_config_read(path, &rd->config, rd->err);
	free(path);
	return r;
}

static void free_reader(struct reader *rd)
{
	while (rd->n_shards > 0)
		free(rd->shards[--rd->n_shards]);
	free(rd->shards);
	json_decref(rd->index);
	gm_safetensors_free(&rd->tensors);
}

static int read_directory(struct reader *rd)
{
	int r = read_config(rd);

	if (r == 0)
		r = list_shards(rd);
	if (r == 0)
		r = read_shards(rd);
	if (r == 0 && rd->map)
		r = check_index(rd);
	return r;
}

static int read_gguf_file(struct reader *rd, const char *path,
			  struct gm_tensors *tensors,
			  struct gm_model_config *ret_config,
			  struct gm_gguf_split *ret_split)
{
	struct gm_file file;
	int r = gm_file_open(path, "fetch the model's missing files", &file,
			     rd->err);

	if (r)
		return r;
	r = gm_gguf_read(&file, tensors, ret_config, ret_split, rd->err);
	gm_file_close(&file);
	return r;
}

/* Read part @i of the model.  All its parts state @split, except for their
 * number. */
static int read_part(struct reader *rd, const char *path,
		     const struct gm_gguf_split *split, uint32_t i)
{
	struct gm_gguf_split own = { 0 };
	struct gm_model_config config;
	struct gm_tensors tensors = { 0 };
	int r = read_gguf_file(rd, path, &tensors, &config, &own);

	if (r == 0 && (own.n_parts != split->n_parts || own.part != i))
		r = gm_error_set(rd->err, -EINVAL, "fetch the file again",
				 "%s says that it is file %" PRIu32
				 " of %" PRIu32,
				 path, own.part + 1, own.n_parts);
	if (r == 0 && rd->tensors.n + tensors.n > GM_GGUF_TENSORS)
		r = gm_error_set(rd->err, -E2BIG, "is this a model?",
				 "%s: more tensors than a model can have",
				 path);
	for (size_t j = 0; j < tensors.n && r == 0; j++) {
		tensors.v[j].shard = i;
		if (gm_safetensors_add(&rd->tensors, &tensors.v[j]))
			r = gm_error_no_memory(rd->err);
	}
	if (r == 0 && i == 0)
		rd->config = config;
	gm_safetensors_free(&tensors);
	return r;
}

static int read_parts(struct reader *rd, const struct gm_gguf_split *split)
{
	int r = 0;

	rd->shards = calloc(split->n_parts, sizeof(rd->shards[0]));
	if (!rd->shards)
		return gm_error_no_memory(rd->err);
	gm_safetensors_free(&rd->tensors);
	for (uint32_t i = 0; i < split->n_parts && r == 0; i++) {
		tell(rd, i, split->n_parts);
		r = gm_gguf_part_path(rd->dir, split, i, &rd->shards[i],
				      rd->err);
		rd->n_shards += r == 0;
		if (r == 0)
			r = read_part(rd, rd->shards[i], split, i);
	}
	if (r == 0)
		r = check_names(rd);
	if (r == 0 && split->n_tensors > 0 && rd->tensors.n != split->n_tensors)
		r = gm_error_set(rd->err, -EINVAL, "fetch the files again",
				 "%s: %zu tensors in %" PRIu32
				 " files that should have %" PRIu64,
				 rd->dir, rd->tensors.n, split->n_parts,
				 split->n_tensors);
	return r;
}

static int read_gguf(struct reader *rd)
{
	struct gm_gguf_split split = { 0 };
	int r;

	rd->is_gguf = true;
	r = read_gguf_file(rd, rd->dir, &rd->tensors, &rd->config, &split);
	if (r == 0 && split.n_parts > 1)
		r = read_parts(rd, &split);
	return r;
}

int gm_checkpoint_watch(const char *path,
			const struct gm_checkpoint_watch *watch,
			struct gm_checkpoint *ret_ckpt,
			struct gm_plan_error *ret_err)
{
	struct reader rd = { .dir = path, .watch = watch, .err = ret_err };
	struct stat st = { .st_mode = S_IFDIR };
	int r;

	if (stat(path, &st) != 0 && errno == ENOENT)
		r = gm_error_set(ret_err, -ENOENT,
				 "give a checkpoint's directory or a GGUF "
				 "file: nothing is fetched by a model's name",
				 "%s: %s", path, strerror(ENOENT));
	else if (S_ISREG(st.st_mode))
		r = read_gguf(&rd);
	else
		r = read_directory(&rd);
	if (r == 0)
		r = sum_up(&rd, ret_ckpt);
	free_reader(&rd);
	return r;
}

int gm_checkpoint_read(const char *path, struct gm_checkpoint *ret_ckpt,
		       struct gm_plan_error *ret_err)
{
	return gm_checkpoint_watch(path, NULL, ret_ckpt, ret_err);
}

void gm_checkpoint_free(struct gm_checkpoint *ckpt)
{
	if (!ckpt)
		return;
	free(ckpt->layer_bytes);
	*ckpt = (struct gm_checkpoint){ 0 };
}

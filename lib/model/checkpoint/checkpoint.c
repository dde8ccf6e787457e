/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpumap.h"
#include "gpumap/model.h"

#define SINGLE    "model.safetensors"
#define SUFFIX    ".safetensors"
#define CONFIG    "config.json"
#define LENGTH    GM_WEIGHTS_LENGTH
#define PATH_SEEN 90u /* bytes of a path that a message shows */

int gm_reason_set(struct gm_reason *why, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why->text, sizeof(why->text), format, args);
	va_end(args);
	gm_reason_make_plain(why->text);
	return error;
}

const char *gm_reason_path(const char *path)
{
	size_t n = strlen(path);

	return n > PATH_SEEN ? path + n - PATH_SEEN : path;
}

void *gm_weights_grow(void *list, size_t n, size_t *room, size_t each)
{
	size_t more = *room != 0 ? 2 * *room : 64;
	void *grown;

	if (n < *room)
		return list;
	grown = reallocarray(list, more, each);
	if (grown != NULL)
		*room = more;
	return grown;
}

static int beyond(const struct gm_weights *ws, uint32_t file, const char *what,
		  uint32_t most)
{
	return gm_reason_set(ws->why, -E2BIG,
			     "%s: with it the model has more than %u %s; is "
			     "this a model?",
			     gm_reason_path(ws->files[file].name), most, what);
}

int gm_weights_add(struct gm_weights *weights, const struct gm_weight *weight)
{
	struct gm_weight *list;

	if (weights->n == GM_WEIGHTS_TENSORS)
		return beyond(weights, weight->file, "tensors",
			      GM_WEIGHTS_TENSORS);
	list = gm_weights_grow(weights->v, weights->n, &weights->room,
			       sizeof(*list));
	if (list == NULL)
		return -ENOMEM;
	weights->v = list;
	list[weights->n++] = *weight;
	return 0;
}

int gm_weights_add_dim(struct gm_weights *weights, struct gm_weight *weight,
		       uint64_t dim)
{
	uint64_t *dims;

	if (weights->n_dims == GM_WEIGHTS_DIMS)
		return beyond(weights, weight->file, "dimensions",
			      GM_WEIGHTS_DIMS);
	dims = gm_weights_grow(weights->dims, weights->n_dims,
			       &weights->room_dims, sizeof(*dims));
	if (dims == NULL)
		return -ENOMEM;
	weights->dims = dims;
	dims[weights->n_dims++] = dim;
	weight->n_dims++;
	return 0;
}

void gm_weights_sort(void *v, size_t n, size_t bytes,
		     int (*compare)(const void *, const void *))
{
	const char *at = v;
	size_t i = 1;

	for (; i < n && compare(at, at + bytes) <= 0; i++)
		at += bytes;
	if (i < n)
		qsort(v, n, bytes, compare);
}

static int by_place(const void *a, const void *b)
{
	const struct gm_weight *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

void gm_weights_sort_places(struct gm_weights *weights, size_t first)
{
	if (weights->n > first)
		gm_weights_sort(weights->v + first, weights->n - first,
				sizeof(weights->v[0]), by_place);
}

void gm_weights_keep_names(struct gm_weights *weights, uint32_t file,
			   size_t first)
{
	char *text = weights->files[file].header;
	uintptr_t from = (uintptr_t)text;
	size_t n = 1;

	for (size_t i = first; i < weights->n; i++) {
		const char *name = weights->v[i].name;
		size_t end = (size_t)(name - text) + strlen(name) + 1;

		n = end > n ? end : n;
	}
	text = realloc(text, n);
	if (text == NULL)
		return; /* it stays as long as it was */
	weights->files[file].header = text;
	for (size_t i = first; i < weights->n; i++)
		weights->v[i].name =
			text + ((uintptr_t)weights->v[i].name - from);
}

int gm_weights_add_file(struct gm_weights *weights, const char *name)
{
	size_t room = weights->room_files;
	struct gm_weight_file *files;

	if (weights->n_files == GM_WEIGHTS_FILES)
		return gm_reason_set(weights->why, -E2BIG,
				     "%s has more than %u files; is this the "
				     "right directory?",
				     gm_reason_path(weights->folder),
				     GM_WEIGHTS_FILES);
	files = gm_weights_grow(weights->files, weights->n_files, &room,
				sizeof(*files));
	if (files == NULL)
		return -ENOMEM;
	weights->files = files;
	weights->room_files = (uint32_t)room;
	files[weights->n_files] =
		(struct gm_weight_file){ .name = strdup(name) };
	if (files[weights->n_files].name == NULL)
		return -ENOMEM;
	weights->n_files++;
	return 0;
}

/* ---- files --------------------------------------------------------------- */

static int system_error(struct gm_weights *ws, const char *name, int error)
{
	const char *missing = name[0] == '\0'
				      ? "; give a checkpoint's directory: "
					"nothing is fetched by a model's name"
				      : "; fetch the missing file";
	const char *remedy = error == ENOENT   ? missing
			     : error == EACCES ? "; let this user read it"
					       : "";

	return gm_reason_set(ws->why, -error, "%s%s: %s%s",
			     gm_reason_path(ws->folder), name, strerror(error),
			     remedy);
}

/* Open a file of the folder.  Returns a descriptor or a negative errno. */
static int open_file(struct gm_weights *ws, const char *name,
		     struct stat *ret_stat)
{
	char path[PATH_MAX];
	int fd, ret = 0;

	if ((size_t)snprintf(path, sizeof(path), "%s%s", ws->folder, name) >=
	    sizeof(path))
		return system_error(ws, name, ENAMETOOLONG);
	/* Without O_NONBLOCK a fifo would block until it has a writer. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return system_error(ws, name, errno);
	if (fstat(fd, ret_stat) != 0)
		ret = system_error(ws, name, errno);
	else if (!S_ISREG(ret_stat->st_mode))
		ret = gm_reason_set(ws->why, -EINVAL,
				    "%s%s is not a regular file; give a "
				    "checkpoint's directory",
				    gm_reason_path(ws->folder), name);
	if (ret == 0)
		return fd;
	close(fd);
	return ret;
}

int gm_weights_open(struct gm_weights *weights, uint32_t file,
		    struct stat *ret_stat)
{
	return open_file(weights, weights->files[file].name, ret_stat);
}

static int truncated(struct gm_weights *ws, const char *name)
{
	return gm_reason_set(ws->why, -ENODATA,
			     "%s%s is truncated: it ends inside its header; "
			     "wait until it is complete, or fetch it again",
			     gm_reason_path(ws->folder), name);
}

int gm_weights_read_at(struct gm_weights *weights, const char *name, int fd,
		       uint64_t from, void *to, size_t n)
{
	char *at = to;

	while (n > 0) {
		ssize_t got = pread(fd, at, n, (off_t)from);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return system_error(weights, name, errno);
		if (got == 0)
			return truncated(weights, name);
		at += got;
		n -= (size_t)got;
		from += (uint64_t)got;
	}
	return 0;
}

/* ---- headers ------------------------------------------------------------- */

int gm_weights_read_header(struct gm_weights *weights, uint32_t i, int fd)
{
	struct gm_weights *ws = weights;
	struct gm_weight_file *file = &ws->files[i];
	uint64_t size = (uint64_t)file->stat.st_size, n = 0;
	unsigned char raw[LENGTH];
	size_t first = ws->n;
	int ret;

	/* Bound the total, so that no later sum of sizes can overflow. */
	ws->file_bytes += size;
	if (ws->file_bytes > INT64_MAX)
		return gm_reason_set(ws->why, -E2BIG,
				     "%s: with it the model has 2^63 bytes or "
				     "more; is this the right directory?",
				     gm_reason_path(file->name));
	if (size < LENGTH)
		return truncated(ws, file->name);
	ret = gm_weights_read_at(ws, file->name, fd, 0, raw, LENGTH);
	/* If one file of a model is GGUF, all are. */
	if (ret == 0 && ws->is_file && (i > 0 || memcmp(raw, "GGUF", 4) == 0))
		return gm_weights_gguf(ws, i, fd);
	if (ret == 0)
		ret = gm_weights_length(ws, file->name, raw, size, &n);
	if (ret != 0)
		return ret;
	ws->header_bytes += n;
	if (ws->header_bytes > GM_WEIGHTS_HEADERS)
		return gm_reason_set(ws->why, -E2BIG,
				     "%s: with its header the model's are "
				     "longer than allowed; is this the right "
				     "directory?",
				     gm_reason_path(file->name));
	file->header = malloc(n + 1); /* never 0 */
	if (file->header == NULL)
		return -ENOMEM;
	ret = gm_weights_read_at(ws, file->name, fd, LENGTH, file->header, n);
	if (ret == 0)
		ret = gm_weights_header(ws, i, file->header, n, LENGTH + n,
					size - LENGTH - n);
	if (ret == 0)
		gm_weights_keep_names(ws, i, first);
	return ret;
}

/* Order elements that begin with a name. */
static int by_name(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;

	return strcmp(*x, *y);
}

/* The names of one text lie in the order in which it has them. */
static int by_name_and_place(const void *a, const void *b)
{
	const char *const *x = a, *const *y = b;
	int order = strcmp(*x, *y);

	return order != 0 ? order : (*x > *y) - (*x < *y);
}

size_t gm_weights_keep_last(void *v, size_t n, size_t bytes)
{
	char *to = v, *end = to + n * bytes;

	if (n > 0)
		gm_weights_sort(v, n, bytes, by_name_and_place);
	for (char *at = v; at < end; at += bytes) {
		if (at + bytes < end && by_name(at, at + bytes) == 0)
			continue;
		if (to != at)
			memcpy(to, at, bytes);
		to += bytes;
	}
	return (size_t)(to - (char *)v) / bytes;
}

/* Read the headers of all files, and sort the tensors by name: none may exist
 * twice. */
static int read_headers(struct gm_weights *ws,
			const struct gm_weights_watch *watch)
{
	int ret = 0;

	for (uint32_t i = 0; ret == 0 && i < ws->n_files; i++) {
		int fd;

		if (watch != NULL)
			watch->read(watch->data, i, ws->n_files);
		fd = gm_weights_open(ws, i, &ws->files[i].stat);
		if (fd < 0)
			return fd;
		ret = gm_weights_read_header(ws, i, fd);
		close(fd);
	}
	if (ret == 0 && ws->n > 0)
		gm_weights_sort(ws->v, ws->n, sizeof(ws->v[0]), by_name);
	for (size_t i = 1; ret == 0 && i < ws->n; i++)
		if (by_name(&ws->v[i - 1], &ws->v[i]) == 0)
			ret = gm_reason_set(ws->why, -EINVAL,
					    "tensor %.60s is in %.80s and in "
					    "%.80s; leave one model's files in "
					    "the directory",
					    ws->v[i].name,
					    ws->files[ws->v[i - 1].file].name,
					    ws->files[ws->v[i].file].name);
	return ret;
}

/* ---- which files --------------------------------------------------------- */

static bool has_file(const struct gm_weights *ws, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s%s", ws->folder, name);
	return access(path, F_OK) == 0;
}

static bool begins(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

/* Drop the files whose names begin so, if there are others. */
static void drop(struct gm_weights *ws, const char *with)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < ws->n_files; i++) {
		struct gm_weight_file file = ws->files[i];

		if (begins(file.name, with))
			continue;
		ws->files[i] = ws->files[n];
		ws->files[n++] = file;
	}
	for (; n > 0 && ws->n_files > n; ws->n_files--)
		free(ws->files[ws->n_files - 1].name);
}

/* "model-00001-of-00003.safetensors" has two others beside it. */
static int check_shards(struct gm_weights *ws)
{
	static const int tail = sizeof("-00001-of-00003" SUFFIX) - 1;

	for (uint32_t i = 0; i < ws->n_files; i++) {
		const char *name = ws->files[i].name;
		int n = (int)strlen(name) - tail, end = 0;
		unsigned int part, n_parts;

		if (n < 0 ||
		    sscanf(name + n, "-%5u-of-%5u" SUFFIX "%n", &part, &n_parts,
			   &end) != 2 ||
		    end != tail)
			continue;
		for (unsigned int other = part - 1; other <= part + 1;
		     other++) {
			char path[NAME_MAX + 1];

			snprintf(path, sizeof(path), "%.*s-%05u-of-%05u" SUFFIX,
				 n, name, other, n_parts);
			if (other > 0 && other <= n_parts &&
			    !has_file(ws, path))
				return system_error(ws, path, ENOENT);
		}
	}
	return 0;
}

static int list_folder(struct gm_weights *ws)
{
	DIR *folder = opendir(ws->folder);
	struct dirent *entry;
	int ret = 0;

	if (folder == NULL)
		return system_error(ws, "", errno);
	while (ret == 0 && (entry = readdir(folder)) != NULL) {
		size_t n = strlen(entry->d_name);

		if (entry->d_name[0] != '.' && n > strlen(SUFFIX) &&
		    strcmp(entry->d_name + n - strlen(SUFFIX), SUFFIX) == 0)
			ret = gm_weights_add_file(ws, entry->d_name);
	}
	closedir(folder);
	if (ret == 0 && ws->n_files == 0)
		ret = gm_reason_set(ws->why, -ENOENT,
				    "%s: no " SUFFIX " file; give %s",
				    gm_reason_path(ws->folder),
				    has_file(ws, "snapshots")
					    ? "a directory in its snapshots/, "
					      "where the cache has models"
					    : "the directory of a checkpoint, "
					      "or a GGUF file");
	if (ret != 0)
		return ret;
	/* The files of a LoRA beside the model's, and what Mistral's own tools
	 * read: the same tensors by other names. */
	drop(ws, "adapter_");
	drop(ws, "consolidated");
	if (begins(ws->files[0].name, "adapter_"))
		return gm_reason_set(
			ws->why, -EINVAL,
			"%s%s adapts a model; give the model's directory",
			gm_reason_path(ws->folder), ws->files[0].name);
	ret = check_shards(ws);
	if (ret == 0)
		qsort(ws->files, ws->n_files, sizeof(ws->files[0]), by_name);
	return ret;
}

/* Read the first bytes of a file of the folder, as many as @text says; 0: all.
 * @limit says what @most bytes are. */
static int read_text(struct gm_weights *ws, const char *name, uint64_t most,
		     const char *limit, struct gm_weights_meta *text)
{
	struct stat facts;
	int fd = open_file(ws, name, &facts), ret = -ENOMEM;

	if (fd < 0)
		return fd;
	if (text->bytes == 0)
		text->bytes = (uint64_t)facts.st_size;
	if (text->bytes > most)
		ret = gm_reason_set(ws->why, -E2BIG,
				    "%s%s is longer than %s; is this a model?",
				    gm_reason_path(ws->folder), name, limit);
	else
		text->data = malloc(text->bytes + 1); /* never 0 */
	if (text->data != NULL)
		ret = gm_weights_read_at(ws, name, fd, 0, text->data,
					 text->bytes);
	close(fd);
	if (ret != 0)
		free(text->data);
	return ret;
}

static int read_index(struct gm_weights *ws, struct gm_weights_index *index)
{
	struct gm_weights_meta text = { .data = NULL };
	int ret = read_text(ws, GM_WEIGHTS_INDEX_NAME, GM_WEIGHTS_INDEX,
			    "allowed", &text);

	return ret == 0
		       ? gm_weights_index_read(ws, text.data, text.bytes, index)
		       : ret;
}

/* Take the folder of @path, and the one file where @path is no folder. */
static int take_path(struct gm_weights *ws, const char *path)
{
	size_t n = strlen(path);
	struct stat facts;
	const char *slash;

	if (stat(path, &facts) == 0 && !S_ISDIR(facts.st_mode)) {
		slash = strrchr(path, '/');
		n = slash != NULL ? (size_t)(slash + 1 - path) : 0;
		ws->is_file = true;
		ws->folder = strndup(path, n);
		return ws->folder == NULL ? -ENOMEM
					  : gm_weights_add_file(ws, path + n);
	}
	return asprintf(&ws->folder, "%s/", path) < 0 ? -ENOMEM : 0;
}

static int list_files(struct gm_weights *ws, const char *path,
		      struct gm_weights_index *index)
{
	int ret = take_path(ws, path);

	if (ret != 0 || ws->n_files > 0)
		return ret;
	ws->has_index = has_file(ws, GM_WEIGHTS_INDEX_NAME);
	if (has_file(ws, SINGLE))
		return gm_weights_add_file(ws, SINGLE);
	if (ws->has_index)
		return read_index(ws, index);
	return list_folder(ws);
}

static int read_all(struct gm_weights *ws, const char *path,
		    const struct gm_weights_watch *watch)
{
	struct gm_weights_index index = { 0 };
	int ret = list_files(ws, path, &index);

	if (ret == 0)
		ret = read_headers(ws, watch);
	if (ret == 0)
		ret = gm_weights_index_check(ws, &index);
	if (ret == 0)
		ret = gm_weights_gguf_check(ws);
	gm_weights_index_free(&index);
	return ret;
}

/* Give the caller what was read, or free it. */
static int give(struct gm_weights *ws, int ret, struct gm_weights *ret_weights)
{
	if (ret == 0)
		*ret_weights = *ws;
	else
		gm_weights_free(ws);
	return ret;
}

int gm_weights_read(const char *path, const struct gm_weights_watch *watch,
		    struct gm_reason *why, struct gm_weights *ret_weights)
{
	struct gm_weights ws = { .why = why };

	why->text[0] = '\0';
	return give(&ws, read_all(&ws, path, watch), ret_weights);
}

int gm_weights_list(const char *path, struct gm_reason *why,
		    struct gm_weights *ret_weights)
{
	struct gm_weights ws = { .why = why };
	struct gm_weights_index index = { 0 };
	int ret, fd;

	why->text[0] = '\0';
	ret = list_files(&ws, path, &index);
	gm_weights_index_free(&index);
	for (uint32_t i = 0; ret == 0 && i < ws.n_files; i++) {
		fd = gm_weights_open(&ws, i, &ws.files[i].stat);
		if (fd >= 0)
			close(fd);
		else
			ret = fd;
	}
	return give(&ws, ret, ret_weights);
}

/* ---- one file as it is --------------------------------------------------- */

static int take_whole(struct gm_weights *ws, const char *path)
{
	int ret = take_path(ws, path), fd;
	struct gm_weight_file *file;
	uint64_t bytes;

	if (ret == 0 && !ws->is_file)
		ret = access(path, F_OK) != 0
			      ? system_error(ws, "", errno)
			      : gm_reason_set(ws->why, -EINVAL,
					      "%s is a directory; give one "
					      "file of it",
					      gm_reason_path(path));
	if (ret != 0)
		return ret;
	file = &ws->files[0];
	fd = gm_weights_open(ws, 0, &file->stat);
	if (fd < 0)
		return fd;
	close(fd);
	bytes = (uint64_t)file->stat.st_size;
	if (bytes == 0)
		return gm_reason_set(ws->why, -EINVAL, "%s is empty",
				     gm_reason_path(path));
	ws->v = calloc(1, sizeof(*ws->v));
	ws->dims = calloc(1, sizeof(*ws->dims));
	if (ws->v == NULL || ws->dims == NULL)
		return -ENOMEM;
	ws->dims[0] = bytes;
	ws->v[0] = (struct gm_weight){ .name = file->name,
				       .bytes = bytes,
				       .n_dims = 1 };
	gm_weights_type_find("U8", &ws->v[0].type);
	ws->n = ws->n_dims = 1;
	return 0;
}

int gm_weights_whole(const char *path, struct gm_reason *why,
		     struct gm_weights *ret_weights)
{
	struct gm_weights ws = { .why = why };

	why->text[0] = '\0';
	return give(&ws, take_whole(&ws, path), ret_weights);
}

/* ---- metadata ------------------------------------------------------------ */

int gm_weights_meta_read(struct gm_weights *weights, uint64_t most,
			 struct gm_weights_meta *ret_meta)
{
	/* The caller's file, and behind it the others in their order. */
	uint32_t first = weights->split.part == 0 ? 0 : 1;
	const struct gm_weight_file *file = &weights->files[first];
	struct gm_weights_meta meta = { .format = GPUMAP_META_GGUF,
					.bytes = file->pairs_end };
	const char *name = file->name;
	int ret;

	*ret_meta = (struct gm_weights_meta){ .data = NULL };
	if (meta.bytes == 0) {
		meta.format = GPUMAP_META_CONFIG_JSON;
		name = CONFIG;
		if (!has_file(weights, name))
			return 0;
	}
	ret = read_text(weights, name, most, "a model's metadata may be",
			&meta);
	if (ret == 0 && meta.bytes == 0)
		free(meta.data);
	else if (ret == 0)
		*ret_meta = meta;
	return ret;
}

const struct gm_weight *gm_weights_find(const struct gm_weights *weights,
					const char *name)
{
	const struct gm_weight key = { .name = name };

	if (weights->n == 0)
		return NULL;
	return bsearch(&key, weights->v, weights->n, sizeof(key), by_name);
}

void gm_weights_free(struct gm_weights *weights)
{
	for (uint32_t i = 0; i < weights->n_files; i++) {
		free(weights->files[i].name);
		free(weights->files[i].header);
	}
	free(weights->files);
	free(weights->folder);
	free(weights->v);
	free(weights->dims);
	*weights = (struct gm_weights){ 0 };
}

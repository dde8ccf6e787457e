/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * checkpoint - which tensors a checkpoint has, and where in its files they lie.
 *
 * A checkpoint is a GGUF file, and with it all others of a model that is split,
 * or a safetensors file, or a directory with
 *
 *	model.safetensors, or else
 *	what model.safetensors.index.json names, or else
 *	every *.safetensors in it.
 *
 * It is taken whole or refused: a file must be as long as its header says, its
 * tensors must cover its data from the first byte to the last (GGUF: but for
 * what aligns them, and for what is behind them), none may be there twice, and
 * what the index names must be where it says.  Only headers are read here.
 * What is wrong is said in a sentence that names the file.
 */
#ifndef GM_LIB_CHECKPOINT_CHECKPOINT_H
#define GM_LIB_CHECKPOINT_CHECKPOINT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define GM_WEIGHTS_FILES   4096u
#define GM_WEIGHTS_TENSORS (1u << 20)
#define GM_WEIGHTS_HEADER  (UINT64_C(100) << 20) /* most bytes of one */
#define GM_WEIGHTS_HEADERS (UINT64_C(256) << 20) /* most of all */
#define GM_WEIGHTS_INDEX   (UINT64_C(100) << 20) /* most of an index */

/* What was wrong, and what to do. */
struct gm_reason {
	char text[256];
};

struct gm_weight {
	const char *name;
	uint64_t begin; /* in its file */
	uint64_t bytes;
	size_t shape; /* its first dimension in the list of all */
	uint32_t n_dims;
	uint32_t type; /* for gm_weights_type() */
	uint32_t file;
};

struct gm_weight_file {
	char *name;   /* in the folder */
	char *header; /* names are in here, and nothing else of GGUF */
	struct stat stat;
};

/* Of a GGUF file: which of how many it is.  All 0: it is not split. */
struct gm_weights_split {
	uint64_t n_parts, part;
	uint64_t n_tensors; /* of all parts; 0: not said */
};

struct gm_weights {
	char *folder; /* with its last '/' */
	bool is_file; /* a path was given, not a folder */
	struct gm_weights_split split;
	struct gm_weight_file *files;
	uint32_t n_files;
	uint32_t room_files;
	struct gm_weight *v; /* by name once all have been read */
	size_t n;
	size_t room;
	uint64_t *dims; /* of all shapes */
	size_t n_dims;
	size_t room_dims;
	uint64_t header_bytes; /* of all files so far */
	uint64_t file_bytes;   /* likewise, below 2^63 */
	struct gm_reason *why; /* the caller's, who keeps it as long */
};

/* ---- types.c ----------------------------------------------------- */

/* "BF16" and the like, and the enum gpumap_dtype for it, U8 where there is
 * none. */
const char *gm_weights_type(uint32_t type);
uint32_t gm_weights_dtype(uint32_t type);

/* Of an element; 0: it comes in blocks, and is GGUF's. */
uint32_t gm_weights_bits(uint32_t type);

/* The type that is spelt so; false: there is none. */
bool gm_weights_type_find(const char *name, uint32_t *ret_type);

struct gm_weights_block {
	uint32_t type;
	uint32_t elements;
	uint32_t bytes;
};

/* GGUF's type of this number; false: there is none. */
bool gm_weights_gguf_type(uint32_t number, struct gm_weights_block *ret_block);

/* ---- checkpoint.c -------------------------------------------------------- */

/*
 * gm_weights_read - all tensors of the checkpoint at @path
 *
 * why		receives what is wrong
 * ret_weights	give it back with gm_weights_free()
 *
 * Returns	0
 *		-ENOENT		there is no such checkpoint, or a file is
 *				missing
 *		-ENODATA	a file is shorter than its header says
 *		-EINVAL		it is malformed, or contradicts itself
 *		-E2BIG		beyond a limit
 *		-EOPNOTSUPP	GGUF of a version or with a type that is not
 *				known
 *		-EACCES, -EIO, -ENOMEM, ...	from the kernel
 */
int gm_weights_read(const char *path, struct gm_reason *why,
		    struct gm_weights *ret_weights);

/* One by this name, or NULL. */
const struct gm_weight *gm_weights_find(const struct gm_weights *weights,
					const char *name);
void gm_weights_free(struct gm_weights *weights);

/* Open one of the files.  Returns the descriptor, or a negative errno. */
int gm_weights_open(struct gm_weights *weights, uint32_t file,
		    struct stat *ret_stat);

/* @n bytes of a file.  Returns 0, -ENODATA: it ends there, or from the
 * kernel. */
int gm_weights_read_at(struct gm_weights *weights, const char *name, int fd,
		       uint64_t from, void *to, size_t n);

/* Say what is wrong.  Returns @error. */
int gm_reason_set(struct gm_reason *why, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The end of a path that is too long for a sentence. */
const char *gm_reason_path(const char *path);

/* ---- header.c ---------------------------------------------------- */

/*
 * gm_weights_header - take the tensors of a header
 *
 * file		whose they are
 * text		@n bytes, writable; names are in there from now on
 * at		offset in the file of the first byte behind it
 * bytes	of data from there on
 *
 * Returns	0, -EINVAL, -ENODATA, -E2BIG, -ENOMEM.  Not with 0, there may be
 *		some of them
 */
int gm_weights_header(struct gm_weights *weights, uint32_t file, char *text,
		      size_t n, uint64_t at, uint64_t bytes);

/* ---- gguf.c ------------------------------------------------------ */

/*
 * gm_weights_gguf_header - take the tensors of a GGUF file's header
 *
 * bytes	the first @n of the file, writable; names are in there
 * file_bytes	it has
 * ret_split	what it says of the model's other files
 *
 * Returns	0, -EINVAL, -ENODATA, -EOPNOTSUPP, -E2BIG, -ENOMEM
 *		-EAGAIN		the header goes on behind @n.  Not with 0,
 *				nothing has been taken
 */
int gm_weights_gguf_header(struct gm_weights *weights, uint32_t file,
			   void *bytes, size_t n, uint64_t file_bytes,
			   struct gm_weights_split *ret_split);

/* The tensors of one of the files, and behind the first of a model that is
 * split all its others are added.  Returns as gm_weights_gguf_header(). */
int gm_weights_gguf(struct gm_weights *weights, uint32_t file, int fd);

/* Once all files have been read: are those all tensors?  0 or -EINVAL. */
int gm_weights_gguf_check(struct gm_weights *weights);

/* ---- index.c ----------------------------------------------------- */

/* What an index says: tensors, and the files that they are in. */
struct gm_weights_index {
	char *text; /* the strings are in here */
	struct gm_indexed {
		const char *tensor;
		const char *file;
	} * v; /* by file */
	size_t n;
	size_t room;
};

/* @text is writable, allocated, and the index's from now on.  Returns 0,
 * -EINVAL, -E2BIG or -ENOMEM. */
int gm_weights_index_read(struct gm_weights *weights, char *text, size_t n,
			  struct gm_weights_index *ret_index);
int gm_weights_index_check(struct gm_weights *weights,
			   const struct gm_weights_index *index);
void gm_weights_index_free(struct gm_weights_index *index);

/* Room for one more in a list that is grown twofold.  Returns NULL, or the
 * list, which may have moved. */
void *gm_weights_grow(void *list, size_t n, size_t *room, size_t each);

/* One more file.  Returns 0, -E2BIG or -ENOMEM. */
int gm_weights_add_file(struct gm_weights *weights, const char *name);

#define GM_WEIGHTS_INDEX_NAME "model.safetensors.index.json"

#endif

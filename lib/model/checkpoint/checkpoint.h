/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * checkpoint - find the tensors of a checkpoint and their places in its files.
 *
 * A checkpoint is a GGUF file (with all other files of the model if that is
 * split), or a safetensors file, or a directory with
 *
 *	model.safetensors, or else
 *	the files that model.safetensors.index.json names, or else
 *	every *.safetensors in it, but for adapters and "consolidated" twins
 *	beside others.
 *
 * A checkpoint is read whole or refused: a file must be as long as its header
 * says, its tensors must cover its data from the first byte to the last (GGUF:
 * except for alignment between them and for bytes behind them), no tensor may
 * exist in two files, and each tensor that the index names must lie in the file
 * that it gives, beside the index.  Else what the format's own library takes is
 * taken here: safetensors, gguf, and for the index and config.json Python's
 * json, with which transformers reads them.
 *
 * Only headers are read here, each in place: an entry of a header costs no more
 * than its bytes.  An error comes with a sentence that names the file.
 */
#ifndef GM_LIB_CHECKPOINT_CHECKPOINT_H
#define GM_LIB_CHECKPOINT_CHECKPOINT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <gpumap/layers.h>

#define GM_WEIGHTS_LENGTH  8u /* bytes before a header: its length */
#define GM_WEIGHTS_FILES   4096u
#define GM_WEIGHTS_TENSORS (1u << 20)
#define GM_WEIGHTS_DIMS    (1u << 22) /* of all shapes */
#define GM_WEIGHTS_LAYERS  65536u     /* of a layer map */
#define GM_WEIGHTS_TYPES   49u
#define GM_WEIGHTS_HEADER  (UINT64_C(100) << 20) /* most bytes of one header */
#define GM_WEIGHTS_HEADERS (UINT64_C(256) << 20) /* most bytes of all headers */
#define GM_WEIGHTS_INDEX   (UINT64_C(100) << 20) /* most bytes of an index */
/* likewise of a GGUF file's header, with its vocabulary; or of config.json */
#define GM_WEIGHTS_GGUF_HEADER (UINT64_C(256) << 20)

/* The reason of an error, and the remedy. */
struct gm_reason {
	char text[256];
};

/* A name in it may have been chosen by another: let no terminal obey it. */
static inline void gm_reason_make_plain(char *text)
{
	for (; *text != '\0'; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

struct gm_weight {
	const char *name; /* first */
	uint64_t begin;   /* in its file */
	uint64_t bytes;
	uint32_t shape; /* its first dimension in the list of all */
	uint32_t n_dims;
	uint32_t type; /* for gm_weights_type() */
	uint32_t file;
};

struct gm_weight_file {
	char *name;         /* first; in the folder */
	char *header;       /* holds the names, and nothing else */
	uint64_t pairs_end; /* of GGUF: where its key-value pairs end */
	struct stat stat;
};

/* A GGUF file's number among the files of its model.  All 0: it is not
 * split. */
struct gm_weights_split {
	uint64_t n_parts, part;
	uint64_t n_tensors; /* of all parts; 0: not said */
};

struct gm_weights {
	char *folder;   /* with its last '/' */
	bool is_file;   /* a path was given, not a folder */
	bool has_index; /* there is one, read or not */
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

/* Called before each file is read, with the number of files before it, and of
 * all. */
struct gm_weights_watch {
	void (*read)(void *data, uint32_t n_read, uint32_t n_files);
	void *data;
};

/* ---- types.c ----------------------------------------------------- */

/* The name of a type, such as "BF16"; and the enum gpumap_dtype for it, U8
 * where there is none. */
const char *gm_weights_type(uint32_t type);
uint32_t gm_weights_dtype(uint32_t type);

/* Bits of an element; 0: a type of GGUF's whose elements come in blocks. */
uint32_t gm_weights_bits(uint32_t type);

/* Find the type by its name; false: there is none. */
bool gm_weights_type_find(const char *name, uint32_t *ret_type);

struct gm_weights_block {
	uint32_t type;
	uint32_t elements;
	uint32_t bytes;
};

/* A type of GGUF that is newer than this library: its blocks are not known, and
 * its tensors have the bytes up to the next one. */
#define GM_WEIGHTS_OTHER "OTHER"

/* Find GGUF's type by its number; false: it is not known. */
bool gm_weights_gguf_type(uint32_t number, struct gm_weights_block *ret_block);

/* ---- fingerprint.c ------------------------------------------------------- */

/* A number that is another one where the files have other names, sizes or
 * modification times, or other tensors.  The folder does not count. */
uint64_t gm_fingerprint_weights(const struct gm_weights *weights);

/* A number of the files alone that gm_weights_list() finds, which is another
 * one, too, where they are other inodes or were changed: times can be set.  0:
 * their headers say which others belong to them. */
uint64_t gm_fingerprint_files(const struct gm_weights *weights);

/* ---- checkpoint.c -------------------------------------------------------- */

/*
 * gm_weights_read - all tensors of the checkpoint at @path
 *
 * watch	may be NULL
 * why		receives what is wrong
 * ret_weights	free with gm_weights_free()
 *
 * Returns	0
 *		-ENOENT		there is no such checkpoint, or a file is
 *				missing
 *		-ENODATA	a file is shorter than its header says
 *		-EINVAL		it is malformed, or contradicts itself
 *		-E2BIG		beyond a limit
 *		-EOPNOTSUPP	GGUF of a version that is not known
 *		-EACCES, -EIO, -ENOMEM, ...	from the kernel
 */
int gm_weights_read(const char *path, const struct gm_weights_watch *watch,
		    struct gm_reason *why, struct gm_weights *ret_weights);

/* The checkpoint's files alone, with their stat, of which none is read: of a
 * split GGUF file the one at @path.  Returns as gm_weights_read(). */
int gm_weights_list(const char *path, struct gm_reason *why,
		    struct gm_weights *ret_weights);

/* Any regular file as a checkpoint of one tensor: all its bytes, as U8, by the
 * name of the file.  Returns as gm_weights_read(); -EINVAL: no file, or an
 * empty one. */
int gm_weights_whole(const char *path, struct gm_reason *why,
		     struct gm_weights *ret_weights);

/* The metadata of a checkpoint: see enum gpumap_model_meta_format. */
struct gm_weights_meta {
	void *data; /* to free(); NULL: it has none */
	uint64_t bytes;
	uint32_t format;
};

/* Read it.  Returns as gm_weights_read(), -E2BIG: longer than @most bytes. */
int gm_weights_meta_read(struct gm_weights *weights, uint64_t most,
			 struct gm_weights_meta *ret_meta);

/* The tensor of this name, or NULL. */
const struct gm_weight *gm_weights_find(const struct gm_weights *weights,
					const char *name);
void gm_weights_free(struct gm_weights *weights);

/* Open one of the checkpoint's files.  Returns the descriptor, or a negative
 * errno. */
int gm_weights_open(struct gm_weights *weights, uint32_t file,
		    struct stat *ret_stat);

/* Take the tensors of a file that is open, whose stat is known. */
int gm_weights_read_header(struct gm_weights *weights, uint32_t i, int fd);

/* Read @n bytes of a file.  Returns 0, -ENODATA: the file ends before that, or
 * the kernel's error. */
int gm_weights_read_at(struct gm_weights *weights, const char *name, int fd,
		       uint64_t from, void *to, size_t n);

/* Store a sentence about the error.  Returns @error. */
int gm_reason_set(struct gm_reason *why, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The end of a path that is too long for a message, or the path itself. */
const char *gm_reason_path(const char *path);

/* For the readers of headers.  Add a tensor, or a dimension to the last shape,
 * of @weight.  Returns 0, -E2BIG or -ENOMEM. */
int gm_weights_add(struct gm_weights *weights, const struct gm_weight *weight);
int gm_weights_add_dim(struct gm_weights *weights, struct gm_weight *weight,
		       uint64_t dim);

/* Sort as qsort() does.  Files have their tensors in order mostly: then each is
 * compared once. */
void gm_weights_sort(void *v, size_t n, size_t bytes,
		     int (*compare)(const void *, const void *));

/* Sort elements that begin with a name, all of one text: of those with the same
 * name the last in the text stays.  Returns how many do. */
size_t gm_weights_keep_last(void *v, size_t n, size_t bytes);

/* Order the tensors from @first on by their places in their file. */
void gm_weights_sort_places(struct gm_weights *weights, size_t first);

/* Keep only the names of the header of @file, which are at its start; its
 * tensors are those from @first on. */
void gm_weights_keep_names(struct gm_weights *weights, uint32_t file,
			   size_t first);

/* ---- header.c ---------------------------------------------------- */

/*
 * gm_weights_length - check the first bytes of a safetensors file
 *
 * name		of the file
 * raw		GM_WEIGHTS_LENGTH bytes
 * size		of the file, at least as many
 * ret_bytes	receives the length of the header
 *
 * Returns	0, -EINVAL, -ENODATA
 */
int gm_weights_length(struct gm_weights *weights, const char *name,
		      const void *raw, uint64_t size, uint64_t *ret_bytes);

/*
 * gm_weights_header - take the tensors of a header
 *
 * file		the file that they belong to
 * text		@n bytes, writable; the tensors' names stay in there
 * at		offset in the file of the first byte behind the header
 * bytes	of data from there on
 *
 * Returns	0, -EINVAL, -ENODATA, -E2BIG, -ENOMEM.  Unless it is 0, no
 *		tensor has been added
 */
int gm_weights_header(struct gm_weights *weights, uint32_t file, char *text,
		      size_t n, uint64_t at, uint64_t bytes);

/* ---- gguf.c ------------------------------------------------------ */

/*
 * gm_weights_gguf_header - take the tensors of a GGUF file's header
 *
 * bytes	the first @n of the file, writable; the tensors' names stay in
 *		there
 * file_bytes length of the file
 * ret_split	its number among the model's files
 *
 * Returns	0, -EINVAL, -ENODATA, -EOPNOTSUPP, -E2BIG, -ENOMEM
 *		-EAGAIN		the header goes on behind @n.  Unless it is 0,
 *				no tensor has been added
 */
int gm_weights_gguf_header(struct gm_weights *weights, uint32_t file,
			   void *bytes, size_t n, uint64_t file_bytes,
			   struct gm_weights_split *ret_split);

/* Take the tensors of one of the files.  After the first file of a split model
 * this adds the model's other files to the list.  Returns as
 * gm_weights_gguf_header(). */
int gm_weights_gguf(struct gm_weights *weights, uint32_t file, int fd);

/* After all files have been read: is the number of tensors the one that the
 * files state?  Returns 0 or -EINVAL. */
int gm_weights_gguf_check(struct gm_weights *weights);

/* Bytes in a header, without a NUL behind them. */
struct gm_weights_text {
	const char *at;
	uint64_t n;
};

bool gm_weights_text_is(struct gm_weights_text text, const char *word);

/* A key and its value in the metadata of a GGUF file. */
struct gm_weights_pair {
	struct gm_weights_text key;
	struct gm_weights_text text; /* where it is one */
	uint64_t number;             /* likewise, if it is whole */
	bool is_number, is_list;
	/* of a list of whole numbers or truths; else 0 */
	const unsigned char *items;
	uint64_t n_items;
	uint32_t item_bytes;
};

/* An item of a list, less than n_items. */
uint64_t gm_weights_item(const struct gm_weights_pair *pair, uint64_t i);

typedef void gm_weights_pair_fn(void *data, const struct gm_weights_pair *pair);

/* Call @visit with each pair of a GGUF file's metadata.  Returns 0, or an error
 * where a pair is none. */
int gm_weights_gguf_pairs(const struct gm_weights_meta *meta,
			  gm_weights_pair_fn *visit, void *data);

/* ---- config.c ---------------------------------------------------- */

#define GM_WEIGHTS_KINDS 1024u /* layers; those behind them are UNKNOWN */

/* The metadata may say this of a layer's attention. */
enum gm_layer_kind {
	GM_LAYER_UNKNOWN,
	GM_LAYER_FULL,
	GM_LAYER_WINDOW, /* over the last tokens alone */
	GM_LAYER_STATE,  /* none, but a recurrence or a convolution */
	GM_LAYER_NONE    /* neither */
};

/* The facts that planning needs of a model's metadata.  Numbers are at most
 * 2^24; 0: not known. */
struct gm_weights_config {
	uint32_t n_layers;
	uint32_t n_extra; /* layers stored after them to predict more tokens */
	uint32_t n_heads; /* of attention */
	uint32_t n_kv_heads;
	uint32_t k_dim; /* of one head; 0: nothing is known of the KV cache */
	uint32_t v_dim;
	bool says_dim; /* k_dim is said, and not a head's part of the width */
	uint32_t kv_lora_rank; /* not 0: keys and values are kept compressed */
	uint32_t kpe_head_dim;
	uint32_t state_width; /* elements that a recurrence keeps for each of
			       * its inner ones */
	uint32_t state_bytes; /* of an element of a recurrence */
	uint32_t conv_taps;   /* of its convolutions */
	uint32_t n_shared;    /* the last layers, which read what others keep */
	uint32_t n_cross;     /* tokens of an encoder's output; 0: as many as
			       * the sequence has */
	uint32_t window;      /* tokens that layers of kind WINDOW keep */
	uint32_t loop_first;  /* the layers from this one up to loop_end - 1 */
	uint32_t loop_end;    /* run n_passes times, and keep as much more */
	uint32_t n_passes;
	uint8_t kinds[GM_WEIGHTS_KINDS]; /* enum gm_layer_kind */
	char type[64];                   /* "llama", or empty */
};

/*
 * gm_weights_config_read - find the facts in metadata
 *
 * meta		is changed, and of no use afterwards
 *
 * Returns	0
 *		-EINVAL	it is not JSON, no object, or has a number that cannot
 *			be
 */
int gm_weights_config_read(const struct gm_weights_meta *meta,
			   struct gm_reason *why,
			   struct gm_weights_config *ret_config);

/* Find the facts in the checkpoint's metadata; a single file may have none.
 * Returns as gm_weights_meta_read() and gm_weights_config_read(), -ENOENT: a
 * directory without a config.json. */
int gm_weights_config_of(struct gm_weights *weights,
			 struct gm_weights_config *ret_config);

/* ---- sizes.c ----------------------------------------------------- */

/* A model on disk, layer by layer. */
struct gm_weights_sizes {
	uint32_t n_layers; /* at least 1 */
	uint32_t n_files;
	uint64_t n_tensors;
	uint64_t *layer_bytes; /* n_layers of them, the last with the head */
	struct gpumap_layer_cache *caches; /* of all layers */
	uint32_t n_caches;    /* neighbours that keep the same are one */
	uint64_t other_bytes; /* embeddings, vision tower... */
	uint64_t total_bytes; /* all layers and the others */
	uint64_t head_bytes;  /* of the last layer's: head and norm */
	uint64_t tied_bytes;  /* of the embedding, if it is the head as well */
	uint32_t type;        /* of most bytes, for gm_weights_type() */
	struct gm_weights_config config;
};

/*
 * gm_weights_measure - measure the model at @path
 *
 * No layer may be missing, and as many must be there as the metadata say: a
 * difference means that a download has stopped half-way, or that files of two
 * models got mixed.  (The metadata name the layers that a model stores past its
 * last to predict more tokens; they count as others.)  Tensors that the index
 * does not name count, because a loader that reads their file holds them.
 *
 * watch	as for gm_weights_read()
 * ret_sizes	give them back with gm_weights_sizes_free()
 *
 * Returns	as gm_weights_read() and gm_weights_config_read()
 *		-ENOENT		a directory without a config.json
 *		-EINVAL		no layers, a layer without tensors, or not as
 *				many as the metadata say
 *		-E2BIG		more layers than a map may have
 */
int gm_weights_measure(const char *path, const struct gm_weights_watch *watch,
		       struct gm_reason *why,
		       struct gm_weights_sizes *ret_sizes);

/* Measure the layers of a checkpoint that has been read, by sizes->config.
 * Returns as gm_weights_measure() about layers; sizes is to be freed. */
int gm_weights_measure_layers(const struct gm_weights *weights,
			      struct gm_weights_sizes *sizes);

/* Free what gm_weights_measure() gave.  NULL is allowed. */
void gm_weights_sizes_free(struct gm_weights_sizes *sizes);

/* ---- layers.c ---------------------------------------------------- */

/*
 * A tensor's layer, or what it is instead.  The head, which computes a token
 * from what the last layer gives, and the norm before it are with that layer,
 * as in vLLM, SGLang, llama.cpp and accelerate.
 */
enum gm_layer_of {
	GM_OF_HEAD = -4,
	GM_OF_LAST_NORM = -3,
	GM_OF_EMBEDDING = -2,
	GM_OF_NO_LAYER = -1
};

/* The layer that it is with; negative: it is with none. */
static inline int32_t gm_layer_with(int32_t layer, uint32_t n_layers)
{
	return layer <= GM_OF_LAST_NORM ? (int32_t)n_layers - 1 : layer;
}

/* The map whose layers are sought. */
struct gm_layers_sought {
	const char *map;       /* its name, for messages */
	const uint64_t *bytes; /* of each layer; NULL or 0: not known */
	uint32_t n_layers;
};

/* The layers that were found. */
struct gm_layers_stack {
	const char *prefix; /* of their tensors' names, "model.layers." */
	size_t prefix_bytes;
	uint64_t n_layers; /* with those past the map's last */
};

/*
 * gm_weights_layers - find the layer of each tensor
 *
 * A model may have layers past the map's: to predict more tokens, as its
 * metadata say, or else where its first layers have the bytes of the map's.
 *
 * ret_layers	receives weights->n numbers: of the map's layers, or enum
 *		gm_layer_of
 * ret_stack	may be NULL; its text is that of @weights
 *
 * Returns	0
 *		-EINVAL		the model has no layers, or not as many as the
 *				map, or a layer without tensors
 *		-ENOMEM		with no reason
 */
int gm_weights_layers(struct gm_weights *weights,
		      const struct gm_layers_sought *sought,
		      int32_t *ret_layers, struct gm_layers_stack *ret_stack,
		      struct gm_reason *why);

/*
 * gm_weights_own_layers - find the layers of the model itself, of which
 * @config says how many there are, if it does
 *
 * A model may have several stacks of layers, such as a vision tower's beside
 * the language model's: the one with as many layers as @config states is the
 * model's, or the largest of several such.
 *
 * ret_layers	receives weights->n numbers: layers, or enum gm_layer_of
 * ret_n	receives the number of layers, at least 1
 *
 * Returns	as gm_weights_measure() about layers; -ENOMEM
 */
int gm_weights_own_layers(const struct gm_weights *weights,
			  const struct gm_weights_config *config,
			  int32_t *ret_layers, uint32_t *ret_n);

/* ---- cache.c ----------------------------------------------------- */

/* Find what each of @n_layers layers keeps of a sequence; @layers has the layer
 * of each tensor.  The number of heads is stored in @config if that has none.
 * Each of @ret_caches receives one layer.  Returns 0, -ENOMEM. */
int gm_weights_cache_find(const struct gm_weights *weights,
			  struct gm_weights_config *config,
			  const int32_t *layers, uint32_t n_layers,
			  struct gpumap_layer_cache *ret_caches);

/* ---- index.c ----------------------------------------------------- */

/* The content of an index: tensors, and the files that hold them. */
struct gm_weights_index {
	char *text; /* holds the strings */
	struct gm_indexed {
		const char *tensor;
		const char *file;
	} * v; /* by file */
	size_t n;
	size_t room;
};

/* Parse an index.  @text is writable and allocated; the index owns it from now
 * on.  Returns 0, -EINVAL, -E2BIG or -ENOMEM. */
int gm_weights_index_read(struct gm_weights *weights, char *text, size_t n,
			  struct gm_weights_index *ret_index);
int gm_weights_index_check(struct gm_weights *weights,
			   const struct gm_weights_index *index);
void gm_weights_index_free(struct gm_weights_index *index);

/* Make room for one more element in a list, whose room doubles.  Returns NULL,
 * or the list, which may have moved. */
void *gm_weights_grow(void *list, size_t n, size_t *room, size_t each);

/* Add a file to the list.  Returns 0, -E2BIG or -ENOMEM. */
int gm_weights_add_file(struct gm_weights *weights, const char *name);

#define GM_WEIGHTS_INDEX_NAME "model.safetensors.index.json"

#endif

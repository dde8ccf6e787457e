/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/model.h - load checkpoints into the memory of devices.
 */
#ifndef GPUMAP_MODEL_H
#define GPUMAP_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include <gpumap/layers.h>
#include <gpumap/session.h>
#include <gpumap/share.h>
#include <gpumap/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A model is a checkpoint in the memory of devices: each of its tensors is on
 * the row of its layer, in buffers that the session has as if it had allocated
 * them.  Tensors of a row share a few large buffers, each at a multiple of 256
 * bytes.
 *
 * Jobs of the session load the model, some at a time, beside its other jobs: a
 * job that is submitted to a row meanwhile waits for 128 MiB of reading at
 * most.  Each call that takes completions submits the next ones, gpumap_poll()
 * and gpumap_wait() as well as those below: if the program calls none of them
 * for long, the storage is idle.  For loads that must not hold up other jobs,
 * use a session of their own.
 *
 * A model with a name is loaded once, for all sessions that may have it.  If a
 * model of the name exists already, a session that loads it has it at once.
 * Otherwise one of the sessions loads it while the others are WAITING; when
 * that session fails or dies, another loads it.  The name identifies the model:
 * maps and rows are not compared.  A session that would load other files than
 * those that the name holds is refused: the names, sizes and modification times
 * of the files are compared, not the folder.  Their headers are not read again,
 * but those of a split GGUF file.  Fingerprints are compared, too, where the
 * program gives one.
 *
 * The model is a share, with its buffers in their order, and exists as long as
 * any session holds it: until each has called gpumap_model_close(), or ended;
 * or with GPUMAP_SHARE_KEEP until gpumap_share_release().
 */
struct gpumap_model;

/* A flag of gpumap_model_opts: what the name holds will do, whatever files it
 * was loaded from.  @path need not exist then. */
#define GPUMAP_MODEL_ANY_FILES (UINT32_C(1) << 8)

/* A flag of gpumap_model_opts: @path is one file, of any content, and goes
 * whole to one host row, rows[0] without @layers.  The model has one tensor:
 * all bytes of the file as U8, by the file's name, alone in one buffer.  A
 * descriptor of that buffer, by gpumap_share_fd(), is a file of the same bytes
 * and the same length for any program that reads or maps files: shared
 * read-only, it can be neither written nor cut nor extended. */
#define GPUMAP_MODEL_AS_FILE (UINT32_C(1) << 9)

/* A flag of gpumap_model_open(): memory of host rows is mapped into this
 * process, and not imported for jobs: tensors there have @data, and no buffer.
 * The mapping can be written unless the model is opened read-only. */
#define GPUMAP_MODEL_MAPPED (UINT32_C(1) << 10)

struct gpumap_model_opts {
	size_t size;        /* sizeof(struct gpumap_model_opts) */
	const char *path;   /* a directory with safetensors files and, if there
			       * are several, their index; or one such file; or
			       * a GGUF file, any part of one that is split */
	const char *layers; /* the layer map to follow; NULL: all goes to
			     * rows[0] */
	const uint32_t *rows; /* load only tensors of these rows; NULL: all */
	uint32_t n_rows;
	uint32_t flags;   /* GPUMAP_BUFFER_EXPORTABLE, of the buffers on rows
			   * that export memory;
			   * GPUMAP_MODEL_ANY_FILES, with a name;
			   * GPUMAP_MODEL_AS_FILE */
	const char *name; /* for other sessions; NULL: not shared */
	/* With a name: */
	const uint32_t *uids; /* other users who may have it */
	uint32_t n_uids;      /* at most GPUMAP_SHARE_UIDS_MAX */
	uint32_t share_flags; /* GPUMAP_SHARE_*.  The session that loads it can
			       * write it all the same; these flags apply to
			       * sessions that open it.  A model that is
			       * there already keeps the flags that it has, see
			       * gpumap_share_info() */
	const struct gpumap_fingerprint *fingerprint; /* of the model, which a
						       * model of this name has
						       * to have; NULL: none */
};

enum gpumap_model_state {
	GPUMAP_MODEL_ALLOCATING =
		1, /* memory, on all rows, before any reading */
	GPUMAP_MODEL_LOADING = 2,
	GPUMAP_MODEL_LOADED = 3,
	GPUMAP_MODEL_ENDING = 4, /* it has failed; memory is being freed */
	GPUMAP_MODEL_FAILED = 5, /* it has failed, and has no memory any more */
	GPUMAP_MODEL_WAITING = 6 /* another session is loading it */
};

struct gpumap_model_progress {
	size_t size; /* sizeof(struct gpumap_model_progress), by the caller */
	uint32_t state; /* enum gpumap_model_state */
	int32_t status; /* ENDING and FAILED: the reason; else 0 */
	uint64_t bytes; /* loaded so far, of tensors */
	uint64_t total_bytes;
	uint64_t elapsed_ns;       /* of loading */
	uint64_t bytes_per_second; /* over the last seconds; once it is LOADED,
				    * over all of the loading; 0: not known
				    * yet */
	uint64_t left_ns;          /* at that rate; UINT64_MAX: not known */
	uint32_t n_tensors;        /* of the checkpoint */
	uint32_t n_buffers;
	uint32_t was_there; /* 1: another session had loaded it */
	uint32_t reserved;
	uint64_t share; /* the share, once it is LOADED; 0: it has no name */
};

struct gpumap_tensor {
	size_t size; /* sizeof(struct gpumap_tensor), set by the caller */
	const char *name;
	const char *type; /* of an element, as in the file: "BF16"; or of a
			   * block of elements: "Q4_K"; or "OTHER", of a type
			   * of GGUF that is newer than this library: its
			   * bytes end where the next tensor begins */
	uint32_t dtype;   /* enum gpumap_dtype; U8 for types that it lacks,
			   * such as those of blocks */
	uint32_t n_dims;
	const uint64_t *shape; /* n_dims of them, in elements; the last varies
				* fastest in memory, also for GGUF */
	uint32_t row;
	int32_t layer;   /* -1: of none */
	uint64_t buffer; /* 0: not LOADED, or not loaded on its row, or it has
			  * no bytes */
	uint64_t at;     /* offset in the buffer */
	uint64_t bytes;
	const void *data;  /* in this process, until gpumap_model_close(), of a
			   * host row with GPUMAP_MODEL_MAPPED; or NULL */
	uint32_t part;     /* the index of its buffer among the model's, as
			    * gpumap_model_buffers() lists them and
			    * gpumap_share_buffer() takes it; UINT32_MAX: not
			    * loaded here, or it has no bytes */
	uint32_t reserved; /* 0 */
};

/*
 * gpumap_model_load - begin to load a checkpoint onto the rows of a layer map
 *
 * Tensors of layer N are named [PREFIX.]layers.N.REST, or with layer, h, blk,
 * block or blocks instead.  Tensors of no layer go to the map's base row.  So
 * do those of layers behind the map's last, if the other layers have exactly
 * the sizes in the map, or the metadata say that they predict more tokens.
 * Bytes are loaded as the file has them, those of GGUF's quantised types as
 * blocks.  This call reads the headers, in this process; it waits for nothing
 * else, except on the first use of a row as gpumap_alloc() does.
 *
 * ret_model	give it back with gpumap_model_close(), even if loading fails
 *
 * Returns	0
 *		-ENOENT		no such checkpoint, a file of it is missing, or
 *				no map has this name
 *		-ENODATA	a file is shorter than its header says
 *		-EINVAL		a file is malformed, or contradicts another; the
 *				map is for a model with other layers; neither
 *				map nor row; nothing to load; other flags
 *		-EOPNOTSUPP	GGUF of a version that is not known; or the map
 *				gives each row a part of every layer; or a file
 *				for a row that is no host row
 *		-E2BIG		4096 files, 2^20 tensors, 256 MiB of headers or
 *				64 MiB of metadata are exceeded; or opts uses a
 *				field that is newer than this library
 *		-EACCES, -EIO, -EMFILE, ...	a file cannot be opened or read
 *		-EAGAIN, -EPROTO	of the map, as gpumap_layers_read()
 *		-ENODEV, -ENOMEM, -ESHUTDOWN, -ECONNRESET, -EOWNERDEAD
 *				as gpumap_alloc()
 *		with a name: -EEXIST, the name holds a model that was loaded
 *		from other files; -EKEYREJECTED, it has, or a session loads it
 *		for, another fingerprint; -EDQUOT, this session has claimed 16,
 *		or this user keeps as many shares as it may; -EPERM, the
 *		administrator limits shares to the same user, or lets this user
 *		keep none; and as gpumap_model_open() when the name exists
 *		gpumap_refusal() says which file, and what to do
 * Cost		an open and two reads for each file; with a name, one more round
 *		trip on the control socket, or an open for each file and what
 *		gpumap_model_open() costs
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_model_load(struct gpumap_session *session,
				 const struct gpumap_model_opts *opts,
				 struct gpumap_model **ret_model);

/*
 * gpumap_model_progress - make progress with loading, and report it
 *
 * ret_progress	set its @size before the call; may be NULL; stored always
 *
 * Returns	1	it is LOADED
 *		0	it is being loaded, or is freeing its memory; while it
 *			is WAITING, gpumap_refusal() names the session that
 *			loads it
 *		what has failed, once nothing is left of it:
 *		-ENOMEM		a device is full
 *		-EDQUOT		this user would have more there than it may
 *		-ENODATA	a file has become shorter since its header was
 *				read
 *		-ESTALE		a file has been changed or replaced since then;
 *				or a buffer was freed meanwhile
 *		-EREMOTEIO	the storage, or its file system, failed a read
 *		-EACCES, -ENOENT, ...	a file cannot be opened any more
 *		-EIO		the worker of a row died
 *		-ECANCELED	gpumap_model_cancel()
 *		-ENODEV, -ECONNRESET, -EOPNOTSUPP, ...	as gpumap_submit()
 *		with a name, as gpumap_share_publish() and gpumap_model_load(),
 *		too
 *		gpumap_refusal() says which file or row, and what to do
 *		-E2BIG, -EINVAL	ret_progress->size; nothing was stored then
 *		-EOWNERDEAD
 * Cost		takes completions and submits the next jobs; waits only for the
 *		agent: on the first use of a file on a row, after its last use,
 *		and with a name for each buffer before and after the reading.
 *		While it is WAITING the call asks the agent ten times a second,
 *		and nothing wakes a thread that sleeps on gpumap_session_fd()
 * Threads	the session's own thread
 */
GPUMAP_API int
gpumap_model_progress(struct gpumap_model *model,
		      struct gpumap_model_progress *ret_progress);

/*
 * gpumap_model_wait - wait until the model is LOADED, or has failed
 *
 * deadline_ns	on CLOCK_MONOTONIC, or GPUMAP_NO_DEADLINE
 *
 * Returns	0		it is LOADED
 *		-ETIME		the deadline passed; call again
 *		-EAGAIN		jobs have ended that fill a row's queue: take
 *				their completions, and call again
 *		what has failed, as gpumap_model_progress()
 * Cost		as gpumap_model_progress() and gpumap_wait()
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_model_wait(struct gpumap_model *model,
				 uint64_t deadline_ns);

/*
 * gpumap_model_open - open a model that another session has loaded by this name
 *
 * No file is opened or read: the tensors are as they were shared, with names,
 * shapes and places, and the buffers are imported.
 *
 * flags	GPUMAP_SHARE_READ_ONLY, which is required if it is shared so;
 *		GPUMAP_MODEL_MAPPED; or 0
 * expect	the fingerprint that it has to have; NULL: any, or none
 * ret_model	LOADED; give it back with gpumap_model_close()
 *
 * Returns	0
 *		-ENOENT		no model has this name; a session may be loading
 *				it
 *		-EINVAL		no name; or the share of this name is no model
 *		-EPROTO		it was shared by another release of the library
 *		-EKEYREJECTED	it has another fingerprint, or none
 *		-EACCES, -EALREADY, -EDQUOT, -E2BIG, -EOPNOTSUPP, -EMFILE,
 *		-ENOMEM, -ECONNRESET, -EOWNERDEAD
 *				as gpumap_share_open() and
 *				gpumap_buffer_import()
 *		gpumap_refusal() says more
 * Cost		that of gpumap_share_open(), of a row's first use, and of
 *		gpumap_share_buffer() for each buffer.  Mapped: of
 *		gpumap_share_fds() for every 32 buffers, and two system calls
 *		for each; no worker takes part
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_model_open(struct gpumap_session *session,
				 const char *name, uint32_t flags,
				 const struct gpumap_fingerprint *expect,
				 struct gpumap_model **ret_model);

/*
 * gpumap_model_renew - import buffers again after a worker has died
 *
 * For a model with a name, after jobs with its buffers have ended with -ESTALE
 * or -EIO: the memory of a host row still exists, and so does a GPU's if the
 * administrator keeps it.  The handles of that row change: call
 * gpumap_model_find() again.  Rows whose worker is alive are left as they are.
 *
 * Returns	0
 *		-ENOENT		the share has ended: load it again
 *		-EAGAIN		it is not LOADED; or jobs have ended that fill a
 *				row's queue: take their completions, and call
 *				again
 *		-EINVAL		it has no name
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD, ...	as gpumap_share_buffer()
 * Cost		that of gpumap_share_buffer() for each buffer of such a row
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_model_renew(struct gpumap_model *model);

/*
 * gpumap_model_cancel - stop loading, and free the model's memory
 *
 * The jobs in flight end first; gpumap_model_progress() tells when nothing is
 * left.  If the storage does not answer they never end, and only
 * gpumap_session_close() helps.
 *
 * Returns	0; also when loading was over: the call then does nothing
 *		-EOWNERDEAD
 * Cost		as gpumap_model_progress()
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_model_cancel(struct gpumap_model *model);

/*
 * gpumap_model_close - give a model back, with its memory; NULL is allowed
 *
 * A model with a name is only closed for this session: the memory stays as long
 * as another session holds it, or the share is kept.
 *
 * The call waits for the model's jobs in flight.  Jobs that name its buffers
 * and were submitted before can still use them, as after gpumap_buffer_free().
 * The call may follow gpumap_session_close(), which frees the memory, too, and
 * does not wait then.
 *
 * deadline_ns	on CLOCK_MONOTONIC, or GPUMAP_NO_DEADLINE
 *
 * Returns	0
 *		-ETIME		the deadline passed; the model is still there,
 *				and ends: call again, or after
 *				gpumap_session_close()
 *		-EAGAIN		jobs have ended that fill a row's queue: take
 *				their completions, and call again
 * Cost		a wait for the jobs in flight, then for each buffer as
 *		gpumap_buffer_free(), and with a name as gpumap_share_close()
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_model_close(struct gpumap_model *model,
				  uint64_t deadline_ns);

/*
 * gpumap_model_find - find a tensor by its name
 *
 * ret_tensor	set its @size before the call; the strings and the shape are the
 *		model's, and are valid as long as it exists
 *
 * Returns	0
 *		-ENOENT		the checkpoint has no tensor of this name
 *		-E2BIG, -EINVAL	ret_tensor->size is more than 4096 bytes, or
 *				smaller than its first fields
 * Cost		a binary search
 * Threads	any, while none has another call with this model
 */
GPUMAP_API int gpumap_model_find(const struct gpumap_model *model,
				 const char *name,
				 struct gpumap_tensor *ret_tensor);

/*
 * gpumap_model_next - list all tensors by name, one for each call
 *
 * cursor	0 for the first call, then as it was left by the last
 *
 * Returns	1 with a tensor, 0 when there is none left, or as
 *		gpumap_model_find()
 * Cost		no search; no system call
 * Threads	any, while none has another call with this model
 */
GPUMAP_API int gpumap_model_next(const struct gpumap_model *model,
				 uint32_t *cursor,
				 struct gpumap_tensor *ret_tensor);

/* The form of a checkpoint's metadata. */
enum gpumap_model_meta_format {
	GPUMAP_META_CONFIG_JSON = 1, /* the file config.json beside the files */
	GPUMAP_META_GGUF = 2 /* the first bytes of the model's first file, up to
			      * the end of its key-value pairs */
};

struct gpumap_model_meta {
	size_t size;     /* sizeof(struct gpumap_model_meta), by the caller */
	uint32_t format; /* enum gpumap_model_meta_format */
	uint32_t reserved;
	const void *data; /* the model's; until gpumap_model_close(),
			   * gpumap_share_close() of its share, or the end of
			   * its session */
	uint64_t bytes;
};

/*
 * gpumap_model_meta - get the metadata of the checkpoint
 *
 * The program that loads a model reads it with the headers; it is in the share
 * of a model with a name, in memory that never changes, so that a session that
 * opens the model needs no file.  With the names and shapes of the tensors it
 * has at most GPUMAP_SHARE_ABOUT_MAX bytes, which count with the arenas of the
 * user that loads the model.
 *
 * ret_meta	set its @size before the call
 *
 * Returns	0
 *		-ENODATA	the checkpoint has none; the model is WAITING or
 *				has failed; or its session was closed
 *		-E2BIG, -EINVAL	ret_meta->size is more than 4096 bytes, or
 *				smaller than the struct
 * Cost		no system call; nothing is copied
 * Threads	any, while none has another call with this model
 */
GPUMAP_API int gpumap_model_meta(const struct gpumap_model *model,
				 struct gpumap_model_meta *ret_meta);

/* A checkpoint on disk: what gpumap_plan_make() asks of a model.  Made by the
 * library, which may append fields. */
struct gpumap_model_sizes {
	uint32_t n_layers; /* 1 or more */
	uint32_t n_files;
	uint64_t n_tensors;
	const uint64_t *layer_bytes; /* n_layers of them; the last one's with
				      * the head and the norm before it */
	uint64_t other_bytes;        /* of what belongs to no layer */
	uint64_t tied_bytes;         /* of the embedding, if it is the head as
				      * well; 0: it is not */
	uint64_t total_bytes;
	const char *type; /* of most bytes, as struct gpumap_tensor has it */
	uint32_t dtype;   /* likewise */
	uint32_t n_heads; /* of attention, as config.json has them, or the pairs
			   * of a GGUF file; 0: not known */
	/* The caches of all layers, by the shapes of the tensors and what the
	 * metadata say of windows; neighbours that keep the same are one */
	const struct gpumap_layer_cache *caches;
	uint32_t n_caches;
	uint32_t n_extra_layers; /* that the model stores past the last, to
				  * predict more tokens: part of other_bytes */
	char architecture[64];   /* "llama"; or empty */
	uint32_t conv_taps;      /* of convolutions over tokens; 0: not known */
	uint32_t state_bytes; /* of an element of a recurrence, as config.json
			       * says; 0: it does not */
};

/*
 * gpumap_model_measure - measure a checkpoint, layer by layer
 *
 * The files must be whole, no layer may be missing, and there must be as many
 * as the metadata say: a difference means that a download has stopped half-way,
 * or that files of two models got mixed.  Only headers are read.
 *
 * path		a directory with a config.json and safetensors files, one such
 *		file, or a GGUF file, any part of one that is split
 * ret_sizes	give them back with gpumap_model_sizes_free()
 *
 * Returns	0
 *		-ENOENT		no such checkpoint, or a file of it is missing
 *		-ENODATA	a file is shorter than its header says
 *		-EINVAL		a file is malformed, or contradicts another; no
 *				layers, or not all
 *		-EOPNOTSUPP	GGUF of a version that is not known
 *		-E2BIG		a limit of gpumap_model_load() is exceeded, or
 *				65536 layers
 *		-EACCES, -EIO, -ENOMEM, -EMFILE, ...	a file cannot be opened
 *				or read
 *		gpumap_refusal(NULL) says which file, and what to do
 * Cost		an open and two reads for each file, and one more of the
 *		metadata
 * Threads	any
 */
GPUMAP_API int gpumap_model_measure(const char *path,
				    struct gpumap_model_sizes **ret_sizes);

/*
 * gpumap_model_sizes_free - free what was measured; NULL is allowed
 *
 * Returns	nothing
 * Cost		frees
 * Threads	any
 */
GPUMAP_API void gpumap_model_sizes_free(struct gpumap_model_sizes *sizes);

struct gpumap_model_buffer {
	uint64_t buffer; /* 0: the model is not LOADED */
	uint64_t bytes;
	uint32_t row;
	uint32_t reserved;
	uint64_t spare[2]; /* 0 */
};

/*
 * gpumap_model_buffers - list the buffers that the model has, or will have
 *
 * The buffers belong to the model: free the model, not the buffers.  They may
 * be exported, as any buffer.
 *
 * ret_buffers	room for @n
 *
 * Returns	how many there are, which may be more than @n
 * Cost		no system call
 * Threads	any, while none has another call with this model
 */
GPUMAP_API uint32_t
gpumap_model_buffers(const struct gpumap_model *model,
		     struct gpumap_model_buffer *ret_buffers, uint32_t n);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/model.h - checkpoints in the memory of devices.
 */
#ifndef GPUMAP_MODEL_H
#define GPUMAP_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include <gpumap/session.h>
#include <gpumap/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A checkpoint in the memory of devices: each of its tensors on the row of its
 * layer, in buffers that the session has as if it had allocated them.  Tensors
 * of a row share a few large buffers, each at a multiple of 256 bytes.
 *
 * It is loaded by jobs of the session, some at a time, beside its other jobs:
 * one that is submitted to a row meanwhile waits for 128 MiB of reading at
 * most.  The next are submitted by whatever call takes completions,
 * gpumap_poll() and gpumap_wait() as well as those below: who calls none of
 * them for long lets the storage rest.  For loads that are to hold up nothing
 * else, have a session that does nothing else.
 *
 * With a name it is loaded once, for all sessions that may have it: who asks
 * for what is there by this name has it at once, of several that ask for what
 * is not there one loads and the others are WAITING, and when that one fails or
 * dies another loads.  The name alone says what it is: nobody compares files,
 * maps or rows.  It is a share, with its buffers in their order, and is there
 * as long as any session holds it: until that has called gpumap_model_free(),
 * or ended.
 */
struct gpumap_model;

struct gpumap_model_opts {
	size_t size;        /* sizeof(struct gpumap_model_opts) */
	const char *path;   /* a directory with safetensors files and, if there
			       * are several, their index; or one such file; or
			       * a GGUF file, any part of one that is split */
	const char *layers; /* the layer map to go by; NULL: all goes to
			       * rows[0] */
	const uint32_t
		*rows; /* only what belongs to these is loaded; NULL: all */
	uint32_t n_rows;
	uint32_t flags;   /* of the buffers: GPUMAP_BUFFER_EXPORTABLE or 0 */
	const char *name; /* by which others have it; NULL: nobody has */
	/* With a name: */
	const uint32_t *uids; /* other users who may have it */
	uint32_t n_uids;      /* at most GPUMAP_SHARE_UIDS_MAX */
	uint32_t share_flags; /* GPUMAP_SHARE_*.  Who loads it writes it all the
			       * same; who finds it has it so */
};

enum gpumap_model_state {
	GPUMAP_MODEL_ALLOCATING =
		1, /* memory, on all rows, before any reading */
	GPUMAP_MODEL_LOADING = 2,
	GPUMAP_MODEL_LOADED = 3,
	GPUMAP_MODEL_ENDING = 4, /* it has failed; memory is being given back */
	GPUMAP_MODEL_FAILED = 5, /* and it has nothing any more */
	GPUMAP_MODEL_WAITING = 6 /* another session is loading it */
};

struct gpumap_model_progress {
	size_t size; /* sizeof(struct gpumap_model_progress), by the caller */
	uint32_t state; /* enum gpumap_model_state */
	int32_t status; /* of ENDING and FAILED: why; else 0 */
	uint64_t bytes; /* loaded so far, of tensors */
	uint64_t total_bytes;
	uint64_t elapsed_ns;       /* of loading */
	uint64_t bytes_per_second; /* of the last seconds; once it is LOADED, of
				    * all; 0: not known yet */
	uint64_t left_ns;          /* at that rate; UINT64_MAX: not known */
	uint32_t n_tensors;        /* of the checkpoint */
	uint32_t n_buffers;
	uint32_t was_there; /* 1: another session had loaded it */
	uint32_t reserved;
	uint64_t share; /* once it is LOADED: that it is; 0: it has no name */
};

struct gpumap_tensor {
	size_t size; /* sizeof(struct gpumap_tensor), set by the caller */
	const char *name;
	const char *type; /* of an element, as the file has it: "BF16"; of a
			   * block of elements: "Q4_K" */
	uint32_t dtype;   /* enum gpumap_dtype; U8 for types that it lacks */
	uint32_t n_dims;
	const uint64_t *shape; /* n_dims of them, in elements; the last varies
				* fastest in memory, of GGUF's as well */
	uint32_t row;
	int32_t layer;   /* -1: of none */
	uint64_t buffer; /* 0: not LOADED, or its row was left out, or it has
			  * no bytes */
	uint64_t at;     /* where it begins in the buffer */
	uint64_t bytes;
};

/*
 * gpumap_load_model - begin to load a checkpoint onto the rows of a layer map
 *
 * Tensors are named [PREFIX.]layers.N.REST, or with layer, h, blk, block or
 * blocks, if they are of layer N.  Those of no layer, and of layers behind the
 * map's last where the others have just the sizes that the map says, go to its
 * base row.  Bytes are loaded as the file has them, those of GGUF's quantised
 * types as blocks.  Headers are read by this call, in this process; of the rest
 * nothing is waited for, but on the first use of a row as with gpumap_alloc().
 *
 * ret_model	give it back with gpumap_model_free(), whatever becomes of it
 *
 * Returns	0
 *		-ENOENT		no such checkpoint, a file of it is missing, or
 *				no map has this name
 *		-ENODATA	a file is shorter than its header says
 *		-EINVAL		a file is malformed, or contradicts another; the
 *				map is for a model of other layers; neither map
 *				nor row; nothing is to be loaded; other flags
 *		-EOPNOTSUPP	GGUF of a version, or with a type, that is not
 *				known; or the map gives each row a part of every
 *				layer; or the agent is older than this
 *		-E2BIG		4096 files, 2^20 tensors or 256 MiB of headers
 *				are exceeded; or opts uses a field that is newer
 *				than this library
 *		-EACCES, -EIO, -EMFILE, ...	a file cannot be opened or read
 *		-EAGAIN, -EPROTO	of the map, as gpumap_layers_read()
 *		-ENODEV, -ENOMEM, -ESHUTDOWN, -ECONNRESET, -EOWNERDEAD
 *				as gpumap_alloc()
 *		of a name: -EDQUOT, this session has claimed 16; -EPERM, the
 *		administrator keeps shares to one's own user; and as
 *		gpumap_model_open() when it is there
 *		gpumap_refusal() says which file, and what to do
 * Cost		an open and two reads for each file; with a name, one more round
 *		trip on the control socket, or what gpumap_model_open() costs
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_load_model(struct gpumap_session *session,
				 const struct gpumap_model_opts *opts,
				 struct gpumap_model **ret_model);

/*
 * gpumap_model_progress - how far is it?
 *
 * ret_progress	set its @size before the call; may be NULL; stored always
 *
 * Returns	1	it is LOADED
 *		0	it is on its way, or is giving back what it had; while
 *			it is WAITING, gpumap_refusal() says who loads it
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
 *		with a name, as gpumap_share() and gpumap_load_model() too
 *		gpumap_refusal() says which file or row, and what to do
 *		-E2BIG, -EINVAL	ret_progress->size; nothing was stored then
 *		-EOWNERDEAD
 * Cost		takes completions and submits what comes next; waits for nobody,
 *		but for the agent on the first use of a file on a row, after its
 *		last, and with a name for each buffer before the reading and
 *		behind it.  While it is WAITING the agent is asked ten times a
 *		second, and nothing wakes who sleeps on gpumap_session_fd()
 * Threads	the session's own thread
 */
GPUMAP_API int
gpumap_model_progress(struct gpumap_model *model,
		      struct gpumap_model_progress *ret_progress);

/*
 * gpumap_model_wait - until it is LOADED, or has failed
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
 * gpumap_model_open - have a model that another session has loaded by this name
 *
 * Nothing is read, and no file is looked at: the tensors are as they were
 * shared, with names, shapes and places, and the buffers are imported.
 *
 * flags	GPUMAP_SHARE_READ_ONLY, as it must be where it is shared so, or
 *		0
 * ret_model	LOADED; give it back with gpumap_model_free()
 *
 * Returns	0
 *		-ENOENT		nothing has this name; it may be on its way
 *		-EINVAL		no name; or what has it is no model
 *		-EPROTO		it was shared by another release of the library
 *		-EACCES, -EALREADY, -EDQUOT, -E2BIG, -EOPNOTSUPP, -EMFILE,
 *		-ENOMEM, -ECONNRESET, -EOWNERDEAD
 *				as gpumap_share_open() and
 *				gpumap_buffer_import()
 *		gpumap_refusal() says more
 * Cost		that of gpumap_share_open(), of a row's first use, and of
 *		gpumap_share_buffer() for each buffer
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_model_open(struct gpumap_session *session,
				 const char *name, uint32_t flags,
				 struct gpumap_model **ret_model);

/*
 * gpumap_model_renew - have its buffers again where a worker has died
 *
 * Of a model with a name, after jobs with its buffers have ended with -ESTALE
 * or -EIO: the memory of a host's row is still there, and so is a GPU's where
 * the administrator keeps it.  Handles of that row are others from then on: ask
 * gpumap_model_find() again.  Nothing is done for rows whose worker lives.
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
 * gpumap_model_cancel - load no more of it, and give back its memory
 *
 * What is in flight ends first; gpumap_model_progress() says when nothing is
 * left.  Where storage does not answer that is never, and only
 * gpumap_session_close() helps.
 *
 * Returns	0; also when it was over: then nothing is done
 *		-EOWNERDEAD
 * Cost		as gpumap_model_progress()
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_model_cancel(struct gpumap_model *model);

/*
 * gpumap_model_free - give back a model, and all its memory; NULL is allowed
 *
 * Of a model with a name only this session lets go: the memory stays as long as
 * any other has it.
 *
 * Waits for what is in flight of it.  Jobs that name its buffers and were
 * submitted before have them still, as after gpumap_buffer_free().  May follow
 * gpumap_session_close(), which gives back the memory, too.
 *
 * Returns	0
 *		-EAGAIN		jobs have ended that fill a row's queue: take
 *				their completions, and call again
 * Cost		a wait for what is in flight, then for each buffer as
 *		gpumap_buffer_free(), and of a name as gpumap_share_close()
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_model_free(struct gpumap_model *model);

/*
 * gpumap_model_find - a tensor by its name
 *
 * ret_tensor	set its @size before the call; the strings and the shape are the
 *		model's, and live as long
 *
 * Returns	0
 *		-ENOENT		the checkpoint has none of this name
 *		-E2BIG, -EINVAL	ret_tensor->size is larger than this library
 *				knows, or smaller than its first fields
 * Cost		a binary search
 * Threads	any, while none has another call with this model
 */
GPUMAP_API int gpumap_model_find(const struct gpumap_model *model,
				 const char *name,
				 struct gpumap_tensor *ret_tensor);

/*
 * gpumap_model_next - all tensors, one a call, by name
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

struct gpumap_model_buffer {
	uint64_t buffer; /* 0: the model is not LOADED */
	uint64_t bytes;
	uint32_t row;
	uint32_t reserved;
};

/*
 * gpumap_model_buffers - what it has taken, or will have
 *
 * They are the model's: free it, not them.  An export of one may be made and
 * forgotten as of any buffer.
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

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/share.h - buffers under a name, for other sessions.
 *
 * A share is a name for buffers of one session, that others may open: a set of
 * them, or one, published in one step, with some bytes that say what they are.
 * Whoever opens the name finds all of it, or -ENOENT.
 *
 * Who has shared it and who has opened it holds it, until gpumap_share_close()
 * or the end of the session.  A share is there as long as anybody holds it,
 * whoever that is, then its name is free; its memory is given back when nobody
 * has it imported or mapped any more, and is charged until then to whom it was.
 *
 * When the worker of a row dies, what was imported of it is -ESTALE, as any
 * buffer: gpumap_buffer_free() it, and have it anew with gpumap_share_buffer().
 * The memory is as it was written, to the end or half of it, by jobs of before.
 * Shares of a GPU's memory end with its worker unless the administrator keeps
 * them (keep-shares), and all end with the agent, or when a row of theirs is
 * drained or lost: calls say -ENOENT then.
 *
 * Names are those of one instance, of 1 to 63 bytes, without blanks and control
 * characters.
 */
#ifndef GPUMAP_SHARE_H
#define GPUMAP_SHARE_H

#include <stddef.h>
#include <stdint.h>

#include <gpumap/buffer.h>
#include <gpumap/session.h>
#include <gpumap/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Who opens it may not write it: jobs that would end with -EACCES, descriptors
 * cannot.  Who shares it can, by the handles that he has. */
#define GPUMAP_SHARE_READ_ONLY (UINT32_C(1) << 0)
/* Every user may open it; otherwise those that are named, and one's own. */
#define GPUMAP_SHARE_ANY_USER    (UINT32_C(1) << 1)

#define GPUMAP_SHARE_BUFFERS_MAX 1024
#define GPUMAP_SHARE_UIDS_MAX    64
#define GPUMAP_SHARE_ABOUT_MAX   (UINT64_C(64) << 20)

struct gpumap_share_request {
	size_t size; /* sizeof(struct gpumap_share_request) */
	const char *name;
	const uint64_t
		*buffers;     /* allocated here with GPUMAP_BUFFER_EXPORTABLE,
				  * in the order that openers see */
	uint32_t n_buffers;   /* 1 to GPUMAP_SHARE_BUFFERS_MAX */
	uint32_t flags;       /* GPUMAP_SHARE_* */
	const void *about;    /* copied; NULL: nothing */
	uint64_t about_bytes; /* at most GPUMAP_SHARE_ABOUT_MAX; they count
				  * with this user's arenas */
	const uint32_t *uids; /* other users who may open it */
	uint32_t n_uids;      /* at most GPUMAP_SHARE_UIDS_MAX */
	uint32_t reserved;
};

/* One share. */
struct gpumap_share_info {
	size_t size; /* sizeof(struct gpumap_share_info), set by the caller */
	uint64_t share;
	char name[64];
	uint32_t uid;   /* who is charged */
	uint32_t flags; /* GPUMAP_SHARE_* */
	uint32_t n_buffers;
	uint32_t n_holders; /* sessions; 0 in gpumap_share_info() */
	uint64_t bytes;     /* of all buffers */
	uint64_t about_bytes;
	const void *about; /* until gpumap_share_close(); NULL for none, and
			       * in gpumap_shares() */
	uint64_t age_ns;   /* 0 in gpumap_share_info() */
	uint32_t pid;      /* of who shared it, 0: he holds it no longer; and
			       * in gpumap_share_info() */
	uint32_t reserved;
};

/*
 * gpumap_share - give buffers of this session a name
 *
 * All of them at once, or none.  This session is the first that holds it; the
 * buffers stay its own, and may be freed: who opens the name has them still.
 * What is in them is for whoever opens it from now on, so write them first.
 *
 * ret_share	receives a number for the calls below, the same in every session
 *
 * Returns	0
 *		-EINVAL		the name, no buffer or too many, a buffer that
 *				is not exportable or was imported
 *		-E2BIG		a field or a flag newer than this library, or
 *				too much in @about
 *		-ESTALE, -ERANGE	this session has no such buffer
 *		-EEXIST		the name is taken
 *		-EBUSY		a buffer is shared already, or others have had
 *				it the other way, for writing or read-only
 *		-EPERM		a buffer is another session's; or the
 *				administrator keeps shares to one's own user
 *		-EDQUOT		this user has as many exports, or exported bytes
 *				of the row, or bytes with his arenas, as he may
 *		-EOPNOTSUPP	the device cannot, or the agent is older than
 *				this
 *		-EMFILE, -ENOMEM, -ECONNRESET, -EPROTO, -EOWNERDEAD
 *		gpumap_refusal() says more.  After an error nothing is shared
 * Cost		a round trip on the control socket and to the worker for each
 *		buffer, and one more; @about is copied once
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_share(struct gpumap_session *session,
			    const struct gpumap_share_request *request,
			    uint64_t *ret_share);

/*
 * gpumap_share_open - hold what has this name
 *
 * flags	GPUMAP_SHARE_READ_ONLY, as it must be where it is shared so, or
 *		0
 * ret_share	receives its number; give it back with gpumap_share_close()
 *
 * Returns	0
 *		-ENOENT		nothing has this name
 *		-EACCES		it is not for this user, or not for writing
 *		-EALREADY	this session holds it already
 *		-EDQUOT		this user has as many imports, or of a row as
 *				many bytes that others have exported, as he may
 *		-EINVAL		no name; -E2BIG: a flag newer than this library
 *		-EOPNOTSUPP	the agent is older than this
 *		-EMFILE, -ENOMEM, -ECONNRESET, -EPROTO, -EOWNERDEAD
 *		gpumap_refusal() says more
 * Cost		a round trip on the control socket, and three system calls where
 *		something is said about it
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_share_open(struct gpumap_session *session,
				 const char *name, uint32_t flags,
				 uint64_t *ret_share);

/*
 * gpumap_share_info - what it is
 *
 * ret_info	set its @size before the call
 *
 * Returns	0
 *		-ENOENT		this session does not hold it
 *		-E2BIG, -EINVAL	ret_info->size is larger than this library
 *				knows, or smaller than its first fields
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		no system call
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_share_info(struct gpumap_session *session, uint64_t share,
				 struct gpumap_share_info *ret_info);

/*
 * gpumap_share_buffer - one buffer of it, for jobs of this session
 *
 * The same at every call, until it is freed; to who has shared it, his own.
 *
 * index	from 0, in the order in which they were shared
 * ret_info	its bytes and row; set its @size before the call; may be NULL
 * ret_buffer	receives its name in this session; give it back with
 *		gpumap_buffer_free(), or all of them with gpumap_share_close().
 *		NULL: only to look, which asks nobody
 *
 * Returns	0
 *		-ENOENT		this session does not hold the share, or not any
 *				more; -ERANGE: it has no such buffer
 *		-E2BIG, -EINVAL	as gpumap_export_fd()
 *		and as gpumap_buffer_import()
 * Cost		the first time a round trip on the control socket, and one to
 *		the worker
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_share_buffer(struct gpumap_session *session,
				   uint64_t share, uint32_t index,
				   struct gpumap_export_info *ret_info,
				   uint64_t *ret_buffer);

/*
 * gpumap_share_fd - a descriptor of one buffer of it
 *
 * For a program that maps the memory itself, see gpumap_export_fd().  What is
 * shared read-only can be mapped PROT_READ alone; a GPU's memory could be
 * written all the same, and has no descriptor then.
 *
 * ret_info	its bytes and row; set its @size before the call
 * ret_fd	receives the descriptor, close-on-exec, for the caller to close.
 *		The buffer counts as imported until this session ends
 *
 * Returns	0
 *		-ENOENT, -ERANGE	as gpumap_share_buffer()
 *		-EACCES		shared read-only, and the device is a GPU
 *		-EDQUOT		this user has as many imports as he may
 *		-E2BIG, -EINVAL	as gpumap_export_fd()
 *		-EMFILE, -ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		a round trip on the control socket
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_share_fd(struct gpumap_session *session, uint64_t share,
			       uint32_t index,
			       struct gpumap_export_info *ret_info,
			       int *ret_fd);

/*
 * gpumap_share_close - hold it no longer; 0 is allowed
 *
 * Buffers that gpumap_share_buffer() imported are freed: no job that names one
 * may be in flight.  One's own stay.
 *
 * Returns	0, also where the share has ended by itself
 *		-ENOENT		this session does not hold it
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		a round trip on the control socket, and one for each buffer that
 *		was imported, or for each that was shared
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_share_close(struct gpumap_session *session,
				  uint64_t share);

/*
 * gpumap_share_release - take a name back, whoever holds it
 *
 * As if all who hold it had let go: the name is free, nobody imports anything
 * of it any more, and what has been imported stays its importers' until they
 * free it.  For who has shared it, and for root.
 *
 * Returns	0
 *		-ENOENT		nothing has this name
 *		-EPERM		another user has shared it
 *		-EINVAL		no name
 *		-EOPNOTSUPP	the agent is older than this
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EPROTO, -EOWNERDEAD
 *		gpumap_refusal() says more
 * Cost		a round trip on the control socket
 * Threads	one at a time
 */
GPUMAP_API int gpumap_share_release(struct gpumap *map, const char *name);

/*
 * gpumap_shares - what is shared in this instance, oldest first
 *
 * ret_info	room for @n; the @size of the first is set, and is that of all
 *
 * Returns	how many there are, which may be more than @n, or
 *		-E2BIG, -EINVAL	as gpumap_share_info()
 *		-EOPNOTSUPP	the agent is older than this
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EPROTO, -EOWNERDEAD, when
 *		ret_info may hold some of them
 * Cost		a round trip on the control socket for every 32
 * Threads	one at a time
 */
GPUMAP_API int gpumap_shares(struct gpumap *map,
			     struct gpumap_share_info *ret_info, size_t n);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/share.h - share buffers by a name with other sessions.
 *
 * A share is a name for one or more buffers of one session, which others may
 * open.  All are published in one step, with some bytes that describe them.  A
 * session that opens the name finds all of them, or -ENOENT.
 *
 * The session that shared it and each session that opened it hold it, until
 * gpumap_share_close() or the end of the session.  A share exists as long as
 * any session holds it, or with GPUMAP_SHARE_KEEP until gpumap_share_release();
 * then its name is free.  Its memory is freed when no session or process has it
 * imported or mapped any more; until then it is charged to the user who was
 * charged for it.
 *
 * When the worker of a row dies, imported buffers of the row are -ESTALE, as
 * any buffer: call gpumap_buffer_free(), and import them again with
 * gpumap_share_buffer().  The memory is as earlier jobs left it, which may have
 * written it in part.  Shares of a GPU's memory end with its worker unless the
 * administrator keeps them (keep-shares), and all end when a row of theirs is
 * drained or lost: calls return -ENOENT then.
 *
 * When the agent ends, so do its sessions, and what a process has mapped stays
 * mapped.  Where the service manager keeps the agent's descriptors (gpumapd(8),
 * SHARES OVER A RESTART), the next agent has each share, and each process that
 * held one holds it on, until it has opened the share in a session of the next
 * agent, or ends.  Elsewhere shares end with the agent.
 *
 * Names belong to one instance and have 1 to 63 bytes, without blanks and
 * control characters.  A name alone does not say what is in a share: a share
 * may have a fingerprint, and a session that opens it may say which one it
 * expects, and is refused where there is another.
 *
 * Where several sessions want a share that one of them has to make,
 * gpumap_share_claim() chooses one and has the others wait.
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

/* Sessions that open it may not write it: jobs that would write end with
 * -EACCES, and descriptors cannot write.  The session that shares it can write
 * by its own handles. */
#define GPUMAP_SHARE_READ_ONLY (UINT32_C(1) << 0)
/* Every user may open it; otherwise only the sharing user and those that are
 * named. */
#define GPUMAP_SHARE_ANY_USER (UINT32_C(1) << 1)
/* The share stays when no session holds it any more, until
 * gpumap_share_release(), the end of a row of it, or that of the agent where
 * no service manager keeps shares.  Its buffers stay charged to the sharing
 * user, and count with those that the user may export.  For root and gpumapd's
 * own user, and for others as many times as kept-shares-per-uid in [limits] of
 * gpumapd.conf says, which is 0 unless it is set. */
#define GPUMAP_SHARE_KEEP        (UINT32_C(1) << 2)

#define GPUMAP_SHARE_BUFFERS_MAX 1024
#define GPUMAP_SHARE_FIELDS_MAX  4096
#define GPUMAP_SHARE_UIDS_MAX    64
#define GPUMAP_SHARE_ABOUT_MAX   (UINT64_C(64) << 20)

/*
 * The identity of what is in a share.  Two shares with the same content, for
 * all that their users care about, have the same hash, and others have another:
 * a SHA-256 of all settings that the content depends on, for example.  Only the
 * hashes are compared.  With @fields on both sides a refusal names the
 * first line that differs.
 */
struct gpumap_fingerprint {
	size_t size;        /* sizeof(struct gpumap_fingerprint) */
	uint8_t hash[32];   /* not all 0 */
	const char *fields; /* lines KEY=VALUE, of which it is the hash, in an
			     * order that does not vary; at most
			     * GPUMAP_SHARE_FIELDS_MAX bytes; NULL: not told */
};

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
	const struct gpumap_fingerprint *fingerprint; /* NULL: none.  Its fields
						       * count with @about */
};

/* One share. */
struct gpumap_share_info {
	size_t size; /* sizeof(struct gpumap_share_info), set by the caller */
	uint64_t share;
	char name[64];
	uint32_t uid;   /* the user who is charged */
	uint32_t flags; /* GPUMAP_SHARE_* */
	uint32_t n_buffers;
	uint32_t n_holders; /* sessions, and processes that held it when an
			     * earlier agent ended; 0 of a share that is kept
			     * without any, and in gpumap_share_info() */
	uint64_t bytes;     /* of all buffers */
	uint64_t about_bytes;
	const void *about; /* until gpumap_share_close(); NULL for none, and
			       * in gpumap_share_list() */
	uint64_t age_ns;   /* 0 in gpumap_share_info() */
	uint32_t pid;      /* the process that shared it; 0: it holds it no
			    * longer; 0 in gpumap_share_info() */
	uint32_t reserved;
	uint64_t rows[GPUMAP_ROWS_MAX / 64]; /* of its buffers: bit row % 64 of
					      * rows[row / 64]; 0 in
					      * gpumap_share_info() */
	uint8_t fingerprint[32];             /* its hash; all 0: it has none */
};

/*
 * gpumap_share_publish - give buffers of this session a name
 *
 * All of them are shared at once, or none.  This session is the first holder.
 * The buffers stay its own, and it may free them: sessions that open the name
 * still have them.  Sessions that open the name see the content from then on,
 * so write it first.
 *
 * ret_share	receives a number for the calls below, the same in every session
 *
 * Returns	0
 *		-EINVAL		the name, no buffer or too many, a buffer that
 *				is not exportable or was imported
 *		-E2BIG		a field or a flag newer than this library, or
 *				too much in @about
 *		-ESTALE, -ERANGE	this session has no such buffer
 *		-EEXIST		the name is taken, or another session has
 *				claimed it
 *		-EKEYREJECTED	this session has claimed it for another
 *				fingerprint
 *		-EBUSY		a buffer is shared already, or others have
 *				imported it the other way, for writing or
 *				read-only
 *		-EPERM		a buffer is another session's; or the
 *				administrator limits shares to the same user, or
 *				lets this user keep none
 *		-EDQUOT		this user has as many exports, or exported bytes
 *				of the row, or bytes with its arenas, or shares
 *				that it keeps, as it may
 *		-EOPNOTSUPP	the device cannot
 *		-EMFILE, -ENOMEM, -ECONNRESET, -EPROTO, -EOWNERDEAD
 *		gpumap_refusal() says more.  After an error nothing is shared
 * Cost		a round trip on the control socket and to the worker for each
 *		buffer, and one more; @about is copied once
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_share_publish(struct gpumap_session *session,
				    const struct gpumap_share_request *request,
				    uint64_t *ret_share);

/*
 * gpumap_share_open - open the share of this name
 *
 * flags	GPUMAP_SHARE_READ_ONLY, which is required if it is shared so, or
 *		0
 * expect	the fingerprint that it has to have; NULL: any, or none
 * ret_share	receives its number; give it back with gpumap_share_close()
 *
 * Returns	0
 *		-ENOENT		nothing has this name
 *		-EKEYREJECTED	it has another fingerprint, or none:
 *				gpumap_refusal() names the first field that
 *				differs, or both hashes
 *		-EACCES		it is not for this user, or not for writing
 *		-EALREADY	this session holds it already
 *		-EDQUOT		this user has as many imports, or on a row as
 *				many imported bytes, as it may
 *		-EINVAL		no name; -E2BIG: a flag newer than this library
 *		-EMFILE, -ENOMEM, -ECONNRESET, -EPROTO, -EOWNERDEAD
 *		gpumap_refusal() says more
 * Cost		a round trip on the control socket, and three system calls if it
 *		has a description
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_share_open(struct gpumap_session *session,
				 const char *name, uint32_t flags,
				 const struct gpumap_fingerprint *expect,
				 uint64_t *ret_share);

/*
 * gpumap_share_claim - make the share of this name, or wait until it is there
 *
 * One of the sessions that claim a name gets it, makes the share and publishes
 * it.  For the others the call waits.  When the session that has the
 * claim publishes, they find the share; when it gives the claim back or ends,
 * its process killed, one of them has the claim.  A claim ends with
 * gpumap_share_publish() by this name, gpumap_share_unclaim(), or the session.
 *
 * flags	GPUMAP_SHARE_ANY_USER: the share will be for other users, too,
 *		whose sessions wait for it; otherwise they are refused.
 *		GPUMAP_SHARE_KEEP: it will be kept
 * fingerprint	of the share that this session wants; NULL: any
 * deadline_ns	on CLOCK_MONOTONIC, or GPUMAP_NO_DEADLINE; 0: do not wait
 *
 * Returns	0		this session has the claim: make the share
 *		-EEXIST		the share is there: gpumap_share_open() it.  Its
 *				fingerprint was not compared
 *		-EALREADY	this session has the claim already
 *		-ETIME		the deadline passed; gpumap_refusal() names the
 *				process that has the claim
 *		-EKEYREJECTED	a session has claimed the name for another
 *				fingerprint
 *		-EACCES		another user's session has claimed it, and not
 *				for others
 *		-EDQUOT		this session has claimed 16 names, or this user
 *				keeps as many shares as it may
 *		-EPERM		the administrator limits shares to the same
 *				user, or this user may keep none
 *		-EINVAL		no name; or a fingerprint that is none
 *		-E2BIG		a flag newer than this library, or too many
 *				fields
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 *		gpumap_refusal() says more
 * Cost		a round trip on the control socket, and ten a second while it
 *		waits.  Completions of this session are not taken meanwhile
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_share_claim(struct gpumap_session *session,
				  const char *name, uint32_t flags,
				  const struct gpumap_fingerprint *fingerprint,
				  uint64_t deadline_ns);

/*
 * gpumap_share_unclaim - give a claim back without having made the share
 *
 * Returns	0, also where this session has not claimed the name
 *		-EINVAL		no name
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		a round trip on the control socket
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_share_unclaim(struct gpumap_session *session,
				    const char *name);

/*
 * gpumap_share_info - read a share's facts
 *
 * ret_info	set its @size before the call
 *
 * Returns	0
 *		-ENOENT		this session does not hold it
 *		-E2BIG, -EINVAL	ret_info->size is more than 4096 bytes, or
 *				smaller than its first fields
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		no system call
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_share_info(struct gpumap_session *session, uint64_t share,
				 struct gpumap_share_info *ret_info);

/*
 * gpumap_share_buffer - import one buffer of a share, for jobs of this session
 *
 * The result is the same at every call, until the buffer is freed.  The session
 * that shared it receives its own buffer.
 *
 * index	from 0, in the order in which they were shared
 * ret_info	its bytes and row; set its @size before the call; may be NULL
 * ret_buffer	receives its name in this session; give it back with
 *		gpumap_buffer_free(), or all of them with gpumap_share_close().
 *		NULL: only ret_info, without a request to the agent
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
 * gpumap_share_fd - get a descriptor of one buffer of a share
 *
 * For a program that maps the memory itself, see gpumap_export_fd().  A buffer
 * of a host row that is shared read-only can only be mapped PROT_READ, or
 * MAP_PRIVATE.  A GPU's memory could be written through its descriptor all the
 * same, because no driver prevents it: there read-only is an agreement, which
 * the program keeps by mapping with GPUMAP_BUFFER_READ_ONLY (gpumap/cuda.h).
 * So only sessions of the user that shares it get such a descriptor.
 *
 * ret_info	its bytes and row; set its @size before the call
 * ret_fd	receives the descriptor, close-on-exec, for the caller to close.
 *		The buffer counts as imported until this session ends
 *
 * Returns	0
 *		-ENOENT, -ERANGE	as gpumap_share_buffer()
 *		-EACCES		another user shares it read-only, and the device
 *				is a GPU
 *		-EDQUOT		this user has as many imports as it may
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
 * gpumap_share_fds - get descriptors of several buffers of a share at once
 *
 * As gpumap_share_fd() for @first and those behind it, in one request.
 *
 * n		how many are wanted, at least 1
 * ret_fds	receives them, close-on-exec, for the caller to close; room for
 *		@n
 *
 * Returns	how many came, at least 1 and at most 32: ask again for the rest
 *		-EINVAL		@n is 0
 *		-ENOENT, -ERANGE, -EACCES, -EDQUOT, -EMFILE, -ECONNRESET,
 *		-EPROTO, -EOWNERDEAD	as gpumap_share_fd() of the first one
 * Cost		a round trip on the control socket
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_share_fds(struct gpumap_session *session, uint64_t share,
				uint32_t first, uint32_t n, int *ret_fds);

/*
 * gpumap_share_close - stop holding a share; 0 is allowed
 *
 * Buffers that gpumap_share_buffer() imported are freed: no job that names one
 * may be in flight.  The session's own buffers stay.
 *
 * With the last session that holds it the share ends, unless it is kept.
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
 * gpumap_share_release - end a share for all its holders
 *
 * The effect is as if all holders had closed a share that is not kept: the name
 * is free, no session can import its buffers any more, and importers keep what
 * they have until they free it.  For the user that shared it, for root, and for
 * gpumapd's own user.
 *
 * Returns	0
 *		-ENOENT		nothing has this name
 *		-EPERM		another user has shared it
 *		-EINVAL		no name
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EPROTO, -EOWNERDEAD
 *		gpumap_refusal() says more
 * Cost		a round trip on the control socket
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_share_release(struct gpumap *map, const char *name);

/*
 * gpumap_share_list - list the shares of this instance, oldest first
 *
 * ret_info	room for @n; the @size of the first is set, and is that of all
 *
 * Returns	how many there are, which may be more than @n, or
 *		-E2BIG, -EINVAL	as gpumap_share_info()
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EPROTO, -EOWNERDEAD, when
 *		ret_info may hold some of them
 * Cost		a round trip on the control socket for every 32
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_share_list(struct gpumap *map,
				 struct gpumap_share_info *ret_info, size_t n);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/sync.h - reserve devices on several nodes, share values between their
 * processes, and let processes of several nodes meet.
 *
 * All of it goes by way of this node's gpumap-sync(8).  A connection to it has
 * one gang at most, and is one rank of one cohort at most; both end with the
 * connection, and so do its ephemeral values.
 */
#ifndef GPUMAP_SYNC_H
#define GPUMAP_SYNC_H

#include <stddef.h>
#include <stdint.h>

#include <gpumap/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A connection to gpumap-sync.  Opaque. */
struct gpumap_sync;

/*
 * gpumap_sync_open - connect to this node's gpumap-sync
 *
 * path		of its socket; NULL: "/run/gpumap-sync/node"
 * ret_sync	give it back with gpumap_sync_close()
 *
 * Returns	0
 *		-ECONNREFUSED	no gpumap-sync runs here
 *		-EACCES		this user may not talk to it
 *		-EUSERS		it has no connection left for this user
 *		-ETIMEDOUT	it does not answer
 *		-EINVAL, -ENOMEM, -EMFILE, -EPROTO, -ECONNRESET
 *		gpumap_refusal(NULL) says more
 * Cost		a round trip to gpumap-sync
 * Threads	any
 */
GPUMAP_API int gpumap_sync_open(const char *path,
				struct gpumap_sync **ret_sync);

/*
 * gpumap_sync_close - end the connection, with its gang, its rank and its
 * ephemeral values
 *
 * In a forked child it only frees memory: the parent keeps all of them.
 *
 * sync		may be NULL
 *
 * Cost		none that waits
 * Threads	one, when no other uses the connection
 */
GPUMAP_API void gpumap_sync_close(struct gpumap_sync *sync);

/*
 * gpumap_sync_fd - a descriptor that can be read when gpumap_sync_check() has
 * something to say
 *
 * Returns	the descriptor, which stays the connection's
 * Cost		none
 * Threads	any
 */
GPUMAP_API int gpumap_sync_fd(const struct gpumap_sync *sync);

/*
 * gpumap_sync_check - are the gang, the rank and the ephemeral values of this
 * connection still there?
 *
 * An answer other than 0 stays until the gang is released or reserved anew, and
 * until the cohort is left or joined again.  A lost lease is said once.
 *
 * Returns	0
 *		-ENOLINK	the gang is lost: one of its nodes is gone, or
 *				this one is cut off; its reservations end on all
 *				nodes
 *		-ESTALE		the cohort's epoch has moved on: join again; or
 *				this node's lease was lost, and with it the
 *				ephemeral values: write them again
 *		-ECONNRESET	gpumap-sync has ended, and so has all of this
 *		-EOWNERDEAD	called in a forked child: the gang is its
 *				parent's
 *		gpumap_refusal(NULL) says more
 * Cost		a system call; round trips to the store after a change of the
 *		cohort
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_sync_check(struct gpumap_sync *sync);

/* ---- gangs --------------------------------------------------------------- */

#define GPUMAP_GANG_NODES_MAX 64
#define GPUMAP_GANG_PARTS_MAX 64 /* of one node */

/* Bytes of one device. */
struct gpumap_gang_part {
	uint8_t uuid[16];
	uint64_t bytes; /* 1 or more */
};

struct gpumap_gang_member {
	const char *node;
	const struct gpumap_gang_part *parts; /* of a device one */
	uint32_t n_parts;                     /* 1 to _PARTS_MAX */
	uint32_t reserved;
};

struct gpumap_gang_request {
	size_t size;      /* sizeof(struct gpumap_gang_request) */
	const char *name; /* of the map that each node publishes for it */
	const struct gpumap_gang_member *members; /* of a node one */
	uint32_t n_members;                       /* 1 to _NODES_MAX */
	uint32_t flags;                           /* 0 */
	/* on CLOCK_MONOTONIC, when to give up; 0: the cluster's lease time from
	 * now, which is the most, because nodes hold while others are asked */
	uint64_t deadline_ns;
};

/*
 * gpumap_gang_reserve - reserve devices on several nodes, all or none
 *
 * Each node's gpumap-sync holds the bytes, as a held layer map @name of this
 * user, for as long as this connection, this node and its own are there.  A
 * process that pins the map (gpumap_layers_pin()) uses what it reserves.  When
 * a node goes, the others end their reservations within the cluster's lease
 * time.
 *
 * Returns	0
 *		-ENOSPC		a node has no room
 *		-EEXIST		a node has a map of this name
 *		-ENODEV		a node has no such device, or it is not READY
 *		-EHOSTUNREACH	a node is not in the cluster, or is gone; or the
 *				store cannot be reached
 *		-ETIMEDOUT	a node did not answer
 *		-ENOLINK	a node held it, and gave it up meanwhile
 *		-EPERM		a node takes no gangs
 *		-EALREADY	this connection has a gang
 *		-E2BIG		more than some 240 devices in all
 *		-EINVAL, -ENOMEM, -EMSGSIZE, -ECONNRESET, -EOWNERDEAD
 *		gpumap_refusal(NULL) names the node, and says more.  Nothing is
 *		reserved then, or no longer than the lease time
 * Cost		some writes to the store, one after the other
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_gang_reserve(struct gpumap_sync *sync,
				   const struct gpumap_gang_request *request);

/*
 * gpumap_gang_release - end the gang's reservations on all nodes
 *
 * Returns	0
 *		-ENOENT		this connection has no gang, or it was lost
 *		-ETIMEDOUT, -ECONNRESET, -EOWNERDEAD
 * Cost		a round trip to the store; where nothing answers there, until
 *		gpumap-sync gives it up
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_gang_release(struct gpumap_sync *sync);

/* ---- values -------------------------------------------------------------- */

#define GPUMAP_VALUE_BYTES_MAX 16384
#define GPUMAP_VALUE_KEY_MAX   127 /* bytes of a key, without its NUL */

/* gpumap_value_cas(): the value ends with this connection, and with the lease
 * of this node. */
#define GPUMAP_VALUE_EPHEMERAL (UINT32_C(1) << 0)

/*
 * gpumap_value_get - read a value that processes of this user share, on all
 * nodes
 *
 * key		parts of A-Z a-z 0-9 . _ - with '/' between them; none is empty
 *		or begins with a '.'
 * ret_bytes	the value's; there is room for @n of them in ret_value
 * ret_revision	names this value of the key; no other has it
 *
 * Returns	0
 *		-ENOENT		there is none; ret_revision is 0
 *		-ENOBUFS	it has more than @n bytes; ret_bytes is stored
 *		-ETIMEDOUT	nothing answers
 *		-EHOSTUNREACH	the store cannot be reached
 *		-EDQUOT		this user has too many requests
 *		-EINVAL, -EACCES, -EIO, -EPROTO, -ECONNRESET, -EOWNERDEAD
 *		gpumap_refusal(NULL) says more
 * Cost		a round trip to the store
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_value_get(struct gpumap_sync *sync, const char *key,
				void *ret_value, size_t n, size_t *ret_bytes,
				uint64_t *ret_revision);

struct gpumap_value_write {
	size_t size; /* sizeof(struct gpumap_value_write) */
	const char *key;
	const void *value; /* NULL: delete it */
	size_t bytes;
	uint64_t expected; /* the revision that it has; 0: there is none */
	uint32_t flags;    /* GPUMAP_VALUE_* */
	uint32_t reserved;
};

/*
 * gpumap_value_cas - write a value if it has not changed since it was read
 *
 * Returns	0, and the value's revision; 0: it was deleted
 *		-ESTALE		it has another revision, which is stored; 0:
 *				there is none
 *		-ETIMEDOUT	it was perhaps written: get it to know
 *		-EHOSTUNREACH	the store cannot be reached, or this node's
 *				lease is not held; nothing was written
 *		-EDQUOT		this user has too many values, or requests
 *		-EINVAL, -E2BIG, -EACCES, -EIO, -ENOSPC, -EPROTO, -ECONNRESET,
 *		-EOWNERDEAD
 *		gpumap_refusal(NULL) says more
 * Cost		a round trip to the store
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_value_cas(struct gpumap_sync *sync,
				const struct gpumap_value_write *write,
				uint64_t *ret_revision);

/*
 * gpumap_value_list - list the keys that begin with a prefix
 *
 * prefix	as a key, or one without its end; "": all of this user's
 * ret_ends	receives what follows the prefix in each, with a NUL after it
 * n		room in ret_ends
 *
 * Returns	0
 *		-ENOBUFS	they have more than @n bytes, or more than 32
 *				KiB; ret_ends has some, of ret_bytes
 *		-ETIMEDOUT, -EHOSTUNREACH, -EDQUOT, -EINVAL, -EACCES, -EIO,
 *		-EPROTO, -ECONNRESET, -EOWNERDEAD	as gpumap_value_get()
 * Cost		a round trip to the store
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_value_list(struct gpumap_sync *sync, const char *prefix,
				 char *ret_ends, size_t n, size_t *ret_bytes);

/*
 * gpumap_value_wait - wait until something below a prefix has changed
 *
 * prefix	as a key, or one without its end; "": all of this user's
 * seen		0 at first, then *ret_seen of the last call on this connection:
 *		what changed since then ends the wait at once
 * deadline_ns	on CLOCK_MONOTONIC, or GPUMAP_NO_DEADLINE
 *
 * Returns	0: there may be a change, or gpumap_sync_check() says what the
 *		process has lost; read the values to know.  With @seen 0 at once
 *		-ETIMEDOUT	nothing has changed
 *		-EINVAL, -EDQUOT, -ECONNRESET, -EOWNERDEAD
 * Cost		a round trip to gpumap-sync, and the wait
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_value_wait(struct gpumap_sync *sync, const char *prefix,
				 uint64_t seen, uint64_t deadline_ns,
				 uint64_t *ret_seen);

/* ---- cohorts ------------------------------------------------------------- */

#define GPUMAP_COHORT_ID_BYTES  128 /* an ncclUniqueId */
#define GPUMAP_COHORT_RANKS_MAX 1024

struct gpumap_cohort_join {
	size_t size;      /* sizeof(struct gpumap_cohort_join) */
	const char *name; /* of the cohort, one of this user's */
	uint32_t world;   /* ranks; the same of all */
	uint32_t rank;
	uint32_t version; /* ncclGetVersion()'s, not 0; the same of all */
	uint32_t reserved;
	const void *id; /* from rank 0: its bytes; from others NULL */
	/* on CLOCK_MONOTONIC, when to give the others up; 0 or
	 * GPUMAP_NO_DEADLINE: never */
	uint64_t deadline_ns;
};

/*
 * gpumap_cohort_join - join as a rank of a cohort, and wait for all others
 *
 * As gpumap_mesh_join(), for processes of several nodes: when every rank has
 * joined in the same epoch, each receives rank 0's id, which is written once in
 * an epoch; none receives it before.  Nothing has to be published for it: the
 * cohort is there while processes of the user name it.
 *
 * The rank is this connection's until gpumap_cohort_leave().  The epoch moves
 * on when a rank's connection, its process or its node ends without having
 * left, and when a process comes as a rank that has ended: gpumap_sync_check()
 * says so, and all join again.
 *
 * ret_id	receives the id
 * ret_epoch	of the cohort; may be NULL
 *
 * Returns	0
 *		-ETIMEDOUT	a rank did not join; the others may go on
 *				waiting for it
 *		-ESTALE		this node's lease was lost meanwhile; or, to
 *				rank 0, the epoch moved on, and ranks may have
 *				received the id: join again, with another id
 *		-EBUSY		another process is this rank
 *		-EPROTO		others have another world or version
 *		-EALREADY	this connection is a rank already
 *		-EHOSTUNREACH	the store cannot be reached
 *		-EINVAL, -E2BIG, -EDQUOT, -EACCES, -EIO, -ENOSPC, -ECONNRESET,
 *		-EOWNERDEAD
 *		gpumap_refusal(NULL) says more, and names missing ranks
 * Cost		writes to the store, and the wait.  Other calls with this
 *		connection wait with it, so a process that is several ranks has
 *		a connection for each
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_cohort_join(struct gpumap_sync *sync,
				  const struct gpumap_cohort_join *join,
				  uint8_t ret_id[GPUMAP_COHORT_ID_BYTES],
				  uint64_t *ret_epoch);

/* gpumap_cohort_leave(): the communicator broke: the epoch moves on. */
#define GPUMAP_COHORT_BROKEN (UINT32_C(1) << 0)

/*
 * gpumap_cohort_leave - stop being that rank
 *
 * flags	0: the communicator has ended normally, so all other ranks
 *		leave, too; or GPUMAP_COHORT_BROKEN
 *
 * The connection is no rank afterwards, whatever is returned.
 *
 * Returns	0
 *		-ENOENT		this connection is no rank
 *		-EINVAL, -ETIMEDOUT, -EHOSTUNREACH, -ECONNRESET, -EOWNERDEAD
 *		gpumap_refusal(NULL) says more
 * Cost		writes to the store
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_cohort_leave(struct gpumap_sync *sync, uint32_t flags);

#ifdef __cplusplus
}
#endif

#endif

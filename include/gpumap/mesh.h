/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/mesh.h - publish and read meshes, whose groups of ranks let processes
 * find each other.
 */
#ifndef GPUMAP_MESH_H
#define GPUMAP_MESH_H

#include <stddef.h>
#include <stdint.h>

#include <gpumap/types.h>
#include <gpumap/view.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The arrangement of ranks.  Ranks that the topology does not need, in a world
 * that is larger, are in group "world" only. */
enum gpumap_mesh_topology {
	GPUMAP_MESH_DATA = 1,     /* each rank for itself */
	GPUMAP_MESH_TENSOR = 2,   /* runs of tp ranks, groups tp_{i} */
	GPUMAP_MESH_PIPELINE = 3, /* rank s is stage s, group pp_stage_{s} */
	/* Rank (d * pp + p) * tp + t is part t of stage p of replica d; groups
	 * tp_dp{d}_pp{p}, dp_tp{t}_pp{p} and pp_dp{d}_tp{t}. */
	GPUMAP_MESH_MIXED = 4
};

/* The name of a backend that kapsl has for a group.  The names select nothing:
 * collectives run alike in each group, "world" included. */
enum gpumap_mesh_backend {
	GPUMAP_MESH_MOCK = 1, /* of "world" */
	GPUMAP_MESH_NCCL = 2,
	GPUMAP_MESH_GLOO = 3,
	GPUMAP_MESH_MPI = 4
};

struct gpumap_mesh {
	size_t size; /* sizeof(struct gpumap_mesh) */
	char name[GPUMAP_NAME_MAX + 1];
	uint64_t version;      /* grows with every publication of this name */
	uint64_t published_ns; /* since 1970 */
	uint32_t owner_uid;
	uint32_t topology; /* enum gpumap_mesh_topology */
	uint32_t world;    /* ranks, 1 to GPUMAP_ROWS_MAX */
	uint32_t expected; /* ranks that the topology needs: tp * pp * dp */
	uint32_t tp;       /* factors that the topology does not have are 1 */
	uint32_t pp;
	uint32_t dp;
	uint32_t n_groups; /* the topology's, then n_added more */
	uint32_t n_added;
	uint32_t reserved;
};

struct gpumap_mesh_group {
	size_t size; /* sizeof(struct gpumap_mesh_group) */
	char name[GPUMAP_NAME_MAX + 1];
	uint64_t version; /* of the mesh that it was read from */
	/* Moves on whenever the mesh is published, a row of the group ceases to
	 * be READY or is READY again, a process that has joined the group ends
	 * without having left it, or the agent starts, and never goes back:
	 * equal epochs mean that none of this happened in between. */
	uint64_t epoch;
	uint32_t backend; /* enum gpumap_mesh_backend */
	uint32_t n;       /* its ranks */
	uint32_t index;   /* of the group within the mesh; 0: "world" */
	uint32_t within;  /* place in the group of the requested rank, or 0 */
	uint32_t whole;   /* 1: all its rows are READY in this epoch; or 0 */
	uint32_t reserved;
};

/* A rank's place in its topology. */
struct gpumap_mesh_place {
	uint32_t tp; /* the part of a layer */
	uint32_t pp; /* the stage */
	uint32_t dp; /* the replica */
};

struct gpumap_mesh_stats {
	size_t size; /* sizeof(struct gpumap_mesh_stats) */
	uint32_t world;
	uint32_t n_groups;
	uint64_t total_bytes; /* memory of all its devices */
	uint64_t units;       /* their multiprocessors, and CPUs */
	uint32_t n_cards;     /* rows of cards, hosts and dummies */
	uint32_t n_host;
	uint32_t n_dummy;
	uint32_t n_ready; /* rows whose state is READY */
};

#define GPUMAP_MESH_ANY UINT32_MAX /* gpumap_mesh_next_group(): of all ranks */

/*
 * gpumap_mesh_read - read a mesh's facts, and the row of each rank
 *
 * ret_mesh	set its @size before the call; may be NULL
 * ret_rows	receives the row of each rank; may be NULL
 * n		room in ret_rows
 *
 * Returns	0
 *		-ENOBUFS	n is smaller than the world; only ret_mesh was
 *				stored
 *		-ENOENT		no mesh has this name
 *		-EAGAIN		the agent was publishing all through our
 *				attempts
 *		-EPROTO		the segment is damaged
 *		-EINVAL		a name longer than GPUMAP_NAME_MAX, or empty
 *		-E2BIG		ret_mesh->size is more than 4096 bytes
 *		On -EAGAIN and -EPROTO the content of the array is undefined.
 * Cost		no system call; a search of the directory
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_mesh_read(const struct gpumap *map, const char *name,
				struct gpumap_mesh *ret_mesh,
				uint32_t *ret_rows, size_t n);

/*
 * gpumap_mesh_next - list the names of all meshes, one for each call
 *
 * cursor	0 for the first call, then as it was left by the last
 * ret_name	receives the name, at most GPUMAP_NAME_MAX bytes and a NUL
 *
 * Returns	1 with a name, 0 when there is none left
 * Cost		no system call
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_mesh_next(const struct gpumap *map, uint32_t *cursor,
				char ret_name[GPUMAP_NAME_MAX + 1]);

/*
 * gpumap_mesh_group - read a group of a mesh by name
 *
 * group	NULL: "world"
 * ret_group	set its @size before the call; may be NULL
 * ret_ranks	receives its ranks, in their order; may be NULL
 * ret_rows	receives the row of each of them; may be NULL
 * n		room in ret_ranks and ret_rows
 *
 * Returns	0
 *		-ENOENT		no mesh, or no group of it, has this name
 *		-ENOBUFS, -EAGAIN, -EPROTO, -EINVAL, -E2BIG	as
 *				gpumap_mesh_read()
 * Cost		no system call; a search of the directory and of the groups
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_mesh_group(const struct gpumap *map, const char *name,
				 const char *group,
				 struct gpumap_mesh_group *ret_group,
				 uint32_t *ret_ranks, uint32_t *ret_rows,
				 size_t n);

/*
 * gpumap_mesh_next_group - list the groups of a mesh, or those that a rank is
 * in
 *
 * rank		GPUMAP_MESH_ANY: every group
 * cursor	0 for the first call, then as it was left by the last
 * ret_group	set its @size before the call; @within is the rank's place in
 *		the group
 *
 * Groups come in the order of the topology, then those that were added.  Each
 * call reads the publication of that moment: if @version differs from that of
 * the previous call, begin again.
 *
 * Returns	1 with a group, 0 when there is none left
 *		-ERANGE		the world has no such rank
 *		-ENOENT, -EAGAIN, -EPROTO, -EINVAL, -E2BIG	as
 *				gpumap_mesh_read()
 * Cost		no system call; a search of the directory
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_mesh_next_group(const struct gpumap *map,
				      const char *name, uint32_t rank,
				      uint32_t *cursor,
				      struct gpumap_mesh_group *ret_group);

/*
 * gpumap_mesh_within - a rank's place in a group
 *
 * group	NULL: "world"
 *
 * Returns	the place, >= 0
 *		-ENODATA	the rank is not in the group
 *		-ERANGE		the world has no such rank
 *		-ENOENT, -EAGAIN, -EPROTO, -EINVAL	as gpumap_mesh_group()
 * Cost		no system call; a search of the directory, the groups and the
 *		group
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_mesh_within(const struct gpumap *map, const char *name,
				  const char *group, uint32_t rank);

/*
 * gpumap_mesh_place - find a rank's place in its topology
 *
 * mesh		as read by gpumap_mesh_read()
 *
 * A data mesh counts replicas, a tensor mesh parts and replicas, a pipeline
 * stages.
 *
 * Returns	0
 *		-ERANGE		the world has no such rank
 *		-ENODATA	the topology does not need the rank
 *		-EINVAL		no gpumap_mesh_read() has filled @mesh
 * Cost		a few divisions
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_mesh_place(const struct gpumap_mesh *mesh, uint32_t rank,
				 struct gpumap_mesh_place *ret_place);

/*
 * gpumap_mesh_stats - sum the resources of a mesh's devices
 *
 * ret_stats	set its @size before the call
 *
 * Returns	0
 *		-ENOENT, -EAGAIN, -EPROTO, -EINVAL, -E2BIG	as
 *				gpumap_mesh_read(), gpumap_device_read()
 * Cost		no system call; a read of each of its rows
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_mesh_stats(const struct gpumap *map, const char *name,
				 struct gpumap_mesh_stats *ret_stats);

/* The table of a group that a view shows. */
enum gpumap_mesh_table {
	GPUMAP_MESH_ROWS = 1, /* entry i: the row of the group's rank i */
	/* entry i: the mesh's rank of the group's rank i */
	GPUMAP_MESH_RANKS = 2
};

/*
 * gpumap_mesh_view - get a view of a group's table, for gpumap_view_get()
 *
 * group	NULL: "world", whose rows are those of all ranks
 * table	enum gpumap_mesh_table
 *
 * The mesh may be published again with another topology: gpumap_view_get() then
 * returns -EAGAIN, and gpumap_view_refresh() fills the view from the group of
 * the same name, or returns -ENOENT if the new topology has none.
 *
 * Returns	0
 *		-ENOENT, -EAGAIN, -EPROTO	as gpumap_mesh_group()
 *		-EINVAL		likewise, or no such table
 * Cost		no system call; a search of the directory and of the groups
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_mesh_view(const struct gpumap *map, const char *name,
				const char *group, uint32_t table,
				struct gpumap_view *ret_view);

/*
 * gpumap_mesh_pin - get a view of a group's table that stays valid
 *
 * ret_view	as gpumap_mesh_view(); never returns -EAGAIN
 * ret_pin	give it back with gpumap_unpin()
 *
 * Returns	as gpumap_layers_pin(), and -ENOENT where there is no such group
 * Cost		a round trip on the control socket
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_mesh_pin(struct gpumap *map, const char *name,
			       const char *group, uint32_t table,
			       struct gpumap_view *ret_view, uint64_t *ret_pin);

/* A group in addition to those of the topology. */
struct gpumap_mesh_added {
	const char *name;      /* no blanks, ',' or '=' */
	const uint32_t *ranks; /* n of them, each once, in their order */
	uint32_t n;
	uint32_t backend;  /* enum gpumap_mesh_backend */
	uint64_t spare[2]; /* 0; for fields of later versions */
};

struct gpumap_mesh_request {
	size_t size; /* sizeof(struct gpumap_mesh_request) */
	const char *name;
	uint32_t topology; /* enum gpumap_mesh_topology */
	uint32_t n_rows;
	/* The factors of the topology; one that it does not have is 0 or 1. */
	uint64_t tp; /* of tensor and mixed: the degree */
	uint64_t pp; /* of pipeline and mixed: the stages */
	uint64_t dp; /* of mixed: the replicas */
	/* The row of each rank, none twice; NULL with n_rows 0: all devices of
	 * the first sort that exists: cards, hosts, dummies. */
	const uint32_t *rows;
	const struct gpumap_mesh_added *added; /* n_added of them, at most 64 */
	uint32_t n_added;
	uint32_t reserved;
};

/*
 * gpumap_mesh_publish - have the agent publish a mesh
 *
 * A mesh of this name is replaced in one step, with its groups, if this user
 * owns it.  The mesh stays until it is released, over restarts of the agent and
 * of the machine.
 *
 * Returns	0
 *		-EINVAL		the name, a factor, a row or a group was
 *				refused, or the rows are fewer than the topology
 *				needs
 *		-EOVERFLOW	the factors' product exceeds 64 bits
 *		-EEXIST		a group has the name of one of the topology's
 *		-E2BIG		more rows or groups than a mesh may have, or a
 *				field newer than this library
 *		-ENODEV		a row that does not exist
 *		-EAGAIN, -EPERM, -EDQUOT, -ENOSPC, -EROFS, -EIO, -ENOMEM,
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EMSGSIZE, -EOWNERDEAD
 *				as gpumap_plan_make()
 *		gpumap_refusal() says what was wrong
 * Cost		a round trip on the control socket
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_mesh_publish(struct gpumap *map,
				   const struct gpumap_mesh_request *request);

/*
 * gpumap_mesh_release - have the agent remove a mesh
 *
 * Returns	as gpumap_layers_release()
 * Cost		a round trip on the control socket
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_mesh_release(struct gpumap *map, const char *name);

/* Bytes of the id that rank 0 brings, an ncclUniqueId. */
#define GPUMAP_MESH_ID_BYTES 128

struct gpumap_mesh_join {
	size_t size; /* sizeof(struct gpumap_mesh_join) */
	const char *mesh;
	const char *group; /* NULL: "world" */
	uint64_t epoch;    /* of the group, from gpumap_mesh_group() */
	/* on CLOCK_MONOTONIC, when to give the others up; 0 or
	 * GPUMAP_NO_DEADLINE: never.  Ranks wait for 100 ms at least. */
	uint64_t deadline_ns;
	uint32_t rank;    /* within the group */
	uint32_t version; /* ncclGetVersion()'s, not 0; the same of all */
	const void *id;   /* from rank 0: its bytes; from others NULL */
};

/* gpumap_mesh_leave(): the communicator broke, and the other ranks must be
 * told. */
#define GPUMAP_MESH_BROKEN (UINT32_C(1) << 0)

/*
 * gpumap_mesh_join - join as a rank of a group, and wait for all others
 *
 * For processes that form a communicator of their own; gpumap/nccl.h does that
 * with NCCL.  Rank 0 makes an id and passes it; when every rank has joined, in
 * the same epoch and with the same version, each receives the id, and none does
 * before.  Each rank is one process, of the mesh's owner, of root or of the
 * agent's user.
 *
 * The rank is this attachment's until gpumap_mesh_leave(), or until the group's
 * epoch moves on, which gpumap_mesh_group() shows: then the communicator is
 * broken, and all ranks join again in the new epoch.  The epoch moves on when a
 * member ends or detaches without having left, also if it has forked a child.
 *
 * ret_id	receives the id
 * ret_ticket	for gpumap_mesh_leave()
 *
 * Returns	0
 *		-ETIMEDOUT	a rank did not join before the first of the
 *				waiting ranks gave up; the epoch has moved on,
 *				for all
 *		-ESTALE		the epoch is another one: read it again
 *		-EAGAIN		a row of the group is not READY, or ranks of the
 *				previous communicator have not left yet
 *		-EBUSY		another process is this rank
 *		-EPROTO		others have another version
 *		-ENOENT		no mesh, or no group of it, has this name
 *		-ERANGE		the group has no such rank
 *		-EINVAL		a name, no version, or an id of another rank
 *				than 0
 *		-EPERM		the mesh belongs to another user
 *		-EDQUOT		this user's processes are 1024 ranks of groups
 *				already
 *		-E2BIG, -ENOMEM, -ECONNREFUSED, -ECONNRESET, -EOWNERDEAD
 *				as gpumap_plan_make()
 *		gpumap_refusal() says what was wrong, and names the missing
 *		ranks
 * Cost		a round trip on the control socket, and the wait; other requests
 *		of this attachment wait with it, so a process that joins as
 *		several ranks of a group has an attachment for each
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_mesh_join(struct gpumap *map,
				const struct gpumap_mesh_join *join,
				uint8_t ret_id[GPUMAP_MESH_ID_BYTES],
				uint64_t *ret_ticket);

/*
 * gpumap_mesh_leave - stop being that rank
 *
 * flags	GPUMAP_MESH_BROKEN: the group's epoch moves on, so that the
 *		other ranks are told; 0: the communicator has ended normally
 *
 * Returns	0
 *		-ENOENT		no rank is joined by this ticket; or the epoch
 *				has moved on, which has ended it
 *		-EINVAL		an unknown flag
 *		-ECONNREFUSED, -ECONNRESET, -EOWNERDEAD	as gpumap_mesh_join()
 * Cost		a round trip on the control socket
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_mesh_leave(struct gpumap *map, uint64_t ticket,
				 uint32_t flags);

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* control_mesh.h - the messages of control.h about meshes and their groups. */
#ifndef GM_CONTROL_MESH_H
#define GM_CONTROL_MESH_H

#include <stdint.h>

/* MESH_PUBLISH: tail: n_rows uint32_t, the row of each rank, or none: the agent
 * chooses; then n_groups times a gm_mesh_publish_group and its ranks, n
 * uint32_t.  RELEASE and PIN take meshes like layer maps. */
struct gm_mesh_publish {
	char name[64];
	uint32_t topology; /* enum gpumap_mesh_topology */
	uint32_t n_rows;
	uint64_t tp; /* factors that the topology does not have are 1 */
	uint64_t pp;
	uint64_t dp;
	uint32_t n_groups; /* in addition to the topology's */
	uint32_t reserved;
};

struct gm_mesh_publish_group {
	char name[64];
	uint32_t backend; /* enum gpumap_mesh_backend */
	uint32_t n;
};

struct gm_mesh_publish_reply {
	uint64_t version;
	uint32_t world;
	uint32_t n_groups;
};

/*
 * JOIN: be a rank of a group, in one epoch of it, among processes that are to
 * form a communicator.  Answered when all ranks have joined, with the id that
 * rank 0 has sent.  Tail: from rank 0 that id, GM_JOIN_ID_BYTES; from others
 * none.  The rank belongs to the connection until LEAVE, or until the epoch
 * moves on; the epoch moves on when the connection ends after the answer.
 */
#define GM_JOIN_ID_BYTES 128u

struct gm_join {
	char mesh[64];
	char group[64];
	uint64_t epoch;      /* as the map says, even */
	uint64_t timeout_ns; /* the longest wait for the others */
	uint32_t rank;       /* within the group */
	/* of NCCL, as its own code; all ranks have the same */
	uint32_t version;
	uint32_t reserved;
	uint32_t reserved2;
};

struct gm_join_reply {
	uint64_t ticket; /* for LEAVE */
	uint8_t id[GM_JOIN_ID_BYTES];
	uint32_t n; /* ranks */
	uint32_t reserved;
};

/* LEAVE: the communicator has ended.  No reply body. */
struct gm_leave {
	uint64_t ticket;
	uint32_t broken; /* 1: by an error: the epoch moves on */
	uint32_t reserved;
};

_Static_assert(sizeof(struct gm_join) == 160, "wire");
_Static_assert(sizeof(struct gm_join_reply) == 144, "wire");
_Static_assert(sizeof(struct gm_leave) == 16, "wire");
_Static_assert(sizeof(struct gm_mesh_publish) == 104, "wire");
_Static_assert(sizeof(struct gm_mesh_publish_group) == 72, "wire");
_Static_assert(sizeof(struct gm_mesh_publish_reply) == 16, "wire");

#endif

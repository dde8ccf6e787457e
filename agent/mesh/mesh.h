/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * mesh - arrange ranks, and compute the groups that follow from the
 * arrangement.  Pure.
 *
 * Ranks are 0 to world - 1.  The shape is their arrangement:
 *
 *	data		every rank for itself
 *	tensor		runs of tp ranks share each layer; the remaining ranks
 *			are in no run
 *	pipeline	rank s is stage s; the remaining ranks are idle
 *	mixed		rank (d * pp + p) * tp + t is part t of stage p of
 *			replica d; the remaining ranks are idle
 *
 * and its groups are, in this order:
 *
 *	all		world
 *	tensor		tp_{i}
 *	pipeline	pp_stage_{s}
 *	mixed		tp_dp{d}_pp{p}, dp_tp{t}_pp{p}, pp_dp{d}_tp{t}
 *
 * The ranks of each are an arithmetic sequence: no group of a shape takes
 * memory, and a world may have 2^64 - 1 ranks.  Groups that a user adds list
 * their ranks, and stay when the shape changes, because they do not depend on
 * it.
 */
#ifndef GM_MESH_H
#define GM_MESH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpumap.h"
#include "lib/model/plan/error.h"

/* Factors that a kind does not have are 1. */
struct gm_mesh_shape {
	uint32_t kind; /* enum gpumap_mesh_topology */
	uint64_t tp;   /* tensor: the degree */
	uint64_t pp;   /* pipeline: the stages */
	uint64_t dp;
};

/* the longest name of a shape's group has 48 bytes */
#define GM_MESH_GROUP_NAME 64u

/* Rank i of the group is first + i * stride, or ranks[i]. */
struct gm_mesh_group {
	char name[GM_MESH_GROUP_NAME];
	uint32_t backend; /* enum gpumap_mesh_backend */
	uint64_t n;
	uint64_t first;
	uint64_t stride;
	const uint64_t *ranks; /* of a group that was added, else NULL */
};

struct gm_mesh {
	struct gm_mesh_shape shape;
	uint64_t world;
	uint64_t n_shaped; /* groups of the shape */
	uint32_t n_added;
	struct gm_mesh_group *added;
};

/* The backend's name: "Mock", "Nccl", "Gloo", "MPI". */
const char *gm_mesh_backend_name(uint32_t backend);

/*
 * gm_mesh_parse - read data, tensor=N, pipeline=N or mixed=TPxPPxDP
 *
 * Returns	0
 *		-EINVAL		it has none of these forms, or a factor of 0
 *		-EOVERFLOW	its world has 2^64 ranks or more
 * Threads	any, as everything here: one per @mesh
 */
int gm_mesh_parse(const char *text, struct gm_mesh_shape *ret_shape,
		  struct gm_plan_error *err);

/* The shape as text: "mixed=2x2x2". */
#define GM_MESH_TEXT 80u
const char *gm_mesh_print(const struct gm_mesh_shape *shape,
			  char ret_text[GM_MESH_TEXT]);

/*
 * gm_mesh_expected - the ranks that a shape needs; 1 for data
 *
 * Returns	0, -EINVAL, -EOVERFLOW as gm_mesh_parse()
 */
int gm_mesh_expected(const struct gm_mesh_shape *shape, uint64_t *ret_world,
		     struct gm_plan_error *err);

/*
 * gm_mesh_make - arrange @world ranks
 *
 * ret_mesh	without added groups; free it with gm_mesh_free()
 *
 * Returns	0
 *		-EINVAL		a factor of 0, or a world that is too small
 *		-EOVERFLOW	as gm_mesh_parse()
 */
int gm_mesh_make(const struct gm_mesh_shape *shape, uint64_t world,
		 struct gm_mesh *ret_mesh, struct gm_plan_error *err);

/* Also allowed for a zeroed mesh. */
void gm_mesh_free(struct gm_mesh *mesh);

/*
 * gm_mesh_add - add a group, or replace one that was added
 *
 * name		1 to GM_MESH_GROUP_NAME - 1 bytes, without blanks, ',' and '='
 * ranks	@n of them, in their order within the group; copied
 *
 * Returns	0
 *		-EINVAL		no ranks, a rank outside the world, a rank twice
 *				or a name that is not permitted
 *		-EEXIST		the shape has a group of that name
 *		-ENOMEM
 */
int gm_mesh_add(struct gm_mesh *mesh, const char *name, uint32_t backend,
		const uint64_t *ranks, size_t n, struct gm_plan_error *err);

/* Group @i of the shape's, below n_shaped. */
void gm_mesh_group(const struct gm_mesh *mesh, uint64_t i,
		   struct gm_mesh_group *ret_group);

/* Returns 0, or -ENOENT where there is no group @name. */
int gm_mesh_find(const struct gm_mesh *mesh, const char *name,
		 struct gm_mesh_group *ret_group);

/* The rank at @i of a group, below n. */
static inline uint64_t gm_mesh_rank(const struct gm_mesh_group *group,
				    uint64_t i)
{
	return group->ranks ? group->ranks[i]
			    : group->first + i * group->stride;
}

#endif

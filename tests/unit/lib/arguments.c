/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The arguments of all calls alike: names and structs that are NULL, structs
 * whose size was not set, and structs of a program that is newer than the
 * library. */

#include <gpumap/model.h>
#include <gpumap/plan.h>

#include "tests/support/peer/peer_session.h"

#define LATER 64u /* bytes of fields that the library does not know */

static struct gpumap_session *session;
static uint64_t buffer;

/* ---- structs that the library fills in ----------------------------------- */

static int health(void *to)
{
	return gpumap_health(map, to);
}

static int device(void *to)
{
	return gpumap_device_read(map, 0, to);
}

static int layers(void *to)
{
	return gpumap_layers_read(map, "model", to, NULL, NULL, 0, NULL, 0);
}

static int mask_info(void *to)
{
	return gpumap_mask_read(map, "mask", to, NULL, 0);
}

static int mesh(void *to)
{
	return gpumap_mesh_read(map, "mesh", to, NULL, 0);
}

static int mesh_group(void *to)
{
	return gpumap_mesh_group(map, "mesh", NULL, to, NULL, NULL, 0);
}

static int mesh_next_group(void *to)
{
	uint32_t cursor = 0;
	int ret = gpumap_mesh_next_group(map, "mesh", GPUMAP_MESH_ANY, &cursor,
					 to);

	return ret == 1 ? 0 : ret;
}

static int mesh_stats(void *to)
{
	return gpumap_mesh_stats(map, "mesh", to);
}

static int cluster(void *to)
{
	return gpumap_cluster_read(map, to);
}

static int cluster_node(void *to)
{
	uint32_t cursor = 0;
	int ret = gpumap_cluster_next_node(map, &cursor, to);

	return ret == 1 ? 0 : ret;
}

static int cluster_device(void *to)
{
	uint32_t cursor = 0;
	int ret = gpumap_cluster_next_device(map, 0, &cursor, to);

	return ret == 1 ? 0 : ret;
}

static int cluster_share(void *to)
{
	uint32_t cursor = 0;
	int ret = gpumap_cluster_next_share(map, 0, NULL, &cursor, to);

	return ret == 1 ? 0 : ret;
}

static int counts(void *to)
{
	return gpumap_session_counts(session, to);
}

static int buffer_info(void *to)
{
	return gpumap_buffer_info(session, buffer, to);
}

static const struct {
	const char *name;
	int (*fill)(void *to);
	size_t bytes;
	bool may_be_null;
} outputs[] = {
	{ "health", health, sizeof(struct gpumap_health), false },
	{ "device", device, sizeof(struct gpumap_device), false },
	{ "layers", layers, sizeof(struct gpumap_layers), true },
	{ "mask_info", mask_info, sizeof(struct gpumap_mask_info), true },
	{ "mesh", mesh, sizeof(struct gpumap_mesh), true },
	{ "mesh_group", mesh_group, sizeof(struct gpumap_mesh_group), true },
	{ "mesh_next_group", mesh_next_group, sizeof(struct gpumap_mesh_group),
	  false },
	{ "mesh_stats", mesh_stats, sizeof(struct gpumap_mesh_stats), false },
	{ "cluster", cluster, sizeof(struct gpumap_cluster), false },
	{ "cluster_node", cluster_node, sizeof(struct gpumap_cluster_node),
	  false },
	{ "cluster_device", cluster_device,
	  sizeof(struct gpumap_cluster_device), false },
	{ "cluster_share", cluster_share, sizeof(struct gpumap_cluster_share),
	  false },
	{ "counts", counts, sizeof(struct gpumap_session_counts), false },
	{ "buffer_info", buffer_info, sizeof(struct gpumap_buffer_info),
	  false },
};

#define N_OUTPUTS (sizeof(outputs) / sizeof(outputs[0]))

/* The calls of a program that was built with a later header: it gets what the
 * library has, and can see how much that was. */
static void a_newer_caller_gets_what_is_known(void)
{
	unsigned char room[1024 + LATER] __attribute__((aligned(8)));

	for (size_t i = 0; i < N_OUTPUTS; i++) {
		size_t known = outputs[i].bytes, size = known + LATER, left = 0;

		memset(room, 0x5a, sizeof(room));
		memcpy(room, &size, sizeof(size));
		if (!EQ(outputs[i].fill(room), 0))
			NOTE("%s", outputs[i].name);
		memcpy(&size, room, sizeof(size));
		EQ(size, known);
		for (size_t at = known; at < known + LATER; at++)
			left += room[at] != 0;
		EQ(left, 0);
		EQ(room[known + LATER], 0x5a);
	}
}

/* A struct at the end of what can be accessed. */
static void *at_the_edge(size_t bytes, size_t size)
{
	static char *pages;

	if (pages == NULL) {
		pages = mmap(NULL, 65536, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (pages == MAP_FAILED ||
		    mprotect(pages, 32768, PROT_READ | PROT_WRITE) != 0)
			abort();
	}
	memset(pages + 32768 - bytes, 0, bytes);
	memcpy(pages + 32768 - bytes, &size, sizeof(size));
	return pages + 32768 - bytes;
}

static void a_size_that_was_not_set_is_not_followed(void)
{
	for (size_t i = 0; i < N_OUTPUTS; i++) {
		EQ(outputs[i].fill(at_the_edge(outputs[i].bytes, 4097)),
		   -E2BIG);
		EQ(outputs[i].fill(at_the_edge(outputs[i].bytes, SIZE_MAX)),
		   -E2BIG);
		EQ(outputs[i].fill(at_the_edge(outputs[i].bytes, 0)) < 0, true);
	}
	EQ(gpumap_session_open(
		   map, at_the_edge(sizeof(struct gpumap_session_opts), 4097),
		   &(struct gpumap_session *){ NULL }),
	   -E2BIG);
	EQ(gpumap_layers_publish(
		   map,
		   at_the_edge(sizeof(struct gpumap_layers_request), SIZE_MAX)),
	   -E2BIG);
}

/* ---- NULL ---------------------------------------------------------------- */

static void structs_that_are_null_are_refused(void)
{
	struct gpumap_model *model = NULL;
	struct gpumap_plan plan = { .size = sizeof(plan) };
	uint8_t id[GPUMAP_MESH_ID_BYTES];
	uint64_t number = 0;

	for (size_t i = 0; i < N_OUTPUTS; i++)
		if (!outputs[i].may_be_null &&
		    !EQ(outputs[i].fill(NULL) < 0, true))
			NOTE("%s", outputs[i].name);
	EQ(gpumap_health(map, NULL), -EINVAL);
	EQ(gpumap_layers_publish(map, NULL), -EINVAL);
	EQ(gpumap_mask_publish(map, NULL, NULL), -EINVAL);
	EQ(gpumap_mesh_publish(map, NULL), -EINVAL);
	EQ(gpumap_cluster_publish(map, NULL), -EINVAL);
	EQ(gpumap_mesh_join(map, NULL, id, &number), -EINVAL);
	EQ(gpumap_mesh_place(NULL, 0, NULL), -EINVAL);
	EQ(gpumap_plan_make(map, NULL, &plan, NULL, 0, NULL, 0), -EINVAL);
	EQ(gpumap_model_load(session, NULL, &model), -EINVAL);
	EQ(gpumap_share_publish(session, NULL, &number), -EINVAL);
}

static void names_that_are_null_are_refused(void)
{
	struct gpumap_mask *opened = NULL;
	struct gpumap_model *model = NULL;
	struct gpumap_view view;
	uint64_t number = 0;

	EQ(gpumap_layers_view(map, NULL, &view), -EINVAL);
	EQ(gpumap_layers_read(map, NULL, NULL, NULL, NULL, 0, NULL, 0),
	   -EINVAL);
	EQ(gpumap_layers_release(map, NULL), -EINVAL);
	EQ(gpumap_layers_pin(map, NULL, &view, &number), -EINVAL);
	EQ(gpumap_mask_open(map, NULL, 0, &opened), -EINVAL);
	EQ(gpumap_mask_read(map, NULL, NULL, NULL, 0), -EINVAL);
	EQ(gpumap_mask_release(map, NULL), -EINVAL);
	EQ(gpumap_buffer_register_mask(session, NULL, &number, NULL), -EINVAL);
	EQ(gpumap_mesh_view(map, NULL, NULL, GPUMAP_MESH_ROWS, &view), -EINVAL);
	EQ(gpumap_mesh_read(map, NULL, NULL, NULL, 0), -EINVAL);
	EQ(gpumap_mesh_group(map, NULL, NULL, NULL, NULL, NULL, 0), -EINVAL);
	EQ(gpumap_mesh_within(map, NULL, NULL, 0), -EINVAL);
	EQ(gpumap_mesh_pin(map, NULL, NULL, GPUMAP_MESH_ROWS, &view, &number),
	   -EINVAL);
	EQ(gpumap_mesh_release(map, NULL), -EINVAL);
	EQ(gpumap_share_open(session, NULL, 0, NULL, &number), -EINVAL);
	EQ(gpumap_share_release(map, NULL), -EINVAL);
	EQ(gpumap_model_open(session, NULL, 0, NULL, &model), -EINVAL);
	EQ(gpumap_comm_open(session, NULL, NULL, &(struct gpumap_comm *){ 0 }),
	   -EINVAL);
}

static void publish_mesh(void)
{
	static const uint32_t rows[] = { 0, 1 }, ranks[] = { 0, 1 };
	static const struct gm_meshes_group groups[] = {
		{ "world", GPUMAP_MESH_MOCK, 2, ranks },
	};
	const struct gm_meshes two = { .name = "mesh",
				       .topology = GPUMAP_MESH_TENSOR,
				       .tp = 2,
				       .pp = 1,
				       .dp = 1,
				       .world = 2,
				       .rows = rows,
				       .n_groups = 1,
				       .groups = groups };

	segment_mesh(&file.segment, 11, &two);
}

static void publish_cluster(void)
{
	static const struct gm_cluster_device_image device = {
		.name = "d",
		.kind = GPUMAP_DEVICE_HOST,
		.state = GPUMAP_DEVICE_READY,
	};
	static const struct gm_cluster_share_image share = { .name = "s" };
	static const struct gm_cluster_node node = {
		.image = { .name = "n",
			   .state = GPUMAP_CLUSTER_LIVE,
			   .n_devices = 1,
			   .n_shares = 1 },
		.devices = &device,
		.shares = &share,
	};
	static const struct gm_cluster_node *const nodes[] = { &node };
	const struct gm_cluster one = {
		.cluster = "c", .node = "n", .n_nodes = 1, .nodes = nodes
	};

	segment_cluster(&file.segment, 12, &one);
}

TAP_CASE()
{
	if (!client_begin("arguments"))
		return tap_done();
	segment_mask(&file.segment, 9, "mask", 1, 1);
	publish_mesh();
	publish_cluster();
	session = open_session(16, 0);
	EQ(gpumap_buffer_alloc(session, 0, 64, 0, GPUMAP_NO_DEADLINE, &buffer),
	   0);
	a_newer_caller_gets_what_is_known();
	a_size_that_was_not_set_is_not_followed();
	structs_that_are_null_are_refused();
	names_that_are_null_are_refused();
	gpumap_session_close(session);
	return client_end();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A segment with arbitrary words in it: the library reads everything there is
 * to read and stays inside of the mapping, which lies between two inaccessible
 * pages.
 *
 * The input is records of eleven bytes, little-endian: where (one byte), which
 * word of it (two), and its value (eight).  They are written over a good
 * segment, and taken back afterwards.
 */

#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/internal.h"
#include "tests/support/segment.h"

#define PAGE   UINT64_C(4096)
#define RECORD 11u
#define HEAP   8u /* blocks of the heap that records reach */

static struct segment segment;

static void *fenced(uint64_t bytes)
{
	char *at = mmap(NULL, bytes + 2 * PAGE, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(at != MAP_FAILED);
	MUST(mprotect(at + PAGE, bytes, PROT_READ | PROT_WRITE) == 0);
	return at + PAGE;
}

/* A mask for two rows, one without a file behind it, one on a device. */
static void publish_mask(uint32_t index)
{
	static const struct gm_replica_image replicas[] = {
		{ .row = 0,
		  .place = GM_REPLICA_NODE,
		  .at = GM_SPAN_UNIT,
		  .id = 1,
		  .bytes = 64 },
		{ .row = 1, .place = GM_REPLICA_DEVICE, .id = 1, .bytes = 64 },
	};
	struct gm_mask_image image = { .object.name = "k",
				       .kind = GPUMAP_MASK_CUSTOM,
				       .rank = 2,
				       .shape = { 8, 8 },
				       .strides = { 8, 1 },
				       .bytes = 64,
				       .n_replicas = 2 };
	struct gm_object_slot *slot = &segment.map.objects[index];
	uint64_t words[(sizeof(image) + sizeof(replicas)) / 8 + 8];

	gm_replicas_build(&image, replicas, 1, words);
	gm_put(&slot->key, gm_object_key(GM_KIND_MASK, "k"));
	segment_publish(&segment, &slot->slot, words, gm_replicas_bytes(2));
}

static void make_mesh(struct segment *to)
{
	static const uint32_t rows[] = { 1, 0 }, ranks[] = { 0, 1 };
	static const struct gm_meshes_group groups[] = {
		{ "world", GPUMAP_MESH_MOCK, 2, ranks },
		{ "tp_0", GPUMAP_MESH_NCCL, 1, ranks },
		{ "tp_1", GPUMAP_MESH_NCCL, 1, ranks + 1 },
	};
	const struct gm_meshes mesh = { .name = "n",
					.topology = GPUMAP_MESH_TENSOR,
					.tp = 1,
					.pp = 1,
					.dp = 1,
					.world = 2,
					.rows = rows,
					.n_groups = 3,
					.groups = groups };

	segment_mesh(to, 2, &mesh);
}

static void make_cluster(struct segment *to)
{
	static const struct gm_cluster_device_image devices[] = {
		{ .row = 0, .name = "d", .kind = 1, .state = 2 },
		{ .row = 1, .name = "e", .kind = 1, .state = 2 },
	};
	static const struct gm_cluster_share_image share = { .name = "s" };
	static const struct gm_cluster_node one = {
		.image = { .name = "a", .state = 1, .n_devices = 2 },
		.devices = devices,
	};
	static const struct gm_cluster_node two = {
		.image = { .name = "b",
			   .state = 1,
			   .n_devices = 1,
			   .n_shares = 1 },
		.devices = devices,
		.shares = &share,
	};
	static const struct gm_cluster_node *const nodes[] = { &one, &two };
	const struct gm_cluster cluster = { .cluster = "c",
					    .node = "a",
					    .n_nodes = 2,
					    .limit = 1,
					    .heard = 1,
					    .nodes = nodes };

	segment_cluster(to, 3, &cluster);
}

static void make_once(void)
{
	static const uint32_t rows[] = { 0, 0, 1, 1, 1 };
	static const uint64_t bytes[] = { 10, 20, 30, 40, 50 };
	static const struct gm_charge_image charges[] = {
		{ .row = 0, .n_layers = 2 }, { .row = 1, .n_layers = 3 }
	};
	struct gm_layers layers = { .name = "m",
				    .spec = "0:2;1:3",
				    .n_layers = 5,
				    .n_rows = 2,
				    .rows = rows,
				    .bytes = bytes,
				    .charges = charges };

	if (segment.map.base != NULL)
		return;
	MUST(segment_make(fenced(SEGMENT_BYTES), PAGE, &segment) == 0);
	segment_row(&segment, 0, "zero");
	segment_row(&segment, 1, "one");
	segment_layers(&segment, 0, &layers);
	layers.name = "other";
	segment_layers(&segment, GM_OBJECTS - 1, &layers);
	publish_mask(1);
	make_mesh(&segment);
	make_cluster(&segment);
}

static gm_a64 *target(uint8_t where, uint16_t word)
{
	gm_a64 *base = (gm_a64 *)(void *)segment.map.base;

	switch (where % 5) {
	case 0:
		return &base[word % (sizeof(struct gm_header) / 8)];
	case 1:
		return &base[GM_ROWS_AT / 8 +
			     word % (3 * sizeof(struct gm_row) / 8)];
	case 2:
		return &base[GM_OBJECTS_AT / 8 + word % 16];
	case 3:
		return &base[GM_HOLDERS_AT / 8 - 1 - word % 16];
	default:
		return &base[GM_HEAP_AT / 8 + word % (HEAP * PAGE / 8)];
	}
}

/* Apply the records, and leave what was there in their place. */
static void exchange(uint8_t *records, size_t n, bool backwards)
{
	for (size_t k = 0; k < n; k++) {
		uint8_t *r = records + (backwards ? n - 1 - k : k) * RECORD;
		gm_a64 *word = target(r[0], (uint16_t)(r[1] | r[2] << 8));
		uint64_t was = gm_get(word), now;

		memcpy(&now, r + 3, 8);
		memcpy(r + 3, &was, 8);
		gm_put(word, now);
	}
}

static void read_map(const struct gpumap *map, const char *name)
{
	struct gpumap_layers layers = { .size = sizeof(layers) };
	struct gpumap_charge *charges;
	struct gpumap_view view;
	uint64_t *bytes;
	uint32_t *rows;
	int ret;

	if (gpumap_layers_view(map, name, &view) == 0) {
		for (uint32_t i = 0; i < view.n; i++)
			(void)gpumap_view_get(&view, i);
		MUST(gpumap_view_get(&view, view.n) == -ERANGE);
		ret = gpumap_view_refresh(map, &view);
		MUST(ret == 0 || ret == -ESTALE);
	}
	ret = gpumap_layers_read(map, name, &layers, NULL, NULL, 0, NULL, 0);
	MUST(ret <= 0);
	if (ret != 0)
		return;
	MUST(layers.n_layers <= GM_LAYERS_MAX && layers.n_rows <= GM_ROWS);
	MUST(memchr(layers.spec, '\0', sizeof(layers.spec)) != NULL);
	/* Just as large as they have to be: one byte more would be seen. */
	rows = malloc(layers.n_layers * sizeof(*rows) + 1);
	bytes = malloc(layers.n_layers * sizeof(*bytes) + 1);
	charges = malloc(layers.n_rows * sizeof(*charges) + 1);
	MUST(rows != NULL && bytes != NULL && charges != NULL);
	MUST(gpumap_layers_read(map, name, NULL, rows, bytes, layers.n_layers,
				charges, layers.n_rows) == 0);
	free(rows);
	free(bytes);
	free(charges);
}

/* No file of a node has this name: what lies there cannot be opened. */
static void read_mask(struct gpumap *map, const char *name)
{
	struct gpumap_mask_info info = { .size = sizeof(info) };
	const struct gpumap_mask_view *view;
	struct gpumap_mask *mask;
	uint32_t *rows;

	if (gpumap_mask_read(map, name, &info, NULL, 0) != 0)
		return;
	MUST(info.n_rows <= GM_ROWS && info.rank <= GPUMAP_MASK_RANK_MAX);
	MUST(memchr(info.map, '\0', sizeof(info.map)) != NULL);
	rows = malloc(info.n_rows * sizeof(*rows) + 1);
	MUST(rows != NULL);
	(void)gpumap_mask_read(map, name, NULL, rows, info.n_rows);
	free(rows);
	if (gpumap_mask_open(map, name, 0, &mask) != 0)
		return;
	for (uint32_t row = 0; row < GM_ROWS + 2; row++)
		if (gpumap_mask_get(map, mask, row, &view) == 0)
			MUST(view->data == NULL && view->row == row);
	gpumap_mask_close(map, mask);
}

static void read_mesh(const struct gpumap *map, const char *name)
{
	struct gpumap_mesh_group group = { .size = sizeof(group) };
	struct gpumap_mesh_stats stats = { .size = sizeof(stats) };
	struct gpumap_mesh mesh = { .size = sizeof(mesh) };
	uint32_t *ranks, *rows, cursor = 0;
	struct gpumap_mesh_place place;
	struct gpumap_view view;

	if (gpumap_mesh_read(map, name, &mesh, NULL, 0) != 0)
		return;
	MUST(mesh.world >= 1 && mesh.world <= GPUMAP_ROWS_MAX);
	MUST(mesh.expected >= 1 && mesh.expected <= mesh.world);
	for (uint32_t rank = 0; rank < mesh.world; rank++)
		MUST(gpumap_mesh_place(&mesh, rank, &place) != -EINVAL);
	gpumap_mesh_stats(map, name, &stats);
	while (gpumap_mesh_next_group(map, name, GPUMAP_MESH_ANY, &cursor,
				      &group) == 1) {
		MUST(cursor <= mesh.n_groups && group.n <= mesh.world);
		MUST(strlen(group.name) <= GPUMAP_NAME_MAX);
		ranks = malloc(group.n * sizeof(*ranks));
		rows = malloc(group.n * sizeof(*rows));
		MUST(ranks != NULL && rows != NULL);
		gpumap_mesh_group(map, name, group.name, NULL, ranks, rows,
				  group.n);
		free(ranks);
		free(rows);
		gpumap_mesh_within(map, name, group.name, 0);
		if (gpumap_mesh_view(map, name, group.name, GPUMAP_MESH_RANKS,
				     &view) != 0)
			continue;
		for (uint32_t i = 0; i < view.n; i++)
			(void)gpumap_view_get(&view, i);
		MUST(gpumap_view_get(&view, view.n) == -ERANGE);
	}
}

static void read_cluster_of(const struct gpumap *map,
			    const struct gpumap_cluster *cluster, uint32_t of)
{
	struct gpumap_cluster_device device = { .size = sizeof(device) };
	struct gpumap_cluster_share share = { .size = sizeof(share) };
	uint32_t cursor = 0;

	while (gpumap_cluster_next_device(map, of, &cursor, &device) == 1) {
		MUST(cursor <= cluster->n_devices);
		MUST(device.node < cluster->n_nodes);
		MUST(device.row < GPUMAP_ROWS_MAX);
		MUST(memchr(device.name, '\0', sizeof(device.name)) != NULL);
	}
	for (cursor = 0;
	     gpumap_cluster_next_share(map, of, NULL, &cursor, &share) == 1;) {
		MUST(cursor <= cluster->n_shares);
		MUST(share.node < cluster->n_nodes);
		MUST(memchr(share.name, '\0', sizeof(share.name)) != NULL);
	}
	for (cursor = 0;
	     gpumap_cluster_next_share(map, of, "s", &cursor, &share) == 1;)
		MUST(strcmp(share.name, "s") == 0);
}

static void read_cluster(const struct gpumap *map)
{
	struct gpumap_cluster cluster = { .size = sizeof(cluster) };
	struct gpumap_cluster_node node = { .size = sizeof(node) };
	uint32_t cursor = 0;

	if (gpumap_cluster_read(map, &cluster) != 0)
		return;
	MUST(cluster.n_nodes <= GPUMAP_CLUSTER_NODES_MAX);
	MUST(memchr(cluster.name, '\0', sizeof(cluster.name)) != NULL);
	MUST(memchr(cluster.node, '\0', sizeof(cluster.node)) != NULL);
	while (gpumap_cluster_next_node(map, &cursor, &node) == 1) {
		MUST(node.index < cluster.n_nodes);
		MUST(node.n_devices <= GPUMAP_CLUSTER_ROWS_MAX);
		MUST(node.n_shares <= GPUMAP_CLUSTER_SHARES_MAX);
		MUST(memchr(node.name, '\0', sizeof(node.name)) != NULL);
		MUST(memchr(node.address, '\0', sizeof(node.address)) != NULL);
		read_cluster_of(map, &cluster, node.index);
	}
	read_cluster_of(map, &cluster, GPUMAP_CLUSTER_ANY);
}

static void choose(const struct gpumap *map, uint32_t n)
{
	struct gpumap_choice choice = { .size = sizeof(choice) };
	uint32_t rows[GPUMAP_ROWS_MAX];
	int chosen = gpumap_device_choose(map, &choice, rows, GPUMAP_ROWS_MAX);

	MUST(chosen <= (int)n);
	for (int i = 0; i < chosen; i++)
		MUST(rows[i] < n);
	for (uint32_t row = 0; row < n; row++) {
		struct gpumap_policy policy = { .size = sizeof(policy) };
		struct gpumap_policy_view view;

		(void)gpumap_policy_read(map, row, &policy);
		MUST(gpumap_policy_view(map, row, &view) == 0);
		(void)gpumap_worth(&view, GPUMAP_WORK_MASK, 1 << 20);
	}
}

static void read_everything(struct gpumap *map)
{
	struct gpumap_device device = { .size = sizeof(device) };
	struct gpumap_health health = { .size = sizeof(health) };
	char name[GPUMAP_NAME_MAX + 1];
	uint32_t n = gpumap_device_count(map), cursor = 0;

	MUST(n <= GPUMAP_ROWS_MAX);
	MUST(gpumap_health(map, &health) == 0);
	for (uint32_t row = 0; row < n; row++)
		if (gpumap_device_read(map, row, &device) == 0) {
			MUST(device.row == row);
			MUST(strlen(device.reason) < sizeof(device.reason));
			MUST(gpumap_device_find(map, device.uuid) >= 0);
		}
	choose(map, n);
	while (gpumap_layers_next(map, &cursor, name) == 1) {
		MUST(strlen(name) <= GPUMAP_NAME_MAX);
		read_map(map, name);
	}
	read_map(map, "m");
	cursor = 0;
	while (gpumap_mask_next(map, &cursor, name) == 1)
		read_mask(map, name);
	read_mask(map, "k");
	for (cursor = 0; gpumap_mesh_next(map, &cursor, name) == 1;) {
		MUST(strlen(name) <= GPUMAP_NAME_MAX);
		read_mesh(map, name);
	}
	read_mesh(map, "n");
	read_cluster(map);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t n = size / RECORD < 64 ? size / RECORD : 64;
	uint8_t records[64 * RECORD];
	struct gpumap *map = calloc(1, sizeof(*map) + 1);

	MUST(map != NULL);
	make_once();
	memcpy(records, data, n * RECORD);
	exchange(records, n, false);
	if (gm_check_map(segment.map.base, SEGMENT_BYTES, &map->map) == 0)
		read_everything(map);
	exchange(records, n, true);
	free(map);
	return 0;
}

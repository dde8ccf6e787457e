/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/segment/validate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/name.h"
#include "gpumap.h"
#include "shm/cluster.h"
#include "shm/layers.h"
#include "shm/replicas.h"
#include "shm/meshes.h"
#include "shm/rows.h"

static int check_header(const struct gm_map *map, const uint64_t boot_id[2],
			char *ret_why)
{
	const struct gm_header *header = map->header;
	uint32_t state = gm_get_acquire(&header->state); /* SEGMENT.changed */
	uint64_t epoch = gm_get(&header->epoch);

	if (gm_get(&header->boot_id[0]) != boot_id[0] ||
	    gm_get(&header->boot_id[1]) != boot_id[1])
		return gm_why(ret_why, -EPROTO, "it is of another boot");
	if (state == GM_STATE_RETIRED)
		return gm_why(ret_why, -EPROTO, "it is retired");
	if (state < GM_STATE_STARTING || state > GM_STATE_RETIRED)
		return gm_why(ret_why, -EPROTO, "its state is %u", state);
	if (gm_get(&header->size) != map->bytes)
		return gm_why(ret_why, -EPROTO,
			      "the file is not as long as it says");
	if (map->heap_end != map->bytes ||
	    (map->heap_end - map->heap_at) % GM_UNIT != 0)
		return gm_why(ret_why, -EPROTO,
			      "its heap does not end where it does");
	if (epoch == 0 || epoch == UINT64_MAX)
		return gm_why(ret_why, -EPROTO, "no agent has its epoch");
	if (gm_get(&header->rows_used) > GM_ROWS)
		return gm_why(ret_why, -EPROTO, "it has too many rows");
	return 0;
}

static int check_name(const struct gm_object_image *image)
{
	size_t n = gm_object_name(image->name);

	if (n == 0)
		return -EPROTO;
	for (; n < GM_NAME_BYTES; n++) {
		if (image->name[n] != '\0')
			return -EPROTO;
	}
	return 0;
}

/* Checks for a block of any kind; claims it. */
static int check_block(const struct gm_map *map, const gm_a64 *slot,
		       const char *what, struct gm_object *ret_object,
		       struct gm_adopted_state *past, char *ret_why)
{
	const struct gm_object_image *image = &ret_object->image;
	uint64_t word = gm_get(slot);

	if (gm_object_open(map, slot, ret_object) != 0)
		return gm_why(ret_why, -EPROTO, "%s names no block", what);
	if (image->version != gm_seq_version(word) || image->version == 0)
		return gm_why(ret_why, -EPROTO,
			      "%s has version %llu, its block %llu", what,
			      (unsigned long long)gm_seq_version(word),
			      (unsigned long long)image->version);
	if (image->bytes % GM_UNIT != 0)
		return gm_why(ret_why, -EPROTO, "the block of %s is cut", what);
	if (check_name(image) != 0)
		return gm_why(ret_why, -EPROTO, "the block of %s has no name",
			      what);
	if (gm_blocks_claim(&past->heap, gm_seq_unit(word),
			    image->bytes / GM_UNIT) != 0)
		return gm_why(ret_why, -EPROTO,
			      "the block of %s lies in another", what);
	return 0;
}

static void note(const struct gm_object *object, struct gm_block *ret_block)
{
	const struct gm_object_image *image = &object->image;

	*ret_block = (struct gm_block){ .unit = gm_seq_unit(object->word),
					.bytes = image->bytes,
					.version = image->version,
					.kind = image->kind,
					.owner_uid = image->owner_uid,
					.flags = image->flags };
	memcpy(ret_block->name, image->name, sizeof(ret_block->name));
}

static int check_row(const struct gm_map *map, uint32_t row,
		     struct gm_adopted_state *past, char *ret_why)
{
	struct gm_moving_image moving;
	struct gm_row_image facts;
	struct gm_object object;
	char what[24];
	int ret;

	snprintf(what, sizeof(what), "row %u", row);
	ret = check_block(map, &map->rows[row].facts, what, &object, past,
			  ret_why);
	if (ret != 0)
		return ret;
	if (gm_rows_facts(map, row, &facts) != 0)
		return gm_why(ret_why, -EPROTO, "row %u has no facts", row);
	if (gm_rows_moving(map, row, &moving) != 0 ||
	    moving.state < GPUMAP_DEVICE_PROBING ||
	    moving.state > GPUMAP_DEVICE_LOST)
		return gm_why(ret_why, -EPROTO, "row %u has no moving facts",
			      row);
	for (uint32_t i = 0; i < row; i++) {
		struct gm_row_image other;

		if (gm_rows_facts(map, i, &other) == 0 &&
		    memcmp(other.uuid, facts.uuid, sizeof(facts.uuid)) == 0)
			return gm_why(ret_why, -EPROTO,
				      "rows %u and %u are one device", i, row);
	}
	note(&object, &past->rows[row]);
	return 0;
}

/* Rows past the last one given out may have facts already: the agent died in
 * between.  They go on counting and are filled anew. */
static int check_rows(const struct gm_map *map, struct gm_adopted_state *past,
		      char *ret_why)
{
	past->rows_used = gm_rows_used(map);
	for (uint32_t row = 0; row < GM_ROWS; row++) {
		int ret;

		if (row >= past->rows_used) {
			past->rows[row].version =
				gm_seq_version(gm_get(&map->rows[row].facts));
			continue;
		}
		ret = check_row(map, row, past, ret_why);
		if (ret != 0)
			return ret;
	}
	return 0;
}

/* Sums that wrap would make every promise a lie. */
static bool add_up(uint64_t *sum, uint64_t bytes)
{
	return !__builtin_add_overflow(*sum, bytes, sum) && *sum <= INT64_MAX;
}

/* The rows that objects may use, and what their maps have been promised so
 * far. */
struct limits {
	uint32_t n_rows;
	uint64_t *promised; /* GM_ROWS */
};

static int check_charges(const struct gm_object *object,
			 const struct gm_layers_image *image, const char *where,
			 struct limits *limits, char *ret_why)
{
	bool charged[GM_ROWS] = { false };

	for (uint32_t i = 0; i < image->n_rows; i++) {
		struct gm_charge_image charge;
		uint64_t *sum;

		gm_object_read(object, image->charges_at + i * sizeof(charge),
			       &charge, sizeof(charge));
		if (charge.row >= limits->n_rows || charged[charge.row])
			return gm_why(ret_why, -EPROTO,
				      "the layer map in %s is charged to a row "
				      "that is not there, or twice to one",
				      where);
		charged[charge.row] = true;
		if ((image->object.flags & GM_OBJECT_COMMITTED) == 0)
			continue;
		sum = &limits->promised[charge.row];
		if (!add_up(sum, charge.weight_bytes) ||
		    !add_up(sum, charge.kv_bytes) ||
		    !add_up(sum, charge.activation_bytes) ||
		    !add_up(sum, charge.reserve_bytes))
			return gm_why(ret_why, -EPROTO,
				      "row %u is promised for 2^63 bytes or "
				      "more",
				      charge.row);
	}
	return 0;
}

static int check_flags(uint32_t flags, const char *where, char *ret_why)
{
	if ((flags & ~(GM_OBJECT_COMMITTED | GM_OBJECT_HELD)) != 0 ||
	    flags == GM_OBJECT_HELD)
		return gm_why(ret_why, -EPROTO, "%s has flags %#x", where,
			      flags);
	return 0;
}

static bool ends_in_nul(const struct gm_object *object,
			const struct gm_layers_image *image)
{
	uint32_t last = image->spec_bytes - 1;
	char word[8];

	gm_object_read(object, image->spec_at + (uint64_t)last / 8 * 8, word,
		       sizeof(word));
	return word[last % 8] == '\0';
}

static int check_layers(const struct gm_object *object, const char *where,
			struct limits *limits, char *ret_why)
{
	struct gm_layers_image image;
	int ret;

	if (gm_layers_image(object, &image) != 0)
		return gm_why(ret_why, -EPROTO,
			      "the layer map in %s is damaged", where);
	/* Its parts follow each other, so that none is written for another. */
	if (image.bytes_at < image.rows_at + 4 * (uint64_t)image.n_layers ||
	    image.charges_at < image.bytes_at + 8 * (uint64_t)image.n_layers ||
	    image.spec_at <
		    image.charges_at +
			    image.n_rows * sizeof(struct gm_charge_image))
		return gm_why(ret_why, -EPROTO,
			      "parts of the layer map in %s overlap", where);
	if (!ends_in_nul(object, &image))
		return gm_why(ret_why, -EPROTO,
			      "the spec of the layer map in %s has no end",
			      where);
	if (image.base >= limits->n_rows)
		return gm_why(ret_why, -EPROTO,
			      "the layer map in %s has its other tensors on a "
			      "row that is not there",
			      where);
	ret = check_flags(image.object.flags, where, ret_why);
	if (ret == 0)
		ret = check_charges(object, &image, where, limits, ret_why);
	if (ret != 0)
		return ret;
	for (uint32_t i = 0; i < image.n_layers; i += 2) {
		uint32_t rows[2];

		gm_object_read(object, image.rows_at + 4 * (uint64_t)i, rows,
			       sizeof(rows));
		if (rows[0] >= limits->n_rows ||
		    (i + 1 < image.n_layers && rows[1] >= limits->n_rows))
			return gm_why(ret_why, -EPROTO,
				      "the layer map in %s uses a row "
				      "that is not there",
				      where);
	}
	return 0;
}

static int check_mask(const struct gm_object *object, const char *where,
		      const struct limits *limits, char *ret_why)
{
	uint64_t rows[GM_ROWS / 64] = { 0 };
	struct gm_mask_image image;

	if (gm_replicas_image(object, &image) != 0 || image.object.flags != 0)
		return gm_why(ret_why, -EPROTO, "the mask in %s is damaged",
			      where);
	for (uint32_t i = 0; i < image.n_replicas; i++) {
		struct gm_replica_image replica;
		uint64_t bit;

		if (gm_replicas_read(object, &image, i, &replica) != 0)
			return gm_why(ret_why, -EPROTO,
				      "the mask in %s has a replica that "
				      "is nowhere",
				      where);
		bit = UINT64_C(1) << replica.row % 64;
		if (replica.row >= limits->n_rows ||
		    (rows[replica.row / 64] & bit) != 0)
			return gm_why(ret_why, -EPROTO,
				      "the mask in %s is for a row that "
				      "is not there, or twice for one",
				      where);
		rows[replica.row / 64] |= bit;
	}
	return 0;
}

/* Each rank once, and on the row that the mesh has it on. */
static int check_group(const struct gm_object *object,
		       const struct gm_mesh_image *image, uint32_t i,
		       const uint32_t *rows, const char *where, char *ret_why)
{
	uint32_t ranks[GM_ROWS], of[GM_ROWS];
	bool taken[GM_ROWS] = { false };
	struct gm_group_image group;

	if (gm_meshes_group(object, image, i, &group) != 0 ||
	    gm_meshes_table(object, group.ranks_at, ranks, group.n) != 0 ||
	    gm_meshes_table(object, group.rows_at, of, group.n) != 0 ||
	    group.backend < GPUMAP_MESH_MOCK ||
	    group.backend > GPUMAP_MESH_MPI || group.epoch >> 63 != 0)
		return gm_why(ret_why, -EPROTO,
			      "group %u of the mesh in %s is damaged", i,
			      where);
	for (uint32_t k = 0; k < group.n; k++) {
		if (ranks[k] >= image->world || taken[ranks[k]] ||
		    of[k] != rows[ranks[k]])
			return gm_why(ret_why, -EPROTO,
				      "group %u of the mesh in %s has a "
				      "rank that is not there, or twice, or on "
				      "another row",
				      i, where);
		taken[ranks[k]] = true;
	}
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Tables of valid groups follow each other, and the groups; and each group has
 * a name of its own. */
static int check_groups(const struct gm_object *object,
			const struct gm_mesh_image *image, const char *where,
			char *ret_why)
{
	uint64_t end = image->groups_at +
		       image->n_groups * sizeof(struct gm_group_image);
	char names[GM_MESH_GROUPS][GM_NAME_BYTES];

	for (uint32_t i = 0; i < image->n_groups; i++) {
		struct gm_group_image group = { .n = 0 };

		gm_meshes_group(object, image, i, &group);
		if (group.ranks_at < end ||
		    group.rows_at < group.ranks_at + 4 * (uint64_t)group.n)
			return gm_why(ret_why, -EPROTO,
				      "tables of group %u of the mesh in %s "
				      "overlap",
				      i, where);
		end = group.rows_at + 4 * (uint64_t)group.n;
		memcpy(names[i], group.name, sizeof(names[i]));
	}
	qsort(names, image->n_groups, sizeof(names[0]), by_name);
	for (uint32_t i = 1; i < image->n_groups; i++)
		if (strcmp(names[i - 1], names[i]) == 0)
			return gm_why(ret_why, -EPROTO,
				      "the mesh in %s has group %s twice",
				      where, names[i]);
	return 0;
}

static int check_mesh(const struct gm_object *object, const char *where,
		      const struct limits *limits, char *ret_why)
{
	uint32_t rows[GM_ROWS] = { 0 };
	bool taken[GM_ROWS] = { false };
	struct gm_mesh_image image;
	struct gm_group_image world;
	int ret = 0;

	if (gm_meshes_image(object, &image) != 0 || image.object.flags != 0 ||
	    gm_meshes_group(object, &image, 0, &world) != 0 ||
	    world.n != image.world ||
	    gm_meshes_table(object, world.rows_at, rows, world.n) != 0)
		return gm_why(ret_why, -EPROTO, "the mesh in %s is damaged",
			      where);
	for (uint32_t i = 0; i < image.world; i++) {
		if (rows[i] >= limits->n_rows || taken[rows[i]])
			return gm_why(ret_why, -EPROTO,
				      "the mesh in %s uses a row that is "
				      "not there, or one twice",
				      where);
		taken[rows[i]] = true;
	}
	for (uint32_t i = 0; i < image.n_groups && ret == 0; i++)
		ret = check_group(object, &image, i, rows, where, ret_why);
	return ret == 0 ? check_groups(object, &image, where, ret_why) : ret;
}

/* The nodes of a cluster that have been checked. */
struct sums {
	uint32_t n_devices;
	uint32_t n_shares;
	uint32_t n_gone;
	uint32_t n_refused;
	char name[GM_NAME_BYTES]; /* of the last one */
};

/* Its devices and shares follow those of the node before it. */
static bool check_cluster_node(const struct gm_object *object,
			       const struct gm_cluster_image *image, uint32_t i,
			       struct sums *sums)
{
	bool taken[GM_ROWS] = { false };
	struct gm_cluster_node_image node;

	if (gm_cluster_get_node(object, image, i, &node) != 0 ||
	    (i > 0 && strcmp(sums->name, node.name) >= 0) ||
	    node.first_device != sums->n_devices ||
	    node.first_share != sums->n_shares)
		return false;
	memcpy(sums->name, node.name, sizeof(sums->name));
	sums->n_gone += node.state == GPUMAP_CLUSTER_GONE;
	sums->n_refused += node.state == GPUMAP_CLUSTER_REFUSED;
	for (uint32_t k = 0; k < node.n_devices; k++) {
		struct gm_cluster_device_image device;

		if (gm_cluster_get_device(object, image, sums->n_devices++,
					  &device) != 0 ||
		    device.node != i || taken[device.row])
			return false;
		taken[device.row] = true;
	}
	for (uint32_t k = 0; k < node.n_shares; k++) {
		struct gm_cluster_share_image share;

		if (gm_cluster_get_share(object, image, sums->n_shares++,
					 &share) != 0 ||
		    share.node != i)
			return false;
	}
	return true;
}

static int check_cluster(const struct gm_object *object, const char *where,
			 char *ret_why)
{
	struct gm_cluster_image image;
	struct sums sums = { .n_devices = 0 };

	if (gm_cluster_image(object, &image) != 0 || image.object.flags != 0 ||
	    strcmp(image.object.name, GM_CLUSTER_OBJECT) != 0)
		return gm_why(ret_why, -EPROTO, "the cluster in %s is damaged",
			      where);
	for (uint32_t i = 0; i < image.n_nodes; i++) {
		if (!check_cluster_node(object, &image, i, &sums))
			return gm_why(ret_why, -EPROTO,
				      "node %u of the cluster in %s is "
				      "damaged",
				      i, where);
	}
	if (sums.n_devices != image.n_devices ||
	    sums.n_shares != image.n_shares || sums.n_gone != image.n_gone ||
	    sums.n_refused != image.n_refused)
		return gm_why(ret_why, -EPROTO,
			      "the cluster in %s has other numbers than "
			      "its nodes",
			      where);
	return 0;
}

static int check_content(const struct gm_object *object, const char *where,
			 struct limits *limits, char *ret_why)
{
	char why[GM_WHY_BYTES];

	if (gm_name_check(object->image.name, why) != 0)
		return gm_why(ret_why, -EPROTO, "the name in %s: %.200s", where,
			      why);
	switch (object->image.kind) {
	case GM_KIND_LAYERS:
		return check_layers(object, where, limits, ret_why);
	case GM_KIND_MASK:
		return check_mask(object, where, limits, ret_why);
	case GM_KIND_MESH:
		return check_mesh(object, where, limits, ret_why);
	case GM_KIND_CLUSTER:
		return check_cluster(object, where, ret_why);
	default:
		return gm_why(ret_why, -EPROTO, "%s is of kind %u", where,
			      object->image.kind);
	}
}

int gm_segment_check_words(const uint64_t *words, uint64_t bytes,
			   uint32_t n_rows, char ret_why[GM_WHY_BYTES])
{
	uint64_t promised[GM_ROWS] = { 0 };
	struct limits limits = { n_rows, promised };
	struct gm_object object = { .slot = NULL };
	gm_a64 slot;

	if (bytes < sizeof(object.image))
		return gm_why(ret_why, -EPROTO, "it has no block");
	memcpy(&object.image, words, sizeof(object.image));
	if (object.image.bytes != bytes || bytes % GM_UNIT != 0 ||
	    object.image.version == 0 ||
	    object.image.version >> (64 - GM_UNIT_BITS) != 0 ||
	    check_name(&object.image) != 0)
		return gm_why(ret_why, -EPROTO, "its block is damaged");
	/* The words are read as if a slot named them. */
	object.word = gm_seq_word(object.image.version, 1);
	gm_put(&slot, object.word);
	object.slot = &slot;
	object.block = (gm_a64 *)(uintptr_t)words;
	return check_content(&object, "the file", &limits, ret_why);
}

static int check_object(const struct gm_map *map, uint32_t slot,
			struct gm_adopted_state *past, char *ret_why)
{
	struct limits limits = { past->rows_used, past->promised };
	struct gm_object object;
	char what[24];
	int ret;

	snprintf(what, sizeof(what), "slot %u", slot);
	ret = check_block(map, &map->objects[slot].slot, what, &object, past,
			  ret_why);
	if (ret != 0)
		return ret;
	if (gm_get(&map->objects[slot].key) !=
	    gm_object_key(object.image.kind, object.image.name))
		return gm_why(ret_why, -EPROTO,
			      "slot %u has another key than its block", slot);
	for (uint32_t i = 0; i < slot; i++) {
		const struct gm_block *other = &past->objects[i];

		if (other->unit != 0 && other->kind == object.image.kind &&
		    memcmp(other->name, object.image.name, GM_NAME_BYTES) == 0)
			return gm_why(ret_why, -EPROTO,
				      "slots %u and %u have one name", i, slot);
	}
	note(&object, &past->objects[slot]);
	past->objects[slot].slot = slot;
	return check_content(&object, what, &limits, ret_why);
}

static int check_objects(const struct gm_map *map,
			 struct gm_adopted_state *past, char *ret_why)
{
	for (uint32_t slot = 0; slot < map->n_objects; slot++) {
		uint64_t word = gm_get(&map->objects[slot].slot);
		int ret;

		if (gm_seq_unit(word) == 0) {
			past->objects[slot].version = gm_seq_version(word);
			continue;
		}
		ret = check_object(map, slot, past, ret_why);
		if (ret != 0)
			return ret;
	}
	return 0;
}

/* A pinned block may be one that a slot names, or one that was replaced: then
 * it is still whole, and no other block overlaps it. */
static int check_pinned(const struct gm_map *map, uint32_t index,
			struct gm_adopted_state *past, char *ret_why)
{
	const struct gm_holder_image *holder = &past->holders[index];
	uint64_t word = gm_seq_word(holder->version, holder->unit);
	gm_a64 slot = word;
	struct gm_object object;
	char what[24];
	int ret;

	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		const struct gm_block *block = &past->objects[i];

		if (block->unit != holder->unit)
			continue;
		if (block->version == holder->version &&
		    block->slot == holder->slot &&
		    block->bytes == holder->bytes)
			return 0;
		return gm_why(ret_why, -EPROTO,
			      "holder %u and slot %u disagree", index, i);
	}
	for (uint32_t i = 0; i < index; i++) {
		const struct gm_holder_image *other = &past->holders[i];

		if (other->kind != GM_HOLDER_PIN || other->unit != holder->unit)
			continue;
		if (other->version == holder->version &&
		    other->slot == holder->slot &&
		    other->bytes == holder->bytes)
			return 0;
		return gm_why(ret_why, -EPROTO, "holders %u and %u disagree", i,
			      index);
	}
	snprintf(what, sizeof(what), "holder %u", index);
	ret = check_block(map, &slot, what, &object, past, ret_why);
	if (ret != 0)
		return ret;
	if (object.image.bytes != holder->bytes)
		return gm_why(ret_why, -EPROTO,
			      "holder %u has pinned something else", index);
	return 0;
}

static int check_holder(const struct gm_map *map, uint32_t index,
			struct gm_adopted_state *past, char *ret_why)
{
	struct gm_holder_image *holder = &past->holders[index];
	uint64_t words[8];

	gm_seq_read(map->holders[index].w, words, 8);
	memcpy(holder, words, sizeof(*holder));
	if (holder->kind == GM_HOLDER_FREE)
		return 0;
	if (holder->kind > GM_HOLDER_RESERVE || holder->pid == 0 ||
	    holder->pid > INT32_MAX || holder->claim == 0 ||
	    holder->unit == 0 || holder->slot >= GM_OBJECTS ||
	    holder->version >> (64 - GM_UNIT_BITS) != 0 ||
	    holder->unit >> GM_UNIT_BITS != 0)
		return gm_why(ret_why, -EPROTO, "holder %u is damaged", index);
	for (uint32_t i = 0; i < index; i++) {
		if (past->holders[i].kind != GM_HOLDER_FREE &&
		    past->holders[i].claim == holder->claim)
			return gm_why(ret_why, -EPROTO,
				      "holders %u and %u have one claim", i,
				      index);
	}
	/* The block that an entry of a held map names may never have come to
	 * be. */
	return holder->kind == GM_HOLDER_PIN
		       ? check_pinned(map, index, past, ret_why)
		       : 0;
}

/* An agent stores the entry before the slot and frees it after, wherever it
 * stops. */
static int check_held(const struct gm_adopted_state *past, char *ret_why)
{
	for (uint32_t slot = 0; slot < GM_OBJECTS; slot++) {
		const struct gm_block *block = &past->objects[slot];
		uint32_t i = 0;

		if (block->unit == 0 || (block->flags & GM_OBJECT_HELD) == 0)
			continue;
		while (i < GM_HOLDERS &&
		       (past->holders[i].kind != GM_HOLDER_RESERVE ||
			past->holders[i].unit != block->unit ||
			past->holders[i].version != block->version ||
			past->holders[i].slot != block->slot))
			i++;
		if (i == GM_HOLDERS)
			return gm_why(
				ret_why, -EPROTO,
				"no process holds the held map in slot %u",
				slot);
	}
	return 0;
}

int gm_segment_check(const struct gm_map *map, const uint64_t boot_id[2],
		     struct gm_adopted_state *ret_past,
		     char ret_why[GM_WHY_BYTES])
{
	uint64_t rotor = gm_get(&map->header->rotor);
	int ret;

	memset(ret_past, 0, sizeof(*ret_past));
	ret = check_header(map, boot_id, ret_why);
	if (ret != 0)
		return ret;
	if (rotor > UINT32_MAX)
		return gm_why(ret_why, -EPROTO, "its rotor is out of the heap");
	ret = gm_blocks_init(&ret_past->heap,
			     (uint32_t)(map->heap_at / GM_UNIT),
			     (uint32_t)(map->heap_end / GM_UNIT),
			     (uint32_t)rotor);
	if (ret == -EINVAL)
		return gm_why(ret_why, -EPROTO, "its rotor is out of the heap");
	if (ret != 0)
		return ret;

	ret = check_rows(map, ret_past, ret_why);
	if (ret == 0)
		ret = check_objects(map, ret_past, ret_why);
	for (uint32_t i = 0; i < map->n_holders && ret == 0; i++)
		ret = check_holder(map, i, ret_past, ret_why);
	if (ret == 0)
		ret = check_held(ret_past, ret_why);
	if (ret != 0)
		gm_blocks_exit(&ret_past->heap);
	return ret;
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "shm/device_kinds.h"
#include "tests/support/segment.h"

int segment_make(void *base, uint64_t block_bytes, struct segment *ret_segment)
{
	struct gm_header *h = base;

	gm_put(&h->major, GM_LAYOUT_MAJOR);
	gm_put(&h->minor, GM_LAYOUT_MINOR);
	gm_put(&h->byte_order, GM_BYTE_ORDER);
	gm_put(&h->size, SEGMENT_BYTES);
	gm_put(&h->layout, gm_layout_hash());
	gm_put(&h->epoch, 1);
	gm_put(&h->n_rows, GM_ROWS);
	gm_put(&h->rows_at, GM_ROWS_AT);
	gm_put(&h->n_objects, GM_OBJECTS);
	gm_put(&h->objects_at, GM_OBJECTS_AT);
	gm_put(&h->n_holders, GM_HOLDERS);
	gm_put(&h->holders_at, GM_HOLDERS_AT);
	gm_put(&h->heap_at, GM_HEAP_AT);
	gm_put(&h->heap_bytes, SEGMENT_BYTES - GM_HEAP_AT);
	gm_put(&h->magic, GM_MAGIC);
	gm_put(&h->state, GM_STATE_READY);
	*ret_segment = (struct segment){ .block_bytes = block_bytes };
	return gm_check_map(base, SEGMENT_BYTES, &ret_segment->map);
}

void segment_publish(struct segment *segment, gm_a64 *slot,
		     const uint64_t *words, uint64_t bytes)
{
	uint64_t version = gm_seq_version(gm_get(slot)) + 1, at;

	if (segment->next + segment->block_bytes > SEGMENT_BYTES - GM_HEAP_AT)
		segment->next = 0;
	at = GM_HEAP_AT + segment->next;
	segment->next += segment->block_bytes;
	gm_seq_fill((gm_a64 *)(void *)(segment->map.base + at), words,
		    bytes / 8);
	gm_seq_publish(slot, gm_seq_word(version, (uint32_t)(at / GM_UNIT)));
}

void segment_layers(struct segment *segment, uint32_t index,
		    const struct gm_layers *layers)
{
	struct gm_object_slot *slot = &segment->map.objects[index];
	uint64_t bytes = gm_layers_bytes(layers);
	uint64_t *words = calloc(1, bytes);

	if (words == NULL)
		abort();
	gm_layers_build(layers, gm_seq_version(gm_get(&slot->slot)) + 1, words);
	gm_put(&slot->key, gm_object_key(GM_KIND_LAYERS, layers->name));
	segment_publish(segment, &slot->slot, words, bytes);
	free(words);
}

void segment_mesh(struct segment *segment, uint32_t index,
		  const struct gm_meshes *mesh)
{
	struct gm_object_slot *slot = &segment->map.objects[index];
	uint64_t bytes = gm_meshes_bytes(mesh);
	uint64_t *words = calloc(1, bytes);

	if (words == NULL)
		abort();
	gm_meshes_build(mesh, gm_seq_version(gm_get(&slot->slot)) + 1, words);
	gm_put(&slot->key, gm_object_key(GM_KIND_MESH, mesh->name));
	segment_publish(segment, &slot->slot, words, bytes);
	free(words);
}

void segment_cluster(struct segment *segment, uint32_t index,
		     const struct gm_cluster *cluster)
{
	struct gm_object_slot *slot = &segment->map.objects[index];
	uint64_t bytes = gm_cluster_bytes(cluster);
	uint64_t *words = calloc(1, bytes);

	if (words == NULL)
		abort();
	gm_cluster_build(cluster, gm_seq_version(gm_get(&slot->slot)) + 1,
			 words);
	gm_put(&slot->key, gm_object_key(GM_KIND_CLUSTER, GM_CLUSTER_OBJECT));
	segment_publish(segment, &slot->slot, words, bytes);
	free(words);
}

void segment_mask(struct segment *segment, uint32_t index, const char *name,
		  uint64_t made, uint32_t n_rows)
{
	struct gm_object_slot *slot = &segment->map.objects[index];
	struct gm_replica_image replicas[GM_ROWS] = { { .row = 0 } };
	struct gm_mask_image image = { .kind = GPUMAP_MASK_CUSTOM,
				       .rank = 1,
				       .shape = { SEGMENT_MASK_BYTES },
				       .strides = { 1 },
				       .bytes = SEGMENT_MASK_BYTES,
				       .n_replicas = n_rows };
	uint64_t bytes = gm_replicas_bytes(n_rows);
	uint64_t *words = calloc(1, bytes);

	if (words == NULL || n_rows > GM_ROWS)
		abort();
	memcpy(image.object.name, name, gm_object_name(name));
	for (uint32_t i = 0; i < n_rows; i++)
		replicas[i] =
			(struct gm_replica_image){ .row = i,
						   .place = GM_REPLICA_NODE,
						   .node = i,
						   .id = made,
						   .at = SEGMENT_MASK_AT,
						   .bytes = image.bytes };
	gm_replicas_build(&image, replicas,
			  gm_seq_version(gm_get(&slot->slot)) + 1, words);
	gm_put(&slot->key, gm_object_key(GM_KIND_MASK, name));
	segment_publish(segment, &slot->slot, words, bytes);
	free(words);
}

void segment_facts(struct segment *segment, uint32_t row,
		   const struct gm_row_image *facts)
{
	uint64_t words[sizeof(*facts) / 8 + 1] = { 0 };
	gm_a64 *slot = &segment->map.rows[row].facts;
	struct gm_row_image image = *facts;

	image.object.version = gm_seq_version(gm_get(slot)) + 1;
	memcpy(words, &image, sizeof(image));
	segment_publish(segment, slot, words, sizeof(image));
}

void segment_row(struct segment *segment, uint32_t row, const char *name)
{
	struct gm_moving_image moving = { .state = 2, .free_bytes = 1u << 30 };
	struct gm_row_image image = { .row = row, .kind = 1, .units = 4 };

	image.flags = gm_device_kind(image.kind)->flags;
	image.object.kind = GM_KIND_ROW;
	image.object.bytes = (sizeof(image) + GM_UNIT - 1) / GM_UNIT * GM_UNIT;
	image.object.image_bytes = sizeof(image);
	image.uuid[0] = (uint8_t)(row + 1);
	image.total_bytes = UINT64_C(1) << 32;
	memcpy(image.object.name, name, gm_object_name(name));
	segment_facts(segment, row, &image);
	gm_rows_move(&segment->map.rows[row], &moving);
	if (gm_get(&segment->map.header->rows_used) <= row)
		gm_put_release(&segment->map.header->rows_used,
			       row + 1); /* SEQ.publish */
}

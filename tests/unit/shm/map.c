/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * check, objects, rows, layers: what a reader makes of a segment, and of one
 * that has been damaged in every way.
 */

#include <errno.h>

#include "tests/support/segment.h"
#include "tests/support/tap.h"

static void *memory;
static struct segment segment;
static const uint32_t rows_of[] = { 0, 0, 1, 1, 1 };
static const uint64_t bytes_of[] = { 10, 20, 30, 40, 50 };
static const struct gm_charge_image charges[] = {
	{ .row = 0, .n_layers = 2, .weight_bytes = 30 },
	{ .row = 1, .n_layers = 3, .weight_bytes = 120 },
};

static const struct gm_layers example = {
	.name = "llama",
	.spec = "0:2;1:3",
	.owner_uid = 1000,
	.n_layers = 5,
	.n_rows = 2,
	.setting = 1,
	.dtype = 2,
	.published = 77,
	.other_bytes = 5,
	.rows = rows_of,
	.bytes = bytes_of,
	.charges = charges,
};

static void begin(void)
{
	memset(memory, 0, SEGMENT_BYTES);
	EQ(segment_make(memory, 4096, &segment), 0);
	segment_row(&segment, 0, "host zero");
	segment_row(&segment, 1, "host one");
	segment_layers(&segment, 7, &example);
}

static void rows_are_read_back(void)
{
	struct gm_moving_image moving;
	struct gm_row_image image;

	begin();
	EQ(gm_rows_used(&segment.map), 2);
	EQ(gm_rows_facts(&segment.map, 1, &image), 0);
	STR(image.object.name, "host one");
	EQ(image.uuid[0], 2);
	EQ(gm_rows_moving(&segment.map, 1, &moving), 0);
	EQ(moving.state, 2);
	EQ(gm_rows_facts(&segment.map, 2, &image), -ENODEV);
	EQ(gm_rows_moving(&segment.map, GM_ROWS, &moving), -ENODEV);
}

static void a_map_is_found_by_its_name(void)
{
	struct gm_layers_image image;
	struct gm_object object;
	uint64_t bytes[5];
	uint32_t rows[6];
	char spec[8];

	begin();
	EQ(gm_layers_open(&segment.map, "llama", &object, &image), 0);
	EQ(image.n_layers, 5);
	EQ(image.weight_bytes, 150);
	EQ(image.other_bytes, 5);
	EQ(image.object.version, 1);
	EQ(image.object.owner_uid, 1000);
	EQ(gm_object_read(&object, image.rows_at, rows, sizeof(rows)), 0);
	EQ(memcmp(rows, rows_of, sizeof(rows_of)), 0);
	EQ(gm_object_read(&object, image.bytes_at, bytes, sizeof(bytes)), 0);
	EQ(memcmp(bytes, bytes_of, sizeof(bytes)), 0);
	EQ(gm_object_read(&object, image.spec_at, spec, sizeof(spec)), 0);
	STR(spec, "0:2;1:3");
	OK(gm_object_whole(&object));

	EQ(gm_layers_open(&segment.map, "llam", &object, &image), -ENOENT);
	EQ(gm_layers_open(&segment.map, "llama2", &object, &image), -ENOENT);
	EQ(gm_layers_open(&segment.map, "", &object, &image), -EINVAL);
	EQ(gm_layers_open(&segment.map,
			  "a name of sixty-four bytes, which is one more than "
			  "what fits here",
			  &object, &image),
	   -EINVAL);
}

static void a_released_map_is_gone(void)
{
	struct gm_object_slot *slot;
	struct gm_layers_image image;
	struct gm_object object;

	begin();
	slot = &segment.map.objects[7];
	EQ(gm_layers_open(&segment.map, "llama", &object, &image), 0);
	gm_seq_publish(&slot->slot, gm_seq_word(2, 0));
	OK(!gm_object_whole(&object));
	EQ(gm_layers_open(&segment.map, "llama", &object, &image), -ENOENT);
	segment_layers(&segment, 7, &example);
	EQ(gm_layers_open(&segment.map, "llama", &object, &image), 0);
	EQ(image.object.version, 3);
}

/* A block as a later minor may write it: 64 bytes more in the image. */
static void publish_longer(void)
{
	struct gm_object_slot *slot = &segment.map.objects[8];
	uint64_t bytes = gm_layers_bytes(&example), short_words[64] = { 0 };
	struct gm_layers_image *image = (void *)short_words;
	uint64_t words[72];
	char *to = (char *)words;

	gm_layers_build(&example, 1, short_words);
	image->object.bytes += 64;
	image->object.image_bytes += 64;
	image->rows_at += 64;
	image->bytes_at += 64;
	image->charges_at += 64;
	image->spec_at += 64;
	strcpy(image->object.name, "longer");
	memcpy(to, short_words, sizeof(*image));
	memset(to + sizeof(*image), 0xff, 64);
	memcpy(to + sizeof(*image) + 64, (char *)short_words + sizeof(*image),
	       bytes - sizeof(*image));
	gm_put(&slot->key, gm_object_key(GM_KIND_LAYERS, "longer"));
	segment_publish(&segment, &slot->slot, words, bytes + 64);
}

static void images_of_other_minors_are_read(void)
{
	struct gm_layers_image image;
	struct gm_object object;
	uint64_t words[sizeof(image) / 8 + 8];
	uint32_t rows[6];

	begin();
	publish_longer();
	EQ(gm_layers_open(&segment.map, "longer", &object, &image), 0);
	EQ(image.n_layers, 5);
	EQ(image.other_bytes, 5);
	EQ(gm_object_read(&object, image.rows_at, rows, sizeof(rows)), 0);
	EQ(memcmp(rows, rows_of, sizeof(rows_of)), 0);

	/* As a reader of a later minor reads this one's. */
	EQ(gm_layers_open(&segment.map, "llama", &object, &image), 0);
	memset(words, 0xff, sizeof(words));
	EQ(gm_object_read_image(&object, words, sizeof(words),
				GM_LAYERS_IMAGE_LEAST),
	   0);
	EQ(memcmp(words, &image, sizeof(image)), 0);
	for (size_t i = sizeof(image) / 8; i < sizeof(words) / 8; i++)
		EQ(words[i], 0);
	EQ(gm_object_read_image(&object, words, sizeof(words),
				GM_LAYERS_IMAGE_LEAST + 8),
	   -EPROTO);
	object.image.image_bytes = object.image.bytes + 8;
	EQ(gm_object_read_image(&object, words, 8, 8), -EPROTO);
}

/* Two names may share a key; the name decides. */
static void an_equal_key_is_not_an_equal_name(void)
{
	struct gm_layers other = example;
	struct gm_layers_image image;
	struct gm_object object;

	begin();
	other.name = "other";
	segment_layers(&segment, 3, &other);
	gm_put(&segment.map.objects[3].key,
	       gm_object_key(GM_KIND_LAYERS, "llama"));
	EQ(gm_layers_open(&segment.map, "llama", &object, &image), 0);
	STR(image.object.name, "llama");
}

static void a_foreign_header_is_refused(void)
{
	static const struct {
		size_t at;
		uint32_t value;
	} damage[] = {
		{ offsetof(struct gm_header, magic), 1 },
		{ offsetof(struct gm_header, major), GM_LAYOUT_MAJOR + 1 },
		{ offsetof(struct gm_header, byte_order), 0x04030201 },
		{ offsetof(struct gm_header, layout), 5 },
		{ offsetof(struct gm_header, size), 4096 },
		{ offsetof(struct gm_header, size) + 4, 1 },
		{ offsetof(struct gm_header, n_rows), 1000 },
		{ offsetof(struct gm_header, rows_at), 64 },
		{ offsetof(struct gm_header, n_objects), 1u << 31 },
		{ offsetof(struct gm_header, objects_at) + 4, 7 },
		{ offsetof(struct gm_header, holders_at), 0 },
		{ offsetof(struct gm_header, n_holders), 9 },
		{ offsetof(struct gm_header, heap_at), 0xfffff000 },
		{ offsetof(struct gm_header, heap_bytes), 0xffffffff },
		{ offsetof(struct gm_header, heap_bytes) + 4, 0xffffffff },
	};
	struct gm_map map;

	for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
		begin();
		memcpy((char *)memory + damage[i].at, &damage[i].value, 4);
		EQ(gm_check_map(memory, SEGMENT_BYTES, &map), -EPROTO);
	}
	begin();
	EQ(gm_check_map(memory, SEGMENT_BYTES - 1, &map), -EPROTO);
	EQ(gm_check_map(memory, 100, &map), -EPROTO);
	EQ(gm_check_map(memory, SEGMENT_BYTES, &map), 0);
}

static void slots_that_point_outside_are_refused(void)
{
	static const uint32_t units[] = { 1, GM_HEAP_AT / GM_UNIT - 1,
					  SEGMENT_BYTES / GM_UNIT - 1,
					  SEGMENT_BYTES / GM_UNIT, 0xffffff };
	struct gm_layers_image image;
	struct gm_row_image row;
	struct gm_object object;

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		begin();
		gm_put(&segment.map.objects[7].slot, gm_seq_word(9, units[i]));
		EQ(gm_layers_open(&segment.map, "llama", &object, &image),
		   -EPROTO);
		gm_put(&segment.map.rows[1].facts, gm_seq_word(9, units[i]));
		EQ(gm_rows_facts(&segment.map, 1, &row), -EPROTO);
	}
}

/* Flip each byte of a published block, one at a time: the reader answers, and
 * whatever it returns it has stayed inside of the block (run under ASan). */
static void damaged_blocks_are_survived(void)
{
	uint64_t bytes = gm_layers_bytes(&example), at;
	struct gm_layers_image image;
	struct gm_object object;
	uint64_t sink[64];
	unsigned refused = 0, outside = 0;

	begin();
	at = (uint64_t)gm_seq_unit(gm_get(&segment.map.objects[7].slot)) *
	     GM_UNIT;
	for (uint64_t i = 0; i < 8 * bytes; i++) {
		unsigned char *byte = (unsigned char *)memory + at + i / 8;

		*byte ^= (unsigned char)(1u << i % 8);
		if (gm_layers_open(&segment.map, "llama", &object, &image) !=
		    0) {
			refused++;
		} else {
			outside += image.n_layers > image.object.bytes / 4;
			gm_object_read(&object, image.rows_at, sink,
				       image.n_layers < 100 ? 8 : 16);
		}
		*byte ^= (unsigned char)(1u << i % 8);
	}
	NOTE("%u of %u flips were refused", refused, (unsigned)(8 * bytes));
	OK(refused > 200);
	EQ(outside, 0);
}

TAP_CASE()
{
	memory = aligned_alloc(4096, (SEGMENT_BYTES + 4095) / 4096 * 4096);
	if (memory == NULL)
		return 1;
	rows_are_read_back();
	a_map_is_found_by_its_name();
	a_released_map_is_gone();
	an_equal_key_is_not_an_equal_name();
	images_of_other_minors_are_read();
	a_foreign_header_is_refused();
	slots_that_point_outside_are_refused();
	damaged_blocks_are_survived();
	free(memory);
	return tap_done();
}

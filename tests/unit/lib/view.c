/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The readers' side of a segment: devices, layer maps, and views of them while
 * the writer goes on. */

#include <errno.h>

#include "gpumap.h"
#include "tests/support/segment_file.h"
#include "tests/support/tap.h"

static struct segment_file file;
static struct gpumap *map;

static const uint32_t rows_of[] = { 0, 0, 1, 1, 1 };
static const uint64_t bytes_of[] = { 10, 20, 30, 40, 50 };
static const struct gm_charge_image charges_of[] = {
	{ .row = 0, .n_layers = 2, .weight_bytes = 30 },
	{ .row = 1, .n_layers = 3, .weight_bytes = 120, .kv_bytes = 9 },
};

static struct gm_layers example(const char *name)
{
	return (struct gm_layers){
		.name = name,
		.spec = "0:2;1:3",
		.owner_uid = 1000,
		.n_layers = 5,
		.n_rows = 2,
		.base = 1,
		.setting = GPUMAP_SETTING_MANUAL,
		.dtype = GPUMAP_DTYPE_BF16,
		.published = 77,
		.other_bytes = 5,
		.rows = rows_of,
		.bytes = bytes_of,
		.charges = charges_of,
	};
}

static void publish(uint32_t slot, const char *name)
{
	struct gm_layers layers = example(name);

	segment_layers(&file.segment, slot, &layers);
}

static void release(uint32_t slot)
{
	gm_a64 *word = &file.segment.map.objects[slot].slot;

	gm_seq_publish(word, gm_seq_word(gm_seq_version(gm_get(word)) + 1, 0));
}

static void devices_are_read(void)
{
	struct gpumap_device device = { .size = sizeof(device) };
	uint8_t uuid[16] = { 2 };

	EQ(gpumap_device_count(map), 2);
	EQ(gpumap_device_read(map, 1, &device), 0);
	EQ(device.row, 1);
	EQ(device.kind, GPUMAP_DEVICE_HOST);
	EQ(device.state, GPUMAP_DEVICE_READY);
	EQ(device.free_bytes, 1u << 30);
	EQ(device.total_bytes, UINT64_C(1) << 32);
	STR(device.name, "host one");
	EQ(gpumap_device_read(map, 2, &device), -ENODEV);
	EQ(gpumap_device_read(map, UINT32_MAX, &device), -ENODEV);
	EQ(gpumap_device_find(map, uuid), 1);
	uuid[15] = 1;
	EQ(gpumap_device_find(map, uuid), -ENODEV);
}

static void structs_may_be_older_or_newer(void)
{
	union {
		struct gpumap_device device;
		char room[sizeof(struct gpumap_device) + 64];
	} u;

	memset(&u, 0x5a, sizeof(u));
	u.device.size = offsetof(struct gpumap_device, pci_domain);
	EQ(gpumap_device_read(map, 0, &u.device), 0);
	EQ(u.device.size, offsetof(struct gpumap_device, pci_domain));
	STR(u.device.name, "host zero");
	EQ(u.device.pci_domain, 0x5a5a5a5a); /* past what the caller knows */
	u.device.size = sizeof(u);
	EQ(gpumap_device_read(map, 0, &u.device), 0);
	EQ(u.device.size, sizeof(u.device));
	EQ(u.room[sizeof(u.device)], 0);
	EQ(u.room[sizeof(u) - 1], 0);
	u.device.size = sizeof(size_t);
	EQ(gpumap_device_read(map, 0, &u.device), -EINVAL);
}

static void a_layer_map_is_read_whole(void)
{
	struct gpumap_layers layers = { .size = sizeof(layers) };
	struct gpumap_charge charges[2];
	uint64_t bytes[5];
	uint32_t rows[6] = { 9, 9, 9, 9, 9, 9 };

	publish(7, "llama");
	EQ(gpumap_layers_read(map, "llama", &layers, rows, bytes, 5, charges,
			      2),
	   0);
	STR(layers.name, "llama");
	STR(layers.spec, "0:2;1:3");
	EQ(layers.n_layers, 5);
	EQ(layers.n_rows, 2);
	EQ(layers.base_row, 1);
	EQ(layers.layer_bytes, 150);
	EQ(layers.other_bytes, 5);
	EQ(layers.owner_uid, 1000);
	EQ(layers.published_ns, 77);
	OK(memcmp(rows, rows_of, sizeof(rows_of)) == 0);
	EQ(rows[5], 9); /* an odd number of layers ends where it ends */
	OK(memcmp(bytes, bytes_of, sizeof(bytes_of)) == 0);
	EQ(charges[1].row, 1);
	EQ(charges[1].weight_bytes, 120);
	EQ(charges[1].kv_bytes, 9);
}

static void too_little_room_is_said(void)
{
	struct gpumap_layers layers = { .size = sizeof(layers) };
	struct gpumap_charge charges[2];
	uint32_t rows[5] = { 9, 9, 9, 9, 9 };

	EQ(gpumap_layers_read(map, "llama", &layers, rows, NULL, 4, NULL, 0),
	   -ENOBUFS);
	EQ(layers.n_layers, 5);
	EQ(rows[0], 9);
	EQ(gpumap_layers_read(map, "llama", NULL, NULL, NULL, 0, charges, 1),
	   -ENOBUFS);
	EQ(gpumap_layers_read(map, "llama", NULL, NULL, NULL, 0, NULL, 0), 0);
	EQ(gpumap_layers_read(map, "llam", NULL, NULL, NULL, 0, NULL, 0),
	   -ENOENT);
	EQ(gpumap_layers_read(map, "", NULL, NULL, NULL, 0, NULL, 0), -EINVAL);
	layers.size = 4097;
	EQ(gpumap_layers_read(map, "llama", &layers, NULL, NULL, 0, NULL, 0),
	   -E2BIG);
}

static void a_long_spec_is_cut(void)
{
	struct gpumap_layers layers = { .size = sizeof(layers) };
	struct gm_layers long_one = example("long");
	char spec[600];

	memset(spec, '1', sizeof(spec));
	spec[255] = '\0'; /* with the NUL just what fits */
	long_one.spec = spec;
	segment_layers(&file.segment, 8, &long_one);
	EQ(gpumap_layers_read(map, "long", &layers, NULL, NULL, 0, NULL, 0), 0);
	STR(layers.spec, spec);

	spec[255] = '1';
	spec[256] = '\0';
	segment_layers(&file.segment, 8, &long_one);
	EQ(gpumap_layers_read(map, "long", &layers, NULL, NULL, 0, NULL, 0), 0);
	EQ(strlen(layers.spec), 255);
	STR(layers.spec + 250, "11...");
	release(8);
}

static void a_view_answers_until_it_is_published_anew(void)
{
	struct gpumap_view view;

	EQ(gpumap_layers_view(map, "llama", &view), 0);
	EQ(view.n, 5);
	EQ(gpumap_view_get(&view, 0), 0);
	EQ(gpumap_view_get(&view, 4), 1);
	EQ(gpumap_view_get(&view, 5), -ERANGE);
	EQ(gpumap_view_get(&view, UINT32_MAX), -ERANGE);
	publish(7, "llama");
	EQ(gpumap_view_get(&view, 0), -EAGAIN);
	EQ(gpumap_view_refresh(map, &view), 0);
	EQ(gpumap_view_get(&view, 4), 1);
	EQ(gpumap_layers_view(map, "none", &view), -ENOENT);
	EQ(gpumap_layers_view(map, "", &view), -EINVAL);
	EQ(gpumap_view_get(&view, 4), 1); /* untouched by what failed */
}

static void a_map_that_moved_is_found_again(void)
{
	struct gpumap_view view, before;

	EQ(gpumap_layers_view(map, "llama", &view), 0);
	before = view;
	release(7);
	EQ(gpumap_view_get(&view, 0), -EAGAIN);
	EQ(gpumap_view_refresh(map, &view), -ENOENT);
	OK(memcmp(&view, &before, sizeof(view)) == 0);
	publish(7, "other");
	EQ(gpumap_view_refresh(map, &view), -ENOENT);
	publish(9, "llama");
	EQ(gpumap_view_refresh(map, &view), 0);
	EQ(gpumap_view_get(&view, 4), 1);
	OK(view.check != before.check);
	release(7);
}

/* Any user can find a name that has the key of another user's map; the name
 * decides which map a view is of. */
static void a_name_of_the_same_key_takes_no_view_over(void)
{
	static const char forged[] =
		"j]0LeQ9thXi@61jY]47:QPneyh_BS:L_]4Zibu6mQP7:^I[6I8wzS:H]";
	struct gpumap_view view, before;

	EQ(gm_object_key(GM_KIND_LAYERS, forged),
	   gm_object_key(GM_KIND_LAYERS, "llama-70b"));
	publish(7, "llama-70b");
	EQ(gpumap_layers_view(map, "llama-70b", &view), 0);
	before = view;
	publish(7, forged);
	EQ(gpumap_view_get(&view, 0), -EAGAIN);
	EQ(gpumap_view_refresh(map, &view), -ENOENT);
	publish(9, "llama-70b");
	EQ(gpumap_view_refresh(map, &view), 0);
	OK(view.check != before.check);
	release(7);
	release(9);
	publish(9, "llama");
}

static void a_view_of_something_else_is_refused(void)
{
	struct gpumap_view view;
	uint64_t word = 0;

	EQ(gpumap_layers_view(map, "llama", &view), 0);
	view.check = &word;
	EQ(gpumap_view_refresh(map, &view), -EINVAL);
	EQ(gpumap_layers_view(map, "llama", &view), 0);
	view.check++; /* the slot's key */
	EQ(gpumap_view_refresh(map, &view), -EINVAL);
	view.check = NULL;
	EQ(gpumap_view_refresh(map, &view), -EINVAL);
}

static void a_retired_map_goes_on_answering(void)
{
	struct gm_header *h = file.segment.map.header;
	struct gpumap_view view;

	EQ(gpumap_layers_view(map, "llama", &view), 0);
	gm_put(&h->state, GM_STATE_RETIRED);
	EQ(gpumap_view_get(&view, 4), 1);
	EQ(gpumap_view_refresh(map, &view), -ESTALE);
	EQ(gpumap_view_get(&view, 4), 1);
	gm_put(&h->state, GM_STATE_READY);
}

static void names_are_listed(void)
{
	char name[GPUMAP_NAME_MAX + 1];
	uint32_t cursor = 0;

	publish(GM_OBJECTS - 1, "zebra");
	EQ(gpumap_layers_next(map, &cursor, name), 1);
	STR(name, "llama");
	EQ(gpumap_layers_next(map, &cursor, name), 1);
	STR(name, "zebra");
	EQ(gpumap_layers_next(map, &cursor, name), 0);
	EQ(gpumap_layers_next(map, &cursor, name), 0);
	cursor = UINT32_MAX;
	EQ(gpumap_layers_next(map, &cursor, name), 0);
}

/* Offsets that a damaged segment may have. */
static void damaged_maps_are_refused(void)
{
	gm_a64 *slot = &file.segment.map.objects[9].slot;
	uint64_t good = gm_get(slot);
	struct gpumap_view view, kept;
	gm_a64 *block = (gm_a64 *)(void *)((char *)file.memory +
					   gm_seq_unit(good) * GM_UNIT);
	gm_a64 *shape = &block[offsetof(struct gm_layers_image, n_layers) / 8];
	gm_a64 *at = &block[offsetof(struct gm_layers_image, rows_at) / 8];
	uint64_t shape_was = gm_get(shape), at_was = gm_get(at);

	EQ(gpumap_layers_view(map, "llama", &kept), 0);
	gm_put(shape, shape_was + 4096); /* more layers than the block has */
	EQ(gpumap_layers_view(map, "llama", &view), -EPROTO);
	EQ(gpumap_view_refresh(map, &kept), -EPROTO);
	gm_put(shape, shape_was & ~UINT64_C(0xffffffff));
	EQ(gpumap_layers_view(map, "llama", &view), -EPROTO);
	gm_put(shape, shape_was);
	gm_put(at, at_was + 4096);
	EQ(gpumap_layers_view(map, "llama", &view), -EPROTO);
	gm_put(at, at_was + 1);
	EQ(gpumap_layers_view(map, "llama", &view), -EPROTO);
	gm_put(at, at_was | UINT64_C(0xffffffff));
	EQ(gpumap_layers_view(map, "llama", &view), -EPROTO);
	gm_put(at, at_was);
	gm_put(slot, gm_seq_word(3, 1)); /* the header */
	EQ(gpumap_layers_view(map, "llama", &view), -EPROTO);
	gm_put(slot, gm_seq_word(3, 0xffffff)); /* past the end */
	EQ(gpumap_layers_view(map, "llama", &view), -EPROTO);
	EQ(gpumap_view_refresh(map, &kept), -EPROTO);
	gm_put(slot, good);
	EQ(gpumap_layers_view(map, "llama", &view), 0);
}

/* A damaged table may hold anything; what a caller takes for an error, and
 * refreshes again and again for, is not among it. */
static void an_entry_is_no_error(void)
{
	static const uint32_t odd[] = { (uint32_t)-EAGAIN, UINT32_MAX,
					(uint32_t)INT32_MIN, 0, 1 };
	struct gm_layers layers = example("odd");
	struct gpumap_view view;

	layers.rows = odd;
	segment_layers(&file.segment, 9, &layers);
	EQ(gpumap_layers_view(map, "odd", &view), 0);
	for (uint32_t i = 0; i < 5; i++)
		EQ(gpumap_view_get(&view, i), (int)(odd[i] & INT32_MAX));
	release(9);
}

static void sentences_are_there(void)
{
	STR(gpumap_strerror(0), "success");
	OK(strstr(gpumap_strerror(-ECONNREFUSED), "gpumapd") != NULL);
	OK(strstr(gpumap_strerror(-ESRCH), "namespace") != NULL);
	OK(gpumap_strerror(-4000) != NULL);
	OK(gpumap_strerror(INT32_MIN) != NULL);
}

TAP_CASE()
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .runtime_dir = "/nonexistent" };

	if (segment_file_make("view", &file) != 0) {
		SKIP(1, "no segment in /dev/shm");
		return tap_done();
	}
	opts.instance = file.instance;
	segment_row(&file.segment, 0, "host zero");
	segment_row(&file.segment, 1, "host one");
	if (EQ(gpumap_attach(&opts, &map), 0)) {
		devices_are_read();
		structs_may_be_older_or_newer();
		a_layer_map_is_read_whole();
		too_little_room_is_said();
		a_long_spec_is_cut();
		a_view_answers_until_it_is_published_anew();
		a_map_that_moved_is_found_again();
		a_name_of_the_same_key_takes_no_view_over();
		a_view_of_something_else_is_refused();
		a_retired_map_goes_on_answering();
		names_are_listed();
		damaged_maps_are_refused();
		an_entry_is_no_error();
		sentences_are_there();
	}
	gpumap_detach(map);
	segment_file_remove(&file);
	return tap_done();
}

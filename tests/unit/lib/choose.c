/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* gpumap_device_choose(): what a program may ask of a device, and the order of
 * those that have it. */

#include <errno.h>

#include "gpumap.h"
#include "shm/device_kinds.h"
#include "tests/support/segment_file.h"
#include "tests/support/tap.h"

#define GIB      (UINT64_C(1) << 30)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct segment_file file;
static struct gpumap *map;

/* The facts that tell the rows apart; each has 10 GiB reserved. */
struct card {
	const char *name;
	uint32_t kind, flags, state;
	uint32_t cc, cuda, bus;
	int32_t nvml_index, mig_gi;
	uint64_t total_gib, free_gib;
	double score;
	uint32_t utilisation; /* above 1000: not known */
};

static const struct card cards[] = {
	[0] = { "host Xeon node1", GPUMAP_DEVICE_HOST, 0, GPUMAP_DEVICE_READY,
		0, 0, 0, -1, -1, 512, 500, 900, 0 },
	[1] = { "NVIDIA H100", GPUMAP_DEVICE_CUDA, 0, GPUMAP_DEVICE_READY, 90,
		12040, 0x1700, 1, -1, 80, 30, 500, 900 },
	[2] = { "NVIDIA A100", GPUMAP_DEVICE_CUDA, 0, GPUMAP_DEVICE_READY, 80,
		12040, 0x3b00, 0, -1, 80, 70, 400, 100 },
	[3] = { "NVIDIA H100", GPUMAP_DEVICE_CUDA, 0, GPUMAP_DEVICE_FAILED, 90,
		12040, 0x4b00, 2, -1, 80, 79, 900, 0 },
	[4] = { "NVIDIA T4", GPUMAP_DEVICE_CUDA, GPUMAP_DEVICE_CORDONED,
		GPUMAP_DEVICE_READY, 75, 9020, 0x5b00, 3, -1, 16, 16, 90, 0 },
	/* A card that is split, and its instance. */
	[5] = { "NVIDIA A30", GPUMAP_DEVICE_CUDA, GPUMAP_DEVICE_MIG,
		GPUMAP_DEVICE_READY, 80, 12040, 0x6b00, 4, -1, 24, 24, 90, 0 },
	[6] = { "NVIDIA A30 MIG 1g.6gb", GPUMAP_DEVICE_CUDA, 0,
		GPUMAP_DEVICE_READY, 80, 12100, 0x6b00, -1, 3, 24, 20, 90,
		5000 },
	[7] = { "H200", GPUMAP_DEVICE_DUMMY, 0, GPUMAP_DEVICE_READY, 90, 0, 0,
		-1, -1, 141, 141, 999, 0 },
};

static void put_row(uint32_t row)
{
	const struct card *c = &cards[row];
	struct gm_row_image image = {
		.row = row,
		.kind = c->kind,
		.flags = gm_device_kind(c->kind)->flags | c->flags,
		.cc_major = c->cc / 10,
		.cc_minor = c->cc % 10,
		.cuda_version = c->cuda,
		.numa_node = 1,
		.pci_bus = c->bus,
		.nvml_index = c->nvml_index,
		.mig_gi = c->mig_gi,
		.total_bytes = c->total_gib * GIB,
	};
	struct gm_moving_image moving = {
		.state = c->state,
		.known = c->utilisation <= 1000 ? GPUMAP_KNOWN_UTILISATION : 0,
		.free_bytes = c->free_gib * GIB,
		.reserved_bytes = 10 * GIB,
		.score = c->score,
		.utilisation = c->utilisation,
	};

	segment_row(&file.segment, row, c->name);
	image.known = c->cc != 0 ? GPUMAP_KNOWN_CC : 0;
	image.known |= c->bus != 0 ? GPUMAP_KNOWN_PCI : GPUMAP_KNOWN_NUMA;
	image.object.kind = GM_KIND_ROW;
	image.object.bytes = (sizeof(image) + GM_UNIT - 1) / GM_UNIT * GM_UNIT;
	image.object.image_bytes = sizeof(image);
	memcpy(image.object.name, c->name, strlen(c->name));
	memset(image.uuid, (int)(0x10 + row), sizeof(image.uuid));
	segment_facts(&file.segment, row, &image);
	gm_rows_move(&file.segment.map.rows[row], &moving);
}

/* The chosen rows, such as "1 2 0"; or the reason why there are none. */
static const char *chosen(struct gpumap_choice c)
{
	static char text[256];
	uint32_t rows[COUNT(cards)];
	char *at = text;
	int n;

	c.size = sizeof(c);
	n = gpumap_device_choose(map, &c, rows, COUNT(rows));
	if (n < 0)
		return gpumap_refusal(map);
	STR(gpumap_refusal(map), "");
	for (int i = 0; i < n; i++)
		at += sprintf(at, "%s%u", i > 0 ? " " : "", rows[i]);
	return text;
}

#define CHOSEN(...) chosen((struct gpumap_choice){ __VA_ARGS__ })

static void the_best_come_first_and_hosts_last(void)
{
	STR(chosen((struct gpumap_choice){ 0 }), "1 2 6 0");
	STR(CHOSEN(.by = GPUMAP_CHOOSE_FREE_MEMORY), "2 1 6 0");
	STR(CHOSEN(.by = GPUMAP_CHOOSE_FREE_COMPUTE), "2 6 1 0");
}

static void preferences_name_devices(void)
{
	static const struct {
		const char *prefer, *rows;
	} table[] = {
		{ " ", "1 2 6 0" },
		{ "h100", "1" },
		{ "nvidia", "1 2 6" },
		{ "cuda:0", "2" },
		{ "HOST:1", "0" },
		{ "0000:17:00.0", "1" },
		{ "00000000:3B:00.0", "2" },
		/* the card's, which is split */
		{ "0000:6b:00.0", "6" },
		{ "mig:mig-16161616-1616-1616-1616-161616161616", "6" },
		{ "partition:GPU-11111111-1111-1111-1111-111111111111", "1" },
		{ "partition:11111111-1111-1111-1111-111111111111", "1" },
		{ "GPU-12121212-1212-1212-1212-121212121212", "2" },
		{ "10101010-1010-1010-1010-101010101010", "0" },
	};
	static const char *const none[] = {
		"GPU-16161616-1616-1616-1616-161616161616",
		"h200",
		"cuda:-1",
		"0000:17:00.1",
		"12121212",
		"mig:",
		"cuda:2",
	};

	for (size_t i = 0; i < COUNT(table); i++)
		if (!STR(CHOSEN(.prefer = table[i].prefer), table[i].rows))
			NOTE("%s", table[i].prefer);
	for (size_t i = 0; i < COUNT(none); i++)
		if (!STR(CHOSEN(.prefer = none[i]),
			 "no row meets the needs: 3 not in service, 4 not the "
			 "preferred one"))
			NOTE("%s", none[i]);
}

static void needs_are_met_or_named(void)
{
	STR(CHOSEN(.compute_capability = "8.6"), "1");
	STR(CHOSEN(.compute_capability = "10.0"),
	    "no row meets the needs: 3 not in service, 4 of a lower compute "
	    "capability");
	STR(CHOSEN(.cuda_version = "9.10"), "1 2 6");
	STR(CHOSEN(.cuda_version = "12.4"), "1 2 6");
	STR(CHOSEN(.cuda_version = "12.4.1"), "6");
	STR(CHOSEN(.cuda_version = "12.10.1"),
	    "no row meets the needs: 3 not in service, 4 of a lower CUDA "
	    "version");
	STR(CHOSEN(.total_bytes = 80 * GIB), "1 2 0");
	STR(CHOSEN(.total_bytes = 80 * GIB + 1), "0");
	/* Reserved memory is not free. */
	STR(CHOSEN(.free_bytes = 60 * GIB), "2 0");
	STR(CHOSEN(.prefer = "nvidia", .total_bytes = 60 * GIB,
		   .free_bytes = 60 * GIB + 1),
	    "no row meets the needs: 3 not in service, 1 not the preferred "
	    "one, 1 too small, 2 too full");
}

static void rows_may_be_given(void)
{
	static const uint32_t rows[] = { 7, 2, 1 }, missing[] = { 1, 9 };

	STR(CHOSEN(.rows = rows, .n_rows = 3), "7 1 2");
	STR(CHOSEN(.rows = rows, .n_rows = 2, .prefer = "dummy:7"), "7");
	STR(CHOSEN(.rows = missing, .n_rows = 2), "there is no row 9");
	STR(CHOSEN(.rows = missing, .n_rows = 0), "no row meets the needs");
	/* The earlier of two that are as good comes first. */
	segment_row(&file.segment, 0, "host zero");
	segment_row(&file.segment, 1, "host one");
	STR(CHOSEN(.rows = (const uint32_t[]){ 1, 0 }, .n_rows = 2), "1 0");
	put_row(0);
	put_row(1);
}

/* Row 8 is not there yet. */
static void rows_that_are_being_given_out_are_left_out(void)
{
	segment_row(&file.segment, 9, "host nine");
	STR(CHOSEN(.by = GPUMAP_CHOOSE_BEST), "1 2 6 0 9");
}

static void no_more_are_stored_than_there_is_room_for(void)
{
	struct gpumap_choice c = { .size = sizeof(c) };
	uint32_t rows[2] = { 99, 99 };

	EQ(gpumap_device_choose(map, &c, NULL, 0), 4);
	EQ(gpumap_device_choose(map, &c, rows, 1), 4);
	EQ(rows[0], 1);
	EQ(rows[1], 99);
	c.prefer = "none of this name";
	EQ(gpumap_device_choose(map, &c, rows, 2), -ENODEV);
	EQ(rows[0], 1);
}

static void nonsense_is_refused(void)
{
	struct gpumap_choice c = { .size = sizeof(c) };

	EQ(gpumap_device_choose(map, NULL, NULL, 0), -EINVAL);
	c.by = 3;
	EQ(gpumap_device_choose(map, &c, NULL, 0), -EINVAL);
	STR(chosen(c), "by is none of GPUMAP_CHOOSE_*");
	STR(CHOSEN(.cuda_version = "12.x"),
	    "\"12.x\" is no version: give one such as 12.4");
	STR(CHOSEN(.compute_capability = "sm_90"),
	    "\"sm_90\" is no version: give one such as 12.4");
	STR(CHOSEN(.rows = (const uint32_t[]){ 0 }, .n_rows = 257),
	    "n_rows is more than 256");
}

TAP_CASE()
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .runtime_dir = "/nonexistent" };

	if (segment_file_make("choose", &file) != 0) {
		SKIP(1, "no segment in /dev/shm");
		return tap_done();
	}
	opts.instance = file.instance;
	for (uint32_t row = 0; row < COUNT(cards); row++)
		put_row(row);
	if (EQ(gpumap_attach(&opts, &map), 0)) {
		the_best_come_first_and_hosts_last();
		preferences_name_devices();
		needs_are_met_or_named();
		rows_may_be_given();
		no_more_are_stored_than_there_is_room_for();
		nonsense_is_refused();
		rows_that_are_being_given_out_are_left_out();
	}
	gpumap_detach(map);
	segment_file_remove(&file);
	return tap_done();
}

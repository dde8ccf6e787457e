/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * container_devices: a device table, a folder in the place of / with the
 * driver's nodes in it, and the rows that follow from both.
 * cuda_visible_devices.c tests the meaning of each text; this test checks which
 * devices count at all.
 */

#include <errno.h>
#include <ftw.h>

#include "gpumap.h"
#include "lib/cuda_visible_devices.h"
#include "lib/internal.h"
#include "tests/support/segment_file.h"
#include "tests/support/tap.h"

static struct segment_file file;
static struct gpumap *map;
static char root[64];

/* ---- the table ----------------------------------------------------------- */

struct card {
	uint32_t row;
	uint8_t uuid; /* its first byte, the others are 0 */
	uint32_t flags;
	int32_t minor, fastest, gi, ci;
	uint32_t bus;
};

/*
 * Row 0 is a host.  Cards by bus: 3, 1, 2; by speed: 1, 2, 3.  Row 4 is a card
 * that is split in three: rows 5 and 6 share a GPU instance, row 7 has its own.
 */
static const struct card cards[] = {
	{ 1, 0xa1, 0, 0, 0, -1, -1, 0x4100 },
	{ 2, 0xa2, 0, 1, 1, -1, -1, 0x8100 },
	{ 3, 0xb3, 0, 2, 2, -1, -1, 0x0100 },
	{ 4, 0xc4, GPUMAP_DEVICE_MIG, 3, -1, -1, -1, 0xc100 },
	{ 5, 0xd5, 0, 3, -1, 1, 0, 0xc100 },
	{ 6, 0xd6, 0, 3, -1, 1, 1, 0xc100 },
	{ 7, 0xd7, 0, 3, -1, 2, 0, 0xc100 },
};

#define CARDS (sizeof(cards) / sizeof(cards[0]))

static void move(uint32_t row, uint32_t state)
{
	struct gm_moving_image moving = { .state = state };

	gm_rows_move(&file.segment.map.rows[row], &moving);
}

static void put_card(const struct card *card, uint32_t cuda_version)
{
	uint64_t words[sizeof(struct gm_row_image) / 8] = { 0 };
	gm_a64 *facts = &file.segment.map.rows[card->row].facts;
	struct gm_row_image image = {
		.object = { .kind = GM_KIND_ROW,
			    .version = gm_seq_version(gm_get(facts)) + 1,
			    .bytes = (sizeof(image) + GM_UNIT - 1) / GM_UNIT *
				     GM_UNIT,
			    .image_bytes = sizeof(image) },
		.uuid = { card->uuid },
		.row = card->row,
		.kind = GPUMAP_DEVICE_CUDA,
		.flags = card->flags,
		.pci_bus = card->bus,
		.minor_number = card->minor,
		.ordinal_fastest = card->fastest,
		.mig_gi = card->gi,
		.mig_ci = card->ci,
		.cuda_version = cuda_version,
	};

	memcpy(image.object.name, "card", sizeof("card"));
	memcpy(words, &image, sizeof(image));
	segment_publish(&file.segment, facts, words, sizeof(image));
	move(card->row, GPUMAP_DEVICE_READY);
	if (gm_get(&file.segment.map.header->rows_used) <= card->row)
		gm_put_release(&file.segment.map.header->rows_used,
			       card->row + 1); /* SEQ.publish */
}

/* ---- the nodes ----------------------------------------------------------- */

static void put_file(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s%s", root, name);
	for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		mkdir(path, 0755);
		*at = '/';
	}
	f = fopen(path, "w");
	if (!OK(f != NULL))
		return;
	fputs(text, f);
	fclose(f);
}

static void put_capability(const char *part, int minor)
{
	char name[128], text[80];

	snprintf(name, sizeof(name),
		 "/proc/driver/nvidia/capabilities/gpu3/mig/%s/access", part);
	snprintf(text, sizeof(text),
		 "DeviceFileMinor: %d\nDeviceFileMode: 292\n"
		 "DeviceFileModify: 1\n",
		 minor);
	put_file(name, text);
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)st;
	(void)type;
	return ftw->level > 0 ? remove(path) : 0;
}

static void clear_nodes(void)
{
	nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void take_node(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s%s", root, name);
	EQ(remove(path), 0);
}

static void put_all_nodes(void)
{
	clear_nodes();
	put_file("/dev/nvidia0", "");
	put_file("/dev/nvidia1", "");
	put_file("/dev/nvidia2", "");
	put_file("/dev/nvidia3", "");
}

/* ---- questions ----------------------------------------------------------- */

static const char *rows_of(const char *devices, const char *order)
{
	static char answer[128];
	struct gm_visible_list list;
	size_t used = 0;
	int ret = gm_container_rows(map, root, devices, order, &list);

	snprintf(answer, sizeof(answer), "error %d", ret);
	if (ret != 0)
		return answer;
	answer[0] = '\0';
	for (uint32_t i = 0; i < list.n; i++)
		used += (size_t)snprintf(answer + used, sizeof(answer) - used,
					 "%s%u", i > 0 ? " " : "",
					 list.rows[i]);
	if (list.stop != 0)
		snprintf(answer + used, sizeof(answer) - used, "; stop %u",
			 list.stop);
	return answer;
}

static void the_table_is_what_is_counted(void)
{
	put_all_nodes();
	STR(rows_of(NULL, NULL), "1 2 3 5 7");
	STR(rows_of(NULL, "FASTEST_FIRST"), "1 2 3 5 7");
	STR(rows_of(NULL, "PCI_BUS_ID"), "3 1 2 5 7");
	STR(rows_of("2,0", "PCI_BUS_ID"), "2 3");
	STR(rows_of("2,0", NULL), "3 1");
	STR(rows_of("GPU-b3", NULL), "3");
	STR(rows_of("GPU-a", NULL), "; stop 2");
	STR(rows_of("GPU-a1,GPU-77,GPU-b3", NULL), "1; stop 1");
	STR(rows_of("", NULL), "");
	/* Only the parts of the split card, by each of their names. */
	STR(rows_of("GPU-c4", NULL), "5");
	STR(rows_of("MIG-d6", NULL), "6");
	STR(rows_of("MIG-GPU-c4/1/1", NULL), "6");
	STR(rows_of("MIG-GPU-c4000000-0000-0000-0000-000000000000/2/0", NULL),
	    "7");
	STR(rows_of("MIG-GPU-a1/1/0", NULL), "; stop 1");
}

/* A device that a container was not given does not count, nor does a lost
 * card. */
static void only_what_can_be_opened_counts(void)
{
	put_all_nodes();
	take_node("/dev/nvidia0");
	STR(rows_of(NULL, NULL), "2 3 5 7");
	STR(rows_of("0", NULL), "2");
	STR(rows_of("GPU-a", NULL), "2");
	STR(rows_of("GPU-a1", NULL), "; stop 1");
	take_node("/dev/nvidia3");
	STR(rows_of(NULL, "PCI_BUS_ID"), "3 2");
	STR(rows_of("MIG-d5", NULL), "; stop 1");
	clear_nodes();
	STR(rows_of(NULL, NULL), "");
	STR(rows_of("0", NULL), "; stop 1");
	put_all_nodes();
	move(2, GPUMAP_DEVICE_LOST);
	STR(rows_of(NULL, NULL), "1 3 5 7");
	STR(rows_of("1", NULL), "3");
	/* One that only gpumap does not serve is CUDA's as before. */
	move(2, GPUMAP_DEVICE_FAILED);
	STR(rows_of("1", NULL), "2");
	move(2, GPUMAP_DEVICE_DRAINING);
	STR(rows_of("1", NULL), "2");
	move(2, GPUMAP_DEVICE_READY);
	/* Under WSL no card has a node. */
	clear_nodes();
	put_file("/dev/dxg", "");
	STR(rows_of(NULL, NULL), "1 2 3 5 7");
}

/* An instance has a node for each of its levels, whose number the driver says
 * to those who may know it. */
static void instances_have_nodes_of_their_own(void)
{
	put_all_nodes();
	put_capability("gi1", 30);
	put_capability("gi1/ci0", 31);
	put_capability("gi1/ci1", 32);
	put_capability("gi2", 39);
	put_capability("gi2/ci0", 40);
	STR(rows_of(NULL, NULL), "1 2 3");
	put_file("/dev/nvidia-caps/nvidia-cap30", "");
	STR(rows_of(NULL, NULL), "1 2 3");
	put_file("/dev/nvidia-caps/nvidia-cap32", "");
	STR(rows_of(NULL, NULL), "1 2 3 6");
	STR(rows_of("GPU-c4", NULL), "6");
	STR(rows_of("MIG-d", NULL), "6");
	put_file("/dev/nvidia-caps/nvidia-cap40", "");
	STR(rows_of(NULL, NULL), "1 2 3 6");
	put_file("/dev/nvidia-caps/nvidia-cap39", "");
	STR(rows_of("MIG-d7,MIG-d6", NULL), "7 6");
	put_capability("gi2", 0);
	STR(rows_of(NULL, NULL), "1 2 3 6");
	put_file("/proc/driver/nvidia/capabilities/gpu3/mig/gi1/ci1/access",
		 "nothing that is known\n");
	STR(rows_of(NULL, NULL), "1 2 3");
}

/* A driver before 12.8 shows one instance, and nothing beside it. */
static void the_drivers_age_is_in_the_table(void)
{
	put_all_nodes();
	for (size_t i = 0; i < CARDS; i++)
		put_card(&cards[i], 12040);
	STR(rows_of(NULL, NULL), "5");
	STR(rows_of("0,1", NULL), "1 2");
	STR(rows_of("MIG-d6,MIG-d7", NULL), "6");
	for (size_t i = 0; i < CARDS; i++)
		put_card(&cards[i], 13000);
}

/* A part is as fast as its card, where the driver has ranked that. */
static void parts_are_as_fast_as_their_card(void)
{
	struct card ranked[] = { cards[1], cards[2], cards[3] };

	put_all_nodes();
	for (int i = 0; i < 3; i++) {
		ranked[i].fastest = i < 2 ? i + 2 : 1;
		put_card(&ranked[i], 13000);
	}
	STR(rows_of(NULL, "FASTEST_FIRST"), "1 5 7 2 3");
	STR(rows_of("1", NULL), "5");
	STR(rows_of(NULL, "PCI_BUS_ID"), "3 1 2 5 7");
	for (int i = 1; i < 4; i++)
		put_card(&cards[i], 13000);
}

/* Parts of one card belong together though the card has no row. */
static void parts_need_no_whole(void)
{
	struct card moved = cards[3];
	struct gm_row_image facts;

	put_all_nodes();
	moved.bus = 0xd100; /* row 4 is another's now */
	put_card(&moved, 13000);
	STR(rows_of(NULL, "PCI_BUS_ID"), "3 1 2 5 7");
	STR(rows_of("GPU-c4", NULL), "; stop 1");
	EQ(gm_rows_facts(&map->map, 4, &facts), 0);
	put_card(&cards[3], 13000);
}

static void the_public_call_says_what_was_wrong(void)
{
	uint32_t rows[4] = { 77, 77, 77, 77 };
	int all = gpumap_device_visible(map, NULL, NULL, rows, 4);

	/* The nodes are this machine's: whether there are any is its own. */
	OK(all >= 0 && all <= 5);
	STR(gpumap_refusal(map), "");
	OK(all > 0 || rows[0] == 77);
	EQ(gpumap_device_visible(map, "", NULL, rows, 4), 0);
	STR(gpumap_refusal(map), "");
	EQ(gpumap_device_visible(map, "GPU-77,0", "PCI_BUS_ID", rows, 4), 0);
	OK(strstr(gpumap_refusal(map), "byte 0") != NULL);
	EQ(gpumap_device_visible(map, NULL, NULL, NULL, 0), all);
	STR(gpumap_refusal(map), "");
}

TAP_CASE()
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .runtime_dir = "/nonexistent" };

	snprintf(root, sizeof(root), "/tmp/gpumap-exposed.XXXXXX");
	if (segment_file_make("exposed", &file) != 0 || mkdtemp(root) == NULL) {
		SKIP(1, "no segment in /dev/shm or no folder in /tmp");
		return tap_done();
	}
	segment_row(&file.segment, 0, "host");
	for (size_t i = 0; i < CARDS; i++)
		put_card(&cards[i], 13000);
	opts.instance = file.instance;
	if (EQ(gpumap_attach(&opts, &map), 0)) {
		the_table_is_what_is_counted();
		only_what_can_be_opened_counts();
		instances_have_nodes_of_their_own();
		the_drivers_age_is_in_the_table();
		parts_are_as_fast_as_their_card();
		parts_need_no_whole();
		the_public_call_says_what_was_wrong();
	}
	gpumap_detach(map);
	clear_nodes();
	rmdir(root);
	segment_file_remove(&file);
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * visible: every form of CUDA_VISIBLE_DEVICES, on nodes with and without MIG,
 * in a container, and under drivers of both ages.
 */

#include <errno.h>

#include "lib/cuda_visible_devices.h"
#include "tests/support/tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

#define OLD      12020u /* one MIG instance and nothing else */
#define NEW      12080u

/*
 * Four cards, B C A D in PCI order and A C B D by speed.  Two UUIDs share three
 * digits, two a whole group.
 */
#define UUID_A "e429a63e-c61c-4795-b757-5132caeb8e70"
#define UUID_B "9942190a-aa31-4ff1-4aa9-c388d80f85f1"
#define UUID_C "e42a66f4-6c1d-0b61-a1f7-9a5c86f4c0de"
#define UUID_D "9942190a-bb31-4ff1-4aa9-c388d80f85f1"

/* Instances of card A: GPU instance 1 with two compute instances, 2 with one;
 * of card D one. */
#define UUID_M "c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f"
#define UUID_N "cba663e8-9bed-5b25-b243-5985ef7c9beb"
#define UUID_O "1e099852-3624-56c0-8064-c5db1211e44f"
#define UUID_P "8243111b-d4c4-587a-a96d-da04583b36e2"

/* The names of the answers. */
enum { A = 10, B = 3, C = 200, D = 0, M = 20, N = 21, O = 22, P = 7 };

struct card {
	uint32_t row;
	const char *uuid, *parent;
	int32_t gi, ci, fastest;
	uint32_t domain, bus;
};

static const struct card cards[] = {
	{ A, UUID_A, NULL, -1, -1, 0, 0, 0x4100 },
	{ B, UUID_B, NULL, -1, -1, 2, 0, 0x0100 },
	{ C, UUID_C, NULL, -1, -1, 1, 0, 0x2100 },
	{ D, UUID_D, NULL, -1, -1, 3, 1, 0x0100 },
	{ O, UUID_O, UUID_A, 2, 0, 0, 0, 0x4100 },
	{ N, UUID_N, UUID_A, 1, 1, 0, 0, 0x4100 },
	{ M, UUID_M, UUID_A, 1, 0, 0, 0, 0x4100 },
	{ P, UUID_P, UUID_D, 5, 0, 3, 1, 0x0100 },
};

static void read_uuid(const char *text, uint8_t ret_uuid[16])
{
	for (int i = 0; i < 16; i++, text += 2) {
		unsigned int byte = 0;

		text += *text == '-';
		sscanf(text, "%2x", &byte);
		ret_uuid[i] = (uint8_t)byte;
	}
}

/*
 * Set up from a letter for each card that is there, as in the enum: a small one
 * cannot be opened here, and '!' behind one says that it is split.
 */
struct machine {
	struct gm_visible_device devices[COUNT(cards)];
	struct gm_visible_node node;
};

static void set_up(struct machine *m, const char *present, uint32_t order,
		   uint32_t cuda_version)
{
	static const char letters[] = "ABCDONMP";
	struct gm_visible_device *d = m->devices;

	memset(m, 0, sizeof(*m));
	for (; *present; present++) {
		bool closed = *present >= 'a';
		char letter = (char)(closed ? *present - 'a' + 'A' : *present);
		const struct card *card;

		if (letter == '!') { /* the one before it is split */
			d[-1].flags |= GM_VISIBLE_SPLIT;
			continue;
		}
		card = &cards[strchr(letters, letter) - letters];
		d->row = card->row;
		d->flags = closed ? GM_VISIBLE_CLOSED : 0;
		read_uuid(card->uuid, d->uuid);
		if (card->parent)
			read_uuid(card->parent, d->parent);
		d->mig_gi = card->gi;
		d->mig_ci = card->ci;
		d->fastest = card->fastest;
		d->pci_domain = card->domain;
		d->pci_bus = card->bus;
		d++;
	}
	m->node = (struct gm_visible_node){
		.devices = m->devices,
		.n_devices = (uint32_t)(d - m->devices),
		.order = order,
		.cuda_version = cuda_version,
	};
}

/* "10 3; unknown at 5, 1 dropped": the rows, and what else is worth a word. */
static const char *resolved(const struct machine *m, const char *text)
{
	static char answer[256];
	struct gm_visible_list list;
	size_t used = 0;

	answer[0] = '\0';
	if (gm_visible_resolve(&m->node, text, &list) != 0)
		return "refused";
	for (uint32_t i = 0; i < list.n; i++)
		used += (size_t)snprintf(answer + used, sizeof(answer) - used,
					 "%s%" PRIu32, i ? " " : "",
					 list.rows[i]);
	if (list.stop)
		used += (size_t)snprintf(
			answer + used, sizeof(answer) - used,
			"; %s at %" PRIu32,
			(const char *const[]){ "", "unknown", "ambiguous",
					       "mixed", "repeated" }[list.stop],
			list.at);
	if (list.n_dropped)
		snprintf(answer + used, sizeof(answer) - used,
			 ", %" PRIu32 " dropped", list.n_dropped);
	return answer;
}

struct question {
	const char *text, *answer;
};

static void ask(const struct machine *m, const char *about,
		const struct question *questions, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *text = questions[i].text;

		if (!STR(resolved(m, text), questions[i].answer))
			NOTE("%s, CUDA_VISIBLE_DEVICES=%s", about,
			     text ? text : "(not set)");
	}
}

#define ASK(about, present, order, version, table)          \
	do {                                                \
		struct machine m_;                          \
                                                            \
		set_up(&m_, (present), (order), (version)); \
		ask(&m_, (about), (table), COUNT(table));   \
	} while (0)

static void ordinals_in_pci_order(void)
{
	static const struct question table[] = {
		{ NULL, "3 200 10 0" },
		{ "", "" },
		{ "0", "3" },
		{ "3", "0" },
		{ "0,1,2,3", "3 200 10 0" },
		{ "3,2,1,0", "0 10 200 3" },
		{ "2,1", "10 200" },
		/* an entry that names none */
		{ "-1", "; unknown at 0" },
		{ "4", "; unknown at 0" },
		{ "0,2,-1,1", "3 10; unknown at 4" },
		{ "0,1,2,3,4", "3 200 10 0; unknown at 8" },
		{ "1,5,0", "200; unknown at 2" },
		{ "one,two,3,1", "; unknown at 0" },
		{ "3,2,two,one", "0 10; unknown at 4" },
		{ "NoDevFiles", "; unknown at 0" },
		{ "none", "; unknown at 0" },
		{ "void", "; unknown at 0" },
		{ "all", "; unknown at 0" },
		{ "4294967295", "; unknown at 0" },
		{ "4294967296", "; unknown at 0" },
		{ "18446744073709551616", "; unknown at 0" },
		{ "99999999999999999999999999999999", "; unknown at 0" },
		{ "-18446744073709551616", "; unknown at 0" },
		/* empty entries */
		{ ",", "; unknown at 0" },
		{ ",0", "; unknown at 0" },
		{ "0,", "3; unknown at 2" },
		{ "0,,1", "3; unknown at 2" },
		{ " ", "; unknown at 0" },
		/* blanks, signs and what follows the digits */
		{ " 0", "3" },
		{ "0 ", "3" },
		{ "0, 1,\t2 , 3", "3 200 10 0" },
		{ "\n1", "200" },
		{ "2, +3, -0", "10 0 3" },
		{ "- 1", "; unknown at 0" },
		{ "+-1", "; unknown at 0" },
		{ "+", "; unknown at 0" },
		{ "1gpu2,2ampere", "200 10" },
		{ "0-2", "3" },
		{ "1.9", "200" },
		{ "0x1", "3" },
		{ "007", "; unknown at 0" },
		{ "002", "10" },
		{ "0;1", "3" },
		{ "\"0\"", "; unknown at 0" },
		/* a device twice */
		{ "0,0", "; repeated at 2" },
		{ "0,1,2,1", "; repeated at 6" },
		{ "0,1,00", "; repeated at 4" },
		{ "0,1,-1,0", "3 200; unknown at 4" },
	};

	ASK("PCI_BUS_ID", "ABCD", GM_VISIBLE_PCI_BUS_ID, NEW, table);
	/* The order of the list that is asked about does not matter. */
	ASK("PCI_BUS_ID", "DCBA", GM_VISIBLE_PCI_BUS_ID, OLD, table);
}

static void ordinals_by_speed(void)
{
	static const struct question table[] = {
		{ NULL, "10 200 3 0" },
		{ "0", "10" },
		{ "1", "200" },
		{ "2", "3" },
		{ "3", "0" },
		{ "1,0", "200 10" },
		{ "3,0,-1", "0 10; unknown at 4" },
		{ "GPU-9942190a-aa", "3" },
	};
	static const struct question unranked[] = {
		/* who has no place comes after who has, in PCI order */
		{ NULL, "10 0 3 200" },
		{ "1", "0" },
		{ "2", "3" },
	};
	struct machine m;

	ASK("FASTEST_FIRST", "ABCD", GM_VISIBLE_FASTEST_FIRST, NEW, table);
	set_up(&m, "ABCD", GM_VISIBLE_FASTEST_FIRST, NEW);
	m.devices[1].fastest = m.devices[2].fastest = -1;
	ask(&m, "two places unknown", unranked, COUNT(unranked));
}

static void uuids(void)
{
	static const struct question table[] = {
		{ "GPU-" UUID_A, "10" },
		{ "GPU-" UUID_D ",GPU-" UUID_A, "0 10" },
		{ "GPU-e429", "10" },
		{ "GPU-e42a", "200" },
		{ "GPU-e42a,GPU-e429a63e-,GPU-9942190a-b", "200 10 0" },
		{ "GPU-e429a63e-c61c-4795-b757-5132caeb8e7", "10" },
		/* too short, or of no device */
		{ "GPU-", "; ambiguous at 0" },
		{ "GPU-e42", "; ambiguous at 0" },
		{ "GPU-e429,GPU-9942190a-,GPU-e42a", "10; ambiguous at 9" },
		{ "GPU-e429,GPU-123,GPU-e42a", "10; unknown at 9" },
		{ "GPU-0", "; unknown at 0" },
		{ "GPU-" UUID_A "0", "; unknown at 0" },
		{ "GPU-" UUID_A " ", "; unknown at 0" },
		{ "GPU-e429a63ec61c", "; unknown at 0" },
		{ "GPU", "; unknown at 0" },
		{ "gpu-e429", "; unknown at 0" },
		{ "GPU-E429", "; unknown at 0" },
		{ UUID_B, "; unknown at 0" }, /* 9942190: no such ordinal */
		{ " GPU-e429", "; unknown at 0" },
		{ "GPU-e429, GPU-e42a", "10; mixed at 9" },
		{ "GPU-e429,", "10; mixed at 9" },
		{ "GPU-e429/1/0", "; unknown at 0" },
		/* of another sort than the first */
		{ "GPU-e429, 2", "10; mixed at 9" },
		{ "0,GPU-e42a", "10; mixed at 2" },
		{ "2,MIG-" UUID_M, "3; mixed at 2" },
		/* twice, by different words */
		{ "GPU-e429,GPU-e429", "; repeated at 9" },
		{ "GPU-e429,GPU-e42a,GPU-e429a", "; repeated at 18" },
		{ "MIG-GPU-e429/1/0", "; unknown at 0" },
		{ "MIG-" UUID_A, "; unknown at 0" },
	};
	static const struct question alone[] = {
		{ "GPU-", "200" },
		{ "GPU-e42", "200" },
		{ "0", "200" },
	};

	ASK("UUIDs", "ABCD", GM_VISIBLE_FASTEST_FIRST, OLD, table);
	ASK("one card", "C", GM_VISIBLE_PCI_BUS_ID, NEW, alone);
}

/* A split in two GPU instances with three compute instances, D in one. */
#define SPLIT "A!BCD!ONMP"

static void mig_under_old_drivers(void)
{
	static const struct question table[] = {
		/* whatever else is named, one instance is all there is */
		{ NULL, "20, 3 dropped" },
		{ "0", "3" },
		{ "0,1", "3 200" },
		{ "2", "20" },
		{ "3", "7" },
		{ "3,2", "7, 1 dropped" },
		{ "0,3", "7, 1 dropped" },
		{ "4", "; unknown at 0" },
		{ "GPU-" UUID_A, "20" },
		{ "GPU-" UUID_B, "3" },
		{ "GPU-e42", "; ambiguous at 0" },
		{ "MIG-" UUID_N, "21" },
		{ "MIG-" UUID_N ",MIG-" UUID_O, "21, 1 dropped" },
		{ "MIG-" UUID_P ",MIG-" UUID_M, "7, 1 dropped" },
		{ "MIG-c6", "20" },
		{ "MIG-c", "; ambiguous at 0" },
		{ "MIG-", "; ambiguous at 0" },
		{ "MIG-" UUID_M ",MIG-c6d4", "; repeated at 41" },
		{ "MIG-" UUID_M ",GPU-" UUID_B, "20; mixed at 41" },
		{ "MIG-" UUID_M ",0", "20; mixed at 41" },
		{ "mig-" UUID_M, "; unknown at 0" },
		/* by GPU and instances */
		{ "MIG-GPU-" UUID_A "/1/0", "20" },
		{ "MIG-GPU-" UUID_A "/1/1", "21" },
		{ "MIG-GPU-" UUID_A "/2/0", "22" },
		{ "MIG-GPU-e429/02/0", "22" },
		{ "MIG-GPU-9942190a-b/5/0", "7" },
		{ "MIG-GPU-" UUID_A "/1/1,MIG-" UUID_N, "; repeated at 49" },
		{ "MIG-GPU-" UUID_A "/1/2", "; unknown at 0" },
		{ "MIG-GPU-" UUID_A "/5/0", "; unknown at 0" },
		{ "MIG-GPU-" UUID_B "/1/0", "; unknown at 0" },
		{ "MIG-GPU-" UUID_A "/1", "; unknown at 0" },
		{ "MIG-GPU-" UUID_A "/1/", "; unknown at 0" },
		{ "MIG-GPU-" UUID_A "//0", "; unknown at 0" },
		{ "MIG-GPU-" UUID_A "/-1/-1", "; unknown at 0" },
		{ "MIG-GPU-" UUID_A "/1/0/0", "; unknown at 0" },
		{ "MIG-GPU-" UUID_A "/1/0 ", "; unknown at 0" },
		{ "MIG-GPU-" UUID_A "/4294967297/0", "; unknown at 0" },
		{ "MIG-GPU-" UUID_A, "; unknown at 0" },
		{ "MIG-" UUID_A "/1/0", "; unknown at 0" },
		{ "MIG-" UUID_M "/1/0", "; unknown at 0" },
	};

	ASK("MIG, CUDA 12.2", SPLIT, GM_VISIBLE_PCI_BUS_ID, OLD, table);
}

static void mig_under_new_drivers(void)
{
	static const struct question table[] = {
		/* one compute instance of each GPU instance, and whole GPUs */
		{ NULL, "3 200 20 22 7" },
		{ "2", "20" },
		{ "3", "22" },
		{ "4", "7" },
		{ "5", "; unknown at 0" },
		{ "4,0,3", "7 3 22" },
		{ "GPU-" UUID_A, "20" },
		{ "GPU-" UUID_D, "7" },
		{ "MIG-" UUID_N ",MIG-" UUID_O, "21 22" },
		{ "MIG-" UUID_N ",MIG-" UUID_M, "21, 1 dropped" },
		{ "MIG-" UUID_N ",MIG-" UUID_P ",MIG-" UUID_M,
		  "21 7, 1 dropped" },
		{ "MIG-" UUID_M ",GPU-" UUID_B, "20 3" },
		{ "GPU-" UUID_B ",MIG-" UUID_M, "3 20" },
		{ "GPU-" UUID_A ",MIG-" UUID_M, "; repeated at 41" },
		{ "GPU-" UUID_A ",MIG-" UUID_N, "20, 1 dropped" },
		{ "MIG-" UUID_M ",0", "20; mixed at 41" },
		{ "0,MIG-" UUID_M, "3; mixed at 2" },
	};
	static const struct question by_speed[] = {
		{ NULL, "20 22 200 3 7" },
		{ "1", "22" },
	};

	ASK("MIG, CUDA 12.8", SPLIT, GM_VISIBLE_PCI_BUS_ID, NEW, table);
	ASK("MIG by speed", SPLIT, GM_VISIBLE_FASTEST_FIRST, NEW, by_speed);
}

static void containers(void)
{
	static const struct question two[] = {
		/* ordinals count what was given; UUIDs are told apart in it */
		{ NULL, "200 0" },
		{ "0", "200" },
		{ "1", "0" },
		{ "2", "; unknown at 0" },
		{ "GPU-e42", "200" },
		{ "GPU-" UUID_A, "; unknown at 0" },
		{ "GPU-" UUID_D ",GPU-" UUID_B, "0; unknown at 41" },
	};
	static const struct question instance[] = {
		{ NULL, "21" },
		{ "0", "21" },
		{ "1", "; unknown at 0" },
		{ "MIG-c", "21" },
		{ "GPU-" UUID_A, "21" },
		{ "MIG-" UUID_M, "; unknown at 0" },
		{ "MIG-GPU-" UUID_A "/1/1", "21" },
		{ "MIG-GPU-" UUID_A "/1/0", "; unknown at 0" },
	};
	static const struct question none[] = {
		{ NULL, "" },
		{ "", "" },
		{ "0", "; unknown at 0" },
		{ "GPU-", "; unknown at 0" },
	};

	ASK("two of four", "abCD", GM_VISIBLE_PCI_BUS_ID, OLD, two);
	ASK("one instance", "A!bcd!oNmp", GM_VISIBLE_PCI_BUS_ID, OLD, instance);
	ASK("one instance", "A!bcd!oNmp", GM_VISIBLE_FASTEST_FIRST, NEW,
	    instance);
	ASK("nothing", "abcd", GM_VISIBLE_PCI_BUS_ID, OLD, none);
	ASK("no device", "", GM_VISIBLE_PCI_BUS_ID, NEW, none);
}

static void orders(void)
{
	EQ(gm_visible_order(NULL), GM_VISIBLE_FASTEST_FIRST);
	EQ(gm_visible_order(""), GM_VISIBLE_FASTEST_FIRST);
	EQ(gm_visible_order("FASTEST_FIRST"), GM_VISIBLE_FASTEST_FIRST);
	EQ(gm_visible_order("PCI_BUS_ID"), GM_VISIBLE_PCI_BUS_ID);
	EQ(gm_visible_order("pci_bus_id"), GM_VISIBLE_FASTEST_FIRST);
}

/* As many devices and entries as there may be, and one device more. */
static void limits(void)
{
	static struct gm_visible_device devices[GPUMAP_ROWS_MAX + 1];
	static char text[GPUMAP_ROWS_MAX * 5];
	struct gm_visible_node node = { .devices = devices,
					.n_devices = GPUMAP_ROWS_MAX,
					.order = GM_VISIBLE_PCI_BUS_ID };
	struct gm_visible_list list = { .n = 77 };
	uint32_t wrong = 0;
	size_t used = 0;

	for (uint32_t i = 0; i <= GPUMAP_ROWS_MAX; i++) {
		devices[i] = (struct gm_visible_device){
			.row = i, .mig_gi = -1, .mig_ci = -1, .pci_domain = i
		};
		devices[i].uuid[0] = (uint8_t)i;
		devices[i].uuid[1] = (uint8_t)(i >> 8);
	}
	for (uint32_t i = GPUMAP_ROWS_MAX; i-- > 0;)
		used += (size_t)sprintf(text + used, "%" PRIu32 "%s", i,
					i ? "," : "");
	EQ(gm_visible_resolve(&node, text, &list), 0);
	EQ(list.n, GPUMAP_ROWS_MAX);
	for (uint32_t i = 0; i < list.n; i++)
		wrong += list.rows[i] != GPUMAP_ROWS_MAX - 1 - i;
	EQ(wrong, 0);
	EQ(list.stop, GM_VISIBLE_COMPLETE);
	EQ(gm_visible_resolve(&node, NULL, &list), 0);
	EQ(list.n, GPUMAP_ROWS_MAX);

	node.n_devices = GPUMAP_ROWS_MAX + 1;
	list.n = 77;
	EQ(gm_visible_resolve(&node, NULL, &list), -EINVAL);
	EQ(list.n, 77);
}

static void stops_have_words(void)
{
	for (uint32_t i = 0; i <= GM_VISIBLE_REPEATED; i++)
		OK(strlen(gm_visible_stop_text(i)) > 10);
	STR(gm_visible_stop_text(GM_VISIBLE_REPEATED + 1), "no such answer");
}

TAP_CASE()
{
	ordinals_in_pci_order();
	ordinals_by_speed();
	uuids();
	mig_under_old_drivers();
	mig_under_new_drivers();
	containers();
	orders();
	limits();
	stops_have_words();
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* probe's card: many voices, one verdict, and facts that are joined. */

#include <string.h>

#include "agent/cuda/nvml.h"
#include "agent/probe/card.h"
#include "agent/probe/sysfs.h"
#include "gpumap.h"
#include "tests/support/sysfs_tree.h"

static const uint8_t uuid[16] = { 1, 2, 3 };

static struct gm_card card;

static void begin(void)
{
	struct gm_note facts = { .type = GM_NOTE_CARD };
	struct gm_note moving = { .type = GM_NOTE_MOVING };

	gm_card_begin(&card, uuid, 0, 1);
	facts.card.device.facts.numa_node = -1;
	gm_card_facts(&card, &facts);
	gm_card_moving(&card, &moving);
	card.want_moving = false;
}

static void say(enum gm_card_voice voice, uint32_t health, const char *text)
{
	struct gm_probe_verdict verdict = { .health = health };

	snprintf(verdict.text, sizeof(verdict.text), "%s", text);
	gm_card_check(&card, voice, &verdict);
}

static void the_worst_word_counts(void)
{
	begin();
	EQ(gm_card_verdict(&card).health, GM_PROBE_USABLE);
	OK(gm_card_is_askable(&card));
	say(GM_VOICE_DRIVER, GM_PROBE_FAILED, "driver");
	STR(gm_card_verdict(&card).text, "driver");
	/* Still worth asking. */
	OK(gm_card_is_askable(&card));
	say(GM_VOICE_NVML, GM_PROBE_TAKEN, "mode");
	STR(gm_card_verdict(&card).text, "mode");
	say(GM_VOICE_EVENT, GM_PROBE_FAILED, "event");
	STR(gm_card_verdict(&card).text, "event");
	OK(!gm_card_is_askable(&card));
	say(GM_VOICE_SILENCE, GM_PROBE_FAILED, "silence");
	STR(gm_card_verdict(&card).text, "silence");
	say(GM_VOICE_NVML, GM_PROBE_LOST, "lost");
	STR(gm_card_verdict(&card).text, "lost");
	EQ(gm_card_verdict(&card).health, GM_PROBE_LOST);
	for (int i = 0; i < GM_CARD_VOICES; i++)
		gm_card_check(&card, i, NULL);
	EQ(gm_card_verdict(&card).health, GM_PROBE_USABLE);
	STR(gm_card_verdict(&card).text, "");
}

static void what_is_no_news_is_not_told(void)
{
	begin();
	gm_card_check(&card, GM_VOICE_DRIVER, NULL);
	OK(!card.want_moving);
	say(GM_VOICE_DRIVER, GM_PROBE_FAILED, "a");
	OK(card.want_moving);
	card.want_moving = false;
	say(GM_VOICE_DRIVER, GM_PROBE_FAILED, "a");
	OK(!card.want_moving);
	say(GM_VOICE_DRIVER, GM_PROBE_FAILED, "b");
	OK(card.want_moving);
}

static uint32_t after(uint64_t kind, uint64_t xid)
{
	const struct gm_probe_event event = { .kind = kind, .xid = xid };

	gm_card_event(&card, &event);
	return gm_card_verdict(&card).health;
}

static void xids_are_of_the_card_or_of_somebody(void)
{
	for (uint64_t xid = 0; xid < 200; xid++) {
		uint32_t want = xid == 79                ? GM_PROBE_LOST
				: xid == 48 || xid == 95 ? GM_PROBE_FAILED
							 : GM_PROBE_USABLE;

		begin();
		if (!EQ(after(GM_NVML_EVENT_XID, xid), want))
			NOTE("xid %u", (unsigned int)xid);
		begin();
		EQ(after(GM_NVML_EVENT_DOUBLE_BIT_ECC, xid), GM_PROBE_USABLE);
		EQ(after(GM_NVML_EVENT_RECOVERY, xid), GM_PROBE_USABLE);
	}
	/* Lost is lost, whatever else is reported of it. */
	begin();
	EQ(after(GM_NVML_EVENT_XID, 95), GM_PROBE_FAILED);
	EQ(after(GM_NVML_EVENT_XID, 79), GM_PROBE_LOST);
	EQ(after(GM_NVML_EVENT_XID, 48), GM_PROBE_LOST);
}

/* Lost ends when it answers; a reset is nothing that an answer proves. */
static void who_answers_is_there(void)
{
	struct gm_note facts = { .type = GM_NOTE_CARD };

	begin();
	card.is_asked = true;
	after(GM_NVML_EVENT_XID, 79);
	gm_card_facts(&card, &facts);
	EQ(gm_card_verdict(&card).health, GM_PROBE_USABLE);
	OK(!card.is_asked);
	begin();
	card.is_asked = true;
	after(GM_NVML_EVENT_XID, 95);
	gm_card_facts(&card, &facts);
	EQ(gm_card_verdict(&card).health, GM_PROBE_FAILED);
	OK(card.is_asked);
}

static void cudas_facts_win(void)
{
	struct gm_note nvml = { .type = GM_NOTE_CARD };
	struct gm_note cuda = { .type = GM_NOTE_DRIVER };
	struct gm_row_image *row = &nvml.card.device.facts;
	struct gm_probe_wire wire;

	row->numa_node = -1;
	row->total_bytes = 100;
	row->cc_major = 9;
	row->known = GPUMAP_KNOWN_CC | GPUMAP_KNOWN_MEMORY;
	cuda.driver.host_node = -1;
	cuda.driver.total_bytes = 90;
	cuda.driver.units = 7;
	cuda.driver.cc_major = 9;
	cuda.driver.flags = GPUMAP_DEVICE_INTEGRATED;
	begin();
	gm_card_facts(&card, &nvml);
	gm_card_device(&card, NULL, &wire);
	EQ(wire.device.facts.total_bytes, 100);
	EQ(wire.device.facts.known & GPUMAP_KNOWN_UNITS, 0);
	EQ(wire.device.facts.ordinal_pci, -1);
	card.want_device = false;
	gm_card_driver(&card, &cuda);
	OK(card.want_device);
	gm_card_device(&card, NULL, &wire);
	EQ(wire.device.facts.total_bytes, 90);
	EQ(wire.device.facts.units, 7);
	OK(wire.device.facts.flags & GPUMAP_DEVICE_MAIN_MEMORY);
	EQ(wire.device.facts.known & GPUMAP_KNOWN_ORDINALS, 0);
	EQ(memcmp(wire.uuid, uuid, 16), 0);
	card.want_device = false;
	gm_card_driver(&card, &cuda);
	OK(!card.want_device);
}

/* ---- where it is --------------------------------------------------------- */

static int node_of(enum gm_note_affinity by, int nvml, int host_node)
{
	struct gm_note facts = { .type = GM_NOTE_CARD };
	struct gm_note cuda = { .type = GM_NOTE_DRIVER };
	struct gm_probe_wire wire;

	facts.card.affinity = by;
	facts.card.device.facts.numa_node = nvml;
	cuda.driver.host_node = host_node;
	begin();
	gm_card_facts(&card, &facts);
	gm_card_driver(&card, &cuda);
	gm_card_device(&card, tree.root, &wire);
	if (wire.device.facts.numa_node == 1)
		STR(wire.device.facts.cpus, host_node == 1 ? "4-7" : "");
	return wire.device.facts.numa_node;
}

static void the_node_is_of_sysfs_then_cuda_then_nvml(void)
{
	tree_file("sys/devices/system/node/online", "0-1\n");
	tree_file("sys/devices/system/node/node0/cpulist", "0-3\n");
	tree_file("sys/devices/system/node/node1/cpulist", "4-7\n");
	EQ(node_of(GM_AFFINITY_SYSFS, 0, 1), 0);
	EQ(node_of(GM_AFFINITY_NVML, 0, 1), 1);
	EQ(node_of(GM_AFFINITY_NONE, -1, 1), 1);
	EQ(node_of(GM_AFFINITY_NVML, 0, -1), 0);
	EQ(node_of(GM_AFFINITY_NONE, -1, -1), -1);
	/* A node that this kernel does not have. */
	EQ(node_of(GM_AFFINITY_NONE, -1, 5), -1);
	EQ(node_of(GM_AFFINITY_NVML, 0, 5), 0);
}

static void sysfs_says_what_is_near(void)
{
	char cpus[64];

	tree_file("sys/bus/pci/devices/0000:17:00.0/numa_node", "1\n");
	tree_file("sys/bus/pci/devices/0000:17:00.0/local_cpulist", "4-7\n");
	tree_file("sys/bus/pci/devices/0000:e1:00.0/numa_node", "-1\n");
	tree_file("sys/bus/pci/devices/0000:e1:00.0/local_cpulist", "0-7\n");
	tree_file("sys/bus/pci/devices/10000:01:00.0/numa_node", "0\n");
	EQ(gm_sysfs_near(tree.root, 0, 0x1700, cpus, sizeof(cpus)), 1);
	STR(cpus, "4-7");
	/* Every CPU is what a platform says that does not know. */
	EQ(gm_sysfs_near(tree.root, 0, 0xe100, cpus, sizeof(cpus)), -1);
	STR(cpus, "");
	EQ(gm_sysfs_near(tree.root, 0x10000, 0x0100, cpus, sizeof(cpus)), 0);
	STR(cpus, "");
	EQ(gm_sysfs_near(tree.root, 0, 0x0200, cpus, sizeof(cpus)), -1);
	/* The path does not fit. */
	EQ(gm_sysfs_near(tree.root, 0, 0x1700, cpus, 3), 1);
	STR(cpus, "");
	tree_file("sys/bus/pci/devices/0000:17:00.0/numa_node", "nonsense\n");
	EQ(gm_sysfs_near(tree.root, 0, 0x1700, cpus, sizeof(cpus)), -1);
	tree_file("sys/bus/pci/devices/0000:17:00.0/numa_node", "99999999\n");
	EQ(gm_sysfs_near(tree.root, 0, 0x1700, cpus, sizeof(cpus)), -1);
}

static void a_mask_is_of_one_node_or_of_none(void)
{
	unsigned long words[2] = { 0x30, 0 };
	char cpus[64];

	EQ(gm_sysfs_mask(tree.root, words, 2, cpus, sizeof(cpus)), 1);
	STR(cpus, "4-5");
	words[0] = 0x18;
	EQ(gm_sysfs_mask(tree.root, words, 2, cpus, sizeof(cpus)), -1);
	words[0] = 0;
	EQ(gm_sysfs_mask(tree.root, words, 2, cpus, sizeof(cpus)), -1);
	words[1] = 1; /* a CPU that is nowhere */
	EQ(gm_sysfs_mask(tree.root, words, 2, cpus, sizeof(cpus)), -1);
}

static void only_cards_of_the_module_are_listed(void)
{
	struct gm_note notes[4];

	tree_file("sys/bus/pci/devices/0000:17:00.0/vendor", "0x10de\n");
	tree_file("sys/bus/pci/devices/0000:17:00.0/class", "0x030200\n");
	tree_link("sys/bus/pci/devices/0000:17:00.0/driver",
		  "../../../bus/pci/drivers/nvidia");
	/* The card's sound device, one that a virtual machine has, and a
	 * stranger's. */
	tree_file("sys/bus/pci/devices/0000:17:00.1/vendor", "0x10de\n");
	tree_file("sys/bus/pci/devices/0000:17:00.1/class", "0x040300\n");
	tree_file("sys/bus/pci/devices/0000:e1:00.0/vendor", "0x10de\n");
	tree_file("sys/bus/pci/devices/0000:e1:00.0/class", "0x030000\n");
	tree_link("sys/bus/pci/devices/0000:e1:00.0/driver",
		  "../../../bus/pci/drivers/vfio-pci");
	tree_file("sys/bus/pci/devices/0000:02:00.0/vendor", "0x1002\n");
	tree_file("sys/bus/pci/devices/0000:02:00.0/class", "0x030000\n");
	EQ(gm_sysfs_count(tree.root), 2);
	EQ(gm_sysfs_list(tree.root, notes, 4), 1);
	EQ(notes[0].place.bus, 0x1700);
	EQ(notes[0].place.minor, -1);
	EQ(notes[0].place.named, 0);
	/* The module's own word is better, and has names. */
	tree_file("proc/driver/nvidia/gpus/0000:e2:00.0/information",
		  "GPU UUID: GPU-8932f937-d72c-4106-c12f-20bd9faed9f6\n"
		  "Device Minor: 3\n");
	tree_file("proc/driver/nvidia/gpus/0000:17:00.0/information", "");
	EQ(gm_sysfs_list(tree.root, notes, 4), 2);
	EQ(notes[0].place.bus, 0x1700);
	EQ(notes[0].place.named, 0);
	EQ(notes[1].place.bus, 0xe200);
	EQ(notes[1].place.minor, 3);
	EQ(notes[1].place.named, 1);
	STR(notes[1].place.id, "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6");
	EQ(gm_sysfs_list(tree.root, notes, 1), 1);
	EQ(gm_sysfs_list("/nonexistent", notes, 4), 0);
}

static void hear_process(uint32_t index, uint64_t bytes)
{
	struct gm_note note = { .type = GM_NOTE_PROCESS };

	note.process.index = index;
	note.process.low_bytes = bytes;
	gm_card_process(&card, &note);
}

static void hear_moving(uint32_t n_processes)
{
	struct gm_note note = { .type = GM_NOTE_MOVING };

	note.moving.figures = GM_FIGURES_KNOWN;
	note.moving.n_processes = n_processes;
	gm_card_moving(&card, &note);
}

static struct gm_probe_moving told_moving(void)
{
	struct gm_probe_wire wire;

	gm_card_wire_moving(&card, &wire);
	return wire.moving;
}

/* Processes and free bytes that are told together are of one look. */
static void looks_are_told_whole(void)
{
	struct gm_probe_wire wire;

	begin();
	hear_process(0, 7);
	hear_process(1, 8);
	hear_moving(2);
	EQ(gm_card_n_processes(&card), 2);
	EQ(told_moving().n_processes, 2);
	EQ(told_moving().figures, GM_FIGURES_KNOWN);
	gm_card_wire_process(&card, 1, &wire);
	EQ(wire.type, GM_PROBE_PROCESS);
	EQ(memcmp(wire.uuid, uuid, 16), 0);
	EQ(wire.process.low_bytes, 8);

	/* The next look is under way when something else is to be told. */
	hear_process(0, 9);
	EQ(gm_card_n_processes(&card), 0);
	EQ(told_moving().n_processes, 0);
	EQ(told_moving().figures, GM_FIGURES_PARTLY);
	hear_process(1, 9);
	EQ(gm_card_n_processes(&card), 0);
	EQ(told_moving().figures, GM_FIGURES_PARTLY);
	hear_moving(2);
	EQ(gm_card_n_processes(&card), 2);
	EQ(told_moving().figures, GM_FIGURES_KNOWN);

	/* Its watcher ended in the middle, and another has begun anew. */
	hear_process(0, 1);
	hear_process(0, 2);
	hear_moving(1);
	EQ(gm_card_n_processes(&card), 1);
	gm_card_wire_process(&card, 0, &wire);
	EQ(wire.process.low_bytes, 2);
	hear_process(1, 3);
	hear_moving(1);
	EQ(told_moving().figures, GM_FIGURES_PARTLY);
	hear_moving(0);
	EQ(gm_card_n_processes(&card), 0);
	EQ(told_moving().figures, GM_FIGURES_KNOWN);
}

TAP_CASE()
{
	looks_are_told_whole();
	the_worst_word_counts();
	what_is_no_news_is_not_told();
	xids_are_of_the_card_or_of_somebody();
	who_answers_is_there();
	cudas_facts_win();
	if (tree_begin()) {
		the_node_is_of_sysfs_then_cuda_then_nvml();
		sysfs_says_what_is_near();
		a_mask_is_of_one_node_or_of_none();
		only_cards_of_the_module_are_listed();
		tree_end();
	}
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* home_node: where gpumapd runs, on machines made of a few files. */

#include "agent/daemon/base/fd_limits.h"
#include "agent/daemon/devices/home_node.h"
#include "tests/support/sysfs_tree.h"

static struct gm_config config;
static struct gm_numa_allowed allowed;

static int home(char ret_cpus[64])
{
	struct gm_idset cpus = { 0 };
	int node = gm_home_node(tree.root, &config, &allowed, &cpus);

	ret_cpus[0] = '\0';
	if (node >= 0)
		gm_idset_format(&cpus, ret_cpus, 64);
	return node;
}

static void make_node(int node, const char *cpus)
{
	char name[64], text[96];

	snprintf(name, sizeof(name), "sys/devices/system/node/node%d/cpulist",
		 node);
	snprintf(text, sizeof(text), "%s\n", cpus);
	tree_file(name, text);
	snprintf(name, sizeof(name), "sys/devices/system/node/node%d/meminfo",
		 node);
	snprintf(text, sizeof(text),
		 "Node %d MemTotal: 1048576 kB\nNode %d MemFree: 524288 kB\n",
		 node, node);
	tree_file(name, text);
}

static void make_card(int number, const char *vendor, const char *class,
		      const char *node)
{
	static const char *const files[] = { "vendor", "class", "numa_node" };
	const char *const texts[] = { vendor, class, node };

	for (int i = 0; i < 3; i++) {
		char name[96];

		snprintf(name, sizeof(name),
			 "sys/bus/pci/devices/0000:%02x:00.0/%s", number,
			 files[i]);
		tree_file(name, texts[i]);
	}
}

static void one_node_is_no_choice(void)
{
	char cpus[64];

	tree_file("sys/devices/system/node/online", "0\n");
	tree_file("sys/devices/system/node/has_memory", "0\n");
	tree_file("proc/meminfo", "MemTotal: 1048576 kB\n");
	make_node(0, "0-3");
	EQ(home(cpus), -1);
}

static void cards_decide_between_two_nodes(void)
{
	char cpus[64];

	tree_file("sys/devices/system/node/online", "0-1\n");
	tree_file("sys/devices/system/node/has_memory", "0-1\n");
	make_node(1, "4-7");
	make_card(9, "0x10de\n", "0x030200\n", "1\n");
	EQ(home(cpus), 1);
	make_card(9, "0x8086\n", "0x030200\n", "1\n");
	EQ(home(cpus), 0);
}

static void the_first_of_equal_ones(void)
{
	char cpus[64];

	tree_file("sys/devices/system/node/online", "0-2\n");
	tree_file("sys/devices/system/node/has_memory", "0-2\n");
	make_node(2, ""); /* memory alone */
	EQ(home(cpus), 0);
	STR(cpus, "0-3");
}

static void cards_decide(void)
{
	char cpus[64];

	make_card(1, "0x8086\n", "0x030000\n", "0\n");
	make_card(2, "0x10de\n", "0x020000\n", "0\n");
	make_card(3, "0x10de\n", "0x030200\n", "1\n");
	EQ(home(cpus), 1);
	STR(cpus, "4-7");
	make_card(4, "0x10de\n", "0x030000\n", "0\n");
	EQ(home(cpus), 0);
	/* Node 2 has no CPUs, and a card may be on no known node. */
	make_card(5, "0x10de\n", "0x030000\n", "2\n");
	make_card(6, "0x10de\n", "0x030000\n", "2\n");
	make_card(7, "0x10de\n", "0x030000\n", "-1\n");
	EQ(home(cpus), 0);
	make_card(8, "0x10de\n", "0x030000\n", "1\n");
	EQ(home(cpus), 1);
	config.cuda_enabled = GM_CONFIG_CUDA_OFF;
	EQ(home(cpus), 0);
}

static void host_rows_count_where_they_are(void)
{
	char cpus[64];

	config.host_cpus_set = true;
	EQ(gm_idset_parse("5-6", &config.host_cpus), 2);
	EQ(home(cpus), 1);
	STR(cpus, "4-7");
	config.host_enabled = false;
	EQ(home(cpus), 0);
}

static void only_what_gpumapd_may_use(void)
{
	char cpus[64];

	config.host_enabled = true;
	EQ(gm_idset_parse("2,5-6", &allowed.cpus), 3);
	EQ(home(cpus), 1);
	STR(cpus, "5-6");
	EQ(gm_idset_parse("2", &allowed.cpus), 1);
	EQ(home(cpus), -1);
}

TAP_CASE()
{
	int held;

	if (!tree_begin())
		return tap_done();
	gm_config_init(&config);
	held = gm_fd_limits_count();
	memset(&allowed, 0xff, sizeof(allowed));
	one_node_is_no_choice();
	cards_decide_between_two_nodes();
	the_first_of_equal_ones();
	cards_decide();
	host_rows_count_where_they_are();
	only_what_gpumapd_may_use();
	EQ(gm_fd_limits_count(), held);
	gm_config_free(&config);
	tree_end();
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* nodefile: what is read, what is refused and on which line, and the nodes
 * that other tests plan on. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/nodefile.h"
#include "tests/support/tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define GIB      (UINT64_C(1) << 30)

static int parse(const char *text, struct gm_nodefile *node,
		 struct gm_plan_error *err)
{
	return gm_nodefile_parse(text, strlen(text), node, err);
}

static void all_keys_are_read(void)
{
	static const char text[] = "# a comment\n"
				   "name: 'rack 7'\n"
				   "rows:\n"
				   "  - name: GPU\n"
				   "    kind: cuda\n"
				   "    count: 2\n"
				   "    memory: 80G\n"
				   "    free: 1025M\n"
				   "    compute-capability: 12.1\n"
				   "    sm-count: 132\n"
				   "    threads-per-sm: 2048\n"
				   "    numa-node: 1\n"
				   "    integrated: yes\n"
				   "  - { kind: host, cpus: 7, memory: 4096,\n"
				   "      name: \"CPU\" }\n"
				   "  - { name: X, kind: dummy, memory: 2T,\n"
				   "      free: 0, integrated: no }\n";
	struct gm_nodefile node = { .n_rows = 0 };

	if (!EQ(parse(text, &node, NULL), 0) || !EQ(node.n_rows, 4))
		return;
	STR(node.name, "rack 7");
	for (int i = 0; i < 2; i++) {
		STR(node.rows[i].name, "GPU");
		EQ(node.rows[i].kind, GPUMAP_DEVICE_CUDA);
		EQ(node.rows[i].total_bytes, 80 * GIB);
		EQ(node.rows[i].free_bytes, UINT64_C(1025) << 20);
		OK(node.rows[i].has_cc);
		EQ(node.rows[i].cc_major, 12);
		EQ(node.rows[i].cc_minor, 1);
		EQ(node.rows[i].units, 132);
		EQ(node.rows[i].threads_per_unit, 2048);
		EQ(node.rows[i].numa_node, 1);
		OK(node.rows[i].is_integrated);
	}
	STR(node.rows[2].name, "CPU");
	EQ(node.rows[2].kind, GPUMAP_DEVICE_HOST);
	EQ(node.rows[2].units, 7);
	EQ(node.rows[2].total_bytes, 4096);
	EQ(node.rows[2].free_bytes, 4096);
	EQ(node.rows[2].numa_node, -1);
	OK(!node.rows[2].has_cc);
	EQ(node.rows[3].kind, GPUMAP_DEVICE_DUMMY);
	EQ(node.rows[3].total_bytes, 2048 * GIB);
	EQ(node.rows[3].free_bytes, 0);
	OK(!node.rows[3].is_integrated);
	gm_nodefile_free(&node);
}

/* A card, two instances of it, and a card that is whole. */
static void instances_belong_to_the_card_above(void)
{
#define CARD "kind: cuda, memory: 40G, compute-capability: 8.0"
	static const char text[] =
		"rows:\n"
		"- { name: a, " CARD " }\n"
		"- { name: b, " CARD ", mig: 3g.20gb, free: 0 }\n"
		"- { name: b, " CARD ", mig: 1g.5gb+me }\n"
		"- { name: c, " CARD " }\n";
#undef CARD
	struct gm_nodefile node = { .n_rows = 0 };

	if (!EQ(parse(text, &node, NULL), 0) || !EQ(node.n_rows, 4))
		return;
	OK(node.rows[0].is_split);
	STR(node.rows[0].mig, "");
	STR(node.rows[1].mig, "3g.20gb");
	STR(node.rows[2].mig, "1g.5gb+me");
	EQ(node.rows[1].parent, 0);
	EQ(node.rows[2].parent, 0);
	OK(!node.rows[1].is_split && !node.rows[3].is_split);
	gm_nodefile_free(&node);
}

static void a_node_needs_no_name(void)
{
	struct gm_nodefile node = { .n_rows = 0 };

	EQ(parse("rows: [{name: a, kind: dummy, memory: 1}]", &node, NULL), 0);
	STR(node.name, "");
	EQ(node.n_rows, 1);
	gm_nodefile_free(&node);
}

/* A row that is right but for what replaces @field. */
#define ROW(fields) "rows:\n- name: a\n" fields "\n"

static const struct {
	const char *text, *error;
} wrong[] = {
	{ "", "1: a node is a mapping with name and rows" },
	{ "- a", "1: a node is a mapping with name and rows" },
	{ "a", "1: a node is a mapping with name and rows" },
	{ "name: x", "1: a node without rows" },
	{ "rows: []", "1: a node without rows" },
	{ "rows:", "1: rows is not a list of rows" },
	{ "rows: {}", "1: rows is not a list of rows" },
	{ "rows: [a]", "1: a row that is not a mapping" },
	{ "rows: [[{}]]", "1: a row that is not a mapping" },
	{ "rowz: []", "1: a node has no key rowz: it has name and rows" },
	{ "name: a\nname: b", "2: name is there twice" },
	{ "name: []", "1: name is not a word" },
	{ "name: ''", "1: name: : it is 1 to 63 printable bytes" },
	{ "name: \"a\\nb\"", "1: name: a?b: it is 1 to 63" },
	{ "name: \"a\\0b\"", "1: a NUL byte" },
	{ "? [a]\n: b", "1: a key that is not a word" },
	{ "name: &x a\nrows: *x", "2: aliases are not allowed" },
	{ ROW("  kind: dummy\n  memory: 1") "---\nrows: []",
	  "5: more than one document" },
	{ ROW("  kind: dummy\n  memory: 1\n  memory: 1"),
	  "5: memory twice in one row" },
	{ ROW("  kind: dummy\n  memoy: 80G"),
	  "4: a row has no key memoy: it has name, kind, count, "
	  "memory, free, numa-node, compute-capability, sm-count, "
	  "threads-per-sm, integrated, cpus, mig" },
	{ ROW("  kind: gpu"), "3: kind: gpu: it is cuda, host or" },
	{ ROW("  kind: cuda\n  memory: 1G"),
	  "2: a cuda row without compute-capability: it is "
	  "MAJOR.MINOR, as 9.0" },
	{ ROW("  kind: host"),
	  "2: a host row without memory: it is a size above 0" },
	{ ROW("  memory: 1"),
	  "2: a row without kind: it is cuda, host or dummy" },
	{ "rows:\n- kind: host\n  memory: 1",
	  "2: a host row without name: it is 1 to 63 printable" },
	{ ROW("  sm-count: 7\n  memory: 1\n  kind: host"),
	  "3: a host row has no sm-count: it has name, kind, count, "
	  "memory, free, numa-node, cpus" },
	{ ROW("  kind: dummy\n  memory: 1\n  compute-capability: 9.0"),
	  "5: a dummy row has no compute-capability: it has" },
	{ ROW("  kind: dummy\n  memory: 1\n  cpus: 9"),
	  "5: a dummy row has no cpus: it has" },
	{ ROW("  kind: dummy\n  free: 2\n  memory: 1"),
	  "4: more is free than there is memory" },
	{ ROW("  memory: 0"), "3: memory: 0: it is a size above 0" },
	{ ROW("  memory: 80GB"), "3: memory: 80GB: it is a size" },
	{ ROW("  memory: 80x"), "3: memory: 80x: it is a size" },
	{ ROW("  memory: 79.6G"), "3: memory: 79.6G: it is a size" },
	{ ROW("  memory: -1"), "3: memory: -1: it is a size" },
	{ ROW("  memory: +1"), "3: memory: +1: it is a size" },
	{ ROW("  memory: G"), "3: memory: G: it is a size" },
	{ ROW("  memory:"), "3: memory: : it is a size" },
	{ ROW("  memory: 16777216T"), "3: memory: 16777216T: it is" },
	{ ROW("  memory: 18446744073709551616"),
	  "3: memory: 18446744073709551616: it is a size" },
	{ ROW("  memory: [1]"), "3: a value that is not a word" },
	{ ROW("  free: x"), "3: free: x: it is a size, as 81559M" },
	{ ROW("  count: 0"), "3: count: 0: it is a number from 1 to" },
	{ ROW("  count: 257"), "3: count: 257: it is a number from" },
	{ ROW("  count: +2"), "3: count: +2: it is a number from" },
	{ ROW("  numa-node: -1"), "3: numa-node: -1: it is a number" },
	{ ROW("  numa-node: 1024"), "3: numa-node: 1024: it is a" },
	{ ROW("  sm-count: 0"), "3: sm-count: 0: it is a number" },
	{ ROW("  threads-per-sm: 65536"), "3: threads-per-sm: 65536" },
	{ ROW("  cpus: many"), "3: cpus: many: it is a number" },
	{ ROW("  mig: 3g"), "3: mig: 3g: it is a GPU instance's" },
	{ ROW("  mig: 1c.3g.40gb"), "3: mig: 1c.3g.40gb: it is a GPU" },
	{ ROW("  mig: 3g.gb"), "3: mig: 3g.gb: it is a GPU" },
	{ ROW("  mig: 3g.40gb me"), "3: mig: 3g.40gb me: it is a GPU" },
	{ ROW("  kind: dummy\n  memory: 1\n  mig: 1g.5gb"),
	  "5: a dummy row has no mig: it has" },
	{ ROW("  kind: cuda\n  memory: 1\n  compute-capability: 8.0\n"
	      "  mig: 1g.5gb"),
	  "6: a MIG instance that no GPU is above" },
	{ ROW("  kind: cuda\n  memory: 1\n  compute-capability: 8.0\n"
	      "- name: b\n  kind: cuda\n  compute-capability: 8.0\n"
	      "  mig: 1g.5gb\n  memory: 2"),
	  "10: an instance has more memory than its GPU" },
	{ ROW("  integrated: true"), "3: integrated: true: it is yes" },
	{ ROW("  compute-capability: 9"),
	  "3: compute-capability: 9: it is MAJOR.MINOR, as 9.0" },
	{ ROW("  compute-capability: 9."), "3: compute-capability: 9.: it is" },
	{ ROW("  compute-capability: .9"), "3: compute-capability: .9: it is" },
	{ ROW("  compute-capability: 9.0a"),
	  "3: compute-capability: 9.0a: it is" },
	{ ROW("  compute-capability: 900.0"),
	  "3: compute-capability: 900.0: it is" },
	{ "rows: [", "2: did not find expected node content" },
	{ "\xff: {}", "1: invalid leading UTF-8 octet" },
};

static void what_is_wrong_is_named_with_its_line(void)
{

	for (size_t i = 0; i < COUNT(wrong); i++) {
		struct gm_plan_error err = { .code = 0 };
		struct gm_nodefile node = { .n_rows = 77 };
		char want[512];

		snprintf(want, sizeof(want), "Node file, line %s",
			 wrong[i].error);
		EQ(parse(wrong[i].text, &node, &err), -EINVAL);
		EQ(err.code, -EINVAL);
		err.text[strlen(want)] = '\0';
		STR(err.text, want);
		OK(err.remedy[0] != '\0');
		EQ(node.n_rows, 77);
	}
}

static void sizes_are_limited(void)
{
	static const char full[] =
		"rows:\n"
		"- { name: a, kind: dummy, memory: 1, count: 200 }\n"
		"- { name: a, kind: dummy, memory: 1, count: %d }\n";
	char *text = malloc(GM_NODEFILE_BYTES + 1);
	struct gm_plan_error err = { .code = 0 };
	struct gm_nodefile node = { .n_rows = 0 };

	if (!OK(text != NULL))
		return;
	snprintf(text, GM_NODEFILE_BYTES, full, 56);
	EQ(parse(text, &node, NULL), 0);
	EQ(node.n_rows, 256);
	gm_nodefile_free(&node);
	snprintf(text, GM_NODEFILE_BYTES, full, 57);
	EQ(parse(text, &node, &err), -E2BIG);
	STR(err.text, "Node file, line 3: more than 256 rows in all");
	memset(text, '#', GM_NODEFILE_BYTES + 1);
	EQ(gm_nodefile_parse(text, GM_NODEFILE_BYTES + 1, &node, &err), -E2BIG);
	free(text);
}

static void deep_nesting_is_no_matter(void)
{
	const size_t n = GM_NODEFILE_BYTES / 2;
	char *text = malloc(n + 1);
	struct gm_plan_error err = { .code = 0 };
	struct gm_nodefile node;

	if (!OK(text != NULL))
		return;
	memset(text, '[', n);
	memcpy(text, "rows: ", 6);
	text[n] = '\0';
	EQ(parse(text, &node, &err), -EINVAL);
	STR(err.text, "Node file, line 1: a row that is not a mapping");
	free(text);
}

/* ---- files ------------------------------------------------------------- */

static void errors_of_files_name_them(void)
{
	char path[] = "/tmp/gpumap-test-node.XXXXXX", want[128];
	struct gm_plan_error err = { .code = 0 };
	struct gm_nodefile node = { .n_rows = 77 };
	int fd = mkstemp(path);

	if (!OK(fd >= 0))
		return;
	EQ(write(fd, "name: a\nrow: b\n", 15), 15);
	EQ(gm_nodefile_read(path, &node, &err), -EINVAL);
	snprintf(want, sizeof(want),
		 "%s:2: a node has no key row: it has name and rows", path);
	STR(err.text, want);
	EQ(ftruncate(fd, GM_NODEFILE_BYTES + 1), 0);
	EQ(gm_nodefile_read(path, &node, &err), -EFBIG);
	OK(strstr(err.text, path) != NULL);
	close(fd);
	unlink(path);
	EQ(gm_nodefile_read(path, &node, &err), -ENOENT);
	snprintf(want, sizeof(want), "%s: No such file or directory", path);
	STR(err.text, want);
	OK(strstr(err.remedy, "gpumap-node(5)") != NULL);
	EQ(mkfifo(path, 0600), 0);
	EQ(gm_nodefile_read(path, &node, &err), -EINVAL);
	unlink(path);
	EQ(node.n_rows, 77);
}

struct expected {
	const char *file;
	uint32_t n_rows, n_cuda, n_host;
	uint64_t first_bytes;
	uint32_t first_cc; /* 10 * major + minor */
};

static void node_is_as_expected(const char *dir, const struct expected *want)
{
	struct gm_plan_error err = { .code = 0 };
	struct gm_nodefile node = { .n_rows = 0 };
	uint32_t n_cuda = 0, n_host = 0;
	char path[1024];
	bool is_whole = true;

	snprintf(path, sizeof(path), "%s/tests/nodes/%s", dir, want->file);
	if (!EQ(gm_nodefile_read(path, &node, &err), 0)) {
		NOTE("%s", err.text);
		return;
	}
	for (uint32_t i = 0; i < node.n_rows; i++) {
		const struct gm_nodefile_row *row = &node.rows[i];

		n_cuda += row->kind == GPUMAP_DEVICE_CUDA;
		n_host += row->kind == GPUMAP_DEVICE_HOST;
		is_whole = is_whole && row->units > 0 && row->free_bytes > 0;
	}
	NOTE("%s", node.name);
	EQ(node.n_rows, want->n_rows);
	EQ(n_cuda, want->n_cuda);
	EQ(n_host, want->n_host);
	EQ(node.rows[0].total_bytes, want->first_bytes);
	EQ(10 * node.rows[0].cc_major + node.rows[0].cc_minor, want->first_cc);
	OK(is_whole);
	gm_nodefile_free(&node);
}

static void the_nodes_of_the_tests_are_read(void)
{
	static const struct expected nodes[] = {
		{ "eight-gpu.yaml", 10, 8, 2, UINT64_C(81559) << 20, 90 },
		{ "mixed.yaml", 5, 4, 1, UINT64_C(24564) << 20, 89 },
		{ "laptop.yaml", 2, 1, 1, UINT64_C(8188) << 20, 89 },
		{ "cpu-only.yaml", 2, 0, 2, 377 * GIB, 0 },
		{ "unified.yaml", 2, 1, 1, UINT64_C(62841) << 20, 87 },
		{ "split.yaml", 11, 9, 2, UINT64_C(81559) << 20, 90 },
	};
	const char *top = getenv("abs_top_srcdir");

	for (size_t i = 0; i < COUNT(nodes); i++)
		node_is_as_expected(top ? top : ".", &nodes[i]);
}

TAP_CASE()
{
	all_keys_are_read();
	instances_belong_to_the_card_above();
	a_node_needs_no_name();
	what_is_wrong_is_named_with_its_line();
	sizes_are_limited();
	deep_nesting_is_no_matter();
	errors_of_files_name_them();
	the_nodes_of_the_tests_are_read();
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumapctl topo: of an agent with maps and a mesh, and of node files;
 * that each row is drawn once, inside its NUMA node, and that no text of the
 * picture lies on another or outside its card.
 */

#include <math.h>

#include "tests/support/ctl.h"
#include "tests/support/story.h"

#define NODES 5

static const char *const node_files[NODES] = {
	"cpu-only", "eight-gpu", "mixed", "split", "unified",
};

static const char *node_path(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/tests/nodes/%s.yaml",
		 getenv("abs_top_srcdir"), name);
	return path;
}

/* ---- the picture --------------------------------------------------------- */

struct box {
	double left, right, top, bottom;
};

static struct box texts[8192], cards[1024];
static size_t n_texts, n_cards;

/* Characters of a text up to its end tag; an entity is one. */
static size_t count_chars(const char *text)
{
	size_t n = 0;

	for (; strncmp(text, "</text>", 7) != 0; n++) {
		if (*text == '\0')
			return 0;
		text += *text == '&' ? strcspn(text, ";") + 1 : 1;
	}
	return n;
}

/* Each text and each rectangle is on a line of its own. */
static void read_boxes(void)
{
	char *save, *line = strtok_r(out, "\n", &save);
	double x, y, width, height;

	n_texts = n_cards = 0;
	for (; line != NULL; line = strtok_r(NULL, "\n", &save)) {
		const char *text = strchr(line, '>');

		if (sscanf(line, "<text x=\"%lf\" y=\"%lf\"", &x, &y) == 2 &&
		    n_texts < 8192)
			/* Monospace, 12 pixels: 7.2 wide, 9 above the line, 3
			 * below. */
			texts[n_texts++] = (struct box){
				x, x + 7.2 * (double)count_chars(text + 1),
				y - 9, y + 3
			};
		else if (sscanf(line,
				"<rect class=\"c%*[ x]\" x=\"%lf\" y=\"%lf\" "
				"width=\"%lf\" height=\"%lf\"",
				&x, &y, &width, &height) == 4 ||
			 sscanf(line,
				"<rect class=\"c\" x=\"%lf\" y=\"%lf\" "
				"width=\"%lf\" height=\"%lf\"",
				&x, &y, &width, &height) == 4)
			cards[n_cards++] =
				(struct box){ x, x + width, y, y + height };
	}
}

static bool overlap(const struct box *a, const struct box *b)
{
	return a->left < b->right && b->left < a->right && a->top < b->bottom &&
	       b->top < a->bottom;
}

/* Texts that begin in a card and end outside it. */
static bool sticks_out(const struct box *text, const struct box *card)
{
	return text->left >= card->left && text->left < card->right &&
	       text->bottom > card->top && text->top < card->bottom &&
	       (text->right > card->right || text->bottom > card->bottom);
}

static size_t count_faults(void)
{
	size_t n = 0;

	for (size_t i = 0; i < n_texts; i++) {
		for (size_t k = i + 1; k < n_texts; k++)
			n += overlap(&texts[i], &texts[k]);
		for (size_t k = 0; k < n_cards; k++)
			n += sticks_out(&texts[i], &cards[k]);
	}
	for (size_t i = 0; i < n_cards; i++)
		for (size_t k = i + 1; k < n_cards; k++)
			n += overlap(&cards[i], &cards[k]);
	return n;
}

static unsigned int count(const char *text)
{
	unsigned int n = 0;

	for (const char *at = out; (at = strstr(at, text)) != NULL; at++)
		n++;
	return n;
}

/* The picture that the last call printed; a table of boxes is left. */
static void picture_is_right(size_t n_rows)
{
	char path[96], command[400], id[32];

	snprintf(path, sizeof(path), "%s/out", agent.dir);
	snprintf(command, sizeof(command),
		 "/usr/bin/python3 -c 'import xml.dom.minidom as m; "
		 "m.parse(\"%s\")'",
		 path);
	if (access("/usr/bin/python3", X_OK) != 0)
		LACK("python", 1, "no python3");
	else
		EQ(system(command), 0);
	for (uint32_t row = 0; row < n_rows; row++) {
		snprintf(id, sizeof(id), "<g id=\"row%u\">", row);
		if (!EQ(count(id), 1))
			NOTE("row %u", row);
	}
	OK(prints("role=\"img\"") && prints("<title id=\"topo-title\">") &&
	   prints("prefers-color-scheme:dark"));
	read_boxes();
	EQ(n_cards, n_rows);
	OK(n_texts > 4 * n_rows);
	EQ(count_faults(), 0);
}

/* ---- node files ---------------------------------------------------------- */

static void node_files_are_drawn(void)
{
	for (size_t i = 0; i < NODES; i++) {
		json_t *json, *rows;
		size_t n;

		NOTE("%s", node_files[i]);
		EQ(run(WORDS(ctl_program(), "topo", "--node",
			     node_path(node_files[i]), "--json")),
		   DONE);
		json = object();
		OK(has_fields(json, "name numa_nodes rows links"));
		rows = json_object_get(json, "rows");
		n = json_array_size(rows);
		OK(n > 0);
		OK(has_fields(json_array_get(rows, 0),
			      "row kind name state numa_node pci total_bytes "
			      "used_bytes promised_bytes free_bytes maps "
			      "ranks"));
		json_decref(json);
		EQ(run(WORDS(ctl_program(), "topo", "--node",
			     node_path(node_files[i]), "--format", "svg")),
		   DONE);
		picture_is_right(n);
		EQ(run(WORDS(ctl_program(), "topo", "--node",
			     node_path(node_files[i]))),
		   DONE);
		EQ(count("\n  row "), n);
	}
	EQ(run(WORDS(ctl_program(), "topo", "--node", "/no/such/file")),
	   FAILED);
	EQ(run(WORDS(ctl_program(), "topo", "--format", "png")), USAGE);
	OK(complains(
		"--format: \"png\" is none of text, svg, dot, html, json"));
}

static void a_text_is_as_expected(void)
{
	EQ(run(WORDS(ctl_program(), "topo", "--node", node_path("eight-gpu"))),
	   DONE);
	OK(prints(
		"dgx-h100: 10 rows\n\nNUMA node 0\n  row 0  cuda  NVIDIA "
		"H100 80GB HBM3\n    "
		"[........................................] 551 MiB used, 0 B "
		"promised, 79.1 GiB free of 79.6 GiB\n  row 1  "));
	OK(prints("\n\nNUMA node 1\n  row 4  cuda  "));
}

/* Two rows of one machine differ at the end of their names alone. */
static void a_long_name_keeps_its_end(void)
{
	static const char text[] =
		"name: one\nrows:\n"
		"  - name: host Intel Xeon Platinum 8480C at 2.00GHz "
		"node0/1of2\n"
		"    kind: host\n    cpus: 1\n    memory: 16G\n";
	char path[96];
	FILE *file;

	snprintf(path, sizeof(path), "%s/one.yaml", agent.dir);
	file = fopen(path, "we");
	if (!OK(file != NULL) || !OK(fputs(text, file) >= 0) ||
	    !OK(fclose(file) == 0))
		return;
	EQ(run(WORDS(ctl_program(), "topo", "--node", path, "--format", "svg")),
	   DONE);
	OK(prints(">host Intel Xeon Platinum ... node0/1of2<"));
	OK(prints(">1 CPU<"));
	picture_is_right(1);
}

/* ---- an agent ------------------------------------------------------------ */

static void maps_are_drawn(void)
{
	const json_t *row, *map;
	json_t *json;

	EQ(CTL("topo", "--json"), DONE);
	json = object();
	STR(text(json, "name"), agent.instance);
	row = json_array_get(json_object_get(json, "rows"), 2);
	EQ(number(row, "row"), 2);
	map = json_array_get(list(row, "maps", 2), 0);
	OK(has_fields(map, "map layers n_layers bytes committed"));
	STR(text(map, "map"), "model");
	STR(text(map, "layers"), "3-6");
	EQ(number(map, "n_layers"), 4);
	map = json_array_get(list(row, "ranks", 1), 0);
	STR(text(map, "mesh"), "pair");
	EQ(number(map, "rank"), 0);
	STR(text(map, "groups"), "tp_0 mine");
	json_decref(json);
	EQ(CTL("topo"), DONE);
	OK(prints("    model: layers 3-6\n"));
	OK(prints("    pair: rank 0 in tp_0 mine\n"));
	EQ(CTL("topo", "--format", "dot"), DONE);
	OK(prints("\\nmodel: layers 3-6\\n"));
	EQ(CTL("topo", "--format", "html"), DONE);
	OK(prints("<!doctype html>") && prints("model: layers 3-6") &&
	   prints("fetch('topo.json'") && prints("</html>\n"));
	EQ(CTL("topo", "--format", "svg"), DONE);
	OK(prints(">model: layers 3-6<"));
	OK(prints(">single: layer 0<"));
	/* A long name leaves the layers their place. */
	OK(prints("a-name-that-does-not-...: layers 0-63<"));
	picture_is_right(11);
}

/* A promise of row 4, a dummy, leaves what the node file calls used. */
static void promises_are_drawn(void)
{
	struct gpumap *map = story_attach(&agent);
	struct gpumap_plan plan = { .size = sizeof(plan) };
	struct gpumap_plan_request request = {
		.size = sizeof(request),
		.name = "kept",
		.flags = GPUMAP_PLAN_COMMIT,
		.setting = GPUMAP_SETTING_RESERVE,
		.rows = &(uint32_t){ 4 },
		.n_rows = 1,
		.n_layers = 1,
		.layer_bytes = &(uint64_t){ 4096 * MIB },
	};
	const json_t *row;
	json_t *json;

	EQ(gpumap_plan_make(map, &request, &plan, NULL, 0, NULL, 0), 0);
	gpumap_detach(map);
	EQ(CTL("topo", "--json"), DONE);
	json = object();
	row = json_array_get(json_object_get(json, "rows"), 4);
	EQ(number(row, "promised_bytes"), 4096 * MIB);
	EQ(number(row, "used_bytes"), (81559 - 81008) * MIB);
	EQ(number(row, "free_bytes"), (81008 - 4096) * MIB);
	json_decref(json);
}

#define CONFIG                                                             \
	"[host]\nrows = 1\n[map model]\nspec = 1:3;2:4;3:3\n"              \
	"[map a-name-that-does-not-fit-into-a-card-of-the-picture-at-all]" \
	"\nspec = 2:64\n[map single]\nspec = 6:1\n"

static void agents_are_drawn(void)
{
	char text[16384] = "";
	FILE *file = fopen(node_path("eight-gpu"), "re");

	if (OK(file != NULL)) {
		OK(fread(text, 1, sizeof(text) - 1, file) > 0);
		fclose(file);
	}
	agent_make(&agent, NULL);
	agent_configure_dummies(&agent, text, CONFIG);
	if (!OK(agent_start(&agent)))
		return;
	EQ(CTL("mesh", "publish", "pair", "--topology", "tensor=2", "--rows",
	       "2,3", "--group", "mine=0"),
	   DONE);
	maps_are_drawn();
	promises_are_drawn();
	EQ(agent_kill(&agent, SIGTERM), 0);
	/* A map without an agent can still be drawn. */
	EQ(CTL("topo"), DONE);
	OK(prints("    model: layers 3-6\n"));
	EQ(ctl_of("no-such", WORDS("topo")), NO_AGENT);
}

TAP_CASE()
{
	if (!ctl_has_tool("topo")) {
		LACK("python", 1, "built without Python");
		return tap_done();
	}
	agent_make(&agent, NULL);
	node_files_are_drawn();
	a_text_is_as_expected();
	a_long_name_keeps_its_end();
	agent_remove(&agent);
	agents_are_drawn();
	agent_remove(&agent);
	return tap_done();
}

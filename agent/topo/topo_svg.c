/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <string.h>

#include "agent/plan/size_text.h"
#include "agent/reader/device_text.h"
#include "agent/topo/topo.h"

/* In pixels.  Text is monospace, a character is 0.6 of its size wide. */
#define GAP     12
#define CARD    308 /* width */
#define COLUMNS 3
#define WIDTH   (2 * GAP + GAP + COLUMNS * (CARD + GAP))
#define LINE    17
#define SIZE    12
#define CHARS   39 /* of a line in a card */
#define BAR     GM_TOPO_BAR
#define HEAD    40 /* height of the title and the legend */
#define COLORS  8

_Static_assert(BAR == CARD - 2 * GAP, "the bar fills its card");

static const char style[] =
	"text{font:12px monospace;fill:#1b1b1b}"
	".b{font-weight:bold}"
	".n{fill:#f4f4f2;stroke:#8a8a86}"
	".c{fill:#ffffff;stroke:#b9b9b4}"
	".x{stroke:#b00020;stroke-width:2}"
	".f{fill:#dfe5e8}.u{fill:#5b6770}.p{fill:#e69f00}"
	".m0{fill:#0072b2}.m1{fill:#009e73}.m2{fill:#cc79a7}"
	".m3{fill:#d55e00}.m4{fill:#56b4e9}.m5{fill:#b8a900}"
	".m6{fill:#7a5195}.m7{fill:#6b6b6b}"
	"@media(prefers-color-scheme:dark){text{fill:#e8e8e4}"
	".bg{fill:#161616}.n{fill:#1f1f1f;stroke:#6f6f6b}"
	".c{fill:#292929;stroke:#55554f}.f{fill:#3a4146}.u{fill:#a9b4bb}}";

/* ---- text ---------------------------------------------------------------- */

static void put_escaped(FILE *to, const char *text)
{
	for (; *text != '\0'; text++) {
		switch (*text) {
		case '<':
			fputs("&lt;", to);
			break;
		case '>':
			fputs("&gt;", to);
			break;
		case '&':
			fputs("&amp;", to);
			break;
		case '"':
			fputs("&quot;", to);
			break;
		default:
			putc(*text >= ' ' && *text <= '~' ? *text : '?', to);
		}
	}
}

/* A line of at most @chars characters; a longer one ends with "...".  @id may
 * be "". */
static void put_line(FILE *to, int x, int y, const char *attributes,
		     const char *text)
{
	char cut[512];
	size_t most = CHARS;

	snprintf(cut, sizeof(cut), "%s", text);
	if (strstr(attributes, "data-wide") != NULL)
		most = (WIDTH - 2 * GAP) * 10 / (6 * SIZE) - 4;
	else if (strstr(attributes, "data-part") != NULL)
		most = CHARS - 2;
	if (strlen(cut) > most)
		strcpy(cut + most - 3, "...");
	fprintf(to, "<text x=\"%d\" y=\"%d\"%s>", x, y, attributes);
	put_escaped(to, cut);
	fputs("</text>\n", to);
}

/* ---- a row --------------------------------------------------------------- */

static int count_lines(const struct gm_topo_row *row)
{
	/* The row, its name, its place, the bar, and two of memory. */
	return 6 + (int)row->n_parts + (int)row->n_ranks +
	       (row->links[0] != '\0');
}

static int card_height(int lines)
{
	return lines * LINE + GAP;
}

static void put_bar(FILE *to, const struct gpumap_device *d, int x, int y)
{
	struct gm_topo_memory m = gm_topo_memory(d);
	double total = d->total_bytes > 0 ? (double)d->total_bytes : 1;
	double used = (double)m.used / total * BAR;
	double promised = (double)m.promised / total * BAR;

	fprintf(to,
		"<rect class=\"f\" x=\"%d\" y=\"%d\" width=\"%d\" "
		"height=\"11\"/>\n"
		"<rect class=\"u\" id=\"r%uu\" x=\"%d\" y=\"%d\" "
		"width=\"%.1f\" height=\"11\"/>\n"
		"<rect class=\"p\" id=\"r%up\" x=\"%.1f\" y=\"%d\" "
		"width=\"%.1f\" height=\"11\"/>\n",
		x, y, BAR, d->row, x, y, used, d->row, x + used, y, promised);
}

static void put_memory(FILE *to, const struct gpumap_device *d, int x, int y)
{
	struct gm_topo_memory m = gm_topo_memory(d);
	char one[32], two[32], line[128], id[32];

	snprintf(line, sizeof(line), "%s used, %s promised",
		 gm_size_text(m.used, one), gm_size_text(m.promised, two));
	snprintf(id, sizeof(id), " id=\"r%ut\"", d->row);
	put_line(to, x, y, id, line);
	snprintf(line, sizeof(line), "%s free of %s", gm_size_text(m.left, one),
		 gm_size_text(d->total_bytes, two));
	snprintf(id, sizeof(id), " id=\"r%uf\"", d->row);
	put_line(to, x, y + LINE, id, line);
}

static void put_place(const struct gpumap_device *d, char ret_line[160])
{
	char pci[GM_DEVICE_PCI];

	if (d->kind == GPUMAP_DEVICE_CUDA && gm_device_pci(d, pci))
		snprintf(ret_line, 160, "PCI %s%s%s", pci,
			 d->mig_gi >= 0 ? ", MIG " : "",
			 d->mig_gi >= 0 ? d->mig_profile : "");
	else if ((d->flags & GPUMAP_DEVICE_MIG) != 0)
		snprintf(ret_line, 160, "split into instances");
	else if (d->units > 0)
		snprintf(ret_line, 160, "%u %s%s", d->units,
			 (d->flags & GPUMAP_DEVICE_MAIN_MEMORY) != 0
				 ? "CPU"
				 : "multiprocessor",
			 d->units == 1 ? "" : "s");
	else
		ret_line[0] = '\0';
}

/* The first @n bytes of @head, cut where @rest would have no room behind them
 * in a line of @most. */
static void join(char ret_line[256], int most, const char *head, int n,
		 const char *rest)
{
	int room = most - (int)strlen(rest);

	room = room > 8 ? room : 8;
	if (n > room)
		snprintf(ret_line, 256, "%.*s...%s", room - 3, head, rest);
	else
		snprintf(ret_line, 256, "%.*s%s", n, head, rest);
}

/* The last word tells host rows apart. */
static void put_name(const char *name, char ret_line[256])
{
	const char *last = strrchr(name, ' ');

	if (last == NULL)
		last = name + strlen(name);
	join(ret_line, CHARS, name, (int)(last - name), last);
}

static void put_part(const struct gm_topo_part *p, char ret_line[256])
{
	char layers[128], bytes[32];

	snprintf(layers, sizeof(layers), ": %s%s%s%s", gm_topo_part_word(p),
		 p->layers, p->bytes > 0 ? ", " : "",
		 p->bytes > 0 ? gm_size_text(p->bytes, bytes) : "");
	join(ret_line, CHARS - 2, p->map, (int)strlen(p->map), layers);
}

static void put_parts(FILE *to, const struct gm_topo_row *row, int x, int y)
{
	char line[256];

	for (uint32_t i = 0; i < row->n_parts; i++, y += LINE) {
		const struct gm_topo_part *p = &row->parts[i];

		put_part(p, line);
		fprintf(to,
			"<rect class=\"m%u\" x=\"%d\" y=\"%d\" width=\"10\" "
			"height=\"10\"/>\n",
			p->color % COLORS, x, y - 9);
		put_line(to, x + 15, y, " data-part=\"\"", line);
	}
	for (uint32_t i = 0; i < row->n_ranks; i++, y += LINE) {
		const struct gm_topo_rank *rank = &row->ranks[i];

		snprintf(line, sizeof(line), "%s: rank %u%s%s", rank->mesh,
			 rank->rank, rank->groups[0] != '\0' ? " in " : "",
			 rank->groups);
		put_line(to, x, y, "", line);
	}
	if (row->links[0] != '\0') {
		snprintf(line, sizeof(line), "links: %s", row->links);
		put_line(to, x, y, "", line);
	}
}

static void put_row(FILE *to, const struct gm_topo_row *row, int x, int y,
		    int lines)
{
	const struct gpumap_device *d = &row->device;
	bool is_ready = d->state == GPUMAP_DEVICE_READY;
	char line[320];

	fprintf(to, "<g id=\"row%u\"><title>", d->row);
	snprintf(line, sizeof(line), "row %u: %s%s%s", d->row, d->name,
		 d->reason[0] != '\0' ? ", " : "", d->reason);
	put_escaped(to, line);
	fprintf(to,
		"</title>\n<rect class=\"c%s\" x=\"%d\" y=\"%d\" "
		"width=\"%d\" height=\"%d\" rx=\"4\"/>\n",
		is_ready ? "" : " x", x, y, CARD, card_height(lines));
	x += GAP;
	y += LINE;
	snprintf(line, sizeof(line), "row %u, %s%s%s", d->row,
		 gm_device_kind(d->kind), is_ready ? "" : ", ",
		 is_ready ? "" : gm_device_state(d->state));
	put_line(to, x, y, " class=\"b\"", line);
	put_name(d->name, line);
	put_line(to, x, y += LINE, "", line);
	put_place(d, line);
	if (line[0] != '\0')
		put_line(to, x, y + LINE, "", line);
	y += 2 * LINE;
	put_bar(to, d, x, y - 10);
	put_memory(to, d, x, y += LINE);
	put_parts(to, row, x, y + 2 * LINE);
	fputs("</g>\n", to);
}

/* ---- a NUMA node --------------------------------------------------------- */

/* List its rows.  Returns how many they are. */
static uint32_t list_rows(const struct gm_topo *t, int32_t node,
			  uint32_t ret_rows[GPUMAP_ROWS_MAX])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->n_rows; i++)
		if (t->rows[i].device.numa_node == node)
			ret_rows[n++] = i;
	return n;
}

/* The lines of the longest card in the line of cards that begins with @at. */
static int longest(const struct gm_topo *t, const uint32_t *rows, uint32_t at,
		   uint32_t n)
{
	int most = 0;

	for (uint32_t i = at; i < n && i < at + COLUMNS; i++) {
		int lines = count_lines(&t->rows[rows[i]]);

		most = lines > most ? lines : most;
	}
	return most;
}

/* Draw it at @y, or only measure it, if @to is NULL.  Returns its height. */
static int put_node(FILE *to, const struct gm_topo *t, uint32_t n, int y)
{
	const struct gm_topo_node *node = &t->nodes[n];
	uint32_t rows[GPUMAP_ROWS_MAX], n_rows = list_rows(t, node->id, rows);
	int height = LINE + GAP;
	char line[320];

	if (to != NULL) {
		fprintf(to,
			"<rect class=\"n\" x=\"%d\" y=\"%d\" width=\"%d\" "
			"height=\"%d\" rx=\"6\"/>\n",
			GAP, y, WIDTH - 2 * GAP, put_node(NULL, t, n, 0));
		if (node->id < 0)
			snprintf(line, sizeof(line), "no NUMA node");
		else
			snprintf(line, sizeof(line), "NUMA node %d%s%s",
				 node->id,
				 node->cpus[0] != '\0' ? ", CPUs " : "",
				 node->cpus);
		put_line(to, 2 * GAP, y + LINE, " class=\"b\" data-wide=\"\"",
			 line);
	}
	for (uint32_t i = 0; i < n_rows; i += COLUMNS) {
		int lines = longest(t, rows, i, n_rows);

		for (uint32_t k = i;
		     to != NULL && k < n_rows && k < i + COLUMNS; k++)
			put_row(to, &t->rows[rows[k]],
				2 * GAP + (int)(k - i) * (CARD + GAP),
				y + height, lines);
		height += card_height(lines) + GAP;
	}
	return height;
}

/* ---- all ----------------------------------------------------------------- */

static void put_legend(FILE *to)
{
	static const struct {
		const char *class, *text;
	} words[] = { { "u", "used" }, { "p", "promised" }, { "f", "free" } };
	int x = WIDTH - GAP - 230;

	for (size_t i = 0; i < 3; i++) {
		fprintf(to,
			"<rect class=\"%s\" x=\"%d\" y=\"16\" width=\"11\" "
			"height=\"11\"/>\n",
			words[i].class, x);
		put_line(to, x + 16, 26, "", words[i].text);
		x += 16 + (int)strlen(words[i].text) * SIZE * 6 / 10 + 16;
	}
}

void gm_topo_svg(FILE *to, const struct gm_topo *t)
{
	int height = HEAD, y = HEAD;
	char line[200];

	for (uint32_t n = 0; n < t->n_nodes; n++)
		height += put_node(NULL, t, n, 0) + GAP;
	fprintf(to,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" "
		"aria-labelledby=\"topo-title topo-desc\" width=\"%d\" "
		"height=\"%d\" viewBox=\"0 0 %d %d\">\n"
		"<title id=\"topo-title\">",
		WIDTH, height, WIDTH, height);
	snprintf(line, sizeof(line), "%s: %u row%s on %u NUMA node%s", t->name,
		 t->n_rows, t->n_rows == 1 ? "" : "s", t->n_nodes,
		 t->n_nodes == 1 ? "" : "s");
	put_escaped(to, line);
	fprintf(to,
		"</title>\n<desc id=\"topo-desc\">The rows of each NUMA node, "
		"with their memory and the layers of models that they hold"
		"</desc>\n<style>%s</style>\n"
		"<rect class=\"bg\" fill=\"#fff\" width=\"%d\" "
		"height=\"%d\"/>\n",
		style, WIDTH, height);
	snprintf(line, sizeof(line), "%s", t->name);
	put_line(to, GAP, 26, " class=\"b\"", line);
	put_legend(to);
	for (uint32_t n = 0; n < t->n_nodes; n++)
		y += put_node(to, t, n, y) + GAP;
	fputs("</svg>\n", to);
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * node - facts about a node for tests of gpumapctl top, and what is on its
 * screen.
 */
#ifndef GM_TEST_UNIT_TOP_NODE_H
#define GM_TEST_UNIT_TOP_NODE_H

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "agent/top/top.h"
#include "tests/support/tap.h"

#define GIB    (UINT64_C(1) << 30)
#define SECOND UINT64_C(1000000000)

static struct gm_top_row rows[GPUMAP_ROWS_MAX];
static struct gpumap_charge charges[2];
static struct gm_top_holder holders[2];
static struct gm_top_map maps[1];
static struct gm_top_usage usages[2];
static struct gm_top_session sessions[2];
static struct gm_top_share shares[1];
static struct gm_top_wait waits[2];
static struct gm_top_facts facts;
static struct gm_top_history history;
static struct gm_top_view view;
static char *screen; /* the page as text */
static size_t screen_bytes;

static inline struct gm_top_process node_process(uint32_t pid, const char *user,
						 const char *command)
{
	struct gm_top_process process = { .pid = pid, .uid = user[0] };

	snprintf(process.user, sizeof(process.user), "%s", user);
	snprintf(process.command, sizeof(process.command), "%s", command);
	return process;
}

/* Cards of 80 GiB on two NUMA nodes: of each row a quarter is used, half of
 * that by sessions, and a quarter is promised. */
static inline void node_rows(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		rows[i] = (struct gm_top_row){
			.device = { .row = i,
				    .kind = GPUMAP_DEVICE_CUDA,
				    .state = GPUMAP_DEVICE_READY,
				    .numa_node = i >= n / 2,
				    .known = GPUMAP_KNOWN_NUMA |
					     GPUMAP_KNOWN_UTILISATION |
					     GPUMAP_KNOWN_TEMPERATURE |
					     GPUMAP_KNOWN_POWER,
				    .total_bytes = 80 * GIB,
				    .utilisation = 500 + i,
				    .temperature = 60000,
				    .power = 300000 },
			.used = 20 * GIB,
			.ours = 10 * GIB,
			.promised = 20 * GIB,
			.left = 40 * GIB,
		};
		strcpy(rows[i].device.name, "H100");
	}
	facts.n_rows = n;
}

static inline void node_lists(void)
{
	charges[0] =
		(struct gpumap_charge){ .row = 1, .weight_bytes = 8 * GIB };
	charges[1] = (struct gpumap_charge){ .row = 2, .kv_bytes = 30 * GIB };
	holders[0] = (struct gm_top_holder){
		.holder = { .name = "small" },
		.process = node_process(100, "ada", "vllm"),
		.charges = &charges[0],
		.n = 1,
		.bytes = 8 * GIB,
	};
	holders[1] = (struct gm_top_holder){
		.holder = { .name = "large" },
		.process = node_process(200, "bob", "sglang"),
		.charges = &charges[1],
		.n = 1,
		.bytes = 30 * GIB,
	};
	sessions[0] = (struct gm_top_session){
		.info = { .id = 7,
			  .pid = 100,
			  .age_ns = 90 * SECOND,
			  .rows = { 3 } },
		.process = node_process(100, "ada", "vllm"),
	};
	sessions[1] = (struct gm_top_session){
		.info = { .id = 8,
			  .pid = 300,
			  .age_ns = 5 * SECOND,
			  .rows = { 1 } },
		.process = node_process(300, "ada", "python"),
	};
	usages[0] = (struct gm_top_usage){
		.info = { .session = 7,
			  .row = 1,
			  .bytes = 4 * GIB,
			  .lent_bytes = GIB },
	};
	usages[1] = (struct gm_top_usage){
		.info = { .session = 0, .row = 0, .bytes = 2 * GIB },
		.process = node_process(0, "bob", "-"),
	};
}

static inline void node_models(void)
{
	shares[0] = (struct gm_top_share){
		.info = { .name = "llama",
			  .n_holders = 3,
			  .bytes = 16 * GIB,
			  .flags = GPUMAP_SHARE_KEEP,
			  .rows = { 7 },
			  .age_ns = 7200 * SECOND },
		.process = node_process(100, "ada", "vllm"),
	};
	maps[0] = (struct gm_top_map){
		.layers = { .name = "plan", .n_layers = 80 },
		.process = node_process(0, "bob", "-"),
		.bytes = 40 * GIB,
		.rows = { 0x1e },
	};
}

static inline void node_waits(void)
{
	waits[0] = (struct gm_top_wait){
		.info = { .name = "first",
			  .bytes = 60 * GIB,
			  .rows = { 6 },
			  .age_ns = 3 * SECOND,
			  .missing_bytes = GIB,
			  .missing_row = 2 },
		.process = node_process(400, "eve", "trtllm"),
	};
	waits[1] = (struct gm_top_wait){
		.info = { .name = "second", .rows = { 4 }, .age_ns = SECOND },
		.process = node_process(500, "eve", "trtllm"),
	};
}

static inline void node_make(uint32_t n)
{
	facts = (struct gm_top_facts){
		.instance = "node",
		.health = { .state = GPUMAP_READY,
			    .epoch = 3,
			    .agent_version = 10203 },
		.time_s = 8 * 3600 + 12 * 60 + 3,
		.up_s = 3 * 3600,
		.rows = rows,
		.holders = holders,
		.n_holders = 2,
		.maps = maps,
		.n_maps = 1,
		.usages = usages,
		.n_usages = 2,
		.sessions = sessions,
		.n_sessions = 2,
		.shares = shares,
		.n_shares = 1,
		.waits = waits,
		.n_waits = 2,
	};
	node_rows(n);
	node_lists();
	node_models();
	node_waits();
	setenv("TZ", "UTC", 1);
	gm_top_view_free(&view);
	view = (struct gm_top_view){ .width = 80,
				     .height = 24,
				     .tab = GM_TOP_SESSIONS,
				     .history = &history };
	memset(&history, 0, sizeof(history));
	gm_top_history_add(&history, &facts);
}

/* Lay it out, and have it as text. */
static inline void node_draw(void)
{
	FILE *to;

	free(screen);
	screen = NULL;
	gm_top_layout(&view, &facts);
	to = open_memstream(&screen, &screen_bytes);
	if (to == NULL)
		abort();
	gm_page_write(&view.page, to);
	fclose(to);
}

static inline void node_draw_at(int width, int height)
{
	view.width = width;
	view.height = height;
	node_draw();
}

static inline bool shows(const char *text)
{
	if (strstr(screen, text) != NULL)
		return true;
	NOTE("no \"%s\" on:\n%s", text, screen);
	return false;
}

/* The line of the screen that has @text, from 0; -1: none. */
static inline int line_of(const char *text)
{
	const char *found = strstr(screen, text);
	int line = 0;

	if (found == NULL)
		return -1;
	for (const char *at = screen; at < found; at++)
		line += *at == '\n';
	return line;
}

/* Is each cell of the page what a terminal shows in its own place? */
static inline bool is_sound(void)
{
	const struct gm_page *page = &view.page;

	for (int i = 0; i < page->n * page->width; i++) {
		wchar_t ch = page->cells[i].ch;
		int columns = ch != 0 ? wcwidth(ch) : 0;
		bool is_cut = columns == 2 && ((i + 1) % page->width == 0 ||
					       page->cells[i + 1].ch != 0);
		bool is_lone = ch == 0 && (i % page->width == 0 ||
					   wcwidth(page->cells[i - 1].ch) != 2);

		if (columns >= (ch != 0) && !is_cut && !is_lone &&
		    (ch == 0 || ch >= ' ') && !(ch >= 0x7f && ch < 0xa0) &&
		    (!page->is_ascii || ch < 0x7f))
			continue;
		NOTE("cell %d of line %d is U+%04X", i % page->width,
		     i / page->width, (unsigned int)ch);
		return false;
	}
	return !page->failed;
}

#endif

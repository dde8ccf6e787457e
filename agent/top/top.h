/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * top - a node as it changes: rows, sessions, models, and who waits for whom.
 *
 *	facts.c		read them: rows and reservations from the map, without
 *			a system call; each list that is shown by its request
 *	facts_json.c	the same as JSON
 *	page.c		cells with text that no terminal obeys
 *	layout.c	what is where on the screen, from facts and a view
 *	layout_rows.c, layout_detail.c, layout_lists.c	its parts
 *	keys.c		what a key or a click does to the view
 *	drain.c		a row's drain, while the screen goes on
 *	screen.c	the terminal: ncurses draws the page, and reads keys
 *
 * Only screen.c needs ncurses, and only facts.c and drain.c an agent.
 */
#ifndef GM_TOP_H
#define GM_TOP_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/top/page.h"
#include "gpumap.h"

/* ---- facts --------------------------------------------------------------- */

#define GM_TOP_NAME 33 /* bytes of a user's or a command's name */

struct gm_top_process {
	uint32_t pid; /* 0: none */
	uint32_t uid;
	char user[GM_TOP_NAME];
	char command[GM_TOP_NAME]; /* "-": not known */
};

struct gm_top_row {
	struct gpumap_device device;
	uint64_t used;     /* by all processes */
	uint64_t ours;     /* of that, by sessions and shares */
	uint64_t promised; /* to holders, and free yet */
	uint64_t left;
	uint64_t jobs;   /* that have ended, ever */
	uint64_t failed; /* of these */
	double rate;     /* jobs in a second, since the last facts */
};

struct gm_top_holder {
	struct gpumap_holder holder;
	struct gm_top_process process;
	struct gpumap_charge *charges;
	uint32_t n;
	uint64_t bytes;
};

struct gm_top_usage {
	struct gpumap_usage info;
	struct gm_top_process process;
};

struct gm_top_session {
	struct gpumap_session_info info;
	struct gm_top_process process;
};

struct gm_top_share {
	struct gpumap_share_info info;
	struct gm_top_process process;
};

struct gm_top_map {
	struct gpumap_layers layers;
	struct gm_top_process process; /* of the user alone */
	uint64_t bytes;
	uint64_t rows[GPUMAP_ROWS_MAX / 64];
};

struct gm_top_wait {
	struct gpumap_wait_info info;
	struct gm_top_process process;
};

/* A list that was not asked for, or that the agent has not given, has -1. */
struct gm_top_facts {
	char instance[GPUMAP_NAME_MAX + 1];
	struct gpumap_health health;
	uint64_t taken_ns; /* CLOCK_MONOTONIC */
	uint64_t time_s;   /* since 1970 */
	uint64_t up_s;     /* of the agent's process; 0: not known */
	char refusal[160]; /* why a list is not known; "": nothing */
	struct gm_top_row *rows;
	uint32_t n_rows;
	struct gm_top_holder *holders;
	uint32_t n_holders;
	struct gm_top_map *maps;
	uint32_t n_maps;
	struct gm_top_usage *usages;
	int n_usages;
	struct gm_top_session *sessions;
	int n_sessions;
	struct gm_top_share *shares;
	int n_shares;
	struct gm_top_wait *waits;
	int n_waits;
};

enum gm_top_panel {
	GM_TOP_ROWS,
	GM_TOP_SESSIONS,
	GM_TOP_MODELS,
	GM_TOP_WAITS,
	GM_TOP_PANELS
};

#define GM_TOP_ALL 0xffu /* panels: bit 1 << enum gm_top_panel */

/* The names of users and commands, from the caller. */
struct gm_top_names {
	const char *(*user)(uint32_t uid, char ret_text[GM_TOP_NAME]);
	const char *(*command)(const void *context, uint32_t pid, uint32_t uid,
			       char ret_text[GM_TOP_NAME]);
	const void *context;
};

/* The names that were looked up, for a while. */
struct gm_top_cache {
	struct gm_top_process *v;
	size_t n, room;
	unsigned int reads;
	uint64_t epoch; /* of @since_ns */
	uint64_t since_ns;
};

/* Read them for @panels.  Asks the agent only while it is seen, by one list for
 * each panel and one more.  Returns 0, -ENOMEM, or as gpumap_device_read(); in
 * each case give it back with gm_top_facts_free(). */
int gm_top_facts_read(struct gpumap *map, unsigned int panels,
		      const struct gm_top_names *names,
		      struct gm_top_cache *cache,
		      struct gm_top_facts *ret_facts);
void gm_top_facts_free(struct gm_top_facts *facts);

/* An agent that is gone, or going, gives no lists: take those of @old. */
void gm_top_facts_keep(struct gm_top_facts *facts, struct gm_top_facts *old);

/* Is the agent gone, as far as these tell? */
static inline bool gm_top_is_gone(const struct gm_top_facts *facts)
{
	return facts->health.stale || facts->health.state == GPUMAP_RETIRED;
}

void gm_top_cache_free(struct gm_top_cache *cache);

/* For whom the request waits that is @i in the line: the reservation that has
 * most of its rows, or is in its start window there; NULL: for none.
 * @ret_before: requests before it for any of its rows. */
const struct gm_top_holder *gm_top_facts_wait(const struct gm_top_facts *facts,
					      int i, uint32_t *ret_before);

static inline bool gm_top_has_row(const uint64_t rows[GPUMAP_ROWS_MAX / 64],
				  uint32_t row)
{
	return (rows[row / 64] >> row % 64 & 1) != 0;
}

json_t *gm_top_facts_json(const struct gm_top_facts *facts);

/* ---- history ------------------------------------------------------------- */

#define GM_TOP_SAMPLES 512u

/* Samples of each row, in per mille; the next goes to n % GM_TOP_SAMPLES. */
struct gm_top_history {
	uint16_t used[GPUMAP_ROWS_MAX][GM_TOP_SAMPLES];
	uint16_t busy[GPUMAP_ROWS_MAX][GM_TOP_SAMPLES];
	uint32_t n;
	/* The last facts, for rates. */
	uint64_t taken_ns;
	uint64_t jobs[GPUMAP_ROWS_MAX];
};

/* Add a sample of each row, and set the rates of @facts. */

void gm_top_history_add(struct gm_top_history *history,
			struct gm_top_facts *facts);

/* ---- the view ------------------------------------------------------------ */

#define GM_TOP_LEAST_WIDTH  60
#define GM_TOP_LEAST_HEIGHT 16
#define GM_TOP_FILTER       48 /* bytes */

enum gm_top_sort {
	GM_TOP_BY_ROW,
	GM_TOP_BY_USED,
	GM_TOP_BY_PROMISED,
	GM_TOP_BY_FREE,
	GM_TOP_BY_BUSY,
	GM_TOP_BY_HEAT,
	GM_TOP_BY_STATE,
	GM_TOP_SORTS
};

/* A panel, as it was drawn last. */
struct gm_top_place {
	bool is_shown;
	int x, y, width, height; /* of its lines */
	int first;               /* line at the top */
	int at;                  /* the selected one */
	struct gm_page page;     /* all its lines; tag -1: cannot be selected */
};

struct gm_top_view {
	int width;
	int height; /* 0: as many lines as there are */
	bool is_ascii;
	enum gm_top_panel focus;
	enum gm_top_panel tab; /* of the lower panels, where one fits */
	enum gm_top_sort sort;
	uint32_t row; /* the selected one */
	bool is_flat; /* no tree */
	bool is_paused;
	bool is_help;
	bool is_typing; /* a filter */
	char filter[GM_TOP_FILTER];
	bool asks;         /* whether to drain, or undrain, the selected row */
	char message[256]; /* "": none */
	const struct gm_top_history *history; /* NULL: no graph */
	struct gm_top_place places[GM_TOP_PANELS];
	struct gm_page page; /* the screen */
};

/* Lay the page out: view->page, view->places. */
void gm_top_layout(struct gm_top_view *view, const struct gm_top_facts *facts);

/* The panels that it shows, for gm_top_facts_read(). */
unsigned int gm_top_layout_panels(const struct gm_top_view *view);

void gm_top_view_free(struct gm_top_view *view);

/* Is the device of a row taken out of service? */
bool gm_top_is_drained(const struct gm_top_facts *facts, uint32_t row);

/* ---- keys ---------------------------------------------------------------- */

/* A key is a character, or one of these. */
enum gm_top_key {
	GM_TOP_UP = 0x200000, /* above Unicode */
	GM_TOP_DOWN,
	GM_TOP_PAGE_UP,
	GM_TOP_PAGE_DOWN,
	GM_TOP_HOME,
	GM_TOP_END,
	GM_TOP_BACK_TAB,
	GM_TOP_BACKSPACE,
	GM_TOP_ESCAPE,
	GM_TOP_ENTER
};

enum gm_top_deed {
	GM_TOP_DRAW, /* the view may have changed */
	GM_TOP_QUIT,
	GM_TOP_DRAIN, /* or undrain, view->row */
};

enum gm_top_deed gm_top_key(struct gm_top_view *view,
			    const struct gm_top_facts *facts, uint32_t key);

/* A click, and @lines of a wheel, at a cell of the screen. */
void gm_top_click(struct gm_top_view *view, int x, int y);
void gm_top_wheel(struct gm_top_view *view, int x, int y, int lines);

/* ---- a drain ------------------------------------------------------------- */

/* One that is under way, in a thread with an attachment of its own. */
struct gm_top_drain {
	const char *instance;
	const char *runtime_dir;
	uint32_t row;
	bool is_back; /* undrain */
	bool runs;
	pthread_t thread;
	int error;
	char why[200];
};

/* Returns 0 or a negative errno. */
int gm_top_drain_start(struct gm_top_drain *drain, uint32_t row, bool is_back);

/* Write what it does, or once how it has ended.  Returns whether it was under
 * way. */
bool gm_top_drain_tell(struct gm_top_drain *drain, char *ret_text,
		       size_t bytes);

/* ---- the terminal -------------------------------------------------------- */

struct gm_top_terminal {
	struct gpumap **map; /* attached; another one, once this is retired */
	const char *instance;
	const char *runtime_dir;
	struct gm_top_names names;
	uint64_t interval_s;
	bool is_ascii;
};

/* Show the node until the user quits.  Returns 0, or -ENOTTY: TERM names no
 * terminal that this machine knows, or one that cannot move its cursor; or
 * -ENOMEM.  A signal that ends the process
 * does so after the terminal is as it was. */
int gm_top_screen(const struct gm_top_terminal *terminal);

/* ---- parts of the layout ------------------------------------------------- */

/* Write all lines of a panel on its page, of the place's width. */
void gm_top_layout_rows(struct gm_top_view *view,
			const struct gm_top_facts *facts);
void gm_top_layout_sessions(struct gm_top_view *view,
			    const struct gm_top_facts *facts);
void gm_top_layout_models(struct gm_top_view *view,
			  const struct gm_top_facts *facts);
void gm_top_layout_waits(struct gm_top_view *view,
			 const struct gm_top_facts *facts);

/* Line @line of @height, on the last line of the screen: the selected row's
 * facts, and below these its graphs. */
void gm_top_layout_detail(struct gm_top_view *view,
			  const struct gm_top_facts *facts, int line,
			  int height);

/* The headings of the columns of rows, on the last line of the screen. */
void gm_top_layout_headings(struct gm_top_view *view,
			    const struct gm_top_facts *facts);

/* Does any of these texts contain the filter?  NULL ends them. */
bool gm_top_matches(const struct gm_top_view *view, const char *text, ...)
	__attribute__((sentinel));

/* Say on a panel's page without a line that there is @none. */
void gm_top_layout_none(const struct gm_top_view *view, struct gm_page *page,
			const char *none);

/* "3 s", "12 min", "5 h", "9 d". */
const char *gm_top_time(uint64_t seconds, char ret_text[32]);

/* "row 3", "rows 0,2-5"; a longer list is cut with "...". */
#define GM_TOP_ROWS_TEXT 40
const char *gm_top_rows_text(const uint64_t rows[GPUMAP_ROWS_MAX / 64],
			     char ret_text[GM_TOP_ROWS_TEXT]);

#endif

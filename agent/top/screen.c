/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <curses.h>

#include "agent/top/top.h"

#define MS           1000000u
#define KEY_LIMIT_MS 1000 /* a signal that comes before a wait is seen then */

struct screen {
	const struct gm_top_terminal *terminal;
	struct gm_top_view view;
	struct gm_top_facts facts;
	struct gm_top_cache cache;
	struct gm_top_history *history;
	struct gm_top_drain drain;
	attr_t attributes[GM_STYLE_N];
	uint64_t next_ms;    /* when to read again */
	unsigned int panels; /* that were read */
};

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
	caught = number;
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / MS;
}

/* ---- facts --------------------------------------------------------------- */

/* Another agent may have made another map: the name leads to it. */
static void attach_again(struct screen *s)
{
	const struct gm_top_terminal *t = s->terminal;
	struct gpumap_health health = { .size = sizeof(health) };
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = t->instance,
					   .runtime_dir = t->runtime_dir };
	struct gpumap *map;

	if (gpumap_attach(&opts, &map) != 0)
		return;
	if (gpumap_health(map, &health) == 0 && !health.stale &&
	    health.state != GPUMAP_RETIRED) {
		gpumap_detach(*t->map);
		*t->map = map;
		s->cache.epoch = 0;
	} else {
		gpumap_detach(map);
	}
}

static void read_facts(struct screen *s)
{
	struct gm_top_facts facts;
	int ret;

	if (gm_top_is_gone(&s->facts))
		attach_again(s);
	s->panels = gm_top_layout_panels(&s->view);
	ret = gm_top_facts_read(*s->terminal->map, s->panels,
				&s->terminal->names, &s->cache, &facts);
	if (ret != 0 && s->facts.n_rows > 0) { /* the last ones stay */
		s->facts.health = facts.health;
		s->facts.time_s = facts.time_s;
		gm_top_facts_free(&facts);
		return;
	}
	gm_top_facts_keep(&facts, &s->facts);
	gm_top_facts_free(&s->facts);
	s->facts = facts;
	snprintf(s->facts.instance, sizeof(s->facts.instance), "%s",
		 s->terminal->instance);
	gm_top_history_add(s->history, &s->facts);
}

/* ---- drawing ------------------------------------------------------------- */

static void choose_attributes(struct screen *s)
{
	static const struct {
		attr_t plain; /* where there are no colours */
		short few, many;
	} styles[GM_STYLE_N] = {
		[GM_STYLE_PLAIN] = { 0, -1, -1 },
		[GM_STYLE_DIM] = { A_DIM, -1, 245 },
		[GM_STYLE_STRONG] = { A_BOLD, -1, -1 },
		[GM_STYLE_TITLE] = { A_BOLD, COLOR_CYAN, 75 },
		[GM_STYLE_OURS] = { 0, COLOR_CYAN, 75 },
		[GM_STYLE_OTHERS] = { 0, COLOR_BLUE, 103 },
		[GM_STYLE_PROMISED] = { 0, COLOR_YELLOW, 179 },
		[GM_STYLE_FREE] = { A_DIM, -1, 241 },
		[GM_STYLE_GOOD] = { 0, COLOR_GREEN, 108 },
		[GM_STYLE_WARN] = { A_BOLD, COLOR_YELLOW, 179 },
		[GM_STYLE_BAD] = { A_BOLD, COLOR_RED, 203 },
		[GM_STYLE_ALARM] = { A_BOLD | A_REVERSE, COLOR_RED, 203 },
		[GM_STYLE_KEY] = { A_BOLD | A_UNDERLINE, COLOR_CYAN, 75 },
	};
	const char *none = getenv("NO_COLOR");
	bool is_colored = (none == NULL || none[0] == '\0') && has_colors();

	if (is_colored) {
		start_color();
		use_default_colors();
	}
	for (short i = 0; i < GM_STYLE_N; i++) {
		short color = COLORS >= 256 ? styles[i].many : styles[i].few;

		s->attributes[i] = styles[i].plain;
		if (!is_colored || color < 0)
			continue;
		init_pair((short)(i + 1), color, -1);
		s->attributes[i] =
			(styles[i].plain & ~(attr_t)(A_DIM | A_UNDERLINE)) |
			COLOR_PAIR(i + 1);
	}
}

/* A line that is selected has no colours but those of memory. */
static attr_t attribute_of(const struct screen *s, uint8_t style)
{
	uint8_t plain = style & (uint8_t)~GM_PAGE_CHOSEN;

	if (plain == style ||
	    (plain >= GM_STYLE_OURS && plain <= GM_STYLE_FREE))
		return s->attributes[plain];
	return A_REVERSE | (s->attributes[plain] & A_BOLD);
}

/* One call for each run of cells of the same style; ncurses writes what differs
 * from the last screen, in one system call. */
static void draw_line(const struct screen *s, int y)
{
	const struct gm_page *page = &s->view.page;
	const struct gm_page_cell *cells =
		page->cells + (size_t)y * (size_t)page->width;

	for (int x = 0, end; x < page->width; x = end) {
		wchar_t text[64];
		int n = 0;

		for (end = x; end < page->width && n < 63 &&
			      cells[end].style == cells[x].style;
		     end++)
			if (cells[end].ch != 0)
				text[n++] = cells[end].ch;
		attrset((int)attribute_of(s, cells[x].style));
		mvaddnwstr(y, x, text, n);
	}
}

static void draw(struct screen *s)
{
	if (gm_top_drain_tell(&s->drain, s->view.message,
			      sizeof(s->view.message)) &&
	    !s->drain.runs)
		s->next_ms = 0; /* show the row's state */
	getmaxyx(stdscr, s->view.height, s->view.width);
	gm_top_layout(&s->view, &s->facts);
	for (int y = 0; y < s->view.page.n && y < s->view.height; y++)
		draw_line(s, y);
	refresh();
}

/* ---- keys ---------------------------------------------------------------- */

static void take_mouse(struct screen *s)
{
	MEVENT event;

	if (getmouse(&event) != OK)
		return;
	if ((event.bstate & (BUTTON1_PRESSED | BUTTON1_CLICKED)) != 0)
		gm_top_click(&s->view, event.x, event.y);
	if ((event.bstate & BUTTON4_PRESSED) != 0)
		gm_top_wheel(&s->view, event.x, event.y, -3);
	if ((event.bstate & BUTTON5_PRESSED) != 0)
		gm_top_wheel(&s->view, event.x, event.y, 3);
}

static uint32_t key_of(int kind, wint_t ch)
{
	static const struct {
		wint_t ch;
		uint32_t key;
	} keys[] = {
		{ KEY_UP, GM_TOP_UP },
		{ KEY_DOWN, GM_TOP_DOWN },
		{ KEY_PPAGE, GM_TOP_PAGE_UP },
		{ KEY_NPAGE, GM_TOP_PAGE_DOWN },
		{ KEY_HOME, GM_TOP_HOME },
		{ KEY_END, GM_TOP_END },
		{ KEY_BTAB, GM_TOP_BACK_TAB },
		{ KEY_BACKSPACE, GM_TOP_BACKSPACE },
		{ KEY_ENTER, GM_TOP_ENTER },
	};

	if (kind != KEY_CODE_YES)
		return ch == 27                   ? GM_TOP_ESCAPE
		       : ch == 127 || ch == 8     ? GM_TOP_BACKSPACE
		       : ch == '\r' || ch == '\n' ? GM_TOP_ENTER
						  : (uint32_t)ch;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i].ch == ch)
			return keys[i].key;
	return 0;
}

static void start_drain(struct screen *s)
{
	int ret = gm_top_drain_start(&s->drain, s->view.row,
				     gm_top_is_drained(&s->facts, s->view.row));

	if (ret != 0)
		snprintf(s->view.message, sizeof(s->view.message), "row %u: %s",
			 s->view.row,
			 ret == -EBUSY ? "another drain is under way"
				       : strerror(-ret));
}

/* Wait for a key, or until it is time to read.  Returns whether to go on. */
static bool take_key(struct screen *s)
{
	uint64_t now = now_ms();
	wint_t ch = 0;
	int kind, wait = KEY_LIMIT_MS;

	if (s->next_ms < now + KEY_LIMIT_MS)
		wait = s->next_ms > now ? (int)(s->next_ms - now) : 0;
	if (s->drain.runs && wait > 100)
		wait = 100;
	timeout(wait);
	kind = get_wch(&ch);
	if (kind == ERR)
		return caught == 0 && isatty(STDIN_FILENO);
	if (kind == KEY_CODE_YES && ch == KEY_MOUSE) {
		take_mouse(s);
		return true;
	}
	if (ch == 'r' || ch == 12) { /* Ctrl-L */
		clearok(stdscr, TRUE);
		s->next_ms = 0;
	}
	switch (gm_top_key(&s->view, &s->facts, key_of(kind, ch))) {
	case GM_TOP_QUIT:
		return false;
	case GM_TOP_DRAIN:
		start_drain(s);
		return true;
	default:
		return true;
	}
}

/* ---- from the start to the end ------------------------------------------- */

static void open_terminal(struct screen *s)
{
	static const int signals[] = { SIGTERM, SIGHUP, SIGINT, SIGQUIT };
	struct sigaction action = { .sa_handler = on_signal };

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &action, NULL);
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	set_escdelay(50);
	curs_set(0);
	mousemask(BUTTON1_PRESSED | BUTTON1_CLICKED | BUTTON4_PRESSED |
			  BUTTON5_PRESSED,
		  NULL);
	mouseinterval(0);
	choose_attributes(s);
}

/* Does the terminal's entry say how to move its cursor? */
static bool can_move(void)
{
	const char *how = tigetstr("cup");

	return how != NULL && how != (const char *)-1;
}

static void run(struct screen *s)
{
	bool goes_on = true;

	while (goes_on && caught == 0) {
		uint64_t now = now_ms();
		bool is_new = s->panels != gm_top_layout_panels(&s->view);

		if ((now >= s->next_ms && !s->view.is_paused) || is_new ||
		    s->next_ms == 0) {
			read_facts(s);
			s->next_ms = now + s->terminal->interval_s * 1000;
		} else if (now >= s->next_ms) {
			s->next_ms = now + s->terminal->interval_s * 1000;
		}
		draw(s);
		/* Another panel is visible: it wants its list at once. */
		if (s->panels == gm_top_layout_panels(&s->view))
			goes_on = take_key(s);
	}
}

int gm_top_screen(const struct gm_top_terminal *terminal)
{
	struct screen *s = calloc(1, sizeof(*s));
	struct gm_top_history *history = calloc(1, sizeof(*history));
	SCREEN *curses = NULL;
	int ret = s != NULL && history != NULL ? 0 : -ENOMEM;

	if (ret == 0) {
		s->terminal = terminal;
		s->history = history;
		s->view.history = history;
		s->view.tab = GM_TOP_SESSIONS;
		s->view.is_ascii = terminal->is_ascii;
		s->drain.instance = terminal->instance;
		s->drain.runtime_dir = terminal->runtime_dir;
		/* COLUMNS and LINES stay as they are when the size changes. */
		use_env(TRUE);
		use_tioctl(TRUE);
		curses = newterm(NULL, stdout, stdin);
		ret = curses != NULL && can_move() ? 0 : -ENOTTY;
	}
	if (ret == 0) {
		open_terminal(s);
		run(s);
		gm_top_facts_free(&s->facts);
		gm_top_cache_free(&s->cache);
		gm_top_view_free(&s->view);
	}
	if (curses != NULL) {
		endwin();
		delscreen(curses);
	}
	free(history);
	/* A drain that is under way still writes what is in it. */
	if (s != NULL && !s->drain.runs)
		free(s);
	if (caught != 0 && caught != SIGINT) {
		signal(caught, SIG_DFL);
		raise(caught);
	}
	return ret;
}

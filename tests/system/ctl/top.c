/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumapctl top on a terminal of tmux: whole screens at two sizes, keys,
 * a drain, a click, other sizes, an agent that dies and comes back, and that
 * the terminal is left as it was; and what top prints once.
 *
 * A screen is looked at until it is as expected, or for LIMIT_MS.
 */

#include <fnmatch.h>
#include <locale.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>

#include "tests/support/ctl.h"
#include "tests/support/story.h"

#define LIMIT_MS 60000
#define LINES    64

static const char node[] = "name: two-cards\n"
			   "rows:\n"
			   "- { name: H100, kind: cuda, count: 2, "
			   "memory: 80G, free: 70G,\n"
			   "    compute-capability: 9.0, sm-count: 132, "
			   "threads-per-sm: 2048 }\n";

static char user_name[64];
static unsigned int server;

/* ---- the terminal -------------------------------------------------------- */

/* Run tmux with these words of a shell; its output goes to DIR/tmux.out. */
static int tmux(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int tmux(const char *format, ...)
{
	char words[1024], line[1400];
	va_list args;

	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	snprintf(line, sizeof(line),
		 "LC_ALL=C.UTF-8 tmux -u -S %s/tmux%u -f /dev/null %s "
		 ">%s/tmux.out 2>&1",
		 agent.dir, server, words, agent.dir);
	return system(line);
}

/* Have what tmux printed in @out. */
static void read_output(void)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/tmux.out", agent.dir);
	ctl_read(path, out, sizeof(out));
}

/* Begin a terminal in which a shell runs top with @environment, and says how it
 * ended, or was stopped; then Enter has it go on.  Each has a server of its
 * own: one that ends takes a while. */
static bool begin(int width, int height, const char *environment)
{
	FILE *script;
	char path[96];

	server++;
	snprintf(path, sizeof(path), "%s/script", agent.dir);
	script = fopen(path, "we");
	if (!OK(script != NULL))
		return false;
	fprintf(script,
		"set -m\n"
		"env LC_ALL=C.UTF-8 %s sh -c 'echo $$ >%s/pid\n"
		"exec %s --instance %s --runtime-dir %s top'\n"
		"echo \"ended $?\"\n"
		"while read -r line; do fg; echo \"ended $?\"; done\n",
		environment, agent.dir, ctl_program(), agent.instance,
		agent.dir);
	fclose(script);
	return EQ(tmux("new-session -d -x %d -y %d 'exec sh %s'", width, height,
		       path),
		  0);
}

static void end(void)
{
	tmux("kill-server");
}

static void press(const char *keys)
{
	EQ(tmux("send-keys %s", keys), 0);
}

static pid_t top_pid(void)
{
	char path[96], number[32];

	snprintf(path, sizeof(path), "%s/pid", agent.dir);
	ctl_read(path, number, sizeof(number));
	return (pid_t)atoi(number);
}

static bool waits_for(bool (*is_so)(const void *what), const void *what)
{
	for (int ms = 0; ms < LIMIT_MS; ms += 50) {
		if (is_so(what))
			return true;
		story_nap(50000);
	}
	NOTE("is:\n%s", out);
	return false;
}

/* ---- its screen ---------------------------------------------------------- */

static bool has_text(const void *text)
{
	tmux("capture-pane -p");
	read_output();
	return strstr(out, text) != NULL;
}

static bool lacks_text(const void *text)
{
	return !has_text(text) && out[0] != '\0';
}

/* Is a text on the screen, or will be? */
static bool shows(const char *text)
{
	if (waits_for(has_text, text))
		return true;
	NOTE("there is no \"%s\"", text);
	return false;
}

static bool hides(const char *text)
{
	if (waits_for(lacks_text, text))
		return true;
	NOTE("there is \"%s\"", text);
	return false;
}

static char differs[1000]; /* the first line that does not match */

/* Does each line match its pattern, and are there no others? */
static bool matches(const void *what)
{
	const char *const *patterns = what;
	char *save, *line;
	static char copy[sizeof(out)];
	int i = 0;

	tmux("capture-pane -p");
	read_output();
	memcpy(copy, out, sizeof(copy));
	for (line = copy; (save = strchr(line, '\n')) != NULL;
	     line = save + 1, i++) {
		*save = '\0';
		if (patterns[i] != NULL && fnmatch(patterns[i], line, 0) == 0)
			continue;
		snprintf(differs, sizeof(differs), "line %d: %.900s", i, line);
		return false;
	}
	return patterns[i] == NULL;
}

static bool is_screen(const char *const patterns[])
{
	if (waits_for(matches, patterns))
		return true;
	NOTE("%s", differs);
	return false;
}

/* tmux's word on the terminal: is the other screen on, is there a cursor, does
 * a program take the mouse? */
static bool has_flags(const void *flags)
{
	tmux("display-message -p "
	     "'#{alternate_on}#{cursor_flag}#{mouse_any_flag}'");
	read_output();
	return strncmp(out, flags, 3) == 0;
}

/* ---- whole screens ------------------------------------------------------- */

/* Lines that name this user. */
static char has[128], wide[256];

static const char *const small[] = {
	" test.*  gpumapd *.*.* READY*, start 1  3 rows*:??:??",
	"─ rows ─*─ ██ sessions  ▓▓ others  ▒▒ "
	"promised  ·· free",
	" row kind  state      memory                    taken/all  "
	"device",
	" NUMA node 0  1 row, * used, 0 B promised, * free",
	"   0 host  READY      ?????????????????*/*  host *",
	" no NUMA node  2 rows, 20.0 GiB used, 30.0 GiB promised, 110 "
	"GiB free",
	"   1 dummy READY      ▓▓▒▒▒▒"
	"▒▒▒········ 40.0 GiB/80.0 "
	"GiB  "
	"H100",
	"   2 dummy READY      ▓▓······"
	"········· 10.0 GiB/80.0 GiB  "
	"H100",
	"─ row 1  H100  40.0 GiB free "
	"─*─",
	"   12 %",
	" used *▂",
	"─ sessions and reservations 1  models  waits "
	"─*─",
	has,
	"   no process reserves 30.0 GiB of row 1 as kept",
	"",
	"",
	"",
	"",
	"",
	"",
	"",
	"",
	"",
	" q quit  h help  Tab panel  s sort  / filter  t tree  d drain "
	" "
	"space pause",
	NULL
};

static const char *large[LINES];

static void write_large(void)
{
	int n = 0;

	large[n++] = " test.*  gpumapd *.*.* READY*, start 1  3 rows*:??:??";
	large[n++] = "─ rows ─*─ ██ sessions  ▓▓"
		     " others  ▒▒ promised  ·· free";
	large[n++] = " row kind  state      memory *taken/all  device";
	large[n++] = small[3];
	large[n++] = "   0 host  READY      *  host *";
	large[n++] = small[5];
	large[n++] = "   1 dummy READY      "
		     "▓▓▓▓▓▓▓▓▓▒▒▒▒"
		     "▒▒▒▒▒▒▒▒▒▒▒▒▒"
		     "▒▒▒▒▒▒▒▒▒▒·····"
		     "·················"
		     "············· 40.0 GiB/80.0 GiB  H100";
	large[n++] = "   2 dummy READY      "
		     "▓▓▓▓▓▓▓▓▓······"
		     "····················"
		     "···················"
		     "················· 10.0 "
		     "GiB/80.0 GiB  H100";
	large[n++] = "─ row 1  H100  40.0 GiB free ─*─";
	large[n++] = "   12 %";
	large[n++] = "";
	large[n++] = "";
	large[n++] = "";
	large[n++] = " used *▅";
	large[n++] = "─ sessions and reservations 1 ─*─ models 1 ─*─";
	large[n++] = wide;
	large[n++] = small[13];
	while (n < 46)
		large[n++] = "";
	large[n++] = " *─ waits 0 ─*─";
	large[n++] = " * no request waits";
	large[n++] = "";
	large[n++] = small[23];
}

static void screens_are_as_expected(void)
{
	snprintf(has, sizeof(has), " %s  has 0 B, reserves 30.0 GiB",
		 user_name);
	snprintf(wide, sizeof(wide),
		 "%s * kept *%s*30.0 GiB 1 layer, "
		 "reserved, row 1",
		 has, user_name);
	write_large();
	OK(shows("   1 dummy READY"));
	press("Down");
	OK(is_screen(small));
	EQ(tmux("resize-window -x 200 -y 50"), 0);
	OK(is_screen(large));
	/* Nothing of the larger screen is left over. */
	EQ(tmux("resize-window -x 40 -y 10"), 0);
	OK(is_screen((const char *const[]){ "too small:", "top needs 60x16,",
					    "this is 40x10", "", "", "", "", "",
					    "", "", NULL }));
	EQ(tmux("resize-window -x 80 -y 24"), 0);
	OK(is_screen(small));
}

/* ---- keys ---------------------------------------------------------------- */

static void keys_are_obeyed(void)
{
	press("Tab Tab");
	OK(shows("1 layer, reserved, row 1"));
	press("Tab");
	OK(shows(" no request waits"));
	press("Tab t");
	OK(hides("no NUMA node"));
	press("t s");
	OK(shows("─ rows by used memory ─"));
	press("S / h 1 0 0 Enter");
	OK(shows("─ rows with h100 ─"));
	OK(hides("   0 host"));
	press("Escape");
	OK(shows("   0 host"));
	press("h");
	OK(shows("  d                               drain the selected row"));
	press("x");
	OK(shows("   1 dummy"));
	press("Space");
	OK(shows(" PAUSED "));
	press("Space");
	OK(hides(" PAUSED "));
}

static void a_click_selects(void)
{
	press("End");
	OK(shows("─ row 2  "));
	/* A press of the first button in column 30 of line 7, as xterm says
	 * it. */
	press("-H 1b 5b 4d 20 3e 27");
	OK(shows("─ row 1  "));
	/* The wheel. */
	press("-H 1b 5b 4d 61 3e 27");
	OK(shows("─ row 2  "));
}

static void jobs_are_counted(void)
{
	EQ(CTL("scatter", "--bytes", "64K", "--rows", "0"), DONE);
	OK(shows("jobs/s"));
}

static void a_drain_is_confirmed(void)
{
	press("Home d");
	OK(shows(" Drain row 0?  y or n: ends its jobs and memory, 0 sessions, "
		 "0 shares"));
	press("n");
	OK(shows(" q quit"));
	press("d y");
	OK(shows("   0 host  DRAINING"));
	OK(shows(" drain of row 0: done"));
	press("d");
	OK(shows(" Take row 0 into service again?  y or n"));
	press("y");
	OK(shows("   0 host  READY"));
	OK(shows(" undrain of row 0: done"));
	/* The agent's refusal is on the screen. */
	press("Down d y");
	OK(shows(" drain of row 1: "));
	OK(hides(" under way"));
	OK(shows("   1 dummy READY"));
}

/* ---- an agent that dies, and others -------------------------------------- */

static void agents_come_and_go(void)
{
	press("Tab");
	OK(shows("   no process reserves 30.0 GiB of row 1 as kept"));
	EQ(agent_kill(&agent, SIGKILL), -SIGKILL);
	OK(shows(" No gpumapd since "));
	OK(shows(" GONE, start 1 "));
	OK(shows("   1 dummy READY"));
	OK(shows("   no process reserves 30.0 GiB of row 1 as kept"));
	OK(agent_start(&agent));
	OK(shows(" READY"));
	OK(hides(" No gpumapd since "));
	/* One that ends takes its map along: the next has another. */
	EQ(agent_kill(&agent, SIGTERM), 0);
	OK(shows(" No gpumapd since "));
	OK(shows("   1 dummy"));
	OK(agent_start(&agent));
	OK(hides(" No gpumapd since "));
	OK(shows("   0 host  READY"));
}

/* ---- the terminal is left as it was -------------------------------------- */

static void the_terminal_is_restored(void)
{
	static const struct {
		int signal;
		const char *ended;
	} ends[] = {
		{ SIGTERM, "ended 143" },
		{ SIGHUP, "ended 129" },
		{ SIGINT, "ended 0" },
		{ 0, "ended 0" },
	};

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		if (!begin(80, 24, ""))
			return;
		OK(shows("   1 dummy READY"));
		OK(waits_for(has_flags, "101"));
		if (ends[i].signal == 0) {
			kill(top_pid(), SIGTSTP);
			OK(waits_for(has_flags, "010"));
			OK(shows("ended 148"));
			press("Enter");
			OK(waits_for(has_flags, "101"));
			OK(shows("   1 dummy READY"));
			press("q");
		} else {
			EQ(kill(top_pid(), ends[i].signal), 0);
		}
		OK(shows(ends[i].ended));
		OK(waits_for(has_flags, "010"));
		OK(lacks_text("dummy"));
		end();
	}
}

/* ---- other terminals ----------------------------------------------------- */

static bool is_colored(const void *unused)
{
	tmux("capture-pane -p -e");
	read_output();
	return strstr(out, "\x1b[38;5;") != NULL ||
	       strstr(out, "\x1b[36m") != NULL;
}

static void colours_and_signs_follow_the_environment(void)
{
	if (!begin(80, 24, "NO_COLOR=1 COLUMNS=30 LINES=5"))
		return;
	OK(shows("   1 dummy READY"));
	OK(!is_colored(NULL));
	OK(strstr(out, "\x1b[") != NULL); /* but bold */
	end();
	if (!begin(80, 24, "NO_COLOR="))
		return;
	OK(shows("   1 dummy READY"));
	OK(waits_for(is_colored, NULL));
	/* Text is not black: it has the terminal's colour. */
	OK(strstr(out, "\x1b[30m") == NULL);
	end();
	if (!begin(80, 24, "LC_ALL=C"))
		return;
	OK(shows("   1 dummy READY      ++=======........ 40.0 GiB/80.0 GiB"));
	OK(strspn(out, "\n !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRS"
		       "TUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~") ==
	   strlen(out));
	end();
	if (!begin(80, 24, "TERM=no-such"))
		return;
	OK(shows("ended 1"));
	OK(shows(
		"gpumapctl: TERM is \"no-such\", which is not known here or "));
	end();
	if (!begin(80, 24, "TERM=dumb"))
		return;
	OK(shows("ended 1"));
	OK(shows("gpumapctl: TERM is \"dumb\", which is not known here or "));
	end();
}

/* ---- once ---------------------------------------------------------------- */

static void once_is_text_or_json(void)
{
	json_t *json;

	setenv("COLUMNS", "100", 1);
	setenv("LC_ALL", "C.UTF-8", 1);
	EQ(CTL("top", "--once"), DONE);
	OK(prints("\n   1 dummy READY      "));
	OK(prints("\n   no process reserves 30.0 GiB of row 1 as kept\n"));
	OK(prints(" 30.0 GiB 1 layer, reserved, row 1\n"));
	OK(prints("\n no request waits\n"));
	EQ(CTL("top", "--json"), DONE);
	json = object();
	OK(has_fields(json, "instance stale age_ns epoch agent_pid "
			    "agent_version up_s rows reservations maps "
			    "sessions shares waits"));
	OK(has_fields(json_array_get(list(json, "rows", 3), 1),
		      "row kind name state reason cordoned numa_node "
		      "total_bytes used_bytes session_bytes promised_bytes "
		      "free_bytes utilisation temperature power worker_pid "
		      "restarts jobs jobs_failed"));
	EQ(number(json_array_get(list(json, "rows", 3), 1), "promised_bytes"),
	   30 * 1024 * MIB);
	OK(has_fields(json_array_get(list(json, "reservations", 1), 0),
		      "name since_ns bytes rows start_ns uid user pid "
		      "command"));
	list(json, "sessions", 0);
	json_decref(json);
	unsetenv("COLUMNS");
	EQ(CTL("top"), USAGE);
	OK(complains("--once"));
	EQ(CTL("top", "--interval", "0"), USAGE);
}

/* 30 GiB of a card, without a process that holds them. */
static void reserve(void)
{
	struct gpumap *map = story_attach(&agent);
	struct gpumap_plan plan = { .size = sizeof(plan) };
	struct gpumap_plan_request request = {
		.size = sizeof(request),
		.name = "kept",
		.flags = GPUMAP_PLAN_COMMIT,
		.setting = GPUMAP_SETTING_RESERVE,
		.rows = &(uint32_t){ 1 },
		.n_rows = 1,
		.n_layers = 1,
		.layer_bytes = &(uint64_t){ 30 * 1024 * MIB },
	};

	EQ(gpumap_plan_make(map, &request, &plan, NULL, 0, NULL, 0), 0);
	gpumap_detach(map);
}

static void on_a_terminal(void)
{
	if (system("command -v tmux >/dev/null") != 0) {
		LACK("tmux", 1, "no tmux");
		return;
	}
	colours_and_signs_follow_the_environment();
	the_terminal_is_restored();
	if (!begin(80, 24, ""))
		return;
	screens_are_as_expected();
	keys_are_obeyed();
	a_click_selects();
	jobs_are_counted();
	a_drain_is_confirmed();
	agents_come_and_go();
	end();
}

TAP_CASE()
{
	const struct passwd *who = getpwuid(geteuid());

	if (!ctl_has_tool("top")) {
		LACK("python", 1, "built without Python");
		return tap_done();
	}
	OK(setlocale(LC_CTYPE, "C.UTF-8") != NULL);
	snprintf(user_name, sizeof(user_name), "%s",
		 who != NULL ? who->pw_name : "");
	agent_make(&agent, NULL);
	agent_configure_dummies(&agent, node, "[host]\nrows = 1\n");
	if (OK(agent_start(&agent))) {
		reserve();
		once_is_text_or_json();
		on_a_terminal();
	}
	agent_remove(&agent);
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks how gpumapctl shows long work: one line on a terminal, which is gone
 * in the end; objects with --json --progress; nothing elsewhere, unless asked.
 * The work is made long by a process that stands still until a line is seen, or
 * by a pause before each file.
 */

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "tests/support/ctl.h"
#include "tests/support/ctl_model.h"
#include "tests/support/process.h"
#include "tests/support/story.h"

#define FILES       16
#define TENSOR      (64 << 10)
#define CLEAR       "\r\033[K"
#define PAUSE_FILES "progress_told:pause"

static struct gpumap *map;
static int pty = -1, tty = -1;
static char seen[256 << 10]; /* on the terminal, of one command */
static size_t n_seen;

/* ---- a model of many files ----------------------------------------------- */

static void make_model(void)
{
	static const char config[] =
		"{\"model_type\":\"llama\",\"num_hidden_layers\":16,"
		"\"hidden_size\":64,\"num_attention_heads\":4,"
		"\"num_key_value_heads\":2}";

	snprintf(model, sizeof(model), "%s/model", agent.dir);
	EQ(mkdir(model, 0700), 0);
	write_file("config.json", config, strlen(config),
		   (off_t)strlen(config));
	for (int i = 0; i < FILES; i++) {
		char header[256] = { 0 }, name[32];
		int n = snprintf(header + 8, sizeof(header) - 8,
				 "{\"model.layers.%d.w\":{\"dtype\":\"F16\","
				 "\"shape\":[%d],\"data_offsets\":[0,%d]}}",
				 i, TENSOR / 2, TENSOR);

		header[0] = (char)n;
		snprintf(name, sizeof(name), "part-%02d.safetensors", i);
		write_file(name, header, (size_t)n + 8, n + 8 + TENSOR);
	}
}

/* ---- a command that goes on while it is looked at ------------------------ */

/* Returns false, and skips, where no terminal can be had. */
static bool open_terminal(void)
{
	const struct winsize size = { .ws_row = 24, .ws_col = 80 };
	char name[64];

	pty = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (pty >= 0 && grantpt(pty) == 0 && unlockpt(pty) == 0 &&
	    ptsname_r(pty, name, sizeof(name)) == 0)
		tty = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (tty >= 0 && ioctl(tty, TIOCSWINSZ, &size) == 0)
		return true;
	LACK("terminal", 1, "no terminal can be had here");
	return false;
}

/* Begin it: stderr is the terminal, if it has one. */
static pid_t begin(bool on_terminal, const char *const words[])
{
	const char *argv[WORDS_MAX + 6] = { ctl_program(), "--instance",
					    agent.instance, "--runtime-dir",
					    agent.dir };
	char out_path[96], err_path[96];
	pid_t pid;

	for (int n = 0; words[n] != NULL; n++)
		argv[5 + n] = words[n];
	snprintf(out_path, sizeof(out_path), "%s/out", agent.dir);
	snprintf(err_path, sizeof(err_path), "%s/err", agent.dir);
	n_seen = 0;
	seen[0] = '\0';
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		/* As in a shell, whatever the test was started from. */
		signal(SIGINT, SIG_DFL);
		signal(SIGHUP, SIG_DFL);
		signal(SIGQUIT, SIG_DFL);
		if (on_terminal)
			snprintf(err_path, sizeof(err_path), "/proc/self/fd/%d",
				 tty);
		become(argv, out_path, err_path);
	}
	return pid;
}

static int end_of(pid_t pid)
{
	char path[96];
	int status = 0;

	EQ(waitpid(pid, &status, 0), pid);
	snprintf(path, sizeof(path), "%s/out", agent.dir);
	ctl_read(path, out, sizeof(out));
	snprintf(path, sizeof(path), "%s/err", agent.dir);
	ctl_read(path, err, sizeof(err));
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Take what is on the terminal now. */
static void look(void)
{
	ssize_t n;

	while (n_seen + 1 < sizeof(seen) &&
	       (n = read(pty, seen + n_seen, sizeof(seen) - 1 - n_seen)) > 0)
		n_seen += (size_t)n;
	seen[n_seen] = '\0';
}

static bool is_seen(const char *text)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	do {
		look();
		if (strstr(seen, text) != NULL)
			return true;
		story_nap(2000);
	} while (story_now() < until);
	NOTE("not seen: \"%s\" in \"%.300s\"", text, seen);
	return false;
}

/* Does the terminal end as it was?  The line was cleared last. */
static bool is_clean(void)
{
	const size_t n = strlen(CLEAR);

	look();
	return n_seen >= n && strcmp(seen + n_seen - n, CLEAR) == 0;
}

/* Are all lines that were drawn of less than so many columns, and without any
 * other sequence than the one that clears the rest? */
static bool are_lines_of(size_t columns)
{
	for (const char *at = seen; *at != '\0'; at++) {
		size_t n = strcspn(at, "\r\033");

		if (n >= columns ||
		    (at[n] == '\033' && strncmp(at + n, "\033[K", 3) != 0))
			return false;
		at += n;
		if (*at == '\0')
			break;
		if (*at == '\033')
			at += 2;
	}
	return strchr(seen, '\n') == NULL;
}

/* ---- the objects of --json ----------------------------------------------- */

/* Check the objects that were printed: the work of @what advances to its end,
 * and the result's object is the last. */
static void objects_advance(const char *what)
{
	json_int_t before = 0, done = -1, total = -2;
	unsigned n = 0, n_others = 0;

	for (char *at = out, *end; (end = strchr(at, '\n')); at = end + 1) {
		json_t *json = json_loadb(at, (size_t)(end - at), 0, NULL);
		const json_t *progress = json_object_get(json, "progress");

		OK(json_is_object(json));
		n_others += progress == NULL;
		if (progress != NULL && strcmp(text(progress, "what"), what)) {
			json_decref(json);
			continue;
		}
		if (progress != NULL) {
			n++;
			EQ(n_others, 0);
			OK(has_fields(progress,
				      "what name unit done total elapsed_ns "
				      "per_second left_ns"));
			done = number(progress, "done");
			total = number(progress, "total");
			OK(done >= before && text(progress, "unit") != NULL);
			before = done;
		}
		json_decref(json);
	}
	OK(n >= 2);
	EQ(n_others, 1);
	EQ(done, total);
	STR(err, "");
}

/* ---- stories ------------------------------------------------------------- */

#define PLAN WORDS("plan", "--model", model)

static void headers_of_many_files(void)
{
	pid_t pid;

	setenv("GM_POINT", PAUSE_FILES, 1);
	pid = begin(true, PLAN);
	OK(is_seen("read headers: ["));
	OK(is_seen(" of 16 files"));
	EQ(end_of(pid), DONE);
	OK(is_clean());
	OK(are_lines_of(80));
	OK(prints("16"));
	EQ(end_of(begin(false, PLAN)), DONE);
	STR(err, "");
	EQ(end_of(begin(false, WORDS("--progress", "plan", "--model", model))),
	   DONE);
	OK(strstr(err, "read headers: ") == err && strstr(err, "of 16 files"));
	OK(strpbrk(err, "\r\033") == NULL);
	EQ(end_of(begin(false, WORDS("plan", "--json", "--model", model))),
	   DONE);
	json_decref(object());
	EQ(end_of(begin(false, WORDS("plan", "--json", "--progress", "--model",
				     model))),
	   DONE);
	objects_advance("read headers");
	unsetenv("GM_POINT");
}

/* A terminal becomes narrow while the line is there. */
static void the_line_has_room(void)
{
	struct winsize size = { .ws_row = 24, .ws_col = 80 };
	pid_t pid;

	setenv("GM_POINT", PAUSE_FILES, 1);
	pid = begin(true, PLAN);
	OK(is_seen("read headers: ["));
	size.ws_col = 24;
	EQ(ioctl(tty, TIOCSWINSZ, &size), 0);
	OK(is_seen(" %  1"));
	n_seen = 0;
	EQ(end_of(pid), DONE);
	OK(is_clean());
	size.ws_col = 80;
	EQ(ioctl(tty, TIOCSWINSZ, &size), 0);
	unsetenv("GM_POINT");
}

static void no_line_where_it_cannot_be_drawn_anew(void)
{
	setenv("GM_POINT", PAUSE_FILES, 1);
	setenv("TERM", "dumb", 1);
	EQ(end_of(begin(true, PLAN)), DONE);
	look();
	EQ((intmax_t)n_seen, 0);
	unsetenv("TERM");
	EQ(end_of(begin(true, PLAN)), DONE);
	look();
	EQ((intmax_t)n_seen, 0);
	setenv("TERM", "xterm", 1);
	unsetenv("GM_POINT");
}

static void short_work_shows_nothing(void)
{
	EQ(end_of(begin(true, WORDS("--progress", "status"))), DONE);
	EQ(end_of(begin(true, WORDS("shares", "release", "nothing"))), FAILED);
	look();
	OK(strstr(seen, CLEAR) == NULL);
}

static void an_interrupt_clears_the_line(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

	setenv("GM_POINT", PAUSE_FILES, 1);
	for (size_t i = 0; i < 4; i++) {
		pid_t pid = begin(true, PLAN);

		OK(is_seen("read headers: "));
		kill(pid, signals[i]);
		EQ(end_of(pid), -signals[i]);
		OK(is_clean());
	}
	unsetenv("GM_POINT");
}

static void a_stop_clears_the_line_until_it_goes_on(void)
{
	int status = 0;
	pid_t pid;

	setenv("GM_POINT", PAUSE_FILES, 1);
	pid = begin(true, PLAN);
	OK(is_seen("read headers: "));
	kill(pid, SIGTSTP);
	EQ(waitpid(pid, &status, WUNTRACED), pid);
	OK(WIFSTOPPED(status));
	OK(is_clean());
	n_seen = 0;
	seen[0] = '\0';
	kill(pid, SIGCONT);
	OK(is_seen("read headers: "));
	EQ(end_of(pid), DONE);
	OK(is_clean());
	unsetenv("GM_POINT");
}

/* Let a command begin while @stopped stands still, and see @line. */
static void is_shown_while(pid_t stopped, const char *line,
			   const char *const words[])
{
	pid_t pid;

	OK(process_stop(stopped));
	pid = begin(true, words);
	OK(is_seen(line));
	kill(stopped, SIGCONT);
	EQ(end_of(pid), DONE);
	OK(is_clean());
	OK(are_lines_of(80));
}

/* The same, with objects. */
static void is_told_while(pid_t stopped, const char *what,
			  const char *const words[])
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	char path[96];
	pid_t pid;

	OK(process_stop(stopped));
	/* The file has the last command's output until this one opens it. */
	snprintf(path, sizeof(path), "%s/out", agent.dir);
	unlink(path);
	pid = begin(false, words);
	do {
		story_nap(2000);
		ctl_read(path, out, sizeof(out));
	} while (strchr(out, '\n') == NULL && story_now() < until);
	kill(stopped, SIGCONT);
	EQ(end_of(pid), DONE);
	objects_advance(what);
}

static void work_that_pauses_shows_a_line(void)
{
	if (!tap_has_points()) {
		SKIP(1, "needs --enable-testpoints");
		return;
	}
	headers_of_many_files();
	the_line_has_room();
	no_line_where_it_cannot_be_drawn_anew();
	an_interrupt_clears_the_line();
	a_stop_clears_the_line_until_it_goes_on();
}

static pid_t worker(void)
{
	return (pid_t)story_device(map, 0).worker_pid;
}

static void a_load(void)
{
	EQ(CTL("publish", "two", "--spec", "0:16", "--model", model), DONE);
	is_shown_while(worker(), "load two: ",
		       WORDS("load", "two", "--model", model, "--detach"));
	EQ(CTL("shares", "release", "two"), DONE);
}

static void a_mask(void)
{
	is_shown_while(agent.pid, "publish prefix: [",
		       WORDS("mask", "publish", "prefix", "--kind", "causal",
			     "--size", "64"));
	is_told_while(agent.pid, "publish",
		      WORDS("mask", "publish", "prefix", "--kind", "causal",
			    "--size", "32", "--json", "--progress"));
}

static void a_release(void)
{
	for (int i = 0; i < 2; i++) {
		EQ(CTL("load", "two", "--model", model, "--detach"), DONE);
		if (i == 0)
			is_shown_while(agent.pid, "release two: [",
				       WORDS("shares", "release", "two"));
		else
			is_told_while(agent.pid, "release",
				      WORDS("shares", "release", "two",
					    "--json", "--progress"));
	}
}

/* A drain waits for what the worker has begun; the bytes are of buffers that it
 * ends. */
static void a_drain(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = MIB };
	struct gpumap_session *session = NULL;
	uint64_t buffer;

	for (int i = 0; i < 2; i++) {
		EQ(gpumap_session_open(map, &opts, &session), 0);
		EQ(gpumap_buffer_alloc(session, 0, 3 * MIB, 0,
				       GPUMAP_NO_DEADLINE, &buffer),
		   0);
		if (i == 0)
			is_shown_while(worker(), " of 3.0 MiB",
				       WORDS("drain", "0"));
		else
			is_told_while(worker(), "drain row",
				      WORDS("drain", "0", "--json",
					    "--progress"));
		gpumap_session_close(session);
		EQ(CTL("undrain", "0"), DONE);
		while (story_device(map, 0).state != GPUMAP_DEVICE_READY)
			story_nap(2000);
	}
}

TAP_CASE()
{
	if (!ctl_start("[host]\nrows = 2\n") ||
	    !OK((map = story_attach(&agent)) != NULL))
		return tap_done();
	setenv("TERM", "xterm", 1);
	setenv("NO_COLOR", "1", 1);
	make_model();
	if (open_terminal()) {
		short_work_shows_nothing();
		work_that_pauses_shows_a_line();
		a_load();
		a_mask();
		a_release();
		a_drain();
	}
	remove_model();
	if (tap_failures)
		agent_show_log(&agent);
	story_finish(&agent, map);
	return tap_done();
}

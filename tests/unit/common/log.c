/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* log: an event is one line whatever is in it, and no write waits. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "tests/support/tap.h"

static int ends[2];

static const char *next_line(void)
{
	static char text[1 << 17]; /* all that a pipe holds */
	ssize_t n = read(ends[0], text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

static void values_stay_in_their_line(void)
{
	char many[4000];
	const char *line;

	gm_log(GM_LOG_INFO, "ready", "rows=%u", 2);
	STR(next_line(), "level=info event=ready rows=2\n");
	gm_log(GM_LOG_ERROR, "end", NULL);
	STR(next_line(), "level=error event=end\n");
	gm_log(GM_LOG_WARNING, "odd", "why=%s",
	       gm_quote("a \"b\" \\ c\nlevel=info").text);
	STR(next_line(), "level=warning event=odd "
			 "why=\"a \\\"b\\\" \\\\ c?level=info\"\n");
	/* A terminal obeys the first three, and shows the last. */
	gm_log(GM_LOG_WARNING, "odd",
	       "why=a\x9b[31m,\xc2\x9b[31m,gpt\xe2\x80\xae"
	       "2,\xe2\x9b\x84\xc3\x9f");
	STR(next_line(), "level=warning event=odd "
			 "why=a?[31m,??[31m,gpt???2,\xe2\x9b\x84\xc3\x9f\n");
	memset(many, 'x', sizeof(many) - 1);
	many[sizeof(many) - 1] = '\0';
	gm_log(GM_LOG_INFO, "long", "why=%s", many);
	line = next_line();
	EQ(strlen(line), GM_LOG_BYTES - 1);
	EQ(line[GM_LOG_BYTES - 2], '\n');
	EQ(strlen(gm_quote(many).text), GM_QUOTE_BYTES - 2);
	gm_log_context("row=1");
	gm_log(GM_LOG_INFO, "ready", NULL);
	STR(next_line(), "level=info event=ready row=1\n");
	gm_log_context(NULL);
}

/* Is the line of a time that is now, and else as it was? */
static void lines_have_their_time(void)
{
	time_t before = time(NULL), then;
	struct tm tm = { 0 };
	const char *line;
	int ms, end = 0;

	gm_log_stamp();
	gm_log(GM_LOG_INFO, "ready", "rows=%u", 2);
	line = next_line();
	OK(sscanf(line, "time=%4d-%2d-%2dT%2d:%2d:%2d.%3dZ %n", &tm.tm_year,
		  &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &tm.tm_sec,
		  &ms, &end) == 7 &&
	   end == 30);
	STR(line + end, "level=info event=ready rows=2\n");
	tm.tm_year -= 1900;
	tm.tm_mon--;
	then = timegm(&tm);
	OK(then >= before && then <= time(NULL));
}

/* The journal's socket, as systemd gives it to a service. */
static void the_journal_has_the_time(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	char dir[] = "/tmp/gpumap-log-XXXXXX", path[64];
	int heard = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int journal = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (!OK(mkdtemp(dir) != NULL))
		return;
	snprintf(path, sizeof(path), "%s/systemd", dir);
	EQ(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/systemd/journal", dir);
	EQ(mkdir(path, 0700), 0);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s/stdout", path);
	EQ(bind(heard, (struct sockaddr *)&at, sizeof(at)), 0);
	EQ(listen(heard, 1), 0);
	EQ(connect(journal, (struct sockaddr *)&at, sizeof(at)), 0);
	EQ(dup2(journal, STDERR_FILENO), STDERR_FILENO);
	gm_log_stamp();
	EQ(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	gm_log(GM_LOG_INFO, "ready", NULL);
	STR(next_line(), "level=info event=ready\n");
	close(heard);
	close(journal);
	unlink(at.sun_path);
	rmdir(path);
	snprintf(path, sizeof(path), "%s/systemd", dir);
	rmdir(path);
	rmdir(dir);
}

/* Lines, and those that they say were lost. */
static void count(const char *lines, long *lines_seen, long *lost)
{
	for (const char *c = lines; *c != '\0'; c++)
		*lines_seen += *c == '\n';
	while ((lines = strstr(lines, " lost=")) != NULL) {
		lines += strlen(" lost=");
		*lost += strtol(lines, NULL, 10);
	}
}

/* Were a line waited for, this would never end.  A second may end on the way,
 * and then a line in the middle tells of those lost before it. */
static void stuck_reader_costs_lines_only(void)
{
	long n = 0, lost = 0;
	const char *line;

	for (int i = 0; i < 100000; i++)
		gm_log(GM_LOG_INFO, "many", NULL);
	while ((line = next_line())[0] != '\0')
		count(line, &n, &lost);
	OK(n > 0 && n < 100000);
	gm_log(GM_LOG_INFO, "next", NULL);
	line = next_line();
	OK(strncmp(line, "level=info event=next lost=", 27) == 0);
	count(line, &n, &lost);
	EQ(n + lost, 100001);
	gm_log(GM_LOG_INFO, "next", NULL);
	STR(next_line(), "level=info event=next\n");
}

static void floods_hide_nothing_else(void)
{
	long n = 0, lost = 0;
	const char *lines;

	for (int i = 0; i < 1000; i++)
		gm_log(GM_LOG_WARNING, "flood", NULL);
	gm_log(GM_LOG_WARNING, "other", NULL);
	lines = next_line();
	OK(strstr(lines, "event=other") != NULL);
	count(lines, &n, &lost);
	EQ(n + lost, 1001);
	/* However many seconds ended on the way. */
	OK(lost > 0 && n > 1);
}

/* One who has the same done over and over hides nothing of another's. */
static void a_user_hides_nothing_of_others(void)
{
	long n = 0, lost = 0;
	const char *lines;

	for (int i = 0; i < 1000; i++)
		gm_log_of(7, GM_LOG_INFO, "done", "uid=%d", 7);
	for (int i = 0; i < 20; i++)
		gm_log_of(8, GM_LOG_INFO, "done", "uid=%d", 8);
	gm_log(GM_LOG_INFO, "end", NULL);
	while ((lines = next_line())[0] != '\0') {
		for (const char *c = lines; (c = strstr(c, "uid=8")); c++)
			n++;
		count(lines, &lost, &lost);
	}
	EQ(n, 20);
	EQ(lost, 1021);
}

TAP_CASE()
{
	if (pipe2(ends, O_CLOEXEC) != 0 ||
	    fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0 ||
	    dup2(ends[1], STDERR_FILENO) < 0)
		return 99;
	values_stay_in_their_line();
	stuck_reader_costs_lines_only();
	floods_hide_nothing_else();
	a_user_hides_nothing_of_others();
	lines_have_their_time();
	the_journal_has_the_time();
	return tap_done();
}

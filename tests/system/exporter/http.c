/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumap-exporter's HTTP: what it refuses, clients that say nothing or
 * too much, wrong command lines, and that scrapes leave nothing behind.
 */

#include "tests/support/ctl.h"
#include "tests/support/exporter.h"

static struct exporter exporter;

static void answers(void)
{
	EQ(exporter_ask(&exporter, "GET", "/", EXPORTER_PLAIN), 200);
	OK(strstr(out, "<a href=\"/metrics\">") != NULL);
	EQ(exporter_ask(&exporter, "GET", "/metric", EXPORTER_PLAIN), 404);
	OK(strstr(out, "/metrics") != NULL);
	EQ(exporter_ask(&exporter, "POST", "/metrics", EXPORTER_PLAIN), 405);
	OK(strstr(out, "Allow: GET, HEAD") != NULL);
	EQ(exporter_ask(&exporter, "HEAD", "/metrics", EXPORTER_PLAIN), 200);
	STR(exporter_body(), "");
	EQ(exporter_ask(&exporter, "GET", "/metrics?x=1", EXPORTER_PLAIN), 200);
}

/* Connections that send nothing, or half a request, hold up no other
 * client. */
static void silent_clients_are_no_matter(void)
{
	int fds[24];

	for (int i = 0; i < 24; i++) {
		fds[i] = exporter_connect(&exporter);
		if (i % 2 == 0 && write(fds[i], "GET /metr", 9) != 9)
			OK(false);
	}
	OK(exporter_scrape(&exporter));
	for (int i = 0; i < 24; i++)
		close(fds[i]);
}

static void long_requests_are_refused(void)
{
	static char path[100000];

	memset(path, 'a', sizeof(path) - 1);
	path[0] = '/';
	OK(exporter_ask(&exporter, "GET", "/", path) != 200);
	OK(exporter_scrape(&exporter));
}

static long resident_pages(void)
{
	char path[48];
	long size, resident = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/statm", exporter.pid);
	file = fopen(path, "re");
	if (file != NULL) {
		if (fscanf(file, "%ld %ld", &size, &resident) != 2)
			resident = -1;
		fclose(file);
	}
	return resident;
}

/* 10,000 scrapes by hand: GM_ROUNDS=10000. */
static void scrapes_leave_nothing(void)
{
	const char *asked = getenv("GM_ROUNDS");
	int rounds = asked != NULL ? atoi(asked) : 300, wrong = 0;
	long before;

	for (int i = 0; i < 100; i++)
		wrong += exporter_ask(&exporter, "GET", "/metrics",
				      EXPORTER_PLAIN) != 200;
	before = resident_pages();
	for (int i = 0; i < rounds; i++)
		wrong += exporter_ask(&exporter, "GET", "/metrics",
				      i % 2 == 0 ? EXPORTER_OPENMETRICS
						 : EXPORTER_PLAIN) != 200;
	EQ(wrong, 0);
	OK(before > 0);
	if (strstr(getenv("GM_BUILD"), "asan") != NULL)
		SKIP(1, "ASan keeps what was freed");
	else if (!OK(resident_pages() < before + 256)) /* a MiB */
		NOTE("%ld pages, %ld before", resident_pages(), before);
}

static int exporter_of(const char *a, const char *b, const char *c)
{
	return run(WORDS(exporter_program(), a, b, c));
}

static bool says(const char *text)
{
	if (strncmp(err, "gpumap-exporter: ", 17) == 0 &&
	    strstr(err, text) != NULL)
		return true;
	NOTE("it says: %s", err);
	return false;
}

static void command_lines(void)
{
	char port[32];

	EQ(exporter_of("--help", NULL, NULL), 0);
	OK(prints("--textfile FILE"));
	EQ(exporter_of("--version", NULL, NULL), 0);
	OK(prints("gpumap-exporter "));
	EQ(exporter_of("--listen", "nowhere", NULL), 1);
	OK(says("give ADDRESS:PORT"));
	EQ(exporter_of("--listen", "999.1.2.3:1", NULL), 1);
	OK(says("--listen 999.1.2.3:1: "));
	snprintf(port, sizeof(port), "127.0.0.1:%u", exporter.port);
	EQ(exporter_of("--listen", port, NULL), 1);
	OK(says("Address already in use"));
	EQ(exporter_of("--interval", "5", NULL), 2);
	OK(says("--interval is for --textfile"));
	EQ(exporter_of("--interval", "0", NULL), 2);
	OK(says("1 to 86400"));
	EQ(exporter_of("operand", NULL, NULL), 2);
	OK(says("it takes no operand: operand"));
	EQ(exporter_of("--what", NULL, NULL), 2);
	EQ(exporter_of("--listen=:1", "--textfile", "x"), 2);
	OK(says("not both"));
}

TAP_CASE()
{
	if (!ctl_start("[host]\nrows = 1\n"))
		return tap_done();
	if (!exporter_start(&exporter, NULL))
		return tap_done();
	answers();
	silent_clients_are_no_matter();
	long_requests_are_refused();
	scrapes_leave_nothing();
	command_lines();
	exporter_stop(&exporter);
	EQ(agent_kill(&agent, SIGTERM), 0);
	agent_remove(&agent);
	return tap_done();
}

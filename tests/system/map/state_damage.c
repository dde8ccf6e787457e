/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Files of every kind, damaged in many ways: an agent puts each aside and goes
 * on without it, and believes the files beside it; after a restart on the
 * segment as after a reboot.
 */

#include "tests/support/state_objects.h"

#define LARGE 8192u /* bytes, more than any of these files has */
#define KINDS STATE_OBJECTS

/* The good files. */
static struct good {
	char text[LARGE];
	size_t bytes;
} goods[KINDS];

static void put(const char *file, const char *bytes, size_t n)
{
	char path[256];
	FILE *to;

	path_of(file, path);
	to = fopen(path, "we");
	OK(to != NULL && fwrite(bytes, 1, n, to) == n && fclose(to) == 0);
}

static void get(size_t at)
{
	struct good *good = &goods[at];
	char path[256];
	FILE *from;

	path_of(state_objects[at].file, path);
	from = fopen(path, "re");
	if (!OK(from != NULL))
		return;
	good->bytes = fread(good->text, 1, LARGE, from);
	OK(good->bytes != 0 && good->bytes < LARGE);
	fclose(from);
}

/* ---- ways of damage ------------------------------------------------------ */

/* Way @way of a file of kind @at, in place.  Returns its bytes, or -1 where
 * there are no more ways. */
static ssize_t damage(size_t at, int way, char *text)
{
	const struct good *good = &goods[at], *next = &goods[(at + 1) % KINDS];
	size_t n = good->bytes;
	/* In 32 of its 64ths, one bit that is another one each time. */
	size_t bit = 8 * (n * (size_t)way / 64) + (size_t)way % 8;

	memcpy(text, good->text, n);
	if (way < 64 && way % 2 == 0) {
		text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
		return (ssize_t)n;
	}
	switch (way) {
	case 1: /* cut */
		return 0;
	case 3:
		return (ssize_t)n - 1;
	case 5:
		return (ssize_t)n / 2;
	case 7:
		return 1;
	case 9: /* longer */
		memcpy(text + n, text, n);
		return (ssize_t)(2 * n);
	case 11:
		text[n] = '\0';
		return (ssize_t)n + 1;
	case 13: /* a page of a disk that was not written */
		memset(text + n / 2, 0, n - n / 2);
		return (ssize_t)n;
	case 15:
		memset(text, 0, n);
		return (ssize_t)n;
	case 17: /* another kind's */
		memcpy(text, next->text, next->bytes);
		return (ssize_t)next->bytes;
	case 19: /* an older agent's */
		return sprintf(text, "gpumap-state 1 2 af63dc4c8601ec8c\n{}");
	default:
		return way < 64 ? damage(at, way - 1, text) : -1;
	}
}

/* ---- each of them -------------------------------------------------------- */

static bool is_put_aside(const char *name)
{
	char file[64], path[256];

	snprintf(file, sizeof(file), "%s.refused-1", name);
	if (!has_file(file) || has_file(name))
		return false;
	path_of(file, path);
	return unlink(path) == 0;
}

/* Every second kind's file is damaged; what the others say is so. */
static void one_round(int way, size_t first, bool is_reboot)
{
	static char text[2 * LARGE];

	stop(SIGKILL);
	for (size_t i = 0; i < KINDS; i++) {
		ssize_t n = damage(i, way, text);

		if (i % 2 == first)
			put(state_objects[i].file, text, (size_t)n);
		else
			put(state_objects[i].file, goods[i].text,
			    goods[i].bytes);
	}
	if (is_reboot)
		unlink(agent.segment);
	if (!OK(agent_start(&agent) && (map = story_attach(&agent)) != NULL))
		return;
	for (size_t i = 0; i < KINDS; i++) {
		bool is_damaged = i % 2 == first;

		if (OK(state_objects[i].is_there() != is_damaged) &&
		    OK(!is_damaged || is_put_aside(state_objects[i].file)))
			continue;
		NOTE("%s, way %d, %s", state_objects[i].file, way,
		     is_reboot ? "reboot" : "restart");
		agent_show_log(&agent);
	}
}

TAP_CASE()
{
	int n = 0;

	agent_make(&agent, ROWS2);
	if (!OK(agent_start(&agent) && (map = story_attach(&agent)) != NULL))
		return tap_done();
	for (size_t i = 0; i < KINDS; i++)
		EQ(state_objects[i].publish(), 0);
	for (size_t i = 0; i < KINDS; i++)
		get(i);
	for (int way = 0; way < 64; way += way < 20 ? 1 : 2) {
		one_round(way, 0, way % 4 < 2);
		one_round(way, 1, way % 4 >= 2);
		n += (int)KINDS;
	}
	NOTE("%d files were damaged", n);
	OK(n >= 150);
	stop(SIGTERM);
	agent_remove(&agent);
	return tap_done();
}

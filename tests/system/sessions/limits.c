/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Refusals and their words: every limit and every bad request, by hand and
 * through the library.  A refusal names what was wrong and what to do, and
 * leaves the connection as useful as it was.
 */

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gpumap/plan.h>

#include "gpumap.h"
#include "tests/support/agent.h"
#include "tests/support/raw.h"
#include "tests/support/tap.h"
#include "tests/support/users.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif
#define STRANGER 61357u /* a uid without a user */
#define MIB      (UINT64_C(1) << 20)

static const char config[] = "[socket]\n"
			     "mode = 0666\n"
			     "[host]\n"
			     "rows = 2\n"
			     "[limits]\n"
			     "connections-per-uid = 12\n"
			     "sessions-per-second = 10\n"
			     "sessions-per-uid = 3\n"
			     "arena = 64M\n"
			     "arena-per-uid = 96M\n"
			     "objects-per-uid = 3\n"
			     "pins-per-uid = 2\n"
			     "[map ours]\n"
			     "spec = 0:2;1:3\n";

static struct agent agent;
static char path[160];

/* ---- words ------------------------------------------------------------- */

/* Does the refusal have each of the words, which are parted by '|'? */
static bool says(const char *refusal, const char *words)
{
	bool all = true;

	while (*words) {
		size_t n = strcspn(words, "|");
		char word[64];

		snprintf(word, sizeof(word), "%.*s", (int)n, words);
		all = all && strstr(refusal, word);
		words += n + (words[n] == '|');
	}
	if (!all)
		NOTE("\"%s\"", refusal);
	return all;
}

/* One check: the status, the words, and that the agent still answers. */
static void refused(struct raw *c, const char *what, int got, int want,
		    const char *words)
{
	struct gm_list_ask after = { 0 };
	char refusal[sizeof(c->refusal)];

	memcpy(refusal, c->refusal, sizeof(refusal));
	if (got != want)
		NOTE("%s: got %d, want %d: %s", what, got, want, refusal);
	tap_check(got == want && says(refusal, words) &&
			  raw_ask(c, GM_CONTROL_LIST, &after, sizeof(after),
				  NULL, 0, NULL) == 0,
		  what, __FILE__, __LINE__);
}

/* ---- maps -------------------------------------------------------------- */

static const struct {
	const char *what;
	const char *name;
	const char *words;
} bad_names[] = {
	{ "no name", "", "" },
	{ "a blank in a name", "a b", "name|blanks" },
	{ "a line in a name", "a\nlevel=error", "name" },
	{ "an escape in a name", "\033[2J", "name" },
	{ "a name without an end",
	  "0123456789012345678901234567890123456789012345678901234567890123",
	  "" },
};

static void maps_are_checked(struct raw *c)
{
	for (size_t i = 0; i < sizeof(bad_names) / sizeof(bad_names[0]); i++)
		refused(c, bad_names[i].what,
			raw_publish(c, bad_names[i].name, 0, 1), -EINVAL,
			bad_names[i].words);
	/* The longest name. */
	EQ(raw_publish(c,
		       "012345678901234567890123456789012345678901234567890123"
		       "456789012",
		       0, 1),
	   0);
}

static int ask_object(struct raw *c, uint16_t type, uint32_t kind,
		      const char *name)
{
	struct gm_object_name object = { .kind = kind };

	memcpy(object.name, name, strnlen(name, sizeof(object.name)));
	return raw_ask(c, type, &object, sizeof(object), NULL, 0, NULL);
}

static void objects_are_looked_for(struct raw *c)
{
	struct gm_unpin unpin = { .claim = 12345 };

	refused(c, "release what there is not",
		ask_object(c, GM_CONTROL_RELEASE, GM_KIND_LAYERS, "nobody"),
		-ENOENT, "nothing|nobody");
	refused(c, "pin what there is not",
		ask_object(c, GM_CONTROL_PIN, GM_KIND_LAYERS, "nobody"),
		-ENOENT, "nothing|nobody");
	refused(c, "release a row",
		ask_object(c, GM_CONTROL_RELEASE, GM_KIND_ROW, "ours"), -EINVAL,
		"kind");
	refused(c, "pin a kind that there is not",
		ask_object(c, GM_CONTROL_PIN, 77, "ours"), -EINVAL, "kind 77");
	refused(c, "unpin what was not pinned",
		raw_ask(c, GM_CONTROL_UNPIN, &unpin, sizeof(unpin), NULL, 0,
			NULL),
		-ENOENT, "no pin 12345");
}

/* ---- pins ------------------------------------------------- */

static void pins_are_counted(struct raw *c)
{
	for (int i = 0; i < 2; i++)
		EQ(ask_object(c, GM_CONTROL_PIN, GM_KIND_LAYERS, "ours"), 0);
	refused(c, "a third pin",
		ask_object(c, GM_CONTROL_PIN, GM_KIND_LAYERS, "ours"), -EDQUOT,
		"2 pins|pins-per-uid");
}

/* ---- sessions ---------------------------------------------------------- */

static int open_with(struct raw *c, uint32_t depth, uint32_t flags,
		     uint64_t range)
{
	struct gm_session_open open = { depth, flags, range };

	return raw_ask(c, GM_CONTROL_SESSION_OPEN, &open, sizeof(open), NULL, 0,
		       NULL);
}

static void sessions_are_checked(void)
{
	struct gm_queue_open queue = { 0 };
	struct raw c;

	EQ(raw_open(&c, path), 0);
	refused(&c, "depth 8", open_with(&c, 8, 0, MIB), -EINVAL, "depth 8|16");
	refused(&c, "depth 2048", open_with(&c, 2048, 0, MIB), -EINVAL,
		"depth 2048|1024");
	refused(&c, "depth 48", open_with(&c, 48, 0, MIB), -EINVAL,
		"depth 48|power of two");
	refused(&c, "a flag that there is not",
		open_with(&c, 16, 0x80000000, MIB), -EINVAL, "0x80000000");
	refused(&c, "an arena over the session's limit",
		open_with(&c, 16, 0, 64 * MIB), -EDQUOT,
		"128 MiB|64 MiB|arena|gpumapd.conf");
	refused(&c, "an arena of all there is",
		open_with(&c, 16, 0, UINT64_MAX), -EDQUOT, "");
	refused(&c, "an arena whose sum over the rows wraps",
		open_with(&c, 16, 0, UINT64_C(1) << 63), -EDQUOT, "");
	refused(&c, "a queue before the session",
		raw_ask(&c, GM_CONTROL_QUEUE_OPEN, &queue, sizeof(queue), NULL,
			0, NULL),
		-EINVAL, "no session");
	refused(&c, "a request that there is not",
		raw_ask(&c, 999, NULL, 0, NULL, 0, NULL), -EOPNOTSUPP,
		"update gpumapd");

	EQ(raw_session(&c, 16, 0, MIB), 0);
	refused(&c, "a second session", open_with(&c, 16, 0, MIB), -EBUSY,
		"session already");
	refused(&c, "a row that there is not", raw_queue(&c, 2), -ENODEV,
		"row 2|0 to 1");
	refused(&c, "the row of all bits", raw_queue(&c, UINT32_MAX), -ENODEV,
		"row 4294967295");
	EQ(raw_queue(&c, 1), 0);
	refused(&c, "a queue twice", raw_queue(&c, 1), -EALREADY, "row 1");
	EQ(raw_queue(&c, 0), 0);
	raw_close(&c);
}

/* A field that a later agent may know, set and unset. */
static void bodies_may_grow(void)
{
	struct {
		struct gm_list_ask after;
		uint64_t later;
	} body = { .later = 0 };
	struct raw c;

	EQ(raw_open(&c, path), 0);
	EQ(raw_ask(&c, GM_CONTROL_LIST, &body, sizeof(body), NULL, 0, NULL), 0);
	body.later = 1;
	refused(&c, "a field that is not known",
		raw_ask(&c, GM_CONTROL_LIST, &body, sizeof(body), NULL, 0,
			NULL),
		-E2BIG, "field|update gpumapd");
	EQ(raw_ask(&c, GM_CONTROL_LIST, NULL, 0, NULL, 0, NULL), 0);
	raw_close(&c);
}

/* The agent learns of an end a moment later. */
static void wait_for_sessions(uint32_t n)
{
	uint64_t until = raw_now() + RAW_PATIENCE_NS;
	struct gm_list_reply reply = { 0 };
	struct raw c;

	EQ(raw_open(&c, path), 0);
	do {
		struct gm_list_ask after = { 0 };

		raw_nap(1000000);
		raw_ask(&c, GM_CONTROL_LIST, &after, sizeof(after), &reply,
			sizeof(reply), NULL);
	} while (reply.total != n && raw_now() < until);
	EQ(reply.total, n);
	raw_close(&c);
}

static void sessions_are_counted(void)
{
	struct raw c[4];

	wait_for_sessions(0);
	for (int i = 0; i < 4; i++)
		EQ(raw_open(&c[i], path), 0);
	for (int i = 0; i < 3; i++)
		EQ(raw_session(&c[i], 16, 0, 16 * MIB), 0);
	refused(&c[3], "a session over the limit", open_with(&c[3], 16, 0, MIB),
		-EUSERS, "3 sessions|sessions-per-uid|gpumapd.conf");
	raw_close(&c[2]);
	wait_for_sessions(2);
	refused(&c[3], "an arena over what the uid has left",
		open_with(&c[3], 16, 0, 17 * MIB), -EDQUOT,
		"64 MiB|34 MiB|96 MiB|arena-per-uid");
	EQ(open_with(&c[3], 16, 0, 16 * MIB), 0);
	for (int i = 0; i < 4; i++)
		raw_close(&c[i]);
	wait_for_sessions(0);
}

/* One that comes too late is told so, and costs nothing for long. */
static void connections_are_counted(void)
{
	struct raw c[12], late;

	for (int i = 0; i < 12; i++)
		EQ(raw_open(&c[i], path), 0);
	EQ(raw_open(&late, path), -EUSERS);
	OK(says(late.refusal, "12 connections|connections-per-uid"));
	OK(raw_wait_over(&late));
	raw_close(&late);
	for (int i = 0; i < 12; i++)
		raw_close(&c[i]);
}

static int count_fds(void)
{
	char dir_path[64];
	DIR *dir;
	int n = 0;

	snprintf(dir_path, sizeof(dir_path), "/proc/%d/fd", (int)agent.pid);
	dir = opendir(dir_path);
	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

/* Before Linux 6.16 a socket may carry descriptors of its sender.  The agent
 * therefore does not close the socket in the thread that answers new
 * connections, but soon after. */
static bool closes_at_once(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), off = 0;
	bool can = setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off,
			      sizeof(off)) == 0;

	close(fd);
	return can;
}

/* Nor do those cost much who come too late and say nothing at all. */
static void refused_ones_are_few(void)
{
	enum { MANY = 200 };
	static struct raw c[MANY];
	int held = count_fds(), most = 0, failed = 0;
	uint64_t until;

	for (int i = 0; i < MANY; i++)
		failed += raw_connect(&c[i], path) != 0;
	EQ(failed, 0);
	/* The last of them has been met when it has been turned away. */
	for (bool met = false; !met;) {
		int n = count_fds();

		met = raw_is_over(&c[MANY - 1]);
		most = n > most ? n : most;
		raw_nap(100000);
	}
	OK(held > 0);
	NOTE("%d descriptors at most, %d before", most, held);
	until = raw_now() + RAW_PATIENCE_NS;
	while (!closes_at_once() && most > held + 12 + 16 + 1 &&
	       raw_now() < until) {
		raw_nap(1000000);
		most = count_fds();
	}
	OK(most <= held + 12 + 16 + 1); /* and one that is at the door */
	for (int i = 0; i < MANY; i++)
		raw_close(&c[i]);
}

/* ---- credit ------------------------------------------------------------ */

static struct gpumap *attach(void)
{
	struct gpumap_attach_opts where = { .size = sizeof(where),
					    .instance = agent.instance,
					    .runtime_dir = agent.dir };
	struct gpumap *map = NULL;

	EQ(gpumap_attach(&where, &map), 0);
	return map;
}

/* ---- the library ------------------------------------------------------- */

static int publish(struct gpumap *map, const char *name, const char *spec,
		   uint32_t n_layers)
{
	struct gpumap_layers_request request = { .size = sizeof(request),
						 .name = name,
						 .spec = spec,
						 .n_layers = n_layers };

	return gpumap_layers_publish(map, &request);
}

static void the_library_says_the_same(struct gpumap *map)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = 64 * MIB };
	struct gpumap_session *s = NULL;
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	struct gpumap_view view;
	uint64_t pin;
	void *memory;

	EQ(gpumap_layers_view(map, "nobody", &view), -ENOENT);
	EQ(gpumap_layers_view(map, "", &view), -EINVAL);
	EQ(gpumap_layers_pin(map, "nobody", &view, &pin), -ENOENT);
	EQ(gpumap_layers_release(map, "nobody"), -ENOENT);
	OK(says(gpumap_refusal(map), "nothing|nobody"));
	EQ(publish(map, "m", "0:1;0:2", 0), -EINVAL);
	OK(says(gpumap_refusal(map), "Duplicate ordinal 0"));
	EQ(publish(map, "m", "0:1;5:2", 0), -ENODEV);
	OK(says(gpumap_refusal(map), "row 5|gpumapctl devices"));
	EQ(publish(map, "m", "0:81", 80), -EINVAL);
	OK(says(gpumap_refusal(map), "81|80"));
	EQ(gpumap_session_open(map, &opts, &s), -EDQUOT);
	OK(says(gpumap_refusal(map), "arena|gpumapd.conf"));
	opts.arena_bytes = MIB;
	EQ(gpumap_session_open(map, &opts, &s), 0);
	EQ(gpumap_alloc(s, 2, 64, &memory), -ENODEV);
	EQ(gpumap_submit(s, 2, &nop, 1), -ENODEV);
	EQ(gpumap_submit(s, UINT32_MAX, &nop, 1), -ENODEV);
	EQ(gpumap_alloc(s, 0, 2 * MIB, &memory), -ENOMEM);
	EQ(gpumap_alloc(s, 0, UINT64_MAX, &memory), -ENOMEM);
	gpumap_session_close(s);
	for (int error = 1; error < 200; error++) {
		if (gpumap_strerror(-error)[0] == '\0')
			OK(!"an error without a sentence");
	}
}

/* ---- others ------------------------------------------------------------ */

/* A refusal's place in a list of steps: 0, or @step where it is another. */
static int must(const struct raw *c, int step, int got, int want,
		const char *words)
{
	return got == want && (want == 0 || says(c->refusal, words)) ? 0 : step;
}

/* The agent's own uid may replace what others have published, and may publish
 * as much as there is room for; no other uid may. */
static int be_stranger(void)
{
	const char *const names[] = { "theirs", "two", "three" };
	struct raw c;
	int wrong = 0;

	wrong = must(&c, 2, raw_open(&c, path), 0, "");
	if (!wrong)
		wrong = must(&c, 3, raw_publish(&c, "ours", 0, 1), -EPERM,
			     "ours|belongs to uid 0|another name");
	if (!wrong)
		wrong = must(&c, 4,
			     ask_object(&c, GM_CONTROL_RELEASE, GM_KIND_LAYERS,
					"ours"),
			     -EPERM, "ours|belongs to uid 0");
	for (int i = 0; i < 3 && !wrong; i++)
		wrong = must(&c, 5, raw_publish(&c, names[i], 0, 1), 0, "");
	if (!wrong)
		wrong = must(&c, 6, raw_publish(&c, "four", 0, 1), -EDQUOT,
			     "3 objects|objects-per-uid");
	/* One in the place of another is no more than before. */
	if (!wrong)
		wrong = must(&c, 7, raw_publish(&c, "two", 1, 2), 0, "");
	if (!wrong)
		wrong = must(&c, 8,
			     ask_object(&c, GM_CONTROL_PIN, GM_KIND_LAYERS,
					"ours"),
			     0, "");
	/* One uid's use does not count for another uid. */
	if (!wrong)
		wrong = must(&c, 9, raw_session(&c, 16, 0, 16 * MIB), 0, "");
	if (!wrong)
		wrong = must(&c, 10, raw_queue(&c, 0), 0, "");
	fflush(stdout);
	return wrong;
}

static void names_have_owners(struct raw *c)
{
	const char *const names[] = { "theirs", "two", "three" };

	if (geteuid() != 0) {
		SKIP(4, "only root can become somebody else");
		return;
	}
	EQ(user_run(STRANGER, be_stranger), 0);
	for (int i = 0; i < 3; i++)
		EQ(ask_object(c, GM_CONTROL_RELEASE, GM_KIND_LAYERS, names[i]),
		   0);
}

/* Ten at once and ten a second: two more come no sooner than 200 ms after the
 * first, and they do come. */
static int be_hasty(void)
{
	uint64_t began = raw_now();
	struct raw c;
	int ret;

	for (int i = 0; i < 12; i++) {
		ret = raw_open_queue(&c, path, 0, 16, MIB);
		raw_close(&c);
		if (ret != 0)
			return 2;
	}
	return raw_now() - began >= UINT64_C(200000000) ? 0 : 3;
}

static void sessions_are_paced(void)
{
	uint64_t began;
	struct raw c;

	if (geteuid() != 0) {
		SKIP(2, "only root can become somebody else");
		return;
	}
	EQ(user_run(STRANGER, be_hasty), 0);
	/* One uid's haste is no other's delay. */
	began = raw_now();
	EQ(raw_open_queue(&c, path, 0, 16, MIB), 0);
	NOTE("another uid waited %.1f ms", (double)(raw_now() - began) / 1e6);
	raw_close(&c);
	wait_for_sessions(0);
}

TAP_CASE()
{
	struct gpumap *map;
	struct raw c;

	agent_make(&agent, config);
	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	if (!OK(agent_start(&agent))) {
		agent_show_log(&agent);
		return tap_done();
	}
	EQ(raw_open(&c, path), 0);
	maps_are_checked(&c);
	objects_are_looked_for(&c);
	names_have_owners(&c);
	raw_close(&c);
	sessions_are_checked();
	bodies_may_grow();
	sessions_are_counted();
	sessions_are_paced();
	connections_are_counted();
	refused_ones_are_few();
	map = attach();
	the_library_says_the_same(map);
	gpumap_detach(map);
	EQ(raw_open(&c, path), 0);
	EQ(ask_object(&c, GM_CONTROL_RELEASE, GM_KIND_LAYERS,
		      "012345678901234567890123456789012345678901234567890123"
		      "456789012"),
	   0);
	pins_are_counted(&c);
	raw_close(&c);
	EQ(agent_kill(&agent, SIGTERM), 0);
	if (tap_failures)
		agent_show_log(&agent);
	return tap_done();
}

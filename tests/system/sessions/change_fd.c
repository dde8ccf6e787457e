/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The descriptor of changes: quiet while nothing changes, readable after one
 * change and after many, after the agent's death at any instant, and good for
 * the next agent.  More connections than the agent answers at once all hear of
 * a change, and those that are gone cost it nothing.
 */

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/support/raw.h"
#include "tests/support/story.h"

#define WAITERS 600u /* more than twice GM_SEGMENT_WAKES */

static struct agent agent;
static struct gpumap *map, *other;
static char path[160];
static int fd;

static bool is_readable(int limit_ms)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, limit_ms) == 1 && (p.revents & POLLIN);
}

static bool becomes_readable(void)
{
	return is_readable((int)(STORY_LIMIT_NS / 1000000));
}

static int publish(const char *spec)
{
	struct gpumap_layers_request request = { .size = sizeof(request),
						 .name = "seen",
						 .spec = spec };

	return gpumap_layers_publish(other, &request);
}

/* Arm for the next change after now.  Returns the last answer of arming. */
static int arm(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int ret;

	do
		ret = gpumap_change_arm(map, gpumap_generation(map));
	while ((ret == 1 || ret == -ECONNREFUSED || ret == -ECONNRESET) &&
	       story_now() < until);
	return ret;
}

/* Arm and see that nothing wakes, unless something has changed. */
static bool is_quiet(void)
{
	for (int i = 0; i < 1000; i++) {
		uint32_t seen = gpumap_generation(map);

		if (gpumap_change_arm(map, seen) == 0 && !is_readable(0) &&
		    gpumap_generation(map) == seen)
			return true;
	}
	return false;
}

static void one_change_is_told(void)
{
	uint32_t seen;

	fd = gpumap_change_fd(map);
	OK(fd >= 0);
	EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	EQ(gpumap_change_fd(map), fd);
	OK(!is_readable(0)); /* not armed yet */
	OK(is_quiet());
	seen = gpumap_generation(map);
	EQ(arm(), 0);
	EQ(publish("0:3"), 0);
	OK(becomes_readable());
	EQ(gpumap_change_arm(map, seen), 1);
	OK(is_quiet());
	EQ(gpumap_change_fd(map), fd);
}

static void many_changes_wake_once(void)
{
	EQ(arm(), 0);
	for (int i = 0; i < 50; i++)
		EQ(publish(i % 2 ? "0:3" : "0:4"), 0);
	OK(becomes_readable());
	OK(is_quiet());
	/* A change between the look and the arming. */
	for (int i = 0; i < 50; i++) {
		uint32_t seen = gpumap_generation(map);

		EQ(publish(i % 2 ? "0:3" : "0:4"), 0);
		EQ(gpumap_change_arm(map, seen), 1);
	}
	OK(is_quiet());
}

/* A child has its parent's descriptor, and no use of it. */
static void a_child_has_none(void)
{
	pid_t child;
	int status = -1;

	EQ(arm(), 0);
	child = fork();
	if (child == 0)
		_exit(gpumap_change_fd(map) != -EOWNERDEAD ||
		      gpumap_change_arm(map, 0) != -EOWNERDEAD);
	OK(child > 0);
	EQ(waitpid(child, &status, 0), child);
	EQ(status, 0);
	EQ(publish("0:5"), 0);
	OK(becomes_readable());
	OK(is_quiet());
}

/* The dead agent's connection, which a child still has, says nothing more. */
static void a_death_is_told(void)
{
	pid_t child = fork();
	int ret;

	if (child == 0)
		pause();
	EQ(arm(), 0);
	agent_kill(&agent, SIGKILL);
	OK(becomes_readable());
	do /* workers' ends may have been published */
		ret = gpumap_change_arm(map, gpumap_generation(map));
	while (ret == 1);
	EQ(ret, -ECONNREFUSED);
	OK(gpumap_refusal(map)[0] != '\0');
	OK(!is_readable(0));
	EQ(gpumap_change_fd(map), fd);
	OK(agent_start(&agent));
	EQ(arm(), 0);
	OK(is_quiet());
	EQ(publish("0:6"), 0);
	OK(becomes_readable());
	OK(is_quiet());
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void a_death_in_the_middle_is_told(void)
{
	uint32_t seen;

	agent_kill(&agent, SIGTERM);
	agent.env[0] = "GM_POINT=change_told:kill";
	agent.env[1] = NULL;
	OK(agent_start(&agent));
	EQ(arm(), 0);
	seen = gpumap_generation(map);
	publish("0:7"); /* the answer may be lost */
	OK(becomes_readable());
	EQ(agent_wait(&agent), -SIGKILL);
	EQ(gpumap_change_arm(map, seen), 1);
	agent.env[0] = NULL;
	OK(agent_start(&agent));
	EQ(arm(), 0);
	OK(is_quiet());
}

static void records_are_checked(void)
{
	struct gm_change_ask ask = { .reserved = 1 };
	struct gm_change_reply reply;
	struct raw c;

	raw_init(&c);
	EQ(raw_open(&c, path), 0);
	EQ(raw_ask(&c, GM_CONTROL_CHANGE, &ask, sizeof(ask), &reply,
		   sizeof(reply), NULL),
	   -EINVAL);
	ask.reserved = 0;
	ask.seen = gpumap_generation(map) - 1;
	EQ(raw_ask(&c, GM_CONTROL_CHANGE, &ask, sizeof(ask), &reply,
		   sizeof(reply), NULL),
	   0);
	EQ(reply.generation, gpumap_generation(map));
	EQ(raw_session(&c, 16, 0, UINT64_C(1) << 20), 0);
	EQ(raw_ask(&c, GM_CONTROL_CHANGE, &ask, sizeof(ask), &reply,
		   sizeof(reply), NULL),
	   -EINVAL);
	raw_close(&c);
}

/* Has each of these connections one answer, that the map has changed? */
static bool all_hear(struct raw *c, uint32_t n, uint32_t before)
{
	struct gm_change_reply reply;
	struct gm_control header;
	int fds[GM_CONTROL_FDS_MAX];

	for (uint32_t i = 0; i < n; i++)
		if (raw_receive(&c[i], &header, &reply, sizeof(reply), fds) !=
			    (int)sizeof(reply) ||
		    header.status != 0 || reply.generation == before)
			return false;
	return true;
}

static void ask(struct raw *c, uint32_t seen)
{
	struct gm_change_ask body = { .seen = seen };
	struct raw_record record = {
		.header = raw_header(c, GM_CONTROL_CHANGE, sizeof(body), 0),
		.body = &body,
		.body_bytes = sizeof(body),
	};

	raw_send(c, &record, 0);
}

static void all_of_many_are_told(void)
{
	static struct raw c[WAITERS];
	int held = story_holds_at_rest(agent.pid);
	uint32_t seen = gpumap_generation(map);
	bool open = true;

	for (uint32_t i = 0; i < WAITERS; i++) {
		raw_init(&c[i]);
		open = open && raw_open(&c[i], path) == 0;
	}
	OK(open);
	for (int round = 0; open && round < 3; round++) {
		seen = gpumap_generation(map);
		for (uint32_t i = 0; i < WAITERS; i++)
			ask(&c[i], seen);
		EQ(publish(round % 2 ? "0:3" : "0:4"), 0);
		OK(all_hear(c, WAITERS, seen));
	}
	/* Half of them leave while they wait. */
	seen = gpumap_generation(map);
	for (uint32_t i = 0; i < WAITERS; i++)
		ask(&c[i], seen);
	for (uint32_t i = WAITERS / 2; i < WAITERS; i++)
		raw_close(&c[i]);
	EQ(publish("0:5"), 0);
	OK(all_hear(c, WAITERS / 2, seen));
	for (uint32_t i = 0; i < WAITERS / 2; i++)
		raw_close(&c[i]);
	OK(story_gives_back(agent.pid, held));
}

TAP_CASE()
{
	struct rlimit files;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	agent_make(&agent, "[host]\nrows = 1\n[limits]\nconnections = 2000\n"
			   "connections-per-uid = 2000\n");
	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	if (!OK(agent_start(&agent)))
		return tap_done();
	map = story_attach(&agent);
	other = story_attach(&agent);
	if (OK(map && other)) {
		one_change_is_told();
		many_changes_wake_once();
		a_child_has_none();
		records_are_checked();
		all_of_many_are_told();
		a_death_is_told();
		if (tap_has_points())
			a_death_in_the_middle_is_told();
		else
			SKIP(1, "needs --enable-testpoints");
	}
	gpumap_detach(other);
	story_finish(&agent, map);
	return tap_done();
}

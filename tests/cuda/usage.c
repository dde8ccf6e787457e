/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * How much of a device's memory a user has: users share it, however many
 * sessions each of them opens, and the agent reports each user's part.
 */

#include <sys/wait.h>

#include "tests/support/cuda_agent.h"
#include "tests/support/ctl.h"

#define STRANGER 61357u /* a uid without a user */

static struct cuda_scene scene;
static struct gpumap *map;

/* ---- means ------------------------------------------------------------- */

static struct gpumap_session *session_open(struct gpumap *of)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = MIB };
	struct gpumap_session *session = NULL;

	return gpumap_session_open(of, &opts, &session) == 0 ? session : NULL;
}

static int take(struct gpumap_session *session, uint64_t mib, uint32_t flags,
		uint64_t *ret_buffer)
{
	return gpumap_buffer_alloc(session, 0, mib * MIB, flags,
				   GPUMAP_NO_DEADLINE, ret_buffer);
}

/* The one of this uid that has or had a session, or has none. */
static struct gpumap_usage usage_of(uint32_t uid, bool has_session)
{
	struct gpumap_usage list[16] = { { .size = sizeof(list[0]) } };
	struct gpumap_usage none = { .row = UINT32_MAX };
	int n = gpumap_usage_list(map, list, 16);

	for (int i = 0; i < n && i < 16; i++) {
		if (list[i].uid == uid && (list[i].session != 0) == has_session)
			return list[i];
	}
	return none;
}

/* Bytes of row 0 that all sessions of a uid have. */
static uint64_t has(uint32_t uid)
{
	struct gpumap_usage list[16] = { { .size = sizeof(list[0]) } };
	int n = gpumap_usage_list(map, list, 16);
	uint64_t bytes = 0;

	for (int i = 0; i < n && i < 16; i++) {
		if (list[i].uid == uid && list[i].row == 0)
			bytes += list[i].bytes;
	}
	return bytes;
}

/* A session that was closed is told of until its worker has let go of it. */
static void nobody_has_anything(void)
{
	STORY_WAIT_WHILE(gpumap_usage_list(map, NULL, 0) != 0);
	EQ(gpumap_usage_list(map, NULL, 0), 0);
}

/* Another user's process, which takes as many MiB as it reads each time; 0 ends
 * it. */
struct stranger {
	pid_t pid;
	int ask;
	int answer;
};

static void be_stranger(int ask, int answer)
{
	struct gpumap *theirs;
	struct gpumap_session *session;
	uint64_t mib, buffer;
	int ret;

	if (setgid(STRANGER) != 0 || setuid(STRANGER) != 0)
		_exit(1);
	theirs = story_attach(&agent);
	session = theirs ? session_open(theirs) : NULL;
	if (session == NULL)
		_exit(2);
	while (read(ask, &mib, sizeof(mib)) == sizeof(mib) && mib != 0) {
		ret = take(session, mib, 0, &buffer);
		if (write(answer, &ret, sizeof(ret)) != sizeof(ret))
			_exit(3);
	}
	_exit(0);
}

static bool stranger_comes(struct stranger *s)
{
	int ask[2], answer[2];

	if (geteuid() != 0 || pipe(ask) != 0 || pipe(answer) != 0)
		return false;
	fflush(stdout);
	s->pid = fork();
	if (s->pid == 0)
		be_stranger(ask[0], answer[1]);
	close(ask[0]);
	close(answer[1]);
	s->ask = ask[1];
	s->answer = answer[0];
	return s->pid > 0;
}

static int stranger_takes(const struct stranger *s, uint64_t mib)
{
	int ret = 0;

	if (write(s->ask, &mib, sizeof(mib)) != sizeof(mib) ||
	    read(s->answer, &ret, sizeof(ret)) != sizeof(ret))
		return -EPIPE;
	return ret;
}

static void stranger_goes(const struct stranger *s)
{
	uint64_t none = 0;
	int status = -1;

	EQ(write(s->ask, &none, sizeof(none)), sizeof(none));
	waitpid(s->pid, &status, 0);
	EQ(status, 0);
	close(s->ask);
	close(s->answer);
}

/* ---- stories ----------------------------------------------------------- */

/* The card has 640 MiB, so a user may have 320. */
static void sessions_of_a_user_share(void)
{
	struct gpumap_session *a = session_open(map), *b = session_open(map);
	uint64_t until = story_now() + STORY_LIMIT_NS, x, y, z;
	struct stranger s;

	if (!OK(a != NULL && b != NULL))
		return;
	EQ(take(a, 100, 0, &x), 0);
	EQ(take(b, 100, 0, &y), 0);
	EQ(take(a, 150, 0, &z), -EDQUOT);
	EQ(take(b, 150, 0, &z), -EDQUOT);
	EQ(has(geteuid()), 200 * MIB);

	if (stranger_comes(&s)) {
		EQ(stranger_takes(&s, 60), 0);
		EQ(has(STRANGER), 60 * MIB);
		EQ(take(a, 100, 0, &z), 0);
		/* Its own share is not used up; the device is. */
		EQ(stranger_takes(&s, 80), -ENOMEM);
		EQ(gpumap_buffer_free(a, z), 0);
		EQ(stranger_takes(&s, 400), -EDQUOT);
		stranger_goes(&s);
	} else {
		SKIP(8, "this needs root, to be somebody else");
	}

	/* Memory that one user gives back is free for the others. */
	EQ(gpumap_buffer_free(a, x), 0);
	EQ(take(b, 120, 0, &x), 0);
	EQ(take(a, 150, 0, &z), -EDQUOT);
	gpumap_session_close(b);
	while (has(geteuid()) != 0 && story_now() < until)
		story_nap(1000);
	EQ(take(a, 300, 0, &z), 0);
	EQ(has(geteuid()), 300 * MIB);
	gpumap_session_close(a);
	nobody_has_anything();
}

/* The dead client's memory is free again, whatever the row says at that
 * moment. */
static void a_share_outlives_the_worker(void)
{
	struct gpumap_session *a = session_open(map), *b = session_open(map);
	struct gpumap_device device;
	uint64_t x;

	if (!OK(a != NULL && b != NULL))
		return;
	EQ(take(a, 150, 0, &x), 0);
	EQ(take(b, 150, 0, &x), 0);
	device = story_device(map, 0);
	kill((pid_t)device.worker_pid, SIGKILL);
	OK(story_back(map, 0, device.restarts));
	EQ(has(geteuid()), 0);
	EQ(take(a, 150, 0, &x), 0);
	EQ(take(b, 150, 0, &x), 0);
	EQ(take(b, 100, 0, &x), -EDQUOT);
	EQ(has(geteuid()), 300 * MIB);
	gpumap_session_close(a);
	gpumap_session_close(b);
	nobody_has_anything();
}

static void what_is_lent_is_told(void)
{
	struct gpumap_session *owner = session_open(map), *other;
	uint64_t until = story_now() + STORY_LIMIT_NS, x, id, theirs;
	struct gpumap_usage u;

	other = session_open(map);
	if (!OK(owner != NULL && other != NULL))
		return;
	EQ(take(owner, 10, GPUMAP_BUFFER_EXPORTABLE, &x), 0);
	EQ(gpumap_buffer_export(owner, x, &id), 0);
	EQ(usage_of(geteuid(), true).lent_bytes, 0);
	EQ(gpumap_buffer_import(other, id, 0, &theirs), 0);
	u = usage_of(geteuid(), true);
	EQ(u.bytes, 10 * MIB);
	EQ(u.lent_bytes, 10 * MIB);
	EQ(u.importers, 1);
	EQ(u.pid, getpid());
	EQ(usage_of(geteuid(), false).row, UINT32_MAX);

	EQ(CTL("who", "--json"), DONE);
	OK(strstr(out, "\"lent_bytes\":10485760") != NULL);
	OK(strstr(out, "\"borrowed_bytes\":10485760") != NULL);
	EQ(CTL("who"), DONE);
	OK(strstr(out, "borrowed") != NULL);

	/* Its session is gone, and it is charged all the same. */
	gpumap_session_close(owner);
	while (usage_of(geteuid(), false).bytes == 0 && story_now() < until)
		story_nap(1000);
	u = usage_of(geteuid(), false);
	EQ(u.session, 0);
	EQ(u.pid, 0);
	EQ(u.row, 0);
	EQ(u.bytes, 10 * MIB);
	EQ(u.lent_bytes, 10 * MIB);
	EQ(u.importers, 1);
	EQ(usage_of(geteuid(), true).borrowed_bytes, 10 * MIB);
	EQ(CTL("who", "--json"), DONE);
	OK(strstr(out, "\"session\":null") != NULL);
	gpumap_session_close(other);
	nobody_has_anything();
}

/* More than one reply's worth. */
static void many_are_listed(void)
{
	static struct gpumap_usage list[200];
	struct gpumap_session *sessions[70];
	bool is_sorted = true;
	uint64_t x;

	for (int i = 0; i < 70; i++) {
		sessions[i] = session_open(map);
		if (!sessions[i] || take(sessions[i], 1, 0, &x) != 0)
			exit(99);
	}
	list[0].size = sizeof(list[0]);
	EQ(gpumap_usage_list(map, list, 200), 70);
	for (int i = 1; i < 70; i++)
		is_sorted = is_sorted && list[i].session > list[i - 1].session;
	OK(is_sorted);
	EQ(list[69].size, sizeof(list[0]));
	EQ(gpumap_usage_list(map, list, 3), 70);
	list[0].size = 4097;
	EQ(gpumap_usage_list(map, list, 3), -E2BIG);
	list[0].size = 8;
	EQ(gpumap_usage_list(map, list, 3), -EINVAL);
	for (int i = 0; i < 70; i++)
		gpumap_session_close(sessions[i]);
}

TAP_CASE()
{
	if (!cuda_scene_make(&scene, "small.yaml", NULL))
		return tap_done();
	cuda_scene_agent(&scene, &agent, "",
			 "[socket]\nmode = 0666\n[limits]\n"
			 "sessions-per-uid = 100\n");
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent)))) {
		sessions_of_a_user_share();
		a_share_outlives_the_worker();
		what_is_lent_is_told();
		many_are_listed();
	}
	story_finish(&agent, map);
	agent_remove(&agent);
	cuda_scene_end(&scene);
	return tap_done();
}

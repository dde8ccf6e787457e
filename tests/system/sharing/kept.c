/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Shares that stay without a session: how they are found, charged and ended,
 * and which users may keep some.
 */

#include "tests/support/share_sessions.h"

static const char nobody_else[] = "[socket]\n"
				  "mode = 0666\n"
				  "[host]\n"
				  "rows = 2\n";
static const char one_each[] = "[socket]\n"
			       "mode = 0666\n"
			       "[host]\n"
			       "rows = 2\n"
			       "[limits]\n"
			       "kept-shares-per-uid = 1\n";

/* One buffer of row 0, with a value in it. */
static int keep(struct gpumap_session *owner, const char *name, uint32_t value,
		uint32_t flags)
{
	uint64_t buffer, id;
	int ret = make(owner, 0, value, &buffer);

	return ret ? ret
		   : share(owner, name, &buffer, 1, flags | GPUMAP_SHARE_KEEP,
			   &id);
}

static int64_t found(const char *name, uint32_t flags)
{
	struct gpumap_session *reader = session_open(map);
	uint64_t id;
	int64_t ret = gpumap_share_open(reader, name, flags, NULL, &id);

	if (ret == 0)
		ret = value_at(reader, id, 0);
	gpumap_session_close(reader);
	return ret;
}

/* Its user is charged for it, and the list names no process. */
static void stays(const char *name)
{
	struct gpumap_share_info info;
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (shared(name).n_holders > 0 && story_now() < until)
		story_nap(1000);
	info = shared(name);
	EQ(strcmp(info.name, name), 0);
	EQ(info.n_holders, 0);
	EQ(info.pid, 0);
	OK(info.flags & GPUMAP_SHARE_KEEP);
	comes_to_be_left(BYTES);
}

static void it_stays_without_a_session(void)
{
	struct gpumap_session *owner = session_open(map);

	EQ(gpumap_share_release(map, "kept"), -ENOENT);
	EQ(keep(owner, "kept", 7, 0), 0);
	EQ(shared("kept").n_holders, 1);
	gpumap_session_close(owner);
	stays("kept");
	for (int i = 0; i < 3; i++)
		EQ(found("kept", 0), 7);
	stays("kept");
	owner = session_open(map);
	EQ(keep(owner, "kept", 8, 0), -EEXIST);
	gpumap_session_close(owner);
	EQ(gpumap_share_release(map, "kept"), 0);
	EQ(found("kept", 0), -ENOENT);
	settles(0, 0);
}

/* Imported memory outlives the name, as of any share. */
static void it_ends_while_it_is_open(void)
{
	struct gpumap_session *owner = session_open(map);
	struct gpumap_session *reader = session_open(map);
	struct gpumap_export_info part = { .size = sizeof(part) };
	uint64_t id, buffer;

	EQ(keep(owner, "kept", 7, GPUMAP_SHARE_READ_ONLY), 0);
	gpumap_session_close(owner);
	EQ(gpumap_share_open(reader, "kept", GPUMAP_SHARE_READ_ONLY, NULL, &id),
	   0);
	EQ(gpumap_share_buffer(reader, id, 0, &part, &buffer), 0);
	EQ(gpumap_share_release(map, "kept"), 0);
	EQ(shares_n(), 0);
	EQ(value_of(reader, part.row, buffer), 7);
	gpumap_session_close(reader);
	settles(0, 0);
}

/* A holder that closes it by a call is as one that has ended. */
static void closing_it_is_not_ending_it(void)
{
	struct gpumap_session *owner = session_open(map);
	uint64_t buffer, id;

	EQ(make(owner, 0, 7, &buffer), 0);
	EQ(share(owner, "kept", &buffer, 1, GPUMAP_SHARE_KEEP, &id), 0);
	EQ(gpumap_share_close(owner, id), 0);
	EQ(shares_n(), 1);
	EQ(gpumap_buffer_free(owner, buffer), 0);
	gpumap_session_close(owner);
	stays("kept");
	EQ(found("kept", 0), 7);
	EQ(gpumap_share_release(map, "kept"), 0);
	settles(0, 0);
}

static int share_one(struct gpumap_session *session, const char *name)
{
	uint64_t buffer, id;
	int ret = make(session, 0, 1, &buffer);

	return ret ? ret : share(session, name, &buffer, 1, 0, &id);
}

/* As the user of this process. */
static int release(const char *name)
{
	struct gpumap *own = story_attach(&agent);
	int ret = gpumap_share_release(own, name);

	gpumap_detach(own);
	return ret;
}

static int64_t keeper_plays(struct gpumap_session *session, struct line *line)
{
	switch (line->what) {
	case 'k':
		return keep(session, line->name, (uint32_t)line->value, 0);
	case 's':
		return share_one(session, line->name);
	case 'c':
		return gpumap_share_claim(session, line->name,
					  (uint32_t)line->value, NULL, 0);
	case 'r':
		return release(line->name);
	case 'o':
		return gpumap_share_open(session, line->name, 0, NULL,
					 &(uint64_t){ 0 });
	default:
		return -ENOSYS;
	}
}

static void its_maker_is_killed(void)
{
	struct player keeper = player_start(0, keeper_plays);

	EQ(tell(&keeper, 'k', "kept", 9), 0);
	player_end(&keeper, SIGKILL);
	stays("kept");
	EQ(found("kept", 0), 9);
	EQ(gpumap_share_release(map, "kept"), 0);
	settles(0, 0);
}

/* The memory of a host row is the agent's, too; that of a card ends with its
 * worker, and so does the name. */
static void a_worker_dies(void)
{
	struct gpumap_session *owner = session_open(map);
	struct gpumap_device device = story_device(map, 0);

	EQ(keep(owner, "kept", 7, 0), 0);
	gpumap_session_close(owner);
	stays("kept");
	kill((pid_t)device.worker_pid, SIGKILL);
#ifndef STAGE_CUDA
	OK(story_back(map, 0, device.restarts));
	EQ(found("kept", 0), 7);
	EQ(gpumap_share_release(map, "kept"), 0);
#endif
	settles(0, 0);
}

/* ---- other users --------------------------------------------------------- */

static void others_may_keep_none(void)
{
	struct gpumap_session *owner = session_open(map);
	struct player stranger;

	EQ(gpumap_share_claim(owner, "mine", GPUMAP_SHARE_KEEP, NULL, 0), 0);
	EQ(keep(owner, "kept", 7, GPUMAP_SHARE_READ_ONLY), 0);
	gpumap_session_close(owner);
	if (geteuid() == 0) {
		stranger = player_start(STRANGER, keeper_plays);
		EQ(tell(&stranger, 'k', "theirs", 1), -EPERM);
		EQ(tell(&stranger, 'c', "theirs", GPUMAP_SHARE_KEEP), -EPERM);
		EQ(tell(&stranger, 'c', "theirs", 0), 0);
		EQ(tell(&stranger, 'o', "kept", 0), -EACCES);
		EQ(tell(&stranger, 'r', "kept", 0), -EPERM);
		EQ(shares_n(), 1);
		player_end(&stranger, 0);
	} else {
		SKIP(6, "this needs root, to be another user");
	}
	EQ(gpumap_share_release(map, "kept"), 0);
	settles(0, 0);
}

static void others_keep_as_many_as_they_may(void)
{
	struct player stranger;

	if (geteuid() != 0) {
		SKIP(1, "this needs root, to be another user");
		return;
	}
	stranger = player_start(STRANGER, keeper_plays);
	/* One that ends with its session does not count. */
	EQ(tell(&stranger, 's', "plain", 1), 0);
	EQ(tell(&stranger, 'k', "one", 1), 0);
	EQ(tell(&stranger, 'k', "two", 1), -EDQUOT);
	EQ(tell(&stranger, 'c', "two", GPUMAP_SHARE_KEEP), -EDQUOT);
	player_end(&stranger, SIGKILL);
	stays("one");
	EQ(shared("one").uid, STRANGER);
	stranger = player_start(STRANGER, keeper_plays);
	EQ(tell(&stranger, 'k', "two", 1), -EDQUOT);
	EQ(tell(&stranger, 'r', "one", 0), 0);
	EQ(tell(&stranger, 'k', "two", 1), 0);
	player_end(&stranger, 0);
	stays("two");
	/* The agent's own user may end what it has not made. */
	EQ(gpumap_share_release(map, "two"), 0);
	settles(0, 0);
}

/* ---- all of it ----------------------------------------------------------- */

static bool begin(const char *more)
{
	shares_stage("", more);
	return OK(agent_start(&agent)) && OK((map = story_attach(&agent)));
}

/* An agent that ends with a kept share leaves nothing of it: agent_kill()
 * looks at that. */
static void end(void)
{
	struct gpumap_session *owner = session_open(map);

	EQ(keep(owner, "last", 1, 0), 0);
	gpumap_session_close(owner);
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	if (tap_failures)
		agent_show_log(&agent);
}

TAP_CASE()
{
	if (begin(nobody_else)) {
		it_stays_without_a_session();
		it_ends_while_it_is_open();
		closing_it_is_not_ending_it();
		its_maker_is_killed();
		a_worker_dies();
		others_may_keep_none();
		end();
	}
	if (begin(one_each)) {
		others_keep_as_many_as_they_may();
		end();
	}
	stage_end(&agent);
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Requests of ranks to join or leave a group that the library never sends: the
 * agent refuses them, and goes on.
 */

#include "tests/support/mesh_agent.h"
#include "tests/support/raw.h"

static struct agent agent;
static struct gpumap *map;
static struct raw raw;

/* Rank 1, which has no id to tell. */
static struct gm_join a_rank(uint64_t timeout_ns)
{
	return (struct gm_join){ .mesh = "m",
				 .group = "tp_0",
				 .epoch = mesh_group(map, "tp_0").epoch,
				 .timeout_ns = timeout_ns,
				 .rank = 1,
				 .version = NCCL_NOW };
}

static int ask(const struct gm_join *join, const char *tail, uint32_t bytes)
{
	return raw_ask_tail(&raw, GM_CONTROL_JOIN, join, sizeof(*join), tail,
			    bytes);
}

static void fields_are_checked(void)
{
	const struct gm_join good = a_rank(1);
	struct gm_join bad[8];

	for (int i = 0; i < 8; i++)
		bad[i] = good;
	memset(bad[0].mesh, 'm', sizeof(bad[0].mesh));
	memset(bad[1].group, 't', sizeof(bad[1].group));
	bad[2].reserved = 1;
	bad[3].reserved2 = 1;
	bad[4].version = 0;
	bad[5].rank = UINT32_MAX;
	bad[6].mesh[0] = '\0';
	bad[7].group[0] = '\0';
	for (int i = 0; i < 8; i++)
		EQ(ask(&bad[i], NULL, 0), i < 5    ? -EINVAL
					  : i == 5 ? -ERANGE
						   : -ENOENT);
}

/* An id of who is not rank 0, none of rank 0, one that is too long. */
static void ids_are_rank_0s(void)
{
	const char tail[GM_JOIN_ID_BYTES + 1] = "";
	struct gm_join join = a_rank(1);

	EQ(ask(&join, tail, GM_JOIN_ID_BYTES), -EINVAL);
	join.rank = 0;
	EQ(ask(&join, NULL, 0), -EINVAL);
	EQ(ask(&join, tail, sizeof(tail)), -EINVAL);
}

static void nobody_leaves_who_is_not_there(void)
{
	struct gm_leave leave = { .ticket = 1, .broken = 2 };

	EQ(raw_ask(&raw, GM_CONTROL_LEAVE, &leave, sizeof(leave), NULL, 0,
		   NULL),
	   -EINVAL);
	leave.broken = 1;
	EQ(raw_ask(&raw, GM_CONTROL_LEAVE, &leave, sizeof(leave), NULL, 0,
		   NULL),
	   -ENOENT);
}

/* However short it would wait; and twice, not waiting for the answer, and
 * gone. */
static void who_does_not_wait_is_let_go(void)
{
	const char tail[GM_JOIN_ID_BYTES] = "";
	struct gm_join join = a_rank(0);
	struct raw_record record = {
		.header = raw_header(&raw, GM_CONTROL_JOIN, sizeof(join),
				     sizeof(tail)),
		.body = &join,
		.body_bytes = sizeof(join),
		.tail = tail,
		.tail_bytes = sizeof(tail),
	};

	join.rank = 0;
	EQ(ask(&join, tail, sizeof(tail)), -ETIMEDOUT);
	join = a_rank(UINT64_MAX);
	join.rank = 0;
	EQ(raw_send(&raw, &record, 0), 0);
	EQ(raw_send(&raw, &record, 0), 0);
	raw_close(&raw);
	EQ(mesh_group(map, "tp_0").epoch, (intmax_t)join.epoch);
}

static void story(void)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	raw_init(&raw);
	EQ(raw_open(&raw, path), 0);
	fields_are_checked();
	ids_are_rank_0s();
	nobody_leaves_who_is_not_there();
	who_does_not_wait_is_let_go();
}

TAP_CASE()
{
	agent_make(&agent, "[host]\nrows = 4\n");
	if (OK(agent_start(&agent)) &&
	    OK((map = story_attach(&agent)) != NULL) &&
	    EQ(mesh_publish(map), 0)) {
		story();
		story_finish(&agent, map);
	}
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}

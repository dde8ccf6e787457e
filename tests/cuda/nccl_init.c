/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Cards that meet, or leave, beside other work, by the stand-in for NCCL: a
 * meeting delays no row that has to leave, one that cannot meet keeps no rank
 * waiting, and a rank that leaves does not count as hung.
 */

#define STAGE_CUDA 1

#include "shm/journal.h"
#include "tests/support/collective_nccl.h"

/* The sender has ended before its receivers. */
static const struct shape spread = { .op = GPUMAP_OP_BROADCAST,
				     .dtype = GPUMAP_DTYPE_I32,
				     .n = MIB / 4 + 3 };

static char uuid[4][FAKE_UUID_TEXT]; /* of the cards' rows */

static void learn_uuids(void)
{
	for (uint32_t row = 0; row < 4; row++) {
		struct gpumap_device device = story_device(map, row);
		uint32_t gpu = cuda_scene_gpu(&stage_scene, &device);

		fake_uuid_print(&stage_scene.hw.board->gpus[gpu], uuid[row]);
	}
}

/* NCCL is told @all, and at one row @one, too. */
static bool begin(const char *all, uint32_t row, const char *one,
		  const char *cuda)
{
	char fault[112];

	snprintf(fault, sizeof(fault), "%s%sonly=%s %s", all, *all ? " " : "",
		 uuid[row], one);
	return nccl_begin(fault, cuda);
}

static bool open_other(struct gpumap_session **ret_session)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .flags = GPUMAP_SESSION_SPARSE,
					    .arena_bytes = 40 * MIB };

	return EQ(gpumap_session_open(map, &opts, ret_session), 0);
}

/* ---- who cannot meet ----------------------------------------------------- */

/* One of four says so at once: the others do not go on for a minute, and then
 * all rows are free for others. */
static void nobody_waits_for_who_fails(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_session *other;
	struct gpumap_comm *more[GM_JOURNAL_NCCL_GROUPS];
	struct ranks a, b;

	if (!begin("", 2, "refuse", "nccl = yes\nnccl-limit = 60s\n") ||
	    !nccl_open(session, "cards", 10 * MIB, &a) || !open_other(&other))
		return;
	OK(story_now() < until);
	EQ(gpumap_comm_flags(a.comm), 0);
	EQ(cards_once(&a, &whole, 97), 0);
	/* As many as can meet on a row, which these will not. */
	for (uint32_t i = 0; i < GM_JOURNAL_NCCL_GROUPS; i++) {
		EQ(gpumap_comm_open_opts(session, "cards", NULL, &by_nccl,
					 &more[i]),
		   0);
		EQ(gpumap_comm_flags(more[i]), 0);
	}
	if (nccl_open(other, "two", 10 * MIB, &b)) {
		nccl_is_well(&b);
		nccl_close(&b);
	}
	EQ(cards_once(&a, &whole, 97), 0);
	for (uint32_t i = 0; i < GM_JOURNAL_NCCL_GROUPS; i++)
		EQ(gpumap_comm_close(more[i]), 0);
	nccl_close(&a);
	gpumap_session_close(other);
	nccl_end();
}

/* A name to meet by is a thread of who made it until all have come. */
static void no_name_is_made_for_nothing(void)
{
	struct ranks g;

	if (!begin("tells", 1, "version=21903", "nccl = yes\n"))
		return;
	if (nccl_open(session, "cards", MIB, &g)) {
		EQ(gpumap_comm_flags(g.comm), 0);
		nccl_close(&g);
	}
	OK(!agent_logged(&agent, "nccl id"));
	nccl_end();
}

/* One does not come back from a meeting that has failed. */
static void who_hangs_is_ended(void)
{
	uint64_t until;
	struct gpumap_comm *comm = NULL;
	uint32_t restarts;

	/* Long enough for the others to begin on a loaded machine. */
	if (!begin("absent", 1, "abort=90000", "nccl = yes\nnccl-limit = 5s\n"))
		return;
	restarts = story_device(map, 1).restarts;
	until = story_now() + 2 * STORY_LIMIT_NS;
	OK(gpumap_comm_open_opts(session, "cards", NULL, &by_nccl, &comm) < 0);
	OK(story_now() < until);
	OK(agent_logged(&agent, "giving up to meet other cards"));
	OK(story_back(map, 1, restarts));
	EQ(gpumap_comm_close(comm), 0);
	nccl_end();
}

/* ---- who leaves ---------------------------------------------------------- */

/* Some of the ranks meet in another group while all have to leave this one.  On
 * a busy machine a rank may be ended before it comes to that. */
static bool leave_beside_a_meeting(void)
{
	struct gpumap_comm *two = NULL;
	bool stays = true;
	struct ranks g;
	int ret;

	if (!nccl_begin("slow=3000 together tells", "nccl = yes\n"))
		return true;
	if (nccl_open(session, "cards", 20 * MIB, &g)) {
		EQ(gpumap_comm_flags(g.comm), GPUMAP_COMM_NCCL);
		nccl_slow_down(1, 600);
		g.deadline_ns = story_now() + 300000000;
		EQ(cards_submit(&g, &spread, 3), 0);
		ret = gpumap_comm_open_opts(session, "two", NULL, &by_nccl,
					    &two);
		OK(ret == 0 || agent_logged(&agent, "event=worker_killed"));
		EQ(collective_end(session, 3), -ETIME);
		cuda_scene_mend(&stage_scene);
		stays = nccl_one_stays();
		if (ret == 0)
			EQ(gpumap_comm_close(two), 0);
		nccl_close(&g);
	}
	nccl_end();
	return stays;
}

/* A card that is drained while its group rests. */
static bool leave_at_rest(void)
{
	struct nccl_drain drain;
	bool stays = true;
	struct ranks g;

	if (!nccl_begin("together tells", "nccl = yes\n"))
		return true;
	if (nccl_open(session, "cards", 20 * MIB, &g)) {
		nccl_is_well(&g);
		if (nccl_drain_begin(1, &drain)) {
			stays = nccl_one_stays();
			nccl_close(&g);
			nccl_leave_session();
			EQ(nccl_drain_end(&drain), 0);
		}
	}
	nccl_end();
	return stays;
}

/* gpumapd gives an abort ten seconds: a machine that stands still for so long
 * may make it end one of those that wait, but not always. */
static void all_leave(bool (*leave)(void))
{
	int tries = 0;

	while (tries < 5 && leave())
		tries++;
	OK(tries < 5);
}

/* To leave takes as long as what another session's jobs have on the card. */
static void who_waits_for_a_stranger(void)
{
	struct gpumap_job job = { .op = GPUMAP_OP_COPY,
				  .dtype = GPUMAP_DTYPE_U8,
				  .n = 64 };
	struct gpumap_session *other;
	uint64_t buffer;
	struct ranks g;
	void *memory;

	if (!begin("", 1, "async=1 abort=12000", "nccl = yes\n") ||
	    !open_other(&other) || !nccl_open(session, "cards", 10 * MIB, &g) ||
	    !EQ(gpumap_alloc(other, 1, 64, &memory), 0) ||
	    !EQ(gpumap_buffer_alloc(other, 1, 64, 0,
				    story_now() + STORY_LIMIT_NS, &buffer),
		0))
		return;
	EQ(gpumap_comm_flags(g.comm), GPUMAP_COMM_NCCL);
	nccl_slow_down(1, 1000);
	job.src = memory;
	job.dst_buffer = buffer;
	for (uint64_t i = 0; i < 13; i++) {
		job.cookie = i;
		EQ(gpumap_submit(other, 1, &job, 1), 0);
	}
	EQ(cards_submit(&g, &whole, 1), 0);
	EQ(collective_end(session, 1), -EIO);
	for (uint64_t i = 0; i < 13; i++)
		EQ(collective_end(other, i), 0);
	cuda_scene_mend(&stage_scene);
	OK(!agent_logged(&agent, "event=worker_killed"));
	nccl_close(&g);
	gpumap_session_close(other);
	nccl_end();
}

/* Or as what the card does with others for another group. */
static void who_waits_for_another_group(void)
{
	struct gpumap_comm *cards;
	struct ranks g;

	if (!begin("", 1, "abort=12000", "nccl = yes\n") ||
	    !nccl_open(session, "two", 10 * MIB, &g) ||
	    !EQ(gpumap_comm_open_opts(session, "cards", NULL, &by_nccl, &cards),
		0))
		return;
	EQ(gpumap_comm_flags(g.comm), GPUMAP_COMM_NCCL);
	EQ(gpumap_comm_flags(cards), GPUMAP_COMM_NCCL);
	nccl_slow_down(1, 6000);
	EQ(cards_submit(&g, &whole, 1), 0);
	story_nap(100000);
	EQ(gpumap_comm_close(cards), 0);
	EQ(collective_end(session, 1), 0);
	cuda_scene_mend(&stage_scene);
	/* This rank has the same limit, and nothing to wait for. */
	OK(!agent_logged(&agent, "event=worker_killed"));
	gpumap_comm_close(g.comm);
	nccl_end();
}

TAP_CASE()
{
	if (!nccl_begin("", "nccl = yes\n"))
		return tap_done();
	learn_uuids();
	nccl_end();
	nobody_waits_for_who_fails();
	no_name_is_made_for_nothing();
	who_hangs_is_ended();
	all_leave(leave_beside_a_meeting);
	all_leave(leave_at_rest);
	who_waits_for_a_stranger();
	who_waits_for_another_group();
	stage_end(&agent);
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Sessions' requests about the memory of other rows, from gpumapd's side: which
 * ones are allowed, by which way the memory goes, and what is left when a
 * client ends.  Stand-ins take the workers' place.
 */

#include "tests/support/scripted_worker_agent.h"

static const char config[] = "[host]\nrows = 2\n";

static int reach(struct raw *c, uint64_t handle, uint32_t row)
{
	struct gm_reach ask = { .handle = handle, .row = row };

	return raw_ask(c, GM_CONTROL_REACH, &ask, sizeof(ask), NULL, 0, NULL);
}

static int unreach(struct raw *c, uint64_t handle)
{
	struct gm_unreach ask = { .handle = handle };

	return raw_ask(c, GM_CONTROL_UNREACH, &ask, sizeof(ask), NULL, 0, NULL);
}

/* Stages that the agent has. */
static int stages(void)
{
	return story_holds(agent.pid, "gpumap-stage");
}

static void what_makes_no_sense_is_refused(void)
{
	struct gm_reach odd = { .handle = buffer(0, 1),
				.row = 1,
				.reserved = 1 };
	struct raw c, plain;

	raw_init(&plain);
	if (!EQ(raw_open_queue(&c, path, 0, 64, 64 * KIB), 0) ||
	    !EQ(raw_open(&plain, path), 0))
		return;
	answered(&plain, "into no session", reach(&plain, buffer(0, 1), 1),
		 -EINVAL, "no session");
	answered(&plain, "out of no session", unreach(&plain, buffer(0, 1)),
		 -EINVAL, "no session");
	answered(&c, "without a queue", reach(&c, buffer(0, 1), 1), -ENODEV,
		 "row 1|open it first");
	answered(&c, "of a row without a queue", reach(&c, buffer(1, 1), 0),
		 -ENODEV, "row 1|open it first");
	answered(&c, "of a row that is none", reach(&c, buffer(0, 1), 400),
		 -ENODEV, "row 400");
	EQ(raw_queue(&c, 1), 0);
	answered(&c, "of the row itself", reach(&c, buffer(1, 1), 1), -EINVAL,
		 "another row's");
	answered(&c, "a registration", reach(&c, registration(1), 1), -EINVAL,
		 "no handle");
	answered(&c, "an index that is none", reach(&c, buffer(0, 4096), 1),
		 -EINVAL, "no handle");
	answered(&c, "a reserved field",
		 raw_ask(&c, GM_CONTROL_REACH, &odd, sizeof(odd), NULL, 0,
			 NULL),
		 -EINVAL, "no handle");
	EQ(unreach(&c, buffer(0, 1)), 0);
	raw_close(&c);
	raw_close(&plain);
	gives_back();
}

static void what_can_be_mapped_is(void)
{
	uint64_t handle = buffer(0, 1);
	int before;
	struct raw c;

	if (!open_both(&c))
		return;
	before = story_holds_at_rest(agent.pid);
	EQ(reach(&c, handle, 1), 0);
	EQ(reach(&c, handle, 1), 0);
	/* The memory is the workers' now; we keep nothing of it. */
	OK(story_gives_back(agent.pid, before));
	EQ(stages(), 0);
	EQ(unreach(&c, handle), 0);
	EQ(reach(&c, handle, 1), 0);
	raw_close(&c);
	gives_back();
}

static void all_else_goes_by_a_stage(void)
{
	struct raw c;

	if (!open_both(&c))
		return;
	EQ(reach(&c, buffer(0, ODD_PRIVATE), 1), 0);
	EQ(stages(), 1);
	EQ(reach(&c, buffer(0, ODD_PRIVATE_TOO), 1), 0);
	EQ(stages(), 1);
	EQ(reach(&c, buffer(1, ODD_PRIVATE), 0), 0);
	EQ(stages(), 2);
	/* The same amount of memory that the client could not export goes the
	 * other way. */
	EQ(reach(&c, buffer(0, ODD_HUGE), 1), 0);
	EQ(stages(), 2);
	raw_close(&c);
	gives_back();
	EQ(stages(), 0);
}

static void what_workers_refuse_is_refused(void)
{
	uint32_t restarts = story_device(map, 0).restarts;
	struct raw c;

	if (!open_both(&c))
		return;
	answered(&c, "refused", reach(&c, buffer(0, ODD_REFUSED), 1), -ENOMEM,
		 "not so much memory");
	answered(&c, "refused again", reach(&c, buffer(1, ODD_REFUSED), 0),
		 -ENOMEM, "not so much memory");
	answered(&c, "what a worker dies of",
		 reach(&c, buffer(0, ODD_DEADLY), 1), -ESTALE, "died");
	OK(story_back(map, 0, restarts));
	EQ(reach(&c, buffer(0, 1), 1), 0);
	/* The buffer lives on where the row that was to read it dies of it. */
	restarts = story_device(map, 1).restarts;
	answered(&c, "what the other worker dies of",
		 reach(&c, buffer(0, ODD_DEADLY_IMPORT), 1), -EIO, "died");
	OK(story_back(map, 1, restarts));
	EQ(reach(&c, buffer(0, 1), 1), 0);
	raw_close(&c);
	gives_back();
}

static void mappings_end_with_workers(void)
{
	uint64_t mapped = buffer(0, 1), staged = buffer(0, ODD_PRIVATE);
	struct raw c;

	if (!open_both(&c))
		return;
	EQ(reach(&c, mapped, 1), 0);
	EQ(reach(&c, staged, 1), 0);
	/* The attachment on the jobs' row: the client has to ask for it
	 * anew. */
	kill_worker(1);
	EQ(reach(&c, mapped, 1), 0);
	EQ(reach(&c, staged, 1), 0);
	EQ(unreach(&c, mapped), 0);
	/* The attachment on the source row: the other row has forgotten it
	 * afterwards. */
	kill_worker(0);
	EQ(unreach(&c, staged), 0);
	EQ(unreach(&c, mapped), 0);
	EQ(reach(&c, mapped, 1), 0);
	EQ(reach(&c, staged, 1), 0);
	kill_worker(0);
	kill_worker(1);
	raw_close(&c);
	gives_back();
}

/* The last step has been asked for when the source's worker ends. */
static void who_waits_is_told(void)
{
	struct gm_reach ask = { .handle = buffer(0, 2), .row = 1 };
	struct raw_record record = { .body = &ask, .body_bytes = sizeof(ask) };
	pid_t importer = (pid_t)story_device(map, 1).worker_pid;
	int fds[GM_CONTROL_FDS_MAX];
	struct gm_control header = { 0 };
	struct raw c;

	if (!open_both(&c))
		return;
	OK(process_stop(importer));
	record.header = raw_header(&c, GM_CONTROL_REACH, sizeof(ask), 0);
	EQ(raw_send(&c, &record, 0), 0);
	STORY_WAIT_WHILE(story_holds(agent.pid, "odd-export") == 0);
	kill_worker(0);
	kill(importer, SIGCONT);
	OK(raw_receive(&c, &header, c.refusal, sizeof(c.refusal), fds) > 0);
	answered(&c, "a source that ends meanwhile", header.status, -ESTALE,
		 "has ended");
	/* The client asks anew for the lost attachment, and gets it. */
	EQ(unreach(&c, ask.handle), 0);
	ask.handle = buffer(0, 1);
	EQ(reach(&c, ask.handle, 1), 0);
	raw_close(&c);
	gives_back();
}

/* No worker answers, and the client leaves. */
static void who_waits_can_leave(void)
{
	struct gm_reach ask = { .handle = buffer(0, ODD_SILENT), .row = 1 };
	struct raw_record record = { .body = &ask, .body_bytes = sizeof(ask) };
	struct raw c;

	if (!open_both(&c))
		return;
	EQ(reach(&c, buffer(1, ODD_PRIVATE), 0), 0);
	record.header = raw_header(&c, GM_CONTROL_REACH, sizeof(ask), 0);
	EQ(raw_send(&c, &record, 0), 0);
	story_nap(20000);
	raw_close(&c);
	gives_back();
	EQ(stages(), 0);
}

static void stages_are_charged(void)
{
	struct raw c;

	if (!open_both(&c))
		return;
	answered(&c, "no room for a stage",
		 reach(&c, buffer(0, ODD_PRIVATE), 1), -EDQUOT,
		 "arena-per-uid|row 0 to row 1");
	EQ(stages(), 0);
	EQ(reach(&c, buffer(0, 1), 1), 0);
	raw_close(&c);
	gives_back();
}

TAP_CASE()
{
	if (begin(config)) {
		what_makes_no_sense_is_refused();
		what_can_be_mapped_is();
		all_else_goes_by_a_stage();
		what_workers_refuse_is_refused();
		mappings_end_with_workers();
		who_waits_is_told();
		who_waits_can_leave();
		if (tap_failures)
			agent_show_log(&agent);
		end();
	}
	if (begin("[host]\nrows = 2\n[limits]\narena-per-uid = 4M\n")) {
		stages_are_charged();
		end();
	}
	return tap_done();
}

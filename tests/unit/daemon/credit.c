/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* credit: memory that the processes of a reservation have already need not be
 * kept free for it once more; memory of strangers, or that is not known, is. */

#include "agent/daemon/account/quota.h"
#include "tests/support/credit_rig.h"

static struct gm_lineage_member member(pid_t pid)
{
	struct gm_lineage_member of = { .start = 0 };

	EQ(gm_lineage_stat(pid, &of), 0);
	return of;
}

/* A process that no other has to do with. */
static struct gm_lineage_member stranger(uint32_t pid)
{
	return (struct gm_lineage_member){ .start = 1, .pid = pid };
}

static uint64_t avail(uint32_t row)
{
	return gm_ledger_avail(d, row, GM_LEDGER_NOBODY);
}

/* One process with @bytes, at the end of a line, and nothing else. */
static void look_once(uint32_t row, uint64_t bytes,
		      const struct gm_lineage_member *line, uint32_t n)
{
	look_begin(row, TOTAL - bytes);
	look_at(bytes, bytes, line, n);
	look_end();
}

/* No process is on the row any more. */
static void look_at_none(void)
{
	look_begin(0, TOTAL);
	look_end();
}

static void end_holder(pid_t holder)
{
	end_child(holder);
	hear_of_deaths();
	look_at_none();
}

static void a_grandchild_has_what_was_promised(void)
{
	pid_t holder = start_child();
	struct gm_lineage_member line[] = { stranger(77), stranger(76),
					    member(holder), member(getpid()) };

	EQ(hold("m", holder, 0, 600, SHOWN), 0);
	EQ(avail(0), 400);
	look_once(0, 500, line, 4);
	EQ(used(0), 500);
	EQ(reserved(0), 600);
	EQ(avail(0), 400);
	EQ(commit("n", 0, 0, 401), -ENOSPC);
	EQ(commit("n", 0, 0, 400), 0);
	EQ(release("n"), 0);

	/* A stranger's memory is not the holder's. */
	look_begin(0, 300);
	look_at(500, 500, line, 4);
	look_at(200, 200, line, 2);
	look_end();
	EQ(used(0), 500);
	EQ(avail(0), 200);

	/* The grandchild has ended: all is to be kept free again. */
	look_at_none();
	EQ(used(0), 0);
	EQ(avail(0), 400);

	/* With the holder the reservation goes, and what is credited to it. */
	look_once(0, 500, line, 4);
	EQ(used(0), 500);
	end_child(holder);
	hear_of_deaths();
	EQ(reserved(0), 0);
	EQ(used(0), 0);
	EQ(avail(0), 500);
	look_at_none();
}

static void no_more_is_credited_than_promised(void)
{
	pid_t holder = start_child();
	struct gm_lineage_member line[] = { member(holder) };

	EQ(hold("m", holder, 0, 300, SHOWN), 0);
	look_once(0, 800, line, 1);
	EQ(used(0), 300);
	EQ(avail(0), 200);
	/* The holder may replace it by all that it has, and what is free. */
	EQ(hold("m", holder, 0, 501, SHOWN), -ENOSPC);
	EQ(hold("m", holder, 0, 500, SHOWN), 0);
	end_holder(holder);
}

/* The sum of the promises never exceeds the row, whatever is in use. */
static void the_sum_stays_below_the_total(void)
{
	pid_t holder = start_child();
	struct gm_lineage_member line[] = { member(holder) };

	EQ(hold("m", holder, 0, 700, SHOWN), 0);
	look_once(0, 700, line, 1);
	EQ(avail(0), 300);
	/* As if the driver had counted wrong. */
	d->devices->of[0]->moving.free_bytes = TOTAL;
	EQ(avail(0), 300);
	EQ(commit("n", 0, 0, 301), -ENOSPC);
	end_holder(holder);
}

static void a_pid_alone_names_no_process(void)
{
	pid_t holder = start_child();
	struct gm_lineage_member line[] = { member(holder), stranger(1) };

	EQ(hold("m", holder, 0, 600, SHOWN), 0);
	/* One that began later has its pid. */
	line[0].start = gm_lineage_now() + 1;
	look_once(0, 500, line, 2);
	EQ(used(0), 0);
	EQ(avail(0), 0);
	line[0] = member(holder);
	look_once(0, 500, line, 0); /* no line is known */
	EQ(used(0), 0);
	look_once(0, 500, line, 1);
	EQ(used(0), 500);
	end_holder(holder);
}

static void figures_are_younger_than_the_promise(void)
{
	pid_t holder = start_child();
	struct gm_lineage_member line[] = { member(holder) };

	/* Memory that it had before it reserved anything is not of its
	 * reservation before a look has found it there. */
	look_begin(0, 500);
	EQ(hold("m", holder, 0, 300, SHOWN), 0);
	look_at(500, 500, line, 1);
	look_end();
	EQ(used(0), 0);
	EQ(avail(0), 200);
	look_once(0, 500, line, 1);
	EQ(used(0), 300);
	EQ(avail(0), 500);

	/* The one that replaces it begins anew. */
	EQ(hold("m", holder, 0, 400, SHOWN), 0);
	EQ(used(0), 0);
	EQ(reserved(0), 400);
	EQ(avail(0), 100);
	end_holder(holder);
}

static void a_process_is_credited_once(void)
{
	pid_t outer = start_child(), inner = start_child();
	struct gm_lineage_member line[] = { stranger(9), member(inner),
					    member(outer) };

	EQ(hold("outer", outer, 0, 300, SHOWN), 0);
	EQ(hold("inner", inner, 0, 100, SHOWN), 0);
	/* To the nearest, and not to the other what that one cannot take. */
	look_once(0, 250, line, 3);
	EQ(used(0), 100);
	/* Two reservations of a process share what it has. */
	EQ(hold("second", inner, 0, 100, SHOWN), 0);
	look_once(0, 150, line, 3);
	EQ(used(0), 150);
	look_once(0, 250, line, 3);
	EQ(used(0), 200);
	/* Without the inner one the outer one is the nearest. */
	EQ(release("inner"), 0);
	EQ(release("second"), 0);
	EQ(used(0), 250);
	look_once(0, 250, line, 3);
	EQ(used(0), 250);
	end_child(inner);
	end_child(outer);
	hear_of_deaths();
	look_at_none();
}

/* The holder had memory before and after the free bytes were read, and not
 * then. */
static void no_more_is_credited_than_is_in_use(void)
{
	pid_t holder = start_child();
	struct gm_lineage_member line[] = { member(holder) };

	EQ(hold("m", holder, 0, 600, SHOWN), 0);
	look_begin(0, TOTAL);
	look_at(500, 500, line, 1);
	look_end();
	EQ(used(0), 0);
	EQ(avail(0), 400);
	/* A stranger has all that is in use, or may have. */
	look_begin(0, 700);
	look_at(500, 500, line, 1);
	look_at(0, 250, line, 0);
	look_end();
	EQ(used(0), 50);
	end_holder(holder);
}

static void without_figures_all_is_kept_free(void)
{
	static const uint32_t none[] = { GM_FIGURES_NONE, GM_FIGURES_REFUSED,
					 GM_FIGURES_NAMESPACE };
	pid_t holder = start_child();
	struct gm_lineage_member line[] = { member(holder) };

	EQ(hold("m", holder, 0, 600, SHOWN), 0);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		look_once(0, 500, line, 1);
		EQ(used(0), 500);
		look_begin(0, 500);
		told.moving.figures = none[i];
		look_end();
		EQ(used(0), 0);
		EQ(avail(0), 0);
		EQ(d->devices->of[0]->moving.figures, none[i]);
	}
	/* Some are known. */
	look_begin(0, 300);
	look_at(500, 500, line, 1);
	look_at(0, 0, line, 0);
	told.moving.figures = GM_FIGURES_PARTLY;
	look_end();
	EQ(used(0), 500);
	/* A look that has not come whole. */
	look_begin(0, 500);
	look_at(500, 500, line, 1);
	told.moving.n_processes++;
	look_end();
	EQ(used(0), 0);
	end_holder(holder);
}

/* As if the probe had been started anew, or messages were lost. */
static void looks_begin_with_their_first_process(void)
{
	pid_t holder = start_child();
	struct gm_lineage_member line[] = { member(holder) };
	struct gm_probe_process wide = { .n = GM_PROBE_LINE + 1,
					 .low_bytes = 500,
					 .high_bytes = 500 };

	EQ(hold("m", holder, 0, 600, SHOWN), 0);
	look_begin(0, 900);
	look_at(100, 100, line, 1);
	look_begin(0, 500);
	look_at(500, 500, line, 1);
	look_end();
	EQ(used(0), 500);
	look_once(0, 500, line, 1);
	EQ(used(0), 500);
	/* The second process of two, and not the first. */
	look_begin(0, 500);
	told.moving.n_processes = 1;
	look_at(500, 500, line, 1);
	look_end();
	EQ(used(0), 0);
	/* No process has such a line. */
	look_begin(0, 500);
	wide.line[0] = line[0];
	gm_credit_process(d, 0, &wide);
	told.moving.n_processes = 1;
	look_end();
	EQ(used(0), 0);
	end_holder(holder);
}

/* Before the row is counted anew. */
static void a_reservation_that_ends_is_not_in_use(void)
{
	pid_t holder = start_child();
	struct gm_lineage_member line[] = { member(holder) };
	uint32_t slot = 0;

	EQ(hold("m", holder, 0, 600, SHOWN), 0);
	look_once(0, 500, line, 1);
	while (slot < GM_OBJECTS - 1 && d->ledger->of[slot] == NULL)
		slot++;
	gm_ledger_put(d, slot, NULL);
	EQ(reserved(0), 0);
	EQ(used(0), 0);
	end_holder(holder);
}

static void the_next_agent_looks_again(void)
{
	pid_t holder = start_child();
	struct gm_lineage_member line[] = { member(holder) };

	EQ(hold("m", holder, 0, 600, SHOWN), 0);
	look_once(0, 500, line, 1);
	EQ(used(0), 500);
	die();
	d->devices->of[0]->moving.used_by_holders = 0;
	if (!come_back())
		return;
	EQ(reserved(0), 600);
	EQ(avail(0), 0);
	look_once(0, 500, line, 1);
	EQ(used(0), 500);
	EQ(avail(0), 400);
	end_child(holder);
	hear_of_deaths();
	EQ(used(0), 0);
	look_at_none();
}

/* At no instant is more in use than reserved: end an agent between the two
 * stores. */
static void a_row_never_has_more_in_use_than_reserved(void)
{
	pid_t holder = start_child(), agent;
	struct gm_lineage_member line[] = { member(holder) };
	int status = 0;

	EQ(hold("m", holder, 0, 600, SHOWN), 0);
	look_once(0, 500, line, 1);
	EQ(used(0), 500);
	fflush(stdout);
	agent = fork();
	if (agent == 0) {
		setenv("GM_POINT", "row_reserved_visible:kill", 1);
		release("m");
		_exit(1);
	}
	EQ(waitpid(agent, &status, 0), agent);
#ifdef GM_TESTPOINTS
	OK(WIFSIGNALED(status));
#else
	SKIP(1, "needs --enable-testpoints");
#endif
	EQ(reserved(0), 0);
	EQ(used(0), 0);
	die();
	d->devices->of[0]->moving.used_by_holders = 0;
	d->devices->of[0]->moving.reserved_bytes = 0;
	if (!come_back())
		return;
	OK(!is_published("m"));
	end_child(holder);
	look_at_none();
}

/* Another user's sessions may have what is free and no holder will need; and a
 * user does not have a reservation twice, once in its own processes. */
static void quotas_follow(void)
{
	pid_t holder = start_child();
	struct gm_lineage_member line[] = { member(holder) };

	EQ(hold("m", holder, 0, 600, SHOWN), 0);
	look_once(0, 500, line, 1);
	EQ(gm_quota_of(d, 0, OTHER, 0), 400);
	EQ(gm_quota_of(d, 0, 0, 0), 500);
	look_begin(0, 500);
	told.moving.figures = GM_FIGURES_REFUSED;
	look_end();
	EQ(gm_quota_of(d, 0, OTHER, 0), 0);
	EQ(gm_quota_of(d, 0, 0, 0), 600);
	look_once(0, 900, line, 1);
	EQ(gm_quota_of(d, 0, OTHER, 0), 100);
	EQ(gm_quota_of(d, 0, 0, 0), 100);
	end_holder(holder);
}

TAP_CASE()
{
	if (!ledger_begin("test-credit"))
		return 99;
	make_cards();
	a_grandchild_has_what_was_promised();
	no_more_is_credited_than_promised();
	the_sum_stays_below_the_total();
	a_pid_alone_names_no_process();
	figures_are_younger_than_the_promise();
	a_process_is_credited_once();
	no_more_is_credited_than_is_in_use();
	without_figures_all_is_kept_free();
	looks_begin_with_their_first_process();
	a_reservation_that_ends_is_not_in_use();
	the_next_agent_looks_again();
	a_row_never_has_more_in_use_than_reserved();
	quotas_follow();
	ledger_end();
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Processes that are the ranks of a group meet at the agent.  The agent gives
 * the id of rank 0 to all of them or to none; it refuses a process that comes
 * late, twice, with another version or with another epoch; and if one process
 * dies at any instant, the agent tells the others, and they meet again.
 */

#include <errno.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/support/mesh_agent.h"

#define RANKS   4u
#define LONG_NS (UINT64_C(60) * 1000000000)

static struct agent agent;
static struct gpumap *map;

/* ---- ranks that are processes -------------------------------------------- */

/* One process's answer; shared. */
struct told {
	volatile int ret;
	volatile uint64_t ticket;
	volatile uint8_t id; /* the first byte of it, when all are equal */
	volatile bool over;
	char why[256];
};

static struct told *told; /* RANKS + 1 of them */

struct rank {
	const char *group;
	uint64_t epoch;
	uint64_t timeout_ns;
	uint32_t rank;
	uint32_t version;
	uint8_t id; /* all bytes of that of rank 0 */
};

static int join(struct gpumap *at, const struct rank *rank,
		uint8_t ret_id[GPUMAP_MESH_ID_BYTES], uint64_t *ret_ticket)
{
	uint8_t id[GPUMAP_MESH_ID_BYTES];
	const struct gpumap_mesh_join ask = {
		.size = sizeof(ask),
		.mesh = "m",
		.group = rank->group,
		.epoch = rank->epoch,
		.deadline_ns = story_now() + rank->timeout_ns,
		.rank = rank->rank,
		.version = rank->version,
		.id = rank->rank == 0 ? id : NULL,
	};

	memset(id, rank->id, sizeof(id));
	return gpumap_mesh_join(at, &ask, ret_id, ret_ticket);
}

static void note(struct told *to, struct gpumap *at, int ret, const uint8_t *id)
{
	bool equal = ret == 0;

	for (int i = 1; ret == 0 && i < GPUMAP_MESH_ID_BYTES; i++)
		equal = equal && id[i] == id[0];
	to->id = equal ? id[0] : 0;
	snprintf(to->why, sizeof(to->why), "%s",
		 ret == 0 ? "" : gpumap_refusal(at));
	to->ret = ret;
	to->over = true;
}

/* Joins, and stays until it is killed. */
static pid_t be_rank(const struct rank *rank, struct told *to)
{
	uint8_t id[GPUMAP_MESH_ID_BYTES];
	uint64_t ticket = 0;
	struct gpumap *at;
	pid_t pid;
	int ret;

	memset(to, 0, sizeof(*to));
	fflush(stdout);
	pid = fork();
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	at = story_attach(&agent);
	if (at == NULL)
		_exit(1);
	ret = join(at, rank, id, &ticket);
	to->ticket = ticket;
	note(to, at, ret, id);
	for (;;)
		pause();
}

/* Has the agent heard of it? */
static bool has_joined(pid_t pid)
{
	char text[32];

	snprintf(text, sizeof(text), " pid=%d uid=", (int)pid);
	return agent_wait_log(&agent, text);
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static bool is_over(const struct told *of)
{
	STORY_WAIT_WHILE(!of->over);
	return of->over;
}

static void meet(const char *group, uint32_t n, uint64_t epoch, uint8_t id,
		 pid_t *ret_pids)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct rank rank = { group, epoch,    LONG_NS,
					   i,     NCCL_NOW, id };

		ret_pids[i] = be_rank(&rank, &told[i]);
	}
}

static bool have_met(uint32_t n, uint8_t id)
{
	bool good = true;

	for (uint32_t i = 0; i < n; i++)
		good = is_over(&told[i]) && told[i].ret == 0 &&
		       told[i].id == id && good;
	return good;
}

static void end_all(pid_t *pids, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		end(pids[i]);
}

/* Until the group's epoch is another one; which it is then. */
static uint64_t moved(const char *group, uint64_t epoch)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	uint64_t now = mesh_group(map, group).epoch;

	while (now == epoch && story_now() < until) {
		story_nap(500);
		now = mesh_group(map, group).epoch;
	}
	return now;
}

/* ---- as it should be ----------------------------------------------------- */

static void all_are_told_the_id_or_none(void)
{
	uint64_t epoch = mesh_group(map, NULL).epoch;
	pid_t pids[RANKS];
	const struct rank last = {
		NULL, epoch, LONG_NS, RANKS - 1, NCCL_NOW, 0
	};

	meet(NULL, RANKS - 1, epoch, 7, pids);
	for (uint32_t i = 0; i < RANKS - 1; i++)
		OK(has_joined(pids[i]));
	for (uint32_t i = 0; i < RANKS - 1; i++)
		OK(!told[i].over);
	pids[RANKS - 1] = be_rank(&last, &told[RANKS - 1]);
	OK(have_met(RANKS, 7));
	OK(told[0].ticket != told[1].ticket);
	EQ(mesh_group(map, NULL).epoch, (intmax_t)epoch);

	/* Groups of one mesh are apart. */
	{
		uint64_t other = mesh_group(map, "tp_1").epoch;
		pid_t pair[2];

		meet("tp_1", 2, other, 9, pair);
		OK(have_met(2, 9));
		end(pair[0]);
		OK(moved("tp_1", other) > other);
		EQ(mesh_group(map, NULL).epoch, (intmax_t)epoch);
		end(pair[1]);
	}

	/* One of them dies: the epoch says so, once. */
	end(pids[2]);
	OK(moved(NULL, epoch) > epoch);
	epoch = mesh_group(map, NULL).epoch;
	end_all(pids, 2);
	end(pids[3]);
	story_nap(50000);
	EQ(mesh_group(map, NULL).epoch, (intmax_t)epoch);
}

static void leaving_well_moves_nothing(void)
{
	uint64_t epoch = mesh_group(map, "tp_0").epoch, ticket = 0;
	uint8_t id[GPUMAP_MESH_ID_BYTES];
	struct rank mine = { "tp_0", epoch, LONG_NS, 1, NCCL_NOW, 0 };
	struct gpumap *at = story_attach(&agent);
	pid_t pid[2];

	meet("tp_0", 1, epoch, 3, pid);
	EQ(join(at, &mine, id, &ticket), 0);
	OK(id[0] == 3 && id[127] == 3);
	EQ(gpumap_mesh_leave(at, ticket + 100, 0), -ENOENT);
	EQ(gpumap_mesh_leave(at, ticket, 6), -EINVAL);
	EQ(gpumap_mesh_leave(at, ticket, 0), 0);
	EQ(gpumap_mesh_leave(at, ticket, 0), -ENOENT);
	EQ(mesh_group(map, "tp_0").epoch, (intmax_t)epoch);

	/* The other one is still a member. */
	EQ(join(at, &mine, id, &ticket), -EAGAIN);
	OK(strstr(gpumap_refusal(at), "is being given up") != NULL);
	end(pid[0]);
	mine.epoch = moved("tp_0", epoch);
	OK(mine.epoch > epoch);

	/* And with a word about what broke. */
	meet("tp_0", 1, mine.epoch, 4, pid);
	EQ(join(at, &mine, id, &ticket), 0);
	EQ(gpumap_mesh_leave(at, ticket, GPUMAP_MESH_BROKEN), 0);
	OK(mesh_group(map, "tp_0").epoch > mine.epoch);
	end(pid[0]);
	gpumap_detach(at);
}

/* ---- refusals ------------------------------------------------------------ */

static void what_is_wrong_is_said(void)
{
	uint64_t epoch = mesh_group(map, "tp_0").epoch, ticket;
	struct rank mine = { "tp_0", epoch, LONG_NS, 1, NCCL_NOW, 0 };
	uint8_t id[GPUMAP_MESH_ID_BYTES];
	pid_t pid;

	pid = be_rank(&mine, &told[1]);
	OK(has_joined(pid));
	mine.version = 21903;
	EQ(join(map, &mine, id, &ticket), -EBUSY);
	OK(strstr(gpumap_refusal(map), "is rank 1 of group tp_0 already"));
	mine.rank = 0;
	EQ(join(map, &mine, id, &ticket), -EPROTO);
	OK(strstr(gpumap_refusal(map), "rank 0 has NCCL 2.19.3, and others of "
				       "group tp_0 have NCCL 2.28.9"));
	mine.version = NCCL_NOW;
	mine.rank = 2;
	EQ(join(map, &mine, id, &ticket), -ERANGE);
	mine.rank = 0;
	mine.epoch = epoch - 2;
	EQ(join(map, &mine, id, &ticket), -ESTALE);
	OK(strstr(gpumap_refusal(map), "read it again"));
	mine.epoch = epoch;
	mine.version = 0;
	EQ(join(map, &mine, id, &ticket), -EINVAL);
	mine.version = NCCL_NOW;
	mine.group = "tp_7";
	EQ(join(map, &mine, id, &ticket), -ENOENT);
	OK(!told[1].over);
	end(pid);
}

static void rows_that_are_away_are_waited_for(void)
{
	struct gpumap_mesh_group group = { .size = sizeof(group) };
	uint64_t epoch = mesh_group(map, "tp_0").epoch, ticket;
	struct rank mine = { "tp_0", epoch, LONG_NS, 1, NCCL_NOW, 0 };
	uint8_t id[GPUMAP_MESH_ID_BYTES];
	pid_t pid = be_rank(&mine, &told[1]);

	OK(has_joined(pid));
	EQ(gpumap_device_drain(map, 0), 0);
	OK(is_over(&told[1]));
	EQ(told[1].ret, -ESTALE);
	EQ(gpumap_mesh_group(map, "m", "tp_0", &group, NULL, NULL, 0), 0);
	OK(!group.whole);
	mine.epoch = group.epoch;
	EQ(join(map, &mine, id, &ticket), -EAGAIN);
	EQ(gpumap_device_undrain(map, 0), 0);
	end(pid);
}

static void a_mesh_that_goes_takes_them_along(void)
{
	uint64_t epoch = mesh_group(map, "tp_0").epoch;
	const struct rank mine = { "tp_0", epoch, LONG_NS, 1, NCCL_NOW, 0 };
	pid_t pid = be_rank(&mine, &told[1]);

	OK(has_joined(pid));
	EQ(mesh_publish(map), 0);
	OK(is_over(&told[1]));
	EQ(told[1].ret, -ESTALE);
	end(pid);
	pid = be_rank(&(struct rank){ "tp_0", mesh_group(map, "tp_0").epoch,
				      LONG_NS, 1, NCCL_NOW, 0 },
		      &told[1]);
	OK(has_joined(pid));
	EQ(gpumap_mesh_release(map, "m"), 0);
	OK(is_over(&told[1]));
	EQ(told[1].ret, -ESTALE);
	end(pid);
	EQ(mesh_publish(map), 0);
}

static void strangers_are_refused(void)
{
	uint64_t epoch = mesh_group(map, "tp_0").epoch;
	int status = 0;
	pid_t pid;

	if (geteuid() != 0) {
		SKIP(1, "needs root, to be somebody else");
		return;
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		const struct rank mine = { "tp_0", epoch,    LONG_NS,
					   1,      NCCL_NOW, 0 };
		uint8_t id[GPUMAP_MESH_ID_BYTES];
		struct gpumap *at;
		uint64_t ticket;

		if (setgid(1) != 0 || setuid(1) != 0)
			_exit(9);
		at = story_attach(&agent);
		_exit(at == NULL                               ? 8
		      : join(at, &mine, id, &ticket) == -EPERM ? 0
							       : 7);
	}
	waitpid(pid, &status, 0);
	EQ(status, 0);
}

/* ---- late ---------------------------------------------------------------- */

static void late_ranks_find_another_epoch(void)
{
	uint64_t epoch = mesh_group(map, NULL).epoch, ticket;
	struct rank mine = { NULL, epoch, 300000000, 1, NCCL_NOW, 0 };
	uint8_t id[GPUMAP_MESH_ID_BYTES];
	pid_t pid =
		be_rank(&(struct rank){ NULL, epoch, LONG_NS, 0, NCCL_NOW, 5 },
			&told[0]);

	OK(has_joined(pid));
	EQ(join(map, &mine, id, &ticket), -ETIMEDOUT);
	OK(strstr(gpumap_refusal(map), "2-3 of group world did not come in "
				       "time"));
	OK(is_over(&told[0]));
	EQ(told[0].ret, -ETIMEDOUT);
	OK(strstr(told[0].why, "2-3 of group world") != NULL);
	OK(mesh_group(map, NULL).epoch > epoch);
	mine.rank = 2;
	EQ(join(map, &mine, id, &ticket), -ESTALE);
	end(pid);
}

/* ---- deaths -------------------------------------------------------------- */

/* A process that dies before all ranks have come has not joined, and another
 * may take its rank. */
static void another_may_take_the_place_of_one_that_died(void)
{
	uint64_t epoch = mesh_group(map, NULL).epoch;
	pid_t pids[RANKS];

	meet(NULL, RANKS - 1, epoch, 11, pids);
	for (uint32_t i = 0; i < RANKS - 1; i++)
		OK(has_joined(pids[i]));
	end(pids[0]);
	pids[0] =
		be_rank(&(struct rank){ NULL, epoch, LONG_NS, 0, NCCL_NOW, 12 },
			&told[0]);
	while (told[0].over && told[0].ret == -EBUSY) {
		end(pids[0]); /* the agent has not heard of it yet */
		pids[0] = be_rank(&(struct rank){ NULL, epoch, LONG_NS, 0,
						  NCCL_NOW, 12 },
				  &told[0]);
		story_nap(5000);
	}
	pids[3] =
		be_rank(&(struct rank){ NULL, epoch, LONG_NS, 3, NCCL_NOW, 0 },
			&told[3]);
	OK(have_met(RANKS, 12));
	EQ(mesh_group(map, NULL).epoch, (intmax_t)epoch);
	end_all(pids, RANKS);
	moved(NULL, epoch);
}

/* As a program would: with what it is told, again, until all of them have met.
 * The agent may still know those who were killed. */
static pid_t be_patient(uint32_t rank)
{
	uint8_t id[GPUMAP_MESH_ID_BYTES];
	uint64_t ticket = 0;
	struct gpumap *at;
	pid_t pid;
	int ret;

	memset(&told[rank], 0, sizeof(told[rank]));
	fflush(stdout);
	pid = fork();
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	at = story_attach(&agent);
	do {
		const struct rank mine = { NULL,     mesh_group(at, NULL).epoch,
					   LONG_NS,  rank,
					   NCCL_NOW, 77 };

		ret = join(at, &mine, id, &ticket);
		if (ret != 0)
			story_nap(1000);
	} while (ret == -EBUSY || ret == -ESTALE || ret == -EAGAIN);
	note(&told[rank], at, ret, id);
	for (;;)
		pause();
}

static bool meet_at_last(pid_t *ret_pids)
{
	for (uint32_t i = 0; i < RANKS; i++)
		ret_pids[i] = be_patient(i);
	return have_met(RANKS, 77);
}

/* Any of them, at any instant: those who were told have an epoch that is over,
 * and those who were not are told or wait, and nothing is left for the next. */
static void one_round(int round, int *ret_bad)
{
	uint64_t epoch = mesh_group(map, NULL).epoch;
	uint32_t victim = (uint32_t)round % RANKS;
	pid_t pids[RANKS];
	uint32_t n_told = 0;

	meet(NULL, RANKS, epoch, (uint8_t)(round % 250 + 1), pids);
	story_nap(story_moment(round, 30000));
	end(pids[victim]);
	story_nap(20000);
	for (uint32_t i = 0; i < RANKS; i++)
		n_told += told[i].over && told[i].ret == 0;
	/* The epoch moves after a process has got its answer. */
	if (n_told != 0 && moved(NULL, epoch) == epoch)
		(*ret_bad)++;
	end_all(pids, RANKS);
	*ret_bad += !meet_at_last(pids);
	epoch = mesh_group(map, NULL).epoch;
	end_all(pids, RANKS);
	moved(NULL, epoch);
}

static void whoever_dies_the_others_meet_again(void)
{
	int rounds = story_rounds(), bad = 0;

	for (int round = 0; round < rounds && bad == 0; round++)
		one_round(round, &bad);
	EQ(bad, 0);
}

/* The agent's death ends every wait, and every communicator's epoch. */
static void an_agent_that_dies_tells_them_too(void)
{
	uint64_t epoch = mesh_group(map, "tp_0").epoch;
	uint64_t other = mesh_group(map, "tp_1").epoch;
	pid_t pair[2], waits;

	meet("tp_0", 2, epoch, 21, pair);
	OK(have_met(2, 21));
	waits = be_rank(&(struct rank){ "tp_1", other, LONG_NS, 1, NCCL_NOW,
					0 },
			&told[2]);
	OK(has_joined(waits));
	agent_kill(&agent, SIGKILL);
	OK(is_over(&told[2]));
	EQ(told[2].ret, -ECONNRESET);
	OK(agent_start(&agent));
	OK(mesh_group(map, "tp_0").epoch > epoch);
	OK(mesh_group(map, "tp_1").epoch > other);
	end_all(pair, 2);
	end(waits);
}

TAP_CASE()
{
	told = mmap(NULL, sizeof(*told) * (RANKS + 1), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (told == MAP_FAILED)
		return 99;
	agent_make(&agent, "[host]\nrows = 4\n[socket]\nmode = 0666\n");
	if (OK(agent_start(&agent)) &&
	    OK((map = story_attach(&agent)) != NULL) &&
	    EQ(mesh_publish(map), 0)) {
		all_are_told_the_id_or_none();
		leaving_well_moves_nothing();
		what_is_wrong_is_said();
		rows_that_are_away_are_waited_for();
		a_mesh_that_goes_takes_them_along();
		strangers_are_refused();
		late_ranks_find_another_epoch();
		another_may_take_the_place_of_one_that_died();
		an_agent_that_dies_tells_them_too();
		/* So many joins that the log does not tell of each. */
		whoever_dies_the_others_meet_again();
		story_finish(&agent, map);
	}
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}

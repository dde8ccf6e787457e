/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Four processes, each with a card, find each other by way of the agent and
 * form a communicator with gpumap/nccl.h; every call on it gives the right
 * result; and after a death, an error, a rank that does not come or has another
 * version, no rank waits for ever and all of them form another communicator.
 */

#include <errno.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <gpumap/nccl.h>

#include "tests/contract/contract.h"
#include "tests/support/story.h"

#define RANKS   4
#define MAX     4099
#define WAIT_NS (UINT64_C(60) * 1000000000)

/* A rank's progress; shared. */
struct report {
	volatile int ret;         /* of gpumap_nccl_init(), when it gave up */
	volatile uint64_t epoch;  /* of its communicator */
	volatile uint64_t rounds; /* of work that was right, in all */
	volatile int wrong;
	volatile bool over;
	char why[256];
};

static struct report *reports;
static struct agent agent;
static struct gpumap *map;

/* State of one process. */
static CUstream stream;
static CUdeviceptr in, out;
static struct gpumap_nccl nccl;
static struct gpumap *map_here;

/* ---- work, and whether it is right --------------------------------------- */

static int32_t value(int rank, int i)
{
	return rank * 7919 + i % 1009 - 300;
}

/* Wait for the stream.  Returns 0, or why it will never end. */
static int settle(ncclResult_t result)
{
	int ret = gpumap_nccl_wait(&nccl, result, gpumap_nccl_now() + WAIT_NS);

	while (ret == 0 && cu.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) {
		ret = gpumap_nccl_check(&nccl);
		if (ret == 0)
			story_nap(200);
	}
	return ret;
}

static void put_values(int rank, int n)
{
	static int32_t values[RANKS * MAX];

	for (int i = 0; i < n; i++)
		values[i] = value(rank, i);
	cu.cuMemcpyHtoD_v2(in, values, sizeof(int32_t) * (size_t)n);
}

static const int32_t *get_values(int n)
{
	static int32_t values[RANKS * MAX];

	cu.cuMemcpyDtoH_v2(values, out, sizeof(int32_t) * (size_t)n);
	return values;
}

static int32_t reduced(ncclRedOp_t op, int i)
{
	int64_t all = value(0, i);

	for (int rank = 1; rank < RANKS; rank++) {
		int64_t one = value(rank, i);

		if (op == ncclMax)
			all = one > all ? one : all;
		else if (op == ncclMin)
			all = one < all ? one : all;
		else if (op == ncclProd)
			all = (int32_t)((uint32_t)all * (uint32_t)one);
		else
			all += one;
	}
	return (int32_t)(op == ncclAvg ? all / RANKS : all);
}

static int reduce(ncclRedOp_t op, int n, int *wrong)
{
	const int32_t *got;
	int ret;

	put_values(nccl.rank, n);
	ret = settle(ncclAllReduce((void *)in, (void *)out, (size_t)n,
				   ncclInt32, op, nccl.comm, stream));
	if (ret != 0)
		return ret;
	got = get_values(n);
	for (int i = 0; i < n; i++)
		*wrong += got[i] != reduced(op, i);
	return 0;
}

static int gather(int n, int *wrong)
{
	const int32_t *got;
	int ret;

	put_values(nccl.rank, n);
	ret = settle(ncclAllGather((void *)in, (void *)out, (size_t)n,
				   ncclInt32, nccl.comm, stream));
	if (ret != 0)
		return ret;
	got = get_values(n * RANKS);
	for (int i = 0; i < n * RANKS; i++)
		*wrong += got[i] != value(i / n, i % n);
	return 0;
}

static int scatter(int n, int *wrong)
{
	const int32_t *got;
	int ret;

	put_values(nccl.rank, n * RANKS);
	ret = settle(ncclReduceScatter((void *)in, (void *)out, (size_t)n,
				       ncclInt32, ncclSum, nccl.comm, stream));
	if (ret != 0)
		return ret;
	got = get_values(n);
	for (int i = 0; i < n; i++)
		*wrong += got[i] != reduced(ncclSum, nccl.rank * n + i);
	return 0;
}

static int broadcast(int n, int root, int *wrong)
{
	const int32_t *got;
	int ret;

	put_values(nccl.rank, n);
	ret = settle(ncclBroadcast((void *)in, (void *)out, (size_t)n,
				   ncclInt32, root, nccl.comm, stream));
	if (ret != 0)
		return ret;
	got = get_values(n);
	for (int i = 0; i < n; i++)
		*wrong += got[i] != value(root, i);
	return 0;
}

/* To the right, and from the left. */
static int pass(int n, int *wrong)
{
	int right = (nccl.rank + 1) % RANKS, left = (nccl.rank + 3) % RANKS;
	const int32_t *got;
	int ret;

	put_values(nccl.rank, n);
	ncclGroupStart();
	ncclSend((void *)in, (size_t)n, ncclInt32, right, nccl.comm, stream);
	ncclRecv((void *)out, (size_t)n, ncclInt32, left, nccl.comm, stream);
	ret = settle(ncclGroupEnd());
	if (ret != 0)
		return ret;
	got = get_values(n);
	for (int i = 0; i < n; i++)
		*wrong += got[i] != value(left, i);
	return 0;
}

static int do_all(int *wrong)
{
	static const int sizes[] = { 1, 3, 1024, MAX };
	int ret = 0, count = 0, rank = -1;

	ncclCommCount(nccl.comm, &count);
	ncclCommUserRank(nccl.comm, &rank);
	*wrong += count != RANKS || rank != nccl.rank || nccl.n != RANKS;
	for (size_t i = 0; i < 4 && ret == 0; i++) {
		for (int op = ncclSum; op <= ncclAvg && ret == 0; op++)
			ret = reduce((ncclRedOp_t)op, sizes[i], wrong);
		ret = ret ? ret : gather(sizes[i], wrong);
		ret = ret ? ret : scatter(sizes[i], wrong);
		ret = ret ? ret : broadcast(sizes[i], (int)i, wrong);
		ret = ret ? ret : pass(sizes[i], wrong);
	}
	return ret;
}

/* ---- processes ----------------------------------------------------------- */

static bool open_card(int rank)
{
	const size_t bytes = sizeof(int32_t) * RANKS * MAX;
	CUcontext context;

	return cu.cuInit(0) == 0 &&
	       cu.cuDevicePrimaryCtxRetain(&context, rank) == 0 &&
	       cu.cuCtxSetCurrent(context) == 0 &&
	       cu.cuStreamCreate(&stream, 1) == 0 &&
	       cu.cuMemAlloc_v2(&in, bytes) == 0 &&
	       cu.cuMemAlloc_v2(&out, bytes) == 0;
}

static void close_card(int rank)
{
	cu.cuStreamSynchronize(stream);
	cu.cuMemFree_v2(in);
	cu.cuMemFree_v2(out);
	cu.cuStreamDestroy_v2(stream);
	cu.cuCtxSetCurrent(NULL);
	cu.cuDevicePrimaryCtxRelease_v2(rank);
}

/* Form a communicator and have it do all there is, once; or again and again, in
 * one after another. */
static void be_rank(int rank, uint64_t wait_ns, bool once)
{
	struct report *report = &reports[rank];
	int ret;

	do {
		int wrong = 0;

		ret = gpumap_nccl_init(map_here, "m", NULL, (uint32_t)rank,
				       gpumap_nccl_now() + wait_ns, &nccl);
		if (ret == -EBUSY && !once) {
			story_nap(1000); /* one that was killed is known yet */
			ret = 0;
			continue;
		}
		if (ret != 0)
			break;
		report->epoch = nccl.epoch;
		do {
			ret = once ? do_all(&wrong)
				   : reduce(ncclSum, MAX, &wrong);
			report->wrong += wrong;
			report->rounds += ret == 0;
		} while (ret == 0 && !once);
		if (ret == 0)
			ret = gpumap_nccl_finish(&nccl,
						 gpumap_nccl_now() + wait_ns);
		else
			gpumap_nccl_abort(&nccl);
	} while (!once);
	snprintf(report->why, sizeof(report->why), "%s",
		 gpumap_refusal(map_here));
	report->ret = ret;
	report->over = true;
}

static pid_t start_rank(int rank, const char *faults, uint64_t wait_ns,
			bool once)
{
	pid_t pid;

	memset(&reports[rank], 0, sizeof(reports[rank]));
	fflush(stdout);
	pid = fork();
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (faults)
		setenv("FAKE_NCCL", faults, 1);
	map_here = story_attach(&agent);
	if (map_here == NULL || !open_card(rank))
		_exit(9);
	be_rank(rank, wait_ns, once);
	close_card(rank);
	gpumap_detach(map_here);
	_exit(0);
}

static bool end_well(const pid_t *pids, int n)
{
	bool good = true;

	for (int i = 0; i < n; i++) {
		int status = -1;

		waitpid(pids[i], &status, 0);
		if (status != 0)
			NOTE("rank process %d ended with %#x", i, status);
		good = status == 0 && good;
	}
	return good;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---- stories ------------------------------------------------------------- */

static void four_processes_form_one(void)
{
	pid_t pids[RANKS];

	for (int i = 0; i < RANKS; i++)
		pids[i] = start_rank(i, NULL, WAIT_NS, true);
	OK(end_well(pids, RANKS));
	for (int i = 0; i < RANKS; i++) {
		EQ(reports[i].ret, 0);
		EQ(reports[i].rounds, 1);
		EQ(reports[i].wrong, 0);
		EQ(reports[i].epoch, (intmax_t)reports[0].epoch);
	}
}

static void mixed_versions_are_refused_by_name(void)
{
	pid_t pids[2];

	pids[0] = start_rank(1, "version=21903", 2000000000, true);
	/* Waits longer: when the first gives up, it takes the first's place. */
	pids[1] = start_rank(2, "version=22706", 3000000000, true);
	OK(end_well(pids, 2));
	OK((reports[1].ret == -EPROTO) != (reports[2].ret == -EPROTO));
	for (int i = 1; i <= 2; i++) {
		if (reports[i].ret == -EPROTO)
			OK(strstr(reports[i].why, "2.19.3") &&
			   strstr(reports[i].why, "2.27.6"));
		else
			EQ(reports[i].ret, -ETIMEDOUT);
	}
}

/* One is told the id and never comes to NCCL: all of them give up. */
static void a_rank_that_never_arrives_ends_them_all(void)
{
	pid_t pids[RANKS];

	for (int i = 0; i < RANKS; i++)
		pids[i] = start_rank(i, i == 2 ? "absent" : NULL, 1500000000,
				     true);
	OK(end_well(pids, RANKS));
	for (int i = 0; i < RANKS; i++)
		EQ(reports[i].ret, -ETIMEDOUT);
}

static void an_asynchronous_error_ends_them_all(void)
{
	pid_t pids[RANKS];

	for (int i = 0; i < RANKS; i++)
		pids[i] =
			start_rank(i, i == 1 ? "async=7" : NULL, WAIT_NS, true);
	OK(end_well(pids, RANKS));
	for (int i = 0; i < RANKS; i++)
		EQ(reports[i].ret, i == 1 ? -EIO : -ESTALE);
}

/* All work in one communicator that is younger than @epoch. */
static bool all_work_after(uint64_t epoch)
{
	uint64_t until = story_now() + STORY_LIMIT_NS, rounds[RANKS];
	int good = 0;

	for (int i = 0; i < RANKS; i++)
		rounds[i] = reports[i].rounds;
	while (good < RANKS && story_now() < until) {
		good = 0;
		for (int i = 0; i < RANKS; i++)
			good += reports[i].epoch > epoch &&
				reports[i].rounds > rounds[i] &&
				!reports[i].over;
		story_nap(1000);
	}
	return good == RANKS;
}

static void whoever_dies_they_form_another_one(void)
{
	/* Processes come to the stand-in's machine no oftener than this. */
	int rounds = story_rounds() < 120 ? story_rounds() : 120, bad = 0;
	uint64_t epoch = 0;
	pid_t pids[RANKS];

	for (int i = 0; i < RANKS; i++)
		pids[i] = start_rank(i, NULL, WAIT_NS, false);
	OK(all_work_after(0));
	for (int round = 0; round < rounds && bad == 0; round++) {
		int victim = round % RANKS;

		epoch = reports[(victim + 1) % RANKS].epoch;
		story_nap(story_moment(round, 20000));
		end(pids[victim]);
		pids[victim] = start_rank(victim, NULL, WAIT_NS, false);
		/* Every third time a second one, while they form. */
		if (round % 3 == 2) {
			victim = (victim + 1) % RANKS;
			story_nap(story_moment(round + 1000, 50000));
			end(pids[victim]);
			pids[victim] = start_rank(victim, NULL, WAIT_NS, false);
		}
		if (all_work_after(epoch))
			continue;
		bad++;
		for (int i = 0; i < RANKS; i++)
			NOTE("round %d: rank %d ret %d epoch %llu over %d %s",
			     round, i, reports[i].ret,
			     (unsigned long long)reports[i].epoch,
			     reports[i].over, reports[i].why);
	}
	EQ(bad, 0);
	for (int i = 0; i < RANKS; i++) {
		EQ(reports[i].wrong, 0);
		end(pids[i]);
	}
}

static int publish(void)
{
	const struct gpumap_mesh_request request = {
		.size = sizeof(request),
		.name = "m",
		.topology = GPUMAP_MESH_DATA,
		.tp = 1,
		.pp = 1,
		.dp = 1,
	};

	return gpumap_mesh_publish(map, &request);
}

TAP_CASE_ARGS(argc, argv)
{
	const char *lack = contract_load(argv);
	int version = 0;

	(void)argc;
	if (lack || ncclGetVersion(&version) != ncclSuccess) {
		SKIP(1, lack ? lack : "no NCCL");
		return tap_done();
	}
	reports = mmap(NULL, sizeof(*reports) * RANKS, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (reports == MAP_FAILED)
		return 99;
	agent_make(&agent, "[host]\nrows = 4\n");
	if (OK(agent_start(&agent)) &&
	    OK((map = story_attach(&agent)) != NULL) && EQ(publish(), 0)) {
		four_processes_form_one();
		mixed_versions_are_refused_by_name();
		a_rank_that_never_arrives_ends_them_all();
		an_asynchronous_error_ends_them_all();
		whoever_dies_they_form_another_one();
	}
	if (map != NULL)
		story_finish(&agent, map);
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}

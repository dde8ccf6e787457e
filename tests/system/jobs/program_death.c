/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks programs that crash, that never return or that do what they may not,
 * and workers for programs that are killed.  Each job ends once, the same
 * programs can run again, and neither the row's own worker nor another session
 * is disturbed.
 */

#include <sys/socket.h>
#include <sys/wait.h>

#include "tests/support/program_agent.h"
#include "tests/support/users.h"

#define JOBS 8u

static struct gpumap_session *session, *neighbour;
static uint32_t *memory, *beside;
static uint64_t odd;

static uint32_t *some_memory(struct gpumap_session *of, uint32_t row)
{
	void *at = NULL;

	if (gpumap_alloc(of, row, 64 << 10, &at) != 0)
		exit(99);
	return at;
}

static bool begin(const char *programs)
{
	put("odd", "odd");
	put("dies", "dies");
	if (!OK(start(programs)))
		return false;
	session = open_with(true);
	neighbour = open_with(false);
	if (!OK(session != NULL && neighbour != NULL))
		return false;
	memory = some_memory(session, 0);
	beside = some_memory(neighbour, 0);
	if (EQ(gpumap_program_load(session, 0, "odd", &odd), 0))
		return true;
	NOTE("%s", gpumap_refusal(map));
	agent_show_log(&agent);
	return false;
}

/* Check that the row's own worker has neither died nor been replaced, and
 * stop. */
static void finish(pid_t own)
{
	EQ((pid_t)story_device(map, 0).worker_pid, own);
	EQ(story_device(map, 0).restarts, 0);
	gpumap_session_close(session);
	gpumap_session_close(neighbour);
	OK(gone_soon(program_worker(0)));
	stop();
}

static void submit_beside(void)
{
	struct gpumap_job jobs[JOBS];

	for (uint32_t i = 0; i < JOBS; i++)
		jobs[i] = (struct gpumap_job){ .op = GPUMAP_OP_FILL,
					       .dtype = GPUMAP_DTYPE_U32,
					       .dst = beside,
					       .n = 1024,
					       .pattern = i };
	EQ(gpumap_submit(neighbour, 0, jobs, JOBS), 0);
}

/* Returns how many of @n jobs ended with @status or @or_status, or 0 when not
 * all have ended. */
static uint32_t collect(struct gpumap_session *of, uint32_t n, int32_t status,
			int32_t or_status)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct gpumap_done done[2 * JOBS];
	uint32_t ended = 0, well = 0;

	while (ended < n) {
		int got = gpumap_wait(of, done, 2 * JOBS, until);

		if (got <= 0) {
			NOTE("wait says %d after %u", got, ended);
			return 0;
		}
		for (int i = 0; i < got; i++)
			well += done[i].status == status ||
				done[i].status == or_status;
		ended += (uint32_t)got;
	}
	return ended == n ? well : 0;
}

/* The next worker has the program before it begins any job.  Jobs that are
 * submitted meanwhile end with -EIO while they are for the dead worker, and
 * with 0 after that. */
static bool is_there_again(void)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	int ret = -EIO;

	while (ret == -EIO && story_now() < until) {
		struct gpumap_job job = odd_job(odd, memory, ODD_NOTHING);

		ret = story_run(session, 0, &job);
	}
	if (ret != 0)
		NOTE("it ends with %d", ret);
	return ret == 0;
}

static int told(uint32_t what)
{
	struct gpumap_job job = odd_job(odd, memory, what);

	return story_run(session, 0, &job);
}

static void statuses_are_the_programs(void)
{
	struct gpumap_job job;

	EQ(told(ODD_NOTHING), 0);
	EQ(told(ODD_FAILS), -EXDEV);
	EQ(told(ODD_SAYS_7), -EIO);
	job = odd_job(odd, memory, ODD_COUNTS);
	job.dst = memory + 16;
	job.dst_item_bytes = 1;
	job.n = 300;
	EQ(story_run(session, 0, &job), 0);
	EQ(*(uint64_t *)(void *)(memory + 16), 300);
}

static void a_crash_is_its_own(void)
{
	struct gpumap_job jobs[JOBS];
	pid_t before = program_worker(0);

	for (uint32_t i = 0; i < JOBS; i++)
		jobs[i] = odd_job(odd, memory, ODD_CRASHES);
	submit_beside();
	EQ(gpumap_submit(session, 0, jobs, JOBS), 0);
	EQ(collect(session, JOBS, -EIO, -EIO), JOBS);
	EQ(collect(neighbour, JOBS, 0, 0), JOBS);
	OK(is_there_again());
	OK(program_worker(0) != before);
	EQ(story_lives(before), false);
}

/* Builds with a sanitizer do not filter system calls. */
static void calls_are_filtered(void)
{
#if defined(GM_SANITIZED) || defined(GM_COVERED)
	SKIP(7, "this build keeps its system calls");
#else
	EQ(told(ODD_OPENS), -EACCES);
	EQ(told(ODD_OPENED), -EACCES);
	EQ(told(ODD_OPENS_ITSELF), -EACCES);
	EQ(told(ODD_CALLS), -EIO);
	OK(is_there_again());
	EQ(told(ODD_KILLS), -EIO);
	OK(is_there_again());
#endif
}

static void a_start_that_crashes_is_refused(void)
{
	uint64_t program = 0;

	EQ(gpumap_program_load(session, 0, "dies", &program), -EIO);
	OK(strstr(gpumap_refusal(map), "died over it") != NULL);
	OK(is_there_again());
}

static void crashes_end_nothing_else(void)
{
	pid_t own;

	if (!begin("policy = any\n"))
		return;
	own = (pid_t)story_device(map, 0).worker_pid;
	statuses_are_the_programs();
	a_crash_is_its_own();
	calls_are_filtered();
	a_start_that_crashes_is_refused();
	finish(own);
}

static void the_limit_ends_it(void)
{
	pid_t own, worker;

	if (!begin("policy = any\nlimit = 5s\n"))
		return;
	own = (pid_t)story_device(map, 0).worker_pid;
	submit_beside();
	EQ(told(ODD_GOES_ON), -EIO);
	OK(agent_logged(&agent, "the limit in [programs]"));
	EQ(collect(neighbour, JOBS, 0, 0), JOBS);
	OK(is_there_again());
	worker = program_worker(0);
	OK(story_lives(worker));
	finish(own);
}

/* Without a limit a program runs as long as any session wants it. */
static void nobody_is_left_who_wants_it(void)
{
	struct gpumap_job job;
	pid_t own, worker;

	if (!begin("policy = any\nlimit = 0\n"))
		return;
	own = (pid_t)story_device(map, 0).worker_pid;
	worker = program_worker(0);
	job = odd_job(odd, memory, ODD_GOES_ON);
	EQ(gpumap_submit(session, 0, &job, 1), 0);
	OK(goes_on(memory));
	gpumap_session_close(session);
	OK(gone_soon(worker));
	OK(agent_logged(&agent, "no client wants its program any more"));
	session = open_with(true);
	memory = some_memory(session, 0);
	EQ(gpumap_program_load(session, 0, "odd", &odd), 0);
	EQ(told(ODD_NOTHING), 0);
	finish(own);
}

static bool one_round(int round)
{
	struct gpumap_job jobs[JOBS];
	pid_t worker = program_worker(0);

	for (uint32_t i = 0; i < JOBS; i++)
		jobs[i] = odd_job(odd, memory, ODD_NOTHING);
	submit_beside();
	if (!EQ(gpumap_submit(session, 0, jobs, JOBS), 0))
		return false;
	story_nap(story_moment(round, 2000));
	kill(worker, SIGKILL);
	return EQ(collect(session, JOBS, 0, -EIO), JOBS) &&
	       EQ(collect(neighbour, JOBS, 0, 0), JOBS) && OK(is_there_again());
}

/* The programs that the next worker is told to wait for may be unloaded
 * meanwhile. */
static bool unload_round(int round)
{
	struct gpumap_job nop = { .op = GPUMAP_OP_NOP };
	uint64_t until = story_now() + STORY_LIMIT_NS, second = 0;
	int ret = -EIO;

	kill(program_worker(0), SIGKILL);
	story_nap(story_moment(round, 20000));
	if (!EQ(gpumap_program_unload(session, odd), 0))
		return false;
	while (ret == -EIO && story_now() < until)
		ret = story_run(session, 0, &nop);
	if (!EQ(ret, 0) || !EQ(gpumap_program_load(session, 0, "odd", &odd), 0))
		return false;
	/* The worker need not wait for a new program, which may be unloaded at
	 * once. */
	if (!EQ(gpumap_program_load(session, 0, "odd", &second), 0) ||
	    !EQ(gpumap_program_unload(session, second), 0))
		return false;
	return OK(is_there_again());
}

static void kills_end_nothing_else(void)
{
	int rounds = story_rounds(), before;
	pid_t own;

	if (!begin("policy = any\n"))
		return;
	own = (pid_t)story_device(map, 0).worker_pid;
	if (!one_round(0))
		return;
	before = story_holds_at_rest(agent.pid);
	for (int round = 1; round < rounds && one_round(round); round++)
		;
	for (int round = 0; round < rounds && unload_round(round); round++)
		;
	OK(story_gives_back(agent.pid, before));
	finish(own);
}

/* The worker for programs does not outlive the agent. */
static void it_dies_with_the_agent(void)
{
	char odd_one[256];
	struct gpumap_job job;
	pid_t worker;

	if (!begin("policy = any\nlimit = 0\n"))
		return;
	worker = program_worker(0);
	job = odd_job(odd, memory, ODD_GOES_ON);
	EQ(gpumap_submit(session, 0, &job, 1), 0);
	OK(goes_on(memory));
	EQ(agent_kill(&agent, SIGKILL), -SIGKILL);
	OK(gone_soon(worker));
	EQ(collect(session, 1, -ECONNRESET, -ECONNRESET), 1);
	gpumap_session_close(session);
	gpumap_session_close(neighbour);
	gpumap_detach(map);
	/* The next agent finds the lock that is left and removes it, and no
	 * other file. */
	shm_names_file(odd_one, agent.instance, "row0.uid1.lock.mine");
	close(open(odd_one, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
	OK(has_lock(0));
	OK(start("policy = any\n"));
	OK(!has_lock(0));
	EQ(access(odd_one, F_OK), 0);
	unlink(odd_one);
	stop();
}

/* ---- two users --------------------------------------------------------- */

/* A process with a session of its own.  A letter tells it what to do, and it
 * answers with the result. */
struct user {
	uint32_t uid;
	pid_t pid;
	int fd;
};

static int open_odd(void)
{
	void *at = NULL;
	int ret;

	map = story_attach(&agent);
	session = map ? open_with(true) : NULL;
	if (!session)
		return -EACCES;
	ret = gpumap_alloc(session, 0, 4096, &at);
	memory = at;
	return ret ? ret : gpumap_program_load(session, 0, "odd", &odd);
}

static int submit_odd(void)
{
	struct gpumap_job jobs[JOBS];

	for (uint32_t i = 0; i < JOBS; i++)
		jobs[i] = odd_job(odd, memory, ODD_NOTHING);
	return gpumap_submit(session, 0, jobs, JOBS);
}

static int do_it(char what)
{
	switch (what) {
	case 'o':
		return open_odd();
	case 's':
		return submit_odd();
	case 'w':
		return (int)collect(session, JOBS, 0, 0);
	case 'c':
		return told(ODD_CRASHES);
	case 'a':
		return is_there_again();
	default:
		return -ENOSYS;
	}
}

static void user_lives(const struct user *u, int fd)
{
	char what;
	int ret;

	session = NULL;
	if (!user_become(u->uid, u->uid))
		_exit(1);
	while (read(fd, &what, 1) == 1) {
		ret = do_it(what);
		if (write(fd, &ret, sizeof(ret)) != sizeof(ret))
			_exit(2);
	}
	gpumap_session_close(session);
	_exit(0);
}

static struct user user_start(uint32_t uid)
{
	struct user u = { .uid = uid };
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		exit(99);
	fflush(stdout);
	u.pid = fork();
	if (u.pid == 0) {
		close(ends[0]);
		user_lives(&u, ends[1]);
	}
	close(ends[1]);
	u.fd = ends[0];
	return u;
}

static int ask(const struct user *u, char what)
{
	int ret;

	if (send(u->fd, &what, 1, MSG_NOSIGNAL) != 1 ||
	    read(u->fd, &ret, sizeof(ret)) != sizeof(ret))
		return -EPIPE;
	return ret;
}

/* Other forked processes have copies of the socket, so closing it is not
 * enough. */
static void user_end(struct user *u)
{
	int status = -1;

	shutdown(u->fd, SHUT_RDWR);
	EQ(waitpid(u->pid, &status, 0), u->pid);
	EQ(status, 0);
	close(u->fd);
}

/* None of a process's four uids is that of either user. */
static bool is_neither(pid_t pid, const struct user *a, const struct user *b)
{
	char path[64], line[256];
	unsigned int is[4];
	FILE *file;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "r");
	while (file && n != 4 && fgets(line, sizeof(line), file))
		n = sscanf(line, "Uid: %u %u %u %u", &is[0], &is[1], &is[2],
			   &is[3]);
	if (file)
		fclose(file);
	for (int i = 0; i < n; i++) {
		if (is[i] == a->uid || is[i] == b->uid)
			return false;
	}
	return n == 4;
}

static void one_crashes(const struct user *one, const struct user *other)
{
	pid_t its = program_worker_of(0, one->uid);
	pid_t others = program_worker_of(0, other->uid);

	OK(its > 0 && others > 0 && its != others);
	OK(is_neither(its, one, other));
	OK(is_neither(others, one, other));
	EQ(ask(other, 's'), 0);
	EQ(ask(one, 'c'), -EIO);
	EQ(ask(other, 'w'), (int)JOBS);
	OK(gone_soon(its));
	EQ(ask(one, 'a'), true);
	OK(program_worker_of(0, one->uid) != its);
	EQ(ask(other, 's'), 0);
	EQ(ask(other, 'w'), (int)JOBS);
	EQ(program_worker_of(0, other->uid), others);
	OK(story_lives(others));
}

static void users_have_workers_of_their_own(void)
{
	struct user a, b;

	if (geteuid() != 0) {
		SKIP(1, "only root can be somebody else");
		return;
	}
	put("odd", "odd");
	if (!OK(start("policy = any\n")))
		return;
	a = user_start(STRANGER);
	b = user_start(STRANGER - 1);
	if (EQ(ask(&a, 'o'), 0) && EQ(ask(&b, 'o'), 0)) {
		one_crashes(&a, &b);
		one_crashes(&b, &a);
	}
	EQ(story_device(map, 0).restarts, 0);
	user_end(&b);
	user_end(&a);
	OK(gone_soon(program_worker_of(0, a.uid)));
	OK(gone_soon(program_worker_of(0, b.uid)));
	stop();
}

TAP_CASE()
{
	make();
	crashes_end_nothing_else();
	users_have_workers_of_their_own();
	the_limit_ends_it();
	nobody_is_left_who_wants_it();
	kills_end_nothing_else();
	it_dies_with_the_agent();
	agent_remove(&agent);
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap-worker - serves the queues of one row.  Started by gpumapd only.
 *
 * The worker binds itself to its node before it allocates, takes the row's
 * lock, maps the memory that gpumapd passed, opens its device, gives up the
 * rights that it no longer needs, and sends READY.
 *
 * A vendor's driver is opened under the worker's final user, because the driver
 * remembers the user that opened it.  A standby makes its slow preparations and
 * sends STANDBY.  Until it gets GO, the lock, the device and the journal belong
 * to another worker.
 */

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/common/node_clock.h"
#include "agent/common/numa_bind.h"
#include "agent/common/sched_hint.h"
#include "agent/worker/collective/nccl_group.h"
#include "agent/worker/control/agent_socket.h"
#include "agent/worker/control/sandbox.h"
#include "agent/worker/memory/stall_guard.h"
#include "agent/worker/programs/program.h"
#include "agent/worker/queue/heartbeat.h"
#include "agent/worker/worker.h"
#include "shm/point.h"

struct options {
	uint32_t row;
	const char *name;
	int node;
	const char *cpus;
	const char *lock;
	uid_t uid;
	gid_t gid;
	bool recover;
	bool standby;
	bool programs;
	const struct gm_backend *backend;
	const char *device;
	const char *library;
	const char *cache;     /* folder for compilers, or NULL */
	const char *operators; /* that are compiled: folder, or NULL */
	const char *nccl;      /* "-": the system's */
	uint32_t clique_ms;
	uint32_t load_depth;
	uint32_t load_bytes;
	uint32_t slice_bytes;
	int lock_fd;
};

static const struct gm_backend *const backends[] = {
	&gm_host_backend, &gm_cuda_backend, &gm_hip_backend, &gm_opencl_backend,
#ifdef HAVE_VULKAN
	&gm_vulkan_backend
#endif
};

/* Too large for the stack. */
static struct gm_worker worker;

static void __attribute__((format(printf, 1, 2), noreturn))
fail(const char *format, ...)
{
	struct gm_wire wire = gm_agent_socket_about(GM_WIRE_FAILED, 0, 0);
	va_list args;

	va_start(args, format);
	vsnprintf(wire.text, sizeof(wire.text), format, args);
	va_end(args);
	wire.status = -EIO;
	gm_agent_socket_send(GM_FD_SUPERVISOR, &wire, -1, 0);
	exit(EXIT_FAILURE);
}

/* Report the driver's cause for a device that did not open. */
static void __attribute__((noreturn))
fail_to_open(const struct options *o, int rc)
{
	struct gm_wire wire = gm_agent_socket_about(GM_WIRE_FAILED, 0, 0);
	const char *why = o->backend->fault(NULL, &wire.code);

	wire.status = rc;
	snprintf(wire.text, sizeof(wire.text), "%s", why);
	gm_agent_socket_send(GM_FD_SUPERVISOR, &wire, -1, 0);
	_exit(EXIT_FAILURE);
}

static void __attribute__((noreturn)) usage(const char *why)
{
	fprintf(stderr,
		"gpumap-worker: %s\n"
		"gpumap-worker is started by gpumapd, see gpumapd(8).\n"
		"usage: gpumap-worker --row N --name NAME --node N|-1\n"
		"       [--cpus LIST] --lock PATH --uid U --gid G [--recover]\n"
		"       [--backend host|cuda|hip|opencl|vulkan] [--device ID] "
		"[--library FILE]\n"
		"       [--cache DIR] [--operators DIR]\n"
		"       [--load-depth N] [--load-bytes N] [--slice N] "
		"[--standby]\n"
		"       [--programs] [--nccl DIR|-] [--nccl-limit MS]\n",
		why);
	exit(2);
}

static long number(const char *text, long min, long max, const char *what)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(text, &end, 10);
	if (errno || end == text || *end || n < min || n > max)
		usage(what);
	return n;
}

static const struct gm_backend *find_backend(const char *name)
{
	for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++)
		if (strcmp(backends[i]->name, name) == 0)
			return backends[i];
	usage("bad --backend");
}

static void set_card_option(struct options *o, int c)
{
	switch (c) {
	case 'd':
		o->device = optarg;
		break;
	case 'L':
		o->library = optarg;
		break;
	case 'a':
		o->cache = optarg;
		break;
	case 'o':
		o->operators = optarg;
		break;
	case 's':
		o->standby = true;
		break;
	case 'x':
		o->nccl = strcmp(optarg, "-") == 0 ? "" : optarg;
		break;
	case 'X':
		o->clique_ms =
			(uint32_t)number(optarg, 1,
					 GM_NCCL_GROUP_LIMIT_NS / 1000000,
					 "bad --nccl-limit");
		break;
	default:
		usage("unknown option");
	}
}

static void set_option(struct options *o, int c)
{
	switch (c) {
	case 'r':
		o->row = (uint32_t)number(optarg, 0, GM_ROWS - 1, "bad --row");
		break;
	case 'n':
		o->name = optarg;
		break;
	case 'N':
		o->node = (int)number(optarg, -1, INT_MAX, "bad --node");
		break;
	case 'c':
		o->cpus = optarg;
		break;
	case 'l':
		o->lock = optarg;
		break;
	case 'u':
		o->uid = (uid_t)number(optarg, 0, UINT_MAX - 1L, "bad --uid");
		break;
	case 'g':
		o->gid = (gid_t)number(optarg, 0, UINT_MAX - 1L, "bad --gid");
		break;
	case 'b':
		o->recover = true;
		break;
	case 'B':
		o->backend = find_backend(optarg);
		break;
	case 'D':
		o->load_depth = (uint32_t)number(optarg, 1, GM_LOAD_DEPTH_MAX,
						 "bad --load-depth");
		break;
	case 'S':
		o->load_bytes =
			(uint32_t)number(optarg, GM_LOAD_ALIGN,
					 GM_LOAD_BYTES_MAX, "bad --load-bytes");
		break;
	case 'C':
		o->slice_bytes = (uint32_t)number(optarg, GM_SLICE_LEAST,
						  GM_SLICE_MOST, "bad --slice");
		break;
	case 'p':
		o->programs = true;
		break;
	default:
		set_card_option(o, c);
	}
}

static struct options parse(int argc, char **argv)
{
	static const struct option known[] = {
		{ "row", required_argument, NULL, 'r' },
		{ "name", required_argument, NULL, 'n' },
		{ "node", required_argument, NULL, 'N' },
		{ "cpus", required_argument, NULL, 'c' },
		{ "lock", required_argument, NULL, 'l' },
		{ "uid", required_argument, NULL, 'u' },
		{ "gid", required_argument, NULL, 'g' },
		{ "recover", no_argument, NULL, 'b' },
		{ "backend", required_argument, NULL, 'B' },
		{ "device", required_argument, NULL, 'd' },
		{ "library", required_argument, NULL, 'L' },
		{ "cache", required_argument, NULL, 'a' },
		{ "operators", required_argument, NULL, 'o' },
		{ "load-depth", required_argument, NULL, 'D' },
		{ "load-bytes", required_argument, NULL, 'S' },
		{ "slice", required_argument, NULL, 'C' },
		{ "standby", no_argument, NULL, 's' },
		{ "programs", no_argument, NULL, 'p' },
		{ "nccl", required_argument, NULL, 'x' },
		{ "nccl-limit", required_argument, NULL, 'X' },
		{ 0 },
	};
	struct options o = { .row = GM_ROWS,
			     .node = -1,
			     .uid = (uid_t)-1,
			     .gid = (gid_t)-1,
			     .backend = &gm_host_backend,
			     .slice_bytes = GM_SLICE_DEFAULT,
			     .clique_ms = GM_NCCL_GROUP_LIMIT_NS / 1000000 };
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1)
		set_option(&o, c);
	if (optind < argc)
		usage("what is left is no option");
	if (o.row == GM_ROWS || !o.name || !o.lock)
		usage("--row, --name and --lock are needed");
	if (o.backend != &gm_host_backend && !o.recover && !o.device)
		usage("a --backend of a card needs --device");
	if (o.standby && (o.recover || o.backend == &gm_host_backend))
		usage("--standby goes with a --backend of a card");
	if (o.programs && (o.recover || o.standby))
		usage("--programs goes neither with --recover nor with "
		      "--standby");
	if (o.load_bytes % GM_LOAD_ALIGN)
		usage("--load-bytes is no multiple of 4096");
	if (o.slice_bytes % GM_SLICE_LEAST)
		usage("--slice is no multiple of 65536");
	if (geteuid() == 0 && (o.uid == (uid_t)-1 || o.gid == (gid_t)-1))
		usage("root needs --uid and --gid");
	return o;
}

/* Check the descriptors that gpumapd passes at fixed numbers, and keep them
 * from child processes. */
static void check_fds(void)
{
	struct stat st;

	if (fstat(GM_FD_SUPERVISOR, &st) < 0 || !S_ISSOCK(st.st_mode))
		usage("descriptor 3 is no socket");
	for (int fd = GM_FD_SUPERVISOR; fd <= GM_FD_GROUP_PAGE; fd++)
		if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
			usage("descriptors 3, 4 and 5 are not open");
}

/* Bind the worker before it allocates.  If that fails the row is slower, but is
 * served. */
static void bind_to_node(const struct options *o)
{
	struct gm_idset cpus;
	int n = 0, rc;

	if (o->cpus)
		n = gm_idset_parse(o->cpus, &cpus);
	if (n < 0)
		fail("--cpus %s: not a list of CPUs", o->cpus);
	if (o->node < 0 && n == 0)
		return;
	rc = gm_numa_bind_self(NULL, o->node, n ? &cpus : NULL, NULL);
	if (rc < 0)
		gm_log(GM_LOG_WARNING, "unpinned", "node=%d error=%d why=%s",
		       o->node, -rc, gm_quote(gm_numa_bind_why(rc)).text);
}

/* Open the lock file before the change of user, who may not open it. */
static void open_lock(struct options *o)
{
	o->lock_fd =
		open(o->lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (o->lock_fd < 0)
		fail("%s: %s", o->lock, strerror(errno));
}

/* Take the lock, which is held until the process ends: the row's next worker
 * waits for it. */
static void take_lock(const struct options *o)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (fcntl(o->lock_fd, F_SETLK, &whole) == 0)
		return;
	if (errno != EACCES && errno != EAGAIN)
		fail("%s: %s", o->lock, strerror(errno));
	if (fcntl(o->lock_fd, F_GETLK, &whole) < 0 || whole.l_type == F_UNLCK)
		whole.l_pid = 0;
	fail("%s: held by pid %ld, another worker of this row", o->lock,
	     (long)whole.l_pid);
}

static void *map_fd(int fd, uint64_t bytes, const char *what)
{
	struct stat st;
	void *map;

	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size < bytes)
		fail("%s (descriptor %d): not of this build", what, fd);
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		fail("%s: %s", what, strerror(errno));
	return map;
}

static void open_ring(void)
{
	const char *why;
	int rc = gm_uring_open(&worker.ring, &why);

	if (rc < 0)
		fail("%s (%s)", why, strerror(-rc));
}

/* gpumap-build is installed beside this program. */
static const char *find_builder(void)
{
	static char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	path[n < 0 ? 0 : n] = '\0';
	slash = strrchr(path, '/');
	if (!slash ||
	    (size_t)(slash - path) > sizeof(path) - sizeof("/gpumap-build"))
		fail("this program has no path in /proc/self/exe");
	memcpy(slash, "/gpumap-build", sizeof("/gpumap-build"));
	return path;
}

static struct gm_device_config device_config(const struct options *o)
{
	return (struct gm_device_config){ .node = o->node < 0 ? 0 : o->node,
					  .uuid = o->device,
					  .library = o->library,
					  .builder = find_builder(),
					  .cache = o->cache,
					  .operators = o->operators,
					  .nccl = o->nccl,
					  .slice_bytes = o->slice_bytes };
}

static void open_device(const struct options *o)
{
	struct gm_device_config config = device_config(o);
	int rc = o->backend->open(&config, &worker.dev);

	if (rc < 0 && o->backend->fault)
		fail_to_open(o, rc);
	if (rc < 0)
		fail("node %d: %s", config.node, strerror(-rc));
}

/* Prepare and wait for GO.  Until then the journal belongs to another
 * worker. */
static void stand_by(const struct options *o)
{
	struct gm_device_config config = device_config(o);
	struct gm_wire wire = gm_agent_socket_about(GM_WIRE_STANDBY, 0, 0);
	uint64_t since = gm_now_ns();
	int fds[GM_SESSION_FDS];

	if (o->backend->prepare)
		o->backend->prepare(&config);
	snprintf(wire.text, sizeof(wire.text), "prepare_ms=%" PRIu64,
		 (gm_now_ns() - since) / 1000000);
	gm_agent_socket_send(GM_FD_SUPERVISOR, &wire, -1, 0);
	if (gm_agent_socket_receive(GM_FD_SUPERVISOR, 0, &wire, fds) != 1 ||
	    wire.type != GM_WIRE_GO)
		_exit(EXIT_SUCCESS); /* this standby is not needed */
}

static void is_there(void *there)
{
	sem_post(there);
}

/* Start the close thread and wait until its set-up is done, because the set-up
 * makes calls that the filter forbids. */
static void start_closer(void)
{
	sem_t there;

	sem_init(&there, 0, 0);
	gm_close_thread_init(&worker.close_thread);
	gm_close_thread_call(&worker.close_thread, is_there, &there);
	if (!worker.close_thread.running)
		fail("no thread could be started");
	while (sem_wait(&there) < 0)
		;
	sem_destroy(&there);
}

static void become_user(const struct options *o)
{
	int rc = gm_sandbox_user(o->uid, o->gid);

	if (rc < 0)
		fail("becoming uid %u: %s", o->uid, strerror(-rc));
}

static void start_threads(const struct options *o)
{
	int rc;

	start_closer();
	if (worker.dev) {
		rc = gm_blocking_thread_start(&worker.slow, worker.dev,
					      &worker.journal->slow, -1);
		worker.has_cliques = o->nccl;
		worker.clique_limit_ns = (uint64_t)o->clique_ms * 1000000;
		if (rc < 0)
			fail("no thread could be started: %s", strerror(-rc));
	}
	rc = gm_sigbus_init();
	if (rc < 0)
		fail("SIGBUS: %s", strerror(-rc));
	gm_stall_guard_watch();
	rc = gm_stall_guard_start(worker.journal);
	if (rc < 0)
		fail("no thread could be started: %s", strerror(-rc));
}

static void confine(enum gm_confine_how how)
{
	const char *step;
	int rc = gm_sandbox_self(how, &step);

	if (rc < 0)
		fail("%s: %s", step, strerror(-rc));
}

/* Clear the heartbeats of the previous worker. */
static void begin_journal(void)
{
	gm_put(&worker.journal->slow, 0);
	gm_put(&worker.journal->in_flight, 0);
	gm_put(&worker.journal->joint, 0);
	gm_put(&worker.journal->guard, 0);
	for (uint32_t i = 0; i < GM_JOURNAL_NCCL_GROUPS; i++)
		gm_put(&worker.journal->clique[i], 0);
	gm_beat(worker.journal, GM_CALL_OPEN);
}

/* Enable programs.  A program may never return, and only gpumapd ends the
 * worker then, so the worker must not outlive gpumapd. */
static void open_programs(void)
{
	int rc = gm_program_init();

	if (rc < 0)
		fail("programs cannot be loaded on this machine: %s",
		     strerror(-rc));
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		fail("PR_SET_PDEATHSIG: %s", strerror(errno));
}

static void begin_host(const struct options *o)
{
	take_lock(o);
	if (!o->recover) {
		begin_journal();
		open_device(o);
		open_ring();
	}
	become_user(o);
	if (o->programs)
		open_programs();
	start_threads(o);
	confine(o->programs ? GM_CONFINE_PROGRAMS : GM_CONFINE_TO_LIST);
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *at)
{
	(void)st;
	if (at->level == 0)
		return 0;
	return type == FTW_DP ? rmdir(path) : unlink(path);
}

/* The folder is the worker's own; a program of before, of the same user, has
 * left there what it liked. */
static void make_cache(const struct options *o)
{
	if (!o->cache)
		return;
	if (mkdir(o->cache, 0700) < 0 && errno != EEXIST)
		fail("%s: %s", o->cache, strerror(errno));
	if (o->programs &&
	    nftw(o->cache, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
		fail("%s cannot be cleared: %s", o->cache, strerror(errno));
}

/* Before any thread runs.  Without Landlock a card that reaches all memory of
 * its process has nothing that would hold a program back; doctor says so.  With
 * a folder, there are folders of other users' programs beside it. */
static void give_up_files(const struct options *o)
{
	int rc = gm_sandbox_files(o->cache);

	if (rc == 0 && o->cache)
		rc = gm_sandbox_reads(o->library, o->cache, o->operators);
	if (rc == -ENOSYS || rc == -EOPNOTSUPP || rc == -EPERM)
		gm_log(GM_LOG_WARNING, "landlock_absent", "error=%s",
		       gm_quote(strerror(-rc)).text);
	else if (rc < 0)
		fail("Landlock: %s", strerror(-rc));
}

/* Where a vendor's library writes what programs print. */
static void print_nothing(void)
{
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
		fail("/dev/null: %s", strerror(errno));
	close(fd);
}

static void begin_vendor(const struct options *o)
{
	open_ring();
	become_user(o);
	make_cache(o);
	if (o->programs) {
		print_nothing();
		give_up_files(o);
	}
	if (o->standby)
		stand_by(o);
	take_lock(o);
	begin_journal();
	open_device(o);
	start_threads(o);
	confine(o->nccl       ? GM_CONFINE_MEETING
		: o->programs ? GM_CONFINE_ALONE
			      : GM_CONFINE_BUT_LIST);
}

static bool has_sessions(void)
{
	for (uint32_t i = 0; i < GM_JOURNAL_PLACES; i++) {
		if (worker.place[i])
			return true;
	}
	return false;
}

static int run(const struct options *o)
{
	int status;

	gm_agent_socket_say(GM_FD_SUPERVISOR, GM_WIRE_READY, 0, 0, 0,
			    worker.dev ? worker.dev->took : "");
	GM_POINT("worker_ready");
	if (o->recover)
		return gm_recover_run(&worker);
	status = gm_worker_run(&worker);
	if (!worker.dev->backend->start)
		return status;
	/* After a drain, release everything.  If gpumapd has closed its end,
	 * or ends while sessions have memory here, leave that to the kernel,
	 * because a driver's exit handlers may wait for the device. */
	if (worker.leaving || has_sessions())
		_exit(status);
	gm_nccl_group_stop(&worker);
	gm_blocking_thread_stop(&worker.slow);
	gm_stall_guard_stop();
	worker.dev->backend->close(worker.dev);
	return status;
}

int main(int argc, char **argv)
{
	static char context[GM_QUOTE_BYTES + 32];
	struct options o = parse(argc, argv);

	check_fds();
	/* Ignore signals to the whole process group.  gpumapd handles them: it
	 * drains this worker first, and closes the socket when it ends. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	gm_sched_hint_prompt();
	snprintf(context, sizeof(context), "worker=%s row=%u",
		 gm_quote(o.name).text, o.row);
	gm_log_stamp();
	gm_node_clock_begin();
	gm_log_context(context);
	bind_to_node(&o);
	open_lock(&o);
	worker.row = o.row;
	worker.node = o.node;
	worker.pair = GM_FD_SUPERVISOR;
	gm_load_init(&worker.loader, o.load_depth, o.load_bytes);
	worker.journal = map_fd(GM_FD_JOURNAL, GM_JOURNAL_BYTES, "journal");
	worker.group_page = map_fd(GM_FD_GROUP_PAGE, sizeof(*worker.group_page),
				   "group page");
	if (o.recover || o.backend == &gm_host_backend)
		begin_host(&o);
	else
		begin_vendor(&o);
	return run(&o);
}

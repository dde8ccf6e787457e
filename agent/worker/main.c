/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap-worker - serves the queues of one row.  Started by gpumapd only.
 *
 * It binds itself to its node before it allocates, takes the row's lock, maps
 * what gpumapd handed it, gives up what it needs no longer, and says READY.
 */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/common/pace.h"
#include "agent/common/pin.h"
#include "agent/worker/confine.h"
#include "agent/worker/pair.h"
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
	bool bury;
};

/* A megabyte of pointers and queues: not for the stack. */
static struct gm_worker worker;

static void __attribute__((format(printf, 1, 2), noreturn))
fail(const char *format, ...)
{
	char text[sizeof(((struct gm_wire *)0)->text)];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	gm_pair_say(GM_FD_SUPERVISOR, GM_WIRE_FAILED, 0, 0, -EIO, text);
	exit(EXIT_FAILURE);
}

static void __attribute__((noreturn)) usage(const char *why)
{
	fprintf(stderr,
		"gpumap-worker: %s\n"
		"gpumap-worker is started by gpumapd, see gpumapd(8).\n"
		"usage: gpumap-worker --row N --name NAME --node N|-1\n"
		"       [--cpus LIST] --lock PATH --uid U --gid G [--bury]\n",
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
		o->bury = true;
		break;
	default:
		usage("unknown option");
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
		{ "bury", no_argument, NULL, 'b' },
		{ 0 },
	};
	struct options o = {
		.row = GM_ROWS, .node = -1, .uid = (uid_t)-1, .gid = (gid_t)-1
	};
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1)
		set_option(&o, c);
	if (optind < argc)
		usage("what is left is no option");
	if (o.row == GM_ROWS || !o.name || !o.lock)
		usage("--row, --name and --lock are needed");
	if (geteuid() == 0 && (o.uid == (uid_t)-1 || o.gid == (gid_t)-1))
		usage("root needs --uid and --gid");
	return o;
}

/* What gpumapd left at fixed numbers is not for our children either. */
static void check_fds(void)
{
	struct stat st;

	if (fstat(GM_FD_SUPERVISOR, &st) < 0 || !S_ISSOCK(st.st_mode))
		usage("descriptor 3 is no socket");
	for (int fd = GM_FD_SUPERVISOR; fd <= GM_FD_COMMONS; fd++)
		if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
			usage("descriptors 3, 4 and 5 are not open");
}

/* Before anything is allocated.  Without it the row is slower, not absent. */
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
	rc = gm_pin_self(NULL, o->node, n ? &cpus : NULL, NULL);
	if (rc < 0)
		gm_log(GM_LOG_WARNING, "unpinned", "node=%d error=%d why=%s",
		       o->node, -rc, gm_quote(gm_pin_why(rc)).text);
}

/* Held until the process ends: the row's next worker waits for that. */
static void take_lock(const struct options *o)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = open(o->lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		fail("%s: %s", o->lock, strerror(errno));
	if (fcntl(fd, F_SETLK, &whole) == 0)
		return;
	if (errno != EACCES && errno != EAGAIN)
		fail("%s: %s", o->lock, strerror(errno));
	if (fcntl(fd, F_GETLK, &whole) < 0 || whole.l_type == F_UNLCK)
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

static void open_device(const struct options *o)
{
	struct gm_device_config config = { .node = o->node < 0 ? 0 : o->node };
	const char *why;
	int rc;

	rc = gm_host_backend.open(&config, &worker.dev);
	if (rc < 0)
		fail("node %d: %s", config.node, strerror(-rc));
	rc = gm_uring_open(&worker.ring, &why);
	if (rc < 0)
		fail("%s (%s)", why, strerror(-rc));
}

static void is_there(void *there)
{
	sem_post(there);
}

/* Threads set themselves up with calls that the filter does not know, so the
 * one that there is has to be through with that first. */
static void start_closer(void)
{
	sem_t there;

	sem_init(&there, 0, 0);
	gm_closer_init(&worker.closer);
	gm_closer_call(&worker.closer, is_there, &there);
	if (!worker.closer.running)
		fail("no thread could be started");
	while (sem_wait(&there) < 0)
		;
	sem_destroy(&there);
}

static void confine(const struct options *o)
{
	const char *step;
	int rc;

	rc = gm_confine_user(o->uid, o->gid);
	if (rc < 0)
		fail("becoming uid %u: %s", o->uid, strerror(-rc));
	start_closer();
	rc = gm_fault_init();
	if (rc < 0)
		fail("SIGBUS: %s", strerror(-rc));
	rc = gm_confine_self(&step);
	if (rc < 0)
		fail("%s: %s", step, strerror(-rc));
}

int main(int argc, char **argv)
{
	static char context[GM_QUOTE_BYTES + 32];
	struct options o = parse(argc, argv);

	check_fds();
	/* What is sent to a whole group is gpumapd's to answer: it drains us
	 * first, and closes our pair when it ends. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	gm_pace_prompt();
	snprintf(context, sizeof(context), "worker=%s row=%u",
		 gm_quote(o.name).text, o.row);
	gm_log_context(context);
	bind_to_node(&o);
	take_lock(&o);
	worker.row = o.row;
	worker.node = o.node;
	worker.pair = GM_FD_SUPERVISOR;
	worker.journal = map_fd(GM_FD_JOURNAL, GM_JOURNAL_BYTES, "journal");
	worker.commons =
		map_fd(GM_FD_COMMONS, sizeof(*worker.commons), "commons");
	if (!o.bury)
		open_device(&o);
	confine(&o);
	gm_pair_say(GM_FD_SUPERVISOR, GM_WIRE_READY, 0, 0, 0, "");
	GM_POINT("worker_ready");
	return o.bury ? gm_bury_run(&worker) : gm_loop_run(&worker);
}

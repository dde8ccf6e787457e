/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * What a session registers, exports and imports, as gpumapd sees it: judged,
 * counted, told to workers and told again to the next ones, and given back.  The
 * workers are odd ones, so that what goes wrong does so when it is meant to.
 */

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gpumap.h>

#include "tests/odd_worker.h"
#include "tests/raw.h"
#include "tests/story.h"

#define STRANGER 61357u /* a uid that nobody has */
#define KIB      UINT64_C(1024)
#define MIB      (1024 * KIB)

static const char config[] = "[socket]\n"
			     "mode = 0666\n"
			     "[host]\n"
			     "rows = 2\n"
			     "[limits]\n"
			     "arena-per-uid = 16M\n"
			     "registrations-per-uid = 4\n"
			     "exports-per-uid = 3\n";

static struct agent agent;
static char path[160];
static struct gpumap *map;
static uint32_t generation;
static int held; /* descriptors of the agent, before anybody came */

/* ---- means ------------------------------------------------------------- */

static bool says(const char *refusal, const char *words)
{
	bool all = true;

	while (*words) {
		size_t n = strcspn(words, "|");
		char word[64];

		snprintf(word, sizeof(word), "%.*s", (int)n, words);
		all = all && strstr(refusal, word);
		words += n + (words[n] == '|');
	}
	if (!all)
		NOTE("\"%s\"", refusal);
	return all;
}

/* One check: the status, and the words of a refusal. */
static void answered(const struct raw *c, const char *what, int got, int want,
		     const char *words)
{
	if (got != want)
		NOTE("%s: got %d, want %d: %s", what, got, want, c->refusal);
	tap_check(got == want && (want == 0 || says(c->refusal, words)), what,
		  __FILE__, __LINE__);
}

static int sealed(uint64_t bytes, int seals)
{
	int fd = memfd_create("agent-claims", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0 ||
	    fcntl(fd, F_ADD_SEALS, seals) != 0)
		exit(99);
	return fd;
}

/* Another descriptor of the same file. */
static int reopen(int fd, int flags)
{
	char name[64];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return open(name, flags | O_CLOEXEC);
}

static uint64_t registration(uint32_t index)
{
	return gm_handle_make(++generation, GM_BUFFER_REGISTERED, 0, index);
}

static uint64_t buffer(uint32_t row, uint32_t index)
{
	return gm_handle_make(++generation, GM_BUFFER_DEVICE, row, index);
}

static struct gm_register whole(uint64_t handle, uint64_t bytes, uint32_t row)
{
	return (struct gm_register){ .handle = handle,
				     .bytes = bytes,
				     .row = row };
}

static int register_new(struct raw *c, uint32_t index, uint32_t row, int fd,
			uint64_t *ret_handle)
{
	struct gm_register ask = whole(registration(index), MIB, row);

	if (ret_handle)
		*ret_handle = ask.handle;
	return raw_register(c, &ask, fd);
}

/* A session with queues on both rows. */
static bool open_both(struct raw *c)
{
	return EQ(raw_open_queue(c, path, 0, 64, 64 * KIB), 0) &&
	       EQ(raw_queue(c, 1), 0);
}

/* How many registrations the worker of a row has, as it says itself. */
static uint64_t count_at(struct raw *c, uint32_t row)
{
	uint64_t handle = buffer(row, ODD_COUNT);
	struct gm_export_reply reply = { .bytes = UINT64_MAX };

	if (raw_export(c, handle, &reply) != 0)
		NOTE("%s", c->refusal);
	raw_forget(c, handle);
	return reply.bytes;
}

static void kill_worker(uint32_t row)
{
	struct gpumap_device device = story_device(map, row);

	kill((pid_t)device.worker_pid, SIGKILL);
	OK(story_back(map, row, device.restarts));
}

/* Until the agent has as many descriptors as at first. */
static void gives_back(void)
{
	for (int i = 0; i < 5000 && story_holds(agent.pid, NULL) != held; i++)
		story_nap(1000);
	EQ(story_holds(agent.pid, NULL), held);
}

/* ---- what may be registered -------------------------------------------- */

static void files_are_judged(struct raw *c)
{
	int good = sealed(MIB, F_SEAL_SHRINK);
	int bare = sealed(MIB, F_SEAL_GROW);
	int fixed = sealed(MIB, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE);
	int huge = memfd_create("agent-claims",
				MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
	int ends[2];
	struct {
		const char *what;
		int fd;
		const char *words;
		int status;
		uint32_t flags;
	} tries[] = {
		{ "no descriptor", -1, "no descriptor", -EINVAL, 0 },
		{ "a file of /proc", open("/proc/self/maps", O_RDONLY),
		  "no memfd", -EINVAL, 1 },
		{ "a device", open("/dev/zero", O_RDWR), "no memfd", -EINVAL,
		  0 },
		{ "a directory", open("/dev/shm", O_RDONLY), "no memfd",
		  -EINVAL, 1 },
		{ "a pipe", -1, "no memfd", -EINVAL, 0 },
		{ "a socket", socket(AF_UNIX, SOCK_STREAM, 0), "no memfd",
		  -EINVAL, 0 },
		{ "a path", reopen(good, O_PATH), "no memfd", -EINVAL, 0 },
		{ "huge pages", huge, "huge pages|MFD_HUGETLB", -EINVAL, 0 },
		{ "what can shrink", bare, "F_SEAL_SHRINK", -EPERM, 0 },
		{ "what cannot be written", reopen(good, O_RDONLY),
		  "READ_ONLY|O_RDWR", -EPERM, 0 },
		{ "what cannot be read", reopen(good, O_WRONLY), "O_RDWR",
		  -EPERM, GPUMAP_BUFFER_READ_ONLY },
		{ "what is sealed", reopen(fixed, O_RDWR), "READ_ONLY", -EPERM,
		  0 },
	};

	OK(pipe2(ends, O_CLOEXEC) == 0);
	tries[4].fd = ends[1];
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		struct gm_register ask = whole(registration(1), MIB, 0);

		ask.flags = tries[i].flags & GPUMAP_BUFFER_READ_ONLY;
		if (i > 0 && tries[i].fd < 0) {
			SKIP(1, tries[i].what);
			continue;
		}
		answered(c, tries[i].what, raw_register(c, &ask, tries[i].fd),
			 tries[i].status, tries[i].words);
		close(tries[i].fd);
	}
	close(ends[0]);
	close(good);
	close(fixed);
}

static void words_are_judged(struct raw *c)
{
	const struct {
		const char *what;
		struct gm_register ask;
		int status;
		const char *words;
	} tries[] = {
		{ "no handle", { 0, 0, MIB, 0, 0 }, -EINVAL, "handle" },
		{ "a handle of a row",
		  { gm_handle_make(7, 0, 0, 1), 0, MIB, 0, 0 },
		  -EINVAL,
		  "handle" },
		{ "a kind that there is not",
		  { gm_handle_make(7, 3, 0, 1), 0, MIB, 0, 0 },
		  -EINVAL,
		  "handle" },
		{ "generation 0",
		  { gm_handle_make(0, 1, 0, 1), 0, MIB, 0, 0 },
		  -EINVAL,
		  "handle" },
		{ "a row in the handle",
		  { gm_handle_make(7, 1, 1, 1), 0, MIB, 1, 0 },
		  -EINVAL,
		  "handle" },
		{ "an index past the table",
		  { gm_handle_make(7, 1, 0, GM_BUFFERS_MAX), 0, MIB, 0, 0 },
		  -EINVAL,
		  "handle" },
		{ "an unknown flag",
		  { gm_handle_make(7, 1, 0, 1), 0, MIB, 0, 4 },
		  -EINVAL,
		  "flags 0x4" },
		{ "exportable",
		  { gm_handle_make(7, 1, 0, 1), 0, MIB, 0,
		    GPUMAP_BUFFER_EXPORTABLE },
		  -EINVAL,
		  "flags" },
		{ "a row that there is not",
		  { gm_handle_make(7, 1, 0, 1), 0, MIB, 2, 0 },
		  -ENODEV,
		  "row 2|queue" },
		{ "a row out of this world",
		  { gm_handle_make(7, 1, 0, 1), 0, MIB, UINT32_MAX, 0 },
		  -ENODEV,
		  "queue" },
		{ "no bytes",
		  { gm_handle_make(7, 1, 0, 1), 0, 0, 0, 0 },
		  -EINVAL,
		  "at least one" },
		{ "half a page",
		  { gm_handle_make(7, 1, 0, 1), 2048, 2048, 0, 0 },
		  -EINVAL,
		  "multiple of 4096" },
		{ "a byte too many",
		  { gm_handle_make(7, 1, 0, 1), 0, MIB + 1, 0, 0 },
		  -ERANGE,
		  "memfd has 1048576" },
		{ "a start behind the end",
		  { gm_handle_make(7, 1, 0, 1), 2 * MIB, 1, 0, 0 },
		  -ERANGE,
		  "memfd has" },
		{ "a sum that wraps",
		  { gm_handle_make(7, 1, 0, 1), 4096, UINT64_MAX - 4095, 0, 0 },
		  -ERANGE,
		  "memfd has" },
	};
	int fd = sealed(MIB, F_SEAL_SHRINK);

	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++)
		answered(c, tries[i].what, raw_register(c, &tries[i].ask, fd),
			 tries[i].status, tries[i].words);
	close(fd);
}

static void one_memory_has_one_handle(struct raw *c)
{
	int fd = sealed(2 * MIB, F_SEAL_SHRINK), other = sealed(2 * MIB, 6);
	struct gm_register ask = whole(registration(1), MIB, 0), shifted;
	int again = reopen(fd, O_RDWR);

	answered(c, "row 0", raw_register(c, &ask, fd), 0, "");
	answered(c, "row 0 again", raw_register(c, &ask, fd), -EALREADY,
		 "row 0");
	ask.row = 1;
	answered(c, "another file", raw_register(c, &ask, other), -EEXIST,
		 "other memory");
	answered(c, "no memfd", raw_register(c, &ask, STDOUT_FILENO), -EEXIST,
		 "other memory");
	shifted = ask;
	shifted.at = 4096;
	answered(c, "another part", raw_register(c, &shifted, fd), -EEXIST,
		 "other memory");
	shifted = ask;
	shifted.flags = GPUMAP_BUFFER_READ_ONLY;
	answered(c, "another use", raw_register(c, &shifted, fd), -EEXIST,
		 "other memory");
	answered(c, "row 1, by another descriptor",
		 raw_register(c, &ask, again), 0, "");
	EQ(count_at(c, 0), 1);
	EQ(count_at(c, 1), 1);
	answered(c, "forgotten", raw_forget(c, ask.handle), 0, "");
	EQ(count_at(c, 0), 0);
	EQ(count_at(c, 1), 0);
	answered(c, "forgotten twice", raw_forget(c, ask.handle), -ENOENT,
		 "registered nothing");
	close(fd);
	close(other);
	close(again);
}

static void what_a_worker_refuses_is_not_kept(struct raw *c)
{
	int fd = sealed(MIB, F_SEAL_SHRINK);
	uint64_t handle;

	answered(c, "a worker without memory",
		 register_new(c, ODD_REFUSED, 0, fd, &handle), -ENOMEM,
		 "not so much memory");
	answered(c, "nothing to forget", raw_forget(c, handle), -ENOENT, "");
	close(fd);
}

static void bytes_and_numbers_have_limits(struct raw *c)
{
	int fd = sealed(64 * MIB, F_SEAL_SHRINK);
	struct gm_register ask = whole(registration(1), 16 * MIB, 0);
	uint64_t handles[4];

	/* Beside them, the arenas of sessions count. */
	answered(c, "more bytes than the uid may", raw_register(c, &ask, fd),
		 -EDQUOT, "arena-per-uid|asks for 16777216");
	ask.bytes = UINT64_MAX / 2;
	answered(c, "more than there is", raw_register(c, &ask, fd), -ERANGE,
		 "");
	for (int i = 0; i < 4; i++)
		EQ(register_new(c, 1 + (uint32_t)i, 0, fd, &handles[i]), 0);
	answered(c, "one too many", register_new(c, 5, 0, fd, NULL), -EDQUOT,
		 "4 registrations|registrations-per-uid");
	EQ(raw_forget(c, handles[2]), 0);
	answered(c, "one in its place", register_new(c, 5, 0, fd, &handles[2]),
		 0, "");
	for (int i = 0; i < 4; i++)
		EQ(raw_forget(c, handles[i]), 0);
	close(fd);
}

/* ---- who may not ------------------------------------------------------- */

static void only_sessions_register(void)
{
	int fd = sealed(MIB, F_SEAL_SHRINK);
	struct raw c;

	/* It carries what no request of its connection may. */
	if (EQ(raw_open(&c, path), 0)) {
		int ret = register_new(&c, 1, 0, fd, NULL);

		OK(ret == -ECONNRESET || ret == -EPERM);
		NOTE("a descriptor from no session: %s", strerror(-ret));
	}
	raw_close(&c);
	if (EQ(raw_open(&c, path), 0)) {
		answered(&c, "no session", register_new(&c, 1, 0, -1, NULL),
			 -EINVAL, "no session");
		answered(&c, "FORGET of no session", raw_forget(&c, 5), -EINVAL,
			 "no session");
	}
	raw_close(&c);
	if (EQ(raw_open(&c, path), 0) &&
	    EQ(raw_session(&c, 64, 0, 64 * KIB), 0))
		answered(&c, "no queue", register_new(&c, 1, 0, fd, NULL),
			 -ENODEV, "no queue");
	raw_close(&c);
	close(fd);
}

static int send_fds(struct raw *c, uint16_t type, const int *fds, uint32_t n)
{
	struct gm_register ask = whole(registration(1), MIB, 0);
	struct raw_record record = {
		.header = raw_header(c, type, sizeof(ask), 0),
		.body = &ask,
		.body_bytes = sizeof(ask),
		.fds = fds,
		.n_fds = n,
	};

	return raw_send(c, &record, 0);
}

static void more_than_one_ends_the_session(void)
{
	int fd = sealed(MIB, F_SEAL_SHRINK), many[200];
	struct raw c;

	for (int i = 0; i < 200; i++)
		many[i] = fd;
	for (uint32_t n = 2; n <= 200; n *= 10) {
		if (!open_both(&c))
			return;
		EQ(send_fds(&c, GM_CONTROL_REGISTER, many, n), 0);
		OK(raw_wait_over(&c));
		raw_close(&c);
	}
	/* Nor does any other request carry one. */
	for (uint16_t type = GM_CONTROL_HELLO; type <= GM_CONTROL_DRAIN + 1;
	     type++) {
		if (type == GM_CONTROL_REGISTER || !open_both(&c))
			continue;
		if (send_fds(&c, type, many, 1) != 0 || !raw_wait_over(&c))
			OK(!"a descriptor was let in");
		raw_close(&c);
	}
	gives_back();
	close(fd);
}

/* A socket whose last close takes a minute: nobody reads what it has sent.
 * Returns it, and the other end; -1 where there is no loopback. */
static int lingering(int *ret_other)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct linger linger = { .l_onoff = 1, .l_linger = 60 };
	socklen_t bytes = sizeof(to);
	static const char data[65536];
	int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*ret_other = -1;
	if (bind(door, (struct sockaddr *)&to, bytes) == 0 &&
	    listen(door, 1) == 0 &&
	    getsockname(door, (struct sockaddr *)&to, &bytes) == 0 &&
	    connect(fd, (struct sockaddr *)&to, bytes) == 0)
		*ret_other = accept(door, NULL, NULL);
	close(door);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	while (*ret_other >= 0 &&
	       send(fd, data, sizeof(data), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		;
	return fd;
}

/* As a registration, which is refused, or with a request that carries none. */
static bool send_lingering(struct raw *c, uint16_t type, int *ret_other)
{
	int fd = lingering(ret_other);
	bool sent;

	/* Or it might be done with it before us: the last close shall be its. */
	kill(agent.pid, SIGSTOP);
	sent = *ret_other >= 0 && send_fds(c, type, &fd, 1) == 0;
	if (!sent)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){ 0 },
			   sizeof(struct linger));
	close(fd);
	kill(agent.pid, SIGCONT);
	return sent;
}

static void what_lingers_holds_up_nobody(void)
{
	enum { MANY = 12 };
	int others[MANY], sent = 0;
	struct gm_control reply;
	int fds[GM_CONTROL_FDS_MAX];
	struct raw c, good;

	if (!open_both(&c))
		return;
	for (int i = 0; i < MANY - 1; i++) {
		char text[512];

		if (!send_lingering(&c, GM_CONTROL_REGISTER, &others[i]))
			break;
		sent++;
		OK(raw_receive(&c, &reply, text, sizeof(text), fds) >= 0);
		EQ(reply.status, -EINVAL);
	}
	if (sent == MANY - 1 &&
	    send_lingering(&c, GM_CONTROL_SESSIONS, &others[sent]))
		sent++;
	if (sent < MANY)
		SKIP(1, "no socket lingers here");
	else
		OK(raw_wait_over(&c));
	OK(open_both(&good));
	EQ(count_at(&good, 0), 0);
	raw_close(&good);
	raw_close(&c);
	/* They are let go with these: by a reset, for there is something to
	 * read. */
	while (sent > 0)
		close(others[--sent]);
	gives_back();
}

/* ---- deaths ------------------------------------------------------------ */

static void the_next_worker_is_told(struct raw *c)
{
	int fd = sealed(MIB, F_SEAL_SHRINK);
	uint64_t one, two, three;

	EQ(register_new(c, 1, 0, fd, &one), 0);
	EQ(register_new(c, 2, 0, fd, &two), 0);
	EQ(register_new(c, 3, 1, fd, &three), 0);
	EQ(raw_forget(c, two), 0);
	kill_worker(0);
	/* READY means that it has them. */
	EQ(count_at(c, 0), 1);
	kill_worker(0);
	EQ(count_at(c, 0), 1);
	EQ(count_at(c, 1), 1);
	EQ(raw_forget(c, one), 0);
	EQ(raw_forget(c, three), 0);
	kill_worker(0);
	EQ(count_at(c, 0), 0);
	close(fd);
}

/* It dies of what is new, and the client hears of it; the row comes back. */
static void a_claim_may_cost_one_worker(struct raw *c)
{
	uint32_t restarts = story_device(map, 0).restarts;
	int fd = sealed(MIB, F_SEAL_SHRINK);
	struct gm_export_reply export;
	uint64_t kept;

	EQ(register_new(c, 1, 0, fd, &kept), 0);
	answered(c, "a deadly registration",
		 register_new(c, ODD_DEADLY, 0, fd, NULL), -ESTALE, "has died");
	OK(story_back(map, 0, restarts));
	EQ(count_at(c, 0), 1);
	restarts = story_device(map, 0).restarts;
	answered(c, "a deadly export",
		 raw_export(c, buffer(0, ODD_DEADLY), &export), -ESTALE,
		 "has died");
	OK(story_back(map, 0, restarts));
	EQ(count_at(c, 0), 1);
	EQ(raw_forget(c, kept), 0);
	close(fd);
}

/* One that kills each worker that it is told to again ends its session, not
 * the row. */
static void a_claim_may_not_cost_many(void)
{
	uint32_t restarts = story_device(map, 1).restarts;
	int fd = sealed(MIB, F_SEAL_SHRINK);
	struct raw bad, good;

	if (!open_both(&bad) || !open_both(&good))
		return;
	EQ(register_new(&good, 1, 1, fd, NULL), 0);
	EQ(register_new(&bad, ODD_DEADLY_AGAIN, 1, fd, NULL), 0);
	kill((pid_t)story_device(map, 1).worker_pid, SIGKILL);
	OK(raw_wait_over(&bad));
	OK(agent_wait_log(&agent, "workers die of what it has registered"));
	OK(story_back(map, 1, restarts + 2));
	OK(!raw_is_over(&good));
	EQ(count_at(&good, 1), 1);
	raw_close(&bad);
	raw_close(&good);
	close(fd);
}

static void who_hangs_up_gets_no_answer(void)
{
	int fd = sealed(MIB, F_SEAL_SHRINK);
	struct raw c, other;

	for (int i = 0; i < 4; i++) {
		if (!open_both(&c) ||
		    !EQ(send_fds(&c, GM_CONTROL_REGISTER, &fd, 1), 0))
			return;
		raw_close(&c);
	}
	/* Some worker never says anything about it. */
	if (open_both(&c)) {
		struct gm_register ask =
			whole(registration(ODD_SILENT), MIB, 0);
		struct raw_record record = {
			.header = raw_header(&c, GM_CONTROL_REGISTER,
					     sizeof(ask), 0),
			.body = &ask,
			.body_bytes = sizeof(ask),
			.fds = &fd,
			.n_fds = 1,
		};

		EQ(raw_send(&c, &record, 0), 0);
		if (open_both(&other))
			EQ(count_at(&other, 0), 0);
		raw_close(&other);
		raw_close(&c);
	}
	gives_back();
	close(fd);
}

/* ---- exports ----------------------------------------------------------- */

static int import_into(struct raw *c, uint64_t id, uint32_t row,
		       uint64_t *ret_handle)
{
	struct gm_import ask = { .id = id,
				 .handle = buffer(row, 9),
				 .row = row };
	struct gm_import_reply reply = { 0 };
	int error = raw_import(c, &ask, &reply, NULL);

	if (ret_handle)
		*ret_handle = ask.handle;
	if (error == 0 && (reply.bytes != ODD_EXPORT_BYTES || reply.row != row))
		return -EBADMSG;
	return error;
}

static int take_fd(struct raw *c, uint64_t id)
{
	struct gm_import ask = { .id = id };
	struct gm_import_reply reply = { 0 };
	int fd, error = raw_import(c, &ask, &reply, &fd);

	if (error)
		return error;
	if (reply.bytes != ODD_EXPORT_BYTES)
		return -EBADMSG;
	return fd;
}

static void exports_are_had_by_many(void)
{
	struct gm_export_reply export = { 0 }, again = { 0 };
	uint64_t handle = buffer(1, 1), theirs;
	int fd;
	struct raw owner, other, plain;
	struct stat st = { 0 };

	if (!open_both(&owner) || !open_both(&other) ||
	    !EQ(raw_open(&plain, path), 0))
		return;
	EQ(raw_export(&owner, handle, &export), 0);
	EQ(export.bytes, ODD_EXPORT_BYTES);
	EQ(gm_export_row(export.id), 1);
	EQ(raw_export(&owner, handle, &again), 0);
	EQ(again.id, export.id);

	EQ(import_into(&other, export.id, 1, &theirs), 0);
	answered(&other, "into another row",
		 import_into(&other, export.id, 0, NULL), -EOPNOTSUPP, "row 1");
	answered(&plain, "into no session",
		 import_into(&plain, export.id, 1, NULL), -EINVAL,
		 "no session");
	fd = take_fd(&plain, export.id);
	if (OK(fd >= 0) && EQ(fstat(fd, &st), 0))
		EQ(st.st_size, ODD_EXPORT_BYTES);
	close(fd);
	EQ(raw_forget(&other, theirs), 0);
	answered(&other, "forgotten twice", raw_forget(&other, theirs), -ENOENT,
		 "neither exported nor imported");
	EQ(import_into(&other, export.id, 1, &theirs), 0);

	EQ(raw_forget(&owner, handle), 0);
	answered(&other, "what was forgotten",
		 import_into(&other, export.id, 1, NULL), -ENOENT, "forgotten");
	EQ(take_fd(&plain, export.id), -ENOENT);
	EQ(take_fd(&plain, 0), -ENOENT);
	EQ(raw_export(&owner, handle, &again), 0);
	OK(again.id != export.id);
	raw_close(&owner);
	raw_close(&other);
	raw_close(&plain);
	gives_back();
}

/* It counts as long as anybody is known to have it. */
static void exports_are_charged_to_the_last(void)
{
	struct gm_export_reply export[3], more;
	struct raw owner, other;
	uint64_t handles[3];

	if (!open_both(&owner) || !open_both(&other))
		return;
	for (uint32_t i = 0; i < 3; i++) {
		handles[i] = buffer(0, i);
		EQ(raw_export(&owner, handles[i], &export[i]), 0);
	}
	answered(&owner, "one too many",
		 raw_export(&owner, buffer(0, 5), &more), -EDQUOT,
		 "3 exports|exports-per-uid");
	EQ(import_into(&other, export[0].id, 0, NULL), 0);
	EQ(take_fd(&other, export[1].id) >= 0, true);
	for (int i = 0; i < 2; i++)
		EQ(raw_forget(&owner, handles[i]), 0);
	EQ(raw_export(&owner, buffer(0, 5), &more), -EDQUOT);
	raw_close(&other);
	for (int i = 0; i < 5000 && raw_export(&owner, buffer(0, 5), &more);
	     i++)
		story_nap(1000);
	EQ(raw_export(&owner, buffer(0, 6), &more), 0);
	raw_close(&owner);
}

static void exports_end_with_their_worker(void)
{
	struct gm_export_reply export = { 0 }, here = { 0 };
	struct raw owner, other;

	if (!open_both(&owner) || !open_both(&other))
		return;
	EQ(raw_export(&owner, buffer(0, 1), &export), 0);
	EQ(raw_export(&owner, buffer(1, 1), &here), 0);
	EQ(import_into(&other, export.id, 0, NULL), 0);
	kill_worker(0);
	EQ(import_into(&other, export.id, 0, NULL), -ENOENT);
	EQ(import_into(&other, here.id, 1, NULL), 0);
	/* And with their session. */
	raw_close(&owner);
	for (int i = 0; i < 5000 && !import_into(&other, here.id, 1, NULL); i++)
		story_nap(1000);
	EQ(import_into(&other, here.id, 1, NULL), -ENOENT);
	raw_close(&other);
}

static void exports_have_a_size(struct raw *c)
{
	struct gm_export_reply export;

	answered(c, "more than half of the row",
		 raw_export(c, buffer(0, ODD_HUGE), &export), -EDQUOT,
		 "may export|reserve more");
	answered(c, "what the worker refuses",
		 raw_export(c, buffer(0, ODD_REFUSED), &export), -ENOMEM, "");
	answered(c, "a registration", raw_export(c, registration(1), &export),
		 -EINVAL, "handle");
	answered(c, "a row that there is not",
		 raw_export(c, buffer(2, 1), &export), -ENODEV, "row 2");
	answered(c, "no generation",
		 raw_export(c, gm_handle_make(0, 0, 0, 1), &export), -EINVAL,
		 "handle");
	EQ(raw_export(c, buffer(0, 1), &export), 0);
}

/* ---- strangers --------------------------------------------------------- */

static int be_stranger(uint64_t id, bool may)
{
	struct raw c;
	int fd;

	if (setgroups(0, NULL) != 0 ||
	    setresgid(STRANGER, STRANGER, STRANGER) != 0 ||
	    setresuid(STRANGER, STRANGER, STRANGER) != 0)
		return 1;
	if (raw_open_queue(&c, path, 0, 64, 64 * KIB) != 0)
		return 2;
	fd = take_fd(&c, id);
	if (may ? fd < 0 : fd != -EACCES || !says(c.refusal, "uid|share"))
		return 3;
	if (import_into(&c, id, 0, NULL) != (may ? 0 : -EACCES))
		return 4;
	return 0;
}

static void a_stranger_imports(bool may)
{
	struct gm_export_reply export = { 0 };
	struct raw owner;
	int status;
	pid_t pid;

	if (geteuid() != 0) {
		SKIP(1, "this needs root, to be somebody else");
		return;
	}
	if (!open_both(&owner) ||
	    !EQ(raw_export(&owner, buffer(0, 1), &export), 0))
		return;
	pid = fork();
	if (pid == 0)
		_exit(be_stranger(export.id, may));
	EQ(waitpid(pid, &status, 0), pid);
	EQ(status, 0);
	raw_close(&owner);
}

/* ---- all of it --------------------------------------------------------- */

static bool begin(const char *text)
{
	static char worker[512];
	const char *build = getenv("abs_top_builddir");

	agent_make(&agent, text);
	snprintf(worker, sizeof(worker), "%s/tests/odd_worker",
		 build ? build : ".");
	agent.worker = worker;
	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	if (!OK(agent_start(&agent)))
		return false;
	map = story_attach(&agent);
	held = story_holds(agent.pid, NULL);
	return OK(map != NULL);
}

static void end(void)
{
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	agent_remove(&agent);
}

static void one_session(void)
{
	struct raw c;

	if (!open_both(&c))
		return;
	files_are_judged(&c);
	words_are_judged(&c);
	one_memory_has_one_handle(&c);
	what_a_worker_refuses_is_not_kept(&c);
	bytes_and_numbers_have_limits(&c);
	the_next_worker_is_told(&c);
	a_claim_may_cost_one_worker(&c);
	exports_have_a_size(&c);
	OK(!raw_is_over(&c));
	raw_close(&c);
	gives_back();
}

int main(void)
{
	if (begin(config)) {
		one_session();
		only_sessions_register();
		more_than_one_ends_the_session();
		what_lingers_holds_up_nobody();
		a_claim_may_not_cost_many();
		who_hangs_up_gets_no_answer();
		exports_are_had_by_many();
		exports_are_charged_to_the_last();
		exports_end_with_their_worker();
		a_stranger_imports(false);
		end();
	}
	if (begin("[socket]\nmode = 0666\n[host]\nrows = 2\n"
		  "[cuda]\nshare = any\n")) {
		a_stranger_imports(true);
		end();
	}
	return tap_done();
}

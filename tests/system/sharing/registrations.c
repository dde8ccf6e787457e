/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Memory and files that a session registers, from gpumapd's side: checked,
 * counted, told to workers and told again to the next ones, and given back.
 * Stand-ins take the workers' place, so that faults come when the test wants
 * them.
 */

#include "tests/support/process.h"
#include "tests/support/scripted_worker_agent.h"
#include "tests/support/slow_close.h"

static const char config[] = "[host]\n"
			     "rows = 2\n"
			     "[limits]\n"
			     "arena-per-uid = 16M\n"
			     "registrations-per-uid = 4\n";

/* ---- what may be registered -------------------------------------------- */

static void files_are_checked(struct raw *c)
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

/* As gm_handle_make(), for a table. */
#define HANDLE(generation, kind, row, index)                 \
	(UINT64_C(generation) << 32 | UINT64_C(kind) << 30 | \
	 UINT64_C(row) << 22 | (index))

static const struct {
	const char *what;
	struct gm_register ask;
	int status;
	const char *words;
} bad_words[] = {
	{ "no handle", { 0, 0, MIB, 0, 0 }, -EINVAL, "handle" },
	{ "a handle of a row",
	  { HANDLE(7, 0, 0, 1), 0, MIB, 0, 0 },
	  -EINVAL,
	  "handle" },
	{ "a kind that there is not",
	  { HANDLE(7, 3, 0, 1), 0, MIB, 0, 0 },
	  -EINVAL,
	  "handle" },
	{ "generation 0",
	  { HANDLE(0, 1, 0, 1), 0, MIB, 0, 0 },
	  -EINVAL,
	  "handle" },
	{ "a row in the handle",
	  { HANDLE(7, 1, 1, 1), 0, MIB, 1, 0 },
	  -EINVAL,
	  "handle" },
	{ "an index past the table",
	  { HANDLE(7, 1, 0, GM_BUFFERS_MAX), 0, MIB, 0, 0 },
	  -EINVAL,
	  "handle" },
	{ "an unknown flag",
	  { HANDLE(7, 1, 0, 1), 0, MIB, 0, 4 },
	  -EINVAL,
	  "flags 0x4" },
	{ "exportable",
	  { HANDLE(7, 1, 0, 1), 0, MIB, 0, GPUMAP_BUFFER_EXPORTABLE },
	  -EINVAL,
	  "flags" },
	{ "a row that there is not",
	  { HANDLE(7, 1, 0, 1), 0, MIB, 2, 0 },
	  -ENODEV,
	  "row 2|queue" },
	{ "a row out of this world",
	  { HANDLE(7, 1, 0, 1), 0, MIB, UINT32_MAX, 0 },
	  -ENODEV,
	  "queue" },
	{ "no bytes",
	  { HANDLE(7, 1, 0, 1), 0, 0, 0, 0 },
	  -EINVAL,
	  "at least one" },
	{ "half a page",
	  { HANDLE(7, 1, 0, 1), 2048, 2048, 0, 0 },
	  -EINVAL,
	  "multiple of 4096" },
	{ "a byte too many",
	  { HANDLE(7, 1, 0, 1), 0, MIB + 1, 0, 0 },
	  -ERANGE,
	  "memfd has 1048576" },
	{ "a start behind the end",
	  { HANDLE(7, 1, 0, 1), 2 * MIB, 1, 0, 0 },
	  -ERANGE,
	  "memfd has" },
	{ "a sum that wraps",
	  { HANDLE(7, 1, 0, 1), 4096, UINT64_MAX - 4095, 0, 0 },
	  -ERANGE,
	  "memfd has" },
};

static void words_are_checked(struct raw *c)
{
	int fd = sealed(MIB, F_SEAL_SHRINK);

	for (size_t i = 0; i < sizeof(bad_words) / sizeof(bad_words[0]); i++)
		answered(c, bad_words[i].what,
			 raw_register(c, &bad_words[i].ask, fd),
			 bad_words[i].status, bad_words[i].words);
	close(fd);
}

static void one_memory_has_one_handle(struct raw *c)
{
	int fd = sealed(2 * MIB, F_SEAL_SHRINK), other = sealed(2 * MIB, 6);
	struct gm_register ask = whole(registration(1), MIB, 0), shifted;

	answered(c, "row 0", raw_register(c, &ask, fd), 0, "");
	answered(c, "row 0 again", raw_register(c, &ask, fd), -EALREADY,
		 "row 0");
	ask.row = 1;
	shifted = ask;
	shifted.at = 4096;
	answered(c, "another part", raw_register(c, &shifted, fd), -EEXIST,
		 "other memory");
	shifted = ask;
	shifted.flags = GPUMAP_BUFFER_READ_ONLY;
	answered(c, "another use", raw_register(c, &shifted, fd), -EEXIST,
		 "other memory");
	answered(c, "row 1, which gets the first file",
		 raw_register(c, &ask, other), 0, "");
	EQ(count_at(c, 0), 1);
	EQ(count_at(c, 1), 1);
	answered(c, "forgotten", raw_forget(c, ask.handle), 0, "");
	EQ(count_at(c, 0), 0);
	EQ(count_at(c, 1), 0);
	answered(c, "forgotten twice", raw_forget(c, ask.handle), -ENOENT,
		 "registered nothing");
	close(fd);
	close(other);
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
		 -EDQUOT, "arena-per-uid|asks for 16 MiB");
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

	/* The request carries descriptors that no request of its connection may
	 * have. */
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

/* As a registration, which is refused, or with a request that carries none. */
static bool send_lingering(struct raw *c, uint16_t type, int *ret_other)
{
	int fd = lingering(ret_other);
	bool sent;

	/* Or it might be done with it before us: the last close shall be
	 * its. */
	sent = process_stop(agent.pid) && *ret_other >= 0 &&
	       send_fds(c, type, &fd, 1) == 0;
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
	    send_lingering(&c, GM_CONTROL_LIST, &others[sent]))
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

/* The worker dies of the new registration, and the client is told; the row
 * comes back. */
static void a_claim_may_cost_one_worker(struct raw *c)
{
	uint32_t restarts = story_device(map, 0).restarts;
	int fd = sealed(MIB, F_SEAL_SHRINK);
	struct gm_export_reply export;
	uint64_t kept;

	EQ(register_new(c, 1, 0, fd, &kept), 0);
	answered(c, "a deadly registration",
		 register_new(c, ODD_DEADLY, 0, fd, NULL), -EIO, "has died");
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

/* Nor is it ended for what another's costs: that it was asked first, and has
 * not been answered, does not say that they die of it. */
static void who_waits_beside_it_is_not_ended(void)
{
	uint32_t restarts = story_device(map, 1).restarts;
	int fd = sealed(MIB, F_SEAL_SHRINK);
	struct raw bad, good;

	if (!open_both(&good) || !open_both(&bad))
		return;
	EQ(register_new(&good, ODD_SILENT_AGAIN, 1, fd, NULL), 0);
	EQ(register_new(&bad, ODD_DEADLY_AGAIN, 1, fd, NULL), 0);
	kill((pid_t)story_device(map, 1).worker_pid, SIGKILL);
	OK(raw_wait_over(&bad));
	OK(story_back(map, 1, restarts + 2));
	OK(!raw_is_over(&good));
	raw_close(&bad);
	raw_close(&good);
	close(fd);
}

/* Forgotten while the next worker is told of it: it is forgotten there, too,
 * and the row does not wait for it. */
static void what_is_asked_anew_may_leave(void)
{
	uint32_t restarts = story_device(map, 1).restarts;
	int fd = sealed(MIB, F_SEAL_SHRINK), fds[GM_CONTROL_FDS_MAX];
	struct gm_control reply = { .status = 1 };
	struct gm_forget forget;
	struct raw_record record;
	struct raw c;

	if (!open_both(&c))
		return;
	EQ(register_new(&c, ODD_SILENT_AGAIN, 1, fd, &forget.handle), 0);
	kill((pid_t)story_device(map, 1).worker_pid, SIGKILL);
	for (int i = 0; i < STORY_LOOKS; i++) {
		struct gpumap_device device = story_device(map, 1);

		if (device.restarts > restarts && device.worker_pid)
			break;
		story_nap(1000);
	}
	record = (struct raw_record){
		.header = raw_header(&c, GM_CONTROL_FORGET, sizeof(forget), 0),
		.body = &forget,
		.body_bytes = sizeof(forget),
	};
	EQ(raw_send(&c, &record, 0), 0);
	OK(story_back(map, 1, restarts));
	kill_worker(1);
	EQ(raw_receive(&c, &reply, NULL, 0, fds), 0);
	EQ(reply.status, 0);
	EQ(count_at(&c, 1), 0);
	EQ(raw_forget(&c, forget.handle), -ENOENT);
	raw_close(&c);
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

/* ---- all of it --------------------------------------------------------- */

static void one_session(void)
{
	struct raw c;

	if (!open_both(&c))
		return;
	files_are_checked(&c);
	words_are_checked(&c);
	one_memory_has_one_handle(&c);
	what_a_worker_refuses_is_not_kept(&c);
	bytes_and_numbers_have_limits(&c);
	the_next_worker_is_told(&c);
	a_claim_may_cost_one_worker(&c);
	OK(!raw_is_over(&c));
	raw_close(&c);
	gives_back();
}

TAP_CASE()
{
	if (begin(config)) {
		one_session();
		only_sessions_register();
		more_than_one_ends_the_session();
		what_lingers_holds_up_nobody();
		a_claim_may_not_cost_many();
		who_waits_beside_it_is_not_ended();
		what_is_asked_anew_may_leave();
		who_hangs_up_gets_no_answer();
		end();
	}
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* gpumap-worker, whole, with this test in gpumapd's place and in its clients'. */

#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "hand_client.h"
#include "shm/journal.h"
#include "tap.h"

#define ROW   3u
#define MIB   (UINT64_C(1) << 20)
#define OTHER 65534u /* whom root's workers become */

/* What gpumapd keeps of one row. */
struct row {
	char lock[64];
	int journal_fd;
	int commons_fd;
	struct gm_journal *journal;
	struct gm_commons *commons;
	pid_t pid;
	int pair;
	char failed[128]; /* what FAILED said */
};

static void make_row(struct row *row)
{
	static unsigned serial;

	snprintf(row->lock, sizeof(row->lock),
		 "/dev/shm/gpumap-test.%d.%u.lock", (int)getpid(), serial++);
	row->journal =
		hand_share("test-journal", GM_JOURNAL_BYTES, &row->journal_fd);
	row->commons = hand_share("test-commons", sizeof(*row->commons),
				  &row->commons_fd);
	gm_put(&row->commons->spin_limit, 1);
	row->pair = -1;
	row->failed[0] = '\0';
}

static void drop_row(struct row *row)
{
	munmap(row->journal, GM_JOURNAL_BYTES);
	munmap(row->commons, sizeof(*row->commons));
	close(row->journal_fd);
	close(row->commons_fd);
	if (row->pair >= 0)
		close(row->pair);
	unlink(row->lock);
}

static void __attribute__((noreturn))
be_worker(const struct row *row, int pair, bool bury)
{
	const char *path = getenv("GPUMAP_WORKER");
	int journal = fcntl(row->journal_fd, F_DUPFD, 16);
	int commons = fcntl(row->commons_fd, F_DUPFD, 16);
	int socket = fcntl(pair, F_DUPFD, 16);

	dup2(socket, GM_FD_SUPERVISOR);
	dup2(journal, GM_FD_JOURNAL);
	dup2(commons, GM_FD_COMMONS);
	close_range(GM_FD_COMMONS + 1, ~0u, 0);
	execl(path, path, "--row", "3", "--name", "test", "--node", "0",
	      "--lock", row->lock, "--uid", "65534", "--gid", "65534",
	      bury ? "--bury" : NULL, (char *)NULL);
	_exit(127);
}

/* The next record.  Returns its type, 0 at the end or where none came. */
static uint32_t hear(struct row *row, struct gm_wire *ret_wire)
{
	struct pollfd p = { .fd = row->pair, .events = POLLIN };

	if (poll(&p, 1, (int)(HAND_PATIENCE_NS / 1000000)) != 1 ||
	    recv(row->pair, ret_wire, sizeof(*ret_wire), 0) !=
		    sizeof(*ret_wire))
		return 0;
	if (ret_wire->type == GM_WIRE_FAILED)
		snprintf(row->failed, sizeof(row->failed), "%s",
			 ret_wire->text);
	return ret_wire->type;
}

static void launch(struct row *row, bool bury)
{
	int pair[2];

	if (row->pair >= 0)
		close(row->pair);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		exit(99);
	row->pid = fork();
	if (row->pid == 0)
		be_worker(row, pair[1], bury);
	close(pair[1]);
	row->pair = pair[0];
}

/* Returns whether it said READY. */
static bool start(struct row *row, bool bury)
{
	struct gm_wire wire;

	launch(row, bury);
	return hear(row, &wire) == GM_WIRE_READY;
}

/* Returns the exit status, 128 + signal, or -1 while it lives on. */
static int ended(struct row *row)
{
	uint64_t end = hand_now() + HAND_PATIENCE_NS;
	int status;

	while (waitpid(row->pid, &status, WNOHANG) == 0) {
		if (hand_now() > end) {
			kill(row->pid, SIGKILL);
			waitpid(row->pid, &status, 0);
			return -1;
		}
		hand_nap();
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void tell(struct row *row, const struct gm_wire *wire, const int *fds,
		 size_t n_fds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(4 * sizeof(int))];
	} control;
	struct iovec data = { (void *)wire, sizeof(*wire) };
	struct msghdr msg = { .msg_iov = &data, .msg_iovlen = 1 };
	struct cmsghdr *c;

	if (n_fds) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	if (sendmsg(row->pair, &msg, MSG_NOSIGNAL) < 0)
		NOTE("sendmsg: %s", strerror(errno));
}

static void tell_about(struct row *row, uint32_t type,
		       const struct hand_client *c)
{
	struct gm_wire wire;

	memset(&wire, 0, sizeof(wire));
	wire.type = type;
	if (c) {
		wire.session = c->id;
		wire.place = c->place;
	}
	tell(row, &wire, NULL, 0);
}

/* Returns the status of ATTACHED, 1 where something else came. */
static int attach(struct row *row, const struct hand_client *c)
{
	struct gm_wire wire = hand_attach(c, ROW);
	int fds[] = { c->queues, c->arena, c->doorbell, c->socket[1] };

	tell(row, &wire, fds, 4);
	if (hear(row, &wire) != GM_WIRE_ATTACHED || wire.session != c->id)
		return 1;
	return wire.status;
}

static int drain(struct row *row)
{
	tell_about(row, GM_WIRE_DRAIN, NULL);
	return ended(row);
}

static bool becomes_odd(gm_a32 *word)
{
	uint64_t end = hand_now() + HAND_PATIENCE_NS;

	while ((gm_get(word) & 1) == 0) {
		if (hand_now() > end)
			return false;
		hand_nap();
	}
	return true;
}

/* ---- stories ----------------------------------------------------------- */

static void it_serves_and_drains(void)
{
	struct hand_client c;
	struct gm_entry e;
	struct row row;

	make_row(&row);
	hand_open(&c, 7, 0, ROW, 64, 8 * MIB);
	OK(start(&row, false));
	EQ(attach(&row, &c), 0);
	EQ(gm_get(&c.queue->incarnation), 1);

	e = hand_nop(&c);
	for (int i = 0; i < 200; i++)
		if (hand_do(&c, &e) != 0) {
			OK(!"a no-op failed");
			break;
		}
	memset(c.memory, 0x5a, 3 * MIB);
	e = hand_copy(&c, 4 * MIB, 0, 3 * MIB);
	EQ(hand_do(&c, &e), 0);
	EQ(memcmp(c.memory, c.memory + 4 * MIB, 3 * MIB), 0);
	e.dst = 1;
	EQ(hand_do(&c, &e), -EINVAL); /* overlap */
	e.dst = 6 * MIB;
	EQ(hand_do(&c, &e), -ERANGE);
	e = hand_nop(&c);
	e.incarnation = 9;
	EQ(hand_do(&c, &e), -EIO);

	EQ(gm_get(&row.journal->completed), 204);
	/* A signal to the whole group is not the worker's to answer. */
	kill(row.pid, SIGTERM);
	kill(row.pid, SIGINT);
	e = hand_nop(&c);
	EQ(hand_do(&c, &e), 0);
	/* What is in the ring is served before the exit. */
	e = hand_nop(&c);
	hand_submit(&c, &e, 1);
	EQ(drain(&row), 0);
	EQ(gm_get(&row.journal->completed), 206);
	hand_close(&c, ROW);
	drop_row(&row);
}

static void it_parks_and_is_rung(void)
{
	struct hand_client c;
	struct gm_entry e;
	struct row row;

	make_row(&row);
	hand_open(&c, 1, 5, ROW, 16, MIB);
	OK(start(&row, false));
	EQ(attach(&row, &c), 0);
	e = hand_nop(&c);
	for (uint32_t i = 0; i < 20; i++) {
		if (!becomes_odd(&c.queue->parked) || hand_do(&c, &e) != 0) {
			OK(!"it never parked, or a no-op failed");
			break;
		}
	}
	/* Nothing is rung for twice, and nothing without need. */
	OK(c.rung >= 1 && c.rung <= 20);
	OK(gm_get(&row.journal->parks) + 1 >= c.rung);
	OK(becomes_odd(&c.queue->parked));
	EQ(gm_get(&row.commons->spinning[ROW]) <= 1, 1);
	EQ(drain(&row), 0);
	hand_close(&c, ROW);
	drop_row(&row);
}

static bool grows_past(gm_a64 *count, uint64_t seen)
{
	uint64_t end = hand_now() + HAND_PATIENCE_NS;

	while (gm_get(count) <= seen) {
		if (hand_now() > end)
			return false;
		hand_nap();
	}
	return true;
}

/* A client may be slow between its entry and its look at parked: the worker has
 * done the entry by then and sleeps again.  The bell for that sleep finds
 * nothing, and the next entry must not wait for another one. */
static void a_late_bell_is_not_the_last(void)
{
	struct hand_client c;
	struct gm_entry e;
	struct row row;
	int failed = 0;

	make_row(&row);
	hand_open(&c, 1, 5, ROW, 16, MIB);
	OK(start(&row, false));
	EQ(attach(&row, &c), 0);
	e = hand_nop(&c);
	for (uint32_t i = 0; i < 20 && !failed; i++) {
		uint64_t rung = gm_get(&row.journal->doorbells);

		failed += !becomes_odd(&c.queue->parked);
		if (gm_ring_must_wake(&c.waker)) {
			hand_ring(&c);
			failed += !grows_past(&row.journal->doorbells, rung);
		}
		failed += hand_do(&c, &e) != 0;
	}
	EQ(failed, 0);
	EQ(drain(&row), 0);
	hand_close(&c, ROW);
	drop_row(&row);
}

/* Sleep as the library does.  Returns whether it was woken. */
static bool sleep_by_futex(struct hand_client *c)
{
	struct timespec patience = { .tv_sec = HAND_PATIENCE_NS / 1000000000 };
	uint32_t seen = gm_get(&c->page->wake);

	gm_ring_park(&c->page->parked, &c->parked);
	while (!gm_ring_recheck(&c->done, GM_DONE_WORDS))
		if (syscall(SYS_futex, &c->page->wake, FUTEX_WAIT, seen,
			    &patience, NULL, 0) < 0 &&
		    errno != EAGAIN && errno != EINTR)
			return false;
		else
			seen = gm_get(&c->page->wake);
	gm_ring_unpark(&c->page->parked, &c->parked);
	return true;
}

static void it_wakes_sleepers(void)
{
	struct hand_client c;
	struct gm_entry e;
	struct pollfd p = { .events = POLLIN };
	uint32_t pos;
	int32_t status;
	char byte;
	struct row row;

	make_row(&row);
	hand_open(&c, 1, 1, ROW, 16, 32 * MIB);
	OK(start(&row, false));
	EQ(attach(&row, &c), 0);
	p.fd = c.socket[0];

	e = hand_copy(&c, 16 * MIB, 0, 16 * MIB);
	hand_submit(&c, &e, 1);
	OK(sleep_by_futex(&c));
	EQ(hand_take(&c, &pos, &status), 1);

	gm_put(&c.page->by_fd, 1);
	gm_ring_park(&c.page->parked, &c.parked);
	hand_submit(&c, &e, 1);
	/* A byte may be left of the first job: its wake saw by_fd late. */
	while (!gm_ring_recheck(&c.done, GM_DONE_WORDS)) {
		if (poll(&p, 1, (int)(HAND_PATIENCE_NS / 1000000)) != 1 ||
		    recv(c.socket[0], &byte, 1, MSG_DONTWAIT) != 1)
			break;
	}
	gm_ring_unpark(&c.page->parked, &c.parked);
	EQ(hand_take(&c, &pos, &status), 1);
	OK(gm_get(&row.journal->wakes) >= 1);
	EQ(drain(&row), 0);
	hand_close(&c, ROW);
	drop_row(&row);
}

static void a_breach_ends_one_session_only(void)
{
	struct hand_client good, bad;
	struct gm_entry e;
	struct gm_wire wire;
	uint32_t pos;
	int32_t status;
	struct row row;

	make_row(&row);
	hand_open(&good, 1, 0, ROW, 16, MIB);
	hand_open(&bad, 2, 1, ROW, 16, MIB);
	OK(start(&row, false));
	EQ(attach(&row, &good), 0);
	EQ(attach(&row, &bad), 0);

	e = hand_nop(&bad);
	EQ(hand_do(&bad, &e), 0);
	e.reserved = 1;
	hand_submit(&bad, &e, 1);
	EQ(hear(&row, &wire), GM_WIRE_VIOLATION);
	EQ(wire.session, 2);
	EQ(wire.place, 1);
	STR(wire.text, "reserved bits are set");
	EQ(gm_get(&gm_journal_at(row.journal, 1)->violations), 1);

	e = hand_nop(&good);
	EQ(hand_do(&good, &e), 0);
	/* What the other one sends now ends nowhere. */
	e = hand_nop(&bad);
	hand_submit(&bad, &e, 1);
	hand_ring(&bad);
	e = hand_nop(&good);
	EQ(hand_do(&good, &e), 0);
	EQ(hand_take(&bad, &pos, &status), 0);
	tell_about(&row, GM_WIRE_DETACH, &bad);
	EQ(hear(&row, &wire), GM_WIRE_DETACHED);
	EQ(wire.session, 2);
	EQ(drain(&row), 0);
	hand_close(&good, ROW);
	hand_close(&bad, ROW);
	drop_row(&row);
}

static void detached_means_unmapped(void)
{
	struct hand_client c;
	struct gm_entry e;
	struct gm_wire wire;
	struct row row;

	make_row(&row);
	hand_open(&c, 1, 1000, ROW, 1024, 64 * MIB);
	OK(start(&row, false));
	EQ(attach(&row, &c), 0);
	EQ(attach(&row, &c), -EEXIST);
	e = hand_copy(&c, 32 * MIB, 0, 32 * MIB);
	EQ(hand_do(&c, &e), 0);
	hand_unmap(&c, ROW);
	/* The kernel refuses this seal while anybody could write. */
	EQ(fcntl(c.arena, F_ADD_SEALS, F_SEAL_WRITE), -1);
	tell_about(&row, GM_WIRE_DETACH, &c);
	EQ(hear(&row, &wire), GM_WIRE_DETACHED);
	EQ(wire.session, 1);
	EQ(wire.status, 0);
	EQ(fcntl(c.arena, F_ADD_SEALS, F_SEAL_WRITE), 0);
	EQ(fcntl(c.queues, F_ADD_SEALS, F_SEAL_WRITE), 0);
	EQ(gm_get(&gm_journal_at(row.journal, 1000)->session), 0);
	tell_about(&row, GM_WIRE_DETACH, &c);
	EQ(hear(&row, &wire), GM_WIRE_DETACHED);
	EQ(wire.status, -ENOENT);
	hand_close(&c, ROW);

	/* The place has room for another. */
	hand_open(&c, 2, 1000, ROW, 16, MIB);
	EQ(attach(&row, &c), 0);
	e = hand_nop(&c);
	EQ(hand_do(&c, &e), 0);
	EQ(drain(&row), 0);
	hand_close(&c, ROW);
	drop_row(&row);
}

static void nonsense_is_not_attached(void)
{
	struct hand_client c;
	struct gm_wire wire;
	struct row row;

	make_row(&row);
	hand_open(&c, 1, 0, ROW, 16, MIB);
	OK(start(&row, false));
	for (int i = 0; i < 8; i++) {
		int fds[] = { c.queues, c.arena, c.doorbell, c.socket[1] };

		wire = hand_attach(&c, ROW);
		switch (i) {
		case 0:
			wire.depth = 24;
			break;
		case 1:
			wire.depth = 2048;
			break;
		case 2:
			wire.queue_at += GM_PAGE;
			break;
		case 3:
			wire.queue_at = 0;
			break;
		case 4:
			wire.arena_bytes = 2 * MIB;
			break;
		case 5:
			wire.range_at = UINT64_MAX;
			break;
		case 6:
			wire.place = GM_JOURNAL_PLACES;
			break;
		case 7:
			wire.session = 0;
			break;
		}
		tell(&row, &wire, fds, 3 + i % 2);
		EQ(hear(&row, &wire), GM_WIRE_ATTACHED);
		OK(wire.status < 0);
	}
	EQ(attach(&row, &c), 0);
	EQ(drain(&row), 0);
	hand_close(&c, ROW);
	drop_row(&row);
}

static void hanging_up_ends_it(void)
{
	struct hand_client c;
	struct gm_entry e;
	struct row row;

	make_row(&row);
	hand_open(&c, 1, 0, ROW, 16, 64 * MIB);
	OK(start(&row, false));
	EQ(attach(&row, &c), 0);
	e = hand_copy(&c, 32 * MIB, 0, 32 * MIB);
	hand_submit(&c, &e, 1);
	close(row.pair);
	row.pair = -1;
	EQ(ended(&row), 0);
	hand_close(&c, ROW);
	drop_row(&row);
}

/* gpumapd may be gone before the worker has come to listen. */
static void hanging_up_early_ends_it(void)
{
	struct row row;
	int wrong = 0;

	make_row(&row);
	for (int i = 0; i < 20; i++) {
		launch(&row, false);
		usleep((unsigned)i * 300);
		close(row.pair);
		row.pair = -1;
		wrong += ended(&row) != 0;
	}
	EQ(wrong, 0);
	drop_row(&row);
}

static void one_worker_per_row(void)
{
	struct row row, second;

	make_row(&row);
	make_row(&second);
	snprintf(second.lock, sizeof(second.lock), "%s", row.lock);
	OK(start(&row, false));
	OK(!start(&second, false));
	OK(strstr(second.failed, "another worker of this row") != NULL);
	EQ(ended(&second), 1);
	EQ(drain(&row), 0);
	OK(start(&second, false));
	EQ(drain(&second), 0);
	drop_row(&row);
	drop_row(&second);
}

static bool status_has(pid_t pid, const char *line)
{
	char path[64], got[256];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	while (f && !found && fgets(got, sizeof(got), f))
		found = strncmp(got, line, strlen(line)) == 0;
	if (f)
		fclose(f);
	return found;
}

static void it_gives_up_its_powers(void)
{
	struct row row;

	make_row(&row);
	OK(start(&row, false));
	OK(status_has(row.pid, "NoNewPrivs:\t1"));
#if defined(GM_SANITIZED) || defined(GM_COVERED)
	SKIP(1, "no seccomp filter in this build");
#else
	OK(status_has(row.pid, "Seccomp:\t2"));
#endif
	if (geteuid() == 0) {
		OK(status_has(row.pid, "Uid:\t65534\t65534\t65534\t65534"));
		OK(status_has(row.pid, "Gid:\t65534\t65534\t65534\t65534"));
		OK(status_has(row.pid, "Groups:\t \n") ||
		   status_has(row.pid, "Groups:\t\n"));
		OK(status_has(row.pid, "CapEff:\t0000000000000000"));
	} else {
		SKIP(4, "only root has something to give up");
	}
	EQ(drain(&row), 0);
	drop_row(&row);
}

/* ---- memory that goes away --------------------------------------------- */

static void holes_hurt_their_maker_only(void)
{
	struct hand_client good, bad;
	struct gm_entry e;
	struct gm_wire wire;
	struct row row;

	make_row(&row);
	hand_open(&good, 1, 0, ROW, 16, 4 * MIB);
	hand_open(&bad, 2, 1, ROW, 16, 4 * MIB);
	OK(start(&row, false));
	EQ(attach(&row, &good), 0);
	EQ(attach(&row, &bad), 0);

	/* A hole where there is memory to fill it is zeroes. */
	memset(bad.memory, 1, 2 * MIB);
	EQ(fallocate(bad.arena, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
		     (off_t)MIB),
	   0);
	e = hand_copy(&bad, 2 * MIB, 0, 2 * MIB);
	EQ(hand_do(&bad, &e), 0);
	EQ(bad.memory[2 * MIB], 0);
	EQ(bad.memory[4 * MIB - 1], 1);

	/* Where there is none it is SIGBUS, as behind the end of a file. */
	EQ(ftruncate(bad.arena, (off_t)MIB), 0);
	hand_submit(&bad, &e, 1);
	EQ(hear(&row, &wire), GM_WIRE_VIOLATION);
	EQ(wire.session, 2);
	e = hand_nop(&good);
	EQ(hand_do(&good, &e), 0);

	/* The queue's own memory, with nobody working on it. */
	EQ(ftruncate(good.queues, 0), 0);
	hand_ring(&good);
	EQ(hear(&row, &wire), GM_WIRE_VIOLATION);
	EQ(wire.session, 1);
	tell_about(&row, GM_WIRE_DETACH, &good);
	EQ(hear(&row, &wire), GM_WIRE_DETACHED);
	EQ(drain(&row), 0);
	hand_close(&good, ROW);
	hand_close(&bad, ROW);
	drop_row(&row);
}

static void floods_are_not_listened_to(void)
{
	struct hand_client good, bad;
	struct gm_entry e;
	uint64_t one = 1, rings;
	struct row row;
	int failed = 0;
	pid_t flood;

	make_row(&row);
	hand_open(&good, 1, 0, ROW, 16, MIB);
	hand_open(&bad, 2, 1, ROW, 16, MIB);
	OK(start(&row, false));
	EQ(attach(&row, &good), 0);
	EQ(attach(&row, &bad), 0);
	flood = fork();
	if (flood == 0)
		for (;;)
			if (write(bad.doorbell, &one, sizeof(one)) < 0)
				_exit(1);

	for (int i = 0; i < 300 && !failed; i++) {
		e = hand_nop(&good);
		failed += hand_do(&good, &e) != 0;
		e = hand_nop(&bad);
		failed += hand_do(&bad, &e) != 0;
		hand_nap();
	}
	EQ(failed, 0);
	rings = gm_get(&row.journal->doorbells);
	NOTE("%" PRIu64 " doorbells were answered", rings);
	/* Its bells in that fraction of a second would be 100 times that. */
	OK(rings < 20000);
	kill(flood, SIGKILL);
	waitpid(flood, NULL, 0);

	/* After a calm second it is heard again. */
	nanosleep(&(struct timespec){ .tv_sec = 1, .tv_nsec = 200000000 },
		  NULL);
	OK(becomes_odd(&bad.queue->parked));
	rings = gm_get(&row.journal->doorbells);
	e = hand_nop(&bad);
	EQ(hand_do(&bad, &e), 0);
	OK(gm_get(&row.journal->doorbells) > rings);
	EQ(drain(&row), 0);
	hand_close(&good, ROW);
	hand_close(&bad, ROW);
	drop_row(&row);
}

/* Polls that the worker's io_uring has, -1 where that cannot be seen. */
static int count_polls(pid_t pid)
{
	char path[64], line[256];
	int n = -1;

	for (int fd = 0; fd < 32 && n < 0; fd++) {
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", (int)pid,
			 fd);
		f = fopen(path, "re");
		while (f && fgets(line, sizeof(line), f)) {
			if (strncmp(line, "PollList:", 9) == 0)
				n = 0;
			else if (n >= 0 && strstr(line, "op="))
				n++;
		}
		if (f)
			fclose(f);
	}
	return n;
}

/* A poll that is given up while its bell rings must be gone as well: each one
 * that stayed would make every later bell dearer. */
static void floods_leave_no_polls(void)
{
	enum { MANY = 12 };
	struct hand_client bad[MANY];
	struct gm_wire wire;
	struct row row;
	uint64_t one = 1;
	int polls, failed = 0;
	pid_t flood;

	make_row(&row);
	OK(start(&row, false));
	for (uint32_t i = 0; i < MANY; i++) {
		hand_open(&bad[i], i + 1, i, ROW, 16, MIB);
		failed += attach(&row, &bad[i]) != 0;
	}
	flood = fork();
	if (flood == 0)
		for (uint32_t i = 0;; i++)
			if (write(bad[i % MANY].doorbell, &one, sizeof(one)) <
			    0)
				_exit(1);
	failed += !grows_past(&row.journal->doorbells, 1001 * MANY - 1);
	for (uint32_t i = 0; i < MANY; i++) {
		tell_about(&row, GM_WIRE_DETACH, &bad[i]);
		failed += hear(&row, &wire) != GM_WIRE_DETACHED;
	}
	kill(flood, SIGKILL);
	waitpid(flood, NULL, 0);
	EQ(failed, 0);
	polls = count_polls(row.pid);
	if (polls < 0)
		SKIP(1, "the worker's io_uring cannot be looked at");
	else
		EQ(polls, 1);
	EQ(drain(&row), 0);
	for (uint32_t i = 0; i < MANY; i++)
		hand_close(&bad[i], ROW);
	drop_row(&row);
}

/* Most completions that were seen under one sign of life. */
static uint64_t longest_silence(struct gm_journal *journal, uint64_t until)
{
	uint64_t end = hand_now() + HAND_PATIENCE_NS;
	uint64_t beat = 0, first = 0, most = 0, done = 0;

	while (done < until && hand_now() < end) {
		uint64_t before = gm_get_acquire(&journal->beat);

		done = gm_get_acquire(&journal->completed);
		if (gm_get_acquire(&journal->beat) != before)
			continue;
		if (before != beat)
			first = done;
		beat = before;
		if (done - first > most)
			most = done - first;
	}
	return most;
}

/* Products that no normal float can hold cost a CPU a hundred times what others
 * do, and every session has a queue full of them: that makes a pass long, and
 * no less alive. */
static void slow_work_is_no_silence(void)
{
	enum { MANY = 40, DEPTH = 64 };
	static struct hand_client c[MANY];
	const uint32_t small = 0x00400000;
	struct gm_entry jobs[DEPTH];
	const double alpha = 0.25;
	struct row row;
	int failed = 0;

	make_row(&row);
	OK(start(&row, false));
	for (uint32_t i = 0; i < MANY; i++) {
		hand_open(&c[i], i + 1, i, ROW, DEPTH, MIB / 4);
		failed += attach(&row, &c[i]) != 0;
		for (uint64_t at = 0; at < MIB / 8; at += sizeof(small))
			memcpy(c[i].memory + at, &small, sizeof(small));
	}
	for (uint32_t i = 0; i < DEPTH; i++) {
		jobs[i] = (struct gm_entry){ .op = GPUMAP_OP_SCALE,
					     .dtype = GPUMAP_DTYPE_F32,
					     .incarnation = 1,
					     .dst = MIB / 8,
					     .n = 16384 };
		memcpy(&jobs[i].value, &alpha, sizeof(alpha));
	}
	for (uint32_t i = 0; i < MANY; i++)
		hand_submit(&c[i], jobs, DEPTH);
	/* 32 turns of 16 jobs each, and some that were under way. */
	OK(longest_silence(row.journal, MANY * DEPTH) <= 1024);
	EQ(gm_get(&row.journal->completed), MANY * DEPTH);
	EQ(failed, 0);
	EQ(drain(&row), 0);
	for (uint32_t i = 0; i < MANY; i++)
		hand_close(&c[i], ROW);
	drop_row(&row);
}

/* ---- death ------------------------------------------------------------- */

static bool bury(struct row *row, const struct hand_client *c)
{
	if (!start(row, true)) {
		NOTE("undertaker: %s", row->failed);
		ended(row);
		return false;
	}
	return attach(row, c) == 0 && drain(row) == 0;
}

/* Fill the ring with jobs, long and short. */
static void submit_all(struct hand_client *c)
{
	for (uint32_t i = 0; i < c->depth; i++) {
		struct gm_entry e = hand_nop(c);

		if (i % 5 == 4)
			e = hand_copy(c, 4 * MIB, 0, (i % 3 + 1) * MIB / 2);
		hand_submit(c, &e, 1);
	}
}

/* Take all completions.  Returns how many are doubled or missing. */
static int count_wrong(struct hand_client *c, uint32_t first, uint32_t *ret_io)
{
	uint32_t seen[GM_DEPTH_MAX] = { 0 }, pos;
	int32_t status;
	int wrong = 0;

	while (hand_take(c, &pos, &status)) {
		if (pos - first >= c->depth || (status && status != -EIO))
			wrong++;
		else
			seen[pos - first]++;
		*ret_io += status == -EIO;
	}
	for (uint32_t i = 0; i < c->depth; i++)
		wrong += seen[i] != 1;
	return wrong;
}

static int rounds(int usual)
{
	const char *text = getenv("GM_ROUNDS");

	return text ? atoi(text) : usual;
}

static void death_ends_each_entry_once(void)
{
	struct hand_client c;
	struct gm_entry e;
	uint32_t io = 0, wake;
	struct row row;
	int wrong = 0;

	make_row(&row);
	hand_open(&c, 1, 2, ROW, 64, 8 * MIB);
	for (int i = 0; i < rounds(8); i++) {
		struct timespec some = { .tv_nsec = i % 8 * 150000 };
		uint32_t first = c.entries.pos;

		if (!start(&row, false) || attach(&row, &c) != 0) {
			OK(!"a worker could not follow");
			break;
		}
		e = hand_nop(&c);
		wrong += hand_do(&c, &e) != 0;
		first = c.entries.pos;
		submit_all(&c);
		nanosleep(&some, NULL);
		kill(row.pid, SIGKILL);
		ended(&row);
		wake = gm_get(&c.page->wake);
		wrong += !bury(&row, &c);
		wrong += gm_get(&c.page->wake) == wake;
		wrong += count_wrong(&c, first, &io);
		c.incarnation++;
	}
	EQ(wrong, 0);
	NOTE("%u entries ended with -EIO", io);
	OK(io > 0);
	hand_close(&c, ROW);
	drop_row(&row);
}

static const char *const points[] = {
	"worker_opened",   "worker_incarnate",      "worker_adopted",
	"worker_taken",    "worker_sliced",         "worker_given",
	"worker_advanced", "worker_half_published", "worker_published",
	"worker_parked",   "worker_blocks",         "worker_wake_counted",
};

/* Wait until it has died of its point; if it need not come there, at most until
 * it has done everything.  Returns whether it died. */
static bool dies(struct row *row, struct hand_client *c, bool must)
{
	uint64_t end = hand_now() + HAND_PATIENCE_NS;
	uint64_t words[GM_DONE_WORDS];

	while (hand_now() < end) {
		siginfo_t info = { 0 };

		waitid(P_PID, (id_t)row->pid, &info,
		       WEXITED | WNOHANG | WNOWAIT);
		if (info.si_pid == row->pid)
			return true;
		if (!must &&
		    gm_ring_peek(&c->done, GM_DONE_WORDS, c->depth - 1, words))
			break;
		hand_nap();
	}
	return false;
}

/* Kill the worker at one point, and its undertaker at another, or NULL.
 * Returns how much went wrong; ret_died says whether the worker died there. */
static int one_point(const char *name, int nth, const char *bury_name,
		     bool *ret_died)
{
	char spec[80];
	struct hand_client c;
	uint32_t io = 0;
	struct row row;
	int wrong = 0;

	*ret_died = false;
	make_row(&row);
	hand_open(&c, 1, 2, ROW, 64, 8 * MIB);
	gm_ring_park(&c.page->parked, &c.parked);
	snprintf(spec, sizeof(spec), "%s:kill:%d", name, nth);
	setenv("GM_POINT", spec, 1);
	if (start(&row, false)) {
		attach(&row, &c);
		submit_all(&c);
		*ret_died = dies(&row, &c, nth == 1);
		kill(row.pid, SIGKILL);
		ended(&row);
		unsetenv("GM_POINT");
		if (bury_name) {
			snprintf(spec, sizeof(spec), "%s:kill:2", bury_name);
			setenv("GM_POINT", spec, 1);
			bury(&row, &c);
			unsetenv("GM_POINT");
		}
		wrong += !bury(&row, &c);
		wrong += count_wrong(&c, 0, &io);
	} else {
		wrong++;
	}
	unsetenv("GM_POINT");
	hand_close(&c, ROW);
	drop_row(&row);
	return wrong;
}

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

static void death_at_every_point(void)
{
	static const char *const burials[] = { NULL, "bury_given",
					       "bury_advanced", "bury_posted" };
	const char *build = getenv("GM_BUILD");
	int wrong = 0, alive = 0;

	if (!build || !strstr(build, "testpoints")) {
		SKIP(2, "built without --enable-testpoints");
		return;
	}
	for (size_t i = 0; i < N_OF(points) * N_OF(burials); i++) {
		const char *point = points[i / N_OF(burials)];
		const char *burial = burials[i % N_OF(burials)];
		bool died;

		if (one_point(point, 1, burial, &died) != 0) {
			NOTE("lost or doubled: %s, then %s", point,
			     burial ? burial : "none");
			wrong++;
		}
		if (!died) {
			NOTE("never came to %s", point);
			alive++;
		}
		if (!burial)
			wrong += one_point(point, 2, NULL, &died) != 0;
	}
	EQ(wrong, 0);
	EQ(alive, 0);
}

/* Returns whether workers can start here at all. */
static bool can_run(void)
{
	bool refused = false;
	struct row row;

	if (!getenv("GPUMAP_WORKER")) {
		SKIP(1, "GPUMAP_WORKER says where gpumap-worker is");
		return false;
	}
	make_row(&row);
	if (start(&row, false))
		EQ(drain(&row), 0);
	else if (strstr(row.failed, "io_uring"))
		refused = true;
	else
		OK(!"the worker does not start");
	if (refused)
		SKIP(1, row.failed);
	if (row.failed[0])
		NOTE("%s", row.failed);
	refused = refused || row.failed[0];
	drop_row(&row);
	return !refused;
}

int main(void)
{
	if (!can_run())
		return tap_done();
	it_serves_and_drains();
	it_parks_and_is_rung();
	a_late_bell_is_not_the_last();
	it_wakes_sleepers();
	a_breach_ends_one_session_only();
	detached_means_unmapped();
	nonsense_is_not_attached();
	hanging_up_ends_it();
	hanging_up_early_ends_it();
	one_worker_per_row();
	it_gives_up_its_powers();
	holes_hurt_their_maker_only();
	floods_are_not_listened_to();
	floods_leave_no_polls();
	slow_work_is_no_silence();
	death_ends_each_entry_once();
	death_at_every_point();
	return tap_done();
}

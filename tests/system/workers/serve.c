/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* gpumap-worker, whole, with this test in gpumapd's place and in its
 * clients'. */

#include <linux/futex.h>
#include <sys/syscall.h>

#include "tests/support/worker/worker_row.h"

static void it_serves_and_drains(void)
{
	struct hand_client c;
	struct gm_entry e;
	struct row row;

	row_make(&row);
	hand_open(&c, 7, 0, ROW, 64, 8 * MIB);
	OK(row_start(&row, false));
	EQ(row_attach(&row, &c), 0);
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
	/* The worker serves the entries in the ring before it exits. */
	e = hand_nop(&c);
	hand_submit(&c, &e, 1);
	EQ(row_drain(&row), 0);
	EQ(gm_get(&row.journal->completed), 206);
	hand_close(&c, ROW);
	row_drop(&row);
}

static void it_parks_and_is_rung(void)
{
	struct hand_client c;
	struct gm_entry e;
	struct row row;

	row_make(&row);
	hand_open(&c, 1, 5, ROW, 16, MIB);
	OK(row_start(&row, false));
	EQ(row_attach(&row, &c), 0);
	e = hand_nop(&c);
	for (uint32_t i = 0; i < 20; i++) {
		if (!row_becomes_odd(&c.queue->parked) ||
		    hand_do(&c, &e) != 0) {
			OK(!"it never parked, or a no-op failed");
			break;
		}
	}
	/* Nothing is rung for twice, and nothing without need. */
	OK(c.rung >= 1 && c.rung <= 20);
	OK(gm_get(&row.journal->parks) + 1 >= c.rung);
	OK(row_becomes_odd(&c.queue->parked));
	EQ(gm_get(&row.group_page->spinning[ROW]) <= 1, 1);
	EQ(row_drain(&row), 0);
	hand_close(&c, ROW);
	row_drop(&row);
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

	row_make(&row);
	hand_open(&c, 1, 5, ROW, 16, MIB);
	OK(row_start(&row, false));
	EQ(row_attach(&row, &c), 0);
	e = hand_nop(&c);
	for (uint32_t i = 0; i < 20 && !failed; i++) {
		uint64_t rung = gm_get(&row.journal->doorbells);

		failed += !row_becomes_odd(&c.queue->parked);
		if (gm_ring_must_wake(&c.waker)) {
			hand_ring(&c);
			failed +=
				!row_grows_past(&row.journal->doorbells, rung);
		}
		failed += hand_do(&c, &e) != 0;
	}
	EQ(failed, 0);
	EQ(row_drain(&row), 0);
	hand_close(&c, ROW);
	row_drop(&row);
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

	row_make(&row);
	hand_open(&c, 1, 1, ROW, 16, 32 * MIB);
	OK(row_start(&row, false));
	EQ(row_attach(&row, &c), 0);
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
	EQ(row_drain(&row), 0);
	hand_close(&c, ROW);
	row_drop(&row);
}

static void a_breach_ends_one_session_only(void)
{
	struct hand_client good, bad;
	struct gm_entry e;
	struct gm_wire wire;
	uint32_t pos;
	int32_t status;
	struct row row;

	row_make(&row);
	hand_open(&good, 1, 0, ROW, 16, MIB);
	hand_open(&bad, 2, 1, ROW, 16, MIB);
	OK(row_start(&row, false));
	EQ(row_attach(&row, &good), 0);
	EQ(row_attach(&row, &bad), 0);

	e = hand_nop(&bad);
	EQ(hand_do(&bad, &e), 0);
	e.to = 1;
	hand_submit(&bad, &e, 1);
	EQ(row_hear(&row, &wire), GM_WIRE_VIOLATION);
	EQ(wire.session, 2);
	EQ(wire.place, 1);
	STR(wire.text, "reserved bits are set");
	EQ(gm_get(&gm_journal_at(row.journal, 1)->violations), 1);

	e = hand_nop(&good);
	EQ(hand_do(&good, &e), 0);
	/* Completions that the other session sends now reach no client. */
	e = hand_nop(&bad);
	hand_submit(&bad, &e, 1);
	hand_ring(&bad);
	e = hand_nop(&good);
	EQ(hand_do(&good, &e), 0);
	EQ(hand_take(&bad, &pos, &status), 0);
	row_tell_about(&row, GM_WIRE_DETACH, &bad);
	EQ(row_hear(&row, &wire), GM_WIRE_DETACHED);
	EQ(wire.session, 2);
	EQ(row_drain(&row), 0);
	hand_close(&good, ROW);
	hand_close(&bad, ROW);
	row_drop(&row);
}

static void detached_means_unmapped(void)
{
	struct hand_client c;
	struct gm_entry e;
	struct gm_wire wire;
	struct row row;

	row_make(&row);
	hand_open(&c, 1, 1000, ROW, 1024, 64 * MIB);
	OK(row_start(&row, false));
	EQ(row_attach(&row, &c), 0);
	EQ(row_attach(&row, &c), -EEXIST);
	e = hand_copy(&c, 32 * MIB, 0, 32 * MIB);
	EQ(hand_do(&c, &e), 0);
	hand_unmap(&c, ROW);
	/* The kernel refuses this seal while any process could write. */
	EQ(fcntl(c.arena, F_ADD_SEALS, F_SEAL_WRITE), -1);
	row_tell_about(&row, GM_WIRE_DETACH, &c);
	EQ(row_hear(&row, &wire), GM_WIRE_DETACHED);
	EQ(wire.session, 1);
	EQ(wire.status, 0);
	EQ(fcntl(c.arena, F_ADD_SEALS, F_SEAL_WRITE), 0);
	EQ(fcntl(c.queues, F_ADD_SEALS, F_SEAL_WRITE), 0);
	EQ(gm_get(&gm_journal_at(row.journal, 1000)->session), 0);
	row_tell_about(&row, GM_WIRE_DETACH, &c);
	EQ(row_hear(&row, &wire), GM_WIRE_DETACHED);
	EQ(wire.status, -ENOENT);
	hand_close(&c, ROW);

	/* The place has room for another. */
	hand_open(&c, 2, 1000, ROW, 16, MIB);
	EQ(row_attach(&row, &c), 0);
	e = hand_nop(&c);
	EQ(hand_do(&c, &e), 0);
	EQ(row_drain(&row), 0);
	hand_close(&c, ROW);
	row_drop(&row);
}

static void nonsense_is_not_attached(void)
{
	struct hand_client c;
	struct gm_wire wire;
	struct row row;

	row_make(&row);
	hand_open(&c, 1, 0, ROW, 16, MIB);
	OK(row_start(&row, false));
	for (int i = 0; i < 8; i++) {
		int fds[] = { c.queues, c.arena, c.doorbell, c.socket[1] };

		wire = hand_attach(&c, ROW);
		switch (i) {
		case 0:
			wire.attach.depth = 24;
			break;
		case 1:
			wire.attach.depth = 2048;
			break;
		case 2:
			wire.attach.queue_at += GM_PAGE;
			break;
		case 3:
			wire.attach.queue_at = 0;
			break;
		case 4:
			wire.attach.arena_bytes = 2 * MIB;
			break;
		case 5:
			wire.attach.range_at = UINT64_MAX;
			break;
		case 6:
			wire.place = GM_JOURNAL_PLACES;
			break;
		case 7:
			wire.session = 0;
			break;
		}
		row_tell(&row, &wire, fds, 3 + i % 2);
		EQ(row_hear(&row, &wire), GM_WIRE_ATTACHED);
		OK(wire.status < 0);
	}
	EQ(row_attach(&row, &c), 0);
	EQ(row_drain(&row), 0);
	hand_close(&c, ROW);
	row_drop(&row);
}

static void hanging_up_ends_it(void)
{
	struct hand_client c;
	struct gm_entry e;
	struct row row;

	row_make(&row);
	hand_open(&c, 1, 0, ROW, 16, 64 * MIB);
	OK(row_start(&row, false));
	EQ(row_attach(&row, &c), 0);
	e = hand_copy(&c, 32 * MIB, 0, 32 * MIB);
	hand_submit(&c, &e, 1);
	close(row.pair);
	row.pair = -1;
	EQ(row_ended(&row), 0);
	hand_close(&c, ROW);
	row_drop(&row);
}

/* gpumapd may be gone before the worker has come to listen. */
static void hanging_up_early_ends_it(void)
{
	struct row row;
	int wrong = 0;

	row_make(&row);
	for (int i = 0; i < 20; i++) {
		row_launch(&row, false);
		usleep((unsigned)i * 300);
		close(row.pair);
		row.pair = -1;
		wrong += row_ended(&row) != 0;
	}
	EQ(wrong, 0);
	row_drop(&row);
}

static void one_worker_per_row(void)
{
	struct row row, second;

	row_make(&row);
	row_make(&second);
	snprintf(second.lock, sizeof(second.lock), "%s", row.lock);
	OK(row_start(&row, false));
	OK(!row_start(&second, false));
	OK(strstr(second.failed, "another worker of this row") != NULL);
	EQ(row_ended(&second), 1);
	EQ(row_drain(&row), 0);
	OK(row_start(&second, false));
	EQ(row_drain(&second), 0);
	row_drop(&row);
	row_drop(&second);
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

	row_make(&row);
	OK(row_start(&row, false));
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
	EQ(row_drain(&row), 0);
	row_drop(&row);
}

TAP_CASE()
{
	if (!row_can_run())
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
	return tap_done();
}

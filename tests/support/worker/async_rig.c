/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/worker/async_rig.h"

void rig_open(struct rig *r, uint64_t slice_bytes, uint32_t slices)
{
	memset(r, 0, sizeof(*r));
	late_open(&r->late, slice_bytes, slices);
	r->journal =
		hand_share("test-journal", GM_JOURNAL_BYTES, &r->journal_fd);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, r->pair) < 0)
		exit(99);
	r->w.row = ROW;
	r->w.node = -1;
	r->w.pair = r->pair[1];
	r->w.journal = r->journal;
	gm_job_clock_init(&r->w.clock, r->journal, 1);
	r->w.group_page = &r->group_page;
	r->w.dev = &r->late.dev;
	TAILQ_INIT(&r->w.users);
	TAILQ_INIT(&r->w.flying);
	TAILQ_INIT(&r->w.carried);
	gm_send_queue_init(&r->w.outbox);
	gm_dependency_init(&r->w);
	gm_remote_copy_queue_init(&r->w.remote_copies);
	gm_close_thread_init(&r->w.close_thread);
	if (gm_blocking_thread_start(&r->w.slow, r->w.dev, &r->journal->slow,
				     -1) < 0)
		exit(99);
}

void rig_close(struct rig *r)
{
	gm_blocking_thread_stop(&r->w.slow);
	gm_close_thread_stop(&r->w.close_thread);
	late_close(&r->late);
	munmap(r->journal, GM_JOURNAL_BYTES);
	close(r->journal_fd);
	close(r->pair[0]);
	close(r->pair[1]);
}

struct gm_worker_session *rig_attach(struct rig *r, struct hand_client *c)
{
	int fds[GM_SESSION_FDS] = { c->queues, c->arena, dup(c->doorbell),
				    dup(c->socket[1]) };
	struct gm_wire wire = hand_attach(c, ROW);
	struct gm_worker_session *s;

	if (gm_session_map(&wire, fds, r->journal, -1, true, &s) < 0 ||
	    gm_run_queue_admit(&r->w, s) < 0)
		exit(99);
	gm_session_take_over(s, c->incarnation);
	if (gm_async_exec_open(s, r->w.dev) < 0)
		exit(99);
	r->w.place[s->place] = s;
	gm_run_queue_wake(&r->w, s);
	return s;
}

struct gm_worker_session *rig_begin(struct rig *r, struct hand_client *c,
				    uint64_t slice_bytes, uint32_t slices,
				    uint64_t arena_bytes)
{
	rig_open(r, slice_bytes, slices);
	hand_open(c, 1, 0, ROW, 16, arena_bytes);
	return rig_attach(r, c);
}

void rig_slow(struct rig *r)
{
	uint64_t end = hand_now() + HAND_PATIENCE_NS;

	while (r->w.slow.n && hand_now() < end) {
		gm_async_ops_done(&r->w);
		if (r->w.slow.n)
			hand_nap();
	}
	EQ(r->w.slow.n, 0);
}

void rig_serve(struct rig *r, struct gm_worker_session *s)
{
	do {
		while (s->active && !s->why && gm_async_exec_due(&r->w, s))
			gm_async_exec_serve(&r->w, s);
		if (r->w.slow.n)
			rig_slow(r);
	} while (s->active && !s->why && gm_async_exec_due(&r->w, s));
}

void rig_submit(struct rig *r, struct hand_client *c,
		struct gm_worker_session *s, const struct gm_entry *e,
		uint32_t n)
{
	hand_submit(c, e, n);
	rig_serve(r, s);
}

void rig_land(struct rig *r, struct gm_worker_session *s, uint64_t value)
{
	late_land(&r->late, value);
	rig_serve(r, s);
}

void rig_land_all(struct rig *r, struct gm_worker_session *s)
{
	late_land_all(&r->late);
	rig_serve(r, s);
}

void rig_detach(struct rig *r, struct gm_worker_session *s)
{
	gm_run_queue_dismiss(&r->w, s);
	r->w.place[s->place] = NULL;
	gm_journal_close(s->owed);
	s->pair = r->w.pair;
	gm_async_exec_leave(&r->w, s);
	gm_async_ops_depart(&r->w, s);
}

uint32_t rig_hear(struct rig *r, struct gm_wire *ret_wire, int timeout_ms)
{
	struct pollfd p = { .fd = r->pair[0], .events = POLLIN };

	if (poll(&p, 1, timeout_ms) != 1 ||
	    recv(r->pair[0], ret_wire, sizeof(*ret_wire), 0) !=
		    sizeof(*ret_wire))
		return 0;
	return ret_wire->type;
}

void rig_tell(struct rig *r, const struct gm_wire *wire, const int *fds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(GM_SESSION_FDS * sizeof(int))];
	} control;
	struct iovec data = { (void *)(uintptr_t)wire, sizeof(*wire) };
	struct msghdr msg = { .msg_iov = &data, .msg_iovlen = 1 };
	struct cmsghdr *c;

	if (fds) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(GM_SESSION_FDS * sizeof(int));
		memcpy(CMSG_DATA(c), fds, GM_SESSION_FDS * sizeof(int));
	}
	if (sendmsg(r->pair[0], &msg, 0) < 0)
		exit(99);
}

void rig_tell_attach(struct rig *r, const struct hand_client *c)
{
	const int fds[GM_SESSION_FDS] = { c->queues, c->arena, c->doorbell,
					  c->socket[1] };
	struct gm_wire wire = hand_attach(c, ROW);

	rig_tell(r, &wire, fds);
}

void rig_end(struct rig *r, struct hand_client *c, struct gm_worker_session *s)
{
	struct gm_wire wire;

	late_land_all(&r->late);
	rig_detach(r, s);
	gm_async_exec_poll(&r->w);
	rig_slow(r);
	EQ(rig_hear(r, &wire, 10000), GM_WIRE_DETACHED);
	hand_close(c, ROW);
}

void rig_finish(struct rig *r, struct hand_client *c,
		struct gm_worker_session *s)
{
	rig_end(r, c, s);
	rig_close(r);
}

void rig_expect(struct hand_client *c, uint32_t first, const int *status,
		uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t pos = 0;
		int32_t got = 1;

		if (!OK(hand_take(c, &pos, &got)))
			return;
		EQ(pos, first + i);
		EQ(got, status[i]);
	}
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * peer.h - an agent and its workers in one thread, for tests of the library.
 *
 * It speaks the protocol of shm/control.h over a socket in a directory of its
 * own, makes sealed session memory, and serves the queue pairs as a worker
 * does: entries out of one ring, completions into the other, parked while it
 * waits.  What it does wrong, it does because the test says so.
 *
 * One connection holds at most one session; connections are never many.
 */
#ifndef TESTS_PEER_H
#define TESTS_PEER_H

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "segment_file.h"
#include "shm/control.h"
#include "shm/queue.h"

#define PEER_ROWS  3u
#define PEER_LINKS 8u
#define PEER_RANGE (UINT64_C(4) << 20)
#define PEER_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* How the peer misbehaves; see peer.lie. */
enum peer_lie {
	PEER_HONEST = 0,
	PEER_NO_SEALS,
	PEER_SMALL_ARENA,
	PEER_EXTRA_FD,
	PEER_WRONG_SERIAL,
	PEER_LONG_BODY,
	PEER_CUT_RECORD,
	PEER_HANG_UP,    /* instead of a reply */
	PEER_NO_QUEUE,   /* QUEUE_OPEN is refused */
	PEER_STRANGER,   /* a completion for what was never submitted */
	PEER_TWICE,      /* every completion comes twice */
	PEER_GOOD_STATUS /* a status above 0 */
};

struct peer_queue {
	struct gm_queue *queue; /* NULL: not open */
	struct gm_ring in;
	struct gm_ring out;
	uint32_t parked;
	int doorbell;
};

struct peer_link {
	int fd; /* -1: none */
	int wake_fd;
	uint32_t depth; /* 0: no session */
	int queues_fd;
	int arena_fd;
	char *queues;
	char *arena;
	struct gm_waker waker;
	struct peer_queue rows[PEER_ROWS];
};

struct peer {
	char dir[40];
	char path[108];
	struct segment_file *file;
	pthread_t thread;
	int listener;
	struct peer_link links[PEER_LINKS];

	/* What the test asks for, and what the peer has seen. */
	gm_a32 stop;
	gm_a32 lie;       /* enum peer_lie */
	gm_a32 hold;      /* rows whose jobs lie: a bit each */
	gm_a32 status;    /* of every job, 0 or a negative errno */
	gm_a32 backwards; /* end jobs in the opposite order, 4 at a time */
	gm_a32 hang_up;   /* close every connection, then 0 again */
	gm_a32 served;    /* jobs */
	gm_a32 hellos;
	gm_a32 requests; /* other than hello */
	gm_a32 unpinned;
	char published[64]; /* the spec that was last published */
	uint64_t sizes;     /* their sum */

	/* The answer to a plan, and the plan that was asked for. */
	pthread_mutex_t plan_lock;
	int plan_status;
	uint32_t plan_body, plan_tail; /* bytes */
	char plan[1 << 13] __attribute__((aligned(8)));
	char asked[1 << 13] __attribute__((aligned(8)));
};

/* ---- the worker ---------------------------------------------------------- */

static inline int32_t peer_do(struct peer *p, struct peer_link *l,
			      const struct gm_entry *e)
{
	uint64_t all = PEER_ROWS * PEER_RANGE;
	char *dst = l->arena + e->dst, *src = l->arena + e->src;
	uint32_t status = gm_get(&p->status);
	double alpha;

	if (status != 0)
		return (int32_t)status;
	if (e->op == 0)
		return 0;
	if (e->dst > all || e->n > (all - e->dst) / 4 || e->src > all ||
	    e->n > (all - e->src) / 4)
		return -ERANGE;
	memcpy(&alpha, &e->value, sizeof(alpha));
	for (uint64_t i = 0; i < e->n; i++) {
		float d, s;

		memcpy(&d, dst + 4 * i, 4);
		memcpy(&s, src + 4 * i, 4);
		if (e->op == 1)
			memcpy(&d, &e->value, 4);
		else if (e->op == 2)
			d = s;
		else if (e->op == 3)
			d = (float)(alpha * s);
		else
			d += (float)(alpha * s);
		memcpy(dst + 4 * i, &d, 4);
	}
	return 0;
}

static inline void peer_wake(struct peer_link *l)
{
	struct gm_client *client = (struct gm_client *)(void *)l->queues;

	if (!gm_ring_must_wake(&l->waker))
		return;
	gm_add_ordered(&client->wake, 1);
	syscall(SYS_futex, &client->wake, FUTEX_WAKE, 1, NULL, NULL, 0);
	if (l->wake_fd >= 0 && gm_get(&client->by_fd) != 0)
		send(l->wake_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static inline void peer_complete(struct peer_link *l, struct peer_queue *q,
				 uint32_t position, int32_t status)
{
	uint64_t words[GM_DONE_WORDS];

	gm_done_pack(position, status, words);
	gm_ring_put(&q->out, GM_DONE_WORDS, 0, words);
	q->out.pos++;
	peer_wake(l);
}

static inline void peer_serve_one(struct peer *p, struct peer_link *l,
				  struct peer_queue *q, uint32_t ahead)
{
	uint64_t words[GM_ENTRY_WORDS];
	uint32_t position = q->in.pos + ahead, lie = gm_get(&p->lie);
	struct gm_entry entry;
	int32_t status;

	gm_ring_peek(&q->in, GM_ENTRY_WORDS, ahead, words);
	gm_entry_unpack(words, &entry);
	status = peer_do(p, l, &entry);
	if (entry.incarnation != gm_get(&q->queue->incarnation))
		status = -EIO;
	gm_put(&p->served, gm_get(&p->served) + 1);
	if (lie == PEER_STRANGER)
		position += 3;
	if (lie == PEER_GOOD_STATUS)
		status = 5;
	peer_complete(l, q, position, status);
	if (lie == PEER_TWICE)
		peer_complete(l, q, position, status);
}

/* Returns whether there was anything to do. */
static inline bool peer_serve(struct peer *p, struct peer_link *l, uint32_t row)
{
	struct peer_queue *q = &l->rows[row];
	uint32_t n = 0, most = gm_get(&p->backwards) != 0 ? 4 : 1;
	uint64_t words[GM_ENTRY_WORDS];

	if (q->queue == NULL || (gm_get(&p->hold) >> row & 1) != 0)
		return false;
	while (n < most && gm_ring_peek(&q->in, GM_ENTRY_WORDS, n, words))
		n++;
	for (uint32_t i = 0; i < n; i++)
		peer_serve_one(p, l, q, n - 1 - i);
	q->in.pos += n;
	return n > 0;
}

/* ---- the agent ----------------------------------------------------------- */

static inline void peer_reply(struct peer *p, struct peer_link *l,
			      const struct gm_control *request, int32_t status,
			      const void *body, uint32_t bytes, const int *fds,
			      uint32_t n_fds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(GM_CONTROL_FDS_MAX * sizeof(int))];
	} control = { .bytes = { 0 } };
	static const char zeros[64];
	struct gm_control head = *request;
	struct iovec io[3] = { { &head, sizeof(head) },
			       { (void *)body, bytes },
			       { (void *)zeros, 0 } };
	struct msghdr message = { .msg_iov = io, .msg_iovlen = 3 };
	uint32_t lie = gm_get(&p->lie);
	struct cmsghdr *c;

	head.status = status;
	head.body = bytes;
	if (lie == PEER_WRONG_SERIAL)
		head.serial++;
	if (lie == PEER_LONG_BODY && status == 0) {
		io[2].iov_len = sizeof(zeros); /* a newer agent's */
		head.body += sizeof(zeros);
	}
	head.bytes = (uint32_t)(sizeof(head) + bytes + io[2].iov_len);
	if (lie == PEER_CUT_RECORD)
		head.bytes++;
	if (n_fds > 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&message);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	sendmsg(l->fd, &message, MSG_NOSIGNAL);
}

static inline void peer_refuse(struct peer *p, struct peer_link *l,
			       const struct gm_control *request, int status,
			       const char *why)
{
	struct gm_refusal refusal = { { 0 } };

	snprintf(refusal.text, sizeof(refusal.text), "%s", why);
	peer_reply(p, l, request, status, &refusal, sizeof(refusal), NULL, 0);
}

static inline int peer_memfd(uint64_t bytes, bool sealed)
{
	int fd = memfd_create("peer", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (ftruncate(fd, (off_t)bytes) != 0 ||
	    (sealed && fcntl(fd, F_ADD_SEALS, PEER_SEALS) != 0))
		abort();
	return fd;
}

static inline void peer_session(struct peer *p, struct peer_link *l,
				const struct gm_control *request,
				const struct gm_session_open *open)
{
	uint32_t lie = gm_get(&p->lie), n = 2;
	uint64_t arena = PEER_ROWS * PEER_RANGE;
	struct gm_session_reply reply = { .id = 7,
					  .n_rows = PEER_ROWS,
					  .range_bytes = PEER_RANGE };
	int fds[4], pair[2];

	if (open->range_bytes > PEER_RANGE) {
		peer_refuse(p, l, request, -EDQUOT, "too large; ask for less");
		return;
	}
	reply.depth = l->depth = open->depth != 0 ? open->depth : 256;
	fds[0] = l->queues_fd = peer_memfd(gm_queue_at(PEER_ROWS, l->depth),
					   lie != PEER_NO_SEALS);
	fds[1] = l->arena_fd = peer_memfd(
		lie == PEER_SMALL_ARENA ? arena - 4096 : arena, true);
	l->queues = mmap(NULL, gm_queue_at(PEER_ROWS, l->depth),
			 PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	l->arena = mmap(NULL, arena, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1],
			0);
	if (l->queues == MAP_FAILED || l->arena == MAP_FAILED)
		abort();
	l->waker.parked = &((struct gm_client *)(void *)l->queues)->parked;
	l->waker.answered = 0;
	if (open->flags != 0) {
		if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair))
			abort();
		l->wake_fd = pair[0];
		fds[n++] = pair[1];
	}
	if (lie == PEER_EXTRA_FD)
		fds[n++] = fds[0];
	peer_reply(p, l, request, 0, &reply, sizeof(reply), fds, n);
	if (open->flags != 0)
		close(pair[1]);
}

static inline void peer_queue(struct peer *p, struct peer_link *l,
			      const struct gm_control *request,
			      const struct gm_queue_open *open)
{
	struct gm_queue_reply reply = {
		.at = gm_queue_at(open->row, l->depth),
		.bytes = gm_queue_bytes(l->depth),
	};
	struct peer_queue *q = &l->rows[open->row % PEER_ROWS];

	if (gm_get(&p->lie) == PEER_NO_QUEUE) {
		peer_refuse(p, l, request, -ENODEV, "the row is lost");
		return;
	}
	q->queue = (struct gm_queue *)(void *)(l->queues + reply.at);
	q->in = (struct gm_ring){ gm_queue_entries(q->queue), l->depth - 1, 0 };
	q->out = (struct gm_ring){ gm_queue_done(q->queue, l->depth),
				   l->depth - 1, 0 };
	gm_put(&q->queue->incarnation, 1);
	q->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	gm_ring_adopt(&q->queue->parked, &q->parked);
	gm_ring_unpark(&q->queue->parked, &q->parked);
	peer_reply(p, l, request, 0, &reply, sizeof(reply), &q->doorbell, 1);
}

static inline void peer_publish(struct peer *p, struct peer_link *l,
				const struct gm_control *request,
				const char *body)
{
	struct gm_layers_publish_reply reply = { .version = 1 };
	const char *spec = body + sizeof(struct gm_layers_publish);
	struct gm_layers_publish head;

	memcpy(&head, body, sizeof(head));
	if (strcmp(head.name, "mine") != 0) {
		peer_refuse(p, l, request, -EPERM, "not yours");
		return;
	}
	snprintf(p->published, sizeof(p->published), "%.63s", spec);
	p->sizes = 0;
	spec += (head.spec_bytes + 7) / 8 * 8;
	for (uint32_t i = 0; i < head.n_bytes; i++) {
		uint64_t bytes;

		memcpy(&bytes, spec + 8 * (size_t)i, 8);
		p->sizes += bytes;
	}
	peer_reply(p, l, request, 0, &reply, sizeof(reply), NULL, 0);
}

static inline void peer_pin(struct peer *p, struct peer_link *l,
			    const struct gm_control *request,
			    const struct gm_object_name *name)
{
	struct gm_pin_reply reply = { .claim = 99 };
	struct gm_object object;
	int ret = gm_object_find(&p->file->segment.map, GM_KIND_LAYERS,
				 name->name, &object);

	if (ret != 0) {
		peer_refuse(p, l, request, ret, "no such map");
		return;
	}
	reply.unit = gm_seq_unit(object.word);
	reply.version = gm_seq_version(object.word);
	peer_reply(p, l, request, 0, &reply, sizeof(reply), NULL, 0);
}

static inline void peer_sessions(struct peer *p, struct peer_link *l,
				 const struct gm_control *request,
				 const struct gm_sessions *body)
{
	struct {
		struct gm_sessions_reply head;
		struct gm_session_item items[GM_SESSIONS_MAX];
	} reply = { .head = { .total = 100 } };
	uint64_t id = body->after;

	while (reply.head.n < GM_SESSIONS_MAX && id < 100)
		reply.items[reply.head.n++] =
			(struct gm_session_item){ .id = ++id, .pid = 5 };
	/* The items are a tail: the body is the head alone. */
	struct gm_control head = *request;
	struct iovec io[2] = {
		{ &head, sizeof(head) },
		{ &reply,
		  sizeof(reply.head) + reply.head.n * sizeof(reply.items[0]) }
	};
	struct msghdr message = { .msg_iov = io, .msg_iovlen = 2 };

	head.body = sizeof(reply.head);
	head.bytes = (uint32_t)(sizeof(head) + io[1].iov_len);
	sendmsg(l->fd, &message, MSG_NOSIGNAL);
	(void)p;
}

static inline void peer_plan(struct peer *p, struct peer_link *l,
			     const struct gm_control *request, const char *body)
{
	size_t n = request->bytes - sizeof(*request);
	struct gm_control head = *request;
	struct iovec io[2] = { { &head, sizeof(head) }, { p->plan, 0 } };
	struct msghdr message = { .msg_iov = io, .msg_iovlen = 2 };

	pthread_mutex_lock(&p->plan_lock);
	memcpy(p->asked, body, n < sizeof(p->asked) ? n : sizeof(p->asked));
	head.status = p->plan_status;
	head.body = p->plan_body;
	io[1].iov_len = p->plan_body + p->plan_tail;
	head.bytes = (uint32_t)(sizeof(head) + io[1].iov_len);
	sendmsg(l->fd, &message, MSG_NOSIGNAL);
	pthread_mutex_unlock(&p->plan_lock);
}

static inline void peer_drop(struct peer_link *l)
{
	if (l->fd >= 0)
		close(l->fd);
	if (l->wake_fd >= 0)
		close(l->wake_fd);
	for (uint32_t row = 0; row < PEER_ROWS; row++)
		if (l->rows[row].queue != NULL)
			close(l->rows[row].doorbell);
	if (l->depth != 0) {
		munmap(l->queues, gm_queue_at(PEER_ROWS, l->depth));
		munmap(l->arena, PEER_ROWS * PEER_RANGE);
		close(l->queues_fd);
		close(l->arena_fd);
	}
	*l = (struct peer_link){ .fd = -1, .wake_fd = -1 };
}

static inline void peer_answer(struct peer *p, struct peer_link *l,
			       const struct gm_control *head, const char *body)
{
	struct gm_hello_reply hello = { .layout_major = GM_LAYOUT_MAJOR };
	int fd;

	if (head->type == GM_CONTROL_HELLO) {
		gm_put(&p->hellos, gm_get(&p->hellos) + 1);
		peer_reply(p, l, head, 0, &hello, sizeof(hello), NULL, 0);
		return;
	}
	gm_put(&p->requests, gm_get(&p->requests) + 1);
	if (gm_get(&p->lie) == PEER_HANG_UP)
		peer_drop(l);
	else if (head->type == GM_CONTROL_SESSION_OPEN)
		peer_session(p, l, head, (const void *)body);
	else if (head->type == GM_CONTROL_QUEUE_OPEN)
		peer_queue(p, l, head, (const void *)body);
	else if (head->type == GM_CONTROL_LAYERS_PUBLISH)
		peer_publish(p, l, head, body);
	else if (head->type == GM_CONTROL_PIN)
		peer_pin(p, l, head, (const void *)body);
	else if (head->type == GM_CONTROL_PLAN)
		peer_plan(p, l, head, body);
	else if (head->type == GM_CONTROL_SESSIONS)
		peer_sessions(p, l, head, (const void *)body);
	else if (head->type == GM_CONTROL_UNPIN) {
		gm_put(&p->unpinned, gm_get(&p->unpinned) + 1);
		peer_reply(p, l, head, 0, NULL, 0, NULL, 0);
	} else if (head->type == GM_CONTROL_MAP) {
		fd = open(p->file->path, O_RDONLY | O_CLOEXEC);
		peer_reply(p, l, head, 0, NULL, 0, &fd, 1);
		close(fd);
	} else {
		peer_refuse(p, l, head, -ENOENT, "no such map");
	}
}

static inline void peer_receive(struct peer *p, struct peer_link *l)
{
	static char record[1 << 16] __attribute__((aligned(8)));
	struct gm_control head;
	ssize_t n = recv(l->fd, record, sizeof(record), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < (ssize_t)sizeof(head)) {
		peer_drop(l);
		return;
	}
	memcpy(&head, record, sizeof(head));
	peer_answer(p, l, &head, record + sizeof(head));
}

static inline void peer_accept(struct peer *p)
{
	int fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);

	for (uint32_t i = 0; fd >= 0 && i < PEER_LINKS; i++)
		if (p->links[i].fd < 0) {
			p->links[i].fd = fd;
			return;
		}
	if (fd >= 0)
		close(fd);
}

/* ---- both ---------------------------------------------------------------- */

static inline bool peer_work(struct peer *p)
{
	bool busy = false;

	for (uint32_t i = 0; i < PEER_LINKS; i++)
		for (uint32_t row = 0; row < PEER_ROWS; row++)
			busy |= peer_serve(p, &p->links[i], row);
	return busy;
}

/* Park every queue; returns whether one has something to do after all. */
static inline bool peer_park(struct peer *p, struct pollfd *polls, uint32_t *n)
{
	bool ready = false;

	for (uint32_t i = 0; i < PEER_LINKS; i++)
		for (uint32_t row = 0; row < PEER_ROWS; row++) {
			struct peer_queue *q = &p->links[i].rows[row];

			if (q->queue == NULL)
				continue;
			gm_ring_park(&q->queue->parked, &q->parked);
			polls[(*n)++] =
				(struct pollfd){ q->doorbell, POLLIN, 0 };
			ready |= (gm_get(&p->hold) >> row & 1) == 0 &&
				 gm_ring_recheck(&q->in, GM_ENTRY_WORDS);
		}
	return ready;
}

static inline void peer_unpark(struct peer *p)
{
	uint64_t count;

	for (uint32_t i = 0; i < PEER_LINKS; i++)
		for (uint32_t row = 0; row < PEER_ROWS; row++) {
			struct peer_queue *q = &p->links[i].rows[row];

			if (q->queue == NULL)
				continue;
			gm_ring_unpark(&q->queue->parked, &q->parked);
			if (read(q->doorbell, &count, sizeof(count)) < 0)
				continue;
		}
}

static inline void *peer_run(void *arg)
{
	struct pollfd polls[1 + PEER_LINKS * (1 + PEER_ROWS)];
	struct peer *p = arg;

	while (gm_get(&p->stop) == 0) {
		uint32_t n = 0;
		bool busy = peer_work(p);

		polls[n++] = (struct pollfd){ p->listener, POLLIN, 0 };
		for (uint32_t i = 0; i < PEER_LINKS; i++)
			polls[n++] =
				(struct pollfd){ p->links[i].fd, POLLIN, 0 };
		if (!busy)
			busy = peer_park(p, polls, &n);
		poll(polls, n, busy ? 0 : 5);
		peer_unpark(p);
		if ((polls[0].revents & POLLIN) != 0)
			peer_accept(p);
		for (uint32_t i = 0; i < PEER_LINKS; i++)
			if (polls[1 + i].revents != 0)
				peer_receive(p, &p->links[i]);
		if (gm_get(&p->hang_up) != 0) {
			for (uint32_t i = 0; i < PEER_LINKS; i++)
				peer_drop(&p->links[i]);
			gm_put(&p->hang_up, 0);
		}
		segment_file_beat(p->file);
	}
	return NULL;
}

static inline int peer_start(struct peer *p, struct segment_file *file)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	memset(p, 0, sizeof(*p));
	pthread_mutex_init(&p->plan_lock, NULL);
	p->file = file;
	for (uint32_t i = 0; i < PEER_LINKS; i++)
		p->links[i] = (struct peer_link){ .fd = -1, .wake_fd = -1 };
	snprintf(p->dir, sizeof(p->dir), "/tmp/gpumap-test.XXXXXX");
	if (mkdtemp(p->dir) == NULL)
		return -1;
	snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s.sock", p->dir,
		 file->instance);
	memcpy(p->path, at.sun_path, sizeof(at.sun_path));
	p->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (bind(p->listener, (struct sockaddr *)&at, sizeof(at)) != 0 ||
	    listen(p->listener, 8) != 0)
		return -1;
	return pthread_create(&p->thread, NULL, peer_run, p) == 0 ? 0 : -1;
}

static inline void peer_stop(struct peer *p)
{
	gm_put(&p->stop, 1);
	pthread_join(p->thread, NULL);
	for (uint32_t i = 0; i < PEER_LINKS; i++)
		peer_drop(&p->links[i]);
	close(p->listener);
	unlink(p->path);
	rmdir(p->dir);
}

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/peer/peer_agent.h"

/* ---- the agent ----------------------------------------------------------- */

void peer_reply(struct peer *p, struct peer_link *l,
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

void peer_refuse(struct peer *p, struct peer_link *l,
		 const struct gm_control *request, int status, const char *why)
{
	struct gm_refusal refusal = { { 0 } };

	snprintf(refusal.text, sizeof(refusal.text), "%s", why);
	peer_reply(p, l, request, status, &refusal, sizeof(refusal), NULL, 0);
}

/* A reply that is no more than a status. */
static void peer_say(struct peer *p, struct peer_link *l,
		     const struct gm_control *request, int status,
		     const char *why)
{
	if (status != 0)
		peer_refuse(p, l, request, status, why);
	else
		peer_reply(p, l, request, 0, NULL, 0, NULL, 0);
}

void peer_session(struct peer *p, struct peer_link *l,
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
	l->buffers = calloc(GM_BUFFERS_MAX, sizeof(*l->buffers));
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

void peer_queue(struct peer *p, struct peer_link *l,
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

void peer_release_map(struct peer *p, struct peer_link *l,
		      const struct gm_control *request,
		      const struct gm_object_name *name)
{
	if (strcmp(name->name, "mine") == 0)
		peer_reply(p, l, request, 0, NULL, 0, NULL, 0);
	else
		peer_refuse(p, l, request, -EPERM, "not yours");
}

void peer_pin(struct peer *p, struct peer_link *l,
	      const struct gm_control *request,
	      const struct gm_object_name *name)
{
	struct gm_pin_reply reply = { .claim = 99 + gm_get(&p->pinned) };
	struct gm_object object;
	int ret = gm_object_find(&p->file->segment.map, name->kind, name->name,
				 &object);

	if (ret != 0) {
		peer_refuse(p, l, request, ret, "no such map");
		return;
	}
	gm_put(&p->pinned, gm_get(&p->pinned) + 1);
	reply.unit = gm_seq_unit(object.word);
	reply.version = gm_seq_version(object.word);
	peer_reply(p, l, request, 0, &reply, sizeof(reply), NULL, 0);
}

#define PEER_SESSIONS 64u /* of one reply */

void peer_sessions(struct peer *p, struct peer_link *l,
		   const struct gm_control *request,
		   const struct gm_list_ask *body)
{
	struct {
		struct gm_list_reply head;
		struct gm_session_item items[PEER_SESSIONS];
	} reply = { .head = { .total = 100 } };
	uint64_t id = body->after.first;

	if (id != 0 && gm_get(&p->sessions) != 0)
		reply.head.total = gm_get(&p->sessions);
	while (reply.head.n < PEER_SESSIONS && id < 100)
		reply.items[reply.head.n++] =
			(struct gm_session_item){ .key = { ++id }, .pid = 5 };
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
}

void peer_plan(struct peer *p, struct peer_link *l,
	       const struct gm_control *request, const char *body)
{
	size_t n = request->bytes - sizeof(*request);
	struct gm_control head = *request;
	struct iovec io[2] = { { &head, sizeof(head) }, { p->plan, 0 } };
	struct msghdr message = { .msg_iov = io, .msg_iovlen = 2 };

	pthread_mutex_lock(&p->plan_lock);
	if (request->type == GM_CONTROL_ROOM) {
		p->n_rooms++;
		io[1] = (struct iovec){ p->room, p->room_body + p->room_tail };
		head.body = p->room_body;
	} else if (p->plan_agains > 0) {
		p->plan_agains--;
		head.status = -EAGAIN;
		head.body = 0;
	} else {
		head.status = p->plan_status;
		head.body = p->plan_body;
		io[1].iov_len = p->plan_body + p->plan_tail;
	}
	if (request->type != GM_CONTROL_ROOM)
		memcpy(p->asked, body,
		       n < sizeof(p->asked) ? n : sizeof(p->asked));
	head.bytes = (uint32_t)(sizeof(head) + io[1].iov_len);
	sendmsg(l->fd, &message, MSG_NOSIGNAL);
	pthread_mutex_unlock(&p->plan_lock);
}

/* ---- buffers ------------------------------------------------------------- */

/* Takes @fd, -1 where none came. */
static void peer_register(struct peer *p, struct peer_link *l,
			  const struct gm_control *request,
			  const struct gm_register *body, int fd)
{
	struct peer_buffer *b = peer_buffer(l, body->handle);
	bool writable = (body->flags & GPUMAP_BUFFER_READ_ONLY) == 0;
	int ret = (int)gm_get(&p->refuse);

	gm_put(&p->registered, gm_get(&p->registered) + 1);
	if (ret == 0 && (fd < 0 || l->rows[body->row].queue == NULL))
		ret = -EPROTO;
	if (ret == 0 && b == NULL) {
		ret = peer_buffer_begin(
			p, l, body->handle, fd, body->at, body->bytes,
			PROT_READ | (writable ? PROT_WRITE : 0));
		if (ret == 0)
			fd = -1;
		b = peer_buffer(l, body->handle);
	}
	if (ret == 0 && (b->rows >> body->row & 1) != 0)
		ret = -EEXIST;
	if (fd >= 0)
		close(fd);
	if (ret == 0)
		b->rows |= 1u << body->row;
	/* An agent registers with the next worker before it answers. */
	if (gm_get(&p->die_asked) != 0)
		peer_worker_dies(p, l, body->row);
	gm_put(&p->die_asked, 0);
	peer_say(p, l, request, ret, "not this file");
}

static void peer_forget(struct peer *p, struct peer_link *l,
			const struct gm_control *request,
			const struct gm_forget *body)
{
	struct peer_buffer *b = peer_buffer(l, body->handle);

	gm_put(&p->forgotten, gm_get(&p->forgotten) + 1);
	if (b == NULL) {
		peer_refuse(p, l, request, -ENOENT, "no such buffer");
		return;
	}
	b->export_id = 0;
	if (gm_handle_kind(body->handle) == GM_BUFFER_REGISTERED || b->imported)
		peer_buffer_end(p, b);
	peer_reply(p, l, request, 0, NULL, 0, NULL, 0);
}

static void peer_export(struct peer *p, struct peer_link *l,
			const struct gm_control *request,
			const struct gm_export_ask *body)
{
	struct peer_buffer *b = peer_buffer(l, body->handle);
	struct gm_export_reply reply = { 0 };

	if (b == NULL) {
		peer_refuse(p, l, request, -ESTALE, "no such buffer");
		return;
	}
	b->export_id = (uint64_t)gm_handle_row(body->handle) << 56 |
		       gm_handle_generation(body->handle);
	reply.id = b->export_id;
	reply.bytes = b->bytes;
	peer_reply(p, l, request, 0, &reply, sizeof(reply), NULL, 0);
}

static const struct peer_buffer *peer_exported(const struct peer *p,
					       uint64_t id)
{
	for (uint32_t i = 0; i < PEER_LINKS * GM_BUFFERS_MAX; i++) {
		const struct peer_link *l = &p->links[i / GM_BUFFERS_MAX];

		if (l->buffers != NULL && id != 0 &&
		    l->buffers[i % GM_BUFFERS_MAX].export_id == id)
			return &l->buffers[i % GM_BUFFERS_MAX];
	}
	return NULL;
}

static void peer_import(struct peer *p, struct peer_link *l,
			const struct gm_control *request,
			const struct gm_import *body)
{
	const struct peer_buffer *b = peer_exported(p, body->id);
	struct gm_import_reply reply = { .row = gm_export_row(body->id) };
	int ret = b != NULL ? 0 : -ENOENT, fd;

	if (ret == 0 && body->handle != 0) {
		fd = fcntl(b->fd, F_DUPFD_CLOEXEC, 0);
		ret = peer_buffer_begin(p, l, body->handle, fd, 0, b->bytes,
					PROT_READ | PROT_WRITE);
		if (ret != 0)
			close(fd);
		else
			peer_buffer(l, body->handle)->imported = true;
	}
	if (ret != 0) {
		peer_refuse(p, l, request, ret, "nothing is exported so");
		return;
	}
	reply.bytes = b->bytes;
	if (gm_get(&p->lie) == PEER_WRONG_ROW)
		reply.row++;
	peer_reply(p, l, request, 0, &reply, sizeof(reply), &b->fd,
		   body->handle == 0);
}

static void peer_drain(struct peer *p, struct peer_link *l,
		       const struct gm_control *request,
		       const struct gm_drain *body)
{
	uint32_t bit = 1u << body->row % 32, now = gm_get(&p->drained);

	if (body->row >= PEER_ROWS) {
		peer_refuse(p, l, request, -ENODEV, "there is no such row");
		return;
	}
	gm_put(&p->drained, body->undrain != 0 ? now & ~bit : now | bit);
	peer_reply(p, l, request, 0, NULL, 0, NULL, 0);
}

void peer_reach(struct peer *p, struct peer_link *l,
		const struct gm_control *request, const struct gm_reach *body)
{
	struct peer_buffer *b = peer_buffer(l, body->handle);
	int ret = (int)gm_get(&p->refuse);

	gm_put(&p->reached, gm_get(&p->reached) + 1);
	if (ret == 0 && (gm_handle_row(body->handle) == body->row ||
			 l->rows[body->row].queue == NULL))
		ret = -EPROTO;
	if (ret == 0 && b == NULL)
		ret = -ESTALE;
	if (ret == 0)
		b->rows |= 1u << body->row;
	peer_say(p, l, request, ret, "not this buffer");
}

static void peer_unreach(struct peer *p, struct peer_link *l,
			 const struct gm_control *request,
			 const struct gm_unreach *body)
{
	struct peer_buffer *b = peer_buffer(l, body->handle);

	gm_put(&p->unreached, gm_get(&p->unreached) + 1);
	if (b != NULL)
		b->rows = 0;
	peer_reply(p, l, request, 0, NULL, 0, NULL, 0);
}

static void peer_comm_open(struct peer *p, struct peer_link *l,
			   const struct gm_control *request,
			   const struct gm_comm_open *body)
{
	struct gm_comm_reply reply = {
		.comm = gm_get(&p->comm_asked) + 1,
		.flags = body->flags & GM_COMM_MAY_NCCL ? gm_get(&p->comm_flags)
							: GM_COMM_STAGED,
	};

	gm_put(&p->comm_asked, reply.comm);
	gm_put(&p->comm_open, gm_get(&p->comm_open) + 1);
	peer_reply(p, l, request, 0, &reply, sizeof(reply), NULL, 0);
}

bool peer_answer_buffers(struct peer *p, struct peer_link *l,
			 const struct gm_control *head, const char *body,
			 int fd)
{
	if (head->type == GM_CONTROL_REGISTER)
		peer_register(p, l, head, (const void *)body, fd);
	else if (head->type == GM_CONTROL_FORGET)
		peer_forget(p, l, head, (const void *)body);
	else if (head->type == GM_CONTROL_EXPORT)
		peer_export(p, l, head, (const void *)body);
	else if (head->type == GM_CONTROL_IMPORT)
		peer_import(p, l, head, (const void *)body);
	else if (head->type == GM_CONTROL_REACH)
		peer_reach(p, l, head, (const void *)body);
	else if (head->type == GM_CONTROL_UNREACH)
		peer_unreach(p, l, head, (const void *)body);
	else if (head->type == GM_CONTROL_DRAIN)
		peer_drain(p, l, head, (const void *)body);
	else if (head->type == GM_CONTROL_COMM_OPEN)
		peer_comm_open(p, l, head, (const void *)body);
	else if (head->type == GM_CONTROL_COMM_CLOSE) {
		gm_put(&p->comm_open, gm_get(&p->comm_open) - 1);
		peer_reply(p, l, head, 0, NULL, 0, NULL, 0);
	} else
		return false;
	return true;
}

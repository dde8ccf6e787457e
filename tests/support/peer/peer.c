/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/peer/peer.h"

/* ---- requests ------------------------------------------------------------ */

static void peer_drop(struct peer *p, struct peer_link *l)
{
	if (l->fd >= 0)
		close(l->fd);
	if (l->wake_fd >= 0)
		close(l->wake_fd);
	for (uint32_t row = 0; row < PEER_ROWS; row++)
		if (l->rows[row].queue != NULL)
			close(l->rows[row].doorbell);
	for (uint32_t i = 0; l->depth != 0 && i < GM_BUFFERS_MAX; i++)
		if (l->buffers[i].handle != 0)
			peer_buffer_end(p, &l->buffers[i]);
	free(l->buffers);
	if (l->depth != 0) {
		munmap(l->queues, gm_queue_at(PEER_ROWS, l->depth));
		munmap(l->arena, PEER_ROWS * PEER_RANGE);
		close(l->queues_fd);
		close(l->arena_fd);
	}
	*l = (struct peer_link){ .fd = -1, .wake_fd = -1 };
}

static void peer_answer(struct peer *p, struct peer_link *l,
			const struct gm_control *head, const char *body,
			int sent)
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
		peer_drop(p, l);
	else if (peer_answer_buffers(p, l, head, body, sent))
		return; /* which took what was sent */
	else if (head->type == GM_CONTROL_SESSION_OPEN)
		peer_session(p, l, head, (const void *)body);
	else if (head->type == GM_CONTROL_QUEUE_OPEN)
		peer_queue(p, l, head, (const void *)body);
	else if (head->type == GM_CONTROL_RELEASE)
		peer_release_map(p, l, head, (const void *)body);
	else if (head->type == GM_CONTROL_PIN)
		peer_pin(p, l, head, (const void *)body);
	else if (head->type == GM_CONTROL_ROOM ||
		 head->type == GM_CONTROL_PUBLISH ||
		 head->type == GM_CONTROL_RESERVE ||
		 head->type == GM_CONTROL_SHARE_OPEN)
		peer_plan(p, l, head, body);
	else if (head->type == GM_CONTROL_SHARE_CLOSE) {
		gm_put(&p->closed, gm_get(&p->closed) + 1);
		peer_reply(p, l, head, (int32_t)gm_get(&p->refuse), NULL, 0,
			   NULL, 0);
	} else if (head->type == GM_CONTROL_LIST)
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

static void peer_receive(struct peer *p, struct peer_link *l)
{
	static char record[1 << 16] __attribute__((aligned(8)));
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec io = { record, sizeof(record) };
	struct msghdr message = { .msg_iov = &io,
				  .msg_iovlen = 1,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	ssize_t n = recvmsg(l->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct gm_control head;
	int sent = -1;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < (ssize_t)sizeof(head)) {
		peer_drop(p, l);
		return;
	}
	if (CMSG_FIRSTHDR(&message) != NULL)
		memcpy(&sent, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(sent));
	memcpy(&head, record, sizeof(head));
	peer_answer(p, l, &head, record + sizeof(head), sent);
}

static void peer_listen(struct peer *p, struct peer_link *l)
{
	if (gm_get(&p->deaf) == PEER_HEARS) {
		peer_receive(p, l);
		return;
	}
	gm_put(&p->left, 1);
	usleep(1000); /* poll() would say the same at once */
}

static void peer_accept(struct peer *p)
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

static bool peer_work(struct peer *p)
{
	bool busy = false;

	for (uint32_t i = 0; i < PEER_LINKS; i++)
		for (uint32_t row = 0; row < PEER_ROWS; row++)
			busy |= peer_serve(p, &p->links[i], row);
	return busy;
}

/* Park every queue; returns whether one has something to do after all. */
static bool peer_park(struct peer *p, struct pollfd *polls, uint32_t *n)
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

static void peer_unpark(struct peer *p)
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

/* The workers that the test has killed. */
static void peer_recover(struct peer *p)
{
	for (uint32_t i = 0; i < PEER_LINKS; i++)
		for (uint32_t row = 0; row < PEER_ROWS; row++)
			if ((gm_get(&p->die) >> row & 1) != 0)
				peer_worker_dies(p, &p->links[i], row);
	gm_put(&p->die, 0);
}

static void *peer_run(void *arg)
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
				peer_listen(p, &p->links[i]);
		if (gm_get(&p->die) != 0)
			peer_recover(p);
		if (gm_get(&p->hang_up) != 0) {
			for (uint32_t i = 0; i < PEER_LINKS; i++)
				peer_drop(p, &p->links[i]);
			gm_put(&p->hang_up, 0);
		}
		if (gm_get(&p->deaf) != PEER_STOPPED)
			segment_file_beat(p->file);
	}
	return NULL;
}

int peer_start(struct peer *p, struct segment_file *file)
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

void peer_stop(struct peer *p)
{
	gm_put(&p->stop, 1);
	pthread_join(p->thread, NULL);
	for (uint32_t i = 0; i < PEER_LINKS; i++)
		peer_drop(p, &p->links[i]);
	close(p->listener);
	unlink(p->path);
	rmdir(p->dir);
}

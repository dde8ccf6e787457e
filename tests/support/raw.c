/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/raw.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define NAP_NS UINT64_C(100000)

uint64_t raw_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void raw_nap(uint64_t ns)
{
	struct timespec nap = { .tv_sec = (time_t)(ns / 1000000000),
				.tv_nsec = (long)(ns % 1000000000) };

	nanosleep(&nap, NULL);
}

void raw_init(struct raw *c)
{
	*c = (struct raw){
		.socket = -1, .queues = -1, .arena = -1, .wake = -1
	};
	for (uint32_t row = 0; row < GM_ROWS; row++)
		c->row[row].doorbell = -1;
}

static void shut(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void raw_close(struct raw *c)
{
	shut(&c->socket);
	shut(&c->queues);
	shut(&c->arena);
	shut(&c->wake);
	for (uint32_t row = 0; row < GM_ROWS; row++)
		shut(&c->row[row].doorbell);
	if (c->page)
		munmap(c->page, c->queues_bytes);
	if (c->memory)
		munmap(c->memory, c->arena_bytes);
	raw_init(c);
}

/* ---- records ----------------------------------------------------------- */

int raw_connect(struct raw *c, const char *path)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int error;

	raw_init(c);
	if (strlen(path) >= sizeof(to.sun_path))
		return -ENAMETOOLONG;
	strcpy(to.sun_path, path);
	c->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (c->socket >= 0 &&
	    connect(c->socket, (struct sockaddr *)&to, sizeof(to)) == 0)
		return 0;
	error = -errno;
	shut(&c->socket);
	return error;
}

struct gm_control raw_header(struct raw *c, uint16_t type, uint32_t body_bytes,
			     uint32_t tail_bytes)
{
	return (struct gm_control){
		.magic = GM_CONTROL_MAGIC,
		.bytes = (uint32_t)sizeof(struct gm_control) + body_bytes +
			 tail_bytes,
		.version = GM_CONTROL_VERSION,
		.type = type,
		.serial = ++c->serial,
		.body = body_bytes,
	};
}

int raw_send(const struct raw *c, const struct raw_record *record, int flags)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(253 * sizeof(int))]; /* SCM_MAX_FD */
	} control = { .bytes = { 0 } };
	struct iovec parts[3] = {
		{ (void *)&record->header, sizeof(record->header) },
		{ (void *)record->body, record->body_bytes },
		{ (void *)record->tail, record->tail_bytes }
	};
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 3 };

	if (record->n_fds) {
		size_t bytes = record->n_fds * sizeof(int);
		struct cmsghdr *head;

		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(bytes);
		head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(bytes);
		memcpy(CMSG_DATA(head), record->fds, bytes);
	}
	return sendmsg(c->socket, &message, flags | MSG_NOSIGNAL) < 0 ? -errno
								      : 0;
}

static void take_fds(struct msghdr *message, int ret_fds[GM_CONTROL_FDS_MAX])
{
	struct cmsghdr *head = CMSG_FIRSTHDR(message);
	uint32_t n;

	for (uint32_t i = 0; i < GM_CONTROL_FDS_MAX; i++)
		ret_fds[i] = -1;
	if (!head || head->cmsg_level != SOL_SOCKET ||
	    head->cmsg_type != SCM_RIGHTS)
		return;
	n = (uint32_t)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(ret_fds, CMSG_DATA(head), n * sizeof(int));
}

int raw_receive(struct raw *c, struct gm_control *ret_header, void *ret_body,
		uint32_t bytes, int ret_fds[GM_CONTROL_FDS_MAX])
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(GM_CONTROL_FDS_MAX * sizeof(int))];
	} control;
	struct iovec parts[2] = { { ret_header, sizeof(*ret_header) },
				  { ret_body, bytes } };
	struct msghdr message = { .msg_iov = parts,
				  .msg_iovlen = 2,
				  .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	struct pollfd p = { c->socket, POLLIN, 0 };
	ssize_t n;

	if (poll(&p, 1, (int)(RAW_PATIENCE_NS / 1000000)) == 0)
		return -ETIME;
	n = recvmsg(c->socket, &message, MSG_CMSG_CLOEXEC);
	if (n == 0 || (n < 0 && (errno == ECONNRESET || errno == EPIPE)))
		return -ECONNRESET;
	if (n < 0)
		return -errno;
	take_fds(&message, ret_fds);
	if ((size_t)n < sizeof(*ret_header) ||
	    ret_header->magic != GM_CONTROL_MAGIC ||
	    (message.msg_flags & MSG_CTRUNC))
		return -EBADMSG;
	return (int)((size_t)n - sizeof(*ret_header));
}

/* ---- requests ---------------------------------------------------------- */

static int ask_for(struct raw *c, const struct raw_record *record,
		   void *ret_body, uint32_t ret_bytes,
		   int ret_fds[GM_CONTROL_FDS_MAX])
{
	char room[4096];
	struct gm_control reply;
	int fds[GM_CONTROL_FDS_MAX], got;
	uint32_t n;

	c->refusal[0] = '\0';
	got = raw_send(c, record, 0);
	if (got == -EPIPE)
		return -ECONNRESET;
	if (got == 0)
		got = raw_receive(c, &reply, room, sizeof(room), fds);
	if (got < 0)
		return got;
	if (reply.type != record->header.type ||
	    reply.serial != record->header.serial)
		return -EBADMSG;
	n = (uint32_t)got < sizeof(room) ? (uint32_t)got : sizeof(room);
	if (reply.status < 0)
		snprintf(c->refusal, sizeof(c->refusal), "%.*s", (int)n, room);
	else if (ret_body)
		memcpy(ret_body, room, n < ret_bytes ? n : ret_bytes);
	for (uint32_t i = 0; i < GM_CONTROL_FDS_MAX; i++) {
		if (ret_fds)
			ret_fds[i] = fds[i];
		else
			shut(&fds[i]);
	}
	return reply.status;
}

int raw_ask(struct raw *c, uint16_t type, const void *body, uint32_t bytes,
	    void *ret_body, uint32_t ret_bytes, int ret_fds[GM_CONTROL_FDS_MAX])
{
	struct raw_record record = { .header = raw_header(c, type, bytes, 0),
				     .body = body,
				     .body_bytes = bytes };

	return ask_for(c, &record, ret_body, ret_bytes, ret_fds);
}

int raw_ask_tail(struct raw *c, uint16_t type, const void *body, uint32_t bytes,
		 const void *tail, uint32_t tail_bytes)
{
	struct raw_record record = {
		.header = raw_header(c, type, bytes, tail_bytes),
		.body = body,
		.body_bytes = bytes,
		.tail = tail,
		.tail_bytes = tail_bytes,
	};

	return ask_for(c, &record, NULL, 0, NULL);
}

int raw_hello(struct raw *c)
{
	struct gm_hello hello = { .layout_major = GM_LAYOUT_MAJOR,
				  .layout_minor = GM_LAYOUT_MINOR,
				  .layout = gm_layout_hash() };

	return raw_ask(c, GM_CONTROL_HELLO, &hello, sizeof(hello), NULL, 0,
		       NULL);
}

int raw_open(struct raw *c, const char *path)
{
	int error = raw_connect(c, path);

	if (error == 0)
		error = raw_hello(c);
	return error;
}

int raw_publish(struct raw *c, const char *name, uint32_t row,
		uint32_t n_layers)
{
	struct gm_publish ask = {
		.map = { .flags = GPUMAP_PLAN_PUBLISH },
		.setting = GPUMAP_SETTING_MANUAL,
		.base_row = row,
		.n_layers = n_layers,
		.dtype = GPUMAP_DTYPE_F16,
		.n_charges = 1,
		.n_runs = 1,
		.spec_bytes = sizeof("?"),
	};
	const struct {
		struct gm_charge_image charge;
		struct gm_plan_run run;
		char spec[sizeof("?")];
	} tail = { { .row = row, .n_layers = n_layers },
		   { row, n_layers },
		   "?" };
	struct {
		struct gm_room_reply head;
		struct gm_room_row rows[GM_ROWS];
	} room;
	int ret = raw_ask(c, GM_CONTROL_ROOM, &ask.map, sizeof(ask.map), &room,
			  sizeof(room), NULL);

	if (ret != 0)
		return ret;
	ask.rows_given = room.head.rows_given;
	/* One of 64 bytes has no end: that is for the agent to find out. */
	memcpy(ask.map.name, name, strnlen(name, sizeof(ask.map.name)));
	return raw_ask_tail(
		c, GM_CONTROL_PUBLISH, &ask, sizeof(ask), (const char *)&tail,
		offsetof(__typeof__(tail), spec) + sizeof(tail.spec));
}

/* ---- sessions ---------------------------------------------------------- */

static void *map(int fd, uint64_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

int raw_session(struct raw *c, uint32_t depth, uint32_t flags,
		uint64_t range_bytes)
{
	struct gm_session_open open = { .depth = depth,
					.flags = flags,
					.range_bytes = range_bytes };
	int fds[GM_CONTROL_FDS_MAX];
	int error = raw_ask(c, GM_CONTROL_SESSION_OPEN, &open, sizeof(open),
			    &c->session, sizeof(c->session), fds);

	if (error < 0)
		return error;
	c->queues = fds[0];
	c->arena = fds[1];
	c->wake = fds[2];
	c->queues_bytes = gm_queue_at(c->session.n_rows, c->session.depth);
	c->arena_bytes = c->session.n_rows * c->session.range_bytes;
	c->page = map(c->queues, c->queues_bytes);
	c->memory = map(c->arena, c->arena_bytes);
	return c->page && c->memory ? 0 : -ENOMEM;
}

int raw_queue(struct raw *c, uint32_t row)
{
	struct gm_queue_open open = { .row = row };
	struct raw_queue *q = &c->row[row % GM_ROWS];
	uint32_t mask = c->session.depth - 1;
	struct gm_queue_reply reply;
	int fds[GM_CONTROL_FDS_MAX];
	int error = raw_ask(c, GM_CONTROL_QUEUE_OPEN, &open, sizeof(open),
			    &reply, sizeof(reply), fds);

	if (error < 0)
		return error;
	q->queue = (void *)((char *)c->page + reply.at);
	q->entries = (struct gm_ring){ gm_queue_entries(q->queue), mask, 0 };
	q->done =
		(struct gm_ring){ gm_queue_done(q->queue, mask + 1), mask, 0 };
	q->waker = (struct gm_waker){ &q->queue->parked, 0 };
	q->doorbell = fds[0];
	return 0;
}

int raw_open_queue(struct raw *c, const char *path, uint32_t row,
		   uint32_t depth, uint64_t range_bytes)
{
	int error = raw_open(c, path);

	if (error == 0)
		error = raw_session(c, depth, 0, range_bytes);
	if (error == 0)
		error = raw_queue(c, row);
	return error;
}

/* ---- buffers ----------------------------------------------------------- */

int raw_register(struct raw *c, const struct gm_register *ask, int fd)
{
	struct raw_record record = {
		.header = raw_header(c, GM_CONTROL_REGISTER, sizeof(*ask), 0),
		.body = ask,
		.body_bytes = sizeof(*ask),
		.fds = &fd,
		.n_fds = fd >= 0,
	};

	return ask_for(c, &record, NULL, 0, NULL);
}

int raw_forget(struct raw *c, uint64_t handle)
{
	struct gm_forget forget = { handle };

	return raw_ask(c, GM_CONTROL_FORGET, &forget, sizeof(forget), NULL, 0,
		       NULL);
}

int raw_export(struct raw *c, uint64_t handle,
	       struct gm_export_reply *ret_export)
{
	struct gm_export_ask ask = { .handle = handle };

	return raw_ask(c, GM_CONTROL_EXPORT, &ask, sizeof(ask), ret_export,
		       sizeof(*ret_export), NULL);
}

int raw_import(struct raw *c, const struct gm_import *ask,
	       struct gm_import_reply *ret_import, int *ret_fd)
{
	int fds[GM_CONTROL_FDS_MAX] = { -1, -1, -1, -1 };
	int error = raw_ask(c, GM_CONTROL_IMPORT, ask, sizeof(*ask), ret_import,
			    sizeof(*ret_import), fds);

	if (ret_fd)
		*ret_fd = fds[0];
	else
		shut(&fds[0]);
	return error;
}

/* ---- entries ----------------------------------------------------------- */

struct gm_entry raw_entry(const struct raw_queue *q, uint8_t op)
{
	return (struct gm_entry){ .op = op,
				  .incarnation =
					  gm_get(&q->queue->incarnation) };
}

void raw_ring(const struct raw_queue *q)
{
	uint64_t one = 1;

	/* A saturated one is full of rings already. */
	if (write(q->doorbell, &one, sizeof(one)) < 0)
		return;
}

void raw_post(struct raw_queue *q, const struct gm_entry *entries, uint32_t n)
{
	uint64_t words[GM_ENTRY_WORDS];

	for (uint32_t i = n; i-- > 0;) {
		gm_entry_pack(&entries[i], words);
		gm_ring_put(&q->entries, GM_ENTRY_WORDS, i, words);
	}
	q->entries.pos += n;
	if (gm_ring_must_wake(&q->waker))
		raw_ring(q);
}

bool raw_take(struct raw_queue *q, uint32_t *ret_position, int32_t *ret_status)
{
	uint64_t words[GM_DONE_WORDS];

	if (!gm_ring_peek(&q->done, GM_DONE_WORDS, 0, words))
		return false;
	q->done.pos++;
	*ret_position = gm_done_position(words);
	*ret_status = gm_done_status(words);
	return true;
}

bool raw_is_over(const struct raw *c)
{
	char byte;
	ssize_t n = recv(c->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

bool raw_wait_over(const struct raw *c)
{
	uint64_t until = raw_now() + RAW_PATIENCE_NS;

	while (!raw_is_over(c)) {
		if (raw_now() > until)
			return false;
		raw_nap(NAP_NS);
	}
	return true;
}

int32_t raw_do(struct raw *c, struct raw_queue *q, const struct gm_entry *entry)
{
	uint64_t until = raw_now() + RAW_PATIENCE_NS;
	uint32_t position;
	int32_t status;

	raw_post(q, entry, 1);
	for (;;) {
		if (raw_take(q, &position, &status))
			return status;
		if (raw_is_over(c))
			return -ECONNRESET;
		if (raw_now() > until)
			return -ETIME;
		raw_nap(NAP_NS);
	}
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/peer/peer_worker.h"

struct peer_buffer *peer_buffer(struct peer_link *l, uint64_t handle)
{
	struct peer_buffer *b = &l->buffers[gm_handle_index(handle)];

	if (gm_handle_index(handle) >= GM_BUFFERS_MAX || b->handle != handle)
		return NULL;
	return b;
}

void peer_buffer_end(struct peer *p, struct peer_buffer *b)
{
	munmap(b->at, b->bytes);
	if (b->fd >= 0)
		close(b->fd);
	*b = (struct peer_buffer){ .fd = -1 };
	gm_put(&p->n_buffers, gm_get(&p->n_buffers) - 1);
}

int32_t peer_buffer_begin(struct peer *p, struct peer_link *l, uint64_t handle,
			  int fd, uint64_t at, uint64_t bytes, int protection)
{
	uint32_t index = gm_handle_index(handle);
	struct peer_buffer b = { .handle = handle, .bytes = bytes, .fd = fd };

	if (index >= GM_BUFFERS_MAX || gm_handle_generation(handle) == 0)
		return -EINVAL;
	if (l->buffers[index].handle != 0)
		return -EEXIST;
	b.at = mmap(NULL, bytes, protection,
		    fd >= 0 ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS, fd,
		    (off_t)at);
	if (b.at == MAP_FAILED)
		return -errno;
	l->buffers[index] = b;
	gm_put(&p->n_buffers, gm_get(&p->n_buffers) + 1);
	return 0;
}

static int32_t peer_alloc(struct peer *p, struct peer_link *l, uint32_t row,
			  const struct gm_entry *e)
{
	int32_t ret;
	int fd;

	if (e->dst != 0 || e->src != 0 || e->src_buffer != 0 ||
	    gm_handle_kind(e->dst_buffer) != GM_BUFFER_DEVICE ||
	    gm_handle_row(e->dst_buffer) != row)
		return -EINVAL;
	if (e->n > PEER_DEVICE)
		return -ENOMEM;
	fd = (e->value & GPUMAP_BUFFER_EXPORTABLE) != 0 ? peer_memfd(e->n, true)
							: -1;
	ret = peer_buffer_begin(p, l, e->dst_buffer, fd, 0, e->n,
				PROT_READ | PROT_WRITE);
	if (ret != 0 && fd >= 0)
		close(fd);
	return ret;
}

/* Where an operand lies; NULL with what is wrong with it. */
static char *peer_operand(struct peer_link *l, uint32_t row, uint64_t handle,
			  uint64_t at, uint64_t bytes, int32_t *ret_error)
{
	uint64_t room = PEER_ROWS * PEER_RANGE;
	struct peer_buffer *b = NULL;
	char *memory = l->arena;

	*ret_error = -ESTALE;
	if (handle != 0) {
		b = peer_buffer(l, handle);
		if (b == NULL)
			return NULL;
		/* The library tells a row before a job of it names anything. */
		if ((gm_handle_kind(handle) == GM_BUFFER_REGISTERED ||
		     gm_handle_row(handle) != row) &&
		    (b->rows >> row & 1) == 0)
			return NULL;
		room = b->bytes;
		memory = b->at;
	}
	*ret_error = -ERANGE;
	if (at > room || bytes > room - at)
		return NULL;
	return memory + at;
}

static void peer_compute(const struct gm_entry *e, char *dst, const char *src)
{
	double alpha;

	memcpy(&alpha, &e->value, sizeof(alpha));
	for (uint64_t i = 0; i < e->n; i++) {
		float d, s = 0;

		memcpy(&d, dst + 4 * i, 4);
		if (e->op != GPUMAP_OP_FILL)
			memcpy(&s, src + 4 * i, 4);
		if (e->op == GPUMAP_OP_FILL)
			memcpy(&d, &e->value, 4);
		else if (e->op == GPUMAP_OP_SCALE)
			d = (float)(alpha * s);
		else
			d += (float)(alpha * s);
		memcpy(dst + 4 * i, &d, 4);
	}
}

/* Bytes are copied as they are; all that computes is of floats. */
static int32_t peer_do(struct peer *p, struct peer_link *l, uint32_t row,
		       const struct gm_entry *e)
{
	uint64_t bytes = e->dtype == GPUMAP_DTYPE_U8 ? e->n : 4 * e->n;
	uint32_t status = gm_get(&p->status);
	const char *src = NULL;
	int32_t error = 0;
	char *dst;

	if (status != 0 && (gm_get(&p->sound) >> row & 1) == 0)
		return (int32_t)status;
	if (e->op == GPUMAP_OP_NOP)
		return 0;
	if (e->op == GPUMAP_OP_ALLOC)
		return peer_alloc(p, l, row, e);
	if (e->op == GPUMAP_OP_FREE) {
		struct peer_buffer *b = peer_buffer(l, e->dst_buffer);

		if (b == NULL || b->imported)
			return b == NULL ? -ESTALE : -EINVAL;
		peer_buffer_end(p, b);
		return 0;
	}
	dst = peer_operand(l, row, e->dst_buffer, e->dst, bytes, &error);
	if (dst == NULL)
		return error;
	if (e->op != GPUMAP_OP_FILL) {
		src = peer_operand(l, row, e->src_buffer, e->src, bytes,
				   &error);
		if (src == NULL)
			return error;
	}
	if (e->op == GPUMAP_OP_COPY)
		memcpy(dst, src, bytes);
	else
		peer_compute(e, dst, src);
	return 0;
}

void peer_worker_dies(struct peer *p, struct peer_link *l, uint32_t row)
{
	struct gm_queue *queue = l->rows[row].queue;

	if (queue == NULL)
		return;
	for (uint32_t i = 0; i < GM_BUFFERS_MAX; i++) {
		struct peer_buffer *b = &l->buffers[i];

		if (b->handle == 0 ||
		    gm_handle_kind(b->handle) != GM_BUFFER_DEVICE)
			continue;
		if (gm_handle_row(b->handle) == row)
			peer_buffer_end(p, b);
		else
			b->rows &= ~(1u << row);
	}
	gm_put(&queue->incarnation, gm_get(&queue->incarnation) + 1);
}

static void peer_wake(struct peer_link *l)
{
	struct gm_client *client = (struct gm_client *)(void *)l->queues;

	if (!gm_ring_must_wake(&l->waker))
		return;
	gm_add_ordered(&client->wake, 1);
	syscall(SYS_futex, &client->wake, FUTEX_WAKE, 1, NULL, NULL, 0);
	if (l->wake_fd >= 0 && gm_get(&client->by_fd) != 0)
		send(l->wake_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void peer_complete(struct peer_link *l, struct peer_queue *q,
			  uint32_t position, int32_t status)
{
	uint64_t words[GM_DONE_WORDS];

	gm_done_pack(position, status, words);
	gm_ring_put(&q->out, GM_DONE_WORDS, 0, words);
	q->out.pos++;
	peer_wake(l);
}

/* The client does not learn its completion. */
static int32_t peer_second(struct peer *p, const uint64_t *words)
{
	struct gm_more more;

	gm_more_unpack(words, &more);
	gm_put(&p->deadline_ns, more.deadline_ns);
	gm_put(&p->n_waits, more.n_waits);
	for (uint32_t i = 0; i < GM_WAITS_MAX; i++)
		gm_put(&p->wait[i], more.wait[i]);
	gm_put(&p->seconds, gm_get(&p->seconds) + 1);
	return -EIO;
}

static void peer_serve_one(struct peer *p, struct peer_link *l, uint32_t row,
			   uint32_t ahead)
{
	struct peer_queue *q = &l->rows[row];
	uint64_t words[GM_ENTRY_WORDS];
	uint32_t position = q->in.pos + ahead, lie = gm_get(&p->lie);
	struct gm_entry entry;
	int32_t status;

	gm_ring_peek(&q->in, GM_ENTRY_WORDS, ahead, words);
	gm_entry_unpack(words, &entry);
	if (entry.op == GM_OP_MORE)
		status = peer_second(p, words);
	else if (entry.incarnation == gm_get(&q->queue->incarnation))
		status = peer_do(p, l, row, &entry);
	else
		status = -EIO;
	gm_put(&p->served, gm_get(&p->served) + 1);
	if (lie == PEER_STRANGER)
		position += 3;
	if (lie == PEER_GOOD_STATUS)
		status = 5;
	peer_complete(l, q, position, status);
	if (lie == PEER_TWICE)
		peer_complete(l, q, position, status);
	gm_put(&p->answered, gm_get(&p->answered) + 1);
}

bool peer_serve(struct peer *p, struct peer_link *l, uint32_t row)
{
	struct peer_queue *q = &l->rows[row];
	uint32_t n = 0, most = gm_get(&p->backwards) != 0 ? 4 : 1;
	uint64_t words[GM_ENTRY_WORDS];

	if (q->queue == NULL || (gm_get(&p->hold) >> row & 1) != 0)
		return false;
	while (n < most && gm_ring_peek(&q->in, GM_ENTRY_WORDS, n, words))
		n++;
	if (gm_get(&p->ration) != 0) {
		n = n < gm_get(&p->ration) ? n : gm_get(&p->ration);
		gm_put(&p->hold, gm_get(&p->hold) | (n > 0) << row);
	}
	for (uint32_t i = 0; i < n; i++)
		peer_serve_one(p, l, row, n - 1 - i);
	q->in.pos += n;
	return n > 0;
}

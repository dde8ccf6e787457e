/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/worker/queue_client.h"

uint64_t hand_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void hand_nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
}

void *hand_share(const char *name, uint64_t bytes, int *ret_fd)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *map;

	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		exit(99);
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		exit(99);
	*ret_fd = fd;
	return map;
}

void hand_open(struct hand_client *c, uint64_t id, uint32_t place, uint32_t row,
	       uint32_t depth, uint64_t arena_bytes)
{
	uint64_t bytes = gm_queue_at(row + 1, depth);
	char *base = hand_share("hand-queues", bytes, &c->queues);

	c->id = id;
	c->uid = 0;
	c->place = place;
	c->depth = depth;
	c->incarnation = 1;
	c->rung = 0;
	c->arena_bytes = arena_bytes;
	c->quota = UINT64_MAX;
	c->memory = hand_share("hand-arena", arena_bytes, &c->arena);
	c->page = (void *)base;
	c->queue = (void *)(base + gm_queue_at(row, depth));
	c->entries =
		(struct gm_ring){ gm_queue_entries(c->queue), depth - 1, 0 };
	c->done = (struct gm_ring){ gm_queue_done(c->queue, depth), depth - 1,
				    0 };
	c->waker = (struct gm_waker){ &c->queue->parked, 0 };
	c->parked = 0;
	c->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->doorbell < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, c->socket) < 0)
		exit(99);
}

void hand_unmap(struct hand_client *c, uint32_t row)
{
	munmap(c->page, gm_queue_at(row + 1, c->depth));
	munmap(c->memory, c->arena_bytes);
	c->page = NULL;
}

void hand_close(struct hand_client *c, uint32_t row)
{
	if (c->page)
		hand_unmap(c, row);
	close(c->queues);
	close(c->arena);
	close(c->doorbell);
	close(c->socket[0]);
	close(c->socket[1]);
}

struct gm_wire hand_attach(const struct hand_client *c, uint32_t row)
{
	struct gm_wire wire;

	memset(&wire, 0, sizeof(wire));
	wire.type = GM_WIRE_ATTACH;
	wire.session = c->id;
	wire.attach.uid = c->uid;
	wire.place = c->place;
	wire.attach.depth = c->depth;
	wire.attach.incarnation = c->incarnation;
	wire.attach.queue_at = gm_queue_at(row, c->depth);
	wire.attach.arena_bytes = c->arena_bytes;
	wire.attach.range_bytes = c->arena_bytes;
	wire.attach.quota = c->quota;
	return wire;
}

struct gm_entry hand_nop(const struct hand_client *c)
{
	return (struct gm_entry){ .op = GPUMAP_OP_NOP,
				  .incarnation = c->incarnation };
}

struct gm_entry hand_copy(const struct hand_client *c, uint64_t dst,
			  uint64_t src, uint64_t n)
{
	return (struct gm_entry){ .op = GPUMAP_OP_COPY,
				  .dtype = GPUMAP_DTYPE_U8,
				  .incarnation = c->incarnation,
				  .dst = dst,
				  .src = src,
				  .n = n };
}

struct gm_entry hand_copy_between(const struct hand_client *c,
				  uint64_t dst_buffer, uint64_t dst,
				  uint64_t src_buffer, uint64_t src, uint64_t n)
{
	struct gm_entry e = hand_copy(c, dst, src, n);

	e.dst_buffer = dst_buffer;
	e.src_buffer = src_buffer;
	return e;
}

struct gm_entry hand_fill(const struct hand_client *c, uint64_t buffer,
			  uint64_t at, uint64_t n, uint8_t value)
{
	return (struct gm_entry){ .op = GPUMAP_OP_FILL,
				  .incarnation = c->incarnation,
				  .dst = at,
				  .n = n,
				  .value = value,
				  .dst_buffer = buffer };
}

uint32_t hand_n_done(const struct hand_client *c)
{
	uint64_t words[GM_DONE_WORDS];
	uint32_t n = 0;

	while (n < c->depth && gm_ring_peek(&c->done, GM_DONE_WORDS, n, words))
		n++;
	return n;
}

uint64_t hand_handle(uint32_t row, uint32_t index)
{
	return gm_handle_make(index + 1, GM_BUFFER_DEVICE, row, index);
}

struct gm_entry hand_alloc(const struct hand_client *c, uint64_t handle,
			   uint64_t bytes, uint64_t flags)
{
	return (struct gm_entry){ .op = GPUMAP_OP_ALLOC,
				  .incarnation = c->incarnation,
				  .n = bytes,
				  .value = flags,
				  .dst_buffer = handle };
}

struct gm_entry hand_free(const struct hand_client *c, uint64_t handle)
{
	return (struct gm_entry){ .op = GPUMAP_OP_FREE,
				  .incarnation = c->incarnation,
				  .dst_buffer = handle };
}

struct gm_entry hand_second(uint64_t deadline_ns)
{
	return (struct gm_entry){ .op = GM_OP_MORE,
				  .incarnation = (uint32_t)deadline_ns,
				  .zero = (uint32_t)(deadline_ns >> 32) };
}

void hand_ring(struct hand_client *c)
{
	uint64_t one = 1;

	if (write(c->doorbell, &one, sizeof(one)) < 0 && errno != EAGAIN)
		exit(99);
	c->rung++;
}

void hand_submit(struct hand_client *c, const struct gm_entry *entries,
		 uint32_t n)
{
	uint64_t words[GM_ENTRY_WORDS];

	for (uint32_t i = n; i-- > 0;) {
		gm_entry_pack(&entries[i], words);
		gm_ring_put(&c->entries, GM_ENTRY_WORDS, i, words);
	}
	c->entries.pos += n;
	if (gm_ring_must_wake(&c->waker))
		hand_ring(c);
}

int hand_take(struct hand_client *c, uint32_t *ret_pos, int32_t *ret_status)
{
	uint64_t words[GM_DONE_WORDS];

	if (!gm_ring_peek(&c->done, GM_DONE_WORDS, 0, words))
		return 0;
	c->done.pos++;
	*ret_pos = gm_done_position(words);
	*ret_status = gm_done_status(words);
	return 1;
}

int hand_wait(struct hand_client *c, uint32_t *ret_pos, int32_t *ret_status)
{
	uint64_t end = hand_now() + HAND_PATIENCE_NS;

	while (!hand_take(c, ret_pos, ret_status)) {
		if (hand_now() > end)
			return 0;
		hand_nap();
	}
	return 1;
}

int32_t hand_do(struct hand_client *c, const struct gm_entry *entry)
{
	uint32_t pos = c->entries.pos, got;
	int32_t status;

	hand_submit(c, entry, 1);
	if (!hand_wait(c, &got, &status) || got != pos)
		return 1;
	return status;
}

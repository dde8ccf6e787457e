/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * queue_client.h - the client's end of one queue, made by hand.
 *
 * These functions do libgpumap's and gpumapd's part of a session without
 * either, so that tests of the worker's end can make errors that the library
 * never makes.
 */
#ifndef GM_TEST_SUPPORT_WORKER_QUEUE_CLIENT_H
#define GM_TEST_SUPPORT_WORKER_QUEUE_CLIENT_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent/common/wire.h"
#include "gpumap.h"
#include "shm/queue.h"
#include "shm/ring.h"

/* Longer than anything here takes on the slowest machine: a test that is still
 * waiting then has found something. */
#define HAND_PATIENCE_NS UINT64_C(30000000000)

struct hand_client {
	uint64_t id;
	uint32_t uid;
	uint32_t place;
	uint32_t depth;
	uint32_t incarnation;
	int queues;
	int arena;
	int doorbell;
	int socket[2]; /* ours, the worker's */
	uint64_t arena_bytes;
	uint64_t quota; /* of the row's memory */
	struct gm_client *page;
	struct gm_queue *queue;
	char *memory;
	struct gm_ring entries;
	struct gm_ring done;
	struct gm_waker waker;
	uint32_t parked;
	uint32_t rung; /* doorbells */
};

uint64_t hand_now(void);
void hand_nap(void);

/* A file of shared memory, mapped.  Exits where there is no memory. */
void *hand_share(const char *name, uint64_t bytes, int *ret_fd);

/* Row @row's queue and an arena of @arena_bytes. */
void hand_open(struct hand_client *c, uint64_t id, uint32_t place, uint32_t row,
	       uint32_t depth, uint64_t arena_bytes);

/* Unmap, but keep the descriptors. */
void hand_unmap(struct hand_client *c, uint32_t row);
void hand_close(struct hand_client *c, uint32_t row);
struct gm_wire hand_attach(const struct hand_client *c, uint32_t row);
struct gm_entry hand_nop(const struct hand_client *c);
struct gm_entry hand_copy(const struct hand_client *c, uint64_t dst,
			  uint64_t src, uint64_t n);

/* A buffer of 0 is its arena. */
struct gm_entry hand_copy_between(const struct hand_client *c,
				  uint64_t dst_buffer, uint64_t dst,
				  uint64_t src_buffer, uint64_t src,
				  uint64_t n);
struct gm_entry hand_fill(const struct hand_client *c, uint64_t buffer,
			  uint64_t at, uint64_t n, uint8_t value);

/* Completions that it has not taken. */
uint32_t hand_n_done(const struct hand_client *c);

/* The handle of a buffer of the row's memory: the generation and the index are
 * the same number. */
uint64_t hand_handle(uint32_t row, uint32_t index);
struct gm_entry hand_alloc(const struct hand_client *c, uint64_t handle,
			   uint64_t bytes, uint64_t flags);
struct gm_entry hand_free(const struct hand_client *c, uint64_t handle);

/* The second slot of a first one with GM_ENTRY_MORE: the same words by other
 * names. */
struct gm_entry hand_second(uint64_t deadline_ns);
void hand_ring(struct hand_client *c);

/* Publish n entries as one batch, and ring where that is needed. */
void hand_submit(struct hand_client *c, const struct gm_entry *entries,
		 uint32_t n);

/* Returns 1 with a completion, 0 where there is none. */
int hand_take(struct hand_client *c, uint32_t *ret_pos, int32_t *ret_status);

/* Wait for one, without sleeping on it.  Returns 0 when none came. */
int hand_wait(struct hand_client *c, uint32_t *ret_pos, int32_t *ret_status);

/* One entry from beginning to end.  Returns its status, 1 where it never
 * ended or another one did. */
int32_t hand_do(struct hand_client *c, const struct gm_entry *entry);

#endif

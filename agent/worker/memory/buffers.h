/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * buffers - what a session's entries may name besides the arena.
 *
 * A table per session, by the index of the handle: memory of the device that
 * the session had allocated, what it imported, and memfds and files of its own
 * that the agent handed over for it.  The handle that is found has to be the
 * handle that was asked for, generation and all: what is stale, unknown or
 * another session's is found out without anything being touched.
 *
 * A buffer that is given up is out of the table at once, so that nothing read
 * from then on can name it, and is kept until everything read before has ended.
 *
 * What the sessions of a uid have of the device's memory comes out of one
 * purse, from the first that was attached until the device has all of the last
 * one's back.
 *
 * Apart from the table, for entries cannot name them, are the stages of rows
 * that borrow, this one among them (agent/common/wire.h).
 */
#ifndef GM_WORKER_MEMORY_BUFFERS_H
#define GM_WORKER_MEMORY_BUFFERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/device/device.h"
#include "agent/worker/memory/sigbus.h"
#include "shm/layout.h"
#include "shm/queue.h"

struct gm_program;

struct gm_buffer_entry {
	uint64_t handle;
	uint64_t bytes;   /* that entries may name */
	char *at;         /* where we have it mapped, or NULL */
	uint64_t address; /* as the device names it, or 0 */
	uint32_t flags;   /* GPUMAP_BUFFER_* */
	bool ready;       /* may be named */
	bool borrowed;    /* another row's: to be had by way of our stage */

	struct gm_buffer *buffer;   /* of the device, or NULL: registered */
	struct gm_region *region;   /* the device reaches it */
	struct gm_program *program; /* no memory, but what RUN runs; or NULL */
	char *map;                  /* of registered memory, whole pages */
	uint64_t map_bytes;
	int fd;         /* of a file, -1 for none */
	bool is_memory; /* a file that entries may write, as memory */
	struct gm_mapping ground;

	/* Once it is out of the table. */
	STAILQ_ENTRY(gm_buffer_entry) entry;
	uint32_t after;   /* entries before this position have to end first */
	bool answered_to; /* gpumapd waits for it to be FORGOTTEN */
};

STAILQ_HEAD(gm_slots, gm_buffer_entry);

/* Of the device's memory, in bytes. */
struct gm_user_budget {
	struct gm_user_budget *next; /* of the worker's */
	uint32_t uid;
	uint32_t n_sessions;
	uint32_t n_leaving; /* of them, see gm_buffers_leave() */
	uint64_t quota;     /* as the newest ATTACH says */
	uint64_t used;      /* may be above a quota that has shrunk */
};

struct gm_buffer_table {
	/* GM_BUFFERS_MAX by their indices, then GM_ROWS stages; or NULL: none
	 * yet. */
	struct gm_buffer_entry **slot;
	struct gm_slots given_up;
	struct gm_user_budget *purse; /* NULL: cannot pay for anything */
	uint64_t used;                /* of it, by this session */
	bool leaves;                  /* all of that will be given back */
	gm_a64 *shown;                /* that, for gpumapd; NULL: to nobody */
};

void gm_buffers_init(struct gm_buffer_table *buffers);

/* Have the purse of @uid, among @purses or a new one, with @quota from now on.
 * Returns 0 or -ENOMEM. */
int gm_buffers_open_budget(struct gm_buffer_table *buffers,
			   struct gm_user_budget **purses, uint32_t uid,
			   uint64_t quota);

/* The session is about to give back all that it has.  May be said again. */
void gm_buffers_leave(struct gm_buffer_table *buffers);

/* The device has back whatever this session had.  Allowed without a purse. */
void gm_buffers_close_budget(struct gm_buffer_table *buffers,
			     struct gm_user_budget **purses);

/* Pay for @bytes.  Returns 0, or -EDQUOT: the uid has not so much left. */
int gm_buffers_pay(struct gm_buffer_table *buffers, uint64_t bytes);

/* Of @paid it was @charged after all.  Returns 0, or -EDQUOT: that is more than
 * the uid had left, and is paid all the same. */
int gm_buffers_settle(struct gm_buffer_table *buffers, uint64_t paid,
		      uint64_t charged);

/* What the handle names, ready or not; NULL for nothing. */
static inline struct gm_buffer_entry *
gm_buffers_find(const struct gm_buffer_table *buffers, uint64_t handle)
{
	uint32_t index = gm_handle_index(handle);
	struct gm_buffer_entry *slot;

	if (!buffers->slot || index >= GM_BUFFERS_MAX)
		return NULL;
	slot = buffers->slot[index];
	return slot && slot->handle == handle ? slot : NULL;
}

/*
 * gm_buffers_add - give a handle a place, not ready yet
 *
 * Returns	0
 *		-EINVAL		no handle that a library makes
 *		-EEXIST		the place is taken
 *		-ENOMEM
 */
int gm_buffers_add(struct gm_buffer_table *buffers, uint64_t handle,
		   struct gm_buffer_entry **ret_slot);

/* The stage of a row that borrows, ready or not; NULL for none. */
static inline struct gm_buffer_entry *
gm_buffers_stage(const struct gm_buffer_table *buffers, uint32_t row)
{
	return buffers->slot && row < GM_ROWS
		       ? buffers->slot[GM_BUFFERS_MAX + row]
		       : NULL;
}

/*
 * gm_buffers_add_stage - a place for the stage of a row, not ready yet
 *
 * id		becomes its handle
 * after	as for gm_buffers_give_up(), of the stage that is there already:
 *		the row has another one now
 *
 * Returns	0, -EINVAL, -ENOMEM
 */
int gm_buffers_add_stage(struct gm_buffer_table *buffers, uint32_t row,
			 uint64_t id, uint32_t after,
			 struct gm_buffer_entry **ret_slot);

/* Take it out of the table. */
void gm_buffers_remove(struct gm_buffer_table *buffers,
		       struct gm_buffer_entry *slot);

/* Out of the table, and kept until the entries before @after have ended. */
void gm_buffers_give_up(struct gm_buffer_table *buffers,
			struct gm_buffer_entry *slot, uint32_t after);

/* A buffer that the session had allocated, at the entry in position @at: it can
 * have as much again from now on.  The slow thread keeps their order. */
void gm_buffers_free(struct gm_buffer_table *buffers, uint64_t handle,
		     uint32_t at);

/* The next of those that were given up, if the entries before position @now
 * have ended is enough for it; taken off the list.  NULL: none. */
struct gm_buffer_entry *
gm_buffers_next_given_up(struct gm_buffer_table *buffers, uint32_t now);

/* Everything that is left, in one list, and the table is gone. */
void gm_buffers_take_all(struct gm_buffer_table *buffers,
			 struct gm_slots *ret_all);

#endif

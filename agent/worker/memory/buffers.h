/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * buffers - the table of what a session's entries may name besides the arena.
 *
 * Each session has a table, indexed by the handle's index.  The table holds
 * device memory that the session allocated, memory that it imported, and memfds
 * and files of its own that the agent passed on.  A lookup compares the whole
 * handle, including the generation, so a stale, unknown or foreign handle is
 * refused before any memory is accessed.
 *
 * A buffer that is given up leaves the table at once, so no entry read
 * afterwards can name it.  Its memory is kept until all entries read before
 * have ended.
 *
 * Device memory of all sessions of a uid counts in one budget, from the first
 * attachment until the device has freed the memory of the last session.
 *
 * Bounce buffers of rows that borrow, this row included (agent/common/wire.h),
 * are stored apart from the table, because entries cannot name them.
 */
#ifndef GM_WORKER_MEMORY_BUFFERS_H
#define GM_WORKER_MEMORY_BUFFERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/device/device.h"
#include "agent/worker/control/blocking_thread.h"
#include "agent/worker/memory/sigbus.h"
#include "shm/layout.h"
#include "shm/queue.h"

struct gm_program;

struct gm_buffer_entry {
	uint64_t handle;
	uint64_t bytes;   /* size that entries may name */
	char *at;         /* where the worker has it mapped, or NULL */
	uint64_t address; /* device address, or 0 */
	uint32_t flags;   /* GPUMAP_BUFFER_* */
	bool ready;       /* entries may name it */
	/* Memory of another row, reached through the bounce buffer. */
	bool borrowed;

	/* Device memory, or NULL for registered memory. */
	struct gm_buffer *buffer;
	struct gm_region *region; /* mapping for the device */
	/* A program that RUN executes, in place of memory; or NULL. */
	struct gm_program *program;
	char *map; /* mapping of registered memory, whole pages */
	uint64_t map_bytes;
	int fd; /* file, or -1 */
	/* The file is memory, such as a memfd, which entries may write. */
	bool is_memory;
	struct gm_mapping mapping;

	/* For a slot that is given up: */
	STAILQ_ENTRY(gm_buffer_entry) entry;
	/* Entries before this position have to end first. */
	uint32_t after;
	/* Gpumapd waits for the FORGOTTEN. */
	bool answered_to;
};

STAILQ_HEAD(gm_slots, gm_buffer_entry);

/* A uid's budget of device memory, in bytes. */
struct gm_user_budget {
	struct gm_user_budget *next; /* in the worker's list */
	uint32_t uid;
	uint32_t n_sessions;
	/* Sessions that leave, see gm_buffers_leave(). */
	uint32_t n_leaving;
	uint64_t quota; /* from the newest ATTACH */
	uint64_t used;  /* may exceed a quota that was lowered */
	/* Jobs of the uid's sessions at the slow thread. */
	struct gm_blocking_queue blocking;
};

struct gm_buffer_table {
	/* GM_BUFFERS_MAX slots by their indices, then the bounce buffers of
	 * GM_ROWS rows.  NULL until the first slot. */
	struct gm_buffer_entry **slot;
	struct gm_slots given_up;
	/* NULL: the session cannot allocate device memory. */
	struct gm_user_budget *budget;
	/* Bytes of the budget that this session uses. */
	uint64_t used;
	/* The session leaves: all of these bytes will be freed. */
	bool leaves;
	/* Journal word that shows @used to gpumapd, or NULL. */
	gm_a64 *shown;
};

void gm_buffers_init(struct gm_buffer_table *buffers);

/* Open the budget of @uid, found in @budgets or new, and set its quota.
 * Returns 0 or -ENOMEM. */
int gm_buffers_open_budget(struct gm_buffer_table *buffers,
			   struct gm_user_budget **budgets, uint32_t uid,
			   uint64_t quota);

/* The session is about to free all its memory.  May be called again. */
void gm_buffers_leave(struct gm_buffer_table *buffers);

/* The device has freed all memory of this session: leave the budget.  Allowed
 * without a budget. */
void gm_buffers_close_budget(struct gm_buffer_table *buffers,
			     struct gm_user_budget **budgets);

/* Charge @bytes.  Returns 0, or -EDQUOT: the uid has less left. */
int gm_buffers_pay(struct gm_buffer_table *buffers, uint64_t bytes);

/* Correct a charge of @paid to the @charged bytes that the device uses.
 * Returns 0, or -EDQUOT: the budget is exceeded, and the charge is made all the
 * same. */
int gm_buffers_settle(struct gm_buffer_table *buffers, uint64_t paid,
		      uint64_t charged);

/* Slot of the handle, ready or not; NULL for none. */
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
 * gm_buffers_add - reserve the slot of a handle, not ready yet
 *
 * Returns	0
 *		-EINVAL		not a handle that the library makes
 *		-EEXIST		the slot is taken
 *		-ENOMEM
 */
int gm_buffers_add(struct gm_buffer_table *buffers, uint64_t handle,
		   struct gm_buffer_entry **ret_slot);

/* Bounce buffer of a row that borrows, ready or not; NULL for none. */
static inline struct gm_buffer_entry *
gm_buffers_stage(const struct gm_buffer_table *buffers, uint32_t row)
{
	return buffers->slot && row < GM_ROWS
		       ? buffers->slot[GM_BUFFERS_MAX + row]
		       : NULL;
}

/*
 * gm_buffers_add_stage - reserve the bounce buffer of a row, not ready yet
 *
 * id		becomes its handle
 * after	as for gm_buffers_give_up(), for an existing bounce buffer of
 *		the row, which this one replaces
 *
 * Returns	0, -EINVAL, -ENOMEM
 */
int gm_buffers_add_stage(struct gm_buffer_table *buffers, uint32_t row,
			 uint64_t id, uint32_t after,
			 struct gm_buffer_entry **ret_slot);

/* Take the slot out of the table. */
void gm_buffers_remove(struct gm_buffer_table *buffers,
		       struct gm_buffer_entry *slot);

/* Take the slot out of the table and keep it until the entries before @after
 * have ended. */
void gm_buffers_give_up(struct gm_buffer_table *buffers,
			struct gm_buffer_entry *slot, uint32_t after);

/* Free a buffer that the session allocated, by the entry at position @at.  Its
 * bytes leave the budget at once: the slow thread keeps the order of frees and
 * later allocations. */
void gm_buffers_free(struct gm_buffer_table *buffers, uint64_t handle,
		     uint32_t at);

/* Take the next given-up slot off its list if the entries before position @now
 * suffice for it.  NULL: none. */
struct gm_buffer_entry *
gm_buffers_next_given_up(struct gm_buffer_table *buffers, uint32_t now);

/* Take all slots into one list, and free the table. */
void gm_buffers_take_all(struct gm_buffer_table *buffers,
			 struct gm_slots *ret_all);

#endif

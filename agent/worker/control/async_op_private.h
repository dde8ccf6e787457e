/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * async_op_private - structs and functions shared by the files that make
 * requests for the slow thread.
 *
 * async_op.c	release of memory, and the end of sessions
 * memory/alloc.c		entries that allocate
 * async_op_control.c	records of gpumapd
 * io/remote_copy.c	entries that copy from other rows
 * io/remote_copy_control.c	records of gpumapd about such copies
 * collective/collective.c		records of gpumapd about groups
 * collective/staged.c		collectives through windows
 * collective/nccl_group.c	collectives by NCCL
 */
#ifndef GM_WORKER_CONTROL_ASYNC_OP_PRIVATE_H
#define GM_WORKER_CONTROL_ASYNC_OP_PRIVATE_H

#include "agent/worker/control/async_op.h"
#include "agent/worker/programs/program.h"

/* Pieces to copy between a window and a rank's memory (collective/staged.c). */
struct gm_pieces_copy {
	/* Mapping of the memory; NULL: the device has it, at address. */
	char *memory;
	uint64_t address;
	char *window;
	uint64_t bytes; /* of each piece */
	uint32_t n_pieces;
	/* Distances from one piece to the next, in the window and the
	 * memory. */
	uint64_t window_step;
	uint64_t memory_step;
	uint32_t index; /* of the window */
	bool is_store;  /* copy to the memory */
};

struct gm_async_op_job {
	struct gm_blocking_job job;
	struct gm_worker_session *session;
	struct gm_buffer_entry *slot;  /* slot of the request */
	struct gm_buffer_entry *stage; /* bounce buffer, see io/remote_copy.h */
	struct gm_slots slots;         /* slots to release */
	struct gm_region *region;      /* mapping of a part of the arena */
	/* All mappings of the arena, to release. */
	struct gm_region **regions;
	uint32_t n_regions;
	uint32_t part;
	/* Target and source of a copy, mapped here or at a device address. */
	char *to;
	const char *from;
	uint64_t address;
	/* Membership in a group, see collective/member.h. */
	struct gm_collective_member *member;
	struct gm_pieces_copy copy;
	/* Repeated in the answer, like borrower and handle. */
	uint64_t stage_at;
	uint32_t borrower;
	uint64_t handle;
	uint64_t bytes;
	uint64_t at;
	uint64_t populated; /* bytes, see gm_async_op_populate_part() */
	uint32_t flags;
	int fd;
	int rc;
	/* The session awaits it before it begins, see io_events.h. */
	bool awaited;
	/* Cause for which a program is refused.  Before that, the entry point
	 * of an image. */
	char why[GM_PROGRAM_WHY_BYTES];
};

typedef void (*gm_async_op_work)(struct gm_blocking_job *job,
				 struct gm_backend_device *dev);
typedef void (*gm_async_op_done)(struct gm_blocking_job *job,
				 struct gm_worker *worker);

/* Allocate the job with which the session leaves, before the first request that
 * has anything to release.  Returns whether it exists. */
bool gm_async_op_has_last(struct gm_worker_session *session);

/* Make a job for the slow thread.  Returns NULL without memory. */
struct gm_async_op_job *gm_async_op_new(struct gm_worker_session *session,
					enum gm_worker_call call,
					gm_async_op_work work,
					gm_async_op_done done);

/* Hand the job to the slow thread, which calls its work(). */
void gm_async_op_hand_over(struct gm_worker *worker, struct gm_async_op_job *e);

/* Hand the job to the thread of its member, which may wait for other
 * devices. */
void gm_async_op_hand_to_clique(struct gm_async_op_job *e);

/* Called first in done().  Does not return if the device has failed. */
struct gm_async_op_job *gm_async_op_returned(struct gm_blocking_job *job,
					     struct gm_worker *worker);

/* Position of the session's oldest entry that has not ended.  A session that
 * broke the contract has none, once neither device nor slow thread has work of
 * it. */
uint32_t gm_async_op_settled(const struct gm_worker_session *session);

/* Called last in done(): frees the job, and continues the departure of a
 * session that leaves. */
void gm_async_op_finished(struct gm_worker *worker, struct gm_async_op_job *e);

/* The entry that stalls @session has ended with @status: the session goes
 * on. */
void gm_async_op_ended(struct gm_worker *worker,
		       struct gm_worker_session *session, int32_t status);

/* Let entries name the buffer of a slot from now on. */
void gm_async_op_open_slot(struct gm_worker *worker,
			   struct gm_worker_session *session,
			   struct gm_buffer_entry *slot);

/* Stall the session: its entry waits for its request, and no entry behind it is
 * read. */
void gm_async_op_stall(struct gm_worker *worker,
		       struct gm_worker_session *session);

/* Free the slot of a request that failed. */
void gm_async_op_abandon(struct gm_worker_session *session,
			 struct gm_buffer_entry *slot);

/* ---- async_op_control.c -------------------------------------------------- */

/* The session of a record, or NULL. */
struct gm_worker_session *gm_async_op_session_of(const struct gm_worker *worker,
						 const struct gm_wire *wire);

/* Refuse a record with @status, and close @fd. */
void gm_async_op_refuse(struct gm_worker *worker, const struct gm_wire *wire,
			enum gm_wire_type type, int status, int fd);

/* Map @bytes of a file at @at into a slot; whole pages are populated. */
int gm_async_op_map(struct gm_buffer_entry *slot, int fd, uint64_t at,
		    uint64_t bytes, bool writable);

/* ---- async_op.c ---------------------------------------------------------- */

/* Release the resources of a slot.  Runs in the slow thread. */
void gm_async_op_drop_slot(struct gm_backend_device *dev,
			   struct gm_buffer_entry *slot);

/* Populate memory, so that missing memory is an error here and not a later
 * fault.  Runs in the slow thread.  Kernels without support populate on first
 * access. */
int gm_async_op_populate(char *at, uint64_t bytes, bool writable);

/* Populate as much of the memory as one turn of the slow thread may take, and
 * have the job called again if that is not all.  Returns 0 or -errno. */
int gm_async_op_populate_part(struct gm_async_op_job *e, char *at,
			      uint64_t bytes, bool writable);

#endif

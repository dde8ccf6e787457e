/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * async_op_private - what the files that make errands share.
 *
 *	async_op.c	the giving back, and the end of sessions
 *	memory/alloc.c		of entries that allocate
 *	async_op_control.c	of gpumapd
 *	io/remote_copy.c	of entries that copy from other rows
 *	io/remote_copy_control.c	of gpumapd, about such
 *	collective/collective.c		of gpumapd, about groups
 *	collective/staged.c		of collectives
 *	collective/nccl_group.c	of those that devices do among themselves
 */
#ifndef GM_WORKER_CONTROL_ASYNC_OP_PRIVATE_H
#define GM_WORKER_CONTROL_ASYNC_OP_PRIVATE_H

#include "agent/worker/control/async_op.h"
#include "agent/worker/programs/program.h"

/* Pieces that go between a window and a rank's memory (collective/staged.c). */
struct gm_pieces_copy {
	char *memory; /* where it is mapped; NULL: the device has it, */
	uint64_t address;
	char *window;
	uint64_t bytes; /* of each */
	uint32_t n_pieces;
	uint64_t window_step; /* from one to the next, here and there */
	uint64_t memory_step;
	uint32_t index; /* of the window */
	bool is_store;  /* to memory */
};

struct gm_async_op_job {
	struct gm_slow_job job;
	struct gm_worker_session *session;
	struct gm_buffer_entry *slot;  /* that it is about */
	struct gm_buffer_entry *stage; /* to be mapped, see io/remote_copy.h */
	struct gm_slots slots;         /* that are given back */
	struct gm_region *region;      /* a part of the arena */
	struct gm_region **regions;    /* all of them, to be given back */
	uint32_t n_regions;
	uint32_t part;
	char *to; /* what is copied, mapped here or as the device has it */
	const char *from;
	uint64_t address;
	struct gm_collective_member
		*member; /* of a group, see collective/member.h */
	struct gm_pieces_copy copy;
	uint64_t stage_at; /* to be answered about, these too */
	uint32_t borrower;
	uint64_t handle; /* to be answered about */
	uint64_t bytes;
	uint64_t at;
	uint32_t flags;
	int fd;
	int rc;
	bool awaited;                   /* before it begins, see io_events.h */
	char why[GM_PROGRAM_WHY_BYTES]; /* of a program that is refused; before,
					 * the entry point of an image */
};

typedef void (*gm_async_op_work)(struct gm_slow_job *job,
				 struct gm_backend_device *dev);
typedef void (*gm_async_op_done)(struct gm_slow_job *job,
				 struct gm_worker *worker);

/* Whether there is what the session needs to leave with.  It is had before the
 * first thing that it has to give back then. */
bool gm_async_op_has_last(struct gm_worker_session *session);

/* NULL for want of memory. */
struct gm_async_op_job *gm_async_op_new(struct gm_worker_session *session,
					enum gm_worker_call call,
					gm_async_op_work work,
					gm_async_op_done done);

/* To the slow thread, which calls its work(). */
void gm_async_op_hand_over(struct gm_worker *worker, struct gm_async_op_job *e);

/* The same, to the thread of its member's, that may wait for other devices. */
void gm_async_op_hand_to_clique(struct gm_async_op_job *e);

/* First thing in done().  Does not return when the device is of no use any
 * more. */
struct gm_async_op_job *gm_async_op_returned(struct gm_slow_job *job,
					     struct gm_worker *worker);

/* Position of the session's oldest entry that has not ended.  One that broke
 * the contract has none, once device and slow thread have nothing of it. */
uint32_t gm_async_op_settled(const struct gm_worker_session *session);

/* Last thing in done(): it is freed, and a session that waits goes. */
void gm_async_op_finished(struct gm_worker *worker, struct gm_async_op_job *e);

/* The entry that @session is stalled for has ended so: it goes on. */
void gm_async_op_ended(struct gm_worker *worker,
		       struct gm_worker_session *session, int32_t status);

/* Where entries find the buffer of a slot from now on. */
void gm_async_op_open_slot(struct gm_worker *worker,
			   struct gm_worker_session *session,
			   struct gm_buffer_entry *slot);

/* Its entry waits for what it has asked for, and nothing behind it is read. */
void gm_async_op_stall(struct gm_worker *worker,
		       struct gm_worker_session *session);

/* It came to nothing. */
void gm_async_op_abandon(struct gm_worker_session *session,
			 struct gm_buffer_entry *slot);

/* ---- async_op_control.c -------------------------------------------------- */

/* The session that a record is about, or NULL. */
struct gm_worker_session *gm_async_op_session_of(const struct gm_worker *worker,
						 const struct gm_wire *wire);

/* Answer what cannot be, and close @fd. */
void gm_async_op_refuse(struct gm_worker *worker, const struct gm_wire *wire,
			enum gm_wire_type type, int status, int fd);

/* Map all of a memfd into a slot; whole pages are populated. */
int gm_async_op_map(struct gm_buffer_entry *slot, int fd, uint64_t at,
		    uint64_t bytes, bool writable);

/* ---- async_op.c ---------------------------------------------------------- */

/* In the slow thread: give back what a slot has. */
void gm_async_op_drop_slot(struct gm_backend_device *dev,
			   struct gm_buffer_entry *slot);

/* In the slow thread: an error where memory could not be filled, not a fault
 * later on.  A kernel that does not know this fills it when it is touched. */
int gm_async_op_populate(char *at, uint64_t bytes, bool writable);

#endif

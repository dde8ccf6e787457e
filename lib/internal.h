/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * internal.h - declare what the source files of libgpumap share.
 *
 * An attachment (struct gpumap) is a validated mapping that this process never
 * writes, and a connection to the agent, which is made when a request first
 * needs one.  A session (struct gpumap_session) is a connection of its own, the
 * memory that came over it, and the private side of its rings.
 *
 *	attach, named_file	the mapping, and the file that it is of
 *	read, choose, policy	devices
 *	view, layers, meshes	layer maps, meshes and groups
 *	mask			masks
 *	cluster			what all nodes have
 *	health			heartbeat, changes
 *	change			a descriptor that tells of changes
 *	fork_guard		refuse a forked child's calls
 *	errors			sentences
 *	refusal			the reason of a thread's last failed call
 *	container_devices	the rows that this process can open
 *	cuda_visible_devices	CUDA_VISIBLE_DEVICES
 *	control			one request to the agent, one reply
 *	publish, mask_publish,	requests of an attachment
 *	mesh_publish, who
 *	session			a session's memory and queue pairs
 *	arena, huge_pages	allocation in the session's memory
 *	buffers, file, shares	other memory and files, by handle
 *	handle_check		checks of the handles that jobs name
 *	programs, mask_use	programs that RUN runs, masks of jobs
 *	submit, wait		entries into rings, completions out of them
 *	parts, part_jobs	what others keep of a session, see private.h
 *	scatter			one job on many rows
 *	comm, mesh_join		one job of all rows of a group
 *	model/			libgpumap-model, see model/model.h
 *
 * Edges
 *
 *   GUARD.made  the content of a guard's page, which marks this process, is
 *               there before another thread finds the page.
 *   NODE.add    a node segment's entry is whole before another thread finds it
 *               in the attachment's list.
 */
#ifndef GM_INTERNAL_H
#define GM_INTERNAL_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include "gpumap.h"
#include "lib/arena.h"
#include "lib/huge_pages.h"
#include "lib/private.h"
#include "lib/spread.h"
#include "shm/check.h"
#include "shm/control.h"
#include "shm/ops.h"
#include "shm/queue.h"

/* longest sleep before the session's socket is polled */
#define GM_NAP_NS UINT64_C(100000000)

/* ---- ---- guard: detect a forked child --------------------------------- */

/* A page that a fork wipes in the child: a load detects a child, without a
 * system call. */
struct gm_guard {
	uint64_t *_Atomic mine; /* NULL: not made yet */
};

/* The word of a page that is this process's own; a child finds 0.  Pinned views
 * check it: pins are the process's, and a child's blocks may be reused. */
#define GM_GUARD_MINE 1

/* Returns 0, or the kernel's error. */
int gm_fork_guard_make(struct gm_guard *guard);
void gm_fork_guard_drop(struct gm_guard *guard);

static inline bool gm_guard_mine(const struct gm_guard *guard)
{
	const volatile uint64_t *mine =
		gm_get_acquire(&guard->mine); /* GUARD.made */

	return mine != NULL && *mine != 0;
}

/* ---- errors, sizes ------------------------------------------------------ */

/*
 * gm_size_in - copy a struct of a caller that may be older or newer than the
 * library
 *
 * known	bytes of *ret_ours; fields that the caller's struct lacks read
 *		as zero
 *
 * Returns	0, -EINVAL when it is NULL or has no room for its own size,
 *		-E2BIG when it sets something beyond the known fields, or its
 *		size is above GM_SIZE_MOST
 */
int gm_size_in(void *ret_ours, size_t known, const void *theirs);

/* Bytes of a caller's struct, at most. */
#define GM_SIZE_MOST 4096u

/* As gm_size_put() for one struct of an array, whose elements have @size bytes.
 * Their @size stays that. */
void gm_size_put_item(void *ret_theirs, size_t size, const void *ours,
		      size_t known);

/* ---- memory files -------------------------------------------------------- */

/* Make a memfd with these bytes, close-on-exec, whose seals keep every process
 * from changing it, and which is no program: where vm.memfd_noexec is 2 Linux
 * before 6.6 refuses any other.  Returns the descriptor or a negative errno,
 * -ENOMEM: it cannot be sealed. */
int gm_client_memory_file(const char *name, const void *from, uint64_t bytes);

/* ---- control: one connection to the agent ------------------------------- */

struct gm_link {
	int fd;          /* -1: none */
	uint32_t serial; /* of the last request */
};

/*
 * gm_link_open - connect and say hello
 *
 * why		receives a sentence on failure
 *
 * Returns	0, -ESTALE when the map was retired, -ECONNREFUSED when no agent
 *		answers, -ECONNRESET when the agent went away, -EPROTO, the
 *		agent's refusal, or the kernel's error
 */
int gm_link_open(struct gpumap *map, struct gm_link *ret_link,
		 char why[GM_WHY]);

/*
 * gm_link_call - one round trip
 *
 * max_fds	descriptors that the reply may carry; more are closed and an
 *		error
 *
 * Returns	0, the agent's refusal, -ECONNRESET, -ETIMEDOUT or -EPROTO,
 *		after which the link is closed, or -EPIPE: the request was not
 *		sent, because the connection had been lost before
 */
int gm_link_call(const struct gpumap *map, struct gm_link *link,
		 struct gm_call *call, uint32_t max_fds);

/* The two halves of gm_link_call(), for a request that is answered when
 * something happens.  The link stays as it is.  gm_link_take() does not wait:
 * -EAGAIN, there is no answer yet. */
int gm_link_send(const struct gpumap *map, struct gm_link *link,
		 struct gm_call *call);
int gm_link_take(const struct gm_link *link, struct gm_call *call);

/* Has the other end closed the connection?  One system call, never waits. */
bool gm_link_lost(const struct gm_link *link);

/* End the connection, also for forked children that have its descriptor. */
void gm_link_close(struct gm_link *link);

/* Close a forked child's descriptor of its parent's connection, which goes
 * on. */
void gm_link_forget(struct gm_link *link);
void gm_call_close_fds(struct gm_call *call);

/* ---- attachment --------------------------------------------------------- */

struct gm_node_map;

/* See change.c: a connection that waits for a change, and a descriptor that is
 * there before it and after it. */
struct gm_change_wait {
	pthread_mutex_t lock; /* protects all below */
	struct gm_guard mine; /* made with the descriptor */
	struct gm_link link;
	int epoll;  /* that has the link's descriptor; -1: none yet */
	bool asked; /* an answer is to come */
};

struct gpumap {
	struct gm_map map; /* base NULL: not mapped yet */
	uint64_t dev;      /* of its file, as fstat() has it */
	uint64_t ino;
	uid_t owner;         /* of the files, and the agent's user */
	gm_a32 replaced;     /* an agent has said that its segment is another */
	gm_a64 clock_offset; /* of this process, see shm/timens.h */
	gm_a64 request_limit_ns;
	pid_t pid; /* the process that attached */
	/* Protects link and the making of mine.  Held during a request, as long
	 * as the agent takes: only gm_map_call() may take it. */
	pthread_mutex_t link_lock;
	struct gm_guard mine; /* made with the connection */
	struct gm_link link;
	struct gm_node_map *_Atomic nodes; /* mapped so far; see mask.c */
	struct gm_change_wait change;
	/* Protects all below.  Never held during a request. */
	pthread_mutex_t lock;
	uint64_t *pins; /* this process's pins */
	size_t n_pins;
	size_t asked_pins; /* in requests; each has room in pins[] */
	size_t room_pins;
	char instance[GPUMAP_NAME_MAX + 1];
	char runtime_dir[]; /* NUL-terminated */
};

/*
 * gm_named_file_open - open an instance's file in the folder of @owner
 *
 * file		its name there, "map"
 *
 * Returns	the descriptor, for gm_named_file_check()
 *		-ENOENT		there is none
 *		-EPERM		another user than @owner has the name, or this
 *				user namespace cannot tell who does
 *		-EPROTO, and what open returns
 */
int gm_named_file_open(const struct gpumap *map, uid_t owner, const char *file);

/* Is an open file a regular one of @owner's, which no other may write?  Returns
 * 0 and its facts, -EPERM or -EPROTO. */
int gm_named_file_check(int fd, uid_t owner, struct stat *ret_facts);

/* May this process make requests through @map?  0 or -EOWNERDEAD. */
int gm_fork_map_mine(const struct gpumap *map);

/* Store the reason of a request, if it has one; else the same. */
int gm_refuse_call(const struct gpumap *map, int error,
		   const struct gm_call *call);

/* Copy a name for a request, padded with zeros.  Returns 0, or -EINVAL with the
 * refusal stored. */
int gm_map_put_name(struct gpumap *map, const char *name, char ret_name[64]);

/* Release, pin or list objects of enum gm_kind @kind, by name.  They return as
 * gpumap_layers_release(), _pin() and _next().  The attachment records its
 * pins. */
int gm_map_release(struct gpumap *map, uint32_t kind, const char *name);
int gm_map_pin(struct gpumap *map, uint32_t kind, const char *name,
	       struct gm_pin_reply *ret_pin);
/* Pin a layer map or a mesh, and fill a view as gm_view_pinned(). */
int gm_map_pin_view(struct gpumap *map, const char *name, const char *group,
		    uint32_t table, struct gpumap_view *ret_view,
		    uint64_t *ret_pin);
int gm_layers_next_name(const struct gpumap *map, uint32_t kind,
			uint32_t *cursor, char ret_name[GPUMAP_NAME_MAX + 1]);

/* Has another segment taken the place of this one?  Its agent will never
 * answer again, and rows and blocks of the present agent are not its. */
bool gm_health_retired(const struct gpumap *map);

/* Time since the agent's last heartbeat, ns. */
uint64_t gm_health_map_age(const struct gpumap *map);

/* A wait that was to end at @due_ns has ended at @now_ns.  So late, the machine
 * stood still, and the agent has not had the time for a heartbeat since. */
static inline bool gm_health_stood_still(uint64_t due_ns, uint64_t now_ns)
{
	return now_ns > due_ns && now_ns - due_ns > GM_SECOND;
}

/* Sleep for @ns, or until the generation is no longer @seen. */
void gm_health_sleep(const struct gpumap *map, uint32_t seen, uint64_t ns);

/* Is the row's worker being started, for sessions that open now? */
bool gm_ready_is_awaited(const struct gm_row_image *facts,
			 const struct gm_moving_image *moving);

/* Store that the row's worker is being started.  Returns @error. */
int gm_ready_refuse(const struct gpumap *map, int error, uint32_t row);

/* The offset of this process's clock (shm/timens.h).  One system call, in a
 * time namespace of its own four. */
uint64_t gm_health_clock_offset(void);

/* The descriptor of changes: none yet; and none any more. */
void gm_change_init(struct gm_change_wait *change);
void gm_change_fini(struct gm_change_wait *change);

/* Unmap all node segments of masks. */
void gm_masks_unmap(struct gpumap *map);

struct gm_visible_list;

/*
 * gm_container_rows - the rows that CUDA_VISIBLE_DEVICES makes visible
 *
 * root		put before /dev and /proc: "" outside of tests
 *
 * Returns	0, or as gpumap_device_read()
 */
int gm_container_rows(const struct gpumap *map, const char *root,
		      const char *visible_devices, const char *device_order,
		      struct gm_visible_list *ret_list);

/*
 * gm_view_pinned - fill a view from a block that this process has pinned: it
 * never changes
 *
 * name		of the layer map or the mesh
 * group	of the mesh; of a layer map NULL
 * table	enum gpumap_mesh_table, or 0: a layer map's rows
 *
 * Returns	0; -ENOENT: the mesh has no such group; -EPROTO
 */
int gm_view_pinned(const struct gpumap *map, const char *name,
		   const char *group, uint32_t table, uint64_t word,
		   struct gpumap_view *ret_view);

/* ---- session ------------------------------------------------------------ */

enum gm_ticket_state {
	GM_TICKET_FREE = 0,
	GM_TICKET_JOB,    /* in flight; ends in gpumap_poll() */
	GM_TICKET_TILE,   /* in flight; ends in the call that waits for it */
	GM_TICKET_STRAY,  /* in flight; no call waits for it any more */
	GM_TICKET_BUFFER, /* in flight; ends a buffer, and frees its index */
	GM_TICKET_SECOND, /* in flight; the second slot of the one before it */
	GM_TICKET_PART,   /* in flight; its cookie is a struct gm_ending */
	GM_TICKET_DONE    /* a job that has ended and waits for gpumap_poll() */
};

enum gm_ticket_part {
	GM_TICKET_WHOLE = 0, /* has one slot, or is a second one */
	GM_TICKET_FIRST,     /* in flight, and so is the next, its second */
	GM_TICKET_HALF       /* it has ended with @status, its second has not */
};

/* One per slot of a queue.  A slot is free once its ticket is.  An entry with
 * two slots has ended when both have: then all its credit is back. */
struct gm_ticket {
	uint64_t cookie; /* the job's; or the index of the tile or the buffer */
	struct gm_ticket *next;
	uint32_t position;
	int32_t status;
	uint16_t row;
	uint8_t state;       /* enum gm_ticket_state */
	uint8_t incarnation; /* short form, as in struct gpumap_time */
	uint8_t part;        /* enum gm_ticket_part */
};

/* A row's queue pair and range of the arena. */
struct gm_queue_pair {
	struct gm_queue *queue;
	struct gm_timeline *timeline;
	uint64_t submitted; /* slots ever submitted: values of its timeline */
	uint64_t taken;     /* completions, likewise */
	uint64_t cancelled; /* slots before this; 0: none are in flight */
	struct gm_ring out;
	struct gm_ring in;
	struct gm_waker waker;
	struct gm_ticket *tickets; /* depth */
	/* all tickets before this position are free */
	uint32_t oldest;
	uint32_t live; /* in the rings */
	uint32_t row;
	/* of the worker that entries are for: as gm_pair_begin() found it */
	uint32_t incarnation;
	int doorbell;
	struct gm_arena arena;
};

/* The rows and scores for a scatter over all rows, valid until the table
 * changes. */
struct gm_field {
	uint64_t tick;
	uint32_t generation;
	uint32_t n;        /* 0: not read yet, or no row */
	uint32_t starting; /* a row that is not READY yet; GM_ROWS: none */
	uint32_t rows[GM_ROWS];
	double weights[GM_ROWS];
};

/* A buffer: memory outside the arena, as jobs name it. */
struct gm_client_buffer {
	uint64_t handle; /* 0: none */
	uint64_t bytes;
	uint64_t at; /* of a registration: offset in its file */
	int fd;      /* of a registration or a file; owned here; -1: none */
	char *name;  /* of a program, or NULL; owned here */
	uint32_t flags;
	bool image;     /* a program that is the client's device code */
	uint32_t dtype; /* of a mask */
	bool is_mask;   /* a mask; the agent chose its publication */
	bool exported;  /* has an export id at the agent */
	bool numbered;  /* gpumap_buffer_export() has returned that id */
	uint64_t share; /* the share that it is in, or imported from; 0: none */
	bool imported;  /* imported: the agent releases it */
	/* has no handle any more, but a worker may still have it */
	bool leaving;
	/* Another row was told of it once.  A bit of @rows is cleared when the
	 * row has another worker, which may have been told, too. */
	bool reached;
	/* The rows that were told of it, where it is not their own memory. */
	uint64_t rows[GM_ROWS / 64];
};

struct gm_client_buffers {
	struct gm_client_buffer *table; /* NULL: none yet */
	uint32_t room;
	uint32_t next;  /* index where the search for a free one starts */
	uint32_t first; /* first generation, at random for each session */
	uint32_t made;  /* number of generations used from there on */
};

struct gm_share;

struct gpumap_session {
	struct gpumap *map;
	struct gm_guard mine;
	struct gm_client *client;  /* the first page of the queues */
	char *arena;               /* n_rows * range_bytes */
	struct gm_huge huge;       /* of the arena, unless it is sparse */
	struct gm_spread *spreads; /* in it, see spread.h */
	bool sparse;
	uint64_t arena_bytes;
	uint64_t range_bytes;
	uint64_t queues_bytes;
	uint64_t id; /* the agent's number of it */
	uint32_t depth;
	uint32_t n_rows;
	bool runs_programs;
	/* the error for calls once the session has ended; 0: alive */
	int broken;

	struct gm_queue_pair *pairs[GM_ROWS]; /* NULL: not used yet */
	struct gm_queue_pair *busy[GM_ROWS];  /* the pairs with live > 0 */
	uint32_t n_busy;
	uint32_t rotor; /* index in busy to start the next poll at */
	uint32_t jobs;  /* in flight or waiting for gpumap_poll() */
	struct gm_ticket *done_first; /* ended, in that order */
	struct gm_ticket **done_last;

	struct gm_session_part *parts;

	struct gpumap_tile *tiles; /* of the scatter or allocation that waits */
	uint32_t tiles_left;
	struct gm_client_buffers buffers;
	struct gm_share *shares; /* shares that it holds */

	uint32_t parked; /* own copy of client->parked */
	uint32_t cpu;    /* likewise of client->cpu */
	bool armed;      /* parked by gpumap_session_arm() */
	uint32_t waits;
	uint32_t idle_polls;
	uint64_t gap_ns;    /* average of the gaps that ended during a spin */
	uint64_t looked_ns; /* when the socket was last polled */
	uint64_t epoch;     /* epoch of the agent that opened the session */

	struct gm_link link;
	int wake_fd; /* -1: not pollable */
	uint64_t submitted;
	uint64_t completed;
	uint64_t doorbells;
	uint64_t parks;
	struct gm_field field;
};

/* Store the reason why this session has no such row.  Returns -ENODEV. */
int gm_session_lacks(struct gpumap_session *session, uint32_t row);

/* The row's queue pair, made on first use.  Returns 0, -ENODEV, -ECONNRESET,
 * the agent's refusal, or the kernel's error. */
int gm_session_pair(struct gpumap_session *session, uint32_t row,
		    struct gm_queue_pair **ret_pair);

/* Take @bytes of the row's range.  Returns 0, or -ENOMEM with the reason
 * stored. */
int gm_session_take(struct gpumap_session *session, struct gm_queue_pair *pair,
		    uint64_t bytes, uint64_t *ret_at);

/* May this process use the session, and is it alive?  Returns 0, or the error
 * to return. */
static inline int gm_session_usable(const struct gpumap_session *session)
{
	return gm_guard_mine(&session->mine) ? session->broken : -EOWNERDEAD;
}

/* The agent has gone: end all entries in flight with -ECONNRESET. */
void gm_session_lose(struct gpumap_session *session);

/* Has it?  Then the session is lost. */
void gm_session_look(struct gpumap_session *session);

/* ---- submit ------------------------------------------------------------- */

/* Check a job's operation and dtypes.  Returns 0; -EINVAL: a job may not have
 * the operation, or a dtype is unknown; -EOPNOTSUPP: the agent does not know
 * the operation. */
int gm_job_known(const struct gpumap_session *session,
		 const struct gpumap_job *job);

/* Bytes of an element of dst, 0 for an unknown dtype. */
uint32_t gm_job_dst_bytes(const struct gpumap_job *job);

/* Bytes of an element of src; of RUN: of an item. */
static inline uint32_t gm_job_src_bytes(const struct gpumap_job *job)
{
	return job->op == GPUMAP_OP_RUN ? job->src_item_bytes
					: gm_ops_dtype_bytes(job->dtype);
}

/* Elements of dst. */
static inline uint64_t gm_job_dst_n(const struct gpumap_job *job)
{
	return (gm_ops_has(job->op) & GM_OPS_ONE) != 0 ? 1 : job->n;
}

/* Check one job for one row.  Returns 0, -ERANGE, or as gm_job_known() and
 * gm_buffers_check(). */
int gm_job_check(const struct gpumap_session *session, uint32_t row,
		 const struct gpumap_job *job);

static inline bool gm_job_is_masked(const struct gpumap_job *job)
{
	return job->op == GPUMAP_OP_MASK_ADD || job->op == GPUMAP_OP_MASK_BOOL;
}

/* 0 if all operands lie in the arena. */
static inline uint64_t gm_job_buffers(const struct gpumap_job *job)
{
	return job->dst_buffer | job->src_buffer |
	       (gm_job_is_masked(job) ? job->mask_buffer : 0) |
	       (job->op == GPUMAP_OP_RUN);
}

/* Does the job need a second slot? */
static inline bool gm_job_has_more(const struct gpumap_job *job)
{
	return gm_job_is_masked(job) || job->op == GPUMAP_OP_RUN ||
	       job->n_waits != 0 ||
	       (job->deadline_ns != 0 &&
		job->deadline_ns != GPUMAP_NO_DEADLINE);
}

/* May the job wait for the places in time that it names?  Returns 0 or
 * -EINVAL. */
int gm_waits_check(const struct gpumap_session *session,
		   const struct gpumap_job *job);

/* The slots of the ring that the jobs take. */
static inline uint32_t gm_jobs_slots(const struct gpumap_job *jobs, uint32_t n)
{
	uint32_t slots = n;

	for (uint32_t i = 0; i < n; i++)
		slots += gm_job_has_more(&jobs[i]);
	return slots;
}

/* Does a pointer lie in the arena? */
static inline bool gm_in_arena(const struct gpumap_session *s,
			       const void *memory)
{
	return (uintptr_t)memory - (uintptr_t)s->arena < s->arena_bytes;
}

/*
 * gm_pair_begin - begin to submit: are the next @n slots free?
 *
 * Entries pushed afterwards are for the worker that serves the row now.  If
 * another worker serves the row by then, the entries end with -EIO: the agent
 * has told only the first of them of the buffers that they name.  So begin
 * once, before gm_buffers_show().
 */
bool gm_pair_begin(struct gpumap_session *session, struct gm_queue_pair *pair,
		   uint32_t n);

/* Submit checked jobs for which gm_pair_begin() found credit, as @state
 * tickets, and wake the worker if it sleeps.  @rich: one of them may name a
 * buffer, or have a second slot. */
void gm_pair_push(struct gpumap_session *session, struct gm_queue_pair *pair,
		  const struct gpumap_job *jobs, uint32_t n, uint8_t state,
		  bool rich);

/* ---- buffers ------------------------------------------------------------ */

/* Take a place in the table, with a new handle.  Returns 0, -ENOMEM or
 * -EDQUOT. */
int gm_buffers_take(struct gpumap_session *session, uint32_t kind, uint32_t row,
		    struct gm_client_buffer **ret_buffer);

/*
 * gm_buffers_check - check a job that names a buffer
 *
 * Returns	0
 *		-ESTALE		the session has no such buffer
 *		-EINVAL		a file where memory is to be, or the reverse
 *		-ERANGE		an operand reaches past its buffer or the arena
 *		-EACCES		the job would write a READ_ONLY buffer
 *		-EOPNOTSUPP	the buffer is memory of another row, which can
 *				only be copied from
 */
int gm_buffers_check(const struct gpumap_session *session, uint32_t row,
		     const struct gpumap_job *job);

/* An operand of a job. */
struct gm_operand {
	uint64_t buffer; /* 0: the operand is at @memory in the arena */
	uint64_t at;     /* in the buffer */
	const void *memory;
	uint64_t n;
	uint32_t element; /* bytes of each of @n */
	bool is_written;
};

/* Check one operand of a RUN or of a collective on a row. */
int gm_buffers_check_one(const struct gpumap_session *session, uint32_t row,
			 uint32_t op, const struct gm_operand *operand);

/* Does the job copy from memory of another row? */
bool gm_buffers_cross(uint32_t row, const struct gpumap_job *job);

/* Tell the row of the registrations, programs, masks and other rows' memory
 * that checked jobs name and that it was not told of yet.  Returns 0 or as
 * gm_session_call(). */
int gm_buffers_show(struct gpumap_session *session, uint32_t row,
		    const struct gpumap_job *jobs, uint32_t n);

/* The row has another worker: mark the handles that the agent did not tell it
 * of as not told. */
void gm_buffers_hide(struct gpumap_session *session, uint32_t row);

/* Choose the table's first generation.  Returns 0 or a negative errno. */
int gm_client_buffers_init(struct gm_client_buffers *buffers);

/* Store and return why there is no buffer of this handle: -ESTALE, its buffer
 * has been freed; -EPERM, it is another session's; -ERANGE, no session's. */
int gm_buffer_missing(const struct gpumap_session *session, uint64_t handle);

/* The session's buffer of this handle, or NULL. */
struct gm_client_buffer *gm_buffer_find(const struct gpumap_session *session,
					uint64_t handle);

/* The buffer of a call that gives something back, for which a handle of 0 does
 * nothing.  Returns 0, or the error to return with its reason stored. */
int gm_buffer_mine(struct gpumap_session *session, uint64_t handle,
		   struct gm_client_buffer **ret_mine);

/* Has any row been told of the buffer? */
bool gm_buffer_is_shown(const struct gm_client_buffer *buffer);

/* End other rows' access to the buffer.  On return their copies from it have
 * ended.  Returns 0 or as gm_session_call(). */
int gm_buffer_end_reach(struct gpumap_session *session,
			struct gm_client_buffer *buffer);

/* Have the agent forget a buffer.  No failure if the agent has forgotten it
 * already. */
int gm_buffer_forget(struct gpumap_session *session, uint64_t handle);

/* Free the handle. */
void gm_buffer_drop(struct gm_client_buffer *buffer);

/* Export a buffer of this session: @flags are GM_EXPORT_*.  Returns as
 * gm_session_call(), or -EPROTO. */
int gm_buffer_export(struct gpumap_session *session,
		     struct gm_client_buffer *buffer, uint32_t flags,
		     uint64_t *ret_export);

/* End a buffer's export, unless it has ended already.  Returns as
 * gm_session_call(). */
int gm_buffer_end_export(struct gpumap_session *session,
			 struct gm_client_buffer *buffer);

/* Import the buffer of this id into this session.  Returns as
 * gpumap_buffer_import(). */
int gm_buffer_import(struct gpumap_session *session, uint64_t export_id,
		     uint32_t flags, struct gm_client_buffer **ret_buffer);

/* The worker is done with the buffer at this index: free the index. */
void gm_buffers_left(struct gpumap_session *session, uint64_t index);
void gm_buffers_fini(struct gm_client_buffers *buffers);

/* Free the shares of a session that ends.  The agent ends its part with the
 * session. */
void gm_shares_fini(struct gpumap_session *session);

/* ---- programs and masks ------------------------------------------------- */

/* May a job that runs a program be submitted?  Returns as gm_buffers_check(),
 * and -EINVAL where it names none. */
int gm_programs_check(const struct gpumap_session *session, uint32_t row,
		      const struct gpumap_job *job);

/* Tell a row of a program, whose image goes along, or of a mask.  They return
 * as gm_session_call(). */
int gm_program_show(struct gpumap_session *session, uint32_t row,
		    const struct gm_client_buffer *program);
int gm_mask_show(struct gpumap_session *session, uint32_t row,
		 const struct gm_client_buffer *mask);

/* Has the mask the dtype that the job requires?  Returns 0 or -EINVAL. */
int gm_mask_fits(const struct gpumap_session *session,
		 const struct gpumap_job *job);

/* ---- parts -------------------------------------------------------------- */

/* Tell the session's parts: completions were taken; a share is being closed;
 * the session is, and its parts are freed. */
void gm_parts_turn(struct gpumap_session *session);
void gm_parts_share_closed(struct gpumap_session *session, uint64_t share);
void gm_parts_drop(struct gpumap_session *session);

/* ---- wait --------------------------------------------------------------- */

/* Wait for s->tiles_left tiles.  Returns 0, -ETIME, or why the session has
 * ended. */
int gm_tiles_wait(struct gpumap_session *session, uint64_t deadline_ns);

/* The caller does not wait for the pair's tiles in flight any more.  Returns
 * whether there were any. */
bool gm_tiles_abandon(struct gm_queue_pair *pair);

/* End a job that has no slot of its own: its ticket waits for gpumap_poll(). */
void gm_session_keep(struct gpumap_session *session, struct gm_ticket *ticket,
		     int32_t status);

#endif

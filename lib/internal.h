/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * internal.h - what the files of libgpumap share.
 *
 * An attachment (struct gpumap) is a judged mapping that nobody here writes,
 * and a connection to the agent that is made when a request first needs one.  A
 * session (struct gpumap_session) is a connection of its own, the memory that
 * came over it, and the private side of its rings.
 *
 *	attach	 the mapping		 control  one request, one reply
 *	read	 devices		 publish  requests of an attachment
 *	view	 layer maps		 session	memory, queue pairs
 *	mask	 masks			 mask_publish	 requests for them
 *	health	 heartbeat, changes	 arena	  who has which bytes
 *	guard	 whose process is this	 buffers  other memory, by handle
 *	file	 files, likewise	 named	  what of it jobs may name
 *	errors	 sentences		 submit	  entries into rings
 *	visible	 CUDA_VISIBLE_DEVICES	 wait	  completions out of them
 *	exposed	 which rows are here	 scatter  one job, many rows
 *	programs what RUN runs		 comm	  one job of all rows of a group
 *	mask_use masks of jobs
 *	scan	 JSON			 model	  checkpoints, see model.h
 *
 * Edges
 *
 *   GUARD.made  the page of a guard says whose it is before another thread
 *               finds the page.
 */
#ifndef GM_INTERNAL_H
#define GM_INTERNAL_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include "gpumap.h"
#include "lib/arena.h"
#include "shm/check.h"
#include "shm/control.h"
#include "shm/queue.h"

#define GM_SECOND UINT64_C(1000000000) /* ns */
#define GM_NAP_NS UINT64_C(100000000)  /* longest sleep beside a session */

static inline uint64_t gm_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * GM_SECOND + (uint64_t)now.tv_nsec;
}

/* ---- guard: is this the process that opened it? ------------------------- */

/* A page that a fork wipes in the child: a load tells, not a system call. */
struct gm_guard {
	uint32_t *_Atomic mine; /* NULL: not made yet */
};

/* Returns 0, or what the kernel says. */
int gm_guard_make(struct gm_guard *guard);
void gm_guard_drop(struct gm_guard *guard);

static inline bool gm_guard_mine(const struct gm_guard *guard)
{
	const volatile uint32_t *mine =
		gm_get_acquire(&guard->mine); /* GUARD.made */

	return mine != NULL && *mine != 0;
}

/* ---- errors, sizes ------------------------------------------------------ */

/*
 * gm_size_in - copy a struct of a caller who may be older or newer than we
 *
 * known	bytes of *ret_ours; what the caller's lacks of it reads as zero
 *
 * Returns	0, -EINVAL when it has no room for its own size, -E2BIG when it
 *		sets something past what we know
 */
int gm_size_in(void *ret_ours, size_t known, const void *theirs);

/*
 * gm_size_out - may a struct of this size be answered?
 *
 * Returns	0, -EINVAL: smaller than @least, -E2BIG: larger than @known
 */
int gm_size_out(size_t size, size_t least, size_t known);

/* ---- control: one connection to the agent ------------------------------- */

#define GM_WHY sizeof(((struct gm_refusal *)0)->text)

struct gm_link {
	int fd;          /* -1: none */
	uint32_t serial; /* of the last request */
};

/* A request and where its reply goes. */
struct gm_call {
	uint16_t type; /* enum gm_control_type */
	uint16_t n_tail;
	uint32_t body_bytes;
	const void *body;
	struct iovec tail[6];
	const int *carries; /* NULL, or a descriptor that goes along */
	void *reply;        /* zero-filled past what the agent sent */
	uint32_t reply_bytes;
	uint32_t reply_tail_room;
	void *reply_tail;
	uint32_t reply_tail_bytes; /* received */
	uint32_t n_fds;            /* received; -1 in the places beyond */
	int fds[GM_CONTROL_FDS_MAX];
	char why[GM_WHY]; /* the agent's reason, or ours; "" when granted */
	void *refusal; /* NULL, or room for a refusal that is more than words;
			* zero-filled past what the agent sent */
	uint32_t refusal_bytes;
};

/* Are @n things of @each bytes what came behind the reply, @most of them at the
 * most? */
static inline bool gm_call_lists(const struct gm_call *call, uint32_t n,
				 uint32_t most, size_t each)
{
	return n <= most && call->reply_tail_bytes == n * each;
}

/*
 * gm_link_open - connect and say hello
 *
 * why		receives a sentence on failure
 *
 * Returns	0, -ECONNREFUSED when nobody answers, -ECONNRESET when it went
 *		away, -EPROTO, the agent's refusal, or what the kernel says
 */
int gm_link_open(const struct gpumap *map, struct gm_link *ret_link,
		 char why[GM_WHY]);

/*
 * gm_link_call - one round trip
 *
 * max_fds	descriptors that the reply may carry; more are closed and an
 *		error
 *
 * Returns	0, the agent's refusal, -ECONNRESET or -EPROTO, after which the
 *		link is closed, or -EPIPE: the request was not sent, because the
 *		connection had been lost before
 */
int gm_link_call(const struct gpumap *map, struct gm_link *link,
		 struct gm_call *call, uint32_t max_fds);

/* Has the other end gone?  One system call, never waits. */
bool gm_link_lost(const struct gm_link *link);
void gm_link_close(struct gm_link *link);
void gm_call_close_fds(struct gm_call *call);

/* ---- attachment --------------------------------------------------------- */

struct gpumap {
	struct gm_map map;    /* base NULL: not mapped yet */
	pid_t pid;            /* that attached */
	struct gm_guard mine; /* made with the connection */
	struct gm_link link;
	pthread_mutex_t lock;      /* of all below, and of link and mine */
	struct gm_node_map *nodes; /* mapped so far; see mask.c */
	uint64_t *pins;            /* claims that are ours */
	size_t n_pins;
	size_t room_pins;
	char refusal[GM_WHY];
	char instance[GPUMAP_NAME_MAX + 1];
	char runtime_dir[]; /* NUL-terminated */
};

/* May this process make requests through @map?  0 or -EOWNERDEAD. */
int gm_map_mine(const struct gpumap *map);

/* A request on the attachment's own connection, which is made again once when
 * it was lost since the last; stores the refusal.  Returns as gm_link_call(),
 * or -EOWNERDEAD. */
int gm_map_call(struct gpumap *map, struct gm_call *call, uint32_t max_fds);

/* What gpumap_refusal() answers from now on. */
void gm_map_refuse(struct gpumap *map, const char *why);

/* A name as the wire wants it, padded with zeros.  Returns 0, or -EINVAL with
 * the refusal stored. */
int gm_map_put_name(struct gpumap *map, const char *name, char ret_name[64]);

/* Objects of enum gm_kind @kind, by name.  Return as gpumap_layers_release(),
 * _pin() and _next(); a pin is among the attachment's then. */
int gm_map_release(struct gpumap *map, uint32_t kind, const char *name);
int gm_map_pin(struct gpumap *map, uint32_t kind, const char *name,
	       struct gm_pin_reply *ret_pin);
int gm_next_name(const struct gpumap *map, uint32_t kind, uint32_t *cursor,
		 char ret_name[GPUMAP_NAME_MAX + 1]);

/* How long ago the agent was last seen, ns. */
uint64_t gm_map_age(const struct gpumap *map);

/* Unmap what masks have had mapped. */
void gm_masks_unmap(struct gpumap *map);

struct gm_visible_list;

/*
 * gm_exposed_rows - what CUDA_VISIBLE_DEVICES makes visible of the device table
 *
 * root		before /dev and /proc: "", but in tests
 *
 * Returns	0, or as gpumap_device_read()
 */
int gm_exposed_rows(const struct gpumap *map, const char *root,
		    const char *visible_devices, const char *device_order,
		    struct gm_visible_list *ret_list);

/*
 * gm_view_pinned - fill a view from a block that is kept for us: it never
 * changes
 *
 * key		gm_object_key() of a layer map, or gm_meshes_key() of a group
 * table	enum gpumap_mesh_table, or 0: a layer map's rows
 *
 * Returns	0; -ENOENT: the mesh has no such group; -EPROTO
 */
int gm_view_pinned(const struct gpumap *map, uint64_t key, uint32_t table,
		   uint64_t word, struct gpumap_view *ret_view);

/* ---- session ------------------------------------------------------------ */

enum gm_ticket_state {
	GM_TICKET_FREE = 0,
	GM_TICKET_JOB,    /* in flight; ends in gpumap_poll() */
	GM_TICKET_TILE,   /* in flight; ends in the call that waits for it */
	GM_TICKET_STRAY,  /* in flight; nobody asks for it any more */
	GM_TICKET_BUFFER, /* in flight; ends a buffer, and frees its index */
	GM_TICKET_SECOND, /* in flight; the second slot of the one before it */
	GM_TICKET_MODEL,  /* in flight; of a model that is being loaded */
	GM_TICKET_PART,   /* in flight; of a collective, see comm.h */
	GM_TICKET_DONE    /* a job that has ended and waits for gpumap_poll() */
};

enum gm_ticket_part {
	GM_TICKET_WHOLE = 0, /* it has one slot, or is a second one */
	GM_TICKET_FIRST,     /* in flight, and so is the next, its second */
	GM_TICKET_HALF       /* it has ended with @status, its second has not */
};

/* One per slot of a queue.  A slot is free once its ticket is.  What has two
 * slots has ended when both have: then all its credit is back. */
struct gm_ticket {
	uint64_t cookie; /* of the job; the index of the tile or the buffer */
	struct gm_ticket *next;
	uint32_t position;
	int32_t status;
	uint16_t row;
	uint8_t state;       /* enum gm_ticket_state */
	uint8_t incarnation; /* as in a place in time */
	uint8_t part;        /* enum gm_ticket_part */
};

/* A row's queue pair and range of the arena. */
struct gm_queue_pair {
	struct gm_queue *queue;
	struct gm_timeline *timeline;
	uint64_t submitted; /* slots, ever: values of its timeline */
	uint64_t taken;     /* completions, likewise */
	uint64_t cancelled; /* slots before this; 0: none are in flight */
	struct gm_ring out;
	struct gm_ring in;
	struct gm_waker waker;
	struct gm_ticket *tickets; /* depth */
	uint32_t oldest;           /* all tickets before this are free */
	uint32_t live;             /* in the rings */
	uint32_t row;
	uint32_t told; /* incarnation of the worker that buffers' rows are of */
	int doorbell;
	struct gm_arena arena;
};

/* What a scatter over all rows goes by, while the table says the same. */
struct gm_field {
	uint64_t tick;
	uint32_t generation;
	uint32_t n; /* 0: not read yet, or no row */
	uint32_t rows[GM_ROWS];
	double weights[GM_ROWS];
};

/* Memory that is not the arena's, as jobs name it. */
struct gm_client_buffer {
	uint64_t handle; /* 0: none */
	uint64_t bytes;
	uint64_t at; /* of a registration: in its file */
	int fd;      /* likewise, or a file; our own; -1: none */
	char *name;  /* of a program, or NULL; our own */
	uint32_t flags;
	bool image;     /* a program that is device code of ours */
	uint32_t dtype; /* of a mask */
	bool is_mask;   /* the agent knows it, and which publication it is */
	bool exported;  /* under an id that the agent still has */
	bool numbered;  /* and that others can have it by */
	uint64_t share; /* that it was shared as, or imported from; 0: none */
	bool imported;  /* the agent has handed it over, and takes it back */
	bool leaving;   /* has no handle any more, but a worker may not know */
	/* That have been told of it: of a registration, or of memory that is
	 * another row's. */
	uint64_t rows[GM_ROWS / 64];
};

struct gm_client_buffers {
	struct gm_client_buffer *table; /* NULL: none yet */
	uint32_t room;
	uint32_t next;  /* index where a free one is sought */
	uint32_t first; /* generation; another session's are elsewhere */
	uint32_t made;  /* generations from there on that are used */
};

struct gm_share;

struct gpumap_session {
	struct gpumap *map;
	struct gm_guard mine;
	struct gm_client *client; /* the first page of the queues */
	char *arena;              /* n_rows * range_bytes */
	struct gm_huge huge;      /* of it, unless it is sparse */
	bool sparse;
	uint64_t arena_bytes;
	uint64_t range_bytes;
	uint64_t queues_bytes;
	uint32_t depth;
	uint32_t n_rows;
	bool takes_more; /* the agent's workers know second slots */
	bool runs_programs;
	bool takes_casts; /* and operations from CAST on */
	int broken;       /* negative once the session has ended: what to say */

	struct gm_queue_pair *pairs[GM_ROWS]; /* NULL: not used yet */
	struct gm_queue_pair *busy[GM_ROWS];  /* those with live > 0 */
	uint32_t n_busy;
	uint32_t rotor; /* in busy: whose turn it is */
	uint32_t jobs;  /* in flight or waiting for gpumap_poll() */
	struct gm_ticket *done_first; /* ended, in that order */
	struct gm_ticket **done_last;

	struct gpumap_model *models; /* all that have not been freed */
	uint32_t n_loading;          /* of them, those that are not over */

	struct gpumap_comm *comms;
	uint64_t late_ns; /* a collective may be, from then on; 0: none */

	struct gpumap_tile *tiles; /* of the call that waits */
	uint32_t tiles_left;
	struct gm_client_buffers buffers;
	struct gm_share *shares; /* that it holds */

	uint32_t parked; /* own copy of client->parked */
	uint32_t cpu;    /* likewise of client->cpu */
	bool armed;      /* parked by gpumap_session_arm() */
	uint32_t waits;
	uint32_t idle_polls;
	uint64_t gap_ns;    /* average, of gaps that ended in a spin */
	uint64_t looked_ns; /* when the socket was last looked at */
	uint64_t epoch;     /* of the agent that gave us this */

	struct gm_link link;
	int wake_fd; /* -1: not pollable */
	uint64_t submitted;
	uint64_t completed;
	uint64_t doorbells;
	uint64_t parks;
	struct gm_field field;
};

/* Say why this session has no such row.  Returns -ENODEV. */
int gm_session_lacks(struct gpumap_session *session, uint32_t row);

/* The row's queue pair, made on first use.  Returns 0, -ENODEV, -ECONNRESET,
 * the agent's refusal, or what the kernel says. */
int gm_session_pair(struct gpumap_session *session, uint32_t row,
		    struct gm_queue_pair **ret_pair);

/* A request on the session's own connection; stores the refusal.  Returns as
 * gm_link_call(); when the connection is lost so is the session. */
int gm_session_call(struct gpumap_session *session, struct gm_call *call,
		    uint32_t max_fds);

/* May this process use it, and is it alive?  0 or what to answer. */
static inline int gm_session_usable(const struct gpumap_session *session)
{
	return gm_guard_mine(&session->mine) ? session->broken : -EOWNERDEAD;
}

/* The agent has gone: end what is in flight with -ECONNRESET. */
void gm_session_lose(struct gpumap_session *session);

/* ---- submit ------------------------------------------------------------- */

/* Bytes of an element, 0 for a dtype that we do not know. */
uint32_t gm_dtype_bytes(uint32_t dtype);

/* Which of a job's fields an operation has. */
enum {
	GM_HAS_DST = 1,
	GM_HAS_SRC = 2,
	GM_HAS_ALPHA = 4,
	GM_HAS_PATTERN = 8,
	GM_HAS_TO = 16,  /* a dtype of dst's own */
	GM_HAS_ONE = 32, /* one element of dst */
	GM_HAS_MASK = 64,
	GM_HAS_PROGRAM = 128
};

/* GM_HAS_* of one that a job may have. */
uint32_t gm_op_fields(uint32_t op);

/* Returns 0; -EINVAL: it has no operation that a job may have, or a dtype that
 * we do not know; -EOPNOTSUPP: the agent does not know the operation. */
int gm_job_known(const struct gpumap_session *session,
		 const struct gpumap_job *job);

/* Bytes of an element of dst, 0 for a dtype that we do not know. */
uint32_t gm_job_dst_bytes(const struct gpumap_job *job);

/* The dtype of a reduction's result, as far as adding up is concerned. */
uint32_t gm_job_result(const struct gpumap_job *job);

/* Bytes of an element of its mask. */
static inline uint32_t gm_job_mask_bytes(const struct gpumap_job *job)
{
	return job->op == GPUMAP_OP_MASK_BOOL ? 1 : gm_dtype_bytes(job->dtype);
}

/* Elements of dst. */
static inline uint64_t gm_job_dst_n(const struct gpumap_job *job)
{
	return (gm_op_fields(job->op) & GM_HAS_ONE) != 0 ? 1 : job->n;
}

/* Judge one job for one row; returns 0, -ERANGE, or what gm_job_known() and
 * gm_buffers_judge() say. */
int gm_job_judge(const struct gpumap_session *session, uint32_t row,
		 const struct gpumap_job *job);

static inline bool gm_job_is_masked(const struct gpumap_job *job)
{
	return job->op == GPUMAP_OP_MASK_ADD || job->op == GPUMAP_OP_MASK_BOOL;
}

/* 0 if all that it names is the arena's. */
static inline uint64_t gm_job_buffers(const struct gpumap_job *job)
{
	return job->dst_buffer | job->src_buffer |
	       (gm_job_is_masked(job) ? job->mask_buffer : 0) |
	       (job->op == GPUMAP_OP_RUN);
}

/* Has it anything that takes a second slot? */
static inline bool gm_job_has_more(const struct gpumap_job *job)
{
	return gm_job_is_masked(job) || job->op == GPUMAP_OP_RUN ||
	       job->n_waits != 0 ||
	       (job->deadline_ns != 0 &&
		job->deadline_ns != GPUMAP_NO_DEADLINE);
}

/* May a job wait for what it names?  0 or -EINVAL. */
int gm_waits_judge(const struct gpumap_session *session,
		   const struct gpumap_job *job);

/* Slots of the ring that jobs take. */
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

/* Are the next @n slots free? */
bool gm_pair_has_credit(struct gm_queue_pair *pair, uint32_t n);

/* Submit judged jobs for which there is credit, as @state tickets, and wake
 * the worker if it sleeps.  @rich: one of them may name a buffer, or have a
 * second slot. */
void gm_pair_push(struct gpumap_session *session, struct gm_queue_pair *pair,
		  const struct gpumap_job *jobs, uint32_t n, uint8_t state,
		  bool rich);

/* ---- buffers ------------------------------------------------------------ */

/* A place in the table, with a new handle.  Returns 0, -ENOMEM or -EDQUOT. */
int gm_buffers_take(struct gpumap_session *session, uint32_t kind, uint32_t row,
		    struct gm_client_buffer **ret_buffer);

/*
 * gm_buffers_judge - a job that names a buffer
 *
 * Returns	0
 *		-ESTALE		the session has no such buffer
 *		-EINVAL		a file where memory is to be, or the reverse
 *		-ERANGE		it reaches out of it, or out of the arena
 *		-EACCES		it would be written, and is READ_ONLY
 *		-EOPNOTSUPP	it is memory of another row, which can only be
 *				copied from
 */
int gm_buffers_judge(const struct gpumap_session *session, uint32_t row,
		     const struct gpumap_job *job);

/* Does it copy from memory of another row? */
bool gm_buffers_cross(uint32_t row, const struct gpumap_job *job);

/* Tell the row of registrations and of other rows' memory that judged jobs name
 * and that it has not seen yet.  Returns 0 or as gm_session_call(). */
int gm_buffers_show(struct gpumap_session *session, uint32_t row,
		    const struct gpumap_job *jobs, uint32_t n);

/* Make the table's generations its own.  Returns 0 or a negative errno. */
int gm_buffers_init(struct gm_client_buffers *buffers);

/* Why there is no buffer of this handle: -ESTALE, it is one no more; -EPERM,
 * another session's; -ERANGE, nobody's. */
int gm_buffer_missing(const struct gpumap_session *session, uint64_t handle);

/* The session's buffer of this handle, or NULL. */
struct gm_client_buffer *gm_buffer_find(const struct gpumap_session *session,
					uint64_t handle);

/* Has any row been told of it? */
bool gm_buffer_is_shown(const struct gm_client_buffer *buffer);

/* No other row copies from it any more: what is under way has ended.  Returns 0
 * or as gm_session_call(). */
int gm_buffer_end_reach(struct gpumap_session *session,
			struct gm_client_buffer *buffer);

/* The worker is done with what was at this index. */
void gm_buffers_left(struct gpumap_session *session, uint64_t index);
void gm_buffers_fini(struct gm_client_buffers *buffers);

/* ---- models ------------------------------------------------------------- */

/* A GM_TICKET_MODEL of this cookie has ended.  Only notes it. */
void gm_model_ended(uint64_t cookie, int32_t status);

/* Go on with all that are being loaded. */
void gm_models_turn(struct gpumap_session *session);

/* The session is being closed. */
void gm_models_orphan(struct gpumap_session *session);

/* ---- wait --------------------------------------------------------------- */

/* Wait for s->tiles_left tiles.  Returns 0, -ETIME, or why the session has
 * ended. */
int gm_tiles_wait(struct gpumap_session *session, uint64_t deadline_ns);

/* The pair's tiles in flight end for nobody.  Returns whether there were
 * any. */
bool gm_tiles_abandon(struct gm_queue_pair *pair);

/* Take what has ended.  Jobs go to @ret_done while there is room, in @n, or
 * wait in the session when it is NULL.  Returns as gpumap_poll(). */
int gm_session_reap(struct gpumap_session *session,
		    struct gpumap_done *ret_done, uint32_t n);

/* Wait until some ring has something, or for a while.  @first: spin before.
 * Returns 0, or -ETIME. */
int gm_session_idle(struct gpumap_session *session, uint64_t deadline_ns,
		    bool first);

/* Say where we run, and unpark if gpumap_session_arm() parked us. */
void gm_session_awake(struct gpumap_session *session);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Turn the completions of a collective's parts into one completion.
 *
 * Each rank's part is an entry of its own in the queue of its row, with a
 * GM_TICKET_PART.  The caller receives one completion, by a ticket that is in
 * no queue, when the last part has ended, or when the deadline has passed and a
 * part does not answer.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/internal.h"
#include "shm/control_comm.h"

/* time for workers to report it themselves */
#define LATE_NS UINT64_C(50000000)

/* A collective.  Its place is free when its ticket is free and no part is in
 * flight. */
struct whole {
	struct gm_ending ending; /* of each part */
	struct gm_ticket ticket; /* the caller's, in no queue */
	struct gpumap_comm *comm;
	uint64_t late_ns; /* 0: has no deadline */
	uint32_t left;    /* parts in flight */
	uint32_t age;     /* the communicator's age at submission */
	int32_t status;
};

/* The session's communicators. */
struct comms {
	struct gm_session_part part;
	struct gpumap_comm *first;
	uint64_t late_ns; /* from then on a collective may be late; 0: none */
};

struct gpumap_comm {
	struct gpumap_comm *next;       /* the session's next */
	struct gpumap_session *session; /* NULL: the session is closed */
	struct comms *comms;
	char mesh[GPUMAP_NAME_MAX + 1], group[GPUMAP_NAME_MAX + 1];
	uint32_t number; /* 0: the agent has none for it */
	uint32_t age;    /* how often it was renewed */
	uint32_t n;
	bool is_broken;
	bool is_staged; /* each row reaches its own rank's memory only */
	bool may_nccl;  /* opened with GPUMAP_COMM_NCCL, */
	bool has_nccl;  /* and the agent granted it */
	bool is_closed; /* parts or completions are left */
	uint32_t rows[GM_COMM_RANKS_MAX];
	uint32_t n_wholes;
	struct whole wholes[];
};

/* ---- completions --------------------------------------------------------- */

/* Keep the first status that names the reason. */
static void put_status(struct whole *whole, int32_t status)
{
	if (status != 0 && (whole->status == 0 || whole->status == -ESTALE))
		whole->status = status;
}

/* End a collective.  One that was submitted before the renewal does not mark
 * the communicator as it is now. */
static void end(struct whole *whole)
{
	struct gpumap_comm *comm = whole->comm;

	if (whole->status != 0 && whole->status != -EINVAL &&
	    whole->age == comm->age)
		comm->is_broken = true;
	gm_session_keep(comm->session, &whole->ticket, whole->status);
}

/* A rank's part has ended, and perhaps the collective with it. */
static void ended(struct gm_ending *ending, int32_t status)
{
	struct whole *whole = (struct whole *)ending;

	put_status(whole, status);
	if (--whole->left == 0 && whole->ticket.state == GM_TICKET_JOB)
		end(whole);
}

/* End collectives whose deadline has passed, even if a worker does not
 * answer.  A part that has not ended keeps its place here. */
static void turn(struct gm_session_part *part)
{
	struct comms *comms = (struct comms *)part;
	uint64_t now = gm_now_ns(), next = 0;

	if (now < comms->late_ns)
		return;
	for (struct gpumap_comm *c = comms->first; c != NULL; c = c->next)
		for (uint32_t i = 0; i < c->n_wholes; i++) {
			struct whole *whole = &c->wholes[i];

			if (whole->ticket.state != GM_TICKET_JOB ||
			    whole->late_ns == 0)
				continue;
			if (now >= whole->late_ns) {
				put_status(whole, -ETIME);
				end(whole);
			} else if (next == 0 || whole->late_ns < next) {
				next = whole->late_ns;
			}
		}
	comms->late_ns = next;
	part->wants_turn = next != 0;
}

/* ---- open and close ------------------------------------------------------ */

static bool is_used(const struct gpumap_comm *comm)
{
	for (uint32_t i = 0; i < comm->n_wholes; i++)
		if (comm->wholes[i].left > 0 ||
		    comm->wholes[i].ticket.state != GM_TICKET_FREE)
			return true;
	return false;
}

/* Free closed communicators that have nothing in flight. */
static void sweep(struct comms *comms)
{
	struct gpumap_comm **at = &comms->first;

	while (*at != NULL) {
		struct gpumap_comm *comm = *at;

		if (comm->is_closed && !is_used(comm)) {
			*at = comm->next;
			free(comm);
		} else {
			at = &comm->next;
		}
	}
}

static void drop(struct gm_session_part *part)
{
	struct comms *comms = (struct comms *)part;
	struct gpumap_comm *comm;

	while ((comm = comms->first) != NULL) {
		comms->first = comm->next;
		comm->session = NULL;
		if (comm->is_closed)
			free(comm);
	}
}

static const struct gm_session_part_kind kind = { .bytes = sizeof(struct comms),
						  .turn = turn,
						  .drop = drop };

/* The rows of its ranks, as the mesh has them now. */
static int read_rows(struct gpumap_comm *comm)
{
	struct gpumap_mesh_group about = { .size = sizeof(about) };
	struct gpumap_session *s = comm->session;
	uint32_t rows[GM_COMM_RANKS_MAX];
	int ret = gpumap_mesh_group(s->map, comm->mesh, comm->group, &about,
				    NULL, rows, GM_COMM_RANKS_MAX);

	if (ret == -ENOENT)
		gm_map_refuse(s->map, "there is no such mesh, or it has no "
				      "such group; see gpumapctl mesh show");
	if (ret == -ENOBUFS || (ret == 0 && about.n > GM_COMM_RANKS_MAX))
		return gm_refuse(s->map, -E2BIG,
				 "the group has more than 64 ranks");
	if (ret != 0)
		return ret;
	comm->n = about.n;
	memcpy(comm->rows, rows, about.n * sizeof(rows[0]));
	return 0;
}

static int ask_for(struct gpumap_comm *comm)
{
	struct gm_comm_open body = { .n_ranks = comm->n };
	struct gm_comm_reply reply;
	struct gm_call call = {
		GM_REQUEST(GM_CONTROL_COMM_OPEN, body), .n_tail = 1,
		.tail = { { comm->rows, comm->n * sizeof(uint32_t) } },
		GM_REPLY(reply)
	};
	int ret;

	if (comm->may_nccl)
		body.flags |= GM_COMM_MAY_NCCL;
	ret = gm_session_call(comm->session, &call, 0);
	if (ret == 0) {
		comm->number = reply.comm;
		comm->is_staged = reply.flags & GM_COMM_STAGED;
		comm->has_nccl = reply.flags & GM_COMM_NCCL;
		comm->is_broken = false;
	}
	return ret;
}

static int take_up(struct gpumap_comm *comm)
{
	struct gm_queue_pair *pair;
	int ret = read_rows(comm);

	for (uint32_t i = 0; ret == 0 && i < comm->n; i++)
		ret = gm_session_pair(comm->session, comm->rows[i], &pair);
	return ret == 0 ? ask_for(comm) : ret;
}

static int give_up(struct gpumap_comm *comm)
{
	struct gm_comm_close body = { .comm = comm->number };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_COMM_CLOSE, body) };

	if (comm->number == 0)
		return 0;
	comm->number = 0;
	return gm_session_call(comm->session, &call, 0);
}

static bool put_name(char into[GPUMAP_NAME_MAX + 1], const char *name)
{
	size_t bytes = name != NULL ? strlen(name) : 0;

	if (bytes == 0 || bytes > GPUMAP_NAME_MAX)
		return false;
	memcpy(into, name, bytes + 1);
	return true;
}

int gpumap_comm_open(struct gpumap_session *session, const char *mesh,
		     const char *group, struct gpumap_comm **ret_comm)
{
	return gpumap_comm_open_opts(session, mesh, group, NULL, ret_comm);
}

int gpumap_comm_open_opts(struct gpumap_session *session, const char *mesh,
			  const char *group,
			  const struct gpumap_comm_opts *opts,
			  struct gpumap_comm **ret_comm)
{
	struct gpumap_comm_opts ours = { 0 };
	struct gpumap_comm *comm;
	struct comms *comms;
	int ret = gm_session_begin(session);

	if (ret == 0 && opts != NULL)
		ret = gm_map_size_in(session->map, &ours, sizeof(ours), opts);
	if (ret == 0 && ((ours.flags & ~GPUMAP_COMM_NCCL) || ours.reserved))
		ret = gm_refuse_unknown(session->map);
	if (ret != 0)
		return ret;
	comms = (struct comms *)gm_part_take(session, &kind);
	if (comms == NULL)
		return gm_refuse_memory(session->map, sizeof(*comms));
	sweep(comms);
	comm = calloc(1,
		      sizeof(*comm) + session->depth * sizeof(comm->wholes[0]));
	if (comm == NULL)
		return gm_refuse_memory(
			session->map,
			sizeof(*comm) +
				session->depth * sizeof(comm->wholes[0]));
	comm->session = session;
	comm->comms = comms;
	comm->may_nccl = ours.flags & GPUMAP_COMM_NCCL;
	comm->n_wholes = session->depth;
	for (uint32_t i = 0; i < comm->n_wholes; i++) {
		comm->wholes[i].ending.ended = ended;
		comm->wholes[i].comm = comm;
	}
	ret = put_name(comm->mesh, mesh) &&
			      put_name(comm->group,
				       group != NULL ? group : "world")
		      ? take_up(comm)
		      : gm_refuse(session->map, -EINVAL,
				  "a mesh and a group have names of 1 to 63 "
				  "bytes");
	if (ret != 0) {
		free(comm);
		return ret;
	}
	comm->next = comms->first;
	comms->first = comm;
	*ret_comm = comm;
	return 0;
}

int gpumap_comm_renew(struct gpumap_comm *comm)
{
	int ret = comm->session != NULL ? gm_session_begin(comm->session)
					: -ECONNRESET;

	comm->has_nccl = false;
	if (ret != 0)
		return ret;
	comm->is_broken = true;
	comm->age++;
	ret = give_up(comm);
	return ret == 0 ? take_up(comm) : ret;
}

int gpumap_comm_close(struct gpumap_comm *comm)
{
	struct gpumap_session *s = comm != NULL ? comm->session : NULL;
	int ret;

	if (s == NULL) {
		free(comm);
		return 0;
	}
	ret = gm_session_begin(s);
	if (ret == 0)
		ret = give_up(comm);
	comm->is_closed = true;
	if (ret != -EOWNERDEAD)
		sweep(comm->comms);
	return ret;
}

uint32_t gpumap_comm_flags(const struct gpumap_comm *comm)
{
	return comm->has_nccl ? GPUMAP_COMM_NCCL : 0;
}

int gpumap_comm_rows(const struct gpumap_comm *comm, uint32_t *ret_rows,
		     size_t n)
{
	for (uint32_t i = 0; i < comm->n && i < n; i++)
		ret_rows[i] = comm->rows[i];
	return (int)comm->n;
}

/* ---- checks -------------------------------------------------------------- */

static bool reduces(uint32_t op)
{
	return op == GPUMAP_OP_ALL_REDUCE || op == GPUMAP_OP_REDUCE_SCATTER;
}

/* The elements that a rank gives and gets, in multiples of n. */
static uint32_t gives(const struct gpumap_comm *comm,
		      const struct gpumap_collective *what, uint32_t rank)
{
	switch (what->op) {
	case GPUMAP_OP_ALL_REDUCE:
	case GPUMAP_OP_ALL_GATHER:
		return 1;
	case GPUMAP_OP_REDUCE_SCATTER:
		return comm->n;
	case GPUMAP_OP_BROADCAST:
	case GPUMAP_OP_SEND:
		return rank == what->root;
	default:
		return 0;
	}
}

static uint32_t gets(const struct gpumap_comm *comm,
		     const struct gpumap_collective *what, uint32_t rank)
{
	switch (what->op) {
	case GPUMAP_OP_ALL_REDUCE:
	case GPUMAP_OP_REDUCE_SCATTER:
		return 1;
	case GPUMAP_OP_ALL_GATHER:
		return comm->n;
	case GPUMAP_OP_BROADCAST:
		return rank != what->root;
	case GPUMAP_OP_SEND:
		return rank == what->peer;
	default:
		return 0;
	}
}

static bool is_dtype(uint32_t dtype)
{
	return dtype == GPUMAP_DTYPE_U8 || dtype == GPUMAP_DTYPE_F16 ||
	       dtype == GPUMAP_DTYPE_BF16 || dtype == GPUMAP_DTYPE_F32 ||
	       dtype == GPUMAP_DTYPE_I32 || dtype == GPUMAP_DTYPE_I64;
}

static int check_what(const struct gpumap_comm *comm,
		      const struct gpumap_collective *what)
{
	const struct gpumap *map = comm->session->map;
	bool has_root =
		what->op == GPUMAP_OP_BROADCAST || what->op == GPUMAP_OP_SEND;

	if (what->op < GPUMAP_OP_BARRIER || what->op > GPUMAP_OP_SEND)
		return gm_refuse(map, -EINVAL,
				 "op %u is no collective: set one that "
				 "gpumap/collective.h has",
				 what->op);
	if (what->op == GPUMAP_OP_BARRIER)
		return 0;
	if (!is_dtype(what->dtype))
		return gm_refuse(map, -EINVAL,
				 "collectives are of u8, f16, bf16, f32, i32 "
				 "and i64, and not of dtype %u",
				 what->dtype);
	if (what->ranks == NULL)
		return gm_refuse(map, -EINVAL,
				 "ranks is NULL: give the memory of each of "
				 "the %u ranks",
				 comm->n);
	if (reduces(what->op) && what->reduce > GPUMAP_REDUCE_AVERAGE)
		return gm_refuse(map, -EINVAL,
				 "reduce is %u: set one of enum gpumap_reduce",
				 what->reduce);
	if ((has_root && what->root >= comm->n) ||
	    (what->op == GPUMAP_OP_SEND &&
	     (what->peer >= comm->n || what->peer == what->root)))
		return gm_refuse(map, -EINVAL,
				 "root is %u and peer %u: the group has ranks "
				 "0 to %u, and no rank sends to itself",
				 what->root, what->peer, comm->n - 1);
	if (what->n > (uint64_t)INT64_MAX / GM_COMM_RANKS_MAX /
			      gm_ops_dtype_bytes(what->dtype))
		return gm_refuse(map, -ERANGE,
				 "%" PRIu64 " elements are more than any "
				 "memory has",
				 what->n);
	return 0;
}

/* Can the other ranks reach it? */
static int check_kind(const struct gpumap_session *s, uint64_t handle)
{
	const struct gm_client_buffer *buffer = gm_buffer_find(s, handle);

	if (gm_handle_kind(handle) == GM_BUFFER_REGISTERED ||
	    (gm_handle_kind(handle) == GM_BUFFER_DEVICE &&
	     (buffer->flags & GPUMAP_BUFFER_EXPORTABLE) != 0 &&
	     !buffer->imported))
		return 0;
	return gm_refuse(s->map, -EOPNOTSUPP,
			 "other ranks do not reach this buffer: register it, "
			 "or allocate it GPUMAP_BUFFER_EXPORTABLE");
}

static int check_memory(const struct gpumap_comm *comm, uint32_t row,
			uint32_t op, const struct gm_operand *o)
{
	const struct gpumap_session *s = comm->session;
	uint64_t in_arena =
		(uint64_t)((uintptr_t)o->memory - (uintptr_t)s->arena);
	int ret;

	if (o->n == 0)
		return 0;
	if ((o->buffer != 0 ? o->at : in_arena) % o->element != 0)
		return gm_refuse(s->map, -EINVAL,
				 "a rank's memory begins inside of an element "
				 "of %u bytes: align it",
				 o->element);
	if (o->buffer == 0)
		return in_arena > s->arena_bytes ||
				       o->n > (s->arena_bytes - in_arena) /
						       o->element
			       ? gm_refuse(s->map, -ERANGE,
					   "%" PRIu64 " elements of a rank do "
					   "not lie in the arena: take as many "
					   "from gpumap_alloc(), or name a "
					   "buffer",
					   o->n)
			       : 0;
	ret = gm_buffers_check_one(s, row, op, o);
	return ret == 0 && !comm->is_staged ? check_kind(s, o->buffer) : ret;
}

static int check_rank(const struct gpumap_comm *comm,
		      const struct gpumap_collective *what, uint32_t rank)
{
	const struct gpumap_rank *r = &what->ranks[rank];
	const struct gm_operand send = {
		.buffer = r->send_buffer,
		.at = r->send_at,
		.memory = r->send,
		.n = what->n * gives(comm, what, rank),
		.element = gm_ops_dtype_bytes(what->dtype),
	};
	const struct gm_operand recv = {
		.buffer = r->recv_buffer,
		.at = r->recv_at,
		.memory = r->recv,
		.n = what->n * gets(comm, what, rank),
		.element = gm_ops_dtype_bytes(what->dtype),
		.is_written = true,
	};
	int ret = (r->spare[0] | r->spare[1]) != 0
			  ? gm_refuse(comm->session->map, -EINVAL,
				      "a spare word of rank %u is not 0: zero "
				      "the struct",
				      rank)
			  : 0;

	if (ret == 0)
		ret = check_memory(comm, comm->rows[rank], what->op, &send);
	if (ret == 0)
		ret = check_memory(comm, comm->rows[rank], what->op, &recv);
	return ret;
}

/* ---- submission ---------------------------------------------------------- */

static uint32_t peer_of(const struct gpumap_collective *what, uint32_t rank)
{
	if (what->op == GPUMAP_OP_BROADCAST)
		return what->root;
	if (what->op == GPUMAP_OP_SEND)
		return rank == what->root ? what->peer : what->root;
	return 0;
}

/* The job of one rank's row. */
static struct gpumap_job part_of(const struct gpumap_comm *comm,
				 const struct gpumap_collective *what,
				 uint32_t rank, struct whole *whole)
{
	bool is_barrier = what->op == GPUMAP_OP_BARRIER;
	struct gpumap_job part = {
		.op = what->op,
		.dtype = is_barrier ? GPUMAP_DTYPE_U8 : what->dtype,
		.to = reduces(what->op) ? what->reduce : 0,
		.dst = comm->session->arena,
		.src = comm->session->arena,
		.n = is_barrier ? 0 : what->n,
		.pattern = comm->number | (uint64_t)peer_of(what, rank) << 32,
		.deadline_ns = what->deadline_ns,
		.waits = what->waits,
		.n_waits = what->n_waits,
		.cookie = (uintptr_t)&whole->ending,
	};

	if (what->op == GPUMAP_OP_SEND && rank != what->root)
		part.op = GPUMAP_OP_RECV;
	if (part.n != 0 && gives(comm, what, rank) != 0) {
		part.src = what->ranks[rank].send;
		part.src_buffer = what->ranks[rank].send_buffer;
		part.src_at = what->ranks[rank].send_at;
	}
	if (part.n != 0 && gets(comm, what, rank) != 0) {
		part.dst = what->ranks[rank].recv;
		part.dst_buffer = what->ranks[rank].recv_buffer;
		part.dst_at = what->ranks[rank].recv_at;
	}
	return part;
}

/* Tell the row of each part of the memory of all ranks, or, staged, of its own
 * rank's only. */
static int show_all(struct gpumap_comm *comm, const uint32_t *rows,
		    const struct gpumap_job *parts, uint32_t n)
{
	uint64_t buffers = 0;
	int ret = 0;

	for (uint32_t i = 0; i < n; i++)
		buffers |= parts[i].dst_buffer | parts[i].src_buffer;
	for (uint32_t i = 0; buffers != 0 && ret == 0 && i < n; i++)
		ret = comm->is_staged ? gm_buffers_show(comm->session, rows[i],
							&parts[i], 1)
				      : gm_buffers_show(comm->session, rows[i],
							parts, n);
	return ret;
}

static struct whole *find_free(struct gpumap_comm *comm)
{
	for (uint32_t i = 0; i < comm->n_wholes; i++)
		if (comm->wholes[i].left == 0 &&
		    comm->wholes[i].ticket.state == GM_TICKET_FREE)
			return &comm->wholes[i];
	return NULL;
}

static void push_all(struct gpumap_comm *comm, struct whole *whole,
		     const struct gpumap_collective *what, const uint32_t *rows,
		     const struct gpumap_job *parts, uint32_t n)
{
	struct gpumap_session *s = comm->session;
	struct comms *comms = comm->comms;
	bool has_deadline = what->deadline_ns != 0 &&
			    what->deadline_ns < GPUMAP_NO_DEADLINE - LATE_NS;

	whole->ticket = (struct gm_ticket){ .cookie = what->cookie,
					    .row = (uint16_t)comm->rows[0],
					    .state = GM_TICKET_JOB };
	whole->left = n;
	whole->age = comm->age;
	whole->status = 0;
	whole->late_ns = has_deadline ? what->deadline_ns + LATE_NS : 0;
	if (has_deadline &&
	    (comms->late_ns == 0 || whole->late_ns < comms->late_ns))
		comms->late_ns = whole->late_ns;
	comms->part.wants_turn = comms->late_ns != 0;
	gm_session_tell_cpu(s);
	s->jobs++;
	for (uint32_t i = 0; i < n; i++)
		gm_pair_push(s, s->pairs[rows[i]], &parts[i], 1, GM_TICKET_PART,
			     true);
}

static int submit(struct gpumap_comm *comm,
		  const struct gpumap_collective *what)
{
	struct gpumap_job parts[GM_COMM_RANKS_MAX];
	uint32_t rows[GM_COMM_RANKS_MAX], n = 0;
	struct whole *whole = find_free(comm);
	int ret;

	if (whole == NULL)
		return gm_refuse_plain(comm->session->map, -EAGAIN);
	for (uint32_t r = 0; r < comm->n; r++) {
		if (what->op == GPUMAP_OP_SEND && r != what->root &&
		    r != what->peer)
			continue;
		rows[n] = comm->rows[r];
		parts[n++] = part_of(comm, what, r, whole);
	}
	ret = n > 0 ? gm_waits_check(comm->session, &parts[0])
		    : gm_refuse(comm->session->map, -EINVAL,
				"no rank takes part in this collective");
	if (ret != 0)
		return ret;
	for (uint32_t i = 0; i < n; i++)
		if (!gm_pair_begin(comm->session, comm->session->pairs[rows[i]],
				   gm_jobs_slots(&parts[i], 1)))
			return gm_refuse_plain(comm->session->map, -EAGAIN);
	ret = show_all(comm, rows, parts, n);
	if (ret == 0)
		push_all(comm, whole, what, rows, parts, n);
	return ret;
}

int gpumap_comm_submit(struct gpumap_comm *comm,
		       const struct gpumap_collective *what)
{
	struct gpumap_collective ours = { 0 };
	int ret = comm->session != NULL ? gm_session_begin(comm->session)
					: -ECONNRESET;

	if (ret == 0)
		ret = gm_map_size_in(comm->session->map, &ours, sizeof(ours),
				     what);
	if (ret == 0)
		ret = check_what(comm, &ours);
	if (ret == 0 && comm->is_broken)
		ret = gm_refuse(comm->session->map, -ESTALE,
				"the communicator is broken: "
				"gpumap_comm_renew() takes it up again");
	for (uint32_t r = 0;
	     ret == 0 && ours.op != GPUMAP_OP_BARRIER && r < comm->n; r++)
		ret = check_rank(comm, &ours, r);
	return ret == 0 ? submit(comm, &ours) : ret;
}

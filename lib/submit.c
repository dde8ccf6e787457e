/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/internal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "shm/point.h"
#include "shm/tracepoint.h"

uint32_t gm_job_dst_bytes(const struct gpumap_job *job)
{
	return job->op == GPUMAP_OP_RUN
		       ? job->dst_item_bytes
		       : gm_ops_dtype_bytes(
				 gm_ops_result(job->op, job->dtype, job->to));
}

/* The reason why a job may not have its operation, dtype, or spare words. */
static int refuse_unknown(const struct gpumap_session *s,
			  const struct gpumap_job *job)
{
	if (gm_ops_dtype_bytes(job->dtype) == 0)
		return gm_refuse(s->map, -EINVAL,
				 "a job has dtype %u: set one of enum "
				 "gpumap_dtype up to GPUMAP_DTYPE_U64",
				 job->dtype);
	if ((gm_ops_has(job->op) & GM_OPS_JOB) == 0)
		return gm_refuse(s->map, -EINVAL,
				 "a job has op %u: set an operation that "
				 "gpumap/job.h has for jobs",
				 job->op);
	if (gm_job_dst_bytes(job) == 0)
		return gm_refuse(s->map, -EINVAL,
				 "a job casts to dtype %u: set one of enum "
				 "gpumap_dtype",
				 job->to);
	return gm_refuse(s->map, -EINVAL,
			 "a spare word of a job is not 0: zero the struct");
}

/* @what: dst, src or mask. */
static int refuse_memory(const struct gpumap_session *s, const char *what)
{
	return gm_refuse(s->map, -ERANGE,
			 "%s is no memory of this session's: take it from "
			 "gpumap_alloc(), or name a buffer",
			 what);
}

int gm_job_known(const struct gpumap_session *session,
		 const struct gpumap_job *job)
{
	if (job->dtype > GPUMAP_DTYPE_U64 ||
	    (job->spare[0] | job->spare[1] | job->spare[2] | job->spare[3]) !=
		    0)
		return refuse_unknown(session, job);
	if (job->op <= GPUMAP_OP_AXPY)
		return 0;
	if ((gm_ops_has(job->op) & GM_OPS_JOB) == 0)
		return refuse_unknown(session, job);
	if (job->op == GPUMAP_OP_RUN)
		return session->runs_programs
			       ? 0
			       : gm_refuse(session->map, -EINVAL,
					   "this session runs no programs: "
					   "open one with "
					   "GPUMAP_SESSION_PROGRAMS");
	if (gm_job_dst_bytes(job) == 0)
		return refuse_unknown(session, job);
	if ((gm_ops[job->op].has & GM_OPS_MASK) != 0 &&
	    job->mask_first >= job->mask_n)
		return gm_refuse(session->map, -EINVAL,
				 "mask_first is %u, and the mask has %u "
				 "elements: begin at one of them",
				 job->mask_first, job->mask_n);
	if (job->op == GPUMAP_OP_LOAD && job->src_buffer == 0)
		return gm_refuse(session->map, -EINVAL,
				 "LOAD reads a file: name it in src_buffer, "
				 "see gpumap_buffer_register_file()");
	return 0;
}

static uint64_t offset_of(const struct gpumap_session *s, const void *memory)
{
	return (uint64_t)((uintptr_t)memory - (uintptr_t)s->arena);
}

/* Check a job whose operands all lie in the arena. */
static inline int check_arena(const struct gpumap_session *s,
			      const struct gpumap_job *job)
{
	int ret = gm_job_known(s, job);

	if (ret != 0)
		return ret;
	if ((gm_ops[job->op].has & GM_OPS_DST) != 0 &&
	    !gm_in_arena(s, job->dst))
		return refuse_memory(s, "dst");
	if ((gm_ops[job->op].has & GM_OPS_SRC) != 0 &&
	    !gm_in_arena(s, job->src))
		return refuse_memory(s, "src");
	if ((gm_ops[job->op].has & GM_OPS_MASK) != 0 &&
	    !gm_in_arena(s, job->mask))
		return refuse_memory(s, "mask");
	return 0;
}

int gm_job_check(const struct gpumap_session *session, uint32_t row,
		 const struct gpumap_job *job)
{
	int ret;

	if (gm_job_buffers(job) == 0)
		return check_arena(session, job);
	ret = gm_job_known(session, job);
	if (ret != 0)
		return ret;
	return job->op == GPUMAP_OP_RUN ? gm_programs_check(session, row, job)
					: gm_buffers_check(session, row, job);
}

bool gm_pair_begin(struct gpumap_session *session, struct gm_queue_pair *pair,
		   uint32_t n)
{
	const uint32_t mask = pair->out.mask;
	uint32_t now =
		gm_get_acquire(&pair->queue->incarnation); /* QUEUE.born */

	if (now != pair->incarnation) {
		pair->incarnation = now;
		gm_buffers_hide(session, pair->row);
	}

	/* Tickets may be freed out of order: a slot whose ticket is not free is
	 * not ours to fill, however many others are. */
	while (pair->oldest != pair->out.pos &&
	       pair->tickets[pair->oldest & mask].state == GM_TICKET_FREE)
		pair->oldest++;
	return pair->out.pos - pair->oldest + n <= mask + 1;
}

/* @rich: one of the operands may lie in a buffer. */
static inline __attribute__((always_inline)) void
pack(const struct gpumap_session *s, const struct gpumap_job *job,
     uint32_t incarnation, bool rich, uint64_t ret_words[GM_ENTRY_WORDS])
{
	uint32_t has = gm_ops[job->op].has;
	struct gm_entry entry = { .op = (uint8_t)job->op,
				  .dtype = (uint8_t)job->dtype,
				  .incarnation = incarnation,
				  .n = job->n };

	if ((has & GM_OPS_DST) != 0)
		entry.dst = offset_of(s, job->dst);
	if ((has & GM_OPS_SRC) != 0)
		entry.src = offset_of(s, job->src);
	if ((has & GM_OPS_ALPHA) != 0)
		memcpy(&entry.value, &job->alpha, sizeof(entry.value));
	if ((has & GM_OPS_PATTERN) != 0)
		entry.value = job->pattern;
	if ((has & GM_OPS_MASK) != 0)
		entry.value = job->mask_n | (uint64_t)job->mask_first << 32;
	if (rich && (has & GM_OPS_PROGRAM) != 0)
		entry.value = job->src_item_bytes |
			      (uint64_t)job->dst_item_bytes << 32;
	if ((has & GM_OPS_TO) != 0)
		entry.to = (uint8_t)job->to;
	if (rich && (has & GM_OPS_DST) != 0 && job->dst_buffer != 0) {
		entry.dst_buffer = job->dst_buffer;
		entry.dst = job->dst_at;
	}
	if (rich && (has & GM_OPS_SRC) != 0 && job->src_buffer != 0) {
		entry.src_buffer = job->src_buffer;
		entry.src = job->src_at;
	}
	if (rich && gm_job_has_more(job))
		entry.flags = GM_ENTRY_MORE;
	gm_entry_pack(&entry, ret_words);
}

int gm_waits_check(const struct gpumap_session *session,
		   const struct gpumap_job *job)
{
	if (job->n_waits > GPUMAP_WAITS_MAX ||
	    (job->n_waits != 0 && job->waits == NULL))
		return gm_refuse(session->map, -EINVAL,
				 "a job waits for %u places in time: list them "
				 "in waits, %u at most",
				 job->n_waits, GPUMAP_WAITS_MAX);
	for (uint32_t i = 0; i < job->n_waits; i++) {
		const struct gpumap_time *time = &job->waits[i];
		const struct gm_queue_pair *pair;

		if (time->reserved != 0 || time->row >= session->n_rows)
			return gm_refuse(session->map, -EINVAL,
					 "a job waits for row %u, and this "
					 "session has %u: take the place from "
					 "gpumap_submitted()",
					 time->row, session->n_rows);
		pair = session->pairs[time->row];
		if (time->value > (pair != NULL ? pair->submitted : 0))
			return gm_refuse(session->map, -EINVAL,
					 "a job waits for a job of row %u that "
					 "was not submitted: submit that first",
					 time->row);
	}
	return 0;
}

/* Translate a wait of the row's job into the worker's form.  Returns false when
 * no wait is needed: the awaited job has ended, as far as this side has seen,
 * or will have ended when the job's turn comes. */
static bool is_open(const struct gpumap_session *s, uint32_t row,
		    const struct gpumap_time *time, uint64_t *ret_wait)
{
	const struct gm_queue_pair *pair = s->pairs[time->row];
	uint32_t pos = (uint32_t)time->value - 1;
	const struct gm_ticket *t;

	if (time->row == row || time->value == 0 || time->value <= pair->taken)
		return false;
	/* Use the incarnation that the awaited job was submitted under: the job
	 * dies with that worker. */
	t = &pair->tickets[pos & pair->out.mask];
	if (t->position != pos || t->state == GM_TICKET_FREE)
		return false;
	*ret_wait = gm_time_make(time->row, t->incarnation, time->value);
	return true;
}

/* A deadline of the caller's clock, as the worker compares it. */
static uint64_t shared_deadline(const struct gpumap *map, uint64_t deadline_ns)
{
	uint64_t shared = deadline_ns - gm_get(&map->clock_offset);

	if (deadline_ns == 0 || deadline_ns > INT64_MAX)
		return deadline_ns; /* none, or no time that comes */
	/* 0 would be none, and less lies before the machine's start. */
	return shared - 1 < INT64_MAX ? shared : 1;
}

static void pack_more(const struct gpumap_session *s, uint32_t row,
		      const struct gpumap_job *job,
		      uint64_t ret_words[GM_ENTRY_WORDS])
{
	struct gm_more more = { .op = GM_OP_MORE,
				.deadline_ns = shared_deadline(
					s->map, job->deadline_ns) };

	if ((gm_ops[job->op].has & GM_OPS_MASK) != 0) {
		more.third_buffer = job->mask_buffer;
		more.third = job->mask_buffer != 0 ? job->mask_at
						   : offset_of(s, job->mask);
	}
	if ((gm_ops[job->op].has & GM_OPS_PROGRAM) != 0) {
		more.third_buffer = job->program;
		if (job->params_bytes != 0)
			more.third = gm_params_make(offset_of(s, job->params),
						    job->params_bytes);
	}
	for (uint32_t i = 0; i < job->n_waits; i++)
		more.n_waits += is_open(s, row, &job->waits[i],
					&more.wait[more.n_waits]);
	gm_more_pack(&more, ret_words);
}

static void ring_doorbell(struct gpumap_session *s,
			  const struct gm_queue_pair *pair)
{
	static const uint64_t one = 1;

	s->doorbells++;
	/* EAGAIN: the eventfd's counter is full, so the worker is being
	 * notified anyway. */
	while (write(pair->doorbell, &one, sizeof(one)) < 0 && errno == EINTR)
		continue;
}

/* Write the second slot, behind the slot @ahead, which is not visible yet. */
static void put_second(const struct gpumap_session *s,
		       struct gm_queue_pair *pair, const struct gpumap_job *job,
		       uint32_t ahead, uint8_t incarnation)
{
	uint32_t pos = pair->out.pos + ahead + 1;
	struct gm_ticket *t = &pair->tickets[pos & pair->out.mask];
	uint64_t words[GM_ENTRY_WORDS];

	t->position = pos;
	t->state = GM_TICKET_SECOND;
	t->incarnation = incarnation;
	t->part = GM_TICKET_WHOLE;
	pack_more(s, pair->row, job, words);
	gm_ring_put(&pair->out, GM_ENTRY_WORDS, ahead + 1, words);
	GM_POINT("submit_second_visible");
}

/* The compiler makes two copies of this: one for jobs in the arena alone,
 * without any check for buffers and second slots, and one for all jobs.  The
 * difference in time was measured.  Returns the slots that were taken. */
static inline __attribute__((always_inline)) uint32_t
put(const struct gpumap_session *s, struct gm_queue_pair *pair,
    const struct gpumap_job *jobs, uint32_t n, uint8_t state, bool rich)
{
	uint8_t short_one = (uint8_t)gm_time_incarnation(pair->incarnation);
	uint32_t slots = rich ? gm_jobs_slots(jobs, n) : n;
	uint32_t ahead = slots;

	for (uint32_t i = n; i-- > 0;) {
		bool has_second = rich && gm_job_has_more(&jobs[i]);
		uint64_t words[GM_ENTRY_WORDS];
		struct gm_ticket *t;
		uint32_t pos;

		ahead -= 1u + has_second;
		if (has_second)
			put_second(s, pair, &jobs[i], ahead, short_one);
		pos = pair->out.pos + ahead;
		t = &pair->tickets[pos & pair->out.mask];
		t->cookie = jobs[i].cookie;
		t->position = pos;
		t->row = (uint16_t)pair->row;
		t->state = state;
		t->incarnation = short_one;
		t->part = has_second ? GM_TICKET_FIRST : GM_TICKET_WHOLE;
		pack(s, &jobs[i], pair->incarnation, rich, words);
		gm_ring_put(&pair->out, GM_ENTRY_WORDS, ahead, words);
		GM_POINT("submit_entry_visible");
	}
	return slots;
}

void gm_pair_push(struct gpumap_session *session, struct gm_queue_pair *pair,
		  const struct gpumap_job *jobs, uint32_t n, uint8_t state,
		  bool rich)
{
	uint32_t slots;

	/* All cancelled slots have ended: clear the mark, because positions
	 * wrap and would reach it again. */
	if (pair->cancelled != 0 && pair->taken >= pair->cancelled) {
		gm_put(&pair->timeline->cancel, 0);
		pair->cancelled = 0;
	}
	GM_TRACEPOINT(submit, session->id, pair->row, pair->out.pos, n);
	slots = rich ? put(session, pair, jobs, n, state, true)
		     : put(session, pair, jobs, n, state, false);
	pair->out.pos += slots;
	pair->submitted += slots;
	if (pair->live == 0)
		session->busy[session->n_busy++] = pair;
	pair->live += slots;
	if (state == GM_TICKET_JOB)
		session->jobs += n;
	session->submitted += n;
	if (gm_ring_must_wake(&pair->waker))
		ring_doorbell(session, pair);
	GM_POINT("submit_done");
}

/* Find out whether any job names a buffer, and whether any may have a second
 * slot: 0 if none does.  No branch for each job. */
static inline void survey(const struct gpumap_job *jobs, uint32_t n,
			  uint64_t *ret_buffers, uint64_t *ret_more)
{
	uint64_t buffers = 0, masks = 0, more = 0;
	uint32_t ops = 0, runs;

	for (uint32_t i = 0; i < n; i++) {
		buffers |= jobs[i].dst_buffer | jobs[i].src_buffer;
		masks |= jobs[i].mask_buffer;
		more |= jobs[i].deadline_ns | jobs[i].n_waits;
		ops |= UINT32_C(1) << (jobs[i].op & 31);
	}
	runs = ops & UINT32_C(1) << GPUMAP_OP_RUN;
	ops &= UINT32_C(1) << GPUMAP_OP_MASK_ADD |
	       UINT32_C(1) << GPUMAP_OP_MASK_BOOL;
	*ret_buffers = (ops != 0 ? buffers | masks : buffers) | runs;
	*ret_more = more | ops | runs;
}

static int refuse_slots(const struct gpumap_session *s, uint32_t slots)
{
	return gm_refuse(s->map, -EINVAL,
			 "the jobs take %u slots of a queue that has %u: "
			 "submit at least one, and fewer at a time",
			 slots, s->depth);
}

int gpumap_submit(struct gpumap_session *session, uint32_t row,
		  const struct gpumap_job *jobs, uint32_t n)
{
	struct gm_queue_pair *pair;
	uint64_t buffers, more;
	uint32_t slots = n;
	int ret = gm_session_usable(session);

	if (ret != 0)
		return gm_refuse_plain(session->map, ret);
	if (n == 0 || n > session->depth)
		return refuse_slots(session, n);
	survey(jobs, n, &buffers, &more);
	if (more != 0)
		slots = gm_jobs_slots(jobs, n);
	if (slots > session->depth)
		return refuse_slots(session, slots);
	for (uint32_t i = 0; i < n; i++) {
		ret = buffers == 0 ? check_arena(session, &jobs[i])
				   : gm_job_check(session, row, &jobs[i]);
		if (ret == 0 && more != 0)
			ret = gm_waits_check(session, &jobs[i]);
		if (ret != 0)
			return ret;
	}
	ret = gm_session_pair(session, row, &pair);
	if (ret != 0)
		return ret;
	if (!gm_pair_begin(session, pair, slots))
		return gm_refuse_plain(session->map, -EAGAIN);
	if (buffers != 0) {
		ret = gm_buffers_show(session, row, jobs, n);
		if (ret != 0)
			return ret;
	}
	gm_session_tell_cpu(session);
	gm_pair_push(session, pair, jobs, n, GM_TICKET_JOB,
		     buffers != 0 || slots != n);
	return 0;
}

int gpumap_credit(struct gpumap_session *session, uint32_t row)
{
	int ret = gm_session_begin(session);
	struct gm_queue_pair *pair;

	if (ret != 0)
		return ret;
	if (row >= session->n_rows)
		return gm_session_lacks(session, row);
	pair = session->pairs[row];
	if (pair == NULL)
		return (int)session->depth;
	gm_pair_begin(session, pair, 0);
	return (int)(pair->out.mask + 1 - (pair->out.pos - pair->oldest));
}

int gpumap_submitted(struct gpumap_session *session, uint32_t row,
		     struct gpumap_time *ret_time)
{
	int ret = gm_session_begin(session);

	if (ret != 0)
		return ret;
	if (row >= session->n_rows)
		return gm_session_lacks(session, row);
	*ret_time = (struct gpumap_time){ .row = row };
	if (session->pairs[row] != NULL)
		ret_time->value = session->pairs[row]->submitted;
	return 0;
}

/* The pair of the row's entries in flight; NULL: there are none.  Returns 0 or
 * the error to return. */
static int begin_cancel(struct gpumap_session *s, uint32_t row,
			struct gm_queue_pair **ret_pair)
{
	int ret = gm_session_begin(s);

	if (ret != 0)
		return ret;
	if (row >= s->n_rows)
		return gm_session_lacks(s, row);
	*ret_pair = s->pairs[row];
	if (*ret_pair != NULL && (*ret_pair)->live == 0)
		*ret_pair = NULL;
	return 0;
}

int gpumap_cancel(struct gpumap_session *session, uint32_t row)
{
	struct gm_queue_pair *pair;
	int ret = begin_cancel(session, row, &pair);

	if (ret != 0 || pair == NULL)
		return ret;
	gm_session_tell_cpu(session);
	pair->cancelled = pair->submitted;
	gm_put(&pair->timeline->cancel, gm_cancel_make(pair->out.pos));
	GM_POINT("cancel_visible");
	/* The worker may sleep, or wait with the head of the queue. */
	ring_doorbell(session, pair);
	return 0;
}

/* The slot is the client's until the completion is taken: the worker may have
 * read it, but no other entry is in its place. */
static int cancel_cookie(struct gm_queue_pair *pair, uint64_t cookie)
{
	int n = 0;

	for (uint32_t i = 0; i <= pair->out.mask; i++) {
		const struct gm_ticket *t = &pair->tickets[i];

		if (t->state != GM_TICKET_JOB || t->cookie != cookie ||
		    t->part == GM_TICKET_HALF)
			continue;
		gm_entry_cancel(
			gm_ring_slot(&pair->out, t->position, GM_ENTRY_WORDS));
		n++;
	}
	return n;
}

int gpumap_cancel_job(struct gpumap_session *session, uint32_t row,
		      uint64_t cookie)
{
	struct gm_queue_pair *pair;
	int ret = begin_cancel(session, row, &pair);

	if (ret != 0 || pair == NULL)
		return ret;
	gm_session_tell_cpu(session);
	ret = cancel_cookie(pair, cookie);
	GM_POINT("cancel_job_visible");
	if (ret > 0)
		ring_doorbell(session, pair);
	return ret;
}

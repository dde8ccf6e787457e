/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The fields that a worker reads, of jobs that have a third operand, a second
 * dtype or a file: the peer holds the row, and the test reads its ring.
 */

#include "lib/internal.h"
#include "tests/support/peer/peer_session.h"

#define DEPTH 64u

static struct gpumap_session *session;
static const struct gm_queue_pair *pair;
static float *memory;
static uint64_t buffer;

static struct gpumap_job masked(uint32_t op)
{
	return (struct gpumap_job){ .op = op,
				    .dtype = GPUMAP_DTYPE_F32,
				    .n = 8,
				    .dst = memory,
				    .src = memory + 8,
				    .mask = memory + 16,
				    .mask_n = 5,
				    .mask_first = 3 };
}

/* Submit it, and read what is @back slots behind the newest. */
static bool read_slot(const struct gpumap_job *job, uint32_t back,
		      uint64_t words[GM_ENTRY_WORDS])
{
	struct gm_ring worker;

	if (!EQ(gpumap_submit(session, 0, job, 1), 0))
		return false;
	worker = pair->out;
	worker.pos -= 1 + back;
	return EQ(gm_ring_peek(&worker, GM_ENTRY_WORDS, 0, words), 1);
}

static struct gm_entry entry_of(const struct gpumap_job *job, uint32_t back)
{
	uint64_t words[GM_ENTRY_WORDS] = { 0 };
	struct gm_entry entry;

	OK(read_slot(job, back, words));
	gm_entry_unpack(words, &entry);
	EQ(entry.op, job->op);
	EQ(entry.dtype, job->dtype);
	EQ(entry.n, job->n);
	return entry;
}

static struct gm_more more_of(const struct gpumap_job *job)
{
	uint64_t words[GM_ENTRY_WORDS] = { 0 };
	struct gm_more more;

	OK(read_slot(job, 0, words));
	gm_more_unpack(words, &more);
	EQ(more.op, GM_OP_MORE);
	return more;
}

static uint64_t offset(const void *at)
{
	return (uint64_t)((const char *)at - session->arena);
}

static void masks_take_a_second_slot(void)
{
	static const uint32_t ops[] = { GPUMAP_OP_MASK_ADD,
					GPUMAP_OP_MASK_BOOL };

	for (uint32_t i = 0; i < 2; i++) {
		struct gpumap_job job = masked(ops[i]);
		struct gm_entry e = entry_of(&job, 1);
		struct gm_more more = more_of(&job);

		EQ(e.flags, GM_ENTRY_MORE);
		EQ(e.value, 5 | UINT64_C(3) << 32);
		EQ(e.dst, offset(job.dst));
		EQ(e.src, offset(job.src));
		EQ(more.third, offset(job.mask));
		EQ(more.third_buffer, 0);
		EQ(more.n_waits, 0);
		EQ(more.deadline_ns, 0);
	}
}

/* The mask alone of all three lies outside of the arena. */
static void a_mask_may_be_a_buffers(void)
{
	struct gpumap_job job = masked(GPUMAP_OP_MASK_ADD);
	struct gm_more more;
	struct gm_entry e;

	job.mask = NULL;
	job.mask_buffer = buffer;
	job.mask_at = 64;
	job.deadline_ns = 4711;
	e = entry_of(&job, 1);
	more = more_of(&job);
	EQ(e.dst_buffer, 0);
	EQ(e.src_buffer, 0);
	EQ(e.dst, offset(job.dst));
	EQ(more.third_buffer, buffer);
	EQ(more.third, 64);
	EQ(more.deadline_ns, 4711);
	job.mask_buffer++;
	EQ(gpumap_submit(session, 0, &job, 1), -ESTALE);
}

static void what_is_no_mask_is_refused(void)
{
	struct gpumap_job job = masked(GPUMAP_OP_MASK_BOOL);
	uint32_t slots = pair->out.pos;

	job.mask_first = job.mask_n;
	EQ(gpumap_submit(session, 0, &job, 1), -EINVAL);
	job.mask_first = job.mask_n = 0;
	EQ(gpumap_submit(session, 0, &job, 1), -EINVAL);
	job = masked(GPUMAP_OP_MASK_BOOL);
	job.mask = &slots; /* anywhere but in the arena */
	EQ(gpumap_submit(session, 0, &job, 1), -ERANGE);
	job.mask = NULL;
	EQ(gpumap_submit(session, 0, &job, 1), -ERANGE);
	EQ(pair->out.pos, slots);
}

/* A job without such an operand may have any value there. */
static void others_have_no_mask(void)
{
	struct gpumap_job job = masked(GPUMAP_OP_COPY);
	struct gm_entry e;

	job.mask_buffer = UINT64_MAX;
	job.mask = &e;
	job.mask_first = job.mask_n;
	e = entry_of(&job, 0);
	EQ(e.flags, 0);
	EQ(e.to, 0);
	EQ(e.value, 0);
	EQ(e.src, offset(job.src));
}

static void casts_say_what_to(void)
{
	struct gpumap_job job = masked(GPUMAP_OP_CAST);
	struct gm_entry e;

	job.to = GPUMAP_DTYPE_BF16;
	e = entry_of(&job, 0);
	EQ(e.to, GPUMAP_DTYPE_BF16);
	EQ(e.flags, 0);
	EQ(e.value, 0);
	job.to = 255;
	EQ(gpumap_submit(session, 0, &job, 1), -EINVAL);
	/* The last element of dst is a short one. */
	EQ(gm_job_dst_bytes(&(struct gpumap_job){ .op = GPUMAP_OP_CAST,
						  .dtype = GPUMAP_DTYPE_F32,
						  .to = GPUMAP_DTYPE_F16 }),
	   2);
}

static void sums_are_of_their_own_dtype(void)
{
	static const struct {
		uint32_t op, dtype, bytes;
	} each[] = {
		{ GPUMAP_OP_SUM, GPUMAP_DTYPE_U8, 8 },
		{ GPUMAP_OP_SUM, GPUMAP_DTYPE_F16, 4 },
		{ GPUMAP_OP_SUM, GPUMAP_DTYPE_BF16, 4 },
		{ GPUMAP_OP_SUM, GPUMAP_DTYPE_F32, 4 },
		{ GPUMAP_OP_SUM, GPUMAP_DTYPE_F64, 8 },
		{ GPUMAP_OP_SUM, GPUMAP_DTYPE_U32, 8 },
		{ GPUMAP_OP_MIN, GPUMAP_DTYPE_U8, 1 },
		{ GPUMAP_OP_MAX, GPUMAP_DTYPE_BF16, 2 },
	};

	for (uint32_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		struct gpumap_job job = { .op = each[i].op,
					  .dtype = each[i].dtype };

		if (!EQ(gm_job_dst_bytes(&job), each[i].bytes))
			NOTE("each[%u]", i);
	}
}

static void files_are_named_by_number(void)
{
	struct gpumap_job job = { .op = GPUMAP_OP_LOAD,
				  .dtype = GPUMAP_DTYPE_U8,
				  .n = 8,
				  .dst = memory,
				  .src = memory };

	EQ(gpumap_submit(session, 0, &job, 1), -EINVAL);
	job.dst_buffer = buffer; /* whatever else is named */
	EQ(gpumap_submit(session, 0, &job, 1), -EINVAL);
}

TAP_CASE()
{
	if (!client_begin("packed"))
		return tap_done();
	session = open_session(DEPTH, 0);
	memory = floats(session, 0, 64);
	if (memory != NULL &&
	    EQ(gpumap_buffer_alloc(session, 0, 4096, 0, GPUMAP_NO_DEADLINE,
				   &buffer),
	       0)) {
		gm_put(&peer.hold, UINT32_MAX);
		pair = session->pairs[0];
		masks_take_a_second_slot();
		a_mask_may_be_a_buffers();
		what_is_no_mask_is_refused();
		others_have_no_mask();
		casts_say_what_to();
		sums_are_of_their_own_dtype();
		files_are_named_by_number();
	}
	gpumap_session_close(session);
	return client_end();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/device/cuda_work.h"

#include <errno.h>
#include <string.h>

#include "agent/cuda/operators.h"
#include "agent/device/host_kernels.h"
#include "gpumap.h"

/* ---- operands ------------------------------------------------------------ */

int gm_cuda_take_unit(struct gm_cuda *cuda, struct gm_cuda_side *side)
{
	uint32_t i = (uint32_t)__builtin_ctz(~cuda->in_use);

	if (i >= GM_CUDA_UNITS)
		return -EAGAIN;
	side->unit = UINT32_C(1) << i;
	side->host = cuda->staging + i * GM_CUDA_SLICE_BYTES;
	side->at = cuda->staging_at + i * GM_CUDA_SLICE_BYTES;
	side->left = UINT64_MAX;
	cuda->in_use |= side->unit;
	return 0;
}

/* Look client memory up, from the byte at side->client on. */
static int find_piece(struct gm_cuda *cuda, struct gm_cuda_side *side,
		      bool is_written)
{
	struct gm_cuda_piece piece;
	uint64_t offset;
	int rc = gm_cuda_piece_at(cuda, side->client, &piece);

	if (rc < 0)
		return rc;
	if (is_written && !piece.writable)
		return -EINVAL;
	if (!piece.at)
		return -ENXIO;
	offset = (uintptr_t)side->client - piece.from;
	side->host = side->client;
	side->at = piece.at + offset;
	side->left = piece.bytes - offset;
	return 0;
}

/* Is any of these bytes in a piece that the device does not reach?  Bytes in no
 * piece are found out on the way. */
static bool is_staged(struct gm_cuda *cuda, const char *at, uint64_t bytes)
{
	struct gm_cuda_piece piece;

	for (uint64_t passed = 0; passed < bytes;) {
		if (gm_cuda_piece_at(cuda, at + passed, &piece) < 0)
			return false;
		if (!piece.at)
			return true;
		passed = piece.from + piece.bytes - (uintptr_t)at;
	}
	return false;
}

/* Client memory, of which @bytes are used.  Staging takes all of a slice or
 * nothing: it is filled before the first call, and brought back after the
 * last. */
static int set_client_side(struct gm_cuda *cuda, struct gm_cuda_side *side,
			   char *client, uint64_t bytes, bool is_written)
{
	struct gm_cuda_piece piece;
	int rc;

	side->client = client;
	if (!is_staged(cuda, side->client, bytes))
		return find_piece(cuda, side, is_written);
	if (bytes > GM_CUDA_SLICE_BYTES)
		return -EOPNOTSUPP; /* RUN is not cut */
	for (uint64_t passed = 0; passed < bytes;) {
		rc = gm_cuda_piece_at(cuda, side->client + passed, &piece);
		if (rc == 0 && is_written && !piece.writable)
			rc = -EINVAL;
		if (rc < 0)
			return rc;
		passed = piece.from + piece.bytes - (uintptr_t)side->client;
	}
	return gm_cuda_take_unit(cuda, side);
}

static void set_device_side(struct gm_cuda_side *side, uint64_t address)
{
	side->at = address;
	side->left = UINT64_MAX;
}

static int set_dst(struct gm_cuda *cuda, struct gm_cuda_slice *s,
		   uint64_t first)
{
	bool reduces = s->has & GM_OPS_ONE;
	uint64_t offset = reduces ? 0 : first * s->dst.each;

	if (s->task->dst)
		return set_client_side(cuda, &s->dst,
				       (char *)s->task->dst + offset,
				       (reduces ? 1 : s->n) * s->dst.each,
				       true);
	set_device_side(&s->dst, s->task->dst_address + offset);
	return 0;
}

static int set_src(struct gm_cuda *cuda, struct gm_cuda_slice *s,
		   uint64_t first)
{
	uint64_t offset = first * s->src.each;

	if (s->task->src)
		return set_client_side(cuda, &s->src,
				       (char *)(uintptr_t)s->task->src + offset,
				       s->n * s->src.each, false);
	set_device_side(&s->src, s->task->src_address + offset);
	return 0;
}

static int set_sides(struct gm_cuda *cuda, struct gm_cuda_slice *s,
		     uint64_t first)
{
	int rc = 0;

	if (s->dst.each && (!(s->has & GM_OPS_ONE) || s->is_last))
		rc = set_dst(cuda, s, first);
	if (rc == 0 && (s->has & GM_OPS_SRC))
		rc = set_src(cuda, s, first);
	if (rc == 0 && (s->has & GM_OPS_MASK))
		rc = gm_cuda_mask_find(cuda, s, first);
	return rc;
}

int gm_cuda_advance(struct gm_cuda *cuda, struct gm_cuda_side *side,
		    uint64_t bytes, bool is_written)
{
	side->at += bytes;
	if (side->host)
		side->host += bytes;
	if (side->left != UINT64_MAX)
		side->left -= bytes;
	if (side->client)
		side->client += bytes;
	return side->left ? 0 : find_piece(cuda, side, is_written);
}

/*
 * The processor copies the client's bytes now to the staging memory that the
 * device will read.  The copy waits until an earlier slice has brought back
 * its results.
 */
static int fill_staging(struct gm_cuda_slice *s,
			const struct gm_cuda_slot *before)
{
	bool reads_dst = s->dst.unit && (s->has & GM_OPS_READS_DST);
	bool has_params = s->task->kernel && s->task->mask_n;

	if (!s->src.unit && !reads_dst && !s->mask.unit && !has_params)
		return 0;
	if (before && before->dirty)
		return -EAGAIN;
	if (s->src.unit)
		memcpy(s->src.host, s->src.client, s->n * s->src.each);
	if (s->mask.unit)
		gm_cuda_mask_stage(s);
	if (reads_dst)
		memcpy(s->dst.host, s->dst.client, s->n * s->dst.each);
	return 0;
}

/* ---- calls of the driver ------------------------------------------------- */

static gm_cu_result copy(struct gm_cuda *cuda, const struct gm_cuda_slice *s,
			 uint64_t bytes, struct CUstream_st *stream)
{
	const struct gm_driver *cu = cuda->driver;
	gm_cu_result result;

	if (!s->dst.host && !s->src.host)
		return cu->cuMemcpyDtoDAsync(s->dst.at, s->src.at, bytes,
					     stream);
	if (!s->dst.host)
		return cu->cuMemcpyHtoDAsync(s->dst.at, s->src.host, bytes,
					     stream);
	if (!s->src.host)
		return cu->cuMemcpyDtoHAsync(s->dst.host, s->src.at, bytes,
					     stream);
	/* The driver does this while its caller waits; the lane has a place on
	 * the device for it. */
	result =
		cu->cuMemcpyHtoDAsync(cuda->bounce, s->src.host, bytes, stream);
	if (result != GM_CU_SUCCESS)
		return result;
	return cu->cuMemcpyDtoHAsync(s->dst.host, cuda->bounce, bytes, stream);
}

/* The kernel of an operator that has one, NULL where it is not to be had. */
static struct CUfunc_st *function_of(const struct gm_cuda *cuda,
				     const struct gm_task *task)
{
	const struct gm_cuda_functions *fn = &cuda->functions;

	if (task->op == GPUMAP_OP_FILL)
		return fn->of[GM_OPERATOR_FILL][GPUMAP_DTYPE_U8];
	if (task->op == GPUMAP_OP_CAST)
		return fn->cast[task->dtype][task->to];
	return fn->of[gm_operators_of(task->op)][task->dtype];
}

gm_cu_result gm_cuda_launch(struct gm_cuda *cuda, struct CUfunc_st *fn,
			    uint32_t op, uint64_t n, void **params,
			    struct CUstream_st *stream)
{
	struct gm_worker_exec l = gm_operators_launch(op, n, cuda->units);

	return cuda->driver->cuLaunchKernel(fn, l.blocks, 1, 1, l.threads, 1, 1,
					    0, stream, params, NULL);
}

/* One byte throughout, on the device: the driver's own fill takes that. */
static bool is_plain_fill(const struct gm_cuda_slice *s, uint64_t pattern)
{
	return !s->dst.host &&
	       pattern == (pattern & 0xff) * UINT64_C(0x0101010101010101);
}

static uint64_t pattern_of(const struct gm_cuda_slice *s)
{
	return gm_host_pattern(s->task->pattern, s->dst.each);
}

static gm_cu_result fill(struct gm_cuda *cuda, const struct gm_cuda_slice *s,
			 uint64_t n, struct CUstream_st *stream)
{
	uint64_t pattern = pattern_of(s), bytes = n * s->dst.each;
	gm_cu_ptr dst = s->dst.at;
	void *params[] = { &dst, &bytes, &pattern };

	if (is_plain_fill(s, pattern))
		return cuda->driver->cuMemsetD8Async(
			dst, (unsigned char)pattern, bytes, stream);
	return gm_cuda_launch(cuda, function_of(cuda, s->task),
			      GM_OPERATOR_FILL, bytes, params, stream);
}

/* A kernel takes as many parameters as it has: all but CAST's have alpha. */
static gm_cu_result compute(struct gm_cuda *cuda, const struct gm_cuda_slice *s,
			    uint64_t n, struct CUstream_st *stream)
{
	const struct gm_task *task = s->task;
	gm_cu_ptr dst = s->dst.at, src = s->src.at;
	double alpha = task->alpha;
	float rounded = (float)alpha;
	void *params[] = { &dst, &src, &n,
			   task->dtype == GPUMAP_DTYPE_F64 ? (void *)&alpha
							   : &rounded };

	return gm_cuda_launch(cuda, function_of(cuda, task),
			      gm_operators_of(task->op), n, params, stream);
}

static gm_cu_result mask(struct gm_cuda *cuda, struct gm_cuda_slice *s,
			 uint64_t n, struct CUstream_st *stream)
{
	gm_cu_ptr dst = s->dst.at, src = s->src.at, by = s->mask.at;
	uint64_t m = s->mask_n, at = s->mask_at;
	void *params[] = { &dst, &src, &n, &by, &m, &at };

	s->mask_at = (at + n) % m;
	return gm_cuda_launch(cuda, function_of(cuda, s->task),
			      gm_operators_of(s->task->op), n, params, stream);
}

static gm_cu_result issue(struct gm_cuda *cuda, struct gm_cuda_slice *s,
			  uint64_t n, struct CUstream_st *stream)
{
	switch (s->task->op) {
	case GPUMAP_OP_COPY:
		return copy(cuda, s, n, stream);
	case GPUMAP_OP_FILL:
		return fill(cuda, s, n, stream);
	case GPUMAP_OP_MASK_ADD:
	case GPUMAP_OP_MASK_BOOL:
		return mask(cuda, s, n, stream);
	default:
		return compute(cuda, s, n, stream);
	}
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * All of a slice, in as many calls as its operands have pieces: no call takes
 * memory of two registrations.
 *
 * ret_issued	elements that are on the lane or may be, also on failure
 */
static int issue_all(struct gm_cuda *cuda, struct gm_cuda_slice *s,
		     struct CUstream_st *stream, uint64_t *ret_issued)
{
	/* One of two calls may be on the lane though the other is refused. */
	bool is_two = s->dst.host && s->src.host;
	bool has_src = s->has & GM_OPS_SRC;
	uint64_t left = s->n, n;
	int rc;

	for (*ret_issued = 0; left > 0; left -= n) {
		n = least(left, s->dst.left / s->dst.each);
		if (has_src)
			n = least(n, s->src.left / s->src.each);
		if (n == 0)
			return -EINVAL; /* one element in two registrations */
		*ret_issued += is_two ? n : 0;
		rc = gm_cuda_check(cuda, issue(cuda, s, n, stream));
		if (rc < 0)
			return rc;
		*ret_issued += is_two ? 0 : n;
		if (n < left)
			rc = gm_cuda_advance(cuda, &s->dst, n * s->dst.each,
					     true);
		if (rc == 0 && n < left && has_src)
			rc = gm_cuda_advance(cuda, &s->src, n * s->src.each,
					     false);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* ---- a slice ------------------------------------------------------------- */

static bool can_do(const struct gm_cuda *cuda, const struct gm_cuda_slice *s)
{
	const struct gm_task *task = s->task;

	if (task->kernel)
		return true;
	if (s->has & GM_OPS_ONE)
		return gm_cuda_can_reduce(cuda, task);
	if (task->op == GPUMAP_OP_COPY || function_of(cuda, task))
		return true;
	return task->op == GPUMAP_OP_FILL && !task->dst &&
	       is_plain_fill(s, pattern_of(s));
}

static uint32_t lane_of(const struct gm_cuda_slice *s)
{
	const struct gm_task *task = s->task;

	if (task->op == GPUMAP_OP_COPY && !task->dst == !task->src)
		return GM_CUDA_ACROSS;
	if (task->op == GPUMAP_OP_COPY)
		return task->dst ? GM_CUDA_OUT : GM_CUDA_IN;
	/* A client's own kernel may take any time. */
	return task->n <= GM_CUDA_SMALL_BYTES / s->each && !task->kernel
		       ? GM_CUDA_SOON
		       : GM_CUDA_BULK;
}

/* Nothing on this lane before the slice @before has passed, on another. */
static int follow(struct gm_cuda *cuda, struct gm_cuda_lane *lane,
		  const struct gm_async_exec *after,
		  struct gm_cuda_slot *before)
{
	struct gm_cuda_lane *other;

	if (!before)
		return 0;
	other = &cuda->lanes[after->lane];
	if (other == lane || gm_cuda_slot_passed(cuda, other, before))
		return 0;
	return gm_cuda_check(cuda, cuda->driver->cuStreamWaitEvent(
					   lane->stream, before->event, 0));
}

/* Return values of start() for a slice that did not begin. */
static int refusal(int rc)
{
	switch (rc) {
	case -EINVAL:
	case -EOPNOTSUPP:
	case -ENOMEM:
	case -ENOTRECOVERABLE:
	case 0:
		return rc;
	default:
		return -EIO;
	}
}

/* Returns 0 or -errno; ret_issued is 0 where nothing can be on the lane. */
static int issue_slice(struct gm_cuda *cuda, struct gm_cuda_slice *s,
		       struct CUstream_st *stream, uint64_t *ret_issued)
{
	*ret_issued = 0;
	if (s->task->kernel)
		return gm_cuda_run(cuda, s, stream);
	return s->reducer ? gm_cuda_reduce(cuda, s, stream, ret_issued)
			  : issue_all(cuda, s, stream, ret_issued);
}

/* Everything is at hand.  Once a part is on the lane, all of it ends there. */
static int begin(struct gm_cuda *cuda, struct gm_cuda_lane *lane,
		 struct gm_cuda_slot *slot, struct gm_cuda_slice *s,
		 const struct gm_async_exec *after,
		 struct gm_async_exec *ret_flight)
{
	struct gm_cuda_slot *before = gm_cuda_slot_of(cuda, after);
	struct gm_cuda_landing landing = { 0 };
	uint64_t issued;
	int rc = follow(cuda, lane, after, before);

	if (rc < 0)
		return refusal(rc);
	if (s->dst.unit)
		landing = (struct gm_cuda_landing){
			.to = s->dst.client,
			.from = s->dst.host,
			.bytes = s->has & GM_OPS_ONE ? s->dst.each
						     : s->n * s->dst.each,
		};
	slot->units = s->dst.unit | s->src.unit | s->mask.unit;
	if (s->mask.client && !s->mask.unit)
		rc = gm_cuda_mask_gather(cuda, s, lane->bounce, lane->stream);
	if (rc < 0)
		return refusal(rc);
	rc = issue_slice(cuda, s, lane->stream, &issued);
	if (rc < 0 && (issued == 0 || rc == -ENOTRECOVERABLE))
		return refusal(rc);
	slot->failed = rc < 0;
	slot->landing = slot->failed ? (struct gm_cuda_landing){ 0 } : landing;
	/* In place too: the same memory may be staged under another address. */
	slot->dirty = s->dst.client || (before && before->dirty);
	return gm_cuda_slot_begin(cuda, lane, slot, ret_flight);
}

static int begin_or_not(struct gm_cuda *cuda, struct gm_cuda_slice *s,
			uint64_t first, const struct gm_async_exec *after,
			struct gm_async_exec *ret_flight)
{
	struct gm_cuda_lane *lane = &cuda->lanes[lane_of(s)];
	struct gm_cuda_slot *slot = gm_cuda_slot_free(lane);
	uint32_t in_use = cuda->in_use;
	int rc;

	if (!slot)
		return -EAGAIN;
	rc = set_sides(cuda, s, first);
	if (rc == 0 && (s->has & GM_OPS_ONE))
		rc = gm_cuda_reducer_take(cuda, lane_of(s), s->task, first,
					  &s->reducer);
	if (rc == 0)
		rc = fill_staging(s, gm_cuda_slot_of(cuda, after));
	if (rc == 0)
		rc = begin(cuda, lane, slot, s, after, ret_flight);
	if (rc < 0)
		cuda->in_use = in_use;
	if (s->reducer && (rc < 0 ? first == 0 : s->is_last))
		gm_cuda_reducer_give_back(s->reducer);
	return rc;
}

/* No work: it has ended when what is before it has. */
static void begin_nothing(const struct gm_async_exec *after,
			  struct gm_async_exec *ret_flight)
{
	*ret_flight = after ? *after
			    : (struct gm_async_exec){ .lane = GM_CUDA_NO_LANE };
}

/* The parts of the slice, but for the places of its memory. */
static int measure(const struct gm_cuda *cuda, const struct gm_task *task,
		   uint64_t first, uint64_t count, struct gm_cuda_slice *s)
{
	bool is_own = !task->dst && !task->src && !task->mask;
	uint64_t most = is_own ? cuda->dev.own_bytes : GM_CUDA_SLICE_BYTES;
	struct gm_task_sizes sizes;
	int rc = gm_task_sizes(task, &sizes);

	if (rc < 0)
		return rc;
	if (first > task->n || count > task->n - first ||
	    (task->kernel ? count < task->n : count > most / sizes.each))
		return -ERANGE;
	s->each = sizes.each;
	if ((s->has & GM_OPS_ONE) && first % GM_OPERATOR_CHUNK)
		return -ERANGE;
	s->n = count;
	s->is_last = first + count == task->n;
	s->dst.each = sizes.dst_each;
	s->src.each = sizes.src_each;
	s->mask.each = sizes.mask_each;
	/* A client's kernel may read or write what there is. */
	if (task->kernel)
		s->has = (s->src.each ? GM_OPS_SRC : 0) |
			 (s->dst.each ? GM_OPS_DST | GM_OPS_READS_DST : 0);
	return 0;
}

/* Bytes are copied, wherever an element begins. */
static uint64_t as_bytes(struct gm_cuda_slice *s, uint64_t first)
{
	if (s->task->op != GPUMAP_OP_COPY)
		return first;
	s->n *= s->each;
	s->dst.each = s->src.each = 1;
	return first * s->each;
}

int gm_cuda_start(struct gm_backend_device *dev, const struct gm_task *task,
		  uint64_t first, uint64_t count,
		  const struct gm_async_exec *after,
		  struct gm_async_exec *ret_flight)
{
	struct gm_cuda *cuda = (struct gm_cuda *)dev;
	struct gm_cuda_slice s = { .task = task, .has = gm_ops_has(task->op) };
	int rc = gm_ops_takes(task->op, task->dtype, task->to);

	if (gm_cuda_is_lost(cuda))
		return -ENOTRECOVERABLE;
	if (rc == 0 && task->op == GPUMAP_OP_RUN && !task->kernel)
		rc = -EOPNOTSUPP;
	if (rc == 0 && task->op != GPUMAP_OP_NOP)
		rc = measure(cuda, task, first, count, &s);
	if (rc < 0)
		return rc;
	if (task->op == GPUMAP_OP_NOP || count == 0) {
		begin_nothing(after, ret_flight);
		return 0;
	}
	first = as_bytes(&s, first);
	if (!can_do(cuda, &s))
		return -EOPNOTSUPP;
	return begin_or_not(cuda, &s, first, after, ret_flight);
}

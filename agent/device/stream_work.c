/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/device/stream.h"

#include <errno.h>
#include <string.h>

#include "agent/device/host_kernels.h"
#include "gpumap.h"

/* ---- operands ------------------------------------------------------------ */

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

int gm_stream_take_unit(struct gm_stream *stream, struct gm_stream_side *side)
{
	uint32_t i = (uint32_t)__builtin_ctz(~stream->in_use);

	if (i >= GM_STREAM_UNITS)
		return -EAGAIN;
	side->unit = UINT32_C(1) << i;
	side->at = (struct gm_gpu_at){ stream->staging,
				       i * GM_STREAM_SLICE_BYTES };
	side->left = UINT64_MAX;
	stream->in_use |= side->unit;
	return 0;
}

int gm_stream_locate(struct gm_stream *stream, struct gm_stream_side *side)
{
	const struct gm_stream_place *place = gm_stream_find(
		side->client ? &stream->client : &stream->own, side->address);

	if (!place || (side->is_written && !place->writable))
		return -EINVAL;
	if (!place->mem)
		return -ENXIO;
	side->at.mem = place->mem;
	side->at.offset = side->address - place->from;
	side->left = place->bytes - side->at.offset;
	return 0;
}

/* Is any of these bytes in a place that the device does not reach?  Bytes in no
 * place are found out on the way. */
static bool is_staged(struct gm_stream *stream,
		      const struct gm_stream_side *side, uint64_t bytes)
{
	struct gm_stream_side next = *side;

	next.is_written = false;
	for (uint64_t left = bytes; left > next.left;) {
		left -= next.left;
		next.address += next.left;
		switch (gm_stream_locate(stream, &next)) {
		case 0:
			break;
		case -ENXIO:
			return true;
		default:
			return false;
		}
	}
	return false;
}

/* Staging takes all of a slice: it is filled before the first call, and brought
 * back after the last. */
static int stage(struct gm_stream *stream, struct gm_stream_side *side,
		 uint64_t bytes)
{
	const struct gm_stream_place *place;

	if (bytes > GM_STREAM_SLICE_BYTES)
		return -EOPNOTSUPP; /* RUN is not cut */
	for (uint64_t passed = 0; passed < bytes;) {
		place = gm_stream_find(&stream->client, side->address + passed);
		if (!place || (side->is_written && !place->writable))
			return -EINVAL;
		passed = place->from + place->bytes - side->address;
	}
	return gm_stream_take_unit(stream, side);
}

/* Memory of a client, or else the device's own. */
static int set_side(struct gm_stream *stream, struct gm_stream_side *side,
		    const void *client, uint64_t address, uint64_t bytes)
{
	int rc;

	side->client = (char *)(uintptr_t)client;
	side->address = client ? (uintptr_t)client : address;
	rc = gm_stream_locate(stream, side);
	if (rc == -ENXIO || (rc == 0 && is_staged(stream, side, bytes)))
		rc = stage(stream, side, bytes);
	return rc;
}

static int set_sides(struct gm_stream *stream, struct gm_stream_slice *s,
		     uint64_t first)
{
	const struct gm_task *task = s->task;
	bool reduces = s->has & GM_OPS_ONE;
	uint64_t to = reduces ? 0 : first * s->dst.each;
	uint64_t from = first * s->src.each;
	int rc = 0;

	pthread_mutex_lock(&stream->lock);
	if (s->dst.each && (!reduces || s->is_last))
		rc = set_side(stream, &s->dst,
			      task->dst ? (char *)task->dst + to : NULL,
			      task->dst_address + to,
			      (reduces ? 1 : s->n) * s->dst.each);
	if (rc == 0 && (s->has & GM_OPS_SRC))
		rc = set_side(stream, &s->src,
			      task->src ? (const char *)task->src + from : NULL,
			      task->src_address + from, s->n * s->src.each);
	if (rc == 0 && (s->has & GM_OPS_MASK))
		rc = gm_stream_mask_find(stream, s, first);
	pthread_mutex_unlock(&stream->lock);
	return rc;
}

int gm_stream_advance(struct gm_stream *stream, struct gm_stream_side *side,
		      uint64_t bytes)
{
	int rc;

	side->at.offset += bytes;
	side->address += bytes;
	if (side->left != UINT64_MAX)
		side->left -= bytes;
	if (side->left)
		return 0;
	pthread_mutex_lock(&stream->lock);
	rc = gm_stream_locate(stream, side);
	pthread_mutex_unlock(&stream->lock);
	return rc;
}

int gm_stream_gather(struct gm_stream *stream, uint32_t lane,
		     struct gm_gpu_at to, struct gm_stream_side *from,
		     uint64_t bytes, bool goes_on)
{
	uint64_t count;
	int rc = 0;

	for (; rc == 0 && bytes > 0; bytes -= count, to.offset += count) {
		count = least(bytes, from->left);
		rc = stream->ops->copy(stream->gpu, lane, to, from->at, count);
		if (rc == 0 && (count < bytes || goes_on))
			rc = gm_stream_advance(stream, from, count);
	}
	return rc;
}

/*
 * The processor copies the client's bytes now to the staging memory that the
 * device will read.  The copy waits until an earlier slice has brought back
 * its results.
 */
static int fill_staging(struct gm_stream_slice *s,
			const struct gm_stream_slot *before)
{
	bool reads_dst = s->dst.unit && (s->has & GM_OPS_READS_DST);
	bool has_params = s->task->kernel && s->task->mask_n;

	if (!s->src.unit && !reads_dst && !s->mask.unit && !has_params)
		return 0;
	if (before && before->dirty)
		return -EAGAIN;
	if (s->src.unit)
		memcpy(gm_stream_unit(&s->src), s->src.client,
		       s->n * s->src.each);
	if (s->mask.unit)
		gm_stream_mask_stage(s);
	if (reads_dst)
		memcpy(gm_stream_unit(&s->dst), s->dst.client,
		       s->n * s->dst.each);
	return 0;
}

/* ---- calls of the driver ------------------------------------------------- */

static int copy(struct gm_stream *stream, const struct gm_stream_slice *s,
		uint64_t bytes)
{
	const struct gm_gpu_ops *ops = stream->ops;
	struct gm_gpu_at bounce = { stream->scratch, 0 };
	int rc;

	if (!s->dst.client || !s->src.client)
		return ops->copy(stream->gpu, s->lane, s->dst.at, s->src.at,
				 bytes);
	/* A driver does this while its caller waits; the lane has a place on
	 * the device for it. */
	rc = ops->copy(stream->gpu, s->lane, bounce, s->src.at, bytes);
	return rc < 0 ? rc
		      : ops->copy(stream->gpu, s->lane, s->dst.at, bounce,
				  bytes);
}

/* The kernel of an operator that has one, NULL where it is not to be had. */
static const struct gm_gpu_kernel *kernel_of(const struct gm_stream *stream,
					     const struct gm_task *task)
{
	const struct gm_stream_kernels *k = &stream->kernels;

	if (task->op == GPUMAP_OP_CAST)
		return k->cast[task->dtype][task->to];
	return k->of[task->op][task->op == GPUMAP_OP_FILL ? GPUMAP_DTYPE_U8
							  : task->dtype];
}

/* One byte throughout, on the device: the driver's own fill takes that. */
static bool is_plain_fill(const struct gm_stream_slice *s, uint64_t pattern)
{
	return !s->task->dst &&
	       pattern == (pattern & 0xff) * UINT64_C(0x0101010101010101);
}

static uint64_t pattern_of(const struct gm_stream_slice *s)
{
	return gm_host_pattern(s->task->pattern, s->dst.each);
}

int gm_stream_launch(struct gm_stream *stream, const struct gm_stream_slice *s,
		     struct gm_gpu_launch *launch)
{
	launch->op = s->task->op;
	launch->is_whole = true;
	for (uint32_t i = 0; i < launch->n_args; i++) {
		const struct gm_gpu_arg *arg = &launch->args[i];

		if (arg->kind == GM_GPU_ARG_AT && arg->each &&
		    (arg->at.mem->address + arg->at.offset) % arg->each)
			launch->is_whole = false;
	}
	return stream->ops->launch(stream->gpu, s->lane, launch);
}

static int fill(struct gm_stream *stream, const struct gm_stream_slice *s,
		uint64_t n)
{
	uint64_t pattern = pattern_of(s), bytes = n * s->dst.each;
	struct gm_gpu_launch launch = {
		.kernel = kernel_of(stream, s->task),
		.n = bytes,
		.n_args = 3,
		.args = { gm_stream_arg(s->dst.at, bytes),
			  gm_stream_number(bytes), gm_stream_number(pattern) },
	};

	launch.args[0].each = sizeof(pattern);
	if (is_plain_fill(s, pattern))
		return stream->ops->fill(stream->gpu, s->lane, s->dst.at, bytes,
					 (uint8_t)pattern);
	return gm_stream_launch(stream, s, &launch);
}

/* dst, src and n come first, but for FILL. */
static int compute(struct gm_stream *stream, struct gm_stream_slice *s,
		   uint64_t n)
{
	const struct gm_task *task = s->task;
	struct gm_gpu_launch launch = {
		.kernel = kernel_of(stream, task),
		.n = n,
		.n_args = 3,
		.args = { gm_stream_operand(s->dst.at, n, s->dst.each),
			  gm_stream_operand(s->src.at, n, s->src.each),
			  gm_stream_number(n) },
	};
	struct gm_gpu_arg *next = &launch.args[3];

	if (s->has & GM_OPS_MASK) {
		next[0] =
			gm_stream_operand(s->mask.at, s->mask_n, s->mask.each);
		next[1] = gm_stream_number(s->mask_n);
		next[2] = gm_stream_number(s->mask_at);
		s->mask_at = (s->mask_at + n) % s->mask_n;
		launch.n_args = 6;
	} else if (s->has & GM_OPS_ALPHA) {
		next->kind = GM_GPU_ARG_F32;
		next->f32 = (float)task->alpha;
		launch.n_args = 4;
		if (task->dtype == GPUMAP_DTYPE_F64)
			*next = (struct gm_gpu_arg){ .kind = GM_GPU_ARG_F64,
						     .f64 = task->alpha };
	}
	return gm_stream_launch(stream, s, &launch);
}

/* The kernel knows one address of an operand, and no more. */
static bool is_one_piece(const struct gm_stream_slice *s,
			 const struct gm_stream_side *side)
{
	return !side->each || side->left / side->each >= s->n;
}

/* A client's kernel over all items. */
static int run(struct gm_stream *stream, const struct gm_stream_slice *s)
{
	const struct gm_task *task = s->task;
	struct gm_gpu_launch launch = {
		.kernel = task->kernel->kernel,
		.n = s->n,
		.n_args = 3,
		.args = { gm_stream_arg(s->dst.at, s->n * s->dst.each),
			  gm_stream_arg(s->src.at, s->n * s->src.each),
			  gm_stream_number(s->n) },
		.params = task->mask,
		.params_bytes = task->mask_n,
	};

	if (!is_one_piece(s, &s->dst) || !is_one_piece(s, &s->src))
		return -EOPNOTSUPP;
	return gm_stream_launch(stream, s, &launch);
}

static int issue(struct gm_stream *stream, struct gm_stream_slice *s,
		 uint64_t n)
{
	if (s->task->op == GPUMAP_OP_COPY)
		return copy(stream, s, n);
	return s->task->op == GPUMAP_OP_FILL ? fill(stream, s, n)
					     : compute(stream, s, n);
}

/*
 * All of a slice, in as many calls as its operands have places: no call takes
 * memory of two.
 *
 * ret_issued	elements that are on the lane or may be, also on failure
 */
static int issue_all(struct gm_stream *stream, struct gm_stream_slice *s,
		     uint64_t *ret_issued)
{
	/* One of two calls may be on the lane though the other is refused. */
	bool is_two = s->dst.client && s->src.client;
	bool has_src = s->has & GM_OPS_SRC;
	uint64_t left = s->n, n;
	int rc;

	for (*ret_issued = 0; left > 0; left -= n) {
		n = least(left, s->dst.left / s->dst.each);
		if (has_src)
			n = least(n, s->src.left / s->src.each);
		if (n == 0)
			return -EINVAL; /* one element in two places */
		*ret_issued += is_two ? n : 0;
		rc = issue(stream, s, n);
		if (rc < 0)
			return rc;
		*ret_issued += is_two ? 0 : n;
		if (n < left)
			rc = gm_stream_advance(stream, &s->dst,
					       n * s->dst.each);
		if (rc == 0 && n < left && has_src)
			rc = gm_stream_advance(stream, &s->src,
					       n * s->src.each);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* ---- a slice ------------------------------------------------------------- */

static bool can_do(const struct gm_stream *stream,
		   const struct gm_stream_slice *s)
{
	const struct gm_task *task = s->task;

	if (task->kernel)
		return true;
	if (s->has & GM_OPS_ONE)
		return gm_stream_can_reduce(stream, task);
	if (task->op == GPUMAP_OP_COPY || kernel_of(stream, task))
		return true;
	return task->op == GPUMAP_OP_FILL && is_plain_fill(s, pattern_of(s));
}

static uint32_t lane_of(const struct gm_stream_slice *s)
{
	const struct gm_task *task = s->task;

	if (task->op == GPUMAP_OP_COPY && !task->dst == !task->src)
		return GM_GPU_ACROSS;
	if (task->op == GPUMAP_OP_COPY)
		return task->dst ? GM_GPU_OUT : GM_GPU_IN;
	/* A client's own kernel may take any time. */
	return task->n <= GM_STREAM_SMALL_BYTES / s->each && !task->kernel
		       ? GM_GPU_SOON
		       : GM_GPU_BULK;
}

/* Nothing on this lane before the slice @before has passed, on another. */
static int follow(struct gm_stream *stream, uint32_t lane,
		  const struct gm_async_exec *after,
		  struct gm_stream_slot *before)
{
	if (!before || after->lane == lane ||
	    gm_stream_slot_passed(&stream->lanes[after->lane], before))
		return 0;
	return stream->ops->after(stream->gpu, lane, after);
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
static int issue_slice(struct gm_stream *stream, struct gm_stream_slice *s,
		       uint64_t *ret_issued)
{
	*ret_issued = 0;
	if (s->task->kernel)
		return run(stream, s);
	return s->reducer ? gm_stream_reduce(stream, s, ret_issued)
			  : issue_all(stream, s, ret_issued);
}

/* Everything is at hand.  Once a part is on the lane, all of it ends there. */
static int begin(struct gm_stream *stream, struct gm_stream_slot *slot,
		 struct gm_stream_slice *s, const struct gm_async_exec *after,
		 struct gm_async_exec *ret_flight)
{
	struct gm_stream_slot *before = gm_stream_slot_of(stream, after);
	struct gm_stream_landing landing = { 0 };
	uint64_t issued;
	int rc = follow(stream, s->lane, after, before);

	if (rc < 0)
		return refusal(rc);
	if (s->dst.unit)
		landing = (struct gm_stream_landing){
			.to = s->dst.client,
			.from = gm_stream_unit(&s->dst),
			.bytes = s->has & GM_OPS_ONE ? s->dst.each
						     : s->n * s->dst.each,
		};
	slot->units = s->dst.unit | s->src.unit | s->mask.unit;
	if (s->mask.client && !s->mask.unit)
		rc = gm_stream_mask_gather(stream, s);
	if (rc < 0)
		return refusal(rc);
	rc = issue_slice(stream, s, &issued);
	if (rc < 0 && (issued == 0 || rc == -ENOTRECOVERABLE))
		return refusal(rc);
	slot->failed = rc < 0;
	slot->landing =
		slot->failed ? (struct gm_stream_landing){ 0 } : landing;
	/* In place too: the same memory may be staged under another address. */
	slot->dirty = s->dst.client || (before && before->dirty);
	return gm_stream_slot_begin(&stream->lanes[s->lane], slot, ret_flight);
}

static int begin_or_not(struct gm_stream *stream, struct gm_stream_slice *s,
			uint64_t first, const struct gm_async_exec *after,
			struct gm_async_exec *ret_flight)
{
	struct gm_stream_slot *slot =
		gm_stream_slot_free(&stream->lanes[s->lane]);
	uint32_t in_use = stream->in_use;
	int rc;

	if (!slot)
		return -EAGAIN;
	rc = set_sides(stream, s, first);
	if (rc == 0 && (s->has & GM_OPS_ONE))
		rc = gm_stream_reducer_take(stream, s, first);
	if (rc == 0)
		rc = fill_staging(s, gm_stream_slot_of(stream, after));
	if (rc == 0)
		rc = begin(stream, slot, s, after, ret_flight);
	if (rc < 0)
		stream->in_use = in_use;
	/* Work on the lane may still use it: the next user is behind that. */
	if (s->reducer && (rc < 0 ? first == 0 : s->is_last))
		s->reducer->task = NULL;
	return rc;
}

/* No work: it has ended when what is before it has. */
static void begin_nothing(const struct gm_async_exec *after,
			  struct gm_async_exec *ret_flight)
{
	*ret_flight =
		after ? *after : (struct gm_async_exec){ .lane = GM_GPU_LANES };
}

/* The parts of the slice, but for the places of its memory. */
static int measure(const struct gm_stream *stream, const struct gm_task *task,
		   uint64_t first, uint64_t count, struct gm_stream_slice *s)
{
	bool is_own = !task->dst && !task->src && !task->mask;
	uint64_t most = is_own ? gm_device_slice(&stream->dev, task)
			       : GM_STREAM_SLICE_BYTES;
	struct gm_task_sizes sizes;
	int rc = gm_task_sizes(task, &sizes);

	if (rc < 0)
		return rc;
	if (first > task->n || count > task->n - first ||
	    (task->kernel ? count < task->n : count > most / sizes.each))
		return -ERANGE;
	s->each = sizes.each;
	if ((s->has & GM_OPS_ONE) && first % GM_REDUCE_CHUNK)
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
static uint64_t as_bytes(struct gm_stream_slice *s, uint64_t first)
{
	if (s->task->op != GPUMAP_OP_COPY)
		return first;
	s->n *= s->each;
	s->dst.each = s->src.each = 1;
	return first * s->each;
}

int gm_stream_start(struct gm_backend_device *dev, const struct gm_task *task,
		    uint64_t first, uint64_t count,
		    const struct gm_async_exec *after,
		    struct gm_async_exec *ret_flight)
{
	struct gm_stream *stream = (struct gm_stream *)dev;
	struct gm_stream_slice s = { .task = task,
				     .has = gm_ops_has(task->op),
				     .dst = { .is_written = true } };
	int rc = gm_ops_takes(task->op, task->dtype, task->to);

	if (gm_stream_is_lost(stream->gpu))
		return -ENOTRECOVERABLE;
	if (rc == 0 && task->op == GPUMAP_OP_RUN && !task->kernel)
		rc = -EOPNOTSUPP;
	if (rc == 0 && task->op != GPUMAP_OP_NOP)
		rc = measure(stream, task, first, count, &s);
	if (rc < 0)
		return rc;
	if (task->op == GPUMAP_OP_NOP || count == 0) {
		begin_nothing(after, ret_flight);
		return 0;
	}
	first = as_bytes(&s, first);
	if (!can_do(stream, &s))
		return -EOPNOTSUPP;
	s.lane = lane_of(&s);
	return begin_or_not(stream, &s, first, after, ret_flight);
}

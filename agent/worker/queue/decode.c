/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/queue/decode.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "agent/worker/programs/program.h"
#include "gpumap.h"
#include "shm/queue.h"

/* Returns the violation that the entry shows, which the library never writes,
 * or NULL. */
static const char *breach(const struct gm_entry *entry)
{
	if (entry->op == GM_OP_MORE)
		return "a second slot without a first";
	if (!gm_ops_name(entry->op))
		return "unknown operation";
	if (entry->flags & ~(GM_ENTRY_MORE | GM_ENTRY_CANCELLED))
		return "unknown flag";
	if ((gm_ops_has(entry->op) & (GM_OPS_MASK | GM_OPS_PROGRAM)) &&
	    !(entry->flags & GM_ENTRY_MORE))
		return "a third operand without a second slot";
	if (entry->zero || (entry->to && !(gm_ops_has(entry->op) & GM_OPS_TO)))
		return "reserved bits are set";
	return NULL;
}

/* The same for the second slot of an entry with GM_ENTRY_MORE. */
static const char *breach_more(const struct gm_more *more)
{
	if (more->op != GM_OP_MORE)
		return "a first slot without a second";
	if (more->zero)
		return "reserved bits are set";
	if (more->n_waits > GM_WAITS_MAX)
		return "too many waits";
	for (uint32_t i = 0; i < GM_WAITS_MAX; i++)
		if (i < more->n_waits ? gm_time_lane(more->wait[i]) != 0
				      : more->wait[i] != 0)
			return "reserved bits are set";
	return NULL;
}

/* Location of an operand. */
struct place {
	char *at;         /* NULL: the worker has not mapped it */
	uint64_t address; /* 0: the device has not mapped it */
	bool borrowed;
};

static bool inside(uint64_t at, uint64_t bytes, uint64_t size)
{
	return bytes <= size && at <= size - bytes;
}

static uint64_t reached_as(const struct gm_decoder *decoder, uint64_t at,
			   uint64_t bytes)
{
	const struct gm_region *region;
	uint64_t rest;

	if (!decoder->reached || at >= decoder->arena_bytes)
		return 0;
	region = decoder->reached[at / decoder->reached_each];
	rest = at % decoder->reached_each;
	if (!region || !region->address || !inside(rest, bytes, region->bytes))
		return 0;
	return region->address + rest;
}

static int place_in_arena(const struct gm_decoder *decoder, uint64_t at,
			  uint64_t bytes, struct place *ret_place)
{
	if (!inside(at, bytes, decoder->arena_bytes))
		return -ERANGE;
	ret_place->at = decoder->arena + at;
	ret_place->address = reached_as(decoder, at, bytes);
	return 0;
}

static int place_in_buffer(const struct gm_decoder *decoder, uint64_t handle,
			   uint64_t at, uint64_t bytes, bool writes,
			   struct place *ret_place)
{
	const struct gm_buffer_entry *slot = NULL;

	if (decoder->buffers)
		slot = gm_buffers_find(decoder->buffers, handle);
	if (!slot || !slot->ready)
		return -ESTALE;
	if (slot->fd >= 0 || slot->program)
		return -EINVAL;
	if (!inside(at, bytes, slot->bytes))
		return -ERANGE;
	if (writes && (slot->flags & GPUMAP_BUFFER_READ_ONLY))
		return -EACCES;
	ret_place->borrowed = slot->borrowed;
	ret_place->at = slot->at ? slot->at + at : NULL;
	ret_place->address = slot->address ? slot->address + at : 0;
	return 0;
}

static int place(const struct gm_decoder *decoder, uint64_t handle, uint64_t at,
		 uint64_t bytes, bool writes, struct place *ret_place)
{
	return handle ? place_in_buffer(decoder, handle, at, bytes, writes,
					ret_place)
		      : place_in_arena(decoder, at, bytes, ret_place);
}

static bool is_another_rows(const struct gm_decoder *decoder, uint64_t handle)
{
	return handle && gm_handle_kind(handle) == GM_BUFFER_DEVICE &&
	       gm_handle_row(handle) != decoder->row;
}

/* The third operand.  The entry's value word has its number of elements. */
static int place_mask(const struct gm_decoder *decoder,
		      const struct gm_more *more, const struct gm_task_sizes *s,
		      struct gm_task *task)
{
	struct place mask = { 0 };
	int rc;

	if (task->mask_first >= task->mask_n)
		return -EINVAL;
	if (is_another_rows(decoder, more->third_buffer))
		return -EOPNOTSUPP;
	rc = place(decoder, more->third_buffer, more->third, s->mask, false,
		   &mask);
	task->mask = mask.at;
	task->mask_address = mask.address;
	return rc == 0 && more->third % s->mask_each ? -EINVAL : rc;
}

static int make_task(const struct gm_decoder *decoder,
		     const struct gm_entry *entry, const struct gm_more *more,
		     struct gm_decoded_entry *v)
{
	bool masks = gm_ops_has(entry->op) & GM_OPS_MASK;
	bool reads = gm_ops_has(entry->op) & GM_OPS_SRC;
	struct place dst = { 0 }, src = { 0 };
	struct gm_task_sizes s;
	int rc;

	v->task.n = entry->n;
	v->task.mask_n = masks ? (uint32_t)entry->value : 0;
	v->task.mask_first = masks ? (uint32_t)(entry->value >> 32) : 0;
	/* An empty reduction has no minimum; all reductions follow the same
	 * rule. */
	if (entry->n == 0 && (gm_ops_has(entry->op) & GM_OPS_ONE))
		return -EINVAL;
	if (gm_task_sizes(&v->task, &s) < 0)
		return -ERANGE; /* larger than any memory */
	rc = place(decoder, entry->dst_buffer, entry->dst, s.dst, true, &dst);
	if (rc == 0 && reads && entry->op != GPUMAP_OP_COPY &&
	    is_another_rows(decoder, entry->src_buffer))
		rc = -EOPNOTSUPP;
	if (rc == 0 && reads)
		rc = place(decoder, entry->src_buffer, entry->src, s.src, false,
			   &src);
	if (rc == 0 && masks)
		rc = place_mask(decoder, more, &s, &v->task);
	if (rc < 0)
		return rc;
	/* Arena and buffers are aligned for any element type. */
	if (entry->dst % s.dst_each || (reads && entry->src % s.src_each))
		return -EINVAL;

	v->task.dst = dst.at;
	v->task.dst_address = dst.address;
	v->task.src = src.at;
	v->task.src_address = src.address;
	/* The word is alpha or the pattern; both use the same bits. */
	_Static_assert(sizeof(v->task.alpha) == sizeof(entry->value), "bits");
	memcpy(&v->task.pattern, &entry->value, sizeof(entry->value));
	if (src.borrowed) {
		v->buffer = entry->n ? entry->src_buffer : 0;
		v->at = entry->src;
		return 0;
	}
	if (gm_task_overlaps(&v->task))
		return -EINVAL;
	v->each = s.each;
	v->bytes = entry->n * s.each;
	return 0;
}

static int check_alloc(const struct gm_decoder *decoder,
		       const struct gm_entry *entry, struct gm_decoded_entry *v)
{
	uint64_t handle = entry->dst_buffer;

	if (gm_handle_generation(handle) == 0 ||
	    gm_handle_kind(handle) != GM_BUFFER_DEVICE ||
	    gm_handle_row(handle) != decoder->row ||
	    gm_handle_index(handle) >= GM_BUFFERS_MAX)
		return -EINVAL;
	if (entry->n == 0 ||
	    (entry->value & ~(uint64_t)GPUMAP_BUFFER_EXPORTABLE))
		return -EINVAL;
	if (entry->n > INT64_MAX)
		return -ENOMEM;
	v->buffer = handle;
	v->flags = (uint32_t)entry->value;
	v->task.n = entry->n;
	return 0;
}

static int check_free(const struct gm_decoder *decoder,
		      const struct gm_entry *entry, struct gm_decoded_entry *v)
{
	const struct gm_buffer_entry *slot = NULL;

	if (decoder->buffers)
		slot = gm_buffers_find(decoder->buffers, entry->dst_buffer);
	if (!slot || !slot->ready)
		return -ESTALE;
	/* Memory that the agent registered or imported is released by FORGET
	 * only. */
	if (!slot->buffer || slot->buffer->imported)
		return -EINVAL;
	v->buffer = entry->dst_buffer;
	return 0;
}

static void check_more(const uint64_t *words, struct gm_more *ret_more,
		       struct gm_decoded_entry *v)
{
	if (words)
		gm_more_unpack(words, ret_more);
	v->why = breach_more(ret_more);
	v->deadline_ns = ret_more->deadline_ns;
	v->n_waits = ret_more->n_waits;
	memcpy(v->wait, ret_more->wait, sizeof(v->wait));
}

/* Loaded data is copied as bytes, so the destination needs no alignment. */
static int check_load(const struct gm_decoder *decoder,
		      const struct gm_entry *entry, struct gm_decoded_entry *v)
{
	const struct gm_buffer_entry *slot = NULL;
	struct place dst = { 0 };
	int rc;

	if (decoder->buffers)
		slot = gm_buffers_find(decoder->buffers, entry->src_buffer);
	if (!slot || !slot->ready)
		return -ESTALE;
	if (slot->fd < 0)
		return -EINVAL;
	if (!inside(entry->src, entry->n, GM_FILE_BYTES))
		return -ERANGE;
	rc = place(decoder, entry->dst_buffer, entry->dst, entry->n, true,
		   &dst);
	if (rc < 0 || entry->n == 0)
		return rc;
	v->task.dst = dst.at;
	v->task.dst_address = dst.address;
	v->task.n = entry->n;
	v->buffer = entry->src_buffer;
	v->at = entry->src;
	return 0;
}

/* One operand of a program: dst, which it writes, or src.  An operand without
 * bytes has no location. */
static int place_items(const struct gm_decoder *decoder,
		       const struct gm_entry *entry, bool is_dst,
		       struct place *ret_place)
{
	uint64_t handle = is_dst ? entry->dst_buffer : entry->src_buffer;
	uint64_t at = is_dst ? entry->dst : entry->src;
	uint32_t item_bytes =
		(uint32_t)(is_dst ? entry->value >> 32 : entry->value);
	uint64_t bytes;
	int rc;

	*ret_place = (struct place){ 0 };
	if (item_bytes == 0)
		return 0;
	if (at % gm_ops_dtype_bytes(entry->dtype) != 0)
		return -EINVAL;
	if (__builtin_mul_overflow(entry->n, item_bytes, &bytes))
		return -ERANGE;
	if (is_another_rows(decoder, handle))
		return -EOPNOTSUPP;
	rc = place(decoder, handle, at, bytes, is_dst, ret_place);
	return rc == 0 && ret_place->borrowed ? -EOPNOTSUPP : rc;
}

/* Both operands of a program.  A shared object can only access mapped
 * memory. */
static int place_tile(const struct gm_decoder *decoder,
		      const struct gm_entry *entry, struct gm_task *task)
{
	struct place dst, src;
	int rc = place_items(decoder, entry, true, &dst);

	if (rc == 0)
		rc = place_items(decoder, entry, false, &src);
	if (rc < 0)
		return rc;
	if (!task->kernel && ((entry->value >> 32 && !dst.at) ||
			      ((uint32_t)entry->value && !src.at)))
		return -EOPNOTSUPP;
	task->n = entry->n;
	task->pattern = entry->value;
	task->dst = dst.at;
	task->dst_address = dst.address;
	task->src = src.at;
	task->src_address = src.address;
	return gm_task_overlaps(task) ? -EINVAL : 0;
}

static int check_run(const struct gm_decoder *decoder,
		     const struct gm_entry *entry, const struct gm_more *more,
		     struct gm_decoded_entry *v)
{
	const struct gm_buffer_entry *slot = NULL;
	struct gm_task_sizes s;
	int rc;

	if (decoder->buffers)
		slot = gm_buffers_find(decoder->buffers, more->third_buffer);
	if (!slot || !slot->ready)
		return -ESTALE;
	if (!slot->program)
		return -EINVAL;
	v->task.mask_n = gm_params_bytes(more->third);
	if (v->task.mask_n > GM_PARAMS_MAX)
		return -ERANGE;
	if (!inside(gm_params_at(more->third), v->task.mask_n,
		    decoder->arena_bytes))
		return -ERANGE;
	v->task.kernel = slot->program->kernel;
	v->task.mask = decoder->arena + gm_params_at(more->third);
	rc = place_tile(decoder, entry, &v->task);
	if (rc < 0)
		return rc;
	if (!v->task.kernel) {
		v->program = entry->n ? slot->program : NULL;
		return 0;
	}
	if (gm_task_sizes(&v->task, &s) < 0)
		return -ERANGE;
	v->each = s.each;
	v->bytes = entry->n * s.each;
	return 0;
}

void *gm_decode_memory(const struct gm_decoder *decoder, uint64_t buffer,
		       uint64_t at, uint64_t bytes, bool writes)
{
	struct place there = { 0 };

	if (place(decoder, buffer, at, bytes, writes, &there) < 0 ||
	    there.borrowed)
		return NULL;
	return there.at;
}

bool gm_decode_place(const struct gm_decoder *decoder,
		     struct gm_comm_place what, uint64_t bytes, bool writes,
		     char **ret_at, uint64_t *ret_address)
{
	struct place there = { 0 };

	if (is_another_rows(decoder, what.buffer) ||
	    place(decoder, what.buffer, what.at, bytes, writes, &there) < 0 ||
	    there.borrowed)
		return false;
	*ret_at = there.at;
	*ret_address = there.address;
	return there.at || there.address;
}

_Static_assert(GPUMAP_OP_RECV - GPUMAP_OP_BARRIER == GM_COMM_RECV &&
		       GPUMAP_REDUCE_AVERAGE == (int)GM_COMBINE_AVERAGE,
	       "in the same order");

/* All ranks have to learn of an invalid collective, so it begins
 * nonetheless. */
static int check_collective(const struct gm_entry *entry,
			    struct gm_decoded_entry *v)
{
	v->buffer = (uint32_t)entry->value;
	v->ask = (struct gm_comm_ask){
		.op = entry->op - GPUMAP_OP_BARRIER,
		.dtype = entry->dtype,
		.reduce = entry->to,
		.peer = (uint32_t)(entry->value >> 32),
		.n = entry->n,
		.send = { entry->src_buffer, entry->src },
		.recv = { entry->dst_buffer, entry->dst },
	};
	return v->buffer ? 0 : -ESTALE;
}

int gm_decode_entry(const struct gm_decoder *decoder,
		    const uint64_t words[GM_ENTRY_WORDS], const uint64_t *more,
		    struct gm_decoded_entry *ret_verdict)
{
	struct gm_entry entry;
	struct gm_more second = { 0 };
	int rc;

	gm_entry_unpack(words, &entry);
	*ret_verdict = (struct gm_decoded_entry){
		.task = { .op = entry.op,
			  .dtype = entry.dtype,
			  .to = entry.to },
		.why = breach(&entry),
	};
	if (!ret_verdict->why && (entry.flags & GM_ENTRY_MORE))
		check_more(more, &second, ret_verdict);
	if (ret_verdict->why)
		return -EPROTO;
	rc = gm_ops_is_collective(entry.op)
		     ? check_collective(&entry, ret_verdict)
		     : 0;
	if (entry.incarnation != decoder->incarnation)
		return -EIO;
	if (gm_ops_is_collective(entry.op))
		return rc;
	rc = gm_ops_takes(entry.op, entry.dtype, entry.to);
	if (rc < 0)
		return rc;
	if (gm_ops_has(entry.op) & GM_OPS_COMPUTED)
		return make_task(decoder, &entry, &second, ret_verdict);
	if (entry.op == GPUMAP_OP_ALLOC)
		return check_alloc(decoder, &entry, ret_verdict);
	if (entry.op == GPUMAP_OP_FREE)
		return check_free(decoder, &entry, ret_verdict);
	if (entry.op == GPUMAP_OP_LOAD)
		return check_load(decoder, &entry, ret_verdict);
	if (entry.op == GPUMAP_OP_RUN)
		return check_run(decoder, &entry, &second, ret_verdict);
	return 0;
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "lib/scatter_combine.h"
#include "shm/rows.h"
#include "shm/split.h"

_Static_assert(GM_SPLIT_ROWS >= GM_ROWS, "a split over the whole table");

static uint64_t deadline_of(const struct gpumap_scatter_opts *opts)
{
	return opts->deadline_ns != 0 ? opts->deadline_ns : GPUMAP_NO_DEADLINE;
}

/* One scatter under way, on the caller's stack. */
struct plan {
	uint32_t n; /* tiles */
	bool falls_back;
	uint64_t deadline_ns;
	void *combined; /* the caller's, or NULL */
	/* one for each row of the caller's, or NULL */
	const uint64_t *dst_buffers;
	const uint64_t *src_buffers;
	struct gm_queue_pair *pairs[GM_ROWS];
	struct gpumap_tile tiles[GM_ROWS];
	uint16_t places[GM_ROWS]; /* index of a tile's row among the caller's */
};

/* The rows that take part when the caller names none, with their scores, as
 * they are now.  Both are read again whenever the table has changed. */
static const struct gm_field *read_field(struct gpumap_session *s)
{
	const struct gm_map *map = &s->map->map;
	uint64_t tick =
		gm_get_acquire(&map->header->tick); /* SEGMENT.changed */
	uint32_t generation = gpumap_generation(s->map);
	struct gm_field *field = &s->field;
	uint32_t n;

	if (field->n > 0 && field->tick == tick &&
	    field->generation == generation)
		return field;
	field->n = 0;
	field->starting = GM_ROWS;
	n = gm_rows_used(map);
	for (uint32_t row = 0; row < n && row < s->n_rows; row++) {
		struct gm_moving_image moving;
		struct gm_row_image facts;

		if (gm_rows_facts(map, row, &facts) != 0 ||
		    (facts.flags & GPUMAP_DEVICE_SERVES) == 0 ||
		    (facts.flags & GPUMAP_DEVICE_CORDONED) != 0 ||
		    gm_rows_moving(map, row, &moving) != 0)
			continue;
		if (gm_ready_is_awaited(&facts, &moving))
			field->starting = row;
		if (moving.state != GPUMAP_DEVICE_READY)
			continue;
		field->rows[field->n] = row;
		field->weights[field->n++] = moving.score;
	}
	field->tick = tick;
	field->generation = generation;
	return field;
}

static int refuse_all(struct gpumap_session *s)
{
	gm_session_look(s); /* an agent that ends drains its rows */
	if (s->broken != 0)
		return gm_session_begin(s);
	if (gm_get(&s->map->map.header->state) == GM_STATE_DRAINING)
		return gm_refuse_plain(s->map, -ESHUTDOWN);
	return gm_refuse(s->map, -ENODEV,
			 "no row of this session is READY: see gpumapctl "
			 "devices");
}

/* The same, once no worker is being started.  An agent that is not seen starts
 * none: the rows that serve do without. */
static int await_field(struct gpumap_session *s, uint64_t deadline_ns,
		       const struct gm_field **ret_field)
{
	uint32_t seen = gpumap_generation(s->map);
	const struct gm_field *field;
	int ret = 0;

	while ((field = read_field(s))->starting != GM_ROWS && ret != -ESTALE) {
		uint64_t now = gm_now_ns(), until = now + GM_NAP_NS;

		if (now >= deadline_ns)
			return gm_ready_refuse(s->map, -ENODEV,
					       field->starting);
		if (deadline_ns < until)
			until = deadline_ns;
		ret = gpumap_wait_change(s->map, seen, until);
		seen = gpumap_generation(s->map);
		gm_session_look(s);
		if (s->broken != 0)
			return gm_session_begin(s);
	}
	if (field->n == 0)
		return refuse_all(s);
	*ret_field = field;
	return 0;
}

/* Check the caller's rows.  The weights are the caller's, or the rows' scores
 * where it gives none. */
static int named_rows(struct gpumap_session *s,
		      const struct gpumap_scatter_opts *opts,
		      double ret_weights[GM_ROWS])
{
	uint64_t seen[GM_ROWS / 64] = { 0 };

	if (opts->n_rows == 0)
		return gm_refuse(s->map, -ENODEV,
				 "the list of rows is empty: name rows, or "
				 "leave rows NULL for all of them");
	if (opts->n_rows > GM_ROWS)
		return gm_refuse(s->map, -EINVAL,
				 "the list has %u rows, and a table %u",
				 opts->n_rows, GM_ROWS);
	for (uint32_t i = 0; i < opts->n_rows; i++) {
		uint32_t row = opts->rows[i];
		struct gm_moving_image moving;
		int ret;

		if (row >= s->n_rows || row >= gm_rows_used(&s->map->map))
			return gm_session_lacks(s, row);
		if ((seen[row / 64] >> row % 64 & 1) != 0)
			return gm_refuse(s->map, -EINVAL,
					 "row %u is listed twice", row);
		seen[row / 64] |= UINT64_C(1) << row % 64;
		if (opts->weights != NULL) {
			ret_weights[i] = opts->weights[i];
			continue;
		}
		ret = gm_rows_moving(&s->map->map, row, &moving);
		if (ret != 0)
			return ret;
		ret_weights[i] = moving.score;
	}
	return 0;
}

/* Split the elements: tiles for the rows that get any. */
static int lay_out(struct gpumap_session *s, uint64_t n,
		   const struct gpumap_scatter_opts *opts, struct plan *plan)
{
	const uint32_t *rows = opts->rows;
	const double *weights;
	double named[GM_ROWS];
	uint64_t counts[GM_ROWS];
	uint64_t first = 0;
	uint32_t k = opts->n_rows;
	int ret;

	if (rows != NULL) {
		ret = named_rows(s, opts, named);
		if (ret != 0)
			return ret;
		weights = named;
	} else {
		const struct gm_field *field = NULL;

		if (opts->n_rows != 0 || opts->weights != NULL)
			return gm_refuse(s->map, -EINVAL,
					 "n_rows or weights are set, and rows "
					 "is NULL: list the rows");
		ret = await_field(s, deadline_of(opts), &field);
		if (ret != 0)
			return ret;
		rows = field->rows;
		weights = field->weights;
		k = field->n;
	}
	ret = gm_split(n, weights, k, counts);
	if (ret != 0)
		return gm_refuse(s->map, ret,
				 "%" PRIu64 " elements are not to be split by "
				 "these weights: weights are numbers from 0 "
				 "on, one of them above it",
				 n);
	plan->n = 0;
	for (uint32_t i = 0; i < k; i++) {
		if (counts[i] == 0)
			continue;
		plan->places[plan->n] = (uint16_t)i;
		plan->tiles[plan->n++] = (struct gpumap_tile){ .row = rows[i],
							       .first = first,
							       .n = counts[i] };
		first += counts[i];
	}
	return 0;
}

/* Does an operand of @n elements end outside of the arena?  Tiles start at
 * multiples of elements, and a start must not wrap. */
static bool reaches(const struct gpumap_session *s, const void *memory,
		    uint64_t n, uint32_t element)
{
	uint64_t at = (uint64_t)((uintptr_t)memory - (uintptr_t)s->arena);

	if (element == 0) /* a program without this operand */
		return false;
	return at > s->arena_bytes || n > (s->arena_bytes - at) / element;
}

/* @what: dst or src. */
static int refuse_beyond(const struct gpumap_session *s, const char *what,
			 uint64_t n)
{
	return gm_refuse(s->map, -ERANGE,
			 "%" PRIu64 " elements at %s do not lie in the arena: "
			 "take as many from gpumap_alloc(), or name a buffer",
			 n, what);
}

/* Check the parts of the job that do not depend on the rows. */
static int validate(const struct gpumap_session *s,
		    const struct gpumap_job *job,
		    const struct gpumap_scatter_opts *opts)
{
	int ret = gm_job_known(s, job);
	uint32_t has;

	if (ret == 0)
		ret = gm_waits_check(s, job);
	if (ret != 0)
		return ret;
	has = gm_ops_has(job->op);
	if (opts->rows == NULL &&
	    (opts->dst_buffers != NULL || opts->src_buffers != NULL))
		return gm_refuse(s->map, -EINVAL,
				 "buffers are listed for each row, and rows is "
				 "NULL: list the rows");
	if ((has & GM_OPS_DST) != 0 && job->dst_buffer == 0 &&
	    opts->dst_buffers == NULL &&
	    reaches(s, job->dst, gm_job_dst_n(job), gm_job_dst_bytes(job)))
		return refuse_beyond(s, "dst", gm_job_dst_n(job));
	if ((has & GM_OPS_SRC) != 0 && job->src_buffer == 0 &&
	    opts->src_buffers == NULL &&
	    reaches(s, job->src, job->n, gm_job_src_bytes(job)))
		return refuse_beyond(s, "src", job->n);
	return 0;
}

/* The job of one tile.  Memory that all rows share is split like the elements;
 * a row that has memory of its own uses its beginning. */
static struct gpumap_job part_of(const struct gpumap_job *job,
				 const struct plan *plan, uint32_t i)
{
	const struct gpumap_tile *tile = &plan->tiles[i];
	bool is_one = (gm_ops_has(job->op) & GM_OPS_ONE) != 0;
	uint64_t dst_skip = (is_one ? i : tile->first) * gm_job_dst_bytes(job);
	uint64_t src_skip = tile->first * gm_job_src_bytes(job);
	struct gpumap_job part = *job;

	part.n = tile->n;
	part.cookie = i;
	if (job->op == GPUMAP_OP_NOP)
		return part;
	if (gm_job_is_masked(job))
		part.mask_first = (uint32_t)((job->mask_first +
					      tile->first % job->mask_n) %
					     job->mask_n);
	if (plan->dst_buffers != NULL)
		part.dst_buffer = plan->dst_buffers[plan->places[i]];
	else if (part.dst_buffer != 0)
		part.dst_at += dst_skip;
	else
		part.dst = (char *)job->dst + dst_skip;
	if (plan->src_buffers != NULL)
		part.src_buffer = plan->src_buffers[plan->places[i]];
	else if (part.src_buffer != 0)
		part.src_at += src_skip;
	else if (job->src != NULL) /* a FILL has no source */
		part.src = (const char *)job->src + src_skip;
	return part;
}

/* Check the buffers of each tile, and tell its row of them. */
static int check_buffers(struct gpumap_session *s, const struct gpumap_job *job,
			 const struct plan *plan)
{
	int ret = 0;

	for (uint32_t i = 0; ret == 0 && i < plan->n; i++) {
		struct gpumap_job part = part_of(job, plan, i);

		ret = gm_job_check(s, plan->tiles[i].row, &part);
		/* A scatter does not define how another row's memory is
		 * split. */
		if (gm_buffers_cross(plan->tiles[i].row, &part) &&
		    gm_buffer_find(s, part.src_buffer) != NULL)
			ret = gm_refuse(s->map, -EOPNOTSUPP,
					"a scatter reads no memory of other "
					"rows: copy it to each row first");
	}
	for (uint32_t i = 0; ret == 0 && i < plan->n; i++) {
		struct gpumap_job part = part_of(job, plan, i);

		ret = gm_buffers_show(s, plan->tiles[i].row, &part, 1);
	}
	return ret;
}

/* Open every row's queue pair and check the credit on each, before the first
 * tile is submitted. */
static int reserve(struct gpumap_session *s, const struct gpumap_job *job,
		   struct plan *plan)
{
	for (uint32_t i = 0; i < plan->n; i++) {
		int ret =
			gm_session_pair(s, plan->tiles[i].row, &plan->pairs[i]);

		if (ret != 0)
			return ret;
	}
	for (uint32_t i = 0; i < plan->n; i++)
		if (!gm_pair_begin(s, plan->pairs[i], gm_jobs_slots(job, 1)))
			return gm_refuse_plain(s->map, -EAGAIN);
	return gm_job_buffers(job) != 0 || plan->dst_buffers != NULL ||
			       plan->src_buffers != NULL
		       ? check_buffers(s, job, plan)
		       : 0;
}

static void push_tile(struct gpumap_session *s, struct plan *plan, uint32_t i,
		      const struct gpumap_job *part)
{
	/* The status until the completion arrives. */
	plan->tiles[i].status = -ETIME;
	gm_pair_push(s, plan->pairs[i], part, 1, GM_TICKET_TILE, true);
	plan->tiles[i].value = plan->pairs[i]->submitted;
}

/* ---- falling back -------------------------------------------------------- */

/* Is a tile's input unchanged even if the tile failed halfway? */
static bool keeps_input(const struct gpumap_job *job)
{
	uint32_t has = gm_ops_has(job->op);

	if (job->op == GPUMAP_OP_AXPY)
		return false;
	if ((has & GM_OPS_DST) == 0 || (has & GM_OPS_SRC) == 0)
		return true;
	return job->dst_buffer != job->src_buffer ||
	       (job->dst_buffer != 0 ? job->dst_at != job->src_at
				     : job->dst != job->src);
}

static int check_flags(const struct gpumap_session *s,
		       const struct gpumap_job *job,
		       const struct gpumap_scatter_opts *opts)
{
	if ((opts->flags & ~GPUMAP_SCATTER_FALLBACK) != 0)
		return gm_refuse_unknown(s->map);
	/* Results are combined here, so they must lie in the arena. */
	if (opts->ret_combined != NULL &&
	    ((gm_ops_has(job->op) & GM_OPS_ONE) == 0 || job->dst_buffer != 0 ||
	     opts->dst_buffers != NULL))
		return gm_refuse(s->map, -EINVAL,
				 "only results of a reduction in the arena are "
				 "combined: leave ret_combined NULL");
	if (opts->flags == 0)
		return 0;
	/* No other row reaches a row's own memory. */
	if (opts->dst_buffers != NULL || opts->src_buffers != NULL ||
	    job->op == GPUMAP_OP_LOAD || !keeps_input(job))
		return gm_refuse(s->map, -EINVAL,
				 "another row cannot do this job again, as it "
				 "changes its input or has memory of one row: "
				 "leave out GPUMAP_SCATTER_FALLBACK");
	return 0;
}

/* Did the row fail, and not the job? */
static bool is_rows_fault(int32_t status)
{
	return status == -EIO || status == -ENODEV || status == -EOPNOTSUPP ||
	       status == -ENOMEM;
}

static bool has_failed(const struct plan *plan, uint32_t row)
{
	for (uint32_t i = 0; i < plan->n; i++)
		if (plan->tiles[i].row == row && plan->tiles[i].status != 0)
			return true;
	return false;
}

/* A host row that serves and has not failed.  Returns whether there is one. */
static bool find_host(const struct gpumap_session *s, const struct plan *plan,
		      uint32_t *ret_row)
{
	const struct gm_map *map = &s->map->map;
	uint32_t n = gm_rows_used(map);

	for (uint32_t row = 0; row < n && row < s->n_rows; row++) {
		struct gm_moving_image moving;
		struct gm_row_image facts;

		if (has_failed(plan, row) ||
		    gm_rows_facts(map, row, &facts) != 0 ||
		    (facts.flags & GPUMAP_DEVICE_MAPPED) == 0 ||
		    gm_rows_moving(map, row, &moving) != 0 ||
		    moving.state != GPUMAP_DEVICE_READY)
			continue;
		*ret_row = row;
		return true;
	}
	return false;
}

/* Submit tile @i once more, on @row, and wait for it.  If it cannot be
 * submitted there, the tile stays as it is.  Returns 0, or the reason why the
 * wait ended. */
static int try_again(struct gpumap_session *s, const struct gpumap_job *job,
		     struct plan *plan, uint32_t i, uint32_t row)
{
	struct gpumap_job part = part_of(job, plan, i);
	struct gm_queue_pair *pair;
	int ret;

	if (gm_session_pair(s, row, &pair) != 0 ||
	    !gm_pair_begin(s, pair, gm_jobs_slots(job, 1)) ||
	    gm_job_check(s, row, &part) != 0 || gm_buffers_cross(row, &part) ||
	    gm_buffers_show(s, row, &part, 1) != 0)
		return 0;
	plan->pairs[i] = pair;
	plan->tiles[i].row = row;
	s->tiles_left = 1;
	push_tile(s, plan, i, &part);
	ret = gm_tiles_wait(s, plan->deadline_ns);
	if (ret != 0 && gm_tiles_abandon(pair))
		plan->tiles[i].status = ret;
	s->tiles_left = 0;
	return ret;
}

static int fall_back(struct gpumap_session *s, const struct gpumap_job *job,
		     struct plan *plan)
{
	uint32_t row;
	int ret = 0;

	if (!find_host(s, plan, &row))
		return 0;
	for (uint32_t i = 0; ret == 0 && i < plan->n; i++)
		if (is_rows_fault(plan->tiles[i].status))
			ret = try_again(s, job, plan, i, row);
	return ret;
}

/* ---- all of it ----------------------------------------------------------- */

static int run(struct gpumap_session *s, const struct gpumap_job *job,
	       struct plan *plan, struct gpumap_tile *ret_tiles, uint32_t n)
{
	int ret;

	gm_session_tell_cpu(s);
	s->tiles = plan->tiles;
	s->tiles_left = plan->n;
	for (uint32_t i = 0; i < plan->n; i++) {
		struct gpumap_job part = part_of(job, plan, i);

		push_tile(s, plan, i, &part);
	}
	ret = gm_tiles_wait(s, plan->deadline_ns);
	/* The caller waits no longer: tiles in flight end with the error. */
	for (uint32_t i = 0; ret != 0 && i < plan->n; i++)
		if (gm_tiles_abandon(plan->pairs[i]))
			plan->tiles[i].status = ret;
	s->tiles_left = 0;
	if (ret == 0 && plan->falls_back)
		ret = fall_back(s, job, plan);
	s->tiles = NULL;
	for (uint32_t i = 0; ret == 0 && i < plan->n; i++)
		ret = plan->tiles[i].status;
	ret = ret == 0 ? (int)plan->n : ret;
	if (ret > 0 && plan->combined != NULL)
		gm_scatter_combine(job->op,
				   gm_ops_result(job->op, job->dtype, job->to),
				   job->dst, (uint32_t)ret, plan->combined);
	if (ret_tiles != NULL) {
		memset(ret_tiles, 0, n * sizeof(*ret_tiles));
		memcpy(ret_tiles, plan->tiles, plan->n * sizeof(*ret_tiles));
	}
	return ret;
}

int gpumap_scatter(struct gpumap_session *session, const struct gpumap_job *job,
		   const struct gpumap_scatter_opts *opts,
		   struct gpumap_tile *ret_tiles, uint32_t n)
{
	struct gpumap_scatter_opts ours = { 0 };
	struct plan plan;
	int ret = gm_session_begin(session);

	if (ret == 0 && opts != NULL)
		ret = gm_map_size_in(session->map, &ours, sizeof(ours), opts);
	if (ret == 0)
		ret = validate(session, job, &ours);
	if (ret == 0)
		ret = check_flags(session, job, &ours);
	if (ret == 0)
		ret = lay_out(session, job->n, &ours, &plan);
	if (ret == 0 && ret_tiles != NULL && plan.n > n)
		ret = gm_refuse(session->map, -ENOBUFS,
				"%u tiles do not fit in an array of %u", plan.n,
				n);
	/* The arena has to have room for a result of each tile. */
	if (ret == 0 && (gm_ops_has(job->op) & GM_OPS_ONE) != 0 &&
	    job->dst_buffer == 0 && ours.dst_buffers == NULL &&
	    reaches(session, job->dst, plan.n, gm_job_dst_bytes(job)))
		ret = refuse_beyond(session, "dst", plan.n);
	plan.dst_buffers = ours.dst_buffers;
	plan.src_buffers = ours.src_buffers;
	plan.falls_back = ours.flags != 0;
	plan.combined = ours.ret_combined;
	if (ret == 0)
		ret = reserve(session, job, &plan);
	if (ret != 0)
		return ret;
	plan.deadline_ns = deadline_of(&ours);
	ret = run(session, job, &plan, ret_tiles, n);
	return ret < 0 ? gm_refuse_plain(session->map, ret) : ret;
}

int gpumap_scatter_alloc(struct gpumap_session *session, uint64_t n,
			 uint32_t element,
			 const struct gpumap_scatter_opts *opts,
			 void **ret_memory)
{
	struct gpumap_scatter_opts ours = { 0 };
	struct gm_spread_part parts[GM_ROWS];
	struct plan plan;
	uint64_t bytes;
	int ret = gm_session_begin(session);

	if (ret == 0 && opts != NULL)
		ret = gm_map_size_in(session->map, &ours, sizeof(ours), opts);
	if (ret == 0 && (n == 0 || element == 0))
		ret = gm_refuse(session->map, -EINVAL,
				"an allocation has at least one element of a "
				"byte");
	if (ret == 0 && __builtin_mul_overflow(n, element, &bytes))
		ret = gm_refuse(session->map, -ENOMEM,
				"%" PRIu64 " elements of %u bytes are more "
				"than any memory has",
				n, element);
	if (ret == 0)
		ret = lay_out(session, n, &ours, &plan);
	if (ret != 0)
		return ret;
	for (uint32_t i = 0; i < plan.n; i++)
		parts[i] = (struct gm_spread_part){ .at = plan.tiles[i].first *
							  element,
						    .row = plan.tiles[i].row };
	return gm_spread_alloc(session, bytes, parts, plan.n, ret_memory);
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Load a model step by step.  First allocate memory, on all rows at once: a
 * model that does not fit fails before anything is read.  Then load pieces.
 * When a step fails, submit nothing new, wait for the jobs in flight, and free
 * everything.
 *
 * Completions, wherever they are taken, only store their result.  The next turn
 * acts on it.
 */

#include "lib/model/model.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "shm/point.h"

/* ---- failure ------------------------------------------------------------- */

static const char *file_name(const struct gpumap_model *m, uint32_t file)
{
	return gm_reason_path(m->weights.files[file].name);
}

/* End the model with @ret.  Its reason is @what and the last refusal of the
 * agent or the library. */
static void fail_saying(struct gpumap_model *model, int ret, const char *what)
{
	const char *why = gpumap_refusal(model->map);
	char said[GM_WHY];

	memcpy(said, why, strnlen(why, GM_WHY - 1) + 1);
	said[GM_WHY - 1] = '\0';
	gm_reason_set(&model->why, ret, "%.100s: %.150s", what,
		      said[0] != '\0' ? said : gpumap_strerror(ret));
	gm_model_fail(model, ret);
}

static void alloc_failed(struct gpumap_model *m, const struct gm_model_op *op,
			 int32_t status)
{
	uint64_t bytes = op->lane->bytes;
	uint32_t row = op->lane->row;

	if (status == -ENOMEM)
		gm_reason_set(&m->why, status,
			      "row %u is full: what belongs there has %" PRIu64
			      " bytes; free some, or make a map with less of "
			      "it there",
			      row, bytes);
	else if (status == -EDQUOT)
		gm_reason_set(&m->why, status,
			      "this user may not have %" PRIu64
			      " bytes on row %u; have them reserved, by "
			      "gpumapctl plan --commit, or make a map with "
			      "less of it there",
			      bytes, row);
	else
		gm_reason_set(&m->why, status, "memory on row %u: %s", row,
			      gpumap_strerror(status));
}

static void load_failed(struct gpumap_model *m, const struct gm_model_op *op,
			int32_t status)
{
	const char *name = file_name(m, op->file);
	uint32_t row = op->lane->row;

	switch (status) {
	case -ENODATA:
		gm_reason_set(&m->why, status,
			      "%s has become shorter while it was loaded; "
			      "fetch it again",
			      name);
		break;
	case -EREMOTEIO:
		gm_reason_set(&m->why, status,
			      "%s: its storage, or its file system, failed a "
			      "read; see the kernel's log",
			      name);
		break;
	case -EACCES:
	case -EBADF:
		gm_reason_set(&m->why, status,
			      "%s: the worker of row %u may not read it; see "
			      "the kernel's audit log",
			      name, row);
		break;
	case -EIO:
		gm_reason_set(&m->why, status,
			      "the worker of row %u died while %s was loaded; "
			      "load the model again",
			      row, name);
		break;
	default:
		gm_reason_set(&m->why, status, "%s to row %u: %s", name, row,
			      gpumap_strerror(status));
	}
}

/* ---- completions --------------------------------------------------------- */

static void ended(struct gm_ending *ending, int32_t status)
{
	struct gm_model_op *op = (struct gm_model_op *)ending;
	struct gpumap_model *m = op->model;

	op->busy = false;
	op->lane->n_busy--;
	if (!op->is_alloc) {
		m->files[op->file].left -= op->bytes;
		m->loaded += status == 0 ? op->bytes : 0;
	} else if (status != 0) {
		gm_part_alloc_failed(m->session, m->buffers[op->buffer].handle);
		m->buffers[op->buffer].handle = 0;
	}
	if (status == 0 || m->state == GPUMAP_MODEL_ENDING)
		return;
	if (op->is_alloc)
		alloc_failed(m, op, status);
	else
		load_failed(m, op, status);
	gm_model_fail(m, status);
}

/* ---- submission ---------------------------------------------------------- */

static struct gm_model_op *free_op(struct gm_model_lane *lane)
{
	for (uint32_t i = 0; i < GM_MODEL_QUEUED; i++)
		if (!lane->ops[i].busy)
			return &lane->ops[i];
	return NULL;
}

/* The op is in flight. */
static void begin(struct gm_model_op *op)
{
	op->busy = true;
	op->lane->n_busy++;
	GM_POINT("model_submitted");
}

/* The flags of a row's buffers.  A model without a name may be on rows that
 * export nothing. */
static int find_flags(struct gpumap_model *m, uint32_t row, uint32_t *ret_flags)
{
	uint32_t flags;

	*ret_flags = m->flags;
	if ((m->flags & GPUMAP_BUFFER_EXPORTABLE) == 0 ||
	    gm_model_row_flags(m->map, row, &flags) != 0 ||
	    (flags & GPUMAP_DEVICE_EXPORTS) != 0)
		return 0;
	*ret_flags &= ~GPUMAP_BUFFER_EXPORTABLE;
	return m->name.text[0] == '\0'
		       ? 0
		       : gm_reason_set(&m->why, -EOPNOTSUPP,
				       "row %u shares no memory with other "
				       "processes: load the model without a "
				       "name, or onto other rows",
				       row);
}

/* The lane's next buffer.  Returns 0, or -EAGAIN for want of credit. */
static int begin_alloc(struct gpumap_model *m, struct gm_model_lane *lane)
{
	struct gm_model_buffer *mine = &m->buffers[lane->next_buffer];
	struct gm_model_op *op = &lane->ops[0];
	uint32_t flags;
	int ret = find_flags(m, lane->row, &flags);

	if (ret != 0) {
		gm_model_fail(m, ret);
		return 0;
	}
	if (lane->next_buffer == lane->buffer)
		lane->incarnation = gm_part_incarnation(m->session, lane->row);
	op->ending.ended = ended;
	ret = gm_part_alloc(m->session, lane->row, mine->bytes, flags,
			    &op->ending, &mine->handle);
	if (ret > 0)
		return -EAGAIN;
	if (ret != 0) {
		fail_saying(m, ret, "a buffer for the model");
		return 0;
	}
	mine->incarnation = lane->incarnation;
	op->is_alloc = true;
	op->buffer = lane->next_buffer++;
	op->bytes = mine->bytes;
	begin(op);
	return 0;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
	       a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* The header that was read holds only as long as the file is the same. */
static int check_again(struct gpumap_model *m, uint32_t file,
		       const struct stat *now)
{
	const struct stat *then = &m->weights.files[file].stat;

	if (now->st_size < then->st_size)
		return gm_reason_set(&m->why, -ENODATA,
				     "%s has become shorter since its header "
				     "was read; fetch it again",
				     file_name(m, file));
	if (!is_same(now, then))
		return gm_reason_set(&m->why, -ESTALE,
				     "%s has been changed since its header was "
				     "read; load the model again",
				     file_name(m, file));
	return 0;
}

/* A file is registered when its first piece is due, as a model may have
 * thousands. */
static int open_file(struct gpumap_model *m, uint32_t file)
{
	struct stat now;
	int fd, ret;

	if (m->files[file].handle != 0)
		return 0;
	fd = gm_weights_open(&m->weights, file, &now);
	if (fd < 0) {
		gm_model_fail(m, fd);
		return fd;
	}
	ret = check_again(m, file, &now);
	if (ret != 0)
		gm_model_fail(m, ret);
	else
		ret = gpumap_buffer_register_file(m->session, fd, 0,
						  &m->files[file].handle);
	close(fd);
	if (ret != 0 && m->state != GPUMAP_MODEL_ENDING)
		fail_saying(m, ret, file_name(m, file));
	return ret;
}

/* Submit the next piece.  Returns as begin_alloc(). */
static int begin_load(struct gpumap_model *m, struct gm_model_lane *lane,
		      struct gm_model_op *op)
{
	const struct gm_model_run *run = &m->runs[lane->run];
	uint64_t bytes = run->bytes - lane->done, most;
	struct gpumap_job job;
	int ret;

	/* A piece ends at a multiple of the alignment in its file, so that
	 * reads take whole blocks. */
	most = GM_MODEL_PIECE - (run->from + lane->done) % GM_MODEL_PIECE_ALIGN;
	bytes = bytes < most ? bytes : most;

	if (open_file(m, run->file) != 0)
		return 0;
	job = (struct gpumap_job){ .op = GPUMAP_OP_LOAD,
				   .dtype = GPUMAP_DTYPE_U8,
				   .n = bytes,
				   .dst_buffer = m->buffers[run->buffer].handle,
				   .dst_at = run->to + lane->done,
				   .src_buffer = m->files[run->file].handle,
				   .src_at = run->from + lane->done };
	op->ending.ended = ended;
	ret = gm_part_submit(m->session, lane->row, &job, &op->ending);
	if (ret > 0)
		return -EAGAIN;
	if (ret != 0) {
		fail_saying(m, ret, file_name(m, run->file));
		return 0;
	}
	op->is_alloc = false;
	op->file = run->file;
	op->buffer = run->buffer;
	op->bytes = bytes;
	lane->done += bytes;
	if (lane->done == run->bytes) {
		lane->run++;
		lane->done = 0;
	}
	begin(op);
	return 0;
}

/* ---- a step -------------------------------------------------------------- */

/* Is there nothing in flight in the lane's queue?  Where it has no room either,
 * that is because of completions that only the caller can take. */
static bool is_stuck(const struct gpumap_model *m,
		     const struct gm_model_lane *lane)
{
	return lane->n_busy == 0 && gm_part_row_is_idle(m->session, lane->row);
}

int gm_model_turn_alloc(struct gpumap_model *model)
{
	struct gpumap_model *m = model;
	bool all = true;
	int ret = 0;

	for (uint32_t i = 0; i < m->n_lanes; i++) {
		struct gm_model_lane *lane = &m->lanes[i];

		if (lane->n_busy == 0 && lane->next_buffer < lane->end_buffer &&
		    m->state == GPUMAP_MODEL_ALLOCATING &&
		    begin_alloc(m, lane) != 0 && is_stuck(m, lane))
			ret = -EAGAIN;
		all = all && lane->n_busy == 0 &&
		      lane->next_buffer == lane->end_buffer;
	}
	if (all && m->state == GPUMAP_MODEL_ALLOCATING) {
		/* Export before reading: a model that may not be shared is not
		 * read. */
		int error = m->name.text[0] != '\0' ? gm_model_export(m) : 0;

		if (error != 0) {
			fail_saying(m, error, m->name.text);
			return ret;
		}
		m->state = GPUMAP_MODEL_LOADING;
		m->begun_ns = gm_now_ns();
	}
	return ret;
}

/* No completion reports memory that was lost with its worker: compare
 * incarnations. */
static bool is_there(struct gpumap_model *m)
{
	for (uint32_t i = 0; i < m->n_lanes; i++) {
		const struct gm_model_lane *lane = &m->lanes[i];

		if (gm_part_incarnation(m->session, lane->row) ==
		    lane->incarnation)
			continue;
		gm_reason_set(&m->why, -EIO,
			      "the worker of row %u died while the model was "
			      "loaded; load it again",
			      lane->row);
		gm_model_fail(m, -EIO);
		return false;
	}
	return true;
}

/* Forget the files that have no pieces left. */
static void forget_files(struct gpumap_model *m, bool all)
{
	for (uint32_t i = 0; m->files != NULL && i < m->weights.n_files; i++) {
		struct gm_model_file *file = &m->files[i];

		if (file->handle == 0 || (file->left != 0 && !all))
			continue;
		gpumap_buffer_unregister(m->session, file->handle);
		file->handle = 0;
	}
}

int gm_model_turn_load(struct gpumap_model *model)
{
	struct gpumap_model *m = model;
	const struct gm_model_look *last;
	int ret = 0, error = 0;
	bool all = true;
	uint64_t now;

	for (uint32_t i = 0; i < m->n_lanes; i++) {
		struct gm_model_lane *lane = &m->lanes[i];
		struct gm_model_op *op;

		while (m->state == GPUMAP_MODEL_LOADING &&
		       lane->run < lane->end_run &&
		       (op = free_op(lane)) != NULL) {
			if (begin_load(m, lane, op) == 0)
				continue;
			if (is_stuck(m, lane))
				ret = -EAGAIN;
			break;
		}
		all = all && lane->n_busy == 0 && lane->run == lane->end_run;
	}
	forget_files(m, false);
	now = gm_now_ns();
	/* All is loaded: share it if it has a name. */
	if (all && m->state == GPUMAP_MODEL_LOADING && is_there(m)) {
		if (m->name.text[0] != '\0')
			error = gm_model_publish(m);
		now = gm_now_ns();
		if (error != 0) {
			fail_saying(m, error, m->name.text);
		} else {
			m->state = GPUMAP_MODEL_LOADED;
			m->ended_ns = now;
		}
	}
	last = &m->looks[(m->n_looks - 1) % GM_MODEL_LOOKS];
	if (m->n_looks == 0 || now - last->ns >= GM_MODEL_LOOK_NS)
		m->looks[m->n_looks++ % GM_MODEL_LOOKS] =
			(struct gm_model_look){ now, m->loaded };
	return ret;
}

static int give_back(struct gpumap_model *model)
{
	struct gpumap_session *s = model->session;
	int ret = 0;

	if (s == NULL || gm_part_state(s) != 0)
		return 0; /* everything has ended with the session */
	forget_files(model, true);
	gm_model_unname(model);
	for (uint32_t i = 0; i < model->n_buffers; i++) {
		struct gm_model_buffer *buffer = &model->buffers[i];

		if (gpumap_buffer_free(s, buffer->handle) == -EAGAIN)
			ret = -EAGAIN;
		else
			buffer->handle = 0;
	}
	return gm_part_state(s) != 0 ? 0 : ret;
}

int gm_model_turn_end(struct gpumap_model *model)
{
	struct gpumap_model *m = model;

	/* Do not wait for jobs of a session that has ended. */
	for (uint32_t i = 0; i < m->n_lanes; i++)
		if (m->lanes[i].n_busy != 0 && gm_part_state(m->session) == 0)
			return 0;
	if (give_back(m) == 0) {
		m->state = GPUMAP_MODEL_FAILED;
		return 0;
	}
	for (uint32_t i = 0; i < m->n_lanes; i++)
		if (!gm_part_row_is_idle(m->session, m->lanes[i].row))
			return 0;
	return -EAGAIN;
}

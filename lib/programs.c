/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Programs that RUN runs.  A program has a handle like a buffer, and rows are
 * told of it like of a registration: on first use.
 */

#include "lib/internal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define NAME_BYTES sizeof(((struct gm_program_ask *)0)->name)

_Static_assert(GPUMAP_PARAMS_MAX == GM_PARAMS_MAX, "one limit");

int gm_program_show(struct gpumap_session *session, uint32_t row,
		    const struct gm_client_buffer *program)
{
	struct gm_program_ask body = { .handle = program->handle, .row = row };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_PROGRAM, body) };

	if (program->image)
		call.carries = &program->fd;
	memcpy(body.name, program->name, strlen(program->name));
	return gm_session_call(session, &call, 0);
}

/* Load a program.  @fd is an image's, and is taken over; -1: none. */
static int load(struct gpumap_session *session, uint32_t row, const char *name,
		int fd, uint64_t *ret_program)
{
	struct gm_client_buffer *program;
	int ret = gm_buffers_take(session, GM_BUFFER_PROGRAM, 0, &program);

	if (ret != 0) {
		if (fd >= 0)
			close(fd);
		return ret;
	}
	program->fd = fd;
	program->image = fd >= 0;
	program->name = strdup(name);
	ret = program->name != NULL
		      ? gm_program_show(session, row, program)
		      : gm_refuse_memory(session->map, NAME_BYTES);
	if (ret != 0) {
		gm_buffer_drop(program);
		return ret;
	}
	program->rows[row / 64] |= UINT64_C(1) << row % 64;
	*ret_program = program->handle;
	return 0;
}

int gpumap_program_load(struct gpumap_session *session, uint32_t row,
			const char *name, uint64_t *ret_program)
{
	struct gm_queue_pair *pair;
	int ret = gm_session_begin(session);

	if (ret == 0 && (name == NULL || strlen(name) >= NAME_BYTES))
		ret = gm_refuse(session->map, -EINVAL,
				"a program's name has at most %zu bytes",
				NAME_BYTES - 1);
	if (ret == 0)
		ret = gm_session_pair(session, row, &pair);
	return ret != 0 ? ret : load(session, row, name, -1, ret_program);
}

int gpumap_program_load_image(struct gpumap_session *session, uint32_t row,
			      const struct gpumap_program_image *image,
			      uint64_t *ret_program)
{
	struct gpumap_program_image ours = { 0 };
	const char *kernel;
	struct gm_queue_pair *pair;
	int ret = gm_session_begin(session);

	if (ret == 0)
		ret = gm_map_size_in(session->map, &ours, sizeof(ours), image);
	if (ret != 0)
		return ret;
	kernel = ours.kernel != NULL ? ours.kernel : "gpumap_program";
	if (ours.image == NULL || ours.bytes == 0 ||
	    strlen(kernel) >= NAME_BYTES)
		return gm_refuse(session->map, -EINVAL,
				 "an image has bytes, and its kernel's name at "
				 "most %zu",
				 NAME_BYTES - 1);
	ret = gm_session_pair(session, row, &pair);
	if (ret == 0)
		ret = gm_client_memory_file("gpumap-image", ours.image,
					    ours.bytes);
	return ret < 0 ? ret : load(session, row, kernel, ret, ret_program);
}

int gpumap_program_unload(struct gpumap_session *session, uint64_t program)
{
	struct gm_client_buffer *mine;
	int ret = gm_buffer_mine(session, program, &mine);

	if (ret != 0 || program == 0)
		return ret;
	if (gm_handle_kind(program) != GM_BUFFER_PROGRAM)
		return gm_refuse(session->map, -EINVAL,
				 "this handle is no program's: see "
				 "gpumap_buffer_free() and "
				 "gpumap_buffer_unregister()");
	ret = gm_buffer_forget(session, program);
	if (ret == 0)
		gm_buffer_drop(mine);
	return ret;
}

static int check_params(const struct gpumap_session *s,
			const struct gpumap_job *job)
{
	uint64_t at = (uint64_t)((uintptr_t)job->params - (uintptr_t)s->arena);

	if (job->params_bytes == 0)
		return 0;
	if (job->params_bytes > GPUMAP_PARAMS_MAX)
		return gm_refuse(s->map, -EINVAL,
				 "a job has %u bytes of parameters, and %u are "
				 "the most: put more into memory",
				 job->params_bytes, GPUMAP_PARAMS_MAX);
	if (at >= s->arena_bytes || job->params_bytes > s->arena_bytes - at ||
	    at >> GM_PARAMS_AT_BITS != 0)
		return gm_refuse(s->map, -ERANGE,
				 "the parameters of a job lie in memory of "
				 "gpumap_alloc()");
	return 0;
}

int gm_programs_check(const struct gpumap_session *session, uint32_t row,
		      const struct gpumap_job *job)
{
	int ret = check_params(session, job);

	if (job->reserved != 0 ||
	    gm_handle_kind(job->program) != GM_BUFFER_PROGRAM)
		return gm_refuse(session->map, -EINVAL,
				 "RUN names a program of gpumap_program_load() "
				 "or gpumap_program_load_image(), and reserved "
				 "is 0");
	if (gm_buffer_find(session, job->program) == NULL)
		return gm_buffer_missing(session, job->program);
	if (ret == 0 && job->dst_item_bytes != 0)
		ret = gm_buffers_check_one(
			session, row, job->op,
			&(struct gm_operand){ job->dst_buffer, job->dst_at,
					      job->dst, job->n,
					      job->dst_item_bytes, true });
	if (ret == 0 && job->src_item_bytes != 0)
		ret = gm_buffers_check_one(
			session, row, job->op,
			&(struct gm_operand){ job->src_buffer, job->src_at,
					      job->src, job->n,
					      job->src_item_bytes, false });
	return ret;
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Publish masks.  A tensor goes along in a memfd, and only a session may send a
 * descriptor: the call opens one for as long as it lasts. */

#include "lib/internal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "shm/objects.h"

static int fill_body(struct gpumap *map, const struct gpumap_mask_request *r,
		     struct gm_mask_publish *body)
{
	size_t n = r->map != NULL ? gm_object_name(r->map) : 0;
	int ret = gm_map_put_name(map, r->name, body->name);

	if (ret != 0)
		return ret;
	if (r->map != NULL && n == 0)
		return gm_refuse(map, -EINVAL,
				 "a map's name has between 1 and 63 bytes");
	if ((r->map != NULL) == (r->n_rows != 0))
		return gm_refuse(map, -EINVAL,
				 "a mask is for the rows of a map, or for a "
				 "list of rows: name one of the two");
	if (r->n_rows > GM_ROWS || (r->n_rows != 0 && r->rows == NULL))
		return gm_refuse(map, -EINVAL, "a list has 1 to 256 rows");
	if (n != 0)
		memcpy(body->map, r->map, n);
	body->kind = r->kind;
	body->form = r->form;
	body->dtype = r->dtype;
	body->rank = r->rank;
	memcpy(body->shape, r->shape, sizeof(body->shape));
	body->tgt_len = r->tgt_len;
	body->past_kv_len = r->past_kv_len;
	body->sliding_window = r->sliding_window;
	body->chunk_size = r->chunk_size;
	body->n_rows = r->n_rows;
	return 0;
}

/* ---- the tensor ---------------------------------------------------------- */

static int check_tensor(struct gpumap *map, const struct gpumap_mask_request *r,
			uint64_t *ret_bytes)
{
	uint64_t bytes = gm_ops_dtype_bytes(r->dtype);

	if (r->rank == 0 || r->rank > GPUMAP_MASK_RANK_MAX)
		return gm_refuse(map, -EINVAL, "a mask has 1 to 4 dimensions");
	for (uint32_t i = 0; i < r->rank; i++)
		if (__builtin_mul_overflow(bytes, r->shape[i], &bytes))
			return gm_refuse(map, -EOVERFLOW,
					 "a mask of 2^64 bytes or more");
	if (bytes == 0 || r->data == NULL)
		return gm_refuse(map, -EINVAL, "the mask has no elements");
	*ret_bytes = bytes;
	return 0;
}

static int publish_tensor(struct gpumap *map, struct gm_call *call,
			  const struct gpumap_mask_request *r)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .depth = 16,
					    .arena_bytes = GM_PAGE };
	struct gpumap_session *session;
	uint64_t bytes = 0;
	int fd, ret = check_tensor(map, r, &bytes);

	if (ret != 0)
		return ret;
	/* Send a copy: the file must not shrink while the agent reads it. */
	fd = gm_client_memory_file("gpumap-mask", r->data, bytes);
	if (fd < 0)
		return gm_refuse(map, fd, "no memory for a copy of the mask");
	ret = gpumap_session_open(map, &opts, &session);
	if (ret == 0) {
		call->carries = &fd;
		ret = gm_session_call(session, call, 0);
		gpumap_session_close(session);
	}
	close(fd);
	return ret;
}

/* ---- requests ------------------------------------------------------------ */

int gpumap_mask_publish(struct gpumap *map,
			const struct gpumap_mask_request *request,
			struct gpumap_mask_result *ret_result)
{
	struct gpumap_mask_request ours;
	struct gm_mask_publish body = { 0 };
	struct gm_mask_publish_reply reply = { .version = 0 };
	struct gpumap_mask_result result;
	struct gm_call call = { GM_REQUEST(GM_CONTROL_MASK_PUBLISH, body),
				.n_tail = 1, GM_REPLY(reply) };
	int ret = gm_map_begin(map);

	if (ret == 0)
		ret = gm_map_size_in(map, &ours, sizeof(ours), request);
	if (ret == 0 && ret_result != NULL)
		ret = gm_map_size_out(map, ret_result,
				      offsetof(struct gpumap_mask_result,
					       bytes));
	if (ret == 0)
		ret = fill_body(map, &ours, &body);
	if (ret != 0)
		return ret;
	call.tail[0] =
		(struct iovec){ (void *)ours.rows, 4 * (size_t)ours.n_rows };
	if (ours.kind == GPUMAP_MASK_CUSTOM && ours.form == GPUMAP_MASK_LOADED)
		ret = publish_tensor(map, &call, &ours);
	else
		ret = gm_map_call(map, &call, 0);
	result = (struct gpumap_mask_result){ .version = reply.version,
					      .bytes = reply.bytes,
					      .n_copies = reply.n_copies,
					      .n_shared = reply.n_shared };
	if (ret == 0 && ret_result != NULL)
		gm_size_put(ret_result, &result, sizeof(result));
	return ret;
}

int gpumap_mask_release(struct gpumap *map, const char *name)
{
	return gm_map_release(map, GM_KIND_MASK, name);
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Masks that jobs name.  A mask has a handle like a registration, and rows are
 * told of it in the same way, on first use.  The agent decides which
 * publication the handle means when it makes the handle.
 */

#include <errno.h>
#include <string.h>

#include "lib/internal.h"
#include "shm/objects.h"

static int request_use(struct gpumap_session *s, const char *name,
		       struct gm_client_buffer *mask,
		       struct gm_mask_use_reply *ret_reply)
{
	struct gm_mask_use body = { .handle = mask->handle };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_MASK_USE, body),
				GM_REPLY(*ret_reply) };
	int ret = gm_map_put_name(s->map, name, body.name);

	if (ret == 0)
		ret = gm_session_call(s, &call, 0);
	if (ret == 0 && ret_reply->bytes == 0)
		ret = -EPROTO;
	return ret;
}

int gpumap_buffer_register_mask(struct gpumap_session *session,
				const char *name, uint64_t *ret_buffer,
				uint64_t *ret_version)
{
	struct gm_mask_use_reply reply;
	struct gm_client_buffer *mask;
	int ret = gm_session_begin(session);

	if (ret == 0)
		ret = gm_buffers_take(session, GM_BUFFER_REGISTERED, 0, &mask);
	if (ret != 0)
		return ret;
	ret = request_use(session, name, mask, &reply);
	if (ret != 0) {
		gm_buffer_drop(mask);
		return ret;
	}
	mask->is_mask = true;
	mask->bytes = reply.bytes;
	mask->dtype = reply.dtype;
	mask->flags = GPUMAP_BUFFER_READ_ONLY;
	*ret_buffer = mask->handle;
	if (ret_version != NULL)
		*ret_version = reply.version;
	return 0;
}

int gm_mask_show(struct gpumap_session *session, uint32_t row,
		 const struct gm_client_buffer *mask)
{
	struct gm_mask_show body = { .handle = mask->handle, .row = row };
	struct gm_call call = { GM_REQUEST(GM_CONTROL_MASK_SHOW, body) };
	int ret = gm_session_call(session, &call, 0);

	/* -EALREADY: the agent has already told the row's next worker. */
	return ret == -EALREADY ? 0 : ret;
}

int gm_mask_fits(const struct gpumap_session *session,
		 const struct gpumap_job *job)
{
	const struct gm_client_buffer *mask =
		gm_buffer_find(session, job->mask_buffer);
	uint32_t dtype =
		job->op == GPUMAP_OP_MASK_BOOL ? GPUMAP_DTYPE_U8 : job->dtype;

	if (mask == NULL || !mask->is_mask || mask->dtype == dtype)
		return 0;
	return gm_refuse(session->map, -EINVAL, "%s",
			 job->op == GPUMAP_OP_MASK_BOOL
				 ? "the mask's elements are added, and not "
				   "bytes: use MASK_ADD, or publish it as u8"
				 : "the mask is of another dtype than the job: "
				   "publish it as that, or use MASK_BOOL with "
				   "one of u8");
}

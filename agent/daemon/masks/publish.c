/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/masks/publish.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/daemon/base/parts.h"
#include "agent/daemon/map/transaction.h"
#include "agent/daemon/masks/state.h"
#include "agent/daemon/masks/transaction.h"
#include "agent/daemon/segment/directory.h"
#include "gpumap.h"

/* ---- publish ------------------------------------------------------------- */

static int check_publish(struct gm_change *change)
{
	struct gm_mask_change *p = gm_mask_change_of(change);
	const char *name = p->image.object.name;
	int ret = gm_mask_change_choose(p);

	change->act = GM_CHANGE_OWN;
	if (ret == 0)
		ret = gm_state_may_replace(change->d, &gm_mask_kind, name,
					   change->uid, change->why);
	if (ret == 0)
		ret = gm_directory_may_replace(
			change->d, GM_KIND_MASK, name, change->uid,
			gm_replicas_bytes(p->image.n_replicas), change->why);
	return ret == 0 ? gm_mask_change_quota(p, change->uid) : ret;
}

static int read_file(struct gm_mask_change *p)
{
	uint64_t done = 0;

	while (done < p->image.bytes) {
		ssize_t n = pread(p->fd, (char *)p->staging + done,
				  p->image.bytes - done, (off_t)(p->at + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return gm_why(p->change.why, -EIO,
				      "the tensor cannot be read: %s",
				      n < 0 ? strerror(errno) : "it has ended");
		done += (uint64_t)n;
	}
	return 0;
}

static int make_tensor(struct gm_change *change)
{
	struct gm_mask_change *p = gm_mask_change_of(change);
	int ret;

	if (p->image.bytes == 0)
		return 0;
	if (p->image.form != GPUMAP_MASK_LOADED)
		return gm_mask_change_generate(p);
	ret = gm_mask_change_stage(p);
	if (ret == 0)
		ret = read_file(p);
	if (ret == 0)
		gm_mask_change_sum(p);
	return ret;
}

static void answer_publish(struct gm_change *change, struct gm_connection *c,
			   const struct gm_control *request)
{
	const struct gm_mask_change *p = gm_mask_change_of(change);
	struct gm_mask_publish_reply reply = {
		.version = change->version,
		.bytes = p->image.bytes,
		.n_copies = p->n_copies,
		.n_shared = gm_mask_change_places(p) - p->n_copies,
	};

	gm_connection_reply_body(c, request, &reply, sizeof(reply));
}

static const struct gm_change_kind publish_kind = {
	.check = check_publish,
	.plan = make_tensor,
	.is_heavy = true,
	.settle = gm_mask_change_settle,
	.proceed = gm_mask_change_proceed,
	.answer = answer_publish,
	.free = gm_mask_change_free,
};

int gm_mask_change_publish(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_mask_change *p = gm_mask_change_new(&publish_kind);
	int ret;

	if (p == NULL)
		return -ENOMEM;
	p->has_file = true;
	ret = gm_mask_check_request(c, r, &p->image, &p->rows, &p->at);
	if (ret != 0) {
		free(p);
		return ret;
	}
	if (p->image.kind == GPUMAP_MASK_CUSTOM &&
	    p->image.form == GPUMAP_MASK_LOADED) {
		p->fd = c->fd;
		c->fd = -1;
	}
	return gm_transactions_add(c, &r->header, &p->change);
}

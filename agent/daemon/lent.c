/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/lent.h"

#include "agent/daemon/daemon.h"
#include "agent/daemon/sessions.h"

uint64_t gm_exports_abandoned(const struct gm_daemon *d, uint32_t row,
			      uint32_t uid)
{
	const struct gm_export *export;
	uint64_t bytes = 0;

	if (!d->server)
		return 0;
	TAILQ_FOREACH(export, &d->server->exports, entry)
	{
		if (!export->session && export->row == row &&
		    export->user->uid == uid)
			bytes += export->bytes;
	}
	return bytes;
}

static void count_lent(const struct gm_export *export,
		       struct gm_usage_item *item)
{
	const struct gm_importer *importer;

	if (!TAILQ_EMPTY(&export->importers))
		item->lent_bytes += export->bytes;
	TAILQ_FOREACH(importer, &export->importers, entry)
	item->importers++;
}

void gm_exports_count(const struct gm_session *session,
		      struct gm_usage_item *ret_item)
{
	const struct gm_importer *importer;
	const struct gm_export *export;

	TAILQ_FOREACH(export, &session->server->exports, entry)
	{
		if (export->session == session && export->row == ret_item->row)
			count_lent(export, ret_item);
	}
	TAILQ_FOREACH(importer, &session->imports, mine)
	{
		if (importer->export->row == ret_item->row)
			ret_item->borrowed_bytes += importer->export->bytes;
	}
}

static bool comes_before(uint32_t uid, uint32_t row,
			 const struct gm_usage_item *item)
{
	return uid < item->uid || (uid == item->uid && row < item->row);
}

bool gm_exports_next_abandoned(const struct gm_daemon *d, bool goes_on,
			       struct gm_usage_item *ret_item)
{
	struct gm_usage_item next = { .uid = UINT32_MAX, .row = UINT32_MAX };
	const struct gm_export *export;

	TAILQ_FOREACH(export, &d->server->exports, entry)
	{
		uint32_t uid = export->user->uid, row = export->row;

		if (export->session ||
		    (goes_on &&
		     !comes_before(ret_item->uid, ret_item->row,
				   &(struct gm_usage_item){ .uid = uid,
							    .row = row })))
			continue;
		if (comes_before(uid, row, &next))
			next = (struct gm_usage_item){ .uid = uid, .row = row };
		if (uid == next.uid && row == next.row)
			count_lent(export, &next);
	}
	next.bytes = next.lent_bytes;
	if (next.row != UINT32_MAX)
		*ret_item = next;
	return next.row != UINT32_MAX;
}

uint64_t gm_lent_bytes(const struct gm_control_server *s, uint32_t row,
		       const struct gm_user *user)
{
	const struct gm_export *export;
	uint64_t bytes = 0;

	TAILQ_FOREACH(export, &s->exports, entry)
	{
		if (export->row == row && export->user == user)
			bytes += export->bytes;
	}
	return bytes;
}

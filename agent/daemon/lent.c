/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/lent.h"

#include <errno.h>
#include <inttypes.h>

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

static bool has_import(const struct gm_export *export,
		       const struct gm_user *user)
{
	const struct gm_importer *importer;

	TAILQ_FOREACH(importer, &export->importers, entry)
	{
		if (importer->user == user)
			return true;
	}
	return false;
}

uint64_t gm_lent_bytes(const struct gm_control_server *s, uint32_t row,
		       const struct gm_user *user)
{
	const struct gm_export *export;
	uint64_t bytes = 0;

	TAILQ_FOREACH(export, &s->exports, entry)
	{
		if (export->row == row && export->user == user &&
		    (export->session || has_import(export, user)))
			bytes += export->bytes;
	}
	return bytes;
}

bool gm_lent_row(const struct gm_control_server *s, uint32_t row)
{
	const struct gm_export *export;

	TAILQ_FOREACH(export, &s->exports, entry)
	{
		if (export->row == row)
			return true;
	}
	return false;
}

/* What a user has of a row that others have exported. */
static uint64_t borrowed(const struct gm_control_server *s, uint32_t row,
			 const struct gm_user *user)
{
	const struct gm_export *export;
	uint64_t bytes = 0;

	TAILQ_FOREACH(export, &s->exports, entry)
	{
		if (export->row == row && export->user != user &&
		    has_import(export, user))
			bytes += export->bytes;
	}
	return bytes;
}

static uint64_t most_borrowed(const struct gm_daemon *d, uint32_t row)
{
	uint64_t total = d->devices.of[row]->facts.total_bytes;

	if (d->config.import_bytes_per_uid)
		return d->config.import_bytes_per_uid;
	return total ? total / 4 : UINT64_MAX;
}

int gm_lent_judge(struct gm_connection *c, const struct gm_export *export)
{
	const struct gm_daemon *d = c->server->d;
	uint64_t has, most;

	if (c->user->imports >= d->config.imports_per_uid)
		return gm_connection_bad(
			c, -EDQUOT,
			"uid %u has %u imports, which is its limit; forget "
			"some, or raise imports-per-uid in [limits] of "
			"gpumapd.conf",
			(unsigned)c->uid, c->user->imports);
	if (export->user == c->user || has_import(export, c->user))
		return 0;
	has = borrowed(c->server, export->row, c->user);
	most = most_borrowed(d, export->row);
	if (has <= most && export->bytes <= most - has)
		return 0;
	return gm_connection_bad(
		c, -EDQUOT,
		"uid %u has imported %" PRIu64 " bytes of row %u that are "
		"others' and asks for %" PRIu64 ", it may have %" PRIu64
		"; forget some, or raise import-bytes-per-uid in [limits] of "
		"gpumapd.conf",
		(unsigned)c->uid, has, export->row, export->bytes, most);
}

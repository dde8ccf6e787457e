/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sharing/export_accounting.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/daemon/base/events.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/sessions/session.h"
#include "agent/daemon/sharing/share.h"
#include "lib/model/plan/size_text.h"

static void free_export(struct gm_export *export)
{
	TAILQ_REMOVE(&export->server->exports, export, entry);
	gm_user_drop(export->server, export->user);
	free(export);
}

struct gm_export *gm_export_restore(struct gm_control_server *s,
				    struct gm_user *user)
{
	struct gm_export *export = calloc(1, sizeof(*export));

	if (!export)
		return NULL;
	*export = (struct gm_export){ .server = s,
				      .user = gm_user_hold(s, user->uid),
				      .request.fd = -1,
				      .fd = -1,
				      .is_named = true,
				      .is_counted = true };
	if (!export->user) {
		free(export);
		return NULL;
	}
	export->user->exports++;
	TAILQ_INIT(&export->importers);
	TAILQ_INSERT_TAIL(&s->exports, export, entry);
	return export;
}

void gm_export_drop_unused(struct gm_export *export)
{
	if (export->session || export->shared)
		return;
	/* Ours may be the last: then the memory goes. */
	gm_close_thread_close(&export->server->close_thread, export->fd);
	export->fd = -1;
	if (export->is_counted)
		export->user->exports--;
	export->is_counted = false;
	if (TAILQ_EMPTY(&export->importers))
		free_export(export);
}

struct gm_export *gm_export_find_own(const struct gm_session *session,
				     uint64_t handle)
{
	struct gm_export *export;

	TAILQ_FOREACH(export, &session->server->exports, entry)
	{
		if (export->session == session &&
		    export->request.handle == handle)
			break;
	}
	return export;
}

/* How many hold the share who have not made it; and is a holder this user's? */
static uint32_t count_openers(const struct gm_shared *shared,
			      const struct gm_user *user, bool *ret_has)
{
	const struct gm_share_holder *holder;
	uint32_t n = 0;

	*ret_has = false;
	TAILQ_FOREACH(holder, &shared->holders, entry)
	{
		n += !holder->is_first;
		*ret_has |= holder->user == user;
	}
	return n;
}

void gm_exports_row_bytes(const struct gm_daemon *d, uint32_t row, uint32_t uid,
			  struct gm_row_bytes *sum)
{
	const struct gm_export *export;

	if (!d->server)
		return;
	TAILQ_FOREACH(export, &d->server->exports, entry)
	{
		if (!export->session && export->row == row &&
		    export->user->uid == uid)
			sum->abandoned += export->bytes;
	}
}

/* By the user itself, which could end that. */
static bool is_kept(const struct gm_export *export)
{
	return export->shared && gm_shared_is_kept(export->shared);
}

void gm_exports_kept_bytes(const struct gm_daemon *d, uint64_t sums[GM_ROWS])
{
	const struct gm_export *export;

	if (!d->server)
		return;
	TAILQ_FOREACH(export, &d->server->exports, entry)
	{
		if (export->session && is_kept(export))
			sums[export->row] += export->bytes;
	}
}

/* A user that has opened its share is charged besides its imports. */
static void count_lent(const struct gm_export *export,
		       struct gm_usage_item *item)
{
	const struct gm_importer *importer;
	uint32_t n = 0;
	bool has;

	TAILQ_FOREACH(importer, &export->importers, entry)
	n++;
	if (export->shared)
		n += count_openers(export->shared, NULL, &has);
	item->importers += n;
	/* Without a session the name keeps the export, whichever user has
	 * opened it. */
	if (n || !export->session)
		item->lent_bytes += export->bytes;
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

/* Imported, or by its name. */
static bool has_import(const struct gm_export *export,
		       const struct gm_user *user)
{
	const struct gm_importer *importer;
	bool has = false;

	TAILQ_FOREACH(importer, &export->importers, entry)
	{
		if (importer->user == user)
			return true;
	}
	if (export->shared)
		count_openers(export->shared, user, &has);
	return has;
}

uint64_t gm_export_accounting_bytes(const struct gm_control_server *s,
				    uint32_t row, const struct gm_user *user)
{
	const struct gm_export *export;
	uint64_t bytes = 0;

	TAILQ_FOREACH(export, &s->exports, entry)
	{
		if (export->row == row && export->user == user &&
		    (export->session || is_kept(export) ||
		     has_import(export, user)))
			bytes += export->bytes;
	}
	return bytes;
}

bool gm_export_accounting_row(const struct gm_daemon *d, uint32_t row)
{
	const struct gm_export *export;

	if (!d->server)
		return false;
	TAILQ_FOREACH(export, &d->server->exports, entry)
	{
		if (export->row == row)
			return true;
	}
	return false;
}

/* The bytes of a row that a user has of others' exports. */
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
	uint64_t total = d->devices->of[row]->facts.total_bytes;

	if (d->config->import_bytes_per_uid)
		return d->config->import_bytes_per_uid;
	return total ? total / 4 : UINT64_MAX;
}

int gm_export_accounting_admit_count(struct gm_connection *c)
{
	const struct gm_daemon *d = c->server->d;

	if (c->user->imports < d->config->imports_per_uid)
		return 0;
	return gm_connection_bad(
		c, -EDQUOT,
		"uid %u has %u imports, which is its limit; forget some, or "
		"raise imports-per-uid in [limits] of gpumapd.conf",
		(unsigned)c->uid, c->user->imports);
}

static int check_bytes(struct gm_connection *c, const struct gm_export *export,
		       uint64_t more)
{
	uint64_t has = borrowed(c->server, export->row, c->user);
	uint64_t most = most_borrowed(c->server->d, export->row);

	if (has <= most && more <= most - has)
		return 0;
	return gm_connection_bad(
		c, -EDQUOT,
		"uid %u has imported %s of row %u that are others' and asks "
		"for %s, it may have %s; forget some, or raise "
		"import-bytes-per-uid in [limits] of "
		"gpumapd.conf",
		(unsigned)c->uid, gm_size_down(has).text, export->row,
		gm_size_up(more).text, gm_size_down(most).text);
}

int gm_export_accounting_admit_held(struct gm_connection *c,
				    const struct gm_export *export)
{
	return export->user == c->user ? 0 : check_bytes(c, export, 0);
}

int gm_export_accounting_admit(struct gm_connection *c,
			       const struct gm_export *export)
{
	int error = gm_export_accounting_admit_count(c);

	if (error || export->user == c->user || has_import(export, c->user))
		return error;
	return check_bytes(c, export, export->bytes);
}

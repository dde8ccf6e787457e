/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The permissions to give buffers a name, and to open a name. */

#include "agent/daemon/base/memfd.h"
#include "agent/daemon/sharing/share.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/common/name.h"
#include "agent/common/node_clock.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/sessions/session.h"
#include "agent/daemon/sharing/export_accounting.h"
#include "agent/daemon/sharing/share_answer.h"
#include "agent/daemon/sharing/share_store.h"
#include "shm/point.h"

/* ---- SHARE ------------------------------------------------------------- */

static int check_form(struct gm_connection *c, const struct gm_share_ask *ask)
{
	if (ask->flags & ~GM_SHARED_FLAGS || ask->reserved)
		return gm_connection_bad(c, -EINVAL,
					 "share flags %#x are not known",
					 ask->flags);
	if (ask->n_buffers == 0 || ask->n_buffers > GM_SHARE_BUFFERS_MAX)
		return gm_connection_bad(c, -EINVAL,
					 "%u buffers; share 1 to %u of them",
					 ask->n_buffers, GM_SHARE_BUFFERS_MAX);
	if (ask->n_uids > GM_SHARE_UIDS_MAX)
		return gm_connection_bad(
			c, -EINVAL,
			"%u uids; name at most %u, or share with any user",
			ask->n_uids, GM_SHARE_UIDS_MAX);
	return 0;
}

/* Bytes of the tail before the fields of the key. */
static uint64_t lists_bytes(const struct gm_share_ask *ask)
{
	return ask->n_buffers * UINT64_C(8) + ask->n_uids * UINT64_C(4);
}

int gm_shared_check_about(int fd, uint64_t about_bytes,
			  char ret_why[GM_WHY_BYTES])
{
	uint64_t bytes;
	int error = gm_memfd_check(fd, 0, about_bytes, false, ret_why);

	if (error == 0)
		error = gm_memfd_check_fixed(fd, "what is said about it",
					     ret_why);
	if (error == 0)
		error = gm_memfd_bytes(fd, &bytes, ret_why);
	if (error)
		return error;
	if (bytes != about_bytes)
		return gm_why(ret_why, -ERANGE,
			      "the memfd does not have %" PRIu64 " bytes",
			      about_bytes);
	return 0;
}

static int check_about(struct gm_connection *c, const struct gm_share_ask *ask)
{
	if (ask->about_bytes == 0 && c->fd < 0 && !c->lost_fd)
		return 0;
	if (c->fd < 0 && c->lost_fd)
		return gm_connection_bad(c, -EMFILE,
					 "gpumapd has no descriptor left for "
					 "it; raise LimitNOFILE of gpumapd");
	if (c->fd < 0)
		return gm_connection_bad(c, -EINVAL,
					 "no descriptor came with it");
	if (ask->about_bytes > GM_SHARE_ABOUT_MAX)
		return gm_connection_bad(c, -E2BIG,
					 "%" PRIu64
					 " bytes about it; say at most %" PRIu64
					 ", and share the rest as a buffer",
					 ask->about_bytes, GM_SHARE_ABOUT_MAX);
	return gm_shared_check_about(c->fd, ask->about_bytes, c->server->why);
}

static bool is_for_others(const struct gm_connection *c,
			  const struct gm_share_ask *ask, const uint32_t *uids)
{
	bool others = ask->flags & GPUMAP_SHARE_ANY_USER;

	for (uint32_t i = 0; i < ask->n_uids; i++)
		others |= uids[i] != c->uid;
	return others;
}

static int pay(struct gm_connection *c, struct gm_shared *shared)
{
	uint64_t bytes = gm_shared_pages(shared);
	struct gm_user *user = shared->user;
	int error = gm_user_admit_memory(c->server, user, bytes, "a share");

	if (error)
		return error;
	shared->charged = bytes;
	user->arena_bytes += bytes;
	return 0;
}

/* One of the session's own, which is taken from here on. */
static int take(struct gm_connection *c, uint64_t handle,
		struct gm_shared *shared)
{
	bool read_only = shared->flags & GPUMAP_SHARE_READ_ONLY;
	struct gm_export *export = gm_export_find_own(c->session, handle);

	if (!export)
		return gm_connection_bad(c, -ENOENT,
					 "the session has not exported "
					 "%#" PRIx64,
					 handle);
	if (export->shared)
		return gm_connection_bad(c, -EBUSY,
					 "%#" PRIx64 " is shared as %s already",
					 handle, export->shared->name);
	if (export->read_only != read_only)
		return gm_connection_bad(c, -EBUSY,
					 "%#" PRIx64 " was exported %s", handle,
					 export->read_only
						 ? "read-only"
						 : "for writing as well");
	export->shared = shared;
	shared->buffers[shared->n_buffers++] = export;
	return 0;
}

static int take_all(struct gm_connection *c, const struct gm_request *r,
		    uint32_t n, struct gm_shared *shared)
{
	uint64_t handle;
	int error = 0;

	shared->buffers = calloc(n, sizeof(struct gm_export *));
	if (!shared->buffers)
		return -ENOMEM;
	for (uint32_t i = 0; i < n && error == 0; i++) {
		memcpy(&handle, r->tail + i * sizeof(handle), sizeof(handle));
		error = take(c, handle, shared);
	}
	return error;
}

/* The key is the share's from now on. */
static struct gm_shared *make(struct gm_connection *c,
			      const struct gm_share_ask *ask,
			      const uint32_t *uids, struct gm_kept_key *key)
{
	struct gm_shared *shared = calloc(1, sizeof(*shared));

	if (!shared)
		return NULL;
	shared->user = gm_user_hold(c->server, c->uid);
	shared->uids = calloc(ask->n_uids + 1, sizeof(*uids));
	if (!shared->user || !shared->uids) {
		if (shared->user)
			gm_user_drop(c->server, shared->user);
		free(shared->uids);
		free(shared);
		return NULL;
	}
	memcpy(shared->uids, uids, ask->n_uids * sizeof(*uids));
	memcpy(shared->name, ask->name, strlen(ask->name) + 1);
	shared->server = c->server;
	shared->since_ns = gm_node_clock_now();
	shared->about = -1;
	shared->about_bytes = ask->about_bytes;
	shared->flags = ask->flags;
	shared->n_uids = ask->n_uids;
	shared->key = *key;
	*key = (struct gm_kept_key){ .fields = NULL };
	TAILQ_INIT(&shared->holders);
	return shared;
}

/* All of it, or nothing: no client sees it before it is in the list. */
static int publish(struct gm_connection *c, const struct gm_request *r,
		   const struct gm_share_ask *ask, const uint32_t *uids,
		   struct gm_kept_key *key)
{
	struct gm_control_server *s = c->server;
	struct gm_shared *shared = make(c, ask, uids, key);
	int error = shared ? pay(c, shared) : -ENOMEM;

	if (error == 0)
		error = take_all(c, r, ask->n_buffers, shared);
	if (error == 0)
		error = gm_shared_hold(shared, c->session, true);
	if (error) {
		for (uint32_t i = 0; shared && i < shared->n_buffers; i++)
			shared->buffers[i]->shared = NULL;
		if (shared)
			gm_shared_free(shared);
		return error;
	}
	shared->about = c->fd;
	c->fd = -1;
	shared->id = ++s->last_share;
	TAILQ_INSERT_TAIL(&s->shares, shared, entry);
	gm_share_offers_drop(c->session, shared->name);
	gm_log_of(c->uid, GM_LOG_INFO, "shared",
		  "session=%" PRIu64 " share=%" PRIu64
		  " name=%s buffers=%u about_bytes=%" PRIu64 " uid=%u",
		  c->session->id, shared->id, gm_quote(shared->name).text,
		  shared->n_buffers, shared->about_bytes, (unsigned)c->uid);
	gm_share_store_put(shared);
	GM_POINT("share_made");
	gm_share_answer(c, &r->header, shared, false);
	return 0;
}

/* May it be shared by this name, with those users? */
static int admit(struct gm_connection *c, const struct gm_share_ask *ask,
		 const uint32_t *uids, const struct gm_kept_key *key)
{
	int error = gm_shared_admit_listed(c, ask->name);

	if (error == 0 && is_for_others(c, ask, uids))
		error = gm_shared_admit_others(c);
	if (error == 0 && ask->flags & GPUMAP_SHARE_KEEP)
		error = gm_shared_admit_kept(c, ask->name);
	if (error == 0 && gm_shared_find(c->server, ask->name))
		error = gm_connection_bad(c, -EEXIST,
					  "%s is shared already: open it, or "
					  "take another name",
					  ask->name);
	return error ? error : gm_share_offers_admit(c, ask->name, key);
}

int gm_share_handle(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_kept_key key = { .fields = NULL };
	uint32_t uids[GM_SHARE_UIDS_MAX];
	struct gm_share_ask ask;
	int error;

	memcpy(&ask, r->body, sizeof(ask));
	error = gm_shared_admit_name(c, ask.name, sizeof(ask.name));
	if (error == 0)
		error = check_form(c, &ask);
	if (error == 0)
		error = gm_shared_take_key(c, r, &ask.key, lists_bytes(&ask),
					   &key);
	if (error == 0)
		error = check_about(c, &ask);
	if (error == 0) {
		memcpy(uids, r->tail + ask.n_buffers * sizeof(uint64_t),
		       ask.n_uids * sizeof(uids[0]));
		error = admit(c, &ask, uids, &key);
	}
	if (error == 0)
		error = publish(c, r, &ask, uids, &key);
	gm_share_key_drop(&key);
	return error;
}

/* ---- SHARE_OPEN, SHARE_CLOSE ------------------------------------------- */

static bool may_open(const struct gm_connection *c,
		     const struct gm_shared *shared)
{
	if (shared->user->uid == c->uid)
		return true;
	/* The administrator may have changed it since an earlier agent. */
	if (c->server->d->config->cuda_share != GM_CONFIG_SHARE_ANY)
		return false;
	if (shared->flags & GPUMAP_SHARE_ANY_USER)
		return true;
	for (uint32_t i = 0; i < shared->n_uids; i++) {
		if (shared->uids[i] == c->uid)
			return true;
	}
	return false;
}

static int check_open(struct gm_connection *c, const struct gm_share_open *ask,
		      const struct gm_kept_key *key,
		      const struct gm_shared *shared)
{
	if (!shared)
		return gm_connection_bad(c, -ENOENT, "nothing is shared as %s",
					 ask->name);
	if (!may_open(c, shared))
		return gm_connection_bad(
			c, -EACCES,
			"%s is uid %u's, who does not share it with uid %u",
			ask->name, (unsigned)shared->user->uid,
			(unsigned)c->uid);
	if ((shared->flags & GPUMAP_SHARE_READ_ONLY) &&
	    !(ask->flags & GPUMAP_SHARE_READ_ONLY))
		return gm_connection_bad(c, -EACCES,
					 "%s is shared read-only; open it "
					 "GPUMAP_SHARE_READ_ONLY",
					 ask->name);
	if (gm_shared_holder(c->session, shared))
		return gm_connection_bad(c, -EALREADY,
					 "the session holds %s already",
					 ask->name);
	return gm_share_key_match(c, ask->name, &shared->key, key);
}

/* A session that opens it keeps all of it from its owner.  The session holds it
 * by now, so each row, for which all exports are walked, is checked once. */
static int check_bytes(struct gm_connection *c, const struct gm_shared *shared)
{
	bool is_checked[GM_ROWS] = { false };
	int error = 0;

	for (uint32_t i = 0; i < shared->n_buffers && error == 0; i++) {
		uint32_t row = shared->buffers[i]->row;

		if (!is_checked[row])
			error = gm_export_accounting_admit_held(
				c, shared->buffers[i]);
		is_checked[row] = true;
	}
	return error;
}

/* The one that has shared it is not charged for an import. */
static void be_first(struct gm_share_holder *holder)
{
	holder->is_first = true;
	holder->user->imports--;
	gm_share_store_set_first(holder);
}

/* A holder of an earlier agent's that is the session's process. */
static struct gm_share_holder *find_earlier(const struct gm_shared *shared,
					    const struct gm_session *session)
{
	struct gm_share_holder *holder;

	TAILQ_FOREACH(holder, &shared->holders, entry)
	{
		if (!holder->session && holder->pid == session->pid &&
		    holder->user == session->user)
			break;
	}
	return holder;
}

/* A session's holder takes the place of those that its process had through an
 * earlier agent. */
static void replace_earlier(struct gm_share_holder *holder)
{
	struct gm_share_holder *other;

	while ((other = find_earlier(holder->shared, holder->session))) {
		if (other->is_first && !holder->is_first)
			be_first(holder);
		gm_shared_leave(other);
	}
}

/* Have the session hold it, and tell it. */
static int open_shared(struct gm_connection *c, const struct gm_request *r,
		       struct gm_shared *shared)
{
	bool is_back = find_earlier(shared, c->session);
	int error = is_back ? 0 : gm_export_accounting_admit_count(c);

	if (error == 0)
		error = gm_shared_hold(shared, c->session, false);
	if (error)
		return error;
	error = check_bytes(c, shared);
	if (error) {
		gm_shared_leave(gm_shared_holder(c->session, shared));
		return error;
	}
	gm_log_of(c->uid, GM_LOG_INFO, "share_opened",
		  "session=%" PRIu64 " share=%" PRIu64 " uid=%u holders=%u",
		  c->session->id, shared->id, (unsigned)c->uid,
		  shared->n_holders);
	replace_earlier(gm_shared_holder(c->session, shared));
	GM_POINT("share_opened");
	gm_share_answer(c, &r->header, shared, true);
	return 0;
}

int gm_share_open_handle(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_share_open ask;
	struct gm_kept_key key;
	struct gm_shared *shared;
	int error;

	memcpy(&ask, r->body, sizeof(ask));
	error = gm_shared_admit_name(c, ask.name, sizeof(ask.name));
	if (error)
		return error;
	if (ask.flags & ~GPUMAP_SHARE_READ_ONLY || ask.reserved)
		return gm_connection_bad(c, -EINVAL,
					 "flags %#x to open a share are not "
					 "known",
					 ask.flags);
	error = gm_shared_take_key(c, r, &ask.key, 0, &key);
	if (error)
		return error;
	shared = gm_shared_find(c->server, ask.name);
	error = check_open(c, &ask, &key, shared);
	gm_share_key_drop(&key);
	return error ? error : open_shared(c, r, shared);
}

/* The holder that this session is of the share of this number. */
static int find_held(struct gm_connection *c, uint64_t id,
		     struct gm_share_holder **ret_holder)
{
	*ret_holder = gm_shared_held(c->session, id);
	if (*ret_holder)
		return 0;
	return gm_connection_bad(c, -ENOENT,
				 "the session does not hold share %" PRIu64
				 ", or not any more",
				 id);
}

int gm_share_fds_handle(struct gm_connection *c, const struct gm_request *r)
{
	const struct gm_share_fds *ask = (const void *)r->body;
	struct gm_share_holder *holder = NULL;
	int fds[GM_CONTROL_FDS_MAX];
	uint32_t n = 0, most = GM_CONTROL_FDS_MAX;
	int error = find_held(c, ask->id, &holder);

	if (error)
		return error;
	if (ask->first >= holder->shared->n_buffers || ask->n == 0)
		return gm_connection_bad(c, -ERANGE,
					 "%u buffers from %u on: the share has "
					 "%u",
					 ask->n, ask->first,
					 holder->shared->n_buffers);
	if (most > ask->n)
		most = ask->n;
	if (most > holder->shared->n_buffers - ask->first)
		most = holder->shared->n_buffers - ask->first;
	while (n < most && error == 0) {
		struct gm_export *export =
			holder->shared->buffers[ask->first + n];

		error = export->fd < 0 ? gm_connection_bad(c, -ENOENT,
							   "buffer %u is gone",
							   ask->first + n)
				       : gm_export_lend(c, export);
		if (error == 0)
			fds[n++] = export->fd;
	}
	if (n == 0)
		return error;
	return gm_connection_reply(
		c, &r->header, &(struct gm_reply){ .fds = fds, .n_fds = n });
}

int gm_share_close_handle(struct gm_connection *c, const struct gm_request *r)
{
	const struct gm_share_close *ask = (const void *)r->body;
	struct gm_share_holder *holder = NULL;
	int error = find_held(c, ask->id, &holder);

	if (error)
		return error;
	gm_shared_leave(holder);
	return gm_connection_reply(c, &r->header, NULL);
}

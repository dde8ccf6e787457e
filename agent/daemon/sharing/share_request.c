/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/common/name.h"
#include "agent/daemon/sharing/share.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/common/node_clock.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/sessions/session.h"
#include "agent/daemon/sharing/export_accounting.h"
#include "agent/daemon/sharing/share_store.h"
#include "agent/daemon/workers/worker_process.h"
#include "shm/point.h"

/* ---- who holds what ---------------------------------------------------- */

static void let_go(struct gm_share_holder *holder)
{
	struct gm_control_server *s = holder->shared->server;

	TAILQ_REMOVE(&holder->shared->holders, holder, entry);
	if (holder->session)
		TAILQ_REMOVE(&holder->session->shares, holder, mine);
	gm_share_store_let_go(holder);
	holder->shared->n_holders--;
	if (!holder->is_first)
		holder->user->imports--;
	gm_user_drop(s, holder->user);
	free(holder);
}

void gm_shared_count(struct gm_share_holder *holder)
{
	struct gm_shared *shared = holder->shared;

	shared->n_holders++;
	if (!holder->is_first)
		holder->user->imports++;
	TAILQ_INSERT_TAIL(&shared->holders, holder, entry);
}

struct gm_shared *gm_shared_find(const struct gm_control_server *s,
				 const char *name)
{
	struct gm_shared *shared;

	TAILQ_FOREACH(shared, &s->shares, entry)
	{
		if (strcmp(shared->name, name) == 0)
			break;
	}
	return shared;
}

void gm_shared_free(struct gm_shared *shared)
{
	struct gm_control_server *s = shared->server;

	/* Ours may be the last: then the pages go. */
	if (shared->about >= 0)
		gm_close_thread_close(&s->close_thread, shared->about);
	shared->user->arena_bytes -= shared->charged;
	gm_user_drop(s, shared->user);
	gm_share_key_drop(&shared->key);
	free(shared->buffers);
	free(shared->uids);
	free(shared);
}

uint64_t gm_shared_pages(const struct gm_shared *shared)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return (shared->about_bytes + page - 1) / page * page +
	       (shared->key.bytes + page - 1) / page * page;
}

/* The name is free; sessions keep the buffers that they have imported. */
void gm_shared_end(struct gm_shared *shared, const char *why)
{
	bool is_left = shared->record.head && shared->server->is_ending;
	struct gm_share_holder *holder;

	gm_log_of(shared->user->uid, GM_LOG_INFO,
		  is_left ? "share_left" : "share_ended",
		  "share=%" PRIu64 " name=%s holders=%u reason=%s", shared->id,
		  gm_quote(shared->name).text, shared->n_holders,
		  gm_quote(why).text);
	gm_share_store_end(shared);
	while ((holder = TAILQ_FIRST(&shared->holders)))
		let_go(holder);
	TAILQ_REMOVE(&shared->server->shares, shared, entry);
	GM_POINT("share_ended");
	for (uint32_t i = 0; i < shared->n_buffers; i++) {
		shared->buffers[i]->shared = NULL;
		gm_export_drop_unused(shared->buffers[i]);
	}
	gm_shared_free(shared);
}

void gm_shared_leave(struct gm_share_holder *holder)
{
	struct gm_shared *shared = holder->shared;

	let_go(holder);
	if (shared->n_holders == 0 && !gm_shared_is_kept(shared))
		gm_shared_end(shared, "no session holds it any more");
}

void gm_shares_leave(struct gm_session *session)
{
	struct gm_share_holder *holder;

	while ((holder = TAILQ_FIRST(&session->shares)))
		gm_shared_leave(holder);
}

void gm_shares_exit(struct gm_control_server *s)
{
	while (!TAILQ_EMPTY(&s->shares))
		gm_shared_end(TAILQ_FIRST(&s->shares), "the agent is ending");
}

struct gm_share_holder *gm_shared_holder(const struct gm_session *session,
					 const struct gm_shared *shared)
{
	struct gm_share_holder *holder;

	TAILQ_FOREACH(holder, &session->shares, mine)
	{
		if (holder->shared == shared)
			break;
	}
	return holder;
}

struct gm_share_holder *gm_shared_held(const struct gm_session *session,
				       uint64_t id)
{
	struct gm_share_holder *holder;

	TAILQ_FOREACH(holder, &session->shares, mine)
	{
		if (holder->shared->id == id)
			break;
	}
	return holder;
}

bool gm_shares_holds(const struct gm_session *session,
		     const struct gm_export *export)
{
	return session && export->shared &&
	       gm_shared_holder(session, export->shared);
}

int gm_shared_hold(struct gm_shared *shared, struct gm_session *session,
		   bool is_first)
{
	struct gm_share_holder *holder = calloc(1, sizeof(*holder));
	int error;

	if (!holder)
		return -ENOMEM;
	holder->shared = shared;
	holder->session = session;
	holder->user = gm_user_hold(shared->server, session->user->uid);
	holder->pid = session->pid;
	holder->is_first = is_first;
	holder->process.fd = -1;
	error = holder->user ? gm_share_store_hold(holder) : -ENOMEM;
	if (error) {
		if (holder->user)
			gm_user_drop(shared->server, holder->user);
		free(holder);
		return error;
	}
	gm_shared_count(holder);
	TAILQ_INSERT_TAIL(&session->shares, holder, mine);
	return 0;
}

/* ---- requests ----------------------------------------------------------- */

int gm_shared_admit_name(struct gm_connection *c, const char *name,
			 size_t bytes)
{
	if (!memchr(name, '\0', bytes))
		return gm_connection_bad(c, -EINVAL, "the name has no end");
	return gm_name_check(name, c->server->why);
}

int gm_shared_take_key(struct gm_connection *c, const struct gm_request *r,
		       const struct gm_share_key *key, uint64_t before,
		       struct gm_kept_key *ret_key)
{
	if (before + key->fields_bytes != r->tail_bytes)
		return gm_connection_bad(c, -EINVAL,
					 "the request's parts do not fit "
					 "together; this is a client's fault");
	return gm_share_key_take(c, key, r->tail + before, ret_key);
}

int gm_shared_admit_others(struct gm_connection *c)
{
	if (c->server->d->config->cuda_share == GM_CONFIG_SHARE_ANY)
		return 0;
	return gm_connection_bad(
		c, -EPERM,
		"sessions share with their own uid here; the administrator may "
		"set share = any in [cuda] of gpumapd.conf");
}

/* Shares of the user that stay without a session. */
static uint32_t count_kept(const struct gm_connection *c)
{
	const struct gm_shared *shared;
	uint32_t n = 0;

	TAILQ_FOREACH(shared, &c->server->shares, entry)
	{
		n += shared->user->uid == c->uid && gm_shared_is_kept(shared);
	}
	return n;
}

/* The section of the configuration for this name, or NULL. */
static const struct gm_config_model *find_listed(const struct gm_connection *c,
						 const char *name)
{
	const struct gm_config *config = c->server->d->config;

	for (uint32_t i = 0; i < config->n_models; i++) {
		if (strcmp(config->models[i].name, name) == 0)
			return &config->models[i];
	}
	return NULL;
}

int gm_shared_admit_listed(struct gm_connection *c, const char *name)
{
	const struct gm_config_model *model = find_listed(c, name);

	if (model == NULL || model->uid == c->uid ||
	    gm_user_is_privileged(c->uid))
		return 0;
	return gm_connection_bad(
		c, -EACCES,
		"[model %s] of gpumapd.conf keeps this name for uid %u: open "
		"it when gpumapd has loaded the model, or take another name",
		name, (unsigned)model->uid);
}

/* The administrator has the user keep a model of this name. */
static bool is_listed(const struct gm_connection *c, const char *name)
{
	const struct gm_config_model *model = find_listed(c, name);

	return model != NULL && model->uid == c->uid;
}

/* Its memory stays when no process of the user runs any more. */
int gm_shared_admit_kept(struct gm_connection *c, const char *name)
{
	uint32_t most = c->server->d->config->kept_shares_per_uid;

	if (gm_user_is_privileged(c->uid) || is_listed(c, name) ||
	    count_kept(c) < most)
		return 0;
	if (most == 0)
		return gm_connection_bad(
			c, -EPERM,
			"root and gpumapd's own user may keep a share, uid %u "
			"may not; the administrator may set "
			"kept-shares-per-uid in [limits] of gpumapd.conf",
			(unsigned)c->uid);
	return gm_connection_bad(
		c, -EDQUOT,
		"uid %u keeps %u shares, which is its limit; release one, or "
		"raise kept-shares-per-uid in [limits] of gpumapd.conf",
		(unsigned)c->uid, most);
}

/* ---- rows -------------------------------------------------------------- */

static bool is_of_row(const struct gm_shared *shared, uint32_t row)
{
	for (uint32_t i = 0; i < shared->n_buffers; i++) {
		if (shared->buffers[i]->row == row)
			return true;
	}
	return false;
}

/* Names that mean memory of a row are free, unless the memory stays. */
static void end_names(struct gm_daemon *d, uint32_t row)
{
	bool is_barred = d->devices->of[row]->bars != 0;
	struct gm_shared *shared, *next;

	if (!d->server || (!is_barred && gm_share_store_row_stays(d, row)))
		return;
	for (shared = TAILQ_FIRST(&d->server->shares); shared; shared = next) {
		next = TAILQ_NEXT(shared, entry);
		if (is_of_row(shared, row))
			gm_shared_end(shared,
				      is_barred ? "a row of it has left service"
						: "a worker of it has ended");
	}
}

/* The worker of the built-in operators has them, not those of programs. */
static void worker_gone(struct gm_worker_process *worker, bool well)
{
	if (gm_worker_process_is_shown(worker))
		end_names(worker->d, worker->row);
}

/* A worker that runs is heard of when it has ended. */
static void row_closing(struct gm_daemon *d, uint32_t row)
{
	const struct gm_worker_process *worker =
		d->supervisor->rows.workers[row];

	if (!worker || !gm_worker_process_has_child(worker))
		end_names(d, row);
}

/* Would a name be free if it ended now? */
static bool keeps_worker(const struct gm_worker_process *worker)
{
	const struct gm_daemon *d = worker->d;
	const struct gm_shared *shared;
	uint32_t row = worker->row;

	if (!gm_worker_process_is_shown(worker) || !d->server ||
	    gm_share_store_row_stays(d, row))
		return false;
	TAILQ_FOREACH(shared, &d->server->shares, entry)
	{
		if (is_of_row(shared, row))
			return true;
	}
	return false;
}

const struct gm_worker_user gm_share_worker_user = {
	.keeps_worker = keeps_worker,
	.worker_gone = worker_gone,
	.row_closing = row_closing,
};

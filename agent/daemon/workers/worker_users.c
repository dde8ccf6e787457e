/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/workers/worker_users.h"

#include "agent/daemon/base/parts.h"
#include "agent/daemon/workers/worker_process.h"

/* The daemon in a unit test may have no list. */
static const struct gm_worker_user *user_at(const struct gm_daemon *d,
					    unsigned i)
{
	return d->worker_users ? d->worker_users[i] : NULL;
}

bool gm_worker_users_wants_worker(const struct gm_worker_process *worker)
{
	const struct gm_worker_user *user;
	bool is = false;

	for (unsigned i = 0; (user = user_at(worker->d, i)) != NULL && !is;
	     i++) {
		if (user->wants_worker != NULL)
			is = user->wants_worker(worker);
	}
	return is;
}

bool gm_worker_users_keeps_worker(const struct gm_worker_process *worker)
{
	const struct gm_worker_user *user;
	bool is = false;

	for (unsigned i = 0; (user = user_at(worker->d, i)) != NULL && !is;
	     i++) {
		if (user->keeps_worker != NULL)
			is = user->keeps_worker(worker);
	}
	return is;
}

bool gm_worker_users_awaits_worker(const struct gm_worker_process *worker)
{
	const struct gm_worker_user *user;
	bool is = false;

	for (unsigned i = 0; (user = user_at(worker->d, i)) != NULL && !is;
	     i++) {
		if (user->awaits_worker != NULL)
			is = user->awaits_worker(worker);
	}
	return is;
}

bool gm_worker_users_uses_row(const struct gm_daemon *d, uint32_t row)
{
	const struct gm_worker_user *user;
	bool is = false;

	for (unsigned i = 0; (user = user_at(d, i)) != NULL && !is; i++) {
		if (user->uses_row != NULL)
			is = user->uses_row(d, row);
	}
	return is;
}

void gm_worker_users_explain_use(const struct gm_daemon *d, uint32_t row,
				 char ret_why[GM_WHY_BYTES])
{
	const struct gm_worker_user *user;

	for (unsigned i = 0; (user = user_at(d, i)) != NULL; i++) {
		if (user->explain_use != NULL)
			user->explain_use(d, row, ret_why);
	}
}

int gm_worker_users_send(struct gm_worker_process *worker)
{
	const struct gm_worker_user *user;
	int error = 0;

	for (unsigned i = 0;
	     (user = user_at(worker->d, i)) != NULL && error == 0; i++) {
		if (user->say != NULL)
			error = user->say(worker);
	}
	return error;
}

bool gm_worker_users_on_message(struct gm_worker_process *worker,
				const struct gm_wire *wire, int fd)
{
	const struct gm_worker_user *user;
	bool is = false;

	for (unsigned i = 0; (user = user_at(worker->d, i)) != NULL && !is;
	     i++) {
		if (user->on_message != NULL)
			is = user->on_message(worker, wire, fd);
	}
	return is;
}

void gm_worker_users_worker_gone(struct gm_worker_process *worker, bool well)
{
	const struct gm_worker_user *user;

	for (unsigned i = 0; (user = user_at(worker->d, i)) != NULL; i++) {
		if (user->worker_gone != NULL)
			user->worker_gone(worker, well);
	}
}

void gm_worker_users_hung_up(struct gm_worker_process *worker)
{
	const struct gm_worker_user *user;

	for (unsigned i = 0; (user = user_at(worker->d, i)) != NULL; i++) {
		if (user->hung_up != NULL)
			user->hung_up(worker);
	}
}

void gm_worker_users_refused(struct gm_worker_process *worker, int status,
			     const char *why)
{
	const struct gm_worker_user *user;

	for (unsigned i = 0; (user = user_at(worker->d, i)) != NULL; i++) {
		if (user->refused != NULL)
			user->refused(worker, status, why);
	}
}

void gm_worker_users_row_closing(struct gm_daemon *d, uint32_t row)
{
	const struct gm_worker_user *user;

	for (unsigned i = 0; (user = user_at(d, i)) != NULL; i++) {
		if (user->row_closing != NULL)
			user->row_closing(d, row);
	}
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/memfd.h"
#include "agent/daemon/masks/held.h"
#include "agent/daemon/sessions/registration.h"
#include "agent/daemon/workers/attachment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/log.h"
#include "agent/daemon/base/deferred_close.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/masks/device_replicas.h"
#include "agent/daemon/sessions/programs.h"
#include "agent/daemon/sessions/readable.h"
#include "agent/daemon/sessions/session.h"
#include "gpumap.h"
#include "shm/point.h"
#include "shm/queue.h"

uint64_t gm_registration_charge(uint64_t at, uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return (bytes + at % page + page - 1) / page * page;
}

/* ---- judging ----------------------------------------------------------- */

static bool is_file(uint64_t handle)
{
	return gm_handle_kind(handle) == GM_BUFFER_FILE;
}

/* Either kind of file. */
static int check(const struct gm_register *ask, int fd,
		 char ret_why[GM_WHY_BYTES])
{
	if (is_file(ask->handle))
		return gm_readable_check(fd, ret_why);
	return gm_memfd_check(fd, ask->at, ask->bytes,
			      !(ask->flags & GPUMAP_BUFFER_READ_ONLY), ret_why);
}

static int check_form(struct gm_connection *c, const struct gm_register *ask)
{
	uint32_t kind = gm_handle_kind(ask->handle);

	if ((kind != GM_BUFFER_REGISTERED && kind != GM_BUFFER_FILE) ||
	    gm_handle_row(ask->handle) != 0 ||
	    gm_handle_generation(ask->handle) == 0 ||
	    gm_handle_index(ask->handle) >= GM_BUFFERS_MAX)
		return gm_connection_bad(c, -EINVAL,
					 "%#" PRIx64 " is no handle of a "
					 "registration",
					 ask->handle);
	if (ask->flags & ~GPUMAP_BUFFER_READ_ONLY)
		return gm_connection_bad(c, -EINVAL,
					 "registration flags %#x are not known",
					 ask->flags);
	if (kind == GM_BUFFER_FILE && (ask->at || ask->bytes || ask->flags))
		return gm_connection_bad(c, -EINVAL,
					 "a file is registered as a whole");
	return gm_session_check_row(c, ask->row);
}

static int check_limits(struct gm_connection *c, uint64_t bytes)
{
	const struct gm_config *config = c->server->d->config;
	const struct gm_user *user = c->user;

	if (user->registrations >= config->registrations_per_uid)
		return gm_connection_bad(
			c, -EDQUOT,
			"uid %u has %u registrations, which is its limit; "
			"forget some, or raise registrations-per-uid in "
			"[limits] of gpumapd.conf",
			(unsigned)user->uid, user->registrations);
	return gm_user_admit_memory(c->server, user, bytes, "a registration");
}

/* ---- what is kept ------------------------------------------------------ */

struct gm_registration *gm_registration_find(const struct gm_session *session,
					     uint64_t handle)
{
	struct gm_registration *reg;

	TAILQ_FOREACH(reg, &session->registrations, entry)
	{
		if (reg->handle == handle)
			break;
	}
	return reg;
}

void gm_registration_drop(struct gm_registration *reg)
{
	struct gm_session *session = reg->session;

	session->user->registrations--;
	session->user->arena_bytes -= reg->charged;
	TAILQ_REMOVE(&session->registrations, reg, entry);
	gm_mask_held_free(reg->mask);
	/* Ours may be the last of memory, and there may be many pages, also
	 * beside those that were charged; and whose a file system is may take
	 * its time. */
	for (uint32_t i = 0; i < GM_PROGRAM_FORMS; i++)
		gm_deferred_close_close(reg->fds[i], session->user->uid);
	free(reg);
	GM_POINT("registration_gone");
}

void gm_registrations_free(struct gm_session *session)
{
	struct gm_registration *reg;
	struct gm_registered *reach;

	while ((reg = TAILQ_FIRST(&session->registrations))) {
		while ((reach = TAILQ_FIRST(&reg->reaches)))
			gm_registered_free(reach);
		gm_registration_drop(reg);
	}
}

int gm_registration_keep(struct gm_connection *c, const struct gm_register *ask,
			 int fd, uint64_t charged,
			 struct gm_registration **ret_reg)
{
	struct gm_registration *reg;
	int error = check_limits(c, charged);

	if (error)
		return error;
	reg = calloc(1, sizeof(*reg));
	if (!reg)
		return -ENOMEM;
	*reg = (struct gm_registration){ .session = c->session,
					 .handle = ask->handle,
					 .at = ask->at,
					 .bytes = ask->bytes,
					 .charged = charged,
					 .flags = ask->flags,
					 .fds = { fd } };
	for (uint32_t form = 1; form < GM_PROGRAM_FORMS; form++)
		reg->fds[form] = -1;
	TAILQ_INIT(&reg->reaches);
	TAILQ_INSERT_TAIL(&c->session->registrations, reg, entry);
	c->session->user->registrations++;
	c->session->user->arena_bytes += charged;
	*ret_reg = reg;
	return 0;
}

/* Takes @fd over where it is not refused. */
static int make(struct gm_connection *c, const struct gm_register *ask, int fd,
		struct gm_registration **ret_reg)
{
	uint64_t charged = 0;
	int error = check(ask, fd, c->server->why);

	if (error)
		return error;
	if (!is_file(ask->handle))
		charged = gm_registration_charge(ask->at, ask->bytes);
	return gm_registration_keep(c, ask, fd, charged, ret_reg);
}

int gm_registration_check_row(struct gm_connection *c, uint32_t row,
			      const struct gm_registration *reg)
{
	const struct gm_registered *reach;

	TAILQ_FOREACH(reach, &reg->reaches, entry)
	{
		if (reach->row == row)
			return gm_connection_bad(
				c, -EALREADY,
				"it is registered for row %u already", row);
	}
	return 0;
}

/* The same handle for one more row, which gets the file that came first. */
static int check_again(struct gm_connection *c, const struct gm_register *ask,
		       const struct gm_registration *reg)
{
	if (ask->at != reg->at || ask->bytes != reg->bytes ||
	    ask->flags != reg->flags || reg->is_forgotten)
		return gm_connection_bad(c, -EEXIST,
					 "the handle %#" PRIx64 " is that of "
					 "other memory",
					 reg->handle);
	return gm_registration_check_row(c, ask->row, reg);
}

/* ---- requests ---------------------------------------------------------- */

static void held(struct gm_worker_request *request, uint64_t bytes, int fd)
{
	struct gm_registered *reach =
		gm_owner(request, struct gm_registered, request);
	const struct gm_registration *reg = reach->of;
	struct gm_connection *c = reg->session->connection;

	if (reg->program[0])
		gm_log_of(reg->session->user->uid, GM_LOG_INFO,
			  "program_loaded",
			  "session=%" PRIu64 " row=%u handle=%#" PRIx64
			  " name=%s%s",
			  reg->session->id, reach->row, reg->handle,
			  gm_quote(reg->program).text,
			  reg->is_brought ? " of=client" : "");
	else
		gm_log_of(reg->session->user->uid, GM_LOG_INFO, "registered",
			  "session=%" PRIu64 " row=%u handle=%#" PRIx64
			  " bytes=%" PRIu64,
			  reg->session->id, reach->row, reg->handle,
			  reg->bytes);
	GM_POINT("registration_held");
	if (c)
		gm_connection_answer(c, 0, NULL, NULL, 0, -1);
}

static void gone(struct gm_worker_request *request, int status, const char *why)
{
	struct gm_registered *reach =
		gm_owner(request, struct gm_registered, request);
	struct gm_registration *reg = reach->of;
	struct gm_connection *c = reg->session->connection;
	bool was_refused = !request->was_held;
	bool was_forgotten = reg->is_forgotten;
	bool was_last;

	gm_registered_free(reach);
	was_last = TAILQ_EMPTY(&reg->reaches);
	if (was_last && (!reg->mask || was_forgotten))
		gm_registration_drop(reg);
	/* The worker's part has ended, perhaps with the worker; the handle
	 * stays valid. */
	if (c && was_refused)
		gm_connection_answer(c, status == -ESTALE ? -EIO : status, why,
				     NULL, 0, -1);
	else if (c && was_forgotten && was_last)
		gm_connection_answer(c, 0, NULL, NULL, 0, -1);
}

enum gm_program_form gm_registration_form(const struct gm_registration *reg,
					  uint32_t row)
{
	const struct gm_daemon *d = reg->session->server->d;
	enum gm_program_form form = gm_program_form(d->devices->of[row]);

	return reg->is_brought && form != GM_PROGRAM_OBJECT ? GM_PROGRAM_IMAGE
							    : form;
}

void gm_registered_free(struct gm_registered *reach)
{
	TAILQ_REMOVE(&reach->of->reaches, reach, entry);
	gm_mask_device_leave(&reach->wait);
	gm_mask_device_return(reach->device);
	free(reach);
}

struct gm_registered *gm_registered_new(struct gm_registration *reg,
					uint32_t row)
{
	struct gm_registered *reach = calloc(1, sizeof(*reach));

	if (!reach)
		return NULL;
	reach->of = reg;
	reach->row = row;
	reach->request = (struct gm_worker_request){ .ask = GM_WIRE_REGISTER,
						     .handle = reg->handle,
						     .buffer.at = reg->at,
						     .buffer.bytes = reg->bytes,
						     .buffer.flags = reg->flags,
						     .fd = reg->fds[0],
						     .held = held,
						     .gone = gone };
	TAILQ_INSERT_TAIL(&reg->reaches, reach, entry);
	return reach;
}

int gm_registered_ask(struct gm_registered *reach, struct gm_connection *c,
		      const struct gm_control *request)
{
	int error;

	gm_connection_wait(c, request);
	error = gm_attachments_ask(
		&reach->of->session->queue[reach->row]->attachment,
		&reach->request, c->server->why);
	if (error) {
		c->waits = false;
		gm_registered_free(reach);
	}
	return error;
}

int gm_registration_reach(struct gm_connection *c, struct gm_registration *reg,
			  uint32_t row, const struct gm_control *request)
{
	struct gm_registered *reach = gm_registered_new(reg, row);
	enum gm_program_form form;

	if (!reach)
		return -ENOMEM;
	form = reg->program[0] ? gm_registration_form(reg, row)
			       : GM_PROGRAM_OBJECT;
	reach->request.fd = reg->fds[form];
	if (form != GM_PROGRAM_OBJECT)
		reach->request.kernel = reg->kernel;
	return gm_registered_ask(reach, c, request);
}

int gm_registration_handle(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_registration *reg = NULL;
	struct gm_register ask;
	int error;

	memcpy(&ask, r->body, sizeof(ask));
	error = check_form(c, &ask);
	if (error == 0 && c->fd < 0)
		error = c->lost_fd
				? gm_connection_bad(
					  c, -EMFILE,
					  "gpumapd has no descriptor left for "
					  "it; raise LimitNOFILE of gpumapd")
				: gm_connection_bad(
					  c, -EINVAL,
					  "no descriptor came with it");
	if (error)
		return error;
	reg = gm_registration_find(c->session, ask.handle);
	if (reg) {
		error = check_again(c, &ask, reg);
	} else {
		error = make(c, &ask, c->fd, &reg);
		if (error == 0)
			c->fd = -1;
	}
	if (error)
		return error;
	error = gm_registration_reach(c, reg, ask.row, &r->header);
	if (error && TAILQ_EMPTY(&reg->reaches))
		gm_registration_drop(reg);
	return error;
}

/* ---- FORGET ------------------------------------------------------------ */

int gm_registration_forget(struct gm_connection *c,
			   const struct gm_control *request, uint64_t handle)
{
	struct gm_registration *reg = gm_registration_find(c->session, handle);
	struct gm_registered *reach, *next;

	if (!reg || reg->is_forgotten)
		return gm_connection_bad(c, -ENOENT,
					 "the session has registered nothing "
					 "with the handle %#" PRIx64,
					 handle);
	/* The answer may come out of the last of these calls, and with it the
	 * registration's end. */
	gm_connection_wait(c, request);
	reg->is_forgotten = true;
	if (TAILQ_EMPTY(&reg->reaches)) {
		gm_registration_drop(reg);
		gm_connection_answer(c, 0, NULL, NULL, 0, -1);
		return 0;
	}
	for (reach = TAILQ_FIRST(&reg->reaches); reach; reach = next) {
		next = TAILQ_NEXT(reach, entry);
		gm_attachments_give_back(&reach->request);
	}
	return 0;
}

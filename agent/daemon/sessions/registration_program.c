/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Programs among what a session has registered. */

#include "agent/daemon/sessions/registration.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/sessions/programs.h"
#include "agent/daemon/sessions/session.h"
#include "gpumap.h"
#include "shm/queue.h"

/* An image is taken over with its descriptor; what has a name is opened when a
 * row of its kind asks for it. */
static int make_program(struct gm_connection *c,
			const struct gm_program_ask *ask, bool is_brought,
			struct gm_registration **ret_reg)
{
	const struct gm_register as = { .handle = ask->handle };
	struct gm_registration *reg;
	uint64_t bytes = 0;
	int error = 0;

	if (is_brought)
		error = gm_program_check_image(c->server->d->config, c->fd,
					       &bytes, c->server->why);
	else
		error = gm_program_bytes(c, ask, &bytes);
	if (error == 0)
		error = gm_registration_keep(
			c, &as, -1, gm_registration_charge(0, bytes), &reg);
	if (error)
		return error;
	reg->is_brought = is_brought;
	memcpy(reg->program, ask->name, sizeof(reg->program));
	memcpy(reg->kernel, is_brought ? ask->name : "gpumap_program",
	       is_brought ? sizeof(reg->kernel) : sizeof("gpumap_program"));
	if (is_brought) {
		reg->fds[GM_PROGRAM_IMAGE] = c->fd;
		c->fd = -1;
	}
	*ret_reg = reg;
	return 0;
}

static int open_program(struct gm_connection *c, struct gm_registration *reg,
			uint32_t row)
{
	enum gm_program_form form = gm_registration_form(reg, row);

	if (reg->fds[form] >= 0)
		return 0;
	return gm_program_open(c->server->d->config, reg->program, form,
			       &reg->fds[form], c->server->why);
}

static int registration(struct gm_connection *c,
			const struct gm_control *request,
			const struct gm_program_ask *ask, bool is_brought)
{
	struct gm_registration *reg =
		gm_registration_find(c->session, ask->handle);
	int error;

	if (!reg)
		error = make_program(c, ask, is_brought, &reg);
	else if (reg->is_forgotten || reg->is_brought != is_brought ||
		 strcmp(reg->program, ask->name) != 0)
		error = gm_connection_bad(c, -EEXIST,
					  "the handle %#" PRIx64
					  " is that of another program",
					  reg->handle);
	else
		error = gm_registration_check_row(c, ask->row, reg);
	if (error)
		return error;
	error = open_program(c, reg, ask->row);
	if (error == 0)
		error = gm_registration_reach(c, reg, ask->row, request);
	if (error && TAILQ_EMPTY(&reg->reaches))
		gm_registration_drop(reg);
	return error;
}

static int check_form(struct gm_connection *c, const struct gm_program_ask *ask)
{
	const struct gm_session *session = c->session;

	if (!session->runs_programs)
		return gm_connection_bad(
			c, -EINVAL,
			"this session runs no programs: open it with "
			"GPUMAP_SESSION_PROGRAMS");
	if (gm_handle_kind(ask->handle) != GM_BUFFER_PROGRAM ||
	    gm_handle_row(ask->handle) != 0 ||
	    gm_handle_generation(ask->handle) == 0 ||
	    gm_handle_index(ask->handle) >= GM_BUFFERS_MAX)
		return gm_connection_bad(c, -EINVAL,
					 "%#" PRIx64 " is no handle of a "
					 "program",
					 ask->handle);
	if (ask->reserved)
		return gm_connection_bad(c, -EINVAL, "a reserved field is set");
	return gm_session_check_row(c, ask->row);
}

/* The characters of a linker's symbols. */
static int check_kernel(struct gm_connection *c,
			const struct gm_program_ask *ask)
{
	const struct gm_device *device = c->server->d->devices->of[ask->row];

	if (!gm_device_can(device, GPUMAP_DEVICE_CARD))
		return gm_connection_bad(
			c, -EOPNOTSUPP,
			"row %u runs programs of the administrator's alone: "
			"load one by its name, or take a card",
			ask->row);
	if (!gm_program_is_kernel(ask->name))
		return gm_connection_bad(c, -EINVAL,
					 "a kernel's name is up to %u letters, "
					 "digits, '_' and '$'",
					 GM_PROGRAM_NAME_BYTES - 1);
	return 0;
}

int gm_registration_program_handle(struct gm_connection *c,
				   const struct gm_request *r)
{
	const struct gm_registration *known;
	struct gm_program_ask ask;
	bool is_image;
	int error;

	memcpy(&ask, r->body, sizeof(ask));
	known = gm_registration_find(c->session, ask.handle);
	is_image = c->fd >= 0 || (known != NULL && known->is_brought);
	error = check_form(c, &ask);
	if (error == 0)
		error = gm_program_policy(c);
	if (error == 0 && is_image)
		error = check_kernel(c, &ask);
	return error ? error : registration(c, &r->header, &ask, is_image);
}

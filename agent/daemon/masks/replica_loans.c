/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Replicas of masks whose descriptors clients were given.  Each uid gets a
 * replica of its own, because a process can write all memory that it has
 * imported. */

#include "agent/daemon/masks/replica_loans.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/daemon/base/connection.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/masks/device_replicas.h"
#include "agent/daemon/masks/masks.h"
#include "agent/daemon/masks/replica_private.h"
#include "agent/daemon/sharing/export_accounting.h"

/* Until the connection ends: it may have imported it by then. */
struct gm_mask_loan {
	TAILQ_ENTRY(gm_mask_loan) entry;
	struct gm_connection *connection;
	struct gm_mask_device *device;
	struct gm_mask_wait wait;
};

static void free_loan(struct gm_mask_loan *loan)
{
	struct gm_connection *c = loan->connection;

	TAILQ_REMOVE(&c->loans, loan, entry);
	c->user->imports--;
	gm_mask_device_leave(&loan->wait);
	gm_mask_device_return(loan->device);
	free(loan);
}

void gm_mask_loans_connection_dropped(struct gm_connection *c, const char *why)
{
	struct gm_mask_loan *loan;

	while ((loan = TAILQ_FIRST(&c->loans)))
		free_loan(loan);
}

static struct gm_import_reply reply_of(const struct gm_mask_loan *loan)
{
	return (struct gm_import_reply){
		.bytes = gm_mask_device_span(loan->device)->bytes,
		.row = gm_mask_device_row(loan->device),
	};
}

static void log_loan(const struct gm_mask_loan *loan)
{
	gm_log_of(loan->connection->uid, GM_LOG_INFO, "mask_lent",
		  "row=%u export=%#" PRIx64 " pid=%d uid=%u",
		  gm_mask_device_row(loan->device),
		  gm_mask_device_id(loan->device), (int)loan->connection->pid,
		  (unsigned)loan->connection->uid);
}

static void told(struct gm_mask_wait *wait, int status, const char *why)
{
	struct gm_mask_loan *loan = gm_owner(wait, struct gm_mask_loan, wait);
	struct gm_connection *c = loan->connection;
	struct gm_import_reply reply;

	if (status != 0) {
		free_loan(loan);
		gm_connection_answer(c, status, why, NULL, 0, -1);
		return;
	}
	reply = reply_of(loan);
	log_loan(loan);
	gm_connection_answer(c, 0, NULL, &reply, sizeof(reply),
			     gm_mask_device_lend(loan->device));
}

static int give(struct gm_mask_loan *loan, const struct gm_request *r)
{
	struct gm_connection *c = loan->connection;
	struct gm_import_reply reply = reply_of(loan);
	int fd;

	if (!gm_mask_device_is_ready(loan->device)) {
		gm_connection_wait(c, &r->header);
		gm_mask_device_wait(loan->device, &loan->wait);
		return 0;
	}
	log_loan(loan);
	fd = gm_mask_device_lend(loan->device);
	return gm_connection_reply(c, &r->header,
				   &(struct gm_reply){ .body = &reply,
						       .body_bytes =
							       sizeof(reply),
						       .fds = &fd,
						       .n_fds = 1 });
}

/* Its own, if it is that; else one with the same bytes. */
static int find(struct gm_connection *c, uint64_t id,
		struct gm_mask_device **ret_device)
{
	struct gm_daemon *d = c->server->d;
	struct gm_mask_device *device = gm_mask_devices_find(d, id);
	int error;

	if (!device || !gm_mask_device_has_fd(device))
		return gm_connection_bad(c, -ENOENT,
					 "no mask has a replica %#" PRIx64
					 " now: it was published anew, or "
					 "released; look again",
					 id);
	if (gm_mask_device_uid(device) == c->uid) {
		gm_mask_device_hold(device);
		*ret_device = device;
		return 0;
	}
	error = gm_masks_admit_reader(d, c->uid, gm_mask_device_uid(device),
				      c->server->why);
	if (error)
		return error;
	return gm_mask_devices_take(d, gm_mask_device_row(device), c->uid,
				    gm_mask_device_span(device), c->server->why,
				    ret_device);
}

static struct gm_mask_loan *find_loan(const struct gm_connection *c,
				      const struct gm_mask_device *device)
{
	struct gm_mask_loan *loan;

	TAILQ_FOREACH(loan, &c->loans, entry)
	{
		if (loan->device == device)
			break;
	}
	return loan;
}

static struct gm_mask_loan *new_loan(struct gm_connection *c,
				     struct gm_mask_device *device)
{
	struct gm_mask_loan *loan = calloc(1, sizeof(*loan));

	if (!loan)
		return NULL;
	loan->connection = c;
	loan->device = device;
	gm_mask_device_borrow(device);
	loan->wait.done = told;
	c->user->imports++;
	TAILQ_INSERT_TAIL(&c->loans, loan, entry);
	return loan;
}

/* Takes the reference over. */
static int lend(struct gm_connection *c, struct gm_mask_device *device,
		struct gm_mask_loan **ret_loan)
{
	struct gm_mask_loan *loan = find_loan(c, device);
	int error = loan ? 0 : gm_export_accounting_admit_count(c);

	if (loan || error) {
		gm_mask_device_drop(device);
	} else {
		loan = new_loan(c, device);
		if (!loan)
			gm_mask_device_drop(device);
		error = loan ? 0 : -ENOMEM;
	}
	*ret_loan = loan;
	return error;
}

int gm_mask_import_handle(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_mask_device *device;
	struct gm_mask_loan *loan;
	struct gm_import ask;
	int error;

	memcpy(&ask, r->body, sizeof(ask));
	if (ask.handle || ask.flags)
		return gm_connection_bad(c, -EOPNOTSUPP,
					 "jobs name masks: use "
					 "gpumap_buffer_register_mask()");
	error = find(c, ask.id, &device);
	if (error == 0)
		error = lend(c, device, &loan);
	return error ? error : give(loan, r);
}

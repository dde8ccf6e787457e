/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * device_replicas - replicas of masks in memory of cards.
 *
 * A process that imports such memory can write it, whatever access it asks for.
 * So a replica is made for one uid: only this uid gets its descriptor, and only
 * its jobs read it.  There is one for each row, content and uid, however many
 * masks have that content.
 *
 * The row's worker makes a replica from the mask's span on the row's home node;
 * a worker is started for it if there is none.  A large replica is copied from
 * another card's replica of the same span and uid, if there is a path and no
 * client was given that one yet; see peer_copies.c.
 *
 *	WAITING   the worker has not heard of it
 *	ASKED     it was asked
 *	READY     the agent has a descriptor, which keeps the memory, also when
 *	          the worker ends
 *	FAILED    it could not be made, or its row is out of service
 *
 * After a worker's death no client gets a replica that was made before: those
 * masks are published anew, with others, and a client that has an old one keeps
 * it.  A row that is out of service has no replicas, because descriptors would
 * keep its driver open.  Masks that should have a replica there, and have none,
 * get one when the row is READY.
 *
 * A replica is charged to its uid like exported memory, while the agent has it,
 * while a connection or registration that was given its descriptor lasts, and
 * while a worker has it: that of its row, or another that copies from it.
 */
#ifndef GM_DAEMON_MASKS_DEVICE_REPLICAS_H
#define GM_DAEMON_MASKS_DEVICE_REPLICAS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/common/wire.h"
#include "agent/daemon/base/loop.h"
#include "agent/common/refusal.h"
#include "agent/daemon/masks/numa_segments.h"
#include "agent/daemon/workers/worker_users.h"

struct gm_connection;
struct gm_daemon;
struct gm_row_bytes;
struct gm_worker_process;
struct gm_mask_device;
struct gm_request;

/* Embedded in its owner, which fills done(); zero before. */
struct gm_mask_wait {
	TAILQ_ENTRY(gm_mask_wait) entry;
	struct gm_mask_device *device; /* NULL: it waits for nothing */
	/* With 0, or a negative status and why.  Never from within a call of
	 * the owner's. */
	void (*done)(struct gm_mask_wait *wait, int status, const char *why);
};

TAILQ_HEAD(gm_mask_waits, gm_mask_wait);
TAILQ_HEAD(gm_mask_device_list, gm_mask_device);

/* The replicas that a row's worker was asked for, until it has answered or
 * ended, also when a replica has ended meanwhile. */
struct gm_mask_question {
	uint64_t id;
	uint64_t bytes; /* on the row of the worker that is asked */
	uint32_t uid;
	uint32_t from_row; /* whose memory it reads; GM_ROWS: none's */
	uint64_t from;     /* the id of that; 0: none */
	uint64_t from_bytes;
};

#define GM_MASK_QUESTIONS 4u /* at once */

/* The least that a row had no room for, among replicas that no client waits for
 * any more. */
struct gm_mask_want {
	uint64_t bytes; /* of the least of them; 0: there is none */
	uint32_t uid;
	uint32_t looks; /* at what is free, since there seemed to be room */
	uint32_t wait;  /* so many, before it is tried */
};

struct gm_mask_devices {
	struct gm_daemon *d;
	struct gm_mask_device_list all;
	uint64_t last_id;
	struct gm_timer news;           /* there is something to tell */
	uint64_t changed[GM_ROWS / 64]; /* rows whose masks are to be looked
					   * at */
	uint32_t n_looks[GM_ROWS];      /* that were asked for, ever */
	uint64_t waiting[GM_ROWS / 64]; /* rows that wait for another's */
	struct gm_mask_want lacks[GM_ROWS];
};

void gm_mask_devices_init(struct gm_daemon *d);
void gm_mask_devices_exit(struct gm_daemon *d);

/* The node whose memory a card's replicas are made from. */
uint32_t gm_mask_devices_home(const struct gm_daemon *d, uint32_t row);

/*
 * gm_mask_devices_take - take a reference of a span's replica for a uid
 *
 * The replica may not be READY yet, see gm_mask_device_wait().
 *
 * Returns	0
 *		-ENODEV		the row has no worker, and none soon
 *		-EDQUOT		the uid may not have so much of the row
 *		-ENOSPC		the row has not so much left for masks
 *		-ESHUTDOWN, -ENOMEM
 */
int gm_mask_devices_take(struct gm_daemon *d, uint32_t row, uint32_t uid,
			 struct gm_span *span, char ret_why[GM_WHY_BYTES],
			 struct gm_mask_device **ret_device);
void gm_mask_device_hold(struct gm_mask_device *device);
/* NULL is allowed. */
void gm_mask_device_drop(struct gm_mask_device *device);

/* The reference is from now on that of a client that may be given the
 * descriptor, and may have the memory as long as it lasts; and drop such a
 * reference, NULL is allowed. */
void gm_mask_device_borrow(struct gm_mask_device *device);
void gm_mask_device_return(struct gm_mask_device *device);

/* Tell once it is READY, or FAILED: soon, where it is so already. */
void gm_mask_device_wait(struct gm_mask_device *device,
			 struct gm_mask_wait *wait);
void gm_mask_device_leave(struct gm_mask_wait *wait);

bool gm_mask_device_is_ready(const struct gm_mask_device *device);

/* Its number in replicas of masks; 0: it cannot be had. */
uint64_t gm_mask_device_id(const struct gm_mask_device *device);

uint32_t gm_mask_device_row(const struct gm_mask_device *device);
uint32_t gm_mask_device_uid(const struct gm_mask_device *device);
/* The span that it is made from. */
struct gm_span *gm_mask_device_span(const struct gm_mask_device *device);

/* Is there a descriptor? */
bool gm_mask_device_has_fd(const struct gm_mask_device *device);

/* To be given to a client, or to a worker for jobs, which may write there.
 * Ours as long as the reference; -1 where it is not READY. */
int gm_mask_device_lend(struct gm_mask_device *device);

/* Can clients have the replica of this id now? */
bool gm_mask_devices_good(const struct gm_daemon *d, uint64_t id);

/* Bytes of a row that replicas of a uid take; and whether there are any of a
 * row, of any uid. */
uint64_t gm_mask_devices_bytes(const struct gm_daemon *d, uint32_t row,
			       uint32_t uid);
bool gm_mask_devices_row(const struct gm_daemon *d, uint32_t row);
void gm_mask_devices_row_bytes(const struct gm_daemon *d, uint32_t row,
			       uint32_t uid, struct gm_row_bytes *sum);

/* Masks that have a replica of this row, or should, are to be looked at. */
void gm_mask_devices_recheck(struct gm_daemon *d, uint32_t row);

/* A mask of this uid does without a replica of so many bytes on the row, for
 * want of room; and what is free there has been looked at: it may be made
 * now. */
void gm_mask_devices_want(struct gm_daemon *d, uint32_t row, uint32_t uid,
			  uint64_t bytes);
void gm_mask_devices_memory_read(struct gm_daemon *d, uint32_t row);

/* The replicas' part of a row's worker, see workers/worker_users.h. */
extern const struct gm_worker_user gm_mask_worker_user;

/* Is this id of a replica, and not of a buffer? */
static inline bool gm_mask_devices_is_id(uint64_t id)
{
	return (id >> 55 & 1) != 0;
}

#endif

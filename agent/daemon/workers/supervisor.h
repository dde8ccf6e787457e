/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * supervisor - one worker per row, and one per row and uid for programs,
 * started, watched, buried and started again.
 *
 * A session's queue on a row takes a seat there.  The seat outlives workers:
 * each of them is told of it (ATTACH), and when one dies a short-lived
 * undertaker ends what it owed before the next one is started.  Nobody but a
 * worker or an undertaker ever touches the memory behind a seat.
 */
#ifndef GM_DAEMON_WORKERS_SUPERVISOR_H
#define GM_DAEMON_WORKERS_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "agent/daemon/base/refusal.h"
#include "agent/daemon/workers/worker_request.h"

struct gm_daemon;
struct gm_worker_process;

enum gm_attachment_state {
	GM_ATTACHMENT_WAITING, /* the row's child, if any, does not know it */
	GM_ATTACHMENT_OFFERED, /* ATTACH is sent */
	GM_ATTACHMENT_TAKEN,   /* and answered */
	GM_ATTACHMENT_LEAVING, /* DETACH is to be sent */
	GM_ATTACHMENT_LEFT     /* and is sent */
};

/* Why a row may have no worker.  Any of them is enough. */
#define GM_BAR_HEALTH (UINT32_C(1) << 0) /* the probe says so */
#define GM_BAR_DRAIN  (UINT32_C(1) << 1) /* the administrator wants it */
#define GM_BAR_LOST   (UINT32_C(1) << 2) /* its worker found no such device */

/* Embedded in its owner, who fills the first part and keeps it as it is. */
struct gm_attachment {
	uint64_t session; /* never reused */
	uint32_t uid;
	bool runs_programs; /* wants the worker for those of this uid */
	uint32_t depth;
	uint64_t queue_at;
	uint64_t arena_bytes;
	uint64_t range_at;
	uint64_t range_bytes;
	int queues; /* descriptors, the owner's; socket may be -1 */
	int arena;
	int doorbell;
	int socket;

	/* The worker serves this queue, for the first time; or it cannot, with
	 * a negative status, and the seat is given up already. */
	void (*attached)(struct gm_attachment *attachment, int status,
			 const char *why);
	/* The contract was broken or memory is short: the session must end. */
	void (*broken)(struct gm_attachment *attachment, const char *why);
	/* After gm_supervisor_leave(): nothing of it is mapped any more, and
	 * the seat is its owner's to free. */
	void (*left)(struct gm_attachment *attachment);

	/* The supervisor's own. */
	TAILQ_ENTRY(gm_attachment) entry;
	struct gm_worker_process *worker; /* NULL: has no seat */
	enum gm_attachment_state state;
	uint32_t place;       /* of its journal */
	uint32_t incarnation; /* workers it has been offered to */
	uint32_t strikes;     /* undertakers that died over it */
	bool was_attached;
	bool is_owed; /* by a dead worker, and not buried yet */
	struct gm_worker_request_list claims; /* empty without a seat */
	struct gm_user_queue *queued_user;    /* of its uid, see user_queue.h */
	uint64_t asked;                       /* number of the last for it */
	bool asks;                            /* some of its claims wait */
};

/*
 * gm_supervisor_start - after every row was published as PROBING or LOST
 *
 * Returns	0, or a negative errno after it has logged why
 */
int gm_supervisor_start(struct gm_daemon *d);

/* Start no worker any more, and let those that run finish. */
void gm_supervisor_drain(struct gm_daemon *d);

/* Have they? */
bool gm_supervisor_drained(const struct gm_daemon *d);

/* Free everything; workers end with us. */
void gm_supervisor_exit(struct gm_daemon *d);

/*
 * gm_supervisor_seat - have the worker of a row serve a queue
 *
 * seat		zero but for what its owner fills
 * ret_why	what was wrong and what to do
 *
 * attachment->attached() tells when it is served; that may take as long as the
 * row takes to come back. A newcomer is not kept beyond a second of back-off,
 * nor once the row is barred or its worker does not end by SIGKILL.
 *
 * Returns	0
 *		-ENODEV		there is no such row, or it has no worker, or
 *				none soon
 *		-EUSERS		the row has no seat left
 *		-ESHUTDOWN	the agent is draining
 *		-ENOMEM
 */
int gm_supervisor_seat(struct gm_daemon *d, uint32_t row,
		       struct gm_attachment *attachment,
		       char ret_why[GM_WHY_BYTES]);

/* Give a seat up.  attachment->left() follows, perhaps before this returns. */
void gm_supervisor_leave(struct gm_daemon *d, struct gm_attachment *attachment);

/*
 * gm_supervisor_admit - a row that came late, or came back, is to be served
 *
 * One that is served already stays as it is.  Returns 0, or a negative errno.
 */
int gm_supervisor_admit(struct gm_daemon *d, uint32_t row);

/* Has the row a process, a session's place, or programs of a uid? */
bool gm_supervisor_row_used(const struct gm_daemon *d, uint32_t row);

/* The row is given to another device; it is not used. */
void gm_supervisor_row_reused(struct gm_daemon *d, uint32_t row);

/*
 * gm_supervisor_bar - no worker for this row until gm_supervisor_unbar()
 *
 * bar		GM_BAR_*
 * finish	the worker ends what is in its rings first, and is killed when
 *		it has done nothing for config.drain_row_ns; else it is killed
 *		now
 * why		for its log and for who asks for a seat
 * closed	called once, perhaps before this returns, when no process of the
 *		row runs: nothing of ours has its device open; NULL for nobody
 *
 * The row's state is the caller's to show, before this.  Sessions keep their
 * seats; what they submit ends with -ENODEV.
 */
void gm_supervisor_bar(struct gm_daemon *d, uint32_t row, uint32_t bar,
		       bool finish, const char *why,
		       void (*closed)(struct gm_daemon *d, uint32_t row));

/* What keeps @closed from being called: says which process of the row runs yet,
 * and whether that can be helped. */
void gm_supervisor_what_runs(const struct gm_daemon *d, uint32_t row,
			     char ret_why[GM_WHY_BYTES]);

/*
 * gm_supervisor_unbar - that reason is no more
 *
 * bars		GM_BAR_*, one or more; to be called for GM_BAR_HEALTH and
 *		GM_BAR_LOST each time that the probe says that the device is
 *		usable, and costs nothing when it was not barred
 *
 * With the last reason gone, the row gets a worker if somebody has a seat
 * there, and is shown READY.
 */
void gm_supervisor_unbar(struct gm_daemon *d, uint32_t row, uint32_t bars);

#endif

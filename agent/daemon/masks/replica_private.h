/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * replica_private - what the files that keep replicas on devices share.
 *
 *	device_replicas.c	which there are, and who waits for them
 *	replica_table.c		finding one, and what all of these need of it
 *	replica_requests.c	how the workers of their rows make them
 *	peer_copies.c		from which other one
 *	replica_loans.c		who was given a descriptor
 */
#ifndef GM_DAEMON_MASKS_REPLICA_PRIVATE_H
#define GM_DAEMON_MASKS_REPLICA_PRIVATE_H

#include "agent/daemon/masks/device_replicas.h"

enum gm_mask_device_state {
	GM_MASK_WAITING,
	GM_MASK_ASKED,
	GM_MASK_READY,
	GM_MASK_FAILED
};

struct gm_mask_device {
	TAILQ_ENTRY(gm_mask_device) entry; /* of all */
	struct gm_daemon *d;
	uint64_t id;
	uint32_t row;
	uint32_t row_generation;
	uint32_t uid;
	uint32_t refs;
	enum gm_mask_device_state state;
	bool is_stale; /* no client gets it any more */
	uint32_t strikes;
	uint64_t asked;   /* counts the questions of its row */
	uint64_t bytes;   /* of the row's memory that it takes */
	int fd;           /* -1: there is none */
	bool is_lent;     /* others than makers of replicas were given it */
	bool is_imported; /* FAILED, and borrowers may have its memory yet */
	uint32_t borrowers;
	bool no_peer; /* upload it */
	bool is_void; /* ASKED: what it is copied from is not to be relied on */
	uint64_t from; /* ASKED: id of what it may be copied from; 0: none */
	uint32_t from_row;
	struct gm_span *span; /* with a reference of ours */
	struct gm_mask_waits waits;
	int status; /* of one that FAILED */
	char why[GM_WHY_BYTES];
};

/* The replica could not be made, or cannot be had any more. */
void gm_mask_device_fail(struct gm_mask_device *device, int status,
			 const char *why);

/* Does it, by itself, charge its bytes to its uid? */
bool gm_mask_device_is_charged(const struct gm_mask_device *device);

/* Those who wait are to be told, from the loop. */
void gm_mask_devices_notify(struct gm_daemon *d);

/* ---- peer_copies.c ------------------------------------------------------- */

/* May another be made from it, once? */
bool gm_mask_peers_is_large(const struct gm_mask_device *device);

/* The replica that this one is to be copied from, or NULL; @ret_waits: that one
 * is being made, so ask again from gm_mask_peers_go(). */
struct gm_mask_device *gm_mask_peers_find(const struct gm_mask_device *device,
					  bool *ret_waits);

/* Its row's worker was asked for it. */
void gm_mask_peers_begin(struct gm_mask_device *device,
			 const struct gm_mask_device *from);

/* The worker has answered what @id was asked for; or has ended, which answers
 * all. */
void gm_mask_peers_answered(struct gm_worker_process *worker, uint64_t id);
void gm_mask_peers_silence(struct gm_worker_process *worker);

/* Does a worker copy from it just now? */
bool gm_mask_peers_copied(const struct gm_daemon *d, uint64_t id);

/* Bytes of a row that workers have of a uid's replicas, and that these do not
 * charge by themselves. */
uint64_t gm_mask_peers_bytes(const struct gm_daemon *d, uint32_t row,
			     uint32_t uid);

/* The worker has answered.  Returns whether the memory that it made, if any,
 * can be used. */
bool gm_mask_peers_end(struct gm_mask_device *device,
		       const struct gm_wire *wire);

/* The worker has ended; @well: it was asked to. */
void gm_mask_peers_lost(struct gm_mask_device *device, bool well);

/* Do not rely on copies that are being made from it. */
void gm_mask_peers_void(const struct gm_mask_device *from);

/* A message for this row's worker waits. */
void gm_mask_peers_wait(struct gm_daemon *d, uint32_t row);

/* From the loop, after news. */
void gm_mask_peers_go(struct gm_daemon *d);

/* The replica of an id, or NULL. */
struct gm_mask_device *gm_mask_devices_find(const struct gm_daemon *d,
					    uint64_t id);

/* May a worker of another row copy from memory of this one just now? */
bool gm_mask_devices_read(const struct gm_daemon *d, uint32_t row);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * events - a module of a lower folder notifies those above it, and asks them,
 * without knowing them.
 *
 * agent/daemon/subscribers.c has a function for each event, which calls the
 * modules that handle it.  A daemon without subscribers is that of a test of
 * one module.
 */
#ifndef GM_DAEMON_BASE_EVENTS_H
#define GM_DAEMON_BASE_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

struct gm_block;
struct gm_connection;
struct gm_daemon;
struct gm_put;

/* Bytes of one row that one uid has outside of its sessions' buffers. */
struct gm_row_bytes {
	uint64_t masks;     /* replicas of masks */
	uint64_t abandoned; /* exports whose sessions have ended */
};

struct gm_events {
	/* Its socket is closed, and nothing is read from it any more.  @why:
	 * for the log of what ends with it. */
	void (*connection_dropped)(struct gm_connection *c, const char *why);

	/* The service manager has been sent more of what fd_store.h has for
	 * it. */
	void (*fd_store_sent)(struct gm_daemon *d);

	/* A slot of the directory has been stored, and readers are not woken
	 * yet.  @put: NULL, or what it names now. */
	void (*slot_stored)(struct gm_daemon *d, uint32_t slot,
			    const struct gm_put *put);
	/* Readers have been woken.  The unit of either block may be 0: none. */
	void (*object_moved)(struct gm_daemon *d, const struct gm_block *old,
			     const struct gm_block *new_block);
	/* A layer map of this name has been published. */
	void (*map_published)(struct gm_daemon *d, const char *name);
	/* Must the block at @unit stay as it is, although no slot names it? */
	bool (*block_pinned)(const struct gm_daemon *d, uint32_t unit);
	/* The block at @unit is about to be free. */
	void (*block_freed)(struct gm_daemon *d, uint32_t unit);

	/* A row is about to be seen as not READY any more; was READY. */
	void (*row_closing)(struct gm_daemon *d, uint32_t row);
	/* A row is seen as READY; was not. */
	void (*row_ready)(struct gm_daemon *d, uint32_t row);
	/* A card was brought back after a drain, and the probe has not seen
	 * it. */
	void (*row_unseen)(struct gm_daemon *d, uint32_t row);
	/* A device is there that was not. */
	void (*row_came)(struct gm_daemon *d);
	/* The free memory of a row has been read. */
	void (*row_memory_read)(struct gm_daemon *d, uint32_t row);
	/* Replicas of masks on a row are not what they were. */
	void (*replicas_changed)(struct gm_daemon *d, uint32_t row);
	/* A row is given to another device: nothing uses it, see @row_used. */
	void (*row_reused)(struct gm_daemon *d, uint32_t row);
	/* Does anything use or name the row of a device that is gone? */
	bool (*row_used)(const struct gm_daemon *d, uint32_t row);
	/* Bytes that the sessions of a row have. */
	uint64_t (*row_used_bytes)(const struct gm_daemon *d, uint32_t row);
	/* Add what a uid has of a row. */
	void (*row_bytes)(const struct gm_daemon *d, uint32_t row, uint32_t uid,
			  struct gm_row_bytes *sum);
	/* Add the bytes of each row, GM_ROWS of them, that sessions have and
	 * that stay when these end. */
	void (*kept_bytes)(const struct gm_daemon *d, uint64_t *sums);
};

/* Each calls the function of its name.  Without subscribers the answers are
 * false and 0. */
void gm_events_connection_dropped(const struct gm_daemon *d,
				  struct gm_connection *c, const char *why);
void gm_events_fd_store_sent(struct gm_daemon *d);
void gm_events_slot_stored(struct gm_daemon *d, uint32_t slot,
			   const struct gm_put *put);
void gm_events_object_moved(struct gm_daemon *d, const struct gm_block *old,
			    const struct gm_block *new_block);
void gm_events_map_published(struct gm_daemon *d, const char *name);
bool gm_events_block_pinned(const struct gm_daemon *d, uint32_t unit);
void gm_events_block_freed(struct gm_daemon *d, uint32_t unit);
void gm_events_row_closing(struct gm_daemon *d, uint32_t row);
void gm_events_row_ready(struct gm_daemon *d, uint32_t row);
void gm_events_row_unseen(struct gm_daemon *d, uint32_t row);
void gm_events_row_came(struct gm_daemon *d);
void gm_events_row_memory_read(struct gm_daemon *d, uint32_t row);
void gm_events_replicas_changed(struct gm_daemon *d, uint32_t row);
void gm_events_row_reused(struct gm_daemon *d, uint32_t row);
bool gm_events_row_used(const struct gm_daemon *d, uint32_t row);
uint64_t gm_events_row_used_bytes(const struct gm_daemon *d, uint32_t row);
struct gm_row_bytes gm_events_row_bytes(const struct gm_daemon *d, uint32_t row,
					uint32_t uid);
void gm_events_kept_bytes(const struct gm_daemon *d, uint64_t *sums);

#endif

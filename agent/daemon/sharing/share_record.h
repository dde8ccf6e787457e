/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * share_record - what the next agent must know of a share.
 *
 * A memfd, which no client ever gets, and which the service manager keeps
 * (share_store.h):
 *
 *	struct gm_share_head
 *	struct gm_share_part		of each buffer
 *	uint32_t			each uid that may open it
 *	char				the fields of its key
 *	struct gm_share_place		of each holder, up to the file's end
 *
 * each part from a multiple of 8 on.  All is written before the manager has the
 * memfd, but for the holders and @ended, which the agent stores as they change:
 * the next agent finds them as this one left them, also where it was killed.
 * A place counts once its word is stored, which is last.  The memfd is sealed,
 * so that it cannot shrink under the agent that maps it.
 *
 *   SHARE.place	when a process had begun, before the word of its place
 *   SHARE.ended	the end of the share, before anything else of it ends
 *
 * The format is one between builds: another one has another magic, and is not
 * read.
 */
#ifndef GM_DAEMON_SHARING_SHARE_RECORD_H
#define GM_DAEMON_SHARING_SHARE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/common/lineage.h"
#include "agent/common/manager.h"
#include "gpumap.h"
#include "shm/atomic.h"
#include "shm/control.h"

struct gm_shared;

#define GM_SHARE_RECORD_MAGIC   UINT64_C(0x3130657261687367) /* "gshare01" */

#define GM_SHARE_PART_READ_ONLY 1u
#define GM_SHARE_PART_SEALED    2u /* its descriptor cannot write */

struct gm_share_head {
	uint64_t magic;
	uint64_t id;
	uint64_t made_ns; /* on CLOCK_BOOTTIME */
	uint64_t about_bytes;
	uint32_t uid;
	uint32_t flags; /* GPUMAP_SHARE_* */
	uint32_t n_buffers;
	uint32_t n_uids;
	uint32_t fields_bytes;
	gm_a32 ended;
	uint8_t hash[GM_SHARE_HASH_BYTES];
	char name[GPUMAP_NAME_MAX + 1];
};

struct gm_share_part {
	uint8_t uuid[16]; /* of the row's device */
	uint64_t bytes;
	uint32_t flags; /* GM_SHARE_PART_* */
	uint32_t reserved;
};

#define GM_SHARE_PLACE_FIRST (UINT64_C(1) << 63) /* it has made the share */

struct gm_share_place {
	gm_a64 word; /* the process's pid, and _FIRST; 0: the place is free */
	uint64_t start; /* the process began then or before, see lineage.h */
	uint32_t uid;
	uint32_t reserved;
};

#define GM_SHARE_PLACES_MAX 65536u

struct gm_share_record {
	int fd;
	size_t bytes;
	struct gm_share_head *head;
	struct gm_share_part *parts;
	uint32_t *uids;
	char *fields;
	struct gm_share_place *places;
	uint32_t n_places;
};

/*
 * gm_share_record_make - the record of a share, whose holders are none yet
 *
 * Returns	0; -ENOMEM, -EMFILE
 */
int gm_share_record_make(const struct gm_shared *shared,
			 struct gm_share_record *ret_record);

/*
 * gm_share_record_open - the record that an earlier agent left
 *
 * fd		stays the caller's
 *
 * Returns	0; -EPROTO: it is of another format, or no record; -ENOMEM,
 *		-EMFILE
 */
int gm_share_record_open(int fd, struct gm_share_record *ret_record);

/* Unmap it and close it.  Allowed for a zeroed one. */
void gm_share_record_close(struct gm_share_record *record);

/*
 * gm_share_record_hold - a process holds the share from here on
 *
 * ret_place	to be given back with gm_share_record_let_go()
 *
 * Returns	0; -ENOMEM: there is no room for more holders
 */
int gm_share_record_hold(struct gm_share_record *record,
			 const struct gm_lineage_member *process, uint32_t uid,
			 bool is_first, uint32_t *ret_place);
void gm_share_record_let_go(struct gm_share_record *record, uint32_t place);

/* The process in this place has made the share. */
void gm_share_record_set_first(struct gm_share_record *record, uint32_t place);

/* A name by which the manager keeps a descriptor: the record's, or that of a
 * buffer by its index, or of what is said about the share. */
struct gm_share_name {
	char text[GM_MANAGER_NAME_BYTES];
};

#define GM_SHARE_ABOUT  UINT32_MAX /* instead of the index of a buffer */
#define GM_SHARE_ID_MAX (UINT64_MAX >> 1)

struct gm_share_name gm_share_name(uint64_t id);
struct gm_share_name gm_share_part_name(uint64_t id, uint32_t index);

/* The id of the share that a name is of, 0: of none that an agent has made; and
 * whether it is its record's. */
uint64_t gm_share_name_id(const char *name, bool *ret_is_record);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gang_record - what nodes say of gangs: the record of the node that asks, and
 * the answer of each member.
 *
 *	gangs/NODE/ID	what a process of NODE asks for
 *	holds/NODE/ID	what NODE has done for it
 *
 *   - Another node wrote the value: the decoders believe nothing.
 *   - ID is random, so no two gangs have the same.
 */
#ifndef GM_GANG_RECORD_H
#define GM_GANG_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/common/refusal.h"
#include "agent/store/store.h"
#include "agent/sync/sync.h"
#include "shm/control_sync.h"

#define GM_GANG_RECORDS     "gangs/"
#define GM_GANG_ANSWERS     "holds/"

#define GM_GANG_MEMBERS_MAX 64u
#define GM_GANG_PARTS_MAX   64u /* of a member */
#define GM_GANG_ID_BYTES    17  /* 16 hexadecimal digits, and a NUL */
#define GM_GANG_PATH_BYTES  (64 + GM_GANG_ID_BYTES) /* of "NODE/ID" */
#define GM_GANG_KEY_BYTES   (sizeof(GM_GANG_RECORDS) + GM_GANG_PATH_BYTES)

struct gm_gang_member {
	char node[64];
	struct gm_sync_gang_part *parts; /* none twice */
	uint32_t n_parts;
};

struct gm_gang_record {
	char name[64]; /* of the map on each node */
	uint32_t uid;
	uint32_t n_members;
	struct gm_gang_member *members; /* none twice */
};

struct gm_gang_answer {
	char gang[GM_GANG_PATH_BYTES];
	char instance[GM_SYNC_INSTANCE_BYTES];
	int status;             /* 0: held; or a negative errno */
	char why[GM_WHY_BYTES]; /* of a refusal: one printable line */
};

/* The node and the ID of a key after @prefix.  False: it is no such key. */
bool gm_gang_key_split(const char *key, const char *prefix, char ret_node[64],
		       char ret_id[GM_GANG_ID_BYTES]);

/* Room for a member of so many parts, and the member; NULL: out of memory, or
 * there are GM_GANG_MEMBERS_MAX. */
struct gm_gang_member *gm_gang_record_add(struct gm_gang_record *record,
					  uint32_t n_parts);

/* The member of this name, or NULL. */
const struct gm_gang_member *
gm_gang_record_find(const struct gm_gang_record *record, const char *node);

/* Check what may come from any process.  Returns 0 or -EINVAL. */
int gm_gang_record_check(const struct gm_gang_record *record,
			 char ret_why[GM_WHY_BYTES]);

void gm_gang_record_free(struct gm_gang_record *record);

/*
 * gm_gang_record_encode - write the value of a gang's key
 * gm_gang_answer_encode - write the value of a member's key
 *
 * Returns	its bytes, without a NUL, or
 *		-E2BIG		it has more than GM_STORE_VALUE_BYTES
 *		-ENOMEM
 */
int gm_gang_record_encode(const struct gm_gang_record *record,
			  char ret_value[GM_STORE_VALUE_BYTES]);
int gm_gang_answer_encode(const struct gm_gang_answer *answer,
			  char ret_value[GM_STORE_VALUE_BYTES]);

/*
 * gm_gang_record_decode - check the value of a gang's key, and read it
 * gm_gang_answer_decode - check the value of a member's key, and read it
 *
 * ret_why	what is wrong with the value: one printable line
 *
 * Returns	0
 *		-EPROTO		the value is refused
 *		-ENOMEM
 */
int gm_gang_record_decode(const void *value, size_t bytes,
			  struct gm_gang_record *ret_record,
			  char ret_why[GM_WHY_BYTES]);
int gm_gang_answer_decode(const void *value, size_t bytes,
			  struct gm_gang_answer *ret_answer,
			  char ret_why[GM_WHY_BYTES]);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * control_sync.h - the messages between a process and its node's gpumap-sync.
 *
 * Framed as those of control.h, with types of their own, over a socket of
 * gpumap-sync's.  HELLO comes first.  Requests may be answered in another order
 * than they came: the reply has the serial of its request.  EVENT comes without
 * a request, with serial 0.  No message carries a descriptor.
 */
#ifndef GM_CONTROL_SYNC_H
#define GM_CONTROL_SYNC_H

#include <stdint.h>

#include "shm/control.h"

#define GM_SYNC_BYTES_MAX (128u << 10) /* of one record */

enum gm_sync_type {
	GM_SYNC_HELLO = 1,
	GM_SYNC_EVENT = 2,
	GM_SYNC_GANG_RESERVE = 3,
	GM_SYNC_GANG_RELEASE = 4,
	GM_SYNC_VALUE_GET = 5,
	GM_SYNC_VALUE_CAS = 6,
	GM_SYNC_VALUE_WAIT = 7,
	GM_SYNC_VALUE_LIST = 8
};

/* HELLO: no request body. */
struct gm_sync_hello_reply {
	char cluster[64];
	char node[64];
	uint64_t lease_ns;
	uint32_t version; /* GPUMAP_VERSION */
	uint32_t reserved;
};

/* EVENT: its header's status is -ENOLINK: the gang is lost; or -ESTALE: this
 * node's lease is, and the ephemeral values.  Body: a gm_refusal. */

/* GANG_RESERVE: tail: n_members times a gm_sync_gang_member and its parts.  No
 * reply body. */
struct gm_sync_gang {
	char name[64];
	uint64_t timeout_ns; /* 0: the lease's time */
	uint32_t n_members;
	uint32_t reserved;
};

struct gm_sync_gang_member {
	char node[64];
	uint32_t n_parts;
	uint32_t reserved;
};

struct gm_sync_gang_part {
	uint8_t uuid[16];
	uint64_t bytes;
};

/* GANG_RELEASE: no body. */

/* VALUE_GET.  Reply tail: the value. */
struct gm_sync_value_get {
	char key[128];
};

struct gm_sync_value_get_reply {
	uint64_t revision; /* 0: there is none */
};

/* VALUE_CAS: tail: the value.  With -ESTALE, too, the reply has the body, after
 * a gm_refusal. */
struct gm_sync_value_cas {
	char key[128];
	uint64_t expected;
	uint32_t flags;  /* GPUMAP_VALUE_* */
	uint32_t delete; /* 1: there is no tail */
};

struct gm_sync_value_cas_reply {
	uint64_t revision;
};

/* VALUE_WAIT: answered when something below the prefix has changed since @seen,
 * at once if it has. */
struct gm_sync_value_wait {
	char prefix[128];
	uint64_t seen;       /* 0: none; answered at once */
	uint64_t timeout_ns; /* UINT64_MAX: none */
};

struct gm_sync_value_wait_reply {
	uint64_t seen;
};

#define GM_SYNC_ENDS_BYTES (32u << 10) /* of a list, at most */

/* VALUE_LIST: the keys that begin with a prefix.  Reply tail: their ends, a NUL
 * after each. */
struct gm_sync_value_list {
	char prefix[128];
};

struct gm_sync_value_list_reply {
	uint32_t n;    /* in the tail */
	uint32_t more; /* there was no room for them */
};

_Static_assert(sizeof(struct gm_sync_hello_reply) == 144, "wire");
_Static_assert(sizeof(struct gm_sync_gang) == 80, "wire");
_Static_assert(sizeof(struct gm_sync_gang_member) == 72, "wire");
_Static_assert(sizeof(struct gm_sync_gang_part) == 24, "wire");
_Static_assert(sizeof(struct gm_sync_value_get) == 128, "wire");
_Static_assert(sizeof(struct gm_sync_value_get_reply) == 8, "wire");
_Static_assert(sizeof(struct gm_sync_value_cas) == 144, "wire");
_Static_assert(sizeof(struct gm_sync_value_cas_reply) == 8, "wire");
_Static_assert(sizeof(struct gm_sync_value_wait) == 144, "wire");
_Static_assert(sizeof(struct gm_sync_value_wait_reply) == 8, "wire");
_Static_assert(sizeof(struct gm_sync_value_list) == 128, "wire");
_Static_assert(sizeof(struct gm_sync_value_list_reply) == 8, "wire");

#endif

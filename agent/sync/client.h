/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * client - a process of this node that is connected to gpumap-sync.
 *
 * Nothing here waits: a client that reads too little is ended.  The struct is
 * still there when gm_sync_client_reply() returns, and the parts hear of the
 * end later, by client_gone().
 */
#ifndef GM_SYNC_CLIENT_H
#define GM_SYNC_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "agent/sync/sync.h"
#include "shm/control_sync.h"

struct gm_gang; /* gangs.h */

struct gm_sync_client {
	LIST_ENTRY(gm_sync_client) entry;
	struct gm_sync *sync;
	struct gm_sync_source source;
	uid_t uid;
	pid_t pid; /* 0: where we cannot see it */
	uint64_t since_ns;
	bool said_hello;
	bool is_refused;      /* gets an answer to its HELLO, and no more */
	bool is_over;         /* it is ended before the loop sleeps */
	struct gm_gang *gang; /* NULL: none */
};

static inline struct gm_sync_client *
gm_sync_client_of(struct gm_sync_source *source)
{
	return (void *)((char *)source -
			offsetof(struct gm_sync_client, source));
}

/* A request, whose form has been checked. */
struct gm_sync_message {
	const struct gm_control *header; /* copy it to reply later */
	const void *body; /* aligned to 8; bytes that it lacks are 0 */
	uint32_t body_bytes;
	const void *tail;
	uint32_t tail_bytes;
};

struct gm_sync_reply {
	int status;      /* 0 or a negative errno */
	const char *why; /* of a refusal; NULL: strerror() */
	/* in a refusal they follow its gm_refusal */
	const void *body;
	uint32_t body_bytes;
	const void *tail;
	uint32_t tail_bytes;
};

void gm_sync_client_reply(struct gm_sync_client *client,
			  const struct gm_control *request,
			  const struct gm_sync_reply *reply);

/* Refuse with a status and its reason. */
void gm_sync_client_refuse(struct gm_sync_client *client,
			   const struct gm_control *request, int status,
			   const char *why);

/* Send an EVENT. */
void gm_sync_client_tell(struct gm_sync_client *client, int status,
			 const char *why);

#endif

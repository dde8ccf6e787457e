/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * user - what each uid has of us: connections, sessions, memory.
 */
#ifndef GM_DAEMON_BASE_USER_H
#define GM_DAEMON_BASE_USER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

struct gm_connection;
struct gm_control_server;

TAILQ_HEAD(gm_connection_list, gm_connection);

/* Resources of one uid; kept while it has any. */
struct gm_user {
	TAILQ_ENTRY(gm_user) entry;
	uid_t uid;
	uint32_t holds; /* connections and sessions, open or ending */
	uint32_t connections;
	uint32_t sessions;
	uint32_t registrations;
	uint32_t comms;    /* of its sessions, see meshes/comms.h */
	uint32_t members;  /* ranks of its processes, see meshes/rendezvous.h */
	uint32_t exports;  /* that can be imported */
	uint32_t kept_fds; /* that outlive us, see sharing/share_store.h */
	uint32_t imports; /* of exports, its own or others', and opened names */
	LIST_HEAD(, gm_mask_held)
	masks;                /* in use, see masks/held.h */
	uint64_t mask_bytes;  /* of them, each publication's once */
	uint64_t arena_bytes; /* and registered ones */
	uint32_t releases;    /* sessions that are gone, but for their memory */
	uint64_t waiting_bytes; /* of its changes that wait */
	uint64_t paced_ns;      /* sessions opened, as time: see session.c */
	uint64_t suspect_ns;    /* until then, of holes that others may have
				 * punched: see session.c */
	uint64_t
		served; /* the turn of its last change, see map/transaction.h */
	TAILQ_ENTRY(gm_user) turn;       /* while one of these is there */
	struct gm_connection_list ready; /* with records, the next one first */
};

/* Which limit of memory refuses a request? */
enum gm_memory_limit {
	GM_MEMORY_LIMIT_NONE,
	GM_MEMORY_LIMIT_USER,
	GM_MEMORY_LIMIT_ALL /* of all users together */
};

/* The uid's entry, made when it has none; NULL for want of memory.  Each call
 * that gives one is paid back by gm_user_drop(). */
struct gm_user *gm_user_hold(struct gm_control_server *s, uid_t uid);
void gm_user_drop(struct gm_control_server *s, struct gm_user *user);

/* Free those that have nothing of us, and that are neither paced nor suspect at
 * @now. */
void gm_user_forget_idle(struct gm_control_server *s, uint64_t now);

/*
 * gm_user_admit_memory - may the user have so many bytes more of arenas, or of
 * what counts with them (arena_bytes)?
 *
 * what		"an arena of 64 MiB": what the reason begins with
 *
 * Returns	0
 *		-EDQUOT		the user, or all users together, have too much:
 *				s->memory_limit says which, s->why the remedy
 */
int gm_user_admit_memory(struct gm_control_server *s,
			 const struct gm_user *user, uint64_t bytes,
			 const char *what);

/* May it do with every object what its owner may?  Root, and our own uid. */
bool gm_user_is_privileged(uint32_t uid);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * share - a name for exports, and the sessions that hold it.
 *
 * share_request.c keeps them, share_access.c decides which users may have one,
 * share_offer.c keeps names free until there is one, and share_store.c has them
 * outlive this agent.
 */
#ifndef GM_DAEMON_SHARING_SHARE_H
#define GM_DAEMON_SHARING_SHARE_H

#include "agent/daemon/sharing/share_key.h"
#include "agent/daemon/sharing/share_record.h"
#include "agent/daemon/sharing/share_request.h"
#include "gpumap.h"

/* The flags that a share may have. */
#define GM_SHARED_FLAGS \
	(GPUMAP_SHARE_READ_ONLY | GPUMAP_SHARE_ANY_USER | GPUMAP_SHARE_KEEP)

struct gm_share_holder {
	TAILQ_ENTRY(gm_share_holder) entry; /* of what is shared */
	TAILQ_ENTRY(gm_share_holder) mine;  /* of the session */
	struct gm_shared *shared;
	struct gm_session *session; /* NULL: it was an earlier agent's */
	struct gm_user *user;
	pid_t pid;      /* 0: where we cannot see it */
	bool is_first;  /* who has shared it */
	uint32_t place; /* in the share's record */
	bool has_place;
	struct gm_source process; /* without a session: its pidfd */
};

struct gm_shared {
	TAILQ_ENTRY(gm_shared) entry; /* of the server, by id */
	struct gm_control_server *server;
	struct gm_user *user; /* who is charged */
	uint64_t id;
	uint64_t since_ns; /* of the node: holders compare its age to theirs */
	int about;         /* a memfd, or -1 */
	uint64_t about_bytes;
	uint64_t charged; /* for it and the fields of its key, whole pages */
	struct gm_kept_key key;
	uint32_t flags; /* GPUMAP_SHARE_* */
	uint32_t n_buffers;
	uint32_t n_uids;
	uint32_t n_holders;
	struct gm_export **buffers;
	uint32_t *uids; /* who else may open it */
	struct gm_share_holder_list holders;
	struct gm_share_record record; /* head NULL: it ends with us */
	uint64_t mark; /* of the last message about it, see fd_store.h */
	char name[GPUMAP_NAME_MAX + 1];
};

/* The share of this name, or NULL. */
struct gm_shared *gm_shared_find(const struct gm_control_server *s,
				 const char *name);

/* The name of a request of a session's.  Returns 0, or -EINVAL with the
 * reason. */
int gm_shared_admit_name(struct gm_connection *c, const char *name,
			 size_t bytes);

/* May a session of this user share, or be about to share, by this name?  A name
 * that the configuration lists is its user's.  Returns 0, or -EACCES with the
 * reason. */
int gm_shared_admit_listed(struct gm_connection *c, const char *name);

/* May other users than its own have what a session shares?  Returns 0, or
 * -EPERM with the reason. */
int gm_shared_admit_others(struct gm_connection *c);

/* May the user of a session keep one more share, of this name?  Returns 0, or
 * -EPERM or -EDQUOT with the reason. */
int gm_shared_admit_kept(struct gm_connection *c, const char *name);

/* The holder that this session is of it, or NULL. */
struct gm_share_holder *gm_shared_holder(const struct gm_session *session,
					 const struct gm_shared *shared);

/* Have the session hold it.  Returns 0 or -ENOMEM. */
int gm_shared_hold(struct gm_shared *shared, struct gm_session *session,
		   bool is_first);

/* From here on this holder, which has a user, is one of its share's. */
void gm_shared_count(struct gm_share_holder *holder);

/* The holder that this session is of the share with this id, or NULL. */
struct gm_share_holder *gm_shared_held(const struct gm_session *session,
				       uint64_t id);

/*
 * gm_shared_check_about - may this be what is said about a share?
 *
 * Returns	0; as gm_memfd_check(); -EPERM: it could change; -ERANGE: it has
 *		another size
 */
int gm_shared_check_about(int fd, uint64_t about_bytes,
			  char ret_why[GM_WHY_BYTES]);

/* Whole pages of what is said about it, as its memfd takes them, and of the
 * fields. */
uint64_t gm_shared_pages(const struct gm_shared *shared);

/* Does it stay without a holder? */
static inline bool gm_shared_is_kept(const struct gm_shared *shared)
{
	return shared->flags & GPUMAP_SHARE_KEEP;
}

/* One holder less; without any it ends, unless it is kept. */
void gm_shared_leave(struct gm_share_holder *holder);

/* Free the name, whichever sessions hold it; imported memory stays. */
void gm_shared_end(struct gm_shared *shared, const char *why);

/* May this session share this by that name?  Returns 0; -EEXIST with who is
 * about to; or -EKEYREJECTED, it was to be something else. */
int gm_share_offers_admit(struct gm_connection *c, const char *name,
			  const struct gm_kept_key *key);

/* The key of a request that has it last in its body, and its fields last in its
 * tail, behind @before bytes.  Returns as gm_share_key_take(). */
int gm_shared_take_key(struct gm_connection *c, const struct gm_request *r,
		       const struct gm_share_key *key, uint64_t before,
		       struct gm_kept_key *ret_key);

/* The session has shared by this name, or will not; and all of one that is
 * being freed. */
void gm_share_offers_drop(struct gm_session *session, const char *name);
void gm_share_offers_leave(struct gm_session *session);

/* Make one that no session holds, and that has no buffers. */
void gm_shared_free(struct gm_shared *shared);

#endif

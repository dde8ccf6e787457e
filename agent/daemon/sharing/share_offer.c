/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Names that a session is about to share something by, and shares that are
 * ended by name. */

#include "agent/daemon/sharing/share.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/name.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/sessions/session.h"
#include "shm/point.h"

#define KNOWN_FLAGS \
	(GM_SHARE_CLAIM_DROP | GM_SHARE_CLAIM_OTHERS | GM_SHARE_CLAIM_KEEP)

struct gm_share_claimed {
	TAILQ_ENTRY(gm_share_claimed) entry; /* of the server, oldest first */
	struct gm_session *session;
	bool for_others;
	struct gm_kept_key key;
	char name[GPUMAP_NAME_MAX + 1];
};

static struct gm_share_claimed *find(const struct gm_control_server *s,
				     const char *name)
{
	struct gm_share_claimed *claimed;

	TAILQ_FOREACH(claimed, &s->share_claims, entry)
	{
		if (strcmp(claimed->name, name) == 0)
			break;
	}
	return claimed;
}

static void drop(struct gm_control_server *s, struct gm_share_claimed *claimed)
{
	TAILQ_REMOVE(&s->share_claims, claimed, entry);
	gm_share_key_drop(&claimed->key);
	free(claimed);
}

void gm_share_offers_drop(struct gm_session *session, const char *name)
{
	struct gm_share_claimed *claimed = find(session->server, name);

	if (claimed && claimed->session == session)
		drop(session->server, claimed);
}

void gm_share_offers_leave(struct gm_session *session)
{
	struct gm_control_server *s = session->server;
	struct gm_share_claimed *claimed, *next;

	for (claimed = TAILQ_FIRST(&s->share_claims); claimed; claimed = next) {
		next = TAILQ_NEXT(claimed, entry);
		if (claimed->session == session)
			drop(s, claimed);
	}
}

/* Another session is to share by this name: say which. */
static int bad_taken(struct gm_connection *c, int error,
		     const struct gm_share_claimed *claimed)
{
	return gm_connection_bad(
		c, error,
		"process %d of uid %u is about to share %s: wait until it has, "
		"and open it",
		(int)claimed->session->pid,
		(unsigned)claimed->session->user->uid, claimed->name);
}

/* A client must not wait for a share that it may never open. */
static int bad_claimed(struct gm_connection *c,
		       const struct gm_share_claimed *claimed,
		       const struct gm_kept_key *key)
{
	const struct gm_user *user = claimed->session->user;

	if (claimed->session == c->session)
		return gm_connection_bad(c, -EALREADY,
					 "this session has claimed %s already",
					 claimed->name);
	if (claimed->for_others || user == c->session->user) {
		int error = gm_share_key_match(c, claimed->name, &claimed->key,
					       key);

		return error ? error : bad_taken(c, -EBUSY, claimed);
	}
	return gm_connection_bad(c, -EACCES,
				 "uid %u is about to share %s, and not with "
				 "uid %u: take another name",
				 (unsigned)user->uid, claimed->name,
				 (unsigned)c->uid);
}

int gm_share_offers_admit(struct gm_connection *c, const char *name,
			  const struct gm_kept_key *key)
{
	const struct gm_share_claimed *claimed = find(c->server, name);

	if (!claimed)
		return 0;
	if (claimed->session == c->session)
		return gm_share_key_match(c, name, key, &claimed->key);
	return bad_taken(c, -EEXIST, claimed);
}

static int check_count(struct gm_connection *c)
{
	const struct gm_share_claimed *claimed;
	uint32_t n = 0;

	TAILQ_FOREACH(claimed, &c->server->share_claims, entry)
	n += claimed->session->user == c->user;
	if (n < GM_SHARE_CLAIMS_MAX)
		return 0;
	return gm_connection_bad(c, -EDQUOT,
				 "uid %u has claimed %u names: share by one of "
				 "them first, or drop it",
				 (unsigned)c->uid, n);
}

/* May the session share as it means to?  Refuse it before it loads anything. */
static int admit_flags(struct gm_connection *c, const char *name,
		       uint32_t flags)
{
	int error = gm_shared_admit_listed(c, name);

	if (error == 0 && flags & GM_SHARE_CLAIM_OTHERS)
		error = gm_shared_admit_others(c);
	if (error == 0 && flags & GM_SHARE_CLAIM_KEEP)
		error = gm_shared_admit_kept(c, name);
	return error;
}

/* The key is the claim's when there is one. */
static int claim(struct gm_connection *c, const char *name, uint32_t flags,
		 struct gm_kept_key *key)
{
	struct gm_control_server *s = c->server;
	struct gm_share_claimed *claimed = find(s, name);
	int error;

	if (gm_shared_find(s, name))
		return gm_connection_bad(c, -EEXIST,
					 "%s is shared already: open it", name);
	if (claimed)
		return bad_claimed(c, claimed, key);
	error = admit_flags(c, name, flags);
	if (error == 0)
		error = check_count(c);
	if (error)
		return error;
	claimed = calloc(1, sizeof(*claimed));
	if (!claimed)
		return -ENOMEM;
	claimed->session = c->session;
	claimed->for_others = flags & GM_SHARE_CLAIM_OTHERS;
	claimed->key = *key;
	*key = (struct gm_kept_key){ .fields = NULL };
	memcpy(claimed->name, name, strlen(name) + 1);
	TAILQ_INSERT_TAIL(&s->share_claims, claimed, entry);
	GM_POINT("share_claimed");
	return 0;
}

int gm_share_offer_handle(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_share_claim ask;
	struct gm_kept_key key;
	int error;

	memcpy(&ask, r->body, sizeof(ask));
	error = gm_shared_admit_name(c, ask.name, sizeof(ask.name));
	if (error)
		return error;
	if (ask.flags & ~KNOWN_FLAGS || ask.reserved)
		return gm_connection_bad(c, -EINVAL,
					 "flags %#x to claim a name are not "
					 "known",
					 ask.flags);
	error = gm_shared_take_key(c, r, &ask.key, 0, &key);
	if (error)
		return error;
	if (ask.flags & GM_SHARE_CLAIM_DROP)
		gm_share_offers_drop(c->session, ask.name);
	else
		error = claim(c, ask.name, ask.flags, &key);
	gm_share_key_drop(&key);
	if (error)
		return error;
	return gm_connection_reply(c, &r->header, NULL);
}

/* ---- SHARE_END --------------------------------------------------------- */

int gm_share_end_handle(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_share_end ask;
	struct gm_shared *shared;
	char why[48];
	int error;

	memcpy(&ask, r->body, sizeof(ask));
	if (!memchr(ask.name, '\0', sizeof(ask.name)))
		return gm_connection_bad(c, -EINVAL, "the name has no end");
	error = gm_name_check(ask.name, c->server->why);
	if (error)
		return error;
	shared = gm_shared_find(c->server, ask.name);
	if (!shared)
		return gm_connection_bad(c, -ENOENT, "nothing is shared as %s",
					 ask.name);
	if (shared->user->uid != c->uid && !gm_user_is_privileged(c->uid))
		return gm_connection_bad(c, -EPERM,
					 "%s is uid %u's, who can release it; "
					 "or root can",
					 ask.name, (unsigned)shared->user->uid);
	snprintf(why, sizeof(why), "uid %u has released it", (unsigned)c->uid);
	gm_shared_end(shared, why);
	return gm_connection_reply(c, &r->header, NULL);
}

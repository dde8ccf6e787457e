/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/meshes/rendezvous.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/daemon/base/connection.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/meshes/epochs.h"
#include "agent/daemon/segment/directory.h"
#include "shm/meshes.h"
#include "shm/point.h"

#define MS          UINT64_C(1000000)
#define WAIT_LEAST  (100 * MS)
#define WAIT_MOST   (UINT64_C(3600000) * MS)

#define MEMBERS_MAX 1024u /* of a uid: all of them are looked at */

/* The meeting of one group in one epoch. */
struct gm_rendezvous {
	TAILQ_ENTRY(gm_rendezvous) entry;
	struct gm_daemon *d;
	char mesh[GM_NAME_BYTES];
	char group[GM_NAME_BYTES];
	struct gm_epochs_group as; /* it was when the first came */
	uint64_t epoch;
	uint32_t version; /* of NCCL, as its first member has it */
	uint32_t n;
	uint32_t n_there;
	bool is_formed; /* all were there, and have the id */
	bool is_over;   /* its epoch is */
	struct gm_timer late;
	uint8_t id[GM_JOIN_ID_BYTES]; /* of rank 0, while that is there */
	struct gm_member *of[];       /* n; NULL: no process */
};

static struct gm_control_server *server_of(const struct gm_rendezvous *at)
{
	return at->d->server;
}

/* ---- its end ------------------------------------------------------------- */

static void part(struct gm_member *member)
{
	struct gm_rendezvous *at = member->at;

	TAILQ_REMOVE(&member->connection->members, member, entry);
	at->of[member->rank] = NULL;
	at->n_there--;
	member->connection->user->members--;
	if (member->rank == 0)
		memset(at->id, 0, sizeof(at->id));
	free(member);
}

static void forget(struct gm_rendezvous *at)
{
	gm_timer_stop(at->d->loop, &at->late);
	TAILQ_REMOVE(&server_of(at)->rendezvous, at, entry);
	memset(at->id, 0, sizeof(at->id));
	free(at);
}

/* Answer all that wait.  An answer may drop its connection, which moves other
 * epochs, so all of this meeting is gone before. */
static void dissolve(struct gm_rendezvous *at, int status, const char *why)
{
	struct gm_connection *waiting[GM_ROWS];
	uint32_t n_waiting = 0;
	bool is_formed = at->is_formed;

	for (uint32_t i = 0; i < at->n; i++) {
		struct gm_member *member = at->of[i];

		if (member == NULL)
			continue;
		if (!is_formed) {
			member->connection->busy++;
			waiting[n_waiting++] = member->connection;
		}
		part(member);
	}
	forget(at);
	for (uint32_t i = 0; i < n_waiting; i++) {
		if (waiting[i]->source.fd >= 0)
			gm_connection_answer(waiting[i], status, why, NULL, 0,
					     -1);
		gm_connection_release(waiting[i]);
	}
}

/* The epoch is over for all of them.  Returns the new one. */
static uint64_t move_on(struct gm_rendezvous *at)
{
	struct gm_epochs_group group;
	uint64_t epoch;

	if (gm_epochs_find(at->d, at->mesh, at->group, &group) != 0 ||
	    group.epoch != at->epoch)
		return 0;
	epoch = gm_epochs_move(at->d, group.mesh, group.index);
	gm_rendezvous_recheck(at->d);
	return epoch;
}

/* The user of the first rank that is there. */
static uid_t first_uid(const struct gm_rendezvous *at)
{
	uint32_t i = 0;

	while (at->of[i] == NULL)
		i++;
	return at->of[i]->connection->uid;
}

/* "1,3-5" of those that are not there, cut short. */
static void list_missing(const struct gm_rendezvous *at, char *ret, size_t room)
{
	size_t used = 0;

	ret[0] = '\0';
	for (uint32_t i = 0; i < at->n && used + 24 < room;) {
		uint32_t end = i;

		while (end < at->n && at->of[end] == NULL)
			end++;
		if (end == i) {
			i++;
			continue;
		}
		used += (size_t)snprintf(ret + used, room - used, "%s%u",
					 used == 0 ? "" : ",", i);
		if (end - i > 1)
			used += (size_t)snprintf(ret + used, room - used, "-%u",
						 end - 1);
		i = end;
	}
}

static void is_late(struct gm_timer *timer)
{
	struct gm_rendezvous *at = gm_owner(timer, struct gm_rendezvous, late);
	char missing[64], why[GM_WHY_BYTES];
	uint64_t epoch;

	list_missing(at, missing, sizeof(missing));
	epoch = move_on(at);
	gm_log_of(first_uid(at), GM_LOG_WARNING, "group_late",
		  "mesh=%s group=%s epoch=%" PRIu64
		  " missing=%s new_epoch=%" PRIu64,
		  at->mesh, at->group, at->epoch, missing, epoch);
	gm_why(why, 0,
	       "rank %s of group %s did not come in time; its epoch is %" PRIu64
	       " now: all ranks join anew",
	       missing, at->group, epoch);
	dissolve(at, -ETIMEDOUT, why);
}

/* A process that has left does not wait. */
static void watch(struct gm_rendezvous *at)
{
	uint64_t due_ns = UINT64_MAX;

	for (uint32_t i = 0; i < at->n; i++)
		if (at->of[i] != NULL && at->of[i]->due_ns < due_ns)
			due_ns = at->of[i]->due_ns;
	gm_timer_set(at->d->loop, &at->late, due_ns);
}

/* ---- all are there ------------------------------------------------------- */

static void form(struct gm_rendezvous *at)
{
	struct gm_connection *of[GM_ROWS];
	struct gm_join_reply reply[GM_ROWS];
	uint32_t n = at->n;

	at->is_formed = true;
	gm_timer_stop(at->d->loop, &at->late);
	gm_log_of(at->of[0]->connection->uid, GM_LOG_INFO, "group_formed",
		  "mesh=%s group=%s epoch=%" PRIu64 " ranks=%u version=%u",
		  at->mesh, at->group, at->epoch, n, at->version);
	for (uint32_t i = 0; i < n; i++) {
		of[i] = at->of[i]->connection;
		of[i]->busy++;
		reply[i] = (struct gm_join_reply){ .ticket = at->of[i]->ticket,
						   .n = n };
		memcpy(reply[i].id, at->id, sizeof(at->id));
	}
	memset(at->id, 0, sizeof(at->id));
	GM_POINT("rendezvous_formed");
	for (uint32_t i = 0; i < n; i++) {
		if (of[i]->source.fd >= 0)
			gm_connection_answer(of[i], 0, "", &reply[i],
					     sizeof(reply[i]), -1);
		gm_connection_release(of[i]);
	}
	memset(reply, 0, sizeof(reply));
}

/* ---- one leaves ---------------------------------------------------------- */

/* Having broken something, or not. */
static void leave(struct gm_member *member, bool is_broken)
{
	struct gm_rendezvous *at = member->at;
	uint32_t rank = member->rank;
	uid_t uid = member->connection->uid;
	bool was_formed = at->is_formed;

	part(member);
	if (was_formed && is_broken) {
		uint64_t epoch = move_on(at);

		gm_log_of(uid, GM_LOG_WARNING, "group_broken",
			  "mesh=%s group=%s epoch=%" PRIu64
			  " rank=%u new_epoch=%" PRIu64,
			  at->mesh, at->group, at->epoch, rank, epoch);
		dissolve(at, -ESTALE, "");
	} else if (at->n_there == 0) {
		forget(at);
	} else if (!was_formed) {
		watch(at);
	}
}

void gm_rendezvous_connection_dropped(struct gm_connection *c, const char *why)
{
	struct gm_member *member;

	while ((member = TAILQ_FIRST(&c->members)) != NULL)
		leave(member, true);
}

int gm_rendezvous_leave(struct gm_connection *c, const struct gm_request *r)
{
	const struct gm_leave *ask = (const void *)r->body;
	struct gm_member *member;

	if (ask->broken > 1 || ask->reserved != 0)
		return gm_connection_bad(c, -EINVAL, "broken is 0 or 1");
	TAILQ_FOREACH(member, &c->members, entry)
	{
		if (member->ticket == ask->ticket)
			break;
	}
	if (member == NULL)
		return gm_connection_bad(c, -ENOENT,
					 "nothing is joined by this ticket, or "
					 "the group's epoch has moved on");
	leave(member, ask->broken != 0);
	return gm_connection_reply(c, &r->header, NULL);
}

/* ---- epochs -------------------------------------------------------------- */

/* An answer may be the end of others, so those that are over come first, and
 * the first is taken as long as it is one. */
static void look(struct gm_timer *timer)
{
	struct gm_control_server *s =
		gm_owner(timer, struct gm_control_server, moved);
	struct gm_rendezvous *at, *next;
	char why[GM_WHY_BYTES];

	for (at = TAILQ_FIRST(&s->rendezvous); at != NULL; at = next) {
		next = TAILQ_NEXT(at, entry);
		if (gm_epochs_is_still(s->d, &at->as))
			continue;
		at->is_over = true;
		TAILQ_REMOVE(&s->rendezvous, at, entry);
		TAILQ_INSERT_HEAD(&s->rendezvous, at, entry);
	}
	while ((at = TAILQ_FIRST(&s->rendezvous)) != NULL && at->is_over) {
		gm_why(why, 0,
		       "the epoch of group %s is no longer %" PRIu64
		       ": read it again and join anew",
		       at->group, at->epoch);
		dissolve(at, -ESTALE, why);
	}
}

void gm_rendezvous_recheck(struct gm_daemon *d)
{
	struct gm_control_server *s = d->server;

	if (s == NULL || TAILQ_EMPTY(&s->rendezvous))
		return;
	s->moved.fired = look;
	gm_timer_set(d->loop, &s->moved, gm_loop_now());
}

void gm_rendezvous_object_moved(struct gm_daemon *d, const struct gm_block *old,
				const struct gm_block *new_block)
{
	if (old->kind == GM_KIND_MESH || new_block->kind == GM_KIND_MESH)
		gm_rendezvous_recheck(d);
}

void gm_rendezvous_exit(struct gm_daemon *d)
{
	gm_timer_stop(d->loop, &d->server->moved);
}

/* ---- one joins ----------------------------------------------------------- */

static int check_form(struct gm_connection *c, const struct gm_request *r,
		      const struct gm_join *ask)
{
	if (memchr(ask->mesh, '\0', sizeof(ask->mesh)) == NULL ||
	    memchr(ask->group, '\0', sizeof(ask->group)) == NULL ||
	    ask->reserved != 0 || ask->reserved2 != 0)
		return gm_connection_bad(c, -EINVAL,
					 "the request's parts do not fit "
					 "together; this is a client's fault");
	if (r->tail_bytes != (ask->rank == 0 ? GM_JOIN_ID_BYTES : 0))
		return gm_connection_bad(c, -EINVAL,
					 "rank 0 brings an id of %u bytes, and "
					 "no other rank does",
					 GM_JOIN_ID_BYTES);
	if (ask->version == 0)
		return gm_connection_bad(c, -EINVAL, "there is no version 0");
	return 0;
}

static int check_group(struct gm_connection *c, const struct gm_join *ask,
		       struct gm_epochs_group *ret_group)
{
	int ret =
		gm_epochs_find(c->server->d, ask->mesh, ask->group, ret_group);

	if (ret != 0)
		return gm_connection_bad(c, -ENOENT,
					 "there is no group %s in a mesh %s",
					 ask->group, ask->mesh);
	if (!gm_user_is_privileged(c->uid) &&
	    ret_group->mesh->owner_uid != c->uid)
		return gm_connection_bad(
			c, -EPERM,
			"mesh %s belongs to uid %u: have it published for uid "
			"%u",
			ask->mesh, ret_group->mesh->owner_uid,
			(unsigned)c->uid);
	/* First, for in another epoch it may have been another rank. */
	if (ask->epoch != ret_group->epoch)
		return gm_connection_bad(c, -ESTALE,
					 "the epoch of group %s is %" PRIu64
					 ", not %" PRIu64 ": read it again",
					 ask->group, ret_group->epoch,
					 ask->epoch);
	if (ask->rank >= ret_group->n)
		return gm_connection_bad(c, -ERANGE,
					 "group %s has ranks 0 to %u",
					 ask->group, ret_group->n - 1);
	if (!gm_meshes_is_whole(ask->epoch))
		return gm_connection_bad(c, -EAGAIN,
					 "a row of group %s is not READY: wait "
					 "until the group is whole",
					 ask->group);
	return 0;
}

static int check_count(struct gm_connection *c)
{
	if (c->user->members < MEMBERS_MAX)
		return 0;
	return gm_connection_bad(c, -EDQUOT,
				 "processes of uid %u are %u ranks of groups: "
				 "leave some",
				 (unsigned)c->uid, c->user->members);
}

static void print_version(uint32_t version, char ret[32])
{
	snprintf(ret, 32, "%u.%u.%u", version / 10000, version / 100 % 100,
		 version % 100);
}

/* May it be this rank of one that is there? */
static int check_member(struct gm_connection *c, const struct gm_rendezvous *at,
			const struct gm_join *ask)
{
	const struct gm_member *other = at->of[ask->rank];
	char theirs[32], mine[32];

	if (other != NULL)
		return gm_connection_bad(
			c, -EBUSY,
			"process %d is rank %u of group %s already: each rank "
			"is one process",
			(int)other->connection->pid, ask->rank, at->group);
	if (at->is_formed)
		return gm_connection_bad(
			c, -EAGAIN,
			"group %s is being given up: join when "
			"all its ranks have left",
			at->group);
	if (at->version == ask->version)
		return 0;
	print_version(at->version, theirs);
	print_version(ask->version, mine);
	return gm_connection_bad(c, -EPROTO,
				 "rank %u has NCCL %s, and others of group %s "
				 "have NCCL %s: give all ranks one version",
				 ask->rank, mine, at->group, theirs);
}

static struct gm_rendezvous *find(const struct gm_control_server *s,
				  const struct gm_join *ask)
{
	struct gm_rendezvous *at;

	TAILQ_FOREACH(at, &s->rendezvous, entry)
	{
		if (at->epoch == ask->epoch &&
		    strcmp(at->mesh, ask->mesh) == 0 &&
		    strcmp(at->group, ask->group) == 0)
			break;
	}
	return at;
}

static struct gm_rendezvous *make(struct gm_daemon *d,
				  const struct gm_join *ask,
				  const struct gm_epochs_group *group)
{
	uint32_t n = group->n;
	struct gm_rendezvous *at =
		calloc(1, sizeof(*at) + n * sizeof(at->of[0]));

	if (at == NULL)
		return NULL;
	at->d = d;
	memcpy(at->mesh, ask->mesh, gm_object_name(ask->mesh));
	memcpy(at->group, ask->group, gm_object_name(ask->group));
	at->as = *group;
	at->epoch = ask->epoch;
	at->version = ask->version;
	at->n = n;
	at->late.fired = is_late;
	TAILQ_INSERT_TAIL(&d->server->rendezvous, at, entry);
	return at;
}

static uint64_t due(uint64_t wait_ns)
{
	if (wait_ns < WAIT_LEAST)
		wait_ns = WAIT_LEAST;
	if (wait_ns > WAIT_MOST)
		wait_ns = WAIT_MOST;
	return gm_loop_now() + wait_ns;
}

static int add(struct gm_connection *c, const struct gm_request *r,
	       const struct gm_join *ask, struct gm_rendezvous *at)
{
	struct gm_member *member = calloc(1, sizeof(*member));

	if (member == NULL)
		return -ENOMEM;
	member->at = at;
	member->connection = c;
	member->ticket = ++c->server->last_ticket;
	member->due_ns = due(ask->timeout_ns);
	member->rank = ask->rank;
	at->of[ask->rank] = member;
	at->n_there++;
	if (ask->rank == 0)
		memcpy(at->id, r->tail, sizeof(at->id));
	TAILQ_INSERT_TAIL(&c->members, member, entry);
	c->user->members++;
	watch(at);
	return 0;
}

int gm_rendezvous_join(struct gm_connection *c, const struct gm_request *r)
{
	const struct gm_join *ask = (const void *)r->body;
	struct gm_epochs_group group;
	struct gm_rendezvous *at;
	int ret = check_form(c, r, ask);

	if (ret == 0)
		ret = check_group(c, ask, &group);
	if (ret == 0)
		ret = check_count(c);
	if (ret == 0)
		ret = gm_connection_watch(c);
	if (ret != 0)
		return ret;
	at = find(c->server, ask);
	if (at == NULL)
		at = make(c->server->d, ask, &group);
	else
		ret = check_member(c, at, ask);
	if (at == NULL)
		ret = -ENOMEM;
	if (ret == 0)
		ret = add(c, r, ask, at);
	if (ret != 0) {
		if (at != NULL && at->n_there == 0)
			forget(at);
		return ret;
	}
	gm_log_of(c->uid, GM_LOG_INFO, "group_joined",
		  "mesh=%s group=%s epoch=%" PRIu64 " rank=%u pid=%d uid=%u",
		  at->mesh, at->group, at->epoch, ask->rank, (int)c->pid,
		  (unsigned)c->uid);
	gm_connection_wait(c, &r->header);
	GM_POINT("rendezvous_joined");
	if (at->n_there == at->n)
		form(at);
	return 0;
}

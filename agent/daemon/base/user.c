/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/user.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/server.h"
#include "agent/daemon/config.h"
#include "agent/daemon/map/transaction.h"
#include "lib/model/plan/size_text.h"

static bool is_idle(const struct gm_user *user, uint64_t now)
{
	return user->holds == 0 && user->paced_ns <= now &&
	       user->suspect_ns <= now;
}

void gm_user_forget_idle(struct gm_control_server *s, uint64_t now)
{
	struct gm_user *user = TAILQ_FIRST(&s->users), *next;

	for (; user; user = next) {
		next = TAILQ_NEXT(user, entry);
		if (!is_idle(user, now))
			continue;
		TAILQ_REMOVE(&s->users, user, entry);
		free(user);
	}
}

struct gm_user *gm_user_hold(struct gm_control_server *s, uid_t uid)
{
	struct gm_user *user;

	gm_user_forget_idle(s, gm_loop_now());
	TAILQ_FOREACH(user, &s->users, entry)
	{
		if (user->uid == uid)
			break;
	}
	if (!user) {
		user = calloc(1, sizeof(*user));
		if (!user)
			return NULL;
		user->uid = uid;
		TAILQ_INIT(&user->ready);
		/* Coming anew is no way past those who wait. */
		user->served = s->d->changes->turn;
		TAILQ_INSERT_HEAD(&s->users, user, entry);
	}
	user->holds++;
	return user;
}

void gm_user_drop(struct gm_control_server *s, struct gm_user *user)
{
	user->holds--;
	if (!is_idle(user, gm_loop_now()))
		return;
	TAILQ_REMOVE(&s->users, user, entry);
	free(user);
}

int gm_user_admit_memory(struct gm_control_server *s,
			 const struct gm_user *user, uint64_t bytes,
			 const char *what)
{
	const struct gm_config *config = s->d->config;
	uint64_t most = config->arena_bytes_per_uid;
	const struct gm_user *other;
	uint64_t all = 0;

	s->memory_limit = GM_MEMORY_LIMIT_USER;
	if (user->arena_bytes > most || bytes > most - user->arena_bytes)
		return gm_why(
			s->why, -EDQUOT,
			"%s: uid %u has %s of arenas and what counts with "
			"them, and asks for %s, its limit is %s; close or "
			"forget some, or raise arena-per-uid in [limits] of "
			"gpumapd.conf",
			what, (unsigned)user->uid,
			gm_size_down(user->arena_bytes).text,
			gm_size_up(bytes).text, gm_size_down(most).text);
	/* The administrator may have given one uid more than all by default. */
	if (most < config->arena_bytes_of_all)
		most = config->arena_bytes_of_all;
	TAILQ_FOREACH(other, &s->users, entry)
	all += other->arena_bytes;
	s->memory_limit = GM_MEMORY_LIMIT_ALL;
	if (all > most || bytes > most - all)
		return gm_why(s->why, -EDQUOT,
			      "%s: all users together have %s of arenas and "
			      "what counts with them, and uid %u asks for %s, "
			      "the limit is %s; close some, or raise arenas in "
			      "[limits] of gpumapd.conf",
			      what, gm_size_down(all).text, (unsigned)user->uid,
			      gm_size_up(bytes).text, gm_size_down(most).text);
	s->memory_limit = GM_MEMORY_LIMIT_NONE;
	return 0;
}

bool gm_user_is_privileged(uint32_t uid)
{
	return uid == 0 || uid == geteuid();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/user.h"

#include <stdlib.h>
#include <unistd.h>

#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/server.h"
#include "agent/daemon/map/transaction.h"

void gm_user_forget_idle(struct gm_control_server *s, uint64_t now)
{
	struct gm_user *user = TAILQ_FIRST(&s->users), *next;

	for (; user; user = next) {
		next = TAILQ_NEXT(user, entry);
		if (user->holds > 0 || user->paced_ns > now)
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
		/* Coming anew is no way past those who wait. */
		user->served = s->d->changes->turn;
		TAILQ_INSERT_HEAD(&s->users, user, entry);
	}
	user->holds++;
	return user;
}

void gm_user_drop(struct gm_control_server *s, struct gm_user *user)
{
	if (--user->holds > 0 || user->paced_ns > gm_loop_now())
		return;
	TAILQ_REMOVE(&s->users, user, entry);
	free(user);
}

bool gm_user_is_privileged(uint32_t uid)
{
	return uid == 0 || uid == geteuid();
}

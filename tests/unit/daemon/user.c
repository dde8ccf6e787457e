/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* user: an entry is kept for as long as there is anything to remember. */

#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/server.h"
#include "agent/daemon/daemon.h"
#include "tests/support/tap.h"

#define HOUR_NS UINT64_C(3600000000000)

static struct gm_daemon *d;
static struct gm_control_server s;

static bool is_known(uid_t uid)
{
	const struct gm_user *user;

	TAILQ_FOREACH(user, &s.users, entry)
	{
		if (user->uid == uid)
			return true;
	}
	return false;
}

static void who_has_nothing_is_forgotten(void)
{
	struct gm_user *user = gm_user_hold(&s, 1);

	EQ(gm_user_hold(&s, 1) == user, true);
	gm_user_drop(&s, user);
	OK(is_known(1));
	gm_user_drop(&s, user);
	OK(!is_known(1));
}

/* Leaving and coming anew is no way out. */
static void what_holds_back_outlives_the_last_session(void)
{
	struct gm_user *paced = gm_user_hold(&s, 1);
	struct gm_user *suspect = gm_user_hold(&s, 2);
	uint64_t until = gm_loop_now() + HOUR_NS;

	paced->paced_ns = until;
	suspect->suspect_ns = until;
	gm_user_drop(&s, paced);
	gm_user_drop(&s, suspect);
	gm_user_forget_idle(&s, gm_loop_now());
	OK(is_known(1));
	OK(is_known(2));
	gm_user_forget_idle(&s, until);
	OK(!is_known(1));
	OK(!is_known(2));
}

TAP_CASE()
{
	d = gm_daemon_new();
	if (!OK(d))
		return tap_done();
	s.d = d;
	TAILQ_INIT(&s.users);
	who_has_nothing_is_forgotten();
	what_holds_back_outlives_the_last_session();
	gm_daemon_free(d);
	return tap_done();
}

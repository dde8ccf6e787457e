/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Maps that one process makes for another user, as gpumap-sync does: the user
 * in [cluster] and root may, and no other; they count as that user's, which may
 * replace and release them; and the process that holds one may release it.
 */

#include <pwd.h>

#include "tests/support/reserve_clients.h"

#define USER   54321u
#define OTHERS 54322u

static uid_t sync_uid; /* of the user in [cluster] */

static struct want for_user(const char *name, uint64_t bytes)
{
	struct want want = want_of(name, 0, bytes);

	want.is_for = true;
	want.owner = USER;
	want.wait_ns = 0;
	return want;
}

/* The reservation of this name is of @uid, and held by this process. */
static bool is_of(const char *name, uid_t uid)
{
	struct gpumap_holder holder = holder_of(name);

	return holder.version != 0 && holder.uid == uid &&
	       holder.pid == (uint32_t)getpid();
}

/* Run as the user in [cluster]. */
static int makes_it(void)
{
	struct want want = for_user("m", 8 * GIB);

	map = story_attach(&agent);
	if (map == NULL)
		return 1;
	if (reserve_now(&want).ret != 0 || !is_of("m", USER))
		return 2;
	/* The user may have no more of the row, and this one has none of
	 * it. */
	want = for_user("n", 1);
	if (reserve_now(&want).ret != -EDQUOT)
		return 3;
	want = want_of("own", 0, GIB);
	if (reserve_now(&want).ret != 0 || !is_of("own", sync_uid))
		return 4;
	/* Its holder releases it, and no other map of the user. */
	if (gpumap_layers_release(map, "m") != 0 || holder_of("m").version != 0)
		return 5;
	if (gpumap_layers_release(map, "users") != -EPERM)
		return 6;
	/* Root has no limits, and does not get such maps. */
	want = for_user("root's", 8 * GIB);
	want.owner = 0;
	if (reserve_now(&want).ret != -EDQUOT)
		return 7;
	want.bytes = GIB;
	return reserve_now(&want).ret == 0 && is_of("root's", sync_uid) ? 0 : 8;
}

/* Run as USER. */
static int has_a_map(void)
{
	struct want want = want_of("users", 1, GIB);

	map = story_attach(&agent);
	want.is_held = false;
	return map != NULL && reserve_now(&want).ret == 0 ? 0 : 1;
}

/* Run as USER, while another process holds "m" for it. */
static int ends_it(void)
{
	map = story_attach(&agent);
	if (map == NULL || gpumap_layers_release(map, "m") != 0)
		return 1;
	return gpumap_layers_release(map, "users") == 0 ? 0 : 2;
}

/* Run as OTHERS. */
static int may_not(void)
{
	struct want want = for_user("m", GIB);

	map = story_attach(&agent);
	if (map == NULL || reserve_now(&want).ret != -EPERM ||
	    strstr(gpumap_refusal(map), "[cluster] of gpumapd.conf") == NULL)
		return 1;
	want.owner = OTHERS;
	if (reserve_now(&want).ret != -EPERM)
		return 2;
	return gpumap_layers_release(map, "m") == -EPERM ? 0 : 3;
}

static void a_map_is_its_user_s(void)
{
	struct want want = for_user("m", GIB);

	EQ(user_run(USER, has_a_map), 0);
	EQ(user_run(sync_uid, makes_it), 0);
	/* Root may as well. */
	EQ(reserve_now(&want).ret, 0);
	OK(is_of("m", USER));
	EQ(user_run(OTHERS, may_not), 0);
	OK(is_of("m", USER));
	EQ(user_run(USER, ends_it), 0);
	OK(reserve_calms_down());
}

/* A user has the flag's field or neither. */
static void a_user_needs_the_flag(void)
{
	struct want want = for_user("m", GIB);

	want.is_for = false;
	EQ(reserve_now(&want).ret, -EINVAL);
	OK(strstr(gpumap_refusal(map), "needs GPUMAP_PLAN_FOR") != NULL);
}

TAP_CASE()
{
	static const char config[] =
		"[socket]\nmode = 0666\n[limits]\nreserve-per-uid = 50\n"
		"[cluster]\nuser = nobody\n";
	const struct passwd *nobody = getpwnam("nobody");

	if (geteuid() != 0 || nobody == NULL) {
		SKIP(1, "needs root, and a user nobody");
		return tap_done();
	}
	sync_uid = nobody->pw_uid;
	agent_make(&agent, NULL);
	reserve_configure(config);
	if (OK(agent_start(&agent)) && (map = story_attach(&agent)) != NULL) {
		a_map_is_its_user_s();
		a_user_needs_the_flag();
		story_finish(&agent, map);
	}
	agent_remove(&agent);
	return tap_done();
}

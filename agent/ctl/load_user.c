/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/ctl/load_user.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "agent/ctl/ctl.h"
#include "agent/ctl/parse.h"

/* The longest name of a user, with its end. */
#define USER_BYTES 64

static int wrong(const char *name, const char *why)
{
	return gm_ctl_wrong("user \"%s\": %s", name, why);
}

/* A number needs no user of this machine. */
static int uid_of(const char *name, uint32_t *ret_uid)
{
	const struct passwd *user = getpwnam(name);
	uint64_t number;

	if (user == NULL &&
	    (gm_parse_number(name, &number) != 0 || number >= UINT32_MAX))
		return wrong(name, "neither a user of this machine nor a uid");
	*ret_uid = user != NULL ? (uint32_t)user->pw_uid : (uint32_t)number;
	return GM_EXIT_OK;
}

int gm_load_user_list(const char *text, struct gm_load_users *ret_users)
{
	struct gm_load_users users = { .n = 0 };
	char name[USER_BYTES];
	int ret = GM_EXIT_OK;

	while (ret == GM_EXIT_OK) {
		size_t bytes = strcspn(text, ",");

		if (bytes == 0 || bytes >= sizeof(name))
			return wrong(text, "give names or uids, with commas "
					   "between them");
		if (users.n == GPUMAP_SHARE_UIDS_MAX)
			return wrong(text, "a share names at most 64 users: "
					   "share with --any-user");
		memcpy(name, text, bytes);
		name[bytes] = '\0';
		ret = uid_of(name, &users.uids[users.n++]);
		if (text[bytes] == '\0')
			break;
		text += bytes + 1;
	}
	if (ret == GM_EXIT_OK)
		*ret_users = users;
	return ret;
}

int gm_load_user_become(const char *name)
{
	const struct passwd *user = getpwnam(name);
	uint64_t number;

	if (user == NULL && gm_parse_number(name, &number) == 0 &&
	    number < UINT32_MAX)
		user = getpwuid((uid_t)number);
	if (user == NULL)
		return wrong(name, "no user of this machine");
	if (user->pw_uid == geteuid())
		return GM_EXIT_OK;
	if (initgroups(user->pw_name, user->pw_gid) == 0 &&
	    setresgid(user->pw_gid, user->pw_gid, user->pw_gid) == 0 &&
	    setresuid(user->pw_uid, user->pw_uid, user->pw_uid) == 0)
		return GM_EXIT_OK;
	return gm_ctl_failed("--run-as \"%s\": %s%s", name, strerror(errno),
			     errno == EPERM ? ": only root can" : "");
}

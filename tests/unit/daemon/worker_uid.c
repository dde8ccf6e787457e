/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* worker_uid: a uid that no user has, and that no user may become. */

#include <grp.h>
#include <pwd.h>

#include "agent/daemon/base/fd_limits.h"
#include "agent/daemon/worker_uid.h"
#include "tests/support/sysfs_tree.h"

static bool is_candidate(uid_t uid)
{
	return uid >= GM_WORKER_UID_LAST && uid <= GM_WORKER_UID_FIRST;
}

static void no_user_has_it(void)
{
	uid_t uid = gm_worker_uid_free(tree.root);

	if (uid == (uid_t)-1) {
		SKIP(1, "users of this machine have all of them");
		return;
	}
	OK(is_candidate(uid));
	OK(getpwuid(uid) == NULL);
	OK(getgrgid(uid) == NULL);
}

/* Such a user could be any process in a namespace of its own. */
static void it_is_in_no_range_of_subordinate_users(void)
{
	uid_t uid = gm_worker_uid_free(tree.root);
	char text[128];

	if (uid == (uid_t)-1 || uid == GM_WORKER_UID_LAST) {
		SKIP(1, "there is no other");
		return;
	}
	snprintf(text, sizeof(text), "# none\nann:100000:65536\nbob:%u:1\n",
		 (unsigned)uid);
	tree_file("etc/subuid", text);
	OK(gm_worker_uid_free(tree.root) != uid);
	/* The range ends before it. */
	snprintf(text, sizeof(text), "bob:%u:1\n", (unsigned)uid - 1);
	tree_file("etc/subuid", text);
	EQ(gm_worker_uid_free(tree.root), uid);
	tree_file("etc/subuid", "ann:65000:1000\n");
	EQ(gm_worker_uid_free(tree.root), (uid_t)-1);
	tree_file("etc/subuid", "ann:100000:65536\n");
	EQ(gm_worker_uid_free(tree.root), uid);
}

static void it_is_there_in_this_namespace(void)
{
	uid_t uid = gm_worker_uid_free(tree.root);
	char text[64];

	tree_file("proc/self/uid_map", "0 1000 1\n");
	EQ(gm_worker_uid_free(tree.root), (uid_t)-1);
	tree_file("proc/self/uid_map", "0 1000 1\n1 100000 65536\n");
	EQ(gm_worker_uid_free(tree.root), uid);
	snprintf(text, sizeof(text), "0 0 %u\n", (unsigned)uid);
	tree_file("proc/self/uid_map", text);
	OK(gm_worker_uid_free(tree.root) != uid);
	snprintf(text, sizeof(text), "0 0 %u\n", (unsigned)uid + 1);
	tree_file("proc/self/uid_map", text);
	EQ(gm_worker_uid_free(tree.root), uid);
	tree_file("proc/self/uid_map", "0 0 4294967295\n");
	EQ(gm_worker_uid_free(tree.root), uid);
}

static void nobody_has_two_numbers(void)
{
	OK(gm_worker_uid_is_nobody(tree.root, 65534));
	OK(!gm_worker_uid_is_nobody(tree.root, 99));
	OK(!gm_worker_uid_is_nobody(tree.root, 0));
	tree_file("proc/sys/kernel/overflowuid", "99\n");
	OK(gm_worker_uid_is_nobody(tree.root, 99));
	OK(gm_worker_uid_is_nobody(tree.root, 65534));
	OK(!gm_worker_uid_is_nobody(tree.root, 65533));
}

TAP_CASE()
{
	int held;

	if (!tree_begin())
		return tap_done();
	no_user_has_it();
	held = gm_fd_limits_count();
	it_is_in_no_range_of_subordinate_users();
	it_is_there_in_this_namespace();
	nobody_has_two_numbers();
	EQ(gm_fd_limits_count(), held);
	tree_end();
	return tap_done();
}

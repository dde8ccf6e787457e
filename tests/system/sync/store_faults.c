/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Nodes whose etcd is slow, full, on a full disk, loses a member, and whose
 * clocks differ.
 */

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/nodes/store_rig.h"
#include "tests/support/story.h"
#include "tests/support/nodes/sync_nodes.h"
#include "tests/support/tap.h"

#define NODES   2
#define SLOW_MS 1000
#define VALUE   16000 /* bytes of those that fill etcd */
#define QUOTA   "8388608"

static struct sync_node nodes[NODES];

static void make_nodes(const char *config_of_sync, uint32_t ttl_ms)
{
	for (int i = 0; i < NODES; i++) {
		char name[8];

		snprintf(name, sizeof(name), "n%d", i);
		sync_node_make(&nodes[i], name, NULL);
		nodes[i].store = config_of_sync;
		nodes[i].ttl_ms = ttl_ms;
	}
}

static void start_nodes(const struct sync_place *place)
{
	for (int i = 0; i < NODES; i++)
		OK(sync_node_start(&nodes[i], place));
	OK(sync_node_sees(&nodes[0], "n1", GPUMAP_CLUSTER_LIVE,
			  SYNC_LIMIT_MS) >= 0);
	OK(sync_node_sees(&nodes[1], "n0", GPUMAP_CLUSTER_LIVE,
			  SYNC_LIMIT_MS) >= 0);
}

static void remove_nodes(void)
{
	for (int i = 0; i < NODES; i++)
		sync_node_remove(&nodes[i]);
}

/* A change of one is seen by the other, both ways. */
static void changes_are_seen(uint64_t steps)
{
	for (int i = 0; i < NODES; i++) {
		uint64_t bytes = steps * sync_node_step(&nodes[i]);
		char name[8];

		snprintf(name, sizeof(name), "n%d", i);
		EQ(sync_node_reserve(&nodes[i], bytes), 0);
		OK(sync_node_sees_reserved(&nodes[1 - i], name, bytes,
					   SYNC_LIMIT_MS) >= 0);
	}
}

/* Has each node been there all the time? */
static void none_was_gone(void)
{
	for (int i = 0; i < NODES; i++) {
		EQ(sync_node_count_log(&nodes[i], "event=node_gone"), 0);
		EQ(sync_node_count_log(&nodes[i], "event=lease_lost"), 0);
	}
}

/* ---- slow ---------------------------------------------------------------- */

/* Each request takes a second: what is said comes later, and leases of five
 * seconds are kept. */
static void a_slow_store_is_only_slow(void)
{
	struct sync_place place;
	struct etcd_way way;
	char lines[96];

	sync_place_etcd(&place);
	etcd_way_make(&way, place.server.port);
	etcd_way_open(&way, SLOW_MS);
	snprintf(lines, sizeof(lines), "etcd = %s\n", way.url);
	make_nodes(lines, 5000);
	start_nodes(&place);
	for (uint64_t i = 1; i <= 5; i++)
		changes_are_seen(i);
	none_was_gone();
	remove_nodes();
	etcd_way_close(&way);
	etcd_remove(&place.server);
}

/* ---- full ---------------------------------------------------------------- */

/* Write until etcd has no room.  Returns the revision of the last value. */
static uint64_t fill(struct gm_store *store)
{
	static char value[VALUE + 1];
	struct rig_result result;
	uint64_t last = 0;

	memset(value, 'x', VALUE);
	while (rig_put(store, "fill", value, NULL, &result) == 0)
		last = result.revision;
	EQ(result.status, -ENOSPC);
	NOTE("%s", result.why);
	return last;
}

static void make_room(const struct etcd_server *server, uint64_t revision)
{
	char command[256];

	snprintf(command, sizeof(command),
		 "export ETCDCTL_API=3 ETCDCTL_ENDPOINTS=%s; "
		 "etcdctl compact %llu && etcdctl defrag && etcdctl alarm "
		 "disarm",
		 server->url, (unsigned long long)revision);
	EQ(system(command), 0);
}

/* A store without room takes no news; what it has stays, and so do the leases;
 * the news come when there is room. */
static void a_full_store_keeps_what_it_has(void)
{
	struct sync_place place = { .url = "" };
	struct gm_store *store;
	uint64_t bytes, last;

	etcd_make(&place.server, 1);
	place.server.more[0] = "--quota-backend-bytes";
	place.server.more[1] = QUOTA;
	sync_place_etcd_is(&place);
	store = sync_place_open(&place);
	make_nodes(NULL, SYNC_TTL_MS);
	start_nodes(&place);
	changes_are_seen(1);
	last = fill(store);

	bytes = 2 * sync_node_step(&nodes[0]);
	EQ(sync_node_reserve(&nodes[0], bytes), 0);
	OK(sync_node_wait_log(&nodes[0], "event=not_said"));
	rig_run(store, 2 * SYNC_TTL_MS);
	EQ(sync_node_count_log(&nodes[0], "event=not_said"), 1);
	none_was_gone();
	OK(sync_node_sees_reserved(&nodes[1], "n0", bytes / 2, 0) >= 0);

	make_room(&place.server, last);
	OK(sync_node_sees_reserved(&nodes[1], "n0", bytes, SYNC_LIMIT_MS) >= 0);
	changes_are_seen(3);
	none_was_gone();
	remove_nodes();
	gm_store_close(store);
	etcd_remove(&place.server);
}

/* ---- a full disk --------------------------------------------------------- */

/* Let etcd's folder be a small file system, in which etcd has its log. */
static bool make_small_disk(const struct etcd_server *server)
{
	if (geteuid() == 0 && unshare(CLONE_NEWNS) == 0 &&
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	    mount("tmpfs", server->data, "tmpfs", 0, "size=192m,mode=700") == 0)
		return true;
	SKIP(1, "cannot mount a small disk");
	return false;
}

static void fill_disk(const char *path)
{
	static const char zeros[65536];
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	OK(fd >= 0);
	while (write(fd, zeros, sizeof(zeros)) > 0)
		;
	close(fd);
}

/* Write values that begin with a number until one fails.  Returns the last
 * number that was acknowledged. */
static unsigned long count_up(struct gm_store *store)
{
	static char value[VALUE + 1];
	struct rig_result result;
	unsigned long n = 0;

	memset(value, 'x', VALUE);
	do {
		value[snprintf(value, 16, "%lu", ++n)] = ' ';
	} while (rig_put(store, "count", value, NULL, &result) == 0);
	NOTE("%lu writes, then: %s", n - 1, result.why);
	return n - 1;
}

/* etcd ends when its disk is full.  When it runs again it has all writes that
 * it has acknowledged, and nodes have told it what was new meanwhile. */
static void a_full_disk_loses_nothing(void)
{
	struct sync_place place = { .url = "" };
	static char text[GM_STORE_VALUE_BYTES + 1];
	char filler[96];
	struct gm_store *store;
	unsigned long n;
	uint64_t bytes;
	int status = 0;

	etcd_make(&place.server, 1);
	if (!make_small_disk(&place.server)) {
		etcd_remove(&place.server);
		return;
	}
	snprintf(filler, sizeof(filler), "%s/filler", place.server.data);
	sync_place_etcd_is(&place);
	store = sync_place_open(&place);
	make_nodes(NULL, SYNC_TTL_MS);
	start_nodes(&place);
	changes_are_seen(1);
	fill_disk(filler);
	n = count_up(store);
	EQ(waitpid(place.server.pid, &status, 0), place.server.pid);
	OK(WIFEXITED(status) || WIFSIGNALED(status));
	bytes = 2 * sync_node_step(&nodes[0]);
	EQ(sync_node_reserve(&nodes[0], bytes), 0);
	OK(sync_node_wait_log(&nodes[0], "event=lease_lost"));

	EQ(unlink(filler), 0);
	etcd_start(&place.server);
	OK(etcd_serves(&place.server));
	OK(sync_node_sees_reserved(&nodes[1], "n0", bytes, SYNC_LIMIT_MS) >= 0);
	changes_are_seen(3);
	EQ(rig_get(store, "count", text, NULL), 0);
	OK(strtoul(text, NULL, 10) >= n);
	remove_nodes();
	gm_store_close(store);
	etcd_kill(&place.server);
	EQ(umount(place.server.data), 0);
	etcd_remove(&place.server);
}

/* ---- three members ------------------------------------------------------- */

static void a_lost_member_is_not_missed(void)
{
	static struct etcd_members members;
	struct sync_place place = { .url = "" };
	char lines[300];

	etcd_members_make(&members);
	for (int i = 0; i < ETCD_MEMBERS; i++)
		etcd_start(&members.of[i]);
	OK(etcd_serves(&members.of[0]));
	snprintf(lines, sizeof(lines), "etcd = %s\n", members.endpoints);
	make_nodes(lines, 5000);
	start_nodes(&place);
	changes_are_seen(1);
	for (int i = 0; i < ETCD_MEMBERS; i++) {
		etcd_kill(&members.of[i]);
		changes_are_seen((uint64_t)(i % 2) + 2);
		etcd_start(&members.of[i]);
		OK(etcd_serves(&members.of[i]));
	}
	none_was_gone();
	remove_nodes();
	for (int i = 0; i < ETCD_MEMBERS; i++)
		etcd_remove(&members.of[i]);
}

/* ---- clocks -------------------------------------------------------------- */

/* The wall clock is a minute ahead. */
static void be_ahead(void)
{
	char library[512];

	snprintf(library, sizeof(library), "%s/tests/fake/.libs/wall_clock.so",
		 getenv("abs_top_builddir"));
	setenv("LD_PRELOAD", library, 1);
	/* A sanitised program wants to be first. */
	setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
}

/* By how many seconds is the clock of its log ahead of ours? */
static long seconds_ahead(const struct sync_node *node)
{
	FILE *log = fopen(node->log, "re");
	char line[64] = "";
	struct tm said = { 0 };
	bool is_read = log != NULL && fgets(line, sizeof(line), log) != NULL &&
		       strptime(line, "time=%Y-%m-%dT%H:%M:%S", &said) != NULL;

	if (log != NULL)
		fclose(log);
	return is_read ? (long)(timegm(&said) - time(NULL)) : 0;
}

static void clocks_differ(const struct sync_place *place)
{
	make_nodes(NULL, SYNC_TTL_MS);
	nodes[1].prepare = be_ahead;
	start_nodes(place);
	OK(seconds_ahead(&nodes[1]) > 30);
	changes_are_seen(1);
	story_nap(SYNC_TTL_MS * 2000);
	changes_are_seen(2);
	none_was_gone();
	remove_nodes();
}

static void clocks_do_not_matter(void)
{
	struct sync_place place;
	char directory[64];

	snprintf(directory, sizeof(directory), "/dev/shm/gpumap-test.%d.sync",
		 getpid());
	sync_place_file(&place, directory);
	clocks_differ(&place);
	shm_names_remove_dir(directory);
	sync_place_etcd(&place);
	clocks_differ(&place);
	etcd_remove(&place.server);
}

TAP_CASE()
{
	if (etcd_lack() != NULL) {
		LACK("etcd", 1, etcd_lack());
		return tap_done();
	}
	a_slow_store_is_only_slow();
	a_full_store_keeps_what_it_has();
	a_full_disk_loses_nothing();
	a_lost_member_is_not_missed();
	clocks_do_not_matter();
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Ephemeral values whose write gets no answer from etcd, or gets it after its
 * process has ended: the value ends with its process all the same, and no value
 * of another process does.
 */

#include <sys/wait.h>

#include "agent/store/store_json.h"
#include "tests/system/rendezvous/place.h"

/* Each write of this value is stopped on its way; in base64, as etcd has it. */
#define VALUE "stopped on its way"

static struct place place;
static struct etcd_way way;
static char mark[GM_STORE_JSON_BASE64(sizeof(VALUE) - 1)];

/* A process of node a that writes the value, and exits with the status.
 * @lives: not before it is killed. */
static pid_t start(const char *key, bool lives)
{
	struct gpumap_sync *mine = NULL;
	uint64_t revision = 0;
	pid_t pid;
	int ret;

	fflush(stdout);
	pid = fork();
	if (pid != 0)
		return pid;
	ret = gpumap_sync_open(place.nodes[0].socket, &mine);
	if (ret == 0)
		ret = place_put(mine, key, VALUE, 0, GPUMAP_VALUE_EPHEMERAL,
				&revision);
	while (lives)
		pause();
	_exit(-ret);
}

static int end_of(pid_t pid)
{
	int status = 0;

	EQ(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : 1;
}

/* Have the write carried out, and its answer kept back. */
static pid_t start_and_write(struct gpumap_sync *b, const char *key)
{
	pid_t pid = start(key, false);

	OK(etcd_way_stopped(&way));
	etcd_way_go(&way);
	OK(place_sees(b, key, VALUE));
	return pid;
}

/* The write was carried out: what the watch says resolves it. */
static void a_write_without_an_answer_is_found(struct gpumap_sync *b)
{
	pid_t pid = start_and_write(b, "found");

	etcd_way_drop(&way);
	EQ(end_of(pid), -ETIMEDOUT);
	OK(place_sees(b, "found", ""));
}

/* The process is killed while its write is on its way. */
static void a_write_outlives_its_process(struct gpumap_sync *b)
{
	struct gpumap_sync *a = place_connect(&place, 0);
	pid_t pid = start_and_write(b, "outlived");

	kill(pid, SIGKILL);
	EQ(end_of(pid), 1);
	/* gpumap-sync has seen its end before it answers this. */
	STR(place_text(a, "outlived"), VALUE);
	etcd_way_go(&way);
	OK(place_sees(b, "outlived", ""));
	gpumap_sync_close(a);
}

/* Let what gpumap-sync of node a would do about a value be done. */
static void let_it_act(struct gpumap_sync *a)
{
	uint64_t revision = 0;

	for (int i = 0; i < 50; i++)
		if (place_put(a, "turn", "x", 0, 0, &revision) != 0 ||
		    place_put(a, "turn", NULL, revision, 0, &revision) != 0)
			OK(!"written");
}

/* The write was never carried out, and other processes write the same: for
 * good, or until they end. */
static void a_lost_write_takes_no_other_along(struct gpumap_sync *b)
{
	struct gpumap_sync *a = place_connect(&place, 0);
	pid_t pid = start("lost", false), other;
	uint64_t revision = 0;

	OK(etcd_way_stopped(&way));
	etcd_way_drop(&way);
	EQ(end_of(pid), -ETIMEDOUT);
	STR(place_text(b, "lost"), "");
	EQ(place_put(b, "lost", VALUE, 0, 0, &revision), 0);
	let_it_act(a);
	STR(place_text(b, "lost"), VALUE);
	EQ(place_put(b, "lost", NULL, revision, 0, &revision), 0);

	pid = start("lost", false);
	OK(etcd_way_stopped(&way));
	etcd_way_drop(&way);
	EQ(end_of(pid), -ETIMEDOUT);
	other = start("lost", true);
	OK(etcd_way_stopped(&way));
	etcd_way_go(&way);
	etcd_way_go(&way);
	OK(place_sees(b, "lost", VALUE));
	let_it_act(a);
	STR(place_text(b, "lost"), VALUE);
	kill(other, SIGKILL);
	EQ(end_of(other), 1);
	OK(place_sees(b, "lost", ""));
	gpumap_sync_close(a);
}

static void tell(void)
{
	struct gpumap_sync *b = place_connect(&place, 1);

	if (b == NULL)
		return;
	a_write_without_an_answer_is_found(b);
	a_write_outlives_its_process(b);
	a_lost_write_takes_no_other_along(b);
	gpumap_sync_close(b);
}

TAP_CASE()
{
	char lines[96];

	if (etcd_lack() != NULL) {
		LACK("etcd", 1, etcd_lack());
		return tap_done();
	}
	gm_store_json_encode(VALUE, sizeof(VALUE) - 1, mark);
	sync_place_etcd(&place.where);
	etcd_way_make(&way, place.where.server.port);
	etcd_way_stop(&way, mark);
	snprintf(lines, sizeof(lines), "etcd = %s\n", way.url);
	sync_node_make(&place.nodes[0], "a", NULL);
	sync_node_make(&place.nodes[1], "b", NULL);
	place.nodes[0].store = lines;
	if (OK(place_start(&place, 0)) && OK(place_start(&place, 1)))
		tell();
	for (int i = 0; i < 2; i++) {
		if (tap_failures > 0)
			sync_node_show_log(&place.nodes[i]);
		EQ(sync_node_kill(&place.nodes[i], SIGTERM), 0);
		sync_node_remove(&place.nodes[i]);
	}
	etcd_way_close(&way);
	etcd_remove(&place.where.server);
	return tap_done();
}

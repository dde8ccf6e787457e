/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/system/rendezvous/place.h"

uint64_t place_in(uint32_t ms)
{
	return story_now() + ms * UINT64_C(1000000);
}

bool place_start(struct place *place, int node)
{
	sync_node_spawn(&place->nodes[node], &place->where);
	return sync_node_wait_log(&place->nodes[node], "lease_held");
}

static void run(struct place *place, void (*story)(struct place *place),
		uint32_t ttl_ms)
{
	static const char *const names[PLACE_NODES] = { "a", "b", "c" };
	bool starts = true;

	for (int i = 0; i < PLACE_NODES; i++) {
		sync_node_make(&place->nodes[i], names[i], NULL);
		place->nodes[i].more = "[socket]\nmode = 0666\n";
		place->nodes[i].ttl_ms = ttl_ms;
	}
	for (int i = 0; i < PLACE_NODES && starts; i++)
		starts = OK(place_start(place, i));
	if (starts)
		story(place);
	for (int i = 0; i < PLACE_NODES; i++) {
		if (tap_failures > 0)
			sync_node_show_log(&place->nodes[i]);
		if (place->nodes[i].pid != 0)
			EQ(sync_node_kill(&place->nodes[i], SIGTERM), 0);
		sync_node_remove(&place->nodes[i]);
	}
}

void place_each(void (*story)(struct place *place), uint32_t ttl_ms)
{
	static struct place place;
	char folder[] = "/tmp/gpumap-test.place.XXXXXX";
	char command[64];

	if (!OK(mkdtemp(folder) != NULL))
		return;
	NOTE("in a directory");
	sync_place_file(&place.where, folder);
	run(&place, story, ttl_ms);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	EQ(system(command), 0);
	if (etcd_lack() != NULL) {
		LACK("etcd", 1, etcd_lack());
		return;
	}
	NOTE("in etcd");
	sync_place_etcd(&place.where);
	run(&place, story, ttl_ms);
	etcd_kill(&place.where.server);
	etcd_remove(&place.where.server);
}

struct gpumap_sync *place_connect(const struct place *place, int node)
{
	struct gpumap_sync *sync = NULL;

	if (!EQ(gpumap_sync_open(place->nodes[node].socket, &sync), 0))
		NOTE("%s", gpumap_refusal(NULL));
	return sync;
}

const char *place_text(struct gpumap_sync *sync, const char *key)
{
	static char text[GPUMAP_VALUE_BYTES_MAX + 1];
	uint64_t revision;
	size_t bytes = 0;
	int ret = gpumap_value_get(sync, key, text, sizeof(text) - 1, &bytes,
				   &revision);

	if (ret != 0 && ret != -ENOENT)
		NOTE("%s: %s", key, gpumap_refusal(NULL));
	text[ret == 0 ? bytes : 0] = '\0';
	return text;
}

int place_put(struct gpumap_sync *sync, const char *key, const char *text,
	      uint64_t expected, uint32_t flags, uint64_t *ret_revision)
{
	const struct gpumap_value_write write = {
		.size = sizeof(write),
		.key = key,
		.value = text,
		.bytes = text != NULL ? strlen(text) : 0,
		.expected = expected,
		.flags = flags,
	};

	return gpumap_value_cas(sync, &write, ret_revision);
}

bool place_sees(struct gpumap_sync *sync, const char *key, const char *text)
{
	uint64_t until_ns = story_now() + STORY_LIMIT_NS;

	while (strcmp(place_text(sync, key), text) != 0) {
		if (story_now() >= until_ns)
			return false;
		story_nap(5000);
	}
	return true;
}

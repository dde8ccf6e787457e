/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A store in etcd: what each store promises, over a way that can be cut, with
 * and without compaction; and the values of other programs.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/store/store_json.h"
#include "tests/support/tap.h"
#include "tests/support/nodes/etcd_server.h"
#include "tests/support/nodes/store_rig.h"
#include "tests/unit/store/store_stories.h"

#define ROOT "/gpumap/v1/test/"

static struct etcd_server server;
static struct etcd_way way;

static void cut(void)
{
	etcd_way_close(&way);
}

static void heal(void)
{
	etcd_way_open(&way, 0);
}

static void compact(void)
{
	struct gm_store_opts opts = { .endpoints = server.url, .root = ROOT };
	struct gm_store *store = rig_open(&opts);
	struct rig_result result;
	char body[64];

	EQ(rig_put(store, "compact", "x", NULL, &result), 0);
	EQ(rig_put(store, "compact", NULL, NULL, NULL), 0);
	gm_store_close(store);
	snprintf(body, sizeof(body), "{\"revision\":\"%llu\"}",
		 (unsigned long long)result.revision);
	EQ(etcd_tell(&server, "/v3/kv/compaction", body), 0);
}

static struct store_place place = {
	.opts = { .endpoints = way.url, .root = ROOT, .timeout_ms = 2000 },
	.direct = { .endpoints = server.url, .root = ROOT },
	.ttl_ms = 1000,
	.cut = cut,
	.heal = heal,
	.compact = compact,
};

/* Another program's values and keys harm no list. */
static void strange_values_are_refused(void)
{
	struct gm_store *store = rig_open(&place.direct);
	struct rig_watch watch;
	FILE *body;
	char path[96], command[400];

	/* "/gpumap/v1/test/a b" and, of 64 KiB, "/gpumap/v1/test/big" */
	EQ(etcd_tell(&server, "/v3/kv/put",
		     "{\"key\":\"L2dwdW1hcC92MS90ZXN0L2EgYg==\",\"value\":"
		     "\"eA==\"}"),
	   0);
	snprintf(path, sizeof(path), "%s/body", server.data);
	body = fopen(path, "we");
	fputs("{\"key\":\"L2dwdW1hcC92MS90ZXN0L2JpZw==\",\"value\":\"", body);
	for (int i = 0; i < 65536 / 3; i++)
		fputs("eHh4", body);
	fputs("\"}", body);
	fclose(body);
	snprintf(command, sizeof(command),
		 "curl -s -f -o /dev/null '%s/v3/kv/put' -d @%s", server.url,
		 path);
	EQ(system(command), 0);
	EQ(rig_put(store, "good", "value", NULL, NULL), 0);
	rig_watch(store, &watch, "");
	OK(rig_resyncs(store, &watch, 1));
	EQ(watch.values.n, 2);
	STR(rig_seen(&watch, "big"), "?");
	OK(strstr(watch.why, "16384") != NULL);
	STR(rig_seen(&watch, "good"), "value");
	EQ(rig_put(store, "big", "small", NULL, NULL), 0);
	OK(rig_sees(store, &watch, "big", "small"));
	rig_remove_all(store);
	OK(rig_sees(store, &watch, "big", ""));
	gm_store_close(store);
	rig_watch_end(&watch);
	EQ(etcd_tell(&server, "/v3/kv/deleterange",
		     "{\"key\":\"L2dwdW1hcC92MS90ZXN0L2EgYg==\"}"),
	   0);
}

/* Keys that are longer than any of ours, one of them the last of a page. */
static void long_keys_are_passed_by(void)
{
	enum { LONG = 70, BYTES = 1200 };
	static char key[BYTES + 1], text[GM_STORE_JSON_BASE64(BYTES)];
	static char body[sizeof(text) + 64];
	struct gm_store *store = rig_open(&place.direct);
	int n_put = 0;

	for (int i = 0; i < LONG; i++) {
		memset(key, 'k', BYTES);
		key[snprintf(key, sizeof(key), ROOT "long%03d", i)] = 'k';
		gm_store_json_encode(key, BYTES, text);
		snprintf(body, sizeof(body), "{\"key\":\"%s\"}", text);
		n_put += etcd_tell(&server, "/v3/kv/put", body) == 0;
	}
	EQ(n_put, LONG);
	EQ(rig_put(store, "short", "value", NULL, NULL), 0);
	EQ(rig_count(store, ""), 1);
	gm_store_close(store);
	/* From "/gpumap/v1/test/long" to "/gpumap/v1/test/m". */
	EQ(etcd_tell(&server, "/v3/kv/deleterange",
		     "{\"key\":\"L2dwdW1hcC92MS90ZXN0L2xvbmc=\",\"range_end\":"
		     "\"L2dwdW1hcC92MS90ZXN0L20=\"}"),
	   0);
}

static void options_are_checked(void)
{
	static const char *const bad[] = { "",
					   "host:2379",
					   "http://",
					   "ftp://host:1",
					   "http://host:1/path",
					   "http://user@host",
					   "http://a:1,,http://b:2" };
	char why[GM_STORE_WHY_BYTES];
	struct gm_store *store;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct gm_store_opts opts = { .endpoints = bad[i],
					      .root = ROOT };

		EQ(gm_store_open(&opts, &store, why), -EINVAL);
		OK(strstr(why, "http://HOST:PORT") != NULL);
	}
	EQ(gm_store_open(&(struct gm_store_opts){ .root = ROOT }, &store, why),
	   -EINVAL);
}

TAP_CASE()
{
	if (etcd_lack() != NULL) {
		LACK("etcd", 1, etcd_lack());
		return tap_done();
	}
	options_are_checked();
	etcd_make(&server, 0);
	etcd_start(&server);
	OK(etcd_serves(&server));
	etcd_way_make(&way, server.port);
	heal();
	stories_of_values(&place);
	stories_of_cas(&place);
	stories_of_watches(&place);
	stories_of_leases(&place);
	stories_of_cuts(&place);
	strange_values_are_refused();
	long_keys_are_passed_by();
	etcd_way_close(&way);
	etcd_remove(&server);
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks dummy rows: devices that a node file describes and that are not
 * present are in the device table, keep their places, take layers, and serve no
 * session.
 */

#include <signal.h>

#include "tests/support/ctl.h"
#include "tests/support/story.h"

#define GIB   (UINT64_C(1) << 30)

#define LIMIT (64 * MIB)

static const char node[] =
	"name: dgx\n"
	"rows:\n"
	"- { name: H100, kind: cuda, count: 2, memory: 80G, free: 79G,\n"
	"    compute-capability: 9.0, sm-count: 132, threads-per-sm: 2048,\n"
	"    numa-node: 1 }\n"
	"- { name: P100, kind: cuda, memory: 16G, compute-capability: 6.0,\n"
	"    integrated: yes }\n"
	"- { name: Xeon, kind: host, cpus: 112, memory: 1T }\n"
	"- { name: X, kind: dummy, memory: 4096 }\n";

/* One H100 and the P100 are gone, one of the others is a different device, and
 * one is new. */
static const char other_node[] =
	"name: dgx\n"
	"rows:\n"
	"- { name: H200, kind: cuda, memory: 141G, compute-capability: 9.0 }\n"
	"- { name: X, kind: dummy, memory: 8192 }\n"
	"- { name: Xeon, kind: host, cpus: 112, memory: 1T }\n"
	"- { name: H100, kind: cuda, memory: 80G, free: 79G,\n"
	"    compute-capability: 9.0, sm-count: 132, threads-per-sm: 2048,\n"
	"    numa-node: 1 }\n";

static void configure(const char *host, const char *yaml)
{
	char config[512];

	snprintf(config, sizeof(config),
		 "[agent]\nrefresh = 10ms\n[host]\n%s\n"
		 "[limits]\narena = 64M\narena-per-uid = 64M\n",
		 host);
	agent_configure_dummies(&agent, yaml, config);
}

static void wait_for_refreshes(const struct gpumap *map)
{
	struct gpumap_health health = { .size = sizeof(health) };
	uint64_t from, until = story_now() + STORY_LIMIT_NS;

	EQ(gpumap_health(map, &health), 0);
	EQ(health.agent_version, GPUMAP_VERSION);
	for (from = health.tick; health.tick < from + 3;) {
		if (story_now() > until || gpumap_health(map, &health) != 0) {
			OK(!"the tick stands still");
			return;
		}
		story_nap(1000);
	}
}

/* ---- the table --------------------------------------------------------- */

static const struct {
	const char *name;
	uint32_t known, flags;
	int32_t numa_node;
	uint32_t cc, units, threads;
	uint64_t total_bytes, free_bytes;
	double score;
} want[] = {
	{ "H100",
	  GPUMAP_KNOWN_MEMORY | GPUMAP_KNOWN_NUMA | GPUMAP_KNOWN_UNITS |
		  GPUMAP_KNOWN_CC,
	  GPUMAP_DEVICE_FP16 | GPUMAP_DEVICE_BF16 | GPUMAP_DEVICE_INT8, 1, 90,
	  132, 2048, 80 * GIB, 79 * GIB, 132 + 4 * 79 + 150 },
	{ "H100",
	  GPUMAP_KNOWN_MEMORY | GPUMAP_KNOWN_NUMA | GPUMAP_KNOWN_UNITS |
		  GPUMAP_KNOWN_CC,
	  GPUMAP_DEVICE_FP16 | GPUMAP_DEVICE_BF16 | GPUMAP_DEVICE_INT8, 1, 90,
	  132, 2048, 80 * GIB, 79 * GIB, 132 + 4 * 79 + 150 },
	{ "P100", GPUMAP_KNOWN_MEMORY | GPUMAP_KNOWN_CC,
	  GPUMAP_DEVICE_FP16 | GPUMAP_DEVICE_INTEGRATED, -1, 60, 0, 0, 16 * GIB,
	  16 * GIB, 64 },
	{ "Xeon", GPUMAP_KNOWN_MEMORY | GPUMAP_KNOWN_UNITS,
	  GPUMAP_DEVICE_MAIN_MEMORY, -1, 0, 112, 0, 1024 * GIB, 1024 * GIB,
	  112 + 4096 },
	{ "X", GPUMAP_KNOWN_MEMORY, 0, -1, 0, 0, 0, 4096, 4096,
	  4 * 4096.0 / (double)GIB },
};

#define DUMMIES (sizeof(want) / sizeof(want[0]))

static void row_is_as_in_the_file(const struct gpumap *map, uint32_t row,
				  size_t i)
{
	struct gpumap_device d = story_device(map, row);

	STR(d.name, want[i].name);
	EQ(d.kind, GPUMAP_DEVICE_DUMMY);
	EQ(d.state, GPUMAP_DEVICE_READY);
	EQ(d.known, want[i].known);
	EQ(d.flags, want[i].flags);
	EQ(d.numa_node, want[i].numa_node);
	EQ(10 * d.cc_major + d.cc_minor, want[i].cc);
	EQ(d.units, want[i].units);
	EQ(d.threads_per_unit, want[i].threads);
	OK(d.total_bytes == want[i].total_bytes);
	OK(d.free_bytes == want[i].free_bytes);
	OK(d.budget_bytes == want[i].total_bytes / 2);
	OK(d.score == want[i].score);
	EQ(d.reserved_bytes, 0);
	EQ(d.worker_pid, 0);
	EQ(d.ordinal_pci, -1);
}

static void the_file_is_in_the_table(const struct gpumap *map)
{
	struct gpumap_device host = story_device(map, 0);

	EQ(gpumap_device_count(map), 1 + DUMMIES);
	EQ(host.kind, GPUMAP_DEVICE_HOST);
	EQ(host.flags, GPUMAP_DEVICE_SERVES | GPUMAP_DEVICE_MAPPED |
			       GPUMAP_DEVICE_EXPORTS |
			       GPUMAP_DEVICE_MAIN_MEMORY);
	wait_for_refreshes(map);
	for (uint32_t i = 0; i < DUMMIES; i++) {
		struct gpumap_device d = story_device(map, 1 + i);

		row_is_as_in_the_file(map, 1 + i, i);
		EQ(gpumap_device_find(map, d.uuid), 1 + (int)i);
	}
	OK(agent_logged(&agent, "event=dummy_rows"));
	OK(agent_logged(&agent, "node=\"dgx\" rows=5"));
}

static void gpumapctl_shows_them(void)
{
	const json_t *devices, *d;
	json_t *json;

	EQ(CTL("devices"), DONE);
	OK(prints("\n  1  dummy READY "));
	EQ(CTL("devices", "--json"), DONE);
	json = object();
	devices = list(json, "devices", 1 + DUMMIES);
	d = json_array_get(devices, 1);
	STR(text(d, "kind"), "dummy");
	STR(text(d, "compute_capability"), "9.0");
	OK(json_is_false(json_object_get(d, "main_memory")));
	d = json_array_get(devices, 3);
	OK(json_is_null(json_object_get(d, "units")));
	OK(json_is_true(json_object_get(d, "integrated")));
	d = json_array_get(devices, 4);
	OK(json_is_null(json_object_get(d, "compute_capability")));
	OK(json_is_true(json_object_get(d, "main_memory")));
	json_decref(json);
}

static void choose_takes_them_where_they_are_named(void)
{
	const json_t *devices;
	json_t *json;

	EQ(CTL("choose", "--json"), DONE);
	json = object();
	devices = list(json, "devices", 1);
	STR(text(json_array_get(devices, 0), "kind"), "host");
	json_decref(json);
	EQ(CTL("choose", "--rows", "0-5", "--compute-capability", "9.0",
	       "--free", "79G", "--by", "free-memory", "--json"),
	   DONE);
	json = object();
	devices = list(json, "devices", 2);
	EQ(number(json_array_get(devices, 0), "row"), 1);
	EQ(number(json_array_get(devices, 1), "row"), 2);
	json_decref(json);
	EQ(CTL("choose", "--rows", "0-5", "--by", "free-compute"), DONE);
	OK(prints("\n  0  host "));
	EQ(CTL("choose", "--rows", "0-5", "--prefer", "p100"), DONE);
	OK(prints("row  kind ") && prints("\n  3  dummy READY "));
	EQ(CTL("choose", "--rows", "1-5", "--memory", "2048G"), FAILED);
	OK(complains("no row meets the needs: 5 too small"));
	EQ(CTL("choose", "--cuda-version", "new"), FAILED);
	OK(complains("\"new\" is no version"));
	EQ(CTL("choose", "--by", "price"), USAGE);
	OK(complains("--by is best, free-memory or free-compute, not "
		     "\"price\""));
	EQ(ctl_of("nobody", WORDS("choose")), NO_AGENT);
}

/* ---- maps -------------------------------------------------------------- */

static void layers_go_there(void)
{
	const json_t *rows;
	json_t *json;

	EQ(CTL("publish", "m", "--spec", "1:2;3:1", "--layers", "4"), DONE);
	EQ(CTL("layers", "m", "--json"), DONE);
	json = object();
	rows = list(json, "layers", 4);
	EQ(number(json_array_get(rows, 0), "row"), 1);
	EQ(number(json_array_get(rows, 1), "row"), 1);
	EQ(number(json_array_get(rows, 2), "row"), 3);
	EQ(number(json_array_get(rows, 3), "row"), 0); /* the host */
	json_decref(json);
}

/* ---- sessions ---------------------------------------------------------- */

static bool refused_as_dummy(struct gpumap *map, int ret)
{
	if (ret == -ENODEV &&
	    strstr(gpumap_refusal(map), "dummy rows plan and account, but "
					"hold no data") != NULL)
		return true;
	NOTE("%d: %s", ret, gpumap_refusal(map));
	return false;
}

/* A session can use row @host alone.  @ranges is the number of ranges that
 * count against its limit. */
static void sessions_do_without(struct gpumap *map, uint32_t host,
				uint64_t ranges)
{
	struct gpumap_session_opts asked = {
		.size = sizeof(asked), .arena_bytes = LIMIT / ranges / MIB * MIB
	};
	struct gpumap_job job = { .op = GPUMAP_OP_FILL,
				  .n = MIB,
				  .pattern = 0x5a };
	const double weights[] = { 1, 1 };
	uint32_t rows[] = { host, host == 0 ? 1 : host - 1 };
	struct gpumap_scatter_opts both = { .size = sizeof(both),
					    .rows = rows,
					    .n_rows = 2,
					    .weights = weights };
	struct gpumap_session *session = NULL;
	struct gpumap_tile tiles[GPUMAP_ROWS_MAX];
	void *memory;

	if (!EQ(gpumap_session_open(map, &asked, &session), 0)) {
		NOTE("%s", gpumap_refusal(map));
		return;
	}
	OK(refused_as_dummy(map, gpumap_alloc(session, rows[1], MIB, &memory)));
	if (!EQ(gpumap_alloc(session, host, MIB, &job.dst), 0))
		return;
	EQ(gpumap_scatter(session, &job, NULL, tiles, GPUMAP_ROWS_MAX), 1);
	EQ(tiles[0].row, host);
	EQ(tiles[0].n, MIB);
	EQ(((uint8_t *)job.dst)[MIB - 1], 0x5a);
	OK(refused_as_dummy(map, gpumap_scatter(session, &job, &both, tiles,
						GPUMAP_ROWS_MAX)));
	EQ(gpumap_scatter(session, &job, NULL, tiles, GPUMAP_ROWS_MAX), 1);
	gpumap_session_close(session);

	asked.arena_bytes += MIB;
	EQ(gpumap_session_open(map, &asked, &session), -EDQUOT);
}

static void without_others_there_is_no_session(struct gpumap *map)
{
	struct gpumap_session_opts asked = { .size = sizeof(asked) };
	struct gpumap_session *session;

	EQ(gpumap_device_count(map), DUMMIES);
	for (uint32_t i = 0; i < DUMMIES; i++)
		row_is_as_in_the_file(map, i, i);
	OK(refused_as_dummy(map, gpumap_session_open(map, &asked, &session)));
}

/* ---- restarts ---------------------------------------------------------- */

static void restart(void)
{
	EQ(agent_kill(&agent, SIGKILL), -SIGKILL);
	OK(agent_start(&agent));
}

static void row_is(const struct gpumap *map, uint32_t row, const char *name,
		   uint32_t state, const uint8_t uuid[16])
{
	struct gpumap_device d = story_device(map, row);

	STR(d.name, name);
	EQ(d.state, state);
	OK(memcmp(d.uuid, uuid, sizeof(d.uuid)) == 0);
}

static void rows_keep_their_place(const struct gpumap *map)
{
	uint8_t uuid[DUMMIES][16];

	for (uint32_t i = 0; i < DUMMIES; i++)
		memcpy(uuid[i], story_device(map, 1 + i).uuid, 16);
	configure("rows = 1", other_node);
	restart();
	EQ(gpumap_device_count(map), 2 + DUMMIES);
	row_is(map, 1, "H100", GPUMAP_DEVICE_READY, uuid[0]);
	row_is(map, 2, "H100", GPUMAP_DEVICE_LOST, uuid[1]);
	row_is(map, 3, "P100", GPUMAP_DEVICE_LOST, uuid[2]);
	row_is(map, 4, "Xeon", GPUMAP_DEVICE_READY, uuid[3]);
	row_is(map, 5, "X", GPUMAP_DEVICE_READY, uuid[4]);
	EQ(story_device(map, 5).total_bytes, 8192);
	EQ(story_device(map, 5).free_bytes, 8192);
	STR(story_device(map, 6).name, "H200");
	wait_for_refreshes(map);
	EQ(story_device(map, 2).state, GPUMAP_DEVICE_LOST);

	configure("rows = 1", node);
	restart();
	EQ(gpumap_device_count(map), 2 + DUMMIES);
	for (uint32_t i = 0; i < DUMMIES; i++) {
		row_is_as_in_the_file(map, 1 + i, i);
		row_is(map, 1 + i, want[i].name, GPUMAP_DEVICE_READY, uuid[i]);
	}
	EQ(story_device(map, 6).state, GPUMAP_DEVICE_LOST);
}

/* ---- files that are wrong ---------------------------------------------- */

static void is_refused(const char *host, const char *yaml, const char *why)
{
	configure(host, yaml);
	EQ(agent_run(&agent, NULL), 2);
	if (!OK(agent_logged(&agent, why)))
		agent_show_log(&agent);
	OK(access(agent.segment, F_OK) != 0);
}

static void wrong_files_end_the_start(void)
{
	char path[96];

	is_refused("rows = 1", "rows:\n- name: X\n  kind: gpu\n",
		   "/node.yaml:3: kind: gpu: it is cuda, host or dummy; see "
		   "gpumap-node(5)");
	is_refused("rows = 1", "rows:\n- *x\n",
		   "/node.yaml:2: aliases are not allowed");
	configure("rows = 1",
		  "rows: [{ name: X, kind: dummy, memory: 1, count: 256 }]");
	EQ(agent_run(&agent, NULL), 2);
	OK(agent_logged(&agent, "there is no room for the 256 of dummy.file"));
	configure("rows = 1", node);
	snprintf(path, sizeof(path), "%s/node.yaml", agent.dir);
	unlink(path);
	EQ(agent_run(&agent, NULL), 2);
	OK(agent_logged(&agent, "/node.yaml: No such file or directory; "));
}

static struct gpumap *start(const char *host)
{
	struct gpumap *map = NULL;

	agent_make(&agent, NULL);
	configure(host, node);
	if (OK(agent_start(&agent)))
		map = story_attach(&agent);
	else
		agent_show_log(&agent);
	OK(map != NULL);
	return map;
}

/* Without rows of its own a mesh is on hosts, wherever they stand. */
static void meshes_are_on_the_host(struct gpumap *map, uint32_t row)
{
	const struct gpumap_mesh_request request = {
		.size = sizeof(request),
		.name = "all",
		.topology = GPUMAP_MESH_DATA,
		.tp = 1,
		.pp = 1,
		.dp = 1,
	};
	struct gpumap_mesh mesh = { .size = sizeof(mesh) };
	uint32_t rows[GPUMAP_ROWS_MAX] = { UINT32_MAX };

	EQ(gpumap_mesh_publish(map, &request), 0);
	EQ(gpumap_mesh_read(map, "all", &mesh, rows, GPUMAP_ROWS_MAX), 0);
	EQ(mesh.world, 1);
	EQ(rows[0], row);
	EQ(gpumap_mesh_release(map, "all"), 0);
}

TAP_CASE()
{
	struct gpumap *map;

	map = start("rows = 1");
	if (map == NULL)
		return tap_done();
	the_file_is_in_the_table(map);
	gpumapctl_shows_them();
	choose_takes_them_where_they_are_named();
	layers_go_there();
	meshes_are_on_the_host(map, 0);
	sessions_do_without(map, 0, 1);
	rows_keep_their_place(map);
	sessions_do_without(map, 0, 1);
	gpumap_detach(map);
	agent_remove(&agent);

	map = start("enabled = no");
	if (map == NULL)
		return tap_done();
	without_others_there_is_no_session(map);
	gpumap_detach(map);
	configure("enabled = yes", node);
	restart();
	map = story_attach(&agent);
	if (OK(map != NULL)) {
		sessions_do_without(map, DUMMIES, 1 + DUMMIES);
		meshes_are_on_the_host(map, DUMMIES);
	}
	EQ(CTL("scatter", "--bytes", "1M", "--rounds", "1"), DONE);
	OK(prints("  row   5  elements 0 - 1048575\n"));
	gpumap_detach(map);
	agent_remove(&agent);

	agent_make(&agent, NULL);
	wrong_files_end_the_start();
	agent_remove(&agent);
	return tap_done();
}

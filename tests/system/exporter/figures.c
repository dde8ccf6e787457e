/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks that gpumap-exporter's metrics are what libgpumap reads, in both text
 * formats, with and without the agent's lists; and that Prometheus's own
 * readers take them.
 */

#include <sys/stat.h>

#include "tests/support/nodes/cluster_nodes.h"
#include "tests/support/ctl.h"
#include "tests/support/exporter.h"
#include "tests/support/load_file.h"
#include "tests/support/story.h"

#define CONFIG "[host]\nrows = 2\n[map model]\nspec = 0:2;1:3\n"

static struct gpumap *map;
static struct exporter exporter;

static double value_of_row(const char *name, uint32_t row, const char *more)
{
	char label[24];

	snprintf(label, sizeof(label), "row=\"%u\"", row);
	return EXPORTER_VALUE(name, label, more);
}

/* Free memory moves: both have it as it was at one look. */
static bool free_is_the_librarys(uint32_t row)
{
	for (int i = 0; i < 20; i++) {
		uint64_t bytes = story_device(map, row).free_bytes;

		if (exporter_scrape(&exporter) &&
		    value_of_row("gpumap_device_memory_bytes", row,
				 "kind=\"free\"") == (double)bytes)
			return true;
	}
	return false;
}

static void rows_are_the_librarys(void)
{
	OK(exporter_scrape(&exporter));
	for (uint32_t row = 0; row < 2; row++) {
		struct gpumap_device d = story_device(map, row);
		char label[300];

		EQ((intmax_t)value_of_row("gpumap_device_memory_bytes", row,
					  "kind=\"total\""),
		   (intmax_t)d.total_bytes);
		EQ((intmax_t)value_of_row("gpumap_device_memory_bytes", row,
					  "kind=\"reserved\""),
		   (intmax_t)d.reserved_bytes);
		OK(free_is_the_librarys(row));
		OK(value_of_row("gpumap_device_state", row,
				"state=\"READY\"") == 1);
		OK(value_of_row("gpumap_device_state", row,
				"state=\"FAILED\"") == 0);
		OK(value_of_row("gpumap_device_cordoned", row, NULL) == 0);
		OK(value_of_row("gpumap_worker_restarts_total", row, NULL) ==
		   d.restarts);
		OK(value_of_row("gpumap_device_score", row, NULL) == d.score);
		snprintf(label, sizeof(label), "name=\"%s\"", d.name);
		OK(value_of_row("gpumap_device_info", row, label) == 1);
		/* A host row has no samples of facts that only cards have. */
		OK(isnan(value_of_row("gpumap_device_xids_total", row, NULL)));
		OK(isnan(value_of_row("gpumap_device_temperature_celsius", row,
				      NULL)));
	}
	OK(strstr(out, "modelName") == NULL && strstr(out, "UUID") == NULL);
}

/* Whatever the clock says of them. */
static void jobs_are_counted(void)
{
	struct gpumap_job job = { .op = GPUMAP_OP_NOP };
	struct gpumap_device_jobs jobs = { .size = sizeof(jobs) };
	uint64_t limit = story_now() + STORY_LIMIT_NS;
	struct gpumap_session *s = NULL;
	uint64_t timed = 0;
	double last = 0;

	EQ(gpumap_session_open(map, NULL, &s), 0);
	for (int i = 0; i < 1000; i++)
		EQ(story_run(s, 0, &job), 0);
	gpumap_session_close(s);
	do
		EQ(gpumap_device_jobs_read(map, 0, &jobs), 0);
	while (jobs.ended < 1000 && story_now() < limit);
	for (uint32_t i = 0; i < GPUMAP_JOB_TIMES; i++)
		timed += jobs.times[i];
	OK(exporter_scrape(&exporter));
	OK(value_of_row("gpumap_jobs_total", 0, NULL) == 1000);
	OK(value_of_row("gpumap_jobs_total", 1, NULL) == 0);
	OK(value_of_row("gpumap_jobs_failed_total", 0, NULL) == 0);
	OK(value_of_row("gpumap_job_duration_seconds_count", 0, NULL) ==
	   (double)timed);
	OK(value_of_row("gpumap_job_duration_seconds_sum", 0, NULL) ==
	   (double)jobs.ns / 1e9);
	for (uint32_t i = 0; i < GPUMAP_JOB_TIMES; i++) {
		char le[40] = "le=\"+Inf\"";
		double value;

		if (i < GPUMAP_JOB_TIMES - 1)
			snprintf(le, sizeof(le), "le=\"%.15g\"",
				 (double)gpumap_job_time_end(i) / 1e9);
		value = value_of_row("gpumap_job_duration_seconds_bucket", 0,
				     le);
		OK(value == last + (double)jobs.times[i]);
		last = value;
	}
}

/* Loads of a worker that has died count, too. */
static void bytes_of_files_are_counted(void)
{
	struct gpumap_device_jobs jobs = { .size = sizeof(jobs) };
	uint64_t limit = story_now() + STORY_LIMIT_NS, want = 0;
	uint32_t restarts = story_device(map, 0).restarts;
	struct gpumap_session *s = NULL;
	int fd = load_file(agent.dir, MIB);
	void *memory = NULL;

	for (int i = 0; i < 2; i++) {
		EQ(gpumap_session_open(map, NULL, &s), 0);
		EQ(gpumap_alloc(s, 0, MIB, &memory), 0);
		EQ(load(s, 0, load_register(s, fd), 5, MIB - 5, memory), 0);
		OK(load_matches(memory, 5, MIB - 5));
		gpumap_session_close(s);
		want += MIB - 5;
		do
			EQ(gpumap_device_jobs_read(map, 0, &jobs), 0);
		while (jobs.loaded_bytes < want && story_now() < limit);
		EQ((intmax_t)jobs.loaded_bytes, (intmax_t)want);
		if (i == 0) {
			kill((pid_t)story_device(map, 0).worker_pid, SIGKILL);
			OK(story_back(map, 0, restarts));
		}
	}
	close(fd);
	OK(exporter_scrape(&exporter));
	OK(value_of_row("gpumap_model_load_bytes_total", 0, NULL) ==
	   (double)want);
	OK(value_of_row("gpumap_model_load_bytes_total", 1, NULL) == 0);
}

static void moves_with_the_map(void)
{
	struct gpumap_device before = story_device(map, 1);

	EQ(CTL("cordon", "1"), DONE);
	kill((pid_t)before.worker_pid, SIGKILL);
	OK(story_back(map, 1, before.restarts));
	OK(exporter_scrape(&exporter));
	OK(value_of_row("gpumap_device_cordoned", 1, NULL) == 1);
	OK(value_of_row("gpumap_device_cordoned", 0, NULL) == 0);
	OK(value_of_row("gpumap_worker_restarts_total", 1, NULL) ==
	   before.restarts + 1);
	EQ(CTL("uncordon", "1"), DONE);
}

/* 4 MiB of row 0, and 1 MiB of row 1. */
static int reserve(const char *name)
{
	uint32_t rows[] = { 0, 1 };
	uint64_t bytes[] = { 4 * MIB, MIB };
	struct gpumap_plan plan = { .size = sizeof(plan) };
	struct gpumap_plan_request request = {
		.size = sizeof(request),
		.name = name,
		.flags = GPUMAP_PLAN_COMMIT,
		.setting = GPUMAP_SETTING_RESERVE,
		.rows = rows,
		.n_rows = 2,
		.n_layers = 2,
		.layer_bytes = bytes,
	};

	return gpumap_plan_make(map, &request, &plan, NULL, 0, NULL, 0);
}

static void objects_are_there(void)
{
	double ignored;

	EQ(reserve("mine"), 0);
	EQ(CTL("mask", "publish", "causal", "--kind", "causal", "--size", "8",
	       "--dtype", "f32", "--rows", "0,1"),
	   DONE);
	EQ(CTL("mesh", "publish", "pair", "--topology", "tensor=2", "--rows",
	       "0,1"),
	   DONE);
	OK(exporter_scrape(&exporter));
	OK(value_of_row("gpumap_layer_map_layers", 0, "map=\"model\"") == 2);
	OK(value_of_row("gpumap_layer_map_layers", 1, "map=\"model\"") == 3);
	/* Only what is committed is reserved. */
	EQ(exporter_find(&ignored, "gpumap_reservation_bytes", "map=\"model\"",
			 NULL),
	   0);
	OK(EXPORTER_VALUE("gpumap_mask_bytes", "mask=\"causal\"") == 8 * 8 * 4);
	OK(EXPORTER_VALUE("gpumap_mask_replicas", "mask=\"causal\"") == 2);
	OK(EXPORTER_VALUE("gpumap_mesh_ranks", "mesh=\"pair\"") == 2);
	OK(EXPORTER_VALUE("gpumap_mesh_ready_rows", "mesh=\"pair\"") == 2);
}

/* A committed map's charges are what its rows have reserved. */
static void reservations_add_up(void)
{
	static const double want[] = { 4 * MIB, MIB };

	OK(exporter_scrape(&exporter));
	for (uint32_t row = 0; row < 2; row++) {
		OK(value_of_row("gpumap_reservation_bytes", row,
				"map=\"mine\"") == want[row]);
		OK(value_of_row("gpumap_device_memory_bytes", row,
				"kind=\"reserved\"") == want[row]);
	}
}

/* Without --usage there is nothing that only the agent can tell. */
static void lists_are_asked_for(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .depth = 32,
					    .arena_bytes = MIB };
	struct gpumap_session *session = NULL;
	struct exporter asking = { 0 };
	uint64_t buffer = 0;
	char uid[24];
	double ignored;

	EQ(exporter_find(&ignored, "gpumap_sessions", NULL), 0);
	OK(exporter_start(&asking, "--usage"));
	EQ(gpumap_session_open(map, &opts, &session), 0);
	EQ(gpumap_buffer_alloc(session, 1, 3 * MIB, GPUMAP_BUFFER_EXPORTABLE,
			       GPUMAP_NO_DEADLINE, &buffer),
	   0);
	EQ(gpumap_share_publish(
		   session,
		   &(struct gpumap_share_request){
			   .size = sizeof(struct gpumap_share_request),
			   .name = "weights",
			   .buffers = &buffer,
			   .n_buffers = 1 },
		   &(uint64_t){ 0 }),
	   0);
	OK(exporter_scrape(&asking));
	snprintf(uid, sizeof(uid), "uid=\"%u\"", geteuid());
	OK(EXPORTER_VALUE("gpumap_usage_up") == 1);
	OK(EXPORTER_VALUE("gpumap_sessions", uid) == 1);
	OK(EXPORTER_VALUE("gpumap_session_arena_bytes", uid) >= MIB);
	OK(EXPORTER_VALUE("gpumap_buffer_bytes", uid, "row=\"1\"") >= 3 * MIB);
	OK(EXPORTER_VALUE("gpumap_share_bytes", "share=\"weights\"", uid) ==
	   3 * MIB);
	OK(EXPORTER_VALUE("gpumap_share_holders", "share=\"weights\"") == 1);
	OK(EXPORTER_VALUE("gpumap_reservation_used_bytes", "map=\"mine\"",
			  "row=\"0\"") >= 0);
	OK(EXPORTER_VALUE("gpumap_start_queue_length") == 0);
	OK(EXPORTER_VALUE("gpumap_start_queue_oldest_seconds") == 0);
	gpumap_session_close(session);
	exporter_stop(&asking);
}

/* ---- other readers ------------------------------------------------------- */

static void store_body(const char *path)
{
	const char *body = exporter_body();
	FILE *file = fopen(path, "we");

	if (OK(file != NULL)) {
		OK(fwrite(body, 1, strlen(body), file) == strlen(body));
		fclose(file);
	}
}

static bool runs(const char *command)
{
	return system(command) == 0;
}

static void openmetrics_ends(void)
{
	EQ(exporter_ask(&exporter, "GET", "/metrics", EXPORTER_OPENMETRICS),
	   200);
	OK(strstr(out, "application/openmetrics-text; version=1.0.0") != NULL);
	OK(strcmp(out + strlen(out) - 6, "# EOF\n") == 0);
	OK(strstr(out, "# TYPE gpumap_device info\n") != NULL);
	OK(strstr(out, "# TYPE gpumap_worker_restarts counter\n") != NULL);
	OK(strstr(out, "# UNIT gpumap_device_memory_bytes bytes\n") != NULL);
	OK(exporter_scrape(&exporter));
	OK(strstr(out, "text/plain; version=0.0.4") != NULL);
	OK(strstr(out, "# EOF") == NULL && strstr(out, "# UNIT") == NULL);
	OK(strstr(out, "# TYPE gpumap_device_info gauge\n") != NULL);
	OK(strstr(out, "# TYPE gpumap_worker_restarts_total counter\n") !=
	   NULL);
}

#define PYTHON "/usr/bin/python3 -c "

static void prometheus_reads_it(void)
{
	char path[96], command[512];

	snprintf(path, sizeof(path), "%s/metrics", agent.dir);
	if (!runs(PYTHON "'import prometheus_client' 2>/dev/null")) {
		LACK("prometheus", 2, "no python3-prometheus-client");
	} else {
		EQ(exporter_ask(&exporter, "GET", "/metrics",
				EXPORTER_OPENMETRICS),
		   200);
		store_body(path);
		snprintf(command, sizeof(command),
			 PYTHON "'from prometheus_client.openmetrics.parser "
				"import text_string_to_metric_families as t; "
				"assert len(list(t(open(\"%s\").read()))) > "
				"15'",
			 path);
		OK(runs(command));
		OK(exporter_scrape(&exporter));
		store_body(path);
		snprintf(command, sizeof(command),
			 PYTHON "'from prometheus_client.parser import "
				"text_string_to_metric_families as t; "
				"assert len(list(t(open(\"%s\").read()))) > "
				"15'",
			 path);
		OK(runs(command));
	}
	if (!runs("promtool --version >/dev/null 2>&1")) {
		LACK("prometheus", 1, "no promtool");
		return;
	}
	OK(exporter_scrape(&exporter));
	store_body(path);
	snprintf(command, sizeof(command), "promtool check metrics <%s", path);
	OK(runs(command));
}

/* ---- the file ------------------------------------------------------------ */

/* Counts alone: a node of a thousand has no series here. */
static void a_cluster_is_counted(void)
{
	static const struct cluster_nodes nodes = { 5, 3, 2, 1 };
	struct gpumap_cluster_entry entries[2] = { { .node = NULL } };
	struct cluster_node made[2] = { { .node = { .size = 0 } } };
	struct gpumap_cluster_request request =
		cluster_request(entries, 2, GPUMAP_CLUSTER_HEARD);

	OK(exporter_scrape(&exporter));
	OK(strstr(out, "gpumap_cluster") == NULL);
	EQ(cluster_nodes_publish(map, &nodes, 0), 0);
	OK(exporter_scrape(&exporter));
	OK(EXPORTER_VALUE("gpumap_cluster_stale") == 1);
	OK(strstr(out, "\ngpumap_cluster_age_seconds ") == NULL);
	for (uint32_t i = 0; i < 2; i++)
		entries[i] = cluster_node_make(&nodes, 3 + i, &made[i]);
	made[0].node.state = GPUMAP_CLUSTER_GONE;
	made[1].node.state = GPUMAP_CLUSTER_REFUSED;
	entries[1].n_devices = entries[1].n_shares = 0;
	request.limit_ns = STORY_LIMIT_NS;
	EQ(gpumap_cluster_publish(map, &request), 0);
	OK(exporter_scrape(&exporter));
	OK(EXPORTER_VALUE("gpumap_cluster_stale") == 0);
	OK(EXPORTER_VALUE("gpumap_cluster_age_seconds") > 0);
	OK(EXPORTER_VALUE("gpumap_cluster_age_seconds") < 30);
	OK(EXPORTER_VALUE("gpumap_cluster_nodes", "state=\"LIVE\"") == 3);
	OK(EXPORTER_VALUE("gpumap_cluster_nodes", "state=\"GONE\"") == 1);
	OK(EXPORTER_VALUE("gpumap_cluster_nodes", "state=\"REFUSED\"") == 1);
	OK(EXPORTER_VALUE("gpumap_cluster_devices") == 12);
	OK(EXPORTER_VALUE("gpumap_cluster_shares") == 8);
	OK(strstr(out, "n0001") == NULL);
}

static int textfile(const char *path, const char *option)
{
	return run(WORDS(exporter_program(), "--instance", agent.instance,
			 "--runtime-dir", agent.dir, "--textfile", path,
			 option));
}

static void a_file_is_whole(void)
{
	char path[96], missing[96];
	struct stat st;

	snprintf(path, sizeof(path), "%s/gpumap.prom", agent.dir);
	snprintf(missing, sizeof(missing), "%s/none/gpumap.prom", agent.dir);
	EQ(textfile(path, NULL), 0);
	EQ(textfile(path, NULL), 0); /* in the place of the first */
	EQ(stat(path, &st), 0);
	EQ(st.st_mode & 0777, 0644);
	ctl_read(path, out, sizeof(out));
	OK(EXPORTER_VALUE("gpumap_up") == 1);
	OK(EXPORTER_VALUE("gpumap_mesh_ranks", "mesh=\"pair\"") == 2);
	EQ(textfile(missing, NULL), 1);
	OK(strstr(err, missing) != NULL && strstr(err, "No such file") != NULL);
}

TAP_CASE()
{
	if (!ctl_start(CONFIG))
		return tap_done();
	map = story_attach(&agent);
	if (!exporter_start(&exporter, NULL))
		return tap_done();
	jobs_are_counted();
	bytes_of_files_are_counted();
	rows_are_the_librarys();
	moves_with_the_map();
	objects_are_there();
	reservations_add_up();
	lists_are_asked_for();
	a_cluster_is_counted();
	openmetrics_ends();
	prometheus_reads_it();
	a_file_is_whole();
	exporter_stop(&exporter);
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	agent_remove(&agent);
	return tap_done();
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Files of every kind, damaged in many ways: an agent puts each aside and goes
 * on without it, and believes the files beside it; after a restart on the
 * segment as after a reboot.
 */

#include <gpumap/mask.h>

#include "tests/support/raw.h"
#include "tests/support/state_agent.h"

/* ---- what is published --------------------------------------------------- */

static int publish_mesh(void)
{
	static const uint32_t rows[] = { 1, 0 };
	const struct gpumap_mesh_request request = {
		.size = sizeof(request),
		.name = "s",
		.topology = GPUMAP_MESH_TENSOR,
		.tp = 1,
		.pp = 1,
		.dp = 1,
		.rows = rows,
		.n_rows = 2,
	};

	return gpumap_mesh_publish(map, &request);
}

static bool is_mesh(void)
{
	uint32_t rows[GPUMAP_ROWS_MAX];

	return gpumap_mesh_read(map, "s", NULL, rows, GPUMAP_ROWS_MAX) == 0 &&
	       rows[0] == 1 && rows[1] == 0;
}

static int publish_mask(void)
{
	static const uint32_t rows[] = { 0, 1 };
	const struct gpumap_mask_request request = {
		.size = sizeof(request),
		.name = "k",
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_LOADED,
		.dtype = GPUMAP_DTYPE_U8,
		.rank = 1,
		.shape = { 24 },
		.data = "twenty-four bytes of it.",
		.rows = rows,
		.n_rows = 2,
	};

	return gpumap_mask_publish(map, &request, NULL);
}

static bool is_mask(void)
{
	struct gpumap_mask_info info = { .size = sizeof(info) };

	return gpumap_mask_read(map, "k", &info, NULL, 0) == 0 &&
	       info.bytes == 24;
}

static int publish_map(void)
{
	struct gpumap_plan_request request = { .size = sizeof(request),
					       .name = "m",
					       .flags = GPUMAP_PLAN_COMMIT,
					       .setting = GPUMAP_SETTING_MANUAL,
					       .text = "0:3;1:2",
					       .other_bytes = 4096 };
	struct gpumap_plan plan = { .size = sizeof(plan) };

	return gpumap_plan_make(map, &request, &plan, NULL, 0, NULL, 0);
}

static bool is_map(void)
{
	return says("m", "0:3;1:2");
}

static int cordon(void)
{
	const struct gm_cordon ask = { .row = 1 };
	char path[128];
	struct raw c;
	int ret;

	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	ret = raw_open(&c, path);
	if (ret == 0)
		ret = raw_ask(&c, GM_CONTROL_CORDON, &ask, sizeof(ask), NULL, 0,
			      NULL);
	raw_close(&c);
	return ret;
}

static bool is_cordoned(void)
{
	struct gpumap_device device = { .size = sizeof(device) };

	return gpumap_device_read(map, 1, &device) == 0 &&
	       (device.flags & GPUMAP_DEVICE_CORDONED);
}

static int calibrate(void)
{
	struct gpumap_policy policy = { .size = sizeof(policy) };
	int ret = gpumap_policy_read(map, 1, &policy);

	memset(policy.least, 0, sizeof(policy.least));
	policy.least[GPUMAP_WORK_COPY] = 4321;
	return ret == 0 ? gpumap_policy_set(map, &policy) : ret;
}

static bool is_calibrated(void)
{
	struct gpumap_policy policy = { .size = sizeof(policy) };

	return gpumap_policy_read(map, 1, &policy) == 0 &&
	       policy.least[GPUMAP_WORK_COPY] == 4321;
}

#define LARGE 8192u /* bytes, more than any of these files has */

static struct kind {
	const char *file;
	int (*publish)(void);
	bool (*is_there)(void);
	char was[LARGE]; /* the good file */
	size_t bytes;
} kinds[] = {
	{ "m.layers", publish_map, is_map, "", 0 },
	{ "s.mesh", publish_mesh, is_mesh, "", 0 },
	{ "k.mask", publish_mask, is_mask, "", 0 },
	{ "cordons", cordon, is_cordoned, "", 0 },
	{ "calibrations", calibrate, is_calibrated, "", 0 },
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void put(const char *file, const char *bytes, size_t n)
{
	char path[256];
	FILE *to;

	path_of(file, path);
	to = fopen(path, "we");
	OK(to != NULL && fwrite(bytes, 1, n, to) == n && fclose(to) == 0);
}

static void get(struct kind *kind)
{
	char path[256];
	FILE *from;

	path_of(kind->file, path);
	from = fopen(path, "re");
	if (!OK(from != NULL))
		return;
	kind->bytes = fread(kind->was, 1, LARGE, from);
	OK(kind->bytes != 0 && kind->bytes < LARGE);
	fclose(from);
}

/* ---- ways of damage ------------------------------------------------------ */

/* Way @way of a file of kind @at, in place.  Returns its bytes, or -1 where
 * there are no more ways. */
static ssize_t damage(size_t at, int way, char *text)
{
	const struct kind *kind = &kinds[at], *next = &kinds[(at + 1) % KINDS];
	size_t n = kind->bytes;
	/* In 32 of its 64ths, one bit that is another one each time. */
	size_t bit = 8 * (n * (size_t)way / 64) + (size_t)way % 8;

	memcpy(text, kind->was, n);
	if (way < 64 && way % 2 == 0) {
		text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
		return (ssize_t)n;
	}
	switch (way) {
	case 1: /* cut */
		return 0;
	case 3:
		return (ssize_t)n - 1;
	case 5:
		return (ssize_t)n / 2;
	case 7:
		return 1;
	case 9: /* longer */
		memcpy(text + n, text, n);
		return (ssize_t)(2 * n);
	case 11:
		text[n] = '\0';
		return (ssize_t)n + 1;
	case 13: /* a page of a disk that was not written */
		memset(text + n / 2, 0, n - n / 2);
		return (ssize_t)n;
	case 15:
		memset(text, 0, n);
		return (ssize_t)n;
	case 17: /* another kind's */
		memcpy(text, next->was, next->bytes);
		return (ssize_t)next->bytes;
	case 19: /* an older agent's */
		return sprintf(text, "gpumap-state 1 2 af63dc4c8601ec8c\n{}");
	default:
		return way < 64 ? damage(at, way - 1, text) : -1;
	}
}

/* ---- each of them -------------------------------------------------------- */

static bool is_put_aside(const struct kind *kind)
{
	char file[64], path[256];

	snprintf(file, sizeof(file), "%s.refused-1", kind->file);
	if (!has_file(file) || has_file(kind->file))
		return false;
	path_of(file, path);
	return unlink(path) == 0;
}

/* Every second kind's file is damaged; what the others say is so. */
static void one_round(int way, size_t first, bool is_reboot)
{
	static char text[2 * LARGE];

	stop(SIGKILL);
	for (size_t i = 0; i < KINDS; i++) {
		ssize_t n = damage(i, way, text);

		if (i % 2 == first)
			put(kinds[i].file, text, (size_t)n);
		else
			put(kinds[i].file, kinds[i].was, kinds[i].bytes);
	}
	if (is_reboot)
		unlink(agent.segment);
	if (!OK(agent_start(&agent) && (map = story_attach(&agent)) != NULL))
		return;
	for (size_t i = 0; i < KINDS; i++) {
		bool is_damaged = i % 2 == first;

		if (OK(kinds[i].is_there() != is_damaged) &&
		    OK(!is_damaged || is_put_aside(&kinds[i])))
			continue;
		NOTE("%s, way %d, %s", kinds[i].file, way,
		     is_reboot ? "reboot" : "restart");
		agent_show_log(&agent);
	}
}

TAP_CASE()
{
	int n = 0;

	agent_make(&agent, ROWS2);
	if (!OK(agent_start(&agent) && (map = story_attach(&agent)) != NULL))
		return tap_done();
	for (size_t i = 0; i < KINDS; i++)
		EQ(kinds[i].publish(), 0);
	for (size_t i = 0; i < KINDS; i++)
		get(&kinds[i]);
	for (int way = 0; way < 64; way += way < 20 ? 1 : 2) {
		one_round(way, 0, way % 4 < 2);
		one_round(way, 1, way % 4 >= 2);
		n += (int)KINDS;
	}
	NOTE("%d files were damaged", n);
	OK(n >= 150);
	stop(SIGTERM);
	agent_remove(&agent);
	return tap_done();
}

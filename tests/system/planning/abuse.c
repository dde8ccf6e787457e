/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Plans that make no sense, over the control socket: each is refused with the
 * reason, and none does harm.
 */

#include <gpumap/plan.h>

#include "tests/support/dice.h"
#include "tests/support/plan_agent.h"

/* ---- refusals ------------------------------------------------------------ */

static void refused(const struct gpumap_plan_request *request, int want,
		    const char *why)
{
	struct gpumap_plan answer;
	int ret = plan(request, &answer);

	if (!EQ(ret, want) || !OK(strstr(gpumap_refusal(map), why) != NULL))
		NOTE("want \"%s\", got \"%s\"", why, gpumap_refusal(map));
	OK(is_empty());
}

static struct gpumap_layer_cache caches[N_LAYERS];

static void nonsense_is_refused(void)
{
	struct gpumap_plan_request good = request_of("r", 0, GIB), bad = good;
	static const uint32_t twice[] = { 1, 1 }, none[] = { ROWS };

	bad.flags = 1 << 20;
	refused(&bad, -EINVAL, "is none that this");
	bad = good;
	bad.setting = 0;
	refused(&bad, -EINVAL, "is none that this");
	bad.setting = GPUMAP_SETTING_RESERVE + 1;
	refused(&bad, -EINVAL, "is none that this");
	bad = good;
	bad.name = "r";
	bad.flags = GPUMAP_PLAN_COMMIT;
	bad.caches = caches; /* of which nothing is known */
	bad.n_caches = 1;
	caches[0] = (struct gpumap_layer_cache){ .n_layers = N_LAYERS };
	refused(&bad, -EINVAL, "say it for every layer");
	/* Each layer keeps something, once. */
	bad.name = NULL;
	bad.flags = 0;
	caches[0].n_layers = N_LAYERS - 1;
	refused(&bad, -EINVAL, "said what 11 layers keep");
	bad.n_caches = 2;
	caches[1] = (struct gpumap_layer_cache){ .n_layers = UINT32_MAX };
	refused(&bad, -EINVAL, "said what 4294967306 layers keep");
	caches[0].n_layers = N_LAYERS;
	caches[1].n_layers = 0;
	refused(&bad, -EINVAL, "of none in one place");
	/* A reservation has no model. */
	bad.n_caches = 1;
	bad.setting = GPUMAP_SETTING_RESERVE;
	bad.other_bytes = 0;
	refused(&bad, -EINVAL, "and no model");
	bad.setting = good.setting;
	caches[0].reserved = 1;
	bad.n_caches = 1;
	refused(&bad, -EINVAL, "in one place");
	bad = good;
	bad.strategy = GPUMAP_STRATEGY_FEWEST + 1;
	refused(&bad, -EINVAL, "is none that this");
	bad = good;
	bad.compute_dtype = GPUMAP_DTYPE_I64;
	refused(&bad, -EINVAL, "is none that this");
	bad = good;
	bad.flags = GPUMAP_PLAN_HELD;
	refused(&bad, -EINVAL, "only what is committed can be held");
	bad = good;
	bad.flags = GPUMAP_PLAN_PUBLISH;
	bad.name = "";
	refused(&bad, -EINVAL, "needs a name");
	bad.name = "two words";
	refused(&bad, -EINVAL, "no blanks");
	bad = good;
	bad.setting = GPUMAP_SETTING_MANUAL;
	refused(&bad, -EINVAL, "needs a spec");
	bad.text = "0:x";
	refused(&bad, -EINVAL, "");
	bad.text = "9:12";
	refused(&bad, -ENODEV, "row 9");
	bad = good;
	bad.rows = twice;
	bad.n_rows = 2;
	refused(&bad, -EINVAL, "row 1 is among the rows twice");
	bad.rows = none;
	bad.n_rows = 1;
	refused(&bad, -ENODEV, "row 4 is not there");
	bad = good;
	bad.n_layers = 65537;
	refused(&bad, -EINVAL, "at most 65536 layers");
	bad = good;
	bad.owner_uid = 1;
	refused(&bad, -EINVAL, "needs GPUMAP_PLAN_FOR");
	sizes[0] = sizes[1] = UINT64_C(1) << 63;
	refused(&good, -EOVERFLOW, "");
}

/* A pattern of rows that is longer than any sensible request. */
static void a_plan_has_so_many_runs(void)
{
	static char text[1 << 18];
	struct gpumap_plan_request request = {
		.size = sizeof(request),
		.name = "runs",
		.flags = GPUMAP_PLAN_PUBLISH,
		.setting = GPUMAP_SETTING_TOPOLOGY,
		.text = text,
		.n_layers = 10000,
	};
	struct gpumap_plan answer = { .size = sizeof(answer) };
	uint32_t rows[8000];
	size_t n = 0;

	for (int i = 0; i < 5000; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      "%s%d:cuda[1]", i ? ";" : "", 2 * i);
	EQ(gpumap_plan_make(map, &request, &answer, NULL, 0, NULL, 0), -E2BIG);
	OK(strstr(gpumap_refusal(map), "change their row 9999 times") != NULL);
	request.n_layers = 8000;
	text[0] = '\0';
	for (int i = 0, at = 0; i < 4000; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at,
			       "%s%d:cuda[1]", i ? ";" : "", 2 * i);
	if (!EQ(gpumap_plan_make(map, &request, &answer, rows, 8000, NULL, 0),
		0))
		NOTE("%s", gpumap_refusal(map));
	EQ(rows[0], 1);
	EQ(rows[7998], 1);
	EQ(rows[7999], 0);
	STR(answer.spec, "");
	EQ(gpumap_layers_release(map, "runs"), 0);
}

/* As many layers as a map may have, and what each keeps. */
static void a_plan_has_so_many_caches(void)
{
	static uint64_t layer_bytes[65536];
	static struct gpumap_layer_cache of_all[8192];
	struct gpumap_plan_request request = {
		.size = sizeof(request),
		.setting = GPUMAP_SETTING_MANUAL,
		.text = "3:65536",
		.n_layers = 65536,
		.layer_bytes = layer_bytes,
		.caches = of_all,
		.n_caches = 1,
	};
	struct gpumap_plan answer = { .size = sizeof(answer) };
	struct gpumap_charge charge;

	of_all[0] = (struct gpumap_layer_cache){ .n_layers = 65536,
						 .n_heads = 1,
						 .token_elements = 1 };
	request.max_seq_len = 1000;
	request.compute_dtype = GPUMAP_DTYPE_F32;
	if (!EQ(gpumap_plan_make(map, &request, &answer, NULL, 0, &charge, 1),
		0))
		NOTE("%s", gpumap_refusal(map));
	EQ(charge.n_layers, 65536);
	EQ(charge.kv_bytes, 65536000 * UINT64_C(4));
	for (uint32_t i = 0; i < 8192; i++)
		of_all[i] = (struct gpumap_layer_cache){
			.n_layers = 8,
			.n_heads = 1,
			.token_elements = 1 + i % 2,
		};
	request.n_caches = 8192;
	if (!EQ(gpumap_plan_make(map, &request, &answer, NULL, 0, &charge, 1),
		0))
		NOTE("%s", gpumap_refusal(map));
	EQ(charge.kv_bytes, 65536000 * UINT64_C(6));
}

static uint64_t any_number(void)
{
	static const uint64_t odd[] = {
		0, 1, 2, UINT32_MAX, UINT64_MAX, UINT64_C(1) << 63, GIB, 65536
	};

	return dice(2) ? odd[dice(sizeof(odd) / sizeof(odd[0]))] : dice(5000);
}

/* @n for the most part. */
static uint32_t mostly(uint64_t n)
{
	return (uint32_t)(dice(20) ? n : any_number());
}

/* A request that may be right, with one field or another that is not. */
static struct gpumap_plan_request any_request(void)
{
	static const char *const texts[] = { "0:12",  "0:4;1:4", "3",
					     "0-3:",  "4,4",     "1,2",
					     "6,3,3", ":",       "0-11:cuda[1]",
					     "" };
	static const uint32_t flags[] = { 0, GPUMAP_PLAN_PUBLISH,
					  GPUMAP_PLAN_COMMIT,
					  GPUMAP_PLAN_COMMIT | GPUMAP_PLAN_HELD,
					  GPUMAP_PLAN_COMMIT |
						  GPUMAP_PLAN_BASE };
	static uint32_t rows[ROWS];
	struct gpumap_plan_request request =
		request_of("any", mostly(flags[dice(5)]),
			   dice(20) ? GIB / 8 : any_number());

	for (uint32_t i = 0; i < ROWS; i++)
		rows[i] = mostly((i + 1) % ROWS);
	request.setting = mostly(1 + dice(7));
	request.strategy = mostly(dice(4));
	request.text = dice(3) ? texts[dice(10)] : NULL;
	request.weights = dice(3) ? NULL : texts[dice(10)];
	request.base_row = (uint32_t)dice(ROWS);
	request.rows = rows;
	request.n_rows = (uint32_t)dice(ROWS + 1);
	if (dice(10) == 0) {
		request.layer_bytes = NULL;
		request.n_layers = (uint32_t)dice(70000);
	}
	request.other_bytes = dice(20) ? GIB : any_number();
	request.n_heads = mostly(32);
	for (uint32_t i = 0; i < N_LAYERS; i++)
		caches[i] = (struct gpumap_layer_cache){
			.n_layers = (uint32_t)mostly(1),
			.n_heads = (uint32_t)mostly(8),
			.window = dice(4) ? 0 : (uint32_t)mostly(512),
			.token_elements = mostly(2048),
			.conv_elements = dice(4) ? 0 : mostly(64),
			.state_elements = dice(4) ? 0 : any_number(),
		};
	/* Without sizes it may have more layers than there are here. */
	if (request.n_layers == N_LAYERS && dice(4)) {
		request.caches = caches;
		request.n_caches = N_LAYERS;
	}
	request.compute_dtype = mostly(dice(4));
	request.max_seq_len = mostly(dice(10000));
	request.max_batch_size = mostly(dice(4));
	request.paged = dice(2) ? 0 : mostly(dice(4));
	request.paged_amount = mostly(dice(10000));
	request.paged_share = (float)dice(100) / 80;
	request.paged_block = mostly(8 << dice(3));
	request.paged_element_bytes = mostly(dice(3));
	request.engine = mostly(dice(8));
	request.conv_taps = mostly(dice(5));
	request.state_bytes = mostly(dice(5));
	return request;
}

static void any_plan_does_no_harm(void)
{
	/* Flags may ask for a new name. */
	static const int told[] = { 0,       -EINVAL,    -E2BIG, -ENODEV,
				    -ENOSPC, -EOVERFLOW, -EEXIST };
	int wrong = 0, granted = 0;

	for (int i = 0; i < 3000; i++) {
		struct gpumap_plan_request request = any_request();
		struct gpumap_plan answer;
		int ret = plan(&request, &answer);
		size_t at = 0;

		while (at < sizeof(told) / sizeof(told[0]) && told[at] != ret)
			at++;
		if (at == sizeof(told) / sizeof(told[0]) ||
		    (ret != 0 && gpumap_refusal(map)[0] == '\0' &&
		     ret != -EINVAL)) {
			NOTE("%d: %s", ret, gpumap_refusal(map));
			wrong++;
		}
		granted += ret == 0;
		for (uint32_t row = 0; row < ROWS; row++) {
			struct gpumap_device device = story_device(map, row);

			wrong += device.reserved_bytes > device.total_bytes;
		}
	}
	EQ(wrong, 0);
	NOTE("%d of 3000 could be made", granted);
	OK(granted > 0);
	if (is_published("any"))
		EQ(gpumap_layers_release(map, "any"), 0);
	OK(is_empty());
}

TAP_CASE()
{
	agent_make(&agent, NULL);
	configure("");
	if (!OK(agent_start(&agent))) {
		agent_show_log(&agent);
		return tap_done();
	}
	map = story_attach(&agent);

	nonsense_is_refused();
	a_plan_has_so_many_runs();
	a_plan_has_so_many_caches();
	any_plan_does_no_harm();

	gpumap_detach(map);
	agent_remove(&agent);
	return tap_done();
}

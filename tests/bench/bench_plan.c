/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * bench_plan - how long planning takes, of this thread's own time.
 *
 * 80 layers of a model of 70 billion weights on eight rows of different sizes
 * and speeds, by each strategy; the advice that follows a plan which does not
 * fit; 256 rows and 200 layers; and 10 000 answers about plans, a third of
 * each operation.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/plan/plan.h"
#include "tests/answers/answers.h"
#include "tests/bench/measure/series.h"
#include "tests/bench/measure/ticks.h"
#include "tests/support/layer_caches.h"

#define GIB    (UINT64_C(1) << 30)
#define ROUNDS 9
#define LINES  10000

static uint64_t layers[200];
static struct gpumap_layer_cache cache;
static struct gm_plan_device devices[GPUMAP_ROWS_MAX];

static struct gm_plan_request request(uint32_t n_layers, uint32_t n_rows,
				      uint32_t strategy)
{
	for (uint32_t i = 0; i < n_layers; i++)
		layers[i] = UINT64_C(1711308800);
	fill_caches(&cache, 1, 8, 128);
	cache.n_layers = n_layers;
	for (uint32_t i = 0; i < n_rows; i++)
		devices[i] = (struct gm_plan_device){
			.row = i,
			.is_cuda = true,
			.cc_major = 8,
			.avail = (20 + 5 * (i % 8)) * GIB,
			.speed = 1024 * (200 + 37 * (i * 5 % 8)),
		};
	return (struct gm_plan_request){
		.devices = devices,
		.n_devices = n_rows,
		.ask = { .setting = GPUMAP_SETTING_AUTO,
			 .strategy = strategy,
			 .n_layers = n_layers,
			 .layer_bytes = layers,
			 .other_bytes = GIB,
			 .n_heads = 64,
			 .caches = &cache,
			 .n_caches = 1 },
		.weight_bytes = 2,
	};
}

/* One plan, in microseconds. */
static double plan_us(const struct gm_plan_request *q, int times, int want)
{
	uint64_t from = gm_ticks_cpu_ns();

	for (int i = 0; i < times; i++) {
		struct gm_plan_advice advice;
		struct gm_plan plan;
		int r = gm_plan_make(q, &plan, &advice, NULL);

		if (r != want)
			abort();
		if (r == 0)
			gm_plan_free(&plan);
	}
	return (double)(gm_ticks_cpu_ns() - from) / 1e3 / times;
}

static void measure(const char *name, const struct gm_plan_request *q,
		    int times, int want, double goal)
{
	const struct gm_figure figure = { name, "us",
					  goal > 0 ? GM_AT_MOST : GM_NO_GOAL,
					  goal };
	double us[ROUNDS];

	for (int i = 0; i < ROUNDS; i++)
		us[i] = plan_us(q, times, want);
	gm_series_print_value(&figure, gm_series_quantile(us, ROUNDS, 0.5),
			      "this thread's own time, median of 9");
}

static void plans(void)
{
	static const char *const names[] = { "plan_fill_80_on_8",
					     "plan_balance_80_on_8",
					     "plan_fewest_80_on_8" };
	static const char *const large[] = { "plan_fill_200_on_256",
					     "plan_balance_200_on_256",
					     "plan_fewest_200_on_256" };
	struct gm_plan_request q;

	for (int i = 0; i < 3; i++) {
		q = request(80, 8, (uint32_t)i + 1);
		measure(names[i], &q, 100, 0, 1000);
	}
	for (int i = 0; i < 3; i++) {
		q = request(200, GPUMAP_ROWS_MAX, (uint32_t)i + 1);
		measure(large[i], &q, 1, 0, 5000);
	}
	q = request(80, 4, GPUMAP_STRATEGY_BALANCE);
	measure("plan_advice_80_on_4", &q, 3, -ENOSPC, 0);
}

/* ---- answers ------------------------------------------------------------- */

#define DEVICE(gib)                                               \
	"{\"avail\":" gib "000000000,\"total\":" gib "000000000," \
	"\"integrated\":false}"

static const char *const lines[] = {
	"{\"op\":\"map\",\"device_layers\":[[0,16],[1,16],[2,16]],"
	"\"host_layers\":null,\"topology\":null,\"model_layers\":80,"
	"\"base\":\"cuda[0]\",\"devices\":[\"cuda[0]\",\"cuda[1]\","
	"\"cuda[2]\"]}",
	"{\"op\":\"auto\",\"strategy\":\"fill\",\"num_layers\":80,"
	"\"layer_sizes\":[[1711308800,80]],\"non_mapped_size\":1048592384,"
	"\"total_model_size\":137953296384,\"mapped_act_elems\":67108864,"
	"\"non_mapped_act_elems\":0,\"dtype\":\"bf16\",\"max_seq_len\":4096,"
	"\"max_batch_size\":1,\"num_kv_heads\":8,\"k_head_dim\":128,"
	"\"v_head_dim\":128,\"mla\":null,\"devices\":[" DEVICE("24") "," DEVICE(
		"24") "," DEVICE("48") "," DEVICE("48") "],"
							"\"cpu_avail\":"
							"256000000000,"
							"\"paged\":null}",
	"{\"op\":\"sizes\",\"vocab_size\":32000,\"hidden_size\":8192,"
	"\"intermediate_size\":28672,\"num_hidden_layers\":80,"
	"\"num_attention_heads\":64,\"num_key_value_heads\":8,"
	"\"head_dim\":null,\"tie_word_embeddings\":false,\"dtype\":\"f16\","
	"\"weight_pack_factor\":1,\"max_seq_len\":4096,\"max_batch_size\":1}",
};

static void answers(void)
{
	static const struct gm_figure figure = { "plan_10000_answers", "s",
						 GM_AT_MOST, 5 };
	const struct answers_kind kind = { "plan", answers_plan, NULL };
	uint64_t from = gm_ticks_cpu_ns();

	for (int i = 0; i < LINES; i++) {
		const char *line = lines[i % 3];
		char *text = answers_line(&kind, line, strlen(line));

		if (text == NULL || strncmp(text, "{\"ok\":", 6) != 0)
			abort();
		free(text);
	}
	gm_series_print_value(&figure, (double)(gm_ticks_cpu_ns() - from) / 1e9,
			      "this thread's own time");
}

int main(void)
{
	plans();
	answers();
	return 0;
}

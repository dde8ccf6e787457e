/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Two models over eight stand-in cards: the agent plans one and then the other
 * beside it, each puts its layers where its map says and runs through them,
 * both at once.  When a card's worker dies, the layers that were there are put
 * there again; the other model's results are right all the time.
 */

#include <gpumap/plan.h>

#include "tests/support/cuda_agent.h"

#define CARDS  8u
#define WIDTH  4096u /* floats, of a layer's weights and of what runs through */
#define LAYERS 128u
#define MODELS 2u

static struct agent agent;
static struct cuda_scene scene;
static struct gpumap *map;

struct model {
	const char *name;
	uint32_t n_layers;
	uint64_t layer_bytes;
	float alpha; /* tells its results from the other's */
	struct gpumap_session *session;
	struct gpumap_view view;
	float *here[CARDS]; /* what runs through, in each row's range */
	float *stage[CARDS];
	uint64_t weights[LAYERS]; /* buffers, 0: not loaded */
	uint32_t last;            /* row it was on */
	uint32_t at;              /* layer to do next */
	int failed;
};

static struct model models[MODELS] = {
	{ .name = "seventy",
	  .n_layers = 80,
	  .layer_bytes = UINT64_C(1711) << 20,
	  .alpha = 1 },
	{ .name = "large",
	  .n_layers = 126,
	  .layer_bytes = UINT64_C(3050) << 20,
	  .alpha = 2 },
};

/* ---- one model ----------------------------------------------------------- */

static bool plan(struct model *m)
{
	uint64_t sizes[LAYERS];
	struct gpumap_plan answer = { .size = sizeof(answer) };
	struct gpumap_plan_request request = {
		.size = sizeof(request),
		.name = m->name,
		.flags = GPUMAP_PLAN_COMMIT,
		.setting = GPUMAP_SETTING_AUTO,
		.n_layers = m->n_layers,
		.layer_bytes = sizes,
		.other_bytes = UINT64_C(2) << 30,
		.dtype = GPUMAP_DTYPE_BF16,
	};

	for (uint32_t i = 0; i < m->n_layers; i++)
		sizes[i] = m->layer_bytes;
	return EQ(gpumap_plan_make(map, &request, &answer, NULL, 0, NULL, 0),
		  0) &&
	       EQ(gpumap_layers_view(map, m->name, &m->view), 0) &&
	       EQ(m->view.n, m->n_layers);
}

static uint32_t row_of(const struct model *m, uint32_t layer)
{
	int row = gpumap_view_get(&m->view, layer);

	return row >= 0 ? (uint32_t)row : UINT32_MAX;
}

/* One job, to its end. */
static int run(struct model *m, uint32_t row, const struct gpumap_job *job)
{
	struct gpumap_done done;
	int ret = gpumap_submit(m->session, row, job, 1);

	if (ret == 0)
		ret = gpumap_wait(m->session, &done, 1,
				  story_now() + STORY_LIMIT_NS);
	return ret == 1 ? done.status : ret < 0 ? ret : -EPROTO;
}

static bool reach(struct model *m, uint32_t row)
{
	void *here, *stage;

	if (m->here[row])
		return true;
	if (gpumap_alloc(m->session, row, WIDTH * 4, &here) != 0 ||
	    gpumap_alloc(m->session, row, WIDTH * 4, &stage) != 0) {
		NOTE("row %u: %s", row, gpumap_refusal(map));
		return false;
	}
	m->here[row] = here;
	m->stage[row] = stage;
	return true;
}

/* Layer i's weights are all i + 1. */
static int load(struct model *m, uint32_t layer)
{
	uint32_t row = row_of(m, layer);
	struct gpumap_job copy = { .op = GPUMAP_OP_COPY,
				   .dtype = GPUMAP_DTYPE_F32,
				   .n = WIDTH };
	int ret;

	if (row >= CARDS || !reach(m, row))
		return -ENODEV;
	gpumap_buffer_free(m->session, m->weights[layer]);
	m->weights[layer] = 0;
	ret = gpumap_buffer_alloc(m->session, row, WIDTH * 4, 0,
				  story_now() + STORY_LIMIT_NS,
				  &m->weights[layer]);
	if (ret != 0)
		return ret;
	for (uint32_t k = 0; k < WIDTH; k++)
		m->stage[row][k] = (float)(layer + 1);
	copy.dst_buffer = m->weights[layer];
	copy.src = m->stage[row];
	return run(m, row, &copy);
}

static void begin(struct model *m)
{
	uint32_t row = row_of(m, 0);

	m->at = 0;
	m->last = row;
	for (uint32_t k = 0; k < WIDTH; k++)
		m->here[row][k] = 1;
}

/* One layer: what runs through, plus alpha times its weights. */
static int step(struct model *m)
{
	uint32_t row = row_of(m, m->at);
	struct gpumap_job axpy = { .op = GPUMAP_OP_AXPY,
				   .dtype = GPUMAP_DTYPE_F32,
				   .dst = m->here[row],
				   .src_buffer = m->weights[m->at],
				   .n = WIDTH,
				   .alpha = (double)m->alpha };
	int ret;

	if (row != m->last)
		memcpy(m->here[row], m->here[m->last], WIDTH * 4);
	m->last = row;
	ret = run(m, row, &axpy);
	m->at += ret == 0;
	return ret;
}

static bool is_right(const struct model *m)
{
	float want = 1 + m->alpha * (float)m->n_layers *
				 (float)(m->n_layers + 1) / 2;

	for (uint32_t k = 0; k < WIDTH; k++) {
		if (m->here[m->last][k] != want)
			return false;
	}
	return true;
}

static bool open_model(struct model *m)
{
	if (!plan(m) || !EQ(gpumap_session_open(map, NULL, &m->session), 0))
		return false;
	for (uint32_t i = 0; i < m->n_layers; i++)
		m->failed += load(m, i) != 0;
	return EQ(m->failed, 0);
}

/* ---- both ---------------------------------------------------------------- */

static uint32_t rows_used(const struct model *m)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < m->n_layers; i++)
		used |= UINT32_C(1) << row_of(m, i);
	return used;
}

static void maps_share_the_cards(void)
{
	uint64_t weights = 0, reserved = 0;
	uint32_t over = 0;

	for (uint32_t i = 0; i < MODELS; i++) {
		weights += models[i].n_layers * models[i].layer_bytes;
		OK(__builtin_popcount(rows_used(&models[i])) > 1);
	}
	for (uint32_t row = 0; row < CARDS; row++) {
		struct gpumap_device device = story_device(map, row);

		reserved += device.reserved_bytes;
		over += device.reserved_bytes > device.total_bytes;
	}
	EQ(over, 0);
	OK(reserved >= weights);
}

/* Both through all their layers, a layer of each in turn. */
static void both_run(void)
{
	for (uint32_t i = 0; i < MODELS; i++)
		begin(&models[i]);
	for (uint32_t n = 0; n < LAYERS; n++) {
		for (uint32_t i = 0; i < MODELS; i++) {
			struct model *m = &models[i];

			if (m->at < m->n_layers)
				m->failed += step(m) != 0;
		}
	}
	for (uint32_t i = 0; i < MODELS; i++) {
		EQ(models[i].failed, 0);
		OK(is_right(&models[i]));
	}
}

/* A row that the first has and the second has not, if there is any. */
static uint32_t row_of_one(void)
{
	uint32_t only = rows_used(&models[0]) & ~rows_used(&models[1]);

	return only ? (uint32_t)__builtin_ctz(only) : row_of(&models[0], 0);
}

static bool is_told(int status)
{
	return status == -EIO || status == -ESTALE;
}

/* The old contents are gone, and no client gets another client's memory in
 * their place. */
static void layers_are_loaded_again(void)
{
	struct model *m = &models[0];
	uint32_t row = row_of_one(), lost = 0, told = 0;
	struct gpumap_device device = story_device(map, row);

	kill((pid_t)device.worker_pid, SIGKILL);
	OK(story_back(map, row, device.restarts));
	begin(m);
	for (uint32_t i = 0; i < m->n_layers; i++) {
		if (row_of(m, i) != row)
			continue;
		lost++;
		m->at = i;
		told += is_told(step(m));
	}
	OK(lost > 0);
	EQ(told, lost);
	for (uint32_t i = 0; i < MODELS; i++) {
		for (uint32_t k = 0; k < models[i].n_layers; k++) {
			if (row_of(&models[i], k) == row)
				models[i].failed += load(&models[i], k) != 0;
		}
	}
	both_run();
}

static void close_model(struct model *m)
{
	for (uint32_t i = 0; i < m->n_layers; i++)
		gpumap_buffer_free(m->session, m->weights[i]);
	gpumap_session_close(m->session);
	EQ(gpumap_layers_release(map, m->name), 0);
}

TAP_CASE()
{
	if (!cuda_scene_make(&scene, "eight-gpu.yaml", NULL))
		return tap_done();
	cuda_scene_agent(&scene, &agent, "", "[host]\nenabled = no\n");
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent))) &&
	    EQ(gpumap_device_count(map), CARDS) && open_model(&models[0]) &&
	    open_model(&models[1])) {
		maps_share_the_cards();
		both_run();
		layers_are_loaded_again();
		close_model(&models[0]);
		close_model(&models[1]);
	}
	story_finish(&agent, map);
	agent_remove(&agent);
	cuda_scene_end(&scene);
	return tap_done();
}

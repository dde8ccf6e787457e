/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * collective_nccl.h - an agent whose cards may do collectives among themselves,
 * by the stand-in for NCCL, and groups of them.
 */
#ifndef GM_TEST_SUPPORT_COLLECTIVE_NCCL_H
#define GM_TEST_SUPPORT_COLLECTIVE_NCCL_H

#include <pthread.h>

#include "tests/support/story_rows.h"
#include "tests/support/collective_buffers.h"

#ifndef MIB
#define MIB (UINT64_C(1) << 20)
#endif

static struct agent agent;
static struct gpumap *map;
static struct gpumap_session *session;

static const char *nccl_node = "mixed.yaml"; /* what cards there are */

static const struct gpumap_comm_opts by_nccl = { .size = sizeof(by_nccl),
						 .flags = GPUMAP_COMM_NCCL };

/* Large enough to be found under way. */
static const struct shape whole = { .op = GPUMAP_OP_ALL_REDUCE,
				    .dtype = GPUMAP_DTYPE_I32,
				    .n = MIB / 4 + 3 };

/* One of the cards takes so long that others find it at it. */
static inline void nccl_slow_down(uint32_t row, uint32_t ms)
{
	struct gpumap_device device = story_device(map, row);

	cuda_scene_add(&stage_scene, "row %u: copies take %u ms",
		       cuda_scene_gpu(&stage_scene, &device), ms);
}

/* Memory and a buffer of each rank, on its row. */
static inline bool nccl_memory(struct ranks *g)
{
	g->n = (uint32_t)gpumap_comm_rows(g->comm, g->row, COLLECTIVE_RANKS);
	for (uint32_t r = 0; r < g->n; r++) {
		void *memory = NULL;

		if (!EQ(gpumap_alloc(g->session, g->row[r], g->bytes, &memory),
			0) ||
		    !EQ(gpumap_buffer_alloc(g->session, g->row[r], g->bytes, 0,
					    story_now() + STORY_LIMIT_NS,
					    &g->buffer[r]),
			0))
			return false;
		g->memory[r] = memory;
	}
	return true;
}

/* A rank that died has no buffer any more. */
static inline void nccl_forget(struct ranks *g)
{
	for (uint32_t r = 0; r < g->n; r++) {
		int ret = gpumap_buffer_free(g->session, g->buffer[r]);

		OK(ret == 0 || ret == -ESTALE || ret == -ENODEV);
		gpumap_free(g->session, g->memory[r]);
	}
}

/* As cards_open(), of a communicator that may use NCCL, of a mesh's group. */
static inline bool nccl_open_group(struct gpumap_session *s, const char *mesh,
				   const char *group, uint64_t bytes,
				   struct ranks *ret_ranks)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;
	struct ranks *g = ret_ranks;
	int ret;

	*g = (struct ranks){ .session = s, .bytes = bytes };
	do
		ret = gpumap_comm_open_opts(s, mesh, group, &by_nccl, &g->comm);
	while ((ret == -ESTALE || ret == -ENODEV) && story_now() < until);
	if (EQ(ret, 0))
		return nccl_memory(g);
	NOTE("%s", gpumap_refusal(map));
	return false;
}

static inline bool nccl_open(struct gpumap_session *s, const char *mesh,
			     uint64_t bytes, struct ranks *ret_ranks)
{
	return nccl_open_group(s, mesh, NULL, bytes, ret_ranks);
}

static inline void nccl_close(struct ranks *g)
{
	EQ(gpumap_comm_close(g->comm), 0);
	nccl_forget(g);
}

/* Has it NCCL, and is what it does right? */
static inline void nccl_is_well(struct ranks *g)
{
	EQ(gpumap_comm_flags(g->comm), GPUMAP_COMM_NCCL);
	EQ(cards_once(g, &whole, 97), 0);
}

/* The agent's next life, in which NCCL is told this. */
static inline bool nccl_prepare(const char *fault, const char *cuda,
				const char *more)
{
	static char told[128];
	char text[256];

	NOTE("with NCCL told \"%s\"", fault);
	snprintf(told, sizeof(told), "FAKE_NCCL=%s", fault);
	if (agent.kept == NULL &&
	    !cuda_scene_make(&stage_scene, nccl_node, NULL))
		return false;
	snprintf(text, sizeof(text), "nccl-library = %s\n%s",
		 stage_scene.driver, cuda);
	cuda_scene_agent(&stage_scene, &agent, text, more);
	agent.env[STAGE_ENV] = told;
	agent.env[STAGE_ENV + 1] = NULL;
	return true;
}

static inline bool nccl_open_session(void)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .flags = GPUMAP_SESSION_SPARSE,
					    .arena_bytes = 40 * MIB };

	return EQ(gpumap_session_open(map, &opts, &session), 0);
}

static inline bool nccl_start_agent(void)
{
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent))) &&
	    nccl_open_session())
		return true;
	agent_show_log(&agent);
	return false;
}

/* Four cards are "cards", and the first two of them are "two". */
static inline bool nccl_start(void)
{
	return nccl_start_agent() && EQ(collective_mesh(map, "cards", 4), 0) &&
	       EQ(collective_mesh(map, "two", 2), 0);
}

static inline bool nccl_begin(const char *fault, const char *cuda)
{
	return nccl_prepare(fault, cuda,
			    "[host]\nrows = 1\n"
			    "[limits]\narena-per-uid = 512M\n") &&
	       nccl_start();
}

/* Wait until each of four ranks has left the broken group ("tells" of the
 * stand-in), or gpumapd has ended a worker for not doing so.  Returns whether
 * it had to. */
static inline bool nccl_one_stays(void)
{
	static const char *const left[] = { "nccl abort rank=0",
					    "nccl abort rank=1",
					    "nccl abort rank=2",
					    "nccl abort rank=3" };
	uint64_t until = story_now() + STORY_LIMIT_NS;
	uint32_t n = 0;

	while (n < 4 && !agent_logged(&agent, "event=worker_killed")) {
		if (!agent_logged(&agent, left[n]))
			story_nap(1000);
		else
			n++;
		if (story_now() > until)
			return true;
	}
	return agent_logged(&agent, "event=worker_killed");
}

/* A drain in a thread of its own: it waits until no worker has the card open,
 * and those that have had NCCL have all cards open until their sessions end. */
struct nccl_drain {
	struct gpumap *map;
	uint32_t row;
	int status;
	pthread_t thread;
};

static inline void *nccl_drain_wait(void *arg)
{
	struct nccl_drain *drain = arg;

	drain->status = gpumap_device_drain(drain->map, drain->row);
	return NULL;
}

static inline bool nccl_drain_begin(uint32_t row, struct nccl_drain *ret_drain)
{
	*ret_drain =
		(struct nccl_drain){ .map = story_attach(&agent), .row = row };
	if (!OK(ret_drain->map != NULL) ||
	    !EQ(pthread_create(&ret_drain->thread, NULL, nccl_drain_wait,
			       ret_drain),
		0))
		return false;
	STORY_WAIT_WHILE(story_device(map, row).state !=
			 GPUMAP_DEVICE_DRAINING);
	return EQ(story_device(map, row).state, GPUMAP_DEVICE_DRAINING);
}

/* Returns what has become of it. */
static inline int nccl_drain_end(struct nccl_drain *drain)
{
	pthread_join(drain->thread, NULL);
	gpumap_detach(drain->map);
	return drain->status;
}

/* Wait for the end of the row's own worker. */
static inline void nccl_is_left(uint32_t row)
{
	STORY_WAIT_WHILE(story_device(map, row).worker_pid != 0);
	EQ(story_device(map, row).worker_pid, 0);
}

/* Workers whose NVML, which is NCCL's, has the card of a row open. */
static inline uint32_t nccl_openers(uint32_t row)
{
	struct gpumap_device device = story_device(map, row);
	uint32_t gpu = cuda_scene_gpu(&stage_scene, &device), n = 0;
	struct fake_hardware *hw = &stage_scene.hw;

	fake_lock(hw);
	fake_sweep(hw);
	for (uint32_t r = 0; r < 4; r++) {
		pid_t worker = (pid_t)story_device(map, r).worker_pid;

		for (uint32_t i = 0; i < FAKE_PROCESSES && worker > 0; i++) {
			const struct fake_process *p = &hw->board->processes[i];

			n += p->serial != 0 && p->is_nvml && p->pid == worker &&
			     (p->holds >> gpu & 1);
		}
	}
	fake_unlock(hw);
	return n;
}

/* Processes that have the card of a row open. */
static inline uint32_t nccl_users(uint32_t row)
{
	struct gpumap_device device = story_device(map, row);

	return cuda_scene_users(&stage_scene,
				cuda_scene_gpu(&stage_scene, &device));
}

static inline void nccl_leave_session(void)
{
	gpumap_session_close(session);
	session = NULL;
}

static inline void nccl_end(void)
{
	nccl_leave_session();
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
}

#endif

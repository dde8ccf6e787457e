/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A hostile ring, drained: the bytes are the client's whole queue.
 *
 *	byte 0	position that the worker stands at, signed, around 0
 *	then	the submission ring, from its first slot on
 *
 * With any bytes, a turn does no more than a turn's work, stays inside of the
 * arena and of the one buffer that there is, also when the one program runs,
 * and ends.  An ALLOC is always refused.
 */

#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <string.h>

#include "agent/worker/programs/program.h"
#include "agent/worker/queue/quantum.h"

#define DEPTH      16u
#define RING_BYTES (DEPTH * GM_ENTRY_WORDS * sizeof(uint64_t))
#define ARENA      (UINT64_C(4) << 20)
#define BUFFER     (UINT64_C(1) << 20)

static char arena[ARENA], buffer[BUFFER];
static uint64_t run_bytes;

static bool inside(const char *at, uint64_t bytes, uint64_t each)
{
	uintptr_t in_arena = (uintptr_t)at - (uintptr_t)arena;
	uintptr_t in_buffer = (uintptr_t)at - (uintptr_t)buffer;

	if (in_arena < ARENA)
		return in_arena % each == 0 && bytes <= ARENA - in_arena;
	return in_buffer < BUFFER && in_buffer % each == 0 &&
	       bytes <= BUFFER - in_buffer;
}

static int check_run(struct gm_backend_device *dev, const struct gm_task *task,
		     uint64_t first, uint64_t count)
{
	struct gm_task_sizes s = { 0 };

	(void)dev;
	MUST(gm_task_sizes(task, &s) == 0);
	MUST(gm_ops_takes(task->op, task->dtype, task->to) == 0);
	MUST(first <= task->n && count <= task->n - first);
	MUST(inside(task->dst, s.dst, s.dst_each));
	if (gm_ops_has(task->op) & GM_OPS_SRC)
		MUST(inside(task->src, s.src, s.src_each));
	if (gm_ops_has(task->op) & GM_OPS_MASK) {
		MUST(task->mask_first < task->mask_n);
		MUST(inside(task->mask, s.mask, s.mask_each));
	}
	run_bytes += count * s.each;
	return 0;
}

static int check_tile(const struct gpumap_program_tile *tile)
{
	uint64_t dst = tile->n * tile->dst_item_bytes;
	uint64_t src = tile->n * tile->src_item_bytes;
	uint64_t each = gm_ops_dtype_bytes(tile->dtype);

	MUST(tile->n > 0 && each > 0);
	MUST(tile->dst_item_bytes <= UINT32_MAX &&
	     dst / tile->n == tile->dst_item_bytes);
	MUST(tile->src_item_bytes <= UINT32_MAX &&
	     src / tile->n == tile->src_item_bytes);
	MUST(dst ? inside(tile->dst, dst, each) : !tile->dst);
	MUST(src ? inside(tile->src, src, each) : !tile->src);
	MUST(tile->params_bytes <= GM_PARAMS_MAX);
	MUST((tile->params_bytes == 0) == !tile->params);
	return 0;
}

static const struct gm_backend checking = { .name = "checking",
					    .run = check_run };

static const struct gpumap_program entry = { GPUMAP_PROGRAM_ABI, 0,
					     check_tile };

/* There is one buffer, and no more to be had; and one program. */
static struct gm_buffer_entry slot, other;

static void own_the_buffer(struct gm_buffer_table *buffers)
{
	static struct gm_program program = { .entry = &entry };
	static struct gm_buffer_entry *table[GM_BUFFERS_MAX + GM_ROWS];
	static struct gm_user_budget budget;
	static struct gm_buffer memory = { .bytes = BUFFER };

	slot = (struct gm_buffer_entry){
		.handle = gm_handle_make(1, GM_BUFFER_DEVICE, 0, 0),
		.bytes = BUFFER,
		.at = buffer,
		.ready = true,
		.buffer = &memory,
	};
	other = (struct gm_buffer_entry){
		.handle = gm_handle_make(2, GM_BUFFER_PROGRAM, 0, 1),
		.ready = true,
		.program = &program,
	};
	budget = (struct gm_user_budget){ .quota = BUFFER, .used = BUFFER };
	gm_buffers_init(buffers);
	buffers->budget = &budget;
	buffers->used = BUFFER;
	buffers->slot = table;
	table[0] = &slot;
	table[1] = &other;
}

static void open_session(struct gm_worker_session *s, uint32_t start)
{
	static struct gm_journal_queue owed;
	static struct gm_journal signs;
	static struct gm_client client;
	static struct gm_timeline timeline;
	static _Alignas(GM_LINE) gm_a64 entries[DEPTH * GM_ENTRY_WORDS];
	static _Alignas(GM_LINE) gm_a64 done[DEPTH * GM_DONE_WORDS];

	memset(entries, 0, sizeof(entries));
	memset(done, 0, sizeof(done));
	gm_journal_open(&owed, 1);
	*s = (struct gm_worker_session){
		.entries = { entries, DEPTH - 1, start },
		.done = { done, DEPTH - 1, start },
		.waker = { &client.parked, 0 },
		.owed = &owed,
		.signs = &signs,
		.client = &client,
		.timeline = &timeline,
		.decoder = { .arena = arena,
			     .arena_bytes = ARENA,
			     .incarnation = 1,
			     .buffers = &s->buffers },
		.share = GM_TURN_BYTES,
		.socket = -1,
	};
	own_the_buffer(&s->buffers);
}

static void serve_turn(struct gm_worker_session *s,
		       struct gm_backend_device *dev)
{
	uint32_t ended;

	run_bytes = 0;
	ended = gm_quantum_serve(s, dev);
	MUST(ended <= GM_TURN_ENTRIES);
	MUST(run_bytes <= GM_TURN_BYTES + GM_TURN_SMALL);
	MUST(!s->halted || s->why || s->pending.handle ||
	     STAILQ_FIRST(&s->buffers.given_up) == &slot);
	s->halted = false;
	if (!s->pending.handle)
		return;
	/* A part of a collective says what it has by its ask. */
	MUST(s->pending.bytes || (s->pending.op >= GPUMAP_OP_BARRIER &&
				  s->pending.op <= GPUMAP_OP_RECV));
	s->pending.handle = 0;
	gm_quantum_finish(s, -ENOMEM);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_backend_device dev = { .backend = &checking };
	struct gm_worker_session s;
	uint32_t start;

	if (size < 1)
		return 0;
	start = (uint32_t)(int8_t)data[0];
	open_session(&s, start);
	memcpy(s.entries.slots, data + 1,
	       size - 1 < RING_BYTES ? size - 1 : RING_BYTES);

	/* A ring holds DEPTH entries of 4 MiB at most: so many turns. */
	for (uint32_t turn = 0; !s.why && gm_turn_due(&s); turn++) {
		MUST(turn <= DEPTH * (ARENA / GM_TURN_LEAST + 1));
		serve_turn(&s, &dev);
	}
	MUST(s.entries.pos - start <= DEPTH);
	MUST(s.done.pos - start <= s.entries.pos - start);
	return 0;
}

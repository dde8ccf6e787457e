/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/operators/operators_hip.h"

#include <dlfcn.h>
#include <string.h>
#include <ucontext.h>

#include "agent/cuda/operators.h"
#include "gpumap.h"

#define LANES_MAX   32u
#define STACK_BYTES (64u << 10)

static _Thread_local unsigned int group_id, item_id;

/* ---- items of a group that wait for each other --------------------------- */

static _Thread_local struct {
	ucontext_t caller, lanes[LANES_MAX];
	void (*call)(void);
	bool has_ended[LANES_MAX];
	char stacks[LANES_MAX][STACK_BYTES];
} group;

static void run_lane(void)
{
	group.call();
	group.has_ended[item_id] = true;
}

static void wait_for_others(void)
{
	swapcontext(&group.lanes[item_id], &group.caller);
}

static void begin_lane(ucontext_t *lane, char *stack)
{
	getcontext(lane);
	lane->uc_stack.ss_sp = stack;
	lane->uc_stack.ss_size = STACK_BYTES;
	lane->uc_link = &group.caller;
	makecontext(lane, run_lane, 0);
}

/* Every lane up to where it waits, and so on. */
static void run_group(unsigned int n, void (*call)(void))
{
	bool is_over = false;

	group.call = call;
	for (unsigned int i = 0; i < n; i++) {
		begin_lane(&group.lanes[i], group.stacks[i]);
		group.has_ended[i] = false;
	}
	while (!is_over) {
		is_over = true;
		for (item_id = 0; item_id < n; item_id++) {
			if (group.has_ended[item_id])
				continue;
			swapcontext(&group.caller, &group.lanes[item_id]);
			is_over = is_over && group.has_ended[item_id];
		}
	}
}

/* ---- the text ------------------------------------------------------------ */

#define FN                                static inline
#define LOCAL                             static _Thread_local
#define ENTRY(items)                      __attribute__((visibility("default")))

#define __builtin_amdgcn_workgroup_id_x() group_id
#define __builtin_amdgcn_workitem_id_x()  item_id
#define __builtin_amdgcn_s_barrier()      wait_for_others()
#define __builtin_amdgcn_fence(order, scope)

#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wunused-function"
#include "agent/device/ops_hip.h"
/* Behind its header. */
#include "agent/device/ops.k"

/* ---- a launch ------------------------------------------------------------ */

typedef void kernel(void *, const void *, unsigned long);
typedef void kernel_f32(void *, const void *, unsigned long, float);
typedef void kernel_f64(void *, const void *, unsigned long, double);
typedef void kernel_mask(void *, const void *, unsigned long, const void *,
			 unsigned long, unsigned long);

static _Thread_local struct {
	void *entry;
	uint32_t op, dtype;
	const struct ref_args *args;
} now;

static void call(void)
{
	const struct ref_args *a = now.args;

	switch (now.op) {
	case GM_OPERATOR_FILL:
		gm_fill(a->dst, a->n, a->pattern);
		break;
	case GM_OPERATOR_SCALE:
	case GM_OPERATOR_AXPY:
		if (now.dtype == GPUMAP_DTYPE_F64)
			((kernel_f64 *)now.entry)(a->dst, a->src, a->n,
						  a->alpha);
		else
			((kernel_f32 *)now.entry)(a->dst, a->src, a->n,
						  (float)a->alpha);
		break;
	case GM_OPERATOR_MASK_ADD:
	case GM_OPERATOR_MASK_BOOL:
		((kernel_mask *)now.entry)(a->dst, a->src, a->n, a->mask, a->m,
					   a->at);
		break;
	default:
		((kernel *)now.entry)(a->dst, a->src, a->n);
	}
}

void operators_hip_run(struct fake_launch *launch, uint32_t op, uint32_t dtype,
		       uint32_t to, const struct ref_args *args)
{
	char name[GM_OPERATOR_NAME_BYTES];
	Dl_info self;

	if (gm_operators_name(op, dtype, to, name) < 0 ||
	    !dladdr((void *)(uintptr_t)operators_hip_run, &self))
		return;
	now.entry = dlsym(dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD), name);
	now.op = op;
	now.dtype = dtype;
	now.args = args;
	for (group_id = 0; group_id < launch->grid[0]; group_id++) {
		if (op >= GM_OPERATOR_SUM && launch->block[0] <= LANES_MAX) {
			run_group(launch->block[0], call);
			continue;
		}
		for (item_id = 0; item_id < launch->block[0]; item_id++)
			call();
	}
}

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/fake/driver.h"

#define XID_OFF_THE_BUS 79
#define LOOK_NS         1000000

static bool is_mended(void)
{
	bool is_mended;

	fake_lock(&fake.hw);
	is_mended = fake.hw.board->plan.n_faults + fake.hw.plan.n_faults == 0;
	fake_unlock(&fake.hw);
	return is_mended;
}

static bool is_gone(uint32_t gpu)
{
	bool is_lost;

	fake_lock(&fake.hw);
	is_lost = fake.hw.board->gpus[gpu].is_lost;
	fake_unlock(&fake.hw);
	return is_lost || is_mended();
}

void fake_take_time(uint64_t ns)
{
	uint64_t until = fake_now_ns() + ns;

	while (ns != 0 && fake_now_ns() < until && !is_mended())
		fake_sleep_ns(ns < LOOK_NS ? ns : LOOK_NS);
}

/* For ever: until the card is lost, or the plan that says so taken away. */
static CUresult hang(uint32_t gpu)
{
	while (!is_gone(gpu))
		fake_sleep_ns(LOOK_NS);
	return CUDA_ERROR_UNKNOWN;
}

static CUresult apply_fault(uint32_t gpu, const struct fake_fault *fault)
{
	bool is_end =
		fault->kind == FAKE_LOST || fault->value == XID_OFF_THE_BUS;

	switch (fault->kind) {
	case FAKE_STICKY:
		return (CUresult)fault->value;
	case FAKE_HANG:
		return hang(gpu);
	case FAKE_LOST:
	case FAKE_XID:
		fake_lock(&fake.hw);
		fake_xid_post(&fake.hw, gpu,
			      fault->kind == FAKE_LOST ? XID_OFF_THE_BUS
						       : (uint32_t)fault->value,
			      fake.pid);
		if (is_end)
			fake.hw.board->gpus[gpu].is_lost = true;
		fake_unlock(&fake.hw);
		return is_end ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
	default:
		return CUDA_SUCCESS;
	}
}

CUresult fake_strike(struct fake_context *ctx, enum fake_fault_on on)
{
	uint32_t gpu = ctx->dev->gpu;
	bool is_copy = on == FAKE_ON_COPY;
	const struct fake_fault *takes, *fault;
	struct fake_fault what = { 0 };
	struct fake_gpu *card;
	uint64_t takes_ns, nth;

	fake_lock(&fake.hw);
	card = &fake.hw.board->gpus[gpu];
	nth = is_copy ? ++card->copies : ++card->launches;
	takes = fake_fault(
		&fake.hw, is_copy ? FAKE_COPIES_TAKE : FAKE_LAUNCHES_TAKE, gpu);
	takes_ns = takes ? takes->value : 0;
	fault = fake_fault_on(&fake.hw, on, nth, gpu);
	if (fault)
		what = *fault;
	fake_unlock(&fake.hw);

	fake_take_time(takes_ns);
	return fault ? apply_fault(gpu, &what) : CUDA_SUCCESS;
}

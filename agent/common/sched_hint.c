/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/common/sched_hint.h"

#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLICE_NS UINT64_C(100000) /* the least that Linux grants */

/* As the kernel has it, up to what its first version had.  The headers that
 * declare it do not agree with <sched.h>. */
struct attr {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime; /* of a slice, 0: the usual */
	uint64_t deadline;
	uint64_t period;
};

static void set_slice(uint64_t ns)
{
	struct attr attr = { .size = sizeof(attr) };

	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) != 0 ||
	    attr.policy != SCHED_OTHER)
		return;
	attr.flags = 0;
	attr.runtime = ns;
	syscall(SYS_sched_setattr, 0, &attr, 0);
}

void gm_sched_hint_prompt(void)
{
	set_slice(SLICE_NS);
}

void gm_sched_hint_patient(void)
{
	const struct sched_param none = { 0 };

	set_slice(0);
	sched_setscheduler(0, SCHED_BATCH, &none);
}

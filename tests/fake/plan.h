/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * plan - which faults the stand-in machine has.
 *
 * Text of one fault per line or between semicolons, each for all cards or,
 * after "row N:", for one; N counts the cards as the machine's file does.
 *
 *	row 1: launch 17: sticky 700	the 17th launch there, of any process
 *	row 1: copy 3: sticky 719
 *	row 1: launch 4: hang
 *	row 1: launch 4: xid 79		and the card is gone with it
 *	row 0: lost			is now
 *	row 0: back
 *	row 0: xid 31			posted now, by no launch
 *	row 0: out of memory after 3 GiB
 *	row 0: exclusive process	compute modes
 *	row 0: prohibited
 *	row 0: attribute 122 is 0
 *	row 0: peer copies corrupt
 *	row 0: copies take 5 ms
 *	row 0: launches take 5 ms
 *	row 0: registrations take 5 ms		of a GiB, with all locks
 *	row 0: registrations up to 2 GiB	more is out of memory
 *	row 0: jit fails 221
 *	init takes 500 ms
 *	init fails 802
 *	driver 12.2
 *	symbol missing cuMemcpyBatchAsync
 *	exit takes 3 s			of a process, its memory counted so long
 *	row 0: nvml slow 30 s
 *	row 0: nvml memory not supported
 *	row 0: nvml processes refused
 *	row 0: nvml processes without bytes
 *	row 0: nvml processes without pids	as in another pid namespace
 *	nvml event wait fails
 *	row 0: nvml lost		NVML alone says so
 *	row 0: memory error		an uncorrectable one, reported now
 *	row 0: recovery action 1	as NVML counts them
 *	row 0: link to 1		no fault: an NVLink more between them
 */
#ifndef FAKE_PLAN_H
#define FAKE_PLAN_H

#include <stddef.h>
#include <stdint.h>

#define FAKE_FAULTS   64
#define FAKE_ANY_GPU  UINT32_MAX
#define FAKE_NAME_MAX 64

enum fake_fault_kind {
	FAKE_NOTHING,
	FAKE_STICKY, /* value: CUresult */
	FAKE_HANG,
	FAKE_LOST,
	FAKE_BACK,
	FAKE_XID,       /* value: its number */
	FAKE_MEMORY,    /* value: bytes of all that may be had */
	FAKE_MODE,      /* value: CUcomputemode */
	FAKE_ATTRIBUTE, /* value: CUdevice_attribute, to: its value */
	FAKE_CORRUPT,
	FAKE_COPIES_TAKE,        /* value: ns */
	FAKE_LAUNCHES_TAKE,      /* value: ns */
	FAKE_REGISTRATIONS_TAKE, /* value: ns of a GiB */
	FAKE_REGISTRATIONS_MOST, /* value: bytes */
	FAKE_JIT_FAILS,          /* value: CUresult */
	FAKE_INIT_TAKES,         /* value: ns */
	FAKE_INIT_FAILS,         /* value: CUresult */
	FAKE_DRIVER,             /* value: as cuDriverGetVersion() says it */
	FAKE_SYMBOL,             /* name */
	FAKE_EXIT_TAKES,         /* value: ns */
	FAKE_NVML_SLOW,          /* value: ns */
	FAKE_NVML_MEMORY,
	FAKE_NVML_PROCESSES, /* value: enum fake_untold */
	FAKE_NVML_WAIT,
	FAKE_NVML_LOST,
	FAKE_ECC,
	FAKE_LINK,     /* value: the other card */
	FAKE_RECOVERY, /* value: what NVML calls the action */
};

/* The facts of processes that NVML does not tell. */
enum fake_untold {
	FAKE_REFUSED = 1,
	FAKE_NO_BYTES = 2,
	FAKE_NO_PIDS = 3,
};

enum fake_fault_on {
	FAKE_ALWAYS,
	FAKE_ON_LAUNCH,
	FAKE_ON_COPY,
};

struct fake_fault {
	uint32_t kind; /* enum fake_fault_kind */
	uint32_t on;   /* enum fake_fault_on */
	uint32_t gpu;  /* or FAKE_ANY_GPU */
	uint32_t nth;  /* launch or copy, the first is 1 */
	uint64_t value;
	uint64_t to;
	char name[FAKE_NAME_MAX];
};

struct fake_plan {
	uint32_t n_faults;
	struct fake_fault faults[FAKE_FAULTS];
};

/*
 * fake_plan_add - read @text and append its faults
 *
 * ret_where	receives the place in @text that is no fault
 *
 * Returns	0
 *		-EINVAL	a line is none of the above; nothing was added
 *		-ENOSPC	more than FAKE_FAULTS; nothing was added
 */
int fake_plan_add(struct fake_plan *plan, const char *text,
		  const char **ret_where);

#endif

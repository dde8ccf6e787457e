/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * hardware - the state that all processes of one stand-in machine share.
 *
 * One sparse file holds the cards, which process uses how much of them, the
 * plan of faults, the Xids and the bytes of every shareable allocation.  The
 * stand-ins for the driver and for NVML find it by $GPUMAP_FAKE_HARDWARE; a
 * test makes it, and reads and changes it while others run.
 *
 * The kernel knows which processes live: a process, and each reference to a
 * shareable allocation, is an open file description of this file that holds a
 * lock on one byte far behind the data.  The lock goes when the last duplicate
 * of the description does, in whatever way and in whatever process, descriptors
 * in flight between two processes included.  fake_sweep() looks.
 *
 * Memory orders are no concern: everything shared is read and written under the
 * file's one robust mutex.
 */
#ifndef FAKE_HARDWARE_H
#define FAKE_HARDWARE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/fake/plan.h"

#define FAKE_GPUS      32
#define FAKE_PROCESSES 128
#define FAKE_OBJECTS   1024
#define FAKE_XIDS      64
#define FAKE_NOTES     16

#define FAKE_GRANULE   (UINT64_C(2) << 20) /* of shareable memory */

/* A card, or a MIG instance, which has what its card does not share. */
struct fake_gpu {
	char name[96];
	uint8_t uuid[16];
	uint32_t domain, bus, device;
	uint32_t minor;      /* of its device node */
	uint32_t nvml_index; /* in NVML's order, which is no other order */
	int32_t numa_node;   /* -1: the platform does not say */
	uint32_t first_cpu, n_cpus; /* near to it; 0: the machine's none */
	uint32_t cc_major, cc_minor;
	uint32_t sms, threads_per_sm;
	uint32_t compute_mode; /* CUcomputemode */
	bool is_integrated;
	bool is_lost;
	bool has_ecc;
	bool is_split;      /* instances are behind it: it runs nothing */
	uint32_t parent;    /* of an instance: its card; of a card: itself */
	uint32_t gi, ci;    /* of an instance */
	uint32_t mig_index; /* of it, in NVML's order on its card */
	char profile[32];   /* of it; "": a card */
	uint64_t total;
	uint64_t reserved; /* of it, by no process of the stand-in */
	uint64_t launches; /* ever run here, by any process */
	uint64_t copies;
	uint64_t locks; /* calls that took a context here for themselves */
};

/* One user of the hardware: a process's driver, or its NVML. */
struct fake_process {
	uint64_t serial; /* 0: free */
	int32_t pid;
	bool is_nvml;
	uint32_t holds; /* bit per gpu whose device node it has open */
	uint64_t used[FAKE_GPUS];
};

/* One shareable allocation. */
struct fake_object {
	uint64_t serial; /* 0: free */
	uint32_t gpu;
	uint32_t handle_types;
	uint64_t bytes;
	uint64_t offset; /* of its bytes in this file */
};

/* An event that NVML reports: an Xid, or an ECC error that was not
 * corrected. */
struct fake_xid {
	uint32_t gpu;
	uint32_t number; /* 0: an error of memory instead */
	int32_t pid;     /* of the process at fault, 0: none */
};

struct fake_board {
	uint64_t magic;
	pthread_mutex_t mutex;
	uint64_t serials; /* given out so far; 0 is none */
	uint64_t end;     /* of the bytes given out in this file */
	uint32_t n_gpus;
	uint32_t n_notes;
	uint64_t n_xids; /* ever; the last FAKE_XIDS are kept */
	char dev[128];   /* folder of the device nodes, or "" */
	struct fake_plan plan;
	struct fake_gpu gpus[FAKE_GPUS];
	struct fake_process processes[FAKE_PROCESSES];
	struct fake_object objects[FAKE_OBJECTS];
	struct fake_xid xids[FAKE_XIDS];
	char notes[FAKE_NOTES][160]; /* what was left behind, and by whom */
};

/* This process's view. */
struct fake_hardware {
	int fd; /* holds this process's lock; maps the board */
	struct fake_board *board;
	struct fake_process *self;
	struct fake_plan plan; /* of this process alone: $GPUMAP_FAKE_PLAN */
};

/* A reference to an object.  The descriptor is the reference. */
struct fake_reference {
	int fd;
	uint64_t serial;
	uint32_t gpu;
	uint32_t handle_types;
	uint64_t bytes;
	uint64_t offset;
};

uint64_t fake_now_ns(void);

/* Write an empty machine of @n cards into the empty file @fd.  0 or -errno. */
int fake_hardware_make(int fd, const struct fake_gpu *gpus, uint32_t n);

/*
 * Map the machine in @path, as a mere onlooker.  0 or -errno: -ENODEV where
 * the file is no machine.
 */
int fake_hardware_open(const char *path, struct fake_hardware *ret_hw);

/*
 * The machine of $GPUMAP_FAKE_HARDWARE, as one of its users.  0 or -errno:
 * -ENODEV where there is none, -EINVAL where $GPUMAP_FAKE_PLAN is no plan.
 */
int fake_hardware_join(bool is_nvml, struct fake_hardware *ret_hw);
void fake_hardware_leave(struct fake_hardware *hw);

void fake_lock(struct fake_hardware *hw);
void fake_unlock(struct fake_hardware *hw);

/* All below: under the lock. */

/* Take from the books who and what is no more. */
void fake_sweep(struct fake_hardware *hw);

uint64_t fake_free_bytes(struct fake_hardware *hw, uint32_t gpu);

/* Charge this process.  False where the card has not as much left. */
bool fake_charge(struct fake_hardware *hw, uint32_t gpu, uint64_t bytes);
void fake_refund(struct fake_hardware *hw, uint32_t gpu, uint64_t bytes);

/* 0 or -errno: -ENOMEM where the card has not as much left. */
int fake_object_make(struct fake_hardware *hw, uint32_t gpu, uint64_t bytes,
		     uint32_t handle_types, struct fake_reference *ret_ref);

/* Another reference to the same.  0 or -errno. */
int fake_object_again(struct fake_hardware *hw,
		      const struct fake_reference *ref,
		      struct fake_reference *ret_ref);

/* A reference from a stranger's descriptor.  -EINVAL: it is none. */
int fake_object_from(struct fake_hardware *hw, int fd,
		     struct fake_reference *ret_ref);

void fake_object_drop(struct fake_reference *ref);

/* @number 0: no Xid, but an error of memory. */
void fake_xid_post(struct fake_hardware *hw, uint32_t gpu, uint32_t number,
		   int32_t pid);

/*
 * Add faults: to the machine's plan, or with @is_own to this process's.  A
 * fault of the present - lost, back, a mode, an Xid - happens at once.  As
 * fake_plan_add().
 */
int fake_plan_apply(struct fake_hardware *hw, const char *text, bool is_own,
		    const char **ret_where);

static inline bool fake_is_part(const struct fake_gpu *gpu)
{
	return gpu->profile[0] != '\0';
}

/* "GPU-" or "MIG-" and the UUID in five groups, with its NUL. */
#define FAKE_UUID_TEXT 41
void fake_uuid_print(const struct fake_gpu *gpu, char text[FAKE_UUID_TEXT]);

/*
 * Device node @k, below FAKE_NODES, that who uses @gpu must be able to open:
 * of its card, and of an instance two more below nvidia-caps.  False: there is
 * no such one.
 */
#define FAKE_NODES      3
#define FAKE_NODE_BYTES 192
bool fake_node(const char *dev, const struct fake_gpu *gpu, int k,
	       char ret_path[FAKE_NODE_BYTES]);

/* Keep one line for the test to read at the end. */
void fake_note(struct fake_hardware *hw, const char *line);

/* The fault of @kind that holds for @gpu now, of this process or of all. */
const struct fake_fault *fake_fault(struct fake_hardware *hw,
				    enum fake_fault_kind kind, uint32_t gpu);

/* The same, of those with this value. */
const struct fake_fault *fake_fault_of(struct fake_hardware *hw,
				       enum fake_fault_kind kind, uint32_t gpu,
				       uint64_t value);

/* Whether the plan lacks an entry point of the driver. */
bool fake_is_missing(struct fake_hardware *hw, const char *symbol);

/* The fault that strikes the nth (1 first) launch or copy on @gpu. */
const struct fake_fault *fake_fault_on(struct fake_hardware *hw,
				       enum fake_fault_on on, uint64_t nth,
				       uint32_t gpu);

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * probe - gpumap-probe's processes, and what each of them may do.
 *
 * A call of NVML or of the driver can block for ever, and a process that holds
 * a card open keeps it from being reset.  So the process that gpumapd talks to,
 * the monitor, calls neither. The monitor starts the same program again in one
 * of these roles, believes each for a time only, and can end any of them:
 *
 *	--census	how many cards NVML lists, and what the kernel knows of
 *			them; then it exits
 *	--watch N	the card with NVML index N: one thread, one event set,
 *			no other card's handle, for as long as it answers
 *	--peers LIST	what NVML says of each pair of cards; then it exits
 *	--driver ORDER	what CUDA alone knows of all cards, and their ordinals
 *			in this order; or, with --device ID, of the one card;
 *			then it exits
 *
 * gpumapd starts the program in one more role, by itself:
 *
 *	--list DRIVER	the devices that a vendor's library of OpenCL or Vulkan
 *			shows, or for HIP the kernel; then it exits
 *
 * The death of a process is what closes its descriptors, so that nothing of a
 * card is open here is known from the kernel, not from a library's word.
 */
#ifndef GM_PROBE_H
#define GM_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#define GM_PROBE_GPUS   64u  /* NVML indices that are looked at */
#define GM_PROBE_CARDS  256u /* with instances: rows of the map */
#define GM_PROBE_SKIPS  16u  /* instances that one watcher leaves alone */

#define GM_PROBE_NVIDIA 0x10deu /* as a PCI device names its vendor */

enum gm_probe_role {
	GM_ROLE_STEWARD = 0,
	GM_ROLE_CENSUS = 1,
	GM_ROLE_WATCH = 2,
	GM_ROLE_PEERS = 3,
	GM_ROLE_DRIVER = 4,
	GM_ROLE_LIST = 5 /* gpumapd's own child */
};

struct gm_probe_options {
	uint32_t role;       /* enum gm_probe_role */
	const char *library; /* folder to take both libraries from, or NULL;
			      * --list: the vendor's */
	const char *sysfs;   /* before /sys and /proc, or NULL */
	uint32_t limit_ms;   /* what NVML may take for one card */
	uint32_t driver_limit_ms; /* what the driver may take for its start */
	uint32_t refresh_ms;      /* between two looks at what moves */
	/* of the roles */
	uint32_t index;                    /* --watch */
	const char *list;                  /* --peers: "0,2,3" */
	const char *order;                 /* --driver: for CUDA_DEVICE_ORDER */
	const char *device;                /* --driver: the one card */
	const char *driver;                /* --list: "opencl", ... */
	const char *devices;               /* --list: "gpu", "cpu", "all" */
	bool with_nvidia;                  /* --list: NVIDIA's, too */
	const char *skips[GM_PROBE_SKIPS]; /* --watch: ids to leave alone */
	uint32_t n_skips;
};

/* Each returns an exit status. */
int gm_monitor_run(const struct gm_probe_options *options);
int gm_enumerate_run(const struct gm_probe_options *options);
int gm_watch_run(const struct gm_probe_options *options);
int gm_peers_run(const struct gm_probe_options *options);
int gm_driver_query_run(const struct gm_probe_options *options);
int gm_list_run(const struct gm_probe_options *options);

static inline uint64_t gm_probe_ms(uint32_t ms)
{
	return (uint64_t)ms * 1000000u;
}

#endif

/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * probe_wire.h - what a process of gpumap-probe says to gpumapd.
 *
 * Records of a SOCK_SEQPACKET pair whose other end the process finds as
 * descriptor 3, one struct gm_probe_wire each, padding zeroed.  Nothing goes
 * the other way: a process is told what to do by its options, and to stop by
 * SIGKILL, which is all that works on one that hangs.
 *
 *	any	CALL	text: what is being called next and may take long
 *	census	CENSUS	once: health USABLE and how many cards there are, or
 *			ABSENT or FAILED and why
 *		PLACE	then, of each card of the kernel's
 *	watch	DEVICE	facts of the card or of an instance; again if they
 *			change
 *		PROCESS	of one of them, before the MOVING of the same look
 *		MOVING	of one of them, each refresh, with its health
 *		EVENT	of one of them
 *		GONE	an instance is no more
 *		DONE	why the process ends now, of the card as a whole
 *	peers	PEERS	of each ordered pair
 *	driver	DRIVER	of each card, in the order of their ordinals: facts that
 *			CUDA alone knows, and the ordinal as ordinal_pci
 *		DONE	once, at the end: how it went
 *	list	DEVICE	of each device of one vendor's library
 *		DONE	likewise
 *
 * A device is named by its uuid in every record.
 */
#ifndef GM_PROBE_WIRE_H
#define GM_PROBE_WIRE_H

#include <stdint.h>

#include "agent/common/lineage.h"
#include "shm/layout.h"

#define GM_PROBE_FD    3

#define GM_PROBE_GPUS  64u  /* NVML indices that are looked at */
#define GM_PROBE_CARDS 256u /* with instances: rows of the map */

enum gm_probe_role {
	GM_ROLE_CENSUS = 1,
	GM_ROLE_WATCH = 2,
	GM_ROLE_PEERS = 3,
	GM_ROLE_DRIVER = 4,
	GM_ROLE_LIST = 5
};

enum gm_probe_type {
	GM_PROBE_CALL = 1,
	GM_PROBE_PLACE = 2,
	GM_PROBE_CENSUS = 3,
	GM_PROBE_DEVICE = 4,
	GM_PROBE_PROCESS = 5,
	GM_PROBE_MOVING = 6,
	GM_PROBE_EVENT = 7,
	GM_PROBE_GONE = 8,
	GM_PROBE_PEERS = 9,
	GM_PROBE_DRIVER = 10,
	GM_PROBE_DONE = 11
};

/* How a device is, as one source knows. */
enum gm_probe_health {
	GM_PROBE_USABLE = 0,
	GM_PROBE_FAILED = 1, /* text says why */
	GM_PROBE_LOST = 2,   /* fallen off the bus, or gone */
	GM_PROBE_SPLIT = 3,  /* in MIG mode: only its instances are used */
	GM_PROBE_TAKEN =
		4, /* compute mode EXCLUSIVE or PROHIBITED: no worker */
	GM_PROBE_ABSENT = 5 /* of a census: no driver and no card, no fault */
};

/* Where a card's node and CPUs come from; a later one is preferred. */
enum gm_probe_affinity {
	GM_AFFINITY_NONE = 0,
	GM_AFFINITY_NVML = 1,
	GM_AFFINITY_DRIVER = 2,
	GM_AFFINITY_SYSFS = 3
};

/* Does NVML tell the memory that each process has of a device? */
enum gm_probe_figures {
	GM_FIGURES_NONE = 0, /* no look has been taken */
	GM_FIGURES_KNOWN = 1,
	GM_FIGURES_PARTLY = 2,   /* not of all processes */
	GM_FIGURES_REFUSED = 3,  /* nothing */
	GM_FIGURES_NAMESPACE = 4 /* pids that are not of our namespace */
};

#define GM_PROBE_PROCESSES 64u /* of one device that are told of */
#define GM_PROBE_LINE      16u /* members of a line of descent */

struct gm_probe_device {
	struct gm_row_image facts; /* all but object, row and generation */
	char name[GM_NAME_BYTES];
	char id[64];        /* the UUID as NVML prints it, "GPU-..." */
	uint8_t parent[16]; /* of a MIG instance: its GPU's uuid; else zero */
	uint32_t affinity;  /* enum gm_probe_affinity */
	uint32_t reserved;
};

/* A card that the kernel's module drives. */
struct gm_probe_place {
	uint32_t domain;
	uint32_t bus;   /* bus << 8 | device << 3 | function */
	int32_t minor;  /* of its device node; -1: not known */
	uint32_t named; /* the record's uuid and id are known */
	char id[64];
};

struct gm_probe_moving {
	uint32_t known; /* GPUMAP_KNOWN_* of what follows */
	uint32_t utilisation;
	int32_t temperature;
	uint32_t power;
	uint64_t free_bytes;
	uint64_t looked_ns;   /* at them, or before that; node_clock.h */
	uint32_t recovery;    /* enum gm_nvml_recovery, UINT32_MAX: not known */
	uint32_t figures;     /* enum gm_probe_figures */
	uint64_t used_bytes;  /* total bytes less the free ones, of one look */
	uint32_t n_processes; /* PROCESS records of this look */
};

struct gm_probe_process {
	uint32_t index; /* 0 for the first of a look, and so on */
	/* members of @line; 0: nothing is known of the process */
	uint32_t n;
	/* While the free bytes were read it had this much, or more. */
	uint64_t low_bytes;
	uint64_t high_bytes; /* the most that it had about that time */
	/* the process, its parent, and so on */
	struct gm_lineage_member line[GM_PROBE_LINE];
};

struct gm_probe_event {
	uint64_t kind; /* one of GM_NVML_EVENT_* */
	uint64_t xid;  /* of an XID event */
};

struct gm_probe_peers {
	uint8_t other[16];
	uint32_t read;  /* 1: peer copies may read, as NVML says */
	uint32_t write; /* likewise */
	uint32_t level; /* GM_NVML_TOPOLOGY_*, UINT32_MAX: not known */
	uint32_t links; /* NVLinks between them */
};

struct gm_probe_wire {
	uint32_t type;    /* enum gm_probe_type */
	uint32_t health;  /* enum gm_probe_health: CENSUS, MOVING, DONE */
	int32_t code;     /* NVML's or the driver's number behind it, or 0 */
	uint32_t n_cards; /* of a CENSUS */
	uint8_t uuid[16];
	char text[160]; /* why; empty: nothing to say */
	union {
		struct gm_probe_place place;
		struct gm_probe_device device; /* DEVICE and DRIVER */
		struct gm_probe_moving moving;
		struct gm_probe_process process;
		struct gm_probe_event event;
		struct gm_probe_peers peers;
	};
};

#endif

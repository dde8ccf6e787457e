/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * probe_wire.h - what gpumap-probe and gpumapd say to each other.
 *
 * Records of a SOCK_SEQPACKET pair whose other end the probe finds as
 * descriptor 3, one struct gm_probe_wire each, padding zeroed.
 *
 *	probe to gpumapd
 *	ABSENT    no driver and no card: no fault (text says what was looked
 *		  for)
 *	BROKEN    a driver is there, and nothing can be learnt from it; then
 *		  exit
 *	DEVICE    a card, or an instance of one: what does not change about it.
 *	          Sent again, whole, when more of it becomes known.
 *	LISTED    every card has had its DEVICE or its time
 *	PROCESS   of one device: a process that uses it.  Those of one look come
 *		  before its MOVING
 *	MOVING    of one device: what changes
 *	EVENT     of one device: an Xid or an ECC error
 *	PEERS     of two devices: what NVML says of the path between them
 *	RELEASED  answer to RELEASE: no descriptor of that card is open here.
 *	          After several RELEASEs one answer, to the last.
 *
 *	gpumapd to probe
 *	RELEASE   close everything of one card and leave it alone (drain)
 *	RESUME    it may be opened again
 *
 * A device is named by its uuid in every record.  One whose uuid cannot be read
 * has a uuid made of its PCI address, which NVML's version 4 ones never equal.
 *
 * The probe has no state that its successor needs: after its death gpumapd
 * starts another, which lists everything anew.
 */
#ifndef GM_PROBE_WIRE_H
#define GM_PROBE_WIRE_H

#include <stdint.h>

#include "agent/common/lineage.h"
#include "shm/layout.h"

#define GM_PROBE_FD 3

enum gm_probe_type {
	GM_PROBE_ABSENT = 1,
	GM_PROBE_BROKEN = 2,
	GM_PROBE_DEVICE = 3,
	GM_PROBE_LISTED = 4,
	GM_PROBE_MOVING = 5,
	GM_PROBE_EVENT = 6,
	GM_PROBE_PEERS = 7,
	GM_PROBE_RELEASED = 8,
	GM_PROBE_RELEASE = 9,
	GM_PROBE_RESUME = 10,
	GM_PROBE_PROCESS = 11
};

/* How a device is, as far as the probe knows. */
enum gm_probe_health {
	GM_PROBE_USABLE = 0,
	GM_PROBE_FAILED = 1, /* text says why */
	GM_PROBE_LOST = 2,   /* fallen off the bus, or gone */
	GM_PROBE_SPLIT = 3,  /* in MIG mode: only its instances are used */
	GM_PROBE_TAKEN = 4 /* compute mode EXCLUSIVE or PROHIBITED: no worker */
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
	uint32_t health;    /* enum gm_probe_health */
	int32_t code;       /* NVML's or the driver's number behind it, or 0 */
};

struct gm_probe_moving {
	uint32_t health; /* enum gm_probe_health */
	int32_t code;
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
	uint32_t reserved;
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
	uint32_t type;   /* enum gm_probe_type */
	uint32_t serial; /* of RELEASE, and the same of its RELEASED; else 0 */
	uint8_t uuid[16];
	char text[160]; /* why; empty: nothing to say */
	union {
		struct gm_probe_device device;
		struct gm_probe_moving moving;
		struct gm_probe_process process;
		struct gm_probe_event event;
		struct gm_probe_peers peers;
	};
};

#endif

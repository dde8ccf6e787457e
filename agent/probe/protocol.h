/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * protocol - what a role's process says to the monitor that started it.
 *
 * Records of a SOCK_SEQPACKET pair, whose other end the role finds as
 * descriptor 3.  Nothing goes the other way: a role is told what to do by its
 * options and told to stop by SIGKILL, which is all that works on one that
 * hangs.
 *
 *	any	CALL	text: what is being called next and may take long
 *	census	CENSUS	once; then a PLACE for each card of the kernel's
 *	watch	CARD	facts of the card or of an instance; again if they
 *		change
 *		PROCESS	of one of them, before the MOVING of the same look
 *		MOVING	of one of them, each refresh
 *		EVENT	of one of them
 *		GONE	an instance is no more
 *		TROUBLE	why it ends now, of the card as a whole
 *	peers	PEERS	of each ordered pair
 *	driver	DRIVER	of each card, in the order of their ordinals
 *		DRIVEN	once, at the end: how it went
 */
#ifndef GM_PROBE_PROTOCOL_H
#define GM_PROBE_PROTOCOL_H

#include <stdint.h>

#include "agent/common/probe_wire.h"

enum gm_note_type {
	GM_NOTE_CALL = 1,
	GM_NOTE_CENSUS = 2,
	GM_NOTE_PLACE = 3,
	GM_NOTE_CARD = 4,
	GM_NOTE_MOVING = 5,
	GM_NOTE_EVENT = 6,
	GM_NOTE_GONE = 7,
	GM_NOTE_TROUBLE = 8,
	GM_NOTE_PEERS = 9,
	GM_NOTE_DRIVER = 10,
	GM_NOTE_DRIVEN = 11,
	GM_NOTE_PROCESS = 12
};

struct gm_note_census {
	uint32_t outcome; /* 0, GM_PROBE_ABSENT or GM_PROBE_BROKEN */
	uint32_t n_cards;
};

/* A card that the kernel's module drives. */
struct gm_note_place {
	uint32_t domain;
	uint32_t bus;   /* bus << 8 | device << 3 | function */
	int32_t minor;  /* of its device node; -1: not known */
	uint32_t named; /* the note's uuid and id are known */
	char id[64];
};

/* Where a card's node and CPUs come from; the driver's word goes between. */
enum gm_note_affinity {
	GM_AFFINITY_NONE = 0,
	GM_AFFINITY_NVML = 1,
	GM_AFFINITY_DRIVER = 2,
	GM_AFFINITY_SYSFS = 3
};

struct gm_note_card {
	struct gm_probe_device device;
	uint32_t affinity; /* enum gm_note_affinity */
	uint32_t reserved;
};

/* Facts of the driver.  0: not reported; -1: no node. */
struct gm_note_driver {
	int32_t ordinal;
	int32_t host_node;
	uint32_t cc_major;
	uint32_t cc_minor;
	uint32_t units;
	uint32_t threads_per_unit;
	uint32_t shared_bytes;
	uint32_t l2_bytes;
	uint32_t flags; /* GPUMAP_DEVICE_ECC, _INTEGRATED, _PAGEABLE */
	uint32_t compute_mode;
	uint32_t cuda_version;
	uint32_t reserved;
	uint64_t total_bytes;
};

struct gm_note {
	uint32_t type;   /* enum gm_note_type */
	uint32_t health; /* enum gm_probe_health: CARD, MOVING, TROUBLE */
	int32_t code;    /* NVML's or the driver's number behind it, or 0 */
	uint32_t reserved;
	uint8_t uuid[16];
	char text[160];
	union {
		struct gm_note_census census;
		struct gm_note_place place;
		struct gm_note_card card;
		struct gm_probe_moving moving;
		struct gm_probe_process process;
		struct gm_probe_event event;
		struct gm_probe_peers peers;
		struct gm_note_driver driver;
	};
};

/*
 * gm_protocol_check - is this what a role may say?
 *
 * A role runs a library that is not ours, so what comes from it is believed no
 * further than a stranger's word: texts are made to end, numbers that choose
 * something are in range, or the note is none.
 *
 * role		enum gm_probe_role
 *
 * Returns	0, or -EPROTO
 */
int gm_protocol_check(struct gm_note *note, uint32_t role);

/* Send it.  A role whose reader is gone ends here. */
void gm_protocol_send(const struct gm_note *note);

/* CALL: constant text. */
void gm_protocol_call(const char *what);

/* The text of a note, cut where it is longer than fits. */
void gm_protocol_text(struct gm_note *note, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
